"""Speculation changes how fast a text is said, and neither the text nor its distribution."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.decoding import speculative
from anaphora.decoding.beam_search import DecodingConfig
from anaphora.decoding.drafts import ModelDraft, NgramDraft, PromptDraft, draft_of
from anaphora.decoding.generation import generate
from anaphora.decoding.sampling import noise_keys, shares, uniform
from anaphora.decoding.speculative import (
    Speculation,
    generate_speculatively,
    speculate,
)
from anaphora.errors import UserError
from anaphora.models.contracts import DecoderState
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from ngram_texts import fitted
from toy_recurrent import Recurrent

VOCABULARY = 9
TEXTS = [[4, 5, 6], [4, 5, 7], [], [6, 6, 6], [5, 4, 8, 7, 4, 5], [4, 5, 6], [3, 7], [8, 7, 4, 5, 6, 4], [4, 3, 6]]
CRITICAL = {8: 26.1, 25: 52.6}
"""Chi-square with so many degrees of freedom exceeds this once in a thousand times; the seeds are fixed."""


class Remembering(Recurrent):
    """Beside its state it keeps all that it took in a cache with a time axis, and refuses what stands in its wrong
    place: rewinding must move the position back, and later tokens must overwrite what was taken back."""

    def start(self, rows: int, max_length: int) -> DecoderState:
        state = super().start(rows, max_length)
        state.past["cache"] = torch.zeros(rows, 1, max_length, 1)
        return DecoderState(1, {}, state.past, growing=frozenset({"cache"}))

    def step(self, tokens: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        rows, position = torch.arange(len(tokens)), state.past["position"]
        state.past["cache"][rows, 0, position, 0] = tokens.float()
        state.bound += 1
        said, state = super().step(tokens, state)
        seen = torch.arange(state.past["cache"].shape[2]) < state.past["position"][:, None]  # (R, L)
        total = (state.past["cache"][:, 0, :, 0] * seen).sum(1)
        return (said + 0.5 * torch.sin(total[:, None] * torch.arange(1, self.words + 1))).log_softmax(-1), state

    def score(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


def targets() -> dict[str, Any]:
    return {
        "n-gram": fitted(TEXTS, VOCABULARY, order=4),
        "recurrent": Recurrent(VOCABULARY),
        "with a cache": Remembering(VOCABULARY),
    }


def drafts(config: DecodingConfig) -> dict[str, Any]:
    return {
        "bigram": draft_of(fitted(TEXTS, VOCABULARY, order=2), config),
        "4-gram": draft_of(fitted(TEXTS, VOCABULARY, order=4), config),
        "no smoothing": ModelDraft(fitted(TEXTS, VOCABULARY, order=3, smoothing="maximum-likelihood"), config),
        "recurrent": ModelDraft(Recurrent(VOCABULARY), config),
        "with a cache": ModelDraft(Remembering(VOCABULARY), config),
        "prompt": PromptDraft(),
    }


def together(each: list[list[Speculation]]) -> Speculation:
    whole = Speculation()
    for some in each:
        for one in some:
            whole.add(one)
    return whole


NAMES = list(itertools.product(targets(), drafts(DecodingConfig(beam=1))))
prompts = st.lists(st.lists(st.integers(UNK, VOCABULARY - 1), max_size=8), min_size=1, max_size=3)


# Without drawing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "draft"), NAMES)
@settings(max_examples=12)
@given(
    asked=prompts,
    draft_tokens=st.integers(1, 7),
    changes=st.sampled_from(
        [{}, {"min_length": 5}, {"no_repeat_ngram": 2}, {"repetition_penalty": 1.7}, {"unknown": True}]
    ),
)
def test_the_likeliest_text_is_the_same(
    target: str, draft: str, asked: list[list[int]], draft_tokens: int, changes: dict[str, Any]
) -> None:
    model, config = targets()[target], DecodingConfig(beam=1, length_penalty=0.0, **changes)
    plain = generate(model, asked, config, tokens=12)
    found, each = generate_speculatively(
        model, drafts(config)[draft], asked, config, tokens=12, draft_tokens=draft_tokens
    )
    told = together(each)
    for (one,), (other,) in zip(plain, found):
        a, b = ([*said.tokens, *[EOS] * said.finished] for said in (one, other))
        tie = next((place for place, (x, y) in enumerate(zip(a, b)) if x != y), len(a))  # two that are as likely
        if target != "n-gram" or changes.get("repetition_penalty"):
            assert a == b
        same = slice(tie + (a != b))
        assert other.token_log_probabilities[same] == pytest.approx(one.token_log_probabilities[same], abs=1e-5)
    assert told.tokens == sum(len(one.tokens) + one.finished for (one,) in found)
    assert told.accepted <= told.proposed <= draft_tokens * told.passes
    assert told.tokens <= told.accepted + told.passes


def test_a_model_agrees_with_itself() -> None:
    """The best draft there is: every proposal is kept, and a pass gives k + 1 tokens."""
    model = Recurrent(VOCABULARY)
    for config in (DecodingConfig(beam=1, min_length=29), DecodingConfig(sample=True, min_length=29)):
        draft = ModelDraft(Recurrent(VOCABULARY), config)
        told = together(generate_speculatively(model, draft, [[4, 5]], config, tokens=30, draft_tokens=4)[1])
        assert told.acceptance_rate == 1.0
        assert told.rejected == 0
        assert told.passes == 7  # the first ones are careful: 2 + 1 tokens, 3 + 1, then 4 + 1 each
        assert told.document()["tokens_per_pass"] == pytest.approx(30 / 7)


def test_a_text_that_repeats_itself_is_its_own_draft() -> None:
    draft = PromptDraft()
    draft.begin([], 0)
    text = [BOS, 4, 5, 6, 7, 4, 5]
    assert draft.propose(text, 3, [])[0] == [6, 7, 4]
    assert draft.propose([*text, 6], 3, [])[0] == [7, 4, 5]
    assert draft.propose([*text, 6, 8], 3, [])[0] == []
    assert draft.propose([*text, 6, 8, 5, 6], 3, [])[0] == [8, 5, 6]  # the last time it stood there
    assert draft.propose([*text, 6, 8, 5, 6], 1, [])[0] == [8]
    assert draft.propose([*text, 6, 8, 5, 6], 0, [])[0] == []
    draft.begin([], 0)
    assert draft.propose([BOS, 4, EOS, 5, 4, EOS], 4, [])[0] == [5, 4, EOS]  # beyond an end nothing is said


# Drawing ------------------------------------------------------------------------------------------------------------


def chi_square(counts: torch.Tensor, p: torch.Tensor) -> float:
    expected = p * counts.sum()
    assert counts[p == 0].sum() == 0
    inside = p > 0
    return float(((counts - expected)[inside] ** 2 / expected[inside]).sum())


class Fixed(Recurrent):
    """Says the same whatever came before: what comes out can be counted against its probabilities."""

    def __init__(self, scores: torch.Tensor, max_length: int | None = None) -> None:
        super().__init__(len(scores), max_length=max_length)
        self.scores = scores.log_softmax(0)

    def step(self, tokens: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        _, state = super().step(tokens, state)
        return self.scores.expand(len(tokens), -1).clone(), state


logits = st.lists(st.floats(-4, 4, width=32), min_size=VOCABULARY, max_size=VOCABULARY).map(torch.tensor)


@settings(max_examples=5, deadline=None)
@given(
    ours=logits,
    draft=logits,
    bent=st.sampled_from(
        [{}, {"temperature": 0.6}, {"temperature": 1.5}, {"top_k": 4}, {"top_p": 0.8}, {"min_p": 0.3}]
    ),
)
def test_whatever_is_proposed_the_model_is_followed(
    ours: torch.Tensor, draft: torch.Tensor, bent: dict[str, Any]
) -> None:
    """Of many first tokens, kept or corrected, each comes out as often as p says; and a proposal is kept as often as
    the rule would have it, Σ min(p, q)."""
    config, samples = DecodingConfig(sample=True, unknown=True, **bent), 300
    never = torch.tensor([PAD, BOS])
    p, q = (shares(scores.log_softmax(0).index_fill(0, never, -torch.inf)[None], **bent)[0] for scores in (ours, draft))
    model = Fixed(ours)
    (found,), each = generate_speculatively(
        model, ModelDraft(Fixed(draft), config), [[4]], config, tokens=2, samples=samples, draft_tokens=1
    )
    counts = torch.zeros(VOCABULARY)
    for one in found:
        counts[[*one.tokens, EOS][0]] += 1
    often = p * samples >= 5
    merged = torch.cat([counts[often], counts[~often].sum()[None]]), torch.cat([p[often], p[~often].sum()[None]])
    assert counts[p == 0].sum() == 0
    # hypothesis looks for the worst of its examples: far beyond what chance does once in a thousand times
    assert chi_square(merged[0], merged[1].clamp(min=1e-9)) < 2 * CRITICAL[8]
    kept = sum(told.accepted > 0 for told in each[0])
    expected = float(torch.minimum(p, q).sum())
    assert kept / samples == pytest.approx(expected, abs=5 * (0.25 / samples) ** 0.5)


def test_what_is_left_is_what_the_draft_had_too_little_of() -> None:
    p, q = torch.tensor([0.1, 0.5, 0.0, 0.4]), np.array([0.3, 0.1, 0.3, 0.3], np.float32)
    many = 200
    drawn = [speculative._what_is_left(p, lambda place, words: q[words], 0, (n + 0.5) / many) for n in range(many)]
    assert [drawn.count(word) / many for word in range(4)] == pytest.approx([0, 0.8, 0, 0.2], abs=1 / many)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.4])
@pytest.mark.parametrize("text", [[BOS], [BOS, 4, 5], [BOS, 4, 5, 6, 4], [BOS, 3, 3, 8]])
def test_an_ngram_draws_as_its_probabilities_say(text: list[int], temperature: float) -> None:
    """Without asking for all of them: the chances that it tells are the model's, and it draws by them."""
    model = fitted(TEXTS, VOCABULARY, order=4)
    config = DecodingConfig(sample=True, temperature=temperature, min_length=2)
    draft, dense = NgramDraft(model, config), ModelDraft(model, config)
    draft.begin(text, 10)
    dense.begin(text, 10)
    counts, words = torch.zeros(VOCABULARY), np.arange(VOCABULARY)
    numbers = uniform(noise_keys(3, torch.arange(3000), 1), 0)[:, 0].tolist()
    for u in numbers:
        proposed = draft.propose(text, 2, [u, 0.5])
        counts[proposed.tokens[0]] += 1
    exact = dense.propose(text, 2, [numbers[-1], 0.5])
    p = exact.chance(0, words)
    assert proposed.chance(0, words) == pytest.approx(p, abs=1e-6)
    assert proposed.chances[0] == pytest.approx(float(p[proposed.tokens[0]]), abs=1e-6)
    assert p[EOS] == p[PAD] == p[BOS] == p[UNK] == 0
    assert chi_square(counts, torch.from_numpy(p)) < CRITICAL[8]
    same = dense.propose([*text, proposed.tokens[0]], 1, [0.5])
    assert proposed.chance(1, words) == pytest.approx(same.chance(0, words), abs=1e-6)


