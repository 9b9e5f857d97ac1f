"""Counting: in memory, out of core and by dictionaries is the same; a killed process is taken up again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.models.ngram import columns as ngram_columns
from anaphora.models.ngram import counting as ngram_counting
from anaphora.models.ngram.columns import Column, gather, occurrences
from anaphora.models.ngram.counting import count, fit, fit_spilled
from anaphora.models.ngram.kernels.ngrams import U32
from anaphora.models.ngram.ngram_file import read_trie, write_trie
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel
from anaphora.models.ngram.smoothing import SMOOTHINGS, Grams
from anaphora.models.ngram.spill import Work, count_spilled
from anaphora.tokenizers.tokenizer import BOS, EOS, UNK
from ngram_texts import sentences, tokens_of

DATA = Path(os.environ.get("ANAPHORA_DATA") or Path(__file__).parents[4] / "shared" / "data")
WIKI = DATA / "wiki-en" / "wiki-en.txt.xz"
ROOMS = st.one_of(st.just(1), st.integers(1, 4_000))
"""From a block of one n-gram to one that holds all."""


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """A killed process loses nothing that the system has taken: forcing it onto the disk is for power cuts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def column_of(folder: Path, tokens: U32) -> Column:
    text = Column(folder / "text.ids")
    with text.append() as out:
        out.write(tokens)
    return text


def spilled(folder: Path, tokens: U32, words: int, order: int, room: int) -> list[Grams]:
    """What counting out of core leaves, as arrays."""
    work = Work(folder / "work", {}, lambda stage: None)
    sizes = count_spilled(column_of(folder, tokens), words, order, work, room)
    nothing = np.zeros(0, np.uint32)
    orders = [Grams(np.arange(words, dtype=np.uint32), nothing, nothing, work.grams(1).count.read(0, words))]
    for n in range(2, order + 1):
        columns = work.grams(n)
        orders.append(Grams(*(c.read(0, len(c)) for c in (columns.word, columns.first, columns.suffix, columns.count))))
    assert sizes == [len(grams.count) for grams in orders]
    assert {path.name for path in (folder / "work").glob("*.bin")} <= {
        f"{name}-{n}.bin" for name in ("word", "first", "suffix", "count") for n in range(1, order + 1)
    }, "what was only needed for a while is gone"
    return orders


def as_dictionaries(orders: list[Grams]) -> list[dict[tuple[int, ...], int]]:
    """Each n-gram spelled out, with its count; checks on the way that suffixes are right and children sorted."""
    names: list[list[tuple[int, ...]]] = [[(word,) for word in range(len(orders[0].count))]]
    for grams in orders[1:]:
        names.append([])
        for context, name in enumerate(names[-2]):
            children = grams.word[grams.first[context] : grams.first[context + 1]].tolist()
            assert children == sorted(set(children))
            names[-1] += [(*name, word) for word in children]
        assert [names[-2][suffix] for suffix in grams.suffix] == [name[1:] for name in names[-1]]
    return [dict(zip(name, grams.count.tolist(), strict=True)) for name, grams in zip(names, orders)]


@given(texts=sentences(), order=st.integers(1, 5), room=ROOMS)
def test_in_memory_out_of_core_and_by_dictionaries(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[int]], order: int, room: int
) -> None:
    tokens, words = tokens_of(texts), UNK + 7
    orders = count(tokens, words, order, threads=1)
    for n, found in enumerate(as_dictionaries(orders), start=1):
        rows = [(BOS, *text, EOS) for text in texts]
        expected = Counter(row[i : i + n] for row in rows for i in range(len(row) - n + 1))
        assert {gram: times for gram, times in found.items() if times} == expected
        assert n == 1 or 0 not in found.values()
    out_of_core = spilled(tmp_path_factory.mktemp("spill"), tokens, words, order, room)
    in_threads = count(tokens, words, order, threads=3)
    for one, other in zip([*orders, *orders], [*out_of_core, *in_threads], strict=True):
        for name in ("word", "first", "suffix", "count"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)


