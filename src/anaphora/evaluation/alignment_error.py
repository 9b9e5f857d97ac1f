"""Word alignments as links: reading and writing Pharaoh lines, and the alignment error rate.

A link (i, j) joins word i of the source to word j of the target; within the program both count from 0. The Pharaoh
format writes a sentence's links on a line, "0-0 1-2". People who align by hand mark a link *sure* (i-j) or merely
*possible* (i?j, also written ipj or iPj); every sure link is possible as well. Against such a gold standard (Och & Ney
2003), with A what a system says, S the sure and P the possible links:

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|      AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from anaphora.errors import UserError, option
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_bytes

Link = tuple[int, int]
"""(source word, target word), both from 0."""

LINK = re.compile(r"(\d{1,9})([-?pP])(\d{1,9})")


@dataclass(frozen=True)
class GoldAlignment:
    """The links of one sentence pair that people agreed on."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """The sure ones included."""

    @classmethod
    def of(cls, sure: Iterable[Link], possible: Iterable[Link] = ()) -> GoldAlignment:
        sure = frozenset(sure)
        return cls(sure, sure | frozenset(possible))


@dataclass(frozen=True)
class AlignmentScore:
    """How alignments compare with gold, over all sentences together."""

    aer: float
    precision: float
    recall: float
    sentences: int
    links: int
    """|A|: links said."""
    sure: int
    """|S|: sure links of the gold standard."""
    possible: int
    """|P|, the sure ones included."""


def alignment_error_rate(said: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]) -> AlignmentScore:
    """AER, precision and recall; counts are summed over sentences first, so long ones weigh more."""
    if len(said) != len(gold):
        raise ValueError(f"{len(said)} alignments but {len(gold)} gold ones")
    links = sure = possible = in_sure = in_possible = 0
    for ours, theirs in zip(said, gold):
        ours = set(ours)
        links += len(ours)
        sure += len(theirs.sure)
        possible += len(theirs.possible)
        in_sure += len(ours & theirs.sure)
        in_possible += len(ours & theirs.possible)
    return AlignmentScore(
        aer=1 - (in_sure + in_possible) / (links + sure) if links + sure else 0.0,
        precision=in_possible / links if links else 1.0,
        recall=in_sure / sure if sure else 1.0,
        sentences=len(gold),
        links=links,
        sure=sure,
        possible=possible,
    )


def write_pharaoh(links: Iterable[Link], *, base: int = 0) -> str:
    """One line: "0-0 1-2", by source word, then target word."""
    return " ".join(f"{i + base}-{j + base}" for i, j in sorted(links))


def parse_pharaoh(
    text: str, *, base: int = 0, file: str | PathLike[str] | None = None, line: int | None = None
) -> GoldAlignment:
    """One line of links, counted from `base` (0 or 1); an empty line has none."""
    sure: set[Link] = set()
    possible: set[Link] = set()
    for item in text.split():
        found = LINK.fullmatch(item)
        if found is None:
            raise UserError(
                f"{item[:40]!r} is not a link",
                file=file,
                line=line,
                cure="write i-j (sure) or i?j (possible), as in 0-0",
            )
        i, j = int(found[1]) - base, int(found[3]) - base
        if i < 0 or j < 0:
            what = f"the link {item} has a word 0, but words are counted from 1"
            raise UserError(what, file=file, line=line, cure=f"add {option('base', 0)}")
        (sure if found[2] == "-" else possible).add((i, j))
    return GoldAlignment.of(sure, possible)


def read_pharaoh(path: str | PathLike[str], *, base: int = 0) -> list[GoldAlignment]:
    """A file of links, one sentence a line."""
    try:
        content = read_bytes(Path(path), MAX_LARGE_FILE_BYTES, pipes=True)
    except OSError as error:
        raise UserError(
            f"cannot be read ({error.strerror})", file=path, cure="give a file of Pharaoh alignments"
        ) from None
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    gold = []
    for number, raw in enumerate(lines, start=1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise UserError(
                "is not text", file=path, line=number, cure="give a file of Pharaoh alignments: 0-0 1-2"
            ) from None
        gold.append(parse_pharaoh(text, base=base, file=path, line=number))
    return gold


def check_range(
    gold: Sequence[GoldAlignment], sizes: Sequence[Link], *, base: int = 0, file: str | PathLike[str] | None = None
) -> None:
    """Every link must name words that are there; sizes: (source words, target words) of each pair."""
    if len(gold) != len(sizes):
        raise UserError(
            f"has {len(gold):,} lines, but there are {len(sizes):,} sentence pairs",
            file=file,
            cure="give the alignments of exactly these pairs",
        )
    for number, (alignment, size) in enumerate(zip(gold, sizes), start=1):
        for link in sorted(alignment.possible):
            if link[0] >= size[0] or link[1] >= size[1]:
                name = write_pharaoh([link], base=base)
                wrong, words = ("source", size[0]) if link[0] >= size[0] else ("target", size[1])
                other = f"{option('base', 1)}, or " if base == 0 else ""
                raise UserError(
                    f"the link {name} is out of range: the {wrong} has {words} words, counted from {base}",
                    file=file,
                    line=number,
                    cure=f"try {other}{option('split', 'whitespace')} if the text was tokenized before, "
                    "punctuation if not",
                )
