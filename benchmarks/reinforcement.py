"""The reward curve: what a run that learned from its own translations won, update by update.

    anaphora train runs/rl --from runs/en-de … training.objective=reinforce
    python benchmarks/reinforcement.py runs/rl [--picture reward.png]

Reads what such runs have written anyway: `logs/log.jsonl` (the mean reward of what was drawn) and `metrics.json` (GLEU
and BLEU of the validation text, from step 0, the model that it started from). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from anaphora.explain.draw.colors import LINK, hexadecimal, shade
from anaphora.folder import LOGS, read_config, read_metrics


def read(run: Path) -> dict[str, Any]:
    """Of one run: its objective, rewards by update, scores by validation, and what the best checkpoint has won."""
    lines = (run / LOGS / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rewards = [(entry["step"], entry["reward"]) for entry in map(json.loads, lines) if "reward" in entry]
    history = [entry for entry in read_metrics(run)["history"] if "gleu" in entry]
    if not rewards or not history:
        raise SystemExit(f"{run}: no rewards here; it did not learn with training.objective=reinforce or minimum-risk")
    training = read_config(run)["training"]
    start, best = history[0], max(history, key=lambda entry: entry[training["metric"]])
    return {
        "run": str(run),
        "objective": training["objective"],
        "reward": training["reward"],
        "candidates": training["candidates"],
        "learning_rate": training["learning_rate"],
        "temperature": training["sample_temperature"],
        "likelihood_weight": training["likelihood_weight"],
        "risk_sharpness": training["risk_sharpness"] if training["objective"] == "minimum-risk" else None,
        "best_step": best["step"],
        **{f"{name}_start": start[name] for name in ("gleu", "bleu", "chrf", "loss")},
        **{f"{name}_best": best[name] for name in ("gleu", "bleu", "chrf", "loss")},
        "signature": best["bleu_signature"],
        "beam": best["beam"],
        "seconds": read_metrics(run)["cost"]["seconds"],
        "device": read_metrics(run)["cost"]["device"],
        "rewards": rewards,
        "history": [(entry["step"], entry["gleu"], entry["bleu"]) for entry in history],
    }


def show(runs: list[dict[str, Any]]) -> None:
    print(f"{'run':24} {'step':>6} {'GLEU':>15} {'BLEU':>15} {'reward':>15} {'seconds':>8}")
    for run in runs:
        ends = run["rewards"][0][1], run["rewards"][-1][1]
        print(
            f"{Path(run['run']).name[-24:]:24} {run['best_step']:6}"
            f" {run['gleu_start']:6.2f} → {run['gleu_best']:6.2f} {run['bleu_start']:6.2f} → {run['bleu_best']:6.2f}"
            f" {ends[0]:6.3f} → {ends[1]:6.3f} {run['seconds']:8.0f}"
        )


def draw(run: dict[str, Any], picture: Path) -> None:
    """Above, what validation won over the start; below, the mean reward of what was drawn."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, blue, red = "#222222", hexadecimal(shade(75)), hexadecimal(LINK)
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8.2, 5.6), dpi=160, layout="constrained", sharex=True, height_ratios=(3, 2)
    )
    steps, gleu, bleu = zip(*run["history"])
    higher = gleu[-1] - gleu[0] >= bleu[-1] - bleu[0]  # whose line ends above the other's
    for name, values, color in (("GLEU", gleu, blue), ("BLEU", bleu, red)):
        won = [value - values[0] for value in values]
        above.plot(steps, won, color=color, linewidth=2.2, marker="o", markersize=6, mec="white", zorder=3)
        up = 7 if (name == "GLEU") == higher else -7
        label = f"{name} {values[0]:.1f} → {values[-1]:.1f}"
        above.annotate(label, (steps[-1], won[-1]), (8, up), textcoords="offset points", color=color, va="center")
    above.axhline(0, color="#9a9a9a", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    above.set_ylabel("points won on\nvalidation text", color=ink, fontsize=11)
    below.plot(*zip(*run["rewards"]), color=blue, linewidth=1.6)
    below.set_ylabel(f"mean {run['reward'].upper()} of\nwhat was drawn", color=ink, fontsize=11)
    below.set_xlabel("updates", color=ink, fontsize=11, labelpad=6)
    below.set_xlim(0, max(1, steps[-1]) * 1.26)  # room for the names of the lines
    above.set_title(f"Learning from its own translations: {run['objective']}", loc="left", color=ink, fontsize=13.5)
    for axes in (above, below):
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8, zorder=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color("#9a9a9a")
        axes.tick_params(colors=ink, length=0, labelsize=10.5)
    figure.savefig(picture, metadata={"Software": None} if picture.suffix == ".png" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs; the first is drawn")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    runs = [read(run) for run in given.runs]
    show(runs)
    if given.picture is not None:
        draw(runs[0], given.picture)
    kept = [{key: value for key, value in run.items() if key not in ("rewards", "history")} for run in runs]
    print(json.dumps({"benchmark": "reinforcement", "runs": kept}))


if __name__ == "__main__":
    main()
