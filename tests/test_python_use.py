"""A translator in Python as people type it: what it takes, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

import anaphora
from anaphora.decoding.alignment import Alignment
from anaphora.decoding.translate import ScoredPair, Translation
from anaphora.errors import UserError
from anaphora.translation_model import TranslationModel

SOURCES = ["the dog sees", "a cat", "the house"]
TARGETS = ["der Hund sieht", "eine Katze", "das Haus"]


class Column(list[Any]):
    """As a pandas column: nobody may ask whether it is true."""

    def __bool__(self) -> bool:
        raise ValueError("The truth value of a Series is ambiguous")


@pytest.fixture(scope="module")
def model(micro: Path) -> TranslationModel:
    found = anaphora.load(micro, device="cpu")
    assert isinstance(found, TranslationModel)
    return found


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.en").write_text("".join(f"{line}\n" for line in SOURCES), encoding="utf-8")
    Path("test.de").write_text("".join(f"{line}\n" for line in TARGETS), encoding="utf-8")
    Path("test.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(SOURCES, TARGETS)), encoding="utf-8")


def opened(name: str) -> TextIO:
    return Path(name).open(encoding="utf-8")


def test_evaluate_takes_any_lines(model: TranslationModel, files: None) -> None:
    expected = model.evaluate(SOURCES, TARGETS, beam=1)
    ways: list[Callable[[], tuple[Any, ...]]] = [
        lambda: (opened("test.en"), opened("test.de")),
        lambda: (Path("test.en"), Path("test.de")),
        lambda: (Path("test.tsv"),),
        lambda: (iter(SOURCES), (line for line in TARGETS)),
        lambda: (Column(SOURCES), Column(TARGETS)),
        lambda: ([f"{line}\n" for line in SOURCES], [f"{line}\n" for line in TARGETS]),
    ]
    for given in ways:
        found = model.evaluate(*given(), beam=1)
        assert (found.lines, found.bleu, found.chrf, found.loss) == (
            3,
            expected.bleu,
            expected.chrf,
            pytest.approx(expected.loss),
        )


def test_a_pandas_column(model: TranslationModel) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"en": SOURCES, "de": TARGETS})
    assert model.evaluate(frame["en"], frame["de"], beam=1).lines == 3
    with pytest.raises(UserError, match=r"is a table.*'en', 'de'"):
        model.translate(frame)
    frame.loc[1, "de"] = None
    with pytest.raises(UserError, match=r"target\[1\] is missing"):
        model.evaluate(frame["en"], frame["de"])


def test_evaluate_refuses_file_names_and_single_texts(model: TranslationModel, files: None) -> None:
    with pytest.raises(UserError, match=r"'test\.en' is a file, and lines of text are wanted; give Path\('test\.en'\)"):
        model.evaluate("test.en", "test.de")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"source is one str.*give Path\('tset\.en'\)"):
        model.evaluate("tset.en", "test.de")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no such file"):
        model.evaluate(Path("tset.en"), Path("test.de"))
    with pytest.raises(UserError, match="source has 3 lines and target has 2"):
        model.evaluate(SOURCES, TARGETS[:2])
    with pytest.raises(UserError, match="there are no lines to evaluate"):
        model.evaluate(iter([]), [])


WRONG: list[Any] = [[1], ["a", float("nan")], b"a", 3, None, {"en": "a"}, [b"a"]]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_no_text_is_the_users_mistake(model: TranslationModel, wrong: Any) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: model.translate(wrong),
        lambda: model.stream(wrong),
        lambda: model.score(wrong, wrong),
        lambda: model.stream_score(wrong, wrong),
        lambda: model.align(wrong, wrong),
        lambda: model.evaluate(wrong, wrong),
        lambda: model.walk(wrong),
    ]
    for ask in asks:
        with pytest.raises(UserError, match=r"(text|source) is|(text|source)\[\d\] is|no target text"):
            ask()


def test_one_text_one_result_many_texts_a_list(model: TranslationModel, files: None) -> None:
    one, many = model.translate(SOURCES[0], beam=1), model.translate(iter(SOURCES), beam=1)
    assert isinstance(one, Translation) and isinstance(many, list) and one.text == many[0].text
    pair, pairs = model.score(SOURCES[0], TARGETS[0]), model.score(SOURCES, TARGETS)
    assert isinstance(pair, ScoredPair) and isinstance(pairs, list)
    assert pair.log_probability == pytest.approx(pairs[0].log_probability, abs=1e-4)
    link, links = model.align(SOURCES[0], TARGETS[0]), model.align(SOURCES, TARGETS)
    assert isinstance(link, Alignment) and isinstance(links, list) and link.pharaoh() == links[0].pharaoh()
    assert [x.text for x in model.translate(Path("test.en"), beam=1)] == [x.text for x in many]
    for stream in (model.stream(SOURCES, beam=1), model.stream_score(SOURCES, TARGETS)):
        assert isinstance(stream, Iterator) and len(list(stream)) == 3


def test_mistakes_are_told_at_the_call(model: TranslationModel) -> None:
    with pytest.raises(UserError, match="source has 2 lines and target has 1"):
        model.stream_score(["a", "b"], ["c"])
    with pytest.raises(UserError, match="source has 2 lines and target has 1"):
        model.stream_align(["a", "b"], ["c"])
    with pytest.raises(UserError, match=r"unknown setting decoding\.beams; did you mean 'beam'"):
        model.stream(["a"], beams=2)  # type: ignore[call-arg]
    with pytest.raises(UserError, match=r"unknown setting decoding\.prefixs; did you mean 'prefixes'"):
        model.translate(["a"], prefixs=["b"])  # type: ignore[call-overload]


def test_one_prefix_for_all_lines(model: TranslationModel) -> None:
    asked = model.translate(SOURCES, prefixes=["der"] * 3, beam=1)
    assert model.translate(SOURCES, prefix="der", beam=1) == asked
    assert model.translate(SOURCES[0], prefix="der", beam=1).text == asked[0].text
    with pytest.raises(UserError, match="prefix and prefixes are both given"):
        model.translate(SOURCES, prefix="der", prefixes=["der"] * 3)
    with pytest.raises(UserError, match="4 prefixes for 3 lines"):
        model.translate(SOURCES, prefixes=["der"] * 4)
