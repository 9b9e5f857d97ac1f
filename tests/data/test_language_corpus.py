"""Text to one long file of ids: framed as asked, the same however it is stored, and found again."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import signal
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.data import holding_out, language_corpus
from anaphora.data import lines as lines_module
from anaphora.data.changes import CorpusChanged
from anaphora.data.data_settings import DataConfig
from anaphora.data.formats import read_blocks, read_column
from anaphora.data.holding_out import draw_places
from anaphora.data.labels import label_prints
from anaphora.data.language_corpus import frame, prepare_text
from anaphora.data.prepared_text import PreparedText
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BLANKS, BOS, EOS, UNK, Tokenizer, TokenizerConfig

WORDS = TokenizerConfig(kind="word", split="blanks", fallback="unk")
LINE = st.text(st.sampled_from(list("aabc  \t\r\v\f\u00a0\u2028é⟨s⟩")), max_size=12)
LINES = ["the dog sees the cat", "", "the cat", "  ", "the dog\tsleeps , the cat sleeps .", "Straße über Straße"]


def prepared(folder: Path, lines: list[str], tokenizer: TokenizerConfig = WORDS, **data: object) -> PreparedText:
    (folder / "text.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return prepare_text(folder / "data", DataConfig(text=[str(folder / "text.txt")], **data), tokenizer)  # type: ignore[arg-type]


def ids_of(text: PreparedText) -> list[int]:
    return np.fromfile(text.train, np.uint32).tolist()


def valid_of(text: PreparedText) -> list[int]:
    return [id for ids, _ in text.valid_parts(1000) for id in ids.tolist()]


def expected(lines: list[str], tokenizer: Tokenizer, boundaries: str, blank_lines: str) -> list[int]:
    kept = [line for line in lines if blank_lines == "keep" or line.strip(BLANKS)]
    if boundaries == "stream":
        return [BOS, *(id for line in kept for id in (*tokenizer.encode(line), EOS))]
    return [id for line in kept for id in (BOS, *tokenizer.encode(line), EOS)]


# -- what the ids are --------------------------------------------------------------------------------------------------


@given(
    st.lists(LINE, max_size=8),
    st.sampled_from(["lines", "stream"]),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from([WORDS, TokenizerConfig(kind="character"), TokenizerConfig(kind="byte")]),
)
def test_each_line_is_what_the_tokeniser_makes_of_it(
    lines: list[str], boundaries: str, blank_lines: str, config: TokenizerConfig
) -> None:
    lines = [*(line.rstrip("\r") for line in lines), "a"]  # a return at a line's end belongs to the line end
    with TemporaryDirectory() as folder:
        found = prepared(Path(folder), lines, config, boundaries=boundaries, blank_lines=blank_lines)
        tokenizer = Tokenizer.load(Path(folder) / "data" / "tokenizer.json")
        ids = ids_of(found)
    assert ids == expected(lines, tokenizer, boundaries, blank_lines)
    train = found.manifest["train"]
    assert train["tokens"] == sum(id != BOS for id in ids)
    assert train["lines"] == sum(id == EOS for id in ids)
    assert train["lines"] + train["dropped_lines"] == len(lines)
    assert train["unknown_tokens"] == 0
    assert found.manifest["vocabulary"] == len(tokenizer)
    assert found.manifest["vocabulary_fingerprint"] == tokenizer.vocabulary_fingerprint()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "byte", "word"])
def test_every_kind_of_token(tmp_path: Path, kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocabulary=290 if kind in ("bpe", "unigram") else None)  # type: ignore[arg-type]
    found = prepared(tmp_path, LINES * 30, config)
    tokenizer = Tokenizer.load(tmp_path / "data" / "tokenizer.json")
    assert tokenizer.kind == kind
    ids = ids_of(found)
    ends = [place for place, id in enumerate(ids) if id == EOS]
    begins = [0, *(end + 1 for end in ends[:-1])]
    assert [tokenizer.decode(ids[begin:end]) for begin, end in zip(begins, ends)] == LINES * 30


def test_the_words_are_those_that_the_tokeniser_would_learn(tmp_path: Path) -> None:
    lines = [*LINES, "b a b", "a"]
    tried = ({}, {"vocabulary": 9}, {"minimum_count": 2}, {"unknown": "the"}, {"unknown": "absent"})
    for number, limits in enumerate(tried):
        config = TokenizerConfig(kind="word", split="blanks", fallback="unk", **limits)  # type: ignore[arg-type]
        (tmp_path / str(number)).mkdir()
        found = prepared(tmp_path / str(number), lines, config)
        learned = Tokenizer.train(config, lines)
        assert (found.folder / "tokenizer.json").read_text() == learned.to_json()
        assert ids_of(found) == expected(lines, learned, "lines", "keep")
        assert found.manifest["train"]["unknown_tokens"] == ids_of(found).count(UNK)


def test_a_text_of_one_long_line_teaches_its_characters(tmp_path: Path) -> None:
    found = prepared(tmp_path, ["abc" * 5_000], TokenizerConfig(kind="character", fallback="unk"))
    assert found.manifest["train"]["unknown_tokens"] == 0
    assert found.manifest["vocabulary"] == 4 + 3


def test_a_given_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("<s>\n</s>\ncat\nthe\n")
    config = TokenizerConfig(kind="word", split="blanks", fallback="unk", words=str(tmp_path / "words"))
    found = prepared(tmp_path, ["the dog", "cat <s>"], config)
    assert ids_of(found) == [BOS, 5, UNK, EOS, BOS, 4, UNK, EOS]
    assert found.manifest["train"]["unknown_tokens"] == 2
    assert found.manifest["vocabulary"] == 6
    (tmp_path / "words").write_text("<s>\n</s>\ncat\n")
    with pytest.raises(CorpusChanged, match="the tokenizer changed"):
        prepared(tmp_path, ["the dog", "cat <s>"], config)


@given(st.lists(st.sampled_from(["UNK", "the", "dog", "cat"]), unique=True, min_size=2), st.lists(LINE, max_size=4))
def test_a_word_that_stands_for_unknown_ones_is_none(vocabulary: list[str], lines: list[str]) -> None:
    """Whether a given vocabulary names it or not."""
    lines = [*(line.rstrip("\r") for line in lines), "the UNK dog"]
    with TemporaryDirectory() as folder:
        (Path(folder) / "words").write_text("".join(f"{word}\n" for word in ("<s>", "</s>", *vocabulary)))
        config = TokenizerConfig(
            kind="word", split="blanks", fallback="unk", unknown="UNK", words=str(Path(folder) / "words")
        )
        found = prepared(Path(folder), lines, config)
        tokenizer = Tokenizer.load(Path(folder) / "data" / "tokenizer.json")
        learned = Tokenizer.train(config, lines)
        ids = ids_of(found)
    assert tokenizer.to_json() == learned.to_json()
    assert tokenizer.encode("UNK") == [UNK] and len(tokenizer) == 4 + len({*vocabulary} - {"UNK"})
    assert ids == expected(lines, learned, "lines", "keep") and ids[-3] == UNK


@given(st.lists(st.lists(st.integers(4, 9), max_size=4), max_size=5), st.booleans())
def test_framing(rows: list[list[int]], framed: bool) -> None:
    starts = np.cumsum([0, *map(len, rows)])
    flat = np.array([id for row in rows for id in row], np.uint32)
    assert frame(flat, starts, framed=framed).tolist() == [i for row in rows for i in (*[BOS][:framed], *row, EOS)]


def test_validation_text_is_measured_with_the_words_of_the_training_text(tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_bytes("the whale\r\n\r\n  sleeps é\r\n".encode())
    found = prepared(tmp_path, LINES, valid_text=[str(tmp_path / "valid.txt")])
    tokenizer = Tokenizer.load(tmp_path / "data" / "tokenizer.json")
    the, sleeps = tokenizer.encode("the sleeps")
    assert valid_of(found) == [the, UNK, EOS, EOS, sleeps, UNK, EOS]
    valid = found.manifest["valid"]
    assert (valid["lines"], valid["tokens"], valid["unknown_tokens"]) == (3, 7, 2)
    assert valid["bytes"] == len("the whale\n\n  sleeps é\n".encode())
    assert found.manifest["tidied"] == {"crlf": 3}


@pytest.mark.parametrize("config", [WORDS, TokenizerConfig(kind="character", fallback="unk")], ids=lambda c: c.kind)
def test_lines_held_out_teach_nothing(tmp_path: Path, config: TokenizerConfig) -> None:
    lines = [f"{chr(0x4E00 + number)} is here" for number in range(200)]
    found = prepared(tmp_path, lines, config, hold_out=10)
    train, valid = found.manifest["train"], found.manifest["valid"]
    assert (valid["lines"], train["held_out_lines"], train["lines"]) == (10, 10, 190)
    assert valid["unknown_tokens"] == 10, "what stands there alone is not in the vocabulary"
    assert train["unknown_tokens"] == 0 and ids_of(found).count(EOS) == 190
    too_many = DataConfig(text=[str(tmp_path / "text.txt")], hold_out=101)
    with pytest.raises(UserError, match="only 200 lines"):
        prepare_text(tmp_path / "other", too_many, WORDS)


@given(
    st.lists(st.sampled_from(["the dog", "the cat", "", " ", "a dog", "a"]), min_size=2, max_size=40),
    st.data(),
    st.sampled_from(["lines", "stream"]),
    st.sampled_from(["keep", "drop"]),
    st.integers(1, 30),
)
def test_what_is_held_out_and_what_is_counted_are_the_text(
    lines: list[str], data: st.DataObject, boundaries: str, blank_lines: str, block: int
) -> None:
    """Exactly as many lines as asked for, in their order, even if many are the same (of a stream the last ones); the
    rest is counted."""
    lines = [*lines, *["x y"] * len(lines)]
    kept = [line for line in lines if blank_lines == "keep" or line.strip()]
    number, seed = data.draw(st.integers(1, len(kept) // 2)), data.draw(st.integers(-3, 3))
    places = set(draw_places(len(kept), number, seed).tolist())
    if boundaries == "stream":
        places = set(range(len(kept) - number, len(kept)))
    rest = [line for place, line in enumerate(kept) if place not in places]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        say = {"hold_out": number, "seed": seed, "boundaries": boundaries, "blank_lines": blank_lines}
        if not any(line.strip() for line in rest):
            with pytest.raises(UserError, match=rf"with {number} lines held out no text is left but \d+ blank lines"):
                prepared(Path(folder), lines, **say)
            return
        found = prepared(Path(folder), lines, **say)
        tokenizer = Tokenizer.load(Path(folder) / "data" / "tokenizer.json")
        ids, valid = ids_of(found), valid_of(found)
    assert ids == expected(rest, tokenizer, boundaries, "keep")
    assert valid == expected([kept[place] for place in sorted(places)], tokenizer, "stream", "keep")[1:]
    said = found.manifest["train"], found.manifest["valid"]
    assert [part["lines"] for part in said] == [len(rest), number] and said[0]["held_out_lines"] == number
    assert sum(part["bytes"] for part in said) == sum(len(line) + 1 for line in kept)


@given(st.integers(1, 300), st.integers(0, 300), st.integers(), st.integers(1, 50))
def test_drawing_places(lines: int, number: int, seed: int, at_once: int) -> None:
    number = min(number, lines)
    with pytest.MonkeyPatch.context() as patch:
        whole = draw_places(lines, number, seed).tolist()
        patch.setattr(holding_out, "DRAWN_AT_ONCE", at_once)
        assert draw_places(lines, number, seed).tolist() == whole
    assert whole == sorted(set(whole)) and len(whole) == number
    assert not whole or 0 <= whole[0] <= whole[-1] < lines


def test_every_place_is_drawn_as_often() -> None:
    times = Counter(place for seed in range(2000) for place in draw_places(10, 3, seed).tolist())
    assert all(abs(times[place] - 600) < 5 * (2000 * 0.3 * 0.7) ** 0.5 for place in range(10))


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 12))
def test_the_validation_text_in_parts(lengths: list[int], tokens: int) -> None:
    with TemporaryDirectory() as folder:
        text = PreparedText(Path(folder), {}, reused=False)
        whole = [id for length in lengths for id in (*[7] * length, EOS)]
        np.array(whole, np.uint32).tofile(Path(folder) / "valid.ids")
        parts = [*text.valid_parts(tokens)]
        assert [id for ids, _ in parts for id in ids.tolist()] == whole
        found = [length for _, starts in parts for length in np.diff(starts).tolist()]
        assert found == [length + 1 for length in lengths]
        assert all(starts[0] == 0 and starts[-1] == len(ids) for ids, starts in parts)
        assert all(len(ids) <= max(tokens, 2 * max(lengths) + 2) for ids, _ in parts)
        np.array([*whole, 7], np.uint32).tofile(Path(folder) / "valid.ids")
        with pytest.raises(UserError, match=r"valid\.ids ends in the middle of a line"):
            [*text.valid_parts(tokens)]


@pytest.mark.parametrize("kind", ["word", "character", "byte", "bpe", "unigram"])
@pytest.mark.parametrize("hold_out", [None, 2])
def test_what_is_odd_is_counted_once(tmp_path: Path, kind: str, hold_out: int | None) -> None:
    (tmp_path / "text.txt").write_bytes(b"the dog sees the cat\r\n" * 6)
    tokenizer = WORDS if kind == "word" else TokenizerConfig(kind=kind)  # type: ignore[arg-type]
    data = DataConfig(text=[str(tmp_path / "text.txt")], hold_out=hold_out)
    assert prepare_text(tmp_path / "data", data, tokenizer).manifest["tidied"] == {"crlf": 6}


# -- however it is stored ----------------------------------------------------------------------------------------------


@given(
    st.lists(st.text(st.sampled_from(list("ab \t\r\v\x0c\x1c\x85\u2028\ufeffé")), max_size=6), max_size=6),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
)
def test_blocks_are_the_lines(lines: list[str], bom: bool, ended: bool, block: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        file = Path(folder) / "text"
        file.write_bytes(b"\xef\xbb\xbf" * bom + "\n".join(lines).encode() + b"\n" * ended)
        by_line, by_block = Counter[str](), Counter[str]()
        read = list(read_column([str(file)], "text", by_line))
        blocks = b"".join(read_blocks([str(file)], "text", by_block))
    assert blocks.decode() == "".join(f"{line}\n" for line in read)
    assert +by_line == +by_block


def test_every_format_gives_the_same_ids(tmp_path: Path) -> None:
    text = "".join(f"{line}\n" for line in LINES).encode()
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text))
    (tmp_path / "c.txt.xz").write_bytes(lzma.compress(text))
    with pa.output_stream(str(tmp_path / "d.txt.zst"), compression="zstd") as stream:
        stream.write(text)
    plain = [line.replace("\t", " ") for line in LINES]  # a tab parts columns
    (tmp_path / "e.tsv").write_text("".join(f"{line}\tother\n" for line in plain))
    (tmp_path / "f.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    parquet.write_table(pa.table({"text": LINES}), tmp_path / "g.parquet")
    found, prints = set(), set()
    for file in sorted(tmp_path.iterdir()):
        made = prepare_text(tmp_path / f"data-{file.name}", DataConfig(text=[str(file)]), WORDS)
        found.add(tuple(ids_of(made)))
        prints.add(made.manifest["settings"]["text"]["text"])
    assert len(found) == 1
    assert len(prints) == 2, "only the table without tabs is another text"


# -- what cannot be counted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is no text here; give a text with at least one word"),
        (b"\n\n\n", "there is no text here but 3 blank lines"),
        (b"good\ncaf\xe9 line\n", ":2: byte 4 of this line (0xE9) is not UTF-8"),
        (b"good\nfine\nb\0d\n", ":3: character 2 of this line is NUL"),
    ],
)
@pytest.mark.parametrize("config", [WORDS, TokenizerConfig(kind="byte"), TokenizerConfig(kind="character")])
def test_text_that_is_none(tmp_path: Path, content: bytes, message: str, config: TokenizerConfig) -> None:
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(UserError) as error:
        prepare_text(tmp_path / "data", DataConfig(text=[str(tmp_path / "text")]), config)
    assert str(error.value).startswith(str(tmp_path / "text"))
    assert message in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_what_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give text='FILE'"):
        prepare_text(tmp_path / "data", DataConfig(), WORDS)
    with pytest.raises(UserError, match=r"leave out data\.hold_out"):
        prepare_text(tmp_path / "data", DataConfig(text=["a"], valid_text=["b"], hold_out=3), WORDS)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is a pipe"):
        prepare_text(tmp_path / "data", DataConfig(text=[str(tmp_path / "pipe")]), WORDS)
    with pytest.raises(ValueError, match="plain text or from pairs"):
        DataConfig(text=["a"], source=["b"])
    with pytest.raises(ValueError, match="of another kind"):
        DataConfig(text=["a"], valid_source=["b"])


# -- found again -------------------------------------------------------------------------------------------------------


def test_the_same_text_is_prepared_once(tmp_path: Path) -> None:
    assert not prepared(tmp_path, LINES).reused
    assert prepared(tmp_path, LINES).reused
    (tmp_path / "again.txt").write_bytes((tmp_path / "text.txt").read_bytes())
    assert prepare_text(tmp_path / "data", DataConfig(text=[str(tmp_path / "again.txt")]), WORDS).reused
    with pytest.raises(CorpusChanged, match="the text changed since this corpus was prepared"):
        prepared(tmp_path, [*LINES, "more"])
    with pytest.raises(CorpusChanged, match=r"data\.boundaries changed"):
        prepared(tmp_path, LINES, boundaries="stream")
    with pytest.raises(CorpusChanged, match="the tokenizer changed"):
        prepared(tmp_path, LINES, TokenizerConfig(kind="byte"))
    data = DataConfig(text=[str(tmp_path / "text.txt")], blank_lines="drop")
    assert not prepare_text(tmp_path / "data", data, WORDS, on_change="rebuild").reused
    assert prepare_text(tmp_path / "data", data, WORDS).reused
    (tmp_path / "data" / "train.ids").write_bytes(b"1234")
    assert not prepare_text(tmp_path / "data", data, WORDS).reused, "what is not whole is made anew"
    data = DataConfig(text=[str(tmp_path / "text.txt")], valid_text=[str(tmp_path / "again.txt")])
    prepare_text(tmp_path / "data", data, WORDS, on_change="rebuild")
    assert prepare_text(tmp_path / "data", data, WORDS).reused
    (tmp_path / "data" / "valid.ids").write_bytes(b"1234")
    assert not prepare_text(tmp_path / "data", data, WORDS).reused


def test_killed_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ids_of(prepared(tmp_path, LINES))
    (tmp_path / "data").rename(tmp_path / "whole")
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(language_corpus, "write_json", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        prepared(tmp_path, LINES)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not (tmp_path / "data").exists()
    assert ids_of(prepared(tmp_path, LINES)) == whole


@pytest.mark.parametrize("name", ["text", "valid_text", "labels", "valid_labels", "tokenizer.words"])
@pytest.mark.timeout(20)
def test_what_may_never_end_is_refused_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.txt").write_text("a b\nb a\n")
    os.mkfifo(tmp_path / "pipe")  # whoever opened it would wait for a writer
    for endless in ("/dev/zero", str(tmp_path / "pipe")):
        files = {side: [str(tmp_path / "text.txt")] for side in ("text", "valid_text", "labels", "valid_labels")}
        words = endless if name == "tokenizer.words" else None
        if words is None:
            files[name] = [endless]
        tokenizer = TokenizerConfig(kind="word", split="blanks", words=words)
        with pytest.raises(UserError, match=f"{endless}: is a pipe or a device; write it into a file first"):
            prepare_text(tmp_path / "data", DataConfig(**files), tokenizer)  # type: ignore[arg-type]


def test_the_fingerprint_of_labels_is_that_of_their_lines(tmp_path: Path) -> None:
    """As earlier versions wrote it."""
    (tmp_path / "labels.txt").write_text("a\n\nb\n")
    found = label_prints(DataConfig(text=["t"], labels=[str(tmp_path / "labels.txt")]))
    assert found == {"labels": hashlib.sha256(b"a\n\nb").hexdigest()}
