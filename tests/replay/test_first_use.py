"""A stranger's first day: every command and every Python line that once surprised, typed again as it was typed then.

Commands run in processes of their own, in a folder of tiny models that is made once; Python lines run here, on the same
models. Each row says what must be seen: exit code, words, and words that must not come back. `-s` prints the counts.
"""

from __future__ import annotations

import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora import UserError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TALLY: Counter[str] = Counter()
SMALL: dict[str, Any] = {"model.dim": 16, "model.layers": 1, "model.heads": 2, "model.feed_forward": 32}
SMALL |= {"tokenizer.vocabulary": 400, "training.learning_rate": 0.01, "training.warmup_steps": 5}
TINY = [f"{name}={value}" for name, value in SMALL.items()]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", "TOKENIZERS_PARALLELISM": "false"}
ANAPHORA = [sys.executable, "-m", "anaphora"]


@contextmanager
def replayed(what: str) -> Iterator[None]:
    """Count a command or a Python line, and whether all that is asserted of it held."""
    TALLY[what] += 1
    yield
    TALLY["as expected"] += 1


# -- what is there ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with text in every format, and a tiny model of every sort. Read only, but for new files."""
    begun, folder = time.monotonic(), tmp_path_factory.mktemp("home")
    before = Path.cwd()
    os.chdir(folder)
    try:
        write_texts(folder)
        train_models()
        TALLY["seconds of making"] = round(time.monotonic() - begun)
        yield folder
    finally:
        os.chdir(before)
    commands, lines = TALLY["commands"], TALLY["Python lines"]
    print(
        f"\nfirst use: {commands} commands and {lines} Python lines replayed, {TALLY['as expected']} of"
        f" {commands + lines} as expected; models made in {TALLY['seconds of making']} s,"
        f" {time.monotonic() - begun:.0f} s in all"
    )


