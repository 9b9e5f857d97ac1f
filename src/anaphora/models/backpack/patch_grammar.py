"""Operations as a person types them: which words, which of their senses, and what becomes of them.

    remove       sick#3                  the sense 3 of sick
    scale        bank,banks#1,4=0.5      two senses of two words, half as loud
    project-out  nurse#*=she-he          of all senses (#* may be left out) what tells she from he
    add          sick#3=great*0.5        so much in the direction of great; great-awful: of what tells the two apart
    replace      sick#3=ill#2            by a sense of another word; =ill: by the one of the same number
    exchange     MacBook=Apple>HP        what speaks for the one word speaks for the other
    topic        sea=ship,sail,harbour   or sea=@words.txt, a word a line

`*` in the place of the words is every word. Senses count from 0. A hyphen parts two words of a direction unless the
vocabulary has the whole (`has_word`); a word that holds a comma cannot be written here, but in the file it can. A
word may hold a # where the vocabulary has it, or where it can mean nothing else: C##2 is sense 2 of C#.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from anaphora.errors import UserError, option
from anaphora.files.foreign import read_text
from anaphora.models.backpack.patch import (
    ALL,
    FADE,
    Add,
    Exchange,
    Operation,
    ProjectOut,
    Remove,
    Replace,
    Scale,
    Senses,
    Topic,
    Words,
)

FORMS = {
    "remove": "WORDS#SENSES, such as sick#3",
    "scale": "WORDS#SENSES=FACTOR, such as bank#1=0.5",
    "project-out": "WORDS#SENSES=WORD or =WORD-WORD, such as nurse,doctor=she-he",
    "add": "WORDS#SENSES=WORD*AMOUNT or =WORD-WORD*AMOUNT, such as sick#3=great*0.5",
    "replace": "WORDS#SENSES=WORD#SENSE, such as sick#3=ill#2",
    "exchange": "WORDS#SENSES=OUT>IN, such as MacBook=Apple>HP",
    "topic": "NAME=WORD,WORD,… or NAME=@FILE, such as sea=ship,sail,harbour",
}
REPEAT = "repeat the option for each word that has senses of its own"
HasWord = Callable[[str], bool]


class _Unclear(ValueError):
    """What could be meant in two ways, and what to write instead."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(what)
        self.cure = cure


def read_operation(
    do: str,
    text: str,
    *,
    has_word: HasWord = lambda _: False,
    strength: float | None = None,
    factors: Sequence[float] | None = None,
    fade: float = FADE,
) -> Operation:
    """What `--remove sick#3` means: do is "remove", text "sick#3". strength or factors, and fade: of a topic."""
    try:
        if do == "topic":
            return _topic(text, strength, tuple(factors) if isinstance(factors, Sequence) else factors, fade)
        return _read(do, text, has_word)
    except _Unclear as error:
        raise UserError(f"{option(do.replace('-', '_'), text)}: {error}", cure=error.cure) from None
    except ValueError as error:
        raise UserError(f"{option(do.replace('-', '_'), text)}: {error}", cure=f"write {FORMS[do]}") from None


def _halves(text: str) -> tuple[str, str]:
    """What stands around the first =."""
    which, _, value = text.partition("=")
    if not which.strip() or not value.strip():
        raise ValueError("something is missing around the =")
    return which, value


def _topic(text: str, strength: float | None, factors: tuple[float, ...] | None, fade: float) -> Topic:
    name, words = _halves(text)
    bag = listed(words)
    try:
        return Topic(words=bag, name=name.strip(), strength=strength, factors=factors, fade=fade)
    except ValueError as error:  # the words are in order
        cures = {"strength": "1 is no topic, more leads to it", "fade": "with 1 it never fades, with 0 at once"}
        cure = cures.get(str(error).split()[0], "write four factors, such as 3.3,3.3,3,1")
        raise UserError(f"{option('topic', text)}: {error}", cure=cure) from None


