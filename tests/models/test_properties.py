"""The property suite: every model is tested for every capability it declares.

`MODELS` (tests/support/translator_rungs.py) names each model, how it is built and what it must declare. Language
models: test_language_properties.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.decoding.beam_search import DecodingConfig, search
from anaphora.decoding.pair_scoring import score
from anaphora.decoding.translate import pad
from anaphora.errors import UserError
from anaphora.models.contracts import DecoderState, Translator
from anaphora.nn.attention_capture import attention_layers, capture
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD
from translator_rungs import LONGEST, MODELS, VOCABULARY

few = settings(max_examples=6)  # for each model, and the models differ little
sentence = st.lists(st.integers(3, VOCABULARY - 1), max_size=LONGEST - 2)
"""Tokens without marks; there is room for BOS or EOS and one more."""
sentences = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=5)
"""Source and target of some pairs."""


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param][0]()


def batch(pairs: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """source (B, S) … EOS, its lengths, target (B, T) BOS …, its lengths."""
    source, source_lengths = pad([[*s, EOS] for s, _ in pairs], "cpu")
    target, target_lengths = pad([[BOS, *t] for _, t in pairs], "cpu")
    return source, source_lengths, target, target_lengths


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)  # probabilities are float32 whatever the model is


# What is declared ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_declares_what_this_suite_expects(name: str) -> None:
    make, capabilities = MODELS[name]
    built = make()
    assert built.capabilities == capabilities
    assert isinstance(built, Translator)


def test_every_kind_of_translator_is_in_the_suite() -> None:
    from anaphora.models.registry import kinds

    assert {name.split()[0] for name in MODELS} == {*kinds("translation"), *kinds("ensemble")}


# causal -------------------------------------------------------------------------------------------------------------


@few
@given(pair=st.tuples(sentence, sentence.filter(bool)), data=st.data())
def test_causal(model: Any, pair: tuple[list[int], list[int]], data: st.DataObject) -> None:
    """Changing a later token never changes an earlier position: not by one bit."""
    source, lengths, target, _ = batch([pair])
    place = data.draw(st.integers(1, target.shape[1] - 1))
    changed = target.clone()
    changed[0, place:] = (changed[0, place:] - 3 + data.draw(st.integers(1, VOCABULARY - 4))) % (VOCABULARY - 3) + 3
    before, after = (model.log_probabilities(source, t, lengths) for t in (target, changed))
    close(after[:, :place], before[:, :place])
    assert not torch.allclose(after[:, place], before[:, place])  # the change is seen where it stands


# steppable ----------------------------------------------------------------------------------------------------------


def steps(model: Any, state: DecoderState, tokens: Tensor) -> Tensor:
    """Feed (R, T) token by token: log-probabilities (R, T, V)."""
    outputs = []
    for column in tokens.unbind(1):
        out, state, _ = model.step(column, state)
        outputs.append(out)
    return torch.stack(outputs, dim=1)


@few
@given(pairs=sentences, beam=st.integers(1, 3), spare=st.integers(0, 3))
def test_steppable(model: Any, pairs: list[tuple[list[int], list[int]]], beam: int, spare: int) -> None:
    """One token at a time with a cache = one parallel pass, for every row of every sentence."""
    source, lengths, target, _ = batch(pairs)
    whole = model.log_probabilities(source, target, lengths)
    state = model.start(source, lengths, beam, min(target.shape[1] + spare, LONGEST))
    rows = target.repeat_interleave(beam, 0)
    close(steps(model, state, rows), whole.repeat_interleave(beam, 0))


@few
@given(pairs=sentences)
def test_score_is_the_sum_of_steps(model: Any, pairs: list[tuple[list[int], list[int]]]) -> None:
    source, lengths, target, target_lengths = batch(pairs)
    ends, _ = pad([[*t, EOS] for _, t in pairs], "cpu")
    scored = score(model, source, lengths, ends, target_lengths)
    said = steps(model, model.start(source, lengths, 1, LONGEST), target)
    per_token = said.gather(2, ends[:, :, None])[:, :, 0]
    for row, length in enumerate(target_lengths.tolist()):
        close(scored.log_probabilities[row, :length], per_token[row, :length].float())
        assert (scored.log_probabilities[row, length:] == 0).all()
        close(scored.total[row], per_token[row, :length].sum().float())


def test_a_state_has_a_fixed_shape(model: Any) -> None:
    """No tensor of it grows, and it is written in place: a step can be captured."""
    source, lengths, target, _ = batch([([5, 6, 7], [8, 9, 10]), ([5], [4, 4, 4])])
    state = model.start(source, lengths, 2, LONGEST)
    before = {name: (tensor.shape, tensor.data_ptr()) for name, tensor in (state.memory | state.past).items()}
    steps(model, state, target.repeat_interleave(2, 0))
    assert {name: (tensor.shape, tensor.data_ptr()) for name, tensor in (state.memory | state.past).items()} == before
    assert state.past["position"].tolist() == [4] * 4


# normalized ---------------------------------------------------------------------------------------------------------


@few
@given(pairs=sentences)
def test_normalised(model: Any, pairs: list[tuple[list[int], list[int]]]) -> None:
    source, lengths, target, _ = batch(pairs)
    for probabilities in (
        model.log_probabilities(source, target, lengths).exp(),
        steps(model, model.start(source, lengths, 1, LONGEST), target).exp(),
    ):
        assert probabilities.shape == (*target.shape, VOCABULARY)
        close(probabilities.sum(-1), torch.ones(target.shape, dtype=probabilities.dtype))


# batch-invariant ----------------------------------------------------------------------------------------------------


@few
@given(pairs=sentences, extra=st.integers(0, 2), seed=st.integers(0, 99))
def test_batch_invariant(model: Any, pairs: list[tuple[list[int], list[int]]], extra: int, seed: int) -> None:
    """Neither neighbours nor padding nor the order of rows change what a real token gets."""
    source, lengths, target, target_lengths = batch(pairs)
    room = min(extra, LONGEST - source.shape[1]), min(extra, LONGEST - target.shape[1])
    source = torch.nn.functional.pad(source, (0, room[0]), value=PAD)
    target = torch.nn.functional.pad(target, (0, room[1]), value=PAD)
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))
    together = model.log_probabilities(source[order], target[order], lengths[order])
    for place, row in enumerate(order.tolist()):
        alone_source, alone_lengths, alone_target, _ = batch([pairs[row]])
        alone = model.log_probabilities(alone_source, alone_target, alone_lengths)
        close(together[place, : target_lengths[row]], alone[0])


@few
@given(pairs=sentences, rubbish=st.integers(1, VOCABULARY - 1))
def test_what_stands_in_padding_does_not_matter(
    model: Any, pairs: list[tuple[list[int], list[int]]], rubbish: int
) -> None:
    source, lengths, target, target_lengths = batch(pairs)
    clean = model.log_probabilities(source, target, lengths)
    source = torch.where(torch.arange(source.shape[1]) < lengths[:, None], source, rubbish)
    target = torch.where(torch.arange(target.shape[1]) < target_lengths[:, None], target, rubbish)
    dirty = model.log_probabilities(source, target, lengths)
    for row, length in enumerate(target_lengths.tolist()):
        close(dirty[row, :length], clean[row, :length])


# attends ------------------------------------------------------------------------------------------------------------


@few
@given(pairs=sentences, beam=st.integers(1, 3))
def test_attends(model: Any, pairs: list[tuple[list[int], list[int]]], beam: int) -> None:
    """What a step says it looked at: non-negative, one in all over real source tokens, nothing on padding."""
    source, lengths, target, _ = batch(pairs)
    if "attends" not in model.capabilities:
        state = model.start(source, lengths, beam, LONGEST)
        assert model.step(target[:, 0].repeat_interleave(beam, 0), state, attention=True)[2] is None
        return
    real = (torch.arange(source.shape[1]) < lengths[:, None]).repeat_interleave(beam, 0)  # (R, S)
    watched, plain = (model.start(source, lengths, beam, LONGEST) for _ in range(2))
    for column in target.repeat_interleave(beam, 0).unbind(1):
        out, watched, looked = model.step(column, watched, attention=True)
        unwatched, plain, none = model.step(column, plain)
        assert none is None
        assert torch.equal(out, unwatched)  # looking changes nothing
        assert looked is not None
        assert looked.shape == real.shape
        assert (looked >= 0).all()
        assert (looked[~real] == 0).all()
        close(looked.sum(-1), torch.ones(len(real), dtype=looked.dtype))


@few
@given(pairs=sentences, beam=st.integers(1, 3))
def test_captured_weights_multiply_back_to_the_output(
    model: Any, pairs: list[tuple[list[int], list[int]]], beam: int
) -> None:
    """Of every attention layer, in a whole pass and in steps; and looking changes no answer."""
    source, lengths, target, _ = batch(pairs)
    layers = attention_layers(model)
    if not layers:
        assert "attends" not in model.capabilities
        return
    outputs: dict[str, list[Tensor]] = {path: [] for path in layers}
    hooks = [
        layer.out.register_forward_hook(lambda module, inputs, output, path=path: outputs[path].append(output))
        for path, layer in layers.items()
    ]
    try:
        with capture(model) as seen:
            watched = model(source, target, lengths)
            state = model.start(source, lengths, beam, LONGEST)
            for column in target.repeat_interleave(beam, 0).unbind(1):
                stepped, state, _ = model.step(column, state)
    finally:
        for hook in hooks:
            hook.remove()
    close(watched, model(source, target, lengths))
    state = model.start(source, lengths, beam, LONGEST)
    for column in target.repeat_interleave(beam, 0).unbind(1):
        out, state, _ = model.step(column, state)
    close(stepped, out)
    for path, layer in layers.items():
        assert len(seen[path]) == len(outputs[path]) > 0
        for call, output in zip(seen[path], outputs[path]):
            close(layer.merge(call.weights @ call.value), output)
            if "attends" in model.capabilities:
                sums = call.weights.sum(dim=-1)
                close(sums, sums.round())  # one, or zero for a query that may look at nothing


def test_attention_is_what_the_last_block_used() -> None:
    """The returned weights, times the remembered values, are the cross-attention's output (one head, so no mean)."""
    model = MODELS["transformer one head"][0]()
    source, lengths, _, _ = batch([([5, 6, 7], []), ([8], [])])
    state = model.start(source, lengths, 1, LONGEST)
    cross = model.decoder.blocks[-1].cross_attention
    seen: list[Tensor] = []
    cross.out.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    _, state, looked = model.step(torch.tensor([BOS, BOS]), state, attention=True)
    last = len(model.decoder.blocks) - 1
    value = state.memory[f"value{last}"][:, 0]  # (B, S, D)
    close((looked[:, None] @ value)[:, 0], seen[-1][:, 0])