SETTINGS = st.sampled_from([name for name in SMOOTHINGS if name != "given"])
PRUNES = st.sampled_from([[], [0], [0, 1], [0, 0, 1], [0, 0, 1, 3]])


@given(texts=sentences(), order=st.integers(1, 5), room=ROOMS, smoothing=SETTINGS, prune=PRUNES)
def test_both_ways_give_one_file(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[list[int]],
    order: int,
    room: int,
    smoothing: str,
    prune: list[int],
) -> None:
    folder = tmp_path_factory.mktemp("fit")
    config = NgramConfig(order=order, smoothing=smoothing, prune=prune[:order], k=0.25)  # type: ignore[arg-type]
    text = column_of(folder, tokens_of(texts))
    plain = fit(text.path, UNK + 7, config, folder / "plain", work=folder / "unused")
    assert not (folder / "unused").exists()
    model, estimates = NgramModel.from_counts(config, count(tokens_of(texts), UNK + 7, order))
    write_trie(folder / "reference", model.trie)
    assert (folder / "plain").read_bytes() == (folder / "reference").read_bytes()
    assert plain.sizes == model.sizes()
    assert plain.discounts == [found.discounts for found in estimates]
    assert plain.fell_back == [found.fell_back for found in estimates]
    blocks = fit_spilled(text, UNK + 7, config, folder / "blocks", work=folder / "work", room=room)
    assert plain == blocks
    assert (folder / "plain").read_bytes() == (folder / "blocks").read_bytes()
    assert len(read_trie(folder / "plain").limits) == order


@pytest.mark.parametrize("sentence", [[], [4], [4] * 9])
def test_a_vocabulary_of_one_word(tmp_path: Path, sentence: list[int]) -> None:
    tokens = tokens_of([sentence] * 3)
    for n, (one, other) in enumerate(zip(count(tokens, 5, 5), spilled(tmp_path, tokens, 5, 5, 1)), start=1):
        np.testing.assert_array_equal(one.count, other.count)
        if n > 1:
            assert int(one.count.sum()) == 3 * max(len(sentence) + 3 - n, 0)


# -- killed ------------------------------------------------------------------------------------------------------------

TEXT = tokens_of([[4, 5, 4, 6], [], [4, 5, 4, 5, 7], [6, 6, 6]])
STAGES = ["count-1", "count-2", "count-3", "smooth-1", "smooth-2", "smooth-3", "sealed"]
CONFIG = NgramConfig(order=3)


def in_a_child(work: object) -> int:
    """Call it in a process of its own; the signal that ended that one, or 0."""
    child = os.fork()
    if child == 0:
        try:
            work()  # type: ignore[operator]
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_killed_between_stages(tmp_path: Path) -> None:
    text = column_of(tmp_path, TEXT)
    fit_spilled(text, 8, CONFIG, tmp_path / "whole", work=tmp_path / "whole-work", room=500)
    for place, last in enumerate(STAGES):

        def die(stage: str, last: str = last) -> None:
            if stage == last:
                os.kill(os.getpid(), signal.SIGKILL)

        file, work = tmp_path / f"trie-{place}", tmp_path / f"work-{place}"
        killed = in_a_child(lambda: fit_spilled(text, 8, CONFIG, file, work=work, room=500, say=die))  # noqa: B023
        assert killed == -signal.SIGKILL and not file.exists()
        said: list[str] = []
        fit_spilled(text, 8, CONFIG, file, work=work, room=900, say=said.append)
        assert said == STAGES[place + 1 :], "finished stages are not repeated"
        assert file.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("last", [STAGES[1], STAGES[2], STAGES[-2], STAGES[-1]])
