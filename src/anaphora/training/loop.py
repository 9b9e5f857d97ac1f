"""The loop that learns: every system of the house is trained by it, none copies it.

    repeat:  take the next batches → loss and gradients → one update → log
             at a checkpoint: validate → note the best → save everything → stop if patience is over

The order of the data is a pure function of (seed, epoch), so a place in it is two numbers; dropout follows torch's
generator, whose state is saved. So a run that was killed and started again does bit for bit what an unbroken one does
(on a CPU, with the same number of threads and without compilation).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from anaphora.data.batches import EpochBatches
from anaphora.device import keeping_freed_memory
from anaphora.errors import UserError
from anaphora.nn.mixture_of_experts import mixtures
from anaphora.nn.recurrence import RecurrentEncoder
from anaphora.results import count
from anaphora.training.averaging import DescentAverage, MovingAverage, WeightAverage
from anaphora.training.checkpoint import Checkpoints, NoCheckpoints, Progress
from anaphora.training.graphs import GraphedLearning, graphs_pay
from anaphora.training.interruption import Interrupted, interruptible
from anaphora.training.memory import try_largest
from anaphora.training.objectives.objective import Forward, Objective
from anaphora.training.optimizer import build_optimizer
from anaphora.training.schedule import SCHEDULES, learning_rate
from anaphora.training.training_settings import TrainingConfig
from anaphora.training.translation_validation import Validation, better


@dataclass
class Update:
    """What one update has to tell the reporter. Tensors: reading them waits for the device."""

    step: int
    loss: Tensor
    """Mean over the update's tokens, label smoothing included."""
    gradient_norm: Tensor
    learning_rate: float
    tokens: int
    metrics: dict[str, Any] = field(default_factory=dict)
    """What the objective has to add."""


class Reporter(Protocol):
    """Who is told how it goes (training/reporting.py has them)."""

    def start(self, progress: Progress, total: int | None, limit: float | None) -> None: ...
    def update(self, update: Update, progress: Progress) -> None: ...
    def validation(self, validation: Validation, progress: Progress, *, best: bool) -> None: ...
    def message(self, text: str) -> None: ...
    def finish(self) -> None: ...


