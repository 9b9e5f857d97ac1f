"""The proposal comes from the run's own trainer, says what it tried, and fails with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anaphora.config import overrides
from anaphora.errors import UserError
from anaphora.tasks import proposal
from anaphora.tasks.pair_proposal import Proposal, attempt, propose
from anaphora.tasks.recipes import SECTIONS, complete
from anaphora.tokenizers.tokenizer import vocabulary_for
from anaphora.training.loop import planned_steps
from forked import Interpreters
from micro_runs import MICRO, arguments, pairs

OWN = overrides(arguments({k: v for k, v in MICRO.items() if k != "tokenizer.vocabulary"}), SECTIONS)


def ask(folder: Path, **changes: Any) -> dict[str, Any]:
    for side, number in (("source", 0), ("target", 1)):
        (folder / side).write_text("".join(pair[number] + "\n" for pair in pairs(200)), encoding="utf-8")
    request = {"recipe": "transformer", "own": OWN, "pairs": 100_000, "text_bytes": 5_000_000, "device": "cpu"}
    return {**request, "seconds": 0.3, **changes}


def test_it_tries_the_model_that_the_whole_corpus_calls_for(tmp_path: Path) -> None:
    found = attempt(tmp_path, ask(tmp_path))
    assert (found.dim, found.layers) == (16, 1)  # said by the user
    whole = complete("transformer", OWN, pairs=100_000).training
    assert found.steps == whole.max_steps
    assert found.batch_tokens == 256
    assert found.updates_timed >= 1
    assert found.total_seconds == pytest.approx(found.steps * found.seconds_per_update)
    assert 0 < found.seconds_per_update < 5
    assert found.peak_memory > 50_000_000
    assert found.parameters > 1000
    assert not (tmp_path / "run").exists()  # nothing is saved


def test_the_size_follows_the_corpus_not_the_sample(tmp_path: Path) -> None:
    own = overrides(["model.dim=16", "model.heads=2", "model.feed_forward=16", "training.batch_tokens=200"], SECTIONS)
    found = attempt(tmp_path, ask(tmp_path, own=own, pairs=100_000, seconds=0.1))
    assert found.layers == complete("transformer", {}, pairs=100_000).model.layers
    assert max(found.vocabulary) <= vocabulary_for(100_000)


def test_epochs_become_updates() -> None:
    own = overrides(["training.epochs=3", "training.accumulate=2"], SECTIONS)
    limits = (own, 150), (overrides(["training.max_minutes=3"], SECTIONS), None)
    for said, steps in (*limits, (overrides(["training.max_tokens=2000000"], SECTIONS), 200)):
        config = complete("tiny", said, pairs=1000).training
        assert planned_steps(config, batches_an_epoch=100.0, tokens_an_epoch=1e6) == steps


def test_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = [a for a, _ in pairs(100)], [b for _, b in pairs(100)]
    found = propose("transformer", OWN, 20_000, sample, text_bytes=10_000, device="cpu", seconds=0.2)
    assert isinstance(found, Proposal)
    assert found.updates_timed >= 1
    monkeypatch.setattr(proposal, "subprocess", Interpreters())
    with pytest.raises(UserError, match=r"training\.nothing"):
        propose("tiny", {"training": {"nothing": 1}}, 10, sample, text_bytes=10)
    with pytest.raises(UserError, match=r"vocabulary"):  # found by the child, told by the parent
        propose("tiny", overrides(["tokenizer.vocabulary=10"], SECTIONS), 10, sample, text_bytes=10, device="cpu")


def test_the_weights_of_a_score_are_in_the_proposal(tmp_path: Path) -> None:
    found = []
    for score in ("scaled-dot", "bilinear"):
        (tmp_path / score).mkdir()
        own = {**OWN, "model": {**OWN["model"], "score": score}}
        found.append(attempt(tmp_path / score, ask(tmp_path / score, own=own, seconds=0.1)).parameters)
    assert found[1] - found[0] == 3 * 2 * 8 * 8  # three attentions, two heads, W of 8 by 8
