"""Whatever dropout is asked for is at work in training, in training alone, and locked where that is asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from anaphora.models.registry import kinds, system
from neural_rungs import rung

SHARES = {
    kind: [field.name for field in dataclasses.fields(config) if field.name.endswith("dropout")]
    for kind, config in ((kind, system(kind).settings_class()) for kind in kinds("language"))
}


def read(model: Any, ids: Tensor, seed: int) -> Tensor:
    torch.manual_seed(seed)
    said: Tensor = model(ids)
    return said


@torch.no_grad()
@pytest.mark.parametrize(("kind", "share"), [(kind, share) for kind, shares in SHARES.items() for share in shares])
def test_a_dropout_that_is_asked_for_is_at_work(kind: str, share: str) -> None:
    ids = torch.arange(2, 12).view(2, 5)
    none = dict.fromkeys(SHARES[kind], 0.0)
    own = {share: 0.5}
    if share == "dropout" and kind.startswith(("transformer", "backpack")):
        own["input_dropout"] = 1e-12  # so that it is not the input's too
    without, with_it = (rung(kind, **changes)() for changes in (none, none | own))
    assert torch.equal(read(without.train(), ids, 1), read(without, ids, 2))
    assert not torch.equal(read(with_it.train(), ids, 1), read(with_it, ids, 2))
    assert torch.equal(read(with_it.eval(), ids, 1), read(without.eval(), ids, 2))


ALIKE: dict[str, dict[str, Any]] = {
    "dan": {"layers": 3},
    "window": {"layers": 3, "window": 1},
    "conv": {"layers": 3, "width": 1},
    "rnn": {"layers": 3},
}
"""Kinds of which every place says the same where every word is the same: the rnn, once its state is not carried on."""


@torch.no_grad()
@pytest.mark.parametrize("share", ["input_dropout", "dropout", "output_dropout"])
@pytest.mark.parametrize("kind", ALIKE)
def test_locked_dropout_leaves_places_that_are_alike_alike(kind: str, share: str) -> None:
    ids, none = torch.full((2, 7), 5), dict.fromkeys(SHARES[kind], 0.0)
    for locked in (True, False):
        model = rung(kind, locked=locked, **ALIKE[kind], **{**none, share: 0.5})().train()
        if kind == "rnn":
            for cell in model.encoder.cells:
                cell.weight_hh_l0.zero_()
        torch.manual_seed(1)
        x = model.encode(ids)[0]
        assert torch.allclose(x, x[:, :1].expand_as(x), atol=1e-5) == locked
        assert not torch.allclose(x[0], x[1], atol=1e-5)  # but every row has its own


@torch.no_grad()
def test_locked_dropout_knows_the_rows_of_packed_sequences() -> None:
    """Rows of different lengths, read both ways, are laid end to end place by place."""
    for locked in (True, False):
        model = rung("rnn", locked=locked, layers=2, dropout=0.5, bidirectional=True, labels=["a", "b"])().train()
        for name, weight in model.encoder.named_parameters():
            if "weight_hh" in name:
                weight.zero_()
        torch.manual_seed(1)
        x = model.encode(torch.full((3, 6), 5), torch.tensor([4, 6, 5]))
        for row, length in enumerate((4, 6, 5)):
            assert torch.allclose(x[row, :length], x[row, :1].expand(length, -1), atol=1e-5) == locked
