"""Settings of a stack of Transformer blocks (nn/transformer.py). Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anaphora.config import above_zero
from anaphora.nn.choices import Activation, Norm, Normaliser, Positions, ScoreName, check_positions, check_share
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
    """Blocks: attention, then a feed-forward network."""
    heads: int = 4
    """Attention heads; each has dim / heads dimensions."""
    key_value_heads: int | None = None
    """Key and value heads, each shared by a group of heads (1: multi-query); as many as heads by default."""
    score: ScoreName = "scaled-dot"
    """How well a key answers a query, in every attention."""
    normaliser: Normaliser = "softmax"
    """What makes weights of scores: softmax, or none (linear attention: the scores weigh)."""
    feed_forward: int | None = None
    """Hidden width of the feed-forward network, of experts of each; four times dim by default."""
    experts: int | None = None
    """Experts in place of a feed-forward network, each token being routed to a few of them; none by default."""
    experts_per_token: int | None = None
    """With experts: how many each token is routed to; 2 by default."""
    experts_every: int | None = None
    """With experts: which layers have them: all (1, by default), each second one (2), …"""
    expert_balance: float | None = None
    """With experts: weight of the loss that keeps them all in use; 0.1 by default."""
    norm: Norm = "pre"
    """Normalise before each sub-layer (pre) or after the residual sum (post, as first published)."""
    epsilon: float = 1e-5
    """Added to the variance by which layers are normalised."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward network; gelu-tanh is GELU by the formula that GPT-2 was trained with."""
    positions: Positions = "rotary"
    """How a word knows where it stands: by its input vector (sinusoidal, sinusoidal-concatenated, learned), by every
    attention (rotary, alibi, relative), or not at all (none)."""
    window: int | None = None
    """Attention sees only places fewer than this away; all of them by default."""
    attention_dropout: float = 0.0
    """On attention weights."""
    activation_dropout: float = 0.0
    """Inside the feed-forward network."""
    inverse_layer_scale: bool = False
    """Attention scores of the second layer are halved, of the third divided by three, … (published Backpacks)."""
    attention: Backend = "auto"
    """How attention is computed: the reference, PyTorch's fused kernels, FlexAttention; auto takes the fastest."""

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
        check_positions(self.positions, self.score, self.normaliser)
        if self.attention == "flex" and self.attention_dropout:
            raise ValueError("attention=flex has no dropout on weights; leave attention at auto")
        if self.attention in ("sdpa", "flex") and (self.score, self.normaliser) != ("scaled-dot", "softmax"):
            from anaphora.nn.attention_backends import Choices, cannot

            if why := cannot(self.attention, Choices(score=score_named(self.score), normaliser=self.normaliser)):
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
            normaliser=self.normaliser,
            dropout=dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            epsilon=self.epsilon,
            backend=self.attention,
            experts=None if routed is None else Experts(**routed),
            inverse_layer_scale=self.inverse_layer_scale,
        )
