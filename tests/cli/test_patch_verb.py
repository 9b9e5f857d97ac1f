"""`anaphora patch` and `--patch`: made, shown, used by generate, score and evaluate, refused for another model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.pipelines.patching import around
from neural_folders import neural_folder
from ngram_folders import VERSE

TEXT = "\n".join(VERSE[:12]) + "\n"
WORD = next(word for word in VERSE[0].split() if word.isalpha())
OTHER = next(word for word in VERSE[1].split() if word.isalpha() and word != WORD)


@pytest.fixture(scope="module")
def backpack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return neural_folder(tmp_path_factory.mktemp("patch") / "backpack", "backpack", senses=4)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same over subwords."""
    settings = {"kind": "bpe", "vocabulary": 300}
    return neural_folder(tmp_path_factory.mktemp("patch") / "pieces", "backpack", tokenizer=settings, senses=4)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_a_patch_is_made_shown_and_used(say: Any, backpack: Path, text: Path, tmp_path: Path) -> None:
    fix = tmp_path / "fix.json"
    made = say("patch", backpack, fix, "--remove", f"{WORD}#1", "--scale", f"{OTHER}#0,2=0.5", "--text", text, "--json")
    assert made.code == 0, made.err
    told = json.loads(made.last)
    assert told["patch"] == json.loads(fix.read_text())
    assert [one["do"] for one in told["patch"]["operations"]] == ["remove", "scale"]
    effect = told["side_effect"]
    assert effect["kl"] > 0
    plain = json.loads(say("evaluate", backpack, "--text", text, "--json").last)
    patched = json.loads(say("evaluate", backpack, "--text", text, "--patch", fix, "--json").last)
    assert effect["perplexity_before"] == pytest.approx(plain["perplexity"], rel=1e-5)
    assert effect["perplexity_after"] == pytest.approx(patched["perplexity"], rel=1e-5)
    assert patched["perplexity"] != plain["perplexity"]
    scored = json.loads(say("score", backpack, "--text", text, "--patch", fix, "--json").last)
    total = sum(line["log_probability"] for line in scored["scores"])
    assert total == pytest.approx(patched["log_probability"], rel=1e-5)
    said = say("generate", backpack, WORD, "--greedy", "--tokens", 8, "--patch", fix, "--json")
    assert json.loads(said.last)["patches"] == [str(fix)]
    shown = say("patch", backpack, "--from", fix, "--show")
    assert shown.code == 0
    assert shown.out.startswith(f"remove {WORD}#1\nscale {OTHER}#0,2=0.5\n")
    assert json.loads(shown.out[shown.out.index("{") :]) == told["patch"]


def test_the_side_effect_is_told_in_words(say: Any, backpack: Path, text: Path) -> None:
    told = say("patch", backpack, "--remove", f"{WORD}#1", "--text", text)
    assert told.code == 0
    assert "KL(original ‖ patched)" in told.out
    assert "perplexity  " in told.out
    assert all(len(line) <= 80 for line in told.out.splitlines())
    assert "written" not in told.err


def test_a_place_is_in_its_own_line(backpack: Path) -> None:
    model = anaphora.load(backpack, "cpu")
    lines = VERSE[:3]
    starts = model.line_ids(lines)[1].tolist()
    assert around(model, lines, starts[1]) == ("", lines[1].split()[0])
    assert around(model, lines, starts[1] + 1) == (lines[1].split()[0], lines[1].split()[1])
    before, end = around(model, lines, starts[1] - 1)  # ⟨/s⟩ of the first
    assert lines[0].endswith(before.removeprefix("…")) and end == "⟨/s⟩"


def test_patches_compose_and_what_can_be_undone_is(say: Any, backpack: Path, text: Path, tmp_path: Path) -> None:
    a, b, both, none = (tmp_path / f"{name}.json" for name in ("a", "b", "both", "none"))
    assert say("patch", backpack, a, "--scale", f"{WORD}=4").code == 0
    assert say("patch", backpack, b, "--remove", f"{OTHER}#2").code == 0
    assert say("patch", backpack, both, "--from", a, "--from", b).code == 0
    one = say("evaluate", backpack, "--text", text, "--patch", a, "--patch", b, "--json")
    other = say("evaluate", backpack, "--text", text, "--patch", both, "--json")
    same = [json.loads(answer.last)["log_probability"] for answer in (one, other)]
    assert same[0] == same[1]
    assert say("patch", backpack, none, "--from", a, "--undo", a).code == 0
    plain = json.loads(say("evaluate", backpack, "--text", text, "--json").last)
    back = json.loads(say("evaluate", backpack, "--text", text, "--patch", none, "--json").last)
    assert back["log_probability"] == plain["log_probability"]  # four times and a quarter: exact
    refused = say("patch", backpack, "--undo", b)
    assert refused.code == 2
    assert "this cannot be taken back" in refused.err


