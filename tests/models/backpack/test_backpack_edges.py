"""Backpacks where a mistake would hide: packed texts, rows in parts, tables of other words, how weights begin, dropout,
and precisions that meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anaphora.errors import UserError
from anaphora.models import build_language_model, settings
from anaphora.models.backpack import backpack
from anaphora.models.backpack.backpack_settings import BackpackConfig
from anaphora.models.backpack.sense_table import FILE, SenseTable, fingerprint_of
from anaphora.nn.kernels.sense_sums import mix
from anaphora.nn.sense_network import DEVIATION
from neural_rungs import CAUSAL, rung

BODIES = ["backpack", "backpack of near senses"]
FIRST, SECOND = torch.tensor([[1, 5, 6, 7]]), torch.tensor([[1, 8, 9]])


@pytest.mark.parametrize("name", BODIES)
def test_packed_texts_are_texts_alone(name: str) -> None:
    """Both the contextualizer and the senses keep to their own document."""
    model: Any = CAUSAL[name]()
    ids, documents = torch.cat([FIRST, SECOND], dim=1), torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    alone = torch.cat([model(FIRST), model(SECOND)], dim=1)
    torch.testing.assert_close(model(ids, documents=documents), alone, atol=1e-5, rtol=1e-5)
    weights = model.sense_weights(ids, documents=documents)
    assert not weights[..., 4:, :4].any()
    torch.testing.assert_close(weights[..., 4:, 4:], model.sense_weights(SECOND), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("table", [False, True])
def test_rows_a_few_at_a_time_are_all_rows(name: str, table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading prompts of several lengths gathers senses of some rows, then of others."""
    model: Any = CAUSAL[name]()
    if table:
        model.attach(SenseTable.build(model, dtype=torch.float32))
    monkeypatch.setattr(backpack, "MAX_SENSE_NUMBERS", 1)
    ids = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 4, 0, 0], [1, 8, 8, 5, 0]])
    whole = F.log_softmax(model(ids), dim=-1)
    lengths = torch.tensor([4, 2, 3])
    last = ids.gather(1, lengths[:, None])[:, 0]
    said, _ = model.step(last, model.read(ids[:, :4], lengths, 6))
    wanted = whole[torch.arange(3), lengths]
    torch.testing.assert_close(said, wanted, atol=2e-5, rtol=2e-5)


def test_a_table_of_other_words_is_refused_and_nothing_unfinished_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = CAUSAL["backpack"](), CAUSAL["backpack"]()
    other.vocabulary_matrix[-1, -1] += 1  # the very last number
    SenseTable.build(one).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    with pytest.raises(UserError, match="of another model"):
        SenseTable.open(tmp_path, other)
    written = (tmp_path / FILE).read_bytes()
    SenseTable(torch.zeros(12, 2, 8), fingerprint_of(one)).save(tmp_path)  # as many senses as it has not
    with pytest.raises(UserError, match="of another model"):
        SenseTable.open(tmp_path, one)
    (tmp_path / FILE).write_bytes(written)
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(UserError, match="cannot be written"):
        SenseTable.build(other).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE] and (tmp_path / FILE).read_bytes() == written


def test_how_senses_begin() -> None:
    """With GPT-2's deviations; what ends in the residual, less, by the layers of the contextualizer."""
    torch.manual_seed(1)
    model: Any = build_language_model(settings({"kind": "backpack", "dim": 64, "senses": 4, "layers": 8}), 20)  # type: ignore[arg-type]
    network = model.sense_network
    for layer in (network.inner, network.last_inner, network.last_outer):
        assert layer.weight.detach().std().item() == pytest.approx(DEVIATION, rel=0.05) and not layer.bias.any()
    assert network.outer.weight.detach().std().item() == pytest.approx(DEVIATION / 4, rel=0.05)


@pytest.mark.parametrize(
    ("dim", "senses", "said", "near"),
    [(64, 16, None, 8), (60, 3, None, 2), (32, 1, None, 1), (64, 4, 0, 0), (64, 4, 4, 4)],
)
def test_near_senses_begin_at_their_own_place(dim: int, senses: int, said: int | None, near: int) -> None:
    torch.manual_seed(1)
    shape = {"kind": "backpack", "dim": dim, "senses": senses, "near_senses": said, "heads": 2, "layers": 2}
    model: Any = build_language_model(settings(shape), 20).eval()  # type: ignore[arg-type]
    assert not model.query_key.bias.any()
    query, key = model.query_key.weight.detach().chunk(2)
    rows = near * dim // senses
    assert torch.equal(query[:rows], key[:rows])
    torch.testing.assert_close(query[:rows] @ query[:rows].T, torch.eye(rows), atol=1e-5, rtol=0)
    for rest in (query[rows:], key[rows:]):
        assert not len(rest) or float(rest.std()) == pytest.approx(DEVIATION, rel=0.1)
    ids = torch.stack([torch.randperm(17)[:8] + 3 for _ in range(4)])
    own = model.sense_weights(ids).diagonal(dim1=2, dim2=3)[..., -1].mean(dim=0)  # (k,): at the last of eight places
    assert (own[:near] > 1.5 / 8).all()
    torch.testing.assert_close(own[near:], torch.full((senses - near,), 1 / 8), atol=0.02, rtol=0)


def test_norms_have_the_contextualisers_epsilon() -> None:
    network = rung("backpack", epsilon=0.1)().sense_network
    assert {network.norm.eps, network.inner_norm.eps, network.outer_norm.eps} == {0.1}
    assert rung("backpack", encoder="lstm")().sense_network.norm.eps == 1e-5


