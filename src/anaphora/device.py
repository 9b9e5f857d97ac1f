"""Which processor computes, what it could do at best, and how much memory is in use."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.errors import UserError, nearest, shown

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")


def device_name(device: object) -> str:
    """The name of a device, which torch's own object has, too. A number alone is no name: of which kind?"""
    if isinstance(device, str):
        return device
    if "torch" in sys.modules:
        import torch

        if isinstance(device, torch.device):
            return str(device)
    cure = "write device='cuda', or 'cpu', or leave it out"
    if type(device) is int and device >= 0:
        cure = f"write device='cuda:{device}' for a graphics card by its number, or leave it out"
    raise UserError(f"a device is given by its name, not by {shown.repr(device)}", cure=cure)


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """`auto` is the GPU where there is one; a device asked for by name and absent is an error, never a silent CPU."""
    import torch

    name = device_name(name)
    kind = name.partition(":")[0]
    if kind not in DEVICES:
        cure = "did you mean 'cuda'?" if kind.lower() in ("gpu", "nvidia") else nearest(name, DEVICES)
        raise UserError(f"unknown device {name!r}", cure=cure)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if kind == "auto":
        kind = name = next(kind for kind in ("cuda", "mps", "cpu") if there[kind])
    if not there[kind]:
        raise UserError(f"there is no {kind} device here", cure="use the device auto or cpu")
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


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resident() -> int:
    """Bytes of memory that this process has now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:  # other systems report only the most it ever had
        return _most_resident()


def peak_resident() -> int:
    """The most bytes of memory that this process ever had; 0 where the system does not report it."""
    try:  # what getrusage reports may be that of the process which started this one
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return int(found[1]) * 1024 if found else resident()
    except OSError:
        return _most_resident()


def _most_resident() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_memory(device: torch.device) -> int:
    """The most bytes that this process ever had: of a GPU what was allocated for tensors, else what was resident."""
    import torch

    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_resident()


def c_library() -> Any:
    """The C library of a Linux process; None on other systems."""
    try:
        return ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    except (OSError, TypeError):
        return None


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # of glibc's mallopt
KEEPING = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1))
USUAL = ((M_MMAP_MAX, 65_536), (M_MMAP_THRESHOLD, 32 << 20), (M_TRIM_THRESHOLD, 64 << 20))
"""glibc's thresholds follow what is freed until it is told any; these are where they end when large tensors are."""


@contextmanager
def keeping_freed_memory(kind: str) -> Iterator[None]:
    """Within the block, on a CPU under glibc, memory that is freed stays with the process.

    Otherwise every large tensor of every update is mapped anew, and the system clears its pages one by one as they are
    touched: a seventh of the time of a small model. When the block ends all of it goes back. The allocator is the whole
    process's; where the environment has settings for it, nothing is changed.
    """
    libc = c_library() if kind == "cpu" else None
    chosen = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if libc is None or not hasattr(libc, "mallopt") or chosen:
        yield
        return
    for option in KEEPING:
        libc.mallopt(*option)
    try:
        yield
    finally:
        for option in USUAL:
            libc.mallopt(*option)
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)
