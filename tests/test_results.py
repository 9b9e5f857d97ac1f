"""What Python shows of results: one short line each, the text as `str`, tables in notebooks that nothing breaks."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaphora
from anaphora.alignment.alignment_method import Choice, Rival
from anaphora.alignment.dictionary import Dictionary, Entry
from anaphora.alignment.model_alignment import Alignment, Method
from anaphora.checking.findings import Finding, Report
from anaphora.comparing.comparison import Comparison
from anaphora.comparing.language_comparison import LanguageTask
from anaphora.decoding import hidden_words as filling
from anaphora.decoding.classes import Classified
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.generation import Generation, GenerationStream
from anaphora.decoding.text_scoring import ScoredLine, TextEvaluation
from anaphora.decoding.text_vectors import WordVectors
from anaphora.decoding.translate import Candidate, ScoredPair, Translation
from anaphora.decoding.translation_scores import Evaluation
from anaphora.decoding.unfinished_translation import Unfinished
from anaphora.evaluation.alignment_error import AlignmentScore
from anaphora.evaluation.by_length import LengthBin
from anaphora.evaluation.class_scores import ClassificationReport, ClassScore
from anaphora.evaluation.sense_similarity import SenseSimilarity
from anaphora.evaluation.significance import Interval, PairedBootstrap, PairedScore
from anaphora.evaluation.vector_benchmarks import AnalogyScore, SimilarityScore
from anaphora.evaluation.weat import Association
from anaphora.explain.next_words import NextWords, RankedWord
from anaphora.explain.pronouns import Evened, Evenness
from anaphora.explain.ratios import RatioTable
from anaphora.explain.sense_lookup import MovedToken, NearSense, Sense, SensesText, TokenSenses, WordSenses
from anaphora.explain.sense_uses import Use
from anaphora.explain.side_effect import SideEffect
from anaphora.explain.trace import Trace
from anaphora.explain.trace_parts import READS, AttentionMap, Cell, Check, Segment, Step, Token, Walk
from anaphora.explain.vector_map import VectorMap
from anaphora.explain.why import WhyText
from anaphora.interop.conversion import Conversion
from anaphora.models.backpack.patch import MadeFor, Patch, Remove, Scale
from anaphora.models.backpack.sense_shares import SensesWhy
from anaphora.models.composites.mixture_explanation import MixtureWhy
from anaphora.models.composites.parts import Mixed, MixedPart
from anaphora.models.ngram.ngram_explanation import Why
from anaphora.models.vectors.cooccurrence import Ratio
from anaphora.models.vectors.index import VectorIndex
from anaphora.models.vectors.word_vectors import Neighbours, Vectors
from anaphora.nn.attention_capture import Attended, Seen
from anaphora.results import MAX_REPR_CHARACTERS, Info, brief, count, html_table
from anaphora.tasks.counting_run import Counted
from anaphora.tasks.request import Average, Outcome
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.words import Word, split_words
from anaphora.training.fit import History

ODD = "<script>alert('x')</script>&amp;\x1b[2J\n\u202eevil\u2028"
LONG = "Der alte Bauer kaufte drei Äpfel und ging nach Hause. " * 20


def translation(text: str) -> Translation:
    scores = [(word, -0.5) for word in text.split(" ")]
    best = Candidate(text, -0.7, -1.5, scores, True)
    return Translation(text, text, -0.7, -1.5, scores, True, [best, Candidate(text, -0.9, -2.5, scores, False)])


def results(text: str) -> list[Any]:
    """One of each, full of a text."""
    first, words = translation(text), split_words(text) or [Word(text, 0, len(text))]
    weights = np.full((len(words), len(words)), 1 / len(words), np.float32)
    place = {"source_text": text, "target_text": text, "source": words, "target": words}
    aligned = Alignment(**place, weights=weights, end_mark=weights[0], links=[(0, 0)], method=Method())
    blanks = [[filling.Candidate(text, text, 5, 0.5), filling.Candidate(text, text, 6, math.nan)]]
    sense = Sense(2, 1.5, (MovedToken(text, 3.0),), (MovedToken(text, -3.0),), (NearSense(text, 1, 0.5),))
    piece = TokenSenses(5, text, (sense,))
    word = WordSenses(text, (piece,), True)
    finding = Finding("shift", "shift", text, 3, text, text)
    row = {"name": text, "state": "finished", "bits_per_byte": 2.0, "recipe": text}
    columns = [*LanguageTask.columns, *LanguageTask.costs]
    rows = [row, {"name": "b", "state": "failed", "error": text}]
    learned: dict[str, Any] = {
        "folder": Path(text.replace("\n", "")),
        "reason": text,
        "steps": 3,
        "tokens": 5,
        "seconds": 7.0,
    }
    learned |= {
        "seconds": 7.0,
        "flops": 1e9,
        "parameters": 5,
        "weights": text,
        "validation": {"loss": 1.0, "bleu": 5.0},
    }
    measured = {"lines": 3, "dropped_lines": 0, "tokens": 5, "unknown_tokens": 0, "bytes": 9, "log_probability": -3.0}
    measured |= {
        "perplexity": math.inf,
        "perplexity_known": 1.0,
        "bits_per_byte": math.nan,
        "impossible_tokens": 1,
        "cut_rows": 0,
    }
    scores = {"bleu": 41.987654321, "bleu_signature": text, "chrf": 60.0, "chrf_signature": text, "loss": math.nan}
    scores |= {"perplexity": math.nan, "lines_per_second": 5.0, "beam": 5, "search": "beam 5", "device": "cpu"}
    by_length = [LengthBin(1, 10, 5, 12.3456789012345, math.nan, 0.987654321012345)]
    return [
        first,
        first.n_best[0],
        ScoredPair(text, text, -1.5, first.token_scores),
        ScoredPair(text, text, math.nan, [], text),
        ScoredLine(text, [text], [5], [-1.0], None, -1.0),
        TextEvaluation(**measured, boundaries="lines", blank_lines="keep", seconds=1, tokens_per_second=1, note=text),
        Generation(text, text, text, [text], [5], [-1.0], -1.0, False),
        filling.Filled(f"___ {text}", blanks),
        blanks[0][0],
        Classified(text, text, 0.75, {text: 0.75, "b": 0.25}),
        WordVectors(text, words, np.zeros((len(words), 512), np.float32)),
        aligned,
        SideEffect(5, 0.001),
        by_length[0],
        Evaluation(lines=3, **scores, split_lines=0, unscored_lines=0, replaced_words=None, by_length=by_length),
        AnalogyScore(1, 2, 3, {text: (1, 2)}),
        SenseSimilarity((0.1234567, math.nan) * 9, math.nan, 5, 0),
        Association((text, "b"), ("c", "d"), 1.5, 0.5, 0.01, 100, False, {text: 0.5}, {}),
        Outcome(**learned),
        Counted(**learned, orders=[5] * 50),
        History(steps=9, losses=[(9, 1.5)], best_step=9),
        Mixed(text, [MixedPart(text, text, 0.5, 5.0, None)] * 9, 5, 5.0, 0, None, 3, 0, text),
        SensesText((word,), {5: text}, (text,)),
        word,
        piece,
        sense,
        finding,
        Report([finding, finding], {}),
        Report([], {}),
        Comparison(Path("out"), rows, [], columns, [text], [], row, 2, {}),
        ClassificationReport(5, 3, 0.6, 0.5, text, 0.6, [ClassScore(text, 0.5, 0.5, 0.5, 3, 2)], [[3]]),
        PairedBootstrap(5, 100, 1, [PairedScore("BLEU", Interval(40, 40, 1), Interval(39, 39, 1), 0.03, text)]),
        Neighbours([(text, 0.5)] * 500),
        *walked(text),
        *kept(text),
        *(PairedScore("BLEU", Interval(40, 40, 1), Interval(39, 39, 1), 0.03, text), Interval(40, 40, 1)),
        Evaluation(
            lines=1,
            **scores,
            split_lines=0,
            unscored_lines=0,
            replaced_words=None,
            ter=50.0,
            ter_signature=text,
            significance=PairedBootstrap(
                5, 100, 1, [PairedScore("BLEU", Interval(40, 40, 1), Interval(39, 39, 1), 0.03, text)]
            ),
            beside=Evaluation(lines=1, **scores, split_lines=0, unscored_lines=0, replaced_words=None),
        ),
    ]


def walked(text: str) -> list[Any]:
    """All that a trace is made of."""
    wide = Step(text, text, text, [text] * 3, [text] * 90, np.full((3, 90), 0.25), shares=True, arithmetic=None)
    deep = Step("Q", "", text, [text], [str(one) for one in range(512)], np.zeros((1, 512)), dimensions=True)
    check, cell = Check(text, 1e-9, 1e-6), Cell(text, text, [(text, [text])])
    walk = Walk(text, text, text, [wide, deep], [check], cells=[cell])
    token = Token(5, text, text.encode(), 0, 5)
    segment = Segment("src", text, [token] * 500)
    seen = AttentionMap(text, "self", 0, "src", "src", "none", READS, np.zeros((8, 90, 90), np.float32))
    return [wide, deep, check, cell, walk, token, segment, seen, Trace([walk] * 2, [segment] * 2, [seen] * 6)]


def kept(text: str) -> list[Any]:
    """What models hold beside their weights, or are told."""
    seen = Seen([text] * 9, None, False)
    attended = Attended(*[torch.zeros(2, 8, 50, 50)] * 4)
    seen.calls[text].append(attended)
    vectors = Vectors([text, "b"], np.zeros((2, 512), np.float32))
    patch = Patch(MadeFor("a", "b", 16), (Remove(words=(text or "x", "b")), Scale(words=("b",), by=0.5)) * 200)
    scores = {"loss": 1.0, "bleu": 41.0, "bleu_signature": text}
    averaged = {"folder": text, "averaged": [*range(50)], "before": scores, "after": scores, "kept": True}
    said: Any = iter([])
    even = Evenness(1.5, 0.5, 3)
    return [
        *(seen, attended, patch, vectors, VectorIndex(None, vectors)),
        Dictionary([Entry(text, text, 0.5, 3), *(Entry(str(one), text) for one in range(500))]),
        *(SimilarityScore(math.nan, 3, 1), Conversion(Path("a"), Path("b"), 3, [5] * 9, {text: text}, [text])),
        *(Average({**averaged, "metric": "loss"}), Average({"folder": text, "undone": True, "weights": text})),
        Info({"folder": text, "metrics": {text: [text] * 50}, "recipe": None, "parameters": 5000}, text, "5 words"),
        *(DecodingConfig(stop=[text or "x"] * 9), Choice(Method(), 0.5, text)),
        GenerationStream(said, text, [], tokenizer()),
        *explained(text),
        *(Rival({"union": AlignmentScore(0.25, 0.7, 0.8, 5, 3, 2, 2)}, 1), Evened((text, "b"), (), (), *[even] * 4)),
        RatioTable(text, "b", [Ratio(text, 0.1, 0.2)], [(1.0, 2.0)], (10.0, 10.0), 10, True),
        VectorMap([text], np.zeros((1, 2)), np.zeros(1, np.int64), "pca", 0, 0.0, 0.0, None),
    ]


def explained(text: str) -> list[Any]:
    word = RankedWord(5, -1.0, -1.0, 1)
    answers = [
        NextWords((4, 5), (word,) * 50),
        Why((4,), "kneser-ney", 3, ()),
        MixtureWhy((4,), (text,), (1.0,), (), ()),
    ]
    shares = SensesWhy((4,), np.zeros((90, 16)), np.zeros((16, 90, 90), np.float32), ())
    told = WhyText(text, NextWords((4,), (word,)), dict.fromkeys(range(9), text), (text,))
    return [word, *answers, shares, told, Use(3, text, text, text, np.ones(16))]


@functools.cache
def tokenizer() -> Tokenizer:
    return Tokenizer.of_words(["a", "b"])


class Tags(HTMLParser):
    """What a browser would make of it: all tags, balanced, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(html)
        assert not self.open, html

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", [LONG, ODD, "", "Ein Mann."])
def test_every_result_is_one_short_line_and_a_sound_table(text: str) -> None:
    for one in results(text):
        line = repr(one)
        assert line.isprintable() and len(line) <= 400, line
        assert " object at 0x" not in line + str(one) and "tensor(" not in line and "array(" not in line
        if not isinstance(one, Neighbours):  # which is a list
            assert len(line) <= MAX_REPR_CHARACTERS, line
            assert line.startswith((f"{type(one).__name__}(", f"<{type(one).__name__}"))
        if hasattr(one, "_repr_html_"):
            found = Tags(one._repr_html_())
            assert found.seen <= {"div", "table", "caption", "tr", "th", "td", "pre"}
            assert not set(found.text) & set("\x1b\u202e\u2028")


