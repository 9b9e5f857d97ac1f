"""Weights on disk: safetensors, each memory once, checked bit by bit, name by name and shape by shape when read."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.files.foreign import open_file
from anaphora.files.seal import METADATA, check_seal, seal
from anaphora.folder import check_name, write_bytes

PRECISIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""What weights may be stored as."""
ONE_MODEL = "use the files of one and the same model"
SPARE_NUMBERS, SPARE_TENSORS = 1_000_000, 100
"""By how much a model may be larger than its weights while it is built; tables that are tied later are made twice."""


def model_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each memory once."""
    seen: set[int] = set()
    weights = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen or tensor.numel() == 0:
            seen.add(tensor.data_ptr())
            weights[name] = tensor.detach().contiguous()
    return weights


@contextmanager
def no_larger_than(weights: Mapping[str, Tensor], file: Path) -> Iterator[None]:
    """While a model is built that is to hold these weights: end it as soon as it has far more numbers than there are.

    A config.yaml may ask for a model of any size; what its weights are is known before the memory is asked for."""
    room = 4 * sum(tensor.numel() for tensor in weights.values()) + SPARE_NUMBERS
    tensors = 4 * len(weights) + SPARE_TENSORS
    thread = threading.get_ident()

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal room, tensors
        if threading.get_ident() != thread:  # somebody else's model
            return
        room, tensors = room - parameter.numel(), tensors - 1
        if room < 0 or tensors < 0:
            raise UserError(
                "does not fit its config.yaml, which describes a far larger model", file=file, cure=ONE_MODEL
            )

    hook = nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def load_weights(model: nn.Module, weights: dict[str, Tensor], *, file: Path) -> None:
    """Put stored weights into a model; a name missing because it is tied to another is no mistake."""
    expected, stored = model_weights(model), set(weights)
    if stored != set(expected):
        odd = sorted(stored ^ set(expected))[:3]
        raise UserError(
            f"does not fit its config.yaml ({', '.join(odd)}, …)",
            file=file,
            cure=ONE_MODEL,
        )
    for name, tensor in expected.items():
        found = weights[name].shape
        if tensor.shape != found:
            what = f"{name} has shape {list(found)} where the config means {list(tensor.shape)}"
            if tensor.shape[1:] == found[1:] and name.endswith(("table.weight", "projection.weight")):  # (tokens, dim)
                what = (
                    f"does not fit its tokenizer: it has weights for {found[0]:,} tokens, "
                    f"the tokenizer has {tensor.shape[0]:,}"
                )
            raise UserError(what, file=file, cure=ONE_MODEL)
        check_numbers(name, weights[name], tensor.dtype, file)
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(weights[name])


def check_numbers(name: str, stored: Tensor, wanted: torch.dtype, file: Path | None = None) -> None:
    """Refuse numbers that are no weights: whole or complex ones in the place of fractions, nan and infinite ones."""
    if stored.dtype not in (PRECISIONS if wanted.is_floating_point else (wanted,)):
        kind = str(stored.dtype).removeprefix("torch.")
        raise UserError(
            f"{name} is stored as {kind}, which weights are not",
            file=file,
            cure="give weights in float32, float16 or bfloat16",
        )
    # a sum is faster than looking at each; only where it is out of range, each is looked at
    if wanted.is_floating_point and not stored.sum(dtype=torch.float32).isfinite() and not stored.isfinite().all():
        raise UserError(
            f"{name} holds nan or infinite numbers: what such a model says means nothing",
            file=file,
            cure="restore the file from a copy or an earlier checkpoint, or train again",
        )


def read_weights(file: Path, *, verify: bool = True) -> dict[str, Tensor]:
    """The tensors of a safetensors file, after making sure that no bit of it has changed since it was written.

    `verify=False` leaves the checksum out: reading 50 MB costs a twentieth of a second more with it.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_name(file)
    try:
        with open_file(file) as stream:
            if verify:
                check_seal(stream, file)
        return load_file(file)
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise UserError(f"cannot be read ({error})", file=file, cure="restore the file or train again") from None


def write_weights(file: Path, weights: dict[str, Tensor]) -> None:
    """Replace a weights file atomically."""
    from safetensors.torch import save

    stream = BytesIO(save(weights, METADATA))
    seal(stream)
    write_bytes(file, stream.getbuffer())


def store_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    """Write a new safetensors file (`write_weights` replaces one). The bytes are a function of the tensors alone."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(tensors, file, METADATA)
    except SafetensorError as error:  # a Rust library: the number of the system's error is in its text
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(file)) from None
    with file.open("r+b") as stream:
        seal(stream)