@pytest.mark.parametrize("bent", [{}, {"repetition_penalty": 1.2, "min_p": 0.3}], ids=["plain", "bent"])
@pytest.mark.parametrize("draft", ["4-gram", "no smoothing", "with a cache", "prompt"])
def test_texts_are_drawn_as_often_as_without_a_draft(
    draft: str, bent: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of new tokens against the exact distribution, and acceptance neither never nor always."""
    if bent:  # one draw seldom finds what the draft had too little of: all of it is looked at then
        monkeypatch.setattr(speculative, "RESAMPLE_TRIES", 1)
    model, prompt, samples = Recurrent(VOCABULARY), [4, 5, 6, 7, 4, 5], 800
    config = DecodingConfig(sample=True, min_length=2, temperature=0.8, **bent)
    (found,), each = generate_speculatively(
        model, drafts(config)[draft], [prompt], config, tokens=3, samples=samples, draft_tokens=2
    )
    told = together(each)
    said = Counter(tuple(one.tokens[:2]) for one in found)
    words = range(4, VOCABULARY)
    p = {pair: pair_probability(model, prompt, pair, config) for pair in itertools.product(words, words)}
    assert sum(p.values()) == pytest.approx(1, abs=1e-4)
    assert all(p[pair] > 0 for pair in said)
    # rare pairs are counted together, so that each expectation is above five
    often = [pair for pair in p if p[pair] * samples >= 5]
    rest = sum(said.values()) - sum(said[pair] for pair in often)
    counts = torch.tensor([*(said[pair] for pair in often), rest], dtype=torch.float)
    shares_ = torch.tensor([*(p[pair] for pair in often), 1 - sum(p[pair] for pair in often)])
    assert chi_square(counts, shares_) < CRITICAL[25]  # at most 25 pairs
    assert 0 < told.acceptance_rate < 1


def pair_probability(model: Any, prompt: list[int], pair: tuple[int, int], config: DecodingConfig) -> float:
    total, said = 1.0, []
    for token in pair:
        text = [BOS, *prompt, *said]
        state = model.start(1, 20)
        for one in text:
            scores, state = model.step(torch.tensor([one]), state)
        scores[0, [PAD, BOS, UNK, EOS]] = -torch.inf
        repeated = [one for one in {*text} if one > EOS and one != UNK]
        scores[0, repeated] *= config.repetition_penalty
        total *= float(shares(scores, temperature=config.temperature, min_p=config.min_p)[0, token])
        said.append(token)
    return total


def test_the_same_seed_gives_the_same_text_whatever_stands_beside_it() -> None:
    model, config = Recurrent(VOCABULARY), DecodingConfig(sample=True, min_length=10)
    draft = drafts(config)["bigram"]
    (alone,), _ = generate_speculatively(model, draft, [[4, 5]], config, tokens=20, samples=2)
    both, _ = generate_speculatively(model, draft, [[4, 5], [6]], config, tokens=20, samples=2)
    assert [one.tokens for one in both[0]] == [one.tokens for one in alone]
    assert alone[0].tokens != alone[1].tokens
    other = DecodingConfig(sample=True, min_length=10, seed=2)
    (again,), _ = generate_speculatively(model, drafts(other)["bigram"], [[4, 5]], other, tokens=20)
    assert again[0].tokens != alone[0].tokens


# Limits and mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", ["bigram", "prompt"])
def test_no_more_is_said_than_there_is_room_for(draft: str) -> None:
    model = Recurrent(VOCABULARY, max_length=12)
    for tokens in (1, 2, 5, 50):
        config = DecodingConfig(sample=True, min_length=min(tokens - 1, 8))
        said = list(speculate(model, drafts(config)[draft], [4, 5, 4], config, tokens=tokens))
        assert len(said) <= min(tokens, 8)
        if tokens < 50:
            assert len(said) == min(tokens, 8)


def test_where_there_is_less_room_than_must_be_said_the_last_token_may_be_the_end() -> None:
    """As without a draft."""
    scores = torch.arange(float(VOCABULARY))
    scores[EOS] = 20.0
    model, config = Fixed(scores, max_length=6), DecodingConfig(beam=1, min_length=20)
    plain = generate(model, [[4, 5]], config, tokens=30)
    found, _ = generate_speculatively(model, PromptDraft(), [[4, 5]], config, tokens=30)
    assert found[0][0].finished
    assert found[0][0].tokens == plain[0][0].tokens


def test_a_draft_may_be_asked_for_nothing_in_between() -> None:
    config = DecodingConfig(beam=1)
    draft, other = (ModelDraft(Remembering(VOCABULARY), config) for _ in range(2))
    text = [BOS, 4, 5]
    for one in (draft, other):
        one.begin(text, 20)
    assert draft.propose(text, 0, []).tokens == []
    text = [*text, 6, 7]
    assert draft.propose(text, 4, []).tokens == other.propose(text, 4, []).tokens
    places = [one.state.past["position"].tolist() for one in (draft, other) if one.state is not None]
    assert places[0] == places[1]


def test_a_text_that_cannot_go_on_ends() -> None:
    model = fitted([[4, 5]], VOCABULARY, order=3, smoothing="maximum-likelihood")
    for config in (DecodingConfig(beam=1), DecodingConfig(sample=True)):
        assert list(speculate(model, PromptDraft(), [5, 5], config)) == []
        draft = ModelDraft(fitted([[4, 5]], VOCABULARY, order=2), config)
        assert list(speculate(model, draft, [7, 7], config)) == []


def test_mistakes_are_named() -> None:
    model = Recurrent(VOCABULARY, max_length=6)
    greedy = DecodingConfig(beam=1)
    with pytest.raises(UserError, match="cannot be combined with a beam"):
        speculate(model, PromptDraft(), [4], DecodingConfig(beam=4))
    with pytest.raises(UserError, match="proposed at once"):
        speculate(model, PromptDraft(), [4], greedy, draft_tokens=0)
    with pytest.raises(UserError, match="the model can read"):
        speculate(model, PromptDraft(), [4] * 5, greedy)
    with pytest.raises(UserError, match="one likeliest"):
        generate_speculatively(model, PromptDraft(), [[4]], greedy, samples=2)
    with pytest.raises(UserError, match="0 samples are asked for"):
        generate_speculatively(model, PromptDraft(), [[4]], greedy, samples=0)
    broken = Recurrent(VOCABULARY)
    broken.head.weight.data.fill_(torch.nan)
    with pytest.raises(UserError, match="NaN"):
        list(speculate(broken, PromptDraft(), [4], greedy))
