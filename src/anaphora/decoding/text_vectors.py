"""Vectors of text: one for each sentence, or one for each word as it stands in its sentence.

A model that has learned to guess words gives every token a vector that knows its context: *bank* has one beside a river
and another beside money. A sentence's vector is made of those of its tokens:

    mean     their mean, the usual choice
    max      the largest value of each coordinate
    last     that of the last token: of a model that reads from left to right, the only one that has read everything
    first    that of ⟨s⟩, of a model that reads both ways (what BERT calls [CLS])

A word's vector is the mean of its tokens'. ⟨s⟩ and ⟨/s⟩ are read, but are no part of a mean; a line without a word has
the vector of ⟨s⟩. Layers count from 0, the embedding, which knows no context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.results import brief, count, html_table
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer
from anaphora.tokenizers.words import Split, TokenWords, Word, split_words

if TYPE_CHECKING:
    from torch import Tensor

Pool = Literal["mean", "max", "last", "first"]
F32 = NDArray[np.float32]
WINDOW_LINES = 1024
"""Lines read ahead, so that lines of like length stand together."""
SHOWN_DIMENSIONS = 8
"""Dimensions of a vector that a notebook shows."""
BATCH_TOKENS = 8192
"""Tokens, padding included, that are read at once."""


@dataclass
class WordVectors:
    """The words of a line, each with its vector in this line."""

    text: str
    """The line."""
    words: list[Word]
    """Its words, with their places in it."""
    vectors: F32
    """(words, dim)"""

    def __repr__(self) -> str:
        words = count(len(self.words), "word")
        return brief("WordVectors", self.text, f"{words}, {self.vectors.shape[-1]} dimensions")

    def _repr_html_(self) -> str:
        shown = slice(SHOWN_DIMENSIONS)
        heads = ["", "length", *map(str, range(self.vectors.shape[-1])[shown])]
        rows = [
            [word.text, f"{np.linalg.norm(vector):.3f}", *(f"{value:.3f}" for value in vector[shown].tolist())]
            for word, vector in zip(self.words, self.vectors)
        ]
        return html_table(heads, rows, caption=f"{self.text} (the first of {self.vectors.shape[-1]} dimensions)")


def sentence_vectors(
    model: Any, tokenizer: Tokenizer, lines: Iterable[str], *, pool: Pool = "mean", layer: int | None = None
) -> Iterator[F32]:
    """One vector (dim,) a line, lazily and in order."""
    if pool == "first" and "causal" in model.capabilities:
        raise UserError(
            "this model reads from left to right, so its first vector knows nothing of the text",
            cure="take mean, max or last",
        )
    for _, ids, vectors in _read(model, tokenizer, lines, layer):
        own = vectors[1 : 1 + len(ids)]
        if pool == "first" or not len(ids):
            yield vectors[0]
        elif pool == "last":
            yield own[-1]
        else:
            yield own.mean(axis=0) if pool == "mean" else own.max(axis=0)


def word_vectors(
    model: Any,
    tokenizer: Tokenizer,
    lines: Iterable[str],
    *,
    layer: int | None = None,
    split: Split = "punctuation",
) -> Iterator[WordVectors]:
    """The words of each line with their vectors, lazily and in order."""
    check_layer(model, layer)
    return _word_vectors(model, tokenizer, lines, layer, split)


def _word_vectors(
    model: Any, tokenizer: Tokenizer, lines: Iterable[str], layer: int | None, split: Split
) -> Iterator[WordVectors]:
    spelled = TokenWords(tokenizer)
    for text, ids, vectors in _read(model, tokenizer, lines, layer):
        words = split_words(text, split)
        share = np.zeros((len(words), len(ids)), np.float32)
        for token, (first, stop) in enumerate(spelled(ids, words, text).tolist() if len(words) else ()):
            share[first:stop, token] = 1.0
        share /= np.maximum(share.sum(axis=1, keepdims=True), 1.0)
        yield WordVectors(text, words, share @ vectors[1 : 1 + len(ids)])


def layers_of(model: Any) -> int:
    """The number of a model's last layer; 0 is its embedding."""
    import torch

    with torch.no_grad():
        ids = torch.tensor([[BOS, EOS]], device=model.device)
        return len(model.hidden(ids, torch.tensor([2], device=model.device))) - 1


def check_layer(model: Any, layer: int | None) -> None:
    """Refuse a layer that is not there."""
    if layer is None:
        return
    last = layers_of(model)
    if not -last - 1 <= layer <= last:
        raise UserError(f"there is no layer {layer}", cure=f"the layers are 0 (the embedding) to {last}")


def _read(
    model: Any, tokenizer: Tokenizer, lines: Iterable[str], layer: int | None
) -> Iterator[tuple[str, list[int], F32]]:
    """Each line, its ids, and the vectors of ⟨s⟩ and its tokens, (1 + tokens …, dim)."""
    from anaphora.decoding.beam_search import evaluating
    from anaphora.decoding.text_scoring import plain
    from anaphora.decoding.translate import token_batches

    check_layer(model, layer)
    lines, before = iter(lines), 0
    closing = [] if "causal" in model.capabilities else [EOS]
    while block := [plain(line) for line in islice(lines, WINDOW_LINES)]:
        encoded = tokenizer.encode_batch(block)
        rows = [[BOS, *ids, *closing] for ids in encoded]
        for number, row in enumerate(rows):
            if model.max_length is not None and len(row) > model.max_length:
                raise UserError(
                    f"has {len(row):,} tokens with its marks, and the model can read {model.max_length:,}",
                    line=before + number + 1,
                    cure="split it, or leave it out",
                )
        found: list[F32 | None] = [None] * len(rows)
        with evaluating(model):
            for places in token_batches([len(row) for row in rows], BATCH_TOKENS, len(rows)):
                vectors = _vectors(model, [rows[place] for place in places], layer)
                for place, own in zip(places, vectors):
                    found[place] = own[: len(rows[place])].float().cpu().numpy()
        for text, ids, own in zip(block, encoded, found):
            assert own is not None
            yield text, ids, own
        before += len(block)


def _vectors(model: Any, rows: Sequence[Sequence[int]], layer: int | None) -> Tensor:
    """(B, T, dim): what a layer, the last unless named, makes of rows that are padded here."""
    import torch

    from anaphora.decoding.translate import pad

    with torch.no_grad():
        ids, lengths = pad(rows, model.device)
        hidden: list[Tensor] = model.hidden(ids, lengths)
        return hidden[-1 if layer is None else layer]
