"""Counting which words stand near which: against a double loop, out of core, and asked about ice and steam."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anaphora.models.vectors.cooccurrence as module
from anaphora.data.word_ids import WordIds
from anaphora.errors import UserError
from anaphora.folder import UNFINISHED
from anaphora.models.vectors.cooccurrence import Cooccurrences, count_cooccurrences
from anaphora.models.vectors.kernels.cooccurrence_counts import head_shape
from anaphora.tokenizers.tokenizer import EOS, SPECIALS
from deadly import in_a_child

FILES = ("begin.bin", "total.bin", "column.bin", "count.bin", "words.txt", "manifest.json", "checksums.json")


def naive(ids: list[int], words: int, window: int) -> np.ndarray:
    """X by a loop over all places of all lines."""
    table, line = np.zeros((words, words)), []
    for token in [*ids, EOS]:
        if token == EOS:
            for i, first in enumerate(line):
                for j, second in enumerate(line):
                    if 1 <= abs(i - j) <= window:
                        table[first, second] += 1 / abs(i - j)
            line = []
        elif token >= len(SPECIALS):
            line.append(token - len(SPECIALS))
    return table


def names(words: int) -> list[str]:
    return [f"w{word}" for word in range(words)]


@contextmanager
def small_steps(piece: int, cells: int, room: int) -> Iterator[None]:
    """Pieces of a few tokens, a head of a few cells and room for a few events: everything has to be put together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE_TOKENS", piece)
        patch.setattr(module, "MOST_CELLS", cells)
        init = module._Counting.__init__

        def smaller(self: module._Counting, *arguments: object) -> None:
            init(self, *arguments)  # type: ignore[arg-type]
            self.room = room + self.window
            self.memory = 64 * 40

        patch.setattr(module._Counting, "__init__", smaller)
        yield


@settings(deadline=None, max_examples=60)
@given(
    ids=st.lists(st.integers(1, 9), max_size=120),
    window=st.sampled_from([1, 2, 3, 10, 20]),
    piece=st.sampled_from([3, 7, 1000]),
    cells=st.sampled_from([0, 1, 5, 100]),
    room=st.sampled_from([1, 10, 5000]),
    threads=st.integers(1, 3),
)
def test_counts_are_those_of_a_double_loop(
    ids: list[int], window: int, piece: int, cells: int, room: int, threads: int
) -> None:
    expected = naive(ids, 6, window)
    with TemporaryDirectory() as folder, small_steps(piece, cells, room):
        path = Path(folder) / "table"
        table = count_cooccurrences(np.array(ids, np.uint32), names(6), path, window=window, threads=threads)
        found = np.array([table.counts(word) for word in table.words])
        np.testing.assert_allclose(found, expected, rtol=2e-6 * max(window - 15, 1), atol=0)
        np.testing.assert_allclose(table.total, expected.sum(1), rtol=1e-5)
        assert table.entries == (expected > 0).sum() and len(table) == (np.triu(expected) > 0).sum()
        assert sorted(path.iterdir()) == sorted(path / name for name in FILES)


def random_ids(seed: int = 0, length: int = 60_000, words: int = 3000) -> np.ndarray:
    """Ids with Zipf's distribution, some lines and some words that are not known."""
    generator = np.random.default_rng(seed)
    ids = np.minimum(generator.zipf(1.3, length) - 1, words - 1) + len(SPECIALS)
    ids[generator.random(length) < 0.02] = 1
    ids[generator.random(length) < 0.01] = EOS
    return ids.astype(np.uint32)


def test_memory_and_threads_change_no_bit(tmp_path: Path) -> None:
    ids = random_ids()
    mapped = np.memmap(tmp_path / "ids", np.uint32, "w+", shape=ids.shape)
    mapped[:] = ids
    whole = count_cooccurrences(ids, names(3000), tmp_path / "whole", threads=1)
    assert whole.entries > 20 * 3000
    with small_steps(5000, 3000, 20_000):
        count_cooccurrences(mapped, names(3000), tmp_path / "small", threads=2)
    count_cooccurrences(ids, names(3000), tmp_path / "least", memory=1, threads=2)
    for name in FILES:
        content = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "small" / name).read_bytes() == content and (
            tmp_path / "least" / name
        ).read_bytes() == content


@given(st.integers(1, 60), st.integers(0, 2000))
def test_a_head_has_the_frequent_pairs_and_no_more_cells_than_allowed(words: int, cells: int) -> None:
    begin, limit, found = head_shape(words, cells)
    places = [begin[a] + b for a in range(words) for b in range(a, limit[a])]
    assert places == list(range(found)) and found <= cells
    assert (limit >= np.arange(words)).all() and (limit <= words).all()
    assert found == words * (words + 1) // 2 or cells < words * (words + 1) // 2
    inside = [(a + 1) * (b + 1) for a in range(words) for b in range(a, limit[a])]
    outside = [(a + 1) * (b + 1) for a in range(words) for b in range(max(limit[a], a), words)]
    assert not inside or not outside or max(inside) < min(outside)


AROUND = {  # (with ice, with steam): counts that give the probabilities and ratios of Pennington et al. 2014, table 1
    "solid": (191, 22),
    "gas": (65, 780),
    "water": (2940, 2206),
    "fashion": (17, 18),
}
ICE, STEAM = 980_000, 1_000_000


