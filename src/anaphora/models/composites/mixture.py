"""Several language models as one: a weighted mean of what they say, the weights tuned on text that none was made of.

    P(w | h) = Σ_i λ_i P_i(w | h)        λ_i ≥ 0, Σ λ_i = 1

One corpus is large and another near to what is wanted; one model has long contexts and another never fails: none is
best everywhere, and their mean is better than each (Jelinek and Mercer 1980). The weights are those under which
held-out text is most probable. EM finds them: it asks, of each token, how likely each part is to have said it, and
gives a part the share of tokens that it said. Every round makes the text more probable, and there is one maximum.

Parts are any language models over the same ids, counting or neural; so is the mixture. As a folder it holds its parts:
`config.yaml` names them with their weights, and each is a model folder inside, `part-1`, `part-2`, ….
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.models.registry import System

if TYPE_CHECKING:  # a mixture of counting models needs it only where it is asked through the contract
    import torch
    from torch import Tensor

    from anaphora.models.composites.mixture_explanation import MixtureWhy
    from anaphora.models.contracts import DecoderState, LanguageModel
    from anaphora.models.next_word import Discounts
    from anaphora.models.ngram.ngram_model import NgramModel

MIXTURE = System(
    kind="mixture",
    rung=12,
    task="mixture",
    settings="anaphora.models.composites.mixture:MixtureConfig",
    read="anaphora.models.composites.mixture:read_mixture",
    recipe="",
)

MAX_ROUNDS = 1000
MIN_GAIN_NATS = 1e-9
"""EM stops when a round adds less than this to the mean log P of a token."""


@dataclass(kw_only=True)
class MixtureConfig:
    """Which models are mixed, and how much each has to say (section `model`)."""

    kind: Literal["mixture"] = "mixture"
    """The kind of model."""
    parts: list[str] = field(default_factory=list)
    """Folders of the parts, inside the model's own."""
    weights: list[float] = field(default_factory=list)
    """Weight of each part; they sum to 1."""

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.weights):
            raise ValueError(f"parts names {len(self.parts)} models, weights has {len(self.weights)} numbers")
        for name in self.parts:
            if Path(name).name != name or name in ("", ".", ".."):
                raise ValueError(f"parts holds {name!r}, which is no name of a folder inside the model's own")


