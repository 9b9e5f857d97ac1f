"""One contract, every encoder: padding and neighbours change nothing, causal ones do not look ahead, and they stack."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from anaphora.nn import attention_backends as backends
from anaphora.nn.attention_capture import capture
from anaphora.nn.encoders import (
    AveragingEncoder,
    ClassificationHead,
    ConvolutionEncoder,
    Encoder,
    RecurrentEncoder,
    WindowEncoder,
)
from anaphora.nn.transformer import TransformerEncoder

DIM = 8
Maker = Callable[[], Encoder]

ENCODERS: dict[str, tuple[Maker, bool]] = {
    "averaging": (lambda: AveragingEncoder(DIM), False),
    "averaging causal": (lambda: AveragingEncoder(DIM, causal=True), True),
    "window": (lambda: WindowEncoder(DIM, size=2), False),
    "window causal": (lambda: WindowEncoder(DIM, size=3, causal=True), True),
    "rnn": (lambda: RecurrentEncoder(DIM), True),
    "gru two layers": (lambda: RecurrentEncoder(DIM, cell="gru", layers=2, dropout=0.2), True),
    "rnn-relu": (lambda: RecurrentEncoder(DIM, cell="rnn-relu"), True),
    "lstm": (lambda: RecurrentEncoder(DIM, cell="lstm"), True),
    "rnn both ways": (lambda: RecurrentEncoder(DIM, causal=False), False),
    "lstm both ways": (lambda: RecurrentEncoder(DIM, cell="lstm", causal=False, layers=2), False),
    "convolution": (lambda: ConvolutionEncoder(DIM, layers=2), False),
    "convolution causal": (lambda: ConvolutionEncoder(DIM, width=2, layers=3, causal=True, dilated=True), True),
    "transformer": (lambda: TransformerEncoder(DIM, layers=2, heads=2), False),
    "transformer causal": (lambda: TransformerEncoder(DIM, layers=2, heads=2, causal=True), True),
    "transformer window": (lambda: TransformerEncoder(DIM, heads=2, window=2, causal=True), True),
    "transformer window both ways": (lambda: TransformerEncoder(DIM, heads=2, window=2, positions="relative"), False),
    "transformer additive": (lambda: TransformerEncoder(DIM, heads=2, score="additive"), False),
    "transformer bilinear grouped": (
        lambda: TransformerEncoder(DIM, heads=4, key_value_heads=2, score="bilinear", causal=True),
        True,
    ),
    "transformer linear": (lambda: TransformerEncoder(DIM, heads=2, normalizer="none"), False),
    "transformer linear causal": (
        lambda: TransformerEncoder(DIM, heads=2, normalizer="none", score="dot", positions="rotary", causal=True),
        True,
    ),
    "transformer alibi post-norm": (lambda: TransformerEncoder(DIM, heads=2, positions="alibi", norm="post"), False),
    "transformer over gru": (lambda: Stacked(RecurrentEncoder(DIM, cell="gru"), TransformerEncoder(DIM)), False),
}


class Stacked(Encoder):
    """Two of them, one on the other: nothing but the contract is used."""

    def __init__(self, *encoders: Encoder) -> None:
        super().__init__()
        self.dim, self.causal = encoders[0].dim, all(encoder.causal for encoder in encoders)
        self.encoders = nn.ModuleList(encoders)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        for encoder in self.encoders:
            x = encoder(x, lengths)
        return x


@pytest.fixture(scope="module", params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(3)
    made = ENCODERS[request.param][0]()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.double().eval().requires_grad_(False)


def vectors(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


few = settings(max_examples=10)
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@pytest.mark.parametrize("name", ENCODERS)
def test_declares_which_way_it_reads(name: str) -> None:
    make, causal = ENCODERS[name]
    made = make()
    assert isinstance(made, Encoder)
    assert (made.causal, made.dim) == (causal, DIM)


@few
@given(sizes=sizes, extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_padding_and_neighbours_change_nothing(encoder: Any, sizes: list[int], extra: int, seed: int) -> None:
    lengths = torch.tensor(sizes)
    x = vectors(len(sizes), max(sizes) + extra, DIM, seed=seed)
    together = encoder(x, lengths)
    assert together.shape == x.shape
    for row, length in enumerate(sizes):
        alone = encoder(x[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0])


@few
@given(length=st.integers(2, 9), data=st.data())
def test_a_causal_encoder_does_not_look_ahead_and_another_does(encoder: Any, length: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(1, length - 1))
    x, lengths = vectors(1, length, DIM), torch.tensor([length])
    changed = x.clone()
    changed[:, place:] += vectors(1, length - place, DIM, seed=1)
    before, after = encoder(x, lengths), encoder(changed, lengths)
    assert not torch.allclose(before[:, place], after[:, place])
    same = torch.allclose(before[:, :place], after[:, :place], atol=1e-12)
    assert same == encoder.causal


def test_an_empty_row_is_harmless(encoder: Any) -> None:
    x = vectors(2, 4, DIM)
    out = encoder(x, torch.tensor([0, 4]))
    assert out.isfinite().all()
    torch.testing.assert_close(out[1], encoder(x[1:], torch.tensor([4]))[0])


@pytest.mark.parametrize("name", ENCODERS)
def test_everything_in_it_learns(name: str) -> None:
    torch.manual_seed(0)
    made = ENCODERS[name][0]()
    head = ClassificationHead(DIM, 3)
    x, lengths = torch.randn(3, 5, DIM), torch.tensor([5, 2, 4])
    nn.functional.cross_entropy(head(made(x, lengths), lengths), torch.tensor([0, 1, 2])).backward()
    for path, parameter in [*made.named_parameters(), *head.named_parameters()]:
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        silent = path.endswith(("bias_hh_l0", "query_key_value.bias", "bias.table.weight"))  # may cancel in a softmax
        assert silent or (parameter.grad != 0).any(), path


# By hand ------------------------------------------------------------------------------------------------------------


def test_averaging_by_hand() -> None:
    x = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [9.0, 9.0]]])
    lengths = torch.tensor([4])
    assert AveragingEncoder(2)(x, lengths)[0, 0].tolist() == [0.75, 0.25]
    assert AveragingEncoder(2, causal=True)(x, lengths)[0, :4, 0].tolist() == pytest.approx([1, 1, 2 / 3, 0.75])


@torch.no_grad()
def test_a_window_is_a_network_over_its_words() -> None:
    encoder = WindowEncoder(2, size=2, causal=True)
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    out = encoder(x, torch.tensor([3]))
    for place, words in enumerate(([0.0, 0, 1, 2], [1.0, 2, 3, 4], [3.0, 4, 5, 6])):
        torch.testing.assert_close(out[0, place], torch.tanh(encoder.linear(torch.tensor(words))))


@torch.no_grad()
def test_a_recurrent_cell_by_its_formula() -> None:
    torch.manual_seed(0)
    encoder = RecurrentEncoder(3)
    x, state = torch.randn(1, 4, 3), torch.zeros(3)
    out = encoder(x, torch.tensor([4]))
    cell = encoder.cell
    for t in range(4):
        state = torch.tanh(cell.weight_ih_l0 @ x[0, t] + cell.bias_ih_l0 + cell.weight_hh_l0 @ state + cell.bias_hh_l0)
        torch.testing.assert_close(out[0, t], state)


@torch.no_grad()
@pytest.mark.parametrize(
    ("adds", "states"), [((1.0, 1.0), [[1, 0], [2, 0], [2, 1], [3, 1]]), ((0.0, 1.0), [[0, 0], [0, 0], [0, 1], [0, 1]])]
)
def test_a_cell_set_by_hand_adds_every_word_or_only_some(adds: tuple[float, float], states: list[list[int]]) -> None:
    """A = [1, 0], B = [0, 1], "A A B A": h_t = ReLU(W x_t + h_{t-1}) counts what W lets through."""
    encoder = RecurrentEncoder(2, cell="rnn-relu")
    for parameter in encoder.parameters():
        parameter.zero_()
    encoder.cell.weight_ih_l0.copy_(torch.diag(torch.tensor(adds)))
    encoder.cell.weight_hh_l0.copy_(torch.eye(2))
    a, b = [1.0, 0.0], [0.0, 1.0]
    assert encoder(torch.tensor([[a, a, b, a]]), torch.tensor([4]))[0].tolist() == states


@torch.no_grad()
@pytest.mark.parametrize(
    ("changes", "field"),
    [({"width": 3, "layers": 1}, 3), ({"width": 3, "layers": 4}, 9), ({"width": 3, "layers": 3, "dilated": True}, 15)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_the_receptive_field_of_convolutions(changes: dict[str, Any], field: int, causal: bool) -> None:
    """Which places change when one word does: exactly as many as it says."""
    encoder = ConvolutionEncoder(4, causal=causal, **changes).double()
    for layer in encoder.layers:
        nn.init.constant_(layer.weight, 0.1)  # nothing cancels, ReLU stays open
    x = torch.rand(1, 41, 4).double()
    changed = x.clone()
    changed[0, 20] += 1
    lengths = torch.tensor([41])
    differ = (encoder(changed, lengths) != encoder(x, lengths)).any(dim=-1)[0].nonzero().flatten().tolist()
    first = 20 if causal else 20 - field // 2
    assert differ == list(range(first, first + field))
    assert encoder.receptive_field == field


@torch.no_grad()
def test_pooling_looks_at_real_tokens_only() -> None:
    x = torch.tensor([[[1.0], [4.0], [100.0]], [[-3.0], [-1.0], [-5.0]]])
    lengths = torch.tensor([2, 3])
    for pool, expected in (("mean", [2.5, -3.0]), ("max", [4.0, -1.0]), ("first", [1.0, -3.0]), ("last", [4.0, -5.0])):
        head = ClassificationHead(1, 5, pool=pool)  # type: ignore[arg-type]
        assert head.pooled(x, lengths).flatten().tolist() == expected
        assert head(x, lengths).shape == (2, 5)


@torch.no_grad()
@pytest.mark.parametrize("pool", ["mean", "max"])
def test_nothing_pooled_is_zero(pool: str) -> None:
    head = ClassificationHead(2, 3, pool=pool)  # type: ignore[arg-type]
    x, lengths = torch.full((2, 4, 2), -7.0), torch.tensor([0, 1])
    assert head.pooled(x, lengths).tolist() == [[0.0, 0.0], [-7.0, -7.0]]
    torch.testing.assert_close(head(x, lengths)[0], head.linear.bias)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowEncoder(4, size=0), "size 0 is below 1"),
        (lambda: RecurrentEncoder(4, cell="elman"), "no cell is called 'elman'; known: gru"),  # type: ignore[arg-type]
        (lambda: RecurrentEncoder(5, causal=False), "must be an even number"),
        (lambda: ConvolutionEncoder(4, width=2), "needs an odd one"),
        (lambda: ClassificationHead(4, 2, pool="sum"), "no pooling is called 'sum'"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "relative"])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_and_biases_left_as_rules_say_the_same(positions: str, causal: bool) -> None:
    made = []
    for backend in ("auto", "flex"):
        torch.manual_seed(0)
        choices: dict[str, Any] = {"positions": positions, "causal": causal, "window": 3, "backend": backend}
        made.append(TransformerEncoder(DIM, layers=2, heads=4, key_value_heads=2, **choices).eval())
    x, lengths = torch.randn(2, 7, DIM), torch.tensor([7, 4])
    dense, ruled = (encoder(x, lengths) for encoder in made)
    torch.testing.assert_close(ruled, dense, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_the_layers_of_a_stack_share_one_table_of_blocks_and_leave_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.attention import flex_attention

    made: list[Any] = []
    plain = flex_attention.create_block_mask
    monkeypatch.setattr(flex_attention, "create_block_mask", lambda *a, **k: made.append(a) or plain(*a, **k))
    encoder = TransformerEncoder(DIM, layers=3, window=2, backend="flex")
    for _ in range(2):
        encoder(torch.randn(2, 5, DIM), torch.tensor([5, 3]))
    assert len(made) == 2
    gc.collect()
    assert not backends._BLOCKS


# Looking inside -------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("normalizer", ["softmax", "none"])
@pytest.mark.parametrize("score", ["scaled-dot", "dot", "bilinear", "additive"])
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_captured_weights_multiply_back_whatever_the_choices(score: str, normalizer: str, groups: int) -> None:
    torch.manual_seed(0)
    encoder = TransformerEncoder(
        DIM,
        layers=2,
        heads=4,
        key_value_heads=groups,
        score=score,  # type: ignore[arg-type]
        normalizer=normalizer,  # type: ignore[arg-type]
        window=3,
    ).eval()
    x, lengths = torch.randn(2, 6, DIM), torch.tensor([6, 3])
    outputs: list[Tensor] = []
    for block in encoder.blocks:
        block.attention.out.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    plain = encoder(x, lengths)
    outputs.clear()
    with capture(encoder) as seen:
        torch.testing.assert_close(encoder(x, lengths), plain, atol=1e-5, rtol=1e-5)
    for number, block in enumerate(encoder.blocks):
        (call,) = seen[f"blocks.{number}.attention"]
        assert call.weights.shape == (2, 4, 6, 6)
        assert (call.weights[1, :, :, 3:] == 0).all()  # padding
        assert (call.weights[0, :, 0, 3:] == 0).all()  # beyond the window
        torch.testing.assert_close(block.attention.merge(call.weights @ call.value), outputs[number])
        sums = call.weights.sum(dim=-1)[0]
        assert torch.allclose(sums, torch.ones_like(sums)) == (normalizer == "softmax")