def _read(do: str, text: str, has_word: HasWord) -> Operation:
    if do == "remove":
        words, senses = target(text, has_word)
        return Remove(words=words, senses=senses)
    which, value = _halves(text)
    words, senses = target(which, has_word)
    if do == "scale":
        return Scale(words=words, senses=senses, by=_number(value))
    if do == "project-out":
        return ProjectOut(words=words, senses=senses, direction=direction(value.strip(), has_word))
    if do == "add":
        towards, star, amount = value.rpartition("*")
        if not star:
            raise ValueError("how much is missing")
        if not towards.strip():
            raise ValueError("the word is missing")
        if "*" in towards and not has_word(towards.strip()):
            raise ValueError("how much stands there twice")
        along = direction(towards.strip(), has_word)
        return Add(words=words, senses=senses, direction=along, by=_number(amount))
    if do == "replace":
        word, sense = _sense_of(value, has_word)
        return Replace(words=words, senses=senses, with_=word, sense=sense)
    out, arrow, into = value.partition(">")
    if not arrow or not out.strip() or not into.strip():
        raise ValueError("two words are wanted, with > between them")
    return Exchange(words=words, senses=senses, out=out.strip(), in_=into.strip())


def target(text: str, has_word: HasWord = lambda _: False) -> tuple[Words, Senses]:
    """nurse,doctor#0,3 -> the words and the numbers of their senses."""
    written, senses = _cut(text, has_word)
    if written == "*":
        return ALL, senses
    words = _words(written)
    for word in words:
        if "#" not in word or word == "#" or has_word(word):
            continue
        if len(words) > 1:  # sick#1,bank#2: the 1 is of one word, the 2 of both
            raise _Unclear(f"{word!r} stands in a list, whose senses are said once, at its end", REPEAT)
        if not word.split("#")[0].strip():  # #1
            raise _Unclear(f"no word stands before {word!r}", "write the word before #, as in sick#3")
        if not word.endswith("#"):  # sick#1#2; but C##2 is sense 2 of C#
            raise _Unclear(f"{word!r} has a # and is no word of the model", "write all senses behind one #: sick#1,2")
    return words, senses


def direction(text: str, has_word: HasWord) -> tuple[str, ...]:
    """she -> that word; she-he -> what tells the two apart."""
    first, hyphen, second = text.partition("-")
    if not hyphen or not first.strip() or not second.strip() or has_word(text):
        return (text,)
    return (first.strip(), second.strip())


def listed(text: str) -> tuple[str, ...]:
    """Words with commas between them, or @FILE: a word a line. Each counts once."""
    if not text.startswith("@"):
        return _words(text, once=True)
    path = Path(text[1:])
    try:
        lines = read_text(path, pipes=True).splitlines()
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror})", file=path, cure="give a file of words") from None
    except UnicodeDecodeError:
        raise UserError("is not UTF-8", file=path, cure="give a file of words, one a line") from None
    words = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not words:
        raise UserError("holds no word", file=path, cure="give a file of words, one a line")
    return words


def _cut(text: str, has_word: HasWord) -> tuple[str, Senses]:
    """The words, and the senses behind the last #; one that begins a word belongs to it (#1), and one that ends a word
    where the vocabulary has that (C#)."""
    text = text.strip()
    words, mark, numbers = text.rpartition("#")
    if mark and words and not numbers.strip():
        last = _words(text)[-1]
        if last != "#" and not has_word(last):
            raise _Unclear(f"nothing stands behind the # of {last!r}", "write the number of a sense after #, or #*")
    if not mark or not words or not numbers:
        return text, ALL
    if numbers.strip() == "*":
        return words, ALL
    found = [part.strip() for part in numbers.split(",")]
    for part in found:
        if not (part.isascii() and part.isdigit()):
            raise ValueError(f"{part!r} is no number of a sense")
        if len(part) > 6:
            raise ValueError(f"no word has {part[:20]} senses")
    return words, tuple(dict.fromkeys(map(int, found)))


def _sense_of(text: str, has_word: HasWord) -> tuple[str, int | None]:
    word, senses = _cut(text, has_word)
    if "," in word or (senses != ALL and len(senses) > 1):
        raise ValueError("one sense of one word is what it can be replaced by")
    return word, None if senses == ALL else senses[0]


def _words(text: str, *, once: bool = False) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise ValueError("there is no word between two commas")
    return tuple(dict.fromkeys(words)) if once else words


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
