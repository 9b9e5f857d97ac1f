"""What a run of word vectors has saved: to start another one from, or to use before it is finished."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anaphora.errors import UserError, option
from anaphora.files.foreign import is_there
from anaphora.folder import CHECKPOINTS, WEIGHTS
from anaphora.models.vectors.pieces import Learned
from anaphora.models.vectors.vector_files import load_vectors
from anaphora.models.vectors.vector_settings import VectorsConfig, Word2VecConfig
from anaphora.models.vectors.word2vec import Word2Vec
from anaphora.models.vectors.word_vectors import Vectors

CHECKPOINT = "{}.safetensors"
"""In the folder of checkpoints, by the kind: all tables, and how far they have come."""


def start_vectors(start: Path, config: Word2VecConfig) -> tuple[Word2Vec, str]:
    """Tables to go on from, and what is to be said of them: those of a run's checkpoint, or vectors alone."""
    checkpoint = start / CHECKPOINTS / CHECKPOINT.format("word2vec")
    if is_there(checkpoint):
        try:
            model, _, _ = Word2Vec.load(checkpoint)
        except UserError as error:
            alone = option("start_from", str(start / WEIGHTS))
            cure = f"restore it from a copy, or start from the vectors alone: {alone}"
            raise UserError(error.what, file=error.file, cure=cure) from None
        model.config = config
        return model, ""
    vectors = load_vectors(start if start.is_file() else start / WEIGHTS)
    if config.subwords and vectors.subwords is None:
        raise UserError(
            "holds vectors of whole words, which say nothing of their subwords",
            file=start,
            cure=f"leave out model.subwords, or train without {option('start_from')}",
        )
    if vectors.subwords is not None:
        raise UserError(
            "holds subwords but no checkpoint, which has what their words' own rows are",
            file=start,
            cure="start from the folder of the run that learned them",
        )
    counts = np.zeros(len(vectors), np.int64) if vectors.counts is None else vectors.counts
    model = Word2Vec(config, vectors.index_to_key, counts)
    model.hidden.reshape(-1, model.stride)[:, : config.dim] = vectors.vectors
    return model, " (vectors alone: what predicts words is learned anew)"


def unfinished_vectors(folder: Path, config: VectorsConfig) -> tuple[Vectors, Learned] | None:
    """The vectors of a run's checkpoint, and how far it had come."""
    checkpoint = folder / CHECKPOINTS / CHECKPOINT.format(config.kind)
    if not is_there(checkpoint):
        return None
    if config.from_counts:
        from anaphora.models.vectors.glove import GloVe

        factors, learned, _, _ = GloVe.load(checkpoint)
        return factors.vectors(), learned
    model, learned, _ = Word2Vec.load(checkpoint)
    return model.vectors(), learned
