"""Maps of vectors: what is flat stays as it is, clusters are found, and the note tells the truth."""

from __future__ import annotations

import numpy as np
import pytest

from anaphora.errors import UserError
from anaphora.explain.draw.vector_map_picture import draw_map
from anaphora.explain.vector_map import distortion, map_vectors, principal, spherical_clusters
from anaphora.models.vectors.word_vectors import Vectors


def clouds(groups: int, members: int, dim: int = 20, noise: float = 0.3, seed: int = 0) -> tuple[Vectors, np.ndarray]:
    """Points around some centers, and of which each is."""
    draw = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), members)
    matrix = draw.normal(size=(groups, dim))[group] + noise * draw.normal(size=(groups * members, dim))
    return Vectors([f"w{n}" for n in range(len(group))], matrix.astype(np.float32)), group


def test_what_lies_in_a_plane_is_kept() -> None:
    draw = np.random.default_rng(1)
    flat = draw.normal(size=(60, 2)) @ np.linalg.qr(draw.normal(size=(7, 2)))[0].T
    units = (flat / np.linalg.norm(flat, axis=1, keepdims=True)).astype(np.float32)
    places, explained = principal(units)
    near, kept, trust = distortion(units, places)
    assert explained == pytest.approx(1.0) and near == 10
    assert kept > 0.99 and trust > 0.999


def test_the_note_is_that_of_scikit_learn() -> None:
    manifold = pytest.importorskip("sklearn.manifold")
    vectors, _ = clouds(4, 20)
    units = vectors.unit_vectors()
    places, _ = principal(units)
    near, kept, trust = distortion(units, places)
    assert trust == pytest.approx(manifold.trustworthiness(units, places, n_neighbors=near), abs=1e-6)
    assert 0 < kept < 1


def test_a_sample_of_a_large_map_tells_about_the_same() -> None:
    vectors, _ = clouds(6, 200)
    units = vectors.unit_vectors()
    places, _ = principal(units)
    first, second = (distortion(units, places, seed=seed) for seed in (1, 2))
    assert first[1] == pytest.approx(second[1], abs=0.05) and first[2] == pytest.approx(second[2], abs=0.02)


def test_clusters_are_found_and_the_largest_is_the_first() -> None:
    vectors, group = clouds(5, 30)
    found = spherical_clusters(vectors.unit_vectors(), 5)
    assert len(set(zip(group.tolist(), found.tolist()))) == 5
    sizes = np.bincount(spherical_clusters(vectors.unit_vectors()[20:], 5))
    assert sizes.tolist() == sorted(sizes.tolist(), reverse=True)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_a_map_shows_hidden_groups(method: str) -> None:
    if method == "tsne":
        pytest.importorskip("sklearn")
    vectors, group = clouds(4, 25)
    found = map_vectors(vectors, number=100, method=method)  # type: ignore[arg-type]
    gaps = ((found.places[:, None] - found.places[None]) ** 2).sum(-1)
    np.fill_diagonal(gaps, np.inf)
    assert (group[gaps.argsort(1)[:, :5]] == group[:, None]).mean() > 0.9
    again = map_vectors(vectors, number=100, method=method)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.places, again.places)
    assert f"{found.kept:.0%}" in found.note()
    assert found.document()["words"][3].keys() == {"word", "x", "y", "cluster"}


def test_words_and_their_neighbours() -> None:
    vectors, group = clouds(4, 25)
    found = map_vectors(vectors, ["w0", "w30"], around=6)
    assert found.words[:2] == ["w0", "w30"] and len(found.words) == 14
    assert {int(group[int(word[1:])]) for word in found.words} == {0, 1}
    with pytest.raises(UserError, match="2 words are no map"):
        map_vectors(vectors, ["w0", "w30"])
    with pytest.raises(UserError, match="1 word is no map; give three words"):
        map_vectors(vectors, ["w0"])
    with pytest.raises(UserError, match="'w999' has no vector"):
        map_vectors(vectors, ["w0", "w30", "w999"])
    with pytest.raises(UserError, match="no map by 'umap'"):
        map_vectors(vectors, method="umap")  # type: ignore[arg-type]


@pytest.mark.parametrize("matrix", [np.ones((5, 3)), np.zeros((4, 2)), np.arange(6.0).reshape(6, 1)])
def test_odd_vectors_make_a_map_all_the_same(matrix: np.ndarray) -> None:
    found = map_vectors(Vectors([str(n) for n in range(len(matrix))], matrix.astype(np.float32)))
    assert np.isfinite(found.places).all() and found.places.shape == (len(matrix), 2)


def test_pictures_hold_odd_names() -> None:
    matrix = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    found = map_vectors(Vectors(["$x$", "a$", "漢字", "🙂", "<b>&", "plain"], matrix))
    assert draw_map(found).startswith(b"\x89PNG")
    assert b"<svg" in draw_map(found, format="svg")


def test_lines_to_names_cross_neither_each_other_nor_a_name() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from anaphora.explain.draw.dot_labels import _cross, _meets, label_dots

    at = [np.array(point, float) for point in ((0, 0), (2, 2), (0, 2), (2, 0), (3, 3))]
    assert _cross((at[0], at[1]), (at[2], at[3])) and not _cross((at[0], at[2]), (at[3], at[1]))
    figure, axis = plt.subplots(figsize=(6, 4))
    try:
        places = np.random.default_rng(3).normal(size=(60, 2))
        axis.scatter(*places.T)
        figure.canvas.draw()
        dots = [(float(x), float(y), f"word{number}") for number, (x, y) in enumerate(places)]
        boxes = label_dots(axis, dots, farthest=4, crowded=True)
        pixel = figure.dpi / 72
        lines = []
        for leader in (text for text in axis.texts if not text.get_text()):
            begin = axis.transData.transform(leader.xy)  # type: ignore[attr-defined]
            lines.append((begin, begin + np.array(leader.xyann) * pixel))  # type: ignore[attr-defined]
        assert len(lines) > 5 and len(boxes) > len(lines)
        assert not any(_cross(a, b) for i, a in enumerate(lines) for b in lines[:i])
        assert not any(_meets(box.padded(-2), line) for box in boxes.values() for line in lines)
    finally:
        plt.close(figure)


def test_a_sample_of_a_bad_map_is_as_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places that have nothing to do with the vectors: half of what could be wrong is."""
    draw = np.random.default_rng(0)
    units = draw.normal(size=(800, 20)).astype(np.float32)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    places = draw.normal(size=(800, 2))
    sampled = distortion(units, places)
    monkeypatch.setattr("anaphora.explain.vector_map.SAMPLE_WORDS", 800)
    assert sampled == pytest.approx(distortion(units, places), abs=0.02)
    assert sampled[2] == pytest.approx(0.5, abs=0.05)
