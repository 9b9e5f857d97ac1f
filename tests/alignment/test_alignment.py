"""Alignments: from tokens to words by hand, the same for every search, rows that sum to one, a choice without gold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anaphora
from anaphora.alignment import alignment_method
from anaphora.alignment.agreement import Agreement
from anaphora.alignment.aligned_pairs import Pairs, to_words
from anaphora.alignment.alignment_method import Choice, choose_for_folder, choose_method, read_choice, write_choice
from anaphora.alignment.links import RULES, links_of
from anaphora.alignment.model_alignment import Alignment, Method, align_pairs, cross_attentions, normalize
from anaphora.errors import UserError
from anaphora.nn.attention_capture import capture
from anaphora.tokenizers.tokenizer import BOS, EOS
from micro_runs import pairs

LINES = ["the old dog sees a cat.", "", "a big red ball", "not here today, not there!", "日本 👍🏽 the dog"]


@pytest.fixture(scope="module")
def model(micro: Path) -> Any:
    loaded = anaphora.load(micro, "cpu")
    torch.manual_seed(5)
    for parameter in loaded.model.parameters():  # two updates have not taught it to look anywhere in particular
        torch.nn.init.normal_(parameter, std=0.3)
    return loaded


# From weights to words and links --------------------------------------------------------------------------------------


def test_tokens_to_words_by_hand() -> None:
    # source: two words of two tokens and one, and an end mark; target: words of one and of two tokens
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0], [0.2, 0.2, 0.0, 0.6]])
    source, target = np.array([[0, 1], [0, 1], [1, 2]]), np.array([[0, 1], [1, 2], [1, 2]])
    found = to_words(weights, source, target, np.array([1, 0.5]), 2)
    np.testing.assert_allclose(found, [[0.3, 0.3, 0.4], [0.45, 0.25, 0.3]])
    real, end_mark = normalize(found)
    np.testing.assert_allclose(real, [[0.5, 0.5], [0.45 / 0.7, 0.25 / 0.7]], rtol=1e-6)
    np.testing.assert_allclose(end_mark, [0.4, 0.3], rtol=1e-6)


def test_a_token_that_spells_two_words_is_shared() -> None:
    found = to_words(np.array([[0.6, 0.4]]), np.array([[0, 2]]), np.array([[0, 1]]), np.array([1.0]), 2)
    np.testing.assert_allclose(found, [[0.3, 0.3, 0.4]])


def test_rules_by_hand() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
    assert links_of(weights, "target") == [(0, 0), (0, 1), (2, 2)]
    assert links_of(weights, "source") == [(0, 0), (1, 1), (2, 2)]
    assert links_of(weights, "intersection") == [(0, 0), (2, 2)]
    assert links_of(weights, "union") == [(0, 0), (0, 1), (1, 1), (2, 2)]
    assert links_of(weights, "grow") == [(0, 0), (0, 1), (1, 1), (2, 2)]
    assert links_of(np.zeros((2, 3)), "union") == []
    assert links_of(np.zeros((0, 3)), "target") == []


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_rules_contain_one_another(rows: int, columns: int, seed: int) -> None:
    weights = np.random.default_rng(seed).random((rows, columns))
    by = {rule: set(links_of(weights, rule)) for rule in RULES}
    assert by["intersection"] == by["target"] & by["source"]
    assert by["union"] == by["target"] | by["source"]
    assert by["intersection"] <= by["grow"] <= by["union"]
    assert len(by["target"]) == rows
    assert len(by["source"]) == columns


# Methods --------------------------------------------------------------------------------------------------------------

methods = st.builds(
    lambda layer, head, row, rule: Method(layer=layer, head=None if layer is None else head, row=row, rule=rule),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.sampled_from(["predicts", "reads"]),
    st.sampled_from(RULES),
)


@given(methods)
def test_a_methods_name_is_read_back(method: Method) -> None:
    assert Method.parse(method.name) == method
    assert "row = the step that" in method.explain()[1]


@pytest.mark.parametrize("name", ["", "x", "1", "1.", ".1", "1.x", "mean.2", "1.0:sideways", "-1.0", "²·0"])
def test_no_such_method(name: str) -> None:
    with pytest.raises(UserError, match="there is no alignment method"):
        Method.parse(name)


def test_layers_and_heads_that_are_not_there(model: Any) -> None:
    with pytest.raises(UserError, match="no decoder layer 7; choose one of 0 to 0"):
        Method.parse("7.0").check(model.model)
    with pytest.raises(UserError, match="no head 9; choose one of 0 to 1"):
        Method.parse("0.9").check(model.model)


# Alignments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["0.0", "0.1:reads:union", "0.mean:grow", "mean:source", "occlusion"])
def test_rows_sum_to_one_over_the_words(model: Any, name: str) -> None:
    targets = ["der alte Hund", "leer", "", "nicht heute hier, nein!", "日本 👍🏽 der Hund"]
    for source, target, found in zip(
        LINES, targets, model.align(LINES, targets, method=Method.parse(name)), strict=True
    ):
        assert found.weights.shape == (len(found.target), len(found.source))
        assert [source[word.start : word.end] for word in found.source] == [word.text for word in found.source]
        assert [target[word.start : word.end] for word in found.target] == [word.text for word in found.target]
        sums = found.weights.sum(axis=1)
        assert np.all(np.isclose(sums, 1, atol=1e-5) | (sums == 0))
        assert np.all((found.end_mark >= 0) & (found.end_mark <= 1))
        assert all(0 <= s < len(found.source) and 0 <= t < len(found.target) for s, t in found.links)
        if found.source and found.target and name != "occlusion":
            assert np.all(sums > 0)
            assert found.links


@pytest.mark.parametrize("row", ["predicts", "reads"])
def test_weights_are_those_of_the_captured_head(model: Any, row: str) -> None:
    source, target = "the dog sees a cat", "der Hund sieht ein"
    (found,) = model.align([source], [target], method=Method(layer=0, head=1, row=row))  # type: ignore[arg-type]
    read, said = model.source_tokenizer.encode(source), model.target_tokenizer.encode(target)
    with torch.no_grad(), capture(model.model, cross_attentions(model.model), [1]) as seen:
        model.model(torch.tensor([[*read, EOS]]), torch.tensor([[BOS, *said]]))
    (weights,) = seen.weights(cross_attentions(model.model)[0])[:, 0].numpy()  # (T + 1, S + 1)
    rows = weights[1:] if row == "reads" else weights[:-1]
    pair = Pairs(model.source_tokenizer, model.target_tokenizer).of(source, target, [(read, said)])
    expected = to_words(rows, pair.source_spans, pair.target_spans, pair.target_share(), len(pair.source))
    np.testing.assert_allclose(found.weights, normalize(expected)[0], atol=1e-5)


def test_the_same_output_has_the_same_alignment_in_every_search(model: Any) -> None:
    lines = [source for source, _ in pairs(12, seed=4)]
    greedy = model.translate(lines, beam=1, align=True)
    sampled = model.translate(lines, sample=True, top_k=1, beam=1, align=True)
    forced = model.translate(lines, beam=1, prefixes=[t.text[:3] for t in greedy], align=True)
    shuffled = model.translate(lines[::-1], beam=1, align=True)[::-1]  # other neighbours in the batch
    beamed = model.translate(lines, beam=4, align=True)
    given_pairs = list(model.align(lines, [t.text for t in greedy]))
    same = 0
    for first, *others in zip(greedy, sampled, shuffled, beamed, forced, strict=True):
        assert first.alignment.links or not first.alignment.target
        for other in others:
            if (other.text, other.token_ids) == (first.text, first.token_ids):
                same += 1
                assert other.alignment.links == first.alignment.links
                np.testing.assert_allclose(other.alignment.weights, first.alignment.weights, atol=1e-5)
    assert same >= 24
    for first, given_one in zip(greedy, given_pairs):
        if model.target_tokenizer.encode(first.text) == first.token_ids[0][1]:
            assert given_one.links == first.alignment.links


def test_without_being_asked_nothing_is_aligned(model: Any) -> None:
    assert model.translate(LINES[0]).alignment is None


def test_a_line_in_pieces_has_one_alignment_and_pieces_do_not_mix(model: Any) -> None:
    line = "the old dog sees a cat. the young cat hears a dog. not here today."
    translation = model.translate(line, beam=1, max_source_tokens=16, align=True)
    assert translation.pieces > 1
    found = translation.alignment
    assert [word.text for word in found.source] == [
        word.text for word in Pairs(model.source_tokenizer, model.target_tokenizer).of(line, "", []).source
    ]
    pair = Pairs(model.source_tokenizer, model.target_tokenizer).of(line, translation.text, translation.token_ids)
    seen = np.zeros(found.weights.shape, dtype=bool)
    for source, target in pair.spans():
        for first, stop in target.tolist():
            for begin, end in source.tolist():
                seen[first:stop, begin:end] = True
    assert (found.weights[~seen] == 0).all()
    assert not seen.all()
    assert np.isclose(found.weights.sum(axis=1), 1, atol=1e-5).all()


def test_a_pair_too_long_for_the_model_says_so(model: Any) -> None:
    long = "the dog " * 60
    found, short = model.align([long, "the dog"], ["der Hund", "der Hund"])
    assert "the model can read 64" in found.problem
    assert found.links == []
    assert found.weights.shape == (2, 120)
    assert short.problem is None


def test_a_book_on_one_line_costs_no_memory(model: Any) -> None:
    book = "the dog " * 1500
    (translation,) = model.translate([book], beam=1, max_length=8, align=True)
    (given_pair,) = model.align([book], [book])
    for found in (translation.alignment, given_pair):
        assert found.problem is None or "words are too many to align" in found.problem
    assert "3,000 × 3,000" in given_pair.problem
    assert given_pair.weights.size == 0
    assert given_pair.pharaoh() == ""


def test_a_target_as_long_as_the_model_allows(model: Any) -> None:
    maker = Pairs(model.source_tokenizer, model.target_tokenizer)
    said = model.target_tokenizer.encode("der Hund " * 40)[: model.model.max_target_length]
    text = model.target_tokenizer.decode(said)
    pair = maker.of("the dog", text, [(model.source_tokenizer.encode("the dog"), said)])
    from anaphora.alignment.model_alignment import align

    for row in ("predicts", "reads"):
        (found,) = align(model.model, [pair], Method(layer=0, row=row), "punctuation")  # type: ignore[arg-type]
        assert np.isclose(found.weights[:-1].sum(axis=1), 1, atol=1e-5).all()


@given(text=st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace").decode()))
def test_any_text_is_aligned(micro: Path, text: str) -> None:
    loaded = _loaded(micro)
    tokenizers = loaded.source_tokenizer, loaded.target_tokenizer
    found = list(align_pairs(loaded.model, *tokenizers, [(text, "der"), ("the", text)], Method()))
    assert [one.source_text for one in found] == [text.rstrip("\r\n"), "the"]
    for one in found:
        assert json.loads(json.dumps(one.document()))


_cache: dict[Path, Any] = {}


def _loaded(folder: Path) -> Any:
    return _cache.setdefault(folder, anaphora.load(folder, "cpu"))


def test_the_trace_is_read_back(model: Any) -> None:
    (found,) = model.align(["the <dog> & cat"], ['der "Hund"'])
    document = json.loads(json.dumps(found.document()))
    again = Alignment.from_document(document)
    assert again.document() == document
    assert again.links == found.links
    assert (document["anaphora_trace"], document["kind"], document["base"]) == (1, "alignment", 0)
    with pytest.raises(UserError, match="no alignment trace of version 1"):
        Alignment.from_document({**document, "anaphora_trace": 2})


# The choice -----------------------------------------------------------------------------------------------------------


def test_the_head_that_aligns_is_found_without_gold(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2 layers of 2 heads one looks where it should, a step late; the others look anywhere."""
    lines = [(source.rstrip("."), target.rstrip(".")) for source, target in pairs(40, seed=9)]
    made = Pairs(model.source_tokenizer, model.target_tokenizer).texts(lines)
    random = np.random.default_rng(1)

    def maps(model: Any, given: Any, paths: Any, heads: Any, *, mean: bool, batch_tokens: int) -> Any:
        for number, pair in enumerate(given):
            ((read, said),) = pair.pieces
            weights = random.random((2, 2, len(said) + 1, len(read) + 1))
            right = np.full((len(said) + 1, len(read) + 1), 0.01)
            for token, (word, _) in enumerate(pair.target_spans.tolist()):
                right[token + 1, :-1][pair.source_spans[:, 0] == word] = 1  # word by word, and read, not predicted
            weights[1, 0] = right
            yield number, 0, weights / weights.sum(axis=-1, keepdims=True)

    monkeypatch.setattr(alignment_method, "attention_maps", maps)
    teacher = Agreement.fit([source.split() for source, _ in lines], [target.split() for _, target in lines])
    method, disagreement = choose_method(model.model, made, teacher)
    assert (method.layer, method.head, method.row) == (1, 0, "reads")
    assert disagreement < 0.1