def test_one_of_anything_need_not_be_in_a_list(backpack: Path, tmp_path: Path) -> None:
    model, file = anaphora.load(backpack, "cpu"), tmp_path / "half.json"
    half = anaphora.make_patch(model, scale=f"{WORD}#1=0.5")
    half.write(file)
    assert half == anaphora.make_patch(model, scale=[f"{WORD}#1=0.5"])
    for one in (half, file, str(file)):
        assert anaphora.make_patch(model, after=one) == half
        assert anaphora.make_patch(model, undo=one) == anaphora.make_patch(model, scale=[f"{WORD}#1=2"])
    changed = model.patched(half)
    assert anaphora.side_effect(model, changed, VERSE[0]) == anaphora.side_effect(model, changed, [VERSE[0]])
    with pytest.raises(anaphora.UserError, match="is a file, not lines of text"):
        anaphora.side_effect(model, changed, str(file))
    with pytest.raises(anaphora.UserError, match="factors are 4 numbers"):
        anaphora.make_patch(model, topic=f"verse={WORD}", factors=3)  # type: ignore[arg-type]
    with pytest.raises(anaphora.UserError, match="1 word and 6 prompts are too few"):
        anaphora.even(model, (WORD, OTHER), words=WORD)


def test_a_topic_and_an_evening_are_patches_too(say: Any, backpack: Path, text: Path, tmp_path: Path) -> None:
    topic = tmp_path / "topic.json"
    made = say(
        "patch", backpack, topic, "--topic", f"verse={WORD},{OTHER}", "--strength", 2.5, "--text", text, "--json"
    )
    assert made.code == 0, made.err
    (operation,) = json.loads(made.last)["patch"]["operations"]
    assert operation["strength"] == 2.5 and "factors" not in operation
    four = say("patch", backpack, "--topic", f"verse={WORD}", "--factors", "3.3,3.3,3,1", "--json")
    assert json.loads(four.last)["patch"]["operations"][0]["factors"] == [3.3, 3.3, 3.0, 1.0]
    score = say("evaluate", backpack, "--text", text, "--patch", topic, "--json")
    effect = json.loads(made.last)["side_effect"]
    assert json.loads(score.last)["perplexity"] == pytest.approx(effect["perplexity_after"], rel=1e-5)
    assert say("generate", backpack, "--patch", topic, "--samples", 3, "--tokens", 6).code == 0
    words = ",".join(dict.fromkeys(word for line in VERSE[:4] for word in line.split() if word.isalpha()))
    (tmp_path / "prompts.txt").write_text(f"{WORD} {{}}\n{OTHER} {{}}\n{{}}\n")
    even = say(
        "patch", backpack, tmp_path / "even.json", "--even", f"{WORD},{OTHER}", "--words", words, "--prompts",
        tmp_path / "prompts.txt", "--json",
    )  # fmt: skip
    assert even.code == 0, even.err
    evening = ("--even", f"{WORD},{OTHER}", "--words", words, "--prompts", tmp_path / "prompts.txt")
    told = say("patch", backpack, *evening, "--scale", f"{WORD}#1=2")
    assert f"mean of max(p({WORD})/p({OTHER})" in told.out and told.out.index("held out") < told.out.index("scale")
    broken = say("patch", backpack, tmp_path / "no.json", *evening, "--text", tmp_path / "nowhere.txt")
    assert (broken.code, broken.out, (tmp_path / "no.json").exists()) == (2, "", False)  # nothing before it is done
    found = json.loads(even.last)["even"]
    assert found["chosen_by"]["after"]["ratio"] <= found["chosen_by"]["before"]["ratio"]


def test_a_word_in_pieces_is_said_to_be(say: Any, pieces: Path, tmp_path: Path) -> None:
    told = say("patch", pieces, tmp_path / "odd.json", "--remove", "zyzzyva#1")
    assert told.code == 0, told.err
    assert "note: 'zyzzyva' is no single token: it is spelled " in told.err
    assert "done to every word that has them" in told.err
    told = say("patch", pieces, "--project-out", "the#1=zyzzyva")
    assert told.code == 0, told.err
    assert "and their mean stands for it" in told.err
    assert "done to every word" not in told.err


