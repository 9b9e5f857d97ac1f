"""What a hostile user, a failing disk and an impatient one do to the command line, typed as they would type it.

Each row is one line for a shell. It is run in a folder of its own, beside small texts and copies of small models that
the same command line has made, in bounded memory; what is asserted is what the user sees: the exit code, one clear
sentence, no traceback, and that nothing which was there before is lost. `-s` shows how many commands were replayed.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deadly import listens
from micro_runs import pairs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        sys.platform != "linux", reason="needs signals, /dev/full and names of bytes, as Linux has them"
    ),
]

MB = 1 << 20
ROOM = 14_000 * MB
"""Address space of any command: what asks for all memory is ended, and not the machine."""
PLENTY = 900
"""Megabytes that a command with PyTorch may take at the most, where a row says no other."""
ESCAPES = "\x1b]0;owned\x07\x1b[31m"

TRANSLATOR = (
    "tokenizer.vocabulary=300 model.dim=16 model.layers=1 model.heads=2 model.feed_forward=32 model.max_length=64 "
    "training.batch_tokens=256 training.checkpoint_every=3 training.warmup_steps=1 training.samples=1 "
    "training.log_every=1 decoding.max_length_ratio=1 decoding.max_length_extra=4"
)
LANGUAGE = (
    "tokenizer.kind=word tokenizer.split=blanks tokenizer.fallback=unk model.dim=16 training.batch_tokens=64 "
    "training.checkpoint_every=3 training.warmup_steps=1 training.log_every=1"
)
COUNTED = "tokenizer.kind=word tokenizer.split=blanks tokenizer.words=words.txt model.order=3"
LEARN_TR = f"anaphora train tr --source train.en --target train.de --device cpu {TRANSLATOR} training.max_steps="
LEARN_LM = f"anaphora train lm --text train.en --recipe lstm --device cpu {LANGUAGE} training.max_steps="
LEARN_SG = "anaphora train sg --text train.en --recipe skipgram model.dim=16 training.epochs=3 training.threads=1"
LEARN_GL = "anaphora train gl --text train.en --recipe glove model.dim=16 training.epochs=3 training.threads=1"
LEARN_BP = (
    "anaphora train bp --text train.en --recipe backpack-micro --device cpu tokenizer.vocabulary=300 model.dim=16 "
    "model.layers=1 model.heads=2 model.senses=2 training.max_steps=2"
)
LEARN_MASKED = (
    "anaphora train masked --text train.en --recipe transformer-encoder --device cpu tokenizer.vocabulary=300 "
    "model.dim=16 model.layers=1 model.heads=2 model.feed_forward=32 training.max_steps=2 training.batch_tokens=64"
)
LEARN_CLASSES = (
    f"anaphora train classes --text train.en --labels labels.txt --recipe gru --device cpu {LANGUAGE} "
    "training.max_steps="
)

LAUNCH = """
import os, sys
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.waitstatus_to_exitcode(status)} {used.ru_maxrss}")
"""
LAUNCHER = [sys.executable, "-I", "-S", "-c", LAUNCH]
"""A small process between this one and a command: whoever is forked inherits the peak of its parent, gigabytes here."""

# -- typing ------------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What one line did."""

    line: str
    code: int
    out: str
    err: str
    peak: int
    seconds: float

    def __str__(self) -> str:
        cost = f"[{self.code}, {self.peak // MB} MB, {self.seconds:.1f} s]"
        return f"$ {self.line}\n{cost}\n{self.out[-3000:]}{self.err[-5000:]}"

    @property
    def sentences(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("anaphora: ")]


@dataclass
class World:
    """Texts and models, made once; copies of them go into the folder of each test."""

    folder: Path
    bin: Path
    typed: Counter[str] = field(default_factory=Counter)

    def type(
        self, line: str, folder: Path, *, stdin: bytes = b"", room: int = ROOM, limit: float = 300, **env: str
    ) -> Seen:
        cost = self._where(folder) / "cost"
        command, began = [*LAUNCHER, str(cost), "bash", "-c", line], time.monotonic()
        process = self.start(line, folder, command, stdin=stdin, room=room, **env)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            pytest.fail(f"no end after {limit} s: {line}")
        code, kilobytes = map(int, cost.read_text().split())
        return self.seen(line, folder, code, 1024 * kilobytes, time.monotonic() - began)

    def start(
        self, line: str, folder: Path, command: list[str] | None = None, *,
        stdin: bytes = b"", room: int = ROOM, **env: str,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        """Begin it, in a group of its own, with signals as a terminal leaves them."""
        self.typed["commands"] += 1
        where = self._where(folder)
        where.mkdir(exist_ok=True)
        (where / "in").write_bytes(stdin)

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (room, room))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)

        with (where / "in").open("rb") as given, (where / "out").open("wb") as out, (where / "err").open("wb") as err:
            return subprocess.Popen(
                command or ["bash", "-c", line],
                cwd=folder, stdin=given, stdout=out, stderr=err, preexec_fn=prepare, start_new_session=True,
                env={
                    **os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "NO_COLOR": "1",
                    "TOKENIZERS_PARALLELISM": "false", **env,
                },
            )  # fmt: skip

    def seen(self, line: str, folder: Path, code: int, peak: int = 0, seconds: float = 0.0) -> Seen:
        out, err = ((self._where(folder) / name).read_bytes().decode(errors="replace") for name in ("out", "err"))
        return Seen(line, code, out, err, peak, seconds)

    def copy(self, folder: Path, *names: str) -> None:
        """Texts and the models of these names."""
        for path in self.folder.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        for name in names:
            shutil.copytree(self.folder / name, folder / name, symlinks=True)

    @staticmethod
    def _where(folder: Path) -> Path:
        return folder.with_name(f"{folder.name}-streams")

    def expected(self, seen: Seen) -> Seen:
        self.typed["as expected"] += 1
        return seen


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world") / "world"
    folder.mkdir()
    made = folder.parent / "bin"
    made.mkdir()
    (made / "anaphora").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m anaphora "$@"\n')
    (made / "anaphora").chmod(0o755)
    both = pairs(800)
    (folder / "train.en").write_text("".join(f"{source}\n" for source, _ in both))
    (folder / "train.de").write_text("".join(f"{target}\n" for _, target in both))
    (folder / "a.en").write_text("".join(f"{source}\n" for source, _ in both[:300]))
    (folder / "b.en").write_text("".join(f"{source}\n" for source, _ in both[300:]))
    (folder / "two.en").write_text("the old dog sees a cat.\nthe cat hears the dog today.\n")
    (folder / "labels.txt").write_text("".join("short\n" if len(source) < 30 else "long\n" for source, _ in both))
    words = sorted({word for source, _ in both for word in source.split()})
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in ["<s>", "</s>", "<unk>", *words]))
    began, found = time.monotonic(), World(folder, made)
    for line in (
        f"{LEARN_TR}12",
        f"{LEARN_LM}12",
        f"anaphora train one --text a.en {COUNTED}",
        f"anaphora train two --text b.en {COUNTED}",
        "anaphora mix mixed one two --weights 0.5,0.5",
        LEARN_SG,
        LEARN_GL,
        LEARN_BP,
        LEARN_MASKED,
        f"{LEARN_CLASSES}6",
        "anaphora convert sg sg.vec",
        "anaphora convert one one.arpa",
    ):
        seen = found.type(line, folder)
        assert seen.code == 0, seen
        found.expected(seen)
    yield found
    print(
        f"\nreplayed {found.typed['commands']} commands, {found.typed['as expected']} as expected, "
        f"in {time.monotonic() - began:.0f} s"
    )


# -- what is done to files ---------------------------------------------------------------------------------------------

Make = Callable[[Path], Any]


def zeroed(name: str, begin: float = 4096, size: float | None = 4096) -> Make:
    """A page of zeros, as a power cut leaves it; a share of the file if begin is below one."""

    def make(folder: Path) -> None:
        (path,) = folder.glob(name)
        content = bytearray(path.read_bytes())
        first = int(begin * len(content)) if 0 < begin < 1 else int(begin)
        last = len(content) if size is None else min(len(content), first + int(size))
        assert any(content[first:last]), "there is something to lose"
        content[first:last] = bytes(last - first)
        path.write_bytes(content)

    return make


def flipped(name: str, share: float = 0.5, bit: int = 1, at: int | None = None) -> Make:
    def make(folder: Path) -> None:
        (path,) = folder.glob(name)
        content = bytearray(path.read_bytes())
        content[int(share * len(content)) if at is None else at] ^= bit
        path.write_bytes(content)

    return make


def written(name: str, content: str | bytes) -> Make:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def packed(name: str, begin: bytes, megabytes: int, last: bytes = b"") -> Make:
    """A small archive of a huge file."""

    def make(folder: Path) -> None:
        with gzip.open(folder / name, "wb", 1) as file:
            file.write(begin)
            for _ in range(megabytes):
                file.write(b"x" * MB)
            file.write(last)

    return make


def replaced(name: str, pattern: str, by: str) -> Make:
    def make(folder: Path) -> None:
        text = (folder / name).read_text()
        new, times = re.subn(pattern, lambda _: by, text)
        assert times, f"no {pattern} in {name}"
        (folder / name).write_text(new)

    return make


def document(name: str, change: Callable[[Any], Any]) -> Make:
    def make(folder: Path) -> None:
        found = json.loads((folder / name).read_text())
        change(found)
        (folder / name).write_text(json.dumps(found))

    return make


