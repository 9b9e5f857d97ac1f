"""Several language models as one: a weighted mean of what they say, the weights tuned on text that none was made of.

    P(w | h) = Σ_i λ_i P_i(w | h)        λ_i ≥ 0, Σ λ_i = 1

One corpus is large and another near to what is wanted; one model has long contexts and another never fails: none is
best everywhere, and their mean is better than each (Jelinek and Mercer 1980). The weights are those under which
held-out text is most probable. EM finds them: it asks, of each token, how likely each part is to have said it, and
gives a part the share of tokens that it said. Every round makes the text more probable, and there is one maximum.

Parts are any models that answer `score`, `start` and `step` over the same ids, counting or neural; so is the mixture.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError, first_line
from anaphora.folder import write_json

if TYPE_CHECKING:  # a mixture of counting models needs it only where it is asked through the contract
    from torch import Tensor

FORMAT = 1
ROUNDS = 1000
ENOUGH = 1e-9
"""EM stops when a round adds less than this to the mean log P of a token."""


class Part(Protocol):
    """What a model must answer to be mixed."""

    capabilities: frozenset[str]

    @property
    def vocabulary(self) -> int: ...

    def score(self, ids: Tensor, lengths: Tensor) -> Tensor: ...

    def start(self, rows: int, max_length: int = 0) -> Any: ...

    def step(self, ids: Tensor | None, state: Any) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True)
class MixtureState:
    """Where each part stands."""

    parts: tuple[Any, ...]

    def reorder(self, rows: Tensor) -> MixtureState:
        """Row i goes on from what row rows[i] has said."""
        return MixtureState(tuple(part.reorder(rows) for part in self.parts))

    def select(self, rows: Tensor) -> MixtureState:
        return MixtureState(tuple(part.select(rows) for part in self.parts))


class Mixture:
    """A LanguageModel whose probabilities are the weighted mean of those of its parts."""

    def __init__(self, parts: Sequence[Part], weights: Sequence[float], names: Sequence[str] = ()) -> None:
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
                    cure="train both with the same tokeniser",
                )
        self.capabilities = frozenset.intersection(*(part.capabilities for part in self.parts))

    @classmethod
    def tuned(
        cls, parts: Sequence[Part], ids: Tensor, lengths: Tensor, names: Sequence[str] = ()
    ) -> tuple[Mixture, Tuning]:
        """The mixture under which held-out rows, ids (B, T) and lengths (B,), are most probable."""
        import torch

        equal = cls(parts, [1 / len(parts)] * len(parts), names)  # and that they fit together
        inside = torch.arange(ids.shape[1]) < lengths[:, None]  # (B, T)
        logs = np.stack([part.score(ids, lengths)[inside].double().numpy() for part in parts])  # (parts, N)
        tuning = tune(logs)
        return cls(parts, tuning.weights, equal.names), tuning

    @property
    def vocabulary(self) -> int:
        return self.parts[0].vocabulary

    # -- the contract --------------------------------------------------------------------------------------------------

    def score(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """log P of each token after those before it: ids (B, T), lengths (B,) -> (B, T), 0 at padding."""
        import torch

        mixed = self._mean([part.score(ids, lengths) for part in self.parts])
        return mixed.masked_fill(torch.arange(ids.shape[1]) >= lengths[:, None], 0.0)

    def start(self, rows: int, max_length: int = 0) -> MixtureState:
        """Rows that have said nothing."""
        return MixtureState(tuple(part.start(rows, max_length) for part in self.parts))

    def step(self, ids: Tensor | None, state: MixtureState) -> tuple[Tensor, MixtureState]:
        """Each row's last token (R,), None at the beginning -> log P of every next one (R, V), and the state."""
        said = [part.step(ids, its) for part, its in zip(self.parts, state.parts)]
        return self._mean([logs for logs, _ in said]), MixtureState(tuple(its for _, its in said))

    def _mean(self, logs: list[Tensor]) -> Tensor:
        import torch

        weighted = [part.double() + math.log(weight) for part, weight in zip(logs, self.weights) if weight > 0]
        return torch.logsumexp(torch.stack(weighted), dim=0).float()

    # -- as a file -----------------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        parts = [{"model": name, "weight": weight} for name, weight in zip(self.names, self.weights)]
        return {"kind": "mixture", "format": FORMAT, "parts": parts}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write names and weights; the parts stay where they are."""
        write_json(Path(path), self.document())

    @classmethod
    def load(cls, path: str | os.PathLike[str], open_part: Callable[[str], Part]) -> Mixture:
        """Read names and weights, and have each part opened by its name."""
        cure = "give a file that a mixture was saved to"
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"cannot be read: {error.strerror}", file=path, cure="check the path") from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"is no JSON ({first_line(error)})", file=path, cure=cure) from error
        if not isinstance(document, dict) or document.get("kind") != "mixture":
            raise UserError("is no mixture of models", file=path, cure=cure)
        if document.get("format") != FORMAT:
            raise UserError(
                f"has format {document.get('format')!r}, this Anaphora reads {FORMAT}", file=path, cure=cure
            )
        try:
            named = [(str(part["model"]), float(part["weight"])) for part in document["parts"]]
        except (KeyError, TypeError, ValueError) as error:
            raise UserError("has a part without a model or a weight", file=path, cure=cure) from error
        try:
            return cls([open_part(name) for name, _ in named], [w for _, w in named], [name for name, _ in named])
        except UserError as error:
            if error.file is not None:
                raise
            raise UserError(error.what, file=path, cure=error.cure) from error


@dataclass(frozen=True)
class Tuning:
    """How the weights were found."""

    weights: tuple[float, ...]
    likelihoods: tuple[float, ...]
    """Mean log P of a token before each round, and after the last."""
    tokens: int
    impossible: int
    """Tokens to which every part gives probability 0: no weights can help, they are left out."""


def tune(logs: NDArray[np.float64], *, rounds: int = ROUNDS) -> Tuning:
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
        if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] < ENOUGH:
            break
        weights = (joint / total).mean(1)
    weights = weights / weights.sum()
    return Tuning(tuple(weights.tolist()), tuple(likelihoods), int(possible.sum()), int((~possible).sum()))
