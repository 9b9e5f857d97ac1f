"""What all neural language models are told (section `model`), and how their sizes follow the text. Nothing needs torch.

    dan                     the mean of the words read so far                  averaging_language.py
    window                  a network over the last words                      window_language.py
    rnn, gru, lstm          a cell that carries a state from word to word      recurrent_language.py
    conv                    windows in layers, each seeing further             convolution_language.py
    transformer-decoder     attention to all words before                      transformer_language.py
    transformer-encoder     attention to all words, of which some are hidden   transformer_language.py
    backpack                several vectors for each word, its senses          models/backpack/backpack_settings.py

All are an embedding, an encoder and a head (causal.py, masked.py); with `labels` they choose classes (classifier.py).
What is told to such a model is what is told to its encoder (nn/encoder_settings.py), and what follows here; so the
settings of a kind derive from both, and each file has those of its kinds, their sizes by the text, and their entries in
the registry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anaphora.config import above_zero
from anaphora.errors import UserError
from anaphora.models.encoder_section import flattened
from anaphora.models.registry import Sizes
from anaphora.nn.choices import check_share
from anaphora.nn.encoder_settings import EncoderConfig, encoder_settings

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

Pool = Literal["mean", "max", "first", "last"]
OF_CLASSIFIERS = ("labels", "pool", "bidirectional")
"""Settings that mean something where lines have labels."""
HELD_BACK = {"locked": True, "input_dropout": 0.4, "output_dropout": 0.4, "embedding_dropout": 0.1}
"""How a model that is large for its text is kept from learning it by heart."""


@dataclass(kw_only=True)
class LanguageConfig(EncoderConfig):
    """What all neural language models are told besides their encoder (section `model`)."""

    kind: str = ""
    """The kind of model."""
    dim: int = 256
    """Embedding size, and hidden size between layers."""
    layers: int = 1
    """Number of layers."""
    tie: bool = True
    """Weight tying: one table for input and output embeddings."""
    output_bias: bool = True
    """Bias of the output layer."""
    dropout: float = 0.1
    """Dropout between layers, and inside them unless the kind has a setting of its own."""
    input_dropout: float = 0.0
    """Dropout on the input embeddings."""
    output_dropout: float = 0.0
    """Dropout on the encoder's output, before the output layer."""
    embedding_dropout: float = 0.0
    """Embedding dropout: share of words that are dropped from the embedding table in a step."""
    locked: bool = False
    """Variational (locked) dropout at input, output and between layers: the same mask at all positions of a row."""
    embedding_from: str | None = None
    """Pretrained word vectors for the embedding (a folder, or a file such as vectors.txt), of size `dim`; other words
    are initialized at random."""
    labels: list[str] = field(default_factory=list)
    """Class names of a classifier; empty: a language model."""
    pool: Pool = "mean"
    """Pooling of a classifier: the mean or maximum over all positions, the first or the last."""
    bidirectional: bool = False
    """Bidirectional encoder, for classifiers; a language model would see the words that it is to predict."""

    windowed: ClassVar[bool] = False
    """Whether a row of a stream knows nothing of those before it: the mean of a whole book says nothing, and attention
    to all of it has no room."""
    by_token: ClassVar[bool] = False
    """Whether much of it depends on the token alone, and is computed once for each different one of a batch."""
    classifies: ClassVar[bool] = True
    """Whether it can learn from labels, too."""
    masked: ClassVar[bool] = False
    """Whether it guesses hidden words from those on both sides, not the next one from those before."""

    def __post_init__(self) -> None:
        above_zero(self, "dim")
        super().__post_init__()
        for name in ("dropout", "input_dropout", "output_dropout", "embedding_dropout"):
            check_share(name, getattr(self, name))
        if len(set(self.labels)) < len(self.labels) or len(self.labels) == 1:
            raise ValueError(f"labels must be two names or more, each once; they are {self.labels}")

    def without_effect(self) -> dict[str, str | None]:
        """Settings that mean nothing as the others are, and what they would need: of a classifier, its labels, which
        nobody says (they are found in the text)."""
        return {} if self.labels else dict.fromkeys(OF_CLASSIFIERS)

    def embedding_options(self) -> dict[str, Any]:
        """What the first vectors are, besides words (keyword arguments of nn.embedding.Embedding)."""
        return {"positions": "none", "max_length": None, "scaled": False}

    @property
    def segments(self) -> int:
        """Kinds of segments, each with a vector that is added to its words'."""
        return 0

    @property
    def first_epsilon(self) -> float | None:
        """Of a layer normalization of the first vectors; None: there is none."""
        return None

    @property
    def extra_rows(self) -> int:
        """Rows that the table of words has behind those of the vocabulary."""
        return 0

    @property
    def begins_small(self) -> bool:
        """Whether matrices begin as GPT-2's do."""
        return False

    @property
    def causal(self) -> bool:
        """Whether its encoder reads one way."""
        return not (self.masked or self.bidirectional)

    def build_encoder(self) -> Encoder:
        """What lets each word know its context, with fresh weights."""
        if not self.encoder_kind:
            cure = "derive its settings from those of an encoder, LstmEncoderConfig, say, and from LanguageConfig"
            raise UserError(f"{type(self).__name__} says no encoder", cure=cure)
        return self.build(self.dim, causal=self.causal, dropout=self.dropout, locked=self.locked)

    @classmethod
    def encoder_class(cls) -> type[EncoderConfig]:
        """The settings of its encoder, which it has among its own."""
        bases = (one for one in cls.__mro__ if issubclass(one, EncoderConfig))
        return next(one for one in bases if not issubclass(one, LanguageConfig))

    @classmethod
    def with_section(
        cls, own: dict[str, Any], said: dict[str, Any], whole: Mapping[str, Any], **how: Any
    ) -> dict[str, Any]:
        """Section `model` with what is `said` of the encoder by that name (models/encoder_section.py)."""
        name = said.pop("kind", None)
        if name not in (None, cls.encoder_kind, whole["kind"]):
            both = f"model.kind is {whole['kind']} and model.encoder is {name}"
            raise UserError(
                f"{both}: a language model is named after its encoder",
                file=how.get("file"),
                cure="say one of the two",
            )
        flattened(own, said, cls.encoder_class(), shared=encoder_settings(cls.encoder_class()), **how)
        return own

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        """For a book or two: about a minute for a megabyte, on two cores."""
        return {}, {"learning_rate": 3e-3, "epochs": small_text_epochs(3.0, tokens)}

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        """Penn Treebank and WikiText-2: models that are large for their text, and every dropout there is."""
        model = {"dim": 400, "dropout": 0.4, **HELD_BACK, "locked": False}
        return model, {"learning_rate": 1e-3, "weight_decay": 0.1, "epochs": medium_text_epochs(30, tokens)}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        """Ten million tokens and more: hardly any dropout, few epochs."""
        return {}, {"learning_rate": 1e-3, "weight_decay": 0.01}

    @classmethod
    def sized_as(cls, model: Mapping[str, Any]) -> str:
        """The kind whose sizes it takes, by what is said in section `model`."""
        return cls().kind

    @classmethod
    def adjusted(cls, model: dict[str, Any], training: dict[str, Any], tokens: int) -> Sizes:
        """Those sizes, as it takes them; model: nothing where the recipe has a size of its own."""
        return model, training

    @classmethod
    def classifier(cls, width: int) -> dict[str, Any]:
        """What a classifier that wide is told besides."""
        return {}


def small_text_epochs(often: float, tokens: int) -> float:
    """How often a small text is read: more often, the shorter it is."""
    return round(min(60.0, often * max(1.0, math.sqrt(400_000 / max(tokens, 1)))), 1)


def medium_text_epochs(often: float, tokens: int) -> float:
    """How often a text of about a million tokens is read; a larger one less often."""
    return round(often * (1e6 / tokens) ** 0.7, 1)
