"""Attention to all words before (`transformer-decoder`), or to all words, of which some are hidden
(`transformer-encoder`). `GPT2` and `BERT` are the published shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from anaphora.models.language.language_settings import (
    HELD_BACK,
    LanguageConfig,
    medium_text_epochs,
    small_text_epochs,
)
from anaphora.models.registry import Sizes, System
from anaphora.nn.transformer_settings import TransformerStackConfig

Initial = Literal["xavier", "normal"]

DECODER = System(
    kind="transformer-decoder",
    rung=19,
    task="language",
    settings="anaphora.models.language.transformer_language:TransformerDecoderConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)
ENCODER = System(
    kind="transformer-encoder",
    rung=20,
    task="language",
    settings="anaphora.models.language.transformer_language:TransformerEncoderConfig",
    model="anaphora.models.language.masked:MaskedLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class TransformerLanguageConfig(TransformerStackConfig, LanguageConfig):
    """What both Transformers are told."""

    dim: int = 256
    """Hidden size: width of the vectors between layers."""
    dropout: float = 0.1
    """Dropout after every sublayer, and on the input embeddings where input_dropout is 0."""
    locked: bool = False
    """Variational (locked) dropout at input and output: the same mask at all positions of a row."""
    max_length: int | None = 512
    """Maximum length of a row, in tokens, ⟨s⟩ included, and size of the table of learned positions. Null: unlimited,
    not with learned positions."""
    scale_embedding: bool = True
    """Multiply embeddings by √dim."""
    initial: Initial = "normal"
    """How weights begin: xavier, by the width of each layer; normal, with deviation 0.02, and less at the end of each
    residual, the more layers there are (GPT-2)."""

    windowed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_dim(self.dim)
        if self.positions == "learned" and self.max_length is None:
            raise ValueError("learned positions are a table; say how long with max_length")
        if self.max_length is not None and self.max_length < 2:
            raise ValueError(f"max_length is {self.max_length}; ⟨s⟩ and one word are 2")

    @property
    def inner(self) -> int:
        """Hidden width of the feed-forward network."""
        return self.feed_forward or 4 * self.dim

    def embedding_options(self) -> dict[str, Any]:
        return {"positions": self.positions, "max_length": self.max_length, "scaled": self.scale_embedding}

    @property
    def begins_small(self) -> bool:
        return self.initial == "normal"

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        training = {"learning_rate": 3e-3, "context": 128, "batch_tokens": 2048, "beta2": 0.98}
        model = {"layers": 2, "heads": 4, "feed_forward": 384}
        return model, {**training, "epochs": small_text_epochs(3.0, tokens)}

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        model = {"dim": 512, "layers": 6, "heads": 8, "dropout": 0.4, "attention_dropout": 0.1}
        model |= {"activation_dropout": 0.4, **HELD_BACK, "locked": False}
        training = {"learning_rate": 7e-4, "weight_decay": 0.5, "beta2": 0.98, "batch_tokens": 8192, "context": 256}
        return model, {**training, "epochs": medium_text_epochs(60, tokens)}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        training = {"learning_rate": 1e-3, "weight_decay": 0.1, "beta2": 0.98, "context": 256}
        return {"layers": 8, "heads": 8}, training


@dataclass(kw_only=True)
class TransformerDecoderConfig(TransformerLanguageConfig):
    """Transformer without a source: every word looks at those before it (Radford et al. 2018)."""

    kind: Literal["transformer-decoder"] = "transformer-decoder"
    """The kind of model."""

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        """More updates, and smaller ones (docs/lab-notes.md)."""
        model, training = super().small(tokens)
        training |= {"learning_rate": 2e-3, "batch_tokens": 1024, "epochs": small_text_epochs(4.0, tokens)}
        return model, training


@dataclass(kw_only=True)
class TransformerEncoderConfig(TransformerLanguageConfig):
    """Transformer that sees all words but the hidden ones, and guesses those (Devlin et al. 2019)."""

    kind: Literal["transformer-encoder"] = "transformer-encoder"
    """The kind of model."""
    mask: int | None = None
    """Id of the mask token; by default a new one, after the vocabulary."""
    token_types: int = 0
    """Number of segment embeddings (BERT: 2), of which the first is added to all words."""
    embedding_norm: bool = False
    """Layer normalization of the input embeddings (BERT)."""
    transform: bool = False
    """One more layer before the output layer: W x + b, GELU, layer normalization (BERT)."""
    pooler: bool = False
    """A layer over the first position, tanh(W x₁ + b), for loading models that have one (BERT)."""

    masked: ClassVar[bool] = True

    @property
    def segments(self) -> int:
        return self.token_types

    @property
    def first_epsilon(self) -> float | None:
        return self.epsilon if self.embedding_norm else None

    @property
    def extra_rows(self) -> int:
        """Of ⟨mask⟩, where the vocabulary has no such token."""
        return int(self.mask is None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token_types < 0:
            raise ValueError(f"token_types is {self.token_types}; it must be at least 0")

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        """Hidden words are hard enough."""
        model, training = super().medium(tokens)
        light = ("dropout", "activation_dropout", "input_dropout", "output_dropout")
        return {**model, **dict.fromkeys(light, 0.1)}, training


GPT2: dict[str, Any] = {
    "kind": "transformer-decoder",
    "dim": 768,
    "layers": 12,
    "heads": 12,
    "norm": "pre",
    "activation": "gelu-tanh",
    "positions": "learned",
    "max_length": 1024,
    "tie": True,
    "output_bias": False,
    "scale_embedding": False,
    "initial": "normal",
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
"""The shape of GPT-2 small (Radford et al. 2019), not its weights: with its 50,257 tokens, 124,439,808 parameters."""


BERT: dict[str, Any] = {
    "kind": "transformer-encoder",
    "dim": 768,
    "layers": 12,
    "heads": 12,
    "norm": "post",
    "epsilon": 1e-12,
    "activation": "gelu",
    "positions": "learned",
    "max_length": 512,
    "tie": True,
    "output_bias": True,
    "scale_embedding": False,
    "initial": "normal",
    "token_types": 2,
    "embedding_norm": True,
    "transform": True,
    "pooler": True,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
"""BERT base (Devlin et al. 2019): with its 30,522 tokens, 109,482,240 parameters without the head that guesses words,
the pooler included."""