TABLES = """Alignment AnalogyScore Association Average ClassificationReport Classified Comparison Dictionary Evaluation
Filled Generation Info Mixed Neighbours PairedBootstrap Patch RatioTable Report Rival ScoredLine ScoredPair Seen Segment
SenseSimilarity SensesText Step TextEvaluation Trace Translation Walk WhyText WordVectors"""
"""What is a table in a notebook."""


def test_what_holds_many_things_is_a_table_in_a_notebook() -> None:
    assert {type(one).__name__ for one in results("a") if hasattr(one, "_repr_html_")} == {*TABLES.split()}
    for one in results(ODD):
        if hasattr(one, "_repr_html_"):
            html = one._repr_html_()
            assert "<script" not in html and len(html) < 400_000, type(one)
            assert "<table" in html or isinstance(one, Report | Trace | Walk), type(one)


NO_RESULTS = (
    """Any Callable F32 Iterator Literal NDArray Near None Path Self Sequence True Union KeyedVectors UnknownWords"""
)
"""Words of annotations that are no result of ours."""


@pytest.mark.parametrize(
    "owner", [anaphora, anaphora.TranslationModel, anaphora.TextModel, anaphora.VectorsModel, Vectors]
)
def test_whatever_a_public_method_returns_is_among_them(owner: Any) -> None:
    """A new result is shown well, too: it joins `results` above."""
    known = {"Unfinished", *(type(one).__name__ for one in results("a"))}
    for name in dir(owner):
        member = getattr(owner, name)
        if name.startswith("_") or isinstance(member, type) or not callable(member):
            continue
        said = str(inspect.signature(member).return_annotation)
        own = {*re.findall(r"\b[A-Z]\w+", said)} - {*NO_RESULTS.split()}
        assert own <= known | {*anaphora.__all__}, f"{name}: {own - known}"


