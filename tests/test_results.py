"""What Python shows of results: one short line each, the text as `str`, tables in notebooks that nothing breaks."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.comparing.comparison import Comparison
from anaphora.comparing.language import LanguageTask
from anaphora.decoding import filling
from anaphora.decoding.alignment import Alignment, Method
from anaphora.decoding.classifying import Classified
from anaphora.decoding.evaluation import Evaluation
from anaphora.decoding.generation import Generation
from anaphora.decoding.language import ScoredLine, TextEvaluation
from anaphora.decoding.side_effect import SideEffect
from anaphora.decoding.translate import Candidate, ScoredPair, Translation
from anaphora.decoding.vectors import WordVectors
from anaphora.embeddings.vectors import Neighbours
from anaphora.evaluation.by_length import LengthBin
from anaphora.evaluation.classification import ClassificationReport, ClassScore
from anaphora.evaluation.embeddings import AnalogyScore
from anaphora.evaluation.sense_similarity import SenseSimilarity
from anaphora.evaluation.significance import Interval, PairedBootstrap, PairedScore
from anaphora.evaluation.weat import Association
from anaphora.inspect.senses import MovedToken, NearSense, Sense, SensesText, TokenSenses, WordSenses
from anaphora.inspect.trace import Trace, Walk
from anaphora.parts import Mixed, MixedPart
from anaphora.results import LONGEST, brief, count, html_table
from anaphora.text.checking.findings import Finding, Report
from anaphora.text.words import Word, split_words
from anaphora.training.counting import Counted
from anaphora.training.request import Outcome

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
        Mixed(text, [MixedPart(text, text, 0.5, 5.0, None)] * 9, 5, 5.0, 0, None, 3, 0, text),
        SensesText((word,), {5: text}, (text,)),
        word,
        piece,
        sense,
        finding,
        Report([finding, finding], {}),
        Report([], {}),
        Comparison(Path("out"), rows, [], columns, [text], [], row, 2, {}),
        Trace([Walk(text, text, text, [])]),
        ClassificationReport(5, 3, 0.6, 0.5, text, 0.6, [ClassScore(text, 0.5, 0.5, 0.5, 3, 2)], [[3]]),
        PairedBootstrap(5, 100, 1, [PairedScore("BLEU", Interval(40, 40, 1), Interval(39, 39, 1), 0.03, text)]),
        Neighbours([(text, 0.5)]),
    ]


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
        if not isinstance(one, Neighbours):  # which is a list
            line = repr(one)
            assert len(line) <= LONGEST and line.isprintable(), line
            assert line.startswith(f"{type(one).__name__}(")
        if hasattr(one, "_repr_html_"):
            found = Tags(one._repr_html_())
            assert found.seen <= {"div", "table", "caption", "tr", "th", "td", "pre"}
            assert not set(found.text) & set("\x1b\u202e\u2028")


def test_the_text_comes_first_and_is_the_string() -> None:
    first = translation("Ein Mann schläft.")
    assert str(first) == str(first.n_best[0]) == "Ein Mann schläft."
    assert repr(first) == "Translation('Ein Mann schläft.', log P -1.50, 3 tokens, 2 candidates)"
    assert repr(first.n_best[1]) == "Candidate('Ein Mann schläft.', score -0.90, cut off)"
    assert brief("Kind", "a" * 300, "fact").endswith("…', fact)")
    said = Generation("I am", "I am the", " the", ["␣the"], [5], [-1.0], -1.0, True)
    assert str(said) == "I am the" and repr(said) == "Generation('I am the', 1 new token, log P -1.00)"
    assert repr(results("x")[14]).startswith("Evaluation(BLEU 41.99, chrF 60.00, loss –, 3 lines, beam 5")


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
    assert len(repr(model.evaluate(["the dog"], ["der Hund"]))) <= LONGEST


def test_one_is_no_plural() -> None:
    assert [count(number, "line") for number in (0, 1, 2, 2000)] == ["0 lines", "1 line", "2 lines", "2,000 lines"]
    assert [count(number, "class", "classes") for number in (1, 2)] == ["1 class", "2 classes"]
