"""Ensembles keep the translator's contract, and are what their members are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.decoding.beam_search import search
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.pair_scoring import score
from anaphora.decoding.translate import pad
from anaphora.errors import UserError
from anaphora.models import build
from anaphora.models import settings as model_settings
from anaphora.models.composites.ensemble import Ensemble
from anaphora.models.contracts import Translator
from anaphora.tokenizers.tokenizer import BOS, EOS

VOCABULARY, LONGEST = 23, 12


def one(kind: str, seed: int, **changes: Any) -> Translator:
    torch.manual_seed(seed)
    shape = {"kind": kind, "dim": 12, "layers": 1, "max_length": LONGEST, "dropout": 0.3, "tie": "target"}
    model = build(model_settings({**shape, **changes}), VOCABULARY, VOCABULARY)  # type: ignore[arg-type]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval().requires_grad_(False)


MEMBERS = {
    "transformer": one("transformer", 1, heads=2, feed_forward=16),
    "bahdanau": one("bahdanau", 2),
    "seq2seq": one("seq2seq", 3),
    "convs2s": one("convs2s", 4, max_length=10),
    "bytenet": one("bytenet", 5, max_length=11),
    "moe": one("moe", 6, layers=2, experts=4, experts_per_token=2),
    "gnmt": one("gnmt", 7, layers=2),
}
names = st.lists(st.sampled_from(sorted(MEMBERS)), min_size=2, max_size=3)
few = settings(max_examples=8)
sentence = st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=6)
pairs = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4)


def batch(some: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *pad([[*s, EOS] for s, _ in some], "cpu"), *pad([[*t, EOS] for _, t in some], "cpu")


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


@few
@given(chosen=names, some=pairs, mean=st.sampled_from(["probabilities", "logs"]), share=st.floats(0.05, 0.9))
def test_the_mean_by_its_definition_one_pass_or_steps(chosen: list[str], some: Any, mean: Any, share: float) -> None:
    weights = [share, *[(1 - share) / (len(chosen) - 1)] * (len(chosen) - 1)]
    members = [MEMBERS[name] for name in chosen]
    ensemble = Ensemble(members, weights, mean=mean)
    source, lengths, target, _ = batch(some)
    begun = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
    each = torch.stack([member.log_probabilities(source, begun, lengths).double() for member in members])
    shares = torch.tensor(weights, dtype=torch.double)[:, None, None, None]
    if mean == "probabilities":
        expected = (shares * each.exp()).sum(0).log()
    else:
        expected = (shares * each).sum(0).log_softmax(-1)
    found = ensemble.log_probabilities(source, begun, lengths)
    close(found, expected.float())
    close(found.exp().sum(-1), torch.ones(found.shape[:2]))
    state = ensemble.start(source, lengths, 1, LONGEST)
    for place in range(begun.shape[1]):
        said, after, _ = ensemble.step(begun[:, place], state)
        assert after is state
        close(said, found[:, place])


@few
@given(chosen=names, some=pairs, seed=st.integers(0, 99), sample=st.booleans())
def test_a_model_with_itself_is_the_model_and_order_changes_nothing(
    chosen: list[str], some: Any, seed: int, sample: bool
) -> None:
    source, lengths, target, sizes = batch(some)
    config = DecodingConfig(beam=3, n_best=3, sample=sample, seed=seed, max_length=8)

    def texts(model: Translator) -> list[list[list[int]]]:
        return [[found.tokens for found in found_ones] for found_ones in search(model, source, lengths, config)]

    alone = MEMBERS[chosen[0]]
    twice = Ensemble([alone, alone])
    assert texts(twice) == texts(alone)
    close(score(twice, source, lengths, target, sizes).total, score(alone, source, lengths, target, sizes).total)
    members = [MEMBERS[name] for name in chosen]
    there, back = Ensemble(members), Ensemble(members[::-1])
    assert texts(there) == texts(back)
    close(score(there, source, lengths, target, sizes).total, score(back, source, lengths, target, sizes).total)


@few
@given(chosen=names, some=pairs)
def test_a_member_without_weight_is_not_asked(chosen: list[str], some: Any) -> None:
    source, lengths, *_ = batch(some)
    first, *others = (MEMBERS[name] for name in chosen)
    lonely = Ensemble([first, *others], [1.0] + [0.0] * len(others))
    config = DecodingConfig(beam=2, n_best=2, max_length=8)
    assert search(lonely, source, lengths, config) == search(first, source, lengths, config)  # every number
    assert ("attends" in lonely.capabilities) == ("attends" in first.capabilities)


@few
@given(some=pairs)
def test_scoring_is_the_sum_of_the_search_s_steps(some: Any) -> None:
    source, lengths, *_ = batch(some)
    ensemble = Ensemble(list(MEMBERS.values()))
    for place, (found, *_) in enumerate(search(ensemble, source, lengths, DecodingConfig(beam=4, max_length=8))):
        if found.finished:
            target, sizes = pad([[*found.tokens, EOS]], "cpu")
            again = score(ensemble, source[place : place + 1], lengths[place : place + 1], target, sizes)
            assert found.log_probability == pytest.approx(float(again.total), abs=1e-4)


@few
@given(some=pairs)
def test_attention_is_the_mean_of_those_that_attend(some: Any) -> None:
    source, lengths, *_ = batch(some)
    chosen = ["transformer", "seq2seq", "bahdanau"]
    ensemble = Ensemble([MEMBERS[name] for name in chosen], [0.5, 0.3, 0.2])
    assert "attends" in ensemble.capabilities
    begin = torch.full((len(source),), BOS)
    _, _, looked = ensemble.step(begin, ensemble.start(source, lengths, 1, LONGEST), attention=True)
    each = {}
    for name in ("transformer", "bahdanau"):
        _, _, each[name] = MEMBERS[name].step(begin, MEMBERS[name].start(source, lengths, 1, LONGEST), attention=True)
    close(looked, (5 * each["transformer"] + 2 * each["bahdanau"]) / 7)
    assert "attends" not in Ensemble([MEMBERS["seq2seq"]] * 2).capabilities


@few
@given(some=pairs)
def test_a_member_may_read_other_tokens(some: Any) -> None:
    """One whose tokens are the ensemble's, shifted by one and each twice."""
    source, lengths, target, _ = batch(some)
    first, second = MEMBERS["transformer"], MEMBERS["bahdanau"]

    def reading(ids: list[int]) -> list[int]:
        return [4 + (id - 3) % (VOCABULARY - 4) for id in ids if id % 2]

    own, sizes = pad([[*reading(s), EOS] for s, _ in some], "cpu")
    expected = (
        first.log_probabilities(source, target, lengths).exp() + second.log_probabilities(own, target, sizes).exp()
    ) / 2
    found = Ensemble([first, second], readings=[None, reading])
    close(found.log_probabilities(source, target, lengths).exp(), expected)
    assert list(found.attending) == [0]
    too_many = Ensemble([first, second], readings=[None, lambda ids: [5] * 40])
    with pytest.raises(UserError, match=r"41 tokens as member 2 of the ensemble reads it, which can read 12; .*=[2-9]"):
        too_many.start(source, lengths, 1, LONGEST)


def test_costs_are_sums_and_limits_the_smallest() -> None:
    members = list(MEMBERS.values())
    ensemble = Ensemble(members)
    assert ensemble.parameter_count() == sum(member.parameter_count() for member in members)
    assert Ensemble([members[0]] * 2).parameter_count() == 2 * members[0].parameter_count()
    sizes = 30, 20, 6.0, 5.0
    assert ensemble.flops(*sizes) == pytest.approx(sum(member.flops(*sizes) for member in members))
    assert ensemble.cache_bytes_per_token() == sum(member.cache_bytes_per_token() for member in members)
    assert (ensemble.max_source_length, ensemble.max_target_length) == (10, 10)
    with pytest.raises(UserError, match="are no shares"):
        Ensemble(members[:4], [0.5, 0.5, 0.5, 0.5])
    with pytest.raises(UserError, match="7 models have 1 weights"):
        Ensemble(members, [1.0])
