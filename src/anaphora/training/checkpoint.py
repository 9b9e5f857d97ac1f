"""The whole state of a run, saved so that it can be restored exactly.

A checkpoint is a folder `checkpoints/step-00000500`:

    model.safetensors      the weights to use (the moving average, where there is one)
    training.safetensors   live weights (where they differ), optimizer moments, random generators, and what the
                           objective carries from batch to batch (the state of a recurrent model)
    progress.json          step, place in the data, best score, patience, history

It is written under another name and renamed when complete. Tied tables are stored once: safetensors holds no two names
of one memory, and `load_weights` gives both names the same table again.

What stays: the newest `keep` checkpoints made on schedule, the best one, and the newest of all (a Ctrl-C makes one off
schedule; it goes when the next one comes, and never enters an average).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.files.foreign import read_json
from anaphora.folder import CHECKPOINTS, WEIGHTS, atomic_folder, discard, readable
from anaphora.models.weights import load_weights, model_weights, read_weights, store_tensors
from anaphora.training.averaging import WeightAverage

STATE, PROGRESS = "training.safetensors", "progress.json"


@dataclass
class Progress:
    """Where a run stands; everything in it that is not a tensor."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    """The next batch of that epoch."""
    tokens: int = 0
    """Tokens learned from."""
    seconds: float = 0.0
    """Training time of all sessions, validation included."""
    flops: float = 0.0
    metric: str | None = None
    """What `best` is a value of."""
    best: float | None = None
    best_step: int | None = None
    stale: int = 0
    """Checkpoints since the best one."""
    averaged_since: int | None = None
    """The update after which averaged descent began to average."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry a validation."""


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, folder: Path, *, keep: int, every: int) -> None:
        self.folder = folder / CHECKPOINTS
        self.keep = keep
        self.every = every

    def all(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.folder.glob("step-*"))

    def scheduled(self) -> list[Path]:
        return [path for path in self.all() if step_of(path) % self.every == 0]

    def newest(self) -> Path | None:
        return next(reversed(self.all()), None)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def save(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        average: WeightAverage | None,
        progress: Progress,
        carried: Mapping[str, Tensor] | None = None,
    ) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(progress.step)
        state = _optimizer_tensors(model, optimizer)
        state |= {f"carried.{name}": tensor for name, tensor in (carried or {}).items()}
        state["random.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            state["random.cuda"] = torch.cuda.get_rng_state()
        live = model_weights(model)
        if average is not None:
            state |= {f"live.{name}": tensor for name, tensor in live.items()}
        with atomic_folder(path) as temporary:
            store_tensors(temporary / WEIGHTS, live if average is None else live | average.mean)
            store_tensors(temporary / STATE, {name: tensor.contiguous() for name, tensor in state.items()})
            for name in (WEIGHTS, STATE):
                readable(temporary / name)
            (temporary / PROGRESS).write_text(json.dumps(asdict(progress), indent=2), encoding="utf-8")
        self.prune(progress)
        return path

    def has(self, step: int) -> bool:
        """Whether that step was saved."""
        return self.path(step).exists()

    def prune(self, progress: Progress) -> None:
        """Delete what the rule at the top of this file does not keep."""
        stay = {*self.scheduled()[-self.keep :], self.path(progress.step)}
        if progress.best_step is not None:
            stay.add(self.path(progress.best_step))
        for path in self.all():
            if path not in stay:
                discard(path)

    def restore(
        self, path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage | None
    ) -> tuple[Progress, dict[str, Tensor]]:
        """Make everything as it was when `path` was saved, the random generators last; what the objective carried is
        handed over."""
        weights, state = self.read(path), self.read(path, STATE)
        live = {name.removeprefix("live."): tensor for name, tensor in state.items() if name.startswith("live.")}
        load_weights(model, live or weights, file=path / WEIGHTS)
        if average is not None:
            for name, tensor in average.mean.items():
                tensor.copy_(weights[name])
        _restore_optimizer(model, optimizer, state)
        torch.set_rng_state(state["random.cpu"])
        if "random.cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["random.cuda"])
        carried = {name.removeprefix("carried."): t for name, t in state.items() if name.startswith("carried.")}
        return self.read_progress(path), carried

    def read(self, path: Path, name: str = WEIGHTS) -> dict[str, Tensor]:
        """The tensors of one of a checkpoint's files; what is damaged is named, with what to do about it."""
        try:
            return read_weights(path / name)
        except UserError as error:
            raise UserError(error.what, file=path / name, cure=self.without(path)) from None

    def sound(self, paths: Sequence[Path]) -> tuple[list[Path], list[UserError]]:
        """Those whose weights can be read, and what is wrong with the others."""
        good, damaged = [], []
        for path in paths:
            try:
                self.read(path)
                good.append(path)
            except UserError as error:
                damaged.append(error)
        return good, damaged

    def read_progress(self, path: Path) -> Progress:
        """What another version wrote and this one does not know is left aside; what is missing has its default."""
        known = {entry.name for entry in fields(Progress)}
        try:
            stored = read_json(path / PROGRESS)
            progress = Progress(**{name: value for name, value in stored.items() if name in known})
            if progress.step != step_of(path) or not isinstance(progress.history, list):
                raise ValueError(f"step {progress.step!r} in {path.name}")
            return progress
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise UserError(f"cannot be read ({error})", file=path / PROGRESS, cure=self.without(path)) from None

    def without(self, path: Path) -> str:
        """What becomes of a run when a damaged checkpoint is deleted."""
        before = [other for other in self.all() if other < path]
        if path != self.newest():
            then = "no other checkpoint needs it"
        else:
            then = f"the run goes on from {before[-1].name}" if before else "the run begins anew"
        return f"delete the folder {path.parent.name}/{path.name} and repeat the command: {then}"


class NoCheckpoints(Checkpoints):
    """Of a training without a folder: nothing is kept but which step came last."""

    def __init__(self) -> None:
        super().__init__(Path(), keep=1, every=1)
        self.last: int | None = None

    def all(self) -> list[Path]:
        return []

    def has(self, step: int) -> bool:
        return step == self.last

    def save(self, model: nn.Module, optimizer: Any, average: Any, progress: Progress, carried: Any = None) -> Path:
        self.last = progress.step
        return self.path(progress.step)


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """{"optimiser.exp_avg.encoder.…": tensor}: named by parameter, so that no order has to be trusted."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"optimiser.{key}.{names[parameter]}": tensor
        for parameter, entries in optimizer.state.items()
        for key, tensor in entries.items()
        if tensor is not None  # plain descent remembers nothing
    }


def _restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for name, tensor in state.items():
        if name.startswith("optimiser."):
            key, _, parameter = name.removeprefix("optimiser.").partition(".")
            where = parameters[parameter]
            optimizer.state[where][key] = tensor.clone().to(where.device)
