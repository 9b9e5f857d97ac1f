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
from collections.abc import Callable, Sequence
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


def kernel_ms(works: Sequence[Callable[[], Any]], rounds: int = 5) -> float:
    """Milliseconds of one call where calls stand one behind the other in a CUDA graph, as in a captured step: nothing
    of the host is in it. `works` do the same on different tensors, together more than the L2 cache holds."""
    if SMOKE:
        return timed(works[0])

    def all_of_them() -> None:
        for _ in range(rounds):
            for work in works:
                work()

    return timed(captured(all_of_them, warm=1), warm=2, repeat=7) / (rounds * len(works))


CHOSEN: dict[tuple[Any, ...], tuple[Any, ...]] = {}
MANY = 4096


def fastest(
    key: tuple[Any, ...], ways: Sequence[tuple[Any, ...]], launch: Callable[..., Any], rows: int
) -> tuple[Any, ...]:
    """The way (a tuple of block sizes, warps, …) whose `launch(*way)` takes least, tried once for each key; launching
    twice must do no harm. Few rows say nothing of many: they take the first way. A graph that is being captured cannot
    try: whoever captures runs the work once before."""
    if key in CHOSEN:
        return CHOSEN[key]
    if SMOKE or len(ways) == 1 or rows < MANY:
        return ways[0]
    if torch.cuda.is_current_stream_capturing():
        return ways[0]
    took: dict[tuple[Any, ...], float] = {}
    for way in ways:
        try:
            launch(*way)
            launch(*way)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(4_000_000)  # 2 ms: meanwhile the host gets ahead, and its own time is not measured
            begin.record()
            for _ in range(20):
                launch(*way)
            end.record()
            end.synchronize()
            took[way] = begin.elapsed_time(end) / 20
        except Exception as error:  # out of registers or shared memory: another way is left
            print(f"  {key} {way}: {type(error).__name__}: {str(error)[:120]}")
    CHOSEN[key] = min(took, key=lambda way: took[way])
    told = ", ".join(f"{'/'.join(map(str, way))} {ms * 1e3:.1f}" for way, ms in took.items())
    print(f"  chosen for {' '.join(map(str, key))}: {CHOSEN[key]} of (us) {told}", flush=True)
    return CHOSEN[key]


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


def last_line() -> None:
    """All rows as JSON, on one line."""
    print(json.dumps(ROWS), flush=True)


def relative(ours: Tensor, reference: Tensor) -> float:
    """‖ours - reference‖ / ‖reference‖."""
    return float((ours.double() - reference.double()).norm() / reference.double().norm().clamp(min=1e-30))


def section(name: str, work: Callable[[], Any], of: str = "") -> None:
    """One that fails is reported and does not take the others with it; a smoke run fails with it. `of`: the name it is
    asked for by."""
    if not wanted(of or name):
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
