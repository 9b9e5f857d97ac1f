"""Shifted files: from which line on is one side off against the other, and by how many lines?

A line too many or too few on one side moves everything below it, and a translator trained on that learns nothing. Two
independent witnesses are asked, neither of which needs to know the languages:

1. Lengths. Long sentences have long translations (Gale & Church 1993), so along the two files the lengths rise and fall
   together, and their cross-correlation in windows peaks at the offset of the lines. This needs no model and does not
   mind where the shift begins, and proposes offsets, however large.
2. Words. IBM-1 is fitted on lines paired at those offsets, so that it sees true pairs even if nearly all of the corpus
   is shifted. Then each line is scored with its partner at every offset, always by a model fitted on other lines: a
   model that has seen a pair likes it, right or wrong.

Scores become log-likelihood ratios "true pair : strangers", and a Viterbi search over the offsets, and over "strangers"
at no offset at all, which pays for every change, finds the stretches. An offset that is not zero must beat zero by far
to be told, and strangers must have strange lengths too: rare words alone can make a poor lexicon.

Corpora of more than `DENSE_LINES` lines are judged on evenly spread blocks of lines; a change is then looked for line
by line in the gap between two blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from anaphora.alignment.ibm1 import IBM1, Sentences

DENSE_LINES = 30_000  # lines scored in all; above that, blocks of them
BLOCK_LINES = 32  # lines of a block
FOLD_LINES = 64  # lines that go to the same half in cross-fitting
MAX_LEXICON_PAIRS = 40_000  # pairs that the lexicon is fitted on, at most
WINDOW_LINES = 512  # lines whose lengths are correlated at a time
MAX_OFFSET_LINES = 200  # lines: the largest offset looked for in each window
MAX_WHOLE_FILE_LINES = 1 << 22  # lines up to which all of the file is correlated at once, for offsets of any size
NEAR_OFFSETS = 3  # offsets always tried
PROPOSED_OFFSETS = 6  # other offsets tried, those most windows propose
MAX_WORDS = 40  # words of a line that are looked at
STEM_LETTERS = 5  # letters of a word that are looked at: endings only make words rare
CHANGE_NATS = 25.0  # nats that a change of offset costs
CERTAIN_NATS = 60.0  # nats by which a stretch must be better at its offset than at zero
MIN_LINES = 200  # lines below which nothing can be said
MIN_STRETCH_LINES = 20  # lines of a stretch worth telling
STRANGERS = 100  # lines of a stretch of strangers worth telling

# one character of a script that is written without spaces, or a word
WORD_PATTERN = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]+"
)


@dataclass(frozen=True)
class Stretch:
    """Lines first … last (from 1, inclusive) of the source whose translations stand `offset` lines further down in the
    target (further up if negative); None: none was found, the sides do not belong together there."""

    first: int
    last: int
    offset: int | None


@dataclass
class Shifts:
    """What the search found."""

    stretches: list[Stretch]
    """All of the file in order, those with offset 0 too; empty if nothing can be said."""
    separation: float = 0.0
    """How often a line's own partner scores above a stranger: 0.5 is chance, 1 is certain."""

    @property
    def wrong(self) -> list[Stretch]:
        return [stretch for stretch in self.stretches if stretch.offset != 0]


def words_of(line: str) -> list[str]:
    """Short, lower-cased words: what a rough lexicon needs.

    >>> words_of("Die Fahrradfahrer fuhren über die Straße.")
    ['die', 'fahrr', 'fuhre', 'über', 'die', 'straß']
    """
    return [word[:STEM_LETTERS] for word in WORD_PATTERN.findall(line[: 12 * MAX_WORDS].lower())[:MAX_WORDS]]


