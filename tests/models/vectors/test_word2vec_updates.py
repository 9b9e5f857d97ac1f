"""The word2vec loop against autograd and arithmetic: what one word changes, what is drawn, what stands in a window."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.models.vectors.kernels.rows import padded
from anaphora.models.vectors.kernels.word2vec_updates import (
    Draws,
    Subwords,
    Tables,
    Tree,
    alias_table,
    draw,
    huffman,
    mixed,
    ngram_hashes,
    trainer,
)

FIRST, END = 4, 2
NO_TREE = Tree(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
NO_SUBWORDS = Subwords(np.zeros(1, np.int64), np.zeros(0, np.int32))
RATE = 0.05


class Case:
    """Tables of a tiny vocabulary, and a line of it to learn from."""

    def __init__(self, words: int, dim: int, *, rows: int | None = None, seed: int = 3) -> None:
        generator = np.random.default_rng(seed)
        self.dim, self.stride = dim, -(-dim // 16) * 16
        self.hidden = np.zeros((rows or words, self.stride), np.float32)
        self.output = np.zeros((words, self.stride), np.float32)
        self.hidden[:, :dim] = generator.normal(size=(rows or words, dim))
        self.output[:, :dim] = generator.normal(size=(words, dim))
        self.counts = np.arange(10 * words, 9 * words, -1).astype(np.int64)

    def learn(
        self,
        line: list[int],
        *,
        outputs: int = 6,
        cbow: bool = False,
        window: int = 2,
        shrink: bool = False,
        tree: Tree = NO_TREE,
        subwords: Subwords = NO_SUBWORDS,
        rate: float = RATE,
        final_rate: float | None = None,
        keep: float = 1.0,
        tokens: list[int] | None = None,
        seed: int = 1,
    ) -> tuple[float, int, int]:
        """`tokens`: ids as they stand in a file, instead of those of one line."""
        ids = np.array(tokens or [1, *(FIRST + word for word in line), END], np.uint32)
        found = trainer(outputs)(
            ids,
            FIRST,
            END,
            Tables(self.hidden.reshape(-1), self.output.reshape(-1), np.int64(padded(self.dim)), np.int64(self.stride)),
            Draws(np.full(len(self.output), keep * 0xFFFFFFFF, np.uint32), alias_table(self.counts**0.75)),
            tree,
            subwords,
            cbow,
            window,
            shrink,
            np.float32(rate),
            np.float32(rate if final_rate is None else final_rate),
            np.uint64(seed),
        )
        assert not self.hidden[:, self.dim :].any() and not self.output[:, self.dim :].any()  # padding stays zero
        return found

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Both tables as autograd takes them, in double precision."""
        tables = (torch.tensor(table[:, : self.dim], dtype=torch.float64) for table in (self.hidden, self.output))
        hidden, output = (table.requires_grad_() for table in tables)
        return hidden, output

    def close(self, hidden: torch.Tensor, output: torch.Tensor) -> None:
        """Both tables are now what plain gradient descent makes of these."""
        for ours, theirs in ((self.hidden, hidden), (self.output, output)):
            assert theirs.grad is not None
            wanted = (theirs.detach() - RATE * theirs.grad).numpy()
            np.testing.assert_allclose(ours[:, : self.dim], wanted, atol=2e-6)