def test_every_dropout_of_the_sense_network() -> None:
    """In front of each of the three residual sums: with one half gone, the numbers of the other are doubled."""
    network = rung("backpack", sense_dropout=0.5)().sense_network.train()
    drawn: list[Any] = []
    network.dropout.register_forward_hook(lambda module, given, said: drawn.append((given[0], said)))
    e = torch.randn(50, 8)
    network(e)
    assert len(drawn) == 3 and torch.equal(drawn[0][0], e)
    torch.testing.assert_close(drawn[1][0], network.norm(drawn[0][1]))
    assert all(0.3 < float((said == 0).float().mean()) < 0.7 for _, said in drawn)
    quiet = rung("backpack", dropout=0.5)().sense_network.train()  # the contextualiser's is not theirs
    assert torch.equal(quiet(e), quiet(e))


@pytest.mark.parametrize("near", [-1, 17])
def test_more_near_senses_than_there_are(near: int) -> None:
    with pytest.raises(ValueError, match=rf"near_senses is {near}; of 16 senses 0 to 16 can be near"):
        BackpackConfig(near_senses=near)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_sense_dropout_that_is_none(rate: float) -> None:
    with pytest.raises(ValueError, match=r"sense_dropout is .* at least 0 and less than 1"):
        BackpackConfig(sense_dropout=rate)


def test_output_dropout_is_on_the_sum_and_penalties_see_it_whole() -> None:
    model = rung("backpack", dropout=0.0, output_dropout=0.5)().train()
    x, raw, past = model.encode(FIRST)
    assert past is None and (x == 0).any() and (raw != 0).all()
    torch.testing.assert_close(x[x != 0], 2 * raw[x != 0])


def test_senses_of_another_precision_than_queries() -> None:
    """As in autocast, where a table is in the weights' precision and a linear layer's queries are not."""
    generator = torch.Generator().manual_seed(1)
    query, key = (torch.randn(2, 5, 2, 4, generator=generator).bfloat16() for _ in range(2))
    senses, slots = torch.randn(3, 2, 8, generator=generator), torch.arange(10).view(2, 5) % 3
    given = senses.clone().requires_grad_()
    mixed = mix(query, key, given, slots)
    assert mixed.dtype == torch.bfloat16 and torch.equal(mixed, mix(query, key, senses.bfloat16(), slots))
    mixed.sum().backward()
    assert given.grad is not None and given.grad.dtype == torch.float32


def test_nothing_is_carried_from_row_to_row() -> None:
    assert not CAUSAL["backpack lstm"]().carries and rung("lstm")().carries


def test_a_gradient_of_gradients_is_refused_not_wrong() -> None:
    query, key, senses = (torch.randn(*shape, requires_grad=True) for shape in ((1, 3, 1, 2), (1, 3, 1, 2), (2, 1, 2)))
    out = mix(query, key, senses, torch.tensor([[0, 1, 1]])).square().sum()
    (first,) = torch.autograd.grad(out, query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@torch.no_grad()
def test_silent_tokens_are_read_and_never_said() -> None:
    """Whichever way the head is asked: all at once, a step, several steps, a score; the others share what they had."""
    plain, model = rung("backpack")(), rung("backpack", silent=[0, 1, 3])()
    model.load_state_dict(plain.state_dict())
    logits, silent = plain(FIRST), [0, 1, 3]
    assert logits.softmax(-1)[..., silent].sum(-1).min() > 0.01  # something to lose
    logits[..., silent] = -torch.inf
    wanted = logits.log_softmax(-1)  # (1, 4, V)
    said, state = model.step(FIRST[:, 0], model.start(1, 5))
    more, _ = model.extend(FIRST[:, 1:], state)
    for found in (model(FIRST).log_softmax(-1), torch.cat([said[:, None], more], dim=1)):
        assert (found[..., silent].exp() == 0).all() and torch.isfinite(found).all()
        others = [token for token in range(wanted.shape[-1]) if token not in silent]
        torch.testing.assert_close(found[..., others], wanted[..., others], atol=2e-5, rtol=2e-5)
    after = FIRST[:, 1:]  # what each place says of the next, ⟨s⟩ being put before
    scores = model.score(after, torch.tensor([3]))
    torch.testing.assert_close(scores, wanted[:, :3].gather(2, after[..., None])[..., 0], atol=2e-5, rtol=2e-5)


@torch.no_grad()
def test_scores_of_the_second_layer_are_halved() -> None:
    """`inverse_layer_scale`: the same as queries that are smaller by the layer's number."""
    plain, model = (rung("backpack", layers=3, inverse_layer_scale=scaled)() for scaled in (False, True))
    model.load_state_dict(plain.state_dict())
    assert not torch.allclose(model(FIRST), plain(FIRST), atol=1e-4)
    for number, block in enumerate(plain.encoder.blocks, start=1):
        for parameter in block.attention.query_key_value.parameters():
            parameter[: model.dim] /= number
    torch.testing.assert_close(model(FIRST), plain(FIRST), atol=2e-5, rtol=2e-5)


def test_only_a_transformer_has_a_longest_row() -> None:
    assert rung("backpack", encoder="lstm")().config.max_length is None and rung("backpack")().config.max_length
    whole: Any = build_language_model(settings({"kind": "backpack", "dim": 8, "senses": 2, "encoder": "lstm"}), 20)  # type: ignore[arg-type]
    assert whole.max_length is None and whole.config.max_length is None
