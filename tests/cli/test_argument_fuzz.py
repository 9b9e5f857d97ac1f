"""The command line fuzzed in process: verbs with real small models, options from the real lists, any bytes on stdin.

Whatever is typed ends in the exit code 0, 2 or 130 and without a traceback; most of what is tried here passes parsing
and does some work, which is counted, printed and asserted. A few hundred cases every time, ten thousand in the slow
tier.
"""

from __future__ import annotations

import io
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from anaphora.cli.app import app
from anaphora.cli.output import Output
from anaphora.models.vectors.vector_files import save_vectors
from anaphora.models.vectors.word_vectors import Vectors
from neural_folders import neural_folder
from ngram_folders import VERSE, ngram_folder

VERBS = {
    "translate": ["translator"],
    "score": ["translator", "ngram", "stream", "lstm", "decoder", "masked", "backpack"],
    "evaluate": ["translator", "ngram", "stream", "lstm", "decoder", "masked", "backpack", "vectors.vec", "classifier"],
    "generate": ["ngram", "stream", "lstm", "decoder", "backpack"],
    "fill": ["masked"],
    "classify": ["classifier"],
    "encode": ["lstm", "decoder", "masked", "backpack", "classifier"],
    "why": ["ngram", "stream", "lstm", "decoder", "masked", "backpack"],
    "senses": ["backpack"],
    "walk": ["translator", "decoder", "masked", "backpack"],
    "align": ["translator"],
    "neighbours": ["vectors.vec"],
    "analogy": ["vectors.vec"],
    "info": ["translator", "ngram", "lstm", "vectors.vec", "backpack"],
}
"""Verbs that use a model, and the models that each of them is for."""
WORDS = [
    "the cat",
    "the ___ sat",
    "cat",
    "dog",
    "the [MASK]",
    "",
    " ",
    "a\nb",
    "</s>",
    "é👩‍👧\u2028",
    "--",
    "x" * 300,
    "\x1b[2J",
]
NUMBERS = [1, 2, 3, 5, 7]
ODD_NUMBERS = [0, -1, 10**12, 10**30]
ODD_WORDS = ["", "x", "1e9", "nan", "-", "nowhere", "0x1", "ä", "=", "1,2"]
SETTINGS = [
    "beam=1",
    "beam=2",
    "min_length=1",
    "max_length=4",
    "no_repeat_ngram=2",
    "nonsense=1",
    "beam=x",
    "=",
    "n_best=2",
]
CHOICES: dict[str, list[str]] = {
    "--mbr": ["chrf", "bleu", "gleu"],
    "--pool": ["mean", "max", "last", "first"],
    "--split": ["punctuation", "whitespace", "characters"],
    "--method": ["attention", "occlusion", "attention-average"],
    "--tokenize": ["13a", "char", "intl", "none"],
    "--device": ["cpu", "auto"],
    "--draft": ["prompt", "ngram", "lstm"],
    "--set": SETTINGS,
}
FILES = {
    "--source",
    "--target",
    "--text",
    "--file",
    "--labels",
    "--similarity",
    "--analogies",
    "--weat",
    "--gold",
    "--patch",
}
MODELS = {"--with", "--beside"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, micro: Path) -> Path:
    """A folder with a model of every sort and files of text, in which commands are run."""
    root = tmp_path_factory.mktemp("stage")
    shutil.copytree(micro, root / "translator")
    ngram_folder(root / "ngram")
    ngram_folder(root / "stream", boundaries="stream")
    neural_folder(root / "lstm", "lstm", boundaries="stream")
    neural_folder(root / "decoder", "transformer-decoder")
    neural_folder(root / "masked", "transformer-encoder")
    neural_folder(root / "backpack", "backpack")
    neural_folder(root / "classifier", "lstm", labels=["glad", "sad"])
    words = [*dict.fromkeys(" ".join(VERSE).split())]
    vectors = Vectors(words, np.random.default_rng(1).normal(size=(len(words), 4)).astype("f"))
    save_vectors(vectors, root / "vectors.vec")
    (root / "lines.txt").write_text("the cat sat\na dog\n\nthe ___ saw\n")
    (root / "labels.txt").write_text("glad\nsad\nglad\nsad\n")
    (root / "pairs.tsv").write_text("cat\tdog\t3\nmat\tlog\t1\na\tthe\t2\n")
    (root / "bad.txt").write_bytes(b"\xff\xfe\x00bad")
    (root / "empty.txt").write_bytes(b"")
    (root / "out").mkdir()
    return root


