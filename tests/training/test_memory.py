"""The largest batch first: what does not fit is said at once, with settings that do fit."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaphora
import forked
from anaphora.data.batches import Batch
from anaphora.errors import UserError
from anaphora.models.translation.transformer_translator import Transformer
from anaphora.models.weights import read_weights
from anaphora.training.loop import Trainer
from anaphora.training.memory import is_out_of_memory, try_largest
from micro_runs import MICRO, arguments, write_pairs


def batch(rows: int, length: int = 7) -> Batch:
    return Batch(
        rows=np.arange(rows),
        tokens={side: np.ones((rows, length), dtype=np.int64) for side in ("source", "target")},
        lengths={side: np.full(rows, length) for side in ("source", "target")},
    )


def fits_up_to(rows: int, tried: list[int]) -> Any:
    def learn(batch: Batch) -> None:
        tried.append(len(batch.rows))
        torch.rand(3)
        if len(batch.rows) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB\nand more")

    return learn


def test_what_fits_is_tried_once_and_leaves_the_random_state() -> None:
    torch.manual_seed(5)
    before, tried = torch.get_rng_state(), []
    try_largest(batch(8), fits_up_to(8, tried), accumulate=1)
    assert tried == [8]
    assert torch.equal(torch.get_rng_state(), before)


def test_what_does_not_fit_is_halved_and_a_proposal_made() -> None:
    tried: list[int] = []
    before = torch.get_rng_state()
    with pytest.raises(UserError) as caught:
        try_largest(batch(12), fits_up_to(4, tried), accumulate=2)
    assert tried == [12, 6, 3]
    assert str(caught.value) == (
        "the largest batch (84 tokens) does not fit in memory (CUDA out of memory. Tried to allocate 3 GiB); "
        "set training.batch_tokens=21 training.accumulate=8, which fits and gives the same updates, or choose a "
        "smaller model"
    )
    assert torch.equal(torch.get_rng_state(), before)


def test_one_sentence_that_does_not_fit() -> None:
    with pytest.raises(UserError, match=r"not even one sentence of 7 tokens fits .*recipe='tiny'"):
        try_largest(batch(5), fits_up_to(0, []), accumulate=1)


def test_other_errors_are_ours_and_pass_through() -> None:
    def broken(batch: Batch) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        try_largest(batch(5), broken, accumulate=1)
    assert not is_out_of_memory(ValueError("out of memory"))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried …"))


def test_first_rows_keeps_every_side_as_long() -> None:
    part = batch(5).first(2)
    assert len(part.rows) == 2
    assert {tokens.shape for tokens in part.tokens.values()} == {(2, 7)}
    assert [len(lengths) for lengths in part.lengths.values()] == [2, 2]


def test_trying_changes_nothing_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout: the same weights, bit for bit, whether the largest batch was tried or not."""
    files = write_pairs(tmp_path, 30)
    settings = {**MICRO, "model.dropout": 0.3}
    anaphora.train(tmp_path / "tried", **files, settings=settings, device="cpu")
    monkeypatch.setattr(Trainer, "probe", lambda self: None)
    anaphora.train(tmp_path / "not", **files, settings=settings, device="cpu")
    tried, untried = (read_weights(tmp_path / name / "model.safetensors") for name in ("tried", "not"))
    assert all(torch.equal(tensor, untried[name]) for name, tensor in tried.items())


def test_the_proposal_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that can hold 150 tokens at a time: refused before the first update, and at once trained as proposed."""
    files = write_pairs(tmp_path, 60)
    forward, largest = Transformer.forward, 0

    def small(self: Transformer, source: Any, lengths: Any, target: Any) -> Any:
        nonlocal largest
        if self.training and max(source.numel(), target.numel()) > 150:
            raise torch.OutOfMemoryError("CUDA out of memory")
        largest = max(largest, source.numel())
        return forward(self, source, lengths, target)

    monkeypatch.setattr(Transformer, "forward", small)
    settings = {**MICRO, "training.batch_tokens": 800}
    with pytest.raises(UserError) as caught:
        anaphora.train(tmp_path / "run", **files, settings=settings, device="cpu")
    assert not (tmp_path / "run" / "checkpoints").exists()
    proposal = re.search(r"training.batch_tokens=(\d+) training.accumulate=(\d+)", str(caught.value))
    assert proposal is not None
    size, parts = map(int, proposal.groups())
    assert 700 < size * parts <= 800, "the same update in smaller bites"
    settings |= {"training.batch_tokens": size, "training.accumulate": parts}
    outcome = anaphora.train(tmp_path / "again", **files, settings=settings, device="cpu")
    assert outcome.steps == 2
    assert largest <= 150


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to know how much memory is held")
def test_a_real_lack_of_memory_ends_with_a_proposal_and_exit_code_2(tmp_path: Path) -> None:
    """500 MB more than the process holds; a batch whose hidden layer alone takes more than that."""
    files = write_pairs(tmp_path, 1600)
    settings = {**MICRO, "model.feed_forward": 10_000, "training.batch_tokens": 16_000, "data.hold_out": 0}
    words = ["train", tmp_path / "run", "--source", files["source"], "--target", files["target"], *arguments(settings)]

    def limit() -> None:
        torch.cuda.is_available()  # a build with CUDA reserves addresses when it looks
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + 500 * 2**20,) * 2)

    done = forked.command(*words, "--device", "cpu", preexec_fn=limit, env={"RAYON_NUM_THREADS": "1"}, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(r"the largest batch \(\d+ tokens\) does not fit in memory .*; set training.batch_tokens=\d+", last)


def test_rows_that_fill_a_batch_up_are_tried_too() -> None:
    """They need memory like the others: three real rows of twelve."""
    filled, tried = batch(12), []

    def learn(tried_batch: Batch) -> None:
        tried.append(len(tried_batch.tokens["source"]))
        if tried[-1] > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")

    filled.rows = filled.rows[:3]
    with pytest.raises(UserError, match=r"the largest batch \(84 tokens\).*training.batch_tokens=42"):
        try_largest(filled, learn, accumulate=1)
    assert tried == [12, 6]
