"""What can be chosen of recurrent translators; one class a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anaphora.config import above_zero
from anaphora.models.registry import Sizes
from anaphora.models.translation.translator_settings import TranslatorConfig, corpus_size
from anaphora.nn.choices import ScoreName
from anaphora.nn.encoder_settings import EncoderConfig, encoder_class, encoder_settings
from anaphora.nn.expert_settings import chosen_experts
from anaphora.nn.scores import SCORES, score_named

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder
    from anaphora.nn.mixture_of_experts import Experts

Gated = Literal["gru", "lstm"]
Unroll = Literal["auto", "whole", "steps"]


@dataclass(kw_only=True)
class RecurrentConfig(TranslatorConfig):
    """What all of them have."""

    layers: int = 1
    """Number of encoder layers."""
    embedding: int | None = None
    """Embedding size; by default dim."""
    encoder_dim: int | None = None
    """Hidden size of the encoder, both directions together; by default dim."""
    bidirectional: bool | None = None
    """With a recurrent encoder: read in both directions. By default as published."""
    heads: int | None = None
    """With a Transformer encoder: its number of heads; by default 4."""
    feed_forward: int | None = None
    """With a Transformer encoder: hidden size of its feed-forward networks; by default four times its width."""
    unroll: Unroll = "auto"
    """How the decoder runs in training: whole, in one kernel call, where no step depends on an earlier step's
    attention; steps, a plain loop; auto, whole where possible, else a loop with a hand-written backward pass."""

    widths: ClassVar[tuple[int, ...]] = (192, 384, 512, 1024)
    """For the four sizes of a corpus."""
    of_encoder: ClassVar[tuple[str, ...]] = ("layers", "heads", "feed_forward")

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "embedding", "encoder_dim", "heads", "feed_forward")
        above_zero(self, "attention_dim", "readout", "hidden")  # not everybody's
        reader, name = self.encoder_config, self.encoder_name
        for one in ("heads", "feed_forward"):
            if getattr(self, one) is not None and one not in encoder_settings(type(reader)):
                raise ValueError(f"{one} is a Transformer encoder's, and this encoder is {name}")
        if self.bidirectional is not None and not reader.two_directions:
            raise ValueError(f"bidirectional is for a recurrent encoder, and this encoder is {name}")
        reader.check_dim(self.memory_dim, causal=self.reads_one_way, named="dim or encoder_dim")
        if not reader.any_width and self.word_dim != self.memory_dim:
            raise ValueError(
                f"encoder={name} reads vectors as wide as its own: embedding ({self.word_dim}) and "
                f"encoder_dim ({self.memory_dim}) must be one"
            )

    def told(self, cls: type[EncoderConfig]) -> dict[str, Any]:
        return super().told(cls) | ({"hidden": self.dim} if cls.hidden_of_decoder else {})

    def build_encoder(self) -> Encoder:
        reader = self.encoder_config
        return reader.build(self.memory_dim, causal=self.reads_one_way, width=self.word_dim, dropout=self.dropout)

    @property
    def reads_one_way(self) -> bool:
        """Whether its encoder, one that may have two cells, has but one."""
        return encoder_class(self.encoder_name).two_directions and not self.is_bidirectional

    def shape(self) -> str:
        words = "" if self.word_dim == self.dim else f", words {self.word_dim} wide"
        return f"{super().shape()}{words}, read by {self.encoder_name}"

    @classmethod
    def sized(cls, pairs: int) -> Sizes:
        """What carries a state from word to word learns at half the rate of a Transformer, wants no deep stacks where
        there is little text, and is held back by dropout as much as any."""
        size = corpus_size(pairs)
        training: dict[str, Any] = {"clip_norm": 1.0, "schedule": "cosine", "metric": "bleu" if size < 3 else "loss"}
        training |= {"learning_rate": (2e-3, 2e-3, 1e-3, 5e-4)[size], "warmup_steps": (300, 500, 1000, 2000)[size]}
        training |= {"batch_tokens": (2048, 4096, 6144, 12_500)[size]}
        return {"dim": cls.widths[size], "dropout": (0.3, 0.4, 0.3, 0.2)[size], **cls.depth(size)}, training

    @classmethod
    def depth(cls, size: int) -> dict[str, Any]:
        """Layers, for one of the four sizes of a corpus."""
        return {"layers": (1, 1, 2, 4)[size]}

    @property
    def is_bidirectional(self) -> bool:
        """Whether a recurrent encoder reads both ways."""
        return self.bidirectional if self.bidirectional is not None else True

    @property
    def word_dim(self) -> int:
        return self.embedding or self.dim

    @property
    def memory_dim(self) -> int:
        return self.encoder_dim or self.dim


@dataclass(kw_only=True)
class CellConfig(RecurrentConfig):
    """Those that may have either cell."""

    cell: Gated = "lstm"
    """Cell of the decoder, and of the encoder unless `encoder` is set."""

    @property
    def own_encoder(self) -> str:
        return self.cell


@dataclass(kw_only=True)
class Seq2seqConfig(CellConfig):
    """Section `model`, for `kind: seq2seq` (Sutskever et al. 2014): a sentence in one vector."""

    kind: Literal["seq2seq"] = "seq2seq"
    """The kind of model."""
    reverse_source: bool = True
    """Read the source in reverse order, so that its first words are close to the first words of the target."""

    @property
    def is_bidirectional(self) -> bool:
        return self.bidirectional if self.bidirectional is not None else False

    @property
    def attends(self) -> bool:
        return False


@dataclass(kw_only=True)
class BahdanauConfig(CellConfig):
    """Section `model`, for `kind: bahdanau` (Bahdanau et al. 2015): a look at the source before each step."""

    kind: Literal["bahdanau"] = "bahdanau"
    """The kind of model."""
    cell: Gated = "gru"
    """Cell of the decoder, and of the encoder unless `encoder` is set."""
    score: ScoreName = "additive"
    """Attention score between decoder state and source word."""
    attention_dim: int | None = None
    """Hidden size of additive scores; by default dim."""
    decoder_layers: int | None = None
    """Number of decoder layers; by default one."""
    readout: int | None = None
    """Size of the maxout layer before the output layer; by default the embedding size."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_looks(self)
        refuse_whole(self.unroll, "the state of each step is made of what was looked at before it")

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or 1

    @classmethod
    def depth(cls, size: int) -> dict[str, Any]:
        return {"layers": (1, 1, 2, 2)[size]}


