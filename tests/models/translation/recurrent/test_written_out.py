"""Deep-Att and GNMT beside the same networks written out layer by layer; how weights begin, where dropout stands."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_systems import LENGTHS, SOURCE, TARGET, WORDS, close, copied, made
from torch import Tensor, nn

from anaphora.models import build, settings
from anaphora.nn.kernels import attentive


def looked(attention: Any, state: Tensor, memory: Tensor) -> Tensor:
    """state (1, dim) over memory (1, S, M) -> context (1, M), by Bahdanau's scores."""
    scores = torch.tanh(attention.query(state)[:, None] + attention.key(memory)) @ attention.score_weight[0]
    return (scores.softmax(dim=-1)[:, None] @ memory)[:, 0]


def cells(layers: Any, widths: list[int], dim: int = 8) -> list[Any]:
    return [copied(nn.LSTMCell(width, dim), layer.cell) for layer, width in zip(layers, widths)]


@torch.no_grad()
def test_gnmts_decoder_is_told_of_one_look_in_every_layer() -> None:
    """Layers read [x ; c]; from the third on they add x, without c."""
    model = made("gnmt", layers=2, decoder_layers=4, encoder_dim=6)
    d = model.decoder
    steps = cells([d.layer.cell, *d.above], [8 + 6] * 4)
    found = model(SOURCE, TARGET, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        memory = model.encode(SOURCE[row : row + 1, :length], LENGTHS[row : row + 1])
        states = [(torch.zeros(1, 8).double(), torch.zeros(1, 8).double()) for _ in steps]
        for t in range(TARGET.shape[1]):
            x = model.target_embedding(TARGET[row : row + 1, t : t + 1])[:, 0]
            context = looked(d.layer.attention, states[0][0], memory)
            for number, step in enumerate(steps):
                states[number] = step(torch.cat([x, context], dim=1), states[number])
                x = states[number][0] + (x if number >= 2 else 0)
            close(found[row, t], model.projection(x)[0])


@torch.no_grad()
def test_deep_atts_decoder_has_a_lane_past_every_layer() -> None:
    """f_k = W_k [half(f_{k-1}) ; h_{k-1}] is what the gates of layer k hear from below; the top says [half(f) ; h]."""
    model = made("deep-att", layers=1, decoder_layers=3, encoder_dim=6)
    d = model.decoder
    layers = [d.layer.cell, *d.above]
    steps = cells(layers, [8 + 6, 24, 24])
    found = model(SOURCE, TARGET, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        memory = model.encode(SOURCE[row : row + 1, :length], LENGTHS[row : row + 1])
        states = [(torch.zeros(1, 8).double(), torch.zeros(1, 8).double()) for _ in steps]
        for t in range(TARGET.shape[1]):
            word = model.target_embedding(TARGET[row : row + 1, t : t + 1])[:, 0]
            given = torch.cat([word, looked(d.layer.attention, states[0][0], memory)], dim=1)
            for number, step in enumerate(steps):
                states[number] = step(given, states[number])
                lane = given @ step.weight_ih.t()  # (1, 4 · 8), of which the first half goes on
                given = torch.cat([lane[:, :16], states[number][0]], dim=1)
            close(found[row, t], model.projection(d.readout(given))[0])


@torch.no_grad()
def test_deep_atts_columns_read_in_opposite_directions() -> None:
    encoder = made("deep-att", layers=3, encoder_dim=6).encoder
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    ends = []
    for number, column in enumerate(encoder.columns):
        given = x
        for depth, layer in enumerate(column):
            backwards = depth % 2 != number  # the second column begins from the end
            lstm = copied(nn.LSTM(given.shape[2], 8, batch_first=True), layer.cell)
            h = lstm(given.flip(1))[0].flip(1) if backwards else lstm(given)[0]
            lane = F.linear(given, lstm.weight_ih_l0)
            given = torch.cat([lane[..., :16], h], dim=-1)
        ends.append(torch.cat([h, lane], dim=-1))
    close(encoder(x, torch.tensor([5])), encoder.join(torch.cat(ends, dim=-1)))


@pytest.mark.parametrize("kind", ["seq2seq", "bahdanau", "luong", "deep-att", "gnmt"])
def test_every_lstm_begins_by_remembering(kind: str) -> None:
    said = {"kind": kind, "dim": 8, "layers": 2, **({"cell": "lstm"} if kind == "bahdanau" else {})}
    model = build(settings(said), WORDS, WORDS)  # type: ignore[arg-type]
    lstms = [part for part in model.modules() if isinstance(part, nn.LSTM)]
    assert len(lstms) >= 3
    for lstm in lstms:
        for end in ("", "_reverse") if lstm.bidirectional else ("",):
            both = getattr(lstm, f"bias_ih_l0{end}") + getattr(lstm, f"bias_hh_l0{end}")
            assert (both.chunk(4)[1] == 1).all()  # of i, f, g, o


# Dropout ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "said", "places"),
    [
        ("seq2seq", {"layers": 2}, 2 + 1 + 1 + 1),  # words of both sides, between layers of both, before the projection
        ("bahdanau", {"layers": 2, "decoder_layers": 3}, 2 + 1 + 2 + 1),
        ("luong", {"layers": 2, "input_feeding": False}, 2 + 1 + 1 + 1),
        ("luong", {"layers": 2}, 2 + 1 + 0 + 1),  # between the decoder's layers it is the loop's own: see below
        ("deep-att", {"layers": 3, "decoder_layers": 2}, 2 + 2 * 2 + 1 + 1),
        ("gnmt", {"layers": 3}, 2 + 2 + 2 + 1),
    ],
)
@pytest.mark.parametrize("learns", [True, False])
def test_where_dropout_stands(
    kind: str, said: dict[str, Any], places: int, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, seen, plain = made(kind, dropout=0.25, **said).train(learns), [], F.dropout

    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if training and p:
            seen.append(p)
        return plain(x, p, training, inplace)

    monkeypatch.setattr(F, "dropout", dropout)
    model(SOURCE, TARGET, LENGTHS)
    assert seen == ([0.25] * places if learns else [])


def test_dropout_between_the_layers_that_are_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn anew for every layer, step and row, and what stays is made larger."""
    model, seen, apply = made("luong", layers=3, dim=32, dropout=0.25), [], attentive._Feeding.apply
    monkeypatch.setattr(attentive._Feeding, "apply", lambda *given: (seen.append(given[8]), apply(*given))[1])
    model.eval()(SOURCE, TARGET, LENGTHS)
    model.train()(SOURCE, TARGET, LENGTHS)
    assert seen[0] is None
    masks = seen[1]
    assert masks.shape == (2, 4, 3, 32)  # layers - 1, steps, rows, dim
    assert set(masks.unique().tolist()) == {0.0, 1 / 0.75}
    assert len(masks.flatten(0, 2).unique(dim=0)) == 2 * 4 * 3
    assert float(masks.mean()) == pytest.approx(1, abs=0.1)


# Memory -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bahdanau", "luong", "gnmt"])
def test_a_pass_that_is_not_gone_back_is_forgotten(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when memory ends between the two: what was kept for the way back goes with the output."""
    kept, make = [], attentive.attentive_steps.Look

    class Look(make):  # type: ignore[misc, valid-type]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            kept.append(weakref.ref(self))

    monkeypatch.setattr(attentive.attentive_steps, "Look", Look)
    gc.disable()  # it must not have to be looked for
    try:
        made(kind).train()(SOURCE, TARGET, LENGTHS)
        assert [one() for one in kept] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["bahdanau", "luong"])
def test_what_is_only_asked_keeps_nothing_for_a_way_back(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made_of, make = [], attentive.attentive_steps.Look
    monkeypatch.setattr(attentive.attentive_steps, "Look", lambda *given: made_of.append(make(*given)) or made_of[-1])
    model = made(kind, score="additive")
    learned = model(SOURCE, TARGET, LENGTHS)
    with torch.no_grad():
        close(model(SOURCE, TARGET, LENGTHS), learned)
    assert [look.bent is None for look in made_of] == [False, True]
