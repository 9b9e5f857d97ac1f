"""Recurrent translators beside the same networks written out with PyTorch's own modules, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.alignment.model_alignment import cross_attentions, no_weights
from anaphora.errors import UserError
from anaphora.models import build, settings
from anaphora.models.translation.recurrent.bahdanau import Maxout
from anaphora.nn.attention_capture import capture
from anaphora.nn.recurrence import RecurrentEncoder, turned
from anaphora.tasks.recipes import complete

WORDS = 19
SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [7, 2, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
TARGET = torch.tensor([[1, 4, 5, 6], [1, 8, 9, 7], [1, 10, 11, 12]])


def made(kind: str, **changes: Any) -> Any:
    torch.manual_seed(2)
    shape = {"kind": kind, "dim": 8, "layers": 1, "max_length": 20, "dropout": 0.0, "tie": "none", **changes}
    return build(settings(shape), WORDS, WORDS).double().eval()  # type: ignore[arg-type]


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def copied(module: nn.Module, layer: nn.RNNBase) -> Any:
    """A module of PyTorch's with the weights of a layer of ours."""
    for name, weight in layer.named_parameters():
        target = name.removesuffix("_l0") if isinstance(module, nn.RNNCellBase) else name
        getattr(module, target).data.copy_(weight)
    return module.double()


