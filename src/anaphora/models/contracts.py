"""What every model of the house promises, so that one loop can train it and one search can speak with it.

A *translator* reads a source once (`start`) and is then asked for one token after another (`step`). What it must
remember in between is a `DecoderState`: tensors of fixed shape, so that the same step can be run plainly, compiled, or
captured in a CUDA graph. The search never looks inside; it only reorders, selects and inserts rows.

A *language model* has no source: it gives a text its probability (`score`) or goes on with it, one token after another
(`start`, `step`). Counting models and neural ones answer the same calls; decoding/generation.py makes of a language
model a translator whose source is the prompt, so that the same search speaks with both.

Rows. B sentences are searched with `beam` hypotheses each: R = B * beam rows, sentence-major, so row r belongs to
sentence r // beam. What depends on the source alone is kept once per sentence (`memory`, first dimension B); what
depends on the words said so far is kept once per row (`past`, first dimension R).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.models.losses import lengths_by_padding, mean_cross_entropy, tensors_of

if TYPE_CHECKING:
    from anaphora.models.next_word import Discounts, NextWordsTold

SCORED_AT_ONCE = 16_384
"""Tokens, padding included, that `LanguageModel.score_flat` hands to `score` at once, at the most."""
NUMBERS_AT_ONCE = 1 << 26
"""Log-probabilities, tokens times vocabulary, that a model is asked to form at once: 256 MB in float32."""


@dataclass
class DecoderState:
    """A fixed-shape tree of tensors: all that a translator remembers between two steps."""

    beam: int
    """Rows per sentence."""
    memory: dict[str, Tensor]
    """Per sentence: (B, ...), shared by its rows: what `start` wrote of the source; a cache that keeps what all of them
    have said as one tree may stand here too, so that reordering rows moves nothing in it."""
    past: dict[str, Tensor]
    """Per row: (R, ...). `past["position"]` (R,) counts the tokens each row has taken; a cache has its time axis at
    dimension 2: (R, H, max_length, D)."""
    bound: int = 0
    """An upper bound, known on the host, of the positions in use: a plain engine may look at `cache[:, :, :bound]`
    alone. A captured step sets it to max_length once and leaves it."""
    growing: frozenset[str] = field(default_factory=frozenset)
    """Names of caches that have a time axis at dimension 2, of which only `bound` positions need to be moved; in
    `memory`, where the rows of a sentence share the cache, `bound * beam`."""
    trail: list[dict[str, Tensor]] = field(default_factory=list)
    """What `past` held before each token of the latest `extend`, but for the growing caches: what `rewind` goes back
    to. Empty where going back needs no more than the position."""

    @property
    def sentences(self) -> int:
        return self.rows // self.beam

    @property
    def rows(self) -> int:
        return next(iter(self.past.values())).shape[0]

    def reorder(self, index: Tensor) -> DecoderState:
        """Row r continues what row index[r] said: (R,), each index within the same sentence as its row."""
        for name, tensor in self.past.items():
            if name in self.growing:
                used = tensor[:, :, : self.bound]
                used.copy_(used.index_select(0, index))
            else:
                tensor.copy_(tensor.index_select(0, index))
        return self

    def select(self, sentences: Tensor) -> DecoderState:
        """Keep these sentences only, in this order: (B',), at most as many as there are. The others are finished; the
        caches of the new state are the first places of the old one's."""
        offsets = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + offsets).flatten()  # (B' * beam,)

        def keep(name: str, tensor: Tensor, index: Tensor, used: int) -> Tensor:
            if name not in self.growing:
                return tensor.index_select(0, index)
            kept = tensor[: len(index)]
            kept[:, :, :used] = tensor[:, :, :used].index_select(0, index)
            return kept

        shared = self.bound * self.beam
        return DecoderState(
            beam=self.beam,
            memory={name: keep(name, tensor, sentences, shared) for name, tensor in self.memory.items()},
            past={name: keep(name, tensor, rows, self.bound) for name, tensor in self.past.items()},
            bound=self.bound,
            growing=self.growing,
        )

    def insert(self, sentences: Tensor, other: DecoderState) -> DecoderState:
        """Put the sentences of `other` (same shapes but for the first dimension) into these places: (B_other,)."""
        offsets = torch.arange(self.beam, device=sentences.device)
        rows = (sentences[:, None] * self.beam + offsets).flatten()
        for name, tensor in self.memory.items():
            tensor.index_copy_(0, sentences, other.memory[name])
        for name, tensor in self.past.items():
            tensor.index_copy_(0, rows, other.past[name])
        self.bound = max(self.bound, other.bound)
        return self


