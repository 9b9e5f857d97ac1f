"""Batches of a language model's text: every token once an epoch, streams that go on, documents kept apart."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.data.batches import EpochBatches
from anaphora.data.language_batches import (
    NO_DOCUMENT,
    LanguageBatch,
    LineBatches,
    PackedBatches,
    Pieces,
    StreamBatches,
    line_starts,
    open_ids,
    pack,
)
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD

LINES = st.lists(st.integers(0, 30), min_size=1, max_size=40)  # words of each line
SEEDS = st.tuples(st.integers(0, 2**32), st.integers(0, 50))


def framed(sizes: list[int]) -> np.ndarray:
    """Lines ⟨s⟩ w … ⟨/s⟩ in which no word comes twice."""
    ids, word = [], 10
    for size in sizes:
        ids += [BOS, *range(word, word + size), EOS]
        word += size
    return np.array(ids, np.uint32)


def stream(sizes: list[int]) -> np.ndarray:
    """The same as one text: ⟨s⟩ once."""
    ids = framed(sizes)
    return np.concatenate([[BOS], ids[ids != BOS]]).astype(np.uint32)


def epoch_of(batches: EpochBatches[LanguageBatch], epoch: int) -> list[LanguageBatch]:
    return [batches.batch(epoch, index) for index in range(batches.count(epoch))]


def predicted(batches: list[LanguageBatch]) -> Counter[int]:
    """How often each token is predicted."""
    found: Counter[int] = Counter()
    for batch in batches:
        found.update(batch.labels()[batch.labels() != PAD].tolist())
    return found


def wanted(ids: np.ndarray) -> Counter[int]:
    return Counter(ids[ids != BOS].tolist())


def same(a: LanguageBatch, b: LanguageBatch) -> bool:
    documents = (a.documents is None) == (b.documents is None) and (
        a.documents is None or np.array_equal(a.documents, b.documents)
    )
    return documents and np.array_equal(a.tokens, b.tokens) and a.fresh == b.fresh and a.rows == b.rows


# -- every token once an epoch -----------------------------------------------------------------------------------------


@given(sizes=LINES, batch_tokens=st.integers(2, 120), place=SEEDS, longest=st.none() | st.integers(2, 12))
def test_lines_once(sizes: list[int], batch_tokens: int, place: tuple[int, int], longest: int | None) -> None:
    ids, (seed, epoch) = framed(sizes), place
    for multiple in (1, 4):
        batches = LineBatches(ids, batch_tokens, seed, max_length=longest, multiple=multiple)
        made = epoch_of(batches, epoch)
        assert predicted(made) == wanted(ids)
        assert sum(predicted(made).values()) == batches.tokens_an_epoch("text")
        for batch in made:
            assert (batch.tokens[:, 0] == BOS).all()
            assert batch.rows == 1 or batch.height * batch.width <= max(batch_tokens, batch.width)
            assert longest is None or batch.width <= longest
            real = np.arange(batch.width) < batch.lengths[:, None]
            assert ((batch.tokens != PAD) == real).all()


@given(sizes=LINES, context=st.integers(1, 20), streams=st.integers(1, 9), place=SEEDS, carries=st.booleans())
def test_stream_once_in_one_shape(
    sizes: list[int], context: int, streams: int, place: tuple[int, int], carries: bool
) -> None:
    ids, (seed, epoch) = stream(sizes), place
    batches = StreamBatches(ids, streams * context, context, seed, carries=carries)
    made = epoch_of(batches, epoch)
    assert predicted(made) == wanted(ids)
    assert batches.tokens_an_epoch("text") == len(ids) - 1
    assert len({batch.tokens.shape for batch in made}) == 1
    assert made[0].width <= context + 1
    for batch in made:
        real = np.arange(batch.width) < batch.lengths[:, None]
        assert ((batch.tokens != PAD) == real).all()
        assert not batch.fresh or (batch.tokens[:, 0] == BOS).all()


@given(sizes=LINES, context=st.integers(1, 40), streams=st.integers(1, 5), place=SEEDS)
def test_packed_once_in_one_shape(sizes: list[int], context: int, streams: int, place: tuple[int, int]) -> None:
    ids, (seed, epoch) = framed(sizes), place
    batches = PackedBatches(ids, streams * context, context, seed)
    made = epoch_of(batches, epoch)
    assert predicted(made) == wanted(ids)
    assert sum(predicted(made).values()) == batches.tokens_an_epoch("text")
    assert {batch.tokens.shape for batch in made} == {(streams, context + 1)}


# -- streams go on -----------------------------------------------------------------------------------------------------


@given(sizes=LINES, context=st.integers(1, 20), streams=st.integers(1, 9), place=SEEDS)
def test_a_carried_row_goes_on_where_the_last_batch_stopped(
    sizes: list[int], context: int, streams: int, place: tuple[int, int]
) -> None:
    ids, (seed, epoch) = stream(sizes), place
    made = epoch_of(StreamBatches(ids, streams * context, context, seed, carries=True), epoch)
    assert [batch.fresh for batch in made] == [True] + [False] * (len(made) - 1)
    for before, after in pairwise(made):
        going = after.lengths > 1  # rows that have anything left to read
        assert (before.tokens[going, -1] == after.tokens[going, 0]).all()
    for row in range(made[0].height):
        read = np.concatenate([batch.tokens[row, :-1][batch.labels()[row] != PAD] for batch in made])
        words = read[(read != BOS) & (read != EOS)]  # no word comes twice, so neighbours in the text are neighbours
        ring = ids[(ids != BOS) & (ids != EOS)]
        if len(words) > 1:
            at = int(np.flatnonzero(ring == words[0])[0])
            assert (words == np.roll(ring, -at)[: len(words)]).all()


def test_another_epoch_enters_the_text_elsewhere() -> None:
    ids = stream([50] * 20)
    batches = StreamBatches(ids, 40, 10, carries=True)
    firsts = {tuple(batches.batch(epoch, 0).tokens[:, 1].tolist()) for epoch in range(10)}
    assert len(firsts) > 5
    alone = StreamBatches(ids, 40, 10, carries=False)
    assert not same(alone.batch(0, 0), alone.batch(1, 0))
    assert all(batch.fresh for batch in epoch_of(alone, 0))


# -- documents apart ---------------------------------------------------------------------------------------------------


@given(sizes=LINES, context=st.integers(1, 40), place=SEEDS)
def test_packed_rows_hold_the_rows_that_lines_are(sizes: list[int], context: int, place: tuple[int, int]) -> None:
    ids, (seed, epoch) = framed(sizes), place
    apart: Counter[tuple[int, ...]] = Counter()
    for batch in epoch_of(LineBatches(ids, 64, seed, max_length=context + 1), epoch):
        apart.update(tuple(row[:length].tolist()) for row, length in zip(batch.tokens, batch.lengths))
    together: Counter[tuple[int, ...]] = Counter()
    for batch in epoch_of(PackedBatches(ids, context, context, seed), epoch):
        assert batch.documents is not None
        for row, numbers, length in zip(batch.tokens, batch.documents, batch.lengths):
            assert (numbers[length:] == NO_DOCUMENT).all()
            assert (numbers[:length] >= 0).all()
            for number in np.unique(numbers[:length]):
                together[tuple(row[numbers == number].tolist())] += 1
    assert together == apart


@given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=200))
def test_packing_leaves_little_room(sizes: list[int]) -> None:
    rows = pack(np.arange(len(sizes)), np.array(sizes), 20)
    assert sorted(piece for row in rows for piece in row) == list(range(len(sizes)))
    assert all(sum(sizes[piece] for piece in row) <= 20 for row in rows)
    assert len(rows) <= 1.25 * sum(sizes) / 20 + len([size for size in sizes if size > 10]) + 1


# -- places, files, mistakes -------------------------------------------------------------------------------------------


def kinds(ids: np.ndarray, text: np.ndarray) -> list[EpochBatches[LanguageBatch]]:
    return [
        LineBatches(ids, 40, 3),
        StreamBatches(text, 40, 10, 3, carries=True),
        StreamBatches(text, 40, 10, 3, carries=False),
        PackedBatches(ids, 40, 20, 3),
    ]


def test_from_a_position_on_as_from_the_beginning() -> None:
    sizes = np.random.default_rng(1).integers(0, 12, 60).tolist()
    for first, second in zip(*(kinds(framed(sizes), stream(sizes)) for _ in range(2))):
        whole = list(islice(first.from_position(0, 0), 2 * first.count(0) + 3))
        middle = first.count(0) + 1
        epoch, index = whole[middle - 1][1]
        for prefetch in (False, True):
            rest = list(islice(second.from_position(epoch, index, prefetch=prefetch), len(whole) - middle))
            assert all(same(a, b) and p == q for (a, p), (b, q) in zip(whole[middle:], rest))


def test_the_largest_batch_is_as_large_as_any() -> None:
    sizes = np.random.default_rng(2).integers(0, 12, 60).tolist()
    for batches in kinds(framed(sizes), stream(sizes)):
        largest = batches.largest()
        most = max(batch.height * batch.width for batch in epoch_of(batches, 0))
        assert largest.height * largest.width >= 0.9 * most
        assert largest.first(1).tokens.shape == (1, largest.width)


def test_text_is_mapped(tmp_path: Path) -> None:
    ids = framed([3, 0, 5])
    (tmp_path / "train.ids").write_bytes(ids.tobytes())
    mapped = open_ids(tmp_path / "train.ids")
    assert isinstance(mapped, np.memmap)
    assert np.array_equal(line_starts(mapped), [0, 5, 7, 14])
    (tmp_path / "empty.ids").touch()
    assert len(open_ids(tmp_path / "empty.ids")) == 0


def test_lines_for_a_classifier_are_cut_short_not_in_pieces() -> None:
    ids = framed([3, 12, 5])
    batches = LineBatches(ids, 1000, max_length=6, classes=np.array([7, 8, 9]))
    (batch,) = epoch_of(batches, 0)
    assert batch.classes is not None
    assert sorted(zip(batch.lengths.tolist(), batch.classes.tolist())) == [(5, 7), (6, 8), (6, 9)]
    assert batches.tokens_an_epoch("text") == 3
    assert Pieces.of(ids, 6, whole=True).cut == 2


def test_mistakes() -> None:
    with pytest.raises(UserError, match=r"is less than one row of training\.context=20"):
        StreamBatches(stream([30]), 10, 20, carries=True)
    with pytest.raises(UserError, match="is less than one row"):
        PackedBatches(framed([30]), 10, 20)
    with pytest.raises(UserError, match="no training text"):
        StreamBatches(np.array([BOS], np.uint32), 10, 5, carries=True)