# Twins --------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_an_lstm_decoder_without_attention_is_pytorchs_lstm() -> None:
    model = made("seq2seq", layers=2)
    encoder, decoder = nn.LSTM(8, 8, 2, batch_first=True).double(), nn.LSTM(8, 8, 2, batch_first=True).double()
    for ours, theirs in ((model.encoder, encoder), (model.decoder.cells, decoder)):
        for number, layer in enumerate(ours.cells):
            for name, weight in layer.named_parameters():
                getattr(theirs, name.replace("_l0", f"_l{number}")).data.copy_(weight)
    found = model(SOURCE, TARGET, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        backwards = SOURCE[row, :length].flip(0)[None]
        _, state = encoder(model.source_embedding(backwards))
        y, _ = decoder(model.target_embedding(TARGET[row : row + 1]), state)
        close(found[row], model.projection(y)[0])


@torch.no_grad()
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_bahdanau_is_a_plain_loop(cell: str) -> None:
    model = made("bahdanau", cell=cell)
    both = (nn.GRU if cell == "gru" else nn.LSTM)(8, 4, batch_first=True, bidirectional=True)
    encoder = copied(both, model.encoder.cells[0])
    d = model.decoder
    step = copied((nn.GRUCell if cell == "gru" else nn.LSTMCell)(16, 8), d.layer.cell.cells[0])
    v, query, key = d.layer.attention.score_weight[0], d.layer.attention.query, d.layer.attention.key
    found = model(SOURCE, TARGET, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        memory, _ = encoder(model.source_embedding(SOURCE[row : row + 1, :length]))  # (1, S, 8)
        begun = torch.tanh(d.bridge.linear(memory.mean(dim=1))).split(8, dim=1)
        state = begun[0] if cell == "gru" else (begun[0], begun[1])
        for t in range(TARGET.shape[1]):
            word = model.target_embedding(TARGET[row : row + 1, t : t + 1])[:, 0]
            hidden = state if cell == "gru" else state[0]
            scores = torch.tanh(query(hidden)[:, None] + key(memory)) @ v  # (1, S)
            context = (scores.softmax(dim=-1)[:, None] @ memory)[:, 0]
            state = step(torch.cat([word, context], dim=1), state)
            hidden = state if cell == "gru" else state[0]
            pair = d.readout.linear(torch.cat([hidden, word, context], dim=1)).chunk(2, dim=1)
            close(found[row, t], model.projection(torch.maximum(*pair))[0])


@torch.no_grad()
@pytest.mark.parametrize("score", ["dot", "bilinear", "additive"])
@pytest.mark.parametrize("fed", [True, False])
def test_luong_is_a_plain_loop(score: str, fed: bool) -> None:
    model = made("luong", score=score, input_feeding=fed, bidirectional=False)
    encoder = copied(nn.LSTM(8, 8, batch_first=True), model.encoder.cells[0])
    d = model.decoder
    step = copied(nn.LSTMCell(16 if fed else 8, 8), d.cells.cells[0])
    found = model(SOURCE, TARGET, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        memory, _ = encoder(model.source_embedding(SOURCE[row : row + 1, :length]))
        state = tuple(torch.tanh(d.bridge.linear(memory.mean(dim=1))).split(8, dim=1))
        vector = torch.zeros(1, 8, dtype=torch.float64)
        for t in range(TARGET.shape[1]):
            word = model.target_embedding(TARGET[row : row + 1, t : t + 1])[:, 0]
            state = step(torch.cat([word, vector], dim=1) if fed else word, state)
            if score == "dot":
                scores = memory @ state[0][0]
            elif score == "bilinear":
                scores = memory @ (state[0][0] @ d.attention.score_weight[0])
            else:
                both = torch.tanh(d.attention.query(state[0])[:, None] + d.attention.key(memory))
                scores = both @ d.attention.score_weight[0]
            context = (scores.softmax(dim=-1)[:, None] @ memory)[:, 0]
            vector = torch.tanh(d.combine(torch.cat([context, state[0]], dim=1)))
            close(found[row, t], model.projection(vector)[0])


@torch.no_grad()
def test_gnmts_layers_add_what_they_read_from_the_third_on() -> None:
    model = made("gnmt", layers=4)
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    lengths = torch.tensor([6, 4])
    first = model.encoder.both_ways(x, lengths)
    assert first.shape[-1] == 16
    second = model.encoder.one_way[0](first)
    third = second + model.encoder.one_way[1](second)
    fourth = third + model.encoder.one_way[2](third)
    close(model.encoder(x, lengths), fourth)


@torch.no_grad()
def test_deep_atts_lane_has_no_recurrence_and_its_layers_turn() -> None:
    """h_2 of the first column reads backwards: it knows the last word; its lane knows its own word alone."""
    model = made("deep-att", layers=2, decoder_layers=2)
    encoder = model.encoder
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    lengths = torch.tensor([5])
    layers, end = encoder._column(0, x, lengths)
    changed = x.clone()
    changed[0, 4] += 1
    other_layers, other = encoder._column(0, changed, lengths)
    assert torch.equal(layers[0][0, :4], other_layers[0][0, :4])  # forwards: the last word is not known before
    assert not torch.equal(layers[1][0, 0], other_layers[1][0, 0])  # backwards: it is
    lane, changed_lane = end[..., 8:], other[..., 8:]
    assert torch.equal(lane[0, :4], changed_lane[0, :4])
    first, second = (layer.cell for layer in encoder.columns[0])
    below = torch.cat([F.linear(x, first.weight_ih_l0[:16]), layers[0]], dim=-1)  # half of the lane, and h
    close(lane, F.linear(below, second.weight_ih_l0))


@torch.no_grad()
def test_both_ways_without_packing_is_with_packing() -> None:
    """What a GPU does, for the sake of CUDA graphs."""
    torch.manual_seed(4)
    for cell in ("gru", "lstm"):
        encoder = RecurrentEncoder(8, cell=cell, layers=2, causal=False).double()
        x, lengths = torch.randn(3, 6, 8, dtype=torch.float64), torch.tensor([6, 2, 4])
        packed, other = encoder(x, lengths), encoder._through_turned(x, lengths)
        for row, length in enumerate(lengths.tolist()):
            close(other[row, :length], packed[row, :length])


def test_turned_rows_keep_their_padding() -> None:
    assert turned(SOURCE, LENGTHS).tolist() == [[2, 8, 7, 6, 5], [2, 4, 9, 0, 0], [2, 7, 0, 0, 0]]
    assert torch.equal(turned(turned(SOURCE, LENGTHS), LENGTHS), SOURCE)


# Looking ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bahdanau", "luong", "deep-att", "gnmt"])
def test_a_whole_pass_is_one_look_of_as_many_rows_as_words(kind: str) -> None:
    model = made(kind)
    assert no_weights(model) is None
    (path,) = cross_attentions(model)
    with capture(model) as seen:
        model(SOURCE, TARGET, LENGTHS)
    weights = seen.weights(path)
    assert weights.shape == (3, 1, 4, 5)
    close(weights.sum(dim=-1), torch.ones(3, 1, 4, dtype=torch.float64))
    assert (weights[2, 0, :, 2:] == 0).all()
    state = model.start(SOURCE, LENGTHS, 1, 10)
    for t in range(4):  # what a step says it looked at is what the pass looked at
        _, state, looked = model.step(TARGET[:, t], state, attention=True)
        close(looked, weights[:, 0, t])


def test_guided_weights_carry_gradients() -> None:
    model = made("bahdanau").train()
    (path,) = cross_attentions(model)
    with capture(model, gradients=True) as seen:
        model(SOURCE, TARGET, LENGTHS)
    seen.weights(path).square().sum().backward()
    assert model.decoder.layer.attention.key.weight.grad.abs().sum() > 0


def test_without_attention_words_are_aligned_by_occlusion() -> None:
    model = made("seq2seq")
    assert "attends" not in model.capabilities
    assert no_weights(model) == "the model has no attention over the source"


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kind": "luong", "unroll": "whole"}, "unroll=whole cannot be: with input_feeding"),
        ({"kind": "bahdanau", "unroll": "whole"}, "unroll=whole cannot be: the state of each step"),
        ({"kind": "gnmt", "unroll": "whole"}, "unroll=whole cannot be: the lowest layer's state"),
        ({"kind": "deep-att", "unroll": "whole"}, "unroll=whole cannot be"),
        ({"kind": "luong", "score": "dot", "encoder_dim": 16, "dim": 8}, "take score=bilinear"),
        ({"kind": "luong", "score": "dot", "attention_dim": 5}, "attention_dim is for additive scores"),
        ({"kind": "luong", "heads": 4}, "heads is a Transformer encoder's, and this encoder is lstm"),
        ({"kind": "gnmt", "bidirectional": True}, "bidirectional is for a recurrent encoder, and this encoder is gnmt"),
        ({"kind": "bahdanau", "dim": 7}, "two directions share 7 dimensions"),
        ({"kind": "luong", "encoder": "conv", "embedding": 4, "dim": 8}, "reads vectors as wide as its own"),
        ({"kind": "luong", "encoder": "transformer", "dim": 10, "heads": 4}, "must be a multiple of heads"),
        ({"kind": "luong", "encoder": "bert"}, "model.encoder cannot be 'bert'"),
        ({"kind": "transformer", "decoder": "gru"}, "model.decoder cannot be 'gru'"),
        ({"kind": "luong", "scores": "dot"}, "unknown setting model.scores"),
        ({"kind": "luong", "cell": "rnn"}, "model.cell cannot be 'rnn'"),
        ({"kind": "bahdanau", "readout": 0}, "readout must be above 0"),
        ({"kind": "luong", "score": "additive", "attention_dim": 0}, "attention_dim must be above 0"),
        ({"kind": "gnmt", "attention_dim": 0}, "attention_dim must be above 0"),
        ({"kind": "deep-att", "attention_dim": -1}, "attention_dim must be above 0"),
        ({"kind": "gnmt", "decoder_layers": 0}, "decoder_layers must be above 0"),
    ],
)
def test_what_cannot_be_is_refused_by_name(said: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        settings(said)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kind": "bahdanau", "dim": 8, "readout": 4}, "set model.tie=none"),
        ({"kind": "luong", "dim": 8, "tie": "all"}, "tie=all needs one joint vocabulary"),
    ],
)
def test_tables_that_cannot_be_one(said: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        build(settings(said), 9, 10)  # type: ignore[arg-type]


# Any encoder with any decoder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "decoder", "kind", "encoder"),
    [
        ("transformer", "luong", "luong", "transformer"),
        ("bahdanau", "transformer", "transformer", "gru"),
        ("gnmt", "bahdanau", "bahdanau", "gnmt"),
        ("luong", "luong", "luong", None),
    ],
)
def test_the_decoder_of_another_system_behind_a_recipes_encoder(
    recipe: str, decoder: str, kind: str, encoder: str | None
) -> None:
    config = complete(recipe, {"model": {"decoder": decoder}}, pairs=30_000)
    assert (config.model.kind, config.model.encoder, config.translator.decoder) == (kind, encoder, kind)
    assert "decoder" not in config.document()["model"]


