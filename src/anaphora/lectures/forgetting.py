"""Lecture 9: recurrent networks "forget over long strings". A name is asked for many words after it was said.

    Sally looked around . It was nice . A bird sang . … Someone said hi → Sally

Every sentence has four tokens, so how far back the name stands is a number that we choose. Each rung of the ladder
learns to say the name, as a classifier whose labels are names, by the toolkit's one loop: once with the name 8 tokens
back, once 16, once 32. Beside what it learned stands what could have taught it: the gradient of log P(answer) by the
vector of the name, before training and after. `benchmarks/forgetting.py` has longer distances, seeds and the picture.
"""

from __future__ import annotations

import copy
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.folder import read_config
from anaphora.lectures.all_scores import one_thread
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer

if TYPE_CHECKING:
    from anaphora.models.language.classifier import TextClassifier

NAMES = ["Anna", "Ben", "Clara", "David", "Emma", "Fred", "Grace", "Sally"]
FILLING = (
    "It was nice .",
    "The wind blew .",
    "A bird sang .",
    "Rain fell softly .",
    "Cows ate grass .",
    "Nobody came by .",
    "Clouds drifted on .",
    "Leaves turned red .",
)
MEETING, QUESTION = "{} looked around .", "Someone said hi"
SENTENCE = 4
"""Tokens of every sentence; the question has three, and ⟨/s⟩, where the answer is given, is its fourth."""
NEAREST = 2 * SENTENCE
"""The name begins its own sentence, and the question follows: no name is nearer to its answer."""
BEFORE = 2
"""Sentences, at most, before the name."""
LEARNED = (8, 16, 32)
"""Distances that the walk trains models for: so many tokens, ⟨/s⟩ included, must be seen for the name to be seen."""
MEASURED = (8, 16, 24, 32, 48, 64, 96, 128)
"""Distances at which gradients are taken before training."""

WINDOW, WIDTH, LAYERS, DIM = 16, 3, 4, 32


class Rung(NamedTuple):
    """A recipe, and what is set besides what all share."""

    name: str
    recipe: str
    settings: dict[str, Any]
    reach: int | None = None
    """Tokens that it sees, and not one more; None: all."""


RUNGS = {
    rung.name: rung
    for rung in (
        Rung("dan", "dan", {"model.hidden": 2 * DIM}),
        Rung("window", "window", {"model.window": WINDOW, "model.hidden": 2 * DIM}, WINDOW),
        Rung(
            "conv",
            "conv",
            {"model.width": WIDTH, "model.layers": LAYERS, "model.dilated": True},
            1 + (2**LAYERS - 1) * (WIDTH - 1),
        ),
        Rung("rnn", "rnn", {}),
        Rung("gru", "gru", {}),
        Rung("lstm", "lstm", {}),
        Rung("lstm-open", "lstm", {"model.forget_bias": 4.0}),  # keeps σ(4) = 98 % of its memory from word to word
        Rung("transformer-decoder", "transformer-decoder", {"model.layers": 1, "model.heads": 2}),
    )
}
"""Only the last one has attention."""
STEPS, TEXTS, TOGETHER = 500, 16_000, 64
"""Updates of a run, stories to learn from, stories of an update."""

SHARED: dict[str, Any] = {
    "data.hold_out": 0,
    "tokenizer.kind": "word",
    "tokenizer.split": "whitespace",
    "model.dim": DIM,
    "model.dropout": 0.0,
    "model.input_dropout": 0.0,
    "model.output_dropout": 0.0,
    "model.pool": "last",  # the place that has read everything
    "training.learning_rate": 5e-3,
    "training.metric": "loss",
    "training.samples": 0,
    "training.average": 1,
    "training.compile": "off",
}

Of = Literal["log P", "margin"]


