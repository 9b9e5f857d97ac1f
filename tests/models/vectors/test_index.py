"""The graph finds nearly all true neighbours, and says how nearly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anaphora.errors import UserError
from anaphora.models.vectors.index import VectorIndex, kept_index
from anaphora.models.vectors.word_vectors import Vectors

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    matrix = np.random.default_rng(0).normal(size=(3000, 12)).astype(np.float32) * 5
    return Vectors([f"w{n}" for n in range(len(matrix))], matrix)


@pytest.fixture(scope="module")
def index(vectors: Vectors) -> VectorIndex:
    return VectorIndex.build(vectors, threads=1)


def test_it_finds_what_comparing_with_every_word_finds(vectors: Vectors, index: VectorIndex) -> None:
    assert index.recall(questions=200) > 0.95
    exact, found = vectors.most_similar("w7", topn=5), index.most_similar("w7", topn=5)
    assert [word for word, _ in found] == [word for word, _ in exact]
    assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in exact], abs=1e-5)


def test_any_number_of_words_may_be_asked_for(index: VectorIndex) -> None:
    assert 2500 < len(index.most_similar("w7", topn=10**30)) < 3000


def test_less_effort_finds_less(index: VectorIndex) -> None:
    assert index.recall(questions=200, effort=10) < index.recall(questions=200, effort=200)


def test_it_is_kept_and_belongs_to_its_vectors(vectors: Vectors, index: VectorIndex, tmp_path: Path) -> None:
    index.save(tmp_path / "words.faiss")
    again = VectorIndex.load(tmp_path / "words.faiss", vectors)
    assert again.most_similar("w7") == index.most_similar("w7")
    with pytest.raises(UserError, match=r"is of 3,000 words of 12 numbers, and the vectors are 10 of 12"):
        VectorIndex.load(tmp_path / "words.faiss", Vectors(vectors.index_to_key[:10], vectors.vectors[:10]))
    (tmp_path / "torn.faiss").write_bytes((tmp_path / "words.faiss").read_bytes()[:500])
    with pytest.raises(UserError, match="is no index of faiss"):
        VectorIndex.load(tmp_path / "torn.faiss", vectors)
    with pytest.raises(UserError, match="there is no such file"):
        VectorIndex.load(tmp_path / "none.faiss", vectors)


def test_one_that_fits_is_built_once_and_another_anew(vectors: Vectors, tmp_path: Path) -> None:
    told: list[str] = []
    index, recall = kept_index(vectors, tmp_path / "index.faiss", told.append)
    assert told == ["building an index of 3,000 words, which is done once"] and recall > 0.95
    before = (tmp_path / "index.faiss").stat().st_mtime_ns
    again, same = kept_index(vectors, tmp_path / "index.faiss", told.append)
    assert len(told) == 1 and same == recall and (tmp_path / "index.faiss").stat().st_mtime_ns == before
    assert again.most_similar("w7") == index.most_similar("w7")
    (tmp_path / "index.json").write_text("[")  # then it is measured again
    assert kept_index(vectors, tmp_path / "index.faiss", told.append)[1] == pytest.approx(recall)
    moved = vectors.vectors.copy()
    moved[2999] = -moved[2999]  # one word of all
    other = Vectors(vectors.index_to_key, moved)
    anew, _ = kept_index(other, tmp_path / "index.faiss", told.append)
    assert told[1:] == [f"{tmp_path / 'index.faiss'} is of other vectors of as many words: it is built again"]
    assert anew.most_similar("w2999", topn=1)[0][0] == other.most_similar("w2999", topn=1)[0][0]


def test_an_index_that_cannot_be_kept_is_used_all_the_same(vectors: Vectors, tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "file").write_text("")
    index, _ = kept_index(vectors, tmp_path / "file" / "index.faiss", told.append)
    assert "cannot be kept" in told[-1] and len(index.most_similar("w1")) == 10
