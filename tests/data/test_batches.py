"""Batches: bounded, complete, pure functions of their position, and the same from every format."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.data import batches as module
from anaphora.data.batches import Batch, Batches
from anaphora.data.corpus import Corpus
from anaphora.data.preparation import prepare
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, TokenizerConfig

Files = dict[str, list[str]]


def toy(lengths: np.ndarray) -> Corpus:
    """A corpus of given lengths (n, sides), of made-up ids."""
    columns = {}
    for side, column in zip(("source", "target") if lengths.shape[1] == 2 else ("text",), lengths.T):
        offsets = np.concatenate([[0], np.cumsum(column)]).astype(np.int32)
        ids = pa.array(np.arange(offsets[-1], dtype=np.int32) % 50 + 4)
        columns[f"{side}_ids"] = pa.ListArray.from_arrays(pa.array(offsets), ids)
    return Corpus([pa.RecordBatch.from_pydict(columns)], [name.removesuffix("_ids") for name in columns])


def same(a: Batch, b: Batch) -> bool:
    return np.array_equal(a.rows, b.rows) and all(np.array_equal(a.tokens[s], b.tokens[s]) for s in a.tokens)


LENGTHS = st.integers(1, 2).flatmap(
    lambda sides: st.lists(st.tuples(*[st.integers(1, 40)] * sides), min_size=1, max_size=80)
)


@settings(deadline=None, max_examples=150)
@given(lengths=LENGTHS, batch_tokens=st.integers(1, 200), seed=st.integers(0, 2**32), epoch=st.integers(0, 50))
def test_every_row_once_and_batches_bounded(lengths: list, batch_tokens: int, seed: int, epoch: int) -> None:
    corpus = toy(np.array(lengths))
    batches = Batches(corpus, batch_tokens, seed)
    order = batches.order(epoch)
    for cut in (order, [batch.rows for batch in batches.fixed()]):
        assert sorted(np.concatenate(cut).tolist()) == list(range(len(corpus)))
    for index, rows in enumerate(order):
        batch = batches.batch(epoch, index)
        assert len(rows) == 1 or len(rows) * max(t.shape[1] for t in batch.tokens.values()) <= batch_tokens
    again = Batches(corpus, batch_tokens, seed).order(epoch)
    assert len(again) == len(order)
    assert all(np.array_equal(a, b) for a, b in zip(order, again))
    assert batches.largest().cells >= max(batch.cells for batch in batches.fixed())


@settings(deadline=None, max_examples=80)
@given(lengths=LENGTHS, multiple=st.sampled_from([2, 4, 8]), limit=st.sampled_from([None, 42, 43, 64]))
def test_few_shapes(lengths: list, multiple: int, limit: int | None) -> None:
    """Widths are multiples, rows follow from the widest side, nothing real is lost and the bound holds."""
    corpus, batch_tokens = toy(np.array(lengths)), 200
    batches = Batches(corpus, batch_tokens, multiple=multiple, max_length=limit)
    seen: list[int] = []
    for index in range(batches.count(3)):
        batch = batches.batch(3, index)
        widths = [tokens.shape[1] for tokens in batch.tokens.values()]
        assert all(width % multiple == 0 or width == limit for width in widths)
        heights = {len(tokens) for tokens in batch.tokens.values()}
        assert heights == {max(len(batch), batch_tokens // max(widths))}
        for side, tokens in batch.tokens.items():
            begin = [] if side == "source" else [BOS]
            for row, cells in zip(batch.rows, tokens.tolist()):
                ids = corpus.ids(side, [row])[0].tolist()
                assert cells == [*begin, *ids, EOS] + [PAD] * (len(cells) - len(begin) - len(ids) - 1)
            for cells in tokens[len(batch) :].tolist():
                assert cells == [(begin or [EOS])[0]] + [PAD] * (len(cells) - 1)
            assert (batch.lengths[side][len(batch) :] == 1).all()
        seen += batch.rows.tolist()
    assert sorted(seen) == list(range(len(corpus)))


@settings(deadline=None, max_examples=50)
@given(lengths=LENGTHS)
def test_cells_are_ids_between_special_tokens(lengths: list) -> None:
    corpus = toy(np.array(lengths))
    for batch in Batches(corpus, 120).fixed():
        for side, tokens in batch.tokens.items():
            begin = [] if side == "source" else [BOS]
            assert tokens.dtype == np.int64
            assert tokens.shape[1] == batch.lengths[side].max()
            for row, cells, length in zip(batch.rows, tokens.tolist(), batch.lengths[side]):
                ids = corpus.ids(side, [row])[0].tolist()
                assert cells == [*begin, *ids, EOS] + [PAD] * (len(cells) - length)


def test_epochs_differ_in_composition_and_order() -> None:
    lengths = np.random.default_rng(0).integers(5, 25, (3000, 2))
    batches = Batches(toy(lengths), 1000)
    first, second = ({frozenset(rows.tolist()) for rows in batches.order(epoch)} for epoch in (0, 1))
    assert len(first & second) < 0.05 * len(first)
    widths = [[lengths[rows].max() for rows in batches.order(epoch)] for epoch in (0, 1)]
    assert widths[0] != widths[1] != sorted(widths[1])
    assert [r.tolist() for r in batches.order(0)] != [r.tolist() for r in Batches(toy(lengths), 1000, seed=2).order(0)]


@pytest.mark.parametrize("prefetch", [False, True])
def test_resuming_anywhere_gives_the_same_batches(prefetch: bool) -> None:
    batches = Batches(toy(np.random.default_rng(0).integers(5, 25, (200, 2))), 500)
    count = batches.count(0) + batches.count(1) + 3
    whole = list(islice(batches.from_position(0, 0), count))
    assert whole[batches.count(0) - 1][1] == (1, 0)
    position = (0, 0)
    resumed = []
    while len(resumed) < count:  # stop and start again after every third batch
        fresh = Batches(batches.corpus, 500)
        for batch, after in islice(fresh.from_position(*position, prefetch=prefetch), 3):
            resumed.append(batch)
            position = after
    assert all(same(a, b) for (a, _), b in zip(whole, resumed))


def test_pools_keep_every_row_and_shuffle_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ROWS", 64)
    monkeypatch.setattr(module, "POOL_BLOCKS", 3)
    batches = Batches(toy(np.random.default_rng(0).integers(5, 25, (1000, 2))), 500)
    firsts = set()
    for epoch in range(3):
        order = batches.order(epoch)
        assert sorted(np.concatenate(order).tolist()) == list(range(1000))
        firsts.add(frozenset((np.concatenate(order)[:100] // 64).tolist()))
        assert max(len(set((rows // 64).tolist())) for rows in order) <= 3
    assert len(firsts) > 1


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subword_dropout_is_drawn_by_position(tmp_path: Path, pair_files: Files, kind: str) -> None:
    from anaphora.tokenizers.subword_dropout import SubwordSampler

    config = TokenizerConfig(kind=kind, vocabulary=350)  # type: ignore[arg-type]
    done = prepare(tmp_path / "data", pair_files, tokenizer=config)
    samplers = {side: SubwordSampler(one) for side, one in done.tokenizers.items()}
    dropped = Batches(done.train, 1000, samplers=samplers, dropout=0.5)
    plain = Batches(done.train, 1000)
    assert same(dropped.batch(3, 2), Batches(done.train, 1000, samplers=samplers, dropout=0.5).batch(3, 2))
    for index in range(dropped.count(0)):
        drawn = dropped.batch(0, index)
        assert len(drawn) * max(tokens.shape[1] for tokens in drawn.tokens.values()) <= 1000  # although rows have grown
        for side, one in done.tokenizers.items():
            assert one.decode_batch(drawn.tokens[side]) == done.train.texts(side, drawn.rows)
            assert drawn.lengths[side].sum() > done.train.lengths[drawn.rows].sum(0)[done.train.sides.index(side)]
    most = max(dropped.batch(0, index).cells for index in range(dropped.count(0)))
    assert 0.95 * most <= dropped.largest().cells <= 2 * 1000
    few = Batches(done.train, 1000, samplers=samplers, dropout=0.5, multiple=4)
    for index in range(few.count(1)):
        made = few.batch(1, index)
        assert all(tokens.shape[1] % 4 == 0 for tokens in made.tokens.values())
        widest = max(tokens.shape[1] for tokens in made.tokens.values())
        assert len(made) == 1 or len(made.tokens["source"]) * widest <= 1000
    undropped = Batches(done.train, 1000, samplers=samplers, dropout=0.0)
    assert all(same(undropped.batch(0, i), plain.batch(0, i)) for i in range(plain.count(0)))
    for batch in dropped.fixed():  # validation draws nothing
        for number, side in enumerate(done.train.sides):
            assert (batch.lengths[side] == done.train.lengths[batch.rows, number] + 1 + number).all()


def test_every_format_gives_the_same_batches(
    tmp_path: Path, write_corpus, german: list[str], english: list[str]
) -> None:
    found = []
    for format in ("text", "tsv", "jsonl", "parquet"):
        for compression in ("", ".gz", ".xz", ".zst"):
            sides = write_corpus(tmp_path, list(zip(german, english)), format, compression)
            done = prepare(tmp_path / f"{format}{compression}", sides, tokenizer=TokenizerConfig(vocabulary=400))
            batches = Batches(done.train, 500)
            found.append([batch for batch, _ in islice(batches.from_position(0, 0), batches.count(0))])
    assert all(len(run) == len(found[0]) and all(map(same, run, found[0])) for run in found[1:])


def test_multi30k_padding_and_speed(tmp_path: Path, multi30k: Files) -> None:
    done = prepare(tmp_path / "data", multi30k)
    batches = Batches(done.train, 4096)
    medians = []
    for epoch in range(3):
        seconds, cells, used = [], 0, 0
        for index in range(batches.count(epoch)):
            start = time.thread_time()
            batch = batches.batch(epoch, index)
            seconds.append(time.thread_time() - start)
            cells += batch.cells
            used += sum(int(lengths.sum()) for lengths in batch.lengths.values())
        assert 1 - used / cells < 0.05
        medians.append(np.median(seconds))
    assert min(medians) < 0.5e-3  # 0.14 ms on a quiet core


def test_a_million_rows_are_ordered_quickly() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, (1_000_000, 2))
    batches = Batches(toy(lengths), 4096)
    start = time.thread_time()
    batches.order(0)
    assert time.thread_time() - start < 5  # under a second when the machine is quiet


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UserError, match="batch_tokens is 0; make it a few thousand"):
        Batches(toy(np.ones((1, 2), dtype=int)), 0)
    with pytest.raises(UserError, match="seed is -1; make it 0 or more"):
        Batches(toy(np.ones((1, 2), dtype=int)), 100, seed=-1)
