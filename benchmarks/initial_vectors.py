"""Do word vectors help a model to begin? The first few hundred updates, with and without `model.embedding_from`.

    python benchmarks/initial_vectors.py --data DATA [--task ptb multi30k] [--seeds 1 2] [--updates 200] [--wide 100]
                                         [--start none skipgram glove wiki shuffled] [--work DIR]

DATA holds ptb/, multi30k/ and wiki-en/. Two models: an LSTM language model on Penn Treebank, and the tiny Transformer
on Multi30k, English to German, on subwords. Their tables begin as drawn (none), or with vectors that skip-gram or GloVe
has learned from the *same* training text before (skipgram, glove: nothing else is known), or, of the language model,
from English Wikipedia in lower case (wiki), or with skip-gram's, each given to a wrong word (shuffled: is it the
vectors that help, or that they are not drawn?). All else is the same, the seed too. What counts is the loss on the
validation text (nats a token) at four moments; limit: with vectors of the same text it is below that without, at each
moment, on average over the seeds. Runs that are there already are not made again, so that a killed benchmark goes on.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import anaphora
from anaphora.models.vectors.vector_files import load_vectors, save_vectors
from anaphora.models.vectors.word_vectors import Vectors

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")
"""Words, and marks by themselves: as tokenizers of this house cut text."""
MOMENTS = 4
TEXT = {"training.threads": 1}
PTB = {
    "tokenizer.kind": "word",
    "tokenizer.split": "blanks",
    "tokenizer.unknown": "<unk>",
    "model.layers": 1,
    "training.batch_tokens": 700,
    "training.context": 35,
    "training.schedule": "constant",
}
BLANKS: dict[str, Any] = {"data.punctuation": "attached", "data.lowercase": False}
"""The texts are words between blanks already, and the models that begin with the vectors read them as they are."""
MULTI30K = {"training.batch_tokens": 1024, "training.warmup_steps": 50, "training.schedule": "constant"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--task", nargs="+", choices=("ptb", "multi30k"), default=["ptb", "multi30k"])
    starts = ("none", "skipgram", "glove", "wiki", "shuffled")
    parser.add_argument("--start", nargs="+", choices=starts, default=["none", "skipgram", "glove"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--wide", type=int, default=100, help="width of the LSTM; the tiny translator is 128 wide")
    parser.add_argument("--work", type=Path, default=Path("initial-vectors-work"), help="for the texts and the runs")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, check=False)
    result: dict[str, Any] = {"command": " ".join(sys.argv), "commit": found.stdout.decode().strip(), "tasks": {}}
    missed = False
    for task in arguments.task:
        curves = {start: several(task, start, arguments) for start in arguments.start if (task, start) != WITHOUT}
        result["tasks"][task] = curves
        missed |= tell(task, curves, arguments)
    print(json.dumps(result))
    sys.exit(1 if missed else 0)


WITHOUT = ("multi30k", "wiki")
"""Has no German."""


def several(task: str, start: str, arguments: argparse.Namespace) -> list[dict[int, float]]:
    """The validation losses of one beginning, by update, for each seed."""
    return [validation(task, start, seed, arguments) for seed in arguments.seeds]


def validation(task: str, start: str, seed: int, arguments: argparse.Namespace) -> dict[int, float]:
    """One run, and what its log says."""
    work, dim = arguments.work, arguments.wide if task == "ptb" else 128
    run = work / f"{task}-{start}-{dim}-{arguments.updates}-{seed}"
    settings: dict[str, Any] = {
        "training.seed": seed,
        "training.max_steps": arguments.updates,
        "training.checkpoint_every": arguments.updates // MOMENTS,
        "training.samples": 0,
        "training.keep": 1,
        "training.average": 1,
    }
    if start != "none":
        settings["model.embedding_from"] = str(learned(task, start, dim, arguments))
    if task == "ptb":
        text = {"text": words(arguments, "ptb.train"), "valid_text": words(arguments, "ptb.valid")}
        how: dict[str, Any] = {"recipe": "lstm", **text}
        settings |= {**PTB, "model.dim": dim, "model.hidden": dim}
    else:
        folder = arguments.data / "multi30k"
        sides = {"source": "train.en.gz", "target": "train.de.gz", "valid_source": "val.en.gz"}
        sides["valid_target"] = "val.de.gz"
        how = {"recipe": "tiny", **{side: folder / file for side, file in sides.items()}}
        settings |= MULTI30K
    anaphora.train(run, **how, settings=settings, device="cpu")
    lines = [json.loads(line) for line in (run / "logs" / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "validation"}


def learned(task: str, start: str, dim: int, arguments: argparse.Namespace) -> Path:
    """Vectors, learned once."""
    if start == "shuffled":
        right = load_vectors(learned(task, "skipgram", dim, arguments) / "model.safetensors")
        wrong = np.random.default_rng(1).permutation(len(right))
        path: Path = arguments.work / f"vectors-{task}-shuffled-{dim}.safetensors"
        save_vectors(Vectors(right.index_to_key, right.vectors[wrong]), path)
        return path
    run = arguments.work / f"vectors-{task if start != 'wiki' else 'wiki'}-{start}-{dim}"
    recipe = "skipgram" if start == "wiki" else start
    text = words(arguments, "wiki" if start == "wiki" else "ptb.train" if task == "ptb" else "multi30k")
    anaphora.train(run, text=text, recipe=recipe, settings={**TEXT, "model.dim": dim, **BLANKS})
    return run


def words(arguments: argparse.Namespace, name: str) -> Path:
    """A text with blanks between its words: PTB as it is, Multi30k's two training texts after each other, Wikipedia in
    lower case, which PTB is in."""
    path: Path = arguments.work / f"{name}.txt"
    if path.exists():
        return path
    data: Path = arguments.data
    lines: Iterable[str]
    if name.startswith("ptb"):
        lines = (line.strip() for line in opened(data / "ptb" / f"{name}.txt.xz"))
    elif name == "multi30k":
        sides = (line for side in ("en", "de") for line in opened(data / "multi30k" / f"train.{side}.gz"))
        lines = (" ".join(WORD.findall(line)) for line in sides)
    else:
        lines = (" ".join(WORD.findall(line.lower())) for line in opened(data / "wiki-en" / "wiki-en.txt.xz"))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def opened(path: Path) -> Iterator[str]:
    with (lzma if path.suffix == ".xz" else gzip).open(path, "rt", encoding="utf-8", newline="\n") as lines:
        yield from lines


def tell(task: str, curves: dict[str, list[dict[int, float]]], arguments: argparse.Namespace) -> bool:
    """The table of a task, and whether something missed its limit."""
    steps = sorted(next(iter(curves.values()))[0])
    print(f"\n== {task}: validation loss after so many updates, each seed and the mean")
    print("begins with     seed " + "".join(f"{step:9}" for step in steps))
    means: dict[str, list[float]] = {}
    for start, several in curves.items():
        for seed, curve in zip(arguments.seeds, several):
            print(f"{start:15} {seed:4} " + "".join(f"{curve[step]:9.4f}" for step in steps))
        means[start] = [statistics.mean(curve[step] for curve in several) for step in steps]
        print(f"{start:15} mean " + "".join(f"{mean:9.4f}" for mean in means[start]))
    missed = False
    for start in ("skipgram", "glove"):
        if start in means and "none" in means:
            gains = [before - after for before, after in zip(means["none"], means[start])]
            low = min(gains) <= 0
            print(f"{start} is lower by " + ", ".join(f"{gain:.4f}" for gain in gains) + ("  MISSED" if low else ""))
            missed |= low
    return missed


if __name__ == "__main__":
    main()
