"""Capture: what was looked at, and nothing else changed. (tests/models multiplies the weights back for every model.)"""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.nn.attention import MultiHeadAttention
from anaphora.nn.attention_capture import attention_layers, capture

SOURCE = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
LENGTHS = torch.tensor([4, 2])
TARGET = torch.tensor([[1, 5, 9, 11, 6], [1, 7, 7, 0, 0]])


def translator(**changes: Any) -> Transformer:
    torch.manual_seed(3)
    config = TransformerConfig(dim=16, layers=2, heads=4, feed_forward=24, max_length=12, **changes)
    return Transformer(config, 20, 20).eval()


def operators(model: Transformer) -> list[str]:
    """Every operator of a forward pass, of reading the source and of two steps, in order."""
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as seen:
        model(SOURCE, TARGET, LENGTHS)
        state = model.start(SOURCE, LENGTHS, 2, 8)
        for tokens in (torch.tensor([1, 1, 1, 1]), torch.tensor([5, 6, 7, 8])):
            _, state, _ = model.step(tokens, state)
    return [event.name for event in seen.events()]


def test_off_runs_the_operators_of_a_model_that_was_never_captured() -> None:
    never, once = translator(attention="sdpa"), translator(attention="sdpa")
    with capture(once) as seen:
        captured = operators(once)
    plain = operators(never)
    assert operators(once) == plain
    assert captured != plain  # the test can see a difference
    assert all(calls for calls in seen.values())
    assert not any("watchers" in vars(layer) for layer in attention_layers(once).values())


def test_layers_that_were_not_chosen_run_as_ever() -> None:
    model, fused = translator(attention="sdpa"), "aten::scaled_dot_product_attention"
    with capture(model, layers="encoder.blocks.0.attention"):
        captured = operators(model).count(fused)
    assert captured == operators(model).count(fused) - 2  # a forward pass and a start read the source once each


@pytest.mark.parametrize("backend", ["auto", "sdpa", "reference"])
@pytest.mark.parametrize("training", [False, True])
def test_the_answer_is_that_of_an_uncaptured_run(training: bool, backend: str) -> None:
    model = translator(dropout=0.0, attention=backend).train(training)
    plain = model(SOURCE, TARGET, LENGTHS)
    with capture(model):
        torch.testing.assert_close(model(SOURCE, TARGET, LENGTHS), plain, atol=1e-5, rtol=1e-5)


def test_gradients_flow_through_the_weights_where_asked() -> None:
    model = translator(dropout=0.0).train()
    path = "decoder.blocks.1.cross_attention"
    with capture(model, path, gradients=True) as seen:
        model(SOURCE, TARGET, LENGTHS)
    seen.weights(path)[:, 0, :, 0].sum().backward()
    assert model.decoder.blocks[1].cross_attention.query.weight.grad.abs().sum() > 0
    with capture(model, path) as seen:
        model(SOURCE, TARGET, LENGTHS)
    assert not seen.weights(path).requires_grad


def test_dropout_in_training_is_part_of_what_is_seen() -> None:
    model = translator(dropout=0.0, attention_dropout=0.5).train()
    with capture(model, "encoder.*") as seen:
        model(SOURCE, TARGET, LENGTHS)
    for calls in seen.values():
        (call,) = calls
        assert (call.dropped == 0).sum() > (call.weights == 0).sum()
        torch.testing.assert_close(call.dropped @ call.value, call.context)
        torch.testing.assert_close(call.weights.sum(dim=-1), torch.ones(call.weights.shape[:-1]))


def test_heads_are_chosen_and_paths_are_patterns() -> None:
    model = translator()
    with capture(model, "decoder.blocks.?.cross_attention", heads=[2, 0]) as seen:
        model(SOURCE, TARGET, LENGTHS)
    with capture(model) as all_of_them:
        model(SOURCE, TARGET, LENGTHS)
    assert list(seen) == ["decoder.blocks.0.cross_attention", "decoder.blocks.1.cross_attention"]
    assert len(all_of_them) == 6
    for path in seen:
        assert seen.weights(path).shape == (2, 2, 5, 4)
        torch.testing.assert_close(seen.weights(path), all_of_them.weights(path)[:, [2, 0]])
    assert (seen.weights(path)[1, :, :, 2:] == 0).all()  # padding is not looked at