def logistic(hidden: torch.Tensor, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """-log likelihood of labels, (H, D) x (K, D)."""
    scores = hidden @ outputs.T
    return -(
        labels * torch.nn.functional.logsigmoid(scores) + (1 - labels) * torch.nn.functional.logsigmoid(-scores)
    ).sum()


def one_way(word: int, others: int, path: list[int], labels: list[float]) -> Tree:
    """A tree in which one word has a way and the others have none: so that only that word is learned."""
    lengths = [len(path) if w == word else 0 for w in range(others)]
    begin = np.concatenate(([0], np.cumsum(lengths)))
    return Tree(begin, np.array(path, np.int32), np.array(labels, np.float32))


def drawn(counts: np.ndarray[Any, Any], seed: int, places: range) -> list[int]:
    """What the loop draws with the numbers at some places of its random sequence, the first at 1."""
    table = alias_table(counts**0.75)
    bits = [np.uint64(mixed(np.uint64((seed + n * 0x9E3779B97F4A7C15) % 2**64))) for n in places]
    return [draw(table, these) for these in bits]


@pytest.mark.parametrize("cbow", [False, True])
@pytest.mark.parametrize("dim", [1, 8, 20, 100])
@pytest.mark.parametrize("outputs", [6, 11])
def test_negative_sampling_goes_down_the_gradient(outputs: int, dim: int, cbow: bool) -> None:
    """Two words: each is all that is around the other (so that CBOW's mean is it), one after the other."""
    case = Case(9, dim)  # some negatives come twice, some are the word itself
    hidden, output = case.tensors()
    for word, around, first in ((7, 2, 4), (2, 7, 4 + outputs)):  # behind one number a word, and one for the window
        negatives = drawn(case.counts, 1, range(first, first + outputs - 1))
        rows = [word, *(negative for negative in negatives if negative != word)]
        labels = torch.tensor([1.0] + [0.0] * (len(rows) - 1), dtype=torch.float64)
        hidden.grad = output.grad = None
        logistic(hidden[[around]], output[rows], labels).backward()
        with torch.no_grad():
            for table in (hidden, output):
                assert table.grad is not None
                table -= RATE * table.grad
    hidden.grad, output.grad = torch.zeros_like(hidden), torch.zeros_like(output)
    case.learn([7, 2], outputs=outputs, cbow=cbow)
    case.close(hidden, output)


def test_negatives_are_shared_by_a_window() -> None:
    """Three words, of which the outer ones see one word and the middle one sees both: its gradient is one step."""
    case = Case(30, 16)
    plain = Case(30, 16)
    case.learn([7, 2, 9], window=1)
    changed = np.flatnonzero((case.output != plain.output).any(1))
    assert set(changed) <= {7, 2, 9, *drawn(case.counts, 1, range(1, 30))} and len(changed) <= 3 * 6
    assert set(np.flatnonzero((case.hidden != plain.hidden).any(1))) == {7, 2, 9}


@pytest.mark.parametrize("cbow", [False, True])
@pytest.mark.parametrize("nodes", [1, 5, 6, 13])
def test_hierarchical_softmax_goes_down_the_gradient(cbow: bool, nodes: int) -> None:
    """One word of a line has a way in the tree; the words around learn it, in one step."""
    case = Case(20, 24)
    line, word = [5, 3, 9, 3, 11], 9
    path, labels = list(range(nodes)), [float(n % 3 == 0) for n in range(nodes)]
    hidden, output = case.tensors()
    around = [5, 3, 3, 11]
    told = torch.tensor(labels, dtype=torch.float64)
    if cbow:  # as in the C program, each word takes the whole gradient of the mean, not its share of it
        mean = hidden[around].mean(0, keepdim=True)
        mean.retain_grad()
        logistic(mean, output[path], told).backward()
        assert hidden.grad is not None and mean.grad is not None
        hidden.grad *= len(around)
    else:
        logistic(hidden[around], output[path], told).backward()
    case.learn(line, cbow=cbow, tree=one_way(word, 20, path, labels))
    case.close(hidden, output)


@pytest.mark.parametrize("cbow", [False, True])
def test_subwords_go_down_the_gradient(cbow: bool) -> None:
    """A word's hidden row is the mean of its rows; each takes the whole gradient of that mean (fastText)."""
    case = Case(12, 24, rows=40)
    begin = np.arange(13) * 3
    rows = np.array([[word, 12 + 2 * word, 13 + 2 * word] for word in range(12)], np.int32)  # none is shared
    line, word, around = [5, 3, 9, 4, 11], 9, [5, 3, 4, 11]
    path, labels = [0, 4, 2], torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    hidden, output = case.tensors()
    means = hidden[torch.tensor(rows[around].astype(np.int64))].mean(1)
    if cbow:
        logistic(means.mean(0, keepdim=True), output[path], labels).backward()
    else:
        logistic(means, output[path], labels).backward()
    assert hidden.grad is not None
    hidden.grad *= 3 * (len(around) if cbow else 1)
    case.learn(
        line, cbow=cbow, tree=one_way(word, 12, path, labels.tolist()), subwords=Subwords(begin, rows.reshape(-1))
    )
    case.close(hidden, output)


@pytest.mark.parametrize("cbow", [False, True])
def test_subwords_of_one_row_are_plain_words(cbow: bool) -> None:
    """Where no word comes twice within reach, what is given back is what was learned."""
    line = np.random.default_rng(0).permutation(50).tolist()
    plain, made = Case(50, 32), Case(50, 32)
    plain.learn(line, shrink=True, window=4, cbow=cbow)
    own = Subwords(np.arange(51), np.arange(50, dtype=np.int32))
    made.learn(line, shrink=True, window=4, cbow=cbow, subwords=own)
    np.testing.assert_allclose(plain.hidden, made.hidden, atol=1e-5)
    np.testing.assert_allclose(plain.output, made.output, atol=1e-5)


def test_loss_is_that_of_the_pairs_measured() -> None:
    case = Case(20, 16)
    path, labels = [0, 1, 2], [1.0, 0.0, 1.0]
    hidden, output = case.tensors()
    wanted = logistic(hidden[[3, 5]], output[path], torch.tensor(labels, dtype=torch.float64)).item()
    loss, pairs, words = case.learn([9, 3, 5], tree=one_way(9, 20, path, labels))
    assert loss == pytest.approx(wanted, rel=1e-5) and (pairs, words) == (2, 3)


LECTURE = "the professor is scribbling on the board and the student is writing down the scribbles"


def meetings(words: int, *, window: int, rate: float = 1e-3, line: list[int] | None = None, **how: Any) -> Any:
    """How often each word (row) was around each other one (column), in halves of the rate.

    Outputs are the columns of the identity, hidden rows are zero: every pair adds rate / 2 to one number of a table.
    """
    case = Case(words + 1, words)  # and a row that no word has
    case.hidden[:] = 0
    case.output[:] = 0
    case.output[np.arange(words), np.arange(words)] = 1
    alone = Tree(np.arange(words + 1), np.arange(words, dtype=np.int32), np.ones(words, np.float32))
    case.learn(line or [], window=window, rate=rate, tree=alone, **how)
    return case.hidden[:words, :words] / (rate / 2)


def windows(line: list[str], window: int, **how: Any) -> dict[str, set[str]]:
    """What the loop takes for the words around each word."""
    words = sorted(set(line))
    seen = meetings(len(words), window=window, line=[words.index(word) for word in line], **how) > 0.8
    return {word: {words[row] for row in np.flatnonzero(seen[:, place])} for place, word in enumerate(words)}


def test_window_of_two_is_the_lectures() -> None:
    found = windows(LECTURE.split(), 2)
    assert found["professor"] == {"the", "is", "scribbling"}
    assert found["student"] == {"and", "the", "is", "writing"}


def test_shrinking_windows_see_near_words_more_often() -> None:
    words = [str(number) for number in range(400)]
    found = windows(words, 4, shrink=True)
    seen = [sum(str(n + away) in found[str(n)] for n in range(390)) / 390 for away in (1, 2, 3, 4, 5)]
    assert seen == pytest.approx([1, 0.75, 0.5, 0.25, 0], abs=0.08)


def test_draws_match_the_three_quarter_power() -> None:
    counts = np.array([5000, 2000, 1000, 500, 100, 50, 20, 5, 5, 1], np.int64)
    draws = 100_000
    found = np.bincount(drawn(counts, 5, range(draws)))
    expected = draws * counts**0.75 / (counts**0.75).sum()
    chi_square = float(((found - expected) ** 2 / expected).sum())
    assert chi_square < 27.9  # 9 degrees of freedom: a thousandth of fair tables are above


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60))
def test_alias_table_is_exact(weights: list[int]) -> None:
    """What the places of the table add up to for each word is its share."""
    share = np.array(weights, np.float64)
    table = alias_table(share)
    stays = (table >> np.uint64(32)).astype(np.float64) / 2**32
    found = stays.copy()
    np.add.at(found, (table & np.uint64(0xFFFFFFFF)).astype(np.int64), 1 - stays)
    np.testing.assert_allclose(found / len(weights), share / share.sum(), atol=1e-8)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=80))
