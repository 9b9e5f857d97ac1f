"""A model whose table of words begins with vectors that were learned before (`model.embedding_from`).

A token that is a whole word or a punctuation mark takes its vector; pieces of words, special tokens and words without a
vector stay as the model has drawn them. Vectors of other tools are longer or shorter than what a model begins with,
which its other weights are drawn for: so they are scaled, all by one number, to the size of the rows that they replace.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from anaphora.errors import UserError, option
from anaphora.files.foreign import is_there
from anaphora.folder import WEIGHTS
from anaphora.models.vectors.vector_files import load_vectors
from anaphora.models.vectors.word_vectors import Vectors
from anaphora.tokenizers.tokenizer import SPECIALS, Tokenizer


@dataclass(frozen=True)
class Filled:
    """How many tokens of a table have got a vector."""

    found: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.found:,} of {self.tokens:,} tokens ({self.found / max(1, self.tokens):.0%})"


def read_initial_vectors(name: str, dim: int) -> Vectors:
    """The vectors of a folder or a file, which must be as wide as the model."""
    path = Path(name)
    if path.is_dir() and not is_there(path / WEIGHTS):
        cure = f"give a folder made by {option('recipe', 'skipgram')}, or a file"
        raise UserError("holds no word vectors", file=path, cure=cure)
    vectors = load_vectors(path / WEIGHTS if path.is_dir() else path)
    if vectors.vector_size != dim:
        raise UserError(
            f"holds vectors of {vectors.vector_size} numbers, and model.dim is {dim}",
            file=path,
            cure=f"set model.dim={vectors.vector_size}, or learn vectors with model.dim={dim}",
        )
    return vectors


def fill_table(table: nn.Embedding, tokenizer: Tokenizer, vectors: Vectors) -> Filled:
    """Put the vectors of words into their rows of a table (V, dim)."""
    rows, found = [], []
    for token in range(len(SPECIALS), tokenizer.vocabulary_size):
        word = whole_word(tokenizer, token)
        if word is not None and word in vectors:
            rows.append(token)
            found.append(vectors.key_to_index[word])
    filled = Filled(len(rows), tokenizer.vocabulary_size - len(SPECIALS))
    if not rows:
        return filled
    places = torch.tensor(rows, device=table.weight.device)
    matrix = torch.from_numpy(np.ascontiguousarray(vectors.vectors[found])).to(table.weight)
    with torch.no_grad():
        size, own = matrix.square().mean().sqrt(), table.weight[places].square().mean().sqrt()
        if size > 0:
            table.weight[places] = matrix * (own / size)
    return filled


def whole_word(tokenizer: Tokenizer, token: int) -> str | None:
    """The word that a token stands for; nothing, if it is but a piece of one."""
    if tokenizer.kind == "word" and tokenizer.split == "blanks":
        return tokenizer.word(token)
    try:
        text = tokenizer.token_bytes(token).decode()
    except UnicodeDecodeError:
        return None
    word = text.strip()
    pieces = tokenizer.kind in ("bpe", "unigram") and any(map(str.isalnum, word))  # marks always stand by themselves
    if not word or (pieces and not text.startswith(" ")):  # it goes on with a word
        return None
    return word if word.split() == [word] else None
