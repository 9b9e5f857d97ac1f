"""Backpacks: the sum as it is written, what it is made of, its limiting case, and every way through it the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models import build_language_model, settings
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.sense_table import FILE, SenseTable
from anaphora.nn.kernels.sense_sums import distinct
from anaphora.tasks.recipes import load_recipe
from anaphora.tokenizers.tokenizer import BOS
from neural_rungs import CAUSAL, rung

BODIES = ["backpack", "backpack lstm", "backpack conv"]
VOCABULARY = 12


@pytest.fixture(params=BODIES)
def model(request: pytest.FixtureRequest) -> Any:
    return CAUSAL[request.param]()


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(2, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def close(a: Tensor, b: Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


# The model ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "number"), [("micro", 41_659_776), ("mini", 103_856_000), ("small", 170_083_584)])
def test_published_numbers_of_parameters(name: str, number: int) -> None:
    with torch.device("meta"):
        model = build_language_model(settings(load_recipe(f"backpack-{name}")["model"]), 50_264)  # type: ignore[arg-type]
    assert model.parameter_count() == number


def test_the_sum_as_it_is_written(model: Any) -> None:
    """Word by word and sense by sense, with a table for the words, the senses and the output: one and the same."""
    ids = some(1, 6)
    weights, table = model.sense_weights(ids), model.embedding.table.weight
    assert weights.shape == (1, model.senses_count, 6, 6)
    close(weights.sum(-1), torch.ones(1, model.senses_count, 6))
    assert not weights.triu(1).any()
    senses = model.sense_network(table[ids[0]])  # (6, k, dim)
    for place in range(6):
        o = torch.zeros(model.dim)
        for before in range(place + 1):
            for sense in range(model.senses_count):
                o = o + weights[0, sense, place, before] * senses[before, sense]
        close(model.mixed(ids)[0, place], o)
        close(model(ids)[0, place], table @ o)
    assert model.head.weight is table and model.head.bias is None


def test_the_sense_network_step_by_step() -> None:
    """The step that is an accident included: the first norm's output is added to what it was made of."""
    network = CAUSAL["backpack"]().sense_network
    e = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))

    def norm(x: Tensor, layer: Any) -> Tensor:
        return F.layer_norm(x, (8,), layer.weight, layer.bias, 1e-5)

    def gelu(x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))

    r = e + norm(e, network.norm)
    r = r + network.outer(gelu(network.inner(norm(r, network.inner_norm))))
    said = network.last_outer(gelu(network.last_inner(norm(r, network.outer_norm))))
    close(network(e), said.view(3, 4, 8))


def test_one_sense_with_equal_weights_is_cbow() -> None:
    """k = 1 and α = 1/n: the mean of the words' vectors before an output table (Mikolov et al. 2013), which is what
    models/vectors/word2vec.py scores a word with; here the words before stand in the place of a window."""
    model = CAUSAL["backpack of one sense"]()
    for parameter in (model.query_key.weight, model.query_key.bias):
        parameter.zero_()  # every place is as near as any other
    ids = some(2, 7)
    vectors = model.sense_vectors(torch.arange(VOCABULARY))[:, 0]  # (V, dim): the words' input vectors
    counts = torch.arange(1, 8)[:, None]
    means = vectors[ids].cumsum(1) / counts
    close(model.sense_weights(ids)[:, 0], (torch.ones(7, 7).tril() / counts).expand(2, 7, 7))
    close(model(ids), means @ model.vocabulary_matrix.T)