def test_what_a_result_can_do_is_shown_when_it_is_explored() -> None:
    """help(), tab completion and editors: real parameters, and a line that says what a method does."""
    for kind in {type(one) for one in results("a")}:
        for name, member in vars(kind).items():
            function = inspect.unwrap(getattr(member, "__func__", member))
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            assert inspect.getdoc(function), f"{kind.__name__}.{name}"
            for one in inspect.signature(function).parameters.values():
                assert one.kind is not one.VAR_KEYWORD, f"{kind.__name__}.{name}(**{one.name})"
                assert one.name in ("self", "cls", "document") or one.annotation not in ("Any", one.empty), name


def test_facts_are_a_dict_all_the_same() -> None:
    info = Info({"folder": "runs/a", "metrics": {"bleu": 41.0}, "parameters": 12_032}, "runs/a", "12,032 parameters")
    assert info == {"folder": "runs/a", "metrics": {"bleu": 41.0}, "parameters": 12_032}
    assert json.loads(json.dumps(info)) == info == copy.deepcopy(info)
    assert repr(info) == "Info('runs/a', 12,032 parameters)"
    assert str(info) == "folder: runs/a\nmetrics: bleu 41\nparameters: 12,032"


def test_what_is_done_of_a_translation_is_a_line(tmp_path: Path) -> None:
    with Unfinished(tmp_path / "out.de", {}, print) as unfinished:
        assert repr(unfinished).startswith("Unfinished(") and len(repr(unfinished)) <= MAX_REPR_CHARACTERS


