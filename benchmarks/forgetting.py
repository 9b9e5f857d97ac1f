"""Who forgets? A name asked for at growing distance, by every rung of the ladder (docs/lectures/9-forgetting.md).

    python benchmarks/forgetting.py [--seeds 3] [--steps 500] [--jobs 2] [--work DIR] [--picture forgetting.png]
    python benchmarks/forgetting.py --small      # does it run? (the figures say nothing)

Each rung is trained anew for each distance by `anaphora.train`, on stories whose name stands that far back, and asked
about others like them. Gradients are taken before training, at every distance up to 128 tokens, and after it. CPU, one
thread a run. Runs in --work are kept: the same command again goes on with those that are missing. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

DISTANCES = (8, 16, 32, 64)


class Job(NamedTuple):
    rung: str
    distance: int
    seed: int
    steps: int
    texts: int
    work: str


def one_run(job: Job) -> dict[str, Any]:
    """Train, ask, take gradients."""
    import torch

    import anaphora
    from anaphora.lectures import forgetting as lecture
    from anaphora.pipelines.text_model import TextModel

    torch.set_num_threads(1)
    folder = Path(job.work) / f"seed-{job.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / f"{job.rung}-{job.distance}"
    own.mkdir(exist_ok=True)
    files = lecture.write_stories(own, job.distance, number=job.texts, seed=job.seed)
    settings = lecture.settings(job.rung, job.distance, steps=job.steps, seed=job.seed)
    outcome = anaphora.train(
        own / "run", **files, recipe=lecture.RUNGS[job.rung].recipe, settings=settings, device="cpu"
    )
    loaded = anaphora.load(own / "run", "cpu")
    assert isinstance(loaded, TextModel)
    model: Any = loaded.model
    start = lecture.untrained(model, job.seed)
    asked = lecture.stories(500, job.distance, 1000 + job.distance)
    return {
        "rung": job.rung,
        "distance": job.distance,
        "seed": job.seed,
        "parameters": outcome.parameters,
        "seconds": round(outcome.seconds, 1),
        "accuracy": lecture.accuracy(model, loaded.tokenizer, asked),
        "before": {n: lecture.name_gradient(start, loaded.tokenizer, n) for n in lecture.MEASURED},
        "after": lecture.name_gradient(model, loaded.tokenizer, job.distance, of="margin"),
        "after log P": lecture.name_gradient(model, loaded.tokenizer, job.distance),
    }


def main() -> None:
    from anaphora.lectures.forgetting import RUNGS, STEPS, TEXTS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--work", type=Path, help="where runs are kept; nowhere unless given")
    parser.add_argument("--picture", type=Path, help="draw accuracy and gradients by distance (.png or .svg)")
    parser.add_argument("--small", action="store_true", help="few updates: does it run?")
    given = parser.parse_args()
    texts, distances = TEXTS, DISTANCES
    if given.small:
        given.steps, given.seeds, texts, distances = 2, 1, 300, DISTANCES[:2]
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        work = str(given.work or name)
        jobs = [
            Job(rung, distance, seed, given.steps, texts, work)
            for seed in range(1, given.seeds + 1)
            for distance in distances
            for rung in RUNGS
        ]
        runs = []
        with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
            for run in pool.map(one_run, jobs):
                runs.append(run)
                print(f"seed {run['seed']}  {run['rung']:20} {run['distance']:3}  {100 * run['accuracy']:5.1f} %  "
                      f"{run['seconds']:5.1f} s", file=sys.stderr, flush=True)  # fmt: skip
    table = {rung: {n: percent(runs, rung, n) for n in distances} for rung in RUNGS}
    print(f"{'answers in percent':20}" + "".join(f"{n:>14}" for n in distances))
    for rung, row in table.items():
        cells = (f"{statistics.mean(own):.0f} ({min(own):.0f}-{max(own):.0f})" for own in row.values())
        print(f"{rung:20}" + "".join(f"{cell:>14}" for cell in cells))
    for what, key in (("before", "before"), ("after", "after")):
        print(f"\ngradient {what} training, median")
        for rung in RUNGS:
            print(f"{rung:20}" + "".join(f"{value:>10.1e}" for value in curve(runs, rung, key).values()))
    if given.picture is not None:
        draw(runs, given.picture)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    told = {"steps": given.steps, "seeds": given.seeds, "machine": platform.processor(), "commit": commit}
    print(json.dumps({**told, "command": " ".join(sys.argv), "runs": runs}))


def percent(runs: list[dict[str, Any]], rung: str, distance: int) -> list[float]:
    return [100 * run["accuracy"] for run in runs if (run["rung"], run["distance"]) == (rung, distance)]


def curve(runs: list[dict[str, Any]], rung: str, key: str) -> dict[int, float]:
    """By distance, the median over seeds: before training of any run of the rung, after it of those for a distance."""
    own = [run for run in runs if run["rung"] == rung]
    if key == "before":
        first = [run for run in own if run["distance"] == own[0]["distance"]]
        return {int(n): statistics.median(run["before"][n] for run in first) for n in own[0]["before"]}
    by = sorted({run["distance"] for run in own})
    return {n: statistics.median(run[key] for run in own if run["distance"] == n) for n in by}


LOOKS = {
    "dan": ("#9a6a00", ":", "averaging"),
    "window": ("#8c8c8c", "--", "window (16)"),
    "conv": ("#5b5b5b", "-.", "convolution (31)"),
    "rnn": ("#c0392b", "-", "plain recurrent"),
    "gru": ("#d97a4a", "-", "GRU"),
    "lstm": ("#7b3fa0", "-", "LSTM"),
    "lstm-open": ("#7b3fa0", "--", "LSTM, gate held open"),
    "transformer-decoder": ("#1f5fa8", "-", "attention"),
}
"""Colour, line and name of each rung."""


def draw(runs: list[dict[str, Any]], picture: Path) -> None:
    """Three panels over one scale of distances: answers, gradient before training, gradient after."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.transforms import ScaledTranslation

    ink = "#222222"
    figure, panels = plt.subplots(1, 3, figsize=(12.6, 4.9), dpi=150, layout="constrained")
    titles = (
        "Names answered, % (equal lines apart)",
        "‖d log P(answer) / d name‖, before training",
        "after training (margin)",
    )
    learned = sorted({run["distance"] for run in runs})
    for panel, title in zip(panels, titles):
        panel.set_title(title, loc="left", color=ink, fontsize=12, pad=10)
        panel.set_xscale("log", base=2)
        panel.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(colors=ink, length=0, labelsize=10)
        panel.set_xlabel("tokens from the name to the answer", color=ink, fontsize=10.5)
    for rung, (color, line, name) in LOOKS.items():
        look = {"color": color, "linestyle": line, "linewidth": 2.1, "marker": "o", "markersize": 4.5, "label": name}
        answers = [percent(runs, rung, n) for n in learned]
        apart = ScaledTranslation(0, (list(LOOKS).index(rung) - 3.5) * 2.6 / 72, figure.dpi_scale_trans)
        place = panels[0].transData + apart  # equal ones side by side
        panels[0].plot(learned, [statistics.mean(own) for own in answers], **look, transform=place)
        panels[0].vlines(
            learned, [min(own) for own in answers], [max(own) for own in answers], color=color, lw=1, transform=place
        )
        for panel, key in zip(panels[1:], ("before", "after")):
            seen = {n: value for n, value in curve(runs, rung, key).items() if value > 0}
            panel.plot(list(seen), list(seen.values()), **look)
    panels[0].axhline(12.5, color="#9a9a9a", linewidth=1, linestyle=(0, (4, 3)))
    panels[0].annotate("guessing", (learned[0], 12.5), (2, -4), textcoords="offset points", va="top", fontsize=9.5)
    panels[0].set(ylim=(0, 108), xlim=(0.92 * learned[0], 1.08 * learned[-1]))
    for panel in panels[1:]:
        panel.set_yscale("log")
    for panel in (panels[0], panels[2]):
        panel.set_xticks(learned, [str(n) for n in learned])
    far = [8, 16, 32, 64, 128]
    panels[1].set_xticks(far, [str(n) for n in far])
    for panel in panels:
        panel.minorticks_off()
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=8, frameon=False, fontsize=10.5
    )
    figure.savefig(picture, metadata={"Software": None} if picture.suffix == ".png" else None)


if __name__ == "__main__":
    main()
