"""What a change to a model does to everything else: how far its predictions of a text move.

At every token of the text both models say how probable each word is, P before the change and Q after it. The distance
is KL(P ‖ Q) = Σ_w P(w) (log P(w) - log Q(w)), in nats: 0 where nothing changed. A change that reaches what it is about
and nothing else has a mean near 0 on ordinary text, and a few places where it is large. Perplexity before and after
says whether the text has become a stranger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from anaphora.decoding.beam_search import evaluating
from anaphora.decoding.text_scoring import Boundaries, context_of, windows_for
from anaphora.errors import UserError
from anaphora.evaluation.bits_per_byte import perplexity
from anaphora.models.backpack.backpack import Backpack
from anaphora.results import brief, figure
from anaphora.tokenizers.tokenizer import BOS

MAX_LOG_PROBABILITIES = 1 << 24
"""Log-probabilities of one model that are held at once: tokens times vocabulary, 64 MB in float32."""
BATCH_TOKENS = 8192
"""Tokens, padding included, that are read at once."""
DECIMAL_PLACES = 5


@dataclass(frozen=True)
class Place:
    """A token whose prediction moved."""

    token: int
    """Its number in the text."""
    kl: float
    before: float
    """log P of the token that stands there."""
    after: float


@dataclass
class SideEffect:
    """How far apart two models are on a text."""

    tokens: int = 0
    kl: float = 0.0
    """Mean over the tokens, in nats."""
    kl_largest: float = 0.0
    moved: int = 0
    """Tokens whose prediction changed at all: KL above 1e-6."""
    perplexity_before: float = math.nan
    perplexity_after: float = math.nan
    places: list[Place] = field(default_factory=list)
    """Where it is largest."""

    def __repr__(self) -> str:
        kl = f"KL {self.kl:.2e}"
        change = f"perplexity {figure(self.perplexity_before)} → {figure(self.perplexity_after)}"
        return brief("SideEffect", None, kl, change, f"{self.moved:,} of {self.tokens:,} tokens moved")

    @property
    def perplexity_change(self) -> float:
        """As a share of what it was."""
        return self.perplexity_after / self.perplexity_before - 1.0

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {**asdict(self), "perplexity_change": self.perplexity_change}


@torch.no_grad()
def side_effect(
    before: Backpack,
    after: Backpack,
    ids: NDArray[np.uint32],
    starts: NDArray[np.int64],
    boundaries: Boundaries = "lines",
    *,
    context: int | None = None,
    stride: int | None = None,
) -> SideEffect:
    """Compare two models over a text: its ids end to end, each line w … ⟨/s⟩, and where each begins (see
    language.score_ids)."""
    if not len(ids):
        raise UserError("there is no text to compare on", cure="give a text with at least one line")
    found = [np.zeros(len(ids), np.float64) for _ in range(3)]
    with evaluating(before), evaluating(after):
        for where, told in _told(before, after, ids, starts, boundaries, context, stride):
            for values, column in zip(found, told):
                values[where] = column
    kl, old, new = found
    largest = np.argsort(-kl, kind="stable")[:DECIMAL_PLACES]
    return SideEffect(
        tokens=len(ids),
        kl=float(kl.mean()),
        kl_largest=float(kl.max()),
        moved=int((kl > 1e-6).sum()),
        perplexity_before=perplexity(float(old.sum()), len(ids)),
        perplexity_after=perplexity(float(new.sum()), len(ids)),
        places=[Place(int(i), float(kl[i]), float(old[i]), float(new[i])) for i in largest if kl[i] > 0],
    )


def _told(
    before: Backpack,
    after: Backpack,
    ids: NDArray[np.uint32],
    starts: NDArray[np.int64],
    boundaries: Boundaries,
    context: int | None,
    stride: int | None,
) -> Iterator[tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]]:
    """Some tokens at a time: which, and of each KL, log P before and after."""
    rows = starts[[0, -1]] if boundaries == "stream" else starts
    whole = int(np.diff(rows).max())  # rows are read as `evaluate` reads them, or its perplexity would be another
    windows = windows_for(rows, *(context_of(before, context, stride) or (whole, whole)))
    sizes = windows.end - windows.begin
    order = np.argsort(-sizes, kind="stable")
    place = 0
    while place < len(order) and sizes[order[place]] > 0:
        longest = int(sizes[order[place]])
        some = order[place : place + max(1, BATCH_TOKENS // longest)]
        place += len(some)
        where = windows.begin[some][:, None] + np.arange(longest)  # (B, T)
        inside = np.arange(longest) < sizes[some][:, None]
        new = inside & (where >= windows.first[some][:, None])
        text = torch.from_numpy(np.where(inside, ids[np.minimum(where, len(ids) - 1)], 0).astype(np.int64))
        text, asked = text.to(before.device), torch.from_numpy(new).to(before.device)
        read = torch.cat([text.new_full((len(text), 1), BOS), text[:, :-1]], dim=1)
        lengths = torch.from_numpy(sizes[some]).to(before.device)
        vectors = [model.mixed(read, lengths)[asked] for model in (before, after)]  # (n, d) each
        yield where[new], _compared(vectors, text[asked], before, after)


def _compared(vectors: list[Tensor], tokens: Tensor, before: Backpack, after: Backpack) -> tuple[NDArray[Any], ...]:
    several = max(1, MAX_LOG_PROBABILITIES // before.vocabulary)
    told: list[tuple[Tensor, Tensor, Tensor]] = []
    for old, new, token in zip(vectors[0].split(several), vectors[1].split(several), tokens.split(several)):
        p, q = (F.log_softmax(one.head(x).float(), dim=-1) for one, x in ((before, old), (after, new)))
        # the sum over the vocabulary rounds; what is below zero by that is zero
        kl = (p.exp() * (p - q)).sum(dim=-1).clamp(min=0.0)
        told.append((kl, p.gather(1, token[:, None])[:, 0], q.gather(1, token[:, None])[:, 0]))
    return tuple(torch.cat(column).double().cpu().numpy() for column in zip(*told))