def test_one_is_not_ones() -> None:
    assert count(1, "line") == "1 line" and count(1000, "line") == "1,000 lines"
    assert "1 token," in repr(translation("a")).replace("1 token)", "1 token,") and "1 tokens" not in repr(
        translation("a")
    )


def test_the_text_comes_first_and_is_the_string() -> None:
    first = translation("Ein Mann schläft.")
    assert str(first) == str(first.n_best[0]) == "Ein Mann schläft."
    assert repr(first) == "Translation('Ein Mann schläft.', log P -1.50, 3 tokens, 2 candidates)"
    assert repr(first.n_best[1]) == "Candidate('Ein Mann schläft.', score -0.90, cut off)"
    assert brief("Kind", "a" * 300, "fact").endswith("…', fact)")
    said = Generation("I am", "I am the", " the", ["␣the"], [5], [-1.0], -1.0, True)
    assert str(said) == "I am the" and repr(said) == "Generation('I am the', 1 new token, log P -1.00)"
    assert repr(results("x")[14]).startswith("Evaluation(BLEU 41.99, chrF 60.00, loss –, 3 lines, beam 5")


def test_what_is_printed_can_be_read() -> None:
    """`print` of a comparison, an evaluation, a trace, a patch … shows lines, and no names of Python."""
    for one in results("der Hund"):
        if type(one).__str__ is not object.__str__:
            said = str(one)
            assert "object at 0x" not in said and not said.startswith(f"{type(one).__name__}("), said
    (compared,) = (one for one in results("a") if isinstance(one, Comparison))
    assert "bits/byte" in str(compared) and str(compared).splitlines()[-1] == "- a"
    text = next(one for one in results("a") if isinstance(one, TextEvaluation))
    test = PairedBootstrap(5, 100, 1, [PairedScore("bits per byte", Interval(2, 2, 1), Interval(1, 1, 1), 0.03)])
    pair = dataclasses.replace(text, note=None, significance=test, beside=dataclasses.replace(text, bits_per_byte=1.0))
    assert repr(pair) == "TextEvaluation(perplexity inf, – bits/byte, 5 tokens, beside: 1.0000 bits/byte, p 0.03)"
    assert "paired bootstrap over 5 lines" in str(pair) and pair._repr_html_().count("<table") == 2
    both = [str(one) for one in results("a") if isinstance(one, Evaluation)][-1]
    assert both.startswith("BLEU 41.99  a\nchrF 60.00  a\nTER  50.00  a\n") and "paired bootstrap" in both


