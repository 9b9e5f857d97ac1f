"""Train any model on any batches with the one loop (loop.py): `anaphora.fit`.

    history = anaphora.fit(model, batches, steps=200)
    history.losses[-1], history.seconds

A run of `anaphora train` has a corpus, a recipe and a folder; here the caller brings the model and the batches, and
whatever else a run has is there if it is asked for: a schedule, accumulation, an average of weights, validation,
patience, checkpoints, and with them exact resume by the same call again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn

from anaphora.arguments.given import path_of
from anaphora.arguments.signatures import spelled_out
from anaphora.config import build, unknown_setting
from anaphora.data.batches import EpochBatches, Position
from anaphora.device import choose_device, device_name
from anaphora.errors import UserError, shown
from anaphora.folder import WEIGHTS, RunLock, publish
from anaphora.results import brief
from anaphora.tokenizers.tokenizer import PAD
from anaphora.training.bars import console_for
from anaphora.training.checkpoint import Progress
from anaphora.training.interruption import Interrupted
from anaphora.training.loop import Trainer, Update
from anaphora.training.objectives.objective import StatelessObjective
from anaphora.training.reporting import RunReporter
from anaphora.training.schedule import ScheduleName
from anaphora.training.training_settings import TrainingConfig
from anaphora.training.translation_validation import Validation

if TYPE_CHECKING:
    from rich.console import Console

WARM, LONGEST_WARM_UP = 0.1, 400
"""The warm-up, unless it is given: that share of the updates, and so many at the most."""

Loss = Callable[[nn.Module, Any], Tensor]
Validate = Callable[[Any], float | Mapping[str, float]]


class FitOptions(TypedDict, total=False):
    """Settings of section `training` that mean something for any model (training_settings.py says what)."""

    optimizer: Literal["adam", "adamw", "sgd", "asgd"]
    learning_rate: float
    schedule: ScheduleName
    warmup_steps: int
    final_rate: float
    momentum: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip_norm: float
    accumulate: int
    ema: float
    precision: Literal["auto", "fp32", "bf16"]
    compile: Literal["auto", "on", "off"]
    seed: int
    max_minutes: float
    patience: int
    checkpoint_every: int
    keep: int
    log_every: int


@dataclass
class History:
    """How a training went."""

    steps: int = 0
    """Updates in all."""
    epochs: int = 0
    """Passes over the batches that were completed."""
    tokens: int = 0
    seconds: float = 0.0
    losses: list[tuple[int, float]] = field(default_factory=list)
    """(step, loss) of the updates that were logged by this call: the first, and each `log_every`-th."""
    validations: list[dict[str, Any]] = field(default_factory=list)
    """Of each checkpoint its step and what `validate` found."""
    best_step: int | None = None
    """Of the validation with the lowest loss."""
    folder: Path | None = None

    def __repr__(self) -> str:
        loss = f"loss {self.losses[-1][1]:.3f}" if self.losses else ""
        best = f"best at step {self.best_step:,}" if self.best_step is not None else ""
        return brief("History", None, f"{self.steps:,} updates", loss, best)


@spelled_out(FitOptions)
def fit(
    model: nn.Module,
    batches: Iterable[Any] | Callable[[int], Iterable[Any]] | EpochBatches[Any],
    *,
    steps: int | None = None,
    epochs: float | None = None,
    loss: Loss | None = None,
    validate: Validate | Iterable[Any] | None = None,
    folder: str | PathLike[str] | None = None,
    device: str = "auto",
    progress: bool | Console = True,
    **training: Unpack[FitOptions],
) -> History:
    """Train a model on batches, by the loop that `anaphora train` has.

        anaphora.fit(model, batches, steps=200, learning_rate=1e-3)
        anaphora.fit(model, loader, epochs=3, loss=lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))

    batches: a list, a DataLoader or anything else that can be read again for each epoch; a function of the epoch's
    number that gives them; or an iterator without an end. They are moved to the device and handed to the loss.
    loss: (model, batch) -> a mean, by default `model.loss(batch)`. steps, epochs: how long; one of them must be given.
    validate: batches whose mean loss is measured at each checkpoint, or a function of the model that gives a loss, or
    several numbers of which one is called loss. folder: checkpoints are kept there, the best weights are
    `model.safetensors`, and the same call again continues, exactly as if it had never stopped where batches are a list
    or a function. progress: as `anaphora.train` has it.

    Other keywords are settings of section `training`. By default AdamW at 1e-3 with a short warm-up and, where the end
    is known, a cosine. The model stays on the device, with the weights of the last update.
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"{shown.repr(model)} is no torch.nn.Module", cure="give a model, anaphora.models has some")
    if loss is None and not callable(getattr(model, "loss", None)):
        cure = "give loss=lambda model, batch: …, or the model a method loss(batch)"
        raise UserError(f"{type(model).__name__} has no method loss", cure=cure)
    place = None if folder is None else path_of(folder, "folder")
    given = batches if isinstance(batches, EpochBatches) else GivenBatches(batches)
    config = settled(given, steps, epochs, dict(training))
    objective = GivenObjective(loss or by_its_own)
    where = choose_device(device_name(device))
    reporter = Recorder(place, console_for(progress))
    if "seed" in training and (place is None or not (place / "checkpoints").exists()):
        torch.manual_seed(config.seed)
    mode = model.training
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
    with nullcontext() if place is None else RunLock(place):
        trainer = Trainer(
            model,
            objective,
            given,
            None if validate is None else validator_of(validate, objective, where),
            config,
            place,
            reporter,
            where,
            publish=lambda saved, _: None if place is None else publish(saved / WEIGHTS, place / WEIGHTS),
        )
        try:
            done = trainer.fit()
        except Interrupted as stopped:
            more = "" if place is None else "; the same call continues"
            raise KeyboardInterrupt(f"stopped after step {stopped.step}{more}") from None
        finally:
            model.train(mode)
    return History(
        steps=done.step,
        epochs=done.epoch,
        tokens=done.tokens,
        seconds=done.seconds,
        losses=reporter.losses,
        validations=done.history,
        best_step=done.best_step,
        folder=place,
    )


