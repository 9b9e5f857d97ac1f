"""What training a translator on this corpus would be like on this machine, as proposal.py finds it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.config import merge
from anaphora.data.preparation import HOLD_OUT_LIMIT
from anaphora.tasks.recipes import Document, complete
from anaphora.tokenizers.tokenizer import vocabulary_for

if TYPE_CHECKING:
    from anaphora.checking.check import Part

from anaphora.tasks.proposal import SAMPLE_LINES, Enough, in_a_child, on_trial, slow_notes, stopwatch


@dataclass
class Proposal:
    """What `anaphora train` would do here. Memory is the process's (CPU) or what torch holds on the device (GPU)."""

    recipe: str
    dim: int
    layers: int
    decoder_layers: int
    parameters: int
    vocabulary: list[int]
    batch_tokens: int
    accumulate: int
    consistency: float
    steps: int | None
    seconds_per_update: float
    total_seconds: float | None
    """Of all updates; validation, checkpoints and preparation come on top."""
    tokens_per_second: float
    peak_memory: int
    device: str
    updates_timed: int
    notes: list[str]


def propose(
    recipe: str,
    own: Document,
    pairs: int,
    sample: tuple[Sequence[str], Sequence[str]],
    *,
    text_bytes: int,
    device: str = "auto",
    seconds: float | None = None,
) -> Proposal:
    """Try it with a sample of a corpus of that many pairs and bytes; raises UserError if it would not even begin."""
    complete(recipe, own, pairs=pairs)  # a mistake in the settings is said here, not by a child
    request = {"recipe": recipe, "own": own, "pairs": pairs, "text_bytes": text_bytes, "device": device}
    return Proposal(**in_a_child(dict(zip(("source", "target"), sample)), {**request, "seconds": seconds}))


def propose_for(part: Part, recipe: str, own: Document, *, held_out: bool, device: str = "auto") -> Proposal:
    """`propose` for checked training text: without the pairs that training leaves out, and those it holds out."""
    left_out = set().union(*(part.wrong.get(problem, ()) for problem in ("empty", "long", "huge")))
    pairs = max(1, len(part) - len(left_out))
    if held_out:
        chosen = own.get("data", {}).get("hold_out")
        pairs -= min(HOLD_OUT_LIMIT, pairs // 20) if chosen is None else int(chosen)
    step = max(1, len(part) // SAMPLE_LINES)
    numbers = [n for n in range(0, len(part), step) if n not in left_out][:SAMPLE_LINES]
    sample = [[side.lines[n] for n in numbers] for side in part.sides]
    read = sum(len(line.encode("utf-8", "replace")) for lines in sample for line in lines)
    text_bytes = int(read / max(len(numbers), 1) * pairs)
    return propose(recipe, own, max(pairs, 1), (sample[0], sample[1]), text_bytes=text_bytes, device=device)


def attempt(folder: Path, request: dict[str, Any]) -> Proposal:
    """In the child: prepare, build, probe, update, measure."""
    import torch

    from anaphora.data.preparation import prepare
    from anaphora.device import choose_device, describe_device, peak_resident
    from anaphora.tasks.translation_run import Run
    from anaphora.tasks.translation_settling import longest
    from anaphora.training.loop import COMPILE_PAYS_FROM, planned_steps

    device = choose_device(request["device"])
    pairs = request["pairs"]
    files = {side: [str(folder / side)] for side in ("source", "target")}
    config = complete(request["recipe"], merge(request["own"], {"data": files}), pairs=pairs)
    trial = on_trial(config.training, on_cpu=device.type == "cpu")
    tokenizer = config.tokenizer
    if tokenizer.vocabulary is None and tokenizer.kind in ("bpe", "unigram"):
        tokenizer = dataclasses.replace(tokenizer, vocabulary=vocabulary_for(pairs))
    prepared = prepare(
        folder / "data", files, tokenizer=tokenizer, hold_out=0, max_length=longest(config), seed=config.data.seed
    )
    watch = stopwatch(folder, request["seconds"])
    run = Run(folder / "run", dataclasses.replace(config, training=trial), prepared, watch, device)
    trainer = run.trainer()
    with contextlib.suppress(Enough):
        trainer.fit()
    seconds, tokens, updates = watch.pace()
    # batches differ in size: what one update costs is what a token costs, times the tokens of a usual update
    an_epoch = int(prepared.train.lengths[:, 1].sum()) + len(prepared.train)
    one_way = config.training.bidirectional_epochs  # the first epoch that reads every pair once
    usual = config.training.accumulate * an_epoch / trainer.batches.count(one_way)
    update_seconds = seconds / tokens * usual
    share = len(prepared.train) / pairs
    batches = trainer.batches.count(one_way) / share
    steps = planned_steps(config.training, batches_an_epoch=batches, tokens_an_epoch=an_epoch / share)
    notes = []
    if device.type == "cuda":
        peak = torch.cuda.max_memory_reserved(device)
        if config.training.compile == "on" or (config.training.compile == "auto" and (steps or 0) >= COMPILE_PAYS_FROM):
            notes.append("the run will be compiled, which was not tried here: updates will be faster")
    else:
        # the prepared corpus is mapped: its pages count as the process's memory once they were read
        ids = 4 * int(prepared.train.lengths.sum()) / share
        peak = peak_resident() + int((request["text_bytes"] + ids) * (1 - share))
    if config.training.patience:
        notes.append("training ends earlier if validation stops getting better")
    notes += slow_notes(config, steps, update_seconds)
    sizes = list(dict.fromkeys(t.vocabulary_size for t in run.tokenizers))
    return Proposal(
        recipe=config.recipe,
        dim=config.translator.dim,
        layers=config.translator.layers,
        decoder_layers=config.translator.decoder_depth,
        parameters=run.model.parameter_count(),
        vocabulary=sizes,
        batch_tokens=config.training.batch_tokens,
        accumulate=config.training.accumulate,
        consistency=config.training.consistency,
        steps=steps,
        seconds_per_update=update_seconds,
        total_seconds=None if steps is None else steps * update_seconds,
        tokens_per_second=tokens / seconds,
        peak_memory=peak,
        device=describe_device(device),
        updates_timed=updates,
        notes=notes,
    )