@pytest.mark.parametrize("name", BODIES)
def test_once_for_each_distinct_word_is_once_for_each_place(name: str) -> None:
    """Values and gradients of every weight, without dropout."""
    model = CAUSAL[name]().requires_grad_(True)
    ids = some(3, 9)
    types, slots = map(torch.from_numpy, distinct(ids.numpy(), VOCABULARY))
    places = torch.arange(ids.numel())
    found = []
    for known in ((types, slots), (ids.flatten(), places.view_as(ids)), None):
        model.zero_grad()
        x, _, _ = model.encode(ids, distinct=known)
        loss = F.cross_entropy(model.head(x).flatten(0, 1), ids.flatten())
        loss.backward()
        found.append([x.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) == 1 + len(list(model.parameters()))
    for one, *others in zip(*found):
        for other in others:
            close(one, other)


def test_training_sends_the_distinct_words_along() -> None:
    import numpy as np

    from anaphora.data.language_batches import LanguageBatch
    from anaphora.training.objectives.language_objective import LanguageObjective

    model = CAUSAL["backpack"]()
    batch = LanguageBatch(np.array([[BOS, 4, 5, 4, 6]]), np.array([5]), rows=1)
    plain, knowing = LanguageObjective(), LanguageObjective(distinct=VOCABULARY)
    sent = knowing.send(batch, torch.device("cpu"))
    assert sent.types is not None and sent.types.tolist() == [BOS, 4, 5]
    close(knowing(model, sent), plain(model, plain.send(batch, torch.device("cpu"))))
    assert knowing.flops(model, sent) == plain.flops(model, sent) < model.flops(4, 4.0)


def test_one_draw_of_dropout_holds_for_all_places_of_a_word() -> None:
    model = rung("backpack", senses=2, sense_dropout=0.5)().train()
    ids = torch.tensor([[5, 6, 5, 5]])
    types, slots = map(torch.from_numpy, distinct(ids.numpy(), VOCABULARY))
    drawn = [model.sense_vectors(types)[slots[0]] for _ in range(2)]
    assert torch.equal(drawn[0][0], drawn[0][3]) and not torch.equal(drawn[0], drawn[1])


# A table of senses ----------------------------------------------------------------------------------------------------


def test_the_table_has_what_the_network_says(model: Any, tmp_path: Any) -> None:
    ids, lengths = some(3, 9), torch.tensor([9, 4, 7])
    plain = model.score(ids, lengths)
    exact = SenseTable.build(model, dtype=torch.float32)
    close(exact.rows(torch.tensor([7, 2, 7])), model.sense_vectors(torch.tensor([7, 2, 7])))
    model.attach(exact)
    close(model.score(ids, lengths), plain)
    exact.save(tmp_path)
    opened = SenseTable.open(tmp_path, model)
    assert torch.equal(opened.senses, exact.senses)
    half = SenseTable.build(model)
    assert half.senses.dtype == torch.bfloat16
    model.attach(half)
    torch.testing.assert_close(model.score(ids, lengths), plain, atol=0.3, rtol=0.02)
    assert not torch.equal(model.score(ids, lengths), plain)
    model.attach(None)
    assert torch.equal(model.score(ids, lengths), plain)


@pytest.mark.parametrize("table", ["none", "table", "rewritten"])
def test_step_by_step_is_all_at_once(model: Any, table: str) -> None:
    """One token at a time, a prompt at once and then on, several at once: with senses computed, looked up, changed."""
    if table != "none":
        model.attach(SenseTable.build(model, dtype=torch.float32))
    if table == "rewritten":
        model.rewrite = lambda ids, senses: senses * torch.where(ids == 5, 0.0, 1.5)[:, None, None]
    ids = some(2, 8)
    whole = F.log_softmax(model(ids), dim=-1)
    state = model.start(2, 8)
    assert ("sense_id" in state.past) == (table == "table")
    for place in range(8):
        said, state = model.step(ids[:, place], state)
        close(said, whole[:, place])
    state = model.read(ids[:, :5], torch.tensor([5, 3]), 8)
    said, _ = model.extend(torch.stack([ids[0, 5:8], ids[1, 3:6]]), state)
    close(said[0], whole[0, 5:8])
    close(said[1], whole[1, 3:6])
    state = model.rewind(state, torch.tensor([2, 3]))  # and taken back
    said, _ = model.step(torch.stack([ids[0, 6], ids[1, 3]]), state)
    close(said, torch.stack([whole[0, 6], whole[1, 3]]))


def test_rows_change_places(model: Any) -> None:
    """reorder, select and insert move keys, words and senses alike."""
    model.attach(SenseTable.build(model, dtype=torch.float32))
    ids = some(3, 4)
    whole = F.log_softmax(model(ids), dim=-1)
    state = model.read(ids[:, :3], torch.full((3,), 3), 6)
    kept = state.select(torch.tensor([2, 0]))
    said, kept = model.step(ids[[2, 0], 3], kept)
    close(said, whole[[2, 0], 3])
    other = model.read(ids[:, :3], torch.full((3,), 3), 6)
    other.insert(torch.tensor([1]), model.read(ids[2:, :3], torch.tensor([3]), 6))
    said, _ = model.step(ids[[0, 2, 2], 3], other)
    close(said, whole[[0, 2, 2], 3])


def test_a_table_of_other_weights_is_refused(tmp_path: Any) -> None:
    one, other = CAUSAL["backpack"](), CAUSAL["backpack"]()
    other.sense_network.outer.bias[0] += 1
    with pytest.raises(UserError, match="holds no table of senses"):
        SenseTable.open(tmp_path, one)
    SenseTable.build(one).save(tmp_path)
    SenseTable.open(tmp_path, one)
    with pytest.raises(UserError, match="of another model"):
        SenseTable.open(tmp_path, other)
    (tmp_path / FILE).write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="is no table of senses"):
        SenseTable.open(tmp_path, one)