def test_what_was_damaged_meanwhile_is_not_gone_on_from(tmp_path: Path, last: str) -> None:
    text = column_of(tmp_path, TEXT)
    fit_spilled(text, 8, CONFIG, tmp_path / "whole", work=tmp_path / "whole-work", room=500)

    def die(stage: str) -> None:
        if stage == last:
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(lambda: fit_spilled(text, 8, CONFIG, tmp_path / "x", work=tmp_path / "left", room=500, say=die))
    left = [path for path in sorted((tmp_path / "left").iterdir()) if path.stat().st_size and path.name != "plan.json"]
    assert len(left) > 4
    temporary = ("answers", "adjusted", "lower")  # made anew anyway
    for damaged in left:
        work = Path(shutil.copytree(tmp_path / "left", tmp_path / f"work-{damaged.name}"))
        content = bytearray(damaged.read_bytes())
        middle = len(content) // 2 if damaged.suffix != ".safetensors" else len(content) - 60  # a word, not a blank
        content[middle] ^= 2
        (work / damaged.name).write_bytes(content)
        said: list[str] = []
        fit_spilled(text, 8, CONFIG, tmp_path / damaged.name, work=work, room=900, say=said.append)
        assert (tmp_path / damaged.name).read_bytes() == (tmp_path / "whole").read_bytes(), damaged.name
        if not damaged.name.startswith(temporary):
            assert said[0] == f"{work / damaged.name} is damaged: what was counted is discarded, and counted anew"
            assert said[1:] == STAGES