def test_the_published_ratios_of_ice_and_steam(tmp_path: Path) -> None:
    """solid goes with ice, gas with steam, water with both and fashion with neither: only the ratio tells."""
    lines = []
    for row, (word, total) in enumerate((("ice", ICE), ("steam", STEAM))):
        for other, times in AROUND.items():
            lines.append(f"{word} {other}\n" * times[row])
        lines.append(f"{word} other\n" * (total - sum(times[row] for times in AROUND.values())))
    vocabulary = WordIds()
    ids = vocabulary.ids("".join(lines).encode())
    words = list(vocabulary.spelled(np.arange(vocabulary.words)))
    table = count_cooccurrences(ids, words, tmp_path / "table")
    found = table.ratios("ice", "steam", list(AROUND))
    assert [f"{ratio.first:.1e}" for ratio in found] == ["1.9e-04", "6.6e-05", "3.0e-03", "1.7e-05"]
    assert [f"{ratio.second:.1e}" for ratio in found] == ["2.2e-05", "7.8e-04", "2.2e-03", "1.8e-05"]
    assert [f"{ratio.ratio:.2g}" for ratio in found] == ["8.9", "0.085", "1.4", "0.96"]
    assert f"{found[2].ratio:.2f}" == "1.36"
    assert table.probability("ice", "steam") == 0.0 and table.cooccurrence("ice", "solid") == 191.0
    assert sum(table.probability(word, "ice") for word in words) == pytest.approx(1.0)


def test_nothing_around_either_is_no_ratio(tmp_path: Path) -> None:
    ids = np.array([4, 5, EOS, 6, 7, EOS, 8, EOS], np.uint32)
    table = count_cooccurrences(ids, ["a", "b", "c", "d", "alone"], tmp_path / "table")
    both, neither = table.ratios("a", "c", ["b", "alone"])
    assert both.ratio == float("inf") and np.isnan(neither.ratio)
    assert table.probability("a", "alone") == 0.0


def test_a_finished_table_is_opened_and_another_is_refused(tmp_path: Path) -> None:
    ids = random_ids(length=2000, words=50)
    count_cooccurrences(ids, names(50), tmp_path / "table")
    before = (tmp_path / "table" / "manifest.json").stat().st_mtime_ns
    assert len(count_cooccurrences(ids, names(50), tmp_path / "table")) > 0
    assert (tmp_path / "table" / "manifest.json").stat().st_mtime_ns == before
    for other in ({"ids": ids[:-5]}, {"window": 5}, {"words": names(51)[1:]}):
        given_ = {"ids": ids, "words": names(50), "folder": tmp_path / "table", **other}
        with pytest.raises(UserError, match="another text or window"):
            count_cooccurrences(**given_)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["column.bin", "count.bin", "begin.bin", "manifest.json"])
def test_a_damaged_table_is_not_learned_from(tmp_path: Path, name: str) -> None:
    ids = random_ids(length=2000, words=50)
    count_cooccurrences(ids, names(50), tmp_path / "table")
    content = bytearray((tmp_path / "table" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "table" / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: this file is damaged.*; delete the folder .*table"):
        count_cooccurrences(ids, names(50), tmp_path / "table")


def test_any_word_but_one_with_a_line_end(tmp_path: Path) -> None:
    words = ["two words", "🦊", "a\rb", "\u2028", ""]
    ids = np.array([4, 5, 6, 7, 8, EOS], np.uint32)
    table = count_cooccurrences(ids, words, tmp_path / "table")
    assert Cooccurrences(tmp_path / "table").words == words
    assert table.cooccurrence("🦊", "\u2028") == 0.5
    with pytest.raises(UserError, match="line end"):
        count_cooccurrences(ids, ["a\nb", *words[1:]], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="minimum_count"):
        count_cooccurrences(np.zeros(0, np.uint32), [], tmp_path / "table")
    with pytest.raises(UserError, match=r"at least 1 and at most 1023, not 0.*model.window"):
        count_cooccurrences(np.zeros(0, np.uint32), ["a"], tmp_path / "table", window=0)
    with pytest.raises(UserError, match="no table of co-occurrences"):
        Cooccurrences(tmp_path)
    table = count_cooccurrences(random_ids(length=2000, words=50), names(50), tmp_path / "table")
    with pytest.raises(UserError, match=r"'w4x' is not in the table.*did you mean w4"):
        table.cooccurrence("w1", "w4x")
    (tmp_path / "table" / "count.bin").write_bytes(b"1234")
    with pytest.raises(UserError, match=r"not as long.*count again"):
        Cooccurrences(tmp_path / "table")


def test_what_a_killed_counting_left_is_swept_away(tmp_path: Path) -> None:
    ids = random_ids(length=2000, words=50)

    def count(progress: Callable[[int, int], None]) -> Cooccurrences:
        return count_cooccurrences(ids, names(50), tmp_path / "table", progress=progress)

    assert in_a_child(lambda: count(lambda read, of: os.kill(os.getpid(), signal.SIGKILL))) == -signal.SIGKILL
    assert [path.name.startswith(UNFINISHED) for path in tmp_path.iterdir()] == [True]
    seen: list[tuple[int, int]] = []
    assert len(count(lambda read, of: seen.append((read, of)))) > 0
    assert seen[-1] == (2000, 2000)
    assert list(tmp_path.iterdir()) == [tmp_path / "table"]


def test_an_id_that_no_word_has_is_refused(tmp_path: Path) -> None:
    """The compiled loop would read and write where nothing is."""
    first = len(SPECIALS)
    with pytest.raises(UserError, match="damaged"):
        count_cooccurrences(np.array([first, first + 2, EOS], np.uint32), names(2), tmp_path / "x")
    assert not list(tmp_path.iterdir())