def find_shifts(
    source: Sequence[str],
    target: Sequence[str],
    *,
    dense: int = DENSE_LINES,
    progress: Callable[[int, int], None] | None = None,
) -> Shifts:
    """Where the lines of two sides go apart. The sides may have different numbers of lines; at most `dense` of them are
    looked at closely."""
    lines = min(len(source), len(target))
    if lines < MIN_LINES:
        return Shifts([])
    report = progress or (lambda done, total: None)
    ripples = _ripples(_log_lengths(source)), _ripples(_log_lengths(target))
    offsets, guess = propose(*ripples)
    report(1, 5)
    chosen = _chosen(lines, dense)
    partners = np.unique(np.concatenate([(chosen[:, None] + offsets).ravel(), chosen + guess[chosen]]))
    from_, into = _Lines(source, chosen), _Lines(target, partners)
    scorer = _Scorer.fit(from_, into, chosen, guess)
    report(2, 5)
    calibration = scorer.calibrate(chosen, guess)
    if calibration.separation < 0.85:  # lengths may say nothing at all: try the near offsets for all of the file
        for offset in (o for o in range(-NEAR_OFFSETS, NEAR_OFFSETS + 1) if o):
            constant = np.full(lines, offset)
            another = _Scorer.fit(from_, into, chosen, constant)
            better = another.calibrate(chosen, constant)
            if better.separation > calibration.separation + 0.05:
                scorer, calibration = another, better
    report(3, 5)
    if calibration.separation < 0.55 and _varied(from_, into) and _own_echo(ripples, 0, lines) < 4:
        return Shifts([Stretch(1, lines, None)], calibration.separation)
    if calibration.separation < 0.7:  # a poor lexicon: too little to accuse anybody
        return Shifts([], calibration.separation)
    ratios = calibration.ratios(scorer(chosen, offsets))  # (n, offsets + 1), the last column for strangers
    report(4, 5)
    path = _viterbi(ratios, CHANGE_NATS)
    borders = np.concatenate([[0], np.flatnonzero(np.diff(path)) + 1])
    found = [(0, int(path[0]))]
    for border in borders[1:].tolist():  # between two blocks of chosen lines: look line by line
        last, first, which = int(chosen[border - 1]), int(chosen[border]), [found[-1][1], int(path[border])]
        if first - last > 1:
            gap = np.arange(last + 1, first)
            from_.add(gap)
            into.add(np.unique(gap[:, None] + offsets))
            two = calibration.ratios(scorer(gap, offsets))[:, which]
            stay = np.concatenate([[0.0], np.cumsum(two[:, 0] - two[:, 1])])  # what staying so many lines gains
            first = last + 1 + int(stay.argmax())
        found.append((first, which[1]))
    report(5, 5)
    return Shifts(_tell(found, offsets, lines, ratios, chosen, ripples), calibration.separation)


# -- the first witness: lengths ----------------------------------------------------------------------------------------


