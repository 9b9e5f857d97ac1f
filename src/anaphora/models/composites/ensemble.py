"""Several translators as one: at every word, the mean of what they say.

    P(w | x, y<t) = Σ_i λ_i P_i(w | x, y<t)        λ_i ≥ 0, Σ λ_i = 1

Models that were trained from different beginnings, or are built otherwise, err in different places, and their mean errs
less: the cheapest quality there is, at the price of asking all of them. Hypotheses are shared: there is one search, and
every member is asked what follows the same words. The other usual mean is that of the logarithms (a product of experts:
what one member finds impossible stays so), divided by its sum, so that probabilities still add up to one.

Members may be of any kind and size, as long as they say the same tokens. The source is given as tokens of the first
tokenizer that loses nothing; a member with another one reads the same text in its own tokens (`readings`). An ensemble
attends as the mean of those members that attend, over these tokens.

As a folder it holds its members, as a mixture of language models holds its parts: `config.yaml` names them with their
weights, and each is a model folder inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from anaphora.errors import UserError, option
from anaphora.models.contracts import DecoderState, Translator, lengths_of
from anaphora.models.registry import System
from anaphora.models.translation.translator_settings import Mean
from anaphora.tokenizers.tokenizer import EOS, PAD

ENSEMBLE = System(
    kind="ensemble",
    rung=10,
    task="ensemble",
    settings="anaphora.models.translation.translator_settings:EnsembleConfig",
    recipe="",
)

Reading = Callable[[list[int]], list[int]]
"""Tokens of a source, without its end mark, as tokens of another tokenizer for the same text."""


class EnsembleState(DecoderState):
    """The members' states side by side; rows move in all of them at once."""

    def __init__(self, members: Sequence[DecoderState]) -> None:
        self.members = list(members)
        self.beam = self.members[0].beam

    @property
    def memory(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Of all members: tensor `name` of the first is called `0.name`."""
        return {f"{n}.{name}": tensor for n, one in enumerate(self.members) for name, tensor in one.memory.items()}

    @property
    def past(self) -> dict[str, Tensor]:  # type: ignore[override]
        own = {f"{n}.{name}": tensor for n, one in enumerate(self.members) for name, tensor in one.past.items()}
        return own | {"position": self.members[0].past["position"]}

    @property
    def rows(self) -> int:
        return self.members[0].rows

    def reorder(self, index: Tensor) -> EnsembleState:
        for one in self.members:
            one.reorder(index)
        return self

    def select(self, sentences: Tensor) -> EnsembleState:
        return EnsembleState([one.select(sentences) for one in self.members])

    def insert(self, sentences: Tensor, other: DecoderState) -> EnsembleState:
        assert isinstance(other, EnsembleState)
        for one, its in zip(self.members, other.members):
            one.insert(sentences, its)
        return self


class Ensemble(Translator):
    """A Translator whose probabilities are the weighted mean of those of its members.

    both = Ensemble([first, second], weights=[0.7, 0.3])
    """

    def __init__(
        self,
        members: Sequence[Translator],
        weights: Sequence[float] | None = None,
        *,
        mean: Mean = "probabilities",
        readings: Sequence[Reading | None] | None = None,
    ) -> None:
        """weights: none are equal ones. readings: for each member how it turns the source into its own tokens; None
        where it takes them as they are. A member without weight is not asked."""
        super().__init__()
        if not members:
            raise UserError("an ensemble of no models says nothing", cure="name at least one model")
        shares = [1 / len(members)] * len(members) if weights is None else [float(weight) for weight in weights]
        if len(shares) != len(members):
            raise UserError(f"{len(members)} models have {len(shares)} weights", cure="give one for each")
        if not all(0 <= share <= 1 for share in shares) or not math.isclose(math.fsum(shares), 1, abs_tol=1e-6):
            raise UserError(f"the weights {shares} are no shares", cure="make them sum to 1, none negative")
        self.members, self.weights, self.mean = nn.ModuleList(members), tuple(shares), mean
        self.training = any(one.training for one in members)  # in the mode that they are in
        self.readings = tuple(readings or [None] * len(members))
        self.asked = [place for place, share in enumerate(shares) if share > 0]
        own = [members[place].capabilities for place in self.asked]
        self.capabilities = frozenset.intersection(*own) - {"attends"}
        if self.attending:
            self.capabilities |= {"attends"}
        self.max_source_length = min(one.max_source_length for one in members)
        self.max_target_length = min(one.max_target_length for one in members)

    def member(self, place: int) -> Translator:
        return cast(Translator, self.members[place])

    @property
    def made_of(self) -> Sequence[Translator]:
        return [self.member(place) for place in range(len(self.members))]

    @property
    def attending(self) -> dict[int, float]:
        """The members that say what they look at, with their shares among those that do: they must read the tokens that
        the ensemble is given."""
        able = [
            place
            for place in self.asked
            if "attends" in self.member(place).capabilities and self.readings[place] is None
        ]
        whole = math.fsum(self.weights[place] for place in able)
        return {place: self.weights[place] / whole for place in able}

    # -- the contract --------------------------------------------------------------------------------------------------

    def forward(self, source: Tensor, target: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        """Log-probabilities, which are logits of themselves: (B, T, V)."""
        return self.log_probabilities(source, target, source_lengths)

    def log_probabilities(self, source: Tensor, target: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        source_lengths = lengths_of(source, target, source_lengths)
        read = [(place, *self._read(place, source, source_lengths)) for place in self.asked]
        return self._mean([self.member(place).log_probabilities(own, target, sizes) for place, own, sizes in read])

    def start(self, source: Tensor, source_lengths: Tensor, beam: int, max_length: int) -> EnsembleState:
        return EnsembleState(
            [
                self.member(place).start(*self._read(place, source, source_lengths), beam, max_length)
                for place in self.asked
            ]
        )

    def step(
        self, tokens: Tensor, state: DecoderState, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        assert isinstance(state, EnsembleState)
        attending, logs, looked = self.attending, [], None
        for number, place in enumerate(self.asked):
            watched = attention and place in attending
            said, state.members[number], looks = self.member(place).step(
                tokens, state.members[number], attention=watched
            )
            logs.append(said)
            if looks is not None:
                share = attending[place] * looks
                looked = share if looked is None else looked + share
        return self._mean(logs), state, looked

    def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
        """Of all members, each as if its tokens were those of the ensemble."""
        sizes = source_tokens, target_tokens, source_length, target_length
        return sum(self.member(place).flops(*sizes) for place in range(len(self.members)))

    def cache_bytes_per_token(self) -> int:
        return sum(self.member(place).cache_bytes_per_token() for place in range(len(self.members)))

    def parameter_count(self) -> int:
        return sum(self.member(place).parameter_count() for place in range(len(self.members)))

    # -- its parts -----------------------------------------------------------------------------------------------------

    def _mean(self, logs: list[Tensor]) -> Tensor:
        """Of the members that are asked, their log-probabilities (..., V)."""
        if len(logs) == 1:
            return logs[0]
        shares = [self.weights[place] for place in self.asked]
        if self.mean == "logs":
            together = torch.stack([share * each for share, each in zip(shares, logs)]).sum(dim=0)
            return together.log_softmax(dim=-1)
        return torch.logsumexp(torch.stack([each + math.log(share) for share, each in zip(shares, logs)]), dim=0)

    def _read(self, place: int, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The source in the tokens of a member: (B, S), each ending in EOS, (B,)."""
        reading = self.readings[place]
        if reading is None:
            return source, lengths
        rows = [[*reading(ids[: size - 1]), EOS] for ids, size in zip(source.tolist(), lengths.tolist())]
        longest, limit = max(map(len, rows)), self.member(place).max_source_length
        if longest > limit:
            shorter = max(2, source.shape[1] * limit // longest)
            by = option("max_source_tokens", shorter, shell=f"--set max_source_tokens={shorter}")
            raise UserError(
                f"a source has {longest} tokens as member {place + 1} of the ensemble reads it, which can read {limit}",
                cure=f"translate in shorter pieces: {by}",
            )
        padded = [[*row, *[PAD] * (longest - len(row))] for row in rows]
        return torch.tensor(padded, device=source.device), torch.tensor(
            [len(row) for row in rows], device=lengths.device
        )
