"""A translator in Python as people type it: what it takes, and what it gives back."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest

import anaphora
from anaphora.alignment.model_alignment import Alignment, Method
from anaphora.arguments.signatures import spelled_out
from anaphora.decoding.decoding_settings import GENERATION_SETTINGS, DecodingConfig
from anaphora.decoding.options import DecodingOptions, GenerateOptions, TextOptions
from anaphora.decoding.translate import ScoredPair, Translation
from anaphora.errors import UserError
from anaphora.models.vectors.word_vectors import Vectors
from anaphora.pipelines import text_model
from anaphora.pipelines.ensemble_model import EnsembleModel
from anaphora.pipelines.text_model import TextModel
from anaphora.pipelines.translation_model import TranslationModel
from anaphora.pipelines.vectors_model import VectorsModel
from anaphora.training.bars import console_for

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
    with pytest.raises(UserError, match=r"'test\.en' is a file, not lines of text; give Path\('test\.en'\)"):
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
    for ask in (model.translate, model.stream):
        with pytest.raises(UserError, match=r"prefixes is one str, 'der'; give prefix='der' for all lines"):
            ask(SOURCES, prefixes="der")  # type: ignore[operator]
        with pytest.raises(UserError, match=r"prefix is \[.*; give a str"):
            ask(SOURCES, prefix=["der"] * 3)  # type: ignore[operator]
    assert model.translate("\n".join(SOURCES), prefixes="der", beam=1).text.startswith("der")


def test_names_of_other_tools(model: TranslationModel) -> None:
    beam = model.translate(SOURCES, beam=2, max_length=3, n_best=2)
    ways: list[dict[str, Any]] = [
        {"num_beams": 2, "max_new_tokens": 3, "num_return_sequences": 2},
        {"beam_size": 2, "tokens": 3, "n_best": 2},
    ]
    for names in ways:
        assert model.translate(SOURCES, **names) == beam and list(model.stream(SOURCES, **names)) == beam
        assert model.decoding(**names) == model.decoding(beam=2, max_length=3, n_best=2)
    assert model.evaluate(SOURCES, TARGETS, num_beams=1).search == "beam 1"  # type: ignore[call-arg]
    for names in ({"num_beams": 2, "beam": 3}, {"tokens": 3, "max_new_tokens": 3}):
        with pytest.raises(UserError, match=r"another name for .* both are given"):
            model.translate(SOURCES, **names)


def test_a_capture_takes_what_load_returned(model: TranslationModel) -> None:
    with anaphora.capture(model, "*cross*") as seen:
        model.translate(SOURCES[0], beam=1)
    assert seen and any(seen.values())
    with pytest.raises(UserError, match="no attention"), anaphora.capture("runs/en-de"):  # type: ignore[arg-type]
        pass


def test_what_train_reads_are_files(tmp_path: Path, files: None) -> None:
    asks: list[tuple[Any, str]] = [
        (Path("test.en").open(encoding="utf-8"), r"source is an open file.*give Path\('test\.en'\)"),  # noqa: SIM115
        (["the dog sees.", "a cat"], r"source\[0\] is no file but text: 'the dog sees\.'"),
        ("the dog sees\na cat\n", "source is no file but text"),
        (Column(["a b", None]), r"source\[0\] is no file but text"),
        ([None], r"source\[0\] is None"),
        (3, "source is an int"),
        ({"en": "test.en"}, "source is a dict"),
        ([b"test.en"], r"source\[0\] is a bytes"),
    ]
    for source, message in asks:
        with pytest.raises(UserError, match=message):
            anaphora.train(tmp_path / "run", source=source, target="test.de")
        with pytest.raises(UserError, match=message):
            anaphora.check(source=source, target="test.de")
        with pytest.raises(UserError, match=message):
            anaphora.compare(tmp_path / "out", source=source, target="test.de")
    with pytest.raises(UserError, match=r"did you mean 'test\.en'"):  # a name with a mistake in it stays a name
        anaphora.train(tmp_path / "run", source=iter(["test.ne"]), target="test.de")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_train_knows_from_by_the_name_of_the_command_line(tmp_path: Path, files: None) -> None:
    for other in ("from", "from_"):
        with pytest.raises(UserError, match="nowhere"):
            anaphora.train(tmp_path / "run", source="test.en", target="test.de", **{other: "nowhere"})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="from is another name for start_from, and both are given"):
        anaphora.train(tmp_path / "run", start_from="a", **{"from": "b"})  # type: ignore[arg-type]


def test_settings_as_people_write_them(tmp_path: Path, files: None) -> None:
    ways: list[Any] = [
        {"training.max_stepz": 3},
        {"training": {"max_stepz": 3}},
        ["training.max_stepz=3"],
        "training.max_stepz=3",
    ]
    for settings in ways:
        with pytest.raises(UserError, match=r"unknown setting training\.max_stepz; did you mean 'max_steps'"):
            anaphora.train(tmp_path / "run", source="test.en", target="test.de", settings=settings)
    with pytest.raises(UserError, match="settings are int"):
        anaphora.train(tmp_path / "run", source="test.en", target="test.de", settings=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, 3, b"run"], ids=str)
def test_what_is_no_path(wrong: Any, files: None) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: anaphora.load(wrong),
        lambda: anaphora.load([wrong, wrong]),
        lambda: anaphora.train(wrong, source="test.en", target="test.de"),
        lambda: anaphora.average(wrong),
    ]
    for ask in asks:
        with pytest.raises(UserError, match="not the path of a file or folder"):
            ask()


def test_numbers_of_numpy_are_numbers(model: TranslationModel) -> None:
    assert model.decoding(beam=np.int64(3), length_penalty=np.float32(0.5)) == model.decoding(
        beam=3, length_penalty=0.5
    )
    with pytest.raises(UserError, match="beam must be a whole number"):
        model.decoding(beam=np.array([3]))  # type: ignore[arg-type]


def test_a_model_to_compare_with_is_a_loaded_one(model: TranslationModel) -> None:
    with pytest.raises(UserError, match="beside is 'runs/other'; give a translator that"):
        model.evaluate(SOURCES, TARGETS, beside="runs/other")  # type: ignore[arg-type]


def test_the_name_of_a_method_is_a_method(model: TranslationModel) -> None:
    pair = ("the dog sees", "der Hund sieht")
    assert (
        model.align(*pair, method="mean:reads").pharaoh()
        == model.align(*pair, method=Method(row="reads", rule="target")).pharaoh()
    )
    assert model.translate(pair[0], align="occlusion", beam=1).alignment is not None
    for ask in (lambda: model.align(*pair, method="zzz"), lambda: model.translate(pair[0], align="zzz")):
        with pytest.raises(
            UserError, match=r"no alignment method 'zzz'; write LAYER.HEAD, LAYER.mean, mean or occlusion"
        ):
            ask()
    with pytest.raises(UserError, match="there is no decoder layer 9; choose one of 0 to 0"):
        model.translate(pair[0], align="9.0")
    with pytest.raises(UserError, match="split cannot be 'zzz'; known: punctuation, whitespace"):
        model.align(*pair, split="zzz")  # type: ignore[call-overload]


def test_numbers_are_checked_by_their_names(model: TranslationModel, micro: Path, corpus: dict[str, Path]) -> None:
    asks: list[tuple[Callable[[], Any], str]] = [
        (lambda: anaphora.average(micro, last="x"), "last must be a whole number, not 'x'"),  # type: ignore[arg-type]
        (lambda: anaphora.average(micro, last=0), "last must be at least 1, not 0; give 1 or more"),
        (lambda: model.walk("the dog", layer=99), "no layer 99"),
        (lambda: model.walk("the dog", head="first"), "head must be a whole number, not 'first'"),  # type: ignore[arg-type]
        (lambda: model.evaluate(["a"], ["b"], by_length="long"), "by_length must be a whole number, not 'long'"),  # type: ignore[arg-type]
        (lambda: model.translate("a", progress=True), "progress is True; give a function"),  # type: ignore[call-overload]
        (lambda: anaphora.train("run", **corpus, progress="zzz"), "progress is 'zzz'; give True, False or a rich"),  # type: ignore[arg-type]
        (lambda: anaphora.train("run", **corpus, force="yes"), "force is 'yes'; give True or False"),  # type: ignore[arg-type]
        (lambda: anaphora.mix("out", [micro, micro], weights=[1, "x"]), r"weights\[1\] must be a number, not 'x'"),  # type: ignore[list-item]
    ]
    for ask, message in asks:
        with pytest.raises(UserError, match=message):
            ask()
    assert console_for(0) is None and console_for(1) is not None


# What editors and type checkers are shown -----------------------------------------------------------------------------


def test_the_module_shows_its_public_names_and_nothing_else() -> None:
    assert dir(anaphora) == sorted(anaphora.__all__)
    assert {"train", "load", "check", "compare", "TranslationModel", "TextModel"} <= {*dir(anaphora)}
    for name in dir(anaphora):
        assert getattr(anaphora, name) is not None


def test_options_are_the_settings() -> None:
    """Written for type checkers; names and types are those of the settings, each also None for the folder's own."""
    settings = typing.get_type_hints(DecodingConfig)
    options = typing.get_type_hints(DecodingOptions)
    assert options.keys() == settings.keys()
    for name, hint in settings.items():
        also = str if typing.get_origin(hint) is list else None  # one stop string need not be in a list
        assert {*_parts(options[name])} == {*_parts(hint), *_parts(also), type(None)}, name
    assert tuple(typing.get_type_hints(TextOptions)) == GENERATION_SETTINGS


