"""Weights on disk: safetensors, each memory once, checked name by name and shape by shape when read back."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.folder import write_bytes


def model_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each memory once."""
    seen: set[int] = set()
    weights = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen or tensor.numel() == 0:
            seen.add(tensor.data_ptr())
            weights[name] = tensor.detach().contiguous()
    return weights


def load_weights(model: nn.Module, weights: dict[str, Tensor], *, file: Path) -> None:
    """Put stored weights into a model; a name missing because it is tied to another is no mistake."""
    expected, stored = model_weights(model), set(weights)
    if stored != set(expected):
        odd = sorted(stored ^ set(expected))[:3]
        raise UserError(
            f"does not fit its config.yaml ({', '.join(odd)}, …)",
            file=file,
            cure="use the files of one and the same model",
        )
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise UserError(
                f"{name} has shape {list(weights[name].shape)} where the config means {list(tensor.shape)}",
                file=file,
                cure="use the files of one and the same model",
            )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(weights[name])


def read_weights(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"cannot be read ({error})", file=file, cure="restore the file or train again") from None


def write_weights(file: Path, weights: dict[str, Tensor]) -> None:
    """Replace a weights file atomically."""
    from safetensors.torch import save

    write_bytes(file, save(weights, {"format": "pt"}))
