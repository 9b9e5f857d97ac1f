"""Speaking about a topic: senses that raise its words weigh more, and what lowers them less, until it has come up.

A topic is a *bag* of words. Every sense of every word of the vocabulary is asked how far it leans towards them, more
than towards words in common, and that is put beside how far senses lean at all:

    lean(w, ℓ) = C(w)_ℓ · (mean of E over the bag - mean of E over the other words, the frequent ones more)
    z(w, ℓ) = (lean(w, ℓ) - its mean) / its deviation
    δ(w, ℓ) = max(0, 1 + (strength - 1) · z(w, ℓ))

and α is multiplied by δ. Nothing is retrained, and no word is forced: what the text's own words say for the topic is
said louder, and what they say against it, softer. The second is worth more than the first: most senses of most words
speak for the words that hold any sentence together, and topics are hardly heard among them (docs/lab-notes.md).

Hewitt et al. (2023) raise alone, by buckets, which `factors` do: each sense is scored by the probability that it alone
would give the bag, score(w, ℓ) = log Σ_{b in bag} softmax(E C(w)_ℓ)_b, the scores of the whole vocabulary are cut at
their quantiles .95, .80 and .60, and each of the four buckets has a factor δ.

Once words of the bag stand in the text, shouting on would only repeat them, so what δ changes fades: after n of them,
by `fade` each,

    o_i = Σ_j Σ_ℓ α_{ℓij} (1 + fadeⁿ⁽ⁱ⁾ (δ(x_j, ℓ) - 1)) C(x_j)_ℓ,      n(i) of the bag among x_1 … x_i.

n is counted for each row, and a row that stands in a beam takes its count along. It is a function of the text alone, so
that reading at once, reading step by step and scoring are the same numbers. Several topics add up what each adds and
what each takes; where together they would take more than all of a weight, each takes less, in proportion.

(The published code fades by the sense; here by the row, which needs one number to remember.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models.backpack.patch import QUANTILES, Topic
from anaphora.models.backpack.sense_edits import Lookup

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack

AT_ONCE = 1 << 24
"""Numbers of sense vectors, or logits, that are there at once, 64 MB in float32."""
SAMPLE = 4096
"""Words, at the most, from which the sum over all words is estimated."""
FREQUENT = 1000
"""Words are numbered from the frequent to the rare, about as 1 / (number + this)."""


@dataclass(frozen=True)
class Emphasis:
    """What t topics add to the weights of senses."""

    alone: Tensor
    """(t, V, k): δ - 1 of each sense of each word, as if each topic were the only one: -1 or more."""
    bags: Tensor
    """(t, V) int32: 1 for the words of each topic."""
    fades: Tensor
    """(t,)"""

    @cached_property
    def added(self) -> Tensor:
        """(t, V, k): what each topic adds to a weight of 1. Each might take all of it, and together they would turn it
        round: so where their sum is below -1, what is taken shrinks until it is not, however far topics have faded."""
        taken = self.alone.clamp(max=0).sum(dim=0).abs()  # (V, k)
        return torch.where(self.alone < 0, self.alone / taken.clamp(min=1), self.alone)

    def said(self, ids: Tensor) -> Tensor:
        """Whether tokens are the topics' words: (…,) -> (…, t) int32."""
        return self.bags[:, ids].movedim(0, -1)

    def left(self, said: Tensor) -> Tensor:
        """What is left of each topic after so many of its words: (…, t) -> (…, t) float32."""
        return self.fades**said

    def factors(self, ids: Tensor, seen: Tensor) -> Tensor:
        """What the weights of a text's senses are multiplied by: ids (R, S) of its places, and which of them each of T
        places has read, seen (R, T, S) -> (R, k, T, S)."""
        said = seen.float() @ self.said(ids).float()  # (R, T, t)
        return 1.0 + torch.einsum("rqt,trsk->rkqs", self.left(said), self.added[:, ids])

    def and_(self, other: Emphasis | None) -> Emphasis:
        """Both."""
        if other is None:
            return self
        both = ((other.alone, self.alone), (other.bags, self.bags), (other.fades, self.fades))
        return Emphasis(*map(torch.cat, both))


