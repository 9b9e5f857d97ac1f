"""The property suite for language models: every one is tested for every capability it declares.

`MODELS` names each model with a builder and the capabilities it must declare, written out here, so that none can
silently drop one. A later system joins by one line. Translators: test_properties.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.decoding.beam_search import DecodingConfig
from anaphora.decoding.generation import generate
from anaphora.decoding.prompted import PromptedModel
from anaphora.decoding.translate import pad
from anaphora.models.composites.mixture import Mixture
from anaphora.models.contracts import DecoderState, LanguageModel, Translator
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel
from anaphora.nn.attention_capture import capture
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from neural_rungs import CAUSAL, MASKED
from ngram_texts import fitted
from toy_recurrent import Recurrent

VOCABULARY = 12
TEXTS = [[4, 5, 6], [4, 5, 7], [], [6, 6, 6, 6], [5, 4, 8, 9, 4, 5], [4, 5, 6], [3, 9], [8, 9, 10, 5, 6, 4]]
"""Token 11 never comes, 3 is the unknown one."""
ALL = {"causal", "steppable", "normalised", "batch-invariant"}
COUNTED = ALL | {"explains"}


def recurrent() -> Recurrent:
    return Recurrent(VOCABULARY)


def ngram(**changes: Any) -> Callable[[], NgramModel]:
    return lambda: fitted(TEXTS, VOCABULARY, **changes)


def read_from_a_file() -> NgramModel:
    """What an ARPA file gives: the numbers of another model, taken as they are."""
    return NgramModel(NgramConfig(order=3, smoothing="given"), ngram(order=3)().trie)


def mixture(*parts: Callable[[], Any]) -> Callable[[], Mixture]:
    weights = [1.0] if len(parts) == 1 else [0.6, *[0.4 / (len(parts) - 1)] * (len(parts) - 1)]
    return lambda: Mixture([make() for make in parts], weights)


ELSEWHERE = {"backpack of one sense", "backpack conv"}
"""Nothing in them is not in others here; tests/models/backpack/test_backpack.py has them."""
LINEAR = {"transformer-decoder linear"}
"""Scores of any sign are no shares of what was looked at."""
ATTENDING = {"backpack", "backpack of near senses"} | {
    name for name in CAUSAL if name.startswith("transformer-")
} - LINEAR
"""Transformers, and those that have one inside."""
MODELS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "ngram kneser-ney 1": (ngram(order=1), COUNTED),
    "ngram kneser-ney 2": (ngram(order=2), COUNTED),
    "ngram kneser-ney 3": (ngram(order=3), COUNTED),
    "ngram kneser-ney 5": (ngram(order=5), COUNTED),
    "ngram kneser-ney pruned": (ngram(order=4, prune=[0, 0, 1]), COUNTED),
    "ngram add-k": (ngram(order=3, smoothing="add-k", k=0.3), COUNTED),
    "ngram add-k 1": (ngram(order=1, smoothing="add-k", k=0.3), COUNTED),
    "ngram add-k pruned": (ngram(order=3, smoothing="add-k", k=0.3, prune=[0, 1]), COUNTED),
    "ngram maximum-likelihood": (ngram(order=3, smoothing="maximum-likelihood"), COUNTED),
    "ngram stupid-backoff": (ngram(order=3, smoothing="stupid-backoff"), COUNTED - {"normalised"}),
    "ngram given": (read_from_a_file, COUNTED - {"normalised"}),
    "mixture of orders": (mixture(ngram(order=1), ngram(order=2), ngram(order=4)), COUNTED),
    "mixture of one": (mixture(ngram(order=3)), COUNTED),
    "mixture with stupid-backoff": (
        mixture(ngram(order=2), ngram(order=2, smoothing="stupid-backoff")),
        COUNTED - {"normalised"},
    ),
    "mixture of a mixture and a recurrent one": (mixture(mixture(ngram(order=2), ngram(order=1)), recurrent), COUNTED),
    "mixture of a counted and a neural one": (mixture(ngram(order=2), CAUSAL["transformer-decoder learned"]), COUNTED),
    "toy recurrent": (recurrent, ALL),
    **{
        name: (make, ALL | ({"attends"} if name in ATTENDING else set()))
        for name, make in CAUSAL.items()
        if name not in ELSEWHERE
    },
}
SEEN_ONLY = {"maximum-likelihood"}
"""Smoothings that say nothing after a context that was never seen."""

few = settings(max_examples=6)
row = st.lists(st.integers(EOS, VOCABULARY - 1), max_size=9)
rows = st.lists(row, min_size=1, max_size=6)


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param][0]()


def padded(texts: list[list[int]], width: int = 0, filler: int = PAD) -> tuple[Tensor, Tensor]:
    width = max(width, *(len(text) for text in texts), 1)
    ids = torch.tensor([[*text, *[filler] * (width - len(text))] for text in texts])
    return ids, torch.tensor([len(text) for text in texts])


def steps(model: Any, tokens: Tensor, state: DecoderState | None = None) -> Tensor:
    """Feed (R, T) token by token: log-probabilities (R, T, V)."""
    state = model.start(len(tokens), tokens.shape[1]) if state is None else state
    found = []
    for column in tokens.unbind(1):
        said, state = model.step(column, state)
        found.append(said)
    return torch.stack(found, dim=1)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


# What is declared ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_declares_what_this_suite_expects(name: str) -> None:
    make, capabilities = MODELS[name]
    built = make()
    assert built.capabilities == capabilities
    assert isinstance(built, LanguageModel)
    assert built.vocabulary == VOCABULARY
    assert built.parameter_count() > 0
    assert built.flops(10, 5.0) >= 0
    assert (built.cache_bytes_per_token() > 0) == any(
        part in name for part in ("transformer-decoder", "neural", "backpack")
    )


def test_every_kind_of_language_model_is_in_the_suite() -> None:
    from anaphora.models.registry import kinds

    known = {*kinds("counting", "mixture", "language"), "toy"}
    assert {name.split()[0] for name in (*MODELS, *MASKED)} == known  # MASKED: test_masked.py


def test_every_smoothing_is_in_the_suite() -> None:
    from anaphora.models.ngram.smoothing import SMOOTHINGS

    assert {name.split()[1] for name in MODELS if name.startswith("ngram")} == set(SMOOTHINGS)


# causal -------------------------------------------------------------------------------------------------------------


@few
@given(text=row.filter(bool), data=st.data())
def test_causal(model: Any, text: list[int], data: st.DataObject) -> None:
    """Changing a later token never changes an earlier score: not by one bit, but where a product over more places is
    summed in another order."""
    place = data.draw(st.integers(0, len(text) - 1))
    changed = [*text[:place], *data.draw(st.lists(st.integers(EOS, VOCABULARY - 1), min_size=1, max_size=4))]
    before, after = (model.score(*padded([one]))[0, :place] for one in (text, changed))
    if len(text) == len(changed) or not isinstance(model, torch.nn.Module | Mixture):
        assert torch.equal(before, after)
    close(before, after)


# steppable ----------------------------------------------------------------------------------------------------------


@few
@given(texts=rows)
def test_steps_are_the_score_and_sum_to_it(model: Any, texts: list[list[int]]) -> None:
    ids, lengths = padded(texts)
    scored = model.score(ids, lengths)
    assert scored.dtype == torch.float32
    assert scored.shape == ids.shape
    said = steps(model, torch.cat([torch.full((len(ids), 1), BOS), ids[:, :-1]], dim=1))
    assert said.dtype == torch.float32
    assert said.shape == (*ids.shape, VOCABULARY)
    per_token = said.gather(2, ids[:, :, None])[:, :, 0]
    for place, length in enumerate(lengths.tolist()):
        close(scored[place, :length], per_token[place, :length])
        assert (scored[place, length:] == 0).all()
        close(scored[place].sum(), per_token[place, :length].sum())


def test_a_state_has_a_fixed_shape(model: Any) -> None:
    """No tensor of it grows, and it is written in place: a step can be captured."""
    state = model.start(3, 9)
    before = {name: (tensor.shape, tensor.data_ptr()) for name, tensor in state.past.items()}
    first = steps(model, torch.tensor([[BOS, 4, 5], [BOS, 6, 6], [BOS, 11, 3]]), state)
    assert {name: (tensor.shape, tensor.data_ptr()) for name, tensor in state.past.items()} == before
    assert state.past["position"].tolist() == [3] * 3
    assert first.is_contiguous()


def test_what_a_step_says_is_the_searchs_to_write(model: Any) -> None:
    state = model.start(2, 9)
    said, state = model.step(torch.tensor([BOS, BOS]), state)
    said.fill_(-7.0)
    again, _ = model.step(torch.tensor([4, 5]), state)
    fresh = steps(model, torch.tensor([[BOS, 4], [BOS, 5]]))[:, -1]
    assert torch.equal(again, fresh)


# normalized ---------------------------------------------------------------------------------------------------------


@few
@given(text=row)
def test_normalised_after_any_context(model: Any, text: list[int]) -> None:
    """Seen or not, from the beginning of a line on; of models that do not smooth, after what was seen."""
    if "normalised" not in model.capabilities:
        return
    totals = steps(model, torch.tensor([[BOS, *text]])).double().exp().sum(-1)[0]
    if getattr(getattr(model, "config", None), "smoothing", None) in SEEN_ONLY:
        known = [_seen([BOS, *text[:n]][-2:]) for n in range(len(text) + 1)]
        close(totals, torch.tensor(known, dtype=torch.double))
    else:
        close(totals, torch.ones_like(totals))


def _seen(context: list[int]) -> bool:
    """Whether something was seen after these words in TEXTS."""
    return any(
        line[at : at + len(context)] == context
        for text in TEXTS
        for line in [[BOS, *text]]
        for at in range(len(line) - len(context) + 1)
    )


def test_what_is_not_normalised_says_so() -> None:
    """Stupid back-off after some context does not sum to one: the declaration is not modesty."""
    model = MODELS["ngram stupid-backoff"][0]()
    totals = steps(model, torch.tensor([[BOS, 4, 5]])).exp().sum(-1)
    assert ((totals - 1).abs() > 0.05).any()


def test_begin_and_padding_are_never_said(model: Any) -> None:
    if isinstance(model, NgramModel):
        said = steps(model, torch.tensor([[BOS, 4, 5, 11]]))
        assert (said[:, :, [PAD, BOS]] == -torch.inf).all()


# batch-invariant ----------------------------------------------------------------------------------------------------


@few
@given(texts=rows, extra=st.integers(0, 3), rubbish=st.integers(0, VOCABULARY - 1), seed=st.integers(0, 99))
def test_batch_invariant(model: Any, texts: list[list[int]], extra: int, rubbish: int, seed: int) -> None:
    """Neither neighbours nor padding, nor what stands in it, nor the order of rows change what a real token gets."""
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
    shuffled = [texts[place] for place in order]
    together = model.score(*padded(shuffled, max(map(len, texts)) + extra, rubbish))
    for found, text in zip(together, shuffled):
        close(found[: len(text)], model.score(*padded([text]))[0, : len(text)])
        assert (found[len(text) :] == 0).all()


@few
@given(texts=rows)
def test_rows_end_to_end_are_rows_one_below_the_other(model: Any, texts: list[list[int]]) -> None:
    tokens = np.array([token for text in texts for token in text], np.uint32)
    starts = np.cumsum([0, *map(len, texts)])
    scores = model.score_flat(tokens, starts)
    assert scores.dtype == np.float32
    whole = model.score(*padded(texts))
    for text, found, begin, end in zip(texts, whole, starts[:-1], starts[1:]):
        close(torch.from_numpy(scores[begin:end]), found[: len(text)])


# attends ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_attends(model: Any) -> None:
    """Captured weights are those used: shares of what may be seen, which multiply back to what the layer says; at once
    and from the cache."""
    if "attends" not in model.capabilities:
        return
    ids, lengths = torch.tensor([[BOS, 4, 5, 6, 7], [BOS, 8, 9, 4, 4]]), torch.tensor([5, 5])
    plain = model(ids, lengths)
    with capture(model) as seen:
        close(model(ids, lengths), plain)
    assert len(seen) == model.config.layers
    state = model.start(2, 9)
    for (call,) in seen.values():
        assert call.weights.shape == (2, model.config.heads, 5, 5)
        assert (call.weights.triu(1) == 0).all()
        assert (call.weights >= 0).all()
        close(call.weights.sum(-1), torch.ones(2, model.config.heads, 5))
        close(call.weights @ call.value, call.context)
    with capture(model) as stepped:
        close(steps(model, ids, state), plain.log_softmax(-1))
    for path, calls in stepped.items():
        for place, call in enumerate(calls):
            close(call.weights[:, :, 0, : place + 1], seen.weights(path)[:, :, place, : place + 1])


# States: read, reorder, select, insert ------------------------------------------------------------------------------


@few
@given(texts=rows)
def test_reading_is_stepping(model: Any, texts: list[list[int]]) -> None:
    """A prompt read at once leaves each row where steps would, whatever the lengths beside it."""
    ids, lengths = padded([[BOS, *text][: len(text)] for text in texts])  # an empty text has not even begun
    state = model.read(ids, lengths, 20)
    assert state.past["position"].tolist() == lengths.tolist()
    said, _ = model.step(torch.full((len(texts),), 5), state)
    for place, length in enumerate(lengths.tolist()):
        alone = torch.cat([ids[place, :length], torch.tensor([5])])[None]
        close(said[place], steps(model, alone)[0, -1])


SAID = torch.tensor([[BOS, 4, 5, 6], [BOS, 9, 8, 4], [BOS, 3, 3, 11], [BOS, 5, 4, 8]])


def stood(model: Any) -> DecoderState:
    state = model.start(4, 9)
    steps(model, SAID, state)
    return state


@few
@given(index=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_reorder_continues_another_row(model: Any, index: list[int]) -> None:
    said, _ = model.step(torch.tensor([5, 6, 5, 4]), stood(model).reorder(torch.tensor(index)))
    tokens = torch.cat([SAID[index], torch.tensor([[5], [6], [5], [4]])], dim=1)
    close(said, steps(model, tokens)[:, -1])


def test_select_and_insert(model: Any) -> None:
    kept = stood(model).select(torch.tensor([3, 1]))
    assert kept.rows == 2
    other = model.start(1, 9)
    steps(model, torch.tensor([[BOS, 6]]), other)
    state = stood(model).insert(torch.tensor([2]), other)
    assert state.past["position"].tolist() == [4, 4, 2, 4]
    said, _ = model.step(torch.tensor([6, 6]), kept)
    close(said, steps(model, torch.cat([SAID[[3, 1]], torch.tensor([[6], [6]])], dim=1))[:, -1])
    said, _ = model.step(torch.tensor([6] * 4), state)
    close(said[2], steps(model, torch.tensor([[BOS, 6, 6]]))[0, -1])
    close(said[3], steps(model, torch.cat([SAID[3], torch.tensor([6])])[None])[0, -1])


@few
@given(
    texts=st.lists(st.lists(st.integers(EOS, VOCABULARY - 1), min_size=4, max_size=4), min_size=3, max_size=3),
    before=st.integers(0, 3),
    back=st.lists(st.integers(0, 4), min_size=3, max_size=3),
)
def test_several_tokens_at_once_are_steps_and_can_be_taken_back(
    model: Any, texts: list[list[int]], before: int, back: list[int]
) -> None:
    """Rows that stand at different places take four tokens more, then give some back."""
    prompts = [[BOS, *TEXTS[0]][: before + place] for place in range(3)]
    state = model.read(*padded(prompts), 20)
    said, state = model.extend(torch.tensor(texts), state)
    for place, (prompt, text) in enumerate(zip(prompts, texts)):
        close(said[place], steps(model, torch.tensor([[*prompt, *text]]))[0, len(prompt) :])
    state = model.rewind(state, torch.tensor(back))
    again, _ = model.step(torch.tensor([5, 6, 7]), state)
    for place, (prompt, text) in enumerate(zip(prompts, texts)):
        whole = [*prompt, *text[: 4 - back[place]], 5 + place]
        close(again[place], steps(model, torch.tensor([whole]))[0, -1])


# The search with language models ------------------------------------------------------------------------------------


@few
@given(prompts=st.lists(st.lists(st.integers(UNK, VOCABULARY - 1), max_size=6), min_size=1, max_size=4))
def test_greedy_is_the_likeliest_token_again_and_again(model: Any, prompts: list[list[int]]) -> None:
    found = generate(model, prompts, DecodingConfig(beam=1, sample=False), tokens=6)
    for prompt, (best,) in zip(prompts, found):
        said = [*best.tokens, *[EOS] * best.finished]
        for place, token in enumerate(said):
            last = spoken_after(model, [*prompt, *said[:place]])
            assert last[token] > last.max() - 1e-6  # of several that are as likely, any
        if len(said) < 6 and not best.finished:
            assert spoken_after(model, [*prompt, *said]).max() == -torch.inf  # nothing can follow


def spoken_after(model: Any, said: list[int]) -> Tensor:
    last = steps(model, torch.tensor([[BOS, *said]]))[0, -1]
    last[[PAD, BOS, UNK]] = -torch.inf
    return last


@few
@given(prompts=st.lists(st.lists(st.integers(UNK, VOCABULARY - 1), max_size=6), min_size=1, max_size=4))
def test_what_is_said_is_scored_as_it_was_said(model: Any, prompts: list[list[int]]) -> None:
    found = generate(model, prompts, DecodingConfig(sample=True), tokens=6, samples=2)
    for prompt, (one, other) in zip(prompts, found):
        for said in (one, other):
            tokens = [*said.tokens, *[EOS] * said.finished]
            scored = model.score(*padded([[*prompt, *tokens]]))[0, len(prompt) : len(prompt) + len(tokens)]
            close(torch.tensor(said.token_log_probabilities), scored)
            assert said.log_probability == pytest.approx(scored.sum().item(), abs=1e-4)


def test_a_prompted_model_is_a_translator_like_any_other(model: Any) -> None:
    """Its state is moved by sentences with several rows each: the same as rows that were alone."""
    prompted = PromptedModel(model)
    assert isinstance(prompted, Translator)
    source, lengths = pad([[BOS, 4, 5], [BOS], [BOS, 6, 6, 6], [BOS, 6, 6, 6]], "cpu")
    state = prompted.start(source, lengths, 2, 9)
    assert (state.rows, state.sentences) == (8, 4)
    said, state, attention = prompted.step(torch.full((8,), BOS), state)
    assert attention is None
    for place, length in enumerate(lengths.tolist()):
        expected = steps(model, source[place : place + 1, :length])[0, -1]
        close(said[2 * place], expected)
        close(said[2 * place + 1], expected)
    state = state.select(torch.tensor([2, 0])).reorder(torch.tensor([1, 0, 3, 3]))
    said, _, _ = prompted.step(torch.tensor([4, 5, 6, 7]), state)
    for place, tokens in enumerate([[BOS, 6, 6, 6, 4], [BOS, 6, 6, 6, 5], [BOS, 4, 5, 6], [BOS, 4, 5, 7]]):
        close(said[place], steps(model, torch.tensor([tokens]))[0, -1])
