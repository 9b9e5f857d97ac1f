"""Learning word vectors from a table of co-occurrences: GloVe, with checkpoints and resume.

    pairs (cooccurrence.py, mapped) ──► dealt into pieces by chance ──► threads
    (models/vectors/kernels/glove_updates.py) ──► one table

The dot product of two vectors is to be the logarithm of how often the words stand together, but for what each of them
brings on its own (its bias): then differences of vectors are the ratios P(k | ice) / P(k | steam), which tell ice from
steam (Pennington et al. 2014). Every word has two vectors, as the word and as what is around it; their sum is used.

The table is sorted, and learning wants chance. So every pair is dealt into a piece by chance, once, and an epoch takes
the pieces one after the other and shuffles each. (Cutting the sorted table into short slices and shuffling those, which
needs no copy, is much worse: a word that learns from its pairs all at once forgets what it knew of others. Pieces in
another order in each epoch are a little worse: the time between two visits of a pair is then less even.) What is drawn
depends on nothing but the seed, the epoch and the piece: so one thread that is killed and goes on from its last
checkpoint ends with the same bits as one that never stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.config import build
from anaphora.errors import UserError, refused_by_system
from anaphora.files.foreign import parse_json
from anaphora.models.registry import System
from anaphora.models.vectors.cooccurrence import Cooccurrences
from anaphora.models.vectors.kernels.glove_updates import (
    PARTS,
    Objective,
    Pairs,
    bucket_ends,
    deal_pairs,
    learn_pairs,
    shuffle_pairs,
)
from anaphora.models.vectors.kernels.rows import LINE, aligned_zeros, padded
from anaphora.models.vectors.pieces import Learned, Piece, Progress, learn_pieces, piece_seed
from anaphora.models.vectors.vector_checkpoint import opening
from anaphora.models.vectors.vector_files import read_arrays, store_arrays, words_array, words_of
from anaphora.models.vectors.vector_settings import GloveConfig, GloveTraining
from anaphora.models.vectors.word_vectors import Vectors

GLOVE = System(
    kind="glove",
    rung=23,
    task="vectors",
    settings="anaphora.models.vectors.vector_settings:GloveConfig",
    formats=("vectors",),
)

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

PIECE_PAIRS = 1 << 18
"""Pairs of a piece, about; of a small table, a sixty-fourth of all."""
MIN_PIECE_PAIRS = 1 << 12
PAIR = 12
"""Bytes of a pair."""
HARMLESS = ("threads", "checkpoint_seconds", "max_memory")
"""Settings of training that change nothing but how fast it goes."""


class GloVe:
    """GloVe (Pennington et al. 2014): a vocabulary, and what has been learned about it."""

    def __init__(self, config: GloveConfig, words: list[str], *, seed: int = 1) -> None:
        self.config, self.words = config, words
        self.stride = _stride(config.dim)
        self.table = _room(len(words), self.stride)
        generator = np.random.default_rng(seed)
        for begin in range(0, len(words), 1 << 14):  # between -½/D and ½/D, biases too
            some = self.table[begin : begin + (1 << 14)]
            for part in (0, 2):
                first = (generator.random((len(some), config.dim + 1), np.float32) - np.float32(0.5)) / config.dim
                some[:, part, : config.dim], some[:, part, -1] = first[:, :-1], first[:, -1]
            some[:, 1::2] = 1.0

    # -- learning ------------------------------------------------------------------------------------------------------

    def train(
        self,
        counted: Cooccurrences,
        training: GloveTraining,
        *,
        checkpoint: Path | None = None,
        learned: Learned | None = None,
        progress: Progress = lambda learned: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Learned:
        """Learn from a table of the same words. `checkpoint`: a file to save to, every so often; `learned`: how far it
        had come. `stop`: asked between pieces."""
        if not len(counted):
            raise UserError(
                "no two words stand near one another in this text",
                file=counted.folder,
                cure="give lines of several words, or lower tokenizer.minimum_count",
            )
        pieces = -(-len(counted) // min(PIECE_PAIRS, max(MIN_PIECE_PAIRS, len(counted) // 64)))
        learned = Learned() if learned is None else learned
        learned.expect(training.epochs, pieces)
        if learned.finished:
            return learned
        keys, counts, ends = _dealt(counted, pieces, training)
        config = self.config
        objective = Objective(*(np.float32(x) for x in (config.x_max, config.alpha, training.learning_rate)))
        flat, dim = self.table.reshape(-1), padded(config.dim)

        def work(number: int) -> Piece:
            epoch, piece = divmod(number, pieces)
            mine = slice(int(ends[piece]), int(ends[piece + 1]))
            some = np.array(keys[mine]), np.array(counts[mine])
            shuffle_pairs(*some, np.uint64(piece_seed(training.seed, number)))
            loss, entries = learn_pairs(*some, flat, dim, self.stride, objective)
            return Piece(epoch, float(loss), entries, tokens=entries)

        def save() -> None:
            assert checkpoint is not None
            self.save(checkpoint, learned, training, counted)

        return learn_pieces(
            work,
            learned,
            threads=training.threads,
            rate=training.learning_rate,
            progress=progress,
            save=None if checkpoint is None else save,
            seconds=training.checkpoint_seconds,
            stop=stop,
        )

    # -- what was learned ----------------------------------------------------------------------------------------------

    def vectors(self, counts: I64 | None = None) -> Vectors:
        """w + w̃ of each word."""
        dim = self.config.dim
        return Vectors(self.words, self.table[:, 0, :dim] + self.table[:, 2, :dim], counts=counts)

    def biases(self) -> tuple[F32, F32]:
        """b and b̃ (V,)."""
        return self.table[:, 0, -1], self.table[:, 2, -1]

    def save(self, path: Path, learned: Learned, training: GloveTraining, counted: Cooccurrences) -> None:
        """All that is needed to go on."""
        said = {"config": asdict(self.config), "training": asdict(training), "learned": asdict(learned)}
        said["counted"] = counted.manifest
        store_arrays(path, {"table": self.table, "words": words_array(self.words)}, {"glove": json.dumps(said)})

    @classmethod
    def load(cls, path: Path) -> tuple[GloVe, Learned, GloveTraining, dict[str, Any]]:
        """What `save` wrote: with it, what the table says of itself."""
        with opening(path):
            return cls._read(path)

    @classmethod
    def _read(cls, path: Path) -> tuple[GloVe, Learned, GloveTraining, dict[str, Any]]:
        arrays, said = read_arrays(path)
        if "glove" not in said:
            raise UserError("holds no GloVe model to go on from")
        document: dict[str, Any] = parse_json(said["glove"])
        model = cls.__new__(cls)
        model.config = build(GloveConfig, document["config"], section="model", file=str(path))
        model.words, model.stride = words_of(arrays["words"], path), _stride(model.config.dim)
        model.table = _room(len(model.words), model.stride)
        if arrays["table"].shape != model.table.shape:
            raise UserError("its table does not fit its words")
        model.table[:] = arrays["table"]
        training = build(GloveTraining, document["training"], section="training", file=str(path))
        return model, Learned(**document["learned"]), training, document["counted"]


def learn_glove(
    counted: Cooccurrences,
    config: GloveConfig,
    training: GloveTraining,
    *,
    checkpoint: Path | None = None,
    progress: Progress = lambda learned: None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[GloVe, Learned]:
    """Learn vectors from a table of co-occurrences, or go on where a checkpoint of the same settings stopped."""
    if counted.window != config.window:
        raise UserError(
            f"was counted with a window of {counted.window}, not {config.window}",
            file=counted.folder,
            cure="count again, or set model.window",
        )
    if checkpoint is not None and checkpoint.exists():
        model, learned, before, manifest = GloVe.load(checkpoint)
        same, old = ({**asdict(settings), **dict.fromkeys(HARMLESS)} for settings in (training, before))
        if model.config != config or old != same or manifest != counted.manifest:
            raise UserError(
                "is a checkpoint of other settings or of another text",
                file=checkpoint,
                cure="repeat the old command, or choose another folder",
            )
        if learned.finished:
            return model, learned
    else:
        model, learned = GloVe(config, counted.words, seed=training.seed), Learned()
    return model, model.train(counted, training, checkpoint=checkpoint, learned=learned, progress=progress, stop=stop)


def _dealt(counted: Cooccurrences, pieces: int, training: GloveTraining) -> tuple[U64, F32, I64]:
    """All pairs, piece after piece, and where each ends: in memory, or in a file that is gone with the process."""
    pairs = Pairs(np.asarray(counted.begin), np.asarray(counted.column), np.asarray(counted.count))
    seed = np.uint64(piece_seed(training.seed, -1))
    ends = bucket_ends(len(counted), pieces, seed)
    room: NDArray[np.uint8]
    if PAIR * len(counted) <= training.memory_limit() // 2:
        room = np.empty(PAIR * len(counted), np.uint8)
    else:
        try:
            with TemporaryFile(dir=counted.folder) as file:
                file.truncate(PAIR * len(counted))
                room = np.memmap(file, np.uint8, "r+")
        except OSError as error:
            raise refused_by_system(error, "cannot be used", file=counted.folder) from None
    split = 8 * len(counted)
    keys, counts = np.asarray(room[:split]).view(np.uint64), np.asarray(room[split:]).view(np.float32)
    deal_pairs(pairs, ends, seed, keys, counts)
    return keys, counts, ends


def _stride(dim: int) -> int:
    """Floats from one row to the next: the vector, the bias, and what is left of memory's line."""
    return -(-(padded(dim) + 1) // LINE) * LINE


def _room(words: int, stride: int) -> F32:
    """A table (V, PARTS, stride) of zeros."""
    return aligned_zeros(words * PARTS * stride).reshape(words, PARTS, stride)