def test_a_table_has_no_dropout_even_of_a_model_that_is_learning() -> None:
    model = rung("backpack", sense_dropout=0.5)().train()
    table = SenseTable.build(model, dtype=torch.float32)
    assert model.training and model.sense_network.training
    assert torch.equal(table.senses, SenseTable.build(model.eval(), dtype=torch.float32).senses)


def test_training_never_looks_senses_up() -> None:
    model = rung("backpack", dropout=0.0)()
    model.attach(SenseTable(torch.zeros(VOCABULARY, 2, 8), ""))
    assert not model.sense_vectors(torch.tensor([4])).any()
    assert model.train().sense_vectors(torch.tensor([4])).any()


# Settings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"senses": 3}, r"dim \(8\) must be a multiple of senses \(3\); .*senses=2"),
        ({"senses": 0}, "senses must be above 0"),
        ({"tie": False}, "one table for all"),
        ({"output_bias": True}, "no bias"),
        ({"labels": ["a", "b"]}, "says words, not classes; take kind transformer-decoder"),
        ({"encoder": "lstm", "heads": 2}, "heads means nothing where encoder is lstm"),
        ({"hidden": 8}, "hidden means nothing where encoder is transformer-decoder"),
        ({"encoder": "transformer-encoder"}, "model.encoder cannot be 'transformer-encoder'"),
        ({"encoder": "lstm", "max_length": 100}, "max_length means nothing where encoder is lstm"),
        ({"heads": 3}, r"dim \(8\) must be a multiple of heads \(3\)"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        settings({"kind": "backpack", "dim": 8, "senses": 2} | changes)


@pytest.mark.parametrize("token", [-1, 20])
def test_only_tokens_of_the_vocabulary_are_silent(token: int) -> None:
    with pytest.raises(UserError, match=f"silent has token {token}, and the vocabulary has tokens 0 to 19"):
        build_language_model(settings({"kind": "backpack", "dim": 8, "senses": 2, "silent": [3, token]}), 20)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoder", ["transformer-decoder", "lstm", "gru", "rnn", "conv", "window", "dan"])
def test_every_causal_encoder_is_a_contextualiser(encoder: str) -> None:
    model = build_language_model(settings({"kind": "backpack", "dim": 8, "senses": 2, "encoder": encoder}), 20).eval()  # type: ignore[arg-type]
    assert isinstance(model, Backpack)
    ids = torch.tensor([[BOS, 7, 7, 3]])
    weights = model.sense_weights(ids)
    close(weights.sum(-1), torch.ones(1, 2, 4))
    state, whole = model.start(1, 4), F.log_softmax(model(ids), dim=-1)
    for place in range(4):
        said, state = model.step(ids[:, place], state)
        close(said, whole[:, place])
