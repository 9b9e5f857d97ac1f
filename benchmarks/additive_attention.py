"""Additive attention, forward and backward: eager, torch.compile of the reference, and the kernels.

    python benchmarks/additive_attention.py [--device cuda] [--out results.json]
    python benchmarks/additive_attention.py --device cpu --small          # does it run? (the figures say nothing)

Shapes are (B, n, m, d), projections excluded, values as wide as the features. On a GPU every side is captured in a CUDA
graph and replayed with a cold cache; times are medians. Memory is the peak beyond inputs, outputs and gradients.
Limits:

- the special-function unit gives 16 results a clock and multiprocessor. One tanh for each triple (i, j, feature), once
  forward and once backward, is the plain limit; the kernels take 1½ operations instead of 2 (additive_triton.py);
- every input read once in each direction, every output and gradient written once, at the speed of a copy, measured;
- the three products with the values, in float32, at what a large product reaches here.

The last line is JSON. The exit code is 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anaphora.nn.attention import attend
from anaphora.nn.kernels.additive import additive_attention, additive_backend

SHAPES = {"sentences": (64, 50, 50, 1024), "long": (32, 512, 512, 512), "decoder step": (128, 1, 50, 1024)}
SMALL = {"sentences": (2, 5, 6, 16), "long": (2, 9, 8, 16), "decoder step": (4, 1, 5, 16)}
TARGETS = {"sentences": (5.0, 3.0), "long": (5.0, 3.0), "decoder step": (2.0, 2.0)}  # × eager in float32, bfloat16
MEMORY_SHARE = 1 / 20
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Side = Callable[[], tuple[Tensor, ...]]


def plain(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
    """The reference, with one head: (B, n, d), (B, m, d) twice, (d,) -> (B, n, d)."""
    heads = (x[:, None] for x in (query, key, value))
    return attend(*heads, score="additive", weight=v, backend="reference")[:, 0]


def make_inputs(shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """query, key, value, v, and the gradient of the context."""
    batch, n, m, d = shape
    make = torch.Generator(device).manual_seed(1)
    sizes = [(batch, n, d), (batch, m, d), (batch, m, d), (d,), (batch, n, d)]
    made = [torch.randn(size, generator=make, device=device) for size in sizes]
    made[3] *= d**-0.5
    return [x.to(dtype).requires_grad_(index < 4) for index, x in enumerate(made)]


def there_and_back(function: Callable[..., Tensor], tensors: list[Tensor]) -> tuple[Tensor, ...]:
    context = function(*tensors[:4])
    return context.detach(), *torch.autograd.grad(context, tensors[:4], tensors[4])


def bytes_of(tensors: Any) -> int:
    return sum(x.numel() * x.element_size() for x in tensors)


def measure_time(side: Side, device: torch.device, seconds: float) -> tuple[float, str]:
    """Median milliseconds, and how they were taken."""
    if device.type == "cpu":
        side()
        times = []
        while len(times) < 3 or sum(times) < seconds:
            began = time.perf_counter()
            side()
            times.append(time.perf_counter() - began)
        return 1e3 * statistics.median(times), "calls"
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        for _ in range(3):
            side()
    torch.cuda.current_stream().wait_stream(side_stream)
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    call, how = side, "calls"
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            kept = side()  # the graph writes here
        call, how = graph.replay, "graph"
    except (torch.cuda.OutOfMemoryError, RuntimeError) as error:
        torch.cuda.synchronize()
        print(f"    (no graph: {str(error).splitlines()[0][:90]})")
    cache = torch.empty(1 << 26, dtype=torch.int32, device=device)  # 256 MB, five times the L2 cache
    times = []
    began = time.perf_counter()
    while len(times) < 10 or (time.perf_counter() - began < seconds and len(times) < 300):
        cache.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    del call, graph, cache
    if how == "graph":
        del kept
    return statistics.median(times), how


def measure_memory(side: Side, device: torch.device) -> int | None:
    """Bytes at the peak, beyond what is there before and what is handed back."""
    if device.type == "cpu":
        return None
    side()  # compilers and workspaces come first
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = side()
    torch.cuda.synchronize()
    return max(0, torch.cuda.max_memory_allocated() - before - bytes_of(result))


def measure_error(tensors: list[Tensor]) -> float:
    """The largest relative error (in norm) of context and gradients, over the first rows, against float64."""
    few = [x[:1].detach() if x.dim() == 3 else x.detach() for x in tensors]
    few = [x.requires_grad_(index < 4) for index, x in enumerate(few)]
    exact = [x.detach().double().requires_grad_(index < 4) for index, x in enumerate(few)]
    found, wanted = there_and_back(additive_attention, few), there_and_back(plain, exact)
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, wanted))


def highest_clock() -> float:
    """Of the multiprocessors, in hertz: what nvidia-smi says, or an H200's."""
    command = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    try:
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]) * 1e6
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return 1.98e9


