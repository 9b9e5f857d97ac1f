"""The search against plain references: exhaustive search, an argmax loop, itself in other batches."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.decoding.beam_search import (
    DecodingConfig,
    Hypothesis,
    best_continuations,
    evaluating,
    length_penalty,
    search,
)
from anaphora.decoding.pair_scoring import score
from anaphora.decoding.translate import pad
from anaphora.errors import UserError
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from toy_translator import ToyTranslator


def some_sources(count: int, seed: int = 0, vocabulary: int = 8, longest: int = 7) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, longest, (count,), generator=generator).tolist()
    return [[*torch.randint(4, vocabulary, (n,), generator=generator).tolist(), EOS] for n in lengths]


def run(model, sources, config, **keywords) -> list[list[Hypothesis]]:
    return search(model, *pad(sources, "cpu"), config, **keywords)


def same(a: list[Hypothesis], b: list[Hypothesis]) -> None:
    assert [h.tokens for h in a] == [h.tokens for h in b]
    assert [h.finished for h in a] == [h.finished for h in b]
    for x, y in zip(a, b):
        assert x.score == pytest.approx(y.score, abs=1e-5)
        assert x.token_log_probabilities == pytest.approx(y.token_log_probabilities, abs=1e-5)


def exhaustive(model: ToyTranslator, source: list[int], limit: int, alpha: float) -> list[tuple[float, list[int]]]:
    """Every output of at most `limit` tokens, end mark included, best first."""
    found, steps = [], {}
    for length in range(limit):
        for tokens in itertools.product(range(4, model.vocabulary), repeat=length):
            total = 0.0
            for place, token in enumerate([*tokens, EOS]):
                history = tokens[:place]
                if history not in steps:
                    steps[history] = model.next(source, list(history)).tolist()
                total += steps[history][token]
            found.append((total / length_penalty(length + 1, alpha), list(tokens)))
    return sorted(found, key=lambda pair: -pair[0])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
def test_a_wide_beam_is_exhaustive_search(alpha):
    model = ToyTranslator(8, seed=3)
    sources = some_sources(6, seed=1)
    config = DecodingConfig(beam=400, n_best=20, length_penalty=alpha, max_length=5)
    for source, found in zip(sources, run(model, sources, config)):
        truth = exhaustive(model, source, 5, alpha)
        assert [h.tokens for h in found] == [tokens for _, tokens in truth[:20]]
        assert [h.score for h in found] == pytest.approx([s for s, _ in truth[:20]], abs=1e-5)
        assert all(h.finished for h in found)


def test_a_wide_beam_hands_out_everything_there_is_then_the_unfinished():
    model = ToyTranslator(6, seed=3)
    (found,) = run(model, [[4, 5, EOS]], DecodingConfig(beam=100, n_best=100, max_length=3))
    finished = [h.tokens for h in found if h.finished]
    assert sorted(finished) == sorted(tokens for _, tokens in exhaustive(model, [4, 5, EOS], 3, 0.6))
    unfinished = [h for h in found if not h.finished]
    assert sorted(h.tokens for h in unfinished) == [list(t) for t in itertools.product([4, 5], repeat=3)]
    assert [h.finished for h in found] == [True] * len(finished) + [False] * len(unfinished)


def test_a_beam_of_one_is_greedy_search():
    model = ToyTranslator(40, seed=5)
    sources = some_sources(50, seed=2, vocabulary=40)
    for source, (found,) in zip(sources, run(model, sources, DecodingConfig(beam=1))):
        tokens, values = [], []
        while len(values) < 2 * len(source) + 10:
            step = model.next(source, tokens)
            step[[PAD, BOS, UNK]] = -math.inf
            best = int(step.argmax())
            values.append(float(step[best]))
            if best == EOS:
                break
            tokens.append(best)
        assert found.tokens == tokens
        assert found.finished == (best == EOS)
        assert found.token_log_probabilities == pytest.approx(values, abs=1e-6)
        assert found.score == pytest.approx(sum(values) / length_penalty(len(values), 0.6), abs=1e-5)


CONFIGS = [
    DecodingConfig(beam=3, n_best=3),
    DecodingConfig(beam=4, n_best=2, coverage_penalty=0.3, no_repeat_ngram=2, min_length=3),
    DecodingConfig(beam=1, max_length=6),
    DecodingConfig(sample=True, n_best=3, temperature=0.8, top_k=6, top_p=0.9, seed=7),
]


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "coverage", "greedy", "sample"])
def test_alone_or_among_64_the_result_is_the_same(config):
    model = ToyTranslator(12, seed=4)
    sources = some_sources(64, seed=3, vocabulary=12, longest=12)
    together = run(model, sources, config)
    for number in range(0, 64, 3):
        (alone,) = run(model, [sources[number]], config, sentence_ids=[number])
        same(alone, together[number])


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(10)), which=st.sampled_from(CONFIGS), cut=st.integers(1, 9))
def test_the_order_and_cut_of_batches_do_not_matter(order, which, cut):
    model = ToyTranslator(12, seed=4)
    sources = some_sources(10, seed=6, vocabulary=12)
    straight = run(model, sources, which)
    for part in (order[:cut], order[cut:]):
        for place, found in zip(part, run(model, [sources[i] for i in part], which, sentence_ids=part)):
            same(found, straight[place])


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("coverage", [0.0, 0.5])
def test_n_best_begins_with_the_best_is_sorted_and_distinct(alpha, coverage):
    model = ToyTranslator(12, seed=9, sharpness=2.5)
    sources = some_sources(40, seed=8, vocabulary=12)
    settings = {"beam": 5, "length_penalty": alpha, "coverage_penalty": coverage}
    one = run(model, sources, DecodingConfig(n_best=1, **settings))
    five = run(model, sources, DecodingConfig(n_best=5, **settings))
    for (best,), best_five in zip(one, five):
        same([best], best_five[:1])
        ranks = [(h.finished, h.score) for h in best_five]
        assert ranks == sorted(ranks, reverse=True)
        assert len({tuple(h.tokens) for h in best_five}) == len(best_five) == 5


def test_coverage_is_gnmts():
    model = ToyTranslator(10, seed=1)
    source = [4, 6, 5, 9, EOS]
    for h in run(model, [source], DecodingConfig(beam=4, n_best=4, coverage_penalty=0.4))[0]:
        state = model.start(*pad([source], "cpu"), 1, 30)
        covered = torch.zeros(len(source))
        for token in [BOS, *h.tokens]:
            _, state, looks = model.step(torch.tensor([token]), state, attention=True)
            covered += looks[0]
        penalty = 0.4 * float(covered.clamp(max=1.0).log().sum())
        assert h.finished
        expected = h.log_probability / length_penalty(len(h.tokens) + 1, 0.6) + penalty
        assert h.score == pytest.approx(expected, abs=1e-4)


def test_coverage_without_attention_is_refused_with_a_cure():
    model = ToyTranslator()
    model.attends = False
    with pytest.raises(UserError, match=r"needs a model that attends.*coverage_penalty=0"):
        run(model, [[4, EOS]], DecodingConfig(coverage_penalty=0.1))


@pytest.mark.parametrize("sample", [False, True])
def test_lengths_stay_within_their_limits(sample):
    model = ToyTranslator(8, seed=2)
    sources = some_sources(30, seed=4)
    for least, most in [(0, 1), (0, 3), (4, 5), (6, 12)]:
        config = DecodingConfig(beam=4, n_best=3, sample=sample, min_length=least, max_length=most)
        for found in run(model, sources, config):
            assert found
            for h in found:
                assert least <= len(h.tokens) <= most
                assert h.finished or len(h.tokens) == most
                assert not h.finished or len(h.tokens) < most
    config = DecodingConfig(beam=4, n_best=3, sample=sample, max_length_ratio=0.5, max_length_extra=1)
    for source, found in zip(sources, run(model, sources, config)):
        assert all(len(h.tokens) <= len(source) // 2 + 1 for h in found)
    model.max_target_length = 2
    assert all(len(h.tokens) <= 2 for found in run(model, sources, config) for h in found)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_is_said_twice(n):
    model = ToyTranslator(9, seed=2, sharpness=0.5)
    sources = some_sources(20, seed=4, longest=10)
    for found in run(model, sources, DecodingConfig(beam=4, n_best=4, no_repeat_ngram=n, min_length=4)):
        for h in found:
            grams = [tuple(h.tokens[i : i + n]) for i in range(len(h.tokens) - n + 1)]
            assert len(grams) == len(set(grams))
    for source, (found,) in zip(sources, run(model, sources, DecodingConfig(beam=1, no_repeat_ngram=n))):
        tokens: list[int] = []
        while len(tokens) < 2 * len(source) + 10:
            step = model.next(source, tokens)
            step[[PAD, BOS, UNK]] = -math.inf
            for i in range(len(tokens) - n + 1):
                if tokens[i : i + n - 1] == tokens[len(tokens) - n + 1 :]:
                    step[tokens[i + n - 1]] = -math.inf
            if int(step.argmax()) == EOS:
                break
            tokens.append(int(step.argmax()))
        assert found.tokens == tokens


@pytest.mark.parametrize("sample", [False, True])
def test_prefixes_of_mixed_length_are_forced_at_their_true_price(sample):
    model = ToyTranslator(10, seed=2)
    sources = some_sources(12, seed=4, vocabulary=10)
    prefixes = [[], [4], [4, 4, 4, 4], [5, 6], [UNK, 7], [9] * 11] * 2
    config = DecodingConfig(beam=3, n_best=3, sample=sample, no_repeat_ngram=2, max_length_extra=0)
    together = run(model, sources, config, prefix=prefixes)
    for number, (source, prefix, found) in enumerate(zip(sources, prefixes, together)):
        (alone,) = run(model, [source], config, prefix=[prefix], sentence_ids=[number])
        same(found, alone)
        for h in found:
            assert h.tokens[: len(prefix)] == prefix
            assert UNK not in h.tokens[len(prefix) :]
            for place, value in enumerate(h.token_log_probabilities):
                token = [*h.tokens, EOS][place]
                assert value == pytest.approx(float(model.next(source, h.tokens[:place])[token]), abs=1e-5)
    with pytest.raises(UserError, match=r"70 tokens; the model can say 63; shorten it"):
        run(model, sources[:1], config, prefix=[[4] * 70])
    with pytest.raises(UserError, match="end mark"):
        run(model, sources[:1], config, prefix=[[4, EOS]])


def test_a_prefix_of_the_best_output_gives_the_best_output():
    model = ToyTranslator(10, seed=2)
    sources = some_sources(12, seed=5, vocabulary=10)
    config = DecodingConfig(beam=300, max_length=4)
    free = run(model, sources, config)
    forced = run(model, sources, config, prefix=[h[0].tokens[: i % 4] for i, h in enumerate(free)])
    for a, b in zip(free, forced):
        same(a, b)


def test_the_unknown_token_is_said_only_on_request():
    model = ToyTranslator(8, seed=2)
    model.table[:, UNK] = 3.0
    model.table = model.table.log_softmax(-1)
    sources = some_sources(5)
    assert all(UNK not in f[0].tokens for f in run(model, sources, DecodingConfig()))
    assert any(UNK in f[0].tokens for f in run(model, sources, DecodingConfig(unknown=True)))


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "coverage", "greedy", "sample"])
def test_scoring_is_the_sum_of_the_steps(config):
    model = ToyTranslator(12, seed=6)
    sources = some_sources(30, seed=4, vocabulary=12)
    pairs = [(s, h) for s, found in zip(sources, run(model, sources, config)) for h in found if h.finished]
    assert len(pairs) > 5
    source, source_lengths = pad([s for s, _ in pairs], "cpu")
    target, target_lengths = pad([[*h.tokens, EOS] for _, h in pairs], "cpu")
    scores = score(model, source, source_lengths, target, target_lengths)
    for (_, h), total, row in zip(pairs, scores.total.tolist(), scores.log_probabilities.tolist()):
        assert total == pytest.approx(h.log_probability, abs=1e-4)
        assert row[: len(h.tokens) + 1] == pytest.approx(h.token_log_probabilities, abs=1e-5)
        assert not any(row[len(h.tokens) + 1 :])


def test_nothing_to_do():
    model = ToyTranslator()
    assert search(model, torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long), DecodingConfig()) == []
    empty = torch.zeros(2, 0, dtype=torch.long)
    lengths = torch.tensor([1, 1])
    scores = score(model, torch.full((2, 1), EOS), lengths, empty, torch.zeros(2, dtype=torch.long))
    assert scores.total.tolist() == [0.0, 0.0]


def test_a_model_that_allows_nothing_still_gets_an_answer():
    model = ToyTranslator(8)
    model.table[:] = -math.inf
    for sample in (False, True):
        (found,) = run(model, [[4, EOS]], DecodingConfig(sample=sample))
        assert found == [Hypothesis([], -math.inf, 0.0, [], False)]
        (found,) = run(model, [[4, EOS]], DecodingConfig(sample=sample), prefix=[[5, 6]])
        assert [h.tokens for h in found] == [[5, 6]]
        assert not found[0].finished


def test_damaged_weights_are_named():
    model = ToyTranslator(8)
    model.table[:] = math.nan
    with pytest.raises(UserError, match=r"NaN.*its weights are damaged; take an earlier checkpoint"):
        run(model, [[4, EOS]], DecodingConfig())


def test_finished_sentences_are_no_longer_computed():
    model = ToyTranslator(8, seed=2)
    model.table[:, EOS] = 6.0
    model.table = model.table.log_softmax(-1)
    sources = [[4, EOS]] * 15 + [[5, EOS]]
    run(model, sources, DecodingConfig(beam=1), prefix=[[]] * 15 + [[4] * 40])
    assert model.rows_stepped <= 16 * 4 + 50


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("vocabulary", [3, 8, 700, 5000, 128 * 30])
def test_best_continuations_are_the_best_of_all(vocabulary, rows):
    scores = torch.randn(4 * rows, vocabulary)
    scores[:, :1] = -math.inf
    live = torch.randn(4, rows)
    live[1, 1:] = -math.inf  # as at the first step: one row speaks for all
    best, places = best_continuations(scores, live)
    every = (live.view(-1, 1) + scores).view(4, rows * vocabulary)
    assert torch.equal(best, every.topk(rows).values)
    assert torch.equal(every.gather(1, places), best)
    assert all(len(set(row)) == rows for row in places.tolist())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length_penalty": -0.5}, "length_penalty must not be negative"),
        ({"n_best": 6}, r"n_best \(6\) must not exceed beam \(5\); widen the beam"),
        ({"temperature": 0.0}, "sample=false and beam=1"),
        ({"top_p": 0.0}, "top_p"),
        ({"beam": 0}, "beam must be at least 1"),
        ({"min_length": 5, "max_length": 5}, "must be below max_length"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DecodingConfig(**settings)


def test_training_mode_is_restored():
    class Module(ToyTranslator, torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            ToyTranslator.__init__(self)

    model = Module()
    run(model, [[4, EOS]], DecodingConfig())
    assert model.training


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "coverage", "greedy", "sample"])
def test_a_transformer_says_the_same_alone_and_together_and_scores_as_it_says(config):
    torch.manual_seed(1)
    settings = TransformerConfig(dim=16, layers=2, heads=2, feed_forward=32, max_length=40, tie="none")
    model = Transformer(settings, 20, 20)
    with torch.no_grad():
        model.projection.weight.mul_(6)
    sources = some_sources(12, seed=3, vocabulary=20, longest=9)
    together = run(model, sources, config)
    assert model.training  # dropout was off while it spoke, and is on again
    for number, source in enumerate(sources):
        (alone,) = run(model, [source], config, sentence_ids=[number])
        assert [h.tokens for h in alone] == [h.tokens for h in together[number]]
        for h in alone:
            target, lengths = pad([[*h.tokens, EOS] if h.finished else h.tokens], "cpu")
            with torch.no_grad(), evaluating(model):
                total = score(model, *pad([source], "cpu"), target, lengths).total
            assert total.item() == pytest.approx(h.log_probability, abs=1e-3)
