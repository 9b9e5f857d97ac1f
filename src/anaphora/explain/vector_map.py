"""Word vectors as dots on a plane, and how much of the truth such a map keeps.

Two numbers cannot say what a hundred say, so every map lies; this one says how much. Of the words that are nearest to a
word in truth (by cosine), `kept` is the share that is nearest on the map, too. `trustworthiness` (Venna & Kaski 2001)
is 1 where all neighbours on the map are neighbours in truth, and falls the further away the false ones really are.

    pca     the two directions in which the vectors differ most: a projection, the same for the same words every time
    tsne    t-SNE of scikit-learn: neighbours stay together, and distances between far groups mean nothing

Colors are clusters of the vectors themselves (k-means on the sphere), not of the map: a color that is torn apart on
the map is the map's fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError, option
from anaphora.models.vectors.word_vectors import Vectors
from anaphora.results import brief, count

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
Method = Literal["pca", "tsne"]
METHODS: tuple[Method, ...] = ("pca", "tsne")
NEIGHBOR_COUNT = 10
"""Neighbours that are looked for on the map."""
SAMPLE_WORDS = 500
"""Words whose neighbours are looked for, of a map with more."""
THREADED_WORDS = 5000
"""Words from which on t-SNE takes several threads."""
KMEANS_ROUNDS, KMEANS_STARTS = 50, 4
"""Of k-means."""


@dataclass(frozen=True)
class VectorMap:
    """Where each word stands."""

    words: list[str]
    places: NDArray[np.float64]
    """(N, 2)"""
    clusters: I64
    """The number of each word's cluster (N,), the largest is 0."""
    method: Method
    near: int
    """How many neighbours were looked for; 0: too few words to tell."""
    kept: float
    """Share of a word's nearest words that are nearest on the map."""
    trustworthiness: float
    explained: float | None
    """Of pca: the share of all differences that two directions hold."""

    def __repr__(self) -> str:
        return brief("VectorMap", None, count(len(self.words), "word"), self.note())

    def note(self) -> str:
        """How far it can be trusted, in a sentence."""
        name = {"pca": "PCA", "tsne": "t-SNE"}[self.method]
        held = "" if self.explained is None else f", {self.explained:.0%} of variance"
        if not self.near:
            return f"{name}{held}; too few words to tell what it distorts"
        return (
            f"{name}{held}; {self.kept:.0%} of the {self.near} nearest neighbours preserved; "
            f"trustworthiness {self.trustworthiness:.2f}"
        )

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        dots = [
            {"word": word, "x": float(x), "y": float(y), "cluster": int(cluster)}
            for word, (x, y), cluster in zip(self.words, self.places, self.clusters)
        ]
        names = ("method", "near", "kept", "trustworthiness", "explained")
        return {**{name: getattr(self, name) for name in names}, "words": dots}