@pytest.mark.parametrize("apart", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_in_the_middle_of_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: int) -> None:
    """Every write, or every fourth, is the last one, and cut in half; then once more, killed in the second call too."""
    text = column_of(tmp_path, TEXT)
    whole = fit_spilled(text, 8, CONFIG, tmp_path / "whole", work=tmp_path / "whole-work", room=2_000)
    pwrite = os.pwrite
    left = 0

    def write(handle: int, content: memoryview, at: int) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            pwrite(handle, content[: len(content) // 2], at)
            os.kill(os.getpid(), signal.SIGKILL)
        return pwrite(handle, content, at)

    monkeypatch.setattr(ngram_columns.os, "pwrite", write)
    last = 1
    while True:
        file, work = tmp_path / f"trie-{last}", tmp_path / f"work-{last}"

        def attempt(file: Path = file, work: Path = work) -> None:
            fit_spilled(text, 8, CONFIG, file, work=work, room=2_000)

        left = last
        if in_a_child(attempt) == 0:
            break
        left = max(last // 2, 1)
        in_a_child(attempt)
        left = 0
        assert fit_spilled(text, 8, CONFIG, file, work=work, room=2_000) == whole
        assert file.read_bytes() == (tmp_path / "whole").read_bytes()
        last += apart
    assert last > 40


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    text, said = column_of(tmp_path, TEXT), []
    first = fit_spilled(text, 8, CONFIG, tmp_path / "trie", work=tmp_path / "work", room=500)
    content = (tmp_path / "trie").read_bytes()
    assert fit_spilled(text, 8, CONFIG, tmp_path / "trie", work=tmp_path / "work", room=500, say=said.append) == first
    assert said == []
    assert not [*(tmp_path / "work").glob("*.bin")], "only notes stay"
    (tmp_path / "trie").unlink()
    fit_spilled(text, 8, CONFIG, tmp_path / "trie", work=tmp_path / "work", room=500, say=said.append)
    assert "made anew" in said[0] and said[1:] == STAGES
    assert (tmp_path / "trie").read_bytes() == content


@pytest.mark.parametrize(
    ("tokens", "config", "changed"),
    [
        (TEXT[::-1].copy(), CONFIG, "text"),
        (TEXT, NgramConfig(order=2), "order"),
        (TEXT, NgramConfig(order=3, prune=[0, 1]), "prune"),
        (TEXT, NgramConfig(order=3, smoothing="add-k"), "k, smoothing"),
    ],
)
def test_a_folder_of_something_else_is_begun_anew(
    tmp_path: Path, tokens: U32, config: NgramConfig, changed: str
) -> None:
    work = tmp_path / "work"

    def stop(stage: str) -> None:
        if stage == "smooth-2":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fit_spilled(column_of(tmp_path, TEXT), 8, CONFIG, tmp_path / "trie", work=work, room=500, say=stop)
    tokens = tokens if changed != "text" else tokens_of([[4, 4, 4, 7], [], [4, 5, 4, 5, 7], [6, 6, 6]])
    said: list[str] = []
    text = column_of(tmp_path, tokens)
    fit_spilled(text, 8, config, tmp_path / "trie", work=work, room=500, say=said.append)
    assert said[0] == f"{work} was begun for something else ({changed}); it is begun anew"
    assert said[1] == "count-1"
    fit_spilled(text, 8, config, tmp_path / "fresh", work=tmp_path / "fresh-work", room=500)
    assert (tmp_path / "trie").read_bytes() == (tmp_path / "fresh").read_bytes()


def test_killed_while_a_folder_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the notes are gone: the folder must not pass for what it was."""
    text, work = column_of(tmp_path, TEXT), tmp_path / "work"
    fit_spilled(text, 8, CONFIG, tmp_path / "whole", work=tmp_path / "whole-work", room=500)

    def stop(stage: str) -> None:
        if stage == "smooth-2":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fit_spilled(text, 8, CONFIG, tmp_path / "trie", work=work, room=500, say=stop)
    unlink, left = Path.unlink, [5]

    def die(path: Path, missing_ok: bool = False) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        unlink(path, missing_ok)

    def attempt() -> None:
        monkeypatch.setattr(Path, "unlink", die)
        fit_spilled(text, 8, NgramConfig(order=2), tmp_path / "other", work=work, room=500)

    assert in_a_child(attempt) == -signal.SIGKILL
    said: list[str] = []
    fit_spilled(text, 8, CONFIG, tmp_path / "trie", work=work, room=500, say=said.append)
    assert said[1:] == STAGES
    assert (tmp_path / "trie").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "thesis.txt").write_text("three years")
    with pytest.raises(UserError, match=r"holds other files; choose an empty folder to count in"):
        fit_spilled(column_of(tmp_path, TEXT), 8, CONFIG, tmp_path / "trie", work=work, room=500)
    assert [path.name for path in work.iterdir()] == ["thesis.txt"]


# -- limits ------------------------------------------------------------------------------------------------------------


def test_texts_that_cannot_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="is empty: there is nothing to count; give a text"):
        fit(column_of(tmp_path, TEXT[:0]).path, 8, CONFIG, tmp_path / "trie", work=tmp_path / "work")
    with pytest.raises(UserError, match="has the id 7, outside the vocabulary of 7"):
        fit_spilled(column_of(tmp_path, TEXT), 7, CONFIG, tmp_path / "trie", work=tmp_path / "work", room=500)
    with pytest.raises(UserError, match="has the id 7, outside the vocabulary of 7"):
        fit(column_of(tmp_path, TEXT).path, 7, CONFIG, tmp_path / "trie", work=tmp_path / "work")
    with pytest.raises(UserError, match=r"model\.smoothing is given: such numbers are read, not counted"):
        given_config = NgramConfig(order=3, smoothing="given")
        fit(column_of(tmp_path, TEXT).path, 8, given_config, tmp_path / "trie", work=tmp_path / "work")
    monkeypatch.setattr(ngram_counting, "MAX_TOKENS", 10)
    with pytest.raises(UserError, match="has 20 tokens, more than 10; count a part"):
        fit(column_of(tmp_path, TEXT).path, 8, CONFIG, tmp_path / "trie", work=tmp_path / "work")


def test_a_limit_that_the_program_alone_passes(tmp_path: Path) -> None:
    text = column_of(tmp_path, TEXT)
    with pytest.raises(UserError, match=r"a memory limit of 1 MB leaves no room.*; allow [\d,]+ MB or more"):
        fit(text.path, 8, CONFIG, tmp_path / "trie", work=tmp_path / "work", memory=1_000_000)


@given(st.lists(st.integers(0, 9), min_size=1), st.integers(1, 200))
def test_looking_up_in_parts(tmp_path_factory: pytest.TempPathFactory, index: list[int], room: int) -> None:
    folder = tmp_path_factory.mktemp("columns")
    source, places, out = Column(folder / "a", np.float64), Column(folder / "b"), Column(folder / "c", np.float64)
    with source.append() as file:
        file.write(np.arange(10) / 4)
    with places.append() as file:
        file.write(np.array(index, np.uint32))
    gather(source, places, out, room)
    assert out.read(0, len(out)).tolist() == [i / 4 for i in index]
    parts = [*occurrences(places, 10, room)]
    assert [begin for begin, _ in parts] == np.cumsum([0, *(len(part) for _, part in parts)])[:-1].tolist()
    assert np.concatenate([part for _, part in parts]).tolist() == [index.count(i) for i in range(10)]


# -- resident memory: in a process of its own --------------------------------------------------------------------------

MEASURED = """
import json, sys, time
from pathlib import Path
from anaphora.models.ngram.ngram_model import NgramConfig
from anaphora.models.ngram.counting import fit
folder, words, order, memory = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
begin, said = time.perf_counter(), []
fit(folder / "text.ids", words, NgramConfig(order=order), folder / f"trie-{memory}", work=folder / "work",
    memory=memory or None, say=said.append)
status = Path("/proc/self/status").read_text()  # ru_maxrss also knows what the parent had
peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024
print(json.dumps({"peak": peak, "seconds": time.perf_counter() - begin, "torch": "torch" in sys.modules, "said": said}))
"""


def measured(folder: Path, words: int, order: int, memory: int) -> dict[str, Any]:
    command = [sys.executable, "-c", MEASURED, str(folder), str(words), str(order), str(memory)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is measured as Linux does it")
def test_resident_memory_stays_within_the_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    words = rng.zipf(1.2, (15_000, 50)) % 30_000 + 4
    tokens = np.pad(words, ((0, 0), (1, 1))).astype(np.uint32)
    tokens[:, 0], tokens[:, -1] = BOS, EOS
    column_of(tmp_path, tokens.reshape(-1))
    limit = 190_000_000
    free = measured(tmp_path, 30_004, 5, 0)
    tight = measured(tmp_path, 30_004, 5, limit)
    assert not free["torch"] and not tight["torch"]
    assert free["said"] == [] and tight["said"][-1] == "sealed"
    assert tight["peak"] < limit < free["peak"], (tight, free)
    assert (tmp_path / f"trie-{limit}").read_bytes() == (tmp_path / "trie-0").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not WIKI.exists(), reason=f"needs {WIKI}")
def test_a_large_text_in_a_quarter_of_the_memory(tmp_path: Path) -> None:
    import lzma

    from anaphora.data.word_ids import WordIds

    vocabulary = WordIds()
    with lzma.open(WIKI) as stream, Column(tmp_path / "text.ids").append() as out:
        for ids in vocabulary.read(stream):
            out.write(ids)
    words = vocabulary.words + UNK + 1
    free = measured(tmp_path, words, 5, 0)
    limit = free["peak"] // 4
    tight = measured(tmp_path, words, 5, limit)
    print(f"in memory {free['peak']:,} bytes in {free['seconds']:.1f} s; limit {limit:,}: ", end="")
    print(f"{tight['peak']:,} bytes in {tight['seconds']:.1f} s, {tight['seconds'] / free['seconds']:.2f} times that")
    assert tight["peak"] < limit
    assert (tmp_path / f"trie-{limit}").read_bytes() == (tmp_path / "trie-0").read_bytes()
