"""A patch: what is changed about the senses of a Backpack's words, as a small file that people can read.

A Backpack predicts from a weighted sum of sense vectors that belong to words, not to places in a text. Who changes the
vector of a sense changes it wherever the word stands, by a known amount, and changes nothing else. So an intervention
need not be a training run or a new model: it is data, beside the model and a few hundred bytes long.

    {
      "anaphora_patch": 1,
      "made_for": {"vocabulary": "3f…", "senses": "9a…", "senses_of_a_word": 16},
      "operations": [
        {"do": "remove", "words": ["sick"], "senses": [3]},
        {"do": "scale", "words": ["bank"], "senses": [1], "by": 0.5},
        {"do": "project-out", "words": ["nurse", "doctor"], "senses": "all", "direction": ["she", "he"]},
        {"do": "add", "words": ["sick"], "senses": [3], "direction": ["great"], "by": 0.5},
        {"do": "replace", "words": ["sick"], "senses": [3], "with": "ill", "sense": 2},
        {"do": "exchange", "words": ["MacBook"], "senses": "all", "out": "Apple", "in": "HP"},
        {"do": "topic", "name": "sea", "words": ["ship", "sail"], "strength": 1.35, "fade": 0.5}
      ]
    }

Operations are done in the order in which they stand, and several patches in the order in which they are given: each
finds the senses as those before it left them. The model itself is never touched: without the patch it is what it was,
bit for bit. Senses are numbered from 0. What the operations *do* stands in sense_edits.py and topic.py; here is what
they say. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal

from anaphora.arguments.given import path_of
from anaphora.errors import UPGRADE, UserError, nearest, shown
from anaphora.folder import check_new_file, write_text
from anaphora.results import brief, count, html_table

VERSION = 1
"""Of the document; a reader refuses newer ones."""
ALL: Literal["all"] = "all"
MOST_OPERATIONS = 10_000
MAX_FILE_BYTES = 1 << 26
"""Bytes of a patch file that are read at the most."""
LARGEST = 1e6
"""Of a factor or an amount: with more, sense vectors and what is made of them are no numbers any more."""
SHOWN = 8
"""Words of an operation that are named where it is told; the file has them all."""
STRENGTH = 1.35
"""Of a topic, unless said; 1 is none."""
FADE = 0.5
"""What is left of a topic's emphasis after each of its words that the text holds."""
QUANTILES = (0.95, 0.80, 0.60)
"""Senses are put into four buckets by how much they raise a topic's words: the best 5 %, the next 15 %, 20 %, the
rest."""

Words = tuple[str, ...] | Literal["all"]
Senses = tuple[int, ...] | Literal["all"]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One change: to which senses of which words."""

    do: ClassVar[str]
    words: Words
    senses: Senses = ALL

    def __post_init__(self) -> None:
        _check_words(self.words)
        if self.senses != ALL:
            whole = isinstance(self.senses, tuple) and all(_is_whole(one) for one in self.senses)
            if not whole or not self.senses or min(self.senses) < 0:
                raise ValueError(f'senses are numbers from 0, or "all"; they are {shown.repr(self.senses)}')
            if len(set(self.senses)) < len(self.senses):
                raise ValueError(f"a sense stands twice in {list(self.senses)}")

    @property
    def named(self) -> tuple[str, ...]:
        """Every word that the operation speaks of, apart from those that it changes."""
        return ()

    @property
    def target(self) -> str:
        """In the words of the command line: nurse,doctor#0,3."""
        words = "*" if self.words == ALL else _few(self.words)
        return f"{words}#{'*' if self.senses == ALL else ','.join(map(str, self.senses))}"

    def inverse(self) -> Operation | None:
        """What takes it back after it was done; None where it cannot be: what was taken away is known to nobody."""
        return None

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        found: dict[str, Any] = {"do": self.do}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                found[_as_written(field.name)] = list(value) if isinstance(value, tuple) else value
        return found

    def __str__(self) -> str:
        return f"{self.do} {self.target}"


@dataclass(frozen=True, kw_only=True)
class Remove(Operation):
    """The sense says nothing any more: its vector becomes 0."""

    do = "remove"


@dataclass(frozen=True, kw_only=True)
class Scale(Operation):
    """The sense says the same, louder or softer: C ← by · C."""

    do = "scale"
    by: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_number("by", self.by)

    def inverse(self) -> Operation | None:
        return dataclasses.replace(self, by=1 / self.by) if abs(self.by) >= 1 / LARGEST else None

    def __str__(self) -> str:
        return f"scale {self.target}={self.by:g}"