def _parts(hint: Any) -> tuple[Any, ...]:
    if hint is None:
        return ()
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


@pytest.mark.parametrize("method", [TranslationModel.translate, TranslationModel.stream, TranslationModel.evaluate])
def test_every_setting_is_a_parameter(method: Callable[..., Any]) -> None:
    shown = inspect.signature(method).parameters
    assert {field.name for field in dataclasses.fields(DecodingConfig)} <= shown.keys()
    assert shown["beam"].annotation == "int | None" and shown["beam"].default is None


def test_what_generate_can_be_asked_for() -> None:
    shown = inspect.signature(TextModel.generate).parameters
    assert {*GENERATION_SETTINGS, "samples", "tokens", "max_new_tokens", "greedy", "beam", "draft"} <= shown.keys()
    assert {*typing.get_type_hints(GenerateOptions, vars(text_model))} <= shown.keys()
    assert {*GENERATION_SETTINGS, "tokens", "max_new_tokens"} <= inspect.signature(TextModel.stream).parameters.keys()


def test_no_option_is_shown_that_is_not_taken() -> None:
    with pytest.raises(TypeError, match=r"settled has no \*\*options"):
        spelled_out(DecodingOptions)(TranslationModel.settled)
    assert list(inspect.signature(TranslationModel.settled).parameters) == ["self", "settings"]