def test_what_a_terminal_would_obey_is_shown(say: Any, pieces: Path, tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    assert say("patch", pieces, file, "--topic", f"verse={WORD}").code == 0
    file.write_text(file.read_text().replace('"verse"', r'"\u001b]0;title\u0007"'))
    told = say("patch", pieces, "--from", file)
    assert told.code == 0 and "title" in told.out and "\x1b" not in told.out + told.err


def test_what_is_read_is_never_written_over(say: Any, backpack: Path, text: Path, tmp_path: Path) -> None:
    fix, words, prompts = (tmp_path / name for name in ("fix.json", "words.txt", "prompts.txt"))
    assert say("patch", backpack, fix, "--scale", f"{WORD}#1=2").code == 0
    words.write_text(f"{WORD}\n{OTHER}\n")
    prompts.write_text(f"{WORD} {{}}\n{OTHER} {{}}\n")
    evened = ("--even", f"{WORD},{OTHER}", "--words", f"@{words}", "--prompts", prompts)
    for out, options in [
        (text, ("--remove", WORD, "--text", text)),
        (fix, ("--from", fix, "--remove", WORD)),
        (fix, ("--undo", fix)),
        (words, evened),
        (prompts, evened),
        (words, ("--topic", f"verse=@{words}")),
    ]:
        before = out.read_bytes()
        answer = say("patch", backpack, out, *options, "--force")
        assert answer.code == 2 and "is the input itself; choose another file for the output" in answer.err, options
        assert out.read_bytes() == before


def test_mistakes_are_one_sentence_and_write_nothing(
    say: Any, backpack: Path, pieces: Path, text: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fix = tmp_path / "fix.json"
    assert say("patch", backpack, fix, "--remove", f"{WORD}#1").code == 0
    before = fix.read_bytes()
    by_hand = tmp_path / "by-hand.json"
    by_hand.write_text(fix.read_text().replace(f'"{WORD}"', '"zyzzyva"'))
    other = neural_folder(tmp_path_factory.mktemp("patch") / "other", "backpack", senses=4, seed=9)
    lstm = neural_folder(tmp_path_factory.mktemp("patch") / "lstm", "lstm")
    for words, message in [
        (("patch", backpack, fix, "--remove", WORD), "already exists"),
        (("patch", backpack, "--remove", f"{WORD}#4"), "there is no sense 4, each word of this model has 4"),
        (("patch", backpack, "--remove", "zyzzyva#1"), "the word 'zyzzyva' is not in the vocabulary"),
        (("patch", backpack, "--scale", WORD), "write WORDS#SENSES=FACTOR"),
        (("patch", backpack), "no change is given"),
        (("patch", backpack, "--remove", WORD, "--strength", 2), "--strength needs --topic"),
        (("patch", backpack, "--topic", f"a={WORD}", "--factors", "1,2"), "must be four numbers"),
        (
            ("patch", backpack, "--topic", f"a={WORD}", "--factors", "1,2,3,-4"),
            "each factor must be a number from 0 to 100; it is -4.0",
        ),
        (
            ("patch", backpack, "-", "--remove", WORD),
            "- would be stdout, and a patch is a file; leave it out; --show",
        ),
        (("patch", backpack, backpack / "fix.json", "--remove", WORD), "is inside the model's own folder"),
        (("patch", backpack, backpack / "config.yaml", "--remove", WORD), "is inside the model's own folder"),
        (("patch", pieces, "--remove", "\udcff#1"), "is not valid text: UTF-8 cannot encode it"),
        (("senses", pieces, "\udcff"), "is not valid text: UTF-8 cannot encode it"),
        (("why", pieces, "--word", "\udcff"), "is not valid text: UTF-8 cannot encode it"),
        (
            ("patch", backpack, backpack / "config.yaml", "--remove", WORD, "--force"),
            "is inside the model's own folder",
        ),
        (("patch", backpack, "--topic", "a=zyzzyva"), "topic a: none of its words is a token of this model"),
        (("patch", backpack, "--remove", WORD, "--words", "a"), "--words needs --even or --less-gender"),
        (("patch", backpack, "--even", WORD), "must be two different words"),
        (("patch", backpack, "--even", f"{WORD},{OTHER}"), "needs the words whose senses may change"),
        (("patch", backpack, "--less-gender", "--even", "a,b"), "--less-gender is --even he,she"),
        (("patch", backpack, "--from", tmp_path / "none.json"), "cannot be read"),
        (("patch", lstm, "--remove", WORD), "does not have senses of words"),
        (("generate", lstm, "--patch", fix), "does not have senses of words"),
        (("generate", other, "--patch", fix), "made for another model: the senses of this one's words are others"),
        (("evaluate", pieces, "--text", text, "--patch", fix), "made for another model: its vocabulary is another one"),
        (("score", other, "--text", text, "--patch", text), "is no patch: it is not JSON"),
        (("generate", backpack, "--patch", by_hand), f"{by_hand}: the word 'zyzzyva' is not in the vocabulary"),
        (("patch", other, "--from", fix), f"{fix}: this patch was made for another model"),
    ]:
        answer = say(*words)
        assert answer.code == 2, (words, answer)
        assert message in answer.err, (words, answer.err)
        assert "Traceback" not in answer.err
        assert not answer.out, (words, answer.out)  # nothing is told as if it were done
    assert fix.read_bytes() == before
    assert say("patch", backpack, fix, "--remove", WORD, "--force").code == 0
    assert fix.read_bytes() != before
