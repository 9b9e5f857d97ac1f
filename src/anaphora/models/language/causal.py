"""Neural language models: P(w₁ … w_T) = Π P(w_t | ⟨s⟩ w₁ … w_{t-1}), each factor by a network.

    ⟨s⟩ w₁ … w_{T-1} → embedding → causal encoder → head → softmax

One class for every rung: averaging, window, recurrent, convolution, Transformer decoder differ by their encoder alone
(reader.py). Read at once it gives all factors of a text (`score`); read step by step, with what the encoder remembers
in a DecoderState, it goes on with one (`start`, `read`, `step`). Both are the same numbers
(tests/models/test_language_properties.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models.contracts import DecoderState, LanguageModel, extend_by_steps, score_rows
from anaphora.models.keywords import by_encoder, by_keywords
from anaphora.models.language.language_settings import LanguageConfig
from anaphora.models.language.reader import DEVIATION, Reader
from anaphora.models.losses import mean_cross_entropy, tensors_of
from anaphora.nn.encoder_contract import Past, locked_dropout
from anaphora.nn.head import VocabularyHead
from anaphora.nn.transformer import TransformerEncoder
from anaphora.tokenizers.tokenizer import BOS

MAX_LOGITS = 1 << 22
"""Logits that `score` forms at once, 16 MB in float32: tokens times vocabulary. More of them leave the cache."""
PIECE_TOKENS = 16_384
"""Tokens that `score` reads at once where an encoder can go on from where it stopped."""


def causal_keywords(
    *,
    vocabulary: int,
    encoder: str = "transformer",
    dim: int = 256,
    layers: int | None = None,
    heads: int | None = None,
    dropout: float | None = None,
    max_length: int | None = None,
    **settings: Any,
) -> None:
    """What `CausalLM(…)` takes: an encoder by its name, and the settings of a language model with that encoder
    (`anaphora settings --recipe lstm` lists them); what is left out, or None, is as that has it."""


class CausalLM(Reader, LanguageModel):
    """Embedding, causal encoder, head; it answers the LanguageModel contract.

        model = CausalLM(encoder="transformer", vocabulary=8_000, dim=256, layers=4, heads=4)
        logits = model(ids)  # (B, T) from ⟨s⟩ on -> (B, T, 8_000)
        loss = model.loss(ids)

    The encoder is transformer, lstm, gru, rnn, conv, window or dan (the mean of what was read).
    """

    @by_keywords(causal_keywords, by_encoder)
    def __init__(self, config: LanguageConfig, vocabulary: int) -> None:
        if config.bidirectional:  # settings do not know it yet: labels are found in the text
            raise ValueError("bidirectional shows a language model the words it is to guess; leave it to classifiers")
        super().__init__(config, vocabulary)
        attends = {"attends"} if self.encoder.attends else set()
        self.capabilities = frozenset({"causal", "steppable", "normalised", "batch-invariant", *attends})
        self.whole = isinstance(self.encoder, TransformerEncoder)  # rows are scored whole: nothing is carried along
        table = self.embedding.table.weight if config.tie else None
        self.head = VocabularyHead(config.dim, vocabulary, tied_to=table, bias=config.output_bias)
        if not config.tie and config.begins_small:
            torch.nn.init.normal_(self.head.weight, std=DEVIATION)

    # -- all at once ---------------------------------------------------------------------------------------------------

    def forward(self, ids: Tensor, lengths: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """ids (B, T) from ⟨s⟩ on -> logits of each next token (B, T, V).

        lengths (B,): real tokens of each row; not needed, since padding stands behind all that is real. documents
        (B, T): several texts in a row, each seeing itself alone. What a text was read up to is kept by `encode`, piece
        by piece while it learns, and by `start`, `read` and `step` while it generates.
        """
        return self.head(self.encode(ids, lengths, documents)[0])

    def answer(self, ids: Tensor) -> Tensor:
        logits: Tensor = self(ids)
        return logits[..., self.answers().to(ids.device)] if self.head.silent else logits

    def answers(self) -> Tensor:
        return torch.tensor([token for token in range(self.vocabulary) if token not in set(self.head.silent)])

    def loss(self, batch: Any, *, label_smoothing: float = 0.0) -> Tensor:
        """The mean of -log P(next token) over a batch: ids (B, T) from ⟨s⟩ on, padded with 0, or (ids, labels), labels
        (B, T) being the tokens that follow (models/losses.py)."""
        ids, *labels = tensors_of(batch, "ids", optional="labels")
        read, said = (ids, labels[0]) if labels else (ids[:, :-1], ids[:, 1:])
        return mean_cross_entropy(self, self(read), said, label_smoothing)

    def encode(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        documents: Tensor | None = None,
        past: Past | None = None,
    ) -> tuple[Tensor, Tensor, Past | None]:
        """What the head is given, (B, T, dim), the same before output dropout, and what the encoder remembers after
        them, where that is carried on. past: what was returned for the piece of text before; None at a beginning."""
        if past is None and self.carries and documents is None and lengths is None:
            past = self.started(len(ids), 0)  # rows that end here and there are whole texts: nothing follows them
        if past is None:
            raw = self.contextual(ids, lengths, documents)
        elif documents is not None:
            raise ValueError("packed documents are whole: nothing is carried from one row to the next")
        else:
            raw, past = self._read(ids, past, lengths)
        return locked_dropout(raw, self.config.output_dropout, self.training, self.config.locked), raw, past

    @property
    def carries(self) -> bool:
        """Whether what is remembered is worth carrying from one piece of a long text to the next while it learns."""
        return self.encoder.carries

    def spoken(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """What the head is given of whole rows, without dropout of its own: ids (B, T) -> (B, T, dim)."""
        return self.contextual(ids, lengths)

    def growing(self) -> frozenset[str]:
        """Names of what is remembered that have a place for each token, at dimension 2."""
        return self.encoder.growing()

    def _read(
        self, ids: Tensor, past: Past, lengths: Tensor | None = None, bound: int | None = None
    ) -> tuple[Tensor, Past]:
        """Go on reading: ids (R, T) -> (R, T, dim), and the past after them."""
        where = past["position"][:, None] + torch.arange(ids.shape[1], device=ids.device)  # (R, T)
        if self.max_length is not None:  # of padding alone: what is real has been checked
            where = where.clamp(max=self.max_length - 1)
        x = self.embedded(ids, where)
        if isinstance(self.encoder, TransformerEncoder):
            return self.encoder.read(x, past, lengths, bound)
        return self.encoder.read(x, past, lengths)

    def _next(self, tokens: Tensor, past: Past, bound: int | None) -> Tensor:
        """Go on by one token a row, (R,) -> (R, dim); the past is changed where it stands."""
        x = self.embedded(tokens[:, None], past["position"][:, None])[:, 0]
        return self.encoder.step(x, past, bound=bound)

    # -- the contract --------------------------------------------------------------------------------------------------

    def score(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """log P of each token after ⟨s⟩ and those before it: ids (B, T) without ⟨s⟩, lengths (B,) -> (B, T) float32, 0
        at padding. Long rows are read in pieces where the encoder carries its state; the logits of all tokens are never
        there at once."""
        batch, length = ids.shape
        self.check_length(length)
        scores = torch.zeros(batch, length, device=ids.device)
        before = torch.cat([ids.new_full((batch, 1), BOS), ids[:, :-1]], dim=1)
        piece = max(length, 1) if self.whole else max(1, PIECE_TOKENS // max(batch, 1))
        past = self.started(batch, 0) if length > piece else None
        for begin in range(0, length, piece):
            here = slice(begin, begin + piece)
            real = torch.arange(begin, begin + before[:, here].shape[1], device=ids.device) < lengths[:, None]
            if past is None:
                x = self.spoken(before[:, here], lengths)
            else:
                x, past = self._read(before[:, here], past)
            scores[:, here][real] = self._of_tokens(x[real], ids[:, here][real])
        return scores

    def score_flat(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.float32]:
        """`score` of rows that stand in one array; as many at once as may be, since few of their logits are."""
        return score_rows(self, tokens, starts, PIECE_TOKENS)

    def _of_tokens(self, x: Tensor, tokens: Tensor) -> Tensor:
        """log P of tokens (n,) by the vectors before them (n, dim), a few at a time."""
        several = max(1, MAX_LOGITS // self.vocabulary)
        parts = [
            -F.cross_entropy(self.head(some).float(), token, reduction="none")
            for some, token in zip(x.split(several), tokens.split(several))
        ]
        return torch.cat(parts) if parts else x.new_zeros(0, dtype=torch.float32)

    def start(self, rows: int, max_length: int) -> DecoderState:
        """Rows that have taken nothing yet, with room for max_length tokens: ⟨s⟩ is the first that they are fed."""
        if self.max_length is not None:
            max_length = min(max_length, self.max_length)
        self.embedding.reserve(max_length)
        past = self.started(rows, max_length)
        return DecoderState(beam=1, memory={}, past=past, growing=self.growing())

    @torch.no_grad()
    def read(self, ids: Tensor, lengths: Tensor, max_length: int) -> DecoderState:
        """Rows that have taken ids (B, T), from ⟨s⟩ on, padded, lengths (B,), in one pass."""
        self.check_length(ids.shape[1])
        state = self.start(len(ids), max(max_length, ids.shape[1]))
        if ids.numel():
            _, state.past = self._read(ids, state.past, lengths, bound=0)
            state.bound = ids.shape[1]
        return state

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The last token of each row (R,), at the beginning ⟨s⟩ -> log P of the next (R, V), and the state."""
        self._room(state, 1)
        x = self._next(tokens, state.past, state.bound)
        state.bound += 1
        return F.log_softmax(self.head.of_few(x).float(), dim=-1), state

    @torch.no_grad()
    def extend(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Several tokens a row at once, (R, k) -> log P of what follows each of them (R, k, V), and the state after the
        last. Attention reads them in one pass and can take them back by their position; what carries a state keeps it
        as it was before each."""
        if not isinstance(self.encoder, TransformerEncoder):
            return extend_by_steps(self, tokens, state)
        self._room(state, tokens.shape[1])
        x, past = self._read(tokens, state.past, bound=state.bound)
        state.past["position"].copy_(past["position"])
        state.trail = []
        state.bound += tokens.shape[1]
        logits = self.head.of_few(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return F.log_softmax(logits.float(), dim=-1), state

    def _room(self, state: DecoderState, tokens: int) -> None:
        """Where there are caches, `bound` stays within them: rows that were taken back leave it higher than need be."""
        for name in self.growing() & state.past.keys():
            places = state.past[name].shape[2]
            if state.bound + tokens > places:
                state.bound = int(state.past["position"].max())
            if state.bound + tokens > places:
                raise UserError(
                    f"{tokens} more tokens do not fit behind {state.bound:,}: there is room for {places:,}",
                    cure="ask for fewer tokens, or a shorter prompt",
                )
            return

    # -- costs ---------------------------------------------------------------------------------------------------------

    def flops(self, tokens: int, length: float) -> float:
        """Floating-point operations of one forward pass over that many tokens in rows of that mean length.

        A product of an (m, k) by a (k, n) matrix counts 2mkn; norms, softmax and sums are left out, and so is what a
        causal mask hides. Training costs three times as much.
        """
        return tokens * (self.reading_flops(length) + self.head.flops())
