"""A run, from files to a model folder; repeating the same call goes on where it stopped.

    lock → settings (compared with the folder's own) → corpus → model → loop → average → card

A run folder remembers its settings. The same ones continue it, higher limits continue it further, anything else is
named and refused unless forced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anaphora.config import differences, merge
from anaphora.device import choose_device, describe_device, peak_flops
from anaphora.errors import UserError
from anaphora.folder import (
    CONFIG,
    DATA,
    WEIGHTS,
    RunLock,
    discard_empty,
    is_run,
    publish,
    read_config,
    read_metrics,
    sweep,
    weights_file,
    write_config,
    write_text,
)
from anaphora.models import build
from anaphora.models.contracts import Translator
from anaphora.models.weights import load_weights, read_weights, write_weights
from anaphora.text.batches import GROWTH, Batches
from anaphora.text.preparation import Prepared, open_prepared, prepare
from anaphora.text.tokenizer import Tokenizer
from anaphora.training.averaging import average_weights
from anaphora.training.card import write_card
from anaphora.training.checkpoint import Checkpoints, Progress, step_of
from anaphora.training.loop import Trainer
from anaphora.training.memory import first_line, is_out_of_memory
from anaphora.training.objective import TranslationObjective
from anaphora.training.recipes import FREE, Document, RunConfig, check_inherited, complete, inherit, load_recipe
from anaphora.training.reporting import RunReporter, describe, short
from anaphora.training.settings import LIMITS, REPORTING
from anaphora.training.validation import Validator, better

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Request:
    """What the user asks for: the arguments of `anaphora train`."""

    run: Path
    own: Document
    """Settings said by the user, files included, by section."""
    recipe: str = "transformer"
    start_from: Path | None = None
    device: str = "auto"
    force: bool = False


@dataclass
class Outcome:
    """How a run ended."""

    folder: Path
    reason: str
    steps: int
    tokens: int
    seconds: float
    flops: float
    parameters: int
    weights: str
    validation: dict[str, Any] = field(default_factory=dict)


def train(request: Request, console: Console | None = None) -> Outcome:
    """Make, continue or finish the run that `request` describes."""
    folder = request.run
    device = choose_device(request.device)
    if folder.exists() and not folder.is_dir():
        raise UserError("is a file, not a folder", file=folder, cure="choose another name for the run")
    if folder.is_dir() and any(folder.iterdir()) and not is_run(folder):
        raise UserError(
            "exists and is no run of Anaphora", file=folder, cure="choose a new folder; nothing was touched"
        )
    RunConfig.read(merge(load_recipe(request.recipe), request.own))  # a misspelt name is found before any work
    fresh = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot be made ({error.strerror})", file=folder, cure="choose another folder") from None
    reporter = RunReporter(folder, console, peak_flops=peak_flops(device))
    try:
        with RunLock(folder) as lock:
            sweep(folder)
            if lock.abandoned is not None:
                killed = lock.abandoned["process"]
                reporter.message(f"the last process here ({killed}) was killed; going on from what it saved")
            config, prepared = settle(request, reporter)
            reporter.finish()
            return Run(folder, config, prepared, reporter, device).complete()
    except UserError:
        if fresh:
            discard_empty(folder)
        raise
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            f"memory ran out ({first_line(error)})",
            file=folder,
            cure="take a smaller model (--recipe tiny), smaller training.batch_tokens or decoding.batch_tokens",
        ) from None
    finally:
        reporter.finish()


def settle(request: Request, reporter: RunReporter) -> tuple[RunConfig, Prepared]:
    """The settings and the corpus of this run: those it already has, if they are the ones asked for."""
    folder = request.run
    saved = None
    if Checkpoints(folder, keep=1, every=1).newest() is not None:
        saved = RunConfig.read(read_config(folder), file=str(folder / CONFIG)).document()
    elif (folder / WEIGHTS).exists():  # before the first checkpoint nothing else was learned that could be lost
        raise UserError(
            "holds a trained model but no checkpoint to continue from",
            file=folder,
            cure=f"choose another folder; to learn on from this model, add --from {folder}",
        )
    recipe, origin = load_recipe(request.recipe), None
    if request.start_from is not None:
        start_config = request.start_from / CONFIG
        origin = saved or RunConfig.read(read_config(request.start_from), file=str(start_config)).document()
        recipe = inherit(recipe, origin)
        if saved is None:
            weights_file(request.start_from)
            check_inherited(merge(load_recipe(request.recipe), request.own), origin, folder=request.start_from)
    asked = RunConfig.read(merge(recipe, request.own))  # sizes that follow the corpus are still open
    for side in ("source", "target"):
        if side not in asked.data.sides():
            raise UserError(f"no {side} text to learn from", cure=f"give --{side} FILE")
    if saved is not None:  # before the corpus is touched
        text = differences(_text_settings(saved), _text_settings(asked.document()))
        refuse(folder, text, force=request.force)
    # a run keeps its tokenisers for good; a new one takes those of the model it starts from, or trains its own
    keeper = folder if saved is not None else request.start_from
    prepared = prepare(
        folder / DATA,
        asked.data.sides(),
        valid_sides=asked.data.valid_sides() or None,
        tokenizer=asked.tokenizer if keeper is None else load_tokenizers(keeper),
        hold_out=asked.data.hold_out,
        max_length=longest(asked),
        tokenizer_lines=asked.data.tokenizer_lines,
        seed=asked.data.seed,
        on_change="raise" if saved is not None and not request.force else "rebuild",
        progress=reporter.stage,
    )
    start = None if request.start_from is None else str(request.start_from)
    if saved is not None and request.force:
        run = {"recipe": request.recipe, "start_from": start}
        config = RunConfig.read({**merge(saved, recipe, request.own), "run": run})
    else:
        pairs = prepared.manifest["train"]["rows"]
        config = complete(request.recipe, request.own, pairs=pairs, start_from=start, start=origin)
    if saved is not None:
        changes = differences(saved, config.document())
        refuse(folder, changes, force=request.force)
        for name, (old, new) in changes.items():
            reporter.message(f"changed {name}: {old} → {new}")
    names = set(prepared.manifest["tokenizers"].values())
    for name in sorted(names):
        write_text(folder / name, (folder / DATA / name).read_text(encoding="utf-8"))
    for path in folder.glob("tokenizer*.json"):  # of an attempt that never learned anything, with other settings
        if path.name not in names:
            path.unlink()
    if saved != config.document():
        write_config(folder, config.document())
    return config, prepared


def longest(config: RunConfig) -> int:
    """The most tokens of a sentence to learn from: with its marks, and grown by subword dropout, the model must hold
    it."""
    growth = GROWTH if config.tokenizer.dropout else 1.0
    return min(config.data.max_length, int((config.model.max_length - 2) / growth))


FILES = ("source", "target", "valid_source", "valid_target")
"""Settings that name files: what counts is their content, and `prepare` looks at that."""


def _text_settings(document: Mapping[str, Any]) -> Document:
    """What decides how text becomes tokens, without the names of files and what is decided anew in every epoch."""
    data = {key: value for key, value in document["data"].items() if key not in FILES}
    tokenizer = {key: value for key, value in document["tokenizer"].items() if key != "dropout"}
    return {"data": data, "tokenizer": tokenizer}


def refuse(folder: Path, changes: Mapping[str, tuple[Any, Any]], *, force: bool) -> None:
    """Continue with the same settings or higher limits; name any other change.

    What the saved weights mean, the shape of the model and its tokeniser, cannot change at all.
    """
    harmless = {f"training.{name}" for name in (*LIMITS, *REPORTING)} | {f"data.{name}" for name in FILES}
    free = {f"{section}.{name}" for section, names in FREE.items() for name in names}
    named = {name: both for name, both in changes.items() if name not in harmless}
    fixed = {name: both for name, both in named.items() if name.partition(".")[0] in FREE and name not in free}
    wrong = fixed if force else named
    if wrong:
        spoken = "; ".join(f"{name} is {old!r} there and {new!r} now" for name, (old, new) in wrong.items())
        cure = "repeat the old command to continue it, choose another folder, or add --force to change it midway"
        if fixed:
            cure = "repeat the old command to continue it, or choose another folder"
        raise UserError(f"holds a run with other settings: {spoken}", file=folder, cure=cure)


def load_tokenizers(folder: Path) -> dict[str, Tokenizer]:
    """By side: one joint tokenizer.json, or tokenizer.source.json and tokenizer.target.json."""
    joint = folder / "tokenizer.json"
    if joint.is_file():
        tokenizer = Tokenizer.load(joint)
        return {"source": tokenizer, "target": tokenizer}
    return {side: Tokenizer.load(folder / f"tokenizer.{side}.json") for side in ("source", "target")}


class Run:
    """A settled run: corpus and settings are fixed, now it learns."""

    def __init__(
        self, folder: Path, config: RunConfig, prepared: Prepared, reporter: RunReporter, device: torch.device
    ) -> None:
        self.folder, self.config, self.prepared = folder, config, prepared
        self.reporter, self.device = reporter, device
        self.tokenizers = prepared.tokenizers["source"], prepared.tokenizers["target"]
        torch.manual_seed(config.training.seed)
        self.model = self.new_model()
        self.validator = None
        if prepared.valid is not None:
            self.validator = Validator(prepared.valid, *self.tokenizers, config.training, config.decoding, device)

    def new_model(self) -> Translator:
        source, target = self.tokenizers
        model = build(self.config.model, source.vocabulary_size, target.vocabulary_size)
        newest = Checkpoints(self.folder, keep=1, every=1).newest()
        if self.config.start_from is not None and newest is None:
            file = weights_file(Path(self.config.start_from))
            load_weights(model, read_weights(file), file=file)
        return model

    def complete(self) -> Outcome:
        """Learn until it is over, then choose the weights that stay."""
        self.explain()
        trainer = Trainer(
            self.model,
            TranslationObjective(self.config.training.label_smoothing),
            self.batches(),
            self.validator,
            self.config.training,
            self.folder,
            self.reporter,
            self.device,
            publish=self.publish,
        )
        self.catch_up(trainer.checkpoints)
        progress = trainer.fit()
        reason = trainer.over() or "done"
        if read_metrics(self.folder).get("finished_step") != progress.step:
            self.finish(trainer, progress)
        metrics = read_metrics(self.folder)
        return Outcome(
            folder=self.folder,
            reason=reason,
            steps=progress.step,
            tokens=progress.tokens,
            seconds=progress.seconds,
            flops=progress.flops,
            parameters=self.model.parameter_count(),
            weights=metrics.get("weights", ""),
            validation=metrics.get("validation", {}),
        )

    def batches(self) -> Batches:
        config, samplers = self.config, {}
        if config.tokenizer.dropout:
            from anaphora.text.subword_dropout import SubwordSampler

            samplers = {side: SubwordSampler(tokenizer) for side, tokenizer in self.prepared.tokenizers.items()}
        return Batches(
            self.prepared.train,
            batch_tokens=config.training.batch_tokens,
            seed=config.training.seed,
            samplers=samplers,
            dropout=config.tokenizer.dropout,
        )

    def publish(self, checkpoint: Path, progress: Progress) -> None:
        """Make a checkpoint's weights the folder's model."""
        publish(checkpoint / WEIGHTS, self.folder / WEIGHTS)
        scores = dict(progress.history[-1]) if progress.history else {}
        self.card(progress, f"those of step {progress.step}", scores, finished=False)

    def catch_up(self, checkpoints: Checkpoints) -> None:
        """A process killed after saving a best checkpoint and before publishing it: publish it now."""
        newest = checkpoints.newest()
        progress = checkpoints.read_progress(newest) if newest is not None else Progress()
        if progress.best_step is not None and (read_metrics(self.folder).get("step") or 0) < progress.best_step:
            self.publish(checkpoints.path(progress.best_step), progress)

    def finish(self, trainer: Trainer, progress: Progress) -> None:
        """Average the last checkpoints, keep the average if it is better on the validation text, measure what stays."""
        config = self.config.training
        best_step = progress.best_step or progress.step
        weights = f"those of step {best_step}"
        publish(trainer.checkpoints.path(best_step) / WEIGHTS, self.folder / WEIGHTS)
        last = trainer.checkpoints.scheduled()[-config.average :]
        if len(last) > 1 and self.validator is not None and config.average > 1:
            averaged = average_weights(last)
            load_weights(self.model, averaged, file=last[-1])
            value = self.validator(self.model, autocast=trainer.autocast()).metric(config.metric)
            kept = better(config.metric, value, progress.best)
            best = f"{config.metric} {value:.3f}, best single {progress.best:.3f}"
            outcome = "kept" if kept else "not kept"
            self.reporter.message(f"average of the last {len(last)} checkpoints: {best}: {outcome}")
            if kept:
                weights = f"the mean of the last {len(last)} checkpoints, up to step {progress.step}"
                write_weights(self.folder / WEIGHTS, averaged)
        load_weights(self.model, read_weights(self.folder / WEIGHTS), file=self.folder / WEIGHTS)
        scores: dict[str, Any] = {}
        if self.validator is not None:
            self.reporter.message("measuring the final model on the validation text …")
            scores = self.validator(
                self.model, beam=self.config.decoding.beam, translate_all=True, autocast=trainer.autocast()
            ).scores
            self.reporter.message(f"final model, beam {self.config.decoding.beam}: {describe(scores)}")
        self.card(progress, weights, scores, finished=True)

    def card(self, progress: Progress, weights: str, scores: dict[str, Any], *, finished: bool) -> None:
        write_card(
            self.folder,
            self.config,
            progress,
            self.prepared.manifest,
            weights=weights,
            scores=scores,
            parameters=self.model.parameter_count(),
            device=describe_device(self.device),
            finished=finished,
        )

    def explain(self) -> None:
        """What is about to happen, in three lines."""
        manifest, config = self.prepared.manifest, self.config
        train, valid = manifest["train"], manifest["valid"]
        left = ", ".join(f"{number:,} {why}" for why, number in train["left_out"].items())
        tidied = ", ".join(f"{number:,} {why}" for why, number in manifest["tidied"].items())
        say = self.reporter.message
        say(
            f"corpus: {train['rows']:,} pairs to learn from, {valid['rows']:,} to validate on"
            + (f"; left out: {left}" if left else "")
            + (f"; tidied: {tidied}" if tidied else "")
        )
        size = "joint" if self.tokenizers[0] is self.tokenizers[1] else "source/target"
        vocabulary = "/".join(f"{t.vocabulary_size:,}" for t in dict.fromkeys(self.tokenizers))
        model = config.model
        say(
            f"model: {config.recipe}, {model.dim} wide, {model.layers}+{model.decoder_layers or model.layers} layers, "
            f"{short(self.model.parameter_count())} parameters, {size} vocabulary {vocabulary} "
            f"({config.tokenizer.kind})"
        )
        newest = Checkpoints(self.folder, keep=1, every=1).newest()
        where = f"continuing from {newest.name}" if newest else "starting"
        say(f"{where} on {describe_device(self.device)}, in {self.folder}")


def average(folder: Path, last: int | None, *, device: str = "auto") -> dict[str, Any]:
    """Publish the mean of the last checkpoints of a run, and say how it compares with what was there."""
    config = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
    with RunLock(folder):
        checkpoints = Checkpoints(folder, keep=config.training.keep, every=config.training.checkpoint_every)
        there = checkpoints.scheduled() or checkpoints.all()
        chosen = there[-(last or 5) :]
        if len(chosen) < (last or 1):
            raise UserError(
                f"has only {len(chosen)} checkpoints to average, not {last or 1}",
                file=folder,
                cure=f"use --last {len(chosen)}, or train with training.keep={last}" if chosen else "train it first",
            )
        prepared = open_prepared(folder / DATA)
        run = Run(folder, config, prepared, RunReporter(folder, None), choose_device(device))
        run.model.to(run.device)
        averaged = average_weights(chosen)
        before = after = None
        if run.validator is not None:
            file = weights_file(folder)
            load_weights(run.model, read_weights(file), file=file)
            before = run.validator(run.model, translate_all=True).scores
            load_weights(run.model, averaged, file=chosen[-1])
            after = run.validator(run.model, translate_all=True).scores
        write_weights(folder / WEIGHTS, averaged)
        newest = checkpoints.newest()
        assert newest is not None
        progress = checkpoints.read_progress(newest)
        steps = [step_of(path) for path in chosen]
        finished = read_metrics(folder).get("finished_step") is not None  # then `train` leaves this choice alone
        run.card(progress, f"the mean of the checkpoints {steps}", after or {}, finished=finished)
    return {"folder": str(folder), "averaged": steps, "before": before, "after": after}
