"""Causal encoders stop and go on: all at once, in pieces of any size, word by word, the vectors are the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from anaphora.nn.convolution import Ring
from anaphora.nn.encoder_contract import DocumentRows, Encoder, document_places, locked_dropout
from anaphora.nn.encoders import AveragingEncoder, ConvolutionEncoder, RecurrentEncoder, WindowEncoder
from anaphora.nn.transformer import TransformerEncoder

DIM = 8
few = settings(max_examples=12)


def transformer(**choices: Any) -> TransformerEncoder:
    return TransformerEncoder(DIM, layers=2, heads=2, causal=True, **choices)


ENCODERS: dict[str, Any] = {
    "averaging": lambda: AveragingEncoder(DIM, causal=True),
    "deep averaging": lambda: AveragingEncoder(DIM, causal=True, layers=3, hidden=5),
    "window": lambda: WindowEncoder(DIM, size=3, causal=True),
    "window of one": lambda: WindowEncoder(DIM, size=1, causal=True),
    "window deep": lambda: WindowEncoder(DIM, size=5, causal=True, layers=3, hidden=6),
    "rnn": lambda: RecurrentEncoder(DIM),
    "rnn-relu": lambda: RecurrentEncoder(DIM, cell="rnn-relu", layers=2),
    "gru": lambda: RecurrentEncoder(DIM, cell="gru", layers=3, hidden=5),
    "lstm": lambda: RecurrentEncoder(DIM, cell="lstm", layers=3, hidden=11),
    "convolution": lambda: ConvolutionEncoder(DIM, layers=3, causal=True),
    "convolution gated": lambda: ConvolutionEncoder(DIM, layers=2, causal=True, gated=True, normalized=True),
    "convolution dilated": lambda: ConvolutionEncoder(DIM, width=2, layers=4, causal=True, dilated=True),
    "convolution of one": lambda: ConvolutionEncoder(DIM, width=1, layers=2, causal=True),
    **{
        f"transformer {kind}": (lambda kind=kind: transformer(positions=kind))
        for kind in ("none", "rotary", "relative")
    },
    "transformer alibi": lambda: transformer(positions="alibi", norm="post", window=4),
    "transformer grouped": lambda: TransformerEncoder(DIM, heads=4, key_value_heads=2, causal=True, score="bilinear"),
    "transformer additive": lambda: transformer(score="additive"),
    "transformer linear": lambda: transformer(normalizer="none", score="dot", positions="rotary"),
}


@pytest.fixture(scope="module", params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(3)
    made = ENCODERS[request.param]()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.double().eval().requires_grad_(False)


def vectors(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_steps_are_the_whole(encoder: Encoder) -> None:
    x = vectors(3, 14)[:, :, None].expand(-1, -1, DIM) + vectors(3, 14, DIM, seed=1)
    past = encoder.start(3, 14, x)
    kept = {name: tensor.data_ptr() for name, tensor in past.items()}
    found = torch.stack([encoder.step(column, past) for column in x.unbind(1)], dim=1)
    torch.testing.assert_close(found, encoder(x, torch.tensor([14] * 3)))
    torch.testing.assert_close(encoder(x), found)
    assert {name: tensor.data_ptr() for name, tensor in past.items()} == kept  # in place: a step can be captured
    assert past["position"].tolist() == [14] * 3


@few
@given(
    pieces=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=4),
    data=st.data(),
    seed=st.integers(0, 99),
)
def test_pieces_with_rows_of_different_lengths_are_the_whole(
    encoder: Encoder, pieces: list[tuple[int, bool]], data: st.DataObject, seed: int
) -> None:
    """Each piece gives each row as many vectors as it likes, also none; what stands behind them is rubbish."""
    texts: list[list[Tensor]] = [[], [], []]
    found: list[list[Tensor]] = [[], [], []]
    past = encoder.start(3, 30, vectors(1))
    for number, (length, full) in enumerate(pieces):
        x = vectors(3, length, DIM, seed=seed + 7 * number)
        lengths = [length] * 3 if full else data.draw(st.lists(st.integers(0, length), min_size=3, max_size=3))
        y, past = encoder.read(x, past, None if full else torch.tensor(lengths))
        for row, size in enumerate(lengths):
            texts[row].append(x[row, :size])
            found[row].append(y[row, :size])
    x = vectors(3, DIM, seed=5)
    last = encoder.step(x, past)
    for row in range(3):
        whole = torch.cat([*texts[row], x[row : row + 1]])
        assert past["position"][row] == len(whole)
        torch.testing.assert_close(torch.cat([*found[row], last[row : row + 1]]), encoder(whole[None])[0])


@few
@given(sizes=st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_packed_documents_are_rows_of_their_own(encoder: Encoder, sizes: list[list[int]], seed: int) -> None:
    if not any(sizes):
        return
    width = max(map(sum, sizes)) + 1
    x, documents = vectors(len(sizes), width, DIM, seed=seed), torch.full((len(sizes), width), -1)
    for row, lengths in enumerate(sizes):
        documents[row, : sum(lengths)] = torch.tensor([9 - n for n, size in enumerate(lengths) for _ in range(size)])
    found = encoder.packed(x, documents)
    for row, lengths in enumerate(sizes):
        begin = 0
        for size in lengths:
            here = slice(begin, begin + size)
            torch.testing.assert_close(found[row, here], encoder(x[row : row + 1, here])[0])
            begin += size


def test_what_is_remembered_has_one_size_but_for_caches(encoder: Encoder) -> None:
    like = vectors(1)
    short, long = (encoder.start(2, length, like) for length in (4, 40))
    differ = {name for name in short if short[name].shape != long[name].shape}
    assert differ == encoder.growing()
    assert all(long[name].shape[2] == 40 for name in differ)


def test_a_cache_that_is_full_says_so() -> None:
    encoder = transformer().eval()
    with pytest.raises(ValueError, match="5 more places do not fit behind 0: there is room for 4"):
        encoder.read(torch.zeros(1, 5, DIM), encoder.start(1, 4, torch.zeros(1)))
    with pytest.raises(ValueError, match="2 more places do not fit behind 3: there is room for 4"):
        encoder.read(torch.zeros(1, 2, DIM), encoder.start(1, 4, torch.zeros(1)), bound=3)


def test_tokens_are_taken_back_by_their_position() -> None:
    torch.manual_seed(0)
    encoder = transformer(positions="rotary").double().eval()
    x, other = vectors(2, 6, DIM), vectors(2, 1, DIM, seed=3)
    past = encoder.start(2, 9, x)
    _, past = encoder.read(x, past, bound=0)
    past["position"] -= torch.tensor([1, 4])
    y, _ = encoder.read(other, past, bound=6)
    for row, kept in enumerate((5, 2)):
        torch.testing.assert_close(y[row], encoder(torch.cat([x[row, :kept], other[row]])[None])[0, -1:])


def test_those_that_read_both_ways_do_not_step() -> None:
    class Bare(Encoder):
        pass

    for ask in (lambda e: e.start(1, 1, torch.zeros(1)), lambda e: e.step(torch.zeros(1, 1), {})):
        with pytest.raises(NotImplementedError, match="Bare does not read step by step"):
            ask(Bare())


# Rings ----------------------------------------------------------------------------------------------------------------


@few
@given(size=st.integers(0, 4), counts=st.lists(st.integers(0, 9), min_size=2, max_size=2))
def test_a_ring_holds_the_last_ones(size: int, counts: list[int]) -> None:
    ring, position = torch.zeros(2, size, 1), torch.zeros(2, dtype=torch.long)
    for step in range(1, 10):
        going = torch.tensor([count >= step for count in counts])
        new = ring.clone()
        Ring.write(new, position, torch.full((2, 1), float(step)))
        ring = torch.where(going[:, None, None], new, ring)
        position = position + going
    for row, count in enumerate(counts):
        expected = [max(0.0, float(n)) for n in range(count - size + 1, count + 1)]
        assert Ring.unrolled(ring, position)[row, :, 0].tolist() == expected
    assert torch.equal(Ring.rolled(Ring.unrolled(ring, position), position), ring)


# Documents ------------------------------------------------------------------------------------------------------------


def test_places_and_rows_of_documents_by_hand() -> None:
    documents = torch.tensor([[4, 4, 4, 7, 7], [-1, 2, 2, -1, -1], [7, 8, 8, 8, -1]])
    assert document_places(documents).tolist() == [[0, 1, 2, 0, 1], [0, 0, 1, 0, 1], [0, 0, 1, 2, 0]]
    rows = DocumentRows(documents)
    assert rows.lengths.tolist() == [3, 2, 2, 1, 3]
    x = torch.arange(1.0, 16).view(3, 5, 1)
    apart = rows.apart(x)
    assert apart[:, :, 0].tolist() == [[1, 2, 3], [4, 5, 0], [7, 8, 0], [11, 0, 0], [12, 13, 14]]
    assert rows.back(apart)[:, :, 0].tolist() == [[1, 2, 3, 4, 5], [0, 7, 8, 0, 0], [11, 12, 13, 14, 0]]


# Dropout --------------------------------------------------------------------------------------------------------------


def test_locked_dropout_drops_the_same_at_every_place() -> None:
    torch.manual_seed(0)
    x = torch.ones(3, 50, 40)
    dropped = locked_dropout(x, 0.4, training=True)
    assert (dropped == dropped[:, :1]).all()
    assert not (dropped[0] == dropped[1]).all()
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert 0.3 < (dropped[:, 0] == 0).float().mean() < 0.5
    plain = locked_dropout(x, 0.4, training=True, locked=False)
    assert not (plain == plain[:, :1]).all()
    assert locked_dropout(x, 0.4, training=False) is x or torch.equal(locked_dropout(x, 0.4, training=False), x)


# The last few formulas ------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_deep_window_by_its_formula() -> None:
    torch.manual_seed(0)
    encoder = WindowEncoder(2, size=2, causal=True, layers=2, hidden=3)
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    h = torch.tanh(encoder.linear(torch.tensor([1.0, 2.0, 3.0, 4.0])))
    h = h + torch.tanh(encoder.network.deeper[0](h))
    assert encoder.network.out is not None
    torch.testing.assert_close(encoder(x)[0, 1], encoder.network.out(h))


@torch.no_grad()
def test_a_gated_convolution_by_its_formula() -> None:
    torch.manual_seed(0)
    encoder = ConvolutionEncoder(2, width=2, causal=True, gated=True, normalized=True)
    x = torch.tensor([[[1.0, 2.0], [3.0, 5.0]]])
    before, here = (encoder.norms[0](x[0, t]) for t in (0, 1))
    weight, bias = encoder.layers[0].weight, encoder.layers[0].bias
    both = weight[:, :, 0] @ before + weight[:, :, 1] @ here + bias
    expected = encoder.norms[1](x[0, 1] + both[:2] * torch.sigmoid(both[2:]))
    torch.testing.assert_close(encoder(x)[0, 1], expected)
