"""What can be chosen about word2vec and GloVe. Nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from anaphora.config import byte_size

RATES = {"skipgram": 0.025, "cbow": 0.05}
"""Learning rates to begin with. The mean of several words learns more slowly than each of them."""
MOST_NEGATIVES = 63
"""The loop is written out for each number of negatives."""
FREE = ("algorithm", "window", "shrink_window", "negatives", "exponent", "sample")
"""What a run may change of the vectors that it starts from: how they are learned, not what their tables mean."""
SAMPLED = "objective=negative-sampling"


MOST_THREADS = 4096
MOST_RATE = 1000
MOST_COUNT = 1e30
"""Larger ones are no 32-bit number."""


@dataclass(kw_only=True)
class Word2VecConfig:
    """What is learned (section `model`)."""

    kind: Literal["word2vec"] = "word2vec"
    """The kind of model."""
    algorithm: Literal["skipgram", "cbow"] = "skipgram"
    """skipgram: each context word predicts the center word; cbow: the mean of all context words predicts it. cbow is
    faster; skipgram is better with little text and for rare words."""
    dim: int = 100
    """Dimensions of a vector."""
    window: int = 5
    """Maximum number of context words on either side."""
    shrink_window: bool = True
    """Sample the window of each word from 1 … window, so that near words count more."""
    objective: Literal["negative-sampling", "hierarchical-softmax"] = "negative-sampling"
    """Training objective: negative sampling, or hierarchical softmax over a Huffman tree."""
    negatives: int = 5
    """Number of negative samples for each word."""
    exponent: float = 0.75
    """Negative samples are drawn in proportion to word count to this power; below 1 favors rare words."""
    sample: float = 1e-3
    """Subsampling threshold: words with a larger share of the text are randomly skipped, the more often the more
    frequent they are (0: none)."""
    subwords: bool = False
    """A word's vector is the mean of its own and those of its character n-grams (fastText), so that unseen words have
    one too."""
    shortest_subword: int = 3
    """Minimum length of character n-grams, counting the < and > around each word."""
    longest_subword: int = 6
    """Maximum length of character n-grams."""
    buckets: int = 2_000_000
    """Number of hash buckets for character n-grams."""

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

    def without_effect(self) -> dict[str, str | None]:
        """Settings that mean nothing as the others are, and what they would need."""
        drawn = {} if self.objective == "negative-sampling" else dict.fromkeys(("negatives", "exponent"), SAMPLED)
        cut = (
            {} if self.subwords else dict.fromkeys(("shortest_subword", "longest_subword", "buckets"), "subwords=true")
        )
        return {**drawn, **cut}

    from_counts: ClassVar[bool] = False
    """Whether it learns from a table of which words stand near which, and so from nothing that was learned before."""

    def described(self) -> str:
        """What is learned, in a few words."""
        return f"{self.algorithm}, {self.objective}{', subwords' if self.subwords else ''}"

    def told_apart(self) -> str:
        """How a word is learned, for the card."""
        objective = {
            "negative-sampling": f"told from {self.negatives} drawn ones",
            "hierarchical-softmax": "found turn by turn in a Huffman tree",
        }[self.objective]
        subwords = ", with subwords" if self.subwords else ""
        return f"{self.algorithm}, window {self.window}, each word {objective}{subwords}"

    def kept(self) -> dict[str, Any]:
        """What a run that starts from such vectors keeps of them; the rest is how they are learned."""
        return {key: value for key, value in asdict(self).items() if key not in FREE}

    @staticmethod
    def training_class() -> type[Word2VecTraining]:
        """How it is learned."""
        return Word2VecTraining


@dataclass(kw_only=True)
class Word2VecTraining:
    """How it is learned (section `training`)."""

    epochs: int = 5
    """Number of passes over the text."""
    learning_rate: float | None = None
    """Initial learning rate, which decays linearly to `final_rate` (null: 0.025 for skip-gram, 0.05 for CBOW, as in the
    C program)."""
    final_rate: float = 1e-4
    """Final learning rate."""
    seed: int = 1
    """Random seed of the initial vectors and of all sampling."""
    threads: int | None = None
    """Maximum number of threads (null: one per core); as many are used as are fastest. With one, results are the same
    bit for bit."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""

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
    """The kind of model."""
    dim: int = 100
    """Dimensions of a vector."""
    window: int = 10
    """Maximum distance between co-occurring words; a pair at distance d counts 1/d."""
    x_max: float = 100.0
    """Weighting function: pairs with a higher count than this all have weight 1."""
    alpha: float = 0.75
    """Weighting function: rarer pairs have weight (count / x_max)^alpha."""

    def __post_init__(self) -> None:
        for name, least, most in (("dim", 1, 100_000), ("window", 1, 1000)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be at least {least} and at most {most:,}, not {getattr(self, name)}")
        if not 0 < self.x_max <= MOST_COUNT:
            raise ValueError(f"x_max must be above 0 and at most {MOST_COUNT:g}, not {self.x_max:g}")
        if not 0 <= self.alpha <= 10:
            raise ValueError(f"alpha must be at least 0 and at most 10, not {self.alpha:g}")

    from_counts: ClassVar[bool] = True

    def described(self) -> str:
        return "glove"

    def told_apart(self) -> str:
        return f"window {self.window}"

    def kept(self) -> dict[str, Any]:
        return {"dim": self.dim}

    @staticmethod
    def training_class() -> type[GloveTraining]:
        """How it is learned."""
        return GloveTraining


@dataclass(kw_only=True)
class GloveTraining:
    """How it is learned (section `training`)."""

    epochs: int = 15
    """Number of passes over the co-occurrence counts."""
    learning_rate: float = 0.05
    """Initial learning rate of AdaGrad."""
    seed: int = 1
    """Random seed of the initial vectors and of the order of pairs."""
    threads: int | None = None
    """Maximum number of threads (null: one per core); as many are used as are fastest. With one, results are the same
    bit for bit."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    max_memory: str = "2GB"
    """Memory limit of counting, such as 500MB, 2GB or 2GiB; what does not fit is sorted on disk."""

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
