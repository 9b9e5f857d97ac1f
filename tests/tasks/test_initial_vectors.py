"""Models whose tables begin with vectors (`model.embedding_from`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import anaphora
from anaphora.errors import UserError
from anaphora.models.registry import kinds
from anaphora.models.vectors.vector_files import save_vectors
from anaphora.models.vectors.word_vectors import Vectors
from anaphora.tasks.initial_vectors import fill_table, whole_word
from anaphora.tokenizers.tokenizer import SPECIALS, Tokenizer, TokenizerConfig
from micro_runs import MICRO
from vector_runs import grouped

DIM = 16
WORDS = {"tokenizer.kind": "word", "tokenizer.split": "blanks", "training.max_steps": 1, "training.learning_rate": 1e-9}


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    words = [f"{group}word{n}" for group in "abc" for n in range(8)]
    save_vectors(Vectors(words, draw.normal(size=(24, DIM)).astype(np.float32) * 3), tmp_path / "vectors.txt")
    return tmp_path / "vectors.txt"


def test_words_take_their_vectors_at_the_size_of_the_table() -> None:
    tokenizer = Tokenizer.of_words(["one", "two", "three"])
    table = torch.nn.Embedding(7, 4)
    before = table.weight.detach().clone()
    matrix = np.array([[10.0, 0, 0, 0], [0, 20.0, 0, 0]], np.float32)
    filled = fill_table(table, tokenizer, Vectors(["three", "one"], matrix))
    assert str(filled) == "2 of 3 tokens (67%)"
    one, two, three = (len(SPECIALS) + n for n in range(3))
    assert torch.equal(table.weight[two], before[two]) and torch.equal(table.weight[:4], before[:4])
    rows = table.weight[[one, three]].detach()
    assert rows[0, 1] == pytest.approx(2 * float(rows[1, 0])) and float(rows[0, 0]) == 0.0  # by one number
    assert float(rows.square().mean()) == pytest.approx(float(before[[one, three]].square().mean()), rel=1e-5)


def test_pieces_of_words_take_none() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(vocabulary=300), ["the cat, and the dog and the cat."] * 20)
    words = {whole_word(tokenizer, token) for token in range(len(SPECIALS), tokenizer.vocabulary_size)}
    assert {"the", "cat", "dog"} <= words and "he" not in words
    assert {",", "."} <= words and "" not in words  # glued to a word, they are words of their own
    assert "c" not in words and "\n" not in words


@pytest.mark.parametrize("kind", kinds("language"))
def test_every_neural_model_begins_with_them(kind: str, vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(grouped(60, groups="abx"))
    shape = {"model.heads": 2} if kind.startswith("transformer") else {}
    settings = {**WORDS, "model.dim": DIM, "model.layers": 1, "model.embedding_from": str(vectors), **shape}
    anaphora.train(tmp_path / "run", text=tmp_path / "text.txt", recipe=kind, settings=settings, device="cpu")
    model = anaphora.load(tmp_path / "run", device="cpu")
    table = model.model.embedding.table.weight.numpy()  # type: ignore[union-attr]
    given = anaphora.load(vectors).vectors  # type: ignore[union-attr]
    tokens = {model.tokenizer.word(token): token for token in range(4, model.tokenizer.vocabulary_size)}  # type: ignore[union-attr]
    for word in ("aword1", "bword7"):
        cosine = table[tokens[word]] @ given.get_vector(word, norm=True) / np.linalg.norm(table[tokens[word]])
        assert cosine == pytest.approx(1.0, abs=1e-4)
    odd = table[tokens["xword1"]]
    assert abs(max(odd @ given.get_vector(w, norm=True) / np.linalg.norm(odd) for w in given.index_to_key)) < 0.99


def test_a_translator_begins_with_them(corpus: dict[str, Path], tmp_path: Path) -> None:
    words = sorted({word for file in corpus.values() for word in file.read_text().split()})
    dim = MICRO["model.dim"]
    matrix = np.random.default_rng(0).normal(size=(len(words), dim)).astype(np.float32)
    save_vectors(Vectors(words, matrix), tmp_path / "words.bin")
    settings = {**MICRO, "model.embedding_from": str(tmp_path / "words.bin"), "training.learning_rate": 1e-9}
    settings |= {"tokenizer.kind": "word", "tokenizer.split": "blanks", "training.max_steps": 1}
    settings.pop("tokenizer.vocabulary", None)
    anaphora.train(tmp_path / "run", **corpus, settings=settings, device="cpu")
    model = anaphora.load(tmp_path / "run", device="cpu")
    tokenizer = Tokenizer.load(tmp_path / "run" / "tokenizer.json")
    row = model.model.source_embedding.table.weight[4].detach().numpy()  # type: ignore[union-attr]
    given = matrix[words.index(tokenizer.word(4))]
    assert row @ given / np.linalg.norm(row) / np.linalg.norm(given) == pytest.approx(1.0, abs=1e-4)


def test_mistakes(vectors: Path, tmp_path: Path, micro: Path) -> None:
    (tmp_path / "text.txt").write_text(grouped(60, groups="xyz"))
    how = {"text": tmp_path / "text.txt", "recipe": "lstm", "device": "cpu"}
    for settings, message in (
        (
            {"model.embedding_from": str(vectors), "model.dim": 20},
            "vectors of 16 numbers, and model.dim is 20; set model",
        ),
        ({"model.embedding_from": str(vectors), "model.dim": DIM}, "a vector for none of the model's words"),
        ({"model.embedding_from": str(tmp_path / "no.txt")}, "there is no such folder or file"),
        ({"model.embedding_from": str(micro), "model.dim": DIM}, "holds no word vectors"),
    ):
        with pytest.raises(UserError, match=message):
            anaphora.train(tmp_path / "run", **how, settings={**WORDS, **settings})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="start_from has a table of words"):
        settings = {"model.embedding_from": str(vectors)}
        anaphora.train(tmp_path / "run", **how, start_from=micro, settings=settings)  # type: ignore[arg-type]
