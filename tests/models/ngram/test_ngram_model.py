"""The counting language model behind the contract: score, start, step; rows side by side; its settings."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.generation import generate
from anaphora.errors import UserError
from anaphora.models.contracts import DecoderState
from anaphora.models.ngram.kernels.ngrams import NOWHERE, walk
from anaphora.models.ngram.limited import LimitedModel
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel
from anaphora.models.ngram.threads import CORES
from anaphora.tokenizers.tokenizer import BOS, EOS
from deadly import in_a_child
from ngram_texts import fitted, sentences

VOCABULARY = 12
SMOOTHINGS = ["kneser-ney", "stupid-backoff", "add-k", "maximum-likelihood"]


def rows_of(texts: list[list[int]]) -> list[np.ndarray]:
    return [np.array([*text, EOS], np.uint32) for text in texts]


@given(
    texts=sentences(),
    rows=st.lists(st.lists(st.integers(EOS, VOCABULARY - 1), max_size=9), max_size=40),
    order=st.integers(1, 5),
    smoothing=st.sampled_from(SMOOTHINGS),
    prune=st.sampled_from([[], [0, 1]]),
    threads=st.integers(1, 3),
)
def test_rows_side_by_side_are_rows_one_by_one(
    texts: list[list[int]],
    rows: list[list[int]],
    order: int,
    smoothing: str,
    prune: list[int],
    threads: int,
) -> None:
    """Bit for bit, whatever stands beside a row, empty rows too."""
    model = fitted(texts, VOCABULARY, order=order, smoothing=smoothing, prune=prune[:order])
    given_rows = [np.array(row, np.uint32) for row in rows]
    scores, orders = model.score_rows(given_rows, threads=threads)
    assert len(scores) == len(orders) == len(rows)
    for row, found, by in zip(given_rows, scores, orders):
        alone, order_of_each = np.empty(len(row), np.float32), np.empty(len(row), np.uint8)
        walk(row, *model._begin(), model.trie, model.rule, alone, order_of_each)
        assert np.array_equal(found, alone)
        assert np.array_equal(by, order_of_each)


@given(texts=sentences(), asked=sentences(words=8), order=st.integers(1, 5), cut=st.integers(0, 9))
def test_a_walk_goes_on_where_it_stopped(texts: list[list[int]], asked: list[list[int]], order: int, cut: int) -> None:
    model = fitted(texts, VOCABULARY, order=order)
    for row in rows_of(asked):
        whole, parts = np.empty(len(row), np.float32), np.empty(len(row), np.float32)
        orders = np.empty(len(row), np.uint8)
        end = walk(row, *model._begin(), model.trie, model.rule, whole, orders)
        between = walk(row[:cut], *model._begin(), model.trie, model.rule, parts[:cut], orders[:cut])
        assert walk(row[cut:], *between, model.trie, model.rule, parts[cut:], orders[cut:]) == end
        assert np.array_equal(whole, parts)


def test_which_order_answered() -> None:
    model = fitted([[4, 5, 6], [4, 5, 7]], 9, order=3)
    _, (orders,) = model.score_rows([np.array([4, 5, 6, 8, 5, EOS], np.uint32)])
    #                        ⟨s⟩ 4, ⟨s⟩ 4 5, 4 5 6, 8 alone, 5 alone, ⟨/s⟩ was never seen after 5
    assert orders.tolist() == [2, 3, 3, 1, 1, 1]


class TestContract:
    texts = ([4, 5, 6], [4, 5, 7], [], [6, 6, 6, 6])

    @pytest.fixture(params=SMOOTHINGS)
    def model(self, request: pytest.FixtureRequest) -> NgramModel:
        return fitted(self.texts, VOCABULARY, order=3, smoothing=request.param)

    def test_padding_and_neighbours_change_nothing(self, model: NgramModel) -> None:
        rows = rows_of(self.texts)
        lengths = torch.tensor([len(row) for row in rows])
        ids = torch.zeros(len(rows), 7, dtype=torch.long)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.from_numpy(row.astype(np.int64))
        found = model.score(ids, lengths)
        assert found.dtype == torch.float32
        assert (found[torch.arange(7) >= lengths[:, None]] == 0).all()
        for place, row in enumerate(rows):
            alone = model.score(ids[place : place + 1, : len(row)], lengths[place : place + 1])
            assert torch.equal(alone[0], found[place, : len(row)])

    def test_later_tokens_change_nothing_before(self, model: NgramModel) -> None:
        (a,), _ = model.score_rows([np.array([4, 5, 6, 7], np.uint32)])
        (b,), _ = model.score_rows([np.array([4, 5, 8, 2], np.uint32)])
        assert np.array_equal(a[:2], b[:2])

    def test_rows_of_a_state_are_reordered_and_selected(self, model: NgramModel) -> None:
        def stood() -> tuple[torch.Tensor, DecoderState]:
            return model.step(torch.tensor([4, 5, 6]), model.step(torch.tensor([BOS] * 3), model.start(3))[1])

        before, state = stood()
        ahead, _ = model.step(torch.tensor([5, 5, 5]), state.reorder(torch.tensor([2, 0, 0])))
        single, _ = model.step(torch.tensor([5]), stood()[1].select(torch.tensor([0])))
        assert before.shape == (3, VOCABULARY)
        assert torch.equal(ahead[1], single[0])
        assert torch.equal(ahead[1], ahead[2])

    def test_many_rows_are_said_by_two_threads(self, model: NgramModel, monkeypatch: pytest.MonkeyPatch) -> None:
        tokens = torch.tensor([4, 5, 6, 7, 8])
        alone, _ = model.step(tokens, model.start(5))
        monkeypatch.setattr("anaphora.models.ngram.ngram_model.THREADED_OUTPUTS", 1)
        assert torch.equal(model.step(tokens, model.start(5))[0], alone)
        threads = threading.active_count()
        for cores in (2, 3, 8):
            monkeypatch.setattr("anaphora.models.ngram.ngram_model.CORES", cores)
            assert torch.equal(model.step(tokens, model.start(5))[0], alone)
        assert threading.active_count() - threads < CORES  # the same ones at every step


def test_a_token_that_does_not_exist_is_refused() -> None:
    model = fitted([[4, 5]], 6, order=2)
    with pytest.raises(UserError, match="there is no token 6: the model has 6"):
        model.score_flat(np.array([4, 6]), np.array([0, 2]))
    lengths = torch.tensor([2])
    for id in (-1, 6, 10**6, 2**32 + 4):  # the last one has a neighbour in the vocabulary once it is cut to 32 bits
        row = torch.tensor([[4, id]])
        for ask in (
            lambda row=row: model.score_flat(row[0].numpy(), np.array([0, 2])),
            lambda row=row: model.score_rows([row[0].numpy()]),
            lambda row=row: model.score(row, lengths),
            lambda row=row: model.read(row, lengths),
            lambda row=row: model.step(row[0], model.start(2)),
            lambda row=row: LimitedModel(model.config, model.trie, 1).score_flat(row[0].numpy(), np.array([0, 2])),
            lambda row=row: generate(model, row.tolist(), DecodingConfig(sample=True), tokens=3),
        ):
            with pytest.raises(UserError, match=f"there is no token {id}: the model has 6"):
                ask()


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_state_after_the_beginning(order: int) -> None:
    model = fitted([[4, 5], [4, 5]], 6, order=order)
    _, state = model.step(torch.tensor([BOS]), model.start(1))
    assert (state.past["context"].item(), state.past["length"].item()) == model._begin()


def test_sizes_and_the_beginning() -> None:
    model = fitted([[4, 5], [4, 5]], 6, order=3)
    assert (model.order, model.vocabulary, model.sizes()) == (3, 6, [6, 3, 2])
    assert model._begin() == (BOS, 1)
    pruned = fitted([[4, 5]], 6, order=3, prune=[0, 1])
    assert pruned._begin() == (int(NOWHERE), 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order is 0; an n-gram has at least one word"),
        ({"order": 21}, "order is 21"),
        ({"prune": [0, -1]}, "counts are never negative"),
        ({"k": 0.0}, "k is 0.0; it must be above 0"),
        ({"k": float("nan")}, "k is nan"),
        ({"backoff": 0.0}, "backoff is 0.0; make it above 0 and at most 1"),
        ({"backoff": 1.5}, "backoff is 1.5"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NgramConfig(**settings)  # type: ignore[arg-type]


def test_a_child_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted([[4, 5]], 6, order=2)
    monkeypatch.setattr("anaphora.models.ngram.ngram_model.THREADED_OUTPUTS", 1)
    monkeypatch.setattr("anaphora.models.ngram.ngram_model.CORES", 2)
    tokens = torch.tensor([4, 5, 4])
    said, _ = model.step(tokens, model.start(3))

    def work() -> None:
        signal.alarm(20)  # threads that are not there would be waited for without end
        assert torch.equal(model.step(tokens, model.start(3))[0], said)

    assert in_a_child(work) == 0