@pytest.mark.parametrize("owner", [anaphora, TranslationModel, TextModel, EnsembleModel, VectorsModel, Vectors])
def test_no_public_signature_says_anything_goes(owner: Any) -> None:
    for name in dir(owner):
        member = getattr(owner, name)
        if name.startswith("_") or not (inspect.isfunction(member) or inspect.ismethod(member)):
            continue
        for one in inspect.signature(member).parameters.values():
            assert one.kind is not one.VAR_KEYWORD, f"{name}(**{one.name})"
            assert one.annotation not in ("Any", Any), f"{name}({one.name}: Any)"
        assert inspect.getdoc(member), name


def test_every_public_name_is_on_the_page() -> None:
    """docs/python.md is written from the code (docs/tables.py), and nothing there is without a line of its own."""
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for name in anaphora.__all__:
        if inspect.isfunction(getattr(anaphora, name)):
            assert any(row.startswith(f"| `anaphora.{name}(") for row in rows), name
    for owner in (TranslationModel, TextModel, VectorsModel, Vectors):
        for name in dir(owner):
            if not name.startswith("_"):
                assert any(row.startswith((f"| `.{name}(", f"| `.{name}`")) for row in rows), f"{owner.__name__}.{name}"
    assert [row for row in rows if row.endswith("|  |")] == []