def measure_machine(device: torch.device) -> dict[str, float]:
    """Special functions, bytes and float32 operations a second."""
    if device.type == "cpu":
        return {}
    hertz = highest_clock()
    units = torch.cuda.get_device_properties(device).multi_processor_count
    source = torch.empty(1 << 28, device=device)  # 1 GB
    target = torch.empty_like(source)
    left, right = (torch.randn(4096, 4096, device=device) for _ in range(2))
    copy, _ = measure_time(lambda: (target.copy_(source),), device, 0.2)
    product, _ = measure_time(lambda: (left @ right,), device, 0.2)
    return {
        "special_per_s": units * 16 * hertz,
        "bytes_per_s": 2 * source.numel() * 4 / (copy * 1e-3),
        "float32_per_s": 2 * 4096**3 / (product * 1e-3),
    }


def limits(shape: tuple[int, int, int, int], tensors: list[Tensor], machine: dict[str, float]) -> dict[str, float]:
    """Milliseconds."""
    if not machine:
        return {}
    batch, n, m, d = shape
    triples = batch * n * m * d
    read, written = (
        bytes_of(tensors[:3]),
        bytes_of(tensors[:4]),
    )  # the context and its gradient are as large as the query
    moved = 2 * read + written + 2 * bytes_of(tensors[:1])
    return {
        "tanh_ms": 1e3 * 2 * triples / machine["special_per_s"],
        "kernels_ms": 1e3 * 1.5 * triples / machine["special_per_s"],
        "memory_ms": 1e3 * moved / machine["bytes_per_s"],
        "products_ms": 1e3 * 3 * 2 * triples / machine["float32_per_s"] if tensors[0].dtype == torch.float32 else 0.0,
    }


def measure_shape(
    name: str, shape: tuple[int, int, int, int], device: torch.device, machine: dict[str, float], options: Any
) -> list[dict[str, Any]]:
    rows = []
    for dtype_name, dtype in DTYPES.items():
        tensors = make_inputs(shape, dtype, device)
        torch._dynamo.reset()
        sides = {
            "eager": plain,
            "compiled": torch.compile(plain),
            "kernels": additive_attention,
        }
        if options.no_compile:
            del sides["compiled"]
        row: dict[str, Any] = {"name": name, "shape": shape, "dtype": dtype_name}
        row["backend"] = additive_backend(*tensors[:4])[0]
        row["limits"] = limits(shape, tensors, machine)
        for side_name, function in sides.items():

            def side(function: Any = function, tensors: list[Tensor] = tensors) -> tuple[Tensor, ...]:
                return there_and_back(function, tensors)

            try:
                memory = measure_memory(side, device)
                milliseconds, how = measure_time(side, device, options.seconds)
                row[side_name] = {"ms": milliseconds, "memory": memory, "how": how}
            except (
                Exception
            ) as error:  # one side that fails must not hide the others; it is shown, and fails its target
                row[side_name] = {"ms": None, "memory": None, "how": f"{type(error).__name__}: {str(error)[:200]}"}
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        row["error"] = measure_error(tensors)  # after the rest: the tiles are chosen for the whole batch
        rows.append(row)
        show(row)
    return rows


