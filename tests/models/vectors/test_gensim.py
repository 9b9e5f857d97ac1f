"""Vectors of ours in gensim, and gensim's here: the same words, the same numbers, the same neighbours.

These run where gensim can be imported (`pip install gensim`, or a folder that holds it in PYTHONPATH).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaphora.errors import UserError
from anaphora.models.vectors.vector_files import load_vectors, save_vectors
from anaphora.models.vectors.word_vectors import Vectors

gensim = pytest.importorskip("gensim", reason="gensim is not installed: its files are not compared with ours")
from gensim.models import KeyedVectors  # noqa: E402

ODD = ["naïve", "🦜", "👩‍🚀", "東京", "a_b", "</s>", "''", "3.5", "Ελλάδα", "e\u0301", "#", "1"]


@pytest.fixture(scope="module")
def ours() -> Vectors:
    draw = np.random.default_rng(0)
    words = [*ODD, *(f"word{n}" for n in range(300))]
    return Vectors(words, draw.normal(size=(len(words), 20)).astype(np.float32), counts=np.arange(len(words), 0, -1))


def assert_equal_neighbours(vectors: Vectors, theirs: Any, words: list[str]) -> None:
    for word in words:
        here, there = vectors.most_similar(word, topn=8), theirs.most_similar(word, topn=8)
        assert [found for found, _ in here] == [found for found, _ in there]
        np.testing.assert_allclose([cosine for _, cosine in here], [cosine for _, cosine in there], atol=1e-5)
    assert vectors.similarity(words[0], words[1]) == pytest.approx(theirs.similarity(words[0], words[1]), abs=1e-5)
    assert vectors.doesnt_match(words[:4]) == theirs.doesnt_match(words[:4])
    analogy = vectors.most_similar(words[:2], words[2:3], topn=5)
    there = theirs.most_similar(positive=words[:2], negative=words[2:3], topn=5)
    assert [found for found, _ in analogy] == [found for found, _ in there]


@pytest.mark.parametrize("name", ["v.txt", "v.vec.gz", "v.bin", "v.bin.gz", "glove.txt"])
def test_gensim_reads_what_we_write(ours: Vectors, tmp_path: Path, name: str) -> None:
    glove = name == "glove.txt"
    save_vectors(ours, tmp_path / name, header=not glove)
    how = {"binary": ".bin" in name, "no_header": glove}
    theirs = KeyedVectors.load_word2vec_format(str(tmp_path / name), **how)
    assert theirs.index_to_key == ours.index_to_key
    np.testing.assert_array_equal(theirs.vectors, ours.vectors)
    assert_equal_neighbours(ours, theirs, ODD)


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.bin", "v.bin.gz", "glove.txt"])
def test_we_read_what_gensim_writes(ours: Vectors, tmp_path: Path, name: str) -> None:
    theirs = KeyedVectors(20)
    theirs.add_vectors(ours.index_to_key, ours.vectors)
    theirs.save_word2vec_format(str(tmp_path / name), binary=".bin" in name, write_header=name != "glove.txt")
    found = load_vectors(tmp_path / name)
    assert found.index_to_key == theirs.index_to_key
    np.testing.assert_array_equal(found.vectors, theirs.vectors)
    assert_equal_neighbours(found, theirs, ODD)


def test_keyed_vectors_go_through_memory_and_through_gensims_own_file(ours: Vectors, tmp_path: Path) -> None:
    ours.to_gensim().save(str(tmp_path / "ours.kv"))
    theirs = KeyedVectors.load(str(tmp_path / "ours.kv"))
    back = Vectors.from_gensim(theirs)
    assert back.index_to_key == ours.index_to_key and back.counts is not None and ours.counts is not None
    np.testing.assert_array_equal(back.vectors, ours.vectors)
    np.testing.assert_array_equal(back.counts, ours.counts)
    assert_equal_neighbours(back, theirs, ODD)


def test_a_model_that_gensim_has_learned(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    lines = [[f"{group}{n}" for n in draw.integers(8, size=10)] for group in "abcde🦜" for _ in range(60)]
    model = gensim.models.Word2Vec(lines, vector_size=12, min_count=1, epochs=5, workers=1, seed=1)
    model.wv.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    assert_equal_neighbours(load_vectors(tmp_path / "v.bin"), model.wv, ["a1", "🦜2", "b3", "c0"])
    counts = Vectors.from_gensim(model.wv).counts
    assert counts is not None and counts[0] == model.wv.get_vecattr(model.wv.index_to_key[0], "count")


def test_words_with_blanks(tmp_path: Path) -> None:
    """Text holds them by luck, since numbers are counted from the end of a line; a binary has no place for them."""
    theirs = KeyedVectors(3)
    theirs.add_vectors(["New York", "Rome", "🦜 bird"], np.arange(9, dtype=np.float32).reshape(3, 3))
    theirs.save_word2vec_format(str(tmp_path / "v.txt"))
    found = load_vectors(tmp_path / "v.txt")
    assert found.index_to_key == ["New York", "Rome", "🦜 bird"]
    np.testing.assert_array_equal(found.vectors, theirs.vectors)
    through = Vectors.from_gensim(found.to_gensim())
    assert through.index_to_key == found.index_to_key
    theirs.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    with pytest.raises(UserError) as refused:
        load_vectors(tmp_path / "v.bin")
    assert refused.value.cure


def test_a_binary_of_gensim_that_was_cut(ours: Vectors, tmp_path: Path) -> None:
    ours.to_gensim().save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    whole = (tmp_path / "v.bin").read_bytes()
    for cut in (2, 9, 40, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.bin").write_bytes(whole[:cut])
        with pytest.raises(UserError, match=r"ends too early|in the middle of word|does not begin"):
            load_vectors(tmp_path / "cut.bin")
    first, rest = whole.split(b"\n", 1)
    count, dim = map(int, first.split())
    (tmp_path / "more.bin").write_bytes(b"%d %d\n" % (count - 1, dim) + rest)
    with pytest.raises(UserError, match="goes on after the last of its 311 words"):
        load_vectors(tmp_path / "more.bin")
