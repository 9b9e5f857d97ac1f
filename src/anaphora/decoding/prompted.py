"""A language model as a translator, for the one search: its source is the prompt, its target what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from anaphora.decoding.beam_search import search, stream_search
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.hypothesis import Hypothesis
from anaphora.decoding.spelling import Listener
from anaphora.decoding.translate import pad
from anaphora.models.contracts import DecoderState, LanguageModel, Translator
from anaphora.tokenizers.tokenizer import BOS

ANY_LENGTH = 1 << 40


class PromptedModel(Translator):
    """A language model as a translator: its source is a prompt from ⟨s⟩ on, its target what follows."""

    def __init__(self, model: LanguageModel, *, forgets: bool = False) -> None:
        """forgets: what does not fit into the model any more is left out, rather than refused; the prompts of a batch
        are then equally long."""
        super().__init__()
        self.model, self.forgets = model, forgets and model.max_length is not None
        self.capabilities = model.capabilities & {"causal", "steppable", "normalised", "batch-invariant"}
        self.max_source_length = self.max_target_length = (not self.forgets and model.max_length) or ANY_LENGTH
        self.train(bool(getattr(model, "training", False)))  # as the model is: the search restores what it found

    def start(self, source: Tensor, source_lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        """Read source (B, S), ⟨s⟩ and the tokens of the prompt, padded. Equal prompts next to each other are read once.

        All but the last token is read here; the last is fed at the first step, in the place of the ⟨s⟩ with which the
        search begins, so that it answers with the first new token.
        """
        whole = torch.cat([source, source_lengths[:, None]], dim=1)
        found = torch.unique_consecutive(whole, dim=0, return_inverse=True)
        prompts, which = found[0], found[1]
        prompts, lengths = prompts[:, :-1], prompts[:, -1]
        last = prompts.gather(1, lengths[:, None] - 1)[:, 0]
        if self.forgets:  # all are equally long
            prompts = (
                prompts[:, :-1] if prompts.shape[1] <= self._holds + 1 else remembered(prompts[:, :-1], self._holds)
            )
            lengths = torch.full_like(lengths, prompts.shape[1] + 1)
        state = self.model.read(prompts, lengths - 1, int(lengths.max()) + max_length)
        rows = which.repeat_interleave(beam)  # (B * beam,)
        past = {name: tensor.index_select(0, rows) for name, tensor in state.past.items()}
        past["prompt.last"] = last.index_select(0, rows)
        past["prompt.said"] = torch.zeros_like(rows)
        if self.forgets:
            past["prompt.text"] = rows.new_zeros(len(rows), self._holds)
            past["prompt.text"][:, : prompts.shape[1]] = prompts[rows]
        memory = {name: tensor.index_select(0, which) for name, tensor in state.memory.items()}
        return DecoderState(beam=beam, memory=memory, past=past, bound=state.bound, growing=state.growing)

    def step(
        self, tokens: Tensor, state: DecoderState, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        said = state.past["prompt.said"]
        tokens = torch.where(said == 0, state.past["prompt.last"], tokens)
        said += 1
        if self.forgets:
            if state.bound == self._holds:
                self._forget(state)
            state.past["prompt.text"][:, state.bound] = tokens
        return *self.model.step(tokens, state), None

    @property
    def _holds(self) -> int:
        assert self.model.max_length is not None
        return self.model.max_length

    def _forget(self, state: DecoderState) -> None:
        """Each row has taken all that fits: read ⟨s⟩ and the last half of it once more, to make room."""
        text = remembered(state.past["prompt.text"], self._holds)
        fresh = self.model.read(text, torch.full((len(text),), text.shape[1], device=text.device), self._holds)
        state.past.update(fresh.past)
        state.past["prompt.text"][:, : text.shape[1]] = text
        state.bound, state.growing = fresh.bound, fresh.growing

    def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
        return self.model.flops(source_tokens + target_tokens, source_length + target_length)

    def cache_bytes_per_token(self) -> int:
        return self.model.cache_bytes_per_token()

    def parameter_count(self) -> int:
        return self.model.parameter_count()


def remembered(text: Tensor, holds: int) -> Tensor:
    """What a model that can hold so many tokens keeps of a text that is longer: (R, T) -> ⟨s⟩ and the last half."""
    half = text[:, text.shape[1] - (holds - 1) // 2 :]
    return torch.cat([half.new_full((len(text), 1), BOS), half], dim=1)


def search_prompts(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    sentence_ids: Sequence[int],
    listeners: Sequence[Listener] | None = None,
    lines: int = 1,
    forgets: bool = False,
) -> list[list[Hypothesis]]:
    """What follows each prompt, ids from ⟨s⟩ on: see `search`."""
    source, lengths = pad(prompts, model.device)
    speaker = PromptedModel(model, forgets=forgets)
    return search(
        speaker,
        source,
        lengths,
        config,
        sentence_ids=sentence_ids,
        prompt=True,
        listeners=listeners,
        lines=lines,
    )


def stream_search_prompt(
    model: LanguageModel,
    prompt: Sequence[int],
    config: DecodingConfig,
    *,
    sentence_id: int,
    lines: int = 1,
    forgets: bool = False,
) -> Iterator[tuple[int, float]]:
    """What follows one prompt, while it is being found: see `stream_search`."""
    source, lengths = pad([prompt], model.device)
    speaker = PromptedModel(model, forgets=forgets)
    return stream_search(speaker, source, lengths, config, sentence_ids=[sentence_id], prompt=True, lines=lines)
