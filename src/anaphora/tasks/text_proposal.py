"""What learning from this text would be like on this machine, as proposal.py says it for pairs: by trying it.

A sample of the text is prepared as `train` would prepare all of it. A neural model makes real updates, which are timed.
What counts, or learns word vectors, is over so soon that it does its whole work on the sample, and time and memory are
those of the sample, grown with the text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.config import merge
from anaphora.device import peak_resident
from anaphora.tasks.base import task_of
from anaphora.tasks.proposal import (
    MOST_BYTES,
    SAMPLE_LINES,
    Enough,
    in_a_child,
    on_trial,
    slow_notes,
    stopwatch,
)
from anaphora.tasks.recipes import Document, RunConfig, load_recipe
from anaphora.tasks.request import Request

if TYPE_CHECKING:
    from anaphora.checking.check import Part


@dataclass
class TextProposal:
    """What `anaphora train --text` would do here. What a kind of model does not have is None."""

    recipe: str
    kind: str
    parameters: int
    vocabulary: int
    total_seconds: float | None
    """Of all updates, or of the whole run where nothing is updated; validation and preparation come on top."""
    tokens_per_second: float
    peak_memory: int
    device: str
    dim: int | None = None
    layers: int | None = None
    batch_tokens: int | None = None
    steps: int | None = None
    seconds_per_update: float | None = None
    updates_timed: int = 0
    notes: list[str] = field(default_factory=list)


def propose_for_text(part: Part, recipe: str, own: Document, *, device: str = "auto") -> TextProposal:
    """The proposal for checked text."""
    lines = part.source.lines
    every = max(1, len(lines) // SAMPLE_LINES)
    sample: list[str] = []
    size = 0
    for number in range(0, len(lines), every):
        size += len(lines[number].encode("utf-8", "replace")) + 1
        sample.append(lines[number])
        if size > MOST_BYTES:
            break
    text_bytes = max(size, int(size / len(sample) * len(lines)))
    request = {"recipe": recipe, "own": own, "text_bytes": text_bytes, "device": device}
    return TextProposal(**in_a_child({"text": sample}, request))


def _asked(folder: Path, request: dict[str, Any]) -> tuple[Request, str, float]:
    """The run over the sample, its kind of model, and the share of the text that the sample is."""
    own = merge(request["own"], {"data": {"text": [str(folder / "text")], "valid_text": []}})
    kind = merge(load_recipe(request["recipe"]), own)["model"]["kind"]
    share = min(1.0, (folder / "text").stat().st_size / request["text_bytes"])
    return Request(run=folder / "run", own=own, recipe=request["recipe"], device=request["device"]), kind, share


def try_whole_run(folder: Path, asked: dict[str, Any]) -> TextProposal:
    """In the child, of what makes no updates: all of its work."""
    from anaphora.folder import read_metrics

    request, kind, share = _asked(folder, asked)
    before, began = peak_resident(), time.perf_counter()
    task_of(kind).train(request)
    seconds, after = time.perf_counter() - began, peak_resident()
    metrics = read_metrics(request.run)
    peak = before + int((after - before) / share)
    notes = [] if share == 1 else [f"found on {share:.1%} of the text; time and memory grow no faster than the text"]
    return TextProposal(
        recipe=request.recipe,
        kind=kind,
        parameters=metrics["parameters"],
        vocabulary=metrics["vocabulary"],
        total_seconds=seconds / share,
        tokens_per_second=metrics["tokens"] / seconds,
        peak_memory=peak,
        device="cpu",
        dim=getattr(RunConfig.read(merge(load_recipe(request.recipe), request.own)).model, "dim", None),
        notes=notes,
    )


def try_some_updates(folder: Path, asked: dict[str, Any]) -> TextProposal:
    """In the child, of a neural model."""
    import torch

    from anaphora.data.language_corpus import prepare_text
    from anaphora.device import choose_device, describe_device
    from anaphora.tasks.language_run import LanguageRun
    from anaphora.tasks.language_settling import planned_settings
    from anaphora.tasks.text_sizes import text_defaults, text_vocabulary
    from anaphora.training.loop import planned_steps

    request, kind, share = _asked(folder, asked)
    device = choose_device(request.device)
    base = merge(text_defaults(kind, labeled=False), load_recipe(request.recipe), request.own)
    first = RunConfig.read(base)
    tokenizer = first.tokenizer
    if tokenizer.vocabulary is None and tokenizer.kind in ("bpe", "unigram"):
        tokenizer = dataclasses.replace(tokenizer, vocabulary=text_vocabulary(asked["text_bytes"]))
    data = dataclasses.replace(first.data, hold_out=0)
    prepared = prepare_text(folder / "data", data, tokenizer, at_most=True)
    grown = {name: int(number / share) for name, number in prepared.manifest["train"].items()}
    config = planned_settings(
        request, dataclasses.replace(prepared, manifest={**prepared.manifest, "train": grown, "valid": {}})
    )
    watch = stopwatch(folder, asked["seconds"])
    trial = on_trial(config.training, on_cpu=device.type == "cpu")
    run = LanguageRun(folder / "run", dataclasses.replace(config, training=trial), prepared, watch, device)
    trainer = run.trainer()
    with contextlib.suppress(Enough):
        trainer.fit()
    seconds, tokens, updates = watch.pace()
    an_epoch, batches = trainer.batches.tokens_an_epoch("text"), trainer.batches.count(0)
    update_seconds = seconds / tokens * config.training.accumulate * an_epoch / batches
    steps = planned_steps(config.training, batches_an_epoch=batches / share, tokens_an_epoch=an_epoch / share)
    on_gpu = device.type == "cuda"
    peak = torch.cuda.max_memory_reserved(device) if on_gpu else peak_resident()
    peak += 0 if on_gpu else int(4 * an_epoch * (1 / share - 1))  # the ids are mapped, and count once they were read
    return TextProposal(
        recipe=config.recipe,
        kind=kind,
        parameters=run.model.parameter_count(),
        vocabulary=prepared.manifest["vocabulary"],
        total_seconds=None if steps is None else steps * update_seconds,
        tokens_per_second=tokens / seconds,
        peak_memory=peak,
        device=describe_device(device),
        dim=getattr(config.language, "dim", None),
        layers=getattr(config.language, "layers", None),
        batch_tokens=config.training.batch_tokens,
        steps=steps,
        seconds_per_update=update_seconds,
        updates_timed=updates,
        notes=slow_notes(config, steps, update_seconds),
    )
