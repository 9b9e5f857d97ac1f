"""Hostile input: each with one sentence that names file, line and cure, exit code 2, no traceback, nothing overwritten.

The tables say what is wrong and what is said; every verb that it can meet is run, in this process, and the folders
around it are compared before and after. What is odd but harmless is accepted, with one line that counts it.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from hostile_world import FAST, LINES, NOISE, PAIRS, READERS, TEXT, USERS, World, damage, flip, tree
from micro_runs import command, write_pairs

# Files of text --------------------------------------------------------------------------------------------------------

DAMAGED = "this archive is damaged or cut short .*; copy or download it again"

FILES: dict[str, tuple[str, bytes, str, tuple[str, ...]]] = {
    "shorter": ("bad.en", TEXT[: TEXT.index(b"3")], r"bad\.en has 4 lines but .*good\.de has 20 lines; line n", PAIRS),
    "longer": ("bad.en", TEXT + b"more\n", r"bad\.en has 21 lines but .*good\.de has 20 lines; line n", PAIRS),
    "latin-1": (
        "bad.en",
        TEXT.replace(b"7", "schön".encode("latin1")),
        r"bad\.en:8: byte 17 of this line \(0xF6\) is not UTF-8; convert the file: iconv",
        READERS,
    ),
    "utf-16": (
        "bad.en",
        TEXT.decode().encode("utf-16"),
        r"bad\.en:1: byte 1 .* is not UTF-8; .*iconv -f UTF-16",
        READERS,
    ),
    "NUL": (
        "bad.en",
        TEXT.replace(b"sees 9", b"sees\x00 9"),
        r"bad\.en:10: character 13 of this line is NUL, .*; convert the file: iconv -f UTF-16",
        PAIRS,
    ),
    "NUL in JSON": (
        "bad.jsonl",
        b"".join(json.dumps({"source": line + "\0" * (i == 4)}).encode() + b"\n" for i, line in enumerate(LINES)),
        r"bad\.jsonl:5: character \d+ of this line is NUL",
        PAIRS,
    ),
    "no text at all": (
        "bad.en",
        b"\n" * 20,
        r"bad\.en: no pair is left for training \(20 with an empty side\); check that",
        ("train",),
    ),
    "corrupt gz": ("bad.en.gz", gzip.compress(TEXT + NOISE)[:50] + b"\0\1\2" * 40, DAMAGED, READERS),
    "no gz": ("bad.en.gz", TEXT, DAMAGED, READERS),
    "cut gz": ("bad.en.gz", gzip.compress(TEXT + NOISE)[:-20], DAMAGED, READERS),
    "cut xz": ("bad.en.xz", lzma.compress(TEXT + NOISE)[:-20], DAMAGED, READERS),
    "cut zst": ("bad.en.zst", pa.Codec("zstd").compress(TEXT + NOISE, asbytes=True)[:-20], DAMAGED, READERS),
    "cut Parquet": ("bad.parquet", b"PAR1" + NOISE, DAMAGED, READERS),
    "a column too few": (
        "bad.tsv#2",
        TEXT.replace(b" trees.", b"\ttrees").replace(b"5\t", b"5 "),
        r"bad\.tsv:6: column 2 is asked for, but this line has 1 column; separate columns by one tab",
        READERS,
    ),
    "not JSON": (
        "bad.jsonl",
        b'{"source": "a"}\n{"source": "b"\n',
        r"bad\.jsonl:2: this line is not JSON .*; ",
        READERS,
    ),
}


@pytest.mark.parametrize(("name", "verb"), [(name, verb) for name, case in FILES.items() for verb in case[3]])
def test_files_that_are_not_what_they_should_be(world: World, name: str, verb: str) -> None:
    file, content, said, _ = FILES[name]
    (world.folder / file.split("#")[0]).write_bytes(content)
    sentence = world.refused(*world.words(verb, world.folder / file, world.folder / "good.de"))
    assert re.search(said, sentence), sentence
    assert "bad." in sentence


@pytest.mark.parametrize("verb", READERS)
def test_what_is_no_file(world: World, verb: str) -> None:
    (world.folder / "dangling").symlink_to("nowhere")
    (world.folder / "loop").symlink_to("loop")
    for name, said in {
        "god.en": r"god\.en: there is no such file; did you mean 'good\.en'\?",
        "absent/x": r"absent/x: there is no such file; check the path",
        "": "",
        "n" * 300: r"cannot be read \(File name too long\); choose a shorter name",
        "dangling": r"dangling: is a link to nowhere, which does not exist; correct the link",
        "loop": r"loop: this file cannot be read \(Too many levels of symbolic links\); its links",
        "good.de/x": r"Not a directory\); a part of that path is a file",
    }.items():
        sentence = world.refused(*world.words(verb, world.folder / name, world.folder / "good.de"))
        assert re.search(said or "this is a folder, not a file; name the files inside it", sentence), sentence
    assert "the name of a file is empty" in world.refused(*world.words(verb, "", world.folder / "good.de"))


@pytest.mark.parametrize("verb", PAIRS)
def test_empty_files(world: World, verb: str) -> None:
    (world.folder / "empty").touch()
    sentence = world.refused(*world.words(verb, world.folder / "empty", world.folder / "empty"))
    assert re.search(r"empty: there (is no text in this corpus|are no lines in this file); give ", sentence)


def test_nothing_to_translate_is_said_and_is_no_mistake(world: World) -> None:
    (world.folder / "empty").touch()
    answer = world.say("translate", world.model, world.folder / "empty")
    assert (answer.code, answer.out) == (0, "")
    assert "empty: there is nothing to translate" in answer.err


def test_a_corpus_of_one_line(world: World) -> None:
    (world.folder / "one").write_text("a line\n")
    (world.folder / "eins").write_text("eine Zeile\n")
    sentence = world.refused(*world.words("train", world.folder / "one", world.folder / "eins"))
    assert re.search(r"one: this corpus has 1 line only; give it at least two lines", sentence)


def test_validation_text_without_text(world: World) -> None:
    (world.folder / "empty").write_text("\n  \n")
    more = ["--valid-source", world.folder / "empty", "--valid-target", world.folder / "empty"]
    sentence = world.refused(*world.good("train"), *more)
    assert re.search(r"empty: the validation text is empty \(2 with an empty side\); give it some lines", sentence)


def test_one_file_for_both_sides_and_pipes(world: World) -> None:
    good = world.folder / "good.en"
    assert "good.en: is both source and target; name the file" in world.refused(*world.words("train", good, good))
    assert "reads its text twice; write it into a file first" in world.refused(
        *world.words("train", "/dev/null", "/dev/null")
    )
    assert "reads its text twice; write it into a file first" in world.refused(
        *world.words("train", "/dev/zero", "/dev/zero")  # endless: refused before anything is read
    )
    assert "- would be stdin, which cannot be read here; write" in world.refused(*world.words("score", "-", good))


# Text that is odd but harmless ----------------------------------------------------------------------------------------

ODD: dict[str, tuple[bytes, str]] = {
    "BOM": (b"\xef\xbb\xbf" + TEXT, "1 byte-order mark taken off"),
    "CRLF": (TEXT.replace(b"\n", b"\r\n"), r"20 line ends \r\n read as \n"),
    "U+2028": (TEXT.replace(b"dog", "d\u2028g".encode(), 3), "3 lines contain separators such as U+2028"),
}


@pytest.mark.parametrize("verb", READERS)
@pytest.mark.parametrize("name", ODD)
def test_odd_text_is_accepted_and_counted(world: World, name: str, verb: str) -> None:
    content, said = ODD[name]
    (world.folder / "odd.en").write_bytes(content)
    answer = world.say(*world.words(verb, world.folder / "odd.en", world.folder / "good.de"))
    assert answer.code == 0, answer.err
    assert answer.err.splitlines().count(f"warning: {said}") == 1
    if verb == "translate":
        assert answer.out.count("\n") == 20
        assert answer.out == world.say(*world.words(verb, world.folder / "good.en", "")).out or name == "U+2028"


@pytest.mark.parametrize("text", ["a\0b\nc\n", "\0\0\n\n\0x\n"])
def test_nuls_in_text_to_translate_become_spaces_and_are_counted(world: World, text: str) -> None:
    (world.folder / "nul").write_text(text)
    answer = world.say("translate", world.model, world.folder / "nul", "--beam", 1)
    assert answer.code == 0
    assert answer.out.count("\n") == text.count("\n")
    number = sum("\0" in line for line in text.split("\n"))
    assert f"warning: {number} line{'s' * (number > 1)} contain{'s' * (number == 1)} NUL characters" in answer.err


def test_empty_and_endless_lines_leave_training_and_are_counted(world: World) -> None:
    """A line without a token, one of spaces, one of a million characters without a space."""
    for side, word in (("good.en", "endless"), ("good.de", "endlos")):
        with (world.folder / side).open("a") as file:
            file.write("\n   \n" + word * 170_000 + "\n")
    answer = world.say(*world.good("train"))
    assert answer.code == 0, answer.err
    assert answer.err.splitlines().count("warning: left out 2 with an empty side, left out 1 too long") == 1


def test_an_endless_line_is_translated_in_pieces_and_counted(world: World) -> None:
    long = "x" * 1_000_000
    (world.folder / "long").write_text(f"a cat\n{long}\n\na dog\n")
    answer = world.say("translate", world.model, world.folder / "long", "--beam", 1, "--set", "max_length=1")
    assert answer.code == 0, answer.err
    assert answer.out.count("\n") == 4
    assert "1 line of several sentences, or too long for the model: translated in pieces" in answer.err


# Settings and devices -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one here")
@pytest.mark.parametrize("verb", ["train", *USERS, "average"])
def test_cuda_asked_for_and_absent(world: World, verb: str) -> None:
    said = world.refused(*world.good(verb), "--device", "cuda")
    assert said == "there is no cuda device here; use the device auto or cpu"
    assert "unknown device 'cude'; did you mean 'cuda'?" in world.refused(*world.good(verb), "--device", "cude")
    assert "cpu:x" in world.refused(*world.good(verb), "--device", "cpu:x")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"model:\n  haeds: 4\n", r"mine\.yaml: unknown setting model\.haeds; did you mean 'heads'\?"),
        (b"trainign:\n  seed: 4\n", r"mine\.yaml: unknown section 'trainign'; did you mean 'training'\?"),
        (b"model:\n  dim: wide\n", r"mine\.yaml: model\.dim must be a whole number, not 'wide'; write model\.dim=100"),
        (b"training:\n  seed: -1\n", r"mine\.yaml: training: seed must be at least 0"),
        (b"tokenizer:\n  dropout: 5\n", r"mine\.yaml: tokenizer: dropout is 5\.0; make it a probability"),
        (b"data:\n  hold_out: -5\n", r"mine\.yaml: data: hold_out must be at least 0, not -5; change that setting"),
        (b"training:\n  seed: 1e30\n", r"mine\.yaml: training\.seed cannot be as large as"),
        (b"model:\n  dim: 4\n heads: 2\n", r"mine\.yaml:3: is not valid YAML .*; correct that line"),
        (b"- a\n- list\n", r"mine\.yaml: holds no settings; write `section:`"),
        (b"model: 3\n", r"mine\.yaml: section 'model' holds no settings; write `model:`"),
        (b"run: {start_from: [3]}\n", r"mine\.yaml: run\.start_from must be text, not \[3\]; "),
        (b"\xff\xfe\x00", r"mine\.yaml: cannot be read .*; give a YAML file"),
        (b"a: 2020-13-45\n", r"mine\.yaml: is not valid YAML \(month must be in 1\.\.12\); write plain"),
        (b"a: " + b"[" * 5000, r"mine\.yaml:? ?.*is not valid YAML"),
    ],
)
def test_recipes_that_cannot_be(world: World, content: bytes, said: str) -> None:
    (world.folder / "mine.yaml").write_bytes(content)
    sentence = world.refused(*world.good("train"), "--recipe", world.folder / "mine.yaml")
    assert re.search(said, sentence), sentence


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_reader_that_has_gone(world: World) -> None:
    shell = " ".join(
        map(str, [sys.executable, "-m", "anaphora", *world.good("score"), "| head -1; exit ${PIPESTATUS[0]}"])
    )
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr and "Broken" not in done.stderr


def test_names_and_locales_of_any_kind(world: World) -> None:
    """Spaces, quotes, letters of any script, line feeds and bytes that are no UTF-8 in names; a locale without
    letters."""
    for name in ("a b", "häß-日本", 'it\'s "it"', "-dash", "#1", "new\nline", os.fsdecode(b"\xff\xfe")):
        (world.folder / name).write_bytes(TEXT)
        answer = world.say("translate", world.model, world.folder / name, "--beam", 1, "--json")
        assert answer.code == 0, answer.err
        answer = world.say("translate", world.folder / name, world.folder / name, "--json")
        assert answer.code == 2
        assert answer.err.count("\n") == 1
        assert json.loads(answer.last)["error"] in answer.err
    done = command("translate", world.model, input="ein ß\n", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 0, done.stderr


def test_mistakes_are_json_too(own: World) -> None:
    damage("model.safetensors", flip(0.7))(own.model)
    answer = own.say(*own.good("translate"), "--json")
    assert answer.code == 2
    assert "is damaged" in json.loads(answer.last)["error"]


def test_the_corpus_beside_the_model(world: World, tmp_path: Path) -> None:
    """A run folder in the folder of the corpus, with the corpus inside the run folder of another."""
    files = write_pairs(tmp_path / "project", 20)
    answer = world.say(
        "train", tmp_path / "project" / "run", "--source", files["source"], "--target", files["target"], *FAST
    )
    assert answer.code == 0, answer.err
    inside = write_pairs(tmp_path / "project" / "run" / "more", 20)
    before = tree(tmp_path / "project" / "run" / "more")
    words = ["--source", inside["source"], "--target", inside["target"], *FAST, "training.max_steps=3"]
    assert world.say("train", tmp_path / "project" / "run", *words).code == 0
    assert tree(tmp_path / "project" / "run" / "more") == before