def story(distance: int, draw: random.Random, *, before: int = BEFORE) -> tuple[str, str]:
    """(text, answer): a story whose name is the first of its last `distance` tokens, the closing ⟨/s⟩ counted."""
    if distance < NEAREST or distance % SENTENCE:
        raise ValueError(f"every sentence has {SENTENCE} tokens, so a distance is {NEAREST}, {NEAREST + 4}, …")
    name = draw.choice(NAMES)
    first = draw.choices(FILLING, k=draw.randint(0, before))
    between = draw.choices(FILLING, k=(distance - NEAREST) // SENTENCE)
    return " ".join([*first, MEETING.format(name), *between, QUESTION]), name


def stories(number: int, distance: int, seed: int) -> list[tuple[str, str]]:
    """So many stories with the name at one distance."""
    draw = random.Random(seed)
    return [story(distance, draw) for _ in range(number)]


def write_stories(folder: Path, distance: int, *, number: int = TEXTS, seed: int = 1) -> dict[str, Path]:
    """Stories and their answers as two files: {"text": …, "labels": …}."""
    files = {"text": folder / f"stories-{distance}", "labels": folder / f"names-{distance}"}
    for file, lines in zip(files.values(), zip(*stories(number, distance, seed))):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def settings(rung: str, distance: int, *, steps: int = STEPS, seed: int = 1) -> dict[str, Any]:
    """Dotted settings of one run."""
    longest = distance + SENTENCE * BEFORE + 1  # with ⟨s⟩
    training = {
        "training.max_steps": steps,
        "training.warmup_steps": steps // 10,
        "training.checkpoint_every": steps,
        "training.batch_tokens": TOGETHER * longest,
        "training.seed": seed,
    }
    return {**SHARED, **RUNGS[rung].settings, **training}


def learn(
    rung: str, distance: int, folder: Path, files: dict[str, Path], *, steps: int = STEPS, seed: int = 1
) -> tuple[TextClassifier, Tokenizer]:
    """Train one rung as `anaphora train` does, and take what it left in its folder."""
    from anaphora.models import read_language_model
    from anaphora.tasks.language_run import train_text
    from anaphora.tasks.recipes import RunConfig
    from anaphora.tasks.request import Request

    own: dict[str, dict[str, Any]] = {"data": {name: [str(file)] for name, file in files.items()}}
    for name, value in settings(rung, distance, steps=steps, seed=seed).items():
        section, _, key = name.partition(".")
        own.setdefault(section, {})[key] = value
    train_text(Request(run=folder, own=own, recipe=RUNGS[rung].recipe, device="cpu"))
    model: Any = read_language_model(RunConfig.read(read_config(folder)).model, folder)
    return model.eval(), Tokenizer.load(folder / "tokenizer.json")


def untrained(model: TextClassifier, seed: int) -> TextClassifier:
    """The same model with fresh weights."""
    from anaphora.models import build_language_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made: Any = build_language_model(model.config, model.vocabulary)
    return made.eval()


# Asking ---------------------------------------------------------------------------------------------------------------


def encoded(
    model: TextClassifier, tokenizer: Tokenizer, asked: Sequence[tuple[str, str]]
) -> tuple[Tensor, Tensor, Tensor]:
    """ids (B, T) from ⟨s⟩ to ⟨/s⟩, lengths (B,), the answers' classes (B,)."""
    from anaphora.decoding.translate import pad

    ids, lengths = pad([[BOS, *row, EOS] for row in tokenizer.encode_batch([text for text, _ in asked])], "cpu")
    return ids, lengths, torch.tensor([model.labels.index(answer) for _, answer in asked])


def accuracy(model: TextClassifier, tokenizer: Tokenizer, asked: Sequence[tuple[str, str]]) -> float:
    """The share of stories whose name the model finds most probable."""
    ids, lengths, answers = encoded(model, tokenizer, asked)
    return float((model.classify(ids, lengths).argmax(dim=-1) == answers).double().mean())


def gradient_norms(model: TextClassifier, ids: Tensor, answers: Tensor, *, of: Of = "log P") -> Tensor:
    """How much each token's vector moves the answer: ids (B, T), no padding, answers (B,) -> (B, T), where [:, -n] is
    ‖d log P(answer) / d x‖ of the n-th token from the end.

    of="margin": of log P(answer) less the mean log P of all answers. Who is sure has log P near 0 whatever was read,
    and so hardly any gradient; a margin has no such ceiling. Of a model that finds all answers alike both are the same.
    """
    with torch.enable_grad():
        x = model.embedded(ids).detach().requires_grad_()  # (B, T, dim)
        lengths = torch.full((len(ids),), ids.shape[1])
        log_p = F.log_softmax(model.head(model.encoder(x, lengths), lengths), dim=-1)  # (B, classes)
        value = log_p.gather(1, answers[:, None]).sum()
        if of == "margin":
            value = value - log_p.mean(dim=1).sum()
        (gradient,) = torch.autograd.grad(value, x)
    return gradient.norm(dim=-1)


def name_gradient(
    model: TextClassifier, tokenizer: Tokenizer, distance: int, *, of: Of = "log P", number: int = 64
) -> float:
    """‖d log P(answer) / d vector of the name‖ with the name at a distance: the mean of so many stories."""
    draw = random.Random(distance)
    asked = [story(distance, draw, before=0) for _ in range(number)]
    ids, _, answers = encoded(model, tokenizer, asked)
    exact = copy.deepcopy(model).double()  # a gradient that has faded to 1e-40 is still a number
    return gradient_norms(exact, ids, answers, of=of)[:, -distance].mean().item()


def slope_by_hand(model: TextClassifier, ids: Tensor, answers: Tensor, place: int, step: float = 1e-5) -> Tensor:
    """(B,): ‖d log P(answer) / d x‖ of one place again, each coordinate moved a little to either side."""
    exact = copy.deepcopy(model).double()
    lengths = torch.full((len(ids),), ids.shape[1])
    with torch.no_grad():
        x = exact.embedded(ids)
        slopes = []
        for coordinate in range(x.shape[-1]):
            sides = []
            for sign in (step, -step):
                moved = x.clone()
                moved[:, place, coordinate] += sign
                log_p = F.log_softmax(exact.head(exact.encoder(moved, lengths), lengths), dim=-1)
                sides.append(log_p.gather(1, answers[:, None])[:, 0])
            slopes.append((sides[0] - sides[1]) / (2 * step))
    return torch.stack(slopes, dim=-1).norm(dim=-1)


# The walk -------------------------------------------------------------------------------------------------------------


def forgetting(steps: int = STEPS, texts: int = TEXTS, seed: int = 1, distances: Sequence[int] = LEARNED) -> list[Walk]:
    """Train every rung at every distance; what it answers, and how much of the name reaches the answer."""
    right: list[list[float]] = []
    fresh: list[list[float]] = []
    after: list[list[float]] = []
    apart, beyond = 0.0, 0.0
    with one_thread(), torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        files = {n: write_stories(Path(name), n, number=texts, seed=seed) for n in distances}
        for rung in RUNGS:
            right.append([])
            after.append([])
            for n in distances:
                model, cut = learn(rung, n, Path(name) / f"{rung}-{n}", files[n], steps=steps, seed=seed)
                right[-1].append(100 * accuracy(model, cut, stories(500, n, 1000 + n)))
                after[-1].append(name_gradient(model, cut, n, of="margin"))
                if (reach := RUNGS[rung].reach) and n > reach:
                    beyond = max(beyond, after[-1][-1])
            start = untrained(model, seed)
            fresh.append([name_gradient(start, cut, n) for n in MEASURED])
            ids, _, answers = encoded(start, cut, [story(NEAREST, random.Random(0), before=0)])
            norm = gradient_norms(copy.deepcopy(start).double(), ids, answers)[:, -NEAREST]
            apart = max(apart, float((norm / slope_by_hand(start, ids, answers, -NEAREST) - 1).abs().max()))
    rungs, columns = list(RUNGS), [str(n) for n in distances]
    return [
        Walk(
            "forgetting",
            "A name asked for at growing distance",
            f"`Sally looked around . … Someone said hi` → Sally, one of {len(NAMES)} names. Each rung is trained anew "
            f"for each distance: {steps} updates of {TOGETHER} stories, {DIM} wide, seed {seed}.",
            [
                Step(
                    "right", "", "answers in percent, by distance; guessing gets 12", rungs, columns, right, decimals=0
                ),
                _orders("start", "log₁₀ ‖d log P(answer) / d name‖ before training, by distance", MEASURED, fresh),
                _orders("after", "the same after training, of the margin to the other names", distances, after),
            ],
            [
                Check("autograd's gradient is the slope measured by hand", apart, 1e-4),
                Check("nothing comes from beyond what window and conv see", beyond, 0.0),
            ],
            settings={"steps": steps, "seed": seed, "distances": list(distances)},
        )
    ]


def _orders(symbol: str, says: str, distances: Sequence[int], norms: list[list[float]]) -> Step:
    """A table of logarithms, empty where there is no gradient at all."""
    seen = [[norm > 0 for norm in row] for row in norms]
    logs = [[math.log10(norm) if norm > 0 else 0.0 for norm in row] for row in norms]
    return Step(symbol, "", says, list(RUNGS), [str(n) for n in distances], logs, seen, decimals=1)
