"""The blocks of the Transformer, each a row of sub-layers wrapped in residual + normalization, and a stack of them.

    encoder block:  x → self-attention → feed-forward
    cross block:    x → cross-attention → feed-forward
    decoder block:  x → masked self-attention → cross-attention → feed-forward

An encoder block with `causal=True` is the block of a decoder without a source, as language models use it.

*Post-norm* is the published order, x ← norm(x + sublayer(x)); *pre-norm*, x ← x + sublayer(norm(x)), leaves a clean
path from the last layer to the first, so it trains without a careful warm-up, and needs one more norm at the top of the
stack.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.nn.attention import Backend, MultiHeadAttention
from anaphora.nn.attention_backends import CHUNK_POSITIONS, Normalizer
from anaphora.nn.choices import Activation, Norm, check_positions
from anaphora.nn.encoder_contract import Encoder, Past, after, beginning
from anaphora.nn.masks import Causal, Documents, Mask, Padding, Window, padding_mask
from anaphora.nn.mixture_of_experts import Experts, MixtureOfExperts, mixtures
from anaphora.nn.positions import NO_POSITIONS, Positions, Relation, RelativePositions
from anaphora.nn.scores import AnyScore

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # a formula that is nearly it: the published one of GPT-2
}


class FeedForward(nn.Module):
    """W₂ · activation(W₁ x + b₁) + b₂: the same two-layer network at every position, (B, T, dim) -> (B, T, dim).

    Attention alone only averages values; this is the non-linearity after it.
    """

    def __init__(self, dim: int, hidden: int, *, activation: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(dim, hidden)
        self.outer = nn.Linear(hidden, dim)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(x))))


def feed_forward_of(
    layer: int,
    dim: int,
    hidden: int,
    experts: Experts | None = None,
    *,
    activation: Activation = "relu",
    dropout: float = 0.0,
) -> FeedForward | MixtureOfExperts:
    """The network of a layer, counted from 0: its own, or experts to choose from."""
    if experts is None or not experts.in_layer(layer):
        return FeedForward(dim, hidden, activation=activation, dropout=dropout)
    return MixtureOfExperts(
        dim,
        hidden,
        experts=experts.number,
        per_token=experts.per_token,
        balance=experts.balance,
        activation=ACTIVATIONS[activation],
        dropout=dropout,
    )


class Residual(nn.Module):
    """Pre-norm: x + dropout(sublayer(norm(x))); post-norm: norm(x + dropout(sublayer(x))); (B, T, dim) all along."""

    def __init__(self, dim: int, norm: Norm, dropout: float, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=epsilon)
        self.first = norm == "pre"
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class AttentionBlock(nn.Module):
    """One attention and one feed-forward network, each within its residual: what the next two are made of."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward | MixtureOfExperts,
        *,
        dim: int,
        norm: Norm,
        dropout: float,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(dim, norm, dropout, epsilon)
        self.around_feed_forward = Residual(dim, norm, dropout, epsilon)


class EncoderBlock(AttentionBlock):
    """Every position looks at every one that the mask leaves, then thinks for itself.

    pre-norm:   x ← x + attention(norm(x));        x ← x + feed_forward(norm(x))
    post-norm:  x ← norm(x + attention(x));        x ← norm(x + feed_forward(x))
    """

    def forward(
        self, x: Tensor, mask: Tensor | Mask | None = None, *, causal: bool = False, relation: Relation = NO_POSITIONS
    ) -> Tensor:
        """x (B, S, dim), mask (B, 1, 1, S) True at real tokens, where positions are relative what is said of them ->
        (B, S, dim)."""
        x = self.around_attention(x, lambda x: self.attention(x, mask=mask, causal=causal, relation=relation))
        return self.around_feed_forward(x, self.feed_forward)

    def step(
        self, x: Tensor, cache: tuple[Tensor, Tensor], *, slot: Tensor, seen: Tensor, relation: Relation = NO_POSITIONS
    ) -> Tensor:
        """The next tokens of each row, x (R, T, dim), over all before them, whose keys and values are in the cache
        (slot and seen: see MultiHeadAttention.step) -> (R, T, dim)."""
        x = self.around_attention(x, lambda x: self.attention.step(x, *cache, slot, seen, relation))
        return self.around_feed_forward(x, self.feed_forward)