def test_tables_hold_what_there_is() -> None:
    aligned = next(one for one in results("der Hund") if isinstance(one, Alignment))
    table = Tags(aligned._repr_html_())
    assert table.text.count("●") == 1 and table.text.count("Hund") == 4 and "rgba" in aligned._repr_html_()
    long = html_table(("a", "b"), [(str(number), "1") for number in range(1000)])
    assert "and 800 more" in long and len(long) < 100_000


def test_models_say_what_they_are(micro: Path) -> None:
    model = anaphora.load(micro, "cpu")
    assert repr(model).startswith(f"<TranslationModel {str(micro)!r}: transformer, ") and "\n" not in repr(model)
    both = anaphora.load([micro, micro], "cpu")
    assert repr(both).startswith("<EnsembleModel of 2: ") and "\n" not in repr(both)
    said = model.translate("the dog", align=True)
    assert repr(said).startswith("Translation(") and Tags(said._repr_html_()).seen >= {"table"}
    assert Tags(said.alignment._repr_html_()).text.count("●") == len(said.alignment.links)
    assert len(repr(model.evaluate(["the dog"], ["der Hund"]))) <= MAX_REPR_CHARACTERS
    assert repr(model.source_tokenizer) == "<Tokenizer: bpe, 300 tokens>"


def test_one_of_a_kind_is_not_many() -> None:
    assert [count(number, "line") for number in (0, 1, 2, 4096)] == ["0 lines", "1 line", "2 lines", "4,096 lines"]
    assert count(1, "line is", "lines are") == "1 line is" and count(2, "class", "classes") == "2 classes"