class Commands:
    """Draws command lines from the parameters that the verbs really have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.verbs: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]

    def draw(self) -> list[str]:
        verb = self.random.choice([*VERBS])
        fit = self.random.random() < 0.9
        model = self.random.choice(VERBS[verb] if fit else [*VERBS["evaluate"], "nowhere", "lines.txt", "out"])
        words = [verb, model]
        options = [one for one in self.verbs[verb].params if one.param_type_name == "option" and not one.is_eager]
        words += self._needed(verb, model)
        for option in self.random.sample(options, self.random.choice([0, 0, 1, 1, 1, 2, 3])):
            if option.opts[0] not in words:
                words += self._option(option)
        return words

    def _needed(self, verb: str, model: str) -> list[str]:
        """What the verb does not work without, mostly."""
        if self.random.random() < 0.05:
            return []
        text = self._file()
        if verb in ("score", "evaluate", "align") and model == "translator":
            return ["--source", text, "--target", text]
        if verb == "evaluate" and model == "vectors.vec":
            return ["--similarity", "pairs.tsv"]
        if verb == "evaluate" and model == "classifier":
            return ["--text", "lines.txt", "--labels", "labels.txt"]
        if verb in ("score", "evaluate"):
            return ["--text", text]
        if verb in ("translate", "classify", "encode"):
            return [text] * (self.random.random() < 0.8)
        if verb == "fill":
            return ["--file", text] if self.random.random() < 0.5 else ["the ___ sat"]
        if verb in ("neighbours", "senses"):
            return [self.random.choice(["cat", "dog", "the", "zebra"])]
        if verb == "analogy":
            return ["cat", "dog", "mat"]
        if verb in ("why", "walk", "generate"):
            return [word for word in [self.random.choice(WORDS)] if not word.startswith("-")]
        return []

    def _option(self, option: Any) -> list[str]:
        name, kind = option.opts[0], option.type_descriptor.annotation
        if option.is_flag:
            return [name]
        odd = self.random.random() < 0.25
        if name in CHOICES:
            value: Any = self.random.choice(ODD_WORDS if odd else CHOICES[name])
        elif name in FILES:
            value = self._file()
        elif name in MODELS:
            value = self.random.choice([*VERBS["evaluate"], "nowhere"] if odd else ["translator", "ngram", "lstm"])
        elif name in ("--output", "--picture", "--alpha", "--trace", "--alignments"):
            ending = self.random.choice(["svg", "png", "npy", "txt", "json", ""])
            value = f"out/{self.random.randrange(50)}.{ending}"
        elif kind in (int, float):
            value = self.random.choice([*ODD_NUMBERS, *ODD_WORDS] if odd else [*NUMBERS, *[0.3, 0.9] * (kind is float)])
        else:
            value = self.random.choice([*ODD_WORDS, *ODD_NUMBERS] if odd else WORDS[:8])
        return [name, str(value)]

    def _file(self) -> str:
        return self.random.choice(["lines.txt"] * 6 + ["empty.txt", "bad.txt", "-", "nowhere.txt", "out", "labels.txt"])


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts the commands that got behind parsing: each of them makes itself an Output first."""
    found: Counter[str] = Counter()
    begin = Output.__init__

    def counting(self: Output, *given: Any, **more: Any) -> None:
        found["now"] += 1
        begin(self, *given, **more)

    monkeypatch.setattr(Output, "__init__", counting)
    yield found


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("cases", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_arguments_end_in_order(
    cases: int, stage: Path, say: Any, parsed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stage)
    commands, passed, codes = Commands(cases), 0, Counter[tuple[str, int]]()
    for _ in range(cases):
        words = commands.draw()
        stdin(monkeypatch, b"the cat\na dog\n")
        parsed.clear()
        try:
            answer = say(*words)
        except Exception as error:
            pytest.fail(f"{words}: {error!r}")
        assert answer.code in (0, 2, 130), (words, answer)
        assert "Traceback" not in answer.err, (words, answer.err)
        if answer.code == 2:
            assert answer.err.strip().splitlines()[-1].startswith("anaphora: "), (words, answer.err)
        passed += parsed["now"] > 0
        codes[words[0], answer.code] += 1
    worked = sum(number for (_, code), number in codes.items() if code == 0)
    print(f"{cases:,} command lines, {passed:,} past parsing, {worked:,} did their work")
    for verb in VERBS:
        print(f"  {verb:<11}" + "  ".join(f"{code}: {codes[verb, code]:,}" for code in (0, 2, 130)))
        assert codes[verb, 0] + codes[verb, 2] > 0
    assert passed > 0.6 * cases
    assert worked > 0.25 * cases


# stdin ----------------------------------------------------------------------------------------------------------------

LINE_FOR_LINE = {
    "translate": ["translate", "translator", "-", "--beam", "1", "--set", "max_length=3"],
    "classify": ["classify", "classifier", "-"],
    "encode": ["encode", "lstm", "-"],
    "score": ["score", "lstm", "--text", "-"],
    "fill": ["fill", "masked", "--file", "-", "--best"],
    "generate": ["generate", "ngram", "--file", "-", "--greedy", "--tokens", "3"],
}
"""Commands that print a line for each that they are given."""
OTHERS = {
    "senses": ["senses", "backpack", "cat", "--text", "-"],
    "evaluate": ["evaluate", "ngram", "--text", "-"],
    "generate lines": ["generate", "stream", "--file", "-", "--tokens", "5"],
}
ODD = "a\u2028b c\u0085 é👩‍👧 \u202eabc ___ [MASK] <unk> </s> \x00 \x0b \x1b[2J ıİß ﷽ \ufeff \t  "


def odd_lines(source: random.Random, count: int) -> list[str]:
    """Lines without a newline inside, of characters from everywhere, tokens' names, blanks and controls."""

    def character() -> str:
        one = chr(
            source.choice([source.randrange(32, 127), source.randrange(0x20, 0x3000), source.randrange(0x110000)])
        )
        return "?" if one in "\n\r" or 0xD800 <= ord(one) < 0xE000 else one

    return [
        source.choice(
            ["", ODD.strip("\r\n"), "the cat", "x" * 500, "".join(character() for _ in range(source.randrange(30)))]
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("lines", [40, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*LINE_FOR_LINE, *OTHERS])
def test_any_lines_on_stdin(name: str, lines: int, stage: Path, say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stage)
    source = random.Random(lines)
    text = odd_lines(source, lines)
    words = {**LINE_FOR_LINE, **OTHERS}[name]
    stdin(monkeypatch, "".join(line + "\n" for line in text).encode())
    answer = say(*words)
    if name in ("fill", "generate", "encode") and answer.code == 2:  # lines too long for a small model are refused
        text = [line[:15] for line in text]
        stdin(monkeypatch, "".join(line + "\n" for line in text).encode())
        answer = say(*words)
    assert answer.code == 0, answer.err
    if name in LINE_FOR_LINE:
        assert answer.out.count("\n") == len(text)
    for _ in range(5 if lines < 100 else 100):
        stdin(monkeypatch, source.randbytes(source.randrange(200)))
        answer = say(*words)
        assert answer.code in (0, 2), answer.err
        assert "Traceback" not in answer.err


@pytest.mark.parametrize("lines", [20, pytest.param(1_000, marks=pytest.mark.slow)])
def test_any_lines_are_aligned(lines: int, stage: Path, say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From files: `align` reads its text twice, and refuses stdin."""
    monkeypatch.chdir(stage)
    source = random.Random(lines)
    for name in ("left.txt", "right.txt"):
        (stage / name).write_bytes("".join(f"{line[:20]}\n" for line in odd_lines(source, lines)).encode())
    answer = say("align", "translator", "--source", "left.txt", "--target", "right.txt")
    assert answer.code == 0, answer.err
    assert answer.out.count("\n") == lines
    refused = say("align", "translator", "--source", "left.txt", "--target", "-")
    assert (refused.code, "cannot be read here" in refused.err) == (2, True)


@pytest.mark.parametrize("cases", [10, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("verb", ["why", "walk", "senses"])
def test_any_text_as_an_argument(verb: str, cases: int, stage: Path, say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stage)
    source, codes = random.Random(cases), Counter[int]()
    for line in odd_lines(source, cases):
        answer = say(
            verb, "--json", *(["--top", "2"] if verb != "walk" else []), "--", "backpack", line.replace("\0", "")
        )
        assert answer.code in (0, 2), answer.err
        assert "Traceback" not in answer.err
        codes[answer.code] += 1
    print(f"{verb}: {dict(codes)}")
    assert verb == "senses" or codes[0] > 0