class Mixture:
    """A LanguageModel whose probabilities are the weighted mean of those of its parts.

    both = Mixture([counted, neural], weights=[0.4, 0.6])
    """

    def __init__(self, parts: Sequence[LanguageModel], weights: Sequence[float], names: Sequence[str] = ()) -> None:
        if not parts:
            raise UserError("a mixture of no models says nothing", cure="name at least one model")
        self.parts = tuple(parts)
        self.names = tuple(names) or tuple(f"part {number}" for number in range(1, len(parts) + 1))
        self.weights = tuple(float(weight) for weight in weights)
        if not len(self.parts) == len(self.weights) == len(self.names):
            raise UserError(f"{len(self.parts)} models have {len(self.weights)} weights and {len(self.names)} names")
        if not all(0 <= weight <= 1 for weight in self.weights) or not math.isclose(sum(self.weights), 1, abs_tol=1e-6):
            raise UserError(f"the weights {list(self.weights)} are no shares", cure="make them sum to 1, none negative")
        for name, part in zip(self.names[1:], self.parts[1:]):
            if part.vocabulary != self.vocabulary:
                raise UserError(
                    f"{name} has {part.vocabulary} tokens, {self.names[0]} has {self.vocabulary}: ids of one mean"
                    " nothing to the other",
                    cure="train both with the same tokenizer",
                )
        self.capabilities = frozenset.intersection(*(part.capabilities for part in self.parts)) | {"explains"}
        self._tables = self.tables()

    def __repr__(self) -> str:
        parts = (f"{weight:.3g} · {name}" for name, weight in zip(self.names, self.weights))
        return f"<Mixture: {' + '.join(parts)}>"

    @property
    def vocabulary(self) -> int:
        return self.parts[0].vocabulary

    @property
    def max_length(self) -> int | None:
        return min((part.max_length for part in self.parts if part.max_length is not None), default=None)

    @property
    def device(self) -> torch.device | str:
        """Where it expects ids and keeps states: where its first neural part on a GPU is. What was counted is asked on
        the CPU, and answers here."""
        if self.counted:
            return "cpu"
        import torch

        devices = [torch.device(part.device) for part in self.parts]
        return next((device for device in devices if device.type != "cpu"), devices[0])

    @property
    def counted(self) -> bool:
        """Whether all parts were counted, so that it can be asked without torch, as they can."""
        return bool(self._tables)

    def tables(self) -> tuple[tuple[NgramModel, float], ...]:
        """The counted models that it is a mean of, with their shares; none, where a part was not counted."""
        each = [cast(Any, part).tables() if getattr(part, "counted", False) else () for part in self.parts]
        if not all(each):
            return ()
        return tuple((table, weight * share) for weight, its in zip(self.weights, each) for table, share in its)

    # -- the contract --------------------------------------------------------------------------------------------------

    def score(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """log P of each token after those before it: ids (B, T), lengths (B,) -> (B, T), 0 at padding."""
        import torch

        mixed = self._mean([part.score(ids.to(part.device), lengths.to(part.device)) for part in self.parts])
        beyond = torch.arange(ids.shape[1], device=mixed.device) >= lengths.to(mixed.device)[:, None]
        return mixed.masked_fill(beyond, 0.0)

    def start(self, rows: int, max_length: int = 0) -> DecoderState:
        """Rows that have taken nothing: the states of all parts side by side, as one."""
        return _together([_moved(part.start(rows, max_length), self.device) for part in self.parts])

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Each row's last token (R,), at first ⟨s⟩ -> log P of every next one (R, V), and the state."""
        said = [
            part.step(tokens.to(part.device), _moved(_of_part(state, place), part.device))
            for place, part in enumerate(self.parts)
        ]
        after = [_moved(its, self.device) for _, its in said]
        return self._mean([logs for logs, _ in said]), _together(after, into=state)

    def read(self, ids: Tensor, lengths: Tensor, max_length: int = 0) -> DecoderState:
        """Rows that have taken ids (B, T), from ⟨s⟩ on, padded, lengths (B,)."""
        read = [part.read(ids.to(part.device), lengths.to(part.device), max_length) for part in self.parts]
        return _together([_moved(state, self.device) for state in read])

    def extend(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Several tokens a row, (R, k) -> log P of what follows each of them (R, k, V), and the state."""
        from anaphora.models.contracts import extend_by_steps

        return extend_by_steps(self, tokens, state)

    def rewind(self, state: DecoderState, back: Tensor) -> DecoderState:
        """Take the last back (R,) tokens of the latest `extend` back."""
        from anaphora.models.contracts import rewound

        return rewound(state, back)

    def score_flat(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.float32]:
        """log P of each token of rows that stand in one array, row i being tokens[starts[i] : starts[i + 1]]."""
        asked = (part.score_flat(tokens, starts) for part, weight in zip(self.parts, self.weights) if weight > 0)
        return weighted_mean(asked, [weight for weight in self.weights if weight > 0]).astype(np.float32)

    # -- the same without torch, of counted models whose states stand side by side, (R, tables) ------------------------

    @property
    def order(self) -> int:
        return max(table.order for table, _ in self._tables)

    def begin(self, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows that have taken nothing, not even ⟨s⟩."""
        context, length = zip(*(table.begin(rows) for table, _ in self._tables))
        return np.stack(context, axis=1), np.stack(length, axis=1)

    def take(self, rows: Sequence[Any], context: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        """Each row takes its ids, in place."""
        for place, (table, _) in enumerate(self._tables):
            its = context[:, place].copy(), length[:, place].copy()
            table.take(rows, *its)
            context[:, place], length[:, place] = its

    def advance(
        self, ids: NDArray[np.int64], context: NDArray[np.int64], length: NDArray[np.int64], out: NDArray[np.float32]
    ) -> None:
        """Each row takes one id (R,), in place -> log P of every next one, out (R, V)."""
        said = [np.empty_like(out) for _ in self._tables]
        for place, ((table, _), own) in enumerate(zip(self._tables, said)):
            its = context[:, place].copy(), length[:, place].copy()
            table.advance(ids, *its, own)
            context[:, place], length[:, place] = its
        heard = [(own, weight) for own, (_, weight) in zip(said, self._tables) if weight > 0]
        out[...] = weighted_mean(*zip(*heard))

    def side_by_side(self, work: Callable[[slice], None], rows: int) -> None:
        """Do work that asks for the distributions of so many rows, in threads where that is quicker."""
        self._tables[0][0].side_by_side(work, rows)

    # -- what it says of itself ----------------------------------------------------------------------------------------

    explains = True
    noun = "a mixture"

    def shape(self) -> dict[str, Any]:
        parts = zip(self.names, self.weights, self.parts)
        return {"parts": [{"name": name, "weight": weight, **part.shape()} for name, weight, part in parts]}

    def sums_to_one(self) -> bool | None:
        """None, where it would sum to one but for numbers that were taken from a file."""
        if "normalised" in self.capabilities:
            return True
        return False if any(part.sums_to_one() is False for part in self.parts) else None

    def explain_next(
        self,
        prefix: Sequence[int],
        *,
        top: int = 10,
        tokens: Sequence[int] = (),
        discounts: Discounts = (),
        part_discounts: Sequence[Discounts] = (),
    ) -> MixtureWhy:
        """What each part says of a word, times its weight."""
        from anaphora.models.composites.mixture_explanation import why_by_part

        return why_by_part(self, prefix, top=top, tokens=tokens, part_discounts=part_discounts)

    def draws_ahead(self) -> bool:
        return False

    # -- what it costs -------------------------------------------------------------------------------------------------

    def parameter_count(self) -> int:
        return sum(part.parameter_count() for part in self.parts) + len(self.weights)

    def flops(self, tokens: int, length: float = 0.0) -> float:
        return sum(part.flops(tokens, length) for part in self.parts)

    def cache_bytes_per_token(self) -> int:
        return sum(part.cache_bytes_per_token() for part in self.parts)

    def _mean(self, logs: list[Tensor]) -> Tensor:
        import torch

        weighted = [
            part.to(self.device).double() + math.log(weight) for part, weight in zip(logs, self.weights) if weight > 0
        ]
        return torch.logsumexp(torch.stack(weighted), dim=0).float()


def weighted_mean(logs: Iterable[NDArray[Any]], weights: Iterable[float]) -> NDArray[np.float64]:
    """log of the mean that probabilities have, given their logarithms part after part, each (N,) -> (N,)."""
    mixed: NDArray[np.float64] | None = None
    with np.errstate(invalid="ignore", divide="ignore"):  # two parts that give a token nothing: -inf beside -inf
        for part, weight in zip(logs, weights):
            weighted = part.astype(np.float64) + np.log(weight)
            mixed = weighted if mixed is None else np.logaddexp(mixed, weighted)
    assert mixed is not None, "a mixture has parts"
    return mixed


def _together(states: Sequence[DecoderState], into: DecoderState | None = None) -> DecoderState:
    """One state of several: tensor `name` of part 0 is called `0.name`, so that rows move in all parts at once."""
    from anaphora.models.contracts import DecoderState

    memory = {f"{n}.{name}": t for n, state in enumerate(states) for name, t in state.memory.items()}
    past = {f"{n}.{name}": t for n, state in enumerate(states) for name, t in state.past.items()}
    bound = max(state.bound for state in states)
    position = states[0].past["position"]
    if into is not None:  # which may hold more than the parts' tensors
        into.past["position"].copy_(position)
        into.memory |= memory
        into.past |= past
        into.bound = bound
        return into
    past["position"] = position.clone()  # its own: what moves rows moves each tensor once
    growing = frozenset(f"{n}.{name}" for n, state in enumerate(states) for name in state.growing)
    return DecoderState(beam=1, memory=memory, past=past, bound=bound, growing=growing)


def _moved(state: DecoderState, device: torch.device | str) -> DecoderState:
    """The state on another device; itself where it is there already."""
    import torch

    if all(tensor.device == torch.device(device) for tensor in (*state.memory.values(), *state.past.values())):
        return state
    memory = {name: tensor.to(device) for name, tensor in state.memory.items()}
    past = {name: tensor.to(device) for name, tensor in state.past.items()}
    return dataclasses.replace(state, memory=memory, past=past)


def _of_part(state: DecoderState, place: int) -> DecoderState:
    from anaphora.models.contracts import DecoderState

    def own(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name.removeprefix(f"{place}."): t for name, t in tensors.items() if name.startswith(f"{place}.")}

    growing = frozenset(name.removeprefix(f"{place}.") for name in state.growing if name.startswith(f"{place}."))
    return DecoderState(state.beam, own(state.memory), own(state.past), state.bound, growing)


@dataclass(frozen=True)
class Tuning:
    """How the weights were found."""

    weights: tuple[float, ...]
    likelihoods: tuple[float, ...]
    """Mean log P of a token before each round, and after the last."""
    tokens: int
    impossible: int
    """Tokens to which every part gives probability 0: no weights can help, they are left out."""


def tune(logs: NDArray[np.float64], *, rounds: int = MAX_ROUNDS) -> Tuning:
    """The weights by EM, from log P of each held-out token under each part (parts, N)."""
    possible = (logs > -np.inf).any(0)
    logs = logs[:, possible]
    if not logs.shape[1]:
        raise UserError("there is no held-out text that a part gives a probability", cure="give text to tune on")
    best = logs.max(0)
    likely = np.exp(logs - best)  # (parts, N): each token's best part has 1, so that nothing underflows
    weights = np.full(len(logs), 1 / len(logs))
    likelihoods: list[float] = []
    for _ in range(rounds):
        joint = weights[:, None] * likely
        total = joint.sum(0)
        likelihoods.append(float((np.log(total) + best).mean()))
        if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] < MIN_GAIN_NATS:
            break
        weights = (joint / total).mean(1)
    weights = weights / weights.sum()
    return Tuning(tuple(weights.tolist()), tuple(likelihoods), int(possible.sum()), int((~possible).sum()))


def read_mixture(config: MixtureConfig, folder: Path, *, verify: bool, device: str) -> Mixture:
    """A mixture with its parts, each from its folder inside the mixture's own."""
    from anaphora.folder import read_config
    from anaphora.models import read_language_model, settings

    parts = []
    for name in config.parts:
        inside = settings(read_config(folder / name).get("model") or {}, file=str(folder / name / "config.yaml"))
        part = read_language_model(inside, folder / name, verify=verify, device=device)
        if "causal" not in part.capabilities:
            raise UserError(f"{name} gives no text its probability", file=folder, cure="mix language models")
        parts.append(cast("LanguageModel", part))
    try:
        return Mixture(parts, config.weights, config.parts)
    except UserError as error:
        raise UserError(error.what, file=folder, cure=error.cure) from None