class CrossAttentionBlock(AttentionBlock):
    """Every position looks at a memory, then thinks for itself.

    pre-norm:   x ← x + attention(norm(x), memory);        x ← x + feed_forward(norm(x))
    post-norm:  x ← norm(x + attention(x, memory));        x ← norm(x + feed_forward(x))
    """

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | Mask | None = None) -> Tensor:
        """x (B, T, dim) over memory (B, S, memory_dim), mask (B, 1, 1, S) True at its real tokens -> (B, T, dim)."""
        x = self.around_attention(x, lambda x: self.attention(x, memory, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


class DecoderBlock(nn.Module):
    """Every position looks at itself and before, then at the source, then thinks for itself.

    Pre-norm: x ← x + attention(norm(x)); x ← x + cross_attention(norm(x), memory); x ← x + feed_forward(norm(x)).
    Post-norm, the norm stands around each sum, as in the encoder block.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward | MixtureOfExperts,
        *,
        dim: int,
        norm: Norm,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(dim, norm, dropout)
        self.around_cross_attention = Residual(dim, norm, dropout)
        self.around_feed_forward = Residual(dim, norm, dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | Mask | None = None,
        *,
        own_mask: Tensor | Mask | None = None,
        relation: Relation = NO_POSITIONS,
    ) -> Tensor:
        """x (B, T, dim) over memory (B, S, dim), mask (B, 1, 1, S) -> (B, T, dim); `own_mask` narrows what a position
        may see of x itself, `relation` says what it is told of positions there.

        Padding stands at the end of a row, so the causal mask already hides it from every real position.
        """
        key, value = self.cross_attention.remember(memory)
        x = self.around_attention(x, lambda x: self.attention(x, mask=own_mask, causal=True, relation=relation))
        x = self.around_cross_attention(x, lambda x: self.cross_attention.look(x, key, value, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)

    def step(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor],
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        *,
        slot: Tensor,
        seen: Tensor,
        relation: Relation = NO_POSITIONS,
        weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """One token a row: x (B, K, dim), K rows a sentence, memory (B, H, S, D) twice -> (B, K, dim), and where asked
        what each row looked at, (B, H, K, S).

        The rows of one sentence are the queries of one attention over its memory, and of one over all that any of them
        has said (cache, slot and seen: see MultiHeadAttention.step). Nothing is copied.
        """
        looked: list[Tensor] = []

        def cross(x: Tensor) -> Tensor:
            if weights:
                looked.append(self.cross_attention.weights(x, memory[0], mask=mask))
            return self.cross_attention.look(x, *memory, mask=mask)

        x = self.around_attention(x, lambda x: self.attention.step(x, *cache, slot, seen, relation))
        x = self.around_cross_attention(x, cross)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, looked[0] if looked else None


class TransformerEncoder(Encoder):
    """A stack of encoder blocks: (B, T, dim), lengths (B,) -> (B, T, dim).

    `causal`, `window`, `key_value_heads`, `score`, `normalizer` and `positions` are those of its attentions (see
    nn/attention.py and nn/positions.py); positions that belong to the input are the embedding's business.
    `experts` stand in the place of feed-forward networks, in some layers or in all (nn/mixture_of_experts.py).
    `inverse_layer_scale` divides the scores of layer i, counted from 1, by i (Mistral's GPT-2, published Backpacks).
    """

    def __init__(
        self,
        dim: int,
        *,
        layers: int = 1,
        heads: int = 4,
        feed_forward: int | None = None,
        norm: Norm = "pre",
        activation: Activation = "relu",
        positions: Positions = "none",
        causal: bool = False,
        window: int | None = None,
        key_value_heads: int | None = None,
        score: AnyScore = "scaled-dot",
        normalizer: Normalizer = "softmax",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        epsilon: float = 1e-5,
        backend: Backend = "auto",
        experts: Experts | None = None,
        inverse_layer_scale: bool = False,
    ) -> None:
        super().__init__()
        check_positions(positions, score, normalizer)
        self.dim, self.causal = dim, causal
        self.window = None if window is None else Window(window)
        self.rules = backend == "flex"  # the only one that prefers masks and biases as rules
        self.blocks = nn.ModuleList(
            EncoderBlock(
                MultiHeadAttention(
                    dim,
                    heads,
                    key_value_heads=key_value_heads,
                    score=score,
                    normalizer=normalizer,
                    dropout=attention_dropout,
                    backend=backend,
                    factor=1.0 / (layer + 1) if inverse_layer_scale else 1.0,
                ),
                feed_forward_of(
                    layer, dim, feed_forward or 4 * dim, experts, activation=activation, dropout=activation_dropout
                ),
                dim=dim,
                norm=norm,
                dropout=dropout,
                epsilon=epsilon,
            )
            for layer in range(layers)
        )
        self.norm = nn.LayerNorm(dim, eps=epsilon) if norm == "pre" else nn.Identity()
        self.positions = RelativePositions(positions, heads, dim // heads, bidirectional=not causal)
        self.key_value_heads, self.head_dim = key_value_heads or heads, dim // heads
        self.attends = normalizer == "softmax"  # scores of any sign are no shares of what was looked at

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        if self.causal or lengths is None:  # padding stands at the end: what is causal never comes to see it
            return self._through(x, self.window, every)
        padding = Padding(lengths)
        return self._through(x, padding if self.window is None else padding & self.window, every)

    def packed(self, x: Tensor, documents: Tensor) -> Tensor:
        rule = Documents(documents)
        return self._through(x, rule if self.window is None else rule & self.window)

    def _through(self, x: Tensor, rule: Mask | None, every: list[Tensor] | None = None) -> Tensor:
        """All blocks, each place seeing what the rule, and the order of places where it is causal, let it see."""
        length, causal = x.shape[1], self.causal
        mask: Tensor | Mask | None = rule
        if self.rules:
            if causal:
                mask, causal = (Causal() if rule is None else rule & Causal()), False
            relation = self.positions.rule(length, x.device)
        else:  # written out once, for all layers
            if isinstance(rule, Padding):
                mask = padding_mask(rule.lengths, length)
            elif rule is not None:
                mask = rule.materialize(length, length, x.device)
            relation = self.positions.whole(length, x.device)
        for block in self.blocks:
            x = block(x, mask, causal=causal, relation=relation)
            if every is not None:
                every.append(x)
        x = self.norm(x)
        if every is not None:
            every[-1] = x
        return x

    # -- stop and go on ------------------------------------------------------------------------------------------------

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        past = {"position": beginning(rows, like)}
        for name in sorted(self.growing()):
            past[name] = like.new_zeros(rows, self.key_value_heads, max_length, self.head_dim)
        return past

    def growing(self) -> frozenset[str]:
        return frozenset(f"{what}{layer}" for layer in range(len(self.blocks)) for what in ("key", "value"))

    @torch.no_grad()
    def read(
        self, x: Tensor, past: Past, lengths: Tensor | None = None, bound: int | None = None
    ) -> tuple[Tensor, Past]:
        """Keys and values of x (R, T, dim) are written behind each row's own, and all of them looked at.

        Padding writes too, behind the row's end, where the next token will write over it; so lowering `position` takes
        tokens back.
        """
        position, places = past["position"], past["key0"].shape[2]
        rows, length = x.shape[:2]
        if length > places or (bound is not None and bound + length > places):
            raise ValueError(f"{length} more places do not fit behind {bound or 0}: there is room for {places}")
        used = places if bound is None else bound + length
        where = position[:, None] + torch.arange(length, device=x.device)  # (R, T): the places of the new tokens
        head = torch.arange(rows * self.key_value_heads, device=x.device).view(rows, -1, 1)  # (R, G, 1), all key heads
        slot = (head * places + where[:, None]).flatten()  # (R * G * T,)
        at = torch.arange(used, device=x.device)
        seen = at <= where[:, :, None]  # (R, T, used)
        if self.window is not None:
            seen &= at > where[:, :, None] - self.window.size
        relation = NO_POSITIONS if self.positions.silent else self.positions(where, at)
        for layer, block in enumerate(self.blocks):
            cache = past[f"key{layer}"], past[f"value{layer}"]
            x = block.step(x, cache, slot=slot, seen=seen[:, None], relation=relation)  # type: ignore[operator]
        return self.norm(x), past | {"position": after(position, x, lengths)}

    @torch.no_grad()
    def step(self, x: Tensor, past: Past, bound: int | None = None) -> Tensor:
        y, _ = self.read(x[:, None], past, bound=bound)
        past["position"] += 1
        return y[:, 0]

    # -- costs ---------------------------------------------------------------------------------------------------------

    def flops(self, length: float) -> float:
        attentions = [block.attention for block in self.blocks]
        seen = (length + 1) / 2 if self.causal else length
        if self.window is not None:
            seen = min(seen, self.window.size if self.causal else 2 * self.window.size - 1)
        elif attentions and attentions[0].sums_first(length, length):  # type: ignore[union-attr, operator]
            seen = self.head_dim + CHUNK_POSITIONS / 2 if self.causal else self.head_dim
        preparing = sum(attention.prepare_flops() for attention in attentions)  # type: ignore[union-attr, operator]
        chosen = mixtures(self.blocks)  # a token meets a few of their matrices
        known = {id(w) for part in chosen for w in part.parameters()}
        weights = sum(
            w.numel()
            for name, w in self.blocks.named_parameters()
            if w.dim() == 2 and "score" not in name and id(w) not in known
        )
        experts = sum(part.flops() for part in chosen)
        return 2.0 * weights + experts + preparing + 4.0 * len(self.blocks) * self.dim * seen

    def cache_bytes_per_token(self, element: int) -> int:
        """Keys and values of every layer, each number `element` bytes."""
        return 2 * len(self.blocks) * self.key_value_heads * self.head_dim * element