def write_texts(folder: Path) -> None:
    subprocess.run(
        [*ANAPHORA, "demo", "--write", "corpus", "--pairs", "600", "--quiet"], env=ENVIRONMENT, check=True, cwd=folder
    )
    sides = [Path(f"corpus/train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    tests = [Path(f"corpus/test.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    english, german = sides
    for name, lines in {
        "train.en": english,
        "train.de": german,
        "test.en": tests[0][:50],
        "test.de": tests[1][:50],
        "lines.txt": english[:300],
        "labels.txt": ["long" if len(line.split()) > 8 else "short" for line in english[:300]],
        "three.txt": english[:3],
        "big.en": english * 5,
        "raw.txt": ['The king, the queen and "the King".'] * 60 + english[:100],
    }.items():
        (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    pairs = list(zip(english[:60], german[:60]))
    quoted = ["".join(f'"{source}","{target}"\n') for source, target in pairs]
    (folder / "pairs.csv").write_text("en,de\n" + "".join(quoted), encoding="utf-8")
    nested = [json.dumps({"translation": {"en": source, "de": target}}) + "\n" for source, target in pairs]
    (folder / "pairs.jsonl").write_text("".join(nested), encoding="utf-8")


def train_models() -> None:
    def learn(name: str, steps: int = 20, **more: Any) -> None:
        settings = {**SMALL, "training.max_steps": steps, "training.checkpoint_every": steps // 2}
        recurrent = more.get("recipe") in ("lstm", "gru")
        for unknown in ("model.heads", "model.feed_forward") if recurrent else ():
            del settings[unknown]
        anaphora.train(name, settings=settings, device="cpu", progress=False, **more)

    learn("en-de", 60, source="train.en", target="train.de")
    learn("other", 10, source="train.en", target="train.de")
    learn("lm-lstm", text="train.en", recipe="lstm")
    learn("gpt", text="train.en", recipe="transformer-decoder")
    learn("masked", text="train.en", recipe="transformer-encoder")
    learn("backpack", text="train.en", recipe="backpack")
    learn("classes", 40, text="lines.txt", labels="labels.txt", recipe="gru")
    counted: dict[str, dict[str, Any]] = {"plays": {}, "stream": {"data.boundaries": "stream"}}
    for name, settings in counted.items():
        anaphora.train(name, text="train.en", settings=settings, progress=False)
    for name, recipe in (("words", "skipgram"), ("counts", "glove")):
        settings = {"model.dim": 8, "training.epochs": 2, "training.threads": 1}
        anaphora.train(name, text="train.en", recipe=recipe, settings=settings, progress=False)


@pytest.fixture(scope="module")
def translator(home: Path) -> Any:
    return anaphora.load("en-de", device="cpu")


@pytest.fixture(scope="module")
def models(home: Path) -> Callable[[str], Any]:
    opened: dict[str, Any] = {}
    return lambda name: opened.setdefault(name, anaphora.load(name, device="cpu"))


def typed(words: Sequence[str], *, given: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    """`anaphora WORDS…`, as a stranger types it into a shell of 80 columns."""
    return subprocess.run(
        [*ANAPHORA, *words],
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        env=ENVIRONMENT | more.pop("env", {}),
        **more,
    )


def at_terminal(words: Sequence[str], given: bytes = b"", after: bytes = b"\n> ", seconds: float = 60) -> str:
    """The same at a terminal: what it shows, control sequences left out; `given` is typed once `after` is seen."""
    child, screen = pty.fork()
    if child == 0:
        os.execvpe(ANAPHORA[0], [*ANAPHORA, *words], ENVIRONMENT | {"TERM": "xterm"})
    shown, ends = b"", time.monotonic() + seconds
    while time.monotonic() < ends:
        if not select.select([screen], [], [], 0.2)[0]:
            continue
        try:
            some = os.read(screen, 65536)
        except OSError:  # the other side is closed
            break
        if not some:
            break
        shown += some
        if given and after in shown.replace(b"\r", b""):
            os.write(screen, given)
            given = b""
    else:
        os.kill(child, signal.SIGKILL)
    os.close(screen)
    os.waitpid(child, 0)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode("utf-8", "replace"))


def default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def begun(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on while the test does; ended with the block."""
    process = subprocess.Popen(
        [*ANAPHORA, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=ENVIRONMENT,
        preexec_fn=default_signals,  # whoever runs the tests may ignore them
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# -- the command line ------------------------------------------------------------------------------------------------


@dataclass
class Row:
    name: str
    words: list[str]
    out: tuple[str, ...] = ()
    """Must be on stdout."""
    err: tuple[str, ...] = ()
    """Must be on stderr."""
    not_seen: tuple[str, ...] = ()
    """Must be on neither."""
    code: int = 0
    given: str = ""
    """On stdin."""
    check: Callable[[str], bool] | None = field(default=None, repr=False)
    """Must hold of stdout."""


def last_json(out: str) -> Any:
    return json.loads(out.splitlines()[-1])


def probabilities_fall(out: str) -> bool:
    found = [float(line.split("\t")[-1]) for line in out.splitlines()]
    return bool(found) and all(0 <= one <= 1 for one in found)


HEX = ("Ġ", "Ã", "Ċ")
"""Letters of the byte alphabet."""
TEST_PAIRS = ["--source", "test.en", "--target", "test.de"]
BRIEFLY = ["--budget", "minutes=0.02", "--device", "cpu"]

ROWS = [
    # settings
    Row("settings-all", ["settings"], ("DATA\n", "TRAINING\n", "training.max_steps  whole number", "decoding.beam")),
    Row("settings-section", ["settings", "decoding"], ("decoding.beam  whole number; default 5",)),
    Row("settings-key", ["settings", "training.max_steps"], ("whole number, or null; default null",)),
    Row("settings-bare-key", ["settings", "beam"], ("decoding.beam  whole number; default 5",)),
    Row("settings-recipe", ["settings", "model", "--recipe", "lstm"], ("kind: lstm", "model.dim")),
    Row("settings-backpack", ["settings", "model", "--recipe", "backpack"], ("model.senses", "model.near_senses")),
    Row("settings-vectors", ["settings", "model", "--recipe", "skipgram"], ("model.window", "model.negative")),
    Row("settings-json", ["settings", "decoding", "--json"], check=lambda out: len(last_json(out)["settings"]) > 20),
    Row(
        "settings-misspelled",
        ["settings", "training.max_stpes"],
        err=("there is no setting", "did you mean", "max_steps"),
        code=2,
    ),
    Row(
        "unknown-setting-points-to-list",
        ["train", "new", "--text", "lines.txt", "training.zzz=1"],
        err=("unknown setting training.zzz", "`anaphora settings training --recipe ngram` lists all of them"),
        code=2,
    ),
    # going on past line ends
    Row(
        "generate-100-tokens",
        ["generate", "gpt", "The king:", "--tokens", "100", "--seed", "1"],
        check=lambda out: len(out.split()) > 20,
    ),
    Row("generate-greedy", ["generate", "gpt", "The king:", "--tokens", "100", "--greedy"], ("The king:",)),
    Row(
        "generate-lines",
        ["generate", "stream", "The king", "--lines", "4", "--seed", "1"],
        check=lambda out: len(out.splitlines()) == 4,
    ),
    Row(
        "generate-prompt-with-line-end",
        ["generate", "stream", "ROMEO:\n", "--lines", "3", "--seed", "2"],
        check=lambda out: out.startswith("ROMEO:\n") and len(out.splitlines()) >= 3,
    ),
    Row(
        "generate-tokens-counted-stream",
        ["generate", "stream", "The king", "--tokens", "60", "--seed", "1"],
        check=lambda out: len(out.splitlines()) > 2,
    ),
    Row("generate-stream", ["generate", "gpt", "The king", "--tokens", "20", "--stream", "--seed", "1"], ("The king",)),
    # the mean of checkpoints
    Row(
        "average-says-what-it-did",
        ["average", "en-de", "--last", "2"],
        ("averaged 2 checkpoints: steps 30, 60", "before  loss", "after  loss"),
        not_seen=("averaged steps", "[30, 60]"),
    ),
    # vectors of lines
    Row(
        "encode-json-holds-vectors",
        ["encode", "lm-lstm", "three.txt", "--json"],
        check=lambda out: [len(one["vector"]) for one in last_json(out)["encodings"]] == [16, 16, 16],
    ),
    # tokens as people read them
    Row(
        "translate-json-tokens",
        ["translate", "en-de", "test.en", "--json"],
        ('"bytes"',),
        not_seen=HEX,
        check=lambda out: len(last_json(out)["translations"]) == 50,
    ),
    Row("score-tokens", ["score", "en-de", *TEST_PAIRS, "--tokens"], ("␣",), not_seen=HEX),
    Row("score-json", ["score", "en-de", *TEST_PAIRS, "--json"], ("␣", '"bytes"'), not_seen=HEX),
    Row("score-text-tokens", ["score", "gpt", "--text", "test.en", "--tokens"], ("␣",), not_seen=HEX),
    # what cannot be exported
    *(
        Row(
            f"convert-translator-{name}",
            ["convert", "en-de", name],
            err=("is a translator", "cannot be exported yet"),
            not_seen=("both folders", "name one of them"),
            code=2,
        )
        for name in ("x.onnx", "hf", "copy.arpa")
    ),
    Row("convert-help-names-all", ["--help"], ("ARPA, word vectors, published Backpacks",)),
    # compare
    Row(
        "compare-recommends-best",
        ["compare", "ladder", "--text", "lines.txt", "--recipes", "ngram,lstm:model.dim=8,model.hidden=8", *BRIEFLY],
        ("best by bits/byte: ngram", "FLOPs are not reported"),
        ("Now: ", "generate ladder/runs/ngram"),
        not_seen=("floating-point operations are told",),
    ),
    Row(
        "compare-without-published-table",
        ["compare", "systems", "--source", "pairs.csv", "--recipes", f"transformer:{','.join(TINY[:4])}", *BRIEFLY],
        ("BLEU", "translated by beam 5"),
        not_seen=("ByteNet", "Deep-Att", "ConvS2S", "lectures"),
    ),
    # evaluation
    Row(
        "evaluate-by-length",
        ["evaluate", "en-de", *TEST_PAIRS, "--by-length", "5"],
        ("source words", "6–10", "11–"),
    ),
    Row(
        "evaluate-bootstrap-and-ter",
        ["evaluate", "en-de", *TEST_PAIRS, "--beside", "other", "--ter", "--bootstrap", "100"],
        ("TER", "paired bootstrap over 50 lines", "difference", "BLEU", "beam 5"),
    ),
    Row(
        "evaluate-bootstrap-language-models",
        ["evaluate", "plays", "--text", "test.en", "--beside", "gpt"],
        ("paired bootstrap over 50 lines", "bits per byte", "difference"),
    ),
    Row(
        "classify-labels",
        ["classify", "classes", "lines.txt", "--labels", "labels.txt"],
        err=("macro F1", "majority baseline", "precision", "recall", "lines by correct label (rows)"),
    ),
    Row(
        "evaluate-labels",
        ["evaluate", "classes", "--text", "lines.txt", "--labels", "labels.txt"],
        ("macro F1", "majority baseline", "precision", "lines by correct label (rows)"),
    ),
    Row(
        "evaluate-labels-json",
        ["evaluate", "classes", "--text", "lines.txt", "--labels", "labels.txt", "--json"],
        check=lambda out: {"accuracy", "macro_f1"} <= set(last_json(out)),
    ),
    # several sentences in a line
    Row(
        "several-sentences-split",
        ["translate", "en-de", "--json"],
        given="A man sleeps. Two dogs play in the snow. A woman reads a book.\n",
        err=("1 line of several sentences",),
        check=lambda out: last_json(out)["split_lines"] == 1,
    ),
    Row(
        "several-sentences-kept-whole",
        ["translate", "en-de", "--json", "--set", "split_sentences=never"],
        given="A man sleeps. Two dogs play in the snow.\n",
        check=lambda out: last_json(out)["split_lines"] == 0,
    ),
    # blanks
    Row(
        "fill-mask-and-underscores",
        ["fill", "masked", "My [MASK] , I ____ not go ."],
        check=lambda out: {line.split("\t")[1] for line in out.splitlines()} == {"1", "2"},
    ),
    Row("fill-angle-mask", ["fill", "masked", "The <mask> sleeps."], check=lambda out: len(out.splitlines()) == 5),
    # tables
    Row(
        "csv-is-a-table",
        ["train", "csv", "--source", "pairs.csv", *TINY, "training.max_steps=2", "--device", "cpu"],
        err=("57 pairs for training, 3 for validation",),
    ),
    Row(
        "csv-columns",
        ["check", "--source", "pairs.csv#en", "--target", "pairs.csv#de", "--no-estimate"],
        ("60 pairs for training",),
        not_seen=("higher up", "shift"),
    ),
    Row(
        "nested-json-keys",
        ["check", "--source", "pairs.jsonl#translation.en", "--target", "pairs.jsonl#translation.de", "--no-estimate"],
        ("60 pairs for training",),
    ),
    Row(
        "nested-json-key-misspelled",
        ["check", "--source", "pairs.jsonl#translation.fr", "--target", "pairs.jsonl#translation.de", "--no-estimate"],
        err=("translation.fr", "did you mean 'translation.en'?"),
        code=2,
    ),
    Row("csv-translated", ["translate", "en-de", "pairs.csv#en"], check=lambda out: len(out.splitlines()) == 60),
    # why
    Row("why-learned", ["why", "lm-lstm", "The old", "--word", "king"], ("log P", "rank", "␣king", "holds: ")),
    Row("why-transformer", ["why", "gpt", "The old"], ("rank", "holds: ")),
    Row("why-counted", ["why", "plays", "The old", "--word", "king"], ("king",)),
    # text is checked, too
    Row("check-text", ["check", "--text", "lines.txt"], ("300 lines for training", "No problems found.", "ngram")),
    Row(
        "check-text-without-estimate",
        ["check", "--text", "lines.txt", "--recipe", "lstm", "--no-estimate"],
        ("300 lines for training", "No problems found."),
        not_seen=("complain",),
    ),
    # vocabularies that cannot be had
    Row(
        "vocabulary-of-a-translator",
        ["train", "huge", "--source", "pairs.csv", *TINY, "tokenizer.vocabulary=100000", "training.max_steps=2"],
        err=("tokenizer.vocabulary is 100,000, but this text has no more than",),
    ),
    Row(
        "vocabulary-of-a-language-model",
        ["train", "huge-lm", "--text", "lines.txt", "--recipe", "lstm", "tokenizer.vocabulary=100000"],
        err=("tokenizer.vocabulary is 100,000, but this text has no more than",),
        code=2,
    ),
    # sampling
    Row("sample-and-beam", ["translate", "en-de", "test.en", "--sample", "--beam", "3"], err=("no beam",), code=2),
    Row("temperature-alone", ["translate", "en-de", "test.en", "--temperature", "0.5"], err=("--sample",), code=2),
    # words from raw text
    Row(
        "words-of-raw-text",
        ["train", "raw", "--text", "raw.txt", "--recipe", "skipgram", "model.dim=8", "training.epochs=1"],
        err=("punctuation apart from words, lower case", "1 epoch done"),
        not_seen=("1 epochs",),
    ),
    Row("neighbours", ["neighbours", "words", "king"], check=lambda out: len(out.splitlines()) == 10),
    Row("neighbours-by-case", ["neighbours", "words", "King"], err=("king",), code=2),
    # alignments
    Row(
        "align-is-quiet",
        ["align", "en-de", *TEST_PAIRS],
        not_seen=("grown", "rows and columns agree", "decoder layer"),
        check=lambda out: len(out.splitlines()) == 50,
    ),
    Row(
        "align-verbose", ["align", "en-de", *TEST_PAIRS, "-v"], err=("attention, decoder layer 0", "words count from 0")
    ),
    Row(
        "align-gold",
        ["align", "en-de", "--source", "corpus/test.en", "--target", "corpus/test.de", "--gold", "corpus/test.align"],
        ("AER", "predicted: "),
        not_seen=("said were",),
    ),
    # looking at models
    Row("info", ["info", "en-de"], ("per token per hypothesis",), not_seen=("a token and hypothesis", "trained_on")),
    Row("map", ["map", "words", "--picture", "map.png"], ("of variance",)),
    Row("senses", ["senses", "backpack", "king"], ("king: ", "raises", "lowers")),
    Row("walk-counted", ["walk", "plays", "Enter the"], err=("does not attend to words", "`anaphora why`"), code=2),
    Row("walk-learned", ["walk", "gpt", "Enter the"], ("Q = ", "A = softmax(S)"), ("encoder attention, layer 0",)),
    Row("walk-lists-examples", ["walk"], ("as-and-bs",)),
    # mistakes
    Row("device-gpu", ["translate", "en-de", "test.en", "--device", "gpu"], err=("did you mean 'cuda'?",), code=2),
    Row("no-such-file", ["translate", "en-de", "nofile.txt"], err=("nofile.txt: there is no such file",), code=2),
    Row(
        "a-width-below-zero",
        ["train", "minus", "--text", "lines.txt", "--recipe", "transformer-decoder", "model.dim=-4"],
        err=("model", "dim", "above 0"),
        not_seen=("multiple of",),
        code=2,
    ),
    Row(
        "output-exists",
        ["translate", "en-de", "test.en", "--output", "three.txt"],
        err=("already exists", "add --force"),
        not_seen=("force=True",),
        code=2,
    ),
    Row(
        "ensemble-of-strangers",
        ["translate", "en-de", "test.en", "--with", "strange"],
        err=("strange", "has a different target vocabulary than en-de"),
        not_seen=("says words",),
        code=2,
    ),
    Row(
        "a-run-of-other-settings",
        ["train", "en-de", "--source", "train.en", "--target", "train.de", "tokenizer.vocabulary=500"],
        err=("tokenizer.vocabulary is", "500 now"),
        not_seen=("is None there",),
        code=2,
    ),
    Row("map-of-one-word", ["map", "words", "king", "--picture", "one.png"], not_seen=("1 words",), code=2),
    # help and completion
    Row("help-verb", ["help"], ("Usage: anaphora", "translate")),
    Row("help-of-a-verb", ["help", "translate"], ("Usage: anaphora translate",)),
    Row("short-version", ["-V"], ("anaphora 0.",)),
    Row("version", ["--version"], ("anaphora 0.",)),
    Row("no-words", [], ("Usage: anaphora",), code=2),
    Row("misspelled-verb", ["trian"], err=("anaphora: no such command 'trian'; did you mean 'train'?",), code=2),
    Row(
        "misspelled-option",
        ["train", "x", "--sorce", "y"],
        err=("anaphora: no such option: --sorce",),
        not_seen=("Usage:", "╭"),
        code=2,
    ),
    Row("completion-shown", ["--show-completion", "bash"], ("COMPREPLY",)),
    # scoring and the rest of the first day
    Row("classify-one-line", ["classify", "classes"], given="The old king sleeps.\n", check=probabilities_fall),
    Row("score-pairs", ["score", "en-de", *TEST_PAIRS], check=lambda out: len(out.splitlines()) == 50),
    Row(
        "translate-as-many-lines-out-as-in",
        ["translate", "en-de"],
        given="A man.\n\n😀 نص\nThe dog.\n",
        check=lambda out: len(out.splitlines()) == 4,
    ),
]


@pytest.fixture(scope="module")
def strange(home: Path) -> Path:
    """A translator with another vocabulary."""
    settings = {**SMALL, "tokenizer.vocabulary": 300, "training.max_steps": 2}
    anaphora.train("strange", source="train.en", target="train.de", settings=settings, progress=False, device="cpu")
    return Path("strange")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_command(row: Row, home: Path, strange: Path) -> None:
    with replayed("commands"):
        done = typed(row.words, given=row.given)
        seen = f"exit code {done.returncode}\nstdout: {done.stdout[-3000:]}\nstderr: {done.stderr[-3000:]}"
        both = done.stdout + done.stderr
        assert done.returncode == row.code, seen
        assert "Traceback" not in both, seen
        for words, stream in ((row.out, done.stdout), (row.err, done.stderr)):
            assert not [one for one in words if one not in stream], seen
        assert not [one for one in row.not_seen if one in both], seen
        assert row.check is None or row.check(done.stdout), seen


VERBS = [
    *("demo", "check", "train", "average", "compare", "mix", "settings", "translate", "generate", "fill", "score"),
    *("evaluate", "classify", "encode", "patch", "convert", "align", "walk", "why", "senses", "neighbours", "analogy"),
    *("map", "info"),
]
AWKWARD = (
    "<bool>",
    "]]...",
    "Say it",
    "of the house",
    "unless said",
    "so many",
    "is said how often",
    "Draw nothing",
    "speaks for",
)
"""What no page of help says any more."""
PLAIN = {
    "generate": ("A draft speeds generation up without changing its distribution.", "--lines", "--tokens"),
    "compare": ("Rows to train in parallel; times are comparable only with 1.", "Test text; the table reports it."),
    "train": ("strong", "backpack-micro", "their shapes, not the pretrained weights"),
    "score": ("Combine with this model, as an ensemble.",),
    "align": ("Combine with this model, as an ensemble.", "--verbose"),
    "check": ("--text",),
    "evaluate": ("--ter", "--beside", "--labels"),
    "translate": ("--output",),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_of_help(verb: str, home: Path) -> None:
    with replayed("commands"):
        done = typed([verb, "--help"])
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= 80
        text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout).split())
        flat = re.sub(r"-(?:-\w[\w-]*,?)+ +<\w+> ", "", text)
        assert "Examples: $ anaphora " in text
        assert not [one for one in AWKWARD if one in text], text
        missing = [one for one in PLAIN.get(verb, ()) if not within(one, done.stdout) and one not in flat]
        assert not missing, (missing, text)


def within(words: str, page: str) -> bool:
    """Whether a page of help has these words, broken into lines of its last column."""
    column = " ".join(line.strip("│ ").split("  ")[-1].strip() for line in page.splitlines())
    return words in column or words in page


# -- at a terminal, and interrupted ----------------------------------------------------------------------------------


def test_typing_lines_shows_a_prompt(home: Path) -> None:
    with replayed("commands"):
        shown = at_terminal(["translate", "en-de"], b"A man sleeps.\n\x04")
        assert "loading en-de" in shown
        assert "type a line and press Enter; Ctrl-D ends" in shown
        assert "> A man sleeps." in shown


def test_time_left_when_minutes_are_the_limit(home: Path) -> None:
    with replayed("commands"):
        words = ["train", "minutes", "--text", "lines.txt", "--recipe", "lstm", "model.dim=8", "model.hidden=8"]
        shown = at_terminal([*words, "training.max_minutes=0.1", "--device", "cpu"])
        assert re.search(r"0:0\d left", shown), shown[-2000:]
        assert "stopped after 0.1 minutes (training.max_minutes)" in shown
        assert "0.1 minutes over" not in shown
        assert "1 layers" not in shown


def test_short_texts_do_not_flood_the_terminal(home: Path) -> None:
    with replayed("commands"):
        words = ["train", "short", "--text", "lines.txt", "--recipe", "lstm", "model.dim=8", "model.hidden=8"]
        done = typed([*words, "training.max_minutes=0.15", "--device", "cpu"])
        assert done.returncode == 0, done.stderr
        lines = done.stderr.splitlines()
        samples = [line for line in lines if line.startswith("         text  ")]
        assert len(samples) <= 9, done.stderr
        assert all(" ▸ " in line for line in samples), "a sample shows where the model's words begin"
        validations = [line for line in lines if line.startswith("step ") and "perplexity" in line]
        assert len(validations) <= 20, f"{len(validations)} validations are shown in nine seconds"


@pytest.mark.parametrize(
    ("recipe", "files", "words"),
    [
        ("base", ["--source", "train.en", "--target", "train.de"], []),
        ("gpt2", ["--text", "lines.txt"], ["gpt2 is the shape of GPT-2, trained from scratch; it is not pretrained"]),
    ],
)
def test_heavy_recipes_warn_first_and_stop_when_told(
    recipe: str, files: list[str], words: list[str], home: Path
) -> None:
    with (
        replayed("commands"),
        begun(["train", f"heavy-{recipe}", *files, "--recipe", recipe, "--device", "cpu"]) as run,
    ):
        assert run.stderr is not None
        heard: list[str] = []
        for line in run.stderr:
            heard.append(line)
            if line.startswith("to make it smaller"):
                break
        text = "".join(heard)
        for one in (
            "far more than it can teach",
            "warning: an update takes about",
            "the folder grows to about",
            *words,
        ):
            assert one in text
        assert "\nstep " not in text
        run.send_signal(signal.SIGTERM)
        stopped = time.monotonic()
        told = next(run.stderr)  # at once, though an update takes minutes
        finishing = "stopping: what is being computed is finished and saved first; interrupt again to stop at once"
        assert finishing in told or "interrupted; " in told
        assert time.monotonic() - stopped < 5
        run.send_signal(signal.SIGTERM)
        run.wait(20)


def interrupted(words: list[str], when: Callable[[], bool]) -> tuple[int, str]:
    with begun(words) as run:
        limit = time.monotonic() + 60
        while not when() and run.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        return run.returncode, err


def test_an_interrupted_translation_keeps_what_it_has_and_goes_on(home: Path) -> None:
    words, kept = ["translate", "en-de", "big.en", "--output", "big.de"], Path("big.de.unfinished")
    with replayed("commands"):
        code, err = interrupted(words, lambda: kept.exists() and kept.stat().st_size > 20_000)
        assert code == 130, err
        found = re.search(r"interrupted; ([\d,]+) of 3,000 lines are translated and kept in big.de.unfinished", err)
        assert found and kept.exists() and not Path("big.de").exists(), err
        assert "repeat the command to continue" in err
    with replayed("commands"):
        done = typed([*words, "--beam", "5"])
        assert done.returncode == 0, done.stderr
        assert f"{found[1]} lines were translated before: going on" in done.stderr
        assert len(Path("big.de").read_text(encoding="utf-8").splitlines()) == 3000
        assert not kept.exists()


def test_what_was_kept_outlives_a_second_interruption(home: Path, translator: Any) -> None:
    """Ctrl-C before the repeated command comes to its first line: what the first one had done must still be there."""
    out, kept, heard = Path("twice.de"), Path("twice.de.unfinished"), []
    lines = Path("train.en").read_text(encoding="utf-8").splitlines()[:300]
    with replayed("Python lines"):
        with pytest.raises(KeyboardInterrupt), translator.keep_unfinished(out, heard.append) as one:
            for number, _ in enumerate(translator.stream(lines, unfinished=one, window=100)):
                if number == 120:
                    raise KeyboardInterrupt
        whole = kept.read_bytes()
        with pytest.raises(KeyboardInterrupt), translator.keep_unfinished(out, heard.append):
            raise KeyboardInterrupt
        assert kept.exists(), "a second interruption removed what the first one had kept"
        assert kept.read_bytes() == whole
        kept.unlink()


def test_an_interrupted_translation_to_stdout_promises_nothing(home: Path) -> None:
    with replayed("commands"), begun(["translate", "en-de", "big.en"]) as run:
        time.sleep(4)  # it has begun
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        assert run.returncode == 130, err
        assert "repeat the command to continue" not in err
        assert "interrupted; nothing " in err


# -- time and imports ------------------------------------------------------------------------------------------------


def test_an_ngram_answers_without_torch_within_a_second(home: Path) -> None:
    with replayed("commands"):
        words = [sys.executable, "-X", "importtime", "-m", "anaphora", "generate", "plays", "The king"]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", env=ENVIRONMENT)
        assert done.returncode == 0
        assert not re.search(r"\| +torch$", done.stderr, re.MULTILINE)
        times = []
        for _ in range(3):
            started = time.monotonic()
            typed(["generate", "plays", "The king"])
            times.append(time.monotonic() - started)
        assert min(times) < 2.5, times  # below one second where nothing else runs


def test_completion_is_installed_for_the_shell(home: Path, tmp_path: Path) -> None:
    with replayed("commands"):
        done = typed(["--install-completion", "bash"], env={"HOME": str(tmp_path), "SHELL": "/bin/bash"})
        assert done.returncode == 0, done.stderr
        assert "completion installed" in done.stdout
        assert (tmp_path / ".bashrc").exists()


@pytest.mark.parametrize(
    ("module", "words", "hint"),
    [
        ("sklearn", ["map", "words", "--method", "tsne", "--picture", "tsne.png"], "pip install scikit-learn"),
        ("faiss", ["neighbours", "words", "king", "--approximate"], "pip install faiss-cpu"),
    ],
)
def test_a_hint_names_what_can_be_installed(module: str, words: list[str], hint: str, home: Path) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['anaphora', *{words!r}]\n"
    code += "from anaphora.cli.main import main; main()"
    with replayed("commands"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=ENVIRONMENT)
        assert done.returncode == 2, done.stderr
        assert hint in done.stderr
        assert "anaphora[vectors]" not in done.stderr


# -- Python ----------------------------------------------------------------------------------------------------------


class Series:
    """What is awkward about a column of pandas: no truth value, keys in the place of numbers, comparison by element."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)
        self.index = [f"row {number}" for number in range(len(self.values))]

    def __bool__(self) -> bool:
        raise ValueError(
            "The truth value of a Series is ambiguous. Use a.empty, a.bool(), a.item(), a.any() or a.all()."
        )

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __getitem__(self, key: Any) -> Any:
        return self.values[self.index.index(key)]  # ValueError of a number that is no key

    def __eq__(self, other: object) -> Any:
        return Series([value == other for value in self.values])

    __hash__ = None  # type: ignore[assignment]


def lines(name: str, number: int | None = None) -> list[str]:
    return Path(name).read_text(encoding="utf-8").splitlines()[:number]


def test_any_lines_are_evaluated(translator: Any) -> None:
    source, target = lines("test.en"), lines("test.de")
    wanted = translator.evaluate(source, target)
    with Path("test.en").open(encoding="utf-8") as english, Path("test.de").open(encoding="utf-8") as german:
        ways: dict[str, tuple[Any, Any]] = {
            "columns": (Series(source), Series(target)),
            "generators": ((line for line in source), (line for line in target)),
            "tuples": (tuple(source), tuple(target)),
            "paths": (Path("test.en"), Path("test.de")),
            "open files": (english, german),
        }
        for name, (one, other) in ways.items():
            with replayed("Python lines"):
                found = translator.evaluate(one, other)
                assert (found.lines, found.bleu, found.chrf) == (50, wanted.bleu, wanted.chrf), name
                assert math.isclose(found.loss, wanted.loss)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "evaluate-names": (lambda m: m.evaluate("test.en", "test.de"), "Path('test.en')"),
    "translate-name": (lambda m: m.translate("test.en"), "Path('test.en')"),
    "score-lengths": (lambda m: m.score(["a", "b"], ["c"]), "source has 2 lines and target has 1"),
    "evaluate-lengths": (lambda m: m.evaluate(["a", "b"], ["c"]), "source has 2 lines and target has 1"),
    "translate-number": (lambda m: m.translate([1]), "text[0] is an int"),
    "translate-missing": (lambda m: m.translate(Series(["a", float("nan")])), "text[1] is missing (nan)"),
    "translate-none-inside": (lambda m: m.translate(["a", None]), "text[1] is missing"),
    "translate-bytes": (lambda m: m.translate(b"A man."), ".decode('utf-8')"),
    "translate-none": (lambda m: m.translate(None), "text is None"),
    "translate-path": (lambda m: m.translate(Path("in.txt")), "in.txt: there is no such file"),
    "translate-dict": (lambda m: m.translate({"en": ["a"]}), "is a dict"),
    "misspelled-option": (lambda m: m.translate("A man.", bean=3), "did you mean 'beam'?"),
    "device": (lambda m: anaphora.load("en-de", device="gpu"), "did you mean 'cuda'?"),
    "no-model": (lambda m: anaphora.load("en-d"), "en-d"),
    "train-text-as-file": (lambda m: anaphora.train("t", text="no such file.txt"), "there is no such file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_in_python_has_a_cure(name: str, translator: Any) -> None:
    wrong, said = REFUSED[name]
    with replayed("Python lines"):
        with pytest.raises(UserError) as caught:
            wrong(translator)  # by the call itself, not when the result is read
        assert said in str(caught.value)
        assert "--device" not in str(caught.value)


def test_one_text_one_result_and_many_a_list(translator: Any, models: Callable[[str], Any]) -> None:
    english, german = lines("test.en", 3), lines("test.de", 3)
    masked, gpt, classes = models("masked"), models("gpt"), models("classes")
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "translate": (lambda: translator.translate(english[0]), lambda: translator.translate(english)),
        "score": (lambda: translator.score(english[0], german[0]), lambda: translator.score(english, german)),
        "align": (lambda: translator.align(english[0], german[0]), lambda: translator.align(english, german)),
        "generate": (
            lambda: gpt.generate(english[0], max_new_tokens=5),
            lambda: gpt.generate(english, tokens=5),
        ),
        "fill": (lambda: masked.fill("The ___ sleeps."), lambda: masked.fill(["The ___ sleeps."] * 3)),
        "classify": (lambda: classes.classify(english[0]), lambda: classes.classify(english)),
        "tokenize": (lambda: gpt.tokenize(english[0]), lambda: gpt.tokenize(english)),
    }
    for name, (one, many) in calls.items():
        with replayed("Python lines"):
            single, several = one(), many()
            assert isinstance(several, list) and len(several) == 3, name
            assert type(single) is type(several[0]), name
    with replayed("Python lines"):
        assert gpt.encode(english[0]).shape == (16,)
        assert gpt.encode(english).shape == (3, 16)
    with replayed("Python lines"):
        assert len(gpt.generate(english[0], samples=2, tokens=3)) == 2


def test_names_of_the_command_line_are_understood(translator: Any, models: Callable[[str], Any]) -> None:
    with replayed("Python lines"):
        assert translator.translate("A man sleeps.", prefix="Der").text.startswith("Der")
        assert translator.translate(["A man sleeps."], prefixes=["Der"])[0].text.startswith("Der")
    with replayed("Python lines"):
        outcome = anaphora.train(
            "finer",
            source="train.en",
            target="train.de",
            from_="en-de",
            settings={"training": {"max_steps": 2, "warmup_steps": 1}},
            progress=False,
            device="cpu",
        )
        assert outcome is not None
    with replayed("Python lines"):
        assert models("gpt").generate("The king", tokens=4).token_ids == (
            models("gpt").generate("The king", max_new_tokens=4).token_ids
        )


def test_nothing_of_a_text_is_dropped(translator: Any) -> None:
    first, second = (translator.translate(line).text for line in ("A man sleeps.", "Two dogs play."))
    with replayed("Python lines"):
        assert translator.translate("A man sleeps.\nTwo dogs play.").text == f"{first}\n{second}"
    with replayed("Python lines"):
        joined = translator.translate("A man sleeps. Two dogs play.")
        assert joined.pieces == 2 and joined.text == f"{first} {second}"


def test_results_are_short_and_readable(translator: Any, models: Callable[[str], Any]) -> None:
    english, german = lines("test.en", 4), lines("test.de", 4)
    translation, backpack = translator.translate(english[0]), models("backpack")
    results = {
        "translation": translation,
        "evaluation": translator.evaluate(english, german),
        "score": translator.score(english[0], german[0]),
        "alignment": translator.align(english[0], german[0]),
        "generation": models("gpt").generate("The king", tokens=5),
        "classified": models("classes").classify(english[0]),
        "filled": models("masked").fill("The ___ sleeps."),
        "perplexity": models("plays").evaluate(english),
        "why": models("plays").why("The old"),
        "senses": backpack.senses(["king"]),
        "report": models("classes").evaluate_labels(Path("lines.txt"), Path("labels.txt")),
    }
    for name, result in results.items():
        with replayed("Python lines"):
            assert len(repr(result)) < 300 and "\n" not in repr(result), name
            assert " object at 0x" not in repr(result) + str(result), name
    with replayed("Python lines"):
        assert str(translation) == translation.text
        assert str(results["generation"]) == results["generation"].text
    for name in ("translation", "evaluation", "alignment", "why", "senses", "report"):
        with replayed("Python lines"):
            page = results[name]._repr_html_()
            assert page.count("<table") == page.count("</table>") >= 1, name
    for name in ("en-de", "gpt", "plays", "classes", "masked", "words"):
        with replayed("Python lines"):
            assert re.fullmatch(r"<\w+ '[^']+': .+>", repr(models(name))), repr(models(name))


def test_tokens_are_readable_in_python(translator: Any, models: Callable[[str], Any]) -> None:
    with replayed("Python lines"):
        tokens = translator.score("The man sleeps.", "Über den schönen Garten.").token_scores
        assert not [token for token, _ in tokens if set(token) & set("ĠÃĊ")], tokens
        assert any(token.startswith("␣") for token, _ in tokens)
    with replayed("Python lines"):
        moved = models("backpack").senses(["king"]).words[0].pieces[0].senses[2].raises[0]
        assert isinstance(moved.token, str) and isinstance(moved.value, float)


def test_the_module_can_be_explored() -> None:
    import inspect

    with replayed("Python lines"):
        assert {"train", "load", "compare", "check", "mix", "average", "UserError"} <= set(dir(anaphora))
        assert not {"Any", "TYPE_CHECKING", "annotations", "errors", "version"} & set(dir(anaphora))
    for method in (anaphora.TranslationModel.translate, anaphora.TextModel.generate, anaphora.train):
        with replayed("Python lines"):
            signature = str(inspect.signature(method))
            assert not re.search(r"'Any'|\*\*", signature), signature


TRAIN = """
import anaphora
anaphora.train("{name}", text="lines.txt", recipe="lstm", device="cpu"{more},
               settings={{"model": {{"dim": 8, "hidden": 8}}, "training.max_steps": 4}})
"""


@pytest.mark.parametrize("more", ["", ", progress=False"], ids=["by-default", "silent"])
def test_python_shows_progress_unless_told_not_to(more: str, home: Path) -> None:
    with replayed("Python lines"):
        code = TRAIN.format(name=f"shown{len(more)}", more=more)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=ENVIRONMENT)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        if more:
            assert done.stderr == ""
        else:
            assert "lines" in done.stderr and "step 4" in done.stderr


# -- what training leaves --------------------------------------------------------------------------------------------


def test_a_worse_mean_is_not_kept_and_a_kept_one_can_be_undone(home: Path) -> None:
    import shutil

    shutil.copytree("en-de", "averaged")
    weights = Path("averaged/model.safetensors")
    trained = weights.read_bytes()
    with replayed("commands"):
        done = typed(["average", "averaged", "--last", "2"])
        worse = "not kept: " in done.stdout + done.stderr
        assert worse == (weights.read_bytes() == trained)
        assert not worse or "--force keeps the average all the same" in done.stdout + done.stderr
    with replayed("commands"):
        assert typed(["average", "averaged", "--last", "2", "--force"]).returncode == 0
        assert weights.read_bytes() != trained
        measured = json.loads(Path("averaged/metrics.json").read_text(encoding="utf-8"))["validation"]
        assert measured["beam"] == 5, "the same ruler as training's"
    with replayed("commands"):
        done = typed(["average", "averaged", "--undo"])
        assert "restored in averaged" in done.stdout + done.stderr
        assert weights.read_bytes() == trained
    with replayed("commands"):
        done = typed(["average", "averaged", "--undo"])
        assert done.returncode == 2 and "no average to undo" in done.stderr


def test_cards_are_sound_markdown(home: Path) -> None:
    for name in ("en-de", "gpt", "classes", "plays", "words"):
        with replayed("commands"):
            card = Path(name, "card.md").read_text(encoding="utf-8")
            rows = [line for line in card.splitlines() if line.startswith("|")]
            assert len({len(re.split(r"(?<!\\)\|", line)) for line in rows}) <= 1, card


def test_what_to_type_next_fits_the_model(home: Path) -> None:
    words = ["--text", "lines.txt", *TINY, "training.max_steps=2", "--device", "cpu", "--recipe", "transformer-encoder"]
    with replayed("commands"):
        done = typed(["train", "masked-too", *words])
        assert "fill masked-too" in done.stderr.splitlines()[-1]


# -- the documentation -----------------------------------------------------------------------------------------------


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


GONE = {
    "docs/index.md": ("Today: Transformer translators",),
    "CONTRIBUTING.md": ("The Transformer is the only model so far",),
    "docs/architecture.md": ("One model needs no more",),
    "CHANGELOG.md": ("Eight pages of the lectures",),
    "docs/lectures/10-bank.md": ("After the lecture on recurrent networks",),
    "docs/results.md": ("four fifths of its cost", "(asked 1", "| asked |"),
    "docs/reinforcement.md": ("of the house",),
    "docs/mistakes.md": ("pip install -U anaphora",),
    "docs/embeddings.md": ("anaphora[vectors]",),
    "docs/attention.md": ("may be loaded with a larger",),
    "docs/walk.md": ('anaphora walk plays "Enter the"',),
    "README.md": ("on as many cores as help", "any encoder tells lines apart", "written from the code"),
}


@pytest.mark.parametrize("name", GONE)
def test_a_page_no_longer_says(name: str) -> None:
    with replayed("Python lines"):
        text = " ".join(page(name).split())
        assert not [one for one in GONE[name] if one in text]


def test_published_figures_are_those_of_the_table_shown() -> None:
    with replayed("Python lines"):
        results = page("docs/results.md")
        assert re.search(r"twice as wide .*\| 41\.0 † \|", results)
        assert not re.search(r"^\| Transformer.*\| 41\.8\b", results, re.MULTILINE)
        assert "As the lectures and the proceedings have it; later versions of the paper have 41.8" in results
        lectures = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/lectures").glob("*.md"))
        assert "41.8" not in lectures


def test_settings_have_tables_as_committed() -> None:
    with replayed("Python lines"):
        text = page("docs/settings.md")
        for kind in ("transformer", "lstm", "backpack", "ngram"):
            section = text.split(f"### kind: {kind}\n")[1].split("\n### ")[0]
            assert section.count("\n| `model.") > 1, kind
        backpack = text.split("### kind: backpack\n")[1].split("\n### ")[0]
        assert all(f"`model.{one}`" in backpack for one in ("senses", "near_senses", "sense_window"))
        for section in ("data", "tokenizer", "training", "decoding"):
            assert f"| `{section}." in text
    with replayed("Python lines"):
        assert "| `training.learning_rate` |" in page("docs/embeddings.md")


def test_first_pages_lead_everywhere() -> None:
    with replayed("Python lines"):
        readme, index = page("README.md"), page("docs/index.md")
        for name in (
            "mistakes",
            "ensembles",
            "experts",
            "convolutional",
            "benchmarks",
            "backpack",
            "senses",
            "patches",
        ):
            assert f"docs/{name}.md" in readme, name
            assert f"({name}.md" in index, name
        assert "make demo" in readme and "make test" in readme
    with replayed("Python lines"):
        text = page("docs/python.md")
        for name in ("Translation", "Evaluation", "Alignment", "Generation", "ScoredPair"):
            assert f"### {name}\n" in text


def test_numbers_of_pages_are_counted() -> None:
    """Where a page says how many there are, as many there are."""
    with replayed("Python lines"):
        pages = [path for path in (ROOT / "docs/lectures").glob("*.md") if path.name != "README.md"]
        names = {"eight": 8, "thirteen": 13, "fourteen": 14, "fifteen": 15}
        found = re.search(r"(\w+) pages of the lectures' numbers", page("CHANGELOG.md"))
        assert found is None or names.get(found[1].lower()) == len(pages), found
    with replayed("Python lines"):
        layers = page("docs/architecture.md")
        assert all(one in layers for one in ("models/vectors/", "backpack/", "ensembl"))


DOCUMENTED = [
    Row("walk-a-transformer", ["walk", "gpt", "To be, or not to", "--layer", "0", "--head", "0"], ("holds",)),
    Row("walk-a-backpack", ["walk", "backpack", "The old", "--head", "1", "--query", "old"], ("senses",)),
    Row("map-by-tsne-or-a-hint", ["map", "words", "--number", "60", "--picture", "documented.png"], ("60 words",)),
    Row("why-of-two-words", ["why", "counts", "king", "queen"]),
    Row("why-of-a-backpack", ["why", "backpack", "The doctor saw a"], ("holds",)),
    Row("patch", ["patch", "backpack", "fix.json", "--remove", "king#1", "--text", "three.txt", "--force"], ("KL",)),
    Row("generate-of-readme", ["generate", "plays", "The old king", "--samples", "3"], ("The old king",)),
    Row("analogy", ["analogy", "words", "man", "king", "woman"]),
    Row("info-json", ["info", "en-de", "--json"], check=lambda out: bool(last_json(out))),
    Row("mix", ["mix", "both", "plays", "gpt", "--text", "test.en"], code=2),
    Row("translate-mbr", ["translate", "en-de", "three.txt", "--mbr", "chrf", "--beam", "4"]),
    Row("lecture", ["walk", "as-and-bs", "--cell", "query,B"]),
]


@pytest.mark.parametrize("row", DOCUMENTED, ids=lambda row: row.name)
def test_a_documented_command(row: Row, home: Path, strange: Path) -> None:
    test_a_command(row, home, strange)
