"""The n-gram language model: P(word | the order - 1 words before it), by counting.

    P(w₁ … w_T ⟨/s⟩) = Π P(w_t | w_{t-n+1} … w_{t-1})

The model is a trie of all n-grams up to its order, in flat arrays (models/ngram/kernels/ngrams.py): beside each
n-gram, log P of its last word after the others; beside each context, the weight that a word pays which was never seen
after it. Reading a text is a walk: the state is the longest context that the trie knows.

How counts become probabilities: smoothing.py. How n-grams are counted, in memory or out of it: counting.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.files.foreign import is_there
from anaphora.folder import WEIGHTS
from anaphora.models.ngram.kernels.ngrams import (
    F32,
    NOWHERE,
    U32,
    Rule,
    Trie,
    Whole,
    advance,
    take_rows,
    walk,
    walk_rows,
)
from anaphora.models.ngram.ngram_settings import NgramConfig
from anaphora.models.ngram.smoothing import (
    Estimate,
    Grams,
    estimate,
    kept,
    log,
    predictable,
)
from anaphora.models.ngram.threads import CORES, pool
from anaphora.models.registry import System
from anaphora.tokenizers.tokenizer import BOS

if TYPE_CHECKING:  # imported where it is used: counting within a memory limit has no 200 MB for it
    from torch import Tensor

    from anaphora.models.contracts import DecoderState, LanguageModel
    from anaphora.models.next_word import Discounts
    from anaphora.models.ngram.ngram_explanation import Why

NGRAM = System(
    kind="ngram",
    rung=11,
    task="counting",
    settings="anaphora.models.ngram.ngram_settings:NgramConfig",
    read="anaphora.models.ngram.ngram_model:read_ngram",
    formats=("arpa",),
)

THREADED_OUTPUTS = 1 << 18
"""Numbers that a step must have to say before two threads are quicker than one; four want twice as many."""


def without_padding(sizes: Sequence[int]) -> list[int]:
    """How many n-grams of each order a text can have: of the single words all but one."""
    return [sizes[0] - 1, *sizes[1:]]


class NgramModel:
    """A counting LanguageModel. Ids are those of its tokenizer; a row begins after ⟨s⟩."""

    capabilities = frozenset({"causal", "steppable", "normalised", "batch-invariant", "explains"})
    max_length: int | None = None
    """Rows may be as long as they like."""
    device: str = "cpu"
    counted = True
    """It can be asked without torch, too."""
    explains = True
    noun = "a counting model"

    def __init__(self, config: NgramConfig, trie: Trie) -> None:
        self.config = config
        self.trie = trie
        self._powers: tuple[float, NDArray[np.float64], NDArray[np.float64]] | None = None
        words = int(predictable(self.vocabulary).sum())
        if config.smoothing == "stupid-backoff":
            self.rule = Rule(False, np.float32(math.log(config.backoff)), np.float32(-math.inf))
            self.capabilities = NgramModel.capabilities - {"normalised"}
        elif config.smoothing in ("kneser-ney", "given"):
            self.rule = Rule(False, np.float32(0), np.float32(0))
            if config.smoothing == "given":  # what a file says need not sum to one
                self.capabilities = NgramModel.capabilities - {"normalised"}
        else:
            unseen = -math.log(words) if config.smoothing == "add-k" else -math.inf
            self.rule = Rule(True, np.float32(0), np.float32(unseen))

    def __repr__(self) -> str:
        return f"<NgramModel: order {self.order}, {self.parameter_count():,} parameters>"

    @classmethod
    def from_counts(cls, config: NgramConfig, orders: Sequence[Grams]) -> tuple[NgramModel, list[Estimate]]:
        """The model of these counts, and the estimates it was made of (discounts are in them)."""
        estimates = estimate(orders, config.smoothing, prune=config.prune, k=config.k)
        return cls(config, build_trie(orders, estimates, kept(orders, config.prune))), estimates

    @property
    def order(self) -> int:
        return len(self.trie.limits)

    @property
    def vocabulary(self) -> int:
        return int(self.trie.limits[0])

    def sizes(self) -> list[int]:
        """How many n-grams there are of each order."""
        return np.diff(self.trie.limits, prepend=0).tolist()

    def ngrams(self) -> list[int]:
        """The same as people and ARPA files count them: padding, which nobody says, is none."""
        return without_padding(self.sizes())

    # -- the contract --------------------------------------------------------------------------------------------------

    def score(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """log P of each token after those before it: ids (B, T), lengths (B,) -> (B, T), 0 at padding."""
        import torch

        inside = np.arange(ids.shape[1]) < lengths.cpu().numpy()[:, None]  # (B, T)
        starts = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(inside.sum(1), out=starts[1:])
        out = np.zeros(inside.shape, np.float32)
        out[inside] = self.score_flat(ids.cpu().numpy()[inside], starts)
        return torch.from_numpy(out).to(ids.device)

    def start(self, rows: int, max_length: int = 0) -> DecoderState:
        """Rows that have taken nothing, not even ⟨s⟩: they know no context."""
        import torch

        from anaphora.models.contracts import DecoderState

        past = {
            "position": torch.zeros(rows, dtype=torch.long),
            "context": torch.full((rows,), int(NOWHERE)),  # a number of the trie
            "length": torch.zeros(rows, dtype=torch.long),  # words that the context has, known or not
        }
        return DecoderState(beam=1, memory={}, past=past)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Each row's last token (R,), at first ⟨s⟩ -> log P of every next one (R, V), where the tokens were, and the
        state, which stays on the CPU: the trie is there."""
        import torch

        context, length = state.past["context"].numpy(), state.past["length"].numpy()
        out = np.empty((len(tokens), self.vocabulary), np.float32)
        ids = tokens.cpu().numpy()

        def work(rows: slice) -> None:
            self.advance(ids[rows], context[rows], length[rows], out[rows])

        self.side_by_side(work, len(ids))
        state.past["position"] += 1
        state.bound += 1
        return torch.from_numpy(out).to(tokens.device), state

    def read(self, ids: Tensor, lengths: Tensor, max_length: int = 0) -> DecoderState:
        """Rows that have taken ids (B, T), from ⟨s⟩ on, padded, lengths (B,)."""
        state = self.start(len(ids), max_length)
        lengths = lengths.cpu()
        rows = [row[:length] for row, length in zip(ids.cpu().numpy(), lengths.tolist())]
        self.take(rows, state.past["context"].numpy(), state.past["length"].numpy())
        state.past["position"] += lengths
        state.bound = int(lengths.max()) if len(ids) else 0
        return state

    def extend(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Several tokens a row, (R, k) -> log P of what follows each of them (R, k, V), and the state."""
        from anaphora.models.contracts import extend_by_steps

        return extend_by_steps(self, tokens, state)

    def rewind(self, state: DecoderState, back: Tensor) -> DecoderState:
        """Take the last back (R,) tokens of the latest `extend` back."""
        from anaphora.models.contracts import rewound

        return rewound(state, back)

    def parameter_count(self) -> int:
        """Probabilities and weights."""
        return len(self.trie.log_probability) + len(self.trie.log_weight)

    def flops(self, tokens: int, length: float = 0.0) -> float:
        """Looking up is no arithmetic to speak of."""
        return 0.0

    def cache_bytes_per_token(self) -> int:
        return 0

    # -- the same without torch ----------------------------------------------------------------------------------------

    def begin(self, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows that have taken nothing, not even ⟨s⟩: numbers of contexts in the trie, and how many words they have."""
        return np.full(rows, int(NOWHERE), np.int64), np.zeros(rows, np.int64)

    def take(self, rows: Sequence[Any], context: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        """Each row takes its ids, in place."""
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        tokens = np.concatenate([np.zeros(0, np.int64), *(np.asarray(row, np.int64) for row in rows)])
        take_rows(self._checked(tokens).astype(np.uint32), starts, context, length, self.trie, self.rule)

    def advance(self, ids: NDArray[np.int64], context: NDArray[np.int64], length: NDArray[np.int64], out: F32) -> None:
        """Each row takes one id (R,), in place -> log P of every next one, out (R, V)."""
        advance(self._checked(ids), context, length, self.trie, self.rule, out)

    def side_by_side(self, work: Callable[[slice], None], rows: int) -> None:
        """Do work that asks for the distributions of so many rows, in threads where that is quicker."""
        parts = max(1, min(CORES, rows, 2 * rows * self.vocabulary // THREADED_OUTPUTS))
        if parts == 1:
            work(slice(0, rows))
        else:
            edges = (rows * part // parts for part in range(parts + 1))
            list(pool().map(work, starmap(slice, pairwise(edges))))

    def tables(self) -> tuple[tuple[NgramModel, float], ...]:
        """The counted models that it is a mean of, with their shares: itself."""
        return ((self, 1.0),)

    # -- what it says of itself ----------------------------------------------------------------------------------------

    def shape(self) -> dict[str, Any]:
        settings = {"k": self.config.k} if self.config.smoothing == "add-k" else {}
        settings |= {"backoff": self.config.backoff} if self.config.smoothing == "stupid-backoff" else {}
        counted = {"order": self.order, "ngrams": self.ngrams(), "smoothing": self.config.smoothing}
        return {**counted, "prune": list(self.config.prune), **settings}

    def sums_to_one(self) -> bool | None:
        if "normalised" in self.capabilities:
            return True
        return None if self.config.smoothing == "given" else False

    def explain_next(
        self,
        prefix: Sequence[int],
        *,
        top: int = 10,
        tokens: Sequence[int] = (),
        discounts: Discounts = (),
        part_discounts: Sequence[Discounts] = (),
    ) -> Why:
        """The path of each word through its contexts."""
        from anaphora.models.ngram.ngram_explanation import why

        return why(self, prefix, top=top, tokens=tokens, discounts=discounts)

    # -- drawing ahead -------------------------------------------------------------------------------------------------

    def draws_ahead(self) -> bool:
        """Whether a word that was not seen after a context has what it has after a shorter one, times a weight, and
        nothing else: what models/ngram/kernels/ngram_draws.py can draw from."""
        return not self.rule.exact and self.rule.level == 0

    def short_powers(self, power: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P^power of every n-gram of one word or two, and the sums over those of one; kept until another is asked."""
        if self._powers is None or self._powers[0] != power:
            short = np.exp(self.trie.log_probability[: self.trie.limits[min(1, self.order - 1)]] * np.float64(power))
            self._powers = power, short, np.cumsum(short[: self.vocabulary])
        return self._powers[1:]

    # -- many rows at once ---------------------------------------------------------------------------------------------

    def score_rows(self, rows: Sequence[U32], *, threads: int = CORES) -> tuple[list[F32], list[NDArray[np.uint8]]]:
        """log P of each token of each row, and the order of the n-gram that gave it (0: none did)."""
        if not rows:
            return [], []
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        tokens = np.concatenate([np.asarray(row) for row in rows])
        scores, orders = self.score_flat_orders(tokens, starts, threads=threads)
        cuts = starts[1:-1]
        return np.split(scores, cuts), np.split(orders, cuts)

    def score_flat(self, tokens: NDArray[Any], starts: NDArray[np.int64], *, threads: int = CORES) -> F32:
        """log P of each token of rows that stand in one array, row i being tokens[starts[i] : starts[i + 1]]."""
        return self.score_flat_orders(tokens, starts, threads=threads)[0]

    def score_flat_orders(
        self, tokens: NDArray[Any], starts: NDArray[np.int64], *, threads: int = CORES
    ) -> tuple[F32, NDArray[np.uint8]]:
        """The same, and the order of the n-gram that gave each (0: none did)."""
        tokens = np.ascontiguousarray(self._checked(tokens), np.uint32)
        scores, orders = np.empty(len(tokens), np.float32), np.empty(len(tokens), np.uint8)
        begin = self._begin()
        parts = max(1, min(threads, len(starts) - 1, len(tokens) // 2048))
        cuts = np.searchsorted(starts, np.linspace(0, len(tokens), parts + 1)[1:-1])
        edges = [0, *cuts.tolist(), len(starts) - 1]

        def work(part: int) -> None:
            walk_rows(tokens, starts[edges[part] : edges[part + 1] + 1], *begin, self.trie, self.rule, scores, orders)

        if parts == 1:
            work(0)
        else:
            list(pool().map(work, range(parts)))
        return scores, orders

    def score_on(
        self, tokens: NDArray[Any], state: tuple[Whole, Whole] | None = None
    ) -> tuple[F32, tuple[Whole, Whole]]:
        """log P of the next tokens of a text that is read in parts, and the state behind them: what the next part is
        to be given. None: the text begins."""
        tokens = np.ascontiguousarray(self._checked(tokens), np.uint32)
        scores, orders = np.empty(len(tokens), np.float32), np.empty(len(tokens), np.uint8)
        return scores, self._walk(tokens, self._begin() if state is None else state, scores, orders)

    def _walk(
        self, tokens: U32, state: tuple[Whole, Whole], scores: F32, orders: NDArray[np.uint8]
    ) -> tuple[Whole, Whole]:
        return walk(tokens, *state, self.trie, self.rule, scores, orders)

    def _checked(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Ids as they came, before any cast: compiled code looks wherever a number leads it."""
        if ids.size:
            for id in (int(ids.min()), int(ids.max())):
                if not 0 <= id < self.vocabulary:
                    raise UserError(f"there is no token {id}: the model has {self.vocabulary}")
        return ids

    def _begin(self) -> tuple[int, int]:
        """The state after ⟨s⟩: context and length, as one step from nothing would make them."""
        if self.order == 1:
            return int(NOWHERE), 0
        follows = self.trie.first[BOS] != self.trie.first[BOS + 1]
        return (BOS if follows else int(NOWHERE)), 1


def build_trie(orders: Sequence[Grams], estimates: Sequence[Estimate], stay: Sequence[NDArray[np.bool_]]) -> Trie:
    """One numbering for all orders, what is pruned left out."""
    sizes = [int(keep.sum()) for keep in stay]
    sizes[0] = len(stay[0])  # every word keeps its number
    limits = np.cumsum(sizes).astype(np.int64)
    total, inner = int(limits[-1]), int(limits[-1]) - sizes[-1] if len(orders) > 1 else 0
    word = np.empty(total, np.uint32)
    first = np.empty(inner + 1, np.uint32)
    link = np.full(total, NOWHERE, np.uint32)
    log_probability = np.empty(total, np.float32)
    log_weight = np.zeros(inner, np.float32)
    word[: sizes[0]] = np.arange(sizes[0])
    log_probability[: sizes[0]] = log(estimates[0].probability)
    number = np.arange(sizes[0], dtype=np.int64)  # of the order below, in the new numbering
    for n in range(1, len(orders)):
        grams, keep = orders[n], stay[n]
        base, end = int(limits[n - 1]), int(limits[n])
        new = base + np.cumsum(keep) - keep  # the number of each n-gram, or of the next one that stays
        contexts = number >= 0
        begins = np.append(new, end)[grams.first[:-1]]
        first[number[contexts]] = begins[contexts]
        log_weight[number[contexts]] = log(estimates[n].weight)[contexts]
        word[base:end] = grams.word[keep]
        log_probability[base:end] = log(estimates[n].probability[keep])
        link[base:end] = number[grams.suffix[keep]]
        number = np.where(keep, new, -1)
    first[inner] = total
    skip_what_nothing_follows(limits, first, link, inner)
    return Trie(limits, word, first, link, log_probability, log_weight)


def skip_what_nothing_follows(limits: NDArray[np.int64], first: U32, link: U32, inner: int) -> None:
    """A context without children would only be passed through: links lead to the next one that has some."""
    if not inner:
        return
    followed = np.zeros(int(limits[-1]), np.bool_)
    followed[:inner] = first[1:] != first[:-1]
    for n in range(1, len(limits)):
        part = slice(int(limits[n - 1]), int(limits[n]))
        suffix = link[part].astype(np.int64)
        link[part] = np.where(followed[suffix], suffix, link[suffix])


if TYPE_CHECKING:
    from pathlib import Path

    answers: type[LanguageModel] = NgramModel


def read_ngram(config: NgramConfig, folder: Path, *, verify: bool, device: str) -> NgramModel:
    """The model of a folder, mapped into memory; it stays on the CPU."""
    from anaphora.models.ngram.ngram_file import read_trie

    if not is_there(folder / WEIGHTS):
        raise UserError(
            "holds no model yet", file=folder, cure="repeat the `anaphora train` command and let it come to its end"
        )
    return NgramModel(config, read_trie(folder / WEIGHTS, verify=verify))
