"""Counting n-grams: from a text of ids to the distinct n-grams of each order, in the trie's order, with counts.

`count` does it in memory. `fit` is the whole way from a file of ids to a model's file, in memory where that is enough
and out of core (spill.py, blocks.py) where it is not. Both ways give the same file, bit for bit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from anaphora.data.word_ids import WordIds
from anaphora.device import c_library, resident
from anaphora.errors import UserError, refused_by_system
from anaphora.folder import discard, publish, sync, temporary_name
from anaphora.models.ngram.blocks import BlockSmoother, Fitted
from anaphora.models.ngram.columns import Column
from anaphora.models.ngram.kernels.ngram_counts import equal_parts, number_positions, positions_by_word, refine
from anaphora.models.ngram.kernels.ngrams import NOWHERE, U32
from anaphora.models.ngram.ngram_file import read_checksum, read_trie
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel
from anaphora.models.ngram.smoothing import Grams
from anaphora.models.ngram.spill import HeldWork, Say, Work, count_spilled, digest
from anaphora.models.ngram.threads import CORES
from anaphora.tokenizers.tokenizer import BOS, EOS

MAX_TOKENS = 0xFFFFFFFE
"""Tokens that a text may have: positions and counts are 32 bits wide."""
WORD_COST = 48
"""Bytes of memory that a word of the vocabulary takes: single words are not counted in blocks."""
SMALLEST_ROOM = 4 << 20
"""Bytes for arrays below which counting out of core would only be slow."""
MEMORY_SHARE = 0.7
"""Part of the memory left that arrays may take: the rest is what the allocator keeps between them."""


def count(tokens: U32, words: int, order: int, *, threads: int = CORES) -> list[Grams]:
    """All n-grams up to `order` of sentences that stand one after the other, each ⟨s⟩ w₁ … ⟨/s⟩, in memory."""
    nothing = np.zeros(0, np.uint32)
    counts = np.bincount(tokens, minlength=words).astype(np.uint32)
    orders = [Grams(np.arange(words, dtype=np.uint32), nothing, nothing, counts)]
    if order == 1:
        return orders
    begins = positions_by_word(tokens, counts)
    ids, spare = tokens, np.empty_like(tokens)
    with ThreadPoolExecutor(threads) as pool:
        for length in range(1, order):
            cuts = pairwise(equal_parts(orders[-1].count, threads).tolist())
            parts = [(begins[member:end], orders[-1].count[group:last]) for (group, member), (last, end) in cuts]
            found = [*pool.map(lambda p: refine(tokens, ids, p[0], p[1], length, BOS, words - 1), parts)]  # noqa: B023
            numbers = [0, *np.cumsum([len(part[0]) for part in found]).tolist()]
            firsts = [part[1] + np.uint32(number) for part, number in zip(found, numbers)]
            first = np.concatenate([*firsts, np.array(numbers[-1:], np.uint32)])
            word, suffix, counts = (np.concatenate([part[i] for part in found]) for i in (0, 2, 3))
            if length + 1 < order:
                groups = [(own[: part[4]], part[3], number) for (own, _), part, number in zip(parts, found, numbers)]
                spare.fill(NOWHERE)
                list(pool.map(lambda g: number_positions(g[0], g[1], g[2], spare), groups))  # noqa: B023
                ids, spare = spare, (np.empty_like(tokens) if ids is tokens else ids)
                begins = np.concatenate([group[0] for group in groups])
            orders.append(Grams(word, first, suffix, counts))
            del found, parts, firsts
    return orders


def memory_needed(tokens: int, words: int, order: int) -> int:
    """Bytes that counting and smoothing in memory take at the most: when no n-gram of two words or more comes twice."""
    return (48 + 16 * (order - 1)) * tokens + 64 * words


def fit(
    text: Path,
    words: int,
    config: NgramConfig,
    file: Path,
    *,
    work: Path,
    memory: int | None = None,
    say: Say = lambda message: None,
) -> Fitted:
    """Make the model of a text: a file of 32-bit ids below `words`, each sentence ⟨s⟩ w … ⟨/s⟩, into the trie `file`.

    `memory` is how many bytes the process may have resident, all it has already included; None: as many as it takes.
    Where the text could need more, it is counted in the folder `work`, where a call that was killed is taken up again
    by repeating it; small notes stay there, and the folder can be deleted when `file` is there. `say` hears of each
    stage.
    """
    if config.smoothing == "given":
        raise UserError("model.smoothing is given: such numbers are read, not counted", cure="choose kneser-ney")
    column = Column(text)
    tokens = len(column)
    if tokens == 0:
        raise UserError("is empty: there is nothing to count", file=text, cure="give a text with at least one line")
    if tokens > MAX_TOKENS:
        raise UserError(f"has {tokens:,} tokens, more than {MAX_TOKENS:,}", file=text, cure="count a part of the text")
    if memory is None or resident() + memory_needed(tokens, words, config.order) <= memory:
        return _fit_in_memory(column, words, config, file)
    return fit_spilled(column, words, config, file, work=work, room=room_within(memory, words), say=say)


def _fit_in_memory(text: Column, words: int, config: NgramConfig, file: Path) -> Fitted:
    tokens = text.read(0, len(text))
    if (largest := int(tokens.max())) >= words:
        raise UserError(f"has the id {largest}, outside the vocabulary of {words:,}", file=text.path)
    orders = count(tokens, words, config.order)
    counted = [len(grams.count) for grams in orders]
    smoother = BlockSmoother(
        HeldWork(orders), counted, config.smoothing, prune=config.prune, k=config.k, room=sys.maxsize
    )
    temporary = temporary_name(file)
    try:
        fitted = smoother.run(temporary)
        temporary.replace(file)
    except OSError as error:
        raise refused_by_system(error, "cannot be written", file=file) from None
    finally:
        temporary.unlink(missing_ok=True)
    sync(file.parent)
    return fitted


def fit_spilled(
    text: Column, words: int, config: NgramConfig, file: Path, *, work: Path, room: int, say: Say = lambda message: None
) -> Fitted:
    """`fit` out of core, with `room` bytes for arrays."""
    plan = {
        "text": digest(text, room),
        "tokens": len(text),
        "words": words,
        "order": config.order,
        "smoothing": config.smoothing,
        "prune": list(config.prune),
        "k": config.k if config.smoothing == "add-k" else None,
    }
    stages = Work(work, plan, say)
    made = work / "trie.safetensors"
    sealed = stages.note("sealed")
    if sealed is not None and not made.exists() and (not file.exists() or read_checksum(file) != sealed["checksum"]):
        say(f"{file} is not what was made in {work}; it is made anew")
        discard(work)
        stages, sealed = Work(work, plan, say), None
    counted = sealed["counted"] if sealed is not None else count_spilled(text, words, config.order, stages, room)
    smoother = BlockSmoother(stages, counted, config.smoothing, prune=config.prune, k=config.k, room=room)
    fitted = smoother.run(made)
    if made.exists():
        publish(made, file)
        for path in (*work.glob("*.bin"), made):  # the trie last: without it, the file counts as published
            path.unlink()
    return fitted


def give_back_what_is_freed() -> None:
    """Let every array of some size have pages of its own, that go back to the system when it is freed.

    GNU's malloc takes blocks up to 32 MB from its heap once it has seen such a block freed, and a heap with one small
    block at its end cannot shrink: half of a memory limit would be lost to holes.
    """
    mallopt = getattr(c_library(), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 1 << 21)  # M_MMAP_THRESHOLD; setting it also keeps it from growing


def rehearse() -> None:
    """Number, count out of core and score a text of one word, so that all the code for it is compiled and loaded."""
    from anaphora.models.ngram.limited import LimitedModel

    configs = NgramConfig(order=3), NgramConfig(order=3, smoothing="add-k")
    with TemporaryDirectory(prefix="anaphora-") as folder:
        tiny = Column(Path(folder) / "text")
        with tiny.append() as out:
            out.write(np.array([BOS, EOS + 1, EOS], np.uint32))
        for place, config in enumerate(configs):
            file, work = Path(folder) / f"trie-{place}", Path(folder) / f"work-{place}"
            fit_spilled(tiny, EOS + 2, config, file, work=work, room=SMALLEST_ROOM)
            for model in (NgramModel(config, read_trie(file)), LimitedModel(config, read_trie(file), memory=0)):
                model.score_flat_orders(np.array([EOS + 1, EOS], np.uint32), np.array([0, 2]))
    WordIds().ids(b"a b")


@cache
def compile_elsewhere() -> None:
    """Have another process compile all that counting runs and leave it in numba's cache: the compiler keeps memory."""
    command = [sys.executable, "-c", "from anaphora.models.ngram.counting import rehearse; rehearse()"]
    paths = os.pathsep.join(path for path in sys.path if path)
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, check=False)


def room_within(memory: int, words: int) -> int:
    """How many bytes arrays may take if the whole process is to stay within `memory`.

    Code takes memory too once it is loaded, so a text of one word is counted first.
    """
    give_back_what_is_freed()
    compile_elsewhere()
    rehearse()
    room, least = int((memory - resident()) * MEMORY_SHARE), SMALLEST_ROOM + WORD_COST * words
    if room < least:
        raise UserError(
            f"a memory limit of {memory / 1e6:,.0f} MB leaves no room to count in: "
            f"the program itself takes {resident() / 1e6:,.0f} MB, its vocabulary {WORD_COST * words / 1e6:,.0f} MB",
            cure=f"allow {(resident() + least / MEMORY_SHARE) / 1e6 + 1:,.0f} MB or more",
        )
    return room
