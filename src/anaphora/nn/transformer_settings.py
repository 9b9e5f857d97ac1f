"""Settings of a stack of Transformer blocks (nn/transformer.py). Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anaphora.config import above_zero
from anaphora.nn.choices import Activation, Norm, Normalizer, Positions, ScoreName, check_positions, check_share
from anaphora.nn.encoder_settings import EncoderConfig, EncoderEntry
from anaphora.nn.expert_settings import chosen_experts
from anaphora.nn.scores import score_named

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

TRANSFORMER = EncoderEntry(
    kind="transformer",
    settings="anaphora.nn.transformer_settings:TransformerStackConfig",
)
Backend = Literal["auto", "reference", "sdpa", "flex"]


@dataclass(kw_only=True)
class TransformerStackConfig(EncoderConfig):
    """Blocks of self-attention and a feed-forward network (Vaswani et al. 2017): every word looks at all others, or, of
    what reads one way, at those before it."""

    layers: int = 4
    """Number of Transformer blocks."""
    heads: int = 4
    """Number of attention heads; each has dim / heads dimensions."""
    key_value_heads: int | None = None
    """Number of key and value heads, each shared by a group of heads (1: multi-query attention); by default as many as
    heads."""
    score: ScoreName = "scaled-dot"
    """How well a key answers a query, in every attention."""
    normalizer: Normalizer = "softmax"
    """What makes weights of scores: softmax, or none (linear attention: the scores weigh)."""
    feed_forward: int | None = None
    """Hidden size of the feed-forward network, or of each expert; by default four times dim."""
    experts: int | None = None
    """Number of experts in place of each feed-forward network (mixture of experts); by default none."""
    experts_per_token: int | None = None
    """With experts: number of experts per token; by default 2."""
    experts_every: int | None = None
    """With experts: every how many layers have them; by default 1, all of them."""
    expert_balance: float | None = None
    """With experts: weight of the load-balancing loss; by default 0.1."""
    norm: Norm = "pre"
    """Layer normalization before each sublayer (pre) or after the residual sum (post, as first published)."""
    epsilon: float = 1e-5
    """Epsilon of layer normalization, added to the variance."""
    activation: Activation = "gelu"
    """Activation function of the feed-forward network; gelu-tanh is GPT-2's approximation of GELU."""
    positions: Positions = "rotary"
    """How a word knows where it stands: by its input vector (sinusoidal, sinusoidal-concatenated, learned), by every
    attention (rotary, alibi, relative), or not at all (none)."""
    window: int | None = None
    """Attention sees only positions less than this far away; by default all."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward network."""
    inverse_layer_scale: bool = False
    """Divide the attention scores of layer i by i (published Backpacks)."""
    attention: Backend = "auto"
    """Attention backend: the reference, PyTorch's fused kernels (sdpa) or FlexAttention (flex); auto: the fastest."""

    encoder_kind: ClassVar[str] = "transformer"
    placed: ClassVar[bool] = True
    in_front: ClassVar[Mapping[str, Any]] = {"positions": "sinusoidal", "activation": "relu"}

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "heads", "key_value_heads", "feed_forward", "window")
        if self.heads % self.shared_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of key_value_heads ({self.shared_heads})")
        if not self.epsilon > 0:
            raise ValueError(f"epsilon is {self.epsilon}; it must be above 0")
        check_positions(self.positions, self.score, self.normalizer)
        if self.attention == "flex" and self.attention_dropout:
            raise ValueError("attention=flex has no dropout on weights; leave attention at auto")
        if self.attention in ("sdpa", "flex") and (self.score, self.normalizer) != ("scaled-dot", "softmax"):
            from anaphora.nn.attention_backends import Choices, cannot

            if why := cannot(self.attention, Choices(score=score_named(self.score), normalizer=self.normalizer)):
                raise ValueError(f"attention={self.attention} cannot do this: {why}; leave it at auto")
        for name in ("attention_dropout", "activation_dropout"):
            check_share(name, getattr(self, name))
        chosen_experts(self, layers=self.layers)

    @property
    def shared_heads(self) -> int:
        """Key and value heads."""
        return self.key_value_heads or self.heads

    @property
    def source_positions(self) -> Positions:
        return self.positions

    def check_dim(self, dim: int, *, causal: bool = False, named: str = "dim") -> None:
        if dim % self.heads:
            raise ValueError(f"{named} ({dim}) must be a multiple of heads ({self.heads}); choose another of the two")
        if self.positions == "rotary" and dim // self.heads % 2:
            raise ValueError(f"rotary positions need an even dim / heads; {dim} / {self.heads} is odd")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.nn.mixture_of_experts import Experts
        from anaphora.nn.transformer import TransformerEncoder

        routed = chosen_experts(self)
        return TransformerEncoder(
            dim,
            layers=self.layers,
            heads=self.heads,
            feed_forward=self.feed_forward,
            norm=self.norm,
            activation=self.activation,
            positions=self.positions,
            causal=causal,
            window=self.window,
            key_value_heads=self.key_value_heads,
            score=self.score,
            normalizer=self.normalizer,
            dropout=dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            epsilon=self.epsilon,
            backend=self.attention,
            experts=None if routed is None else Experts(**routed),
            inverse_layer_scale=self.inverse_layer_scale,
        )
