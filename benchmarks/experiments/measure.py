"""What the experiments share: where they run, how they time, how they compare, how they say it.

Import it first: `--smoke` means a CPU, tiny sizes, nothing compiled and Triton's interpreter, which must be chosen
before Triton is loaded. Without it a GPU is needed. `--only a,b` runs the sections named, `--out FILE` keeps all rows
as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMOKE = "--smoke" in sys.argv
if SMOKE:
    os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

DEVICE = torch.device("cpu" if SMOKE else "cuda")
HALF = torch.float32 if SMOKE else torch.bfloat16  # the interpreter is slow enough without rounding by hand
PRODUCTS, COPIES = 751e12, 4.19e12  # bf16 FLOP/s and bytes/s of one H200, until `ceilings` has measured them
ROWS: list[dict[str, Any]] = []


def option(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def wanted(section: str) -> bool:
    return not option("--only") or section in option("--only").split(",")


def wait() -> None:
    if not SMOKE:
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], *, warm: int = 5, repeat: int = 15) -> float:
    """Median milliseconds of one call, the device's work included."""
    warm, repeat = (1, 2) if SMOKE else (warm, repeat)
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeat):
        wait()
        start = time.perf_counter()
        work()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def ceilings() -> None:
    """The two rates that every limit is computed from, measured on this card."""
    global PRODUCTS, COPIES
    if SMOKE:
        return
    a, b = (torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    PRODUCTS = 2 * 8192**3 / timed(lambda: a @ b) * 1e3
    x = torch.randn(2**29, device=DEVICE)
    y = torch.empty_like(x)
    COPIES = 2 * x.nbytes / timed(lambda: y.copy_(x)) * 1e3
    say("ceilings", TFLOP_s=PRODUCTS / 1e12, TB_s=COPIES / 1e12)


def limit_ms(flops: float = 0.0, moved: float = 0.0) -> float:
    """The least time for so many operations on the matrix units and so many bytes, whichever takes longer."""
    return max(flops / PRODUCTS, moved / COPIES) * 1e3


def say(name: str, **columns: Any) -> None:
    ROWS.append({"name": name, **columns})
    told = ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in columns.items()
    )
    print(f"{name:34s} {told}", flush=True)
    if option("--out"):
        Path(option("--out")).write_text(json.dumps(ROWS, indent=1))


def relative(ours: Tensor, reference: Tensor) -> float:
    """‖ours - reference‖ / ‖reference‖."""
    return float((ours.double() - reference.double()).norm() / reference.double().norm().clamp(min=1e-30))


def section(name: str, work: Callable[[], Any]) -> None:
    """One that fails is reported and does not take the others with it; a smoke run fails with it."""
    if not wanted(name):
        return
    start = time.perf_counter()
    try:
        work()
    except Exception as error:
        if SMOKE:
            raise
        say(name, error=f"{type(error).__name__}: {str(error)[:300]}")
    if not SMOKE:
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    print(f"[{name}: {time.perf_counter() - start:.1f} s]", flush=True)


def compiled(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    return function if SMOKE else torch.compile(function, dynamic=False, **how)


def captured(work: Callable[[], Any], *, warm: int = 3) -> Callable[[], Any]:
    """`work` as one CUDA graph; it must read and write the same tensors at every call."""
    if SMOKE:
        return work
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def profile(name: str, work: Callable[[], Any], top: int = 14) -> None:
    """The kernels that take the device's time, three calls of `work`: share, milliseconds a call, launches a call."""
    if SMOKE:
        return
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    work()
    wait()
    with watch(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(3):
            work()
        wait()
    kernels = [event for event in seen.key_averages() if event.self_device_time_total > 0]
    whole = sum(event.self_device_time_total for event in kernels)
    print(f"profile of {name}: {whole / 3e3:.2f} ms of kernels a call, {sum(e.count for e in kernels) // 3} launches")
    for event in sorted(kernels, key=lambda event: -event.self_device_time_total)[:top]:
        share, ms = event.self_device_time_total / whole, event.self_device_time_total / 3e3
        print(f"  {share:6.1%} {ms:8.3f} ms {event.count // 3:5d} x  {event.key[:100]}")
    sys.stdout.flush()
