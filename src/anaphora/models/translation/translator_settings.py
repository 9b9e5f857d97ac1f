"""Settings that all translators have, the Transformer's, and an ensemble's (section `model`). Nothing here needs torch.

Those of recurrent and convolutional translators stand in their folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from anaphora.config import NameIn, above_zero
from anaphora.models.encoder_section import check_name, flattened
from anaphora.models.registry import Sizes
from anaphora.nn.choices import Activation, Norm, Normalizer, Positions, ScoreName, check_depth, check_positions
from anaphora.nn.encoder_settings import ENCODERS, EncoderConfig, encoder_class, encoder_settings
from anaphora.nn.expert_settings import chosen_experts
from anaphora.nn.scores import score_named
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder
    from anaphora.nn.mixture_of_experts import Experts

EncoderChoice = Annotated[str | dict[str, Any], NameIn(ENCODERS)]
"""What reads the source, by name, or with settings of its own: {"kind": "conv", "width": 5}."""
Mean = Literal["probabilities", "logs"]
SMALL_CORPUS_PAIRS, MEDIUM_CORPUS_PAIRS, LARGE_CORPUS_PAIRS = 15_000, 80_000, 1_000_000
"""Pairs: below the first a very small model; then those for about 30 k, for about 150 k, and the largest."""


@dataclass(kw_only=True)
class TranslatorConfig:
    """What section `model` says of every translator."""

    kind: Any = ""
    """The kind of model."""
    encoder: EncoderChoice | None = None
    """What reads the source; the system's own encoder by default. `anaphora settings model.encoder` lists what can be
    said of each, as in model.encoder.kind=conv model.encoder.width=5."""
    dim: int = 256
    """Hidden size: width of the vectors between layers."""
    layers: int = 6
    """Number of encoder layers."""
    decoder_layers: int | None = None
    """Number of decoder layers; by default as many as encoder layers."""
    max_length: int = 512
    """Maximum length of a source or target sequence, in tokens, special tokens included."""
    dropout: float = 0.1
    """Dropout after the embeddings and between layers."""
    tie: Literal["none", "target", "all"] = "all"
    """Weight tying: none; target input and output embeddings (target, 2-way); also the source's (all, 3-way, with a
    shared vocabulary)."""

    tokens_a_pair: ClassVar[int] = 20
    """About how many tokens the longer side of a pair has."""
    spells: ClassVar[bool] = False
    """Whether it reads letters: what it knows of a word it knows by how the word is spelled."""
    of_encoder: ClassVar[tuple[str, ...]] = ("layers",)
    """Settings that are any encoder's which has such; those of its own encoder, if the system has them, are the same
    ones."""

    def __post_init__(self) -> None:
        above_zero(self, "dim", "layers", "decoder_layers", "max_length")
        check_depth(layers=self.layers, decoder_layers=self.decoder_layers)
        if not 0 <= self.dropout < 1:
            raise ValueError("dropout must be at least 0 and below 1")

    @property
    def decoder(self) -> str:
        """What writes the target: it names the system."""
        return str(self.kind)

    @classmethod
    def with_section(
        cls, own: dict[str, Any], said: dict[str, Any], whole: Mapping[str, Any], **how: Any
    ) -> dict[str, Any]:
        """Section `model` with what is `said` of the encoder by that name (models/encoder_section.py)."""
        there = whole.get("encoder")
        name = said.pop("kind", None) or (there.get("kind") if isinstance(there, Mapping) else there)
        usual = cls(**({"cell": whole["cell"]} if "cell" in whole and hasattr(cls, "cell") else {})).own_encoder
        reader = encoder_class(check_name(name or usual, ENCODERS, how["file"]))
        directions = ("bidirectional",) if reader.two_directions and hasattr(cls, "bidirectional") else ()
        shared = {*(one for one in cls.of_encoder if one in encoder_settings(reader)), *directions}
        alone = flattened(own, said, reader, shared=shared, **how)
        found = {"kind": name or usual, **alone} if alone else name
        return own if found is None else {**own, "encoder": found}

    @property
    def own_encoder(self) -> str:
        """The name of the encoder that it has unless told otherwise."""
        return str(self.kind)

    @property
    def encoder_name(self) -> str:
        """The name of its encoder."""
        said = self.encoder.get("kind") if isinstance(self.encoder, Mapping) else self.encoder
        return said or self.own_encoder

    @property
    def encoder_config(self) -> EncoderConfig:
        """The settings of its encoder: those that the encoder has in front of decoders, those that both have, and what
        is said of the encoder alone."""
        cls = encoder_class(self.encoder_name)
        alone = dict(self.encoder) if isinstance(self.encoder, Mapping) else {}
        alone.pop("kind", None)
        return cls(**{**cls.in_front, **self.told(cls), **alone})

    def told(self, cls: type[EncoderConfig]) -> dict[str, Any]:
        """What the settings of the system say of such an encoder."""
        names = encoder_settings(cls)
        if self.encoder_name == self.own_encoder:
            return {name: getattr(self, name) for name in names if hasattr(self, name)}
        said = {name: getattr(self, name, None) for name in self.of_encoder if name in names}
        return {name: value for name, value in said.items() if value is not None}

    def build_encoder(self) -> Encoder:
        """What reads the source, with fresh weights."""
        return self.encoder_config.build(self.dim, dropout=self.dropout)

    @property
    def attends(self) -> bool:
        """Whether it can say how much of each source word it took."""
        return True

    @property
    def decoder_depth(self) -> int:
        """Number of decoder layers."""
        return self.decoder_layers or self.layers

    def shape(self) -> str:
        """How large it is, in a few words."""
        return f"{self.dim} wide, {self.layers}+{self.decoder_depth} layers"

    @classmethod
    def sized(cls, pairs: int) -> Sizes:
        """Starting points for a corpus of so many pairs: dimensions and dropout; rate, batch, schedule."""
        size = corpus_size(pairs)
        model = {"dim": (128, 256, 384, 512)[size], "dropout": (0.3, 0.3, 0.2, 0.1)[size]}
        training = {"learning_rate": (2e-3, 2e-3, 1e-3, 5e-4)[size], "warmup_steps": (300, 500, 1000, 2000)[size]}
        training |= {"batch_tokens": (2048, 4096, 6144, 12_500)[size], "clip_norm": 1.0}
        return model, {**training, "schedule": "cosine", "metric": "bleu" if size < 3 else "loss"}


def corpus_size(pairs: int) -> int:
    """0 to 3: which of the four sizes a corpus has."""
    return sum(pairs >= border for border in (SMALL_CORPUS_PAIRS, MEDIUM_CORPUS_PAIRS, LARGE_CORPUS_PAIRS))


@dataclass(kw_only=True)
class TransformerConfig(TranslatorConfig):
    """Section `model`, for `kind: transformer`."""

    kind: Literal["transformer"] = "transformer"
    """The kind of model."""
    heads: int = 4
    """Number of attention heads; each has dim / heads dimensions."""
    key_value_heads: int | None = None
    """Number of key and value heads in self-attention, each shared by a group of heads (1: multi-query attention); by
    default as many as heads."""
    score: ScoreName = "scaled-dot"
    """How well a key answers a query, in every attention."""
    normalizer: Normalizer = "softmax"
    """Attention normalizer: softmax, or none (linear attention: the scores are the weights)."""
    feed_forward: int = 1024
    """Hidden size of the feed-forward network, or of each expert."""
    experts: int | None = None
    """Number of experts in place of each feed-forward network (mixture of experts); by default none."""
    experts_per_token: int | None = None
    """With experts: number of experts per token; by default 2."""
    experts_every: int | None = None
    """With experts: every how many layers have them; by default 1, all of them."""
    expert_balance: float | None = None
    """With experts: weight of the load-balancing loss; by default 0.1."""
    norm: Norm = "pre"
    """Layer normalization before each sublayer (pre) or after the residual sum (post, as published)."""
    activation: Activation = "relu"
    """Activation function of the feed-forward network."""
    positions: Positions = "sinusoidal"
    """Position encoding: in the input vectors (sinusoidal, sinusoidal-concatenated, learned), in every self-attention
    (rotary, alibi, relative), or none."""
    window: int | None = None
    """Self-attention sees only positions less than this far away; by default all."""
    dropout: float = 0.1
    """Dropout after the embedding and after every sublayer."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward network."""
    attention: Literal["auto", "reference", "sdpa"] = "auto"
    """Attention backend: the reference, or PyTorch's fused kernels (sdpa); auto: the fastest."""
    embedding_from: str | None = None
    """Pretrained word vectors for the embeddings of both languages (a folder, or a file such as vectors.txt), of size
    `dim`; other words are initialized at random."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "heads", "key_value_heads", "feed_forward", "window")
        if self.dim % self.heads:
            raise ValueError(f"dim ({self.dim}) must be a multiple of heads ({self.heads}); choose another of the two")
        if self.heads % self.shared_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of key_value_heads ({self.shared_heads})")
        if self.positions == "rotary" and self.dim // self.heads % 2:
            raise ValueError(f"rotary positions need an even dim / heads; {self.dim} / {self.heads} is odd")
        check_positions(self.positions, self.score, self.normalizer)
        self.encoder_config.check_dim(self.dim)
        if self.attention == "sdpa":
            from anaphora.nn.attention_backends import Choices, cannot

            if why := cannot("sdpa", Choices(score=score_named(self.score), normalizer=self.normalizer)):
                raise ValueError(f"attention=sdpa cannot do this: {why}; leave it at auto")
        for name in ("attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1")
        chosen_experts(self, layers=self.decoder_depth if self.encoder else min(self.layers, self.decoder_depth))

    @property
    def routed(self) -> Experts | None:
        """The experts, if there are any."""
        from anaphora.nn.mixture_of_experts import Experts

        found = chosen_experts(self)
        return None if found is None else Experts(**found)

    @property
    def shared_heads(self) -> int:
        """Key and value heads of self-attention."""
        return self.key_value_heads or self.heads

    @property
    def attends(self) -> bool:
        return self.normalizer == "softmax"  # scores of any sign are no shares of what was looked at

    @classmethod
    def sized(cls, pairs: int) -> Sizes:
        training: dict[str, Any]
        if pairs < 15_000:
            model = {"dim": 128, "layers": 4, "heads": 4, "feed_forward": 256, "dropout": 0.3}
            training = {"learning_rate": 2e-3, "warmup_steps": 500, "batch_tokens": 2048}
        elif pairs < 300_000:
            model = {"dim": 256, "layers": 6, "heads": 4, "feed_forward": 1024, "dropout": 0.3}
            training = {"learning_rate": 2e-3, "warmup_steps": 1000, "batch_tokens": 4096, "schedule": "cosine"}
            training |= {"consistency": 5.0, "metric": "bleu"}  # Multi30k and Tatoeba: docs/lab-notes.md
            if pairs >= 100_000:  # room for more, which the consistency loss keeps from learning by heart
                model |= {"dim": 512, "heads": 8}
                training |= {"learning_rate": 1e-3, "batch_tokens": 8192}
        elif pairs < 2_000_000:
            model = {"dim": 512, "layers": 6, "heads": 4, "feed_forward": 1024, "dropout": 0.2}
            training = {"learning_rate": 7e-4, "warmup_steps": 2000, "batch_tokens": 8192}
        else:
            model = {"dim": 512, "layers": 6, "heads": 8, "feed_forward": 2048, "dropout": 0.1}
            training = {"learning_rate": 7e-4, "warmup_steps": 4000, "batch_tokens": 12_500, "accumulate": 2}
        return model, training

    def shape(self) -> str:
        experts = "" if self.routed is None else f", {self.routed}"
        heads = count(self.heads, "head")
        return f"{super().shape()}, {heads}, feed-forward {self.feed_forward}{experts}, {self.norm}-norm"


@dataclass(kw_only=True)
class EnsembleConfig:
    """Which translators are asked together, and how much each has to say (section `model`)."""

    kind: Literal["ensemble"] = "ensemble"
    """The kind of model."""
    parts: list[str] = field(default_factory=list)
    """Folders of the members, inside the model's own."""
    weights: list[float] = field(default_factory=list)
    """Weight of each member; they sum to 1."""
    mean: Mean = "probabilities"
    """Average probabilities, or their logs (renormalized)."""

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.weights):
            raise ValueError(f"parts names {len(self.parts)} models, weights has {len(self.weights)} numbers")
        for name in self.parts:
            if Path(name).name != name or name in ("", ".", ".."):
                raise ValueError(f"parts holds {name!r}, which is no name of a folder inside the model's own")
