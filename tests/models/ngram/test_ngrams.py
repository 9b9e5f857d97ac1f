"""The sorts behind counting: against sorted tuples of words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anaphora.models.ngram.kernels.ngram_counts import (
    RADIX_SORT_SIZE,
    equal_parts,
    insertion_sort,
    number_positions,
    positions_by_word,
    refine,
    sort_by_digits,
)
from anaphora.models.ngram.kernels.ngram_runs import (
    first_children,
    merge_rows,
    pick,
    put_numbers,
    row_keys,
    sort_run,
    tally,
)
from anaphora.models.ngram.kernels.ngrams import NOWHERE, count_of_counts
from anaphora.tokenizers.tokenizer import BOS, EOS
from ngram_texts import sentences, tokens_of


@given(st.lists(st.integers(0, 5), max_size=40))
def test_positions_are_sorted_by_word_and_then_as_they_come(tokens: list[int]) -> None:
    found = positions_by_word(np.array(tokens, np.uint32), np.bincount(tokens, minlength=6).astype(np.uint32))
    assert found.tolist() == sorted(range(len(tokens)), key=lambda i: (tokens[i], i))


@given(sentences())
def test_refined_groups_are_the_pairs_of_a_text(texts: list[list[int]]) -> None:
    tokens = tokens_of(texts)
    words = int(tokens.max()) + 1
    counts = np.bincount(tokens, minlength=words).astype(np.uint32)
    begins = positions_by_word(tokens, counts)
    word, first, suffix, count, left = refine(tokens, tokens, begins, counts, 1, BOS, words - 1)
    places = [place for place in range(len(tokens) - 1) if tokens[place + 1] != BOS]
    pairs = [(int(tokens[place]), int(tokens[place + 1])) for place in places]
    distinct = sorted(set(pairs))
    assert word.tolist() == suffix.tolist() == [b for _, b in distinct]  # the suffix of a pair is its word
    assert count.tolist() == [pairs.count(pair) for pair in distinct]
    assert first.tolist() == [sum(a < context for a, _ in distinct) for context in range(words)]
    assert begins[:left].tolist() == sorted(places, key=lambda place: (tokens[place], tokens[place + 1], place))
    ids = np.full(len(tokens), NOWHERE, np.uint32)
    number_positions(begins[:left], count, 10, ids)
    numbers = iter(pairs)
    assert ids.tolist() == [NOWHERE if token == EOS else 10 + distinct.index(next(numbers)) for token in tokens]


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(0, 2**32))
def test_sorts(largest: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, largest, size, np.uint64, endpoint=True) << np.uint64(32) | np.arange(size, dtype=np.uint64)
    expected = np.sort(keys)
    other, shuffled = keys.copy(), rng.permutation(keys)
    sorted_keys, places = sort_run(shuffled.copy(), np.arange(size, dtype=np.uint32))
    np.testing.assert_array_equal(sorted_keys, expected)
    np.testing.assert_array_equal(shuffled[places], expected)
    sort_by_digits(keys, np.empty_like(keys), largest)
    insertion_sort(other)
    np.testing.assert_array_equal(keys, expected)
    np.testing.assert_array_equal(other, expected)


def test_groups_of_any_size_are_sorted() -> None:
    """Each way of sorting has its turn: words that come once, some hundred times, and more often than LARGE."""
    rng = np.random.default_rng(0)
    words = np.concatenate([np.full(3 * RADIX_SORT_SIZE, 4), np.full(300, 5), np.arange(6, 60)])
    tokens = np.concatenate(([BOS], rng.permutation(words), [EOS])).astype(np.uint32)
    counts = np.bincount(tokens).astype(np.uint32)
    word, first, _, count, _ = refine(tokens, tokens, positions_by_word(tokens, counts), counts, 1, BOS, 59)
    pairs, times = np.unique(np.stack([tokens[:-1], tokens[1:]]), axis=1, return_counts=True)
    np.testing.assert_array_equal(word, pairs[1])
    np.testing.assert_array_equal(count, times)
    np.testing.assert_array_equal(first, np.searchsorted(pairs[0], np.arange(60)))


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_equal_parts(sizes: list[int], parts: int) -> None:
    cuts = equal_parts(np.array(sizes, np.uint32), parts).tolist()
    assert cuts[0] == [0, 0] and cuts[-1] == [len(sizes), sum(sizes)]
    for (group, member), (last, end) in pairwise(cuts):
        assert group <= last and member + sum(sizes[group:last]) == end
        assert end - member <= sum(sizes) / parts + 10


@given(st.lists(st.integers(0, 9)))
def test_count_of_counts(counts: list[int]) -> None:
    assert count_of_counts(np.array(counts, np.uint32))[1:].tolist() == [counts.count(k) for k in (1, 2, 3, 4)]


ROW = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(st.lists(st.dictionaries(ROW, st.integers(1, 9), max_size=8), min_size=1, max_size=4), st.integers(0, 7))
def test_merged_rows_are_one_sorted_list(runs: list[dict[tuple[int, int], int]], number: int) -> None:
    rows = np.array(
        [(context, word, context + word, times) for run in runs for (context, word), times in sorted(run.items())],
        np.uint32,
    ).reshape(-1, 4)
    keys = row_keys(rows)
    merged, numbers = merge_rows(rows, keys, np.argsort(keys), number)
    distinct = sorted({key for run in runs for key in run})
    assert merged.tolist() == [[c, w, c + w, sum(run.get((c, w), 0) for run in runs)] for c, w in distinct]
    assert numbers.tolist() == [number + distinct.index((int(c), int(w))) for c, w, _, _ in rows]


@given(st.lists(st.integers(0, 9)).map(sorted), st.integers(0, 9), st.integers(0, 9), st.integers(0, 5))
def test_first_children(contexts: list[int], begin: int, length: int, number: int) -> None:
    found = first_children(np.array(contexts, np.uint32), begin, begin + length, number)
    assert found.tolist() == [number + sum(c < context for c in contexts) for context in range(begin, begin + length)]


def test_numbers_where_there_is_one() -> None:
    local = np.array([2, NOWHERE, 0], np.uint32)
    put_numbers(local, np.array([70, 80, 90], np.uint32))
    assert local.tolist() == [90, NOWHERE, 70]


def test_parts_of_a_table_are_counted_and_looked_up() -> None:
    index = np.array([0, 3, 3, 2, 5], np.uint32)
    counts = np.zeros(2, np.uint32)
    tally(index, 2, counts)
    assert counts.tolist() == [1, 2]
    out = np.full(5, -1.0)
    pick(index, np.array([0.25, 0.5]), 2, out)
    assert out.tolist() == [-1, 0.5, 0.5, 0.25, -1]
