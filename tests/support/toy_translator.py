"""A translator small enough to check by hand: a table of random distributions, looked up by (source, history).

The history is read back from a cache of fixed shape, so a search that moves its rows wrongly gets other numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anaphora.models.contracts import DecoderState

PRIME = 4093


class ToyTranslator:
    capabilities = frozenset({"causal", "steppable", "normalised", "batch-invariant", "attends"})

    def __init__(self, vocabulary: int = 8, *, seed: int = 0, sharpness: float = 1.5, longest: int = 64) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.vocabulary = vocabulary
        self.max_source_length = self.max_target_length = longest
        self.table = (torch.randn(PRIME, vocabulary, generator=generator) * sharpness).log_softmax(-1)
        self.looks = torch.rand(PRIME, 128, generator=generator)
        self.rows_stepped = 0
        self.attends = True

    def _digest(self, history: Tensor, position: Tensor) -> Tensor:
        """(R, L), how many of them count (R,) -> (R,): a polynomial in the tokens, modulo a prime."""
        digest = torch.zeros_like(position)
        for place in range(history.shape[1]):
            digest = torch.where(place < position, (digest * 31 + history[:, place] + 7) % PRIME, digest)
        return digest

    def start(self, source: Tensor, source_lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        rows = source.shape[0] * beam
        return DecoderState(
            beam=beam,
            memory={"digest": self._digest(source, source_lengths), "lengths": source_lengths, "source": source},
            past={
                "cache": torch.full((rows, 1, max_length, 1), -1),
                "position": torch.zeros(rows, dtype=torch.long),
            },
            growing=frozenset({"cache"}),
        )

    def step(
        self, tokens: Tensor, state: DecoderState, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        self.rows_stepped += tokens.shape[0]
        cache, position = state.past["cache"], state.past["position"]
        cache[torch.arange(len(tokens)), 0, position, 0] = tokens
        state.past["position"] = position = position + 1
        state.bound += 1
        at = self._key(state.memory["digest"].repeat_interleave(state.beam), cache[:, 0, :, 0], position)
        looks = None
        if attention and self.attends:
            width = state.memory["source"].shape[1]
            lengths = state.memory["lengths"].repeat_interleave(state.beam)
            looks = self.looks[at][:, :width].masked_fill(torch.arange(width) >= lengths[:, None], 0.0)
            looks = looks / looks.sum(-1, keepdim=True)
        return self.table[at], state, looks

    def _key(self, source: Tensor, history: Tensor, position: Tensor) -> Tensor:
        return (source * 17 + self._digest(history, position)) % PRIME

    def log_probabilities(self, source: Tensor, target: Tensor, source_lengths: Tensor) -> Tensor:
        digest = self._digest(source, source_lengths)
        lengths = [torch.full_like(source_lengths, t + 1) for t in range(target.shape[1])]
        return torch.stack([self.table[self._key(digest, target, length)] for length in lengths], dim=1)

    def next(self, source: list[int], history: list[int]) -> Tensor:
        """For plain references: log-probabilities (V,) after this source and these tokens (BOS is put in front)."""
        s, h = torch.tensor([source]), torch.tensor([[1, *history]])
        key = self._key(self._digest(s, torch.tensor([len(source)])), h, torch.tensor([h.shape[1]]))
        return self.table[key][0]


class CharacterTokenizer:
    """Each character is a token: the interface of tokenizers.tokenizer.Tokenizer, as far as decoding uses it."""

    def __init__(self, alphabet: str) -> None:
        self.alphabet = alphabet
        self.vocabulary_size = len(alphabet) + 4
        self.kind, self.shown_tokens = "character", dict[int, object]()

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        for text in texts:
            text.encode()  # as the real one: a lone surrogate is an error
        return [[self.alphabet.find(c) + 4 for c in text] for text in texts]  # not in the alphabet: 3, unknown

    def decode(self, ids: list[int]) -> str:
        return "".join(self.alphabet[i - 4] if i > 3 else "\ufffd" if i == 3 else "" for i in ids)

    def decode_batch(self, batch: list[list[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]

    def token_bytes(self, id: int) -> bytes:
        return b"" if id < 4 else self.alphabet[id - 4].encode()
