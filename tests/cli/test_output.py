"""What a program and what a person get: JSON last, results on stdout, progress on stderr, pipes, colors, speed."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked
from anaphora.version import __version__
from micro_runs import MICRO, arguments, command

VERBS = ["demo", "train", "average", "translate", "score", "evaluate", "info"]


def files(corpus: dict[str, Path]) -> list[object]:
    return ["--source", corpus["source"], "--target", corpus["target"]]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory, corpus: dict[str, Path], micro: Path) -> dict[str, list[object]]:
    """A working command of each verb, each with a folder of its own where it writes."""
    folder = tmp_path_factory.mktemp("verbs")
    shutil.copytree(micro, folder / "averaged")
    return {
        "train": ["train", folder / "run", *files(corpus), "--device", "cpu", *arguments(MICRO)],
        "translate": ["translate", micro, corpus["source"], "--device", "cpu"],
        "score": ["score", micro, *files(corpus), "--device", "cpu"],
        "evaluate": ["evaluate", micro, *files(corpus), "--device", "cpu"],
        "average": ["average", folder / "averaged", "--last", "2", "--device", "cpu"],
        "info": ["info", micro],
        "demo": ["demo", "--write", folder / "pocket", "--pairs", "50"],
    }


KEYS = {
    "train": {"folder", "reason", "steps", "tokens", "seconds", "flops", "parameters", "weights", "validation"},
    "translate": {"model", "lines", "split_lines", "translations"},
    "score": {"model", "pairs", "loss", "tokens", "unscored"},
    "evaluate": {"model", "lines", "bleu", "bleu_signature", "chrf", "chrf_signature", "loss", "lines_per_second"},
    "average": {"folder", "averaged", "before", "after"},
    "info": {"folder", "recipe", "parameters", "settings", "metrics", "flops_per_pair", "cache_bytes_per_token"},
    "demo": {"folder", "train", "seed"},
}


@pytest.mark.parametrize("verb", VERBS)
def test_json_is_one_object_in_the_last_line(
    verb: str, words: dict[str, list[object]], say: Any, tmp_path: Path
) -> None:
    asked = [tmp_path / "pocket" if verb == "demo" and word == words["demo"][2] else word for word in words[verb]]
    answer = say(*asked, "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.last)
    assert KEYS[verb] <= document.keys()
    assert "NaN" not in answer.last
    assert answer.out.count("\n") == 1  # and alone


@pytest.mark.parametrize("verb", VERBS)
def test_quiet_is_silent_on_stderr(verb: str, words: dict[str, list[object]], say: Any, tmp_path: Path) -> None:
    asked = [tmp_path / "pocket" if verb == "demo" and word == words["demo"][2] else word for word in words[verb]]
    answer = say(*asked, "--quiet")
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out or verb == "train"  # results are results


def test_version_says_it(say: Any) -> None:
    answer = say("--version")
    assert (answer.code, answer.out, answer.err) == (0, f"anaphora {__version__}\n", "")


def test_a_mistake_is_json_too(say: Any, tmp_path: Path) -> None:
    answer = say("info", tmp_path / "absent", "--json")
    assert answer.code == 2
    document = json.loads(answer.last)
    assert document["exit_code"] == 2
    assert "there is no such folder" in document["error"]


# What a run ends with -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reason", "validation", "said"),
    [
        (
            "lstm",
            "stopped after 0.7 minutes (training.max_minutes)",
            {},
            "stopped after 0.7 minutes (training.max_minut",
        ),
        ("lstm", "1 epoch done", {}, "finished: 1 epoch done. Now: anaphora evaluate run --text test.txt"),
        ("transformer-encoder", "2 updates done", {"masked": 0.15}, 'Now: anaphora fill run "some words and a ____ ."'),
        ("transformer-encoder", "2 updates done", {"accuracy": 0.5}, "Now: anaphora classify run input.txt"),
        ("word2vec", "5 epochs done", {}, "Now: anaphora neighbours run WORD"),
    ],
)
def test_training_ends_with_why_and_what_to_do_now(
    say: Any, monkeypatch: pytest.MonkeyPatch, kind: str, reason: str, validation: dict[str, Any], said: str
) -> None:
    from anaphora import api
    from anaphora.cli import train
    from anaphora.tasks.request import Outcome

    ended = Outcome(Path("run"), reason, 1, 1, 1.0, 1.0, 1, "", validation, kind)
    monkeypatch.setattr(api, "train", lambda *_, **__: ended)
    monkeypatch.setattr(train, "program", lambda: "anaphora")
    answer = say("train", "run", "--text", "x.txt")
    assert answer.code == 0 and said in answer.err


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (7, "interrupted: step 7 is saved in run; repeat the command to continue\n"),
        (0, "interrupted before the first update; repeat the command to start (run)\n"),
        (None, "interrupted: what was learned is saved in run; repeat the command to continue\n"),
    ],
)
def test_an_interrupted_training_says_what_is_saved(
    say: Any, monkeypatch: pytest.MonkeyPatch, step: int | None, said: str
) -> None:
    from anaphora import api
    from anaphora.training.interruption import Interrupted

    def interrupted(*_: Any, **__: Any) -> None:
        raise Interrupted(step)

    monkeypatch.setattr(api, "train", interrupted)
    answer = say("train", "run", "--text", "x.txt", "--json")
    assert (answer.code, answer.err) == (130, said)
    assert json.loads(answer.last) == {"folder": "run", "interrupted": True, "steps": step}


def test_average_prints_what_it_averaged_kept_and_undid(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from anaphora import api

    found = {"folder": "run", "averaged": [4, 8], "before": {"loss": 3.31}, "after": {"loss": 3.386}}
    monkeypatch.setattr(api, "average", lambda *_, **__: {**found, "kept": False, "metric": "loss"})
    lines = say("average", "run").out.splitlines()
    assert lines[0] == "averaged 2 checkpoints: steps 4, 8"
    assert lines[3] == (
        "not kept: loss 3.3860 is worse than 3.3100; run stays as it is (--force keeps the average all the same)"
    )
    monkeypatch.setattr(api, "average", lambda *_, **__: {"undone": True, "weights": "those of step 8"})
    undone = say("average", "run", "--undo").out
    assert undone == "restored in run: the weights that training published, those of step 8\n"
    assert "leave out --last and --force" in say("average", "run", "--undo", "--force").err


# In processes of their own ------------------------------------------------------------------------------------------


def test_train_progress_goes_to_stderr_and_nothing_to_stdout(tmp_path: Path, corpus: dict[str, Path]) -> None:
    done = command("train", tmp_path / "run", *files(corpus), "--device", "cpu", *arguments(MICRO))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "corpus: 19 pairs for training, 1 for validation" in done.stderr
    assert f"finished: 2 updates done. Now: {Path(sys.executable).name} -m anaphora translate" in done.stderr
    assert "\x1b[" not in done.stderr  # no colors where there is no terminal
    assert "Warning" not in done.stderr


def test_translate_json_prints_the_object_alone(micro: Path, corpus: dict[str, Path]) -> None:
    done = forked.command("translate", micro, "-", "--json", "--n-best", 2, input="the dog.\n\na cat\u2028sees.\n")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert document["lines"] == 3
    assert [t["source"] for t in document["translations"]] == ["the dog.", "", "a cat\u2028sees."]
    assert document["translations"][1]["text"] == ""
    first = document["translations"][0]
    assert first["n_best"][0]["text"] == first["text"]
    assert sum(token["log_probability"] for token in first["tokens"]) == pytest.approx(first["log_probability"])


def test_as_many_lines_out_as_in(micro: Path) -> None:
    lines = "the dog.\r\n\n   \n\x00\x0b\x85\u2028x\n<s> </s> ⟨s⟩\nlast without newline"
    done = command("translate", micro, input=lines, env={"PYTHONIOENCODING": ""})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 6
    assert done.stdout.split("\n")[1:3] == ["", ""]


def test_head_ends_a_pipe_without_a_traceback(micro: Path, tmp_path: Path) -> None:
    (tmp_path / "many").write_text("the dog sees a cat.\n" * 5000)
    words = f"translate '{micro}' '{tmp_path / 'many'}' --beam 1 --set max_length=3"
    line = f"'{sys.executable}' -m anaphora {words} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 0


def in_terminal(words: list[object], **environment: str) -> str:
    """What the command prints where all its streams are a terminal."""
    import pty

    master, slave = pty.openpty()
    clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM", "CI")}
    streams = {"stdin": slave, "stdout": slave, "stderr": slave}
    process = forked.Forked(words, **streams, env={**clean, "TERM": "xterm-256color", **environment})
    os.close(slave)
    chunks = []
    try:
        while chunk := os.read(master, 65536):
            chunks.append(chunk)
    except OSError:  # Linux: the other end is closed
        pass
    assert process.wait(timeout=60) == 0
    os.close(master)
    return b"".join(chunks).decode()


COLOR = re.compile(r"\x1b\[[0-9;]*[34][0-7][0-9;]*m|\x1b\[[0-9;]*38;5")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_no_color_is_obeyed_at_a_terminal() -> None:
    assert COLOR.search(in_terminal(["--help"]))
    assert not COLOR.search(in_terminal(["--help"], NO_COLOR="1"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_training_at_a_terminal_shows_a_bar_and_samples(tmp_path: Path, corpus: dict[str, Path]) -> None:
    shown = in_terminal(
        ["train", tmp_path / "run", *files(corpus), "--device", "cpu", *arguments(MICRO)], NO_COLOR="1", COLUMNS="100"
    )
    assert "training" in shown
    assert "reference" in shown
    assert not COLOR.search(shown)


# Help ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"]])
def test_help_answers_in_half_a_second(words: list[str]) -> None:
    """At the best of some tries: a busy neighbour on the same core makes even processor time half as long again. Where
    the smallest program with the same command-line library needs that long, at most half as long again as it."""
    limit, tries = 0.5, [_seconds(lambda: command(*words))]
    while min(tries) >= limit and len(tries) < 10:
        limit = max(limit, 1.5 * _seconds(_smallest))
        tries.append(_seconds(lambda: command(*words)))
    assert min(tries) < limit, f"{min(tries):.2f} s, limit {limit:.2f} s"


SMALLEST = """
import sys, typer
app = typer.Typer()
@app.command()
def verb(option: str = "") -> None: ...
@app.command()
def other() -> None: ...
sys.argv = ["smallest", "verb", "--help"]
app()
"""


def _smallest() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SMALLEST], capture_output=True, text=True)


def _seconds(run: Callable[[], subprocess.CompletedProcess[str]]) -> float:
    """Processor time of a command: what it would take alone, however busy the machine is with other tests."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run().returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_imports_nothing_heavy() -> None:
    code = "import sys\nsys.argv = ['anaphora', '--help']\nfrom anaphora.cli.main import main\n" + (
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'pyarrow', 'tokenizers', 'numba', 'sacrebleu', 'tensorboard', 'safetensors'}\n"
        "print(heavy & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "set()"


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_80_columns_and_names_every_verb_and_option(verb: str, say: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    answer = say(*([verb] if verb else []), "--help")
    assert answer.code == 0
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    for name in ("--json", "--quiet") if verb else VERBS:
        assert re.search(rf"(^|\s|│){name}\s", answer.out), f"{name} is not to be read in 80 columns"
    for option in re.findall(r"--[a-z-]+…", answer.out):
        pytest.fail(f"{option} is cut off")


def test_help_is_a_verb_and_the_version_an_option(say: Any) -> None:
    assert say("help", "translate").out == say("translate", "--help").out
    assert say("help").out == say("--help").out
    assert say("-V").out == f"anaphora {__version__}\n"
    assert "no such command 'trian'" in say("help", "trian").err


@pytest.mark.parametrize(
    ("typed", "place", "offered"),
    [("tr", 1, {"train", "translate"}), ("translate --be", 2, {"--beam"}), ("info --j", 2, {"--json"})],
)
def test_a_shell_completes_verbs_and_options(
    typed: str, place: int, offered: set[str], say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_ANAPHORA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"anaphora {typed}")
    monkeypatch.setenv("COMP_CWORD", str(place))
    answer = say()
    assert (set(answer.out.split()), answer.code) == (offered, 0)
    monkeypatch.setenv("_ANAPHORA_COMPLETE", "source_bash")
    assert "_ANAPHORA_COMPLETE=complete_bash" in say().out
    monkeypatch.delenv("_ANAPHORA_COMPLETE")
    assert "--install-completion" in say("--help").out


def test_no_arguments_show_the_help(say: Any) -> None:
    answer = say()
    assert "Usage: anaphora" in answer.out + answer.err
    assert "Traceback" not in answer.err


def test_output_goes_into_the_file(micro: Path, corpus: dict[str, Path], say: Any, tmp_path: Path) -> None:
    plain = say("translate", micro, corpus["source"], "--beam", 2)
    written = say("translate", micro, corpus["source"], "--beam", 2, "--output", tmp_path / "out.de")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "out.de").read_text(encoding="utf-8") == plain.out
    say("evaluate", micro, *files(corpus), "--beam", 2, "--output", tmp_path / "evaluated.de")
    assert (tmp_path / "evaluated.de").read_text(encoding="utf-8") == plain.out


