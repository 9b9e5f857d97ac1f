"""What can be chosen about word2vec and GloVe. Nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anaphora.config import byte_size

RATES = {"skipgram": 0.025, "cbow": 0.05}
"""Learning rates to begin with. The mean of several words learns more slowly than each of them."""
MOST_NEGATIVES = 63
"""The loop is written out for each number of negatives."""


MOST_THREADS = 4096
MOST_RATE = 1000
MOST_COUNT = 1e30
"""Larger ones are no 32-bit number."""


@dataclass(kw_only=True)
class Word2VecConfig:
    """What is learned (section `model`)."""

    kind: Literal["word2vec"] = "word2vec"
    """Which system this is."""
    algorithm: Literal["skipgram", "cbow"] = "skipgram"
    """skipgram: each word around predicts the one in the middle; cbow: the mean of the words around predicts it. The
    second is faster, the first better with little text and for rare words."""
    dim: int = 100
    """Numbers in a vector."""
    window: int = 5
    """Words on either side that are looked at, at most."""
    shrink_window: bool = True
    """Each word looks at 1 … window words on either side, by chance, so that near ones count more."""
    objective: Literal["negative-sampling", "hierarchical-softmax"] = "negative-sampling"
    """How a word is told from all others: from a few drawn ones, or turn by turn on its way in a Huffman tree."""
    negatives: int = 5
    """Words drawn for each one that came."""
    exponent: float = 0.75
    """They are drawn by their counts to this power: below 1, rare ones come more often than in the text."""
    sample: float = 1e-3
    """Words with a greater share of the text than this are left out by chance, frequent ones more often (0: none)."""
    subwords: bool = False
    """A word's vector is the mean of its own and of its letter n-grams' (fastText): unseen words have one too."""
    shortest_subword: int = 3
    """Letters of the shortest n-gram; < and >, which stand around a word, count."""
    longest_subword: int = 6
    """Letters of the longest one."""
    buckets: int = 2_000_000
    """N-grams are told apart by hashes below this number."""

    def __post_init__(self) -> None:
        for name, least in (("dim", 1), ("window", 1), ("negatives", 1), ("shortest_subword", 1), ("buckets", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name, most in (("negatives", MOST_NEGATIVES), ("window", 1000), ("dim", 100_000), ("buckets", 2**31)):
            if getattr(self, name) > most:
                raise ValueError(f"{name} must be at most {most:,}, not {getattr(self, name):,}")
        if self.longest_subword < self.shortest_subword:
            raise ValueError(f"longest_subword ({self.longest_subword}) is below shortest_subword; raise it")
        if not self.sample >= 0:
            raise ValueError(f"sample must be at least 0, not {self.sample}")
        if not -10 <= self.exponent <= 10:
            raise ValueError(f"exponent must be at least -10 and at most 10, not {self.exponent}")


@dataclass(kw_only=True)
class Word2VecTraining:
    """How it is learned (section `training`)."""

    epochs: int = 5
    """Passes over the text."""
    learning_rate: float | None = None
    """Learning rate at the beginning; it falls evenly to `final_rate` (null: 0.025 for skip-gram, 0.05 for CBOW, as in
    the C program)."""
    final_rate: float = 1e-4
    """Learning rate at the end."""
    seed: int = 1
    """Decides the first vectors and all that is drawn."""
    threads: int | None = None
    """Threads that may learn side by side (null: as many as there are cores); as many of them do as are quickest.
    One gives the same bits every time."""
    checkpoint_seconds: float = 60.0
    """Time between two checkpoints."""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, not {self.epochs}")
        rate = RATES["skipgram"] if self.learning_rate is None else self.learning_rate
        if rate > MOST_RATE:
            raise ValueError(f"learning_rate must be at most {MOST_RATE:,}, not {rate:g}")
        if not 0 <= self.final_rate <= rate or rate <= 0:
            raise ValueError(
                f"learning_rate must be above 0 and final_rate between 0 and it, not {rate} and {self.final_rate}"
            )
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"threads must be at least 1 and at most {MOST_THREADS:,}, not {self.threads:,}")
        if self.seed < 0 or self.checkpoint_seconds <= 0:
            raise ValueError("seed must be at least 0, and checkpoint_seconds above 0")

    def rate(self, algorithm: str) -> float:
        """The learning rate at the beginning."""
        return RATES[algorithm] if self.learning_rate is None else self.learning_rate


@dataclass(kw_only=True)
class GloveConfig:
    """What is learned (section `model`)."""

    kind: Literal["glove"] = "glove"
    """Which system this is."""
    dim: int = 100
    """Numbers in a vector."""
    window: int = 10
    """Words on either side that are counted; one that is d words away counts 1/d."""
    x_max: float = 100.0
    """Pairs that come more often than this weigh no more than those that come so often."""
    alpha: float = 0.75
    """Rarer ones weigh (count / x_max) to this power."""

    def __post_init__(self) -> None:
        for name, least, most in (("dim", 1, 100_000), ("window", 1, 1000)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be at least {least} and at most {most:,}, not {getattr(self, name)}")
        if not 0 < self.x_max <= MOST_COUNT:
            raise ValueError(f"x_max must be above 0 and at most {MOST_COUNT:g}, not {self.x_max:g}")
        if not 0 <= self.alpha <= 10:
            raise ValueError(f"alpha must be at least 0 and at most 10, not {self.alpha:g}")


@dataclass(kw_only=True)
class GloveTraining:
    """How it is learned (section `training`)."""

    epochs: int = 15
    """Passes over the table of co-occurrences."""
    learning_rate: float = 0.05
    """Learning rate; AdaGrad lowers it for each number on its own."""
    seed: int = 1
    """Decides the first vectors and the order of pairs."""
    threads: int | None = None
    """Threads that may learn side by side (null: as many as there are cores); as many of them do as are quickest.
    One gives the same bits every time."""
    checkpoint_seconds: float = 60.0
    """Time between two checkpoints."""
    max_memory: str = "2GB"
    """Memory that counting may take, "500MB", "2GB" or "2GiB"; what does not fit is sorted on disk."""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, not {self.epochs}")
        if not 0 < self.learning_rate <= MOST_RATE:
            raise ValueError(f"learning_rate must be above 0 and at most {MOST_RATE:,}, not {self.learning_rate:g}")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"threads must be at least 1 and at most {MOST_THREADS:,}, not {self.threads:,}")
        if self.seed < 0 or self.checkpoint_seconds <= 0:
            raise ValueError("seed must be at least 0, and checkpoint_seconds above 0")
        self.memory_limit()

    def memory_limit(self) -> int:
        """`max_memory` in bytes."""
        return byte_size(self.max_memory, "max_memory")


VectorsConfig = Word2VecConfig | GloveConfig
VectorsTraining = Word2VecTraining | GloveTraining
TRAININGS: dict[str, type[VectorsTraining]] = {"word2vec": Word2VecTraining, "glove": GloveTraining}
"""How each kind of vectors is learned (section `training`)."""
