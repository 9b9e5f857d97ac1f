"""Vectors of what is no word: 37,000 books with hidden genres, told apart by who reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anaphora
from anaphora.explain.draw.vector_map_picture import draw_map

GENRES, BOOKS, READERS, READ = 10, 37_000, 40_000, 20
NOISE = 0.1
"""Share of books that are read from any genre."""


def shelves(file: Path) -> None:
    """A line for each reader: titles between tabs, most of one genre; the title tells which."""
    draw = np.random.default_rng(0)
    genre = np.repeat(draw.integers(GENRES, size=READERS), READ).reshape(READERS, READ)
    genre = np.where(draw.random(genre.shape) < NOISE, draw.integers(GENRES, size=genre.shape), genre)
    book = draw.integers(BOOKS // GENRES, size=genre.shape)
    lines = ("\t".join(f"Book {b} of {g}" for g, b in zip(*row)) for row in zip(genre.tolist(), book.tolist()))
    file.write_text("\n".join(lines) + "\n")


@pytest.mark.timeout(120)
def test_the_map_of_37_000_items_shows_their_hidden_genres(tmp_path: Path) -> None:
    shelves(tmp_path / "shelves.txt")
    settings = {"model.dim": 24, "training.epochs": 3, "training.learning_rate": 0.05, "model.sample": 0.0}
    anaphora.train(tmp_path / "run", items=tmp_path / "shelves.txt", settings={**settings, "training.threads": 1})
    model = anaphora.load(tmp_path / "run")
    assert isinstance(model, anaphora.VectorsModel) and len(model.vectors) > 36_000
    asked = model.vectors.index_to_key[:500]
    near = model.vectors.neighbours(asked, topn=10)
    same = [word.split()[-1] == found.split()[-1] for word, several in near.items() for found, _ in several]
    assert np.mean(same) > 0.95
    pytest.importorskip("sklearn")
    found = model.map(number=600, method="tsne", clusters=GENRES)
    genres = np.array([word.split()[-1] for word in found.words])
    gaps = ((found.places[:, None] - found.places[None]) ** 2).sum(-1)
    np.fill_diagonal(gaps, np.inf)
    assert (genres[gaps.argsort(1)[:, :10]] == genres[:, None]).mean() > 0.9
    assert min(np.bincount(found.clusters[genres == genre]).max() / (genres == genre).sum() for genre in genres) > 0.9
    (tmp_path / "map.png").write_bytes(draw_map(found, title="37,000 books"))
    assert (tmp_path / "map.png").stat().st_size > 20_000