@pytest.mark.parametrize(
    ("recipe", "cell", "encoder"), [("gnmt", "gru", "gnmt"), ("bahdanau", "lstm", "lstm"), ("bahdanau", None, "gru")]
)
def test_a_cell_is_the_encoders_too_where_that_has_one(recipe: str, cell: str | None, encoder: str) -> None:
    said = {"decoder": "luong"} | ({} if cell is None else {"cell": cell})
    model = complete(recipe, {"model": said}, pairs=30_000).translator
    assert (model.encoder, model.cell) == (encoder, cell or "lstm")  # type: ignore[attr-defined]


@torch.no_grad()
@pytest.mark.parametrize("encoder", ["transformer", "lstm", "gru", "rnn", "conv", "window", "dan", "deep-att", "gnmt"])
def test_every_reader_but_the_mean_knows_the_order_of_words(encoder: str) -> None:
    """A Transformer, too: its words are told where they stand."""
    model = made("luong", encoder=encoder)
    ordered, other = (model(torch.tensor([ids]), TARGET[:1]) for ids in ([5, 6, 7, 2], [7, 5, 6, 2]))
    assert torch.allclose(ordered, other, atol=1e-9) == (encoder == "dan")


def test_widths_and_heads_are_those_that_were_said() -> None:
    model = made("luong", encoder="transformer", heads=2, feed_forward=20)
    (block,) = model.encoder.blocks
    assert block.attention.heads == 2
    assert {20} < {size for weight in block.feed_forward.parameters() for size in weight.shape}
    assert made("bahdanau", readout=6).projection.in_features == 6
    assert made("gnmt", attention_dim=5).decoder.layer.attention.key.out_features == 5