class Trainer:
    """One run: model, data, optimizer and progress, and the loop over them."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        batches: EpochBatches[Any],
        validator: Callable[..., Validation] | None,
        config: TrainingConfig,
        folder: Path | None,
        reporter: Reporter,
        device: torch.device,
        publish: Callable[[Path, Progress], None],
    ) -> None:
        self.model = model.to(device)
        self.objective = objective
        self.batches = batches
        self.validator = validator
        self.config = config
        self.folder = folder
        self.reporter = reporter
        self.device = device
        self.publish = publish  # makes the checkpoint at that path the folder's model
        self.optimizer = build_optimizer(model, config)
        self.average = self.new_average()
        self.checkpoints: Checkpoints = NoCheckpoints()
        if folder is not None:
            self.checkpoints = Checkpoints(folder, keep=config.keep, every=config.checkpoint_every)
        self.progress = Progress()
        self.total = self.planned_steps()
        if SCHEDULES[config.schedule].ends and self.total is None and config.max_minutes is None:
            raise UserError(
                f"training.schedule={config.schedule} needs to know how long the run is",
                cure="set training.max_steps, training.epochs, training.max_tokens or training.max_minutes",
            )
        self.compiled = self.maybe_compile()
        self.forward: Forward = self.model
        self.graphs: GraphedLearning | None = None

    # What a run does -------------------------------------------------------------------------------------------------

    def fit(self) -> Progress:
        """Learn until a limit, early stopping or an interruption; then `progress` and the folder say how it went."""
        with interruptible(self.reporter.message) as asked:
            self.resume()
            if self.over() is None:
                self.probe()
                if graphs_pay(self.config, self.device):
                    self.graphs = GraphedLearning(
                        self.learn_by_kernels, self.model.parameters(), self.device, self.reporter.message
                    )
            if asked.is_set():
                raise Interrupted(self.progress.step)
            limit = 60 * self.config.max_minutes if self.config.max_minutes else None
            self.reporter.start(self.progress, self.total, limit)
            try:
                self.learn_until(asked)
            finally:
                self.reporter.finish()
        return self.progress

    def learn_until(self, asked: threading.Event) -> None:
        """Update after update, until it is over or somebody asks to stop; then save."""
        began, before = time.monotonic(), self.progress.seconds
        if self.config.objective != "likelihood" and self.checkpoints.newest() is None:
            self.checkpoint()  # what it starts from: the first that may be the best
        with keeping_freed_memory(self.device.type):
            self.model.train()
            while self.over() is None and not asked.is_set():
                update = self.update(self.take())
                self.progress.seconds = before + time.monotonic() - began
                self.watch(update)
                if self.progress.step % self.config.checkpoint_every == 0:
                    self.checkpoint()
            if self.progress.step and not self.checkpoints.has(self.progress.step):
                self.save() if asked.is_set() else self.checkpoint()  # the end fell between two checkpoints
        if asked.is_set():
            raise Interrupted(self.progress.step)

    def take(self) -> list[Any]:
        """The next batches of one update; an update may begin in one epoch and end in the next."""
        taken = []
        for _ in range(self.config.accumulate):
            batch, (self.progress.epoch, self.progress.index) = next(self.stream)
            taken.append(batch)
        return taken

    def update(self, batches: list[Any]) -> Update:
        """One step of the optimizer on the mean loss over all tokens of these batches."""
        progress, config = self.progress, self.config
        on_device = [self.objective.send(batch, self.device) for batch in batches]
        tokens = sum(batch.tokens for batch in on_device)
        progress.step += 1
        elapsed = progress.seconds / (60 * config.max_minutes) if config.max_minutes else 0.0
        rate = learning_rate(progress.step, config, self.total, elapsed)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        losses = [self.learn(batch, tokens) for batch in on_device]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.graphs is None)  # a graph adds to gradients where they are
        if self.average is not None:
            self.average.update(progress.step)
        progress.tokens += tokens
        progress.flops += 3 * sum(self.objective.flops(self.model, batch) for batch in on_device)
        return Update(progress.step, torch.stack(losses).sum(), norm, rate, tokens)

    def learn(self, batch: Any, tokens: int) -> Tensor:
        """Forward and backward; the gradient is that of the mean over `tokens`."""
        if self.graphs is not None:
            return self.graphs(batch, tokens)
        return self.learn_by_kernels(batch, tokens)

    def learn_by_kernels(self, batch: Any, tokens: int | Tensor) -> Tensor:
        with self.autocast():
            loss = self.objective(self.forward, batch) / tokens
        loss.backward()
        return loss.detach()

    def checkpoint(self) -> None:
        """Validate, note whether it is the best, save, publish the best as the folder's model."""
        progress = self.progress
        best = True  # without validation the newest is the best there is
        if self.validator is not None:
            validation = self.validate()
            if not math.isfinite(validation.metric("loss")):
                raise self.diverged(f"the validation loss became {validation.metric('loss')} at step {progress.step}")
            value = validation.metric(self.config.metric)
            best = better(self.config.metric, value, progress.best)
            progress.history.append({"step": progress.step, **validation.scores})
            if best:
                progress.best, progress.best_step, progress.stale = value, progress.step, 0
            elif progress.step % self.config.checkpoint_every == 0:  # the end of a run is no turn of patience
                progress.stale += 1
            self.reporter.validation(validation, progress, best=best)
            self.maybe_begin_average()
        saved = self.save()
        if best:
            self.publish(saved, progress)

    # Its parts -------------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        newest = self.checkpoints.newest()
        if newest is not None:
            restored = self.checkpoints.restore(newest, self.model, self.optimizer, self.average)
            self.progress, carried = restored
            self.objective.load_state_dict({name: tensor.to(self.device) for name, tensor in carried.items()})
        self.maybe_begin_average()
        if self.progress.metric != self.config.metric:  # a best loss is no best BLEU
            self.progress.best = self.progress.best_step = None
            self.progress.metric, self.progress.stale = self.config.metric, 0
        place = self.progress.epoch, self.progress.index
        self.stream = self.batches.from_position(*place, prefetch=self.batches.ahead)

    def save(self) -> Path:
        if not torch.stack([p.isfinite().all() for p in self.model.parameters()]).all():
            raise self.diverged(f"the weights became infinite or NaN at or before step {self.progress.step}")
        return self.checkpoints.save(
            self.model, self.optimizer, self.average, self.progress, self.objective.state_dict()
        )

    def validate(self) -> Validation:
        assert self.validator is not None
        averaged: AbstractContextManager[None] = nullcontext() if self.average is None else self.average.in_place()
        with averaged, self.uncompiled():
            return self.validator(self.model, autocast=self.autocast())

    def uncompiled(self) -> AbstractContextManager[Any]:
        """For validation: what is compiled is compiled for learning. (Asking torch costs a second, so not in vain.)"""
        return torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()

    def over(self) -> str | None:
        """Why there is nothing more to do, or None."""
        progress, config = self.progress, self.config
        if config.patience and progress.stale >= config.patience:
            checkpoints = "checkpoint" if progress.stale == 1 else "checkpoints"
            why = f"no better {config.metric} in {progress.stale} {checkpoints} (training.patience)"
            return f"stopped: {why}; best at step {progress.best_step}"
        if config.max_steps is not None and progress.step >= config.max_steps:
            return f"{count(progress.step, 'update')} done"
        if config.max_tokens is not None and progress.tokens >= config.max_tokens:
            return f"{count(progress.tokens, 'token')} seen (training.max_tokens)"
        if config.max_minutes is not None and progress.seconds >= 60 * config.max_minutes:
            minutes = f"{config.max_minutes:g} minute{'s' * (config.max_minutes != 1)}"
            return f"stopped after {minutes} (training.max_minutes)"
        if config.epochs is not None:
            whole = int(config.epochs)
            part = math.ceil((config.epochs - whole) * self.batches.count(whole)) if config.epochs > whole else 0
            if (progress.epoch, progress.index) >= (whole, part):
                return f"{config.epochs:g} epoch{'s' * (config.epochs != 1)} done"
        return None

    def planned_steps(self) -> int | None:
        """How many updates the limits allow, as far as that is known before starting."""
        tokens = self.batches.tokens_an_epoch(self.objective.side)
        batches = self.batches.count(self.config.bidirectional_epochs)  # an epoch of one direction
        return planned_steps(self.config, batches_an_epoch=batches, tokens_an_epoch=tokens)

    def new_average(self) -> WeightAverage | None:
        """The mean of weights over time that is validated and published, if there is to be one."""
        if self.config.optimizer == "asgd":
            if self.config.trigger and self.validator is None:
                raise UserError(
                    "training.optimizer=asgd averages once validation stops improving, and there is no validation",
                    cure="give validation text, or set training.trigger=0 to average from the start",
                )
            return DescentAverage(self.model)
        return MovingAverage(self.model, self.config.ema) if self.config.ema else None

    def maybe_begin_average(self) -> None:
        """Averaged descent: after some checkpoints without a new best, the weights circle round the best ones."""
        if not isinstance(self.average, DescentAverage):
            return
        progress = self.progress
        if progress.averaged_since is None and progress.stale >= self.config.trigger:
            progress.averaged_since, progress.stale = progress.step, 0
            self.reporter.message(f"averaging the weights from step {progress.step} on")
        self.average.since = progress.averaged_since

    def autocast(self) -> AbstractContextManager[None]:
        return autocast(self.device, self.config.precision)

    def maybe_compile(self) -> bool:
        """Compile each block of the model's stacks (torch.compile). Blocks of one kind share their code, so this takes
        seconds where compiling the whole model takes minutes; still, only a long run on a GPU wins it back."""
        wanted = self.config.compile
        pays = self.device.type == "cuda" and (self.total or 0) >= COMPILE_PAYS_FROM
        if wanted == "off" or (wanted == "auto" and not pays):
            return False
        for stack in (part for part in self.model.modules() if isinstance(part, nn.ModuleList)):
            for block in stack:
                kernels = isinstance(block, nn.RNNBase | RecurrentEncoder | nn.ModuleList)  # compiled already
                if not kernels and not mixtures(block):  # experts leave something behind for the objective
                    block.compile(dynamic=True)
        return True

    def probe(self) -> None:
        """The largest batch, forward and backward, before anything else."""

        def learn(batch: Any) -> None:
            on_device = self.objective.send(batch, self.device)
            try:
                self.learn(on_device, on_device.tokens)
            finally:
                self.optimizer.zero_grad(set_to_none=True)

        if (largest := self.batches.largest()) is None:
            return
        self.model.train()
        carried = {name: tensor.clone() for name, tensor in self.objective.state_dict().items()}
        try_largest(largest, learn, accumulate=self.config.accumulate)
        self.objective.load_state_dict(carried)

    def watch(self, update: Update) -> None:
        """Log, and stop at a loss that is no number any more: on a GPU that is looked at only when it is logged
        anyway."""
        at_checkpoint = update.step % self.config.checkpoint_every == 0
        logged = update.step % self.config.log_every == 0 or at_checkpoint
        if (logged or self.device.type == "cpu") and not (update.loss + update.gradient_norm).isfinite():
            what = "the gradient" if update.loss.isfinite() else "the loss"
            raise self.diverged(f"{what} became infinite or NaN at or before step {update.step}")
        if logged or update.step == 1:
            if logged:  # the first update alone says little of a mean: sentences of one length
                update.metrics = self.objective.metrics()
            self.reporter.update(update, self.progress)

    def diverged(self, what: str) -> UserError:
        """No checkpoint is ever written after this."""
        newest = self.checkpoints.newest()
        kept = f"the checkpoint {newest.name} is good" if newest else "no checkpoint was written yet"
        return UserError(
            f"{what}; {kept}",
            file=self.folder,
            cure=f"start another run with a lower training.learning_rate (now {self.config.learning_rate:g}), "
            f"a longer training.warmup_steps (now {self.config.warmup_steps}) or training.clip_norm=1",
        )


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """The arithmetic that `training.precision` asks for on a device."""
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


COMPILE_PAYS_FROM = 20_000
"""Updates; on one H200 it paid from about 14,000 on (docs/lab-notes.md, "Compiling blocks instead of the model")."""


def planned_steps(config: TrainingConfig, *, batches_an_epoch: float, tokens_an_epoch: float) -> int | None:
    """Updates until the first of the limits that can be counted in updates; None if there is none."""
    plans = [] if config.max_steps is None else [config.max_steps]
    if config.epochs is not None:
        passes = config.epochs + min(config.epochs, config.bidirectional_epochs)  # those read every pair twice
        plans.append(math.ceil(passes * batches_an_epoch / config.accumulate))
    if config.max_tokens is not None:
        plans.append(math.ceil(config.max_tokens / tokens_an_epoch * batches_an_epoch / config.accumulate))
    return min(plans, default=None)
