"""The head of a language model: from a vector to a score for every word, logits = W x + b."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW_ROWS = 6
"""Rows that are scored as columns."""
SLICE_TOKENS = 512
"""Tokens of the vocabulary that a decoding step scores in one product on a CPU."""


SILENCED_LOGIT = -1e4
"""The logit of a token that is never said: e to it is 0, and nothing that is multiplied with it becomes NaN."""


class VocabularyHead(nn.Module):
    """x (…, dim) -> logits (…, V); tied, W is the table of the words' vectors (Press & Wolf 2017)."""

    bias: nn.Parameter | None
    silent: tuple[int, ...] = ()
    """Tokens that are read and never said: marks of our own in a model that was made elsewhere."""

    def __init__(self, dim: int, vocabulary: int, *, tied_to: Tensor | None = None, bias: bool = True) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        if tied_to is None:
            self.weight = nn.Parameter(torch.empty(vocabulary, dim))
            nn.init.normal_(self.weight, std=dim**-0.5)
        else:  # the table may have rows behind those of the vocabulary, for tokens that are never said
            self.weight = cast(nn.Parameter, tied_to)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return self._silenced(F.linear(x, self.weight[: self.vocabulary], self.bias))

    def of_few(self, x: Tensor) -> Tensor:
        """The same for the few rows of a decoding step, (R, dim) -> (R, V)."""
        return self._silenced(logits_of_few(x, self.weight[: self.vocabulary], self.bias))

    def _silenced(self, logits: Tensor) -> Tensor:
        for token in self.silent:
            logits[..., token] = SILENCED_LOGIT
        return logits

    def flops(self) -> float:
        """For each vector."""
        return 2.0 * self.vocabulary * self.weight.shape[1]


def logits_of_few(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + b for the few rows of a decoding step, (R, dim) -> (R, V). On a CPU, a handful of rows are quickest as
    columns, W xᵀ, a single one as two: the library then reads the table once and copies nothing. For more, the
    vocabulary is cut into slices: one product as wide as the vocabulary, and of an odd width, takes half as long
    again."""
    if x.device.type != "cpu" or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    if len(x) <= FEW_ROWS:
        columns = torch.mm(weight, (x if len(x) > 1 else torch.cat([x, x])).t())  # (V, R)
        logits = columns[:, : len(x)].t().contiguous()
        return logits if bias is None else logits.add_(bias)
    logits = x.new_empty(x.shape[0], weight.shape[0])
    for part, out in zip(weight.split(SLICE_TOKENS), logits.split(SLICE_TOKENS, dim=1)):
        torch.mm(x, part.t(), out=out)
    return logits if bias is None else logits.add_(bias)
