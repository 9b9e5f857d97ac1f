"""The Transformer's fast step: the vocabulary in slices, what was said in a tree that nobody copies."""

from __future__ import annotations

import pytest
import torch

from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.nn.head import SLICE_TOKENS
from anaphora.tokenizers.tokenizer import BOS, EOS


def translator(vocabulary: int) -> Transformer:
    torch.manual_seed(5)
    config = TransformerConfig(dim=16, layers=2, heads=2, feed_forward=24, max_length=20)
    model = Transformer(config, vocabulary, vocabulary)
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("vocabulary", [7, SLICE_TOKENS - 1, SLICE_TOKENS, SLICE_TOKENS + 1, 3 * SLICE_TOKENS + 5])
def test_sliced_logits_are_the_projection(vocabulary: int) -> None:
    model = translator(vocabulary)
    x = torch.randn(6, 16)
    with torch.no_grad():
        sliced = model.logits(x)
    assert sliced.is_contiguous()
    torch.testing.assert_close(sliced, model.projection(x))


def test_logits_of_a_step_can_be_learned_from() -> None:
    model = translator(2 * SLICE_TOKENS).requires_grad_(True)
    model.logits(torch.randn(3, 16)).sum().backward()
    assert model.projection.weight.grad is not None
    assert (model.projection.weight.grad != 0).any()


@torch.no_grad()
def test_reordering_moves_no_key_and_no_value() -> None:
    """Row 0 goes on from row 1 and back: its past is another, the caches are the same."""
    model = translator(50)
    source, lengths = torch.tensor([[7, 8, 9, EOS]]), torch.tensor([4])
    state = model.start(source, lengths, 2, 10)
    said = [[BOS, BOS], [11, 12], [13, 14]]
    for tokens in said[:2]:
        _, state, _ = model.step(torch.tensor(tokens), state)
    caches = {name: state.memory[name].clone() for name in state.growing}
    assert len(caches) == 4
    state = state.reorder(torch.tensor([1, 0]))
    for name, cache in caches.items():
        assert torch.equal(state.memory[name], cache)
    out, _, _ = model.step(torch.tensor(said[2]), state)
    crossed = torch.tensor([[BOS, 12, 13], [BOS, 11, 14]])
    whole = model.log_probabilities(source.expand(2, -1), crossed, lengths.expand(2))[:, -1]
    torch.testing.assert_close(out, whole, atol=1e-5, rtol=1e-5)
