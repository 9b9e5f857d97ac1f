"""Learning word vectors from ids on disk: word2vec, with checkpoints and resume.

    train.ids (mapped) ──► pieces of whole lines ──► threads (models/vectors/kernels/word2vec_updates.py) ──► two
    tables, learned side by side

The text is cut into pieces, the same ones in every epoch, and a piece is learned by one thread. Which bits are drawn
for a piece and which learning rate it has depend on nothing but the seed, the epoch and the place of the piece: so one
thread that is killed and goes on from its last checkpoint ends with the same bits as one that never stopped. Several
threads change the same tables without waiting for one another (Hogwild), which costs the bits, not the quality.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.config import build
from anaphora.errors import UserError
from anaphora.files.foreign import parse_json
from anaphora.models.registry import System
from anaphora.models.vectors.kernels.rows import LINE, aligned_zeros, padded
from anaphora.models.vectors.kernels.word2vec_updates import (
    MAX_LINE_WORDS,
    Draws,
    Subwords,
    Tables,
    Tree,
    alias_table,
    huffman,
    ngram_hashes,
    trainer,
)
from anaphora.models.vectors.pieces import Learned as Learned
from anaphora.models.vectors.pieces import Piece, Progress, check_ids, learn_pieces, piece_seed
from anaphora.models.vectors.vector_checkpoint import opening
from anaphora.models.vectors.vector_files import read_arrays, store_arrays, words_array, words_of
from anaphora.models.vectors.vector_settings import Word2VecConfig, Word2VecTraining
from anaphora.models.vectors.word_vectors import SubwordTable, Vectors
from anaphora.tokenizers.tokenizer import EOS, SPECIALS

WORD2VEC = System(
    kind="word2vec",
    rung=22,
    task="vectors",
    settings="anaphora.models.vectors.vector_settings:Word2VecConfig",
    formats=("vectors",),
    recipe="skipgram",
)

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

PIECE_TOKENS = 1 << 17
"""Tokens of a piece, about; of a small text it is a sixty-fourth."""
MIN_PIECE_TOKENS = 1 << 12
NODES = 6
"""Nodes of a Huffman tree that are taken at once."""
COUNTED_AT_ONCE = 1 << 22


class Word2Vec:
    """Skip-gram or CBOW (Mikolov et al. 2013): a vocabulary, and what has been learned about it."""

    def __init__(self, config: Word2VecConfig, words: Sequence[str], counts: I64, *, seed: int = 1) -> None:
        if not len(words):
            raise UserError("no word is left to learn from", cure="give more text, or lower tokenizer.minimum_count")
        self.config = config
        self.words: list[str] = []
        self.counts = np.zeros(0, np.int64)
        self.stride = -(-config.dim // LINE) * LINE
        self.hidden, self.output = aligned_zeros(0), aligned_zeros(0)
        self.hashes = np.zeros(0, np.int64)
        """Of the n-grams whose rows stand in `hidden` behind those of the words, in order."""
        self.extend(words, counts, seed=seed)

    # -- vocabulary ----------------------------------------------------------------------------------------------------

    def extend(self, words: Sequence[str], counts: I64, *, seed: int = 1) -> U32:
        """Take up words that are new, add the counts of those that are known. Returns the row of each word."""
        known = {word: row for row, word in enumerate(self.words)}
        before = len(known)
        rows = np.array([known.setdefault(word, len(known)) for word in words], np.uint32)
        more = np.zeros(len(known), np.int64)
        more[:before] = self.counts
        np.add.at(more, rows, counts)
        old_hashes, grams = self.hashes, self.hidden.reshape(-1, self.stride)[before:]
        self.words, self.counts = list(known), more
        self.subwords, self.hashes = self._subwords()
        hidden = aligned_zeros((len(known) + len(self.hashes)) * self.stride)
        output = aligned_zeros(len(known) * self.stride)
        generator = np.random.default_rng(seed + before)
        table, dim = hidden.reshape(-1, self.stride), self.config.dim
        for begin in range(0, len(table), 1 << 14):  # between -1/D and 1/D; outputs begin as zeros
            some = table[begin : begin + (1 << 14), :dim]
            some[:] = (generator.random(some.shape, np.float32) * 2 - 1) / dim
        table[:before] = self.hidden.reshape(-1, self.stride)[:before]
        kept = np.isin(self.hashes, old_hashes)
        table[len(known) :][kept] = grams[np.searchsorted(old_hashes, self.hashes[kept])]
        output.reshape(-1, self.stride)[:before] = self.output.reshape(-1, self.stride)[:before]
        self.hidden, self.output = hidden, output
        return rows

    def _subwords(self) -> tuple[Subwords, I64]:
        """The rows of each word and of its n-grams, and the hashes of all n-grams."""
        if not self.config.subwords:
            return Subwords(np.zeros(1, np.int64), np.zeros(0, np.int32)), np.zeros(0, np.int64)
        framed = [f"<{word}>".encode() for word in self.words]
        ends = np.concatenate(([0], np.cumsum([len(word) for word in framed])))
        pool = np.frombuffer(b"".join(framed), np.uint8)
        begin, found = ngram_hashes(pool, ends, self.config.shortest_subword, self.config.longest_subword)
        hashes, place = np.unique(found.astype(np.int64) % self.config.buckets, return_inverse=True)
        own = np.arange(len(self.words))
        rows = np.insert((place + len(self.words)).astype(np.int32), begin[:-1], own)
        return Subwords(begin + np.arange(len(begin)), rows.astype(np.int32)), hashes

    # -- learning ------------------------------------------------------------------------------------------------------

    def train(
        self,
        ids: U32,
        training: Word2VecTraining,
        *,
        rows: U32 | None = None,
        checkpoint: Path | None = None,
        learned: Learned | None = None,
        progress: Progress = lambda learned: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Learned:
        """Learn from ids as data/language_corpus.py writes them (mapped or not): words count from len(SPECIALS) on.

        `rows`: the row of each word, where the ids are of another vocabulary than this one. `checkpoint`: a file to
        save to, every so often; `learned`: how far it had come (`resume` gives both). `stop`: asked between pieces.
        """
        end, pieces = self._pieces(ids)
        learned = Learned() if learned is None else learned
        learned.expect(training.epochs, len(pieces) - 1)
        work, rate = self._work(), training.rate(self.config.algorithm)
        table, vocabulary = None, len(SPECIALS) + (len(self.words) if rows is None else len(rows))
        if rows is not None:
            table = np.concatenate((np.arange(len(SPECIALS), dtype=np.uint32), rows + np.uint32(len(SPECIALS))))

        def one(number: int) -> Piece:
            epoch, place = divmod(number, len(pieces) - 1)
            begin, stop = pieces[place], pieces[place + 1]
            tokens = np.ascontiguousarray(ids[begin:stop])
            check_ids(tokens, vocabulary)
            passed = [(epoch * end + at) / (training.epochs * end) for at in (begin, stop)]
            rates = [rate + (training.final_rate - rate) * share for share in passed]
            tokens = tokens if table is None else table[tokens]
            loss, pairs, words = work(tokens, rates[0], rates[1], piece_seed(training.seed, number))
            return Piece(epoch, loss, pairs, tokens=stop - begin, words=words)

        def save() -> None:
            assert checkpoint is not None
            self.save(checkpoint, learned, training)

        return learn_pieces(
            one,
            learned,
            threads=training.threads,
            rate=rate,
            progress=progress,
            save=None if checkpoint is None else save,
            seconds=training.checkpoint_seconds,
            stop=stop,
        )

    def _work(self) -> Callable[..., tuple[float, int, int]]:
        """The compiled loop with all that does not change from piece to piece."""
        config = self.config
        hierarchical = config.objective == "hierarchical-softmax"
        outputs = NODES if hierarchical else 1 + config.negatives
        none = np.zeros(1, np.int64)
        tree = Tree(none, np.zeros(0, np.int32), np.zeros(0, np.float32))
        if hierarchical:
            tree = self._tree()
        seen = np.where(self.counts > 0, np.maximum(self.counts, 1.0) ** config.exponent, 0.0)
        draws = Draws(self._keep(), alias_table(seen))  # what was never seen is not drawn, whatever the exponent
        dim, stride = np.int64(padded(config.dim)), np.int64(self.stride)
        tables = Tables(self.hidden, self.output, dim, stride)
        train = trainer(outputs)

        def work(tokens: U32, rate: float, final_rate: float, seed: int) -> tuple[float, int, int]:
            return train(
                tokens,
                len(SPECIALS),
                EOS,
                tables,
                draws,
                tree,
                self.subwords,
                config.algorithm == "cbow",
                config.window,
                config.shrink_window,
                np.float32(rate),
                np.float32(final_rate),
                np.uint64(seed),
            )

        return work

    def _keep(self) -> U32:
        """How often a word stays, in 32 bits: with a share r of the text, √(t/r) + t/r of the time."""
        if self.config.sample == 0:
            return np.full(len(self.counts), 0xFFFFFFFF, np.uint32)
        ratio = self.config.sample * self.counts.sum() / np.maximum(self.counts, 1)
        return (np.minimum(1.0, np.sqrt(ratio) + ratio) * 0xFFFFFFFF).astype(np.uint32)

    def _tree(self) -> Tree:
        """The Huffman tree, whatever the order of the words."""
        order = np.argsort(-self.counts, kind="stable")
        tree = huffman(self.counts[order])
        lengths = np.diff(tree.begin)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        begin = np.concatenate(([0], np.cumsum(lengths[place])))
        taken = np.repeat(tree.begin[place] - begin[:-1], lengths[place]) + np.arange(begin[-1])
        return Tree(begin, tree.nodes[taken], tree.labels[taken])

    def _pieces(self, ids: U32) -> tuple[int, list[int]]:
        """How many ids there are, and where pieces begin and the last one ends: of whole lines, unless a line is so
        long that it is read in parts anyway (a text may be all one line)."""
        size = len(ids)
        length = min(PIECE_TOKENS, max(MIN_PIECE_TOKENS, size // 64))
        cuts = [0]
        while cuts[-1] < size:
            at = cuts[-1] + length
            ends = np.flatnonzero(ids[at : at + max(length, MAX_LINE_WORDS)] == EOS)
            cuts.append(min(at + int(ends[0]) + 1 if len(ends) else at, size))
        return size, cuts

    # -- what was learned ----------------------------------------------------------------------------------------------

    def vectors(self) -> Vectors:
        """The words' vectors; with subwords, each the mean of all its rows, and the table that makes others."""
        dim = self.config.dim
        table = self.hidden.reshape(-1, self.stride)[:, :dim]
        if not self.config.subwords:
            return Vectors(self.words, table.copy(), counts=self.counts)
        begin, rows = self.subwords
        matrix = np.array([table[rows[a:b]].mean(0) for a, b in pairwise(begin)], np.float32)
        grams = SubwordTable(
            self.config.shortest_subword,
            self.config.longest_subword,
            self.config.buckets,
            self.hashes,
            table[len(self.words) :].copy(),
        )
        return Vectors(self.words, matrix, counts=self.counts, subwords=grams)

    def save(self, path: Path, learned: Learned, training: Word2VecTraining) -> None:
        """All that is needed to go on."""
        arrays: dict[str, NDArray[Any]] = {}
        arrays |= {"hidden": self.hidden.reshape(-1, self.stride), "output": self.output.reshape(-1, self.stride)}
        said = {"config": asdict(self.config), "training": asdict(training), "learned": asdict(learned)}
        arrays |= {"words": words_array(self.words), "counts": self.counts}
        store_arrays(path, arrays, {"word2vec": json.dumps(said)})

    @classmethod
    def load(cls, path: Path) -> tuple[Word2Vec, Learned, Word2VecTraining]:
        """What `save` wrote."""
        with opening(path):
            return cls._read(path)

    @classmethod
    def _read(cls, path: Path) -> tuple[Word2Vec, Learned, Word2VecTraining]:
        arrays, said = read_arrays(path)
        if "word2vec" not in said:
            raise UserError("holds vectors alone: nothing to go on from")
        document: dict[str, Any] = parse_json(said["word2vec"])
        config = build(Word2VecConfig, document["config"], section="model", file=str(path))
        model = cls.__new__(cls)
        model.config, model.words = config, words_of(arrays["words"], path)
        model.counts = arrays["counts"]
        model.stride = -(-config.dim // LINE) * LINE
        model.subwords, model.hashes = model._subwords()
        shapes = {"hidden": len(model.words) + len(model.hashes), "output": len(model.words)}
        for name, rows in shapes.items():
            if arrays[name].shape != (rows, model.stride):
                raise UserError(f"{name} does not fit its words")
        model.hidden, model.output = (aligned_zeros(rows * model.stride) for rows in shapes.values())
        model.hidden[:], model.output[:] = arrays["hidden"].reshape(-1), arrays["output"].reshape(-1)
        training = build(Word2VecTraining, document["training"], section="training", file=str(path))
        return model, Learned(**document["learned"]), training


def count_ids(ids: U32, vocabulary: int) -> I64:
    """How often each word comes (V,), special tokens not counted."""
    counts = np.zeros(vocabulary, np.int64)
    for begin in range(0, len(ids), COUNTED_AT_ONCE):
        some = ids[begin : begin + COUNTED_AT_ONCE]
        check_ids(some, vocabulary)
        counts += np.bincount(some, minlength=vocabulary)
    return counts[len(SPECIALS) :]


def print_of(ids: U32) -> str:
    """What tells one text from another."""
    found = hashlib.blake2b(digest_size=16)
    for begin in range(0, len(ids), COUNTED_AT_ONCE):
        found.update(ids[begin : begin + COUNTED_AT_ONCE].tobytes())
    return found.hexdigest()


def learn_vectors(
    ids: U32,
    words: Sequence[str],
    config: Word2VecConfig,
    training: Word2VecTraining,
    *,
    checkpoint: Path | None = None,
    progress: Progress = lambda learned: None,
) -> tuple[Word2Vec, Learned]:
    """Learn vectors of `words` from ids, or go on where a checkpoint of the same settings and the same ids stopped."""
    text = "" if checkpoint is None else print_of(ids)
    if checkpoint is not None and checkpoint.exists():
        model, learned, before = Word2Vec.load(checkpoint)
        same = {**asdict(training), "threads": None, "checkpoint_seconds": None}
        old = {**asdict(before), "threads": None, "checkpoint_seconds": None}
        same_text = learned.text == text and model.words == list(words)
        if model.config != config or old != same or not same_text:
            raise UserError(
                "is a checkpoint of other settings or of another text",
                file=checkpoint,
                cure="repeat the old command, or choose another folder",
            )
        if learned.finished:
            return model, learned
    else:
        model = Word2Vec(config, words, count_ids(ids, len(SPECIALS) + len(words)), seed=training.seed)
        learned = Learned(text=text)
    return model, model.train(ids, training, checkpoint=checkpoint, learned=learned, progress=progress)
