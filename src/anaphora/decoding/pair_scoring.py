"""Teacher-forced scoring: how probable is a given translation?

Where the search asks the model for one token after another, scoring knows the whole target beforehand and asks for all
positions at once. Both must agree: the score of what the search said is the sum of its steps (a permanent test).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anaphora.models.contracts import Translator
from anaphora.tokenizers.tokenizer import BOS

CHUNK_TOKENS = 1024
"""Target tokens, padding included, scored at once: (tokens, V) log-probabilities are the largest tensor there is."""


@dataclass
class TokenScores:
    """log P of every token of B targets."""

    log_probabilities: Tensor
    """(B, T): log P(token | source, tokens before it), the end mark included; 0 at padding."""
    total: Tensor
    """(B,): their sums, log P(target | source)."""


def score(
    model: Translator, source: Tensor, source_lengths: Tensor, target: Tensor, target_lengths: Tensor
) -> TokenScores:
    """source (B, S) and target (B, T), padded, each ending in EOS, none with BOS; the lengths (B,) count the EOS.

    Gradients flow through it (sequence-level objectives need them); whoever wants none says `torch.no_grad()`, and
    `evaluating(model)` for a model that is in training. Nothing depends on how rows are grouped.
    """
    batch, longest = target.shape
    rows = max(1, CHUNK_TOKENS // max(longest, 1))
    chunks = [
        _score_chunk(model, source[i : i + rows], source_lengths[i : i + rows], target[i : i + rows])
        for i in range(0, batch if longest else 0, rows)
    ]
    per_token = torch.cat(chunks) if chunks else torch.zeros(batch, longest, device=target.device)  # (B, T)
    real = torch.arange(longest, device=target.device) < target_lengths.to(target.device)[:, None]  # (B, T)
    # where, not multiplication: a padding position may hold -inf, and 0 * -inf is not a number.
    per_token = torch.where(real, per_token, torch.zeros_like(per_token))
    return TokenScores(per_token, per_token.sum(dim=1))


def _score_chunk(model: Translator, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
    """(B, T): what the decoder reads is the target one place to the right, BOS in front."""
    begin = torch.full_like(target[:, :1], BOS)
    log_probabilities = model.log_probabilities(source, torch.cat([begin, target[:, :-1]], dim=1), source_lengths)
    return log_probabilities.gather(2, target[:, :, None])[:, :, 0].float()
