"""What every neural language model begins with: words become vectors, and an encoder lets each know its context.

    ids (B, T) → embedding → (B, T, dim) → encoder → (B, T, dim)

Which encoder, the settings say (`build_encoder`); all of them obey one contract (nn/encoder_contract.py). Heads differ:
causal.py guesses the next word, masked.py a hidden one, classifier.py what the whole text is.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.models.language.language_settings import LanguageConfig
from anaphora.nn.embedding import Embedding
from anaphora.nn.encoder_contract import Encoder, Past, document_places, locked_dropout
from anaphora.nn.masks import padding_mask
from anaphora.nn.mixture_of_experts import mixtures, telling
from anaphora.nn.transformer import TransformerEncoder
from anaphora.tokenizers.tokenizer import PAD

DEVIATION = 0.02
"""Of the weights of a Transformer that begins as GPT-2 does."""
SHAPE = (
    "dim",
    "layers",
    "heads",
    "hidden",
    "feed_forward",
    "experts",
    "window",
    "width",
    "positions",
    "labels",
)
"""Settings that say what a model looks like, of those that its kind has."""


class Reader(nn.Module):
    """Embedding and encoder. A model derives from it and has a head of its own."""

    capabilities: frozenset[str]
    """What the property suite may test."""
    senses_count = 0
    """Senses of every word; none, unless it is a Backpack."""

    def __init__(self, config: LanguageConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self._vocabulary = vocabulary
        c = config
        self.embedding = Embedding(
            vocabulary + c.extra_rows,
            c.dim,
            pad=None,  # what stands at padding reaches nobody
            word_dropout=c.embedding_dropout,
            **c.embedding_options(),
        )
        self.token_types = nn.Embedding(c.segments, c.dim) if c.segments else None
        self.embedding_norm: nn.Module = nn.Identity()
        if c.first_epsilon is not None:
            self.embedding_norm = nn.LayerNorm(c.dim, eps=c.first_epsilon)
        self.encoder = c.build_encoder()
        self.routed = bool(mixtures(self.encoder))
        # a Transformer has no dropout of its own at the input
        self.at_input = c.input_dropout or (c.dropout if isinstance(self.encoder, TransformerEncoder) else 0.0)
        if c.begins_small:
            begin_as_gpt2(self.embedding, self.encoder)
            if self.token_types is not None:
                nn.init.normal_(self.token_types.weight, std=DEVIATION)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are, special ones included."""
        return self._vocabulary

    @property
    def max_length(self) -> int | None:
        """The longest row, in tokens with ⟨s⟩; None: any."""
        return self.embedding.max_length

    @property
    def device(self) -> torch.device:
        return self.embedding.table.weight.device

    def embedded(self, ids: Tensor, position: Tensor | None = None) -> Tensor:
        """The first vectors: ids (B, T), standing at 0, 1, … or at `position` (B, T) -> (B, T, dim)."""
        x = self.embedding(ids, position)
        if self.token_types is not None:  # every text is one segment
            x = x + self.token_types.weight[0]
        x = self.embedding_norm(x)
        return locked_dropout(x, self.at_input, self.training, self.config.locked)

    def contextual(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        documents: Tensor | None = None,
        *,
        every: list[Tensor] | None = None,
    ) -> Tensor:
        """What the encoder makes of ids (B, T): (B, T, dim). documents (B, T): the number of each token's document,
        below 0 at padding; they see nothing of each other, and each begins at place 0."""
        if not self.routed:
            return self._contextual(ids, lengths, documents, every)
        real = documents >= 0 if documents is not None else ids != PAD
        if lengths is not None:
            real = padding_mask(lengths, ids.shape[1])[:, 0, 0]
        with telling(self.encoder, real):
            return self._contextual(ids, lengths, documents, every)

    def _contextual(
        self, ids: Tensor, lengths: Tensor | None, documents: Tensor | None, every: list[Tensor] | None
    ) -> Tensor:
        if documents is None:
            return self.encoder(self.embedded(ids), lengths, every=every)
        places = document_places(documents)
        if self.max_length is None or ids.shape[1] <= self.max_length:
            self.embedding.reserve(ids.shape[1])
        else:  # the row may be longer, no document may
            self.embedding.reserve(int(places[documents >= 0].amax()) + 1)
            places = places.clamp(max=self.max_length - 1)  # of padding
        return self.encoder.packed(self.embedded(ids, places), documents)

    def hidden(self, ids: Tensor, lengths: Tensor) -> list[Tensor]:
        """Every layer's vectors: the embedding's, (B, T, dim), then what each layer makes of them, (B, T, width)."""
        every: list[Tensor] = []
        first = self.embedded(ids)
        self.encoder(first, lengths, every=every)
        return [first, *every]

    # -- what it says of itself ----------------------------------------------------------------------------------------

    def answer(self, ids: Tensor) -> Tensor:
        """Logits of all that it says of whole rows: ids (B, T) -> (B, T, ·), columns being those of `answers`."""
        raise NotImplementedError

    def answers(self) -> Tensor:
        """What the columns of `answer` are of: tokens, those that are never said left out, or classes."""
        return torch.arange(self.vocabulary)

    def shape(self) -> dict[str, Any]:
        """What there is to say of it in a few numbers, for `info`."""
        settings = {name: getattr(self.config, name, None) for name in SHAPE}
        return {name: value for name, value in settings.items() if value not in (None, [])}

    def sums_to_one(self) -> bool | None:
        """Whether probabilities do."""
        return "normalised" in self.capabilities

    def check_length(self, length: int) -> None:
        """A UserError where a row of so many tokens, ⟨s⟩ among them, is more than the model can read."""
        if self.max_length is not None and length > self.max_length:
            raise UserError(
                f"{length:,} tokens with ⟨s⟩ are more than the {self.max_length:,} that the model can read",
                cure="shorten the text, or split it",
            )

    def parameter_count(self) -> int:
        """Every trained number once: tied tables count once, sinusoidal positions not at all."""
        return sum(p.numel() for p in self.parameters())

    def reading_flops(self, length: float) -> float:
        """For each token, all but the head's."""
        mix = 4.0 * self.config.dim**2 if self.embedding.kind == "sinusoidal-concatenated" else 0.0
        return self.encoder.flops(length) + mix

    def cache_bytes_per_token(self) -> int:
        """Bytes of state that each token of a row adds while generating."""
        if not isinstance(self.encoder, TransformerEncoder):
            return 0  # what they remember has one size, however long the text
        return self.encoder.cache_bytes_per_token(self.embedding.table.weight.element_size())

    def started(self, rows: int, max_length: int) -> Past:
        """The encoder's past, of rows that have read nothing."""
        return self.encoder.start(rows, max_length, self.embedding.table.weight)


def begin_as_gpt2(embedding: Embedding, encoder: Encoder) -> None:
    """Every matrix with deviation 0.02; where a sub-layer ends and is added to what was there, less, so that the sum of
    2L of them is no larger than one (Radford et al. 2019)."""
    assert isinstance(encoder, TransformerEncoder)
    for weight in (embedding.table.weight, embedding.positions):
        if isinstance(weight, nn.Parameter):
            nn.init.normal_(weight, std=DEVIATION)
    ending = DEVIATION / math.sqrt(2 * len(encoder.blocks))
    for name, weight in encoder.named_parameters():
        if weight.dim() == 2 and not name.endswith((".gate", ".noise")):  # those of experts begin at zero
            ends = name.endswith(("attention.out.weight", "feed_forward.outer.weight"))
            nn.init.normal_(weight, std=ending if ends else DEVIATION)
    for experts in mixtures(encoder):
        nn.init.normal_(experts.inner, std=DEVIATION)
        nn.init.normal_(experts.outer, std=ending)
