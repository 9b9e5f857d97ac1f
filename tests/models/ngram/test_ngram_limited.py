"""A model asked within a memory limit says the same."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.data.prepared_text import PreparedText
from anaphora.decoding.text_scoring import Boundaries, evaluate_ids
from anaphora.errors import UserError
from anaphora.models.ngram import limited
from anaphora.models.ngram.kernels.ngrams import U32
from anaphora.models.ngram.limited import LimitedModel
from anaphora.models.ngram.ngram_file import let_go, read_trie, write_trie
from anaphora.tokenizers.tokenizer import EOS
from ngram_texts import Sentence, fitted, sentences


@given(sentences(longest=30))
def test_the_same_scores(texts: list[Sentence]) -> None:
    model = fitted(texts, 11, order=3)
    rows = [np.array([*text, EOS], np.uint32) for text in texts]
    starts = np.cumsum([0, *map(len, rows)])
    same = LimitedModel(model.config, model.trie, memory=1)  # always full
    for found, expected in zip(
        same.score_flat_orders(np.concatenate(rows), starts), model.score_flat_orders(np.concatenate(rows), starts)
    ):
        np.testing.assert_array_equal(found, expected)


def test_pages_are_given_back_and_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted([[4, 5, 6, 4, 5]] * 3, 8, order=3)
    write_trie(tmp_path / "trie", model.trie)
    mapped = read_trie(tmp_path / "trie")
    let_go(mapped)
    for name, array in zip(mapped._fields, mapped):
        np.testing.assert_array_equal(array, getattr(model.trie, name))
    given_back: list[object] = []
    monkeypatch.setattr(limited, "let_go", given_back.append)
    tokens, starts = np.array([4, 5] * 4, np.uint32), np.array([0, 3, 8])
    LimitedModel(model.config, mapped, memory=1 << 60).score_flat_orders(tokens, starts)
    assert not given_back
    LimitedModel(model.config, mapped, memory=1).score_flat_orders(tokens, starts)
    assert len(given_back) == 8, "where there is no room at all, after every token"


@given(room=st.integers(1, 100), lengths=st.lists(st.integers(0, 60), min_size=1, max_size=12), stream=st.booleans())
def test_memory_is_looked_at_before_it_runs_out(room: int, lengths: list[int], stream: bool) -> None:
    """If each token makes as much resident as it may, the limit holds, and pages are given back no more than needed."""
    model = fitted([[4, 5, 6, 4, 5]] * 3, 8, order=3)
    program = 200 * limited.TOKEN
    now = most = program
    given_back = 0

    def walk(tokens: U32, state: int, length: int, *_: object) -> tuple[int, int]:
        nonlocal now, most
        now += limited.TOKEN * len(tokens)
        most = max(most, now)
        return state, length

    def let_go(trie: object) -> None:
        nonlocal now, given_back
        now, given_back = program, given_back + 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limited, "walk", walk)
        patch.setattr(limited, "let_go", let_go)
        patch.setattr(limited, "resident", lambda: now)
        asked = LimitedModel(model.config, model.trie, memory=program + room * limited.TOKEN)
        asked.size = 1 << 40
        if stream:
            for length in lengths:
                asked.score_on(np.full(length, 4, np.uint32))
        else:
            asked.score_flat_orders(np.full(sum(lengths), 4, np.uint32), np.cumsum([0, *lengths]))
    assert most <= program + room * limited.TOKEN
    assert given_back <= 1 + sum(lengths) / max(1, (1 - limited.RESERVE_SHARE) * room - 1)


@given(texts=sentences(longest=30), cuts=st.lists(st.integers(0, 100), max_size=5), order=st.integers(1, 4))
def test_a_text_read_in_parts(texts: list[Sentence], cuts: list[int], order: int) -> None:
    model = fitted(texts, 11, order=order)
    whole = np.array([id for text in texts for id in (*text, EOS)], np.uint32)
    expected = model.score_flat(whole, np.array([0, len(whole)]))
    for asked in (model, LimitedModel(model.config, model.trie, memory=1)):
        found, state = [], None
        for part in np.split(whole, sorted(cut % len(whole) for cut in cuts)):
            scores, state = asked.score_on(part, state)
            found.append(scores)
        np.testing.assert_array_equal(np.concatenate(found), expected)
    with pytest.raises(UserError, match="there is no token 11"):
        model.score_on(np.array([11]))


@pytest.mark.parametrize("boundaries", ["lines", "stream"])
def test_a_long_text_is_never_in_memory_as_a_whole(tmp_path: Path, boundaries: Boundaries) -> None:
    model = fitted([[4, 5, 6, 4, 5]] * 3, 8, order=3)
    text = PreparedText(tmp_path, {}, reused=False)
    np.tile(np.array([4, 5, 6, EOS], np.uint32), 500_000).tofile(tmp_path / "valid.ids")
    asked = LimitedModel(model.config, model.trie, memory=1 << 60)
    tracemalloc.start()
    try:
        found = evaluate_ids(asked, text.valid_parts(1 << 14), lines=0, dropped=0, size=1, boundaries=boundaries)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.tokens == 2_000_000
    assert peak < 1_000_000, "the ids alone are eight times as much"
