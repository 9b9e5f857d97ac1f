"""Which words a set of vectors holds together: the word-embedding association test (Caliskan, Bryson & Narayanan 2017).

    s(w) = mean over a in A of cos(w, a)  -  mean over b in B of cos(w, b)        how much nearer w is to A than to B
    S    = sum over x in X of s(x)  -  sum over y in Y of s(y)                    the statistic
    d    = (mean of s over X  -  mean of s over Y) / deviation of s over X and Y  the effect size, between -2 and 2

X and Y are words to be compared (flowers, insects), A and B what they may be held together with (pleasant, unpleasant).
Were X and Y alike, any other division of their words into two lists of these sizes would do as well: p is the share of
all divisions, this one included, whose S is at least as large. Where they are too many, it is estimated from drawn
ones. The deviation is that of a sample (n - 1), as in the authors' program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.config import LONGEST_YAML, parse_yaml
from anaphora.errors import UserError
from anaphora.files.foreign import read_text
from anaphora.results import brief, figure, html_table

F64 = NDArray[np.float64]
EVERY_DIVISION = 200_000
"""So many divisions are all looked at."""
SAMPLED_PARTITIONS = 100_000
"""Of more, so many are drawn."""
ALIKE = 1e-9
"""Sums that differ by less are the same sum, rounded."""
FORM = "targets: {flowers: [rose, tulip], insects: [ant, wasp]} and attributes: {pleasant: […], unpleasant: […]}"


@dataclass(frozen=True)
class WordLists:
    """Four lists of words, by name."""

    targets: dict[str, list[str]]
    """X and Y."""
    attributes: dict[str, list[str]]
    """A and B."""


@dataclass(frozen=True)
class Association:
    """What the test finds."""

    targets: tuple[str, str]
    attributes: tuple[str, str]
    effect: float
    """d: above 0, the first targets are nearer to the first attributes."""
    statistic: float
    """S"""
    p: float
    divisions: int
    """Divisions that were looked at."""
    exact: bool
    """Whether they are all there are."""
    scores: dict[str, float]
    """s of each target word."""
    unknown: dict[str, list[str]]
    """Words of each list that have no vector."""

    def __repr__(self) -> str:
        pair = f"{' / '.join(self.targets)} with {' / '.join(self.attributes)}"
        return brief("Association", pair, f"effect {self.effect:.3f}, p {self.p:.2g}")

    def _repr_html_(self) -> str:
        rows = [(word, figure(value, ".3f")) for word, value in self.scores.items()]
        return html_table(("word", "s"), rows, caption=f"effect {self.effect:.3f}, p {self.p:.2g}")

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return asdict(self)


def read_word_lists(path: str | PathLike[str]) -> WordLists:
    """A YAML or JSON file of two targets and two attributes."""
    path = Path(path)
    if not path.exists():
        raise UserError("there is no such file", file=path, cure="give a YAML or JSON file of word lists")
    try:
        text = read_text(path, LONGEST_YAML, pipes=True).removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read ({error})", file=path, cure="give a YAML or JSON file of word lists") from None
    document = parse_yaml(text, file=path)
    if not isinstance(document, Mapping) or set(document) != {"targets", "attributes"}:
        raise UserError("does not hold `targets` and `attributes`, and nothing else", file=path, cure=f"write {FORM}")
    lists = {}
    for part in ("targets", "attributes"):
        two = document[part]
        if not isinstance(two, Mapping) or len(two) != 2:
            raise UserError(f"`{part}` must be two lists with a name each", file=path, cure=f"write {FORM}")
        for name, words in two.items():
            if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
                cure = f"write {name}: [one, two] (words such as no, yes and numbers in quotes)"
                raise UserError(f"`{part}: {name}` must be a list of words", file=path, cure=cure)
        lists[part] = {str(name): list(dict.fromkeys(words)) for name, words in two.items()}
    first, second = lists["targets"].values()
    if both := sorted(set(first) & set(second)):
        raise UserError(f"the word {both[0]!r} is in both targets", file=path, cure="leave it in one of them")
    return WordLists(**lists)


def association(
    units: Mapping[str, NDArray[np.float32]],
    lists: WordLists,
    *,
    most: int = EVERY_DIVISION,
    draws: int = SAMPLED_PARTITIONS,
    seed: int = 1,
) -> Association:
    """The test, of vectors that are as long as one each; a word that is not among them is left out, and told."""
    if twice := sorted(lists.targets.keys() & lists.attributes.keys()):
        raise UserError(f"a target and an attribute are both called {twice[0]!r}", cure="give each list its own name")
    named = {**lists.targets, **lists.attributes}
    known = {name: [word for word in words if word in units] for name, words in named.items()}
    for name, words in known.items():
        least = 2 if name in lists.targets else 1
        if len(words) < least:
            raise UserError(
                f"{len(words)} of the {len(named[name])} words of {name!r} have a vector, and it takes {least}",
                cure="give words of the text that the vectors were trained on",
            )
    (x, y), (a, b) = lists.targets, lists.attributes
    side = {name: np.stack([units[word] for word in known[name]]).astype(np.float64) for name in named}
    scores = {name: (side[name] @ side[a].T).mean(1) - (side[name] @ side[b].T).mean(1) for name in (x, y)}
    both = np.concatenate((scores[x], scores[y]))
    deviation = float(both.std(ddof=1))
    effect = float(scores[x].mean() - scores[y].mean()) / deviation if deviation > ALIKE else 0.0
    share, looked, exact = divided(both, len(scores[x]), most=most, draws=draws, seed=seed)
    return Association(
        targets=(x, y),
        attributes=(a, b),
        effect=effect,
        statistic=float(scores[x].sum() - scores[y].sum()),
        p=share,
        divisions=looked,
        exact=exact,
        scores={word: float(s) for name in (x, y) for word, s in zip(known[name], scores[name])},
        unknown={name: [word for word in words if word not in units] for name, words in named.items()},
    )


def divided(scores: F64, first: int, *, most: int, draws: int, seed: int) -> tuple[float, int, bool]:
    """The share of divisions whose S is at least that of the one in which the `first` scores are X's; how many were
    looked at; and whether these are all."""
    # S = sum over X - sum over Y = 2 · sum over X - sum of all, so the sum over X alone decides
    observed, number = float(scores[:first].sum()), comb(len(scores), first)
    if number <= most:
        chosen: Sequence[tuple[int, ...]] = list(combinations(range(len(scores)), first))
        sums = scores[np.array(chosen)].sum(1)
        return float((sums >= observed - ALIKE).mean()), number, True
    generator = np.random.default_rng(seed)
    as_large = 0
    for begin in range(0, draws, 10_000):
        rows = min(10_000, draws - begin)
        order = generator.random((rows, len(scores))).argpartition(first, axis=1)[:, :first]
        as_large += int((scores[order].sum(1) >= observed - ALIKE).sum())
    return (as_large + 1) / (draws + 1), draws, False  # the one that is there counts
