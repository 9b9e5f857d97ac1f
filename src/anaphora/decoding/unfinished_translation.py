"""A translation under way, on disk: what the search found, batch by batch, so that it can be broken off at any moment.

    FILE.unfinished     a line of JSON that says what is being done with which model and settings, then a line for each
                        batch: checksum, {"batch": fingerprint, "lines": …, "found": hypotheses}

Which sentences make a batch depends on the lines alone, and what a batch gives on the batch, the model and the settings
alone. So whoever repeats the command reads what was found from here as long as the batches are the same, and goes on
with the first one that is not there: the result is what it would have been in one go, to the last bit of every score.
Numbers are written so that they are read back exactly. A torn or damaged line ends what is believed. What was done with
other settings, or of other lines, took its time too: it goes only where that is forced.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from anaphora.config import differences
from anaphora.decoding.beam_search import Hypothesis
from anaphora.errors import UserError, option, refused_by_system
from anaphora.files.foreign import is_there
from anaphora.results import brief, count

ENDING = ".unfinished"
BEGINNING = b'{"anaphora": '


class Unfinished:
    """What is done of a translation that is to be written to a file."""

    def __init__(
        self, output: Path, circumstances: dict[str, Any], say: Callable[[str], None], *, force: bool = False
    ) -> None:
        """circumstances: all that a result depends on beside the batch. say: hears what was found to be done. force:
        what was kept under other circumstances may go."""
        self.path = output.with_name(output.name + ENDING)
        self.say = say
        self.force = force
        self.batches = 0
        """How many are on disk."""
        self.lines = 0
        """How many are finished by them."""
        header = json.dumps(circumstances, sort_keys=True).encode() + b"\n"
        try:
            self.file: BinaryIO = self.path.open("r+b" if is_there(self.path) else "w+b")
            try:
                found = self.file.readline()
                self.replaying = found == header
                if not self.replaying:
                    self._refuse(found, circumstances)
                    self.file.seek(0)
                    self.file.truncate()
                    self.file.write(header)
                    self.file.flush()
                self.empty = not self.replaying or len(header) == self.path.stat().st_size
                """Nothing is kept in it, be it of this command or of one before."""
            except BaseException:
                self.file.close()
                raise
        except OSError as error:
            raise refused_by_system(error, "cannot be written", file=self.path) from None

    def _refuse(self, found: bytes, circumstances: dict[str, Any]) -> None:
        """found: a first line that is not what it should be. Only what nobody can miss may be written over."""
        torn = not found.endswith(b"\n") and BEGINNING.startswith(found[: len(BEGINNING)])
        if torn:  # killed at once
            return
        begun = _circumstances(found)
        if begun is None:
            cure = "rename it, or choose another file for the output"
            raise UserError("is no unfinished translation of Anaphora: it is left alone", file=self.path, cure=cure)
        spoken = _changes(begun, circumstances)
        if not self.force:
            cure = f"repeat the old command to go on from there, or add {option('force', True)} to begin anew"
            raise UserError(f"holds a translation that was begun otherwise: {spoken}", file=self.path, cure=cure)
        self.say(f"{self.path.name} was begun otherwise ({spoken}): beginning anew")

    def __repr__(self) -> str:
        return brief("Unfinished", str(self.path), f"{count(self.lines, 'line')} finished")

    @staticmethod
    def name(*asked: Any) -> str:
        """Sixteen bytes, in hex, of what a batch asks the model."""
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]

    def recall(self, batch: str) -> list[list[Hypothesis]] | None:
        """What was found for the next batch, if it was done before."""
        if not self.replaying:
            return None
        place = self.file.tell()
        record = _read(self.file.readline())
        if record is not None and record["batch"] == batch:
            self.batches += 1
            self.lines += record["lines"]
            return [[Hypothesis(**one) for one in hypotheses] for hypotheses in record["found"]]
        if record is not None and not self.batches and not self.force:
            cure = (
                f"give the lines of the old command to go on from there, or add {option('force', True)} to begin anew"
            )
            raise UserError("holds a translation of other lines", file=self.path, cure=cure)
        self.replaying, self.empty = False, not self.batches
        self.file.seek(0, 2)
        other = self.file.tell() > place
        if self.batches:
            self.say(
                f"{self.lines:,} {'line was' if self.lines == 1 else 'lines were'} translated before: going on"
                + "; what else was kept is of other lines, or damaged" * other
            )
        elif other:
            self.say(f"what {self.path.name} keeps is of other lines, or damaged: beginning anew")
        self.file.seek(place)
        self.file.truncate()
        return None

    def keep(self, batch: str, found: Sequence[Sequence[Hypothesis]], lines: int) -> None:
        """Write down what was found, at once: a process may be killed."""
        record = {"batch": batch, "lines": lines, "found": [[asdict(one) for one in each] for each in found]}
        text = json.dumps(record).encode()
        try:
            self.file.write(b"%08x %s\n" % (zlib.crc32(text), text))
            self.file.flush()
        except OSError as error:
            raise refused_by_system(error, "cannot be written", file=self.path) from None
        self.batches += 1
        self.lines += lines
        self.empty = False

    def __enter__(self) -> Unfinished:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """When the block ends well, the output is there, and this is not needed any more."""
        self.file.close()
        if kind is None or self.empty:
            self.path.unlink(missing_ok=True)
        elif self.batches and issubclass(kind, Exception):
            lines = count(self.lines, "line is", "lines are")
            self.say(f"{lines} translated and kept in {self.path}: repeat the command to continue")


def _circumstances(line: bytes) -> dict[str, Any] | None:
    """What a file says it was begun with, if it is one of ours."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    ours = isinstance(found, dict) and "model" in found and isinstance(found.get("decoding"), dict)
    return found if ours else None


def _changes(begun: dict[str, Any], now: dict[str, Any]) -> str:
    """What is not as it was, in words."""
    sections = (
        {"": {k: v for k, v in one.items() if k != "decoding"}, "decoding": one["decoding"]} for one in (begun, now)
    )
    spoken = []
    for name, (old, new) in differences(*sections).items():
        what = name.removeprefix(".")
        spoken.append("the model is another" if what == "model" else f"{what} was {old!r} and is {new!r}")
    return "; ".join(spoken)


def _read(line: bytes) -> dict[str, Any] | None:
    """A record, if it is whole."""
    try:
        checksum, _, text = line.removesuffix(b"\n").partition(b" ")
        return json.loads(text) if int(checksum, 16) == zlib.crc32(text) and line.endswith(b"\n") else None
    except ValueError:
        return None
