"""Every score in every system that attends: fast ways are plain ways, steps are whole passes, captures are what was
used. Four scores are new, one in each of the ways that nn/scores.py knows, as anybody would add them; the first is that
of docs/extending.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from anaphora.alignment.model_alignment import cross_attentions
from anaphora.errors import UserError
from anaphora.explain.walk import walk_attention
from anaphora.explain.walk_file import walk_file
from anaphora.models import build, settings
from anaphora.nn.attention import attend, explain_backend
from anaphora.nn.attention_backends import NORMALIZERS
from anaphora.nn.attention_capture import attention_layers, capture
from anaphora.nn.scores import SCORES, Score, register, score_named
from anaphora.nn.source_attention import SourceAttention
from anaphora.nn.transformer import TransformerEncoder
from anaphora.tasks.settings_listing import find_settings

EXTENDING = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
PAGE: dict[str, Any] = {"__name__": "extending", "Score": Score, "register": lambda score: score}
exec(re.findall(r"```python\n(class HalfDot.*?)```", EXTENDING, re.DOTALL)[0], PAGE)
HalfDot: type[Score] = PAGE["HalfDot"]


class Diagonal(Score):
    """Each dimension counts for as much as was learned."""

    name = "diagonal"
    formula = "Σ wᵢ qᵢ kᵢ"
    symbol = "w"

    def matrix(self, weight: Tensor | None) -> Tensor:
        assert weight is not None
        return weight.diag_embed()

    def weight_shape(self, query_size: int, key_size: int) -> tuple[int, ...]:
        return (query_size,)

    def new_weight(self, heads: int, query_size: int, key_size: int, *, projected: bool) -> Tensor:
        return torch.rand(heads, query_size)


class Bent(Score):
    """A query cannot ask loudly."""

    name = "bent"
    formula = "tanh(q) · k"

    def prepare(self, query: Tensor, weight: Tensor | None) -> Tensor:
        return query.tanh()


class Near(Score):
    """The nearer, the better."""

    name = "near"
    formula = "-|q - k|²"

    def scores(self, query: Tensor, key: Tensor, weight: Tensor | None) -> Tensor:
        return -(query[:, :, :, None] - key[:, :, None]).square().sum(dim=-1)


OWN = HalfDot(), Diagonal(), Bent(), Near()
EVERY = list(dict.fromkeys([*SCORES, *(one.name for one in OWN)]))


@pytest.fixture(autouse=True)
def own_scores() -> Iterator[None]:
    new = [register(score) for score in OWN if score.name not in SCORES]
    yield
    for score in new:
        del SCORES[score.name]


SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [7, 2, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
TARGET = torch.tensor([[1, 4, 5, 6], [1, 8, 9, 7], [1, 10, 11, 12]])
SYSTEMS: dict[str, dict[str, Any]] = {
    "transformer": {"heads": 2, "feed_forward": 8, "key_value_heads": 1},
    "transformer linear": {"heads": 2, "feed_forward": 8, "normalizer": "none"},
    "bahdanau": {},
    "bahdanau lstm": {"cell": "lstm"},
    "luong": {},
    "luong gru, two layers": {"cell": "gru", "layers": 2},
    "luong whole": {"input_feeding": False},
    "deep-att": {"layers": 2, "decoder_layers": 2},
    "gnmt": {"layers": 2},
    "moe": {"experts": 2},
}


def made(system: str, score: str, *, plain: bool) -> Any:
    """With that score, as fast as it can be or by the plain loop and the reference."""
    kind = system.split()[0]
    slow = {"attention": "reference"} if kind == "transformer" else {"unroll": "steps"}
    said = {"kind": kind, "dim": 8, "layers": 1, "max_length": 20, "dropout": 0.0, "tie": "none", "score": score}
    torch.manual_seed(2)
    model: Any = build(settings({**said, **SYSTEMS[system], **(slow if plain else {})}), 19, 19)
    return model.double().eval()


def learned(model: Any) -> dict[str, Tensor]:
    """What it says, and the gradient of every parameter."""
    out = model(SOURCE, TARGET, LENGTHS)
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return {"out": out.detach(), **{name: one.grad for name, one in model.named_parameters() if one.grad is not None}}


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("score", EVERY)
@pytest.mark.parametrize("system", SYSTEMS)
def test_fast_is_plain_steps_are_a_pass_and_captures_are_what_was_used(system: str, score: str) -> None:
    model, plain = made(system, score, plain=False), made(system, score, plain=True)
    found, wanted = learned(model), learned(plain)
    assert found.keys() == wanted.keys()
    for name, expected in wanted.items():
        close(found[name], expected)
    if score == "half-dot":  # not what they would compute who know nothing of it
        assert not torch.allclose(found["out"], learned(made(system, "dot", plain=False))["out"], rtol=1e-3)
    with torch.no_grad():
        paths = cross_attentions(model)
        with capture(model, paths) as seen:
            close(model(SOURCE, TARGET, LENGTHS), found["out"])
        whole = model.log_probabilities(SOURCE, TARGET, LENGTHS)
        state = model.start(SOURCE, LENGTHS, 1, 10)
        for t, words in enumerate(TARGET.unbind(1)):
            said, state, looked = model.step(words, state, attention="attends" in model.capabilities)
            torch.testing.assert_close(said, whole[:, t], atol=1e-6, rtol=1e-5)
            if looked is not None:
                close(looked, seen.weights(paths[-1]).mean(dim=1)[:, t])
    for path in paths:
        (call,) = seen[path]
        close(call.weights @ call.value, call.context)
        assert (call.weights[2, :, :, 2:] == 0).all()  # padding


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("score", EVERY)
def test_language_models_may_choose_too(score: str, normalizer: Any) -> None:
    """Fast = reference, with gradients; in pieces = at once; captured = used."""
    encoders = []
    for backend in ("auto", "reference"):
        torch.manual_seed(5)
        shape: dict[str, Any] = {"layers": 2, "heads": 2, "key_value_heads": 1, "causal": True, "backend": backend}
        encoders.append(TransformerEncoder(8, score=score, normalizer=normalizer, **shape).double().eval())
    x = torch.randn(2, 70, 8, dtype=torch.float64, requires_grad=True)  # long enough for sums to come first
    outs = [encoder(x) for encoder in encoders]
    close(*outs)
    direction = torch.randn_like(outs[0])
    parameters = [[x, *encoder.parameters()] for encoder in encoders]
    for fast, plain in zip(*(torch.autograd.grad(out, given, direction) for out, given in zip(outs, parameters))):
        close(fast, plain)
    encoder = encoders[0]
    with torch.no_grad():
        past, pieces = encoder.start(2, 70, x[:, 0]), []
        for piece in x.split([60, 9, 1], dim=1):
            y, past = encoder.read(piece, past)
            pieces.append(y)
        close(torch.cat(pieces, dim=1), outs[0])
        with capture(encoder) as seen:
            close(encoder(x), outs[0])
    for path, layer in attention_layers(encoder).items():
        (call,) = seen[path]
        assert layer.score is score_named(score)
        close(call.weights @ call.value, call.context)


def test_who_computes_each() -> None:
    """A new score is as fast as the way in which it is written allows; none falls through to another one."""
    x = torch.randn(1, 1, 20, 4)
    for score, backend, in_loops in (("half-dot", "sdpa", True), ("bent", "sdpa", False), ("near", "reference", False)):
        assert explain_backend(x, x, x, score=score).name == backend
        assert (SourceAttention(4, 4, score=score).in_loops() is not None) == in_loops
    assert SourceAttention(4, 4, score="diagonal").in_loops() is not None
    with pytest.raises(ValueError, match="backend 'sdpa' cannot do this: near scores are no dot product"):
        attend(x, x, x, score="near", backend="sdpa")

    class Louder(type(SCORES["additive"])):  # type: ignore[misc]
        def scores(self, query: Tensor, key: Tensor, weight: Tensor | None) -> Tensor:
            return 2 * super().scores(query, key, weight)

    chosen = {"score": Louder(), "weight": torch.randn(4)}
    assert explain_backend(x, x, x, **chosen).name == "reference"  # not the kernel of what it derives from
    assert SourceAttention(4, 4, score=Louder()).in_loops() is None


def test_a_score_says_one_thing() -> None:
    with pytest.raises(TypeError, match="exactly one of scale, matrix, prepare, scores; Both says scale and scores"):
        type("Both", (HalfDot,), {"scores": Near.scores})
    with pytest.raises(TypeError, match="Nothing says none of them"):
        type("Nothing", (Score,), {})
    other = type("Other", (Near,), {})
    with pytest.raises(UserError, match="there is a score 'near' already"):
        register(other())
    with pytest.raises(UserError, match="is no Score"):
        register(Near)  # type: ignore[arg-type]
    assert register(Near()) is SCORES["near"]  # the same file, read again


@pytest.mark.parametrize("kind", ["transformer", "luong", "bahdanau", "gnmt"])
def test_settings_know_a_new_score_by_its_name(kind: str) -> None:
    assert settings({"kind": kind, "score": "half-dot"}).score == "half-dot"  # type: ignore[union-attr]
    with pytest.raises(UserError, match="did you mean 'half-dot'"):
        settings({"kind": kind, "score": "halv-dot"})
    (listed,) = (one for one in find_settings("model.score") if kind in one.kinds)
    assert "half-dot" in listed.type and "½ q · k (half-dot)" in listed.meaning


def test_settings_say_what_does_not_fit_a_new_score() -> None:
    with pytest.raises(UserError, match="rotary positions show in plain dot products; with near scores"):
        settings({"kind": "transformer", "score": "near", "positions": "rotary"})
    settings({"kind": "transformer", "score": "half-dot", "positions": "rotary"})
    with pytest.raises(UserError, match="score=near compares vectors of one width"):
        settings({"kind": "luong", "score": "near", "encoder_dim": 4})
    with pytest.raises(UserError, match="attention_dim is for additive scores; score is half-dot"):
        settings({"kind": "bahdanau", "score": "half-dot", "attention_dim": 4})


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("score", [one.name for one in OWN])
def test_walks_show_a_new_score(score: str, normalizer: str, tmp_path: Path) -> None:
    weight = [1.0, 2.0] if score == "diagonal" else None
    rows = [[1.0, 0.5], [0.25, 2.0]]
    walk = walk_attention(
        rows, rows, rows, rows=list("ab"), score=score, weight=weight, normalizer=normalizer, causal=True
    )
    assert walk.holds
    assert walk.settings["score"] == score
    expected = {"half-dot": 2.03125, "diagonal": 8.0625}  # of b and b
    step = walk.step("S")
    if score in expected:
        assert step.values[1, 1] == expected[score]
    if score == "half-dot":
        assert step.formula == "S = Q Kᵀ / 2"
    if score == "near":
        assert step.arithmetic is not None
        assert (step.formula, step.arithmetic(0, 1)) == ("S = -|q - k|²", ["-|q-k|² = -2.812"])
    text = f"tokens: [a, b]\nQ: {rows}\nK: {rows}\nV: {rows}\nscore: {score}\ncausal: true\nnormaliser: {normalizer}\n"
    file = tmp_path / "own.yaml"
    file.write_text(text + ("" if weight is None else f"w: [{weight}]\n"))
    assert (walk_file(file).step("S").values == step.values).all()
