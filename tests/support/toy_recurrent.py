"""A neural language model as small as can be, for tests of what any language model must do."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anaphora.models.contracts import DecoderState, LanguageModel
from anaphora.tokenizers.tokenizer import BOS


class Recurrent(nn.Module, LanguageModel):
    """A neural language model as small as can be: it writes what must be written and inherits the rest."""

    capabilities = frozenset({"causal", "steppable", "normalised", "batch-invariant"})

    def __init__(self, vocabulary: int, max_length: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.words, self.longest = vocabulary, max_length
        self.embedding, self.recurrent = nn.Embedding(vocabulary, 8), nn.Linear(16, 8)
        self.head = nn.Linear(8, vocabulary)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.7)
        self.eval().requires_grad_(False)

    @property
    def vocabulary(self) -> int:
        return self.words

    @property
    def max_length(self) -> int | None:
        return self.longest

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def _next(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        return torch.tanh(self.recurrent(torch.cat([self.embedding(tokens), hidden], dim=-1)))

    def score(self, ids: Tensor, lengths: Tensor) -> Tensor:
        hidden, found = torch.zeros(len(ids), 8), []
        last = torch.full((len(ids),), BOS)
        for column in ids.unbind(1):
            hidden = self._next(last, hidden)
            found.append(self.head(hidden).log_softmax(-1).gather(1, column[:, None]))
            last = column
        inside = torch.arange(ids.shape[1]) < lengths[:, None]
        return torch.cat(found, dim=1).masked_fill(~inside, 0.0) if found else torch.zeros(ids.shape)

    def start(self, rows: int, max_length: int) -> DecoderState:
        past = {"position": torch.zeros(rows, dtype=torch.long), "hidden": torch.zeros(rows, 8)}
        return DecoderState(beam=1, memory={}, past=past)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        state.past["hidden"].copy_(self._next(tokens, state.past["hidden"]))
        state.past["position"] += 1
        return self.head(state.past["hidden"]).log_softmax(-1), state

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def flops(self, tokens: int, length: float) -> float:
        return 2.0 * tokens * (16 * 8 + 8 * self.words)

    def cache_bytes_per_token(self) -> int:
        return 0