def by_its_own(model: nn.Module, batch: Any) -> Tensor:
    """The loss that the model says itself."""
    found: Tensor = model.loss(batch)  # type: ignore[operator]
    return found


def settled(batches: Any, steps: int | None, epochs: float | None, given: dict[str, Any]) -> TrainingConfig:
    """Section `training` of a call of `fit`: what was said, and defaults for a run of that length."""
    if steps is None and epochs is None and "max_minutes" not in given:
        raise UserError("nothing says when to stop", cure="give steps=1000 or epochs=3, say")
    for name in given:
        if name not in FitOptions.__annotations__:
            raise unknown_setting(name, [*FitOptions.__annotations__, "steps", "epochs"], section="training")
    plans = [steps] if steps is not None else []
    if epochs is not None:
        if getattr(batches, "endless", False):
            raise UserError("batches have no end, so there are no epochs", cure="give steps=…, or a list of batches")
        plans.append(math.ceil(epochs * batches.count(0) / int(given.get("accumulate", 1))))
    usual: dict[str, Any] = {"compile": "off", "cuda_graphs": "off", "average": 1}
    if plans:  # the end is known
        often = {"log_every": max(1, min(50, min(plans) // 20)), "checkpoint_every": max(1, min(500, min(plans) // 10))}
        warm = min(LONGEST_WARM_UP, round(WARM * min(plans)))
        usual |= {"schedule": "cosine", "warmup_steps": warm, **often}
    return build(TrainingConfig, {**usual, **given, "max_steps": steps, "epochs": epochs}, section="training")


class GivenBatches(EpochBatches[Any]):
    """Batches of the caller's, by epoch and index.

    A list and a function of the epoch are read at any place. What can only be read from its beginning (a DataLoader) is
    read again for each epoch, and up to the place where a run goes on; an iterator is read once.
    """

    def __init__(self, given: Iterable[Any] | Callable[[int], Iterable[Any]]) -> None:
        if isinstance(given, str) or not (callable(given) or isinstance(given, Iterable)):
            raise UserError(f"batches are {shown.repr(given)}", cure="give a list, a DataLoader, or a function")
        self.given = given
        self.endless = isinstance(given, Iterator)
        self.known: tuple[int, Sequence[Any]] = (-1, ())
        if not callable(given) and isinstance(given, Sized) and not len(given):
            raise UserError("there are no batches", cure="give at least one")

    def epoch(self, epoch: int) -> Sequence[Any]:
        """All batches of an epoch, of what can be read at any place."""
        if self.known[0] != epoch:
            found = self.given(epoch) if callable(self.given) else self.given
            self.known = epoch, found if isinstance(found, Sequence) else list(found)
            if not len(self.known[1]):
                raise UserError(f"epoch {epoch} has no batches", cure="give at least one")
        return self.known[1]

    def count(self, epoch: int) -> int:
        if self.endless:
            return sys.maxsize
        if callable(self.given) or not isinstance(self.given, Sized):
            return len(self.epoch(epoch))
        return len(self.given)

    def batch(self, epoch: int, index: int) -> Any:
        return self.epoch(epoch)[index]

    def largest(self) -> None:
        """Nothing is known of how much memory which takes."""

    def tokens_an_epoch(self, side: str) -> int:
        return self.count(0)

    def from_position(self, epoch: int, index: int, *, prefetch: bool = False) -> Iterator[tuple[Any, Position]]:
        if self.endless:
            for place, batch in enumerate(self.given):  # type: ignore[arg-type]
                yield batch, (0, index + place + 1)
            raise UserError("batches have come to their end before the last step", cure="give a list, or fewer steps")
        if callable(self.given) or isinstance(self.given, Sequence) or not isinstance(self.given, Sized):
            yield from super().from_position(epoch, index)
        while True:  # a loader
            count = self.count(epoch)
            if (sampler := getattr(self.given, "sampler", None)) is not None and hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            for place, batch in enumerate(iter(self.given)):  # type: ignore[arg-type]
                if place >= index:
                    yield batch, (epoch, place + 1) if place + 1 < count else (epoch + 1, 0)
            epoch, index = epoch + 1, 0


@dataclass
class Sent:
    """A batch on the device."""

    batch: Any
    tokens: int
    """What its loss is a mean over, about: ids that are no padding, or rows."""


class GivenObjective(StatelessObjective):
    """A loss of the caller's, which is a mean: batches of one update count by their tokens."""

    side = "batch"

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def send(self, batch: Any, device: torch.device) -> Sent:
        return Sent(moved(batch, device), tokens_of(batch))

    def __call__(self, forward: Any, batch: Sent) -> Tensor:
        loss = self.loss(forward, batch.batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise UserError(f"the loss is {shown.repr(loss)}", cure="return one number, a tensor with its gradient")
        return loss.reshape(()) * batch.tokens

    def flops(self, model: Any, batch: Any) -> float:
        return 0.0


def tensors_in(batch: Any) -> Iterator[Tensor]:
    """Every tensor of a batch, however it is put together."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from tensors_in(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from tensors_in(value)


def moved(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on the device."""
    if isinstance(batch, Tensor) or hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(value, device) for value in batch))
    return type(batch)(moved(value, device) for value in batch) if isinstance(batch, list | tuple) else batch


def tokens_of(batch: Any) -> int:
    """Ids of its last tensor of ids that are no padding; rows, where there are none."""
    tensors = list(tensors_in(batch))
    ids = [tensor for tensor in tensors if tensor.dim() > 1 and not tensor.is_floating_point()]
    count = int((ids[-1] != PAD).sum()) if ids else max((len(tensor) for tensor in tensors if tensor.dim()), default=1)
    return max(1, count)


def validator_of(
    validate: Validate | Iterable[Any], objective: GivenObjective, device: torch.device
) -> Callable[..., Validation]:
    """Measures the model, without dropout and gradients, and leaves torch's generator as it was."""
    function = validate if callable(validate) else None
    held_out = [] if callable(validate) else list(validate)
    if function is None and not held_out:
        raise UserError("there are no batches to validate on", cure="give at least one, or leave validate out")

    def measure(model: nn.Module, *, autocast: AbstractContextManager[None] | None = None) -> Validation:
        training, random = model.training, torch.get_rng_state()
        model.eval()
        try:
            with torch.no_grad(), autocast or nullcontext():
                if function is not None:
                    found = function(model)
                else:
                    sent = [objective.send(batch, device) for batch in held_out]
                    total = sum(float(objective(model, batch)) for batch in sent)
                    found = total / sum(batch.tokens for batch in sent)
        finally:
            model.train(training)
            torch.set_rng_state(random)
        scores = dict(found) if isinstance(found, Mapping) else {"loss": float(found)}
        if "loss" not in scores:
            raise UserError(f"validate gives {shown.repr(scores)}", cure="return a number, or a dictionary with `loss`")
        return Validation(scores)

    return measure


class Recorder(RunReporter):
    """Tells what training tells, and remembers the losses."""

    def __init__(self, folder: Path | None, console: Console | None) -> None:
        super().__init__(folder, console)
        self.losses: list[tuple[int, float]] = []

    def update(self, update: Update, progress: Progress) -> None:
        self.losses.append((update.step, update.loss.item()))
        super().update(update, progress)
