"""The fused loss is the plain one: values and gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.nn.kernels import cross_entropy as module
from anaphora.nn.kernels.cross_entropy import cross_entropy, reference_cross_entropy, token_log_probabilities


@settings(deadline=None, max_examples=60)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(2, 40)),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    consistency=st.sampled_from([0.0, 1.0, 5.0]),
    rows=st.sampled_from([1, 3, 64]),
    size=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_those_of_the_reference(
    shape: tuple[int, int, int], smoothing: float, consistency: float, rows: int, size: float, seed: int
) -> None:
    batch, time, vocabulary = shape
    torch.manual_seed(seed)
    labels = torch.randint(0, vocabulary, (batch, time))  # 0 is padding
    given = torch.randn(batch * (2 if consistency else 1), time, vocabulary) * size
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_ON_CPU", rows)
        for function in (reference_cross_entropy, cross_entropy):
            logits = given.clone().requires_grad_()
            loss = function(logits, labels, smoothing=smoothing, consistency=consistency)
            (loss / 7).backward()
            assert logits.grad is not None
            results.append((loss.detach(), logits.grad))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-4, atol=1e-5 * max(1.0, size))


@pytest.mark.parametrize("consistency", [0.0, 5.0])
def test_bfloat16_logits(consistency: float) -> None:
    torch.manual_seed(0)
    given, labels = torch.randn(4, 6, 50, dtype=torch.bfloat16), torch.randint(0, 50, (2 if consistency else 4, 6))
    results = []
    for function in (reference_cross_entropy, cross_entropy):
        logits = given.clone().requires_grad_()
        loss = function(logits, labels, smoothing=0.1, consistency=consistency)
        loss.backward()
        assert logits.grad is not None
        assert logits.grad.dtype == torch.bfloat16
        results.append((loss.detach(), logits.grad.float()))
    torch.testing.assert_close(*(loss for loss, _ in results))
    torch.testing.assert_close(*(gradient for _, gradient in results), rtol=2e-2, atol=2e-2)


def test_labels_outside_a_padded_batch_have_no_gradient() -> None:
    logits = torch.randn(4, 3, 9).requires_grad_()
    labels = torch.tensor([[4, 0, 0], [0, 0, 0]])
    cross_entropy(logits, labels, smoothing=0.1, consistency=5.0).backward()
    assert logits.grad is not None
    moved = logits.grad.abs().sum(dim=-1) > 0
    assert moved.tolist() == [[True, False, False], [False] * 3] * 2


def test_it_needs_no_gradient_where_none_is_asked_for() -> None:
    logits, labels = torch.randn(2, 3, 9), torch.randint(1, 9, (2, 3))
    with torch.inference_mode():
        loss = cross_entropy(logits, labels)
    torch.testing.assert_close(loss, reference_cross_entropy(logits, labels))


def test_a_second_backward_is_refused() -> None:
    logits = torch.randn(1, 2, 5).requires_grad_()
    loss = cross_entropy(logits, torch.ones(1, 2, dtype=torch.long))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()


def test_what_stands_at_padding_may_be_infinite() -> None:
    logits, labels = torch.randn(4, 2, 5), torch.tensor([[3, 0], [2, 0]])
    logits[:, 1] = torch.tensor([float("inf"), 0, 0, 0, 0])
    logits.requires_grad_()
    loss = cross_entropy(logits, labels, consistency=5.0)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@given(vocabulary=st.integers(2, 40), rows=st.sampled_from([1, 3, 64]), seed=st.integers(0, 1000))
def test_log_probabilities_of_tokens_one_by_one(vocabulary: int, rows: int, seed: int) -> None:
    torch.manual_seed(seed)
    labels, weights = torch.randint(0, vocabulary, (3, 5)), torch.randn(3, 5)
    given = torch.randn(3, 5, vocabulary)
    plain, fused = given.clone().requires_grad_(), given.clone().requires_grad_()
    wanted = plain.log_softmax(-1).gather(2, labels[:, :, None])[:, :, 0].masked_fill(labels == 0, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_ON_CPU", rows)
        found = token_log_probabilities(fused, labels)
    torch.testing.assert_close(found, wanted)
    (weights * wanted).sum().backward()
    (weights * found).sum().backward()
    torch.testing.assert_close(fused.grad, plain.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_all_logits_have_in_common_changes_nothing(smoothing: float) -> None:
    """Not the last digits either: differences are formed before anything is added up."""
    logits, labels = torch.randint(-8, 9, (6, 16)).float(), torch.randint(0, 16, (6,))  # exact, with the offset too
    losses = [
        cross_entropy((logits + offset).requires_grad_(), labels, smoothing=smoothing, ignore=-1).item()
        for offset in (0.0, 2.0**16)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