def propose(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets worth trying, and the likeliest one of every line, from the ripples of line lengths alone."""
    lines = min(len(a), len(b))
    anywhere = [lag for lag in far_offsets(a, b) if abs(lag) > MAX_OFFSET_LINES]
    centers = np.arange(0, lines, WINDOW_LINES // 2)
    best = np.zeros(len(centers), np.int64)
    sure = np.zeros(len(centers), bool)
    lags = np.arange(-MAX_OFFSET_LINES, MAX_OFFSET_LINES + 1)
    size = 1 << (2 * WINDOW_LINES + 2 * MAX_OFFSET_LINES - 1).bit_length()
    for n, center in enumerate(centers.tolist()):
        begin, end = max(0, center - WINDOW_LINES // 2), min(lines, center + WINDOW_LINES // 2)
        here = a[begin:end]
        low, high = begin - MAX_OFFSET_LINES, end + MAX_OFFSET_LINES
        there = np.zeros(high - low)
        there[max(0, -low) : max(0, -low) + min(high, len(b)) - max(0, low)] = b[max(0, low) : min(high, len(b))]
        sums = np.fft.irfft(np.fft.rfft(there, size) * np.conj(np.fft.rfft(here, size)), size)[: len(lags)]
        norm = np.sqrt((here**2).sum() * (there**2).sum() * len(here) / len(there)) + 1e-9
        z = sums / norm * np.sqrt(len(here))  # about a standard normal where the lines are strangers
        best[n], most = lags[z.argmax()], z.max()
        for lag in anywhere:
            echo = _echo((a, b), begin, end, lag)
            if echo > most:
                best[n], most = lag, echo
        sure[n] = most > 6
    if not sure.any():
        return np.array(sorted({*range(-NEAR_OFFSETS, NEAR_OFFSETS + 1), *anywhere[:PROPOSED_OFFSETS]})), np.zeros(
            lines, np.int64
        )
    known = np.flatnonzero(sure)
    after = np.searchsorted(known, np.arange(len(centers))).clip(max=len(known) - 1)
    before = (after - 1).clip(min=0)
    nearer = np.abs(known[before] - np.arange(len(centers))) <= np.abs(known[after] - np.arange(len(centers)))
    guess = best[np.where(nearer, known[before], known[after])]
    values, counts = np.unique(best[sure], return_counts=True)
    far = [int(v) for v in values[np.argsort(-counts, kind="stable")] if abs(v) > NEAR_OFFSETS][:PROPOSED_OFFSETS]
    by_line = guess[np.minimum((np.arange(lines) + WINDOW_LINES // 4) // (WINDOW_LINES // 2), len(centers) - 1)]
    return np.array(sorted({*range(-NEAR_OFFSETS, NEAR_OFFSETS + 1), *far})), by_line


def far_offsets(a: np.ndarray, b: np.ndarray) -> list[int]:
    """Offsets at which a good part of the two files agrees, the clearest first; and the one that the numbers of lines
    suggest."""
    difference = [len(b) - len(a)] if len(a) != len(b) else []
    if max(len(a), len(b)) > MAX_WHOLE_FILE_LINES:
        return difference
    size = 1 << (len(a) + len(b) - 1).bit_length()
    sums = np.fft.irfft(np.fft.rfft(b, size) * np.conj(np.fft.rfft(a, size)), size)
    sums[min(len(b), size) : size - len(a)] = 0  # no two lines stand so far apart
    z = sums / (np.sqrt(min((a**2).sum(), (b**2).sum())) + 1e-9)  # about a standard normal among strangers
    peaks = [int(at) for at in np.argsort(-z)[:PROPOSED_OFFSETS] if z[at] > 7]
    return list(dict.fromkeys([*difference, *(at if at < len(b) else at - size for at in peaks)]))


def _log_lengths(lines: Sequence[str]) -> np.ndarray:
    return np.log1p(np.fromiter(map(len, lines), np.float64, len(lines)))


def _ripples(lengths: np.ndarray) -> np.ndarray:
    """Log-lengths without their slow waves (files sorted by length have nothing else), clipped against odd lines."""
    reach = 16
    sums = np.concatenate([[0.0], np.cumsum(lengths)])
    at = np.arange(len(lengths))
    low, high = np.maximum(at - reach, 0), np.minimum(at + reach + 1, len(lengths))
    rest = lengths - (sums[high] - sums[low]) / np.maximum(high - low, 1)
    spread = rest.std() + 1e-9
    return np.clip(rest / spread, -3, 3)


def _echo(ripples: tuple[np.ndarray, np.ndarray], begin: int, end: int, lag: int = 0) -> float:
    """How clearly the lengths of these lines agree at an offset: about a standard normal among strangers."""
    begin, end = max(begin, -lag), min(end, len(ripples[1]) - lag)
    if end <= begin:
        return 0.0
    a, b = ripples[0][begin:end], ripples[1][begin + lag : end + lag]
    return float((a * b).sum() / (np.sqrt((a**2).sum() * (b**2).sum()) + 1e-9) * np.sqrt(len(a)))


def _own_echo(ripples: tuple[np.ndarray, np.ndarray], begin: int, end: int) -> float:
    """How much more clearly they agree as they stand than a few lines off: lengths may have a rhythm of their own (in
    Multi30k short and long lines alternate), and strangers in the same rhythm agree at many offsets."""
    off = [_echo(ripples, begin, end, lag) for lag in range(-8, 9) if lag]
    return _echo(ripples, begin, end) - max(0.0, *off)


# -- the second witness: words -----------------------------------------------------------------------------------------


class _Lines:
    """The words of some lines of a side, by line number."""

    def __init__(self, lines: Sequence[str], wanted: np.ndarray) -> None:
        self.lines = lines
        self.words: dict[int, list[str]] = {}
        self.add(wanted)

    def add(self, wanted: np.ndarray) -> None:
        for number in wanted.tolist():
            if 0 <= number < len(self.lines) and number not in self.words:
                self.words[number] = words_of(self.lines[number])


def _varied(*sides: _Lines) -> bool:
    """Are most lines of each side different from each other? Of lines that are all alike none belongs elsewhere."""
    return all(len(set(map(tuple, side.words.values()))) > len(side.words) / 2 for side in sides)


def _chosen(lines: int, dense: int) -> np.ndarray:
    if lines <= dense:
        return np.arange(lines)
    starts = np.linspace(0, lines - BLOCK_LINES, dense // BLOCK_LINES).astype(np.int64)
    return np.unique((starts[:, None] + np.arange(BLOCK_LINES)).ravel())


def _fold(lines: np.ndarray) -> np.ndarray:
    return lines // FOLD_LINES % 2


class _Scorer:
    """Scores lines at offsets, each line by the model that was fitted without it."""

    def __init__(self, models: list[IBM1], source: _Lines, target: _Lines) -> None:
        self.models, self.source, self.target = models, source, target

    @classmethod
    def fit(cls, source: _Lines, target: _Lines, lines: np.ndarray, guess: np.ndarray) -> _Scorer:
        """One model for each half of the lines, fitted on the other half, with partners at the guessed offsets."""
        models = []
        for half in (0, 1):
            rest = lines[_fold(lines) != half]
            pairs = [(i, j) for i, j in zip(rest.tolist(), (rest + guess[rest]).tolist()) if j in target.words]
            pairs = pairs[:: -(-len(pairs) // (MAX_LEXICON_PAIRS // 2)) or 1]
            models.append(
                IBM1.fit([source.words[i] for i, _ in pairs], [target.words[j] for _, j in pairs], iterations=4)
            )
        return cls(models, source, target)

    def __call__(self, lines: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """(n, offsets): NaN beyond the end of the target."""
        partners = lines[:, None] + offsets  # (n, offsets)
        return self.pairs(lines, partners)

    def pairs(self, lines: np.ndarray, partners: np.ndarray) -> np.ndarray:
        result = np.full(partners.shape, np.nan)
        inside = (partners >= 0) & (partners < len(self.target.lines))
        for half, model in enumerate(self.models):
            rows, columns = np.nonzero(inside & (_fold(lines) == half)[:, None])
            needed, of = np.unique(lines[rows], return_inverse=True)
            sought, against = np.unique(partners[rows, columns], return_inverse=True)
            from_, into = model.encode(
                [self.source.words[i] for i in needed.tolist()], [self.target.words[j] for j in sought.tolist()]
            )
            result[rows, columns] = _totals(model, from_, into, of, against)
        return result

    def calibrate(self, lines: np.ndarray, guess: np.ndarray) -> _Calibration:
        """What true pairs and what strangers score, from a sample of lines."""
        some = lines[:: max(1, len(lines) // 6000)]
        own = some + guess[some]
        some = some[(own >= 0) & (own < len(self.target.lines))]
        own = some + guess[some]
        strangers = np.roll(own, len(own) // 3)
        scores = self.pairs(some, np.stack([own, strangers], axis=1))
        return _Calibration.of(scores[:, 0], scores[:, 1])


def _totals(model: IBM1, source: Sentences, target: Sentences, of: np.ndarray, against: np.ndarray) -> np.ndarray:
    """A pair's evidence: the log ratio of all its target words, more words more of it (but not in proportion: they
    depend on each other)."""
    mean = model.score_encoded(source, target, of, against, relative=True)
    return mean * np.sqrt(np.diff(target.starts)[against])


@dataclass
class _Calibration:
    """Two normal distributions: of the scores of true pairs and of strangers."""

    own: tuple[float, float]
    strangers: tuple[float, float]
    separation: float

    @classmethod
    def of(cls, own: np.ndarray, strangers: np.ndarray) -> _Calibration:
        # the area under the ROC curve: how often an own partner is above a stranger, half of the ties counted
        ordered = np.sort(strangers)
        below, upto = (np.searchsorted(ordered, own, side=side) for side in ("left", "right"))
        separation = (below + upto).mean() / 2 / len(strangers)

        def middle(values: np.ndarray) -> tuple[float, float]:
            low, center, high = np.quantile(values, (0.16, 0.5, 0.84))
            return float(center), float(max((high - low) / 2, 1e-3))

        return cls(middle(own), middle(strangers), float(separation))

    def ratios(self, scores: np.ndarray) -> np.ndarray:
        """log P(score | true pair) - log P(score | strangers), within bounds that one odd line cannot break, and a last
        column of zeros: strangers. (n, offsets) -> (n, offsets + 1)"""
        (m1, s1), (m0, s0) = self.own, self.strangers
        s0 = s1 = max(s0, s1)  # equal widths: a ratio that grows with the score
        ratio = ((scores - m0) / s0) ** 2 / 2 - ((scores - m1) / s1) ** 2 / 2
        bounded = np.where(np.isnan(scores), -3.0, np.clip(np.nan_to_num(ratio), -3.0, 4.0))
        return np.concatenate([bounded, np.zeros((len(scores), 1))], axis=1)


# -- stretches ---------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _viterbi(ratios, change):
    """The best offset of every line when each change costs that much. (n, offsets) -> (n,)"""
    n, k = ratios.shape
    back = np.empty((n, k), np.int16)
    best = ratios[0].copy()
    for i in range(1, n):
        top = best.argmax()
        for o in range(k):
            back[i, o] = o
            if best[top] - change > best[o]:
                best[o] = best[top] - change
                back[i, o] = top
        best += ratios[i]
    path = np.empty(n, np.int64)
    path[n - 1] = best.argmax()
    for i in range(n - 1, 0, -1):
        path[i - 1] = back[i, path[i]]
    return path


def _tell(
    found: list[tuple[int, int]],
    offsets: np.ndarray,
    lines: int,
    ratios: np.ndarray,
    chosen: np.ndarray,
    ripples: tuple[np.ndarray, np.ndarray],
) -> list[Stretch]:
    """(first line, which offset) of each stretch -> those that are certain; what is not counts as right."""
    zero, strangers = int(np.flatnonzero(offsets == 0)[0]), len(offsets)
    ends = [first for first, _ in found[1:]] + [lines]
    told: list[Stretch] = []
    for (first, which), end in zip(found, ends):
        inside = (chosen >= first) & (chosen < end)
        gain = float((ratios[inside, which] - ratios[inside, zero]).sum())
        certain = gain > CERTAIN_NATS and end - first >= MIN_STRETCH_LINES
        if which == strangers:
            certain &= end - first >= STRANGERS and _own_echo(ripples, first, end) < 3
        offset = 0 if which == zero or not certain else None if which == strangers else int(offsets[which])
        if told and told[-1].offset == offset:
            told[-1] = Stretch(told[-1].first, end, offset)
        else:
            told.append(Stretch(first + 1, end, offset))
    return told
