"""Words and their vectors: what is near what, what does not belong, a is to b as c is to what.

The names are those that users of gensim know: `similarity`, `most_similar`, `doesnt_match`, `key_to_index` and so on.
Nearness is the cosine of the angle between two vectors. Neighbours are found exactly, by comparing with every word: a
matrix product, block by block, of which only the best few are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anaphora.arguments.checked import checked
from anaphora.arguments.given import words_of
from anaphora.arguments.signatures import also_named
from anaphora.errors import UserError, shown
from anaphora.results import count, figure, html_table, quoted

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

F32 = NDArray[np.float32]
SHOWN_NEIGHBORS = 10
"""Neighbours in a `repr`."""
BLOCK_WORDS = 1 << 16
"""Words that are compared at once."""
SPELLINGS = 50_000
"""Words among which similar spellings of an unknown one are looked for: the most frequent."""

Near = list[tuple[str, float]]
NUMBER_NAMES = {"number": "topn", "n": "topn"}
"""How many neighbours: gensim's name, and those of the command line."""
Key = str | F32


@dataclass(frozen=True)
class SubwordTable:
    """The rows of letter n-grams, by their hashes: what vectors of unseen words are made of."""

    shortest: int
    longest: int
    buckets: int
    hashes: NDArray[np.int64]
    """In order (N,)."""
    rows: F32
    """(N, D)"""

    def vector(self, word: str) -> F32 | None:
        """The mean of the n-grams that are known; nothing where none is."""
        from anaphora.models.vectors.kernels.word2vec_updates import ngram_hashes

        framed = np.frombuffer(f"<{word}>".encode(), np.uint8)
        _, found = ngram_hashes(framed, np.array([0, len(framed)]), self.shortest, self.longest)
        wanted = found.astype(np.int64) % self.buckets
        places = np.searchsorted(self.hashes, wanted)
        known = places < len(self.hashes)
        known[known] = self.hashes[places[known]] == wanted[known]
        return np.mean(self.rows[places[known]], axis=0) if known.any() else None


class Neighbours(list[tuple[str, float]]):
    """Words and how near each is, the nearest first: a list of pairs; a table in a notebook."""

    def __repr__(self) -> str:
        shown = ", ".join(f"({quoted(word, 24)}, {figure(value, '.4f')})" for word, value in self[:SHOWN_NEIGHBORS])
        more = f", … {len(self) - SHOWN_NEIGHBORS:,} more" if len(self) > SHOWN_NEIGHBORS else ""
        return f"[{shown}{more}]"

    def __str__(self) -> str:
        return "\n".join(f"{figure(value, '7.4f')}  {word}" for word, value in self)

    def _repr_html_(self) -> str:
        rows = [(word, figure(value, ".4f")) for word, value in self]
        return html_table(("word", "cosine"), rows, shades=[[value] for _, value in self])


