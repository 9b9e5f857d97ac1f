"""What the tests of counting models share: small texts of ids, models of them, and a slow reference."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from anaphora.models.ngram.counting import count
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel
from anaphora.models.ngram.smoothing import FALLBACK
from anaphora.tokenizers.tokenizer import BOS, EOS, UNK

FIRST = UNK + 1
"""The first id that is an ordinary word."""

Sentence = Sequence[int]


def sentences(words: int = 6, longest: int = 9, most: int = 12) -> st.SearchStrategy[list[list[int]]]:
    """Small corpora of a small vocabulary, empty sentences and unknown words among them."""
    return st.lists(st.lists(st.integers(UNK, UNK + words), max_size=longest), min_size=1, max_size=most)


def tokens_of(texts: Iterable[Sentence]) -> np.ndarray:
    """⟨s⟩ w₁ … ⟨/s⟩ of every sentence, one after the other."""
    return np.array([token for text in texts for token in (BOS, *text, EOS)], np.uint32)


def fitted(texts: Iterable[Sentence], vocabulary: int, **settings: Any) -> NgramModel:
    config = NgramConfig(**settings)
    return NgramModel.from_counts(config, count(tokens_of(texts), vocabulary, config.order))[0]


class Reference:
    """The formulas of Chen and Goodman (1998) over dictionaries, word by word: slow, and easy to check by eye."""

    def __init__(
        self,
        texts: Iterable[Sentence],
        vocabulary: int,
        order: int,
        smoothing: str,
        prune: Sequence[int] = (),
        k: float = 1.0,
        backoff: float = 0.4,
    ) -> None:
        self.order, self.smoothing, self.k, self.backoff = order, smoothing, k, backoff
        self.words = [word for word in range(vocabulary) if word >= EOS]  # all that can be predicted
        counted: Counter[tuple[int, ...]] = Counter()
        for text in texts:
            sentence = (BOS, *text, EOS)
            for n in range(1, order + 1):
                for end in range(n, len(sentence) + 1):
                    counted[sentence[end - n : end]] += 1
        thresholds = [*prune, *[prune[-1] if prune else 0] * (order - len(prune))]
        self.kept = {gram for gram, times in counted.items() if times > thresholds[len(gram) - 1] or len(gram) == 1}
        if smoothing == "kneser-ney":
            self.count = {gram: self.continuations(gram, counted) for gram in counted if gram != (BOS,)}
            self.discount = {n: self.discounts(n) for n in range(1, order + 1)}
        else:
            self.count = {gram: counted[gram] for gram in self.kept if gram != (BOS,)}
        self.after: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
        for gram in self.count:
            self.after[gram[:-1]].append(gram)

    def continuations(self, gram: tuple[int, ...], counted: Counter[tuple[int, ...]]) -> int:
        if len(gram) == self.order or gram[0] == BOS:
            return counted[gram]
        return sum(1 for other in counted if len(other) == len(gram) + 1 and other[1:] == gram)

    def discounts(self, n: int) -> Sequence[float]:
        t = Counter(times for gram, times in self.count.items() if len(gram) == n)
        if not (t[1] and t[2] and t[3]):
            return FALLBACK
        y = t[1] / (t[1] + 2 * t[2])
        d = [0.0, 1 - 2 * y * t[2] / t[1], 2 - 3 * y * t[3] / t[2], 3 - 4 * y * t[4] / t[3]]
        return d if all(0 <= d[i] <= i for i in range(4)) else FALLBACK

    def probability(self, word: int, context: tuple[int, ...]) -> float:
        """P(word | context), the context being all words before it, from ⟨s⟩ on."""
        context = context[-(self.order - 1) :] if self.order > 1 else ()
        return getattr(self, self.smoothing.replace("-", "_"))(word, context)

    def total(self, context: tuple[int, ...]) -> int:
        return sum(self.count[gram] for gram in self.after.get(context, ()))

    def maximum_likelihood(self, word: int, context: tuple[int, ...]) -> float:
        total = self.total(context)
        return self.count.get((*context, word), 0) / total if total else 0.0

    def add_k(self, word: int, context: tuple[int, ...]) -> float:
        return (self.count.get((*context, word), 0) + self.k) / (self.total(context) + self.k * len(self.words))

    def stupid_backoff(self, word: int, context: tuple[int, ...]) -> float:
        if (*context, word) in self.count:
            return self.count[*context, word] / self.total(context)
        return self.backoff * self.stupid_backoff(word, context[1:]) if context else 0.0

    def kneser_ney(self, word: int, context: tuple[int, ...]) -> float:
        lower = self.kneser_ney(word, context[1:]) if context else 1 / len(self.words)
        total = self.total(context)
        if not total:
            return lower
        d = self.discount[len(context) + 1]
        free = sum(
            d[min(self.count[gram], 3)] if gram in self.kept else self.count[gram] for gram in self.after[context]
        )
        gram = (*context, word)
        own = self.count[gram] - d[min(self.count[gram], 3)] if gram in self.kept and gram in self.count else 0.0
        return own / total + free / total * lower

    def log_probabilities(self, text: Sentence) -> list[float]:
        """Of each word of a sentence and its end."""
        row = (BOS, *text, EOS)
        found = [self.probability(row[i], row[:i]) for i in range(1, len(row))]
        return [math.log(p) if p > 0 else -math.inf for p in found]