def test_huffman_ways_are_short_and_lead_to_one_word(counts: list[int]) -> None:
    import heapq

    ordered = np.array(sorted(counts, reverse=True), np.int64)
    tree = huffman(ordered)
    lengths = np.diff(tree.begin)
    heap, best = list(map(int, ordered)), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        best += both
        heapq.heappush(heap, both)
    assert int(ordered @ lengths) == best
    assert sum(0.5**length for length in lengths) == pytest.approx(1)
    ways = {tuple(zip(tree.nodes[a:b], tree.labels[a:b])) for a, b in pairwise(tree.begin)}
    assert len(ways) == len(counts) and {way[0][0] for way in ways} == {len(counts) - 2}
    assert tree.nodes.max() < len(counts) - 1


def fasttext_hash(text: str) -> int:
    value = 2166136261
    for byte in text.encode():
        value ^= byte if byte < 128 else byte | 0xFFFFFF00
        value = value * 16777619 % 2**32
    return value


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8), min_size=1))
def test_ngram_hashes_are_fasttexts(words: list[str]) -> None:
    framed = [f"<{word}>" for word in words]
    ends = np.concatenate(([0], np.cumsum([len(word.encode()) for word in framed])))
    begin, hashes = ngram_hashes(np.frombuffer("".join(framed).encode(), np.uint8), ends, 1, 4)
    for number, word in enumerate(framed):
        grams = [word[a : a + n] for a in range(len(word)) for n in range(1, 5) if a + n <= len(word)]
        ends_of_word = (word[0], word[-1])
        marks = [(a, n) for a in range(len(word)) for n in range(1, 5) if a + n <= len(word)]
        wanted = [fasttext_hash(g) for g, (a, n) in zip(grams, marks) if not (n == 1 and a in (0, len(word) - 1))]
        assert hashes[begin[number] : begin[number + 1]].tolist() == wanted, (word, ends_of_word)