def test_what_a_recipe_says_of_its_tables_stays_said() -> None:
    assert complete("bahdanau-paper", {}, pairs=30_000).translator.tie == "none"
    assert complete("bahdanau", {"tokenizer": {"shared": False}}, pairs=30_000).translator.tie == "target"


def test_learning_on_is_gentler_than_the_same_kind_learns_from_nothing() -> None:
    first = complete("gnmt", {}, pairs=2_000_000)
    then = complete("gnmt", {}, pairs=2_000_000, start_from="first", start=first.document())
    assert then.training.learning_rate == first.training.learning_rate / 4
    assert then.training.batch_tokens == first.training.batch_tokens


def test_a_recipe_whose_settings_the_other_decoder_has_not() -> None:
    with pytest.raises(
        UserError, match=r"the recipe says model\.readout.* take the recipe luong with model.encoder=gru"
    ):
        complete("bahdanau-paper", {"model": {"decoder": "luong"}}, pairs=30_000)


def test_to_name_the_encoder_that_is_there_changes_nothing() -> None:
    shape = {"kind": "transformer", "dim": 8, "heads": 2, "layers": 1, "positions": "rotary"}
    own, named = (build(settings(shape | said), 9, 9) for said in ({}, {"encoder": "transformer"}))  # type: ignore[arg-type]
    assert named.source_embedding.kind == own.source_embedding.kind == "rotary"


