"""A language model by its folder or its ARPA file: raw text in, scores and text out."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anaphora
from anaphora.decoding.text_scoring import evaluate_lines, line_encoder, score_ids, score_lines, windows_for
from anaphora.errors import UserError
from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import EOS, UNK, Tokenizer
from ngram_folders import VERSE, mixture_folder, ngram_folder
from toy_recurrent import Recurrent

ASKED = ["the cat sat on the log", "", "a zebra saw the mat", "  \t ", "the"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    root = tmp_path_factory.mktemp("language")
    made = {
        "words": ngram_folder(root / "words"),
        "punctuation": ngram_folder(root / "punctuation", tokenizer={"kind": "word", "fallback": "unk"}),
        "spelled": ngram_folder(root / "spelled", tokenizer={"kind": "word"}, smoothing="add-k"),
        "characters": ngram_folder(root / "characters", tokenizer={"kind": "character"}, order=5),
        "bytes": ngram_folder(root / "bytes", tokenizer={"kind": "byte"}, order=4),
        "bpe": ngram_folder(root / "bpe", tokenizer={"kind": "bpe", "vocabulary": 300}),
        "stream": ngram_folder(root / "stream", boundaries="stream"),
        "dropped": ngram_folder(root / "dropped", blank_lines="drop"),
        "likelihood": ngram_folder(root / "likelihood", smoothing="maximum-likelihood"),
        "mixture": mixture_folder(root / "mixture", [VERSE[:3], VERSE[3:]], [0.3, 0.7]),
    }
    anaphora.load(made["words"]).save_arpa(root / "words.arpa")
    anaphora.load(made["words"]).save_arpa(root / "words.arpa.gz")
    return made | {"arpa": root / "words.arpa", "arpa.gz": root / "words.arpa.gz"}


NAMES = [
    "words", "punctuation", "spelled", "characters", "bytes", "bpe",
    "stream", "dropped", "likelihood", "mixture", "arpa", "arpa.gz",
]  # fmt: skip


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest, folders: dict[str, Path]) -> TextModel:
    return anaphora.load(folders[request.param])


# Scoring ------------------------------------------------------------------------------------------------------------


def test_every_way_of_scoring_agrees(model: TextModel) -> None:
    scored = list(model.score(ASKED))
    totals = model.log_probabilities(ASKED)
    assert [line.text for line in scored] == ASKED
    assert totals == pytest.approx([line.log_probability for line in scored])
    for line in scored:
        assert line.log_probability == pytest.approx(math.fsum(line.token_scores))
        assert len(line.tokens) == len(line.token_ids) == len(line.token_scores)
        assert line.orders is None or len(line.orders) == len(line.tokens)
        assert line.unknown == line.token_ids.count(UNK)
    found = model.evaluate(ASKED)
    assert found.log_probability == pytest.approx(float(totals.sum()))
    assert found.tokens == sum(len(line.tokens) for line in scored)
    assert found.unknown_tokens == sum(line.unknown for line in scored)
    if math.isfinite(found.log_probability):
        assert found.perplexity == pytest.approx(math.exp(-found.log_probability / found.tokens))
        assert found.bits_per_byte == pytest.approx(-found.log_probability / math.log(2) / found.bytes)
    assert found.lines + found.dropped_lines == len(ASKED)


def test_scores_are_those_of_the_contract(folders: dict[str, Path]) -> None:
    """Line by line through `score`, the slow way."""
    model = anaphora.load(folders["words"])
    for line, found in zip(ASKED, model.log_probabilities(ASKED)):
        ids = [*model.tokenizer.encode(line), EOS]
        assert model.model.score(torch.tensor([ids]), torch.tensor([len(ids)])).sum().item() == pytest.approx(found)


def test_a_stream_reads_on_across_line_ends(folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["stream"])
    lines = ["the cat sat", "the dog"]
    ids = [id for line in lines for id in (*model.tokenizer.encode(line), EOS)]
    whole = model.model.score(torch.tensor([ids]), torch.tensor([len(ids)]))[0]
    (one, two) = model.score(lines)
    assert [*one.token_scores, *two.token_scores] == pytest.approx(whole.tolist())
    assert two.log_probability != pytest.approx(next(iter(model.score(["the dog"]))).log_probability)
    assert model.evaluate(lines).log_probability == pytest.approx(whole.sum().item())
    assert model.evaluate(lines).boundaries == "stream"


def test_blank_lines_are_kept_or_left_out(folders: dict[str, Path]) -> None:
    kept, dropped = (anaphora.load(folders[name]).evaluate(ASKED) for name in ("words", "dropped"))
    assert (kept.lines, kept.dropped_lines, dropped.lines, dropped.dropped_lines) == (5, 0, 3, 2)
    assert kept.tokens == dropped.tokens + 2
    assert kept.bytes == sum(len(line) + 1 for line in ASKED)
    assert dropped.bytes == sum(len(line) + 1 for line in ASKED if line.strip())
    scored = list(anaphora.load(folders["dropped"]).score(ASKED))
    assert [len(line.tokens) for line in scored] == [7, 0, 6, 0, 2]


def test_unknown_tokens(folders: dict[str, Path]) -> None:
    found = anaphora.load(folders["words"]).evaluate(["the zebra saw the okapi"])
    assert (found.tokens, found.unknown_tokens) == (6, 2)
    assert found.perplexity_known < found.perplexity
    assert found.note is not None
    spelled = anaphora.load(folders["spelled"]).evaluate(["the zebra saw the okapi"])
    assert (spelled.unknown_tokens, spelled.note) == (0, None)
    assert spelled.tokens == 3 + 1 + len(" zebra") + len(" okapi")


def test_a_model_that_does_not_smooth_says_how_many_it_finds_impossible(folders: dict[str, Path]) -> None:
    found = anaphora.load(folders["likelihood"]).evaluate(["the cat sat", "mat mat"])
    assert found.impossible_tokens > 0
    assert found.perplexity == math.inf
    assert json.dumps(found.document())


@given(lines=st.lists(st.text(max_size=12), max_size=8))
def test_any_strings_are_scored_one_for_one(lines: list[str], request: Any) -> None:
    """Newlines inside, halves of characters, control characters: a line is a line."""
    for model in request.getfixturevalue("two_models"):
        scored = list(model.score(lines))
        assert len(scored) == len(lines)
        totals = model.log_probabilities(lines)
        assert totals == pytest.approx([line.log_probability for line in scored])
        for line, total in zip(lines, totals):
            assert model.log_probabilities([line])[0] == pytest.approx(total)


@pytest.fixture(scope="module")
def two_models(folders: dict[str, Path]) -> list[TextModel]:
    return [anaphora.load(folders[name]) for name in ("words", "bytes")]


def test_ids_in_rows_or_in_one_array(folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["words"])
    ids, starts = model.line_ids(ASKED)
    expected = model.log_probabilities(ASKED)
    assert model.score_ids(ids, starts) == pytest.approx(expected)
    rows = [ids[a:b].tolist() for a, b in pairwise(starts)]
    assert model.score_ids(rows) == pytest.approx(expected)
    assert model.score_ids([rows[0], [], rows[2]]) == pytest.approx([expected[0], 0.0, expected[2]])
    assert model.score_ids([]).shape == (0,)
    for wrong in ([0, 3, 2, len(ids)], [1, len(ids)], [0, 3], []):
        with pytest.raises(UserError, match="starts must go from 0"):
            model.score_ids(ids, np.array(wrong, np.int64))
    with pytest.raises(UserError, match="there is no token 99"):
        model.score_ids([[99]])


@pytest.mark.parametrize("id", [-1, 10**6, 2**32 + 4, 10**30])
def test_ids_that_there_are_not(id: int, folders: dict[str, Path]) -> None:
    for name in ("words", "mixture"):
        with pytest.raises(UserError, match=f"there is no token {id}: the model has"):
            anaphora.load(folders[name]).score_ids([[4, id], []])


def test_one_line_is_no_list_of_letters(model: TextModel) -> None:
    line = "the cat sat"
    assert model.log_probabilities(line) == model.log_probabilities([line])[0]
    assert model.log_probabilities(iter([line, line])).shape == (2,)


def test_what_need_not_sum_to_one_says_so(folders: dict[str, Path], tmp_path: Path) -> None:
    """Scores that sum to more make any text look likely."""
    scores = anaphora.load(ngram_folder(tmp_path / "scores", smoothing="stupid-backoff"))
    for model, sums in (
        (scores, False),
        (anaphora.load(folders["arpa"]), False),
        (anaphora.load(folders["words"]), True),
    ):
        note = model.evaluate(VERSE).note
        assert (note is None) if sums else ("need not sum to one" in (note or ""))
    assert scores.info()["normalised"] is False and anaphora.load(folders["arpa"]).info()["normalised"] is None
    assert anaphora.load(folders["mixture"]).info()["normalised"] is True
    assert any("need not sum to one" in note for note in scores.why("the").notes)
    assert not anaphora.load(folders["words"]).why("the").notes
    strange = scores.evaluate(["a zebra"]).note or ""
    assert "need not sum to one" in strange
    assert strange.startswith("unknown tokens: 1 of 3")


def test_unknown_words_are_named(folders: dict[str, Path], tmp_path: Path) -> None:
    line = anaphora.load(folders["words"]).score("a  zebra saw\tthe okapi")
    assert line.tokens == ["a", "⟨unk⟩", "saw", "the", "⟨unk⟩", "⟨/s⟩"]  # without a space that is no part of them
    assert (line.unknown, line.unknown_words) == (2, ["zebra", "okapi"])
    line = anaphora.load(folders["punctuation"]).score("the zebra, okapi cat")
    assert line.unknown_words == ["zebra", ",", "okapi"]
    folder = ngram_folder(tmp_path / "characters", tokenizer={"kind": "character", "fallback": "unk"})
    line = anaphora.load(folder).score("the ßat ü")
    assert line.unknown_words == ["ß", "ü"]


def test_the_name_of_a_file_is_not_its_text(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = anaphora.load(folders["words"])
    monkeypatch.chdir(tmp_path)
    Path("verse.txt").write_text("the cat\n")
    for ask in (model.evaluate, model.score, model.log_probabilities):
        for wrong in ("verse.txt", str(tmp_path / "verse.txt")):
            with pytest.raises(UserError, match=r"is a file, not lines of text; give Path\("):
                ask(wrong)
        with pytest.raises(UserError, match="not lines of text"):
            ask(b"the cat")  # type: ignore[arg-type]
    assert model.evaluate(["verse.txt"]).tokens == 2
    assert model.evaluate("the cat " * 2000).tokens == 4001  # no file has such a name


@pytest.mark.parametrize("rows", [np.array([4, 5, 2]), [4, 5, 2], [[[4]]], [[1.5]], [[True]], [["4"]]])
def test_what_are_no_rows_of_ids(rows: Any, folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=r"rows of ids are wanted|ids are whole numbers"):
        anaphora.load(folders["words"]).score_ids(rows)


def test_ids_and_back(model: TextModel) -> None:
    ids, rows = model.tokenize("the cat sat"), model.tokenize(["the cat sat", ""])
    assert ids[-1] == EOS and rows == [ids, [EOS]]
    assert model.detokenize(ids) == "the cat sat" and model.detokenize(rows) == ["the cat sat", ""]
    assert model.detokenize(np.array(ids)) == "the cat sat"
    assert model.score_ids(rows)[0] == pytest.approx(model.log_probabilities("the cat sat"))
    assert model.tokenize([]) == [] and model.detokenize([]) == ""
    for wrong in (None, 3, b"x", ["a"], [1.5], [[None]]):
        with pytest.raises(UserError, match="ids are whole numbers"):
            model.detokenize(wrong)  # type: ignore[call-overload]


def test_one_text_one_result(model: TextModel) -> None:
    one, many = model.score("the cat"), model.score(["the cat", "a dog"])
    assert isinstance(many, list) and one == many[0]
    assert isinstance(model.log_probabilities("the cat"), float)
    said, several = model.generate("the", seed=3), model.generate(["the"], seed=3)
    assert [said] == several == model.generate("the", seed=3, samples=1)
    assert model.generate(["the"], seed=3, samples=1) == [several]
    assert model.generate("the", seed=3, tokens=2) == model.generate("the", seed=3, max_new_tokens=np.int64(2))


def test_a_model_to_compare_with_is_a_loaded_one(folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="beside is 'runs/other'; give a language model that"):
        anaphora.load(folders["words"]).evaluate(["the cat"], beside="runs/other")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"samples": "many"}, "samples must be a whole number, not 'many'"),
        ({"samples": 2.5}, "samples must be a whole number"),
        ({"tokens": True}, "tokens must be a whole number"),
        ({"max_new_tokens": -3}, "-3 new tokens are asked for"),
        ({"max_length": 5}, "max_length has no meaning.*; tokens limits a text"),
        ({"max_tokens": 5}, "max_tokens has no meaning.*did you mean 'max_new_tokens'"),
        ({"zzz": 5}, "known: beam, .*, max_new_tokens, .*, tokens, top_k, top_p, unknown$"),
    ],
    ids=str,
)
def test_what_generate_cannot_be_asked_for(wrong: dict[str, Any], message: str, folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["words"])
    with pytest.raises(UserError, match=message):
        model.generate("the", **wrong)


def test_what_is_drawn_from_nothing_is_no_blank_line(tmp_path: Path) -> None:
    model = anaphora.load(ngram_folder(tmp_path / "model", ["", "", "", "", "a", "b"]))
    drawn = model.generate(samples=50)
    assert all(one.text in ("a", "b", "a b", "b a") or one.continuation for one in drawn)
    drawn = model.generate(samples=50, min_length=0)
    assert 10 < sum(one.text == "" for one in drawn) < 50
    alone, after = model.generate(["", "a"], samples=50)
    assert all(one.text for one in alone) and any(one.text == "a" for one in after)
    assert [one.text for one in alone] == [one.text for one in model.generate("", samples=50)]


def test_nothing_to_evaluate(model: TextModel) -> None:
    with pytest.raises(UserError, match="there is no text to evaluate"):
        model.evaluate([])
    assert model.log_probabilities([]).shape == (0,)
    assert list(model.score([])) == []


def test_a_text_in_windows_is_the_text(folders: dict[str, Path]) -> None:
    for name in ("words", "stream"):
        model = anaphora.load(folders[name])
        lines = [*VERSE, *ASKED]
        where = {"boundaries": model.boundaries}
        whole, parts = (evaluate_lines(model.model, model.line_ids, lines, window=n, **where) for n in (100, 2))
        assert parts.log_probability == pytest.approx(whole.log_probability)
        assert (parts.tokens, parts.bytes) == (whole.tokens, whole.bytes)
        by_two = score_lines(model.model, model.tokenizer, model.line_ids, lines, window=2, **where)
        assert [line.log_probability for line in by_two] == pytest.approx(model.log_probabilities(lines))


# A model of limited length ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundaries", ["lines", "stream"])
@pytest.mark.parametrize("stride", [None, 1, 2, 3, 4])
def test_rows_that_are_too_long_are_read_through_a_window(boundaries: Any, stride: int | None) -> None:
    """Each token is scored as in a text of its own that begins with ⟨s⟩ and ends with the window."""
    tokenizer = Tokenizer.of_words([f"w{n}" for n in range(8)])
    model = Recurrent(12, max_length=4)
    ids, starts = line_encoder(tokenizer)(["w1 w2 w3 w4 w5 w6 w0 w2 w3", "w1", "", "w7 w7 w7"])
    scores, orders, cut = score_ids(model, ids, starts, boundaries, stride=stride)
    assert orders is None
    assert cut == 1
    moved = stride or 2
    for begin, end in pairwise(starts if boundaries == "lines" else starts[[0, -1]]):
        for place in range(begin, end):
            windows = max(0, -(-(place + 1 - begin - 4) // moved))  # moves until it is reached
            last = min(begin + 4 + windows * moved, end)
            from_ = max(begin, last - 4)
            assert place - from_ >= min(place - begin, 4 - moved)  # context - stride
            own = torch.from_numpy(ids[from_ : place + 1].astype(np.int64))[None]
            expected = float(model.score(own, torch.tensor([own.shape[1]]))[0, -1])
            assert scores[place] == pytest.approx(expected, abs=1e-5)


@given(
    sizes=st.lists(st.integers(0, 30), max_size=6),
    longest=st.integers(1, 12),
    data=st.data(),
)
def test_windows_score_every_token_once(sizes: list[int], longest: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, longest))
    starts = np.cumsum([0, *sizes])
    windows = windows_for(starts, longest, stride)
    scored = np.zeros(int(starts[-1]), int)
    for begin, end, first in zip(windows.begin, windows.end, windows.first):
        row = int(np.searchsorted(starts, begin, "right")) - 1 if begin < end else None
        assert end - begin <= longest
        scored[first:end] += 1
        if row is not None:
            assert starts[row] <= begin <= first <= end <= starts[row + 1]
            assert first - begin >= min(first - starts[row], longest - stride)
    assert (scored == 1).all()
    assert windows.cut == sum(size > longest for size in sizes)


def test_a_short_text_needs_no_window() -> None:
    tokenizer = Tokenizer.of_words([f"w{n}" for n in range(8)])
    lines = ["w1 w2 w3", "w4", ""]
    encode = line_encoder(tokenizer)
    whole = evaluate_lines(Recurrent(12), encode, lines)
    short = evaluate_lines(Recurrent(12, max_length=5), encode, lines, stride=1)
    assert short.log_probability == pytest.approx(whole.log_probability)
    assert (short.context, short.stride, short.cut_rows) == (5, None, 0)
    assert evaluate_lines(Recurrent(12), encode, lines, context=3).stride == 1
    assert (whole.context, whole.stride) == (None, None)


def test_a_smaller_stride_costs_more_and_is_said() -> None:
    tokenizer = Tokenizer.of_words([f"w{n}" for n in range(8)])
    encode = line_encoder(tokenizer)
    lines = ["w1 w2 w3 w4 w5 w6 w7 w0 w1 w3 w5 w7 w1 w4"] * 3
    found = {
        stride: evaluate_lines(Recurrent(12, max_length=6), encode, lines, stride=stride) for stride in (None, 1, 5)
    }
    assert {key: (one.stride, one.context, one.cut_rows) for key, one in found.items()} == {
        None: (3, 6, 3),
        1: (1, 6, 3),
        5: (5, 6, 3),
    }
    assert len({one.log_probability for one in found.values()}) == 3
    assert found[None].document()["stride"] == 3
    narrow = evaluate_lines(Recurrent(12, max_length=6), encode, lines, context=4)
    assert (narrow.context, narrow.stride) == (4, 2)
    for stride in (0, 7):
        with pytest.raises(UserError, match="does not fit a context of 6"):
            evaluate_lines(Recurrent(12, max_length=6), encode, lines, stride=stride)
    with pytest.raises(UserError, match="reads on without end"):
        evaluate_lines(Recurrent(12), encode, lines, stride=2)


# Files --------------------------------------------------------------------------------------------------------------


def test_an_arpa_file_stands_in_a_folders_place(folders: dict[str, Path]) -> None:
    counted = anaphora.load(folders["words"])
    for name in ("arpa", "arpa.gz"):
        read = anaphora.load(folders[name])
        assert isinstance(read, TextModel)
        assert read.log_probabilities(ASKED) == pytest.approx(counted.log_probabilities(ASKED), abs=1e-5)
        assert read.evaluate(["<unk> cat"]).unknown_tokens == 1  # what such files call it
        assert read.info()["smoothing"] == "given"


def test_info(model: TextModel) -> None:
    found = model.info()
    assert json.dumps(found, default=str)
    assert found["vocabulary"] == model.tokenizer.vocabulary_size
    assert found["bytes_on_disk"] > 0
    assert found["parameters"] > 0
    assert found["boundaries"] in ("lines", "stream")
    if found["kind"] == "ngram":
        assert len(found["ngrams"]) == found["order"]
        assert sum(found["ngrams"]) == int(model.model.trie.limits[-1]) - 1  # padding is no n-gram
    else:
        assert [part["weight"] for part in found["parts"]] == [0.3, 0.7]


def test_unknown_handling_is_told(folders: dict[str, Path]) -> None:
    told = {name: anaphora.load(folders[name]).info()["tokenizer"]["unknown"] for name in ("words", "spelled", "bpe")}
    assert told == {"words": "one unknown token, ⟨unk⟩", "spelled": "spelled in bytes", "bpe": "spelled in bytes"}


def test_generate_through_the_api(model: TextModel) -> None:
    found = model.generate(["the", ""], samples=3, tokens=6, seed=4)
    assert [len(own) for own in found] == [3, 3]
    assert all(one.text.startswith("the") for one in found[0])
    assert found == model.generate(["the", ""], samples=3, tokens=6, seed=4)
    greedy = model.generate("the", greedy=True, tokens=6)
    assert greedy == model.generate("the", beam=1, tokens=6)
    with pytest.raises(UserError, match="temperature is for sampling"):
        model.generate("the", greedy=True, temperature=0.5)
    with pytest.raises(UserError, match="greedy is a beam of 1"):
        model.generate("the", greedy=True, beam=3)
    with pytest.raises(UserError, match="0 new tokens"):
        model.generate("the", tokens=0)


def test_a_prompt_of_several_lines(folders: dict[str, Path]) -> None:
    """A model that reads on across line ends has them as context; to another, a prompt is one line."""
    stream, lines = anaphora.load(folders["stream"]), anaphora.load(folders["words"])
    said = stream.generate("the cat sat\non the", greedy=True, tokens=5)
    assert said.prompt == "the cat sat\non the"
    ids = [*stream.tokenizer.encode("the cat sat"), EOS, *stream.tokenizer.encode("on the"), *said.token_ids]
    scores = stream.model.score(torch.tensor([ids]), torch.tensor([len(ids)]))[0]
    assert said.token_scores == pytest.approx(scores[-len(said.token_ids) :].tolist())
    one = lines.generate("the cat\nsat", greedy=True)
    assert one == lines.generate("the cat sat", greedy=True)


def test_settings_of_the_folder_hold_unless_changed(folders: dict[str, Path], tmp_path: Path) -> None:
    own = Path(shutil.copytree(folders["words"], tmp_path / "own"))
    text = (own / "config.yaml").read_text()
    assert "seed: 1" in text.split("decoding:")[1]
    head, tail = text.split("decoding:")
    (own / "config.yaml").write_text(head + "decoding:" + tail.replace("seed: 1", "seed: 9"))
    changed, plain = anaphora.load(own), anaphora.load(folders["words"])
    assert changed.generate("the", samples=5) == plain.generate("the", samples=5, seed=9)
    assert changed.generate("the", samples=5, seed=1) == plain.generate("the", samples=5)


def test_why_and_the_probability_it_explains(folders: dict[str, Path]) -> None:
    for name in ("words", "mixture"):
        model = anaphora.load(folders[name])
        found = model.why("the cat", top=3)
        assert len(found.document()["candidates"]) == 3
        assert found.holds


def test_why_reads_what_generate_reads(folders: dict[str, Path]) -> None:
    """Several lines are several lines to a model that reads on across their ends, and one to any other."""
    stream, lines = anaphora.load(folders["stream"]), anaphora.load(folders["words"])
    asked = "the cat\nthe dog"
    the, cat, dog = stream.tokenizer.encode("the cat dog")
    assert stream.why(asked).explanation.prefix == (the, cat, EOS, the, dog)
    assert lines.why(asked).explanation.prefix == (the, cat, the, dog)
    said = stream.generate(asked, greedy=True, tokens=1)
    found = stream.why(asked, top=1).explanation.candidates[0]
    assert (found.token, found.log_probability) == (said.token_ids[0], pytest.approx(said.token_scores[0]))


def test_save_arpa_overwrites_nothing(folders: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "x.arpa"
    file.write_text("precious")
    with pytest.raises(UserError, match="already exists"):
        anaphora.load(folders["words"]).save_arpa(file)
    assert file.read_text() == "precious"
    anaphora.load(folders["words"]).save_arpa(file, force=True)
    assert file.read_bytes() == folders["arpa"].read_bytes()


def test_save_arpa_of_what_is_no_table(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only an n-gram model can be written"):
        anaphora.load(folders["mixture"]).save_arpa(tmp_path / "x.arpa")
    with pytest.raises(UserError, match="cannot hold a model with smoothing add-k"):
        anaphora.load(folders["spelled"]).save_arpa(tmp_path / "x.arpa")
    assert not list(tmp_path.iterdir())


# What does not fit --------------------------------------------------------------------------------------------------


def test_another_tokeniser(folders: dict[str, Path], tmp_path: Path) -> None:
    own = Path(shutil.copytree(folders["words"], tmp_path / "own"))
    Tokenizer.of_words(["some", "other"]).save(own / "tokenizer.json")
    with pytest.raises(UserError, match="not the tokenizer that the model was made with"):
        anaphora.load(own)
    same_size = Tokenizer.of_words([f"w{n}" for n in range(anaphora.load(folders["words"]).model.vocabulary - 4)])
    same_size.save(own / "tokenizer.json")
    with pytest.raises(UserError, match="not the tokenizer that the model was made with"):
        anaphora.load(own)


def test_a_folder_without_numbers_or_with_damaged_ones(folders: dict[str, Path], tmp_path: Path) -> None:
    own = Path(shutil.copytree(folders["words"], tmp_path / "own"))
    weights = own / "model.safetensors"
    whole = bytearray(weights.read_bytes())
    whole[-3] ^= 1
    weights.write_bytes(whole)
    with pytest.raises(UserError, match="is damaged"):
        anaphora.load(own)
    weights.unlink()
    with pytest.raises(UserError, match="holds no model yet"):
        anaphora.load(own)


def test_a_mixture_that_lost_a_part(folders: dict[str, Path], tmp_path: Path) -> None:
    own = Path(shutil.copytree(folders["mixture"], tmp_path / "own"))
    shutil.rmtree(own / "part-2")
    with pytest.raises(UserError, match="there is no such folder"):
        anaphora.load(own)


def test_a_translator_is_no_language_model(micro: Path) -> None:
    with pytest.raises(UserError, match=r"is a translator \(transformer\), and this needs a language model"):
        TextModel(micro)


def test_scoring_loads_no_torch(folders: dict[str, Path]) -> None:
    """A counting model looks up numbers: two hundred megabytes less, and a second sooner."""
    code = (
        "import sys, anaphora; m = anaphora.load(sys.argv[1]); m.log_probabilities(['the cat']); m.evaluate(['a'])\n"
        "list(m.score(['the cat'])); assert 'torch' not in sys.modules, 'torch'"
    )
    for name in ("words", "mixture", "arpa"):
        done = subprocess.run([sys.executable, "-c", code, str(folders[name])], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
