"""How long will it take? A trial whose first update is slow, as first ones are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from anaphora.tasks import proposal


def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: list[float]) -> Any:
    """A stopwatch that has seen updates of these seconds until it had enough."""
    clock = iter([0.0, *(sum(took[: n + 1]) for n in range(len(took)))])
    monkeypatch.setattr(proposal.time, "perf_counter", lambda: next(clock))
    watch = proposal.stopwatch(tmp_path, 1.0)
    watch.start(SimpleNamespace(step=0, tokens=0, seconds=0.0, flops=0.0), None)
    for step in range(1, len(took) + 1):
        try:
            watch.update(SimpleNamespace(loss=torch.tensor(0.0)), SimpleNamespace(step=step, tokens=10 * step))
        except proposal.Enough:
            return watch
    return watch


def test_the_first_update_does_not_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, tokens, updates = timed(tmp_path, monkeypatch, [2.7, 0.01, 0.01, 5.0]).pace()
    assert (tokens, updates) == (20, 2)
    assert seconds == pytest.approx(0.02)


def test_of_many_updates_the_second_half_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, _, updates = timed(tmp_path, monkeypatch, [0.5] + [0.1] * 20).pace()
    assert updates == 3  # the trial ended with the seventh update, after 1.1 s
    assert seconds == pytest.approx(0.3)


def test_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(tmp_path, monkeypatch, [5.0, 5.0, 5.0]).pace() == pytest.approx((5.0, 10, 1))
