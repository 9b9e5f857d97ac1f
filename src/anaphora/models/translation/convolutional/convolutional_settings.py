"""What can be chosen of convolutional translators; one class a kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from anaphora.config import above_zero
from anaphora.models.registry import Sizes
from anaphora.models.translation.translator_settings import EncoderChoice, TranslatorConfig, corpus_size

if TYPE_CHECKING:
    from torch import Tensor

    from anaphora.nn.encoder_contract import Encoder
    from anaphora.nn.encoder_settings import EncoderConfig

Length = TypeVar("Length", int, "Tensor")
MILLION = 1_000_000


@dataclass(kw_only=True)
class ByteNetConfig(TranslatorConfig):
    """Section `model`, for `kind: bytenet` (Kalchbrenner et al. 2016): dilated convolutions over bytes or
    characters."""

    kind: Literal["bytenet"] = "bytenet"
    """The kind of model."""
    encoder: EncoderChoice | None = None
    """Encoder of the source; bytenet's decoder needs its own."""
    dim: int = 512
    """Hidden size between blocks (the paper's 2d)."""
    layers: int = 10
    """Number of encoder blocks."""
    max_length: int = 1024
    """Maximum length of a source or target sequence, in tokens, special tokens included."""
    hidden: int | None = None
    """Hidden size inside a block, where the convolution is (the paper's d); by default half of dim."""
    width: int = 3
    """Kernel width of the convolutions, an odd number."""
    dilations: int = 5
    """Blocks per set: dilations are 1, 2, 4, …, doubling this many times, then start again from 1."""
    unfold: float = 1.2
    """Length factor: the encoder's output has unfold · |source| + unfold_extra positions, room for a longer target."""
    unfold_extra: int = 0
    """Positions added on top of unfold · |source|."""
    tokens_a_pair: ClassVar[int] = 80
    spells: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_name != self.own_encoder:
            raise ValueError(
                f"bytenet's decoder stands on its own encoder, place upon place, and encoder is {self.encoder_name}; "
                "leave it out, or take another decoder: model.decoder=convs2s, say"
            )
        check_width(self.width)
        if self.dilations < 1 or self.dilations > 12:
            raise ValueError("dilations must be 1 to 12: the widest are then 2,048 places apart")
        for name in ("hidden", "unfold"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.hidden is None and self.dim < 2:
            raise ValueError("dim must be at least 2: a block is half as wide inside")
        if self.unfold > 100 or not 0 <= self.unfold_extra <= 10_000:
            raise ValueError("unfold must be at most 100, unfold_extra 0 to 10,000: the encoder computes every place")

    @property
    def attends(self) -> bool:
        return False

    @classmethod
    def sized(cls, pairs: int) -> Sizes:
        """Letters to read, so many narrow blocks: three sets of five let a place know of 93 letters on each side."""
        size = corpus_size(pairs)
        model: dict[str, Any] = {"dim": (256, 512, 640, 1024)[size], "layers": (10, 15, 15, 20)[size]}
        model["dropout"] = (0.2, 0.2, 0.1, 0.0)[size]
        return model, {**training_of(size), "batch_tokens": (8192, 16_384, 24_576, 32_768)[size]}

    @property
    def inside(self) -> int:
        """Width inside a block."""
        return self.hidden or self.dim // 2

    def places(self, length: Length) -> Length:
        """|t̂| = a |s| + b, rounded up. In whole numbers, a by the millionth: 1.2 · 5 is 6 on any device, for one length
        or for many."""
        return -(-length * max(1, round(self.unfold * MILLION)) // MILLION) + self.unfold_extra

    def shape(self) -> str:
        return f"{super().shape()}, {self.inside} inside, {self.width} places up to {2 ** (self.dilations - 1)} apart"


@dataclass(kw_only=True)
class ConvS2SConfig(TranslatorConfig):
    """Section `model`, for `kind: convs2s` (Gehring et al. 2017): gated convolutions, a look in every decoder layer."""

    kind: Literal["convs2s"] = "convs2s"
    """The kind of model."""
    layers: int = 4
    """Number of encoder layers."""
    embedding: int | None = None
    """Embedding size, and size of the attention's keys and values; by default dim."""
    readout: int | None = None
    """Size of the last hidden layer before the output; by default the embedding size."""
    width: int = 3
    """Kernel width of the convolutions, an odd number."""
    stages: list[list[int]] = field(default_factory=list)
    """Layers of different sizes, instead of dim and width: [[9, 512, 3], [2, 2048, 1]] are nine layers of hidden size
    512 and kernel width 3, then two of 2,048 and 1, in encoder and decoder; layers and decoder_layers must be their
    sum."""
    max_length: int = 512
    """Maximum length of a source or target sequence, in tokens, special tokens included; positions have learned
    vectors."""

    learns_places: ClassVar[bool] = True
    """Whether it has a vector for each place of a sentence, up to the longest one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width(self.width)
        above_zero(self, "embedding", "readout")
        for stage in self.stages:
            if len(stage) != 3 or min(stage) < 1:
                raise ValueError(f"a stage is [layers, dim, width], and one is {stage}; write stages='[[4, 256, 3]]'")
            check_width(stage[2])
        deep = sum(stage[0] for stage in self.stages)
        if self.stages and not deep == self.layers == self.decoder_depth:
            raise ValueError(
                f"stages have {deep} layers, layers is {self.layers}, decoder_layers {self.decoder_depth}; "
                "make them one number"
            )
        self.encoder_config.check_dim(self.word_dim, named="dim or embedding")

    def told(self, cls: type[EncoderConfig]) -> dict[str, Any]:
        """Its own encoder is as wide inside as its decoder, and as the words outside."""
        return super().told(cls) | ({"hidden": self.dim} if self.encoder_name == self.own_encoder else {})

    def build_encoder(self) -> Encoder:
        """As wide as the words."""
        return self.encoder_config.build(self.word_dim, dropout=self.dropout)

    @property
    def word_dim(self) -> int:
        return self.embedding or self.dim

    @classmethod
    def sized(cls, pairs: int) -> Sizes:
        """What its authors gave a small corpus: four layers that read, three that speak."""
        size = corpus_size(pairs)
        model: dict[str, Any] = {"dim": (192, 256, 384, 512)[size], "layers": (3, 4, 6, 12)[size]}
        model |= {"decoder_layers": (3, 3, 5, 12)[size], "dropout": (0.3, 0.3, 0.2, 0.1)[size]}
        return model, {**training_of(size), "batch_tokens": (2048, 4096, 6144, 12_500)[size]}

    def kernels(self, layers: int) -> list[tuple[int, int]]:
        """Of each layer its width and the places that it sees."""
        return kernels_of(self.stages) or [(self.dim, self.width)] * layers

    def shape(self) -> str:
        if not self.stages:
            return f"{super().shape()}, {self.width} places a layer, read by {self.encoder_name}"
        widths = ", ".join(f"{number} × {dim}" for number, dim, _ in self.stages)
        return f"{self.layers}+{self.decoder_depth} layers ({widths}), words {self.word_dim} wide"


def training_of(size: int) -> dict[str, Any]:
    """Rate and schedule for one of the four sizes of a corpus."""
    training: dict[str, Any] = {"clip_norm": 1.0, "schedule": "cosine", "metric": "bleu" if size < 3 else "loss"}
    rates, warm = (1e-3, 1e-3, 1e-3, 5e-4), (300, 500, 1000, 2000)
    return {**training, "learning_rate": rates[size], "warmup_steps": warm[size]}


def kernels_of(stages: list[list[int]]) -> list[tuple[int, int]]:
    """Of each layer of these stages its width and the places that it sees."""
    return [(dim, width) for number, dim, width in stages for _ in range(number)]


def check_width(width: int) -> None:
    """A ValueError where a convolution would have no middle."""
    if width < 1 or width % 2 == 0:
        raise ValueError(f"width is {width}: the encoder's windows have their place in the middle; take 3 or 5, say")