def show(row: dict[str, Any]) -> None:
    print(f"{row['name']} {row['shape']} {row['dtype']}, error {row['error']:.1e}, by {row['backend']}")
    for side in ("eager", "compiled", "kernels"):
        found = row.get(side)
        if found is None:
            continue
        if found["ms"] is None:
            print(f"    {side:9} failed: {found['how']}")
            continue
        memory = "" if found["memory"] is None else f", {found['memory'] / 1e6:10.2f} MB more"
        print(f"    {side:9} {found['ms']:9.4f} ms ({found['how']}){memory}")
    for limit, milliseconds in row["limits"].items():
        share = milliseconds / row["kernels"]["ms"] if row["kernels"]["ms"] else 0.0
        print(f"    limit     {milliseconds:9.4f} ms ({limit.removesuffix('_ms')}), {share:.0%} of the kernels' time")


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every ratio with its target."""
    found = []

    def add(row: dict[str, Any], what: str, ours: float | None, theirs: float | None, target: float) -> None:
        ratio = theirs / max(ours, 1e-9) if ours is not None and theirs is not None else None
        met = ratio is not None and ratio >= target
        found.append(
            {"name": row["name"], "dtype": row["dtype"], "what": what, "ratio": ratio, "target": target, "met": met}
        )
        shown = "missing" if ratio is None else f"{ratio:8.2f}"
        print(f"{row['name']:13} {row['dtype']:9} {what:22} {shown} (at least {target:g}) {'yes' if met else 'NO'}")

    for row in rows:
        ours = row["kernels"]
        add(row, "faster than eager", ours["ms"], row["eager"]["ms"], TARGETS[row["name"]][row["dtype"] == "bfloat16"])
        if "compiled" in row:
            add(row, "faster than compiled", ours["ms"], row["compiled"]["ms"], 1.0)
        if ours["memory"] is not None:
            add(row, "less memory than eager", ours["memory"], row["eager"]["memory"], 1 / MEMORY_SHARE)
    return found


def show_choices() -> None:
    """What the kernels' tuning chose, and what the last one tuned took with each tile."""
    from anaphora.nn.kernels import additive_triton

    of_a_step = ("step_scores", "step_context", "step_weights_gradients", "step_scores_gradients")
    for name in ("scores", "gradients", *of_a_step):
        tuned = getattr(additive_triton, f"_tuned_{name}")
        for key, config in tuned.cache.items():
            print(f"tile {name:22} {key}: {config}")
        for config, found in getattr(tuned, "configs_timings", {}).items():
            print(f"    {(found[0] if isinstance(found, list) else found):9.4f} ms  {config}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="tiny shapes: to try the script")
    parser.add_argument("--shape", choices=list(SHAPES), action="append", help="only this one (may be repeated)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--seconds", type=float, default=1.0, help="of replays a side")
    parser.add_argument("--out", help="write the JSON here too")
    options = parser.parse_args()
    device = torch.device(options.device)
    machine = measure_machine(device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}")
    if machine:
        special, moved, product = (machine[key] / 1e12 for key in ("special_per_s", "bytes_per_s", "float32_per_s"))
        print(f"{special:.2f} T special functions/s, copy {moved:.2f} TB/s, float32 product {product:.1f} TFLOP/s")
    shapes = SMALL if options.small else SHAPES
    rows = []
    for shape_name in options.shape or shapes:
        rows += measure_shape(shape_name, shapes[shape_name], device, machine, options)
    found = verdicts(rows)
    if rows[0]["backend"] == "triton":
        show_choices()
    result = {"device": name, "torch": torch.__version__, "machine": machine, "rows": rows, "verdicts": found}
    if options.out:
        Path(options.out).write_text(json.dumps(result))
    print(json.dumps(result))
    raise SystemExit(0 if options.small or all(verdict["met"] for verdict in found) else 1)


if __name__ == "__main__":
    main()
