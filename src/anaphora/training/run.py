"""A run, from files to a model folder; repeating the same call goes on where it stopped.

    lock → settings (compared with the folder's own) → corpus → model → loop → average → card

What comes before the model is in settling.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anaphora.config import merge
from anaphora.device import choose_device, describe_device, peak_flops
from anaphora.errors import UserError
from anaphora.folder import (
    CONFIG,
    DATA,
    WEIGHTS,
    RunLock,
    publish,
    read_config,
    read_metrics,
    weights_file,
)
from anaphora.models import LANGUAGE_MODELS, build
from anaphora.models.contracts import Translator
from anaphora.models.weights import load_weights, read_weights, write_weights
from anaphora.text.batches import Batches
from anaphora.text.formats import describe_notes
from anaphora.text.preparation import Prepared, open_prepared
from anaphora.training.averaging import average_weights
from anaphora.training.card import write_card
from anaphora.training.checkpoint import Checkpoints, Progress, step_of
from anaphora.training.graphs import MULTIPLE, graphs_pay
from anaphora.training.loop import Trainer
from anaphora.training.objective import Objective, TranslationObjective
from anaphora.training.recipes import RunConfig, load_recipe
from anaphora.training.reporting import RunReporter, describe, short
from anaphora.training.request import Outcome, Request
from anaphora.training.session import check_folder, working_in
from anaphora.training.settling import settle
from anaphora.training.validation import Validator, better

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.training.guided import Guide


def train(request: Request, console: Console | None = None) -> Outcome:
    """Make, continue or finish the run that `request` describes."""
    device = choose_device(request.device)
    check_folder(request.run)
    RunConfig.read(merge(load_recipe(request.recipe), request.own))  # a misspelt name is found before any work
    smaller = "take a smaller model (--recipe tiny), smaller training.batch_tokens or decoding.batch_tokens"
    reporter = RunReporter(request.run, console, peak_flops=peak_flops(device))
    with working_in(request.run, reporter, smaller=smaller):
        config, prepared = settle(request, reporter)
        reporter.finish()
        return Run(request.run, config, prepared, reporter, device).complete()


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
        self.guide: Guide | None = None
        self.validator = None
        if prepared.valid is not None:
            self.validator = Validator(prepared.valid, *self.tokenizers, config.training, config.decoding, device)

    def new_model(self) -> Translator:
        source, target = self.tokenizers
        model = build(self.config.translator, source.vocabulary_size, target.vocabulary_size)
        newest = Checkpoints(self.folder, keep=1, every=1).newest()
        if self.config.start_from is not None and newest is None:
            file = weights_file(Path(self.config.start_from))
            load_weights(model, read_weights(file), file=file)
        return model

    def complete(self) -> Outcome:
        """Learn until it is over, then choose the weights that stay."""
        self.explain()
        trainer = self.trainer()
        self.catch_up(trainer.checkpoints)
        progress = trainer.fit()
        reason = trainer.over() or "done"
        if read_metrics(self.folder).get("finished_step") != progress.step:
            with trainer.uncompiled():
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

    def objective(self) -> Objective:
        config = self.config.training
        objective = TranslationObjective(config.label_smoothing, config.consistency)
        if not config.guided_alignment:
            return objective
        from anaphora.training.guided import Guide, GuidedObjective

        self.guide = Guide(self.prepared.train, self.tokenizers, self.reporter.message)
        return GuidedObjective(
            objective,
            self.model,
            self.guide,
            weight=config.guided_alignment,
            layer=config.guided_layer,
            head=config.guided_head,
        )

    def trainer(self) -> Trainer:
        """The loop over this run's model, text and objective."""
        return Trainer(
            self.model,
            self.objective(),
            self.batches(),
            self.validator,
            self.config.training,
            self.folder,
            self.reporter,
            self.device,
            publish=self.publish,
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
            multiple=MULTIPLE if graphs_pay(config.training, self.device) else 1,
            max_length=config.translator.max_length,
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
        self.choose_alignment()
        self.card(progress, weights, scores, finished=True)

    def choose_alignment(self) -> None:
        """Which layer and head align words best, on held-out text, without gold: `alignment.json`."""
        from anaphora.decoding.alignment_method import choose_on, write_choice

        teacher = None if self.guide is None else self.guide.teacher
        choice = choose_on(
            self.model,
            self.tokenizers,
            self.prepared.train,
            self.prepared.valid,
            teacher=teacher,
            batch_tokens=self.config.training.batch_tokens,  # what is known to fit into memory
        )
        write_choice(self.folder, choice)
        self.reporter.message(f"alignments: {choice.method.source_of_weights}")

    def card(self, progress: Progress, weights: str, scores: dict[str, Any], *, finished: bool) -> None:
        write_card(
            self.folder,
            self.config,
            progress,
            self.prepared.manifest,
            weights=weights,
            scores=scores,
            parameters=self.model.parameter_count(),
            vocabularies={side: one.vocabulary_fingerprint() for side, one in self.prepared.tokenizers.items()},
            device=describe_device(self.device),
            finished=finished,
        )

    def explain(self) -> None:
        """What is about to happen, in three lines."""
        manifest, config = self.prepared.manifest, self.config
        train, valid = manifest["train"], manifest["valid"]
        kept_apart = "shared with the held-out part"
        apart = train["left_out"].get(kept_apart)
        odd = [f"left out {number:,} {why}" for why, number in train["left_out"].items() if why != kept_apart]
        odd += [described] if (described := describe_notes(manifest["tidied"])) else []
        say = self.reporter.message
        say(
            f"corpus: {train['rows']:,} pairs to learn from, {valid['rows']:,} to validate on"
            + (f"; left out: {apart:,} {kept_apart}" if apart else "")
        )
        if odd:
            say(f"warning: {', '.join(odd)}")
        size = "joint" if self.tokenizers[0] is self.tokenizers[1] else "source/target"
        vocabulary = "/".join(f"{t.vocabulary_size:,}" for t in dict.fromkeys(self.tokenizers))
        model = config.translator
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
    if config.model.kind in LANGUAGE_MODELS:
        raise UserError(
            "is a language model made by counting, and has no checkpoints",
            file=folder,
            cure="`anaphora mix` makes one model of several",
        )
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
        load_weights(run.model, averaged, file=chosen[-1])
        run.choose_alignment()
        newest = checkpoints.newest()
        assert newest is not None
        progress = checkpoints.read_progress(newest)
        steps = [step_of(path) for path in chosen]
        finished = read_metrics(folder).get("finished_step") is not None  # then `train` leaves this choice alone
        run.card(progress, f"the mean of the checkpoints {steps}", after or {}, finished=finished)
    return {"folder": str(folder), "averaged": steps, "before": before, "after": after}
