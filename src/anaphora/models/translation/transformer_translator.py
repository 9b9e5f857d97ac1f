"""The Transformer translator (Vaswani et al. 2017): an encoder reads, a decoder writes, attention joins them.

Departures from the paper, all of them settings: pre-norm instead of post-norm where the recipe says so, other positions
(nn/positions.py), a sliding window and shared key heads in self-attention, GELU, dropout on attention weights and
inside the feed-forward network, experts in its place (nn/mixture_of_experts.py); and another encoder in front of
its decoder. `recipes/base.yaml` and `recipes/big.yaml` are the published ones. The blocks and the encoder are in
nn/transformer.py, what all translators have in common in encoder_decoder.py; this file is the rest of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from anaphora.models.contracts import DecoderState
from anaphora.models.keywords import TranslatorKeywords, by_keywords
from anaphora.models.registry import System
from anaphora.models.translation.encoder_decoder import Decoder, EncoderDecoder
from anaphora.models.translation.translator_settings import TransformerConfig
from anaphora.nn.attention import MultiHeadAttention, padding_mask
from anaphora.nn.attention_backends import CHUNK_POSITIONS
from anaphora.nn.embedding import Embedding
from anaphora.nn.masks import Window
from anaphora.nn.mixture_of_experts import mixtures
from anaphora.nn.positions import NO_POSITIONS, RelativePositions
from anaphora.nn.transformer import DecoderBlock, feed_forward_of

TRANSFORMER = System(
    kind="transformer",
    rung=1,
    task="translation",
    settings="anaphora.models.translation.translator_settings:TransformerConfig",
    model="anaphora.models.translation.transformer_translator:Transformer",
)


class TransformerDecoder(Decoder):
    """A stack of decoder blocks: (B, T, dim) over memory (B, S, dim) -> (B, T, dim), all at once or one token a
    step."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        c = self.config = config
        self.out_dim = c.dim
        self.attends = c.attends
        self.key_value_heads, self.head_dim = c.shared_heads, c.dim // c.heads
        self.window = c.window
        attention = partial(
            MultiHeadAttention,
            c.dim,
            c.heads,
            score=c.score,
            normalizer=c.normalizer,
            dropout=c.attention_dropout,
            backend=c.attention,
        )
        self.blocks = nn.ModuleList(
            DecoderBlock(
                attention(key_value_heads=c.key_value_heads),
                attention(memory_dim=c.dim),
                feed_forward_of(
                    layer, c.dim, c.feed_forward, c.routed, activation=c.activation, dropout=c.activation_dropout
                ),
                dim=c.dim,
                norm=c.norm,
                dropout=c.dropout,
            )
            for layer in range(c.decoder_depth)
        )
        self.norm = nn.LayerNorm(c.dim) if c.norm == "pre" else nn.Identity()
        self.positions = RelativePositions(c.positions, c.heads, self.head_dim, bidirectional=False)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        mask = padding_mask(lengths, memory.shape[1])  # (B, 1, 1, S)
        length = x.shape[1]
        relation = self.positions.whole(length, x.device)
        near = None if self.window is None else Window(self.window).materialize(length, length, x.device)
        for block in self.blocks:
            x = block(x, memory, mask, own_mask=near, relation=relation)
        return self.norm(x)

    def start(self, memory: Tensor, lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        """Keys and values of the memory, once; empty caches for what `beam` rows a sentence will say.

        The rows of a sentence are branches of one tree, and the caches keep the tree: place `t * beam + k` holds what
        row k said at position t, for good. Each row has a list of ancestors, the k of every position on its path from
        the root. When rows are reordered the lists change hands and the caches, a hundred times as large, stay.
        """
        batch = memory.shape[0]
        kept: dict[str, Tensor] = {"lengths": lengths}
        for number, block in enumerate(self.blocks):
            key, value = block.cross_attention.remember(memory)  # type: ignore[operator, union-attr]
            # laid out as every step's products want them, once
            kept[f"key{number}"], kept[f"value{number}"] = key.contiguous(), value.contiguous()
            for name in (f"said_key{number}", f"said_value{number}"):
                kept[name] = key.new_zeros(batch, self.key_value_heads, max_length * beam, self.head_dim)
        past = {
            "position": torch.zeros(batch * beam, dtype=torch.long, device=memory.device),
            "ancestors": torch.full((batch * beam, max_length), -1, device=memory.device),  # -1: not there yet
        }
        growing = frozenset(name for name in kept if name.startswith("said"))
        return DecoderState(beam=beam, memory=kept, past=past, growing=growing)

    def step(self, x: Tensor, state: DecoderState, *, attention: bool) -> tuple[Tensor, Tensor | None]:
        """x (R, dim) -> (R, dim), and where asked the last block's cross-attention, mean over heads: (R, S)."""
        position, ancestors, beam = state.past["position"], state.past["ancestors"], state.beam
        rows, longest = ancestors.shape
        state.bound = min(state.bound + 1, longest)
        mask = padding_mask(state.memory["lengths"], state.memory["key0"].shape[2])  # (B, 1, 1, S)
        branch = torch.arange(beam, device=x.device)  # (K,)
        ancestors.view(-1, beam, longest).scatter_(
            2, position.view(-1, beam, 1), branch.view(1, -1, 1).expand(rows // beam, -1, 1)
        )
        heads = self.key_value_heads
        head = torch.arange(rows // beam * heads, device=x.device).view(-1, heads, 1)  # (B, G, 1), all key heads
        slot = ((head * longest + position.view(-1, 1, beam)) * beam + branch).flatten()  # (B * G * K,)
        seen = ancestors[:, : state.bound, None] == branch  # (R, bound, K)
        if self.window is not None:
            seen = seen & (torch.arange(state.bound, device=x.device) > position[:, None] - self.window)[:, :, None]
        seen = seen.view(-1, 1, beam, state.bound * beam)  # (B, 1, K, bound * K)
        relation = NO_POSITIONS
        if not self.positions.silent:  # place t * K + k of the cache is at position t
            places = torch.arange(state.bound, device=x.device).repeat_interleave(beam)  # (bound * K,)
            relation = self.positions(position.view(-1, beam), places)
        x, weights = x.view(-1, beam, x.shape[-1]), None  # (B, K, dim)
        for layer, block in enumerate(self.blocks):
            x, weights = block.step(  # type: ignore[operator]
                x,
                (state.memory[f"said_key{layer}"], state.memory[f"said_value{layer}"]),
                (state.memory[f"key{layer}"], state.memory[f"value{layer}"]),
                mask,
                slot=slot,
                seen=seen,
                relation=relation,
                weights=attention and layer == len(self.blocks) - 1,
            )
        position.add_(1)  # in place: a captured step finds it where it was
        return self.norm(x).flatten(0, 1), None if weights is None else weights.mean(dim=1).flatten(0, 1)

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        c, size = self.config, self.head_dim
        attention: MultiHeadAttention = self.blocks[0].cross_attention  # type: ignore[assignment]
        preparing = attention.prepare_flops()
        own = 4 * c.dim**2 + 4 * c.dim * size * c.shared_heads + preparing  # but for scores and sums
        behind = target_length / 2  # places seen
        if c.window is not None:
            behind = min(behind, c.window)
        elif attention.sums_first(target_length, target_length):
            behind = size + CHUNK_POSITIONS / 2
        over_source = 4 * c.dim**2 + preparing + 4 * c.dim * source_length  # queries and output, then scores and sums
        remember = 4.0 * c.dim**2  # keys and values of each source token
        if attention.sums_first(target_length, source_length):
            over_source = 4 * c.dim**2 + preparing + 2 * c.dim * size
            remember += 2 * c.dim * size
        each = own + over_source + 4 * c.dim * behind
        return len(self.blocks) * remember, len(self.blocks) * each + feed_forward_flops(self, len(self.blocks), c)

    def cache_bytes_per_token(self, element: int) -> int:
        return 2 * len(self.blocks) * self.key_value_heads * self.head_dim * element


@dataclass(kw_only=True)
class TransformerKeywords(TransformerConfig, TranslatorKeywords):
    """What `Transformer(…)` takes."""


class Transformer(EncoderDecoder):
    """Embedding → encoder → memory; embedding → decoder over memory → projection to the target vocabulary.

    model = Transformer(vocabulary=32_000, dim=512, heads=8, layers=6)
    logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 32_000)
    loss = model.loss((source, target))
    """

    config: TransformerConfig
    decoder: TransformerDecoder

    @by_keywords(TransformerKeywords)
    def __init__(self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        c = config
        embedding = partial(Embedding, dim=c.dim, max_length=c.max_length, dropout=c.dropout)
        super().__init__(
            config,
            embedding(source_vocabulary, positions=c.encoder_config.source_positions),
            embedding(target_vocabulary, positions=c.positions),
            c.build_encoder(),
            TransformerDecoder(c),
        )


def feed_forward_flops(stack: nn.Module, layers: int, config: TransformerConfig) -> float:
    """For each token, of all layers' feed-forward networks or experts."""
    routed = mixtures(stack)
    plain = 4.0 * config.dim * config.feed_forward * (layers - len(routed))
    return plain + sum(layer.flops() for layer in routed)