# States: reorder, select, insert ------------------------------------------------------------------------------------

TARGETS = torch.tensor([[BOS, 4, 5, 6, 7], [BOS, 9, 8, 4, 4], [BOS, 3, 3, 11, 12], [BOS, 20, 4, 19, 6]])
SOURCES = [([5, 6, 7, 8], []), ([12], [])]


def test_reorder_continues_another_row_of_the_sentence(model: Any) -> None:
    source, lengths, _, _ = batch(SOURCES)
    state = model.start(source, lengths, 2, LONGEST)
    steps(model, state, TARGETS[:, :3])
    index = torch.tensor([1, 1, 3, 2])
    state = state.reorder(index)
    out, _, _ = model.step(torch.tensor([13, 14, 15, 16]), state)
    said = torch.cat([TARGETS[index, :3], torch.tensor([[13], [14], [15], [16]])], dim=1)
    rows = source.repeat_interleave(2, 0), lengths.repeat_interleave(2, 0)
    close(out, model.log_probabilities(rows[0], said, rows[1])[:, -1])


def test_select_keeps_sentences_in_the_order_asked_for(model: Any) -> None:
    source, lengths, _, _ = batch([*SOURCES, ([9, 9], [])])
    targets = TARGETS[[0, 1, 2, 3, 0, 2]]
    state = model.start(source, lengths, 2, LONGEST)
    steps(model, state, targets[:, :3])
    state = state.select(torch.tensor([2, 0]))
    assert (state.sentences, state.rows) == (2, 4)
    rows = torch.tensor([4, 5, 0, 1])
    out, _, _ = model.step(targets[rows, 3], state)
    expected = model.log_probabilities(source[rows // 2], targets[rows, :4], lengths[rows // 2])[:, -1]
    close(out, expected)


def test_inserted_sentences_go_on_beside_older_ones(model: Any) -> None:
    """Rows at different positions, each as if it were alone: a place freed by a finished sentence is filled anew."""
    source, lengths, _, _ = batch([*SOURCES, ([9, 9], [])])
    state = model.start(source, lengths, 2, LONGEST)
    targets = TARGETS[[0, 1, 2, 3, 0, 2]]
    steps(model, state, targets[:, :4])
    fresh_source = torch.full_like(source[:1], PAD)
    fresh_source[0, :3] = torch.tensor([17, 18, EOS])
    fresh = model.start(fresh_source, torch.tensor([3]), 2, LONGEST)
    begun = torch.tensor([[BOS, 21], [BOS, 22]])
    steps(model, fresh, begun)
    state = state.insert(torch.tensor([1]), fresh)
    assert state.past["position"].tolist() == [4, 4, 2, 2, 4, 4]
    for token in (13, 14):
        targets = torch.cat([targets[:, : targets.shape[1] - (token == 13)], torch.full((6, 1), token)], dim=1)
        begun = torch.cat([begun, torch.full((2, 1), token)], dim=1)
        out, state, _ = model.step(torch.full((6,), token), state)
        for row in range(6):
            if row in (2, 3):
                alone = model.log_probabilities(fresh_source, begun[[row - 2]], torch.tensor([3]))
            else:
                alone = model.log_probabilities(source[[row // 2]], targets[[row]], lengths[[row // 2]])
            close(out[row], alone[0, -1])


# The search with real models ----------------------------------------------------------------------------------------


def uncached_greedy(model: Any, source: list[int], longest: int) -> tuple[list[int], float]:
    """The whole target again at every step."""
    ids, lengths = pad([[*source, EOS]], "cpu")
    said, total = [BOS], 0.0
    while len(said) <= longest:
        out = model.log_probabilities(ids, torch.tensor([said]), lengths)[0, -1].clone()
        out[[PAD, BOS, 3]] = -torch.inf  # marks, and UNK, are never said
        total += out.max().item()
        if out.argmax().item() == EOS:
            break
        said.append(int(out.argmax()))
    return said[1:], total


SEARCHED = st.lists(st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=LONGEST - 2), min_size=1, max_size=3)


@few
@given(sources=SEARCHED)
def test_cached_is_uncached_and_beam_one_is_greedy(model: Any, sources: list[list[int]]) -> None:
    ids, lengths = pad([[*source, EOS] for source in sources], "cpu")
    found = search(model, ids, lengths, DecodingConfig(beam=1, max_length=8))
    for source, (best,) in zip(sources, found):
        said, total = uncached_greedy(model, source, 8)
        assert best.tokens == said[:8]
        assert best.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_batch_of_one_is_batch_of_64(model: Any, beam: int) -> None:
    draw = torch.Generator().manual_seed(1)
    sizes = torch.randint(1, LONGEST - 1, (64,), generator=draw).tolist()
    sources = [torch.randint(4, VOCABULARY, (size,), generator=draw).tolist() for size in sizes]
    config = DecodingConfig(beam=beam, n_best=beam, max_length=10)
    ids, lengths = pad([[*source, EOS] for source in sources], "cpu")
    together = search(model, ids, lengths, config)
    for source, found in list(zip(sources, together))[::8]:
        (alone,) = search(model, *pad([[*source, EOS]], "cpu"), config)
        assert [h.tokens for h in alone] == [h.tokens for h in found]
        assert [h.score for h in alone] == pytest.approx([h.score for h in found], abs=1e-4)


def test_the_search_scores_what_it_says_as_scoring_does(model: Any) -> None:
    ids, lengths = pad([[5, 6, 7, EOS], [9, EOS]], "cpu")
    for row, found in enumerate(search(model, ids, lengths, DecodingConfig(beam=3, n_best=3, max_length=8))):
        for hypothesis in found:
            tokens = [*hypothesis.tokens, EOS] if hypothesis.finished else hypothesis.tokens
            target, sizes = pad([tokens], "cpu")
            scored = score(model, ids[[row]], lengths[[row]], target, sizes)
            assert hypothesis.log_probability == pytest.approx(scored.total.item(), abs=1e-4)


def test_coverage_penalty_counts_the_attention_of_each_step(model: Any) -> None:
    ids, lengths = pad([[5, 6, 7, 8, 9, EOS], [4, EOS]], "cpu")
    beta, alpha = 0.7, 0.6
    config = DecodingConfig(beam=20, n_best=20, max_length=5, coverage_penalty=beta, length_penalty=alpha)
    if "attends" not in model.capabilities:
        with pytest.raises(UserError, match="coverage_penalty needs a model that attends"):
            search(model, ids, lengths, config)
        return
    ended = 0
    for row, found in enumerate(search(model, ids, lengths, config)):
        for hypothesis in (h for h in found if h.finished):
            state, covered = model.start(ids[[row]], lengths[[row]], 1, LONGEST), torch.zeros(1, ids.shape[1])
            for token in [BOS, *hypothesis.tokens]:
                _, state, looked = model.step(torch.tensor([token]), state, attention=True)
                covered = covered + looked
            logs = covered[0, : lengths[row]].clamp(max=1.0).log().sum().item()
            penalty = ((5 + len(hypothesis.tokens) + 1) / 6) ** alpha
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / penalty + beta * logs, abs=1e-4)
            ended += 1
    assert ended > 0
