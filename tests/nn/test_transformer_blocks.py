"""The blocks: where the norms stand, checked against the formulas written out here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from anaphora.nn.attention import MultiHeadAttention, padding_mask
from anaphora.nn.transformer import (
    CrossAttentionBlock,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    Residual,
    TransformerEncoder,
)

DIM = 8
NORMS = ["pre", "post"]


def shaken(module: torch.nn.Module) -> Any:
    """Random gains and biases too: at their start, ones and zeros, a misplaced norm could hide."""
    torch.manual_seed(1)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.double().eval()


def encoder_block(norm: str) -> EncoderBlock:
    parts = MultiHeadAttention(DIM, 2), FeedForward(DIM, 12)
    return shaken(EncoderBlock(*parts, dim=DIM, norm=norm, dropout=0.1))  # type: ignore[arg-type]


def decoder_block(norm: str) -> DecoderBlock:
    parts = MultiHeadAttention(DIM, 2), MultiHeadAttention(DIM, 2, memory_dim=DIM), FeedForward(DIM, 12)
    return shaken(DecoderBlock(*parts, dim=DIM, norm=norm, dropout=0.1))  # type: ignore[arg-type]


def vectors(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_encoder_block_in_both_orders() -> None:
    x, mask = vectors(2, 5, DIM), padding_mask(torch.tensor([3, 5]), 5)
    block = encoder_block("pre")
    middle = x + block.attention(block.around_attention.norm(x), mask=mask)
    expected = middle + block.feed_forward(block.around_feed_forward.norm(middle))
    torch.testing.assert_close(block(x, mask), expected)

    block = encoder_block("post")
    middle = block.around_attention.norm(x + block.attention(x, mask=mask))
    expected = block.around_feed_forward.norm(middle + block.feed_forward(middle))
    torch.testing.assert_close(block(x, mask), expected)


def test_decoder_block_in_both_orders() -> None:
    x, memory, mask = vectors(2, 4, DIM), vectors(2, 5, DIM), padding_mask(torch.tensor([3, 5]), 5)

    block = decoder_block("pre")
    key, value = block.cross_attention.remember(memory)
    first = x + block.attention(block.around_attention.norm(x), causal=True)
    second = first + block.cross_attention.look(block.around_cross_attention.norm(first), key, value, mask=mask)
    expected = second + block.feed_forward(block.around_feed_forward.norm(second))
    torch.testing.assert_close(block(x, memory, mask), expected)

    block = decoder_block("post")
    key, value = block.cross_attention.remember(memory)
    first = block.around_attention.norm(x + block.attention(x, causal=True))
    second = block.around_cross_attention.norm(first + block.cross_attention.look(first, key, value, mask=mask))
    expected = block.around_feed_forward.norm(second + block.feed_forward(second))
    torch.testing.assert_close(block(x, memory, mask), expected)


def test_cross_attention_block_in_both_orders() -> None:
    x, memory, mask = vectors(2, 4, DIM), vectors(2, 5, 6), padding_mask(torch.tensor([3, 5]), 5)
    for norm in NORMS:
        parts = MultiHeadAttention(DIM, 2, memory_dim=6), FeedForward(DIM, 12)
        block = shaken(CrossAttentionBlock(*parts, dim=DIM, norm=norm, dropout=0.1))  # type: ignore[arg-type]
        one, two = block.around_attention.norm, block.around_feed_forward.norm
        if norm == "pre":
            middle = x + block.attention(one(x), memory, mask=mask)
            expected = middle + block.feed_forward(two(middle))
        else:
            middle = one(x + block.attention(x, memory, mask=mask))
            expected = two(middle + block.feed_forward(middle))
        torch.testing.assert_close(block(x, memory, mask), expected)


def test_a_causal_encoder_block_is_the_masked_block_of_a_decoder() -> None:
    block, x = encoder_block("pre"), vectors(1, 5, DIM)
    whole = block(x, causal=True)
    for length in range(1, 5):  # growing the set of keys step by step is masking the others
        torch.testing.assert_close(block(x[:, :length], causal=True), whole[:, :length])
        torch.testing.assert_close(block(x[:, :length])[:, -1], whole[:, length - 1])


def test_self_and_cross_attention_are_not_mistaken_for_one_another() -> None:
    x, memory = vectors(2, 4, DIM), vectors(2, 5, 6)
    own, cross = shaken(MultiHeadAttention(DIM, 2)), shaken(MultiHeadAttention(DIM, 2, memory_dim=6))
    torch.testing.assert_close(cross(x, memory), cross.look(x, *cross.remember(memory), mask=None))
    for wrong, message in (
        (lambda: own(x, memory), "for a memory, make it with memory_dim"),
        (lambda: cross(x), "needs a memory"),
        (lambda: cross(x, memory, causal=True), "a memory is another text"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize("norm", NORMS)
def test_decoder_step_is_the_parallel_pass(norm: str) -> None:
    """Three rows for each of two sentences, which share the sentence's memory."""
    block, beam, length = decoder_block(norm), 3, 4
    memory, mask = vectors(2, 5, DIM), padding_mask(torch.tensor([3, 5]), 5)
    x = vectors(2 * beam, length, DIM)
    whole = block(x, memory.repeat_interleave(beam, 0), mask.repeat_interleave(beam, 0))
    remembered = block.cross_attention.remember(memory)
    cache = (torch.zeros(2, 2, length * beam, DIM // 2).double(), torch.zeros(2, 2, length * beam, DIM // 2).double())
    for t in range(length):
        now = x[:, t].view(2, beam, DIM)
        slot = torch.tensor([(head * length + t) * beam + k for head in range(2 * 2) for k in range(beam)])
        seen = torch.eye(beam, dtype=torch.bool).repeat(1, t + 1).expand(2, 1, -1, -1)  # each row its own past
        out, weights = block.step(now, cache, remembered, mask, slot=slot, seen=seen, weights=True)
        torch.testing.assert_close(out.flatten(0, 1), whole[:, t])
        assert weights is not None
        assert weights.shape == (2, 2, beam, 5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, beam).double())
        assert (weights[0, :, :, 3:] == 0).all()  # the first sentence has three real tokens
        again, none = block.step(now, cache, remembered, mask, slot=slot, seen=seen)
        assert none is None
        assert torch.equal(again, out)  # asking for the weights changes nothing


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_falls_on_the_sublayer_and_never_on_the_residual_path(norm: str) -> None:
    residual = Residual(DIM, norm, dropout=0.999).double()  # type: ignore[arg-type]
    residual.train()
    x = vectors(1, 1, DIM)
    torch.manual_seed(0)
    out = residual(x, lambda y: torch.ones_like(y))
    torch.testing.assert_close(out, x if norm == "pre" else residual.norm(x))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward_is_two_layers_at_every_position(activation: str) -> None:
    network = shaken(FeedForward(DIM, 12, activation=activation))  # type: ignore[arg-type]
    x = vectors(1, 3, DIM)
    hidden = x @ network.inner.weight.mT + network.inner.bias
    hidden = hidden.clamp(min=0) if activation == "relu" else hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    torch.testing.assert_close(network(x), hidden @ network.outer.weight.mT + network.outer.bias)


@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "relative"])
def test_blocks_can_be_compiled_whole_whatever_the_positions(positions: str) -> None:
    """No graph break, over lengths that change: training compiles blocks one by one."""
    torch._dynamo.reset()
    encoder = shaken(TransformerEncoder(DIM, layers=2, heads=2, positions=positions, window=3, key_value_heads=1))  # type: ignore[arg-type]
    inputs = [(vectors(2, length, DIM), torch.tensor([length, 2])) for length in (5, 7, 9)]
    plain = [encoder(*each) for each in inputs]
    for block in encoder.blocks:
        block.compile(backend="eager", fullgraph=True)
    for each, expected in zip(inputs, plain):
        torch.testing.assert_close(encoder(*each), expected)
