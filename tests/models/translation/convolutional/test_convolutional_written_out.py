"""Convolutional translators beside the same networks written out with PyTorch's own convolutions, what they keep while
they speak, and what they refuse."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from anaphora.alignment.model_alignment import cross_attentions, no_weights
from anaphora.errors import UserError
from anaphora.models import build, settings
from anaphora.models.translation.convolutional.convolutional_settings import ByteNetConfig
from anaphora.models.translation.convolutional.convs2s import ConvS2SEncoder
from anaphora.nn.convolution import windows
from anaphora.nn.normalized_linear import NormalizedLinear
from anaphora.tasks.recipes import complete

WORDS = 19
SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [7, 2, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
TARGET = torch.tensor([[1, 4, 5, 6, 7, 8, 9], [1, 8, 9, 7, 6, 5, 4], [1, 10, 11, 12, 4, 5, 6]])
HALF = math.sqrt(0.5)


def made(kind: str, **changes: Any) -> Any:
    torch.manual_seed(2)
    shape = {"kind": kind, "dim": 8, "layers": 3, "max_length": 20, "dropout": 0.0, "tie": "none", **changes}
    model = build(settings(shape), WORDS, WORDS)  # type: ignore[arg-type]
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.double().eval()


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def convolved(x: Tensor, linear: Any, width: int, *, dilation: int = 1, causal: bool) -> Tensor:
    """PyTorch's convolution with the weights of a product of windows: (T, dim) -> (T, outputs)."""
    kernel = linear.weight.unflatten(1, (width, -1)).transpose(1, 2)  # (outputs, dim, width)
    reach = (width - 1) * dilation
    padded = F.pad(x.t()[None], (reach if causal else reach // 2, 0 if causal else reach // 2))
    return F.conv1d(padded, kernel, linear.bias, dilation=dilation)[0].t()


# Twins --------------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(("width", "dilation", "causal"), [(3, 1, False), (3, 4, False), (5, 2, True), (1, 1, True)])
def test_windows_times_a_matrix_are_a_convolution(width: int, dilation: int, causal: bool) -> None:
    torch.manual_seed(1)
    x, linear = torch.randn(2, 11, 4).double(), nn.Linear(width * 4, 6).double()
    found = linear(windows(x, width, dilation=dilation, causal=causal))
    for row in range(2):
        close(found[row], convolved(x[row], linear, width, dilation=dilation, causal=causal))


def residual_block(block: Any, x: Tensor, *, causal: bool) -> Tensor:
    inside = F.relu(block.norms[1](block.down(F.relu(block.norms[0](x)))))
    over = convolved(inside, block.over, block.width, dilation=block.dilation, causal=causal)
    return x + block.up(F.relu(block.norms[2](over)))


@torch.no_grad()
@pytest.mark.parametrize(("unfold", "extra"), [(1.2, 0), (1.0, 2), (0.5, 0)])
def test_bytenet_is_two_stacks_of_blocks_one_on_the_other(unfold: float, extra: int) -> None:
    model = made("bytenet", layers=4, dilations=3, unfold=unfold, unfold_extra=extra)
    assert [block.dilation for block in model.decoder.blocks] == [1, 2, 4, 1]
    found = model(SOURCE, TARGET, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        places = math.ceil(unfold * length + extra - 1e-9)
        x = torch.zeros(max(places, length), 8, dtype=torch.float64)
        x[:length] = model.source_embedding(SOURCE[row : row + 1, :length])[0]
        x = x[:places]  # nothing is read behind the sentence
        for block in model.encoder.blocks:
            x = residual_block(block, x, causal=False)
        below = torch.zeros(TARGET.shape[1], 8, dtype=torch.float64)
        seen = min(places, len(below))
        below[:seen] = model.decoder.join(model.encoder.norm(x))[:seen]
        y = model.target_embedding(TARGET[row : row + 1])[0] + below
        for block in model.decoder.blocks:
            y = residual_block(block, y, causal=True)
        top = F.relu(model.decoder.top(F.relu(model.decoder.norm(y))))
        close(found[row], model.projection(top))


@given(
    unfold=st.integers(1, 3_000_000).map(lambda millionths: millionths / 1e6),
    extra=st.integers(0, 30),
    lengths=st.lists(st.integers(1, 2_000), min_size=1, max_size=8),
)
def test_bytenet_has_room_in_whole_numbers(unfold: float, extra: int, lengths: list[int]) -> None:
    """⌈a |s|⌉ + b, the same for one length and for many, which may stand on a device without float64."""
    config = ByteNetConfig(unfold=unfold, unfold_extra=extra)
    found = config.places(torch.tensor(lengths))
    assert found.dtype is torch.long
    assert found.tolist() == [config.places(length) for length in lengths]
    parts = [-(-length * Fraction(unfold).limit_denominator(1_000_000) // 1) for length in lengths]
    assert found.tolist() == [int(part) + extra for part in parts]


@torch.no_grad()
def test_convs2s_is_the_equations_of_the_paper() -> None:
    model = made("convs2s", embedding=6, readout=5, layers=2, stages=[[1, 8, 3], [1, 10, 3]])
    encoder, decoder = model.encoder, model.decoder
    found = model(SOURCE, TARGET, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        e = model.source_embedding(SOURCE[row : row + 1, :length])[0]
        close(e, model.source_embedding.table.weight[SOURCE[row, :length]] + model.source_embedding.positions[:length])
        h = encoder.into(e)
        for layer in encoder.layers:
            h = (layer.past(h) + F.glu(convolved(h, layer.convolution, 3, causal=False), dim=-1)) * HALF
        z = encoder.out(h)
        g = model.target_embedding(TARGET[row : row + 1])[0]
        h = decoder.into(g)
        for layer, look in zip(decoder.layers, decoder.looks):
            c = F.glu(convolved(h, layer.convolution, 3, causal=True), dim=-1)
            weights = (((look.ask(c) + g) * HALF) @ z.t()).softmax(dim=-1)
            context = weights @ ((z + e) * HALF) * (length * math.sqrt(1 / length))
            h = (layer.past(h) + (c + look.out(context)) * HALF) * HALF
        close(found[row], model.projection(decoder.readout(h)))


@torch.no_grad()
def test_what_convs2s_says_it_looked_at_is_the_mean_of_its_layers() -> None:
    from anaphora.nn.attention_capture import capture

    model = made("convs2s", decoder_layers=2)
    state = model.start(SOURCE, LENGTHS, 1, 10)
    with capture(model) as seen:
        _, _, looked = model.step(TARGET[:, 0], state, attention=True)
    paths = cross_attentions(model)
    assert paths == ["decoder.looks.0", "decoder.looks.1"]
    close(looked, torch.stack([seen.weights(path)[:, 0, 0] for path in paths]).mean(dim=0))


# Gradients and sizes ------------------------------------------------------------------------------------------------


def test_convs2s_tells_its_encoder_less_and_its_words_all() -> None:
    """Divided by twice the number of looks; the words' own share (z + e) is not."""
    model = made("convs2s", layers=1, decoder_layers=3)
    heard: dict[str, Tensor] = {}

    def listen(module: nn.Module, inputs: Any, z: Tensor) -> None:
        z.register_hook(lambda gradient: heard.update(z=gradient))

    hook = model.encoder.register_forward_hook(listen)
    memory = model.encode(SOURCE[:1], LENGTHS[:1])
    into_z, into_found = torch.randn_like(memory).chunk(2, dim=-1)
    (memory * torch.cat([into_z, into_found], dim=-1)).sum().backward()
    hook.remove()
    size = math.sqrt(5) * HALF
    close(heard["z"], (into_z + into_found * size) / 6)
    direct = torch.zeros_like(model.source_embedding.positions)
    direct[:5] = into_found[0] * size
    through = model.source_embedding.positions.grad - direct  # what came by way of the encoder
    model.zero_grad()
    z = model.encoder(model.source_embedding(SOURCE[:1]), LENGTHS[:1])
    z.backward((into_z + into_found * size) / 6)
    close(through, model.source_embedding.positions.grad)


@torch.no_grad()
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_convs2s_begins_with_vectors_of_one_size(dropout: float) -> None:
    """Of fifteen layers, none makes what passes much larger or smaller; no norm watches over it."""
    torch.manual_seed(1)
    encoder = ConvS2SEncoder(64, [(64, 3)] * 15, dropout=dropout).train()
    every: list[Tensor] = []
    encoder(torch.randn(8, 40, 64) * 0.1, None, every=every)
    assert all(0.05 < layer.std().item() < 0.2 for layer in every)


def test_a_length_is_learned_apart_from_a_direction() -> None:
    torch.manual_seed(1)
    layer = NormalizedLinear(5, 3, deviation=0.2)
    torch.testing.assert_close(layer.weight, layer.direction)  # at the beginning
    layer(torch.randn(4, 5)).square().sum().backward()
    assert layer.direction.grad is not None
    along = (layer.direction.grad * layer.direction).sum(dim=1)  # a longer v is the same W
    torch.testing.assert_close(along, torch.zeros(3), atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_weight_that_was_made_once_is_made_again_when_it_has_changed() -> None:
    layer, x = NormalizedLinear(5, 3, deviation=0.2).eval(), torch.randn(4, 5)
    before = layer(x)
    assert layer.weight is layer.weight  # not at every step
    layer.length.mul_(2)
    torch.testing.assert_close(layer(x) - layer.bias, 2 * (before - layer.bias))
    layer.direction.copy_(torch.randn(3, 5))
    torch.testing.assert_close(layer.weight.norm(dim=1), layer.length)
    assert layer.double().weight.dtype is torch.float64


@pytest.mark.parametrize("learning", [True, False], ids=["in training mode", "in use mode"])
def test_a_validation_sees_what_a_fused_optimiser_has_changed(learning: bool) -> None:
    """It changes weights in place and does not count it, as a replayed graph does not."""
    layer, x = NormalizedLinear(5, 3, deviation=0.2).eval(), torch.randn(4, 5)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        with torch.inference_mode():  # a validation
            said = layer(x)
        fresh = layer.length[:, None] * F.normalize(layer.direction, dim=1)
        torch.testing.assert_close(said, F.linear(x, fresh, layer.bias).detach())
        layer.train(learning)
        layer(x).square().sum().backward()
        optimizer.step()
        layer.eval()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bytenet", "convs2s"])
def test_what_is_kept_while_speaking_does_not_grow_with_what_is_said(kind: str) -> None:
    model = made(kind, layers=4)
    sizes = []
    for longest in (4, 20):
        state = model.start(SOURCE, LENGTHS, 2, longest)
        sizes.append(sum(tensor.numel() for tensor in (state.memory | state.past).values()))
        assert not state.growing
    assert sizes[0] == sizes[1]
    assert model.cache_bytes_per_token() == 0


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "bytenet", "width": 4}, "width is 4: the encoder's windows have their place in the middle"),
        ({"kind": "convs2s", "width": 2}, "width is 2: the encoder's windows have their place in the middle"),
        ({"kind": "convs2s", "stages": [[4, 8, 2]]}, "width is 2"),
        ({"kind": "convs2s", "stages": [[3, 8, 3]]}, "stages have 3 layers, layers is 4, decoder_layers 4"),
        ({"kind": "convs2s", "stages": [4, 8, 3]}, r"a stage is \[layers, dim, width\]"),
        ({"kind": "convs2s", "encoder": "transformer", "embedding": 6}, r"\(6\) must be a multiple of heads \(4\)"),
        ({"kind": "convs2s", "encoder": "gru", "embedding": 7}, "two directions share 7 dimensions"),
        ({"kind": "bytenet", "encoder": "lstm"}, "bytenet's decoder stands on its own encoder"),
        ({"kind": "transformer", "decoder": "bytenet"}, "bytenet's decoder stands on its own encoder"),
        ({"kind": "bytenet", "dilations": 0}, "dilations must be 1 to 12"),
        ({"kind": "bytenet", "unfold": 0}, "unfold must be above 0"),
        ({"kind": "bytenet", "unfold_extra": -1}, "unfold_extra 0 to 10,000"),
        ({"kind": "bytenet", "hidden": 0}, "hidden must be above 0"),
        ({"kind": "convs2s", "readout": 0}, "readout must be above 0"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        settings({"dim": 8, **({"layers": 4} if changes["kind"] != "transformer" else {}), **changes})


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word"])
def test_bytenet_on_words_is_refused(kind: str) -> None:
    with pytest.raises(UserError, match=f"letter by letter, and tokenizer.kind={kind} makes words") as caught:
        complete("bytenet", {"tokenizer": {"kind": kind}}, pairs=1_000)
    assert "tokenizer.kind=byte" in str(caught.value.cure)
    for spelt in ("byte", "character"):
        assert complete("bytenet", {"tokenizer": {"kind": spelt}}, pairs=1_000).tokenizer.kind == spelt


def test_bytenet_has_no_attention_to_align_by() -> None:
    assert no_weights(made("bytenet")) == "the model has no attention over the source"
    assert no_weights(made("convs2s")) is None
    with pytest.raises(UserError, match="coverage_penalty needs a model that attends"):
        complete("bytenet", {"decoding": {"coverage_penalty": 0.2}}, pairs=1_000)