@pytest.mark.parametrize(
    ("recipe", "model"), [("gnmt", {"decoder": "seq2seq"}), ("gnmt", {"decoder": "transformer", "normalizer": "none"})]
)
def test_coverage_without_attention_is_refused_before_anything_is_learned(recipe: str, model: dict[str, str]) -> None:
    with pytest.raises(UserError, match="coverage_penalty needs a model that attends"):
        complete(recipe, {"model": model}, pairs=30_000)
    assert complete(recipe, {"model": model, "decoding": {"coverage_penalty": 0}}, pairs=30_000)


@pytest.mark.parametrize("kind", ["seq2seq", "bahdanau", "luong", "deep-att", "gnmt", "moe"])
def test_a_bare_name_is_sized_to_the_corpus(kind: str) -> None:
    sizes = []
    for pairs in (5_000, 30_000, 150_000, 5_000_000):
        config = complete(kind, {}, pairs=pairs)
        with torch.device("meta"):
            sizes.append(build(config.translator, 8_000, 8_000).parameter_count())
        assert config.training.max_steps is not None
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 4


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_layer_that_reads_both_ways_learns_what_pytorchs_does(cell: str) -> None:
    """On a CPU its way back is written by hand, both cells go side by side, and nothing is packed."""
    torch.manual_seed(4)
    x, lengths = torch.randn(3, 6, 8, dtype=torch.float64, requires_grad=True), torch.tensor([6, 2, 4])
    encoder = RecurrentEncoder(8, cell=cell, layers=2, causal=False).double()  # type: ignore[arg-type]
    real = (torch.arange(6) < lengths[:, None])[..., None]
    pull = torch.randn(3, 6, 8, dtype=torch.float64)
    found = []
    for by_hand in (True, False):
        encoder.zero_grad()
        x.grad = None
        encoder._learns_by_hand = lambda x, by_hand=by_hand: by_hand  # type: ignore[method-assign]
        y = encoder(x, lengths) * real
        (y * pull).sum().backward()
        found.append([y.detach(), x.grad, *(weight.grad.clone() for weight in encoder.parameters())])
        places = [weight.grad.data_ptr() for weight in encoder.parameters()]
        assert len(set(places)) == len(places)  # clipping is in place: it must not meet a gradient twice
    for ours, theirs in zip(*found):
        close(ours, theirs)


def test_maxout_learns_what_pytorchs_maximum_does() -> None:
    """All to the larger of a pair; of equals, half each."""
    torch.manual_seed(4)
    maxout = Maxout(5, 4).double()
    with torch.no_grad():
        maxout.linear.weight[4:6] = maxout.linear.weight[:2]  # the first two pairs are of equals
    x = torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(3, 2, 4, dtype=torch.float64)
    found = []
    for way in (maxout, lambda x: torch.maximum(*maxout.linear(x).chunk(2, dim=-1))):
        maxout.zero_grad()
        x.grad = None
        y = way(x)
        (y * pull).sum().backward()
        found.append([y.detach(), x.grad, maxout.linear.weight.grad.clone(), maxout.linear.bias.grad.clone()])
    for ours, theirs in zip(*found):
        close(ours, theirs)


def test_a_row_without_a_word_is_read_both_ways_beside_others() -> None:
    """Its gradients are zeros, and it changes nothing for the others."""
    torch.manual_seed(4)
    encoder = RecurrentEncoder(8, cell="lstm", causal=False).double()
    x = torch.randn(3, 4, 8, dtype=torch.float64, requires_grad=True)
    y = encoder(x, torch.tensor([4, 0, 2]))
    (y[0].sum() + y[2, :2].sum()).backward()
    assert not x.grad[1].any()
    assert not x.grad[2, 2:].any()
    for row, length in ((0, 4), (2, 2)):
        close(y[row, :length], encoder(x[row : row + 1, :length], torch.tensor([length]))[0])
