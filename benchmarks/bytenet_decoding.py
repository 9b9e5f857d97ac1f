"""What a byte costs ByteNet while it speaks, from the 64th to the 1,024th: linear time, or not?

    python benchmarks/bytenet_decoding.py [--device cuda] [--beam 5] [--sentences 8]

A source of n bytes is translated into n bytes by the real search, with fresh weights (what is said does not matter, how
long it is does: the end mark is forbidden before the last byte). Seconds for the whole, read and said, are fitted by
c · nᵉ over all lengths: e = 1 is linear. Beside it a Transformer of the same width over the same bytes, which looks
back at every byte it has said and at every byte of the source: its bytes become dearer as it speaks.

The limit beside each time is the products of all steps alone, one after another, with nothing between them: what no way
of keeping the past can save. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anaphora.decoding.beam_search import DecodingConfig, search
from anaphora.models import build, settings
from anaphora.tokenizers.tokenizer import EOS

BYTES = 260
SYSTEMS: dict[str, dict[str, Any]] = {
    "bytenet": {"kind": "bytenet", "layers": 15},
    "transformer": {"kind": "transformer", "layers": 6, "heads": 8},
}


def made(name: str, dim: int, longest: int, device: str) -> Any:
    torch.manual_seed(1)
    shape = {**SYSTEMS[name], "dim": dim, "max_length": longest + 8, "dropout": 0.0}
    if name == "transformer":
        shape["feed_forward"] = 4 * dim
    model = build(settings(shape), BYTES, BYTES)  # type: ignore[arg-type]
    return model.to(device).eval().requires_grad_(False)


def seconds(work: Callable[[], object], device: str, rounds: int) -> float:
    """The quickest of some rounds."""
    found = []
    for _ in range(rounds):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        found.append(time.perf_counter() - began)
    return min(found)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def speak(model: Any, sentences: int, length: int, beam: int, device: str) -> None:
    draw = torch.Generator().manual_seed(length)
    source = torch.randint(4, BYTES, (sentences, length), generator=draw)
    source[:, -1] = EOS
    lengths = torch.full((sentences,), length)
    config = DecodingConfig(beam=beam, max_length=length, min_length=length - 1)
    for found in search(model, source.to(device), lengths.to(device), config):
        assert len(found[0].tokens) >= length - 1, "it ended too soon"


def products(model: Any, rows: int, device: str) -> Callable[[], None]:
    """All products of one step, inputs at hand."""
    matrices: list[Tensor] = [model.projection.weight]
    for path, module in model.decoder.named_modules():
        if isinstance(module, torch.nn.Linear) and not path.endswith(("join", "key_value")):  # those are the source's
            matrices.append(module.weight)
    given = [torch.randn(rows, matrix.shape[1], device=device) for matrix in matrices]

    def step() -> None:
        for x, matrix in zip(given, matrices):
            torch.nn.functional.linear(x, matrix)

    return step


def repeated(step: Callable[[], None], times: int) -> None:
    for _ in range(times):
        step()


def exponent(lengths: list[int], times: list[float]) -> float:
    """e of c · nᵉ, by least squares of the logarithms."""
    x, y = [math.log(n) for n in lengths], [math.log(t) for t in times]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    return sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y)) / sum((a - x_mean) ** 2 for a in x)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    parser.add_argument("--sentences", type=int, default=4)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--device", default="cpu")
    a = parser.parse_args()
    if len(a.lengths) < 2 or min(a.lengths) < 2:
        raise SystemExit("give two lengths or more, of at least 2 bytes")
    where = torch.cuda.get_device_name() if a.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    rows = a.sentences * a.beam
    print(f"{a.sentences} sentences, beam {a.beam}, {a.dim} wide, float32, {where}, torch {torch.__version__}")
    print(f"{'':12} {'bytes':>6} {'seconds':>9} {'ms a byte':>10} {'limit, ms':>10}")
    report: dict[str, Any] = {}
    for name in a.systems:
        model = made(name, a.dim, max(a.lengths), a.device)
        speak(model, a.sentences, 16, a.beam, a.device)  # what is set up once
        step = products(model, rows, a.device)
        for _ in range(10):
            step()
        limit = seconds(partial(repeated, step, 50), a.device, 3) / 50
        times = []
        for length in a.lengths:
            times.append(seconds(partial(speak, model, a.sentences, length, a.beam, a.device), a.device, a.rounds))
            each = 1e3 * times[-1] / length
            print(f"{name:12} {length:6} {times[-1]:9.3f} {each:10.3f} {1e3 * limit:10.3f}", flush=True)
        power = exponent(a.lengths, times)
        per_byte = [1e3 * t / n for t, n in zip(times, a.lengths)]
        growth = per_byte[-1] / per_byte[0]
        print(f"{name:12} time ~ bytes^{power:.3f}; a byte of the longest costs {growth:.2f} × one of the shortest")
        report[name] = {
            "exponent": round(power, 4),
            "growth": round(growth, 3),
            "milliseconds_a_byte": {str(n): round(ms, 4) for n, ms in zip(a.lengths, per_byte)},
            "limit_milliseconds": round(1e3 * limit, 4),
            "parameters": model.parameter_count(),
        }
    print(json.dumps({"sentences": a.sentences, "beam": a.beam, "dim": a.dim, "device": where, **report}))


if __name__ == "__main__":
    main()
