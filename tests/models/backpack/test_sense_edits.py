"""What operations do to senses: the formulas, nothing else, in order, and from network and table alike."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.patch import (
    ALL,
    Add,
    Exchange,
    MadeFor,
    Operation,
    Patch,
    ProjectOut,
    Remove,
    Replace,
    Scale,
)
from anaphora.models.backpack.patched import WordLookup, apply, patched
from anaphora.models.backpack.sense_table import SenseTable
from anaphora.tokenizers.tokenizer import BOS, Tokenizer, TokenizerConfig
from anaphora.tokenizers.word_pieces import WordTokens
from sense_models import WORDS, looked_up, small_backpack

MODEL, TOKENIZER = small_backpack()
OWN, LOOKUP = looked_up(MODEL, TOKENIZER)
EVERY = torch.arange(MODEL.vocabulary)
word = st.sampled_from(WORDS)
words = st.one_of(st.just(ALL), st.lists(word, min_size=1, max_size=3, unique=True).map(tuple))
senses = st.one_of(st.just(ALL), st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True).map(tuple))
two = st.lists(word, min_size=2, max_size=2, unique=True)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Remove, words=words, senses=senses),
    st.builds(Scale, words=words, senses=senses, by=st.floats(-3, 3)),
    st.builds(ProjectOut, words=words, senses=senses, direction=two.map(tuple)),
    st.builds(Add, words=words, senses=senses, direction=two.map(tuple), by=st.floats(-3, 3)),
    st.builds(Replace, words=words, senses=senses, with_=word, sense=st.none() | st.integers(0, 3)),
    two.flatmap(lambda pair: st.builds(Exchange, words=words, out=st.just(pair[0]), in_=st.just(pair[1]))),
)
lists = st.lists(operations, max_size=4)


def id_of(word: str) -> int:
    (token,) = TOKENIZER.encode(word)
    return token


def senses_of(model: Backpack) -> Tensor:
    with torch.no_grad():
        return model.sense_vectors(EVERY)


def read_by_steps(model: Backpack, ids: Tensor) -> Tensor:
    state, said = model.start(len(ids), ids.shape[1]), []
    for column in ids.unbind(1):
        logs, state = model.step(column, state)
        said.append(logs)
    return torch.stack(said, dim=1)


BEFORE = senses_of(MODEL)
TEXT = torch.cat([torch.full((3, 1), BOS), torch.randint(4, MODEL.vocabulary, (3, 9))], dim=1)


def one(operation: Operation) -> Tensor:
    return senses_of(apply(MODEL, [operation], LOOKUP))


def test_each_operation_is_its_formula() -> None:
    sick, ill, she, he = (id_of(word) for word in ("sick", "ill", "she", "he"))
    table = MODEL.vocabulary_matrix.detach()
    assert one(Remove(words=("sick",), senses=(2,)))[sick, 2].eq(0).all()
    scaled = one(Scale(words=("sick",), senses=(1, 3), by=0.3))
    assert torch.equal(scaled[sick, [1, 3]], BEFORE[sick, [1, 3]] * 0.3)
    u = table[she] - table[he]
    u = u / u.norm()
    without = one(ProjectOut(words=("sick",), direction=("she", "he")))[sick]
    assert torch.allclose(without, BEFORE[sick] - (BEFORE[sick] @ u)[:, None] * u, atol=1e-6)
    added = one(Add(words=("sick",), senses=(1,), direction=("she", "he"), by=0.7))[sick, 1]
    assert torch.allclose(added, BEFORE[sick, 1] + 0.7 * u, atol=1e-6)
    logits = without @ table.T
    assert torch.allclose(logits[:, she], logits[:, he], atol=1e-5)  # it no longer tells them apart
    assert torch.allclose(one(Replace(words=("sick",), with_="ill"))[sick], BEFORE[ill], atol=1e-5)
    other = one(Replace(words=("sick",), senses=(0,), with_="ill", sense=3))
    assert torch.allclose(other[sick, 0], BEFORE[ill, 3], atol=1e-5)
    a, b = (table[token] / table[token].norm() for token in (she, he))
    exchanged = one(Exchange(words=("sick",), out="she", in_="he"))[sick]
    assert torch.allclose(exchanged, BEFORE[sick] + (BEFORE[sick] @ a)[:, None] * (b - a), atol=1e-6)


def test_a_word_after_a_hyphen_is_the_word_too() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word", fallback="unk"), ["twenty-five is five."])
    scaled = senses_of(apply(MODEL, [Scale(words=("five", "."), by=0.0)], WordLookup(tokenizer)))
    twenty, hyphen, after, verb, five, dot = tokenizer.encode("twenty-five is five.")
    assert scaled[[after, five, dot]].eq(0).all()
    assert torch.equal(scaled[[twenty, hyphen, verb]], BEFORE[[twenty, hyphen, verb]])


@settings(deadline=None, max_examples=40)
@given(operations)
def test_other_words_and_senses_keep_their_vectors_bit_for_bit(operation: Operation) -> None:
    after = one(operation)
    meant = torch.zeros(BEFORE.shape[:2], dtype=torch.bool)
    tokens = EVERY.tolist() if operation.words == ALL else [id_of(word) for word in operation.words]
    for sense in range(4) if operation.senses == ALL else operation.senses:
        meant[tokens, sense] = True
    assert torch.equal(after[~meant], BEFORE[~meant])


@settings(deadline=None, max_examples=30)
@given(lists, lists)
def test_patches_apply_in_order_and_the_model_stays_what_it_was(
    first: list[Operation], second: list[Operation]
) -> None:
    a, b = Patch(OWN, tuple(first)), Patch(OWN, tuple(second))
    at_once = patched(MODEL, TOKENIZER, [a, b])
    assert torch.equal(senses_of(at_once), senses_of(patched(MODEL, TOKENIZER, [Patch(OWN, (*first, *second))])))
    one_by_one = patched(patched(MODEL, TOKENIZER, [a]), TOKENIZER, [b])
    assert torch.equal(senses_of(at_once), senses_of(one_by_one))
    assert torch.equal(at_once.mixed(TEXT), one_by_one.mixed(TEXT))
    assert MODEL.rewrite is None
    assert torch.equal(senses_of(MODEL), BEFORE)


def test_half_precision_is_rounded_once() -> None:
    several = [ProjectOut(words=ALL, direction=("he", "she")), Exchange(words=ALL, out="ill", in_="great")]
    for operation in several:
        rewrite = apply(MODEL, [operation], LOOKUP).rewrite
        assert rewrite is not None
        half = BEFORE.bfloat16()
        assert torch.equal(rewrite(EVERY, half), rewrite(EVERY, half.float()).bfloat16())


def test_the_first_operation_comes_first() -> None:
    louder, other = Scale(words=("sick",), by=2.0), Replace(words=("sick",), with_="ill")
    sick, ill = id_of("sick"), id_of("ill")
    torch.testing.assert_close(senses_of(apply(MODEL, [louder, other], LOOKUP))[sick], BEFORE[ill])
    torch.testing.assert_close(senses_of(apply(MODEL, [other, louder], LOOKUP))[sick], 2 * BEFORE[ill])


def test_a_word_is_changed_inside_a_line_and_at_its_beginning() -> None:
    """A direction, and what a sense is replaced by, are of the form inside a line."""
    forms = {"sick": WordTokens("sick", (5, 9), ()), "ill": WordTokens("ill", (7, 8), ())}
    after = senses_of(apply(MODEL, [Replace(words=("sick",), with_="ill")], forms.__getitem__))
    torch.testing.assert_close(after[[5, 9]], BEFORE[[7, 7]])
    assert torch.equal(after[[7, 8]], BEFORE[[7, 8]])
    flat = senses_of(apply(MODEL, [ProjectOut(words=("sick",), direction=("ill",))], forms.__getitem__))
    left = flat[[5, 9]] @ MODEL.vocabulary_matrix.detach()[[7, 8]].T  # (forms, k, forms)
    assert left[..., 0].abs().max() < 1e-4 < left[..., 1].abs().max()


def test_an_empty_patch_changes_nothing_bit_for_bit() -> None:
    empty = patched(MODEL, TOKENIZER, [Patch(OWN), Patch(OWN)])
    lengths = torch.full((len(TEXT),), TEXT.shape[1])
    assert torch.equal(empty.mixed(TEXT), MODEL.mixed(TEXT))
    assert torch.equal(empty.score(TEXT, lengths), MODEL.score(TEXT, lengths))
    assert torch.equal(read_by_steps(empty, TEXT), read_by_steps(MODEL, TEXT))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.builds(Scale, words=words, senses=senses, by=st.floats(0.1, 8) | st.floats(-8, -0.1)), max_size=3))
def test_the_inverse_takes_a_patch_back(several: list[Scale]) -> None:
    patch = Patch(OWN, tuple(several))
    back = patched(MODEL, TOKENIZER, [patch, patch.inverse()])
    assert torch.allclose(senses_of(back), BEFORE, rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=15)
@given(lists)
def test_steps_and_one_pass_agree_and_so_do_table_and_network(several: list[Operation]) -> None:
    patch = Patch(OWN, tuple(several))
    changed = patched(MODEL, TOKENIZER, [patch])
    with torch.no_grad():
        at_once = torch.log_softmax(changed.mixed(TEXT) @ changed.vocabulary_matrix.T, dim=-1)
    assert torch.allclose(read_by_steps(changed, TEXT), at_once, atol=2e-5)
    tabled, _ = small_backpack()
    tabled.attach(SenseTable.build(tabled, torch.float32))
    by_table = patched(tabled, TOKENIZER, [patch])
    assert torch.allclose(senses_of(by_table), senses_of(changed), atol=1e-5)
    assert torch.allclose(read_by_steps(by_table, TEXT), at_once, atol=2e-5)


def test_projecting_out_twice_is_projecting_out_once() -> None:
    operation = ProjectOut(words=ALL, direction=("he", "she"))
    once, twice = one(operation), senses_of(apply(MODEL, [operation, operation], LOOKUP))
    assert torch.allclose(once, twice, atol=1e-6)
    whole = apply(MODEL, [operation], LOOKUP)
    with torch.no_grad():  # no sense of any word tells them apart: nor does any text
        logits = whole.mixed(TEXT) @ whole.vocabulary_matrix.T
    assert torch.allclose(logits[..., id_of("he")], logits[..., id_of("she")], atol=1e-4)


def test_a_replacement_finds_what_came_before_it() -> None:
    removed = [Remove(words=("ill",), senses=(1,)), Replace(words=("sick",), with_="ill")]
    after = senses_of(apply(MODEL, removed, LOOKUP))
    assert after[id_of("sick"), 1].eq(0).all()
    other = senses_of(apply(MODEL, removed[::-1], LOOKUP))
    assert torch.allclose(other[id_of("sick"), 1], BEFORE[id_of("ill"), 1], atol=1e-5)


def test_a_patch_of_other_weights_is_refused_and_a_word_that_is_not_there() -> None:
    other, _ = small_backpack(seed=4)
    with pytest.raises(UserError, match=r"fix\.json: this patch was made for another model: the senses of this one"):
        patched(other, TOKENIZER, [Patch(OWN, (Remove(words=("sick",)),))], files=["fix.json"])
    same, _ = small_backpack()
    patched(same, TOKENIZER, [Patch(OWN, (Remove(words=("sick",)),))])  # the same weights, read again
    with pytest.raises(UserError, match="the word 'zyzzyva' is not in the vocabulary"):
        patched(MODEL, TOKENIZER, [Patch(OWN, (Remove(words=("zyzzyva",)),))])
    with pytest.raises(UserError, match="there is no direction of 'she'"), torch.no_grad():
        flat, _ = small_backpack()
        flat.vocabulary_matrix[id_of("she")] = 0.0
        apply(flat, [ProjectOut(words=("sick",), direction=("she",))], LOOKUP)


def test_senses_kept_in_half_precision_are_edited_in_full() -> None:
    tabled, _ = small_backpack()
    tabled.attach(SenseTable.build(tabled))  # bfloat16
    own = MadeFor(OWN.vocabulary, OWN.senses, 4)
    changed = patched(tabled, TOKENIZER, [Patch(own, (ProjectOut(words=ALL, direction=("he", "she")),))])
    assert torch.allclose(senses_of(changed), one(ProjectOut(words=ALL, direction=("he", "she"))), atol=0.05)