class Vectors:
    """A vocabulary and a matrix (V, D), a row for each word; frequent words first, where counts are known."""

    def __init__(
        self,
        words: Sequence[str],
        matrix: F32,
        *,
        counts: NDArray[np.int64] | None = None,
        subwords: SubwordTable | None = None,
        lowercase: bool = False,
    ) -> None:
        """lowercase: the words were learned from text in lower case, so *King* is among them as *king*."""
        if matrix.ndim != 2 or len(words) != len(matrix):
            raise ValueError(f"{count(len(words), 'word')}, but vectors of shape {matrix.shape}")
        self.index_to_key = list(words)
        self.key_to_index = {word: row for row, word in enumerate(self.index_to_key)}
        if len(self.key_to_index) != len(self.index_to_key):
            seen: set[str] = set()
            twice = next(word for word in self.index_to_key if word in seen or seen.add(word))  # type: ignore[func-returns-value]
            raise UserError(f"the word {twice!r} has two vectors", cure="keep one of them")
        with np.errstate(over="ignore"):  # beyond 32 bits is infinite, which whoever reads a file refuses
            self.vectors = np.ascontiguousarray(matrix, np.float32)
        self.counts, self.subwords, self.lowercase = counts, subwords, lowercase

    @classmethod
    def from_gensim(cls, keyed: KeyedVectors) -> Vectors:
        """Those of gensim's KeyedVectors, as it has loaded them. (Its own files are pickles, which may run anything
        when they are opened: that is left to gensim, and to those who trust the file.)"""
        counts = keyed.expandos.get("count")
        return cls(
            list(keyed.index_to_key),
            np.array(keyed.vectors, np.float32),
            counts=None if counts is None else np.asarray(counts, np.int64),
        )

    def to_gensim(self) -> KeyedVectors:
        """gensim's KeyedVectors, where gensim is installed."""
        try:
            from gensim.models import KeyedVectors
        except ImportError:
            raise UserError("gensim is not installed", cure="pip install gensim, or write a .bin file") from None
        keyed = KeyedVectors(self.vector_size)
        keyed.add_vectors(self.index_to_key, self.vectors)
        if self.counts is not None:
            for word, count in zip(self.index_to_key, self.counts.tolist()):
                keyed.set_vecattr(word, "count", count)
        return keyed

    def __len__(self) -> int:
        return len(self.index_to_key)

    def __contains__(self, word: object) -> bool:
        return word in self.key_to_index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index_to_key)

    def __getitem__(self, word: str | Sequence[str]) -> F32:
        """The vector of a word (D,), or those of several (N, D)."""
        return self.get_vector(word) if isinstance(word, str) else np.stack([self.get_vector(one) for one in word])

    def __repr__(self) -> str:
        return f"<Vectors: {count(len(self), 'word')}, {count(self.vector_size, 'dimension')}>"

    @property
    def vector_size(self) -> int:
        """Dimensions of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def norms(self) -> F32:
        """How long each vector is (V,)."""
        return np.sqrt(np.einsum("vd,vd->v", self.vectors, self.vectors))

    @cached_property
    def _scale(self) -> F32:
        """What makes each vector as long as one; a vector of zeros stays one."""
        return np.where(self.norms > 0, 1 / np.maximum(self.norms, np.finfo(np.float32).tiny), 0).astype(np.float32)

    def unit_vectors(self, rows: NDArray[np.int64] | slice = slice(None)) -> F32:
        """Some rows, each as long as one."""
        return self.vectors[rows] * self._scale[rows, None]

    @checked()
    def get_vector(self, word: str, norm: bool = False) -> F32:
        """The vector of a word; of an unseen one too, where there are subwords."""
        if not isinstance(word, str):
            raise UserError(f"a word is wanted, not {shown.repr(word)}", cure="give a str")
        row = self.key_to_index.get(word)
        if row is not None:
            return self.vectors[row] * self._scale[row] if norm else self.vectors[row]
        made = self._made(word)
        if made is None:
            raise self.unknown(word)
        return _unit(made) if norm else made

    @checked()
    def unknown(self, word: str) -> UserError:
        """What to say of a word that has no vector."""
        lower = word.lower()
        if self.lowercase and word != lower and (lower in self or self._made(lower) is not None):
            what = f"the word {word!r} has no vector: the text was learned in lower case"
            return UserError(what, cure=f"look for {lower!r}")
        frequent = self.index_to_key[:SPELLINGS]
        same = next((w for w in (word.lower(), word.capitalize(), word.upper()) if w in self.key_to_index), None)
        close = [same] if same else get_close_matches(word[:50], frequent, n=3, cutoff=0.7)
        meant = (
            f"did you mean {' or '.join(map(repr, close))}?" if close else "choose a word of the text it learned from"
        )
        meant += " Upper and lower case differ here" if same else ""
        return UserError(f"the word {word!r} has no vector", cure=meant)

    # -- two words -----------------------------------------------------------------------------------------------------

    @checked()
    def similarity(self, first: str, second: str) -> float:
        """The cosine between two words."""
        return float(self.get_vector(first, norm=True) @ self.get_vector(second, norm=True))

    @checked()
    def distance(self, first: str, second: str) -> float:
        """One less their cosine."""
        return 1 - self.similarity(first, second)

    # -- neighbours ----------------------------------------------------------------------------------------------------

    @also_named(**NUMBER_NAMES)
    @checked(topn=0, restrict_vocab=0)
    def most_similar(
        self,
        positive: Key | Sequence[Key] = (),
        negative: Key | Sequence[Key] = (),
        topn: int = 10,
        restrict_vocab: int | None = None,
    ) -> Near:
        """The words nearest to a word or vector, or to the mean of several, those that are negative taken away.

        The words that were asked for are not among them. `restrict_vocab`: only so many first, frequent, words.
        """
        plus, minus = _keys(positive), _keys(negative)
        if not plus and not minus:
            raise UserError("nothing to be near to", cure="give a word")
        parts = [self._direction(key) for key in plus] + [-self._direction(key) for key in minus]
        asked = [self.key_to_index[key] for key in (*plus, *minus) if isinstance(key, str) and key in self]
        query: F32 = np.stack(parts).mean(axis=0, keepdims=True)
        return self.nearest(query, topn, [asked], restrict_vocab)[0]

    @also_named(**NUMBER_NAMES)
    @checked(topn=0, restrict_vocab=0)
    def similar_by_vector(self, vector: F32, topn: int = 10, restrict_vocab: int | None = None) -> Near:
        """The words nearest to a vector."""
        return self.most_similar([vector], topn=topn, restrict_vocab=restrict_vocab)

    @also_named(**NUMBER_NAMES)
    @checked(topn=0)
    def neighbours(self, words: str | Iterable[str], topn: int = 10) -> dict[str, Near]:
        """The neighbours of each of many words, in one go."""
        asked = words_of(words)
        queries = np.array([self.get_vector(word, norm=True) for word in asked], np.float32)
        own = [[self.key_to_index[word]] if word in self else [] for word in asked]
        return dict(zip(asked, self.nearest(queries.reshape(len(asked), self.vector_size), topn, own)))

    @also_named(**NUMBER_NAMES)
    @checked(topn=0)
    def analogy(self, a: str, b: str, c: str, topn: int = 10) -> Near:
        """a is to b as c is to …: the words nearest to b - a + c."""
        if a in (b, c):
            what = f"{a!r} is to {b!r} as {c!r} is to … asks nothing: its answer is {(c if a == b else b)!r}"
            raise UserError(what, cure="give a first word that is neither the second nor the third")
        return self.most_similar([b, c], [a], topn)

    def doesnt_match(self, words: Iterable[str]) -> str:
        """The word that is farthest from the mean of all; words without a vector are left out."""
        if isinstance(words, str):  # whose letters are words, too
            raise UserError(f"{words!r} is one word", cure="give a list of words")
        known = [word for word in words_of(words) if word in self or self._made(word) is not None]
        if not known:
            raise UserError("none of these words has a vector", cure="give words of the text it learned from")
        units = np.stack([self.get_vector(word, norm=True) for word in known])
        return known[int(np.argmin(units @ _unit(np.mean(units, axis=0))))]

    def nearest(
        self, queries: F32, topn: int, without: Sequence[Sequence[int]], restrict_vocab: int | None = None
    ) -> list[Near]:
        """The nearest words of each row of queries (Q, D), but for some rows; one product a block of words."""
        end = len(self) if restrict_vocab is None else min(restrict_vocab, len(self))
        wanted = min(topn + max(map(len, without), default=0), end)
        if wanted <= 0 or not len(queries):
            return [[] for _ in queries]
        units = np.array([_unit(query) for query in queries], np.float32)
        best = np.empty((len(units), 0), np.float32)
        rows = np.empty((len(units), 0), np.int64)
        for begin in range(0, end, BLOCK_WORDS):
            block = slice(begin, min(begin + BLOCK_WORDS, end))
            # of one question, reading the words takes longest: threads of a matrix product would wait for each other
            several = len(units) > 1
            found = (self.vectors[block] @ units.T).T if several else np.einsum("vd,qd->qv", self.vectors[block], units)
            scores = found * self._scale[block]  # (Q, B)
            few = np.argpartition(-scores, min(wanted, scores.shape[1]) - 1, axis=1)[:, :wanted]
            best = np.concatenate((best, np.take_along_axis(scores, few, 1)), axis=1)
            rows = np.concatenate((rows, few + begin), axis=1)
            if best.shape[1] > 4 * wanted:
                best, rows = _top(best, rows, wanted)
        best, rows = _top(best, rows, wanted)
        near: list[Near] = []
        for scores, places, own in zip(best, rows, without):
            out = set(own)
            pairs = [(self.index_to_key[p], float(s)) for p, s in zip(places.tolist(), scores) if p not in out]
            near.append(Neighbours(pairs[:topn]))
        return near

    def _direction(self, key: Key) -> F32:
        if isinstance(key, str):
            return self.get_vector(key, norm=True)
        vector = np.asarray(key)
        if vector.dtype.kind not in "fiu" or vector.shape != (self.vector_size,):
            what = f"a word is wanted, not {shown.repr(key)}"
            raise UserError(what, cure=f"give a str, or a vector of {self.vector_size:,} numbers")
        with np.errstate(over="ignore"):
            found = vector.astype(np.float32)
            if np.isfinite(found @ found):
                return found
        raise UserError(
            "the vector holds nan or infinite numbers, or is too long", cure="give one that can be measured"
        )

    def _made(self, word: str) -> F32 | None:
        """What its letters give a word that has no vector; nothing where there are no subwords, or no such letters."""
        if self.subwords is None or (self.lowercase and word != word.lower()):
            return None
        return self.subwords.vector(word)


def _keys(given: Key | Sequence[Key]) -> list[Key]:
    """One word or vector, or several."""
    if isinstance(given, str) or (isinstance(given, np.ndarray) and given.ndim == 1):
        return [given]
    if not isinstance(given, Iterable):
        raise UserError(f"a word is wanted, not {shown.repr(given)}", cure="give a str, a vector, or a list of them")
    return list(given)


def _unit(vector: F32) -> F32:
    length = float(np.linalg.norm(vector))
    return (vector / length if length else vector).astype(np.float32)


def _top(scores: F32, rows: NDArray[np.int64], wanted: int) -> tuple[F32, NDArray[np.int64]]:
    """The best few of each row, best first; of two as near, the one with the lower row."""
    order = np.lexsort((rows, -scores), axis=1)[:, :wanted]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
