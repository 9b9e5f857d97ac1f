"""Unknown words in translations: which source word each stands for, what it becomes, where it then stands.

Most tests lay an alignment down by hand; the last ones go through a model folder and the command line.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anaphora
from anaphora.alignment import unknown_words
from anaphora.alignment.aligned_pairs import Pair
from anaphora.alignment.dictionary import FILE, Dictionary, Entry
from anaphora.alignment.model_alignment import Method
from anaphora.alignment.unknown_words import UnknownWords, counted_replacements, replacing
from anaphora.cli.main import main
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.splitting import split_line
from anaphora.decoding.translate import Candidate, Translation
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import UNK, Tokenizer, TokenizerConfig
from micro_runs import MICRO, write_pairs
from toy_translator import ToyTranslator

KNOWN = "the man sees a dog . , - ( T"
SAID = "der Mann sieht einen Hund . , - ( T"
WORDS = TokenizerConfig(kind="word", fallback="unk")


def tokenizer(words: str) -> Tokenizer:
    """Each word with a space in front and, if it is punctuation, also without one."""
    return Tokenizer.train(WORDS, [words, " a." + "".join(word for word in words.split() if not word.isalnum())])


SOURCE, TARGET = tokenizer(KNOWN), tokenizer(SAID)
MINE = Dictionary(
    [
        Entry("man", "Mann", 0.9),
        Entry("igloo", "Iglu", 0.6),
        Entry("igloo", "Schneehaus", 0.3),
        Entry("slowly", "langsam", 0.5),
        Entry("odd", "seltsam", 0.05),
    ]
)


def ids(text: str) -> list[int]:
    return TARGET.encode(text)


def said(source: str, *texts: str, prefix: str = "", limit: int = 10**6, read: int | None = None) -> Translation:
    """A translation in as many pieces as texts; a word that is not in the vocabulary is ⟨unk⟩ there."""
    cut = split_line(source, SOURCE.encode_batch, limit)[: read or None]
    one = Candidate("", -1.0, -1.0, [], True, [(piece, ids(text)) for piece, text in zip(cut, texts, strict=True)])
    return Translation(source, "", -1.0, -1.0, [], True, [one], len(texts), one.token_ids, prefix=prefix)


def replaced(
    monkeypatch: pytest.MonkeyPatch,
    translation: Translation,
    rows: Sequence[Sequence[float]],
    dictionary: Dictionary | None = MINE,
    *,
    longest: int = 64,
    **settings: Any,
) -> Translation:
    """rows: for each target token of each piece with unknown words, weights over the source tokens of its piece."""
    waiting = list(rows)

    def by_hand(model: object, pairs: Sequence[Pair], method: Method) -> list[np.ndarray]:
        found = []
        for pair in pairs:
            mine = [waiting.pop(0) for _ in pair.target]
            found.append(np.array([[*row, 0.0] for row in mine]))
            assert found[-1].shape == pair.empty().shape
        return found

    monkeypatch.setattr(unknown_words, "word_weights", by_hand)
    model: Any = ToyTranslator(longest=longest)
    config = DecodingConfig(**settings)
    replace = UnknownWords(model, SOURCE, TARGET, config, Method(kind="occlusion"), dictionary)
    (done,) = replace([translation])
    assert not waiting
    for one in done.replaced:
        assert done.text[one.start : one.end] == one.word
        if one.source is not None:
            assert done.source[one.source.start : one.source.end] == one.source.text
    return done


def onto(target: int, *places: int | None, of: int) -> list[list[float]]:
    """Rows with all weight on one source token each."""
    assert len(places) == target
    return [[float(place == s) for s in range(of)] for place in places]


# By hand --------------------------------------------------------------------------------------------------------------


def test_a_dictionary_entry_or_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replaced(
        monkeypatch,
        said("the man sees Zorba , igloo .", "der Mann sieht X , X ."),
        onto(7, 0, 1, 2, 3, 4, 5, 6, of=7),
    )
    assert found.text == "der Mann sieht Zorba , Iglu ."
    zorba, igloo = found.replaced
    assert (zorba.word, zorba.by, zorba.token, zorba.weight) == ("Zorba", "copy", 3, 1.0)
    assert (igloo.word, igloo.by, igloo.token) == ("Iglu", "dictionary", 5)
    assert zorba.source is not None
    assert zorba.source.start == 13
    assert found.n_best[0].text == found.text
    assert counted_replacements([found]) == {"dictionary": 1, "copy": 1}
    assert found.token_ids == [(SOURCE.encode("the man sees Zorba , igloo ."), ids("der Mann sieht X , X ."))]


def test_copies_only(monkeypatch: pytest.MonkeyPatch) -> None:
    translation, rows = said("the igloo", "der X"), onto(2, 0, 1, of=2)
    assert replaced(monkeypatch, translation, rows, None).text == "der igloo"


def test_the_heaviest_word_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[1, 0, 0], [0.0, 0.3, 0.7]]
    found = replaced(monkeypatch, said("the man igloo", "der X"), rows)
    assert found.text == "der Iglu"
    assert found.replaced[0].weight == pytest.approx(0.7)
    found = replaced(monkeypatch, said("Yla Zorba", "X X"), [[0.4, 0.6], [0.4, 0.6]])  # both may be of one word
    assert found.text == "Zorba Zorba"


def test_punctuation_stands_for_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[1, 0, 0], [0.0, 0.1, 0.9]]
    for dictionary in (MINE, None):
        found = replaced(monkeypatch, said("the Zorba .", "der X"), rows, dictionary)
        assert found.text == "der Zorba"
    # nothing but punctuation: then it is that
    assert replaced(monkeypatch, said(". ,", "der X"), [[1, 0], [0, 1]]).text == "der ,"


def test_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = onto(2, 0, 1, of=2)
    assert replaced(monkeypatch, said("the odd", "der X"), rows).text == "der odd"
    assert replaced(monkeypatch, said("the odd", "der X"), rows, dictionary_threshold=0.01).text == "der seltsam"


def test_capitals_at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    # the source begins with a capital, so does the translation; and the capital does not hide the dictionary's word
    found = replaced(monkeypatch, said("Slowly the man", "X der Mann"), onto(3, 0, 1, 2, of=3))
    assert found.text == "Langsam der Mann"
    found = replaced(monkeypatch, said("Slowly the man", "der X"), onto(2, 1, 0, of=3))
    assert found.text == "der langsam"
    found = replaced(monkeypatch, said("The slowly", "X der"), onto(2, 1, 0, of=2))
    assert found.text == "Langsam der"
    found = replaced(monkeypatch, said("( Slowly", "( X"), onto(2, 0, 1, of=2))
    assert found.text == "(Langsam"
    found = replaced(monkeypatch, said("slowly the", "X der"), onto(2, 0, 1, of=2))  # a text without capitals
    assert found.text == "langsam der"


def test_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    one = said("the Shirt", "T-X")
    assert [TARGET.token(id) for id in one.token_ids[0][1]] == [" T", "-", "⟨unk⟩"]
    assert replaced(monkeypatch, one, onto(3, 0, 0, 1, of=2)).text == "T-Shirt"
    assert replaced(monkeypatch, said("the Shirt", "T - X"), onto(3, 0, 0, 1, of=2)).text == "T - Shirt"
    assert replaced(monkeypatch, said("the Shirt", "der, X."), onto(4, 0, 0, 1, 0, of=2)).text == "der, Shirt."
    assert replaced(monkeypatch, said("the Shirt", "der (X"), onto(3, 0, 0, 1, of=2)).text == "der (Shirt"


def test_no_weight_at_all_leaves_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replaced(monkeypatch, said("Yla Zorba", "der X"), onto(2, None, None, of=2))
    assert found.text == "der Zorba"
    assert found.replaced[0].weight == 0.0


def test_a_forced_word_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replaced(monkeypatch, said("the igloo", "Xylo-Y X", prefix="Xylo-Yps"), onto(4, 1, 1, 1, 1, of=2))
    assert found.text == "Xylo-Yps Iglu"
    assert [(one.word, one.by, one.source is None) for one in found.replaced] == [
        ("Xylo", "prefix", True),
        ("Yps", "prefix", True),
        ("Iglu", "dictionary", False),
    ]


def test_a_stop_string_after_replacing(monkeypatch: pytest.MonkeyPatch) -> None:
    translation = said("the igloo man Zorba", "der X . X")
    found = replaced(monkeypatch, translation, onto(4, 0, 1, 2, 3, of=4), stop=[" ."])
    assert found.text == "der Iglu"
    assert [one.word for one in found.replaced] == ["Iglu"]


def test_a_line_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "the man sees igloo .  the Zorba sees slowly ."
    translation = said(source, "der X .", "sieht", limit=5)
    assert len(translation.token_ids) == 2
    with pytest.raises(ValueError):
        said(source, "one piece", limit=5)
    translation = said(source, "der X .", "der X sieht X .", limit=5)
    rows = [*onto(3, 0, 3, 4, of=5), *onto(5, 0, 1, 2, 3, 4, of=5)]
    found = replaced(monkeypatch, translation, rows, longest=6)
    assert found.text == "der Iglu . der Zorba sieht langsam ."
    assert [one.token for one in found.replaced] == [1, 4, 6]
    # pieces without an unknown word are not asked for
    found = replaced(monkeypatch, said(source, "der .", "der X", limit=5), onto(2, 0, 1, of=5), longest=6)
    assert found.text == "der . der Zorba"
    # a stop string in the first piece ended the line
    found = replaced(monkeypatch, said(source, "der X .", limit=5, read=1), onto(3, 0, 3, 4, of=5), longest=6)
    assert found.text == "der Iglu ."


def test_every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    translation = said("the Zorba", "der X")
    other = said("the Zorba", "X der").n_best[0]
    none = Candidate("der Mann", -3.0, -3.0, [], True, [(SOURCE.encode("the Zorba"), ids("der Mann"))])
    translation.n_best += [other, none]
    found = replaced(monkeypatch, translation, [*onto(2, 0, 1, of=2), *onto(2, 1, 0, of=2)])
    assert [one.text for one in found.n_best] == ["der Zorba", "Zorba der", "der Mann"]
    assert [len(one.replaced) for one in found.n_best] == [1, 1, 0]


def test_a_line_without_unknown_words_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    translation = said("the man", "der Mann")
    translation.n_best[0].text = translation.text = "as it was"
    assert replaced(monkeypatch, translation, []).text == "as it was"
    empty = Translation("", "", 0.0, 0.0, [], True, [Candidate("", 0.0, 0.0, [], True)])
    assert replaced(monkeypatch, empty, []).text == ""


@given(
    st.lists(st.integers(UNK, TARGET.vocabulary_size - 1), min_size=1, max_size=12),
    st.lists(st.sampled_from(["the", "Zorba", "igloo", ".", "  ", "T-Shirt", "\u2028", "猫"]), min_size=1, max_size=6),
    st.integers(0, 999),
)
def test_whatever_is_said(target: list[int], source: list[str], seed: int) -> None:
    """Places are right, nothing else of the text changes, and no ⟨unk⟩ is left."""
    text = " ".join(source)
    if not SOURCE.encode(text) or not text.strip():
        return
    one = Candidate("", -1.0, -1.0, [], True, [(SOURCE.encode(unknown_words.one_line(text)), target)])
    translation = Translation(text, "", -1.0, -1.0, [], True, [one])
    draw = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            unknown_words, "word_weights", lambda model, pairs, method: [draw.random(p.empty().shape) for p in pairs]
        )
        model: Any = ToyTranslator()
        (done,) = UnknownWords(model, SOURCE, TARGET, DecodingConfig(), Method(kind="occlusion"), MINE)([translation])
    if UNK not in target:
        return
    assert [one.token for one in done.replaced] == [place for place, id in enumerate(target) if id == UNK]
    rest, at = "", 0
    for new in done.replaced:
        assert done.text[new.start : new.end] == new.word
        rest, at = rest + done.text[at : new.start] + "<unk>", new.end
    without = (rest + done.text[at:]).replace(" ", "")
    assert without == TARGET.decode(target).replace(" ", "")


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "says"),
    [("bpe", "says subwords"), ("character", "says characters"), ("byte", "says bytes"), ("word", "in bytes")],
)
def test_only_whole_words_are_unknown(kind: Any, says: str) -> None:
    made = Tokenizer.train(TokenizerConfig(kind=kind, vocabulary=None if kind == "byte" else 300), ["the cat " * 9])
    assert replacing(DecodingConfig(), made) == "none"
    assert replacing(DecodingConfig(replace_unknown="none"), made) == "none"
    with pytest.raises(UserError, match=says) as refused:
        replacing(DecodingConfig(replace_unknown="copy"), made)
    assert "tokenizer.fallback=unk" in str(refused.value.cure)


def test_what_is_usual_for_words() -> None:
    assert replacing(DecodingConfig(), TARGET) == "dictionary"
    assert replacing(DecodingConfig(replace_unknown="none"), TARGET) == "none"
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="dictionary_threshold"):
            DecodingConfig(dictionary_threshold=wrong)


# A model folder -------------------------------------------------------------------------------------------------------

RARE = {
    "tokenizer.kind": "word",
    "tokenizer.fallback": "unk",
    "tokenizer.shared": False,
    "tokenizer.vocabulary": 19,
    "model.dim": 32,
    "model.layers": 1,
    "model.heads": 2,
    "model.feed_forward": 64,
    "model.dropout": 0.0,
    "training.max_steps": 400,
    "training.batch_tokens": 512,
    "training.learning_rate": 5e-3,
    "training.warmup_steps": 50,
    "training.label_smoothing": 0.0,
    "training.consistency": 0.0,
    "training.checkpoint_every": 400,
    "training.average": 1,
    "training.samples": 0,
    "data.hold_out": 40,
}
ENGLISH = ["the", "a", "old", "dog", "cat", "sees", "hears", "big", "red", "tree", "ball", "and", "not", "here"]
GERMAN = ["der", "ein", "alte", "Hund", "Kater", "sieht", "hört", "große", "rote", "Baum", "Ball", "und", "nicht", "da"]


def rare_pairs(number: int, seed: int) -> list[tuple[str, str]]:
    """Lines word by word; now and then a rare word: a thing with a translation, or a name, which is copied."""
    draw, common = random.Random(seed), list(zip(ENGLISH, GERMAN))
    things = [(f"th{n}ing", f"Di{n}ng") for n in range(40)]
    lines = []
    for _ in range(number):
        line = draw.choices(common, k=draw.randint(3, 6))
        for _ in range(draw.randint(0, 2)):
            name = f"Na{draw.randint(0, 10**6)}me"
            line.insert(draw.randint(0, len(line)), draw.choice([draw.choice(things), (name, name)]))
        lines.append((" ".join(e for e, _ in line) + ".", " ".join(g for _, g in line) + "."))
    return lines


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rare")
    for place, side in enumerate(("source", "target")):
        text = "".join(pair[place] + "\n" for pair in rare_pairs(1_500, seed=1))
        (folder / side).write_text(text, encoding="utf-8")
    anaphora.train(
        folder / "run", source=folder / "source", target=folder / "target", settings=RARE, device="cpu", recipe="tiny"
    )
    return folder / "run"


def exact(said: Sequence[Translation], test: Sequence[tuple[str, str]]) -> float:
    return sum(one.text == target for one, (_, target) in zip(said, test)) / len(test)


def test_rare_words_come_out_right(rare: Path) -> None:
    """Of unseen lines with a rare word, most are exactly right; without replacing, none can be."""
    test = [pair for pair in rare_pairs(200, seed=2) if "Di" in pair[1] or "Na" in pair[1]]
    sources = [source for source, _ in test]
    model = anaphora.load(rare, "cpu")
    assert exact(model.translate(sources), test) >= 0.8
    assert exact(model.translate(sources, replace_unknown="none"), test) == 0
    assert exact(model.translate(sources, replace_unknown="none", unknown=True), test) == 0
    names = [pair for pair in test if "Di" not in pair[1]]
    copied = model.translate([source for source, _ in names], replace_unknown="copy")
    assert exact(copied, names) >= 0.8
    assert exact(model.translate(sources, replace_unknown="copy"), test) < 0.8  # things need a dictionary


def test_alignments_scores_and_evaluation_hold_after_replacing(rare: Path) -> None:
    model = anaphora.load(rare, "cpu")
    test = rare_pairs(30, seed=3)
    sources, targets = [s for s, _ in test], [t for _, t in test]
    plain = model.translate(sources)
    aligned = model.translate(sources, align=True)
    given = list(model.align(sources, [one.text for one in plain]))
    outside = 0
    for one, two, three, scored in zip(plain, aligned, given, model.score(sources, [t.text for t in plain])):
        assert one.text == two.text
        alignment = two.alignment
        assert alignment is not None
        assert [word.text for word in alignment.target] == [word.text for word in three.target]
        if all(UNK in model.target_tokenizer.encode(new.word) for new in one.replaced):
            outside += bool(one.replaced)  # the text spells the same ids: aligned and scored alike
            np.testing.assert_allclose(alignment.weights, three.weights, atol=1e-4)
            assert scored.log_probability == pytest.approx(one.log_probability, abs=1e-3)
    assert outside > 5
    with pytest.raises(UserError, match="they are not: copy"):
        model.translate(sources, replace_unknown="copy", dictionary="mine.tsv")
    found = model.evaluate(sources, targets)
    assert [one.text for one in found.translations] == [one.text for one in plain]
    assert found.replaced_words == counted_replacements(plain)
    assert found.bleu > model.evaluate(sources, targets, replace_unknown="none").bleu
    assert model.evaluate(sources, targets, replace_unknown="none").replaced_words is None


def test_the_folder_and_the_command_line(
    rare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def say(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["anaphora", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capfd.readouterr()

    assert (rare / FILE).read_text(encoding="utf-8").startswith("# learned from")
    assert json.loads((rare / "metrics.json").read_text())["validation"]["bleu"] > 80  # replaced, as `evaluate` would
    text, mine = tmp_path / "a.txt", tmp_path / "mine.tsv"
    text.write_text("the Na7me sees a th3ing.\n")
    code, out, err = say("translate", rare, text, "--json", "--n-best", 2)
    assert code == 0, err
    document = json.loads(out)["translations"][0]
    assert document["text"] == "der Na7me sieht ein Di3ng."
    name, thing = document["replaced"]
    assert (name["by"], name["source"]["word"], name["start"], name["end"]) == ("copy", "Na7me", 4, 9)
    assert (thing["by"], thing["word"], thing["source"]["word"]) == ("dictionary", "Di3ng", "th3ing")
    assert document["n_best"][0]["replaced"] == document["replaced"]
    assert "2 unknown words replaced: 1 from the dictionary, 1 copied from the source" in err
    mine.write_text("th3ing\tSache\nNa7me\tName\n")
    assert say("translate", rare, text, "--set", f"dictionary={mine}")[1] == "der Name sieht ein Sache.\n"
    code, _, err = say("translate", rare, text, "--set", f"dictionary={mine}", "--set", "dictionary_threshold=2")
    assert (code, "dictionary_threshold is 2" in err) == (2, True)
    mine.write_text("th3ing\tSache\nNa7me\n")
    code, _, err = say("translate", rare, text, "--set", f"dictionary={mine}")
    assert code == 2
    assert "mine.tsv:2: has one column" in " ".join(err.split())


def test_refused_before_any_work(corpus: dict[str, Path], micro: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="says subwords"):
        anaphora.load(micro, "cpu").translate("the dog", replace_unknown="copy")
    for name, value in (("dictionary", "mine.tsv"), ("dictionary_threshold", 0.5)):
        with pytest.raises(UserError, match=f"{name} is about replacing .* no word is unknown"):
            anaphora.load(micro, "cpu").translate("the dog", **{name: value})
    few = {**MICRO, "tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.vocabulary": 12}
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("a\tb\tc\td\te\n")
    for settings, says in (
        ({**MICRO, "decoding.replace_unknown": "dictionary"}, "says subwords"),
        ({**MICRO, "tokenizer.kind": "word", "decoding.replace_unknown": "copy"}, "in bytes"),
        ({**MICRO, "decoding.dictionary": str(wrong)}, "means nothing"),
        ({**few, "decoding.replace_unknown": "copy", "decoding.dictionary": str(wrong)}, "means nothing"),
        ({**few, "decoding.dictionary": str(wrong)}, "5 columns"),
        ({**few, "decoding.dictionary_threshold": 3}, "dictionary_threshold is 3"),
    ):
        with pytest.raises(UserError, match=says):
            anaphora.train(tmp_path / "run", **corpus, settings=settings, device="cpu")
        assert not (tmp_path / "run").exists()


def test_a_dictionary_given_to_training_goes_into_the_folder(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, 20)
    mine = tmp_path / "mine.tsv"
    mine.write_text("dog\tDackel\n")
    few = {**MICRO, "tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.vocabulary": 12}
    anaphora.train(tmp_path / "run", **files, settings={**few, "decoding.dictionary": str(mine)}, device="cpu")
    model = anaphora.load(tmp_path / "run", "cpu")
    assert model.dictionary()["dog"] == Entry("dog", "Dackel")
    mine.write_text("dog\tHündchen\n", encoding="utf-8")  # the folder keeps what it learned with …
    assert model.dictionary()["dog"] == Entry("dog", "Dackel")
    assert model.dictionary(str(mine))["dog"] == Entry("dog", "Hündchen")  # … but what is asked for by name is read
    mine.write_text("dog\n")
    with pytest.raises(UserError, match="one column"):
        model.translate("the dog sees a cat.", dictionary=str(mine))
    mine.unlink()
    model = anaphora.load(tmp_path / "run", "cpu")
    assert len(model.translate(["the dog sees a cat."], stop=["."], prefixes=["Zorba"])) == 1


def test_a_run_that_was_interrupted_has_the_dictionary_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, mine = write_pairs(tmp_path, 20), tmp_path / "mine.tsv"
    mine.write_text("dog\tDackel\n")
    few = {**MICRO, "tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.vocabulary": 12}

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("anaphora.tasks.learning.LearningRun.finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            anaphora.train(tmp_path / "run", **files, settings={**few, "decoding.dictionary": str(mine)}, device="cpu")
    mine.unlink()
    assert anaphora.load(tmp_path / "run", "cpu").dictionary()["dog"] == Entry("dog", "Dackel")
    anaphora.average(tmp_path / "run", device="cpu", force=True)
    assert anaphora.load(tmp_path / "run", "cpu").dictionary()["dog"] == Entry("dog", "Dackel")


def test_another_dictionary_midway_takes_the_place_of_the_first(tmp_path: Path) -> None:
    """Of a run that has nothing left to learn, too; without --force it is refused, as any other setting is."""
    files = write_pairs(tmp_path, 20)
    mine = tmp_path / "mine.tsv"
    mine.write_text("dog\tDackel\n")
    few = {**MICRO, "tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.vocabulary": 12}
    anaphora.train(tmp_path / "run", **files, settings=few, device="cpu")
    learned = (tmp_path / "run" / FILE).read_bytes()
    own = {**few, "decoding.dictionary": str(mine)}
    with pytest.raises(UserError, match=r"decoding.dictionary is not set there"):
        anaphora.train(tmp_path / "run", **files, settings=own, device="cpu")
    assert (tmp_path / "run" / FILE).read_bytes() == learned
    anaphora.train(tmp_path / "run", **files, settings=own, device="cpu", force=True)
    assert anaphora.load(tmp_path / "run", "cpu").dictionary()["dog"] == Entry("dog", "Dackel")
    assert (tmp_path / "run" / FILE).read_text(encoding="utf-8").startswith("# copied from mine.tsv")


@pytest.mark.parametrize("recipe", ["seq2seq", "bahdanau"])
def test_whatever_the_architecture(recipe: str, tmp_path: Path) -> None:
    """Also where nothing is attended to: then the alignment is by occlusion."""
    few = {key: value for key, value in MICRO.items() if not key.startswith("model.")}
    few |= {"tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.vocabulary": 6, "model.dim": 16}
    few |= {
        "model.layers": 1,
        "training.max_steps": 20,
        "training.checkpoint_every": 20,
        "training.learning_rate": 1e-2,
    }
    files = write_pairs(tmp_path, 40)
    anaphora.train(tmp_path / "run", **files, settings=few, device="cpu", recipe=recipe)
    model = anaphora.load(tmp_path / "run", "cpu")
    assert model.alignment_choice.method.kind == ("occlusion" if recipe == "seq2seq" else "attention")
    (one,) = model.translate(["the old Zorba sees a dog."], align=True, min_length=3)
    assert one.replaced
    assert "<unk>" not in one.text
    assert one.alignment is not None
    assert one.alignment.target_text == one.text