def map_vectors(
    vectors: Vectors,
    words: list[str] | None = None,
    *,
    number: int = 200,
    around: int = 0,
    method: Method = "pca",
    clusters: int | None = None,
    seed: int = 1,
) -> VectorMap:
    """A map of some words, with `around` neighbours of each, or of the `number` most frequent ones. clusters: how many
    colors; nothing: one for about eight words, at most eight."""
    if method not in METHODS:
        raise UserError(f"there is no map by {method!r}", cure=f"choose {' or '.join(METHODS)}")
    if number < 3 or around < 0 or (clusters is not None and clusters < 1):
        raise UserError("a map needs at least 3 words, and at least 1 cluster", cure="raise the number")
    chosen = list(dict.fromkeys(words)) if words else vectors.index_to_key[:number]
    if words and around:
        beside = vectors.neighbours(chosen, topn=around).values()
        chosen = list(dict.fromkeys([*chosen, *(word for several in beside for word, _ in several)]))
    units = np.stack([vectors.get_vector(word, norm=True) for word in chosen])
    if len(chosen) < 3:
        few = count(len(chosen), "word is", "words are")
        raise UserError(f"{few} no map", cure=f"give three words or more, or {option('around', 10)}")
    colors = clusters or min(8, max(1, len(chosen) // 8))
    explained = None
    if method == "pca":
        places, explained = principal(units)
    else:
        places = tsne(units, seed)
    near, kept, trust = distortion(units, places, seed=seed)
    return VectorMap(chosen, places, spherical_clusters(units, colors, seed), method, near, kept, trust, explained)


def principal(units: F32) -> tuple[NDArray[np.float64], float]:
    """The two directions of greatest variance (N, 2), and the share of all variance that they hold."""
    centered = units.astype(np.float64) - units.mean(0, dtype=np.float64)
    values, directions = np.linalg.eigh(centered.T @ centered)
    two = directions[:, :-3:-1]
    two = two * np.where(two[np.abs(two).argmax(0), np.arange(two.shape[1])] < 0, -1.0, 1.0)  # the same way every time
    places = centered @ two
    if places.shape[1] < 2:  # vectors of one number
        places = np.concatenate((places, np.zeros((len(places), 1))), axis=1)
    total = float(values.sum())
    return places, float(values[-2:].sum()) / total if total > 0 else 1.0


def tsne(units: F32, seed: int) -> NDArray[np.float64]:
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise UserError(
            "t-SNE needs scikit-learn, which is not installed",
            cure=f"pip install scikit-learn, or choose {option('method', 'pca')}",
        ) from None
    if float(np.ptp(units, axis=0).max()) == 0.0:
        return np.zeros((len(units), 2))
    perplexity = min(30.0, (len(units) - 1) / 3)
    # a few hundred dots keep one thread busy for seconds; two that share a core with others wait for each other
    with threadpool_limits(1 if len(units) < THREADED_WORDS else None):
        made = TSNE(n_components=2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(units)
    return np.asarray(made, np.float64)


def distortion(units: F32, places: NDArray[np.float64], *, seed: int = 1) -> tuple[int, float, float]:
    """How many neighbours were looked for, the share of them that is kept, and the trustworthiness."""
    n = len(units)
    near = min(NEIGHBOR_COUNT, (n - 1) // 2)
    if n < 4 or 2 * n - 3 * near - 1 <= 0:
        return 0, float("nan"), float("nan")
    looked = np.arange(n)
    if n > SAMPLE_WORDS:
        looked = np.sort(np.random.default_rng(seed).choice(n, SAMPLE_WORDS, replace=False))
    truth = -(units[looked] @ units.T)  # (L, N), nearest is lowest
    squares = (places**2).sum(1)
    shown = squares[looked, None] + squares - 2 * places[looked] @ places.T
    for distances in (truth, shown):
        distances[np.arange(len(looked)), looked] = np.inf
    order = truth.argsort(1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, n + 1)[None].repeat(len(looked), 0), 1)
    neighbours = shown.argsort(1, kind="stable")[:, :near]
    found = np.take_along_axis(ranks, neighbours, 1)  # of the neighbours on the map, their ranks in truth
    kept = float((found <= near).mean())
    wrong = float(np.maximum(found - near, 0).sum()) * n / len(looked)
    return near, kept, 1 - 2 * wrong / (n * near * (2 * n - 3 * near - 1))


def spherical_clusters(units: F32, clusters: int, seed: int = 1) -> I64:
    """k-means by cosine: the number of each row's cluster (N,), the largest cluster being 0."""
    clusters = min(clusters, len(units))
    generator, best, labels = np.random.default_rng(seed), -np.inf, np.zeros(len(units), np.int64)
    for _ in range(KMEANS_STARTS):
        centers = units[[int(generator.integers(len(units)))]]
        while len(centers) < clusters:  # each next one far from those there are (k-means++)
            away = np.maximum(1 - (units @ centers.T).max(1), 0).astype(np.float64)
            share = away / away.sum() if away.sum() > 0 else np.full(len(units), 1 / len(units))
            centers = np.concatenate((centers, units[[int(generator.choice(len(units), p=share))]]))
        found = np.full(len(units), -1)
        for _ in range(KMEANS_ROUNDS):
            new = (units @ centers.T).argmax(1)
            if np.array_equal(new, found):
                break
            found = new
            sums = np.zeros_like(centers)
            np.add.at(sums, found, units)
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            centers = np.where(lengths > 0, sums / np.maximum(lengths, 1e-30), centers).astype(np.float32)
        together = float((units * centers[found]).sum())
        if together > best:
            best, labels = together, found
    order = np.argsort(-np.bincount(labels, minlength=clusters), kind="stable")
    return np.argsort(order)[labels]
