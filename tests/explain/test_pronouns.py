"""How unevenly a pair of words is expected, and that `even` finds the sense and evens what it never looked at."""

from __future__ import annotations

import math

import pytest
import torch

from anaphora.decoding.text_scoring import line_encoder
from anaphora.errors import UserError
from anaphora.explain.pronouns import even, evenness, log_ratios, parted, prompts_for, tells_apart
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.patch import ALL, Add, ProjectOut, Scale
from anaphora.models.backpack.patched import WordLookup, apply
from anaphora.models.backpack.sense_table import SenseTable
from anaphora.tokenizers.tokenizer import BOS, Tokenizer
from sense_models import looked_up, small_backpack

WORDS = ("nurse", "doctor", "cook", "judge")  # two of each kind, and one of each in either half
PROMPTS = ("the {} said that", "a {} said that", "the {} said", "that {}")


def prejudiced() -> tuple[Backpack, Tokenizer, WordLookup]:
    """Sense 2 of nurses and cooks speaks for she, of doctors and judges for he; the rest says little about it, and all
    places have the same weight."""
    model, tokenizer = small_backpack()
    torch.nn.init.zeros_(model.query_key.weight)
    _, lookup = looked_up(model, tokenizer)
    table = SenseTable.build(model, torch.float32)
    he, she = (lookup(word).forms[0] for word in ("he", "she"))
    between = (model.vocabulary_matrix[he] - model.vocabulary_matrix[she]).detach()
    table.senses *= 0.05
    for word, sign in zip(WORDS, (-1, 1, -1, 1)):
        table.senses[lookup(word).forms[0], 2] += 8.0 * sign * between / between.norm() ** 2
    model.attach(table)
    return model, tokenizer, lookup


def test_the_ratio_is_the_mean_of_the_larger_by_the_smaller() -> None:
    model, tokenizer, lookup = prejudiced()
    pair = (lookup("he").forms[0], lookup("she").forms[0])
    prompts = [tokenizer.encode(text) for text in prompts_for(WORDS, PROMPTS[:2])]
    expected = []
    for prompt in prompts:
        with torch.no_grad():
            p = torch.softmax(model.mixed(torch.tensor([[BOS, *prompt]]))[0, -1] @ model.vocabulary_matrix.T, -1)
        expected.append(float(p[pair[0]] / p[pair[1]]))
    assert log_ratios(model, prompts, pair).exp().tolist() == pytest.approx(expected, rel=1e-4)
    found = evenness(model, prompts, pair)
    assert found.ratio == pytest.approx(sum(max(one, 1 / one) for one in expected) / len(expected), rel=1e-4)
    assert found.towards == sum(one > 1 for one in expected) / len(expected)
    other = evenness(model, prompts, (pair[1], pair[0]))  # whichever is the first
    assert other.ratio == pytest.approx(found.ratio)


def test_the_sense_is_found_and_what_was_held_out_is_evened_too() -> None:
    model, tokenizer, lookup = prejudiced()
    found = even(model, lookup, line_encoder(tokenizer), words=WORDS, templates=PROMPTS)
    assert max(range(4), key=found.telling.__getitem__) == 2
    (operation,) = found.operations
    assert operation == ProjectOut(words=WORDS, senses=(2,), direction=("he", "she"))  # the gentlest does
    assert found.chosen_before.ratio > 1.5
    assert found.held_before.ratio > 1.5
    assert found.chosen_after.ratio - 1 < 0.3 * (found.chosen_before.ratio - 1)
    assert found.held_after.ratio - 1 < 0.3 * (found.held_before.ratio - 1)
    assert model.rewrite is None
    assert found.held_after.prompts == 4


def test_what_the_rest_of_the_text_says_is_weighed_against() -> None:
    model, tokenizer, lookup = prejudiced()
    he, she = (lookup(word).forms[0] for word in ("he", "she"))
    between = (model.vocabulary_matrix[he] - model.vocabulary_matrix[she]).detach()
    assert model.table is not None
    for word in ("said", "that"):  # whoever said it, it was he
        model.table.senses[lookup(word).forms[0]] += 2.0 * between / between.norm() ** 2
    found = even(model, lookup, line_encoder(tokenizer), words=WORDS, templates=PROMPTS)
    out, add = found.operations
    assert isinstance(out, ProjectOut)
    assert isinstance(add, Add)
    assert add.by < 0  # towards she
    assert found.chosen_after.ratio - 1 < 0.5 * (found.chosen_before.ratio - 1)
    assert found.held_after.ratio - 1 < 0.5 * (found.held_before.ratio - 1)


def test_any_pair_can_be_asked_about() -> None:
    model, tokenizer, lookup = prejudiced()
    found = even(model, lookup, line_encoder(tokenizer), pair=("dog", "man"), words=WORDS, templates=PROMPTS)
    assert found.chosen_after.ratio <= found.chosen_before.ratio
    tokens = [lookup(word).chief[0] for word in (WORDS[0], WORDS[3])]
    told = tells_apart(model, tokens, (lookup("dog").forms[0], lookup("man").forms[0]))
    assert found.telling == pytest.approx(told.tolist())


def test_halves_are_parted_by_place_and_equal_prompts_count_once() -> None:
    assert parted(["a", "a", "b", "c", "d"]) == (["a", "c", "d"], ["a", "b"])
    model, tokenizer, lookup = prejudiced()
    once = even(model, lookup, line_encoder(tokenizer), words=WORDS, templates=PROMPTS)
    twice = even(model, lookup, line_encoder(tokenizer), words=WORDS, templates=(PROMPTS[0], *PROMPTS, PROMPTS[1]))
    assert twice == once


def test_too_few_words_are_said_with_those_that_are_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer, lookup = prejudiced()
    monkeypatch.setattr("anaphora.explain.pronouns.PROFESSIONS", ("nurse", *(f"smith{n}" for n in range(10))))
    with pytest.raises(
        UserError, match=r"1 word .*; no tokens of this model are 'smith0', .*, 'smith7' and 2 more; give"
    ):
        even(model, lookup, line_encoder(tokenizer), templates=PROMPTS)


def test_scaling_all_words_to_nothing_makes_everything_even() -> None:
    model, tokenizer, lookup = prejudiced()
    silent = apply(model, [Scale(words=ALL, by=0.0)], lookup)
    pair = (lookup("he").forms[0], lookup("she").forms[0])
    assert evenness(silent, [tokenizer.encode("the nurse")], pair).ratio == 1.0
    assert math.isclose(evenness(silent, [[]], pair).ratio, 1.0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"words": ("nurse",)}, "1 word and 4 prompts are too few"),
        ({"templates": ("the {}",)}, "4 words and 1 prompt are too few"),
        ({"templates": ("the {}", "the {}")}, "4 words and 1 prompt are too few: .* and two different prompts"),
        ({"templates": ("the {}", "{} or {}")}, "'{} or {}' has 2 places for a word, and one is needed; write {}"),
        ({"templates": ("the {}", "a nurse")}, "the prompt 'a nurse' has no place for a word; write {}"),
        ({"words": ("nurse", "zyzzyva", "cook")}, "'zyzzyva' is not in the vocabulary"),
        ({"pair": ("he", "zyzzyva")}, "'zyzzyva' is not in the vocabulary"),
    ],
)
def test_what_cannot_be_measured_is_said(how: dict[str, tuple[str, ...]], message: str) -> None:
    model, tokenizer, lookup = prejudiced()
    with pytest.raises(UserError, match=message):
        even(model, lookup, line_encoder(tokenizer), **{"words": WORDS, "templates": PROMPTS, **how})  # type: ignore[arg-type]