def test_lines_are_kept_apart_and_ids_of_no_word_are_left_out() -> None:
    a, b, c, d = range(FIRST, FIRST + 4)
    found = meetings(4, window=1, tokens=[1, a, 3, 3, b, END, END, 1, c, END, d]) > 0.8
    assert np.argwhere(found).tolist() == [[0, 1], [1, 0]]  # what is unknown lies between no two words


def test_the_rate_falls_evenly_from_line_to_line() -> None:
    """Two lines of two words, the second beginning when half of the text is read."""
    found = meetings(4, window=1, final_rate=0.0, tokens=[FIRST, FIRST + 1, END, FIRST + 2, FIRST + 3, END])
    assert [found[0, 1], found[1, 0], found[2, 3], found[3, 2]] == pytest.approx([1, 1, 0.5, 0.5], rel=1e-3)


def test_long_lines_are_read_in_parts_of_ten_thousand_words() -> None:
    line = [0] * 10_002
    line[4999:5001], line[9998:10_001] = [1, 2], [3, 4, 5]
    found = meetings(6, window=1, line=line) > 0.8
    assert found[1, 2] and found[2, 1] and found[3, 4] and found[4, 3]
    assert not found[4, 5] and not found[5, 4] and found[0, 5]


def test_words_are_left_out_as_often_as_it_is_said() -> None:
    case = Case(9, 8)
    assert case.learn([], tokens=[FIRST + 3, FIRST + 5] * 4000, keep=0.3)[2] == pytest.approx(2400, rel=0.1)
    assert case.learn([], tokens=[FIRST + 3, FIRST + 5] * 4000, keep=1.0)[2] == 8000


def test_words_of_more_subwords_weigh_more_in_a_mean() -> None:
    """fastText's CBOW takes the mean of all rows of all words around, not the mean of their means."""
    case = Case(12, 24, rows=40)
    sizes = [1 + word % 4 for word in range(12)]
    rows = [[word, *range(12 + 2 * word, 12 + 2 * word + size - 1)] for word, size in enumerate(sizes)]
    rows = [[row if row < 40 else 12 for row in some] for some in rows]
    line, word, around = [5, 3, 9, 4, 2], 9, [5, 3, 4, 2]
    path, labels = [0, 4, 2], torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    hidden, output = case.tensors()
    parts = [row for near in around for row in rows[near]]
    assert len(set(parts)) == len(parts) and len({sizes[near] for near in around}) > 1
    logistic(hidden[parts].mean(0, keepdim=True), output[path], labels).backward()
    assert hidden.grad is not None
    hidden.grad *= len(parts)  # each row takes the whole gradient of the mean
    begin = np.concatenate(([0], np.cumsum(sizes)))
    flat = np.array([row for some in rows for row in some], np.int32)
    case.learn(line, cbow=True, tree=one_way(word, 12, path, labels.tolist()), subwords=Subwords(begin, flat))
    case.close(hidden, output)
