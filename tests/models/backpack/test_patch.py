"""The patch document: what is written is read, patches compose, and what is no patch is refused in a sentence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.models.backpack.patch import (
    ALL,
    STRENGTH,
    Add,
    Exchange,
    MadeFor,
    Operation,
    Patch,
    ProjectOut,
    Remove,
    Replace,
    Scale,
    Topic,
    words_of,
)
from anaphora.models.backpack.patch_grammar import direction, listed, read_operation, target

OWN = MadeFor("v" * 32, "s" * 32, 4)
word = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=6)
words = st.one_of(st.just(ALL), st.lists(word, min_size=1, max_size=3, unique=True).map(tuple))
senses = st.one_of(st.just(ALL), st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True).map(tuple))
number = st.floats(-1e6, 1e6, allow_nan=False)
pair = st.lists(word, min_size=2, max_size=2, unique=True).map(tuple)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Remove, words=words, senses=senses),
    st.builds(Scale, words=words, senses=senses, by=number),
    st.builds(ProjectOut, words=words, senses=senses, direction=pair),
    st.builds(Add, words=words, senses=senses, direction=pair, by=number),
    st.builds(Replace, words=words, senses=senses, with_=word, sense=st.none() | st.integers(0, 3)),
    pair.flatmap(lambda two: st.builds(Exchange, words=words, senses=senses, out=st.just(two[0]), in_=st.just(two[1]))),
    st.builds(
        Topic,
        words=st.lists(word, min_size=1, unique=True).map(tuple),
        name=word,
        strength=st.none() | st.floats(0, 10),
        fade=st.floats(0, 1),
    ),
    st.builds(
        Topic,
        words=st.lists(word, min_size=1, unique=True).map(tuple),
        factors=st.tuples(*[st.floats(0, 10)] * 4),
    ),
)
patches = st.lists(operations, max_size=4).map(lambda several: Patch(OWN, tuple(several)))


@given(patches)
def test_what_is_written_is_read(patch: Patch) -> None:
    assert Patch.of_document(json.loads(json.dumps(patch.document()))) == patch
    assert Patch.of_document(json.loads(patch.text())) == patch


@given(st.lists(st.builds(Scale, words=words, senses=senses, by=st.sampled_from([0.5, -2.0, 4.0])), max_size=4))
def test_the_inverse_of_scaling_is_exact_for_powers_of_two(several: list[Scale]) -> None:
    patch = Patch(OWN, tuple(several))
    assert patch.inverse().inverse() == patch
    for scale, back in zip(several, reversed(patch.inverse().operations)):
        assert isinstance(back, Scale)
        assert scale.by * back.by == 1.0
        assert (scale.words, scale.senses) == (back.words, back.senses)


@pytest.mark.parametrize(
    "operation",
    [
        Remove(words=("sick",)),
        Scale(words=("sick",), by=0.0),
        Scale(words=("sick",), by=1e-7),
        ProjectOut(words=("sick",), direction=("she",)),
        Replace(words=("sick",), with_="ill"),
        Topic(words=("ship",)),
    ],
)
def test_what_is_lost_has_no_inverse(operation: Operation) -> None:
    with pytest.raises(UserError, match=r"cannot be taken back.*leave the patch out instead"):
        Patch(OWN, (Scale(words=("a",), by=2.0), operation)).inverse()


def test_a_file_is_written_whole_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "fix.json"
    patch = Patch(OWN, (Remove(words=("sick",), senses=(3,)), Scale(words=("bank",), by=0.5)))
    patch.write(path)
    assert Patch.read(path) == patch
    assert path.read_text().count("\n") < 12  # an operation a line: it is for people to read
    with pytest.raises(UserError, match="already exists"):
        Patch(OWN).write(path)
    assert Patch.read(path) == patch
    Patch(OWN).write(path, force=True)
    assert not Patch.read(path)
    assert [one.name for one in tmp_path.iterdir()] == ["fix.json"]


def test_a_patch_for_another_model_is_refused() -> None:
    patch = Patch(OWN, (Remove(words=("sick",)),))
    patch.check(OWN)
    with pytest.raises(UserError, match=r"fix.json: this patch was made for another model: its vocabulary"):
        patch.check(MadeFor("w" * 32, "s" * 32, 4), file="fix.json")
    with pytest.raises(UserError, match="that one has 4 senses for a word, this one 8"):
        patch.check(MadeFor("v" * 32, "s" * 32, 8))
    with pytest.raises(UserError, match="the senses of this one's words are others"):
        patch.check(MadeFor("v" * 32, "t" * 32, 4))


@pytest.mark.parametrize("operation", [Remove(words=("a",), senses=(4,)), Replace(words=("a",), with_="b", sense=4)])
def test_a_sense_that_no_word_has_is_refused(operation: Operation) -> None:
    with pytest.raises(
        UserError, match="there is no sense 4, each word of this model has 4; give a number from 0 to 3"
    ):
        Patch(OWN, (operation,))


def _document(**changes: Any) -> dict[str, Any]:
    return {**Patch(OWN, (Remove(words=("a",)),)).document(), **changes}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "is no patch"),
        ({}, "is no patch"),
        (_document(anaphora_patch=2), "newer Anaphora"),
        (_document(anaphora_patch=True), "its version is True"),
        (_document(anaphora_patch="1"), "its version is '1'"),
        (_document(surprise=1), "unknown entry 'surprise'"),
        (_document(made_for={}), "does not say which model"),
        (_document(made_for={"vocabulary": 1, "senses": "s", "senses_of_a_word": 4}), "does not say which model"),
        (_document(operations={}), "no list of operations"),
        (_document(operations=[1]), "operation 1 does not say what to do"),
        (_document(operations=[{"do": "romove", "words": ["a"]}]), "did you mean 'remove'"),
        (_document(operations=[{"do": "remove"}]), "operation 1, remove, has no 'words'"),
        (_document(operations=[{"do": "remove", "words": "a"}]), "words are a list of words"),
        (_document(operations=[{"do": "remove", "words": []}]), "words are a list of words"),
        (_document(operations=[{"do": "remove", "words": [3]}]), "words are a list of words"),
        (_document(operations=[{"do": "remove", "words": ["a", "a"]}]), "'a' stands twice"),
        (_document(operations=[{"do": "remove", "words": ["a"], "senses": [-1]}]), "senses are numbers from 0"),
        (_document(operations=[{"do": "remove", "words": ["a"], "senses": [True]}]), "senses are numbers from 0"),
        (_document(operations=[{"do": "remove", "words": ["a"], "senses": "1"}]), "senses are numbers from 0"),
        (_document(operations=[{"do": "remove", "words": ["a"], "senses": [9]}]), "there is no sense 9"),
        (_document(operations=[{"do": "remove", "words": ["a"], "by": 2}]), "unknown entry 'by'"),
        (_document(operations=[{"do": "scale", "words": ["a"], "by": "2"}]), "by must be a number"),
        (_document(operations=[{"do": "scale", "words": ["a"], "by": float("nan")}]), "by must be a number"),
        (_document(operations=[{"do": "scale", "words": ["a"], "by": 1e39}]), "from -1,000,000 to 1,000,000"),
        (_document(operations=[{"do": "scale", "words": ["a"], "by": 10**400}]), "from -1,000,000 to 1,000,000"),
        (_document(operations=[{"do": "exchange", "words": ["a"], "out": "b", "in": "b"}]), "the same word"),
        (_document(operations=[{"do": "project-out", "words": ["a"], "direction": []}]), "words are a list"),
        (_document(operations=[{"do": "topic", "words": ["a"], "factors": [1, 2]}]), "factors are 4 numbers"),
        (
            _document(operations=[{"do": "topic", "words": ["a"], "strength": 2, "factors": [1, 2, 3, 4]}]),
            "one or the other",
        ),
        (_document(operations=[{"do": "topic", "words": ["a"], "strength": "much"}]), "strength"),
        (
            _document(operations=[{"do": "topic", "words": ["a"], "fade": 2}]),
            "fade must be a number from 0 to 1; it is 2",
        ),
    ],
)
def test_what_is_no_patch_is_refused(document: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match=message) as refused:
        Patch.read(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_not_json_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(content)
    with pytest.raises(UserError, match="is no patch: it is not JSON"):
        Patch.read(tmp_path / "odd.json")
    with pytest.raises(UserError, match="cannot be read"):
        Patch.read(tmp_path)


# -- as a person types them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words", "senses"),
    [
        ("sick#3", ("sick",), (3,)),
        ("sick", ("sick",), ALL),
        ("sick#*", ("sick",), ALL),
        ("nurse,doctor#0,3", ("nurse", "doctor"), (0, 3)),
        ("*#1", ALL, (1,)),
        ("C#", ("C#",), ALL),
        ("C##2", ("C#",), (2,)),
        ("F##2", ("F#",), (2,)),
        ("C,C##1", ("C", "C#"), (1,)),
        ("#1", ("#1",), ALL),
        ("#1#2", ("#1",), (2,)),
        ("sick#1, 1", ("sick",), (1,)),
        ("#", ("#",), ALL),
        ("a,#", ("a", "#"), ALL),
        ("#,a#1", ("#", "a"), (1,)),
    ],
)
def test_words_and_senses_as_typed(text: str, words: Any, senses: Any) -> None:
    assert target(text, lambda word: word in ("C#", "#1")) == (words, senses)


def test_operations_as_typed(tmp_path: Path) -> None:
    assert read_operation("remove", "sick#3") == Remove(words=("sick",), senses=(3,))
    assert read_operation("scale", "bank#1=-0.5") == Scale(words=("bank",), senses=(1,), by=-0.5)
    assert read_operation("project-out", "nurse=she-he") == ProjectOut(words=("nurse",), direction=("she", "he"))
    assert read_operation("replace", "sick#3=ill#2") == Replace(words=("sick",), senses=(3,), with_="ill", sense=2)
    add = Add(words=("sick",), senses=(3,), direction=("great", "awful"), by=0.5)
    assert read_operation("add", "sick#3=great-awful*0.5") == add
    assert add.inverse() == Add(words=("sick",), senses=(3,), direction=("great", "awful"), by=-0.5)
    starred = Add(words=("sick",), direction=("b*c",), by=2.0)
    assert read_operation("add", "sick=b*c*2", has_word=lambda word: word == "b*c") == starred
    assert read_operation("replace", "sick=ill") == Replace(words=("sick",), with_="ill")
    exchange = Exchange(words=("MacBook",), out="Apple", in_="HP")
    assert read_operation("exchange", "MacBook=Apple>HP") == exchange
    topic = read_operation("topic", "sea=ship,sail,ship", factors=(3.3, 3.3, 3.0, 1.0))
    assert isinstance(topic, Topic)
    assert topic.words == ("ship", "sail")
    assert topic.factors == (3.3, 3.3, 3.0, 1.0)
    assert (topic.strength, Topic(words=("ship",)).strength, Topic(words=("ship",)).factors) == (None, STRENGTH, None)
    strong = read_operation("topic", "sea=ship", strength=2.0)
    assert isinstance(strong, Topic) and strong.strength == 2.0 and "strength 2;" in str(strong)
    (tmp_path / "sea.txt").write_text("ship\n\nsail \n")
    assert listed(f"@{tmp_path / 'sea.txt'}") == ("ship", "sail")
    assert words_of([exchange, topic]) == ["MacBook", "Apple", "HP", "ship", "sail"]


def test_a_hyphen_parts_two_words_unless_it_is_one() -> None:
    assert direction("she-he", lambda _: False) == ("she", "he")
    assert direction("twenty-one", lambda word: word == "twenty-one") == ("twenty-one",)
    assert direction("-", lambda _: False) == ("-",)


@pytest.mark.parametrize(
    ("do", "text", "message"),
    [
        ("remove", "sick#x", "'x' is no number of a sense; write WORDS#SENSES"),
        ("remove", "sick#-1", "'-1' is no number of a sense"),
        ("remove", "sick#1,", "'' is no number of a sense"),
        ("remove", "sick#1,bank#2", "'sick#1' stands in a list, .* its end; repeat the option for each word"),
        ("scale", "a,sick#1,bank#2=0.5", "'sick#1' stands in a list"),
        ("remove", "a,sick#1#2", "'sick#1' stands in a list"),
        ("remove", "sick#1#2", "'sick#1' has a # and is no word of the model; write all senses behind one #: sick#1,2"),
        ("remove", "#1", "no word stands before '#1'; write the word before #"),
        ("scale", "#1#2=0.5", "no word stands before '#1'"),
        ("remove", "sick#", "nothing stands behind the # of 'sick#'; write the number of a sense after #"),
        ("scale", "a,sick# =0.5", "nothing stands behind the # of 'sick#'"),
        ("replace", "sick#1=ill#", "nothing stands behind the # of 'ill#'"),
        ("remove", "a,,b", "no word between two commas"),
        ("remove", "", "no word between two commas"),
        ("scale", "bank#1", "something is missing around the ="),
        ("scale", "bank#1=", "something is missing around the ="),
        ("scale", "bank=loud", "'loud' is no number; write WORDS#SENSES=FACTOR, such as bank#1=0.5"),
        ("scale", "bank=inf", "by must be a number"),
        ("add", "a=b", "how much is missing"),
        ("add", "a=*2", "the word is missing"),
        ("add", "a=b*0.5*2", "how much stands there twice"),
        ("exchange", "a=b", "two words are wanted, with > between them"),
        ("replace", "a=b#1,2", "one sense of one word"),
        ("replace", "a#1=b,c#1", "one sense of one word"),
        ("topic", "sea", "something is missing"),
        ("topic", "sea=@nowhere.txt", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(do: str, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_operation(do, text)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"factors": (-1.0, 1.0, 1.0, 1.0)}, "each factor must be a number from 0 to 100; it is -1.0"),
        ({"factors": (1.0, 1.0)}, "factors are 4 numbers"),
        ({"strength": -1.0}, "strength must be a number from 0 to 100; it is -1.0; 1 is no topic"),
        ({"strength": math.nan}, "strength must be a number from 0 to 100; it is nan"),
        ({"fade": 3.0}, "fade must be a number from 0 to 1; it is 3.0; with 1 it never fades"),
    ],
)
def test_a_strength_that_is_none_is_not_laid_to_the_words(how: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        read_operation("topic", "sea=ship", **how)
    assert "NAME=WORD" not in str(refused.value)
