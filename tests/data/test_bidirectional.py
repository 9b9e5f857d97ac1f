"""A bidirectional start: every pair both ways, then one way; nothing else about batches changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.data.batches import Batches
from anaphora.data.bidirectional import BidirectionalPairs, BidirectionalStart
from anaphora.data.corpus import Corpus
from anaphora.tokenizers.tokenizer import BOS, EOS


def corpus_of(pairs: list[tuple[int, int]]) -> Corpus:
    """Pairs of these lengths; a row's text says which it is, its ids are its own."""
    columns: dict[str, pa.Array] = {}
    for number, side in enumerate(("source", "target")):
        rows = [[4 + 2 * row + number] * pair[number] for row, pair in enumerate(pairs)]
        columns[side] = pa.array([f"{side} {row}" for row in range(len(pairs))])
        columns[f"{side}_ids"] = pa.array(rows, type=pa.list_(pa.int32()))
    half = len(pairs) // 2
    record = pa.RecordBatch.from_pydict(columns)
    shards = [record.slice(0, half), record.slice(half)] if half else [record]
    return Corpus([pa.RecordBatch.from_pydict(shard.to_pydict(), schema=shard.schema) for shard in shards], SIDES)


SIDES = ("source", "target")
PAIRS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=80)
@given(pairs=PAIRS, data=st.data())
def test_a_turned_row_is_the_pair_turned_round(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    corpus, n = corpus_of(pairs), len(pairs)
    both = BidirectionalPairs(corpus)
    assert len(both) == 2 * n
    rows = np.array(data.draw(st.lists(st.integers(0, 2 * n - 1), min_size=1, max_size=20)))
    for side, other in (SIDES, SIDES[::-1]):
        values, offsets = both.ids(side, rows)
        texts = both.texts(side, rows)
        for place, row in enumerate(rows.tolist()):
            there = side if row < n else other
            assert texts[place] == f"{there} {row % n}"
            assert values[offsets[place] : offsets[place + 1]].tolist() == corpus.ids(there, [row % n])[0].tolist()
            assert both.lengths[row, SIDES.index(side)] == len(corpus.ids(there, [row % n])[0])


@settings(deadline=None, max_examples=60)
@given(pairs=PAIRS, epochs=st.integers(1, 3), batch_tokens=st.integers(1, 200), multiple=st.sampled_from([1, 4]))
def test_both_directions_at_first_then_one(
    pairs: list[tuple[int, int]], epochs: int, batch_tokens: int, multiple: int
) -> None:
    corpus, n = corpus_of(pairs), len(pairs)
    start = BidirectionalStart(corpus, epochs, batch_tokens=batch_tokens, seed=3, multiple=multiple)
    alone = Batches(corpus, batch_tokens, seed=3, multiple=multiple)
    for epoch in range(epochs + 1):
        seen = []
        for index in range(start.count(epoch)):
            batch = start.batch(epoch, index)
            seen += batch.rows.tolist()
            assert len(batch) == 1 or batch.height * batch.width <= batch_tokens
            assert batch.tokens["target"][0, 0] == BOS
            assert batch.tokens["source"][0, batch.lengths["source"][0] - 1] == EOS
        assert sorted(seen) == list(range(2 * n if epoch < epochs else n))
    after = [start.batch(epochs, index).rows.tolist() for index in range(start.count(epochs))]
    assert after == [alone.batch(epochs, index).rows.tolist() for index in range(alone.count(epochs))]
    assert start.tokens_an_epoch("target") == alone.tokens_an_epoch("target")


def test_goes_on_across_the_change_of_direction() -> None:
    """From any position the batches are those of an uninterrupted run."""
    start = BidirectionalStart(corpus_of([(3, 5), (7, 2), (4, 4), (6, 9)]), 1, batch_tokens=20, seed=1)
    whole = start.from_position(0, 0)
    trail = [next(whole) for _ in range(start.count(0) + start.count(1) + 2)]
    for (_, here), (expected, after) in pairwise(trail):
        batch, then = next(start.from_position(*here))
        assert then == after
        assert np.array_equal(batch.rows, expected.rows)
        assert np.array_equal(batch.tokens["source"], expected.tokens["source"])


def test_the_largest_batch_of_both_is_tried_first() -> None:
    start = BidirectionalStart(corpus_of([(3, 12)] * 5 + [(20, 1)]), 1, batch_tokens=60, seed=1)
    cells = [start.batch(epoch, index).cells for epoch in (0, 1) for index in range(start.count(epoch))]
    assert start.largest().cells >= max(cells)
