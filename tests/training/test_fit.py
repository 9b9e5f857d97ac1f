"""`anaphora.fit`: any model, any batches, the one loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anaphora
from anaphora import models
from anaphora.errors import UserError


def counting(seed: int, rows: int = 8) -> Tensor:
    """Rows ⟨s⟩ k k+1 … ⟨/s⟩: (rows, 8)."""
    first = torch.randint(4, 12, (rows, 1), generator=torch.Generator().manual_seed(seed))
    row = (first + torch.arange(6) - 4) % 8 + 4
    return torch.cat([torch.ones(rows, 1, dtype=torch.long), row, torch.full((rows, 1), 2)], dim=1)


BATCHES = [counting(seed) for seed in range(5)]


def small(**settings: Any) -> models.CausalLM:
    torch.manual_seed(1)
    return models.CausalLM(vocabulary=12, dim=16, layers=1, heads=2, **settings)


def test_a_language_model_learns_and_goes_on() -> None:
    model = small()
    with torch.no_grad():
        before = float(model.loss(BATCHES[0]))
    history = anaphora.fit(
        model, BATCHES, steps=120, learning_rate=1e-2, validate=BATCHES[:1], patience=3, progress=False
    )
    assert history.losses[0][1] > 2 and history.validations[-1]["loss"] < 0.6 * before
    assert history.steps == history.losses[-1][0] and history.best_step and "updates" in repr(history)
    (found,) = anaphora.decoding.generate(model, [[5, 6]], tokens=3, beam=1)[0]
    assert found.tokens == [7, 8, 9]


@pytest.mark.parametrize(
    "batches", [BATCHES, lambda epoch: BATCHES[epoch:] + BATCHES[:epoch]], ids=["list", "function"]
)
def test_what_was_stopped_goes_on_exactly(batches: Any, tmp_path: Path) -> None:
    def run(folder: str, *steps: int) -> list[Tensor]:
        for end in steps:
            model = small(dropout=0.2)
            how: dict[str, Any] = {"schedule": "constant", "warmup_steps": 0, "checkpoint_every": 4, "seed": 3}
            history = anaphora.fit(model, batches, steps=end, folder=tmp_path / folder, progress=False, **how)
            torch.rand(7)  # whatever else draws
        assert history.steps == steps[-1] and history.folder == tmp_path / folder
        return [parameter.detach() for parameter in model.parameters()]

    whole, parts = run("whole", 12), run("parts", 7, 12)
    assert all(map(torch.equal, whole, parts))
    assert (tmp_path / "parts" / "model.safetensors").exists()


def test_any_module_any_loss_and_a_loader() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).eval()
    x = torch.randn(32, 3)
    data = torch.utils.data.TensorDataset(x, x.sum(dim=1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    history = anaphora.fit(
        net,
        loader,
        epochs=10,
        loss=lambda model, batch: F.mse_loss(model(batch[0]), batch[1]),
        validate=lambda model: {"loss": float(F.mse_loss(model(x), x.sum(dim=1, keepdim=True))), "seen": 32},
        learning_rate=3e-2,
        progress=False,
    )
    assert history.epochs == 10 and history.steps == 40 and history.validations[-1]["loss"] < 0.5
    assert history.validations[-1]["seen"] == 32 and not net.training


def test_an_iterator_without_an_end() -> None:
    def endless() -> Iterator[Tensor]:
        while True:
            yield from BATCHES

    assert anaphora.fit(small(), endless(), steps=3, progress=False).steps == 3
    with pytest.raises(UserError, match="batches have no end, so there are no epochs"):
        anaphora.fit(small(), endless(), epochs=1)
    with pytest.raises(UserError, match="come to their end before the last step"):
        anaphora.fit(small(), iter(BATCHES), steps=9, progress=False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "nothing says when to stop"),
        ({"steps": 2, "learning_rat": 1}, "learning_rat; did you mean 'learning_rate'"),
        ({"steps": 2, "label_smoothing": 0.1}, "unknown setting training.label_smoothing"),
        ({"steps": 2, "loss": lambda model, batch: model(batch)}, "the loss is"),
        ({"steps": 2, "batches": []}, "there are no batches"),
        ({"steps": 2, "batches": 3}, "batches are 3"),
        ({"steps": 2, "model": nn.Linear(1, 1)}, "Linear has no method loss"),
        ({"steps": 2, "validate": lambda model: {"bleu": 3.0}}, "a dictionary with `loss`"),
    ],
)
def test_mistakes_have_a_cure(given: dict[str, Any], words: str) -> None:
    model, batches = given.pop("model", None) or small(), given.pop("batches", BATCHES)
    with pytest.raises(UserError, match=words):
        anaphora.fit(model, batches, progress=False, **given)
