"""A model asked within a memory limit says the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from anaphora.models.ngram import limited
from anaphora.models.ngram.file import let_go, read_trie, write_trie
from anaphora.models.ngram.limited import LimitedModel
from anaphora.text.tokenizer import EOS
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
    tokens, starts = np.array([4, 5] * limited.STRIDE, np.uint32), np.array([0, 2 * limited.STRIDE])
    LimitedModel(model.config, mapped, memory=1 << 60).score_flat_orders(tokens, starts)
    assert not given_back
    LimitedModel(model.config, mapped, memory=1).score_flat_orders(tokens, starts)
    assert len(given_back) == 2
