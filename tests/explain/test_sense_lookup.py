"""The senses of words: what each raises, the nearest of the whole vocabulary, and the lines that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaphora
from anaphora.errors import UserError
from anaphora.explain.draw.senses_picture import draw_senses
from anaphora.explain.draw.terminal import cells
from anaphora.explain.draw.walk_picture import walk_svg
from anaphora.explain.sense_lookup import nearest_senses
from anaphora.explain.sense_uses import TokenUses, Use, read_uses
from anaphora.tokenizers.tokenizer import BOS
from neural_folders import neural_folder
from neural_rungs import CAUSAL
from ngram_folders import VERSE, mixture_folder, ngram_folder

LSTM = {"encoder": "lstm", "heads": None, "feed_forward": None, "max_length": None}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    root = tmp_path_factory.mktemp("senses")
    return {
        "transformer": neural_folder(root / "t", "backpack"),
        "lstm": neural_folder(root / "l", "backpack", **LSTM),
        "bpe": neural_folder(root / "b", "backpack", tokenizer={"kind": "bpe", "vocabulary": 285}),
    }


@pytest.fixture(params=["transformer", "lstm", "bpe"])
def model(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Any:
    return anaphora.load(folders[request.param], "cpu")


def test_words_that_a_sense_raises_are_those_of_its_vector(model: Any) -> None:
    found = model.senses("cat", top=4)
    (piece,) = found.words[0].pieces
    ids = torch.tensor([piece.token])
    said = model.model.sense_vectors(ids)[0] @ model.model.vocabulary_matrix.T  # (k, V)
    assert len(piece.senses) == 2
    for sense in piece.senses:
        own = said[sense.number].clone()
        own[:2] = float("nan")  # ⟨pad⟩ and ⟨s⟩ follow nothing
        order = [token for token in own.argsort(descending=True).tolist() if own[token] == own[token]]
        if not model.tokenizer.has_unknown:
            order.remove(3)
        assert [moved.token for moved in sense.raises] == [found.name(token) for token in order[:4]]
        assert [token for token, _ in sense.lowers] == [found.name(token) for token in order[::-1][:4]]
        assert sense.raises[0].value == pytest.approx(float(own[order[0]]))
        assert sense.share is None and not sense.examples and not sense.nearest


@pytest.mark.parametrize("at_once", [1, 5, None])
def test_nearest_senses_are_those_of_a_plain_search(at_once: int | None) -> None:
    model = CAUSAL["backpack"]()
    asked = model.sense_vectors(torch.tensor([7]))[0]
    found = nearest_senses(model, asked, 6, without=(0, 1, 7), at_once=at_once)
    every = torch.nn.functional.normalize(model.sense_vectors(torch.arange(12)), dim=-1)  # (V, k, d)
    cosines = torch.einsum("vkd,nd->nvk", every, torch.nn.functional.normalize(asked, dim=-1))
    cosines[:, [0, 1, 7]] = -2
    for row, own in zip(found, cosines):
        best = own.flatten().topk(6)
        assert [(token * 4 + sense) for token, sense, _ in row] == best.indices.tolist()
        assert [value for _, _, value in row] == pytest.approx(best.values.tolist(), abs=1e-6)


def test_a_word_is_not_near_to_itself(model: Any) -> None:
    (piece,) = model.senses("cat", nearest=4).words[0].pieces
    for sense in piece.senses:
        assert len(sense.nearest) == 4
        assert not {piece.name, "⟨s⟩", "⟨pad⟩"} & {near.token for near in sense.nearest}


def test_the_uses_in_a_text_are_sums_of_alpha(model: Any) -> None:
    lines = [*VERSE, "nothing of it", "cat cat"]
    tokens = model.senses("cat").words[0].pieces[0].token
    uses = read_uses(model.model, model.tokenizer, lines, [(tokens,)])
    assert uses.lines == len(lines)
    own = uses.of((tokens,)).found
    expected = {}
    for number, line in enumerate(lines, start=1):
        ids = torch.tensor([[BOS, *model.tokenizer.encode(line)]])
        with torch.no_grad():
            alpha = model.model.sense_weights(ids)[0]  # (k, T, T)
        for place in (ids[0] == tokens).nonzero()[:, 0].tolist():
            expected[number, place] = alpha[:, :, place].sum(dim=1).numpy()
    assert len(own) == len(expected) >= 5
    order = [use.number for use in own]  # of the lines; within one, of the places
    for number in {*order}:
        these = [use.weights for use in own if use.number == number]
        assert np.allclose(these, [one for (line, _), one in expected.items() if line == number], atol=1e-5)
    for use in own:
        assert use.before + use.word + use.after == lines[use.number - 1] and use.word == "cat"


def test_shares_and_examples(model: Any) -> None:
    found = model.senses("cat", text=VERSE, examples=2)
    (piece,) = found.words[0].pieces
    assert piece.uses and found.lines_read == len(VERSE)
    assert sum(sense.share for sense in piece.senses) == pytest.approx(1)
    for sense in piece.senses:
        shares = [use.shares[sense.number] for use in sense.examples]
        assert len(shares) == 2 and shares == sorted(shares, reverse=True)
    (without,) = model.senses("cat", text=VERSE, examples=0).words[0].pieces
    assert without.uses == piece.uses and not any(sense.examples for sense in without.senses)
    with pytest.raises(UserError, match="examples is -1; ask for 0 lines or more"):
        model.senses("cat", text=VERSE, examples=-1)
    none = model.senses("cat", text=["the log", ""])
    assert none.words[0].pieces[0].uses == 0 and none.words[0].pieces[0].senses[0].share is None
    assert "the text does not hold 'cat'" in none.notes


def test_tables_fit_80_columns_and_the_document_holds_them(model: Any) -> None:
    found = model.senses(["cat", "sat", "cat"], text=VERSE, nearest=3, top=12)
    assert [word.word for word in found.words] == ["cat", "sat"]
    lines = list(found.lines(80))
    assert max(map(cells, lines)) <= 80
    assert sum("raises" in line for line in lines) == sum("nearest" in line for line in lines) == 4
    document = found.document()
    senses = document["words"][0]["tokens"][0]["senses"]
    assert len(senses) == 2 and len(senses[1]["raises"]) == 12 and len(senses[1]["nearest"]) == 3
    assert {"before", "word", "after", "line", "shares"} == set(senses[0]["examples"][0])


def test_a_word_that_is_no_token_is_looked_at_in_pieces(folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["bpe"], "cpu")
    found = model.senses("catalogue", text=["a catalogue of cats"])
    word = found.words[0]
    assert not word.whole and len(word.pieces) > 1
    assert found.document()["words"][0]["one_token"] is False
    lines = list(found.lines(80))
    assert "catalogue is no word of this vocabulary" in lines[0]
    assert all(piece.uses >= 1 for piece in word.pieces)  # pieces inside the word alone: not those of cats
    whole = [piece.token for piece in word.pieces]
    assert [piece.uses for piece in word.pieces] == [whole.count(token) for token in whole]
    drawn = draw_senses(model.senses(["catalogue", "cat"], top=2), format="svg").decode()  # comments say what is drawn
    assert drawn.count("(of catalogue) -->") == len(word.pieces) and "<!-- cat -->" in drawn


def test_marks_and_words_after_a_hyphen_are_looked_up_among_whole_words(tmp_path: Path) -> None:
    lines = ["twenty-five is five.", "five is . twenty.", "five-twenty"]
    model = anaphora.load(neural_folder(tmp_path / "m", "backpack", lines, tokenizer={"kind": "word"}), "cpu")
    dot, spaced = (model.tokenizer.encode(line)[-1] for line in ("five.", "five ."))
    found = model.senses([".", "five"], text=lines, top=400)
    assert not found.notes and found.words[0].whole and found.words[0].pieces[0].token == dot
    assert (found.name(dot), found.name(spaced)) == (".", "␣.")
    inside, after = model.tokenizer.encode("five-five")[::2]
    assert (found.name(inside), found.name(after)) == ("five", "·five")
    shown = list(found.lines(80))
    assert "  (as ., inside a line; there is also ␣.)" in shown
    assert "  (as five, inside a line; there is also ·five)" in shown


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_uses_of_a_word_are_those_of_all_its_tokens_where_they_are_whole(kind: str, tmp_path: Path) -> None:
    lines = ["He sat and He sat", "Hebei is in Hebei", "Héb", "“He”, (He), He", "SHe is He2"]
    settings = {"kind": kind, "vocabulary": 276}
    learned = [*lines, *["He sat on He sat", "He is (He) in"] * 9]
    model = anaphora.load(neural_folder(tmp_path / "m", "backpack", learned, tokenizer=settings), "cpu")
    inside, beginning = model.tokenizer.encode(" He"), model.tokenizer.encode("He")
    assert len(inside) == len(beginning) == 1 and inside != beginning
    assert beginning[0] in model.tokenizer.encode("SHe") and inside[0] in model.tokenizer.encode("a Heb")
    found = model.senses("He", text=lines, examples=9)
    (piece,) = found.words[0].pieces
    assert piece.token == inside[0] and piece.uses == 5
    used = {use.number for sense in piece.senses for use in sense.examples}
    assert used == {1, 4}
    assert sum(sense.share for sense in piece.senses) == pytest.approx(1)
    beside = model.senses(["He", "Heb"], text=[*lines, "a Heb"]).words
    assert [one.token for one in beside[1].pieces][:1] == inside and beside[1].pieces[0].uses == 1
    assert beside[0].pieces[0].uses == 5
    none = model.senses("He", text=["Hebei", "SHe"])
    assert none.words[0].pieces[0].uses == 0 and none.notes == ("the text does not hold 'He'",)


def test_a_word_of_a_script_without_spaces_is_found_in_a_line(tmp_path: Path) -> None:
    lines = ["猫が犬を見た", "犬が猫を見た"] * 9
    settings = {"kind": "bpe", "vocabulary": 290}
    model = anaphora.load(neural_folder(tmp_path / "m", "backpack", lines, tokenizer=settings), "cpu")
    found = model.senses("犬", text=["猫", "犬", "犬 犬", "a犬b"])
    assert found.words[0].whole and found.words[0].pieces[0].uses == 4


def test_what_has_no_senses_says_so(tmp_path: Path, folders: dict[str, Path]) -> None:
    plain = anaphora.load(neural_folder(tmp_path / "lstm", "lstm"), "cpu")
    with pytest.raises(UserError, match=r"left to right \(lstm\) does not have senses of words.*backpack"):
        plain.senses("cat")
    counted = anaphora.load(ngram_folder(tmp_path / "ngram"), "cpu")
    with pytest.raises(UserError, match=r"a counting model \(ngram\) does not have senses of words"):
        counted.senses("cat")
    mixed = anaphora.load(mixture_folder(tmp_path / "mix", [VERSE, VERSE[:3]], [0.5, 0.5]), "cpu")
    with pytest.raises(UserError, match=r"a mixture \(mixture\) does not have senses"):
        mixed.senses("cat")
    model = anaphora.load(folders["transformer"], "cpu")
    with pytest.raises(UserError, match=r"'elephant' is not in the vocabulary"):
        model.senses("elephant")
    with pytest.raises(UserError, match="no word is given"):
        model.senses([])


def test_a_long_line_is_shown_around_the_word() -> None:
    use = Use(1, "word " * 40, "bank", " and" * 40, np.ones(2))
    line = use.line(60)
    assert cells(line) <= 60 and "[bank]" in line and line.startswith("…") and line.endswith("…")
    assert Use(1, "", "bank", " of it", np.ones(2)).line(60) == "[bank] of it"


@pytest.mark.parametrize("form", ["png", "svg"])
def test_a_picture_of_senses(form: str, folders: dict[str, Path]) -> None:
    found = anaphora.load(folders["transformer"], "cpu").senses(["cat", "mat"], text=VERSE)
    drawn = draw_senses(found, format=form)
    assert drawn.startswith(b"\x89PNG" if form == "png" else b"<?xml")
    assert drawn == draw_senses(found, format=form)


def test_weights_that_a_topic_raised_share_one_scale_from_0(folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["transformer"], "cpu")
    plain = model.why("the dog").pictures(folders["transformer"])["alpha"]
    assert "from 0 to 1<" in walk_svg([plain]) and all(step.shares for step in plain.steps)
    topic = anaphora.make_patch(model, topic="cats=cat,mat", factors=(3, 2, 1, 0.5))
    drawn = model.patched(topic).why("the dog").pictures(folders["transformer"])
    steps = drawn["alpha"].steps
    largest = max(float(step.values.max()) for step in steps)
    assert largest > 1 and {step.up_to for step in steps} == {largest}
    picture = walk_svg([drawn["alpha"]])
    assert f"from 0 to {largest:.3g}<" in picture and "brown below 0" not in picture
    assert drawn["shares"].steps[0].up_to == drawn["shares"].steps[0].values.max()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_in_pieces_is_used_wherever_it_stands_whole(kind: str, tmp_path: Path) -> None:
    settings, lines = {"kind": kind, "vocabulary": 276}, ["a zoo is a zoo", "the zoo in zoos"] * 9
    model = anaphora.load(neural_folder(tmp_path / "m", "backpack", lines, tokenizer=settings), "cpu")
    inside, beginning = model.tokenizer.encode(" zoobu"), model.tokenizer.encode("zoobu")
    assert len(inside) > 1 and len(beginning) > 1 and inside != beginning
    (word,) = model.senses("zoobu", text=["a zoobu", "zoobus"]).words  # as it stands inside a line, there alone
    assert [piece.token for piece in word.pieces] == [*dict.fromkeys(inside)] and word.spellings == (tuple(inside),)
    found = model.senses("zoobu", text=["zoobu is here", "a (zoobu), a zoobu", "zoobus"])
    (word,) = found.words
    assert not found.notes and word.spellings == (tuple(inside), tuple(beginning))
    uses = {piece.token: piece.uses for piece in word.pieces}
    assert uses[beginning[0]] == 2 * beginning.count(beginning[0]) and uses[inside[0]] == inside.count(inside[0])
    assert uses[inside[-1]] == 3
    assert "and without a space before it" in " ".join(found.lines(200))


def test_letters_of_several_bytes_and_accents_belong_to_a_word(tmp_path: Path) -> None:
    lines = ["a cat sat", "cat"] * 9
    settings = {"kind": "bpe", "vocabulary": 264}
    model = anaphora.load(neural_folder(tmp_path / "m", "backpack", lines, tokenizer=settings), "cpu")
    assert len(model.tokenizer.encode("é")) == 2 and model.senses("cat").words[0].whole
    for line, uses in (("catée", 0), ("écat", 0), ("cat\u0301", 0), ("cat é", 1), ("é cat", 1), ("cat…", 1)):
        assert model.senses("cat", text=[line]).words[0].pieces[0].uses == uses, line


def test_a_word_of_bytes_inside_a_longer_one_is_no_use_of_it(tmp_path: Path) -> None:
    lines = ["the cat sat"] * 3
    model = anaphora.load(neural_folder(tmp_path / "m", "backpack", lines, tokenizer={"kind": "word"}), "cpu")
    found = model.senses("zu", text=["zu", "zub", "azu", "the zu sat"])
    assert not found.words[0].whole and [piece.uses for piece in found.words[0].pieces[-2:]] == [2, 2]


def test_lines_are_numbered_through_the_text_and_cut_ones_counted(tmp_path: Path) -> None:
    model = anaphora.load(neural_folder(tmp_path / "m", "backpack", max_length=8), "cpu")
    lines = ["the mat"] * 1500 + ["the cat", "the " * 30, "the cat " * 30]
    found = model.senses("cat", text=lines, examples=1)
    assert found.lines_read == 1503
    assert {use.number for sense in found.words[0].pieces[0].senses for use in sense.examples} <= {1501, 1503}
    assert [note for note in found.notes if note.startswith("1 line that holds them")]


def test_a_share_is_of_all_weight_that_a_text_gives_a_word(folders: dict[str, Path]) -> None:
    uses = TokenUses([Use(1, "", "cat", "", np.array([1.0, 3.0])), Use(2, "", "cat", "", np.array([8.0, 0.0]))])
    assert [uses.share(sense) for sense in (0, 1)] == [9 / 12, 3 / 12]
    assert TokenUses([Use(1, "", "cat", "", np.zeros(2))]).share(0) is None and TokenUses().share(0) is None
    model = anaphora.load(folders["transformer"], "cpu")
    silent = anaphora.make_patch(model, topic="all=cat,mat", factors=(0, 0, 0, 0), fade=1.0)
    (word,) = model.patched(silent).senses("cat", text=VERSE).words
    assert word.pieces[0].uses and [sense.share for sense in word.pieces[0].senses] == [None, None]