def linked(name: str, target: str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return make


def pipe(name: str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return make


def removed(name: str) -> Make:
    def make(folder: Path) -> None:
        (path,) = folder.glob(name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return make


def stored_as(kind: str, name: str = "tr/model.safetensors") -> Make:
    """The weights in another type, with no checksum, as another tool would write them."""

    def make(folder: Path) -> None:
        import torch
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / name)
        save_file({key: tensor.to(getattr(torch, kind)) for key, tensor in weights.items()}, folder / name)

    return make


def numbers(value: float, name: str = "tr/model.safetensors") -> Make:
    def make(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / name)
        next(iter(weights.values())).view(-1)[0] = value
        save_file(weights, folder / name)

    return make


def all_of(*makes: Make) -> Make:
    def make(folder: Path) -> None:
        for one in makes:
            one(folder)

    return make


def tree(folder: Path) -> dict[str, str]:
    """What must not change: every file and link, with its content."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file() and path.stat().st_size < 256 * MB:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def left_over(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob(".unfinished-*")]


def weights_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


# -- one row a command -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    id: str
    line: str
    code: int
    said: str = ""
    make: Make | None = None
    needs: str = ""
    mb: int = PLENTY
    seconds: float = 90
    stdin: bytes = b""
    then: Callable[[Path, Seen], Any] | None = None
    changes: bool = False
    """Whether files that were there may change although the exit code is 2 (a run that was gone on with)."""

    def replay(self, world: World, folder: Path) -> None:
        world.copy(folder, *self.needs.split())
        if self.make is not None:
            self.make(folder)
        before = tree(folder)
        seen = world.type(self.line, folder, stdin=self.stdin, limit=self.seconds)
        assert seen.code == self.code, seen
        assert "Traceback" not in seen.err + seen.out, seen
        assert "panicked" not in seen.err, seen
        if self.code == 2 and self.said:
            assert len(seen.sentences) == 1, seen
            assert "; " in seen.sentences[0], f"no cure\n{seen}"
            assert re.search(self.said, seen.sentences[0]), seen
            assert len(seen.sentences[0]) < 1500, seen
        elif self.said:
            assert re.search(self.said, seen.out + seen.err), seen
        assert seen.peak < self.mb * MB, seen
        if self.code == 2 and not self.changes:
            after = tree(folder)
            assert {name: after.get(name) for name in before} == before, seen
        assert left_over(folder) == [], seen
        if self.then is not None:
            self.then(folder, seen)
        world.expected(seen)


def table(rows: list[Row]) -> Any:
    assert len({row.id for row in rows}) == len(rows)
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.id)


DELETE_DATA = r"delete the folder {}/data and repeat the command"
DAMAGED_BYTES = r"{}: this file is damaged: bytes 0 to [\d,]+ are not those that were written; "

DAMAGED_DATA = [
    Row(
        "zeroed-page-of-prepared-ids",
        f"{LEARN_LM}15",
        2,
        DAMAGED_BYTES.format("lm/data/train.ids") + DELETE_DATA.format("lm"),
        zeroed("lm/data/train.ids"),
        "lm",
    ),
    Row(
        "prepared-ids-all-zeros",
        f"{LEARN_LM}15",
        2,
        DAMAGED_BYTES.format("lm/data/train.ids"),
        zeroed("lm/data/train.ids", 0, None),
        "lm",
    ),
    Row(
        "one-flipped-bit-in-prepared-ids",
        f"{LEARN_LM}15",
        2,
        DAMAGED_BYTES.format("lm/data/train.ids"),
        flipped("lm/data/train.ids", 0.99),
        "lm",
    ),
    Row(
        "zeroed-validation-ids",
        f"{LEARN_LM}15",
        2,
        DAMAGED_BYTES.format("lm/data/valid.ids"),
        zeroed("lm/data/valid.ids", 0, 64),
        "lm",
    ),
    Row(
        "one-flipped-bit-in-the-manifest",
        f"{LEARN_LM}15",
        2,
        r"lm/data/manifest\.json: this file is damaged",
        flipped("lm/data/manifest.json"),
        "lm",
    ),
    Row(
        "one-flipped-bit-in-the-list-of-checksums",
        f"{LEARN_LM}15",
        2,
        r"checksums\.json: this list .* is damaged",
        flipped("lm/data/checksums.json"),
        "lm",
    ),
    Row(
        "list-of-checksums-removed",
        f"{LEARN_LM}15",
        2,
        r"checksums of this data are missing",
        removed("lm/data/checksums.json"),
        "lm",
    ),
    Row(
        "one-flipped-bit-in-the-prepared-tokeniser",
        f"{LEARN_LM}15",
        2,
        r"tokenizer\.json: this file is damaged",
        flipped("lm/data/tokenizer.json"),
        "lm",
    ),
    Row(
        "zeroed-middle-of-an-arrow-shard",
        f"{LEARN_TR}15",
        2,
        DAMAGED_BYTES.format(r"tr/data/train/00000\.arrow") + DELETE_DATA.format("tr"),
        zeroed("tr/data/train/00000.arrow", 0.25, 4000),
        "tr",
    ),
    Row(
        "one-flipped-bit-in-an-arrow-shard",
        f"{LEARN_TR}15",
        2,
        DAMAGED_BYTES.format(r"tr/data/train/00000\.arrow"),
        flipped("tr/data/train/00000.arrow", 0.7),
        "tr",
    ),
    Row(
        "one-flipped-bit-in-the-validation-shard",
        f"{LEARN_TR}15",
        2,
        r"tr/data/valid/00000\.arrow: this file is dam",
        flipped("tr/data/valid/00000.arrow", 0.7),
        "tr",
    ),
    Row(
        "one-flipped-bit-in-a-translators-manifest",
        f"{LEARN_TR}15",
        2,
        r"tr/data/manifest\.json: this file is dam",
        flipped("tr/data/manifest.json"),
        "tr",
    ),
    Row(
        "an-arrow-shard-that-is-gone",
        f"{LEARN_TR}15",
        2,
        r"00000\.arrow: this file of the prepared data is missing",
        removed("tr/data/train/00000.arrow"),
        "tr",
    ),
    Row(
        "a-cut-arrow-shard",
        f"{LEARN_TR}15",
        2,
        r"00000\.arrow: this file is damaged: it has [\d,]+ bytes",
        lambda folder: os.truncate(folder / "tr/data/train/00000.arrow", 3000),
        "tr",
    ),
    Row(
        "average-of-a-run-with-damaged-data",
        "anaphora average tr --device cpu",
        2,
        r"valid/00000\.arrow: this file is",
        flipped("tr/data/valid/00000.arrow", 0.7),
        "tr",
    ),
    Row(
        "zeroed-classes-of-labelled-text",
        f"{LEARN_CLASSES}9",
        2,
        r"train\.classes: this file is damaged",
        zeroed("classes/data/train.classes", 0, None),
        "classes",
    ),
    Row(
        "zeroed-ids-of-word-vectors",
        LEARN_SG,
        2,
        DAMAGED_BYTES.format("sg/data/train.ids"),
        all_of(zeroed("sg/data/train.ids"), removed("sg/metrics.json")),
        "sg",
    ),
    Row(
        "zeroed-pairs-of-glove",
        LEARN_GL,
        2,
        r"total\.bin: this file is damaged.*; delete",
        all_of(zeroed("gl/cooccurrences/total.bin", 0, 64), removed("gl/metrics.json")),
        "gl",
    ),
    Row(
        "zeroed-pairs-of-glove-that-are-asked-for",
        "anaphora why gl the dog",
        2,
        r"damaged.*; ",
        zeroed("gl/cooccurrences/total.bin", 0, None),
        "gl",
    ),
    Row(
        "one-flipped-bit-in-word-vectors",
        "anaphora neighbours sg the",
        2,
        r"sg/model\.safetensors: is damaged",
        flipped("sg/model.safetensors", 0.9),
        "sg",
    ),
    Row(
        "a-zeroed-page-in-glove-vectors",
        "anaphora neighbours gl the",
        2,
        r"gl/model\.safetensors: is damaged",
        zeroed("gl/model.safetensors", 0.6, 256),
        "gl",
    ),
    Row(
        "one-flipped-bit-in-counts",
        "anaphora evaluate one --text two.en",
        2,
        r"one/model\.safetensors: is damaged",
        flipped("one/model.safetensors", 0.9),
        "one",
    ),
    Row(
        "one-flipped-bit-in-a-part-of-a-mixture",
        "anaphora score mixed --text two.en",
        2,
        r"model\.safetensors: is damaged",
        flipped("mixed/two/model.safetensors", 0.9),
        "mixed",
    ),
    Row(
        "one-flipped-bit-in-vectors-to-start-from",
        "anaphora train new --from sg --text a.en --recipe skipgram model.dim=16",
        2,
        r"checkpoints/word2vec\.safetensors: is damaged",
        flipped("sg/checkpoints/word2vec.safetensors", 0.9),
        "sg",
    ),
    Row(
        "one-flipped-bit-in-vectors-that-are-converted",
        "anaphora convert sg out.vec",
        2,
        r"sg/model\.safetensors: is damaged",
        flipped("sg/model.safetensors", 0.9),
        "sg",
    ),
    Row(
        "one-flipped-bit-in-a-backpack",
        "anaphora senses bp the",
        2,
        r"bp/model\.safetensors: is damaged",
        flipped("bp/model.safetensors", 0.9),
        "bp",
    ),
]


@table(DAMAGED_DATA)
def test_damaged_data_is_named_before_anything_is_learned_from_it(world: World, tmp_path: Path, row: Row) -> None:
    row.replay(world, tmp_path)


@pytest.mark.parametrize(
    ("learn", "damage"),
    [
        (LEARN_LM, zeroed("lm/data/train.ids")),
        (LEARN_LM, flipped("lm/data/manifest.json")),
        (LEARN_TR, zeroed("tr/data/train/00000.arrow", 0.25, 4000)),
        (LEARN_TR, flipped("tr/data/checksums.json")),
    ],
    ids=["ids", "manifest", "arrow-shard", "list-of-checksums"],
)
def test_the_cure_for_damaged_data_gives_the_model_of_undamaged_data(
    world: World, tmp_path: Path, learn: str, damage: Make
) -> None:
    run = learn.split()[2]
    for name in ("sound", "damaged"):
        (tmp_path / name).mkdir()
        world.copy(tmp_path / name, run)
    assert world.expected(world.type(f"{learn}15", tmp_path / "sound")).code == 0
    damage(tmp_path / "damaged")
    refused = world.type(f"{learn}15", tmp_path / "damaged")
    assert refused.code == 2, refused
    told = re.search(r"delete the folder (\S+) and repeat the command", refused.err)
    assert told, refused
    shutil.rmtree(tmp_path / "damaged" / told[1])
    cured = world.type(f"{learn}15", tmp_path / "damaged")
    assert cured.code == 0, cured
    assert weights_of(tmp_path / "sound" / run) == weights_of(tmp_path / "damaged" / run)
    world.expected(refused), world.expected(cured)


def _finished(run: str, step: int) -> Callable[[Path, Seen], None]:
    def then(folder: Path, seen: Seen) -> None:
        assert json.loads((folder / run / "metrics.json").read_text())["finished_step"] == step, seen

    return then


def _made_in(run: str) -> Callable[[Path, Seen], None]:
    def then(folder: Path, seen: Seen) -> None:
        assert (folder / run / "metrics.json").is_file(), seen

    return then


DAMAGED_RUNS = [
    Row(
        "a-bad-byte-in-the-log",
        f"{LEARN_LM}15",
        0,
        r"logs/log\.jsonl has 1 damaged line, left out",
        flipped("lm/logs/log.jsonl", bit=128, at=100),
        "lm",
        then=_finished("lm", 15),
    ),
    Row(
        "a-bad-byte-in-a-translators-log",
        f"{LEARN_TR}15",
        0,
        r"logs/log\.jsonl has 1 damaged line, left out",
        flipped("tr/logs/log.jsonl", bit=128, at=100),
        "tr",
        then=_finished("tr", 15),
    ),
    Row(
        "a-log-of-zeros",
        f"{LEARN_LM}15",
        0,
        "",
        zeroed("lm/logs/log.jsonl", 0, None),
        "lm",
        then=_finished("lm", 15),
    ),
    Row(
        "a-log-of-one-endless-line",
        f"{LEARN_LM}15",
        0,
        "",
        written("lm/logs/log.jsonl", b"[" * (40 * MB)),
        "lm",
        then=_finished("lm", 15),
    ),
    Row(
        "numbers-in-the-log-that-are-none",
        f"{LEARN_LM}15",
        0,
        "",
        written("lm/logs/log.jsonl", '{"event": "update", "step": "x"}\n{"step": 1e999}\n[]\n3\n"x"\nnull\n'),
        "lm",
        then=_finished("lm", 15),
    ),
    Row(
        "the-log-is-a-folder",
        f"{LEARN_LM}15",
        2,
        r"log\.jsonl: ",
        all_of(removed("lm/logs/log.jsonl"), lambda folder: (folder / "lm/logs/log.jsonl").mkdir()),
        "lm",
        changes=True,
    ),
    Row(
        "a-flipped-bit-in-an-old-checkpoint",
        f"{LEARN_LM}15",
        0,
        "",
        flipped("lm/checkpoints/step-00000009/model.safetensors", 0.9),
        "lm",
        then=_finished("lm", 15),
    ),
    Row(
        "a-flipped-bit-in-a-translators-old-checkpoint",
        f"{LEARN_TR}15",
        0,
        "",
        flipped("tr/checkpoints/step-00000006/model.safetensors", 0.9),
        "tr",
        then=_finished("tr", 15),
    ),
    Row(
        "a-flipped-bit-in-the-newest-checkpoint",
        f"{LEARN_LM}15",
        2,
        r"lm/checkpoints/step-00000012\S*: .*; delete",
        flipped("lm/checkpoints/step-00000012/training.safetensors"),
        "lm",
        changes=True,
    ),
    Row(
        "a-flipped-bit-in-the-newest-weights",
        f"{LEARN_LM}15",
        2,
        r"lm/checkpoints/step-00000012\S*: .*; delete",
        flipped("lm/checkpoints/step-00000012/model.safetensors", 0.9),
        "lm",
        changes=True,
    ),
    Row(
        "a-flipped-bit-in-the-newest-progress",
        f"{LEARN_LM}15",
        2,
        r"step-00000012\S*: .*; delete",
        flipped("lm/checkpoints/step-00000012/progress.json", bit=128),
        "lm",
        changes=True,
    ),
    Row(
        "average-with-a-damaged-checkpoint",
        "anaphora average tr --device cpu --force",
        2,
        r"step-00000006\S*: .*; delete",
        flipped("tr/checkpoints/step-00000006/model.safetensors", 0.9),
        "tr",
    ),
    Row(
        "a-flipped-bit-in-the-checkpoint-of-word-vectors",
        LEARN_SG,
        2,
        r"checkpoints/word2vec\.safetensors: is damaged.*; delete",
        all_of(flipped("sg/checkpoints/word2vec.safetensors", 0.9), removed("sg/metrics.json")),
        "sg",
        changes=True,
    ),
    Row(
        "a-zeroed-page-in-the-checkpoint-of-glove",
        LEARN_GL,
        2,
        r"checkpoints/glove\.safetensors: is damaged.*; delete",
        all_of(zeroed("gl/checkpoints/glove.safetensors", 0.6, 256), removed("gl/metrics.json")),
        "gl",
        changes=True,
    ),
    Row(
        "a-torn-note-of-where-vectors-began",
        "anaphora train new --from sg --text a.en --recipe skipgram model.dim=16 -q && rm new/metrics.json && "
        "echo { > new/checkpoints/start.json && "
        "anaphora train new --from sg --text a.en --recipe skipgram model.dim=16",
        0,
        "",
        None,
        "sg",
        then=_made_in("new"),
    ),
    Row(
        "metrics-that-are-no-json",
        f"{LEARN_LM}15",
        0,
        "",
        written("lm/metrics.json", b"\xff\0{"),
        "lm",
        then=_finished("lm", 15),
    ),
    Row(
        "progress-file-of-brackets",
        f"{LEARN_LM}15",
        2,
        r"progress\.json: .*; delete",
        written("lm/checkpoints/step-00000012/progress.json", "[" * 100_000),
        "lm",
        changes=True,
    ),
]


@table(DAMAGED_RUNS)
def test_damage_in_a_run_stops_only_what_needs_it_and_names_the_cure(world: World, tmp_path: Path, row: Row) -> None:
    row.replay(world, tmp_path)


@pytest.mark.parametrize("name", ["training.safetensors", "model.safetensors", "progress.json"])
def test_the_cure_for_a_damaged_checkpoint_lets_the_run_finish(world: World, tmp_path: Path, name: str) -> None:
    world.copy(tmp_path, "lm")
    flipped(f"lm/checkpoints/step-00000012/{name}", 0.9, bit=128)(tmp_path)
    refused = world.type(f"{LEARN_LM}15", tmp_path)
    assert refused.code == 2, refused
    told = re.search(r"delete (?:the folder |this checkpoint's folder |that folder )?\S*(step-\d+)?", refused.err)
    assert told, refused
    shutil.rmtree(tmp_path / "lm/checkpoints/step-00000012")
    cured = world.type(f"{LEARN_LM}15", tmp_path)
    assert cured.code == 0, cured
    _finished("lm", 15)(tmp_path, cured)
    world.expected(refused), world.expected(cured)


# -- files that unpack to more than they say, and folders that lie -----------------------------------------------------


def _parquet(columns: list[tuple[str, list[Any]]]) -> Make:
    def make(folder: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_arrays([pa.array(values) for _, values in columns], names=[name for name, _ in columns])
        pq.write_table(table, folder / "t.parquet")

    return make


def _sparse(name: str, size: int, begin: bytes = b"") -> Make:
    def make(folder: Path) -> None:
        (folder / name).write_bytes(begin)
        os.truncate(folder / name, size)

    return make


def _lying_safetensors(name: str) -> Make:
    def make(folder: Path) -> None:
        header = json.dumps(
            {"vectors": {"dtype": "F32", "shape": [1 << 30, 300], "data_offsets": [0, (1 << 30) * 1200]}}
        ).encode()
        (folder / name).write_bytes(struct.pack("<Q", len(header)) + header)

    return make


def _vectors(name: str, value: float) -> Make:
    def make(folder: Path) -> None:
        rows = np.ones((3, 4), np.float32)
        rows[1, 2] = value
        with (folder / name).open("wb") as file:
            file.write(b"3 4\n")
            for word, row in zip((b"king", b"queen", b"man"), rows):
                file.write(word + b" " + row.tobytes() + b"\n")

    return make


ONE_SPLIT = {"type": "Split", "pattern": {"Regex": "^(a+)+$"}, "behavior": "Isolated", "invert": False}
EXPANDING = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 100_000}


def _put(key: str, value: Any) -> Callable[[Any], None]:
    def change(found: Any) -> None:
        found[key] = value

    return change


def _more(key: str, **entries: Any) -> Callable[[Any], None]:
    def change(found: Any) -> None:
        found[key].update(entries)

    return change


HOSTILE = [
    # archives
    Row(
        "packed-binary-vectors-of-endless-words",
        "anaphora info b.bin.gz",
        2,
        r"b\.bin\.gz: .*(ends|too early|middle)",
        packed("b.bin.gz", b"2 3\n", 700),
        mb=400,
    ),
    Row(
        "packed-text-vectors-of-an-endless-line",
        "anaphora info b.vec.gz",
        2,
        r"b\.vec\.gz:2: is longer than",
        packed("b.vec.gz", b"2 3\n", 700),
        mb=400,
    ),
    Row(
        "packed-text-vectors-without-a-header",
        "anaphora info b.txt.gz",
        2,
        r"b\.txt\.gz:1: is longer than",
        packed("b.txt.gz", b"", 700),
        mb=500,
    ),
    Row(
        "packed-vectors-of-blank-lines",
        "anaphora info b.vec.gz",
        2,
        r"nothing but blank lines",
        lambda folder: (folder / "b.vec.gz").write_bytes(gzip.compress(b"2 3\n" + b"\n" * (200 * MB), 1)),
        mb=400,
    ),
    Row(
        "packed-vectors-that-say-too-many-words",
        "anaphora neighbours b.bin.gz king",
        2,
        r"ends too early: it says",
        packed("b.bin.gz", b"99999999999 60000\n", 1),
        mb=400,
    ),
    Row(
        "vectors-that-say-too-many-dimensions",
        "anaphora info b.bin",
        2,
        r"says that its vectors have",
        written("b.bin", b"1 99999999999\nx"),
        mb=400,
    ),
    Row(
        "packed-parquet",
        "anaphora train x --text b.parquet.gz",
        2,
        r"more than 256 MB when unpacked",
        packed("b.parquet.gz", b"PAR1", 700, b"PAR1"),
        mb=700,
    ),
    Row(
        "packed-text-of-one-line",
        "anaphora train x --text b.txt.gz",
        2,
        r"this line has more than 256 MB",
        packed("b.txt.gz", b"", 700),
        mb=PLENTY,
    ),
    Row(
        "packed-json-of-one-line",
        "anaphora check --text b.jsonl.gz",
        2,
        r"this line has more than 256 MB",
        packed("b.jsonl.gz", b'{"text": "', 400, b'"}\n'),
        mb=1400,
    ),
    Row(
        "packed-csv-of-one-field",
        "anaphora train x --text b.csv.gz",
        2,
        r"more than|too long|never closed",
        packed("b.csv.gz", b'text\n"', 400),
        mb=1400,
    ),
    Row(
        "packed-counts-of-one-line",
        "anaphora info b.arpa.gz",
        2,
        r"b\.arpa\.gz",
        packed("b.arpa.gz", b"\\data\\\nngram 1=2\n", 700),
        mb=500,
    ),
    Row(
        "packed-vectors-in-training",
        "anaphora train x --text train.en --recipe lstm model.embedding_from=b.vec.gz",
        2,
        r"b\.vec\.gz:2: is longer than",
        packed("b.vec.gz", b"2 3\n", 500),
    ),
    Row(
        "packed-word-pairs",
        "anaphora evaluate sg --similarity b.tsv.gz",
        2,
        r"b\.tsv\.gz",
        packed("b.tsv.gz", b"", 700),
        "sg",
        mb=700,
    ),
    Row(
        "a-lying-header-of-vectors",
        "anaphora info v.safetensors",
        2,
        r"v\.safetensors: cannot be read",
        _lying_safetensors("v.safetensors"),
        mb=400,
    ),
    Row(
        "sparse-vectors-of-a-terabyte",
        "anaphora neighbours b.bin king",
        2,
        r"b\.bin",
        _sparse("b.bin", 1 << 40, b"1000000000 200\n"),
        mb=400,
    ),
    # terminal escapes
    Row(
        "escapes-in-a-models-metrics",
        "anaphora info tr",
        0,
        r"\\x1b\]0;owned",
        document(
            "tr/metrics.json",
            lambda d: [
                d.update(weights=ESCAPES),
                d["trained_on"].update(source=[ESCAPES], target=[ESCAPES]),
                d["validation"].update(bleu_signature=ESCAPES, chrf_signature=ESCAPES),
                d["cost"].update(device=ESCAPES),
            ],
        ),
        "tr",
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-vectors",
        "anaphora neighbours esc.vec king",
        0,
        r"\\x1b\]0;owned",
        written("esc.vec", f"3 2\nking 1 0\nqu{ESCAPES} 1 0.1\nman 0 1\n"),
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-vectors-on-a-map",
        "anaphora map esc.vec --picture map.svg",
        0,
        r"",
        written("esc.vec", "9 2\n" + "".join(f"w{i}{ESCAPES} 1 0.{i}\n" for i in range(9))),
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-vectors-with-similarities",
        "anaphora evaluate esc.vec --similarity pairs.tsv",
        0,
        "",
        all_of(
            written("esc.vec", f"4 2\nking 1 0\nqu{ESCAPES} 1 0.1\nman 0 1\nboy 0.2 1\n"),
            written("pairs.tsv", f"king\tqu{ESCAPES}\t3\nking\tman\t1\nking\tno{ESCAPES}\t1\nman\tboy\t4\n"),
        ),
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-a-file-name",
        "anaphora info $'no\\e]0;owned\\a'",
        2,
        r"\\x1b\]0;owned",
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-a-setting",
        "anaphora train x --text train.en $'model.\\e[31mdim=3'",
        2,
        r"\\x1b\[31m",
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-names-of-a-mixture",
        "anaphora info mixed",
        2,
        r"mixed/p\\x1b\]0;owned",
        replaced("mixed/config.yaml", r"\bone\b", '"p\\e]0;owned\\a"'),
        "mixed",
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-labels",
        "anaphora classify classes two.en",
        0,
        "",
        replaced("classes/config.yaml", r"- short", '- "sh\\e]0;owned\\a"'),
        "classes",
        then=lambda _, seen: _no_escapes(seen),
    ),
    Row(
        "escapes-in-the-text-that-is-checked",
        "anaphora check --source esc.en --target esc.de",
        0,
        r"",
        all_of(written("esc.en", f"a{ESCAPES}\n" * 9), written("esc.de", f"b{ESCAPES}\n" * 9)),
        then=lambda _, seen: _no_escapes(seen),
    ),
    # tokenisers
    Row(
        "an-endless-regular-expression",
        "anaphora translate tr two.en",
        2,
        r"its pre_tokenizer \(Split .*none of Ana",
        document("tr/tokenizer.json", _put("pre_tokenizer", ONE_SPLIT)),
        "tr",
    ),
    Row(
        "a-normaliser-that-makes-much-of-little",
        "anaphora translate tr two.en",
        2,
        r"its normalizer \(Replace",
        document("tr/tokenizer.json", _put("normalizer", EXPANDING)),
        "tr",
    ),
    Row(
        "a-decoder-that-makes-much-of-little",
        "anaphora translate tr two.en",
        2,
        r"its decoder \(Replace",
        document("tr/tokenizer.json", _put("decoder", EXPANDING)),
        "tr",
    ),
    Row(
        "a-hostile-part-inside-a-sequence",
        "anaphora translate tr two.en",
        2,
        r"its pre_tokenizer",
        document(
            "tr/tokenizer.json",
            lambda d: d.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [ONE_SPLIT, d["pre_tokenizer"]]}),
        ),
        "tr",
    ),
    Row(
        "a-part-that-stands-twice",
        "anaphora translate tr two.en",
        2,
        r"occurs twice",
        replaced("tr/tokenizer.json", r'"normalizer":', f'"normalizer": {json.dumps(EXPANDING)}, "normalizer":'),
        "tr",
    ),
    Row(
        "tokens-added-by-someone-else",
        "anaphora translate tr two.en",
        2,
        r"has added tokens",
        document(
            "tr/tokenizer.json",
            _put(
                "added_tokens",
                [
                    {
                        "id": 0,
                        "content": "e",
                        "special": True,
                        "single_word": False,
                        "lstrip": False,
                        "rstrip": False,
                        "normalized": False,
                    }
                ],
            ),
        ),
        "tr",
    ),
    Row(
        "padding-without-end",
        "anaphora translate tr two.en",
        0,
        "",
        document(
            "tr/tokenizer.json",
            _put(
                "padding",
                {
                    "strategy": {"Fixed": 2_000_000_000},
                    "direction": "Right",
                    "pad_to_multiple_of": None,
                    "pad_id": 0,
                    "pad_type_id": 0,
                    "pad_token": "x",
                },
            ),
        ),
        "tr",
        mb=PLENTY,
    ),
    Row(
        "truncation-to-nothing",
        "anaphora translate tr two.en",
        0,
        "",
        document(
            "tr/tokenizer.json",
            _put("truncation", {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}),
        ),
        "tr",
    ),
    Row(
        "dropout-in-a-tokeniser",
        "anaphora translate tr two.en",
        2,
        r"its model has 'dropout' set to 0\.5",
        document("tr/tokenizer.json", _more("model", dropout=0.5)),
        "tr",
    ),
    Row(
        "ids-of-tokens-that-are-beyond-all-measure",
        "anaphora translate tr two.en",
        2,
        r"tokenizer\.json",
        document(
            "tr/tokenizer.json", lambda d: d["model"]["vocab"].update({next(iter(d["model"]["vocab"])): 4_000_000_000})
        ),
        "tr",
    ),
    Row(
        "ids-of-tokens-that-are-none",
        "anaphora translate tr two.en",
        2,
        r"tokenizer\.json",
        document("tr/tokenizer.json", lambda d: d["model"]["vocab"].update({next(iter(d["model"]["vocab"])): -1})),
        "tr",
    ),
    Row(
        "a-hostile-tokeniser-for-training",
        f"{LEARN_TR}15 --from tr".replace("train tr", "train x"),
        2,
        r"its normalizer",
        document("tr/tokenizer.json", _put("normalizer", EXPANDING)),
        "tr",
    ),
    Row(
        "a-hostile-tokeniser-of-a-language-model",
        "anaphora generate lm the",
        2,
        r"lm/tokenizer\.json: its normalizer",
        document("lm/tokenizer.json", _put("normalizer", EXPANDING)),
        "lm",
    ),
    Row(
        "a-hostile-tokeniser-of-counts",
        "anaphora score one --text two.en",
        2,
        r"one/tokenizer\.json: its normalizer",
        document("one/tokenizer.json", _put("normalizer", EXPANDING)),
        "one",
    ),
    Row(
        "a-hostile-tokeniser-of-vectors",
        "anaphora neighbours sg the",
        2,
        r"sg/tokenizer\.json: its normalizer",
        document("sg/tokenizer.json", _put("normalizer", EXPANDING)),
        "sg",
    ),
    # weights
    *[
        Row(
            f"weights-stored-as-{kind}",
            "anaphora translate tr two.en",
            2,
            rf"is stored as {kind}, which weights are not",
            stored_as(kind),
            "tr",
        )
        for kind in ("int8", "bool", "complex64", "int64", "uint8", "float8_e4m3fn")
    ],
    *[
        Row(f"weights-stored-as-{kind}", "anaphora translate tr two.en", 0, "", stored_as(kind), "tr")
        for kind in ("float16", "bfloat16", "float64")
    ],
    *[
        Row(
            f"weights-that-hold-{value}-{name}",
            line,
            2,
            r"holds nan or infinite numbers",
            numbers(value, f"{name}/model.safetensors"),
            name,
        )
        for value in (float("nan"), float("inf"))
        for name, line in (
            ("tr", "anaphora translate tr two.en"),
            ("lm", "anaphora generate lm the"),
            ("bp", "anaphora senses bp the"),
            ("masked", "anaphora fill masked 'the ___ sees'"),
        )
    ],
    Row(
        "int8-weights-of-a-language-model",
        "anaphora score lm --text two.en",
        2,
        r"is stored as int8",
        stored_as("int8", "lm/model.safetensors"),
        "lm",
    ),
    Row(
        "int8-weights-of-a-classifier",
        "anaphora classify classes two.en",
        2,
        r"is stored as int8",
        stored_as("int8", "classes/model.safetensors"),
        "classes",
    ),
    Row(
        "int8-weights-of-vectors",
        "anaphora neighbours sg the",
        2,
        r"sg/model\.safetensors: holds vectors of int8",
        stored_as("int8", "sg/model.safetensors"),
        "sg",
    ),
    Row(
        "int8-weights-to-start-from",
        f"{LEARN_LM}3 --from lm".replace("train lm", "train x"),
        2,
        r"is stored as int8",
        stored_as("int8", "lm/model.safetensors"),
        "lm",
    ),
    # vectors
    *[
        Row(
            f"vectors-that-hold-{value}-{kind[1:]}",
            f"anaphora neighbours v{kind} king",
            2,
            r"the vector of 'queen' holds nan or infinite",
            _vectors(f"v{kind}", value)
            if kind == ".bin"
            else written(f"v{kind}", f"3 2\nking 1 0\nqueen {value} 1\nman 0 1\n"),
        )
        for value in (float("nan"), float("inf"))
        for kind in (".bin", ".vec")
    ],
    Row(
        "vectors-too-long-to-measure",
        "anaphora neighbours v.vec king",
        2,
        r"the vector of 'queen' is too long",
        written("v.vec", "2 2\nking 1 0\nqueen 3e38 3e38\n"),
    ),
    Row(
        "vectors-of-numbers-beyond-floats",
        "anaphora neighbours v.vec king",
        2,
        r"v\.vec",
        written("v.vec", "2 2\nking 1 0\nqueen 1e999 1\n"),
    ),
    Row(
        "vectors-that-hold-nan-to-begin-with",
        "anaphora train x --text train.en --recipe lstm model.dim=4 model.embedding_from=v.bin training.max_steps=1",
        2,
        r"holds nan",
        _vectors("v.bin", float("nan")),
    ),
    Row(
        "vectors-that-hold-nan-converted",
        "anaphora convert v.bin v2.vec",
        2,
        r"holds nan",
        _vectors("v.bin", float("nan")),
    ),
    # absurd sizes
    *[
        Row(
            f"a-hundred-million-layers-{verb}-{name}",
            f"anaphora {line}",
            2,
            r"far larger model|layers",
            replaced(f"{name}/config.yaml", r"\n  layers: \d+", "\n  layers: 100000000"),
            name,
            seconds=60,
            mb=1500,
        )
        for name, verb, line in (
            ("tr", "info", "info tr"),
            ("tr", "translate", "translate tr two.en"),
            ("lm", "info", "info lm"),
            ("lm", "generate", "generate lm the"),
            ("masked", "fill", "fill masked 'the ___ sees'"),
        )
    ],
    *[
        Row(
            f"a-width-of-a-billion-{name}",
            f"anaphora info {name}",
            2,
            r"far larger model|dim|memory",
            replaced(f"{name}/config.yaml", r"\n  dim: \d+", "\n  dim: 1000000000"),
            name,
            seconds=60,
            mb=1500,
        )
        for name in ("tr", "lm", "bp", "masked")
    ],
    Row(
        "a-billion-senses",
        "anaphora info bp",
        2,
        r"far larger|senses",
        replaced("bp/config.yaml", r"\n  senses: \d+", "\n  senses: 1000000000"),
        "bp",
        seconds=60,
        mb=1500,
    ),
    Row(
        "layers-beyond-all-measure-of-a-language-model",
        "anaphora info lm",
        2,
        r"layers|far larger|memory",
        replaced("lm/config.yaml", r"\n  layers: \d+", "\n  layers: 1000000000000"),
        "lm",
        seconds=60,
        mb=3000,
    ),
    Row(
        "a-length-of-a-billion",
        "anaphora translate tr two.en",
        0,
        r"",
        replaced("tr/config.yaml", r"\n  max_length: \d+", "\n  max_length: 1000000000"),
        "tr",
        seconds=60,
        mb=1500,
    ),
    Row(
        "decoding-without-end-in-a-config",
        "anaphora translate tr two.en",
        0,
        r"",
        replaced("tr/config.yaml", r"max_length_extra: \d+", "max_length_extra: 100000000"),
        "tr",
        seconds=60,
        mb=1500,
    ),
    Row(
        "an-order-of-a-million",
        "anaphora info one",
        2,
        r"",
        replaced("one/config.yaml", r"\n  order: \d+", "\n  order: 1000000"),
        "one",
        seconds=60,
        mb=600,
    ),
    Row(
        "yaml-that-grows",
        "anaphora info tr",
        2,
        r"config\.yaml",
        written(
            "tr/config.yaml",
            "anaphora_format: 1\na: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in itertools.pairwise("abcdefghijk")),
        ),
        "tr",
        seconds=60,
    ),
    Row(
        "yaml-of-many-megabytes",
        "anaphora info tr",
        2,
        r"config\.yaml",
        written("tr/config.yaml", "anaphora_format: 1\n" + "a: 1\n" * 5_000_000),
        "tr",
        seconds=60,
        mb=600,
    ),
    Row(
        "yaml-of-many-brackets",
        "anaphora info tr",
        2,
        r"config\.yaml",
        written("tr/config.yaml", "anaphora_format: 1\na: " + "[" * 100_000),
        "tr",
        seconds=60,
        mb=600,
    ),
    # links to what never ends
    *[
        Row(
            f"{name.replace('/', '-')}-linked-to-{target[1:].replace('/', '-')}-{line.split()[1]}",
            line,
            code,
            said,
            linked(name, target),
            name.split("/")[0],
            mb=900,
            seconds=60,
            changes=True,
        )
        for target in ("/dev/zero", "/dev/urandom")
        for name, line, code, said in (
            ("tr/tokenizer.json", "anaphora translate tr two.en", 2, r"tokenizer\.json: is a pipe or a device"),
            ("tr/metrics.json", "anaphora info tr", 0, r"shape|model"),
            ("tr/config.yaml", "anaphora info tr", 2, r"config\.yaml: is a pipe or a device|is not a model folder"),
            (
                "tr/model.safetensors",
                "anaphora translate tr two.en",
                2,
                r"(holds no weights|is a pipe or a device|step-)|cannot",
            ),
            ("one/model.safetensors", "anaphora info one", 2, r""),
            ("one/tokenizer.json", "anaphora generate one", 2, r"tokenizer\.json: is a pipe or a device"),
            ("sg/model.safetensors", "anaphora neighbours sg the", 2, r""),
            ("lm/data/checksums.json", f"{LEARN_LM}15", 2, r"checksums\.json"),
            ("lm/data/train.ids", f"{LEARN_LM}15", 0, ""),
            ("lm/checkpoints/step-00000012/progress.json", f"{LEARN_LM}15", 2, r"progress\.json"),
        )
    ],
    *[
        Row(f"{name}-linked-to-dev-zero", line, 2, said, linked(name, "/dev/zero"), needs, mb=900, seconds=60)
        for name, line, said, needs in (
            ("sg.vec", "anaphora neighbours sg.vec the", r"sg\.vec: is a pipe or a device", ""),
            ("one.arpa", "anaphora info one.arpa", r"one\.arpa", ""),
            ("words.txt", f"anaphora train x --text a.en {COUNTED}", r"words\.txt", ""),
            ("labels.txt", f"{LEARN_CLASSES}1".replace("train classes", "train x"), r"labels\.txt", ""),
            ("fix.json", "anaphora generate bp the --patch fix.json", r"fix\.json", "bp"),
            ("gold.tsv", "anaphora evaluate sg --similarity gold.tsv", r"gold\.tsv", "sg"),
            ("mine.yaml", "anaphora train x --text a.en --recipe mine.yaml", r"mine\.yaml", ""),
            ("two.en", "anaphora generate lm --file two.en", r"two\.en", "lm"),
        )
    ],
    *[
        Row(
            f"a-pipe-in-the-place-of-{name.replace('/', '-')}",
            line,
            2 if said != "info" else 0,
            "" if said == "info" else said,
            pipe(name),
            name.split("/")[0],
            seconds=30,
            changes=True,
        )
        for name, line, said in (
            ("tr/tokenizer.json", "anaphora translate tr two.en", r"tokenizer\.json: is a pipe or a device"),
            ("tr/metrics.json", "anaphora info tr", "info"),
            ("tr/config.yaml", "anaphora info tr", r"config\.yaml|is not a model folder"),
            ("tr/model.safetensors", "anaphora translate tr two.en", r"."),
            ("tr/card.md", "anaphora info tr", "info"),
            ("lm/.owner.json", "anaphora info lm", "info"),
            ("one/model.safetensors", "anaphora generate one", r"."),
            ("sg/model.safetensors", "anaphora neighbours sg the", r"."),
            ("mixed/two/model.safetensors", "anaphora score mixed --text two.en", r"."),
            ("bp/model.safetensors", "anaphora senses bp the", r"."),
            ("lm/logs/log.jsonl", f"{LEARN_LM}15", r"log\.jsonl"),
            ("lm/data/manifest.json", f"{LEARN_LM}15", r"manifest\.json"),
            ("lm/data/checksums.json", f"{LEARN_LM}15", r"checksums\.json"),
            ("lm/data/train.ids", f"{LEARN_LM}15", "info"),
            ("lm/checkpoints/step-00000012/model.safetensors", f"{LEARN_LM}15", r"step-00000012"),
            ("lm/checkpoints/step-00000012/training.safetensors", f"{LEARN_LM}15", r"step-00000012"),
            (
                "sg/checkpoints/text.json",
                f"rm sg/data/manifest.json sg/metrics.json; {LEARN_SG}",
                r"prepared text is gone",
            ),
        )
    ],
]


def _no_escapes(seen: Seen) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", seen.out + seen.err), repr(seen.out + seen.err)


@table(HOSTILE)
def test_foreign_files_are_read_in_bounded_memory_or_refused(world: World, tmp_path: Path, row: Row) -> None:
    row.replay(world, tmp_path)


# -- settings and arguments --------------------------------------------------------------------------------------------

NINES = "9" * 400
COMPARE = "anaphora compare c --text a.en --valid-text b.en --recipes ngram:model.order=2"
PUBLISHED = '{"architectures": ["BackpackGPT2LMHeadModel"], "vocab_size": '
MISTAKES = [
    Row(
        "a-column-of-endless-digits",
        "anaphora train x --text \"x.tsv#$(printf '9%.0s' {1..5000})\"",
        2,
        r"column|x\.tsv",
        written("x.tsv", "a\tb\n" * 9),
    ),
    Row(
        "a-column-of-endless-digits-to-check",
        "anaphora check --text \"x.csv#$(printf '9%.0s' {1..5000})\"",
        2,
        r"x\.csv",
        written("x.csv", "a,b\n" * 9),
    ),
    Row(
        "memory-beyond-all-measure-for-counts",
        f"anaphora train x --text a.en training.max_memory={NINES}GB",
        2,
        r"max_memory",
    ),
    Row(
        "memory-beyond-all-measure-for-glove",
        f"anaphora train x --text a.en --recipe glove training.max_memory={NINES}GB",
        2,
        r"max_memory",
    ),
    Row("memory-in-numbers-with-points", "anaphora train x --text a.en training.max_memory=1e400", 2, r"max_memory"),
    Row(
        "a-beam-of-100000-in-validation",
        f"{LEARN_TR}2 training.validation_beam=100000".replace("train tr", "train x"),
        2,
        r"validation_beam",
        then=lambda folder, _: _no(folder / "x"),
    ),
    Row("a-beam-of-100000", "anaphora translate tr two.en --beam 100000", 2, r"beam", needs="tr"),
    Row(
        "a-beam-of-100000-in-a-config",
        "anaphora translate tr two.en",
        2,
        r"beam",
        replaced("tr/config.yaml", r"beam: \d+", "beam: 100000"),
        "tr",
    ),
    Row(
        "a-length-penalty-of-1e300",
        f"{LEARN_TR}2 decoding.length_penalty=1e300".replace("train tr", "train x"),
        2,
        r"length_penalty",
        then=lambda folder, _: _no(folder / "x"),
    ),
    Row(
        "a-length-penalty-of-1e300-to-translate",
        "anaphora translate tr two.en --set length_penalty=1e300",
        2,
        r"length_penalty",
        needs="tr",
    ),
    *[
        Row(f"decoding-{word}", f"anaphora translate tr two.en --set {word}", code, r"", needs="tr")
        for word, code in (
            ("length_penalty=-1e300", 2),
            ("length_penalty=nan", 2),
            ("length_penalty=inf", 2),
            ("max_length_ratio=1e300", 0),
            ("max_length_extra=1e18", 0),
            ("coverage_penalty=1e300", 2),
            ("batch_tokens=-1", 2),
        )
    ],
    *[
        Row(f"sampling-{word.replace(' ', '-').strip('-')}", f"anaphora generate lm the {word}", 2, r".", needs="lm")
        for word in ("--temperature nan", "--temperature -1", "--top-k -1", "--top-p 2", "--top-p nan", "--samples -1")
    ],
    *[
        Row(
            f"training-{word}",
            f"{LEARN_LM}2 {word}".replace("train lm", "train x"),
            2,
            r".",
            then=lambda folder, _: _no(folder / "x"),
        )
        for word in (
            "training.learning_rate=nan",
            "training.learning_rate=inf",
            "training.learning_rate=-1",
            "training.ema=2",
            "training.warmup_steps=-1",
            "training.clip_norm=nan",
            "training.checkpoint_every=0",
            "training.log_every=0",
            "training.seed=99999999999999999999999",
            f"model.dim={NINES}",
            "model.dim=1e3000",
            "training.max_minutes=nan",
            "training.average=-1",
            "training.accumulate=0",
            "training.label_smoothing=1.5",
            "training.weight_decay=nan",
            "tokenizer.dropout=nan",
            "data.hold_out=-1",
            "data.seed=1e999",
            "model.dropout=1.5",
            "training.metric=chrf",
        )
    ],
    Row(
        "a-vocabulary-of-a-billion",
        "anaphora train x --text train.en --recipe lstm tokenizer.vocabulary=1000000000 training.max_steps=1",
        2,
        r"tokenizer\.vocabulary",
    ),
    Row(
        "a-vocabulary-of-a-billion-subwords-of-a-translator",
        f"{LEARN_TR}1 tokenizer.vocabulary=1000000000".replace("train tr", "train x"),
        0,
        r"vocabulary",
    ),
    Row(
        "a-vocabulary-of-a-billion-unigrams",
        "anaphora train x --text train.en --recipe lstm tokenizer.kind=unigram tokenizer.vocabulary=1000000000",
        2,
        r"tokenizer\.vocabulary",
    ),
    Row(
        "a-vocabulary-beyond-64-bits",
        f"anaphora train x --text train.en --recipe lstm tokenizer.vocabulary={NINES}",
        2,
        r"tokenizer\.vocabulary",
    ),
    Row(
        "a-published-config-of-brackets",
        "anaphora convert pb out",
        2,
        r"config\.json",
        all_of(written("pb/config.json", "[" * 100_000), written("pb/model.safetensors", b"")),
    ),
    Row(
        "a-published-config-of-braces",
        "anaphora convert pb out",
        2,
        r"config\.json",
        all_of(written("pb/config.json", '{"a":' * 100_000), written("pb/model.safetensors", b"")),
    ),
    Row(
        "a-published-config-of-endless-digits",
        "anaphora convert pb out",
        2,
        r"config\.json",
        all_of(written("pb/config.json", PUBLISHED + "9" * 10_000 + "}"), written("pb/model.safetensors", b"")),
    ),
    Row(
        "a-published-config-linked-to-dev-zero",
        "anaphora convert pb out",
        2,
        r"config\.json",
        all_of(written("pb/x", ""), linked("pb/config.json", "/dev/zero")),
        seconds=60,
    ),
    Row(
        "two-columns-of-one-name",
        "anaphora train x --text t.parquet",
        2,
        r"has 2 columns by the name 'text'",
        _parquet([("text", ["a", "b"]), ("text", ["c", "d"])]),
    ),
    Row(
        "two-columns-of-one-name-to-translate",
        "anaphora translate tr t.parquet",
        2,
        r"has 2 columns by the name",
        _parquet([("source", ["a", "b"]), ("source", ["c", "d"])]),
        "tr",
    ),
    Row(
        "two-columns-of-one-name-in-csv",
        "anaphora train x --text t.csv#text",
        2,
        r"t\.csv",
        written("t.csv", "text,text\na,b\nc,d\n"),
    ),
    Row(
        "a-parquet-column-of-numbers",
        "anaphora train x --text t.parquet",
        2,
        r"t\.parquet",
        _parquet([("text", [1, 2, 3])]),
    ),
    Row(
        "a-parquet-column-of-bytes",
        "anaphora train x --text t.parquet",
        2,
        r"t\.parquet",
        _parquet([("text", [b"\xff", b"\xfe"])]),
    ),
    Row(
        "a-parquet-column-with-nothing-in-it",
        "anaphora train x --text t.parquet",
        2,
        r"t\.parquet",
        _parquet([("text", [None, "a", "b"])]),
    ),
    Row(
        "json-lines-of-brackets", "anaphora train x --text t.jsonl", 2, r"t\.jsonl:1", written("t.jsonl", "[" * 100_000)
    ),
    Row(
        "json-lines-of-endless-digits",
        "anaphora train x --text t.jsonl",
        2,
        r"t\.jsonl:1",
        written("t.jsonl", '{"text": ' + "9" * 10_000 + "}\n"),
    ),
    Row(
        "a-patch-of-brackets",
        "anaphora generate bp the --patch p.json",
        2,
        r"p\.json",
        written("p.json", "[" * 100_000),
        "bp",
    ),
    Row(
        "a-recipe-of-brackets",
        "anaphora train x --text a.en --recipe r.yaml",
        2,
        r"r\.yaml",
        written("r.yaml", "a: " + "[" * 100_000),
    ),
    Row(
        "a-manifest-of-brackets",
        f"{LEARN_LM}15",
        2,
        r"manifest\.json",
        written("lm/data/manifest.json", "[" * 100_000),
        "lm",
    ),
    Row(
        "a-comparison-with-a-report-of-brackets",
        f"{COMPARE} -q && printf '[%.0s' {{1..100000}} > c/report.json && {COMPARE}",
        0,
        r"report\.json is damaged and written anew",
        then=lambda folder, _: json.loads((folder / "c/report.json").read_text()),
    ),
    Row(
        "a-folder-with-a-report-of-brackets-that-nothing-shows-to-be-a-comparison",
        COMPARE,
        2,
        r"c: exists and is no comparison of Anaphora",
        written("c/report.json", "[" * 100_000),
    ),
    Row("metrics-of-brackets", "anaphora info tr", 0, r"", written("tr/metrics.json", "[" * 100_000), "tr"),
    Row(
        "metrics-of-endless-digits",
        "anaphora info tr",
        0,
        r"",
        written("tr/metrics.json", '{"step": ' + "9" * 10_000 + "}"),
        "tr",
    ),
    Row(
        "metrics-of-other-shapes",
        "anaphora info tr",
        0,
        r"",
        written(
            "tr/metrics.json",
            json.dumps(
                {
                    "trained_on": [1],
                    "cost": "x",
                    "bleu": {"a": 1},
                    "weights": [None],
                    "vocabularies": 3,
                    "validation": 7,
                    "finished_step": "x",
                    "step": [],
                    "parameters": "y",
                }
            ),
        ),
        "tr",
    ),
    Row(
        "metrics-of-other-shapes-of-counts",
        "anaphora info one",
        0,
        r"",
        document(
            "one/metrics.json",
            lambda d: d.update(
                trained_on=[1],
                cost="x",
                orders="abc",
                discounts=3,
                fell_back={},
                lines="x",
                tokens=[],
                unknown_tokens="y",
            ),
        ),
        "one",
    ),
    Row(
        "metrics-of-other-shapes-of-vectors",
        "anaphora info sg",
        0,
        r"",
        document(
            "sg/metrics.json",
            lambda d: d.update(
                trained_on=[1], cost="x", losses="abc", words_per_second="x", unknown_tokens="y", finished="z"
            ),
        ),
        "sg",
    ),
    Row("an-analogy-of-one-word", "anaphora analogy sg the the the", 2, r"", needs="sg"),
]


def _no(path: Path) -> None:
    assert not path.exists(), f"{path} was made: {list(path.rglob('*'))[:9]}"


@table(MISTAKES)
def test_mistakes_are_told_in_one_sentence(world: World, tmp_path: Path, row: Row) -> None:
    row.replay(world, tmp_path)


# -- standard streams and names ----------------------------------------------------------------------------------------


def _made(run: str) -> Callable[[Path, Seen], None]:
    def then(folder: Path, seen: Seen) -> None:
        assert (folder / run / "model.safetensors").is_file(), seen

    return then


def _lines(number: int) -> Callable[[Path, Seen], None]:
    def then(_: Path, seen: Seen) -> None:
        assert seen.out.count("\n") == number, seen

    return then


ODD = "$'r\\xff\\xfe'"
STREAMS = [
    Row("training-with-a-full-disk-behind-stderr", "anaphora train x --text a.en 2>/dev/full", 0, then=_made("x")),
    Row(
        "a-translator-with-a-full-disk-behind-stderr",
        f"{LEARN_TR}2 2>/dev/full".replace("train tr", "train x"),
        0,
        then=_made("x"),
    ),
    Row(
        "a-language-model-with-a-full-disk-behind-stderr",
        f"{LEARN_LM}2 2>/dev/full".replace("train lm", "train x"),
        0,
        then=_made("x"),
    ),
    Row(
        "vectors-with-a-full-disk-behind-stderr",
        f"{LEARN_SG} 2>/dev/full".replace("train sg", "train x"),
        0,
        then=_made("x"),
    ),
    Row(
        "translation-with-a-full-disk-behind-stderr",
        "anaphora translate tr two.en 2>/dev/full",
        0,
        needs="tr",
        then=_lines(2),
    ),
    Row(
        "comparison-with-a-full-disk-behind-stderr",
        "anaphora compare c --text a.en --valid-text b.en --recipes ngram:model.order=2 2>/dev/full",
        0,
    ),
    Row("average-with-a-full-disk-behind-stderr", "anaphora average tr --device cpu 2>/dev/full", 0, needs="tr"),
    Row("a-mistake-with-a-full-disk-behind-stderr", "anaphora info nowhere 2>/dev/full", 2),
    Row("help-with-a-full-disk-behind-stdout", "anaphora --help >/dev/full", 2, r"stdout: .*No space left"),
    Row(
        "help-of-a-verb-with-a-full-disk-behind-stdout",
        "anaphora train --help >/dev/full",
        2,
        r"stdout: .*No space left",
    ),
    Row("version-with-a-full-disk-behind-stdout", "anaphora -V >/dev/full", 2, r"stdout: .*No space left"),
    *[
        Row(
            f"{line.split()[0]}-with-a-full-disk-behind-stdout",
            f"anaphora {line} >/dev/full",
            2,
            r"stdout: .*No space left",
            needs=needs,
        )
        for line, needs in (
            ("info tr", "tr"),
            ("translate tr two.en", "tr"),
            ("generate one", "one"),
            ("score one --text two.en", "one"),
            ("neighbours sg the", "sg"),
            ("settings", ""),
            ("fill masked 'the ___ sees'", "masked"),
            ("why one the", "one"),
            ("senses bp the", "bp"),
            ("encode lm two.en", "lm"),
            ("classify classes two.en", "classes"),
            ("align tr --source train.en --target train.de", "tr"),
            ("walk tr 'the dog'", "tr"),
            ("map sg --json", "sg"),
        )
    ],
    Row("json-with-a-full-disk-behind-stdout", "anaphora info tr --json >/dev/full", 2, r"stdout", needs="tr"),
    Row("everything-full", "anaphora info tr >/dev/full 2>&1", 2, needs="tr"),
    Row("translation-with-stdin-closed", "anaphora translate tr <&-", 2, r"stdin", needs="tr"),
    Row("translation-of-a-file-with-stdin-closed", "anaphora translate tr two.en <&-", 0, needs="tr", then=_lines(2)),
    Row("info-with-stdout-closed", "anaphora info tr >&-", 2, r"stdout", needs="tr"),
    Row("translation-with-stdout-closed", "anaphora translate tr two.en >&-", 2, r"stdout", needs="tr"),
    Row("training-with-stderr-closed", "anaphora train x --text a.en 2>&-", 0, then=_made("x")),
    Row("training-with-everything-closed", "anaphora train x --text a.en <&- >&- 2>&-", 0, then=_made("x")),
    Row(
        "a-translator-with-everything-closed",
        f"{LEARN_TR}2 <&- >&- 2>&-".replace("train tr", "train x"),
        0,
        then=_made("x"),
    ),
    Row(
        "vectors-with-everything-closed", f"{LEARN_SG} <&- >&- 2>&-".replace("train sg", "train x"), 0, then=_made("x")
    ),
    Row("help-with-stdout-closed", "anaphora --help >&-", 2, r"stdout"),
    Row("version-with-stdout-closed", "anaphora -V >&-", 2, r"stdout"),
    Row("a-mistake-with-stderr-closed", "anaphora info nowhere 2>&-", 2),
    Row("no-command-with-everything-closed", "anaphora <&- >&- 2>&-", 2),
    *[
        Row(f"{line.split()[0]}-with-stdin-closed", f"anaphora {line} <&-", 2, r"stdin", needs=needs)
        for line, needs in (
            ("score one --text -", "one"),
            ("generate one --file -", "one"),
            ("classify classes", "classes"),
            ("encode lm", "lm"),
            ("evaluate one --text -", "one"),
        )
    ],
    Row("a-reader-that-goes-away", "anaphora settings | head -1", 0, then=_lines(1)),
    Row("a-reader-that-goes-away-from-help", "anaphora train --help | head -1; exit ${PIPESTATUS[0]}", 0),
    Row(
        "a-reader-that-goes-away-from-translation",
        "yes 'the dog sees' | head -300 | anaphora translate tr - | head -1",
        0,
        needs="tr",
        then=_lines(1),
    ),
    Row(
        "text-to-a-file-on-a-full-disk",
        "anaphora translate tr two.en --output /dev/full",
        2,
        r"/dev/full: .*No space left",
        needs="tr",
    ),
    # names
    Row(
        "a-run-whose-name-is-not-utf-8",
        f"anaphora train {ODD} --text train.en --recipe lstm",
        2,
        r"its name is not UTF-8",
        then=lambda folder, _: _no(folder / os.fsdecode(b"r\xff\xfe")),
    ),
    Row("counts-whose-name-is-not-utf-8", f"anaphora train {ODD} --text a.en", 2, r"its name is not UTF-8"),
    Row(
        "a-translator-whose-name-is-not-utf-8",
        f"{LEARN_TR}2".replace("train tr", f"train {ODD}"),
        2,
        r"its name is not UTF-8",
    ),
    Row(
        "vectors-whose-name-is-not-utf-8",
        f"{LEARN_SG}".replace("train sg", f"train {ODD}"),
        2,
        r"its name is not UTF-8",
    ),
    Row("text-whose-name-is-not-utf-8", f"cp a.en {ODD} && anaphora train x --text {ODD} && anaphora info x", 0, r""),
    Row(
        "text-of-a-language-model-whose-name-is-not-utf-8",
        f"cp a.en {ODD} && " + LEARN_LM.replace("train lm --text train.en", f"train x --text {ODD}") + "2",
        0,
        r"",
        then=_made("x"),
    ),
    Row("vectors-as-text-whose-name-is-not-utf-8", f"cp sg.vec {ODD}.vec && anaphora neighbours {ODD}.vec the", 0, r""),
    Row(
        "vectors-written-under-a-name-that-is-not-utf-8",
        f"anaphora convert sg {ODD}.safetensors",
        0,
        r"",
        needs="sg",
    ),
    Row(
        "a-model-moved-to-a-name-that-is-not-utf-8",
        f"mv tr {ODD} && anaphora translate {ODD} two.en",
        2,
        r"not UTF-8",
        needs="tr",
        changes=True,
    ),
    Row("a-mixture-whose-name-is-not-utf-8", f"anaphora mix {ODD} one two --weights 0.5,0.5", 0, r"", needs="one two"),
    Row("a-picture-whose-name-is-not-utf-8", f"anaphora map sg --picture {ODD}.svg", 0, r"", needs="sg"),
    Row("a-picture-in-points-whose-name-is-not-utf-8", f"anaphora map sg --picture {ODD}.png", 0, r"", needs="sg"),
    Row(
        "a-comparison-whose-name-is-not-utf-8",
        f"anaphora compare {ODD} --text a.en --valid-text b.en --recipes lstm",
        2,
        r"not UTF-8",
    ),
    Row("a-translation-whose-name-is-not-utf-8", f"anaphora translate tr two.en --output {ODD}", 0, r"", needs="tr"),
    Row("a-patch-whose-name-is-not-utf-8", f"anaphora patch bp {ODD}.json --remove 'the#0'", 0, r"", needs="bp"),
    Row("a-setting-that-is-not-utf-8", f"anaphora train x --text a.en model.order={ODD}", 2, r"order"),
    Row("a-word-that-is-not-utf-8", f"anaphora neighbours sg {ODD}", 2, r"", needs="sg"),
    Row("a-prompt-that-is-not-utf-8", f"anaphora generate lm {ODD}", 0, r"", needs="lm"),
    Row("stdin-that-is-not-utf-8", "anaphora translate tr", 2, r"not UTF-8", needs="tr", stdin=b"a\n\xff\xfe\n"),
    Row(
        "a-recipe-whose-name-is-not-utf-8",
        f"printf 'model: {{order: 3}}' > {ODD}.yaml; anaphora train x --text a.en --recipe {ODD}.yaml",
        0,
        r"",
    ),
]


@table(STREAMS)
def test_streams_and_names_in_every_state(world: World, tmp_path: Path, row: Row) -> None:
    row.replay(world, tmp_path)


# -- what is shared says nothing of where it was made ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "run"),
    [
        (f"{LEARN_TR}3 --valid-source HERE/two.en --valid-target HERE/two.en", "tr"),
        (f"{LEARN_LM}3 --valid-text HERE/two.en", "lm"),
        (f"{LEARN_LM}3 --from HERE/other", "lm"),
        (f"{LEARN_CLASSES}3", "classes"),
        ("anaphora train one --text HERE/a.en " + COUNTED.replace("words.txt", "HERE/words.txt"), "one"),
        (LEARN_SG, "sg"),
        (LEARN_GL, "gl"),
        (
            "anaphora train new --text HERE/train.en --recipe lstm model.dim=16 model.embedding_from=HERE/sg.vec "
            "training.max_steps=1 training.batch_tokens=64",
            "new",
        ),
        ("anaphora train new --text HERE/train.en --recipe HERE/mine.yaml", "new"),
        ("anaphora train new --text HERE/train.en --recipe skipgram --from HERE/sg.vec model.dim=16", "new"),
        ("anaphora mix HERE/new HERE/one HERE/two --weights 0.5,0.5", "new"),
        ("anaphora mix HERE/new HERE/one HERE/two --text HERE/two.en", "new"),
        ("anaphora convert HERE/one.arpa HERE/new", "new"),
        ("anaphora convert HERE/sg.vec HERE/new", "new"),
        ("anaphora compare HERE/new --text HERE/a.en --valid-text HERE/b.en --recipes ngram:model.order=2", "new"),
    ],
    ids=[
        "translator",
        "language-model",
        "fine-tuned",
        "classifier",
        "counts",
        "skip-gram",
        "glove",
        "with-vectors",
        "with-a-recipe",
        "vectors-from-vectors",
        "mixture",
        "tuned-mixture",
        "from-arpa",
        "from-vectors",
        "comparison",
    ],
)
def test_shared_files_name_no_folders(world: World, tmp_path: Path, line: str, run: str) -> None:
    folder = tmp_path / "private-home"
    folder.mkdir()
    world.copy(folder, "one", "two")
    shutil.copytree(world.folder / "lm", folder / "other")
    if run == "one":
        shutil.rmtree(folder / "one")
    (folder / "mine.yaml").write_text("model: {kind: lstm, dim: 16}\ntraining: {max_steps: 2, batch_tokens: 64}\n")
    typed = re.sub(r"(--text|--source|--target|--labels) (?=[a-z])", r"\1 HERE/", line)
    typed = re.sub(r"train (?=\w+ --)", "train HERE/", typed).replace("HERE", str(folder))
    seen = world.type(typed, folder)
    assert seen.code == 0, seen
    shared = [
        path
        for name in ("config.yaml", "card.md", "metrics.json", "report.*", "*.md")
        for path in (folder / run).rglob(name)
    ]
    assert shared
    for path in shared:
        content = path.read_bytes()  # of a picture, too
        assert b"private-home" not in content, f"{path.name}\n{content.decode(errors='replace')}"
    world.expected(seen)


# -- killed at every moment --------------------------------------------------------------------------------------------

KILLER = """
import os, signal, sys
left, place = int(os.environ.get("KILL_AT", "0")), os.environ.get("KILL_IN", "")
def hook(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir"):
        named = [os.fsdecode(one) for one in arguments if isinstance(one, (str, bytes, os.PathLike))]
        if not any(os.path.abspath(one).startswith(place) for one in named) and -1 in arguments:
            return
    elif event == "open":  # of what is to take the place of another file
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes, os.PathLike)) else ""
        ours = os.path.basename(path).startswith(".unfinished-") and os.path.abspath(path).startswith(place)
        if not ours or not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
    elif event != "ctypes.dlsym" or "renameat2" not in map(str, arguments):
        return
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
if left:
    sys.addaudithook(hook)
"""
"""Kills its process before the n-th rename, exchange, link, removal or new file of ours in a folder."""


@dataclass(frozen=True)
class Replacing:
    id: str
    make: str
    line: str
    model: str
    use: str
    needs: str
    step: int = 1
    last: int = 80
    again: bool = True
    """Whether the same command, repeated, does its work (it goes on with it, or begins anew)."""


REPLACING = [
    Replacing(
        "mix",
        "anaphora mix m one two --weights 0.9,0.1",
        "anaphora mix m one two --weights 0.5,0.5 --force",
        "m",
        "anaphora score m --text two.en",
        "one two",
        4,
    ),
    Replacing(
        "convert-to-counts",
        "anaphora convert two two.arpa && anaphora convert two.arpa m",  # a run, with its text, is never replaced
        "anaphora convert one.arpa m --force",
        "m",
        "anaphora score m --text two.en",
        "two",
        4,
    ),
    Replacing(
        "convert-to-a-file",
        "cp one.arpa m.arpa",
        "anaphora convert two m.arpa --force",
        "m.arpa",
        "anaphora score m.arpa --text two.en",
        "two",
    ),
    Replacing(
        "convert-to-vectors",
        "cp sg.vec m.safetensors && anaphora convert sg.vec m.safetensors --force",
        "anaphora convert gl m.safetensors --force",
        "m.safetensors",
        "anaphora neighbours m.safetensors the",
        "gl",
    ),
    Replacing(
        "count-anew",
        "cp -r one m",
        f"anaphora train m --text b.en {COUNTED} --force",
        "m",
        "anaphora score m --text two.en",
        "one",
        9,
        200,
    ),
    Replacing(
        "vectors-anew",
        "cp -r sg m",
        LEARN_SG.replace("train sg --text train.en", "train m --text a.en") + " --force",
        "m",
        "anaphora neighbours m the",
        "sg",
        9,
        200,
    ),
    Replacing(
        "patch",
        "anaphora patch bp p.json --remove 'the#0'",
        "anaphora patch bp p.json --remove 'dog#1' --force",
        "p.json",
        "anaphora score bp --text two.en --patch p.json",
        "bp",
        1,
    ),
    Replacing(
        "translate-to-a-file",
        "anaphora translate tr two.en --output out.txt --beam 1",
        "anaphora translate tr two.en --output out.txt --force",
        "out.txt",
        "test $(wc -l < out.txt) = 2",
        "tr",
        1,
    ),
    Replacing(
        "average", "true", "anaphora average tr --force --device cpu", "tr", "anaphora translate tr two.en", "tr", 4
    ),
]


@pytest.mark.parametrize("case", REPLACING, ids=lambda case: case.id)
def test_killed_while_replacing_either_the_old_or_the_new_one_is_there(
    world: World, tmp_path: Path, case: Replacing
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(KILLER)
    start = tmp_path / "start"
    start.mkdir()
    world.copy(start, *case.needs.split())
    made = world.expected(world.type(case.make, start))
    assert made.code == 0, made

    def answer(folder: Path) -> str:
        used = world.type(case.use, folder)
        assert used.code == 0, used
        return world.expected(used).out

    old, new, killed = answer(start), None, 0
    whole = tmp_path / "whole"
    shutil.copytree(start, whole)
    assert (seen := world.type(case.line, whole)).code == 0, seen
    new = answer(whole)
    for moment in range(1, case.last, case.step):
        folder = tmp_path / f"at-{moment}"
        shutil.copytree(start, folder)
        seen = world.type(
            case.line, folder, KILL_AT=str(moment), KILL_IN=str(folder), PYTHONPATH=str(tmp_path / "site")
        )
        assert seen.code in (0, -9, 137), seen
        assert answer(folder) in (old, new), f"killed at {moment}: neither the old nor the new one"
        again = world.type(case.line, folder)
        if case.again:
            assert again.code == 0, again
            assert answer(folder) == new, f"killed at {moment}"
        assert "Traceback" not in again.err, again
        assert left_over(folder) == [], f"killed at {moment}: {left_over(folder)}"
        odd = {path.name for path in folder.iterdir()} - {path.name for path in whole.iterdir()}
        assert not odd, f"killed at {moment}: {odd} is left over"
        world.expected(seen), world.expected(again)
        shutil.rmtree(folder)
        killed += seen.code != 0
        if seen.code == 0:
            assert killed >= 2
            return
    pytest.fail("it never came to its end")


def test_a_reader_finds_a_model_at_every_look_while_it_is_replaced(world: World, tmp_path: Path) -> None:
    world.copy(tmp_path, "one", "two")
    line = "anaphora mix m one two --weights 0.5,0.5"
    assert world.expected(world.type(line, tmp_path)).code == 0
    looks = missing = 0
    for _ in range(3):
        process = world.start(f"{line} --force", tmp_path)
        while process.poll() is None:
            for _ in range(500):
                looks += 1
                missing += not os.path.lexists(tmp_path / "m" / "config.yaml")
        assert process.returncode == 0
        world.expected(world.seen(line, tmp_path, 0))
    assert looks > 1000 and missing == 0, f"{missing} of {looks}"


def test_two_who_replace_one_model_at_once_both_end_well(world: World, tmp_path: Path) -> None:
    """Each in a folder of its own that is a link to the same place, so that each has its own streams."""
    (tmp_path / "place").mkdir()
    world.copy(tmp_path / "place", "one", "two")
    assert world.type("anaphora mix m one two --weights 0.5,0.5", tmp_path / "place").code == 0
    for name in ("left", "right", "third"):
        (tmp_path / name).symlink_to("place")
    for _ in range(4):
        several = [
            (name, world.start("anaphora mix m one two --weights 0.5,0.5 --force", tmp_path / name))
            for name in ("left", "right", "third")
        ]
        for name, process in several:
            assert process.wait(60) == 0, world.seen("mix --force", tmp_path / name, process.returncode)
            world.expected(world.seen("mix --force", tmp_path / name, 0))
    assert left_over(tmp_path / "place") == []
    assert world.expected(world.type("anaphora score m --text two.en", tmp_path / "place")).code == 0


@pytest.mark.parametrize(
    ("recipe", "epochs"), [("skipgram", 300), ("cbow", 200), ("glove", 3000)], ids=["skipgram", "cbow", "glove"]
)  # some seconds
def test_word_vectors_killed_between_checkpoints_go_on_to_the_same_bytes(
    world: World, tmp_path: Path, recipe: str, epochs: int
) -> None:
    draw = random.Random(recipe)
    world.copy(tmp_path)
    (tmp_path / "long.en").write_text((world.folder / "train.en").read_text() * 40)
    line = (
        f"anaphora train RUN --text long.en --recipe {recipe} model.dim=64 training.threads=1 "
        f"training.epochs={epochs} training.checkpoint_seconds=0.02"
    )
    whole = world.type(line.replace("RUN", "whole"), tmp_path)
    assert whole.code == 0, whole
    kills = resumed = 0
    name = "glove" if recipe == "glove" else "word2vec"
    for _ in range(40):
        process = world.start(line.replace("RUN", "killed"), tmp_path)
        checkpoint = tmp_path / "killed" / "checkpoints" / f"{name}.safetensors"
        before = checkpoint.stat().st_ino if checkpoint.exists() else None
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_ino == before):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.15))
        alive = process.poll() is None
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += alive
        seen = world.expected(world.seen(line, tmp_path, process.returncode))
        resumed += "continuing" in seen.err or "going on" in seen.err
        assert "Traceback" not in seen.err, seen
        if alive:
            used = world.type("anaphora neighbours killed the", tmp_path)
            assert used.code == 0, used
            world.expected(used)
        if kills == 5 or not alive:
            break
    last = world.type(line.replace("RUN", "killed"), tmp_path)
    assert last.code == 0, last
    assert kills >= 2, kills
    assert weights_of(tmp_path / "killed") == weights_of(tmp_path / "whole")
    assert left_over(tmp_path) == []
    world.expected(last)


def test_a_translation_that_is_killed_goes_on_where_it_was(world: World, tmp_path: Path) -> None:
    world.copy(tmp_path, "tr")
    lines = (world.folder / "train.en").read_text()
    (tmp_path / "many.en").write_text(lines * 3)
    line = "anaphora translate tr many.en --device cpu --set batch_tokens=256"
    whole = world.type(f"{line} --output whole.de", tmp_path)
    assert whole.code == 0, whole
    process = world.start(f"{line} --output out.de", tmp_path)
    kept = tmp_path / "out.de.unfinished"
    while process.poll() is None and not (kept.exists() and kept.stat().st_size > 30_000):
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert kept.exists() and not (tmp_path / "out.de").exists()
    with kept.open("r+b") as file:  # torn, too
        file.truncate(kept.stat().st_size - 7)
    again = world.type(f"{line} --output out.de", tmp_path)
    assert again.code == 0, again
    assert re.search(r"[\d,]+ lines were translated before: going on", again.err), again
    assert (tmp_path / "out.de").read_bytes() == (tmp_path / "whole.de").read_bytes()
    assert not kept.exists()
    process = world.start(f"{line} --output int.de", tmp_path)
    kept = tmp_path / "int.de.unfinished"
    while process.poll() is None and not (kept.exists() and kept.stat().st_size > 30_000):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    seen = world.seen(line, tmp_path, code)
    assert code == 130, seen
    assert seen.err.count("anaphora: interrupted") == 1, seen
    assert re.search(r"[\d,]+ lines .* kept", seen.err) and kept.exists(), seen
    again = world.type(f"{line} --output int.de", tmp_path)
    assert again.code == 0 and (tmp_path / "int.de").read_bytes() == (tmp_path / "whole.de").read_bytes(), again
    world.expected(again)


def test_a_file_of_ones_own_is_not_taken_for_an_unfinished_translation(world: World, tmp_path: Path) -> None:
    world.copy(tmp_path, "tr")
    (tmp_path / "out.txt.unfinished").write_text("my own notes\nof many days\n")
    seen = world.type("anaphora translate tr two.en --output out.txt --beam 1", tmp_path)
    assert (tmp_path / "out.txt.unfinished").read_text() == "my own notes\nof many days\n", seen
    assert seen.code in (0, 2) and "Traceback" not in seen.err, seen
    world.expected(seen)


@pytest.mark.parametrize("damage", ["note", "counts", "words"])
def test_counting_on_disk_goes_on_only_from_what_is_sound(world: World, tmp_path: Path, damage: str) -> None:
    """Killed when half of the stages are done; then a page of what they left is lost."""
    draw, words = random.Random(1), [f"w{number}" for number in range(3000)]
    world.copy(tmp_path)
    (tmp_path / "big.en").write_text("".join(f"{' '.join(draw.choices(words, k=12))}\n" for _ in range(180_000)))
    limit = _least_memory(world, tmp_path) + 40
    line = f"anaphora train big --text big.en model.order=4 training.max_memory={limit}MB tokenizer.kind=word"
    stage = tmp_path / "big" / "counting" / "work" / "count-3.json"
    process = world.start(line, tmp_path)
    while process.poll() is None and not stage.exists():
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if not stage.exists():
        pytest.skip("it was too quick, or is counted in memory here")
    whole = world.type(line.replace("train big", "train whole"), tmp_path)
    assert whole.code == 0, whole
    file = stage if damage == "note" else stage.with_name("count-3.bin" if damage == "counts" else "word-3.bin")
    content = bytearray(file.read_bytes())
    if damage == "note":
        content[:] = bytes(len(content))
    else:
        content[len(content) // 2] ^= 2
    file.write_bytes(content)
    again = world.type(line, tmp_path)
    assert again.code in (0, 2) and "Traceback" not in again.err, again
    if again.code == 0:
        assert weights_of(tmp_path / "big") == weights_of(tmp_path / "whole"), again
    else:
        assert re.search(r"damaged.*; delete", again.err), again
    world.expected(whole), world.expected(again)


# -- average -----------------------------------------------------------------------------------------------------------


def test_average_keeps_the_better_model_can_be_undone_and_sweeps(world: World, tmp_path: Path) -> None:
    world.copy(tmp_path, "tr")
    run, before = tmp_path / "tr", weights_of(tmp_path / "tr")
    (run / ".unfinished-4194304-metrics.json").write_text("{")
    (run / ".unfinished-4194304-model.safetensors").write_text("torn")
    kept = world.type("anaphora average tr --last 4 --device cpu --json", tmp_path)
    assert kept.code == 0, kept
    found = json.loads(kept.out.splitlines()[-1])
    assert left_over(run) == []
    if not found["kept"]:
        assert weights_of(run) == before
    forced = world.type("anaphora average tr --last 4 --device cpu --force", tmp_path)
    assert forced.code == 0, forced
    assert weights_of(run) != before
    undone = world.type("anaphora average tr --undo", tmp_path)
    assert undone.code == 0, undone
    assert weights_of(run) == before
    twice = world.type("anaphora average tr --undo", tmp_path)
    assert twice.code in (0, 2) and "Traceback" not in twice.err and weights_of(run) == before, twice
    for seen in (kept, forced, undone, twice):
        world.expected(seen)


# -- signals -----------------------------------------------------------------------------------------------------------

INTERRUPTED = re.compile(r"^anaphora: interrupted; ", re.M)


def _signalled(
    world: World, folder: Path, line: str, plan: list[tuple[float, int]], *, listening: bool
) -> tuple[Seen, bool]:
    """What it did, and whether the first signal found a program: before, there is only the interpreter, and the
    shell. listening: the plan begins when there is one."""
    process = world.start(f"exec {line}", folder)
    while listening and process.poll() is None and not listens(process.pid):
        time.sleep(0.002)
    time.sleep(plan[0][0])
    found = listening or listens(process.pid)
    for pause, number in [(0.0, plan[0][1]), *plan[1:]]:
        time.sleep(pause)
        if process.poll() is None:
            process.send_signal(number)
    try:
        code = process.wait(90)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        pytest.fail(f"no end after {plan}: {line}")
    return world.seen(f"{line} {plan}", folder, code), found


def _least_memory(world: World, folder: Path) -> int:
    """Megabytes that counting needs here at the least, the program itself included."""
    refused = world.type("anaphora train refused --text a.en training.max_memory=1MB", folder)
    found = re.search(r"allow ([\d,]+) MB or more", refused.err)
    assert refused.code == 2 and found, refused
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("anaphora translate tr train.en --beam 4", "tr"),
        (f"{LEARN_LM}4000".replace("train lm", "train x"), ""),
        (f"{LEARN_TR}4000".replace("train tr", "train x"), ""),
        (LEARN_SG.replace("train sg", "train x").replace("epochs=3", "epochs=3000"), ""),
        (LEARN_GL.replace("train gl", "train x").replace("epochs=3", "epochs=9000"), ""),
        ("anaphora train x --text long.en training.max_memory=LEASTMB model.order=6", ""),
        ("anaphora compare c --text a.en --valid-text b.en --recipes lstm", ""),
        ("anaphora mix m one two --text two.en", "one two"),
        ("anaphora generate lm --lines 100000 --tokens 1000000", "lm"),
        ("anaphora average tr --device cpu --force", "tr"),
    ],
    ids=["translate", "lstm", "translator", "skipgram", "glove", "ngram", "compare", "mix", "generate", "average"],
)
def test_signals_of_all_kinds_at_all_moments(world: World, tmp_path: Path, line: str, needs: str) -> None:
    """One to three of SIGINT, SIGTERM, SIGHUP and SIGQUIT, from the first instant on."""
    (tmp_path / "least").mkdir()
    world.copy(tmp_path / "least")
    if "LEAST" in line:
        line = line.replace("LEAST", str(_least_memory(world, tmp_path / "least") + 15))
    draw, numbers = random.Random(line), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    codes: Counter[int] = Counter()
    for turn, first in enumerate((0.05, 0.4, 1.2, 2.5, 4.5)):
        folder = tmp_path / f"turn-{turn}"
        folder.mkdir()
        world.copy(folder, *needs.split())
        (folder / "long.en").write_text((folder / "train.en").read_text() * 200)
        plan = [(first, numbers[turn % 4])] + [(draw.uniform(0, 0.06), draw.choice(numbers)) for _ in range(turn % 3)]
        seen, found = _signalled(world, folder, line, plan, listening=turn > 0)
        codes[seen.code] += 1
        if found:
            assert not re.search("Traceback|terminate called|Exception ignored", seen.err), seen
        assert seen.code in (0, 130, *(() if found else (-numbers[turn % 4], 128 + numbers[turn % 4]))), seen
        if seen.code == 130:
            assert len(INTERRUPTED.findall(seen.err)) <= 1, seen
        if needs:
            again = world.type("anaphora info " + needs.split()[0], folder)
            assert again.code == 0, again
            world.expected(again)
        world.expected(seen)
    print(line.split()[1], dict(codes))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda n: n.name)
def test_training_that_is_interrupted_saves_and_goes_on_to_the_same_bytes(
    world: World, tmp_path: Path, number: signal.Signals
) -> None:
    world.copy(tmp_path)
    line = LEARN_LM.replace("checkpoint_every=3", "checkpoint_every=100").replace("train lm", "train RUN")
    whole = world.type(f"{line.replace('RUN', 'whole')}400", tmp_path)
    assert whole.code == 0, whole
    process = world.start(f"exec {line.replace('RUN', 'run')}400", tmp_path)
    log = tmp_path / "run" / "logs" / "log.jsonl"
    while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= 10):  # updates
        time.sleep(0.002)
    assert process.poll() is None, world.seen(line, tmp_path, -1)
    process.send_signal(number)
    code = process.wait(60)
    seen = world.seen(line, tmp_path, code)
    assert code == 130, seen
    assert seen.err.count("anaphora: ") <= 1 and "repeat the command" in seen.err, seen
    assert list((tmp_path / "run/checkpoints").glob("step-*")), seen
    again = world.type(f"{line.replace('RUN', 'run')}400", tmp_path)
    assert again.code == 0, again
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")
    for one in (whole, seen, again):
        world.expected(one)


def test_a_hangup_that_is_to_be_ignored_is(world: World, tmp_path: Path) -> None:
    world.copy(tmp_path, "tr")
    process = world.start("trap '' HUP; exec anaphora translate tr train.en --beam 1", tmp_path)
    for _ in range(6):
        time.sleep(0.4)
        if process.poll() is None:
            process.send_signal(signal.SIGHUP)
    assert process.wait(90) == 0
    assert world.expected(world.seen("nohup", tmp_path, 0)).out.count("\n") == 800


# -- anything on stdin -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("anaphora translate tr --beam 1", "tr"),
        ("anaphora classify classes", "classes"),
        ("anaphora score one --text -", "one"),
        ("anaphora encode classes -", "classes"),
        ("anaphora encode lm -", "lm"),
        ("anaphora generate one --file - --tokens 3", "one"),
        ("anaphora generate lm --file - --tokens 3", "lm"),
        ("anaphora fill masked --file -", "masked"),
    ],
    ids=lambda value: value.replace(" ", "-") if " " in str(value) else "",
)
def test_any_text_on_stdin_gives_a_line_for_a_line(world: World, tmp_path: Path, line: str, needs: str) -> None:
    world.copy(tmp_path, needs)
    draw = random.Random(line)
    alphabet = [*"abc dog.", "\t", "\r", "\v", "\f", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "ß", "犬",
                "👩\u200d🚒",
                "\ufffd", "\U0010ffff", "___", "[MASK]", "<s>", "</s>", "⟨s⟩", "the ", "\u0300"]  # fmt: skip
    lines = ["".join(draw.choices(alphabet, k=draw.choice([0, 1, 3, 9, 60]))) for _ in range(150)]
    seen = world.type(line, tmp_path, stdin=("\n".join(lines) + "\n").encode(), limit=200)
    assert seen.code in (0, 2) and "Traceback" not in seen.err, seen
    if seen.code == 2:
        assert len(seen.sentences) == 1, seen
    elif "fill" not in line and "generate" not in line:
        assert seen.out.count("\n") == 150, seen
    world.expected(seen)
    raw = world.type(line, tmp_path, stdin=bytes(draw.choices(range(256), k=5000)), limit=200)
    assert raw.code in (0, 2) and "Traceback" not in raw.err, raw
    world.expected(raw)
