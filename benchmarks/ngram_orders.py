"""What longer contexts are worth: n-gram models of tiny Shakespeare at every order, measured, heard and drawn.

    python benchmarks/ngram_orders.py --text tinyshakespeare/input.txt.xz [--work DIR] [--picture orders.png]

The first 90 % of the text (to the end of a line) are counted, the rest is held out. Three ways to cut it into tokens,
so that bits per byte, which is comparable across them, can be compared: characters; words, those seen once spelled in
bytes; and words with all others as one unknown token, which is no fair ruler (an unknown word costs no letters) and is
given as perplexity only. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anaphora
from anaphora.data.formats import read_rows
from anaphora.explain.draw.colors import LINK, hexadecimal, shade
from anaphora.pipelines.text_model import TextModel

SHARE = 0.9
PUBLISHED = 1.4697 / 0.6931471805599453
"""Bits a character of nanoGPT's Transformer (6 layers, 384 wide) on the last 10 % of the same text, by its README."""


@dataclass(frozen=True)
class Units:
    """One way to cut text into tokens."""

    name: str
    settings: tuple[str, ...]
    orders: range
    honest: bool
    """Whether every letter of a text is predicted, so that bits per byte mean something."""


UNITS = (
    Units("characters", ("tokenizer.kind=character", "tokenizer.fallback=bytes"), range(1, 9), True),
    Units(
        "words and bytes",
        (
            "tokenizer.kind=word",
            "tokenizer.split=punctuation",
            "tokenizer.fallback=bytes",
            "tokenizer.minimum_count=2",
        ),
        range(1, 6),
        True,
    ),
    Units("words", (), range(1, 6), False),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="tiny Shakespeare, or any text")
    parser.add_argument("--work", type=Path, default=Path("ngram-orders"), help="for the split and the models")
    parser.add_argument("--picture", type=Path, help="draw bits per byte by order here (.png or .svg)")
    parser.add_argument("--seed", type=int, default=1, help="of the samples")
    parser.add_argument("--samples", type=int, default=4)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    train, held_out = split(arguments.text, arguments.work)
    lines = held_out.read_text(encoding="utf-8").splitlines()
    rows: list[dict[str, Any]] = []
    for units in UNITS:
        print(f"\n{units.name}: {' '.join(units.settings) or 'the recipe as it is'}")
        print("order  bits/byte  perplexity  unknown     n-grams  seconds   MB")
        for order in units.orders:
            row = measure(units, order, train, lines, arguments)
            rows.append(row)
            bits = f"{row['bits_per_byte']:9.3f}" if units.honest else f"{'-':>9}"
            print(
                f"{order:5}  {bits}  {row['perplexity']:10.2f}  {row['unknown_tokens']:7,}  {row['ngrams']:10,}  "
                f"{row['seconds']:7.2f}  {row['megabytes']:3.0f}",
                flush=True,
            )
        for row in rows[-len(units.orders) :]:
            print(f"\n  order {row['order']}")
            for sample in row["samples"]:
                print(f"    {sample}")
    if arguments.picture is not None:
        draw(rows, arguments.picture)
        print(f"\n{arguments.picture} shows it")
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, check=False)
    result = {"command": " ".join(sys.argv), "commit": found.stdout.decode().strip(), "seed": arguments.seed}
    result |= {"cores": os.cpu_count(), "python": platform.python_version(), "published": PUBLISHED, "rows": rows}
    print(json.dumps(result, ensure_ascii=False))


def split(text: Path, work: Path) -> tuple[Path, Path]:
    """The first 90 % of the characters, to the end of their line, and the rest."""
    lines = [row[0] for row in read_rows({"text": [str(text)]}, strict=False)]
    left = SHARE * sum(len(line) + 1 for line in lines)
    place = 0
    while left > 0:
        left -= len(lines[place]) + 1
        place += 1
    for name, part in (("train", lines[:place]), ("held-out", lines[place:])):
        (work / f"{name}.txt").write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    print(f"{place:,} lines to count, {len(lines) - place:,} held out")
    return work / "train.txt", work / "held-out.txt"


