"""Lecture 8: every score, and linear attention, on one task small enough to train while you wait.

Recall: `c1 b7 a3 ?b` → `7`. A text is a list of pairs, a letter and a digit each, in any order, and a question; the
answer is the digit that stands with the letter asked for. One layer of attention can do it, the question looking for
its pair; that is what attention is for. Each model is a Transformer translator with `model.score` and
`model.normalizer` set, trained by the toolkit's one loop, as `anaphora train` would; `benchmarks/scores.py` makes the
whole table, with several seeds and learning rates.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.folder import read_config
from anaphora.models.contracts import Translator
from anaphora.nn.attention_capture import capture
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer

LETTERS, DIGITS = "abcdefghijklmnop", "0123456789"
TRAINED = range(1, 9)
"""Pairs of a training text."""
ASKED = (1, 2, 4, 8, 12, 16)
"""Pairs of a test text; the last two are more than training ever showed."""

PUBLISHED = ("scaled-dot", "dot", "bilinear", "additive")
"""The scores that the lectures are about; a later one changes none of their pages."""
VARIANTS: dict[str, dict[str, str]] = {
    **{name: {"model.score": name} for name in PUBLISHED},
    "linear": {"model.score": "scaled-dot", "model.normalizer": "none"},
}
RATE = 5e-3
"""For the short runs of the walk; `benchmarks/scores.py` chooses among several."""
STEPS, TEXTS = 400, 10_000

RECALL: dict[str, Any] = {
    "tokenizer.kind": "word",
    "tokenizer.split": "whitespace",
    "data.hold_out": 0,  # every answer stands in every part of the text: held-out pairs would empty it
    "model.dim": 32,
    "model.layers": 1,
    "model.heads": 1,
    "model.feed_forward": 64,
    "model.positions": "none",
    "model.max_length": 32,
    "model.dropout": 0.0,
    "training.batch_tokens": 1024,
    "training.warmup_steps": 100,
    "training.schedule": "cosine",
    "training.label_smoothing": 0.0,
    "training.samples": 0,
    "training.compile": "off",
}
"""All that the runs share: one layer, one head of 32 dimensions, 16 letters to tell apart."""


def recall_lines(number: int, pairs: Sequence[int], seed: int) -> list[tuple[str, str]]:
    """(text, answer): `c1 b7 a3 ?b`, `7`, with as many pairs as drawn from `pairs`."""
    draw = random.Random(seed)
    made = []
    for _ in range(number):
        letters = draw.sample(LETTERS, draw.choice(pairs))
        digits = draw.choices(DIGITS, k=len(letters))
        place = draw.randrange(len(letters))
        text = " ".join(letter + digit for letter, digit in zip(letters, digits))
        made.append((f"{text} ?{letters[place]}", digits[place]))
    return made


def write_recall(folder: Path, number: int, seed: int) -> dict[str, Path]:
    """The training text as two files: {"source": …, "target": …}."""
    files = {"source": folder / "texts", "target": folder / "answers"}
    for file, lines in zip(files.values(), zip(*recall_lines(number, TRAINED, seed))):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def recall_settings(variant: str, *, steps: int, rate: float, seed: int) -> dict[str, Any]:
    """Dotted settings of one run."""
    training = {
        "training.max_steps": steps,
        "training.checkpoint_every": steps,
        "training.learning_rate": rate,
        "training.seed": seed,
    }
    return {**RECALL, **VARIANTS[variant], **training}


@torch.inference_mode()
def accuracy(model: Translator, source: Tokenizer, target: Tokenizer, lines: Sequence[tuple[str, str]]) -> float:
    """The share of questions answered, by the most probable first token."""
    from anaphora.decoding.translate import pad

    ids, lengths = pad([[*row, EOS] for row in source.encode_batch([text for text, _ in lines])], "cpu")
    wanted = torch.tensor([row[0] for row in target.encode_batch([answer for _, answer in lines])])
    said = model(ids, torch.full((len(lines), 1), BOS), lengths)[:, 0].argmax(dim=-1)
    return float((said == wanted).double().mean())


@contextmanager
def one_thread() -> Iterator[None]:
    """So small a model is slower on two threads, and one gives the same sums on every run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def learn(
    variant: str, folder: Path, files: dict[str, Path], *, steps: int, rate: float, seed: int
) -> tuple[Translator, Tokenizer, Tokenizer]:
    """Train a run as `anaphora train` does, and take what it left in its folder."""
    from anaphora.tasks.recipes import RunConfig
    from anaphora.tasks.request import Request
    from anaphora.tasks.translation_run import train
    from anaphora.tasks.translation_settling import load_start, load_tokenizers

    own: dict[str, dict[str, Any]] = {"data": {side: [str(file)] for side, file in files.items()}}
    for name, value in recall_settings(variant, steps=steps, rate=rate, seed=seed).items():
        section, _, key = name.partition(".")
        own.setdefault(section, {})[key] = value
    train(Request(run=folder, own=own, device="cpu"))
    tokenizers = load_tokenizers(folder)
    model = load_start(folder, RunConfig.read(read_config(folder))).eval()
    return model, tokenizers["source"], tokenizers["target"]