def test_the_choice_is_made_at_the_end_of_training_and_kept(micro: Path, tmp_path: Path) -> None:
    choice = read_choice(micro)
    assert choice is not None
    assert "no gold was used" in choice.reason
    assert anaphora.load(micro, "cpu").alignment_choice == choice
    write_choice(tmp_path, choice)
    assert read_choice(tmp_path) == choice
    for text in ("{", "[]", '{"anaphora_alignment": 2}', '{"anaphora_alignment": 1, "method": {"layer": -2}}'):
        (tmp_path / "alignment.json").write_text(text)
        assert read_choice(tmp_path) is None


def test_a_folder_without_a_choice_gets_one_or_a_default(micro: Path, model: Any, tmp_path: Path) -> None:
    import shutil

    tokenizers = model.source_tokenizer, model.target_tokenizer
    plain = choose_for_folder(tmp_path, model.model, tokenizers)
    assert plain == Choice(Method(), None, plain.reason)
    assert "no text to choose on" in plain.reason
    guided = choose_for_folder(tmp_path, model.model, tokenizers, guided=(None, 1))
    assert (guided.method.layer, guided.method.head) == (0, 1)
    shutil.copytree(micro / "data", tmp_path / "data")
    chosen = choose_for_folder(tmp_path, model.model, tokenizers)
    assert "no gold was used" in chosen.reason
    assert read_choice(tmp_path) == chosen


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        '{"anaphora_alignment": 1, "method": "x", "reason": "y"}',
        '{"anaphora_alignment": 1, "method": {"layer": "two"}, "reason": "y"}',
        '{"anaphora_alignment": 1, "method": {"layer": -7}, "reason": "y"}',
        '{"anaphora_alignment": 1, "method": {"layer": 1, "head": true}, "reason": "y"}',
    ],
)
def test_a_damaged_choice_is_no_choice(tmp_path: Path, document: str) -> None:
    (tmp_path / "alignment.json").write_text(document, encoding="utf-8")
    assert read_choice(tmp_path) is None