def lengths_of(source: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
    """Real tokens of each source (B,): those given, or all that are not padding; what cannot be right is refused in one
    line. (While torch.compile traces, nothing is checked: every comparison would tie the graph to a shape.)"""
    if not torch.compiler.is_compiling():
        for name, ids in (("source", source), ("target", target)):
            if ids.dim() != 2 or ids.is_floating_point():
                kind = "numbers" if ids.is_floating_point() else "ids"
                raise ValueError(f"{name} must be token ids (B, T); it has {kind} of shape {tuple(ids.shape)}")
        if len(source) != len(target):
            raise ValueError(f"each source needs its target: there are {len(source)} and {len(target)}")
        if lengths is not None and lengths.shape != source.shape[:1]:
            raise ValueError(f"source_lengths must be ({len(source)},); they have shape {tuple(lengths.shape)}")
    return lengths_by_padding(source) if lengths is None else lengths


class Translator(nn.Module):
    """Reads a sentence of one language, says it in another: what the loop trains and the search asks.

    A system derives from this class and writes `forward`, `start`, `step` and `flops`; the rest follows.
    """

    capabilities: frozenset[str]
    """What the property suite may test: causal, steppable, normalized, batch-invariant, attends."""
    max_source_length: int
    """The longest source, in tokens with its end mark, that the model can read."""
    max_target_length: int
    """The longest target, in tokens with its end mark, that the model can say."""

    def forward(self, source: Tensor, target: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        """Teacher forcing: source (B, S), target (B, T) from BOS on -> logits of each next token (B, T, V).

        source_lengths (B,): real tokens of each source; all but padding (PAD), where they are not given.
        """
        raise NotImplementedError

    def start(self, source: Tensor, source_lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        """Read source (B, S), padded, each ending in EOS; make room for `beam` rows a sentence of max_length tokens."""
        raise NotImplementedError

    def step(
        self, tokens: Tensor, state: DecoderState, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        """The last token of each row (R,) -> log-probabilities of the next (R, V), the state after it, and, where
        asked and able, how much each row looked at each source token (R, S). The log-probabilities are new, contiguous
        and float32 at every step: the search writes into them."""
        raise NotImplementedError

    def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
        """Floating-point operations of one forward pass over that many tokens in sentences of those mean lengths.

        A product of an (m, k) by a (k, n) matrix counts 2mkn; norms, softmax and sums are left out. Training costs
        three times as much: the backward pass is two products for each of the forward's.
        """
        raise NotImplementedError

    def cache_bytes_per_token(self) -> int:
        """Bytes of state that each token of a hypothesis adds while decoding."""
        return 0

    def loss(self, batch: Any, *, label_smoothing: float = 0.0) -> Tensor:
        """The mean of -log P(next token) over a batch (source, target), ids (B, S) and (B, T) padded with 0, each
        source ending in ⟨/s⟩ and each target from ⟨s⟩ to ⟨/s⟩ (models/losses.py)."""
        source, target = tensors_of(batch, "source", "target")
        return mean_cross_entropy(self, self(source, target[:, :-1]), target[:, 1:], label_smoothing)

    def log_probabilities(self, source: Tensor, target: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        """Teacher forcing: target (B, T) beginning with BOS -> log P(next token) (B, T, V), all positions at once."""
        return F.log_softmax(self(source, target, source_lengths).float(), dim=-1)

    def parameter_count(self) -> int:
        """Every trained number once: tied tables count once, sinusoidal positions not at all."""
        return sum(p.numel() for p in self.parameters())

    # -- made of others, perhaps ---------------------------------------------------------------------------------------

    @property
    def made_of(self) -> Sequence[Translator]:
        """The translators that it is a mean of; none, where it is one of itself."""
        return ()

    @property
    def attending(self) -> dict[int, float]:
        """Which of these say what they look at, with their shares among those that do."""
        return {}


@runtime_checkable
class LanguageModel(Protocol):
    """Gives a text its probability, token by token: P(w₁ … w_T) = Π P(w_t | ⟨s⟩ w₁ … w_{t-1}).

    A protocol, so that a counting model can answer it without torch being loaded. A system that derives from it writes
    `score`, `start`, `step` and the costs; `read`, `extend`, `rewind` and `score_flat` follow, and may be written where
    there is a faster way.
    """

    capabilities: frozenset[str]
    """What the property suite may test: causal, steppable, normalized, batch-invariant; and `explains`, where it can
    tell what an answer came from (`explain_next`)."""

    @property
    def vocabulary(self) -> int:
        """How many tokens there are, special ones included."""
        raise NotImplementedError

    @property
    def max_length(self) -> int | None:
        """The longest row, in tokens with ⟨s⟩; None: any."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device | str:
        """Where it computes, and expects its ids."""
        raise NotImplementedError

    def score(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """log P of each token after ⟨s⟩ and those before it: ids (B, T) without ⟨s⟩, lengths (B,) -> (B, T) float32, 0
        at padding."""
        raise NotImplementedError

    def start(self, rows: int, max_length: int) -> DecoderState:
        """Rows that have taken nothing yet, with room for max_length tokens: ⟨s⟩ is the first that they are fed."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The last token of each row (R,), at the beginning ⟨s⟩ -> log P of the next (R, V), and the state after it.
        The log-probabilities are new, contiguous and float32 at every step: the search writes into them."""
        raise NotImplementedError

    def read(self, ids: Tensor, lengths: Tensor, max_length: int) -> DecoderState:
        """Rows that have taken ids (B, T), from ⟨s⟩ on, padded, lengths (B,): what `step` by step would come to.

        A row that has come to its end is written down before the others go on.
        """
        state = whole = self.start(len(ids), max_length)
        rows = torch.arange(len(ids), device=ids.device)
        for place in range(ids.shape[1]):
            going = (lengths[rows] > place).nonzero()[:, 0]
            if len(going) < len(rows):
                if state is not whole:
                    whole.insert(rows, state)
                if not len(going):
                    return whole
                state, rows = _picked(state, going), rows[going]
            _, state = self.step(ids[rows, place], state)
        if state is not whole:
            whole.insert(rows, state)
        return whole

    def extend(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Several tokens a row at once, (R, k) -> log P of what follows each of them (R, k, V), and the state after the
        last: what k steps would say. A model that reads in parallel writes this as one pass."""
        return extend_by_steps(self, tokens, state)

    def rewind(self, state: DecoderState, back: Tensor) -> DecoderState:
        """Take the last tokens of the latest `extend` back, so many of each row: (R,), each at most its k."""
        return rewound(state, back)

    def score_flat(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.float32]:
        """`score` of rows that stand in one array, row i being tokens[starts[i] : starts[i + 1]]: (N,) -> (N,)."""
        return score_rows(self, tokens, starts, max(1, min(SCORED_AT_ONCE, NUMBERS_AT_ONCE // self.vocabulary)))

    def parameter_count(self) -> int:
        """How many numbers were learned or counted."""
        raise NotImplementedError

    def flops(self, tokens: int, length: float) -> float:
        """Floating-point operations of one forward pass over that many tokens in rows of that mean length."""
        raise NotImplementedError

    def cache_bytes_per_token(self) -> int:
        """Bytes of state that each token of a row adds while generating."""
        raise NotImplementedError

    # -- what it says of itself ----------------------------------------------------------------------------------------

    @property
    def noun(self) -> str:
        """What it is, in a sentence: "a counting model"."""
        return "a language model that reads from left to right"

    def shape(self) -> dict[str, Any]:
        """What there is to say of it in a few numbers, for `info`."""
        return {}

    def sums_to_one(self) -> bool | None:
        """Whether probabilities sum to one; None, where numbers were taken from a file as they are."""
        return "normalised" in self.capabilities

    @property
    def explains(self) -> bool:
        """Whether it can tell what a probability came from."""
        return "explains" in self.capabilities

    def explain_next(
        self,
        prefix: Sequence[int],
        *,
        top: int = 10,
        tokens: Sequence[int] = (),
        discounts: Discounts = (),
        part_discounts: Sequence[Discounts] = (),
    ) -> NextWordsTold:
        """Why the `top` likeliest tokens after ⟨s⟩ and a prefix are, and `tokens` beside them; of what `explains`.

        `discounts` are those that it was estimated with, `part_discounts` those of its parts: they are shown, not used.
        """
        raise UserError(f"{type(self).__name__} cannot tell what its probabilities came from", cure="see `explains`")

    def draws_ahead(self) -> bool:
        """Whether it can propose several words at once without the probabilities of all others (decoding/drafts.py)."""
        return False


def score_rows(
    model: LanguageModel, tokens: NDArray[Any], starts: NDArray[np.int64], at_once: int
) -> NDArray[np.float32]:
    """`score_flat` by `score`, which is given rows of like length, at most so many tokens together, if not a single
    row has more."""
    found = np.zeros(len(tokens), np.float32)
    sizes = np.diff(starts)
    order = np.argsort(-sizes, kind="stable")  # rows of like length together
    place = 0
    while place < len(order) and sizes[order[place]] > 0:
        longest = int(sizes[order[place]])
        rows = order[place : place + max(1, at_once // longest)]
        inside = np.arange(longest) < sizes[rows][:, None]  # (B, T)
        where = starts[rows][:, None] + np.arange(longest)
        ids = np.where(inside, tokens[np.minimum(where, len(tokens) - 1)], 0).astype(np.int64)
        with torch.no_grad():
            batch = torch.from_numpy(ids).to(model.device), torch.from_numpy(sizes[rows]).to(model.device)
            scores = model.score(*batch)
        found[where[inside]] = scores.cpu().numpy()[inside]
        place += len(rows)
    return found


def extend_by_steps(model: LanguageModel, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
    """`extend` for a model that reads one token after another; what it knew before each is kept in the trail."""
    state.trail, said = [], []
    for column in tokens.unbind(1):
        state.trail.append({name: tensor.clone() for name, tensor in state.past.items() if name not in state.growing})
        log_probabilities, state = model.step(column, state)
        said.append(log_probabilities)
    return torch.stack(said, dim=1), state


def rewound(state: DecoderState, back: Tensor) -> DecoderState:
    """The state before the last back (R,) tokens. A growing cache stays as it is: nothing looks behind `position`, and
    what stands there is overwritten."""
    if not state.trail:
        state.past["position"] -= back
        return state
    rows = torch.arange(len(back), device=back.device)
    for name in state.trail[0]:
        known = torch.stack([*(before[name] for before in state.trail), state.past[name]])  # (k + 1, R, ...)
        state.past[name].copy_(known[len(state.trail) - back, rows])
    state.trail = []
    return state


def _picked(state: DecoderState, rows: Tensor) -> DecoderState:
    """These rows of a state that has one row a sentence, as copies: unlike `select`, the state itself stays whole."""
    return DecoderState(
        beam=1,
        memory={name: tensor.index_select(0, rows) for name, tensor in state.memory.items()},
        past={name: tensor.index_select(0, rows) for name, tensor in state.past.items()},
        bound=state.bound,
        growing=state.growing,
    )
