"""Every score, and linear attention, on one recall task: `c1 b7 a3 ?b` → `7` (docs/lectures/8-all-scores.md).

    python benchmarks/scores.py [--jobs 2] [--seeds 8] [--steps 1000] [--out scores.json]
    python benchmarks/scores.py --small          # does it run? (the figures say nothing)

Each model is a Transformer translator with `model.score` and `model.normalizer` set, one layer, one head, 32 wide
unless it says otherwise, trained by `anaphora.train` on texts of 1 to 8 pairs over 16 letters. Its learning rate is the
one of `RATES` with the best accuracy on held-out texts of 1 to 8 pairs over three seeds of its own; then it is trained
anew with each of the other seeds. A table gives the accuracy by number of pairs, in percent: the median of the seeds
and, in brackets, the lowest; `learned` counts the seeds above 90 % on held-out texts. Everything runs on the CPU, one
thread a run, `--jobs` runs at a time: with one thread the same machine gives the same numbers again.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

MODELS: dict[str, dict[str, Any]] = {
    "scaled-dot": {},
    "dot": {"model.score": "dot"},
    "bilinear": {"model.score": "bilinear"},
    "additive": {"model.score": "additive"},
    "linear": {"model.normalizer": "none"},
    "linear bilinear": {"model.normalizer": "none", "model.score": "bilinear"},
    "linear additive": {"model.normalizer": "none", "model.score": "additive"},
    "scaled-dot, 16": {"model.dim": 16},
    "linear, 16": {"model.dim": 16, "model.normalizer": "none"},
    "scaled-dot, 8": {"model.dim": 8},
    "linear, 8": {"model.dim": 8, "model.normalizer": "none"},
}
"""What is changed of `RECALL`: 32 wide, so that there is a direction for each of the 16 letters, or 16, or 8."""
RATES = (1e-3, 3e-3, 1e-2)
CHOOSING = (0, 100, 200)
"""Seeds of the runs that choose the rate; they are in no table."""
LINES = 20_000
LEARNED = 0.9
"""Accuracy on held-out texts of 1 to 8 pairs from which on a run counts as having learned the task."""
QUESTIONS = 1000


class Job(NamedTuple):
    model: str
    rate: float
    seed: int
    steps: int
    lines: int


def one_run(job: Job) -> dict[str, Any]:
    """Train one model; accuracy for each number of pairs, on texts that all models are asked."""
    import torch

    import anaphora
    from anaphora.lectures.all_scores import (
        ASKED,
        TRAINED,
        accuracy,
        recall_lines,
        recall_settings,
        write_recall,
    )

    torch.set_num_threads(1)
    plain = recall_settings("scaled-dot", steps=job.steps, rate=job.rate, seed=job.seed)
    settings = {**plain, **MODELS[job.model]}
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        files = write_recall(Path(name), job.lines, seed=job.seed)
        outcome = anaphora.train(Path(name) / "run", **files, settings=settings, device="cpu")
        model = anaphora.load(Path(name) / "run", "cpu")
    parts = (model.model, model.source_tokenizer, model.target_tokenizer)
    return {
        **job._asdict(),
        "parameters": outcome.parameters,
        "seconds": round(outcome.seconds, 1),
        "held out": accuracy(*parts, recall_lines(QUESTIONS, TRAINED, seed=500_000)),
        "accuracy": {
            pairs: accuracy(*parts, recall_lines(QUESTIONS, [pairs], seed=600_000 + pairs)) for pairs in ASKED
        },
    }


def best_rate(tried: list[dict[str, Any]]) -> float:
    """The rate whose runs answer most held-out questions, all seeds together; the lowest of equals."""
    right: dict[float, float] = {}
    for run in sorted(tried, key=lambda run: run["rate"]):
        right[run["rate"]] = right.get(run["rate"], 0.0) + run["held out"]
    return max(right, key=right.__getitem__)


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all seeds of one model. Runs either learn the task or stay on a plateau, so a mean would describe neither."""
    by_pairs = {pairs: [100 * run["accuracy"][pairs] for run in runs] for pairs in runs[0]["accuracy"]}
    return {
        "parameters": runs[0]["parameters"],
        "learned": sum(run["held out"] > LEARNED for run in runs),
        "accuracy": {pairs: (statistics.median(found), min(found)) for pairs, found in by_pairs.items()},
    }


def main() -> None:
    from anaphora.lectures.all_scores import ASKED

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--small", action="store_true", help="few updates: does it run?")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.small:
        given.steps, given.seeds = 5, 1
    lines = 500 if given.small else LINES
    rates, choosing = (RATES[:1], CHOOSING[:1]) if given.small else (RATES, CHOOSING)
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        tried = list(
            pool.map(one_run, [Job(v, r, s, given.steps, lines) for v in MODELS for r in rates for s in choosing])
        )
        best = {model: best_rate([run for run in tried if run["model"] == model]) for model in MODELS}
        jobs = [Job(v, best[v], seed, given.steps, lines) for v in MODELS for seed in range(1, given.seeds + 1)]
        runs = list(pool.map(one_run, jobs))
    table = {model: summary([run for run in runs if run["model"] == model]) for model in MODELS}
    print(f"{'':16}{'parameters':>11}{'rate':>7}{'learned':>9}" + "".join(f"{pairs:>11}" for pairs in ASKED))
    for model, found in table.items():
        learned = f"{found['learned']}/{given.seeds}"
        cells = "".join(f"{f'{middle:.0f} ({lowest:.0f})':>11}" for middle, lowest in found["accuracy"].values())
        print(f"{model:16}{found['parameters']:>11,}{best[model]:>7}{learned:>9}{cells}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {"table": table, "rates": best, "tried": tried, "runs": runs, "machine": machine(), "commit": commit}
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({"table": table, "rates": best, "machine": machine(), "steps": given.steps, "commit": commit}))


def machine() -> str:
    import torch

    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.processor()}, one thread a run, torch {torch.__version__}"


if __name__ == "__main__":
    main()