@dataclass(frozen=True, kw_only=True)
class ProjectOut(Operation):
    """The sense no longer speaks for or against a word: C ← C - (C · u) u, u being the direction of the word's row of
    the vocabulary matrix; of two words, of what tells their rows apart."""

    do = "project-out"
    direction: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_direction(self.direction)

    @property
    def named(self) -> tuple[str, ...]:
        return self.direction

    def __str__(self) -> str:
        return f"project-out {self.target}={'-'.join(self.direction)}"


@dataclass(frozen=True, kw_only=True)
class Add(Operation):
    """The sense speaks more for a word, or less: C ← C + by · u, u as in `ProjectOut`."""

    do = "add"
    direction: tuple[str, ...]
    by: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_direction(self.direction)
        _check_number("by", self.by)

    @property
    def named(self) -> tuple[str, ...]:
        return self.direction

    def inverse(self) -> Operation | None:
        return dataclasses.replace(self, by=-self.by)

    def __str__(self) -> str:
        return f"add {self.target}={'-'.join(self.direction)}*{self.by:g}"


@dataclass(frozen=True, kw_only=True)
class Replace(Operation):
    """The sense becomes what another word's is: the sense of that number, or each the one of its own number."""

    do = "replace"
    with_: str
    sense: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_words((self.with_,))
        if self.sense is not None and (not _is_whole(self.sense) or self.sense < 0):
            raise ValueError(f"sense is a number from 0; it is {shown.repr(self.sense)}")

    @property
    def named(self) -> tuple[str, ...]:
        return (self.with_,)

    def __str__(self) -> str:
        return f"replace {self.target}={self.with_}{'' if self.sense is None else f'#{self.sense}'}"


@dataclass(frozen=True, kw_only=True)
class Exchange(Operation):
    """What the sense says for one word it says for another: C ← C + (C · a)(b - a), a and b being the directions of
    `out` and `in`. The published edit: what *MacBook* says for *Apple*, it says for *HP*."""

    do = "exchange"
    out: str
    in_: str

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in (self.out, self.in_):
            _check_words((word,))
        if self.out == self.in_:
            raise ValueError(f"out and in are the same word, {self.out!r}")

    @property
    def named(self) -> tuple[str, ...]:
        return (self.out, self.in_)

    def __str__(self) -> str:
        return f"exchange {self.target}={self.out}>{self.in_}"


@dataclass(frozen=True, kw_only=True)
class Topic(Operation):
    """Whatever sense raises the topic's words weighs more, and what lowers them less, of every word in the text, until
    the topic has come up.

    `words` are the topic's bag; the senses of all words are scored by it, and their weights multiplied: by the more,
    the higher the score (`strength`), or as it was published, by one of four `factors` for each bucket of the scores
    (topic.py). Each word of the bag in the text leaves `fade` of what this changes.
    """

    do = "topic"
    name: str = ""
    strength: float | None = None
    factors: tuple[float, ...] | None = None
    fade: float = FADE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.words == ALL or self.senses != ALL:
            raise ValueError("a topic is a list of words, and chooses their senses itself")
        if not isinstance(self.name, str):
            raise ValueError(f"name is a word or two; it is {shown.repr(self.name)}")
        numbers = self.factors
        if numbers is None:
            strength = STRENGTH if self.strength is None else self.strength
            object.__setattr__(self, "strength", strength)
            numbers = (strength,)
        elif self.strength is not None:
            raise ValueError("factors say what a strength would: there is one or the other")
        elif not isinstance(self.factors, tuple) or len(self.factors) != len(QUANTILES) + 1:
            raise ValueError(f"factors are {len(QUANTILES) + 1} numbers, one for each bucket of senses")
        for number in numbers:
            _check_number("strength" if self.factors is None else "each factor", number, 0, 100)
        _check_number("fade", self.fade, 0, 1)

    @property
    def called(self) -> str:
        """Its name, or its first word."""
        return self.name or self.words[0]

    @property
    def target(self) -> str:
        return f"{self.called}={_few(self.words)}"

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        found = super().document()
        del found["senses"]
        return {"do": self.do, "name": found.pop("name"), **found}

    def __str__(self) -> str:
        how = f"strength {self.strength:g}" if self.factors is None else ", ".join(f"{one:g}" for one in self.factors)
        return f"topic {self.target} ({how}; fade {self.fade:g})"


OPERATIONS: dict[str, type[Operation]] = {
    kind.do: kind for kind in (Remove, Scale, ProjectOut, Add, Replace, Exchange, Topic)
}


