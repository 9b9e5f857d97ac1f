"""Splits of the pocket corpus: what is generated for training, and what is withheld for the test."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Literal

from anaphora.text.pocket.choices import Variant
from anaphora.text.pocket.contexts import CONTEXTS
from anaphora.text.pocket.grammar import CONSTRUCTIONS
from anaphora.text.pocket.numbers import is_compositional
from anaphora.text.pocket.phrases import PocketPair, Weaver

Split = Literal["train", "valid", "test"]


@lru_cache(maxsize=1)
def _grammar() -> tuple[list[float], list[tuple[str, list[Variant], str]]]:
    entries = [(n, w, make(), mark) for n, (w, make, mark) in CONSTRUCTIONS.items()]
    entries += [(n, w, make(), ".") for n, (w, make, _) in CONTEXTS.items()]
    total = sum(w for _, w, _, _ in entries)
    return list(accumulate(w / total for _, w, _, _ in entries)), [(n, v, m) for n, _, v, m in entries]


def count_sentences() -> int:
    return sum(v.count for _, vs, _ in _grammar()[1] for v in vs)


def derive(rng: Random) -> tuple[PocketPair, list[str]]:
    limits, constructions = _grammar()
    u = rng.random()
    i = next((i for i, limit in enumerate(limits) if u < limit), len(limits) - 1)
    name, variants, mark = constructions[i]
    variant = variants[int(rng.random() * len(variants))]
    weaver = Weaver()
    pair = variant.build(weaver, variant.sample(rng))
    return weaver.finish(pair, mark, name), weaver.facts
