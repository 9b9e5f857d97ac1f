"""Senses of the last few words alone (`model.sense_window`): the fast sum, the reference, what a model looks at."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anaphora.errors import UserError
from anaphora.models import settings
from anaphora.nn.kernels import sense_sums as kernel
from anaphora.nn.kernels.sense_sums import distinct_of, mix
from anaphora.nn.sense_network import reference_mix, reference_weights
from neural_rungs import CAUSAL, rung


@pytest.mark.parametrize("window", [1, 3, 7, 100, None])
@pytest.mark.parametrize("packed", [False, True])
def test_the_fast_sum_is_the_reference(window: int | None, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "BLOCK_QUERIES", 4)
    generator = torch.Generator().manual_seed(3)
    query, key = (torch.randn(2, 11, 3, 4, generator=generator) for _ in range(2))
    ids = torch.randint(0, 6, (2, 11), generator=generator)
    documents = torch.tensor([[0] * 5 + [1] * 6, [0] * 11]) if packed else None
    types, slots = distinct_of(ids)
    senses = torch.randn(len(types), 3, 5, generator=generator)
    found = []
    for fast in (True, False):
        q, k, c = (one.clone().requires_grad_(True) for one in (query, key, senses))
        out = mix(q, k, c, slots, documents, window) if fast else reference_mix(q, k, c[slots], documents, window)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        found.append([out, q.grad, k.grad, c.grad])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_weights_beyond_the_window_are_nothing() -> None:
    generator = torch.Generator().manual_seed(3)
    query, key = (torch.randn(2, 9, 3, 4, generator=generator) for _ in range(2))
    weights = reference_weights(query, key, window=3)
    near = torch.ones(9, 9).tril() - torch.ones(9, 9).tril(-3)
    assert (weights[:, :, near == 0] == 0).all() and (weights[:, :, near == 1] > 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 9))
    torch.testing.assert_close(reference_weights(query, key, window=9), reference_weights(query, key))


def test_far_words_still_choose_among_near_senses() -> None:
    model: Any = CAUSAL["backpack of near senses"]()
    first, second = torch.tensor([[1, 4, 5, 6, 7, 8]]), torch.tensor([[1, 9, 5, 6, 7, 8]])
    assert model.sense_window == 2 and not torch.allclose(model(first)[0, -1], model(second)[0, -1])
    assert (model.sense_weights(first)[0, :, -1, :-2] == 0).all()


def test_settings() -> None:
    with pytest.raises(UserError, match="sense_window must be above 0, not 0"):
        settings({"kind": "backpack", "dim": 8, "senses": 2, "heads": 2, "sense_window": 0})
    whole, near = rung("backpack")(), rung("backpack", sense_window=2)()
    assert near.weighing_flops(50.0) < whole.weighing_flops(50.0) and near.weighing_flops(1.0) == whole.weighing_flops(
        1.0
    )