def test_steps_are_calls_and_what_was_seen_does_not_change_later() -> None:
    model = translator()
    with torch.no_grad(), capture(model, "decoder.blocks.0.attention") as seen:
        model(SOURCE, TARGET, LENGTHS)
        (whole,) = seen["decoder.blocks.0.attention"]
        seen.clear()
        state = model.start(SOURCE, LENGTHS, 1, 8)
        for column in TARGET.T:
            _, state, _ = model.step(column, state)
    calls = seen["decoder.blocks.0.attention"]
    assert len(calls) == 5
    for position, call in enumerate(calls):
        row = whole.weights[:, :, position : position + 1, : position + 1]
        torch.testing.assert_close(call.weights[..., : position + 1], row)
    with pytest.raises(ValueError, match="was called 5 times"):
        seen.weights("decoder.blocks.0.attention")


def test_captures_nest_and_survive_exceptions() -> None:
    model = translator()
    with capture(model, "encoder.*") as outer:
        with pytest.raises(RuntimeError, match="stop"), capture(model, "*") as inner:
            model(SOURCE, TARGET, LENGTHS)
            raise RuntimeError("stop")
        model(SOURCE, TARGET, LENGTHS)
    model(SOURCE, TARGET, LENGTHS)
    assert {len(calls) for calls in outer.values()} == {2}
    assert {len(calls) for calls in inner.values()} == {1}
    assert not any("watchers" in vars(layer) for layer in attention_layers(model).values())


def test_mistakes_name_the_nearest_layer() -> None:
    model = translator()
    with (
        pytest.raises(ValueError, match=r"did you mean 'decoder.blocks.0.cross_attention'"),
        capture(model, "decoder.blocks.0.cross"),
    ):
        pass
    with pytest.raises(ValueError, match="has no head 4"), capture(model, heads=[4]):
        pass
    with capture(model) as seen:
        model(SOURCE, TARGET, LENGTHS)
    with pytest.raises(KeyError, match="no captured layer"):
        seen.weights("encoder")


def test_another_thread_is_not_heard() -> None:
    model = translator()
    with capture(model) as seen:
        other = threading.Thread(target=lambda: model(SOURCE, TARGET, LENGTHS))
        other.start()
        other.join()
        assert not any(seen.values())
        model(SOURCE, TARGET, LENGTHS)
    assert {len(calls) for calls in seen.values()} == {1}


def test_nothing_is_kept_alive() -> None:
    model = translator(dropout=0.0)
    with capture(model) as seen:
        model(SOURCE, TARGET, LENGTHS)
    weights = weakref.ref(seen.weights("encoder.blocks.0.attention"))
    del seen
    gc.collect()
    assert weights() is None  # the model holds nothing of it
    with capture(model) as seen:
        model(SOURCE, TARGET, LENGTHS)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None  # nor does what was seen hold the model
    assert seen.weights("encoder.blocks.0.attention").shape == (2, 4, 4, 4)


def test_any_module_with_attention_can_be_captured() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.look = MultiHeadAttention(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.look(x, causal=True)

    own, x = Own(), torch.randn(2, 3, 8)
    with capture(own) as seen:
        out = own(x)
    (call,) = seen["look"]
    torch.testing.assert_close(own.look.merge(call.weights @ call.value), out)
    assert (call.weights.triu(1) == 0).all()


def test_what_was_seen_does_not_change_when_a_cache_goes_on() -> None:
    """Also in inference mode, where a tensor does not say that it is a view."""
    model = translator()
    with torch.inference_mode(), capture(model, "decoder.blocks.0.attention") as seen:
        state = model.start(SOURCE, LENGTHS, 2, 8)
        _, state, _ = model.step(torch.tensor([1, 1, 1, 1]), state)
        (first,) = seen["decoder.blocks.0.attention"]
        kept = first.value.clone()
        for name in state.growing:
            state.memory[name].fill_(7.0)
        assert torch.equal(first.value, kept)
