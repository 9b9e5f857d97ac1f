"""Backpack language models: each word carries several senses, and what is said is a weighted sum of them.

    h = contextualiser(x)                        any encoder that reads one way (reader.py), (B, T, dim)
    C(x_j) = sense network(E[x_j])               k vectors of each word, the same wherever it stands
    α_ℓij = softmax_j (q_ℓ(h_i) · k_ℓ(h_j) / √(dim/k))     for each sense, over the places up to i
    o_i = Σ_j Σ_ℓ α_ℓij C(x_j)_ℓ                 P(next | x₁ … x_i) = softmax(E o_i)

So every logit is a finite sum over (word, sense) pairs, E[w] · α_ℓij C(x_j)_ℓ, and can be read as one (Hewitt et al.
2023). E is one table, used three times: what the contextualizer reads, what senses are made of, what words are guessed
with. There is no value projection, no bias, no norm on o, and no division by k. With k = 1 and α = 1/n it is CBOW
(tests/models/backpack/test_backpack.py).

In use, senses may come from a table (sense_table.py); `rewrite` changes them on the way, which is how a patch works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.models.backpack.backpack_settings import BackpackConfig, SenseConfig
from anaphora.models.backpack.sense_shares import SensesWhy, why_by_sense
from anaphora.models.backpack.sense_table import SenseTable
from anaphora.models.keywords import LanguageKeywords, by_keywords
from anaphora.models.language.causal import CausalLM
from anaphora.nn.encoder_contract import Past, locked_dropout
from anaphora.nn.kernels.sense_sums import distinct_of, mix
from anaphora.nn.sense_network import DEVIATION, SenseNetwork, reference_weights

if TYPE_CHECKING:
    from anaphora.models.backpack.topic import Emphasis
    from anaphora.models.next_word import Discounts

Rewrite = Callable[[Tensor, Tensor], Tensor]
"""(ids (N,), senses (N, k, dim)) -> senses (N, k, dim): a pure function of the word."""
MAX_SENSE_NUMBERS = 1 << 26
"""Numbers of sense vectors that reading a prompt gathers at once: 256 MB in float32."""


def begin_near_and_far(query_key: nn.Linear, senses: int, near: int) -> None:
    """How weights begin: so many of the senses at a place's own word, the others at all words alike.

    With small random queries and keys every α begins as 1/n: a bag of words, in which the last one, which says most of
    what comes next, has hardly a voice, and finding it takes a Backpack hundreds of updates that a Transformer, whose
    last word stands in its residual stream, does not need. So queries and keys of the near senses begin as the same
    rotation: a place is then more like itself, by √(dim/k) where the contextualizer ends in a norm, than like others.
    """
    nn.init.zeros_(query_key.bias)
    nn.init.normal_(query_key.weight, std=DEVIATION)
    dim = query_key.in_features
    if rows := near * (dim // senses):
        rotation = nn.init.orthogonal_(torch.empty(dim, dim))
        with torch.no_grad():
            query_key.weight[:rows] = query_key.weight[dim : dim + rows] = rotation[:rows]


@dataclass(kw_only=True)
class BackpackKeywords(BackpackConfig, LanguageKeywords):
    """What `Backpack(…)` takes."""


class Backpack(CausalLM):
    """A contextualizer, a sense network, and the table of words that both share (Hewitt et al. 2023).

    model = Backpack(vocabulary=8_000, dim=256, senses=16, layers=4, heads=4)
    model.sense_vectors(torch.tensor([17]))  # (1, 16, 256): what word 17 may mean, wherever it stands
    model.sense_weights(ids)  # (B, 16, T, T): how much of each sense of each word goes into each guess
    """

    rewrite: Rewrite | None = None
    """An intervention on senses, of whatever source."""
    emphasis: Emphasis | None = None
    """Topics, for which senses weigh more while they have not come up (topic.py)."""
    config: SenseConfig
    explains = True

    @by_keywords(BackpackKeywords)
    def __init__(self, config: SenseConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary)  # type: ignore[call-arg, arg-type]  # settings, not keywords
        self.whole = True
        self.dim, self.senses_count = config.dim, config.senses
        self.sense_window = config.sense_window
        if odd := [token for token in config.silent if not 0 <= token < vocabulary]:
            raise ValueError(f"silent has token {odd[0]}, and the vocabulary has tokens 0 to {vocabulary - 1}")
        self.head.silent = tuple(config.silent)
        epsilon = getattr(config, "epsilon", 1e-5)
        self.sense_network = SenseNetwork(
            config.dim, config.senses, hidden=config.sense_feed_forward, dropout=config.sense_dropout, epsilon=epsilon
        )
        self.query_key = nn.Linear(config.dim, 2 * config.dim)  # of all senses: k · dim/k numbers of each
        self.sense_network.begin_as_gpt2(config.layers)  # larger, and the sum of k of them would be sure of itself
        assert config.near_senses is not None  # settled by the settings
        begin_near_and_far(self.query_key, config.senses, config.near_senses)
        self.table: SenseTable | None = None

    @property
    def vocabulary_matrix(self) -> Tensor:
        """E (V, dim)."""
        return self.embedding.table.weight

    def attach(self, table: SenseTable | None) -> None:
        """Look senses up instead of computing them; None: compute them again."""
        self.table = table

    def shape(self) -> dict[str, Any]:
        settings = {name: getattr(self.config, name) for name in ("senses", "sense_window", "encoder")}
        return super().shape() | {name: value for name, value in settings.items() if value is not None}

    def explain_next(
        self,
        prefix: Sequence[int],
        *,
        top: int = 10,
        tokens: Sequence[int] = (),
        discounts: Discounts = (),
        part_discounts: Sequence[Discounts] = (),
    ) -> SensesWhy:
        """What each sense of each word before it gives a word."""
        return why_by_sense(self, prefix, top=top, tokens=tokens)

    # -- senses and their weights --------------------------------------------------------------------------------------

    def sense_vectors(self, ids: Tensor) -> Tensor:
        """C of words: ids (N,) -> (N, k, dim), from the table where there is one, rewritten where that is asked."""
        if self.table is not None and not self.training:
            senses = self.table.rows(ids).to(self.device, self.vocabulary_matrix.dtype)
        else:
            senses = self.sense_network(F.embedding(ids, self.vocabulary_matrix))
        return senses if self.rewrite is None else self.rewrite(ids, senses)

    def queries_and_keys(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """What the weights are made of: h (…, dim) -> (…, k, dim/k) twice."""
        query, key = self.query_key(h).chunk(2, dim=-1)
        return query.unflatten(-1, (self.senses_count, -1)), key.unflatten(-1, (self.senses_count, -1))

    def sense_weights(self, ids: Tensor, lengths: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """α of ids (B, T): (B, k, T, T); each row of each sense sums to 1 over the places up to its own. With a topic,
        what the sum is taken with: α times the topic's factors."""
        query, key = self.queries_and_keys(self.contextual(ids, lengths, documents))
        weights = reference_weights(query, key, documents, self.sense_window)
        if self.emphasis is None:
            return weights
        seen = torch.ones(1, ids.shape[1], ids.shape[1], device=ids.device).tril().expand(len(ids), -1, -1)
        return weights * self.emphasis.factors(ids, seen).to(weights.dtype)

    def mixed(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        documents: Tensor | None = None,
        distinct: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """o of ids (B, T): (B, T, dim), of which logits are o Eᵀ. distinct: the words that are there and which of them
        stands at each place (nn/kernels/sense_sums.py), where that is known."""
        query, key = self.queries_and_keys(self.contextual(ids, lengths, documents))  # (B, T, k, dim/k) twice
        types, slots = distinct or distinct_of(ids)
        senses = self.sense_vectors(types)
        out = mix(query, key, senses, slots, documents, self.sense_window)
        if self.emphasis is None:
            return out
        if documents is not None:
            raise ValueError("a topic fades within one text, and packed documents are several")
        # the sum is linear in the factors: what each topic adds is a sum of its own, and fades from place to place
        left = self.emphasis.left(self.emphasis.said(ids).cumsum(dim=1))  # (B, T, t)
        for topic, added in enumerate(self.emphasis.added[:, types].to(senses.dtype)):  # (U, k)
            out = out + left[..., topic, None].to(out.dtype) * mix(
                query, key, senses * added[..., None], slots, window=self.sense_window
            )
        return out

    # -- what differs from any other language model ----------------------------------------------------------------

    def encode(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        documents: Tensor | None = None,
        past: Past | None = None,
        distinct: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor, Past | None]:
        if past is not None:
            return super().encode(ids, lengths, documents, past)
        raw = self.mixed(ids, lengths, documents, distinct)
        return locked_dropout(raw, self.config.output_dropout, self.training, self.config.locked), raw, None

    @property
    def carries(self) -> bool:
        return False  # weights are of the places of one row, whatever the contextualizer could remember

    def spoken(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.mixed(ids, lengths)

    # -- stop and go on ------------------------------------------------------------------------------------------------

    def growing(self) -> frozenset[str]:
        return self.encoder.growing() | {"sense_key", "sense_id", "sense_vector"}

    @property
    def _by_word(self) -> bool:
        """Whether a place is remembered as its word, whose senses are looked up in every step."""
        return self.table is not None and self.rewrite is None

    def started(self, rows: int, max_length: int) -> Past:
        """The contextualiser's past, and of every place the keys of its senses and the word itself, whose senses are
        looked up; where they would have to be computed or rewritten each time, the senses instead."""
        past, size = super().started(rows, max_length), self.dim // self.senses_count
        like = self.vocabulary_matrix
        past["sense_key"] = like.new_zeros(rows, self.senses_count, max_length, size)
        if self._by_word or self.emphasis is not None:
            past["sense_id"] = torch.zeros(rows, 1, max_length, dtype=torch.long, device=like.device)
        if not self._by_word:
            past["sense_vector"] = like.new_zeros(rows, self.senses_count, max_length, self.dim)
        return past

    def _read(
        self, ids: Tensor, past: Past, lengths: Tensor | None = None, bound: int | None = None
    ) -> tuple[Tensor, Past]:
        position = past["position"].clone()
        own = {name: tensor for name, tensor in past.items() if not name.startswith("sense_")}
        h, after = super()._read(ids, own, lengths, bound)  # (R, T, dim)
        kept = {name: tensor for name, tensor in past.items() if name.startswith("sense_")}
        used = kept["sense_key"].shape[2] if bound is None else bound + ids.shape[1]
        return self._look(h, ids, position, kept, used), after | kept

    def _next(self, tokens: Tensor, past: Past, bound: int | None) -> Tensor:
        position = past["position"].clone()
        own = {name: tensor for name, tensor in past.items() if not name.startswith("sense_")}
        h = super()._next(tokens, own, bound)  # (R, dim), and what `own` holds is changed where it stands
        used = past["sense_key"].shape[2] if bound is None else bound + 1
        return self._look(h[:, None], tokens[:, None], position, past, used)[:, 0]

    def _look(self, h: Tensor, ids: Tensor, position: Tensor, past: Past, used: int) -> Tensor:
        """Write the new places' keys and words, then weigh all: h (R, T, dim), ids (R, T), standing behind position
        (R,), of caches of which `used` places matter -> (R, T, dim)."""
        rows, length = ids.shape
        keys = past["sense_key"]
        k, places = self.senses_count, keys.shape[2]
        query, key = self.queries_and_keys(h)  # (R, T, k, D)
        where = position[:, None] + torch.arange(length, device=ids.device)  # (R, T)
        every = torch.arange(rows, device=ids.device)[:, None]
        slot = ((every[:, :, None] * k + torch.arange(k, device=ids.device)) * places + where[..., None]).flatten()
        keys.view(-1, keys.shape[-1]).index_copy_(0, slot, key.reshape(-1, key.shape[-1]).to(keys.dtype))
        if "sense_vector" in past:
            new = self.sense_vectors(ids.flatten()).flatten(0, 1)  # (R · T · k, dim)
            past["sense_vector"].view(-1, self.dim).index_copy_(0, slot, new.to(keys.dtype))
        if "sense_id" in past:
            past["sense_id"].view(-1).index_copy_(0, (every * places + where).flatten(), ids.flatten())
        seen = torch.arange(used, device=ids.device) <= where[..., None]  # (R, T, used)
        several = max(1, MAX_SENSE_NUMBERS // (k * used * self.dim))
        parts = [slice(first, first + several) for first in range(0, rows, several)]
        out = [self._weighed(query[some], past, some, seen[some], used) for some in parts]
        return out[0] if len(out) == 1 else torch.cat(out)

    def _weighed(self, query: Tensor, past: Past, rows: slice, seen: Tensor, used: int) -> Tensor:
        """query (r, T, k, D) over the first `used` places of the caches -> (r, T, dim)."""
        keys = past["sense_key"][rows, :, :used]  # (r, k, used, D)
        scores = query.transpose(1, 2) @ keys.transpose(2, 3) / math.sqrt(keys.shape[-1])  # (r, k, T, used)
        near = seen
        if self.sense_window is not None:
            near = seen & (torch.arange(used, device=seen.device) >= seen.sum(-1, keepdim=True) - self.sense_window)
        weights = scores.masked_fill(~near[:, None], float("-inf")).softmax(dim=-1)
        if self.emphasis is not None:
            weights = weights * self.emphasis.factors(past["sense_id"][rows, 0, :used], seen).to(weights.dtype)
        if "sense_vector" in past:
            return (weights @ past["sense_vector"][rows, :, :used]).sum(dim=1)
        senses = self.sense_vectors(past["sense_id"][rows, 0, :used].flatten())  # (r · used, k, dim)
        axis = weights.permute(0, 2, 3, 1).flatten(2)  # (r, T, used · k)
        return axis @ senses.view(len(axis), -1, self.dim)

    # -- costs ---------------------------------------------------------------------------------------------------------

    def flops(self, tokens: int, length: float, types: int | None = None) -> float:
        """types: distinct words among the tokens, each of whose senses are computed once; as many as tokens unless
        given."""
        return super().flops(tokens, length) + (tokens if types is None else types) * self.sense_network.flops()

    def reading_flops(self, length: float) -> float:
        """For each token, all but the head's and the senses'."""
        return super().reading_flops(length) + self.weighing_flops(length)

    def weighing_flops(self, length: float) -> float:
        """For each token: queries and keys, their products, and the sum over places and senses."""
        places = (length + 1) / 2 if self.sense_window is None else min((length + 1) / 2, self.sense_window)
        return 4.0 * self.dim**2 + places * (2.0 * self.dim + 2.0 * self.senses_count * self.dim)

    def cache_bytes_per_token(self) -> int:
        """Keys of senses, and the word's number where its senses stand in a table, else the senses themselves."""
        element = self.vocabulary_matrix.element_size()
        word = 8 if self._by_word else self.senses_count * self.dim * element
        return super().cache_bytes_per_token() + self.dim * element + word
