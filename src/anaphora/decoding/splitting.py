"""Splitting a line that is longer than the model can read, or of several sentences, without losing a token of it.

Cuts are made where they hurt least: at sentence ends; where a sentence alone is too long, at clause punctuation; then
at spaces; and in an unbroken string (a URL, a gene) between tokens. Neighbouring units are packed together as long as
they fit, so there are as few pieces as that allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")  # a token: its id, or whatever else it may be known by
Encode = Callable[[list[str]], list[list[T]]]

CLOSING = r"[\"'»”’)\]」』）]*"
BOUNDARIES = (
    # A full stop ends a sentence only before white space (3.14, e.g.); the ideographic one needs none.
    re.compile(rf"[.!?…؟।॥]+{CLOSING}\s+|[。！？]+{CLOSING}\s*"),
    re.compile(rf"[,;:،؛–—]+{CLOSING}\s+|[，、；：]+{CLOSING}\s*"),
    re.compile(r"\s+"),
)
"""Best first; a unit ends where a match ends, so its punctuation stays with it."""


SENTENCE_END = re.compile(rf"[.!?…؟।॥۔]+{CLOSING}\s+(?=(\W*)(\S))|[。！？]+(?![」』）”’)])\s*(?=\S)")
ABBREVIATION = re.compile(
    "mrs?|ms|dr|prof|st|rev|gen|col|sgt|capt|lt|hon|jr|sr|inc|ltd|co|corp|vs|etc|cf|al|figs?|vol|ch|pp|eds?|nos?|approx|"
    "dept|est|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|nr|bzw|ca|usw|vgl|evtl|ggf|hr|fr|str|abb|bd|jh|geb|gest|inkl|"
    "zzgl|abs|art|kap|tel|mme|mlle|sra|srta|dott|ing",
    re.IGNORECASE,
)
SINGLE = 0.02
"""A model learned single sentences if no larger share of its lines has several."""


def sentences(text: str) -> list[str]:
    """The sentences of a line, with the white space behind them; put together they are the line. Where in doubt, one:
    never behind an abbreviation, an initial or a number with a full stop, nor before a small letter."""
    cuts = [0]
    for end in SENTENCE_END.finditer(text):
        if end[2] is not None:  # a script with spaces between sentences
            if end[2].islower():
                continue
            words = text[cuts[-1] : end.start()].split()
            last = words[-1].lstrip("\"'“„«([") if words else ""
            if end[0][0] == "." and (
                ABBREVIATION.fullmatch(last) or len(last) == 1 or last.isdigit() or re.search(r"\.\w$", last)
            ):
                continue
        cuts.append(end.end())
    return [text[start:stop] for start, stop in pairwise([*cuts, len(text)]) if stop > start]


def several_sentences(lines: Iterable[str]) -> float:
    """The share of lines that have more than one sentence."""
    found = [len(sentences(line)) > 1 for line in lines]
    return sum(found) / max(len(found), 1)


def parts_of(text: str, encode: Encode[T], limit: int, *, by_sentence: bool) -> list[list[T]]:
    """The ids of what a line is translated as: itself, or its sentences, and of what is too long the pieces."""
    found = []
    for sentence in sentences(text) if by_sentence else [text]:
        found += split_line(sentence.strip() if by_sentence else sentence, encode, limit)
    return found


def split_line(text: str, encode: Encode[T], limit: int) -> list[list[T]]:
    """The ids of text in pieces of at most `limit` tokens; one piece if it fits, none if it has no token."""
    if limit < 1:
        raise ValueError(f"no piece can be of {limit} tokens")
    return _split(text, encode([text])[0], encode, limit, 0)


def _split(text: str, ids: list[T], encode: Encode[T], limit: int, level: int) -> list[list[T]]:
    if len(ids) <= limit:
        return [ids] if ids else []
    if level == len(BOUNDARIES):  # between tokens, into parts of equal size: a last part of one token helps nobody
        parts = -(-len(ids) // limit)
        cuts = [len(ids) * part // parts for part in range(parts + 1)]
        return [ids[start:end] for start, end in pairwise(cuts)]
    units = _units(text, BOUNDARIES[level])
    if len(units) == 1:
        return _split(text, ids, encode, limit, level + 1)
    groups = _pack(units, [len(unit_ids) for unit_ids in encode(units)], limit)
    groups = [group for group in (group.strip() for group in groups) if group]
    pieces = []
    for group, group_ids in zip(groups, encode(groups)):
        pieces += _split(group, group_ids, encode, limit, level + 1)  # at once, if it fits
    return pieces


def _units(text: str, boundary: re.Pattern[str]) -> list[str]:
    """Cut after every match; the units put together are the text."""
    cuts = [0, *(match.end() for match in boundary.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if end > start]


def _pack(units: list[str], counts: list[int], limit: int) -> list[str]:
    """Join neighbours while their token counts fit together."""
    groups, held = [units[0]], counts[0]
    for unit, count in zip(units[1:], counts[1:]):
        if held + count <= limit:
            groups[-1] += unit
            held += count
        else:
            groups.append(unit)
            held = count
    return groups
