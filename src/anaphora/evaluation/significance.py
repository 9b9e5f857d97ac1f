"""Is one model better than another, or only on these lines? Paired bootstrap resampling (Koehn 2004).

The lines of a test text are drawn anew with replacement, many times, the same lines for both models, and each draw is
scored. Of a score the 95 % interval says how far it varies with the choice of lines; p says how often a difference at
least as large as the one that was found would come about by that choice alone. For translations it is sacreBLEU's own
paired bootstrap (`sacrebleu --paired-bs`), to the digit; for language models the same with bits per byte. Only where
the two scores are equal, p is 1, where sacreBLEU's formula gives its smallest value.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from anaphora.evaluation.draws import DRAWS, Draws
from anaphora.evaluation.translation_metrics import bleu_metric, ter_metric
from anaphora.results import brief, count, html_table

SIGNIFICANT = 0.05

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A score, and how far it varies with the choice of lines."""

    score: float
    mean: float
    """Of the draws."""
    margin: float
    """Half of the interval that holds 95 % of the draws."""


@dataclass(frozen=True)
class PairedScore:
    """One measure of two models on the same lines."""

    metric: str
    first: Interval
    second: Interval
    p: float
    signature: str | None = None
    """sacreBLEU's account of it, the draws included."""

    def __repr__(self) -> str:
        return brief("PairedScore", None, f"{self.metric} {self.difference:+.{self.digits}f}", f"p {self.p:.3g}")

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first.score - self.second.score

    @property
    def digits(self) -> int:
        """After the point: scores of sacreBLEU are 0 to 100, bits per byte a few."""
        return 2 if self.signature else 4


@dataclass(frozen=True)
class PairedBootstrap:
    """What a paired bootstrap test found."""

    lines: int
    """That both were measured on."""
    samples: int
    """Drawn with replacement."""
    seed: int
    """Of the draws."""
    scores: list[PairedScore]
    """One for each metric: both scores, their difference and p."""

    def __repr__(self) -> str:
        tests = (f"{one.metric} {one.difference:+.2f} (p {one.p:.3g})" for one in self.scores)
        return brief("PairedBootstrap", None, *tests, count(self.lines, "line"))

    def _repr_html_(self) -> str:
        rows = [
            (
                one.metric,
                *(f"{part.score:.{one.digits}f} ± {part.margin:.{one.digits}f}" for part in (one.first, one.second)),
                f"{one.difference:+.{one.digits}f}",
                f"{one.p:.4f}{' *' * (one.p < SIGNIFICANT)}",
            )
            for one in self.scores
        ]
        caption = f"paired bootstrap over {count(self.lines, 'line')}, {self.samples:,} draws, seed {self.seed}"
        return html_table(("", "first", "second", "difference", "p"), rows, caption=caption)

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        scores = [asdict(one) | {"difference": one.difference} for one in self.scores]
        return {"lines": self.lines, "samples": self.samples, "seed": self.seed, "scores": scores}

    def table(self, names: Sequence[str] = ("first", "second")) -> Iterator[str]:
        """In 80 columns."""
        first, second = (name if len(name) <= 20 else "…" + name[-19:] for name in names)
        lines = count(self.lines, "line")
        yield f"paired bootstrap over {lines}, {self.samples:,} draws, seed {self.seed}"
        yield f"{'':<13}{first:>20}{second:>20}{'difference':>12}{'p':>9}"
        for one in self.scores:
            digits = one.digits
            both = (f"{part.score:.{digits}f} ± {part.margin:.{digits}f}" for part in (one.first, one.second))
            mark = " *" if one.p < SIGNIFICANT else ""
            numbers = f"{one.difference:>+12.{digits}f}{one.p:>9.4f}{mark}"
            yield f"{one.metric:<13}" + "".join(f"{text:>20}" for text in both) + numbers
        yield "±: half of the 95 % interval; *: p below 0.05"

    def __str__(self) -> str:
        return "\n".join(self.table())


def compare_translations(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    ter: bool = False,
    draws: Draws = DRAWS,
) -> PairedBootstrap:
    """BLEU and chrF, with `ter` TER too, of two systems' translations of the same lines."""
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    samples, seed = draws.check()
    metrics = {"BLEU": bleu_metric(tokenize), "chrF": CHRF(), **({"TER": ter_metric()} if ter else {})}
    with _seeded(seed):
        systems: list[tuple[str, Sequence[str]]] = [("first", list(first)), ("second", list(second))]
        test = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=samples)
        signatures, found = test()
    scores = []
    for name, signature in signatures.items():
        one, other = (_interval(result) for result in found[name])
        p = 1.0 if one.score == other.score else float(cast(Any, found[name][1]).p_value)
        scores.append(PairedScore(name.removesuffix("2"), one, other, p, str(signature)))
    return PairedBootstrap(len(references), samples, seed, scores)


def _interval(result: Any) -> Interval:
    return Interval(float(result.score), float(result.mean), float(result.ci))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """sacreBLEU takes its seed from the environment alone."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        del os.environ["SACREBLEU_SEED"]
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before


def compare_texts(first: tuple[F64, F64], second: tuple[F64, F64], draws: Draws = DRAWS) -> PairedBootstrap:
    """Bits per byte of two language models: of each, log P (natural) and bytes of every line, (n,) each."""
    samples, seed = draws.check()
    lines, random = len(first[0]), np.random.default_rng(seed)
    drawn = np.empty((2, samples))
    for sample in range(samples):
        often = np.bincount(random.integers(lines, size=lines), minlength=lines)
        drawn[:, sample] = [_bits(float(often @ logs), float(often @ size)) for logs, size in (first, second)]
    whole = [_bits(float(logs.sum()), float(size.sum())) for logs, size in (first, second)]
    one, other = (Interval(score, float(own.mean()), _margin(own)) for score, own in zip(whole, drawn))
    gaps = np.abs(drawn[0] - drawn[1])
    by_chance = int((gaps - gaps.mean() > abs(whole[0] - whole[1])).sum())
    p = 1.0 if one.score == other.score else (by_chance + 1) / (samples + 1)
    found = PairedScore("bits per byte", one, other, p)
    return PairedBootstrap(lines, samples, seed, [found])


def _bits(log_probability: float, size: float) -> float:
    return float(-log_probability / math.log(2) / size) if size else math.nan


def _margin(drawn: F64) -> float:
    """As sacreBLEU has it."""
    ordered, cut = np.sort(drawn), len(drawn) // 40
    return float(ordered[len(drawn) - cut - 1] - ordered[cut]) / 2