def test_n_best_lines_have_four_columns(micro: Path, corpus: dict[str, Path], say: Any) -> None:
    rows = [line.split("\t") for line in say("translate", micro, corpus["source"], "--n-best", 2).out.splitlines()]
    assert len(rows) == 40
    assert [(row[0], row[1]) for row in rows[:4]] == [("0", "1"), ("0", "2"), ("1", "1"), ("1", "2")]
    assert all(len(row) == 4 for row in rows)


def test_score_lines_and_evaluate_agree(micro: Path, corpus: dict[str, Path], say: Any) -> None:
    rows = [line.split("\t") for line in say("score", micro, *files(corpus)).out.splitlines()]
    assert len(rows) == 20
    total, tokens = sum(float(row[0]) for row in rows), sum(int(row[1]) for row in rows)
    evaluated = json.loads(say("evaluate", micro, *files(corpus), "--beam", 1, "--json").last)
    assert evaluated["loss"] == pytest.approx(-total / tokens, abs=1e-4)
    assert evaluated["bleu_signature"].startswith("nrefs:1|case:mixed")
    shown = say("evaluate", micro, *files(corpus), "--beam", 1).out
    assert evaluated["bleu_signature"] in shown
    assert evaluated["chrf_signature"] in shown


def test_demo_write_gives_text_alignments_and_senses(say: Any, tmp_path: Path) -> None:
    assert say("demo", "--write", tmp_path / "pocket", "--pairs", 30, "--seed", 2).code == 0
    names = {path.name for path in (tmp_path / "pocket").iterdir()}
    assert {f"train.{kind}" for kind in ("en", "de", "align", "senses")} <= names
    assert len((tmp_path / "pocket" / "train.en").read_text().splitlines()) == 30