@torch.no_grad()
def emphasized(model: Backpack, topic: Topic, tokens_of: Lookup, unsaid: Sequence[int] = ()) -> Emphasis:
    """The model's emphasis with one more topic; scores are of the senses as its `rewrite` leaves them. unsaid: tokens
    that no text has."""
    bag = torch.zeros(model.vocabulary, dtype=torch.bool, device=model.vocabulary_matrix.device)
    bag[bag_tokens(topic, tokens_of)] = True
    if topic.factors is None:
        assert topic.strength is not None  # settled by the patch
        added = ((topic.strength - 1.0) * leanings(model, bag, unsaid)).clamp(min=-1.0)  # (V, k)
    else:
        added = torch.tensor(topic.factors, device=bag.device)[buckets(topic_scores(model, bag))] - 1.0
    fades = torch.tensor([topic.fade], device=bag.device)
    return Emphasis(added[None], bag.to(torch.int32)[None], fades).and_(model.emphasis)


def bag_tokens(topic: Topic, tokens_of: Lookup) -> list[int]:
    """The tokens of a topic's words. A word in pieces is left out: its pieces are of all words, and of no topic."""
    found = [token for word in topic.words if knows(word, tokens_of) for token in tokens_of(word).forms]
    if not found:
        raise UserError(
            f"topic {topic.called}: none of its words is a token of this model",
            cure="name words that the model was trained on",
        )
    return found


def knows(word: str, tokens_of: Lookup) -> bool:
    """Whether a token of the vocabulary is this word."""
    try:
        return bool(tokens_of(word).forms)
    except UserError:
        return False


@torch.no_grad()
def leanings(model: Backpack, bag: Tensor, unsaid: Sequence[int] = ()) -> Tensor:
    """z: how far each sense leans towards a bag (V,) of words, in deviations of how far senses do: (V, k) float32.

    Mean and deviation are of the senses of words as they are used: of frequent ones more than of rare ones, and not of
    those that no text has.
    """
    table = model.vocabulary_matrix.float()
    used = 1.0 / (torch.arange(model.vocabulary, device=table.device) + FREQUENT)  # (V,)
    used[list(unsaid)] = 0.0
    others = used * ~bag
    towards = table[bag].mean(dim=0) - others @ table / others.sum().clamp(min=1e-12)  # (d,)
    several = max(1, AT_ONCE // (model.senses_count * model.dim))
    parts = torch.arange(model.vocabulary, device=table.device).split(several)
    lean = torch.cat([model.sense_vectors(some).float() @ towards for some in parts])  # (V, k)
    share = (used / used.sum() / model.senses_count)[:, None]
    mean = (share * lean).sum()
    deviation = (share * (lean - mean) ** 2).sum().sqrt()
    return (lean - mean) / deviation.clamp(min=1e-12)


@torch.no_grad()
def topic_scores(model: Backpack, bag: Tensor) -> Tensor:
    """log P of a bag (V,) of words by each sense alone: (V, k) float32.

    The normalizer is a sum over every n-th word: numbers of subwords go from the frequent to the rare, so that such a
    sample has of all kinds. For a vocabulary of 50,000 it is as cheap as the senses themselves.
    """
    table = model.vocabulary_matrix.float()
    apart = -(-model.vocabulary // SAMPLE)
    topic, others = table[bag].T, table[~bag][::apart].T  # (d, bag), (d, sample)
    several = max(1, AT_ONCE // (model.senses_count * max(model.dim, others.shape[1])))
    found = []
    for some in torch.arange(model.vocabulary, device=table.device).split(several):
        senses = model.sense_vectors(some).float()  # (n, k, d)
        own = (senses @ topic).logsumexp(dim=-1)
        rest = (senses @ others).logsumexp(dim=-1) + math.log(apart)
        found.append(own - torch.logaddexp(own, rest))
    return torch.cat(found)


def buckets(scores: Tensor) -> Tensor:
    """0 for the best senses, then 1, 2, 3, cut at the quantiles of all scores: (V, k) -> (V, k)."""
    ranked = scores.flatten().sort().values
    cuts = ranked[[min(int(share * len(ranked)), len(ranked) - 1) for share in QUANTILES]]  # best first
    return (scores[..., None] < cuts).sum(dim=-1)
