"""What every run that learns has in common, from a fresh model to the weights that stay.

    model → loop → (at every checkpoint: the best so far becomes the folder's model) → average → measure → card

A kind of run derives from `LearningRun` and says what its model, its objective, its batches and its validation are
(translation_run.py: translators; language_run.py: language models). The loop itself is in loop.py.
"""

from __future__ import annotations

import dataclasses
import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anaphora.data.batches import EpochBatches
from anaphora.device import describe_device
from anaphora.errors import UserError, option
from anaphora.folder import WEIGHTS, RunLock, publish, read_metrics, weights_file
from anaphora.models.weights import load_weights, read_weights, write_weights
from anaphora.results import count
from anaphora.tasks.outlook import check_repetitions, matrix_speed, warnings
from anaphora.tasks.published_scores import forget_published, keep_published
from anaphora.tasks.recipes import RunConfig
from anaphora.tasks.request import Average, Outcome
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.training.averaging import average_weights
from anaphora.training.checkpoint import Checkpoints, Progress, step_of
from anaphora.training.loop import Trainer, autocast
from anaphora.training.objectives.objective import Objective
from anaphora.training.reporting import RunReporter
from anaphora.training.translation_validation import Measure, better


class LearningRun:
    """A settled run: text and settings are fixed, now it learns."""

    validator: Measure | None = None
    """Measures the model on text that it does not learn from, if there is any."""

    def __init__(self, folder: Path, config: RunConfig, reporter: RunReporter, device: torch.device) -> None:
        self.folder, self.config = folder, config
        self.reporter, self.device = reporter, device
        torch.manual_seed(config.training.seed)
        self.model: Any = self.new_model()

    # What a kind of run says -----------------------------------------------------------------------------------------

    def build(self) -> nn.Module:
        """The model, with fresh weights from torch's generator."""
        raise NotImplementedError

    def begin_from(self, folder: Path) -> None:
        """Give the model the weights of another one."""
        file = weights_file(folder)
        load_weights(self.model, read_weights(file), file=file)

    def tables(self) -> dict[str, tuple[nn.Embedding, Tokenizer]]:
        """The tables of words, and what tells which row is whose."""
        raise NotImplementedError

    def objective(self) -> Objective:
        raise NotImplementedError

    def batches(self) -> EpochBatches[Any]:
        raise NotImplementedError

    def explain(self) -> None:
        """What is about to happen, in three lines."""
        raise NotImplementedError

    def measure(self, autocast: AbstractContextManager[None]) -> dict[str, Any]:
        """How good the final model is, measured with care; only where there is a validator."""
        raise NotImplementedError

    def look_back(self) -> None:
        """What else is to be found out about the final weights."""

    def card(self, progress: Progress, weights: str, scores: dict[str, Any], *, finished: bool) -> None:
        """metrics.json and card.md, whenever other weights become the folder's model."""
        raise NotImplementedError

    # What all of them do ---------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        if self.newest() is None:
            training, message = self.config.training, self.reporter.message
            check_repetitions(self.config.model, self.parameters_with, training, self.device, message)
        self.model = self.build()
        if self.newest() is None:
            vectors = getattr(self.config.model, "embedding_from", None)
            if self.config.start_from is not None:
                self.begin_from(Path(self.config.start_from))
            elif vectors is not None:
                self.begin_with_vectors(vectors)
        return self.model

    def parameters_with(self, model: Any) -> int:
        """How many a model of these settings would have, which is not really made."""
        own = self.config
        try:
            self.config = dataclasses.replace(own, model=model)
            with torch.random.fork_rng([]), torch.device("meta"):
                return sum(parameter.numel() for parameter in self.build().parameters())
        finally:
            self.config = own

    def forewarn(self, trainer: Trainer) -> None:
        """Before the first update: what it will cost, where that is much."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            batch = trainer.objective.send(trainer.batches.largest(), self.device)
        said = warnings(
            recipe=self.config.recipe,
            parameters=self.model.parameter_count(),
            tokens=trainer.batches.tokens_an_epoch(trainer.objective.side),
            updates=trainer.total,
            operations=3 * self.config.training.accumulate * trainer.objective.flops(self.model, batch),
            config=self.config.training,
            speed=lambda: matrix_speed(self.device, trainer.autocast()),
        )
        for line in said:
            self.reporter.message(line)

    def begin_with_vectors(self, name: str) -> None:
        """Give the words of the model's tables vectors that were learned before."""
        from anaphora.tasks.initial_vectors import fill_table, read_initial_vectors

        vectors = read_initial_vectors(name, self.config.model.dim)  # type: ignore[union-attr]
        filled = {side: fill_table(table, tokenizer, vectors) for side, (table, tokenizer) in self.tables().items()}
        said = "; ".join(f"{side} {share}" if len(filled) > 1 else str(share) for side, share in filled.items())
        if not any(share.found for share in filled.values()):
            cure = "give vectors of the same language, cut into words and cased as the tokenizer does (kind: word)"
            raise UserError("has a vector for none of the model's words", file=name, cure=cure)
        self.reporter.message(f"vectors of {name}: {said} begin with them")

    def newest(self) -> Path | None:
        """The checkpoint that the run goes on from."""
        return Checkpoints(self.folder, keep=1, every=1).newest()

    def where(self) -> str:
        newest = self.newest()
        going = f"continuing from {newest.name}" if newest else "starting"
        return f"{going} on {describe_device(self.device)}, in {self.folder}"

    def complete(self) -> Outcome:
        """Learn until it is over, then choose the weights that stay."""
        self.explain()
        trainer = self.trainer()
        if self.newest() is None and self.config.training.objective == "likelihood":
            self.forewarn(trainer)
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
            kind=self.config.model.kind,
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

    def publish(self, checkpoint: Path, progress: Progress) -> None:
        """Make a checkpoint's weights the folder's model."""
        publish(checkpoint / WEIGHTS, self.folder / WEIGHTS)
        forget_published(self.folder)
        scores = dict(progress.history[-1]) if progress.history else {}
        self.card(progress, f"those of step {progress.step}", scores, finished=False)

    def catch_up(self, checkpoints: Checkpoints) -> None:
        """A process killed after saving a best checkpoint and before publishing it: publish it now."""
        newest = checkpoints.newest()
        progress = checkpoints.read_progress(newest) if newest is not None else Progress()
        if progress.best_step is None or not (best := checkpoints.path(progress.best_step)).exists():
            return
        if (read_metrics(self.folder).get("step") or 0) < progress.best_step:
            self.publish(best, progress)

    def finish(self, trainer: Trainer, progress: Progress) -> None:
        """Average the last checkpoints, keep the average if it is better on the validation text, measure what stays."""
        config, checkpoints = self.config.training, trainer.checkpoints
        best, value_of_best, weights = self.best(checkpoints, progress)
        publish(best / WEIGHTS, self.folder / WEIGHTS)
        last = checkpoints.scheduled()[-config.average :]
        if len(last) > 1 and self.validator is not None and config.average > 1:
            last, damaged = checkpoints.sound(last)
            left_out = self.leave_out(damaged)
        if len(last) > 1 and self.validator is not None and config.average > 1:
            averaged = average_weights(last)
            load_weights(self.model, averaged, file=last[-1])
            value = self.validator(self.model, autocast=trainer.autocast()).metric(config.metric)
            kept = better(config.metric, value, value_of_best)
            single = "none" if value_of_best is None else f"{value_of_best:.3f}"
            outcome = "kept" if kept else "not kept"
            self.reporter.message(
                f"average of the last {len(last)} checkpoints: {config.metric} {value:.3f}, best single {single}: "
                f"{outcome}"
            )
            if kept:
                weights = f"the mean of the last {len(last)} checkpoints, up to step {step_of(last[-1])}{left_out}"
                write_weights(self.folder / WEIGHTS, averaged)
        load_weights(self.model, read_weights(self.folder / WEIGHTS), file=self.folder / WEIGHTS)
        self.look_back()  # what it finds may be a part of what is measured
        scores: dict[str, Any] = {}
        if self.validator is not None:
            self.reporter.message("measuring the final model on the validation text …")
            scores = self.measure(trainer.autocast())
        self.card(progress, weights, scores, finished=True)
        forget_published(self.folder)

    def best(self, checkpoints: Checkpoints, progress: Progress) -> tuple[Path, float | None, str]:
        """The best checkpoint, its value, and a name for its weights. One that is damaged, or was deleted for that,
        leaves its place to the best of those that are there."""
        metric = self.config.training.metric
        first = progress.step if progress.best_step is None else progress.best_step
        values = {entry.get("step"): entry[metric] for entry in progress.history if metric in entry}
        there = {step_of(path): path for path in checkpoints.all()}
        others = [step for step in there if step != first and step in values]
        others.sort(key=values.__getitem__, reverse=metric != "loss")
        for step in (first, *others):
            if step in there:
                good, damaged = checkpoints.sound([there[step]])
                self.leave_out(damaged)
                if good:
                    found = f"those of step {step}"
                    if step != first:
                        found += f", the best that is left: the checkpoint of step {first} is damaged or missing"
                        self.reporter.message(f"note: the weights are {found}")
                    return there[step], progress.best if step == first else values[step], found
        raise UserError("has no checkpoint that can be read", file=checkpoints.folder, cure="train again, elsewhere")

    def leave_out(self, damaged: list[UserError]) -> str:
        """Name the checkpoints that are damaged; what is to be said of an average without them."""
        for error in damaged:
            self.reporter.message(f"warning: {error}; it is left out")
        steps = [str(step_of(Path(str(error.file)).parent)) for error in damaged]
        return f" (left out, damaged: step {', '.join(steps)})" if steps else ""

    def average(self, last: int | None, *, force: bool = False) -> Average:
        """Publish the mean of the last checkpoints, unless it is worse than what is there; say how they compare."""
        config = self.config.training
        with RunLock(self.folder):
            checkpoints = Checkpoints(self.folder, keep=config.keep, every=config.checkpoint_every)
            there = checkpoints.scheduled() or checkpoints.all()
            chosen = there[-(last or 5) :]
            if len(chosen) < (last or 1):
                raise UserError(
                    f"has only {count(len(chosen), 'checkpoint')} to average, not {last or 1}",
                    file=self.folder,
                    cure=f"use {option('last', len(chosen))}, or train with training.keep={last}"
                    if chosen
                    else "train it first",
                )
            self.model.to(self.device)
            averaged = average_weights(chosen, checkpoints.read)
            steps = [step_of(path) for path in chosen]
            found: dict[str, Any] = {"folder": str(self.folder), "averaged": steps, "before": None, "after": None}
            file = weights_file(self.folder)
            if self.validator is not None:
                for when, weights in (("before", read_weights(file)), ("after", averaged)):
                    load_weights(self.model, weights, file=file)
                    found[when] = self.measure(autocast(self.device, config.precision))
                worse = better(
                    config.metric, *(found[when].get(config.metric, math.nan) for when in ("before", "after"))
                )
                if worse and not force:
                    return Average({**found, "kept": False, "metric": config.metric})
            keep_published(self.folder)
            write_weights(self.folder / WEIGHTS, averaged)
            load_weights(self.model, averaged, file=file)
            self.look_back()
            newest = checkpoints.newest()
            assert newest is not None
            # where it is finished, `train` leaves this choice alone
            finished = read_metrics(self.folder).get("finished_step") is not None
            progress = checkpoints.read_progress(newest)
            mean = f"the mean of the checkpoints of steps {', '.join(map(str, steps))}"
            self.card(progress, mean, found["after"] or {}, finished=finished)
        return Average({**found, "kept": True, "metric": config.metric})
