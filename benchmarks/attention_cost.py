"""The cost of attention against the number of words: time and memory, reference and fast.

    python benchmarks/attention_cost.py [--device cuda] [--out cost.json]
    python benchmarks/attention_cost.py --small          # does it run? (the figures say nothing)

One sentence of n words, 4 heads of 64 dimensions, forward and backward, n doubling. Sides:

    reference   softmax(Q Kᵀ / √d) V in plain lines: the n² weights are formed and kept
    fast        what `attend` takes by itself: PyTorch's fused kernels, which form the weights tile by tile
    linear      without softmax, Q (Kᵀ V): no n² anywhere

Times are medians; on a GPU between events. Memory is, on a GPU, what a pass holds at its peak beyond its inputs; on a
CPU, what the forward pass keeps for the backward one, inputs included. The exponent p of cost ~ n^p is a least-squares
fit in logarithms over the upper half of the lengths: below, starting a kernel costs more than running it. Beside each
stands its limit: 2 for the products of reference and fast, 1 for linear. Times of one machine say nothing of another;
the ratios of one run do.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from anaphora.device import describe_device
from anaphora.lectures.stack import kept_bytes
from anaphora.nn.attention import attend

HEADS, SIZE = 4, 64
SIDES: dict[str, dict[str, str]] = {
    "reference": {"backend": "reference"},
    "fast": {},
    "linear": {"normalizer": "none", "backend": "linear"},
}
LIMITS = {"reference": 2, "fast": 2, "linear": 1}
SECONDS = 0.4
"""Of repeating, for each length and side."""


def pass_of(side: str, length: int, device: torch.device) -> Callable[[], list[Tensor]]:
    """Forward and backward over one sentence."""
    generator = torch.Generator(device).manual_seed(1)
    drawn = torch.randn(4, 1, HEADS, length, SIZE, generator=generator, device=device)
    query, key, value = (x.clone().requires_grad_() for x in drawn[:3])

    def run() -> list[Tensor]:
        out = attend(query, key, value, **SIDES[side])  # type: ignore[arg-type]
        return list(torch.autograd.grad(out, (query, key, value), drawn[3]))

    return run


def seconds(run: Callable[[], object], device: torch.device, limit: float) -> float:
    """The median of as many repetitions as fit into the time, at least three."""
    run()
    found, began = [], time.perf_counter()
    while len(found) < 3 or time.perf_counter() - began < limit:
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end) / 1000)
        else:
            before = time.perf_counter()
            run()
            found.append(time.perf_counter() - before)
    return statistics.median(found)


def memory(run: Callable[[], object], device: torch.device) -> int:
    """Bytes: of a GPU at the peak beyond the inputs; on a CPU, which counts no peaks, kept for the backward pass."""
    if device.type != "cuda":
        return kept_bytes(run)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def fitted(lengths: list[int], costs: list[float]) -> float:
    """p of cost ~ n^p, least squares in logarithms over the upper half."""
    half = min(len(lengths) // 2, len(lengths) - 2)
    x, y = ([math.log(v) for v in values[half:]] for values in (lengths, costs))
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--longest", type=int, help="words; 4,096 on a CPU, 32,768 on a GPU unless given")
    parser.add_argument("--small", action="store_true", help="short and few: does it run?")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    device = torch.device(given.device)
    longest = 128 if given.small else given.longest or (32_768 if device.type == "cuda" else 4096)
    if longest < 128:
        parser.error("--longest must be at least 128: an exponent takes two lengths, and the first is 64")
    lengths = [2**power for power in range(6, int(math.log2(longest)) + 1)]
    costs: dict[str, dict[str, list[float]]] = {side: {"seconds": [], "bytes": []} for side in SIDES}
    print(f"{'':>7}" + "".join(f"{side + ', ms':>15}{side + ', MB':>15}" for side in SIDES))
    for length in lengths:
        row = f"{length:>7,}"
        for side in SIDES:
            run = pass_of(side, length, device)
            costs[side]["seconds"].append(seconds(run, device, 0.01 if given.small else SECONDS))
            costs[side]["bytes"].append(memory(run, device))
            row += f"{costs[side]['seconds'][-1] * 1e3:>15.3f}{costs[side]['bytes'][-1] / 1e6:>15.2f}"
        print(row, flush=True)
    exponents = {side: {what: round(fitted(lengths, own), 2) for what, own in of.items()} for side, of in costs.items()}
    print("exponents of n (limit of the products)")
    for side, found in exponents.items():
        print(f"  {side:10} time {found['seconds']:.2f} ({LIMITS[side]})   memory {found['bytes']:.2f}")
    last = {side: {what: own[-1] for what, own in of.items()} for side, of in costs.items()}
    ratios = {
        side: {what: round(last["reference"][what] / last[side][what], 1) for what in ("seconds", "bytes")}
        for side in ("fast", "linear")
    }
    print(f"at {lengths[-1]:,} words the reference takes")
    for side, ratio in ratios.items():
        print(f"  {ratio['seconds']:.1f} × the time and {ratio['bytes']:.1f} × the memory of {side}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {
        "lengths": lengths,
        "costs": costs,
        "exponents": exponents,
        "ratios": ratios,
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "commit": commit,
    }
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