def measure(units: Units, order: int, train: Path, lines: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Train, evaluate, generate."""
    folder = arguments.work / f"{units.name.replace(' ', '-')}-{order}"
    anaphora.train(folder, text=train, recipe="ngram", settings=[*units.settings, f"model.order={order}"])
    model = anaphora.load(folder)
    assert isinstance(model, TextModel)
    found, told = model.evaluate(lines), model.info()
    said = model.generate("", samples=10 * arguments.samples, tokens=100, min_length=0, seed=arguments.seed)
    spoken = [one.text for one in said if one.text]  # the text has many blank lines, and so have the samples
    return {
        "units": units.name,
        "honest": units.honest,
        "order": order,
        "bits_per_byte": found.bits_per_byte,
        "perplexity": found.perplexity,
        "tokens": found.tokens,
        "unknown_tokens": found.unknown_tokens,
        "bytes": found.bytes,
        "ngrams": sum(told["ngrams"]),
        "seconds": told["metrics"]["cost"]["seconds"],
        "megabytes": told["bytes_on_disk"] / 1e6,
        "samples": spoken[: arguments.samples],
    }


def draw(rows: list[dict[str, Any]], picture: Path) -> None:
    """Bits per byte by order, on a scale on which equal ratios are equal distances; each line has its name by it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, gray = "#222222", "#6f6f6f"
    looks = {  # color, what stands beside the line and where, and at which orders its numbers stand below it
        "characters": (hexadecimal(shade(75)), "characters", "", (1.42, 4.42), {5}),
        "words and bytes": (hexadecimal(LINK), "words", "rare ones in bytes", (1.92, 2.7), {2, 3, 4}),
    }
    figure, axes = plt.subplots(figsize=(8.2, 5.0), dpi=160, layout="constrained")
    axes.set_yscale("log")
    for units, (color, name, more, place, below) in looks.items():
        own = [row for row in rows if row["units"] == units]
        orders, bits = [row["order"] for row in own], [row["bits_per_byte"] for row in own]
        axes.plot(orders, bits, color=color, linewidth=2.2, marker="o", markersize=7, mec="white", zorder=3)
        for order, value in zip(orders, bits):
            under = order in below
            steep = units == "characters" and order < 4  # beside the line, not on it
            axes.annotate(
                f"{value:.2f}", (order, value), (8 if steep else 0, -8 if under else 4 if steep else 8),
                textcoords="offset points", color=color, ha="left" if steep else "center",
                va="top" if under else "bottom", fontsize=10,
            )  # fmt: skip
        axes.annotate(name, place, color=color, fontsize=12, fontweight="bold", va="bottom")
        axes.annotate(more, place, (0, -3), textcoords="offset points", color=color, fontsize=10, va="top")
    last = max(row["order"] for row in rows)
    axes.axhline(PUBLISHED, color="#9a9a9a", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        f"{PUBLISHED:.2f}  a Transformer over characters (nanoGPT, as published)", (last + 0.3, PUBLISHED), (0, -5),
        textcoords="offset points", color=gray, ha="right", va="top", fontsize=10,
    )  # fmt: skip
    axes.set_xlim(0.7, last + 0.3)
    axes.set_ylim(1.95, 5.4)
    axes.set_yticks([2, 2.5, 3, 4, 5], ["2", "2.5", "3", "4", "5"])
    axes.minorticks_off()
    axes.set_xticks(range(1, last + 1))
    axes.set_xlabel("order: how many tokens an n-gram has", color=ink, fontsize=11, labelpad=8)
    axes.set_ylabel("bits per byte of held-out text", color=ink, fontsize=11, labelpad=8)
    axes.set_title("What longer contexts are worth: tiny Shakespeare", loc="left", color=ink, fontsize=13.5, pad=14)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8, zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#9a9a9a")
    axes.tick_params(colors=ink, length=0, labelsize=10.5)
    figure.savefig(picture, metadata={"Software": None} if picture.suffix == ".png" else None)


if __name__ == "__main__":
    main()
