"""Masked language models: P(w_t | all words but w_t), by a network that reads both ways (Devlin et al. 2019).

    ⟨s⟩ w₁ … ⟨mask⟩ … w_T ⟨/s⟩ → embedding → encoder → head → softmax at ⟨mask⟩

It guesses hidden words (`fill`), and gives each word a vector that knows its whole context (`hidden`), of which those
of sentences are made (decoding/text_vectors.py). It has no probability of a text; the sum of log P(w_t | the others),
each word hidden in turn, is its *pseudo-likelihood* (Salazar et al. 2020), which compares texts under one model, but no
model with one of another kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.models.contracts import LanguageModel, score_rows
from anaphora.models.keywords import LanguageKeywords, by_keywords
from anaphora.models.language.reader import DEVIATION, Reader
from anaphora.models.language.transformer_language import TransformerEncoderConfig
from anaphora.models.losses import lengths_by_padding, mean_cross_entropy, tensors_of
from anaphora.nn.encoder_contract import locked_dropout
from anaphora.nn.head import VocabularyHead
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, SPECIALS

HIDDEN, REPLACED = 0.8, 0.1
"""Of the tokens that are to be guessed: hidden, replaced by a random one; the others stay (Devlin et al. 2019)."""
BATCH_TOKENS = 8192
"""Tokens that `score` reads at once: every token costs a reading of its row."""


def hide(tokens: Tensor, mask: int, vocabulary: int, share: float = 0.15) -> tuple[Tensor, Tensor, Tensor]:
    """Choose tokens to guess, by torch's generator: tokens (B, T) -> what the model sees instead (B, T), the places
    (N,) to guess, rows laid end to end, as many for every batch of a shape, and what stood there (N,), PAD where there
    is nothing to guess. Special tokens are never asked for."""
    flat = tokens.flatten().clone()
    words = ((flat != PAD) & (flat != BOS) & (flat != EOS)).nonzero()[:, 0]
    asked = words[torch.randperm(len(words))[: max(1, round(share * len(words)))]]  # torch's generator: saved
    places = torch.zeros(1 + int(share * len(flat)), dtype=torch.long)
    labels = torch.full_like(places, PAD)
    asked = asked[: len(places)]
    places[: len(asked)], labels[: len(asked)] = asked, flat[asked]
    chance = torch.rand(len(asked))
    other = torch.randint(min(len(SPECIALS), vocabulary - 1), vocabulary, (len(asked),))
    flat[asked] = torch.where(chance < HIDDEN, mask, torch.where(chance < HIDDEN + REPLACED, other, flat[asked]))
    return flat.view_as(tokens), places, labels


@dataclass(kw_only=True)
class MaskedKeywords(TransformerEncoderConfig, LanguageKeywords):
    """What `MaskedLM(…)` takes."""


class MaskedLM(Reader):
    """Embedding, encoder, head; rows are ⟨s⟩ w … ⟨/s⟩ with some words replaced by `mask_id`.

    model = MaskedLM(vocabulary=8_000, dim=256, layers=4, heads=4)
    loss = model.loss(ids)  # hides 15 % of them and guesses those
    """

    capabilities = frozenset({"masked", "normalised", "batch-invariant", "attends"})
    noun = "a masked language model"
    explains = False

    @by_keywords(MaskedKeywords)
    def __init__(self, config: TransformerEncoderConfig, vocabulary: int) -> None:
        if config.mask is not None and not 0 <= config.mask < vocabulary:
            raise ValueError(f"mask is {config.mask}, and the vocabulary has {vocabulary} tokens; leave it out")
        super().__init__(config, vocabulary)
        if not self.encoder.attends:
            self.capabilities = self.capabilities - {"attends"}
        self.mask_id = vocabulary if config.mask is None else config.mask  # a row behind those of the vocabulary
        c = config
        self.transform: nn.Module = nn.Identity()
        if c.transform:
            self.transform = nn.Sequential(nn.Linear(c.dim, c.dim), nn.GELU(), nn.LayerNorm(c.dim, eps=c.epsilon))
        table = self.embedding.table.weight if c.tie else None
        self.vocabulary_head = VocabularyHead(c.dim, vocabulary, tied_to=table, bias=c.output_bias)
        self.pooler = nn.Linear(c.dim, c.dim) if c.pooler else None
        if c.initial == "normal":
            for name, weight in self.named_parameters():
                if weight.dim() == 2 and name.startswith(("transform", "pooler", "vocabulary_head")):
                    nn.init.normal_(weight, std=DEVIATION)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """ids (B, T) from ⟨s⟩ to ⟨/s⟩, lengths (B,), all but padding unless given, documents (B, T) -> logits of what
        stands at each place (B, T, V)."""
        if lengths is None and documents is None:
            lengths = lengths_by_padding(ids)
        return self.head(self.encode(ids, lengths, documents))

    def answer(self, ids: Tensor) -> Tensor:
        return self(ids, torch.full((len(ids),), ids.shape[1], device=ids.device))

    def loss(self, batch: Any, *, label_smoothing: float = 0.0) -> Tensor:
        """The mean of -log P(hidden token) over a batch: ids (B, T) from ⟨s⟩ to ⟨/s⟩, padded with 0, of which 15 % are
        chosen anew each time, by torch's generator, or (ids, labels), labels being 0 but at the places to guess."""
        ids, *labels = tensors_of(batch, "ids", optional="labels")
        if labels:
            return mean_cross_entropy(self, self(ids), labels[0], label_smoothing)
        seen, places, said = (some.to(ids.device) for some in hide(ids.cpu(), self.mask_id, self.vocabulary))
        x = self.encode(seen, lengths_by_padding(ids)).flatten(0, 1)[places]  # (N, dim)
        return mean_cross_entropy(self, self.head(x)[None], said[None], label_smoothing)

    def encode(self, ids: Tensor, lengths: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, T, dim): what the head is given. It may be given some of the places alone."""
        x = self.contextual(ids, lengths, documents)
        return locked_dropout(x, self.config.output_dropout, self.training, self.config.locked)

    def head(self, x: Tensor) -> Tensor:
        """(…, dim) -> logits (…, V)"""
        return self.vocabulary_head(self.transform(x))

    # -- use -----------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def fill(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """What may stand in the hidden places: ids (B, T) from ⟨s⟩ to ⟨/s⟩ -> those places, (n, 2) row and place in
        their order, and log P of every word there (n, V)."""
        self.check_length(ids.shape[1])
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        places = ((ids == self.mask_id) & real).nonzero()
        if not len(places):
            raise UserError("there is no hidden word to fill in", cure="put ⟨mask⟩ in its place")
        x = self.encode(ids, lengths)[places[:, 0], places[:, 1]]  # (n, dim)
        return places, F.log_softmax(self.head(x).float(), dim=-1)

    @torch.no_grad()
    def score(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """log P of each token, it alone being hidden: ids (B, T) without ⟨s⟩, each row ending in ⟨/s⟩, lengths (B,) ->
        (B, T) float32, 0 at padding. Their sum is the pseudo-likelihood of a row."""
        self.check_length(ids.shape[1] + 1)
        scores = torch.zeros(ids.shape, device=ids.device)
        whole = torch.cat([ids.new_full((len(ids), 1), BOS), ids], dim=1)  # (B, T + 1)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        for some in real.nonzero().split(max(1, BATCH_TOKENS // whole.shape[1])):
            row, place = some[:, 0], some[:, 1]
            hidden = whole[row].scatter(1, place[:, None] + 1, self.mask_id)  # (n, T + 1): one place hidden in each
            x = self.encode(hidden, lengths[row] + 1)
            logits = self.head(x[torch.arange(len(some), device=x.device), place + 1])
            scores[row, place] = -F.cross_entropy(logits.float(), ids[row, place], reduction="none")
        return scores

    def score_flat(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.float32]:
        """`score` of rows that stand in one array, row i being tokens[starts[i] : starts[i + 1]]: (N,) -> (N,)."""
        return score_rows(cast("LanguageModel", self), tokens, starts, BATCH_TOKENS)

    def pooled(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """tanh(W x₁ + b) of the first place: (B, T) -> (B, dim), of a model that has a pooler."""
        if self.pooler is None:
            raise UserError("this model has no pooler", cure="take other vectors, or train with model.pooler=true")
        return torch.tanh(self.pooler(self.contextual(ids, lengths)[:, 0]))

    # -- costs ---------------------------------------------------------------------------------------------------------

    def flops(self, tokens: int, length: float, guessed: int | None = None) -> float:
        """Floating-point operations of one forward pass over that many tokens in rows of that mean length, so many of
        them `guessed`, all unless given: in training only the hidden ones are."""
        transform = 2.0 * self.config.dim**2 if isinstance(self.transform, nn.Sequential) else 0.0
        asked = tokens if guessed is None else guessed
        return tokens * self.reading_flops(length) + asked * (transform + self.vocabulary_head.flops())

    def cache_bytes_per_token(self) -> int:
        return 0  # it reads whole texts