@dataclass(kw_only=True)
class LuongConfig(CellConfig):
    """Section `model`, for `kind: luong` (Luong et al. 2015): a look at the source after each step."""

    kind: Literal["luong"] = "luong"
    """The kind of model."""
    score: ScoreName = "bilinear"
    """How well a source word answers the decoder's state; Luong's general is bilinear, his concat additive."""
    attention_dim: int | None = None
    """Hidden size of additive scores; by default dim."""
    input_feeding: bool = True
    """Input feeding: each step's attentional vector is part of the next step's input."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_looks(self)
        if self.input_feeding:
            refuse_whole(self.unroll, "with input_feeding each step waits for what the one before it found")


@dataclass(kw_only=True)
class DeepConfig(RecurrentConfig):
    """Those with LSTMs in deep stacks, whose lowest decoder layer alone looks; their own encoder has their name. Of a
    small corpus they get fewer and narrower layers, in the published proportions."""

    score: ScoreName = "additive"
    """Attention score between decoder state and source word."""
    attention_dim: int | None = None
    """Width in which additive scores compare the two; that of the decoder's cells by default."""
    widths: ClassVar[tuple[int, ...]] = (128, 256, 384, 1024)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_looks(self)
        refuse_whole(self.unroll, "the lowest layer's state is made of what was looked at before it")


@dataclass(kw_only=True)
class DeepAttConfig(DeepConfig):
    """Section `model`, for `kind: deep-att` (Zhou et al. 2016): deep LSTMs with fast-forward connections."""

    kind: Literal["deep-att"] = "deep-att"
    """The kind of model."""
    layers: int = 9
    """Number of encoder layers, in each of two columns."""
    decoder_layers: int | None = 7
    """Number of decoder layers."""

    @classmethod
    def depth(cls, size: int) -> dict[str, Any]:
        return {"layers": (2, 3, 5, 9)[size], "decoder_layers": (2, 2, 4, 7)[size]}


@dataclass(kw_only=True)
class GnmtConfig(DeepConfig):
    """Section `model`, for `kind: gnmt` (Wu et al. 2016): deep LSTMs with residuals."""

    kind: Literal["gnmt"] = "gnmt"
    """The kind of model."""
    layers: int = 8
    """Number of encoder layers; the first is bidirectional."""
    widths: ClassVar[tuple[int, ...]] = (128, 384, 384, 1024)

    @classmethod
    def depth(cls, size: int) -> dict[str, Any]:
        return {"layers": (2, 3, 4, 8)[size]}


@dataclass(kw_only=True)
class MoeConfig(DeepConfig):
    """Section `model`, for `kind: moe` (Shazeer et al. 2017): LSTMs with a mixture of experts between them."""

    kind: Literal["moe"] = "moe"
    """The kind of model."""
    layers: int = 3
    """Number of encoder layers; the first is bidirectional, and experts come before the last."""
    decoder_layers: int | None = 2
    """Number of decoder layers; experts come before the last."""
    hidden: int | None = None
    """Hidden size of the LSTM cells, whose outputs are projected to dim; by default dim."""
    experts: int = 8
    """Number of experts in encoder and decoder each."""
    experts_per_token: int | None = None
    """Number of experts per token; by default 2."""
    expert_hidden: int | None = None
    """Hidden size of each expert; by default four times dim."""
    expert_balance: float = 0.1
    """Weight of the load-balancing loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_experts(self)
        above_zero(self, "expert_hidden")

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or 2

    @classmethod
    def depth(cls, size: int) -> dict[str, Any]:
        """As deep as published; a word asks as many experts, of fewer."""
        few = {"experts_per_token": 4} if size == 3 else {}
        return {"experts": (4, 8, 16, 32)[size], **few, "tie": "none"}

    @property
    def routed(self) -> Experts:
        """Its experts."""
        from anaphora.nn.mixture_of_experts import Experts

        return Experts(**chosen_experts(self) or {})

    def shape(self) -> str:
        return f"{super().shape()}, {self.routed}, {self.expert_hidden or 4 * self.dim} wide inside"


def refuse_whole(unroll: Unroll, why: str) -> None:
    """A ValueError where a target cannot be read at once."""
    if unroll == "whole":
        raise ValueError(f"unroll=whole cannot be: {why}; leave it at auto")


def _check_looks(config: BahdanauConfig | LuongConfig | DeepConfig) -> None:
    score, width = score_named(config.score), getattr(config, "hidden", None) or config.dim
    if config.memory_dim != width and not (score.two_sizes or score.projects):
        raise ValueError(
            f"score={config.score} compares vectors of one width; dim is {width}, encoder_dim "
            f"{config.memory_dim}; take score=bilinear"
        )
    if config.attention_dim is not None and not score.projects:
        projecting = " or ".join(name for name, one in SCORES.items() if one.projects)
        raise ValueError(f"attention_dim is for {projecting} scores; score is {config.score}")