# Tokens ---------------------------------------------------------------------------------------------------------------


def bytes_of(token: dict[str, Any]) -> bytes:
    return base64.b64decode(token["bytes"], validate=True)


def test_tokens_are_readable_and_have_their_bytes_beside_them(
    corpus: dict[str, Path], micro: Path, say: Any, tmp_path: Path
) -> None:
    lines = {"source": "the dog hears loudly\n", "target": "der Hund hört laut 漢\n"}
    for side, line in lines.items():
        (tmp_path / side).write_text(line, encoding="utf-8")
    asked = ["score", micro, "--source", tmp_path / "source", "--target", tmp_path / "target", "--device", "cpu"]
    tokens = json.loads(say(*asked, "--json").last)["pairs"][0]["tokens"]
    assert b"".join(map(bytes_of, tokens)).decode() == lines["target"].strip()
    names = [token["token"] for token in tokens]
    assert names[-1] == "⟨/s⟩" and bytes_of(tokens[-1]) == b""
    assert {"⟨E6⟩", "⟨BC⟩", "⟨A2⟩"} <= set(names), "half a character is told by its bytes"
    assert any(name.startswith("␣") for name in names) and not set("".join(names)) & set("ĠÃ¶æ¼")
    shown = [line.split("\t") for line in say(*asked, "--tokens").out.splitlines()]
    assert [row[:2] for row in shown] == [["1", name] for name in names]
    assert [float(row[2]) for row in shown] == pytest.approx([one["log_probability"] for one in tokens], abs=1e-4)
    said = json.loads(say("translate", micro, corpus["source"], "--device", "cpu", "--json").last)
    for one in said["translations"]:
        spelled = b"".join(map(bytes_of, one["tokens"])).decode(errors="replace")
        assert " ".join(spelled.split()) == " ".join(one["text"].split())
        assert "Ġ" not in "".join(token["token"] for token in one["tokens"])


def test_a_pair_that_cannot_be_scored_has_a_line_too(micro: Path, say: Any, tmp_path: Path) -> None:
    for side in ("source", "target"):
        (tmp_path / side).write_text("a " * 200 + "\n")
    asked = ["score", micro, "--source", tmp_path / "source", "--target", tmp_path / "target", "--device", "cpu"]
    assert say(*asked, "--tokens").out == "1\t\tnan\n"


def test_figures_stand_with_the_beam_they_were_measured_with(say: Any, micro: Path) -> None:
    shown = " ".join(say("info", micro).out.split())
    assert re.search(r"BLEU [\d.]+ chrF [\d.]+ \(beam 5\)", shown), shown
    assert "| BLEU (beam 5) |" in (micro / "card.md").read_text(encoding="utf-8")
