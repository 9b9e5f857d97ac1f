"""Neighbours by a graph instead of by comparing with every word: for millions of words and many questions.

Each word is linked to some near ones, in layers; a search walks from link to link, always nearer (HNSW, Malkov &
Yashunin 2016), with the library faiss. What it finds is nearly always right, and `recall` measures how nearly: the
share of the true neighbours (word_vectors.py finds them) that the walk finds. For a single question the exact search is
quick enough, and needs no index to be built.

    index = VectorIndex.build(model.vectors)
    index.most_similar("king")
    index.recall()                      # 0.98, say
    index.save("words.faiss"); VectorIndex.load("words.faiss", model.vectors)

`kept_index` builds one where there is none yet that fits, and keeps it with its recall, which is measured once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from anaphora.arguments.signatures import also_named
from anaphora.errors import UserError, refused_by_system
from anaphora.files.foreign import is_there, read_json
from anaphora.folder import temporary_name, write_json
from anaphora.models.vectors.word_vectors import F32, NUMBER_NAMES, Near, Neighbours, Vectors
from anaphora.results import count

LINKS_PER_WORD, BUILD_CANDIDATES, SEARCH_CANDIDATES = 16, 64, 400
"""Links of a word, words that are looked at to choose them, and words that a search keeps in view."""
ADDED_AT_ONCE = 1 << 16


class VectorIndex:
    """A graph over the words of some vectors."""

    def __init__(self, graph: Any, vectors: Vectors) -> None:
        self.graph, self.vectors = graph, vectors

    def __repr__(self) -> str:
        return f"<VectorIndex: {count(len(self.vectors), 'word')}, {self.vectors.vector_size} dimensions>"

    @classmethod
    def build(
        cls, vectors: Vectors, *, links: int = LINKS_PER_WORD, care: int = BUILD_CANDIDATES, threads: int | None = None
    ) -> VectorIndex:
        """Link all words: minutes for a million. More links and more care find more of the true neighbours."""
        faiss = _library()
        if threads is not None:
            faiss.omp_set_num_threads(threads)
        graph = faiss.IndexHNSWFlat(vectors.vector_size, links, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction, graph.hnsw.efSearch = care, SEARCH_CANDIDATES
        for begin in range(0, len(vectors), ADDED_AT_ONCE):
            graph.add(np.ascontiguousarray(vectors.unit_vectors(slice(begin, begin + ADDED_AT_ONCE))))
        return cls(graph, vectors)

    @also_named(**NUMBER_NAMES)
    def most_similar(self, word: str, topn: int = 10) -> Near:
        """The words nearest to a word, most of them at least; itself not among them."""
        query = self.vectors.get_vector(word, norm=True)[None]
        own = self.vectors.key_to_index.get(word)
        found = [near for near in self.nearest(query, topn + 1)[0] if near[0] != word or own is None]
        return Neighbours(found[:topn])

    def nearest(self, queries: F32, topn: int = 10, *, effort: int = SEARCH_CANDIDATES) -> list[Near]:
        """The nearest words of each row of queries (Q, D), which are as long as one."""
        topn = min(topn, len(self.vectors))
        self.graph.hnsw.efSearch = max(effort, topn)
        scores, rows = self.graph.search(np.ascontiguousarray(queries, np.float32), topn)
        words = self.vectors.index_to_key
        return [[(words[row], float(score)) for row, score in zip(*one) if row >= 0] for one in zip(rows, scores)]

    def recall(self, questions: int = 500, topn: int = 10, *, effort: int = SEARCH_CANDIDATES, seed: int = 1) -> float:
        """Of the nearest words of some words drawn by chance, the share that is found."""
        chosen = np.random.default_rng(seed).choice(len(self.vectors), min(questions, len(self.vectors)), replace=False)
        queries = self.vectors.unit_vectors(np.sort(chosen))
        truth = self.vectors.nearest(queries, topn, [[] for _ in queries])
        found = self.nearest(queries, topn, effort=effort)
        right = sum(len({w for w, _ in a} & {w for w, _ in b}) for a, b in zip(truth, found))
        return right / sum(map(len, truth))

    def save(self, path: str | os.PathLike[str]) -> None:
        """The graph, in faiss's own format; the vectors it is of stay where they are."""
        path = Path(path)
        temporary = temporary_name(path)
        try:
            _library().write_index(self.graph, str(temporary))
            temporary.replace(path)
        except (OSError, RuntimeError):  # faiss says little of why, so the system is asked
            try:
                temporary.touch()
            except OSError as error:
                raise refused_by_system(error, "cannot be written", file=path) from None
            raise UserError("cannot be written", file=path, cure="make room on that disk") from None
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], vectors: Vectors) -> VectorIndex:
        """What `save` wrote, of the same vectors."""
        path = Path(path)
        if not is_there(path):
            raise UserError(
                "there is no such file", file=path, cure="build the index first: VectorIndex.build(vectors)"
            )
        try:
            graph = _library().read_index(str(path))
        except RuntimeError:
            raise UserError("is no index of faiss, or is damaged", file=path, cure="build it again") from None
        if graph.ntotal != len(vectors) or graph.d != vectors.vector_size:
            raise UserError(
                f"is of {graph.ntotal:,} words of {graph.d} numbers, and the vectors are {len(vectors):,} of "
                f"{vectors.vector_size}",
                file=path,
                cure="build it again",
            )
        for begin in range(0, len(vectors), ADDED_AT_ONCE):
            own = vectors.unit_vectors(slice(begin, begin + ADDED_AT_ONCE))
            if not np.allclose(graph.reconstruct_n(begin, len(own)), own, atol=1e-5):
                raise UserError("is of other vectors of as many words", file=path, cure="build it again")
        return cls(graph, vectors)


def kept_index(
    vectors: Vectors, path: Path, told: Callable[[str], None] = lambda message: None
) -> tuple[VectorIndex, float]:
    """The index at `path` and its recall; built, measured and kept there first, unless it is there and fits."""
    _library()
    about = path.with_suffix(".json")
    if path.exists():
        try:
            index = VectorIndex.load(path, vectors)
            return index, _measured(about) or index.recall()
        except UserError as error:
            told(f"{path} {error.what}: it is built again")
    else:
        told(f"building an index of {count(len(vectors), 'word')}, which is done once")
    index = VectorIndex.build(vectors)
    recall = index.recall()
    try:
        about.unlink(missing_ok=True)  # never the recall of another index
        index.save(path)
        write_json(about, {"recall": recall, "words": len(vectors), "dim": vectors.vector_size})
    except (UserError, OSError) as error:
        told(f"the index cannot be kept ({error}), and is built anew the next time")
    return index, recall


def _measured(about: Path) -> float | None:
    """The recall that was written beside an index; nothing, where it cannot be read."""
    try:
        return float(read_json(about)["recall"])
    except (OSError, UserError, ValueError, KeyError, TypeError):
        return None


def _library() -> Any:
    try:
        import faiss
    except ImportError:
        raise UserError(
            "an index needs faiss, which is not installed",
            cure="pip install faiss-cpu, or search exactly: vectors.most_similar(word)",
        ) from None
    return faiss