@dataclass(frozen=True)
class MadeFor:
    """Which model a patch is about: its words mean ids, and its senses vectors, of this one alone."""

    vocabulary: str
    """Print of the tokens in their order (Tokenizer.vocabulary_fingerprint)."""
    senses: str
    """Print of what the senses are computed from."""
    senses_of_a_word: int


@dataclass(frozen=True)
class Patch:
    """Operations, and the model they were made for."""

    made_for: MadeFor
    operations: tuple[Operation, ...] = ()

    def __post_init__(self) -> None:
        for operation in self.operations:
            numbers = () if operation.senses == ALL else operation.senses
            other = operation.sense if isinstance(operation, Replace) else None
            for number in (*numbers, *(() if other is None else (other,))):
                if number >= self.made_for.senses_of_a_word:
                    raise UserError(
                        f"{operation}: there is no sense {number}, each word of this model has "
                        f"{self.made_for.senses_of_a_word}",
                        cure=f"give a number from 0 to {self.made_for.senses_of_a_word - 1}, or * for all",
                    )

    def __repr__(self) -> str:
        return brief("Patch", "; ".join(map(str, self.operations[:SHOWN])), count(len(self.operations), "operation"))

    def __str__(self) -> str:
        return "\n".join(map(str, self.operations))

    def _repr_html_(self) -> str:
        return html_table(
            ("operation", "of"), [(one.do, str(one).removeprefix(one.do)) for one in self.operations], left=2
        )

    def __bool__(self) -> bool:
        return bool(self.operations)

    def inverse(self) -> Patch:
        """The patch that takes this one back when it comes after it; refused where something was taken away."""
        back = []
        for operation in reversed(self.operations):
            found = operation.inverse()
            if found is None:
                topic = isinstance(operation, Topic)
                why = "no topic is another's opposite" if topic else "what was there is not in the patch"
                raise UserError(
                    f"{operation}: this cannot be taken back, {why}",
                    cure="leave the patch out instead: the model itself was never changed",
                )
            back.append(found)
        return Patch(self.made_for, tuple(back))

    def check(self, model: MadeFor, *, file: Path | str | None = None) -> None:
        """Refuse a patch that was made for another model."""
        own = self.made_for
        if own == model:
            return
        if own.vocabulary != model.vocabulary:
            why = "its vocabulary is another one"
        elif own.senses_of_a_word != model.senses_of_a_word:
            why = f"that one has {own.senses_of_a_word} senses for a word, this one {model.senses_of_a_word}"
        else:
            why = "the senses of this one's words are others (it was trained on, or is another run)"
        raise UserError(
            f"this patch was made for another model: {why}",
            file=file,
            cure="make the patch anew for this model, or give the model that it was made for",
        )

    # -- the file ------------------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "anaphora_patch": VERSION,
            "made_for": dataclasses.asdict(self.made_for),
            "operations": [operation.document() for operation in self.operations],
        }

    def text(self) -> str:
        """What the file holds: JSON, an operation a line."""
        document = self.document()
        lines = [json.dumps(operation, ensure_ascii=False) for operation in document["operations"]]
        listed = "[\n    " + ",\n    ".join(lines) + "\n  ]" if lines else "[]"
        made_for = json.dumps(document["made_for"], ensure_ascii=False)
        return f'{{\n  "anaphora_patch": {VERSION},\n  "made_for": {made_for},\n  "operations": {listed}\n}}\n'

    def write(self, path: str | Path, *, force: bool = False) -> None:
        """Write the file, whole or not at all. force: over one that exists."""
        check_new_file(Path(path), force=force)
        write_text(Path(path), self.text(), pipes=True)

    @classmethod
    def read(cls, path: str | Path) -> Patch:
        """Read a file; what is no patch is refused."""
        path = Path(path)
        cure = "give a file that `anaphora patch` wrote"
        try:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
            if len(content) > MAX_FILE_BYTES:
                raise UserError("is too large for a patch", file=path, cure=cure)
            document = json.loads(content.decode("utf-8"))
        except OSError as error:
            raise UserError(f"cannot be read ({error.strerror})", file=path, cure=cure) from None
        except (ValueError, RecursionError):
            raise UserError("is no patch: it is not JSON", file=path, cure=cure) from None
        return cls.of_document(document, file=path)

    @classmethod
    def of_document(cls, document: Any, *, file: str | Path | None = None) -> Patch:
        """The patch that a document describes."""
        cure = "give a file that `anaphora patch` wrote"
        if not isinstance(document, dict) or "anaphora_patch" not in document:
            raise UserError("is no patch", file=file, cure=cure)
        version = document["anaphora_patch"]
        if not _is_whole(version) or version < 1:
            raise UserError(f"is no patch: its version is {shown.repr(version)}", file=file, cure=cure)
        if version > VERSION:
            raise UserError(
                f"was written by a newer Anaphora (patch version {version}, this one reads up to {VERSION})",
                file=file,
                cure=UPGRADE,
            )
        if strange := sorted(document.keys() - {"anaphora_patch", "made_for", "operations"}):
            raise UserError(f"has an unknown entry {shown.repr(strange[0])}", file=file, cure="take it out")
        made_for, listed = document.get("made_for"), document.get("operations")
        whole = {"vocabulary": str, "senses": str, "senses_of_a_word": int}
        if not isinstance(made_for, dict) or {name: type(value) for name, value in made_for.items()} != whole:
            raise UserError("does not say which model it was made for", file=file, cure=cure)
        if not isinstance(listed, list) or len(listed) > MOST_OPERATIONS:
            raise UserError("has no list of operations", file=file, cure=cure)
        operations = tuple(_operation(one, number, file) for number, one in enumerate(listed, start=1))
        try:
            return cls(MadeFor(**made_for), operations)
        except UserError as error:
            raise UserError(error.what, file=file, cure=error.cure) from None


