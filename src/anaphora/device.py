"""Which processor computes, what it could do at best, and how much memory is in use."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anaphora.errors import UserError, nearest

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str = "auto") -> torch.device:
    """`auto` is the GPU where there is one; a device asked for by name and absent is an error, never a silent CPU."""
    import torch

    kind = name.partition(":")[0]
    if kind not in DEVICES:
        raise UserError(f"unknown device {name!r}", cure=nearest(name, DEVICES))
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if kind == "auto":
        kind = name = next(kind for kind in ("cuda", "mps", "cpu") if there[kind])
    if not there[kind]:
        raise UserError(f"there is no {kind} device here", cure="use --device auto or --device cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"unknown device {name!r}", cure=f"write {kind} or {kind}:0") from None
    if kind == "cuda":
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise UserError(f"there is no device {name} here", cure=f"this machine has {torch.cuda.device_count()}")
        torch.set_float32_matmul_precision("high")  # tf32: the float32 mode of the matrix units
        # cuDNN's attention plans anew for every new shape, and batches of text have hundreds of shapes
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def peak_flops(device: torch.device) -> float | None:
    """Dense bf16 operations a second of a GPU by its data sheet, where known: what MFU is a share of."""
    import torch

    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    known = {"H200": 989e12, "H100": 989e12, "GH200": 989e12, "B200": 2250e12, "A100": 312e12, "L40S": 362e12}
    known |= {"A10G": 70e12, "L4": 121e12, "4090": 165e12, "3090": 71e12, "V100": 125e12}
    return next((peak for part, peak in known.items() if part in name), None)


def describe_device(device: torch.device) -> str:
    """For model cards: "NVIDIA H200" or "cpu, 2 threads"."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' if threads > 1 else ''}"


def resident() -> int:
    """Bytes of memory that this process has now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:  # other systems tell only the most it ever had
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_resident() -> int:
    """The most bytes of memory that this process ever had."""
    try:  # what getrusage tells may be that of the process which started this one
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return int(found[1]) * 1024 if found else resident()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_memory(device: torch.device) -> int:
    """The most bytes that this process ever had: of a GPU what was allocated for tensors, else what was resident."""
    import torch

    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_resident()