def all_scores(steps: int = STEPS, seed: int = 1, texts: int = TEXTS) -> list[Walk]:
    """Train one small model for each score and one without softmax; how many questions does each answer?"""
    found: list[list[float]] = []
    looks: dict[str, list[list[float]]] = {}
    apart: list[float] = []
    tests = [recall_lines(500, [pairs], 1000 + pairs) for pairs in ASKED]
    with one_thread(), torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        files = write_recall(Path(name), texts, seed)
        for variant in VARIANTS:
            folder = Path(name) / variant
            model, source, target = learn(variant, folder, files, steps=steps, rate=RATE, seed=seed)
            found.append([100 * accuracy(model, source, target, lines) for lines in tests])
            looks[variant], gap = question_looks(model, source)
            apart.append(gap)
    table = Step(
        "accuracy",
        "",
        f"questions answered, in percent, by score (rows) and number of pairs; training had 1 to {TRAINED[-1]}",
        list(VARIANTS),
        [str(pairs) for pairs in ASKED],
        found,
        decimals=0,
    )
    tables = [
        Step(
            "looks",
            "",
            f"{who} looks at, by score (rows); of linear attention, the scores themselves",
            list(VARIANTS),
            EXAMPLE.split(),
            [looks[variant][place] for variant in VARIANTS],
            decimals=2,
        )
        for place, who in enumerate((f"what {EXAMPLE.split()[-1]} in the encoder", "what the decoder"))
    ]
    return [
        Walk(
            "all-scores",
            "All scores on one task",
            f"Recall: `{EXAMPLE}` → `{ANSWER}`. One layer, one head of 32 dimensions, {steps} updates, seed {seed}; "
            "benchmarks/scores.py has the long runs, with several seeds and learning rates.",
            [table, *tables],
            [Check("logits are the same while it is watched as when it is not", max(apart), 1e-4)],
            settings={"steps": steps, "seed": seed},
        )
    ]


EXAMPLE, ANSWER = "c1 b7 a3 e9 ?b", "7"


@torch.inference_mode()
def question_looks(model: Translator, source: Tokenizer) -> tuple[list[list[float]], float]:
    """Over the words of the example, the end mark left out: the question's row in the encoder, and the decoder's; and
    how far watching moves the logits."""
    ids = torch.tensor([[*source.encode_batch([EXAMPLE])[0], EOS]])
    words = ids.shape[1] - 1
    asked = (ids, torch.tensor([[BOS]]))
    with capture(model, ["encoder.*", "decoder.*cross_attention"]) as seen:
        watched = model(*asked)
    rows = [seen[path][0].weights[0, 0] for path in seen]  # (S, S) and (1, S)
    gap = float((watched - model(*asked)).abs().max())
    return [rows[0][words - 1, :words].tolist(), rows[1][0, :words].tolist()], gap
