"""Scaled dot-product attention, forward and backward: `attend` beside every backend of PyTorch's own function.

    python benchmarks/attention.py [--device cuda] [--out results.json]
    python benchmarks/attention.py --device cpu --small          # does it run? (the figures say nothing)

Shapes are (B, H, T, S, D), projections excluded. `attend` chooses for itself; PyTorch's backends are forced one by one
and the best of those that can do it counts. On a GPU every side is captured in a CUDA graph and replayed with a cold
cache; times are medians. Limit: at most 3 % slower than the best. Windows are there to look at: PyTorch is given them
as a tensor, `attend` as a rule that, in 16 bits, FlexAttention compiles. Beside each stands the computed limit: the
products (2 forward, 5 backward, half of them where the mask is causal) at what a large product reaches here, or the
bytes; and what the first call took, compiling.

The last line is JSON, also written to --out after every row. The exit code is 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from additive_attention import DTYPES, bytes_of, measure_memory, measure_time
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from anaphora.nn.attention import attend, explain_backend
from anaphora.nn.masks import Causal, Window

SHAPES = {
    "sentences": (64, 8, 50, 50, 64),
    "a step": (128, 8, 1, 50, 64),
    "paragraphs": (16, 8, 512, 512, 64),
    "documents": (4, 16, 2048, 2048, 64),
    "pages, wide heads": (2, 16, 4096, 4096, 128),
}
SMALL = {"sentences": (2, 2, 5, 5, 8), "a step": (2, 2, 1, 5, 8)}
LIMIT = 1.03
PEERS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


def there_and_back(function: Callable[..., Tensor], tensors: list[Tensor]) -> tuple[Tensor, ...]:
    out = function(*tensors[:3])
    return out.detach(), *torch.autograd.grad(out, tensors[:3], tensors[3])


def peak_products(device: torch.device, dtype: torch.dtype) -> float | None:
    """Operations a second of a large product."""
    if device.type == "cpu":
        return None
    left, right = (torch.randn(8192, 8192, device=device).to(dtype) for _ in range(2))
    milliseconds, _ = measure_time(lambda: (left @ right,), device, 0.2)
    return 2 * 8192**3 / (milliseconds * 1e-3)


def copy_speed(device: torch.device) -> float | None:
    """Bytes a second."""
    if device.type == "cpu":
        return None
    source = torch.empty(1 << 28, device=device)  # 1 GB
    target = torch.empty_like(source)
    milliseconds, _ = measure_time(lambda: (target.copy_(source),), device, 0.2)
    return 2 * bytes_of([source]) / (milliseconds * 1e-3)


def measure(
    name: str, shape: tuple[int, ...], mask: str, dtype: str, device: torch.device, options: Any
) -> dict[str, Any]:
    batch, heads, queries, keys, size = shape
    make = torch.Generator(device).manual_seed(1)
    sizes = [(batch, heads, length, size) for length in (queries, keys, keys, queries)]
    tensors = [torch.randn(s, generator=make, device=device).to(DTYPES[dtype]) for s in sizes]
    tensors = [x.requires_grad_(index < 3) for index, x in enumerate(tensors)]
    window = Window(256) & Causal() if mask == "window" else None
    ours: dict[str, Any] = {"causal": mask == "causal", "mask": window}
    theirs: dict[str, Any] = {"is_causal": mask == "causal"}
    if window is not None:
        theirs["attn_mask"] = window.materialize(queries, keys, device)
    chosen = explain_backend(*tensors[:3], **ours)
    row: dict[str, Any] = {"name": name, "shape": shape, "mask": mask, "dtype": dtype, "chosen": chosen.name}

    def timed(function: Callable[..., Tensor]) -> dict[str, Any]:
        def side() -> tuple[Tensor, ...]:
            return there_and_back(function, tensors)

        began = time.perf_counter()
        side()
        first = time.perf_counter() - began
        memory = measure_memory(side, device)
        milliseconds, how = measure_time(side, device, options.seconds)
        return {"ms": milliseconds, "how": how, "memory": memory, "first_s": first}

    row["ours"] = timed(lambda q, k, v: attend(q, k, v, **ours))
    row["peers"] = {}
    for peer, backend in PEERS.items():
        try:
            with warnings.catch_warnings(), sdpa_kernel(backend):
                warnings.simplefilter("ignore")  # why a kernel cannot run it is no news here
                row["peers"][peer] = timed(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **theirs))
        except RuntimeError:  # this backend cannot do it, or has not the memory
            torch.cuda.empty_cache()
    best = min(row["peers"], key=lambda peer: row["peers"][peer]["ms"])
    row |= {"best": best, "ratio": row["ours"]["ms"] / row["peers"][best]["ms"]}
    row["limit"] = None if mask == "window" else LIMIT
    pairs = batch * heads * queries * keys * (0.5 if mask == "causal" else 1.0)
    products, copy = options.peaks[dtype], options.copy
    if products and copy and mask != "window":
        row["computed_ms"] = 1e3 * max(7 * 2 * pairs * size / products, 3 * bytes_of(tensors) / copy)
    return row


def show(row: dict[str, Any]) -> None:
    peers = "  ".join(f"{name} {found['ms']:.4f}" for name, found in row["peers"].items())
    met = "" if row["limit"] is None else f" (at most {LIMIT}) {'yes' if row['ratio'] <= LIMIT else 'NO'}"
    computed = f", computed limit {row['computed_ms']:.4f}" if "computed_ms" in row else ""
    print(f"{row['name']} {row['shape']} {row['dtype']}, mask {row['mask']}, by {row['chosen']}")
    ours = row["ours"]
    print(f"    ours {ours['ms']:.4f} ms ({ours['how']}; first {ours['first_s']:.1f} s){computed};  {peers}")
    print(f"    {row['ratio']:.3f} × the time of {row['best']}{met}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="shapes that any machine does at once")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each measurement")
    parser.add_argument("--out", type=Path, help="also write the results here")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    options.peaks = {name: peak_products(device, dtype) for name, dtype in DTYPES.items()}
    options.copy = copy_speed(device)
    rows: list[dict[str, Any]] = []
    card = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    result = {"device": card, "torch": torch.__version__, "rows": rows}
    for name, shape in (SMALL if options.small else SHAPES).items():
        masks = ["none", "causal", "window"] if shape[2] >= 512 else ["none", "causal"] if shape[2] > 1 else ["none"]
        for mask in masks:
            for dtype in DTYPES:
                rows.append(measure(name, shape, mask, dtype, device, options))
                show(rows[-1])
                if options.out:  # a run that is cut short leaves what it has
                    options.out.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(json.dumps(result))
    missed = [row for row in rows if row["limit"] is not None and row["ratio"] > row["limit"]]
    raise SystemExit(1 if missed and not options.small else 0)


if __name__ == "__main__":
    main()
