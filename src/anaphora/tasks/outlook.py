"""What a run will cost, said before the first update where that is much for its text, its machine, or for anyone.

Time is the operations of an update over the speed of plain matrix products, measured in a moment: a guess within a
factor of two or so. Nothing that is found here changes what is learned.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import torch

from anaphora.errors import UserError
from anaphora.training.reporting import duration, short
from anaphora.training.training_settings import TrainingConfig

SLOW_UPDATE_SECONDS, LONG_RUN_SECONDS = 10.0, 2 * 3600.0
"""Seconds of an update, and of all of them, from which on they are worth a word."""
LARGE_PARAMETERS, MAX_PARAMETERS_PER_TOKEN = 20_000_000, 100
"""Parameters that are many, and how many for each token of the text are out of proportion."""
REPEATED = ("layers", "decoder_layers", "experts")
"""Settings of a model that repeat parts of it."""
MANY_REPEATS, FEW_REPEATS, MORE_REPEATS = 64, 8, 12
"""Repetitions that take long to build, and those whose parameters tell what many will have."""
SHAPES = {"gpt2": "GPT-2", "bert": "BERT"}
"""Recipes that are called as pretrained models are."""


def weights_and_moments(config: TrainingConfig) -> int:
    """Numbers that are stored for each parameter: its weight, what the optimizer keeps, the moving average."""
    kept = 2 if config.optimizer.startswith("adam") else int(config.momentum > 0)
    return 1 + kept + int(config.ema > 0 or config.optimizer == "asgd")


# -- before the model is built -----------------------------------------------------------------------------------------


def check_repetitions(
    model: Any,
    parameters: Callable[[Any], int],
    config: TrainingConfig,
    device: torch.device,
    message: Callable[[str], None],
) -> None:
    """Hundreds of layers or experts are announced, or refused where memory cannot hold them: building them alone may
    take minutes. parameters: of a model of such settings."""
    many = repetitions(model)
    if not many:
        return
    try:
        total = estimated_parameters(model, many, parameters)
    except (ValueError, RuntimeError, UserError):  # settings that go together only as they are
        return
    needed, there = 4 * total * (weights_and_moments(config) + 1), memory_of(device)
    spoken = " and ".join(f"model.{name}={size:,}" for name, size in many.items())
    if there is not None and needed > there:
        raise UserError(
            f"{spoken} makes {short(total)} parameters, and learning them takes at least {needed / 1e9:.3g} GB of "
            f"memory; {there / 1e9:.3g} GB are free",
            cure="take fewer, or a smaller model.dim",
        )
    message(f"note: {spoken} makes about {short(total)} parameters; building such a model takes a while")


def repetitions(model: Any) -> dict[str, int]:
    """The settings that repeat a part more often than is usual."""
    sizes = {name: getattr(model, name, None) for name in REPEATED}
    return {name: size for name, size in sizes.items() if isinstance(size, int) and size > MANY_REPEATS}


def estimated_parameters(model: Any, many: dict[str, int], parameters: Callable[[Any], int]) -> int:
    """Of a model with many repetitions, from those of small ones: each more adds as much as the one before."""
    few = dict.fromkeys(many, FEW_REPEATS)
    base = total = parameters(dataclasses.replace(model, **few))
    for name, size in many.items():
        added = parameters(dataclasses.replace(model, **{**few, name: MORE_REPEATS})) - base
        deep = many.get("layers", FEW_REPEATS) / FEW_REPEATS if name == "experts" else 1.0  # every layer has its own
        total += round(added / (MORE_REPEATS - FEW_REPEATS) * (size - FEW_REPEATS) * deep)
    return total


def memory_of(device: torch.device) -> int | None:
    """Bytes that are free on the device; None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with suppress(OSError, StopIteration, ValueError, IndexError):  # other systems than Linux
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            available = next(line for line in lines if line.startswith("MemAvailable:"))
        return 1024 * int(available.split()[1])
    return None


# -- before the first update -------------------------------------------------------------------------------------------


def warnings(
    *,
    recipe: str,
    parameters: int,
    tokens: int,
    updates: int | None,
    operations: float,
    config: TrainingConfig,
    speed: Callable[[], float],
) -> list[str]:
    """What a person should know of a run. tokens: of the text; operations: of an update; speed: of matrix products."""
    said = []
    if recipe in SHAPES:
        said.append(f"note: {recipe} is the shape of {SHAPES[recipe]}, trained from scratch; it is not pretrained")
    lopsided = parameters >= LARGE_PARAMETERS and parameters > MAX_PARAMETERS_PER_TOKEN * tokens
    each = operations / speed() if operations > 1e10 else 0.0
    total = 0.0 if updates is None else each * updates
    if config.max_minutes is not None:
        total = min(total, 60 * config.max_minutes)
    if lopsided:
        said.append(
            f"warning: {short(parameters)} parameters for {short(tokens)} tokens of text: far more than it can teach"
        )
    if lopsided or each > SLOW_UPDATE_SECONDS or total > LONG_RUN_SECONDS:
        kept = config.keep + 2
        if updates is not None:
            kept = min(kept, math.ceil(updates / config.checkpoint_every))
        size = 4 * parameters * weights_and_moments(config) * kept
        whole = (
            f", all {updates:,} about {duration(total)}" if updates is not None and total > SLOW_UPDATE_SECONDS else ""
        )
        said.append(
            f"warning: an update takes about {duration(each)} here ({operations:.1e} operations){whole}; "
            f"the folder grows to about {size / 1e9:.1f} GB"
        )
        said.append(
            "to make it smaller: a recipe that is sized to the text (`anaphora train --help`), model.layers, "
            "model.dim; for less memory training.batch_tokens"
        )
    return said


def matrix_speed(device: torch.device, autocast: AbstractContextManager[None]) -> float:
    """Operations a second of plain matrix products: the quickest of a few, as others may be using the machine."""
    size, times = 4096 if device.type == "cuda" else 768, []
    matrix = torch.ones(size, size, device=device)
    with torch.no_grad(), autocast:
        for _ in range(5):
            began = time.perf_counter()
            (matrix @ matrix)[0, 0].item()
            times.append(time.perf_counter() - began)
    return 2 * size**3 / max(min(times), 1e-9)
