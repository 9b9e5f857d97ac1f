"""Every encoder as a classifier: As and Bs, their order, and the senses of words (docs/classifying.md).

    python benchmarks/classifying.py [--data shared/data/wsd --words bank club] [--seed 1] [--epochs N] [--work DIR]

any-b     all As → A, any B → B, of texts of 1 to 8 letters: which letters there are is enough
first     as many As as Bs, in any order → the letter that came first: here only order tells
WORD      a sentence of CoarseWSD-20 → the sense of the word in it

The files are written to --work, and each encoder is trained by `anaphora.train(text=, labels=)` with its recipe,
small for letters. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import anaphora
from anaphora.models.registry import kinds
from anaphora.pipelines.text_model import TextModel

Labeled = list[tuple[str, str]]
LETTERS: dict[str, Any] = {"tokenizer.kind": "word", "training.max_steps": 200, "training.learning_rate": 5e-3}
LETTERS |= {"model.dim": 32, "model.pool": "last", "training.batch_tokens": 1024, "training.samples": 0}
"""For texts of letters, small models, whose last vector answers."""
SENTENCES: dict[str, Any] = {"tokenizer.kind": "word", "tokenizer.split": "whitespace", "training.samples": 0}
SENTENCES |= {"tokenizer.fallback": "unk", "tokenizer.minimum_count": 2, "model.bidirectional": True}
"""Every reader sees both sides of each word; the mean of all vectors answers."""


def any_b(number: int, seed: int, longest: int = 8) -> Labeled:
    """(letters, label): half of the texts have no B, half one to three, anywhere."""
    draw, made = random.Random(seed), []
    for place in range(number):
        length = draw.randint(1, longest)
        bs = set(draw.sample(range(length), min(length, draw.randint(1, 3)))) if place % 2 else set()
        made.append((" ".join("B" if i in bs else "A" for i in range(length)), "B" if bs else "A"))
    return made


def first(number: int, seed: int, longest: int = 8) -> Labeled:
    """(letters, label): as many As as Bs, and the label is the letter that stands first."""
    draw, made = random.Random(seed), []
    for _ in range(number):
        letters = ["A", "B"] * draw.randint(1, longest // 2)
        draw.shuffle(letters)
        made.append((" ".join(letters), letters[0]))
    return made


def senses(folder: Path, word: str, part: str) -> Labeled:
    """(sentence, sense) of a word of CoarseWSD-20."""
    lines = gzip.decompress((folder / f"{word}.{part}.tsv.gz").read_bytes()).decode("utf-8").splitlines()
    return [(text, sense) for sense, _, text in (line.split("\t") for line in lines)]


def write(folder: Path, name: str, labeled: Labeled) -> tuple[Path, Path]:
    """Two files, line for line."""
    texts, labels = folder / f"{name}.txt", folder / f"{name}.labels"
    texts.write_text("".join(f"{text}\n" for text, _ in labeled), encoding="utf-8")
    labels.write_text("".join(f"{label}\n" for _, label in labeled), encoding="utf-8")
    return texts, labels


def one(kind: str, work: Path, train: Labeled, test: Labeled, settings: dict[str, Any]) -> dict[str, float]:
    """Train one encoder and ask it about the test: accuracy, and its mean over labels."""
    texts, labels = write(work, "train", train)
    write(work, "test", test)
    outcome = anaphora.train(work / kind, text=texts, labels=labels, recipe=kind, settings=settings, device="cpu")
    model = anaphora.load(work / kind, "cpu")
    assert isinstance(model, TextModel)
    right, total = Counter[str](), Counter(label for _, label in test)
    for found, (_, label) in zip(model.classify([text for text, _ in test]), test):
        right[label] += found.label == label
    macro = sum(right[label] / total[label] for label in total) / len(total)
    return {"accuracy": sum(right.values()) / len(test), "macro": macro, "seconds": round(outcome.seconds, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of CoarseWSD-20: WORD.train.tsv.gz, WORD.test.tsv.gz")
    parser.add_argument("--words", nargs="*", default=["bank", "club"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=float, help="for sentences; as the recipe has it unless given")
    parser.add_argument("--kinds", nargs="*", default=list(kinds("language")))
    parser.add_argument("--work", type=Path, help="where texts and models are kept; nowhere unless given")
    given = parser.parse_args()
    tasks: dict[str, tuple[Labeled, Labeled, dict[str, Any]]] = {
        task.__name__.replace("_", "-"): (task(2000, given.seed), task(500, 1000 + given.seed), LETTERS)
        for task in (any_b, first)
    }
    for word in given.words if given.data else ():
        parts = (senses(given.data, word, "train"), senses(given.data, word, "test"))
        tasks[word] = (*parts, {**SENTENCES, **({"training.epochs": given.epochs} if given.epochs else {})})
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        for task, (train, test, settings) in tasks.items():
            work = (given.work or Path(name)) / task
            work.mkdir(parents=True, exist_ok=True)
            common = Counter(label for _, label in train).most_common(1)[0][0]
            share = sum(label == common for _, label in test) / len(test)
            print(f"\n{task}: {len(train):,} to learn from, {len(test):,} asked; always {common}: {100 * share:.1f} %")
            for kind in given.kinds:
                odd = {"model.width": 3} if kind == "conv" and settings.get("model.bidirectional") else {}
                row = one(kind, work, train, test, {**settings, **odd, "training.seed": given.seed})
                found.setdefault(task, {})[kind] = row
                print(f"  {kind:22}{100 * row['accuracy']:7.1f} %   mean over labels {100 * row['macro']:5.1f} %"
                      f"{row['seconds']:8.1f} s", flush=True)  # fmt: skip
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    told = {"command": " ".join(sys.argv), "commit": commit, "seed": given.seed, "machine": platform.processor()}
    print(json.dumps({**told, "found": found}))


if __name__ == "__main__":
    main()