def _operation(written: Any, number: int, file: str | Path | None) -> Operation:
    if not isinstance(written, dict) or not isinstance(written.get("do"), str):
        raise UserError(f'operation {number} does not say what to do ("do")', file=file, cure=nearest("", OPERATIONS))
    kind = OPERATIONS.get(written["do"])
    if kind is None:
        raise UserError(
            f"operation {number} is to do {shown.repr(written['do'])}, which is unknown",
            file=file,
            cure=nearest(written["do"], OPERATIONS),
        )
    fields = {_as_written(field.name): field for field in dataclasses.fields(kind)}
    given = {key: _tuples(value) for key, value in written.items() if key != "do"}
    if strange := sorted(map(str, given.keys() - fields.keys())):
        raise UserError(
            f"operation {number}, {kind.do}, has an unknown entry {strange[0]!r}",
            file=file,
            cure=nearest(strange[0], fields),
        )
    needed = [key for key, field in fields.items() if field.default is dataclasses.MISSING and key not in given]
    if needed:
        raise UserError(f"operation {number}, {kind.do}, has no {needed[0]!r}", file=file, cure="add it")
    try:
        return kind(**{fields[key].name: value for key, value in given.items()})
    except (ValueError, TypeError) as error:
        raise UserError(f"operation {number}, {kind.do}: {error}", file=file, cure="mend it") from None


def _few(words: Sequence[str]) -> str:
    """All of a few words; of many, the first and how many they are."""
    return ",".join(words) if len(words) <= SHOWN else f"{','.join(words[: SHOWN - 2])},…({len(words)} words)"


def _as_written(name: str) -> str:
    """with_ and in_ are words that Python keeps for itself."""
    return name.removesuffix("_")


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_number(name: str, value: Any, least: float = -LARGEST, most: float = LARGEST) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number; it is {shown.repr(value)}")
    if not least <= value <= most:  # nor is it no number
        raise ValueError(f"{name} must be a number from {least:,.0f} to {most:,.0f}; it is {shown.repr(value)}")


def _check_words(words: Any) -> None:
    if words == ALL:
        return
    if not isinstance(words, tuple) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError(f'words are a list of words, or "all"; they are {shown.repr(words)}')
    if len(set(words)) < len(words):
        twice = next(word for word in words if words.count(word) > 1)
        raise ValueError(f"the word {twice!r} stands twice")


def _check_direction(words: Any) -> None:
    _check_words(words)
    if words == ALL or len(words) > 2:
        raise ValueError(f"a direction is one word, or two different ones; it is {shown.repr(words)}")


def words_of(operations: Iterable[Operation]) -> list[str]:
    """Every word that the operations name, each once, in order."""
    found: dict[str, None] = {}
    for operation in operations:
        found.update(dict.fromkeys(() if operation.words == ALL else operation.words))
        found.update(dict.fromkeys(operation.named))
    return list(found)


def several_patches(patches: Patch | str | Path | Sequence[Patch | str | Path]) -> list[Patch | Path]:
    """One patch or several, each in memory or the path of a file."""
    if isinstance(patches, Patch):
        return [patches]
    if isinstance(patches, str | PathLike | bytes) or not isinstance(patches, Iterable):
        return [path_of(patches, "patches")]
    return [one if isinstance(one, Patch) else path_of(one, f"patches[{n}]") for n, one in enumerate(patches)]
