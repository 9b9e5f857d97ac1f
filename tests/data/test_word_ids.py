"""Words to ids by compiled code: as `bytes.split` and a dictionary have it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.data import word_ids
from anaphora.data.word_ids import WordIds
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, EOS, UNK

BYTES = st.text(st.sampled_from("aab  \t\n\r\v\f\u00a0é\x1c"), max_size=60).map(str.encode)


def reference(text: bytes, known: dict[bytes, int], *, grow: bool, framed: bool = True) -> list[int]:
    lines = text.split(b"\n")
    if lines[-1] == b"":  # the last line ended with a newline
        lines.pop()
    found = []
    for line in lines:
        words = [known.setdefault(word, len(known) + 4) if grow else known.get(word, UNK) for word in line.split()]
        found += [*([BOS] if framed else []), *words, EOS]
    return found


@given(st.lists(BYTES, max_size=4))
def test_words_are_numbered_as_they_come(texts: list[bytes]) -> None:
    vocabulary, known = WordIds(), {}
    for text in texts:
        assert vocabulary.ids(text).tolist() == reference(text, known, grow=True)
    assert [word.encode() for word in vocabulary.spelled(np.arange(vocabulary.words))] == list(known)
    assert vocabulary.words == len(known)


@given(BYTES, st.integers(1, 7))
def test_blocks_end_between_lines(text: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_ids, "BLOCK_BYTES", block)
        found = [*WordIds().read(BytesIO(text))]
    assert np.concatenate([np.zeros(0), *found]).tolist() == reference(text, {}, grow=True)


@given(st.lists(BYTES.map(lambda text: text.replace(b"\n", b" ").decode()), max_size=6), st.booleans())
def test_lines_against_a_complete_vocabulary(lines: list[str], framed: bool) -> None:
    known = {"a": 7, "ab": 4, "é": 900}
    vocabulary = WordIds(known)
    found, starts = vocabulary.ids_of_lines(lines, framed=framed)
    encoded = {word.encode(): number for word, number in known.items()}
    text = "".join(f"{line}\n" for line in lines).encode()
    assert found.tolist() == reference(text, encoded, grow=False, framed=framed)
    assert len(starts) == len(lines) + 1 and starts[-1] == len(found)
    for line, begin, end in zip(lines, starts, starts[1:]):
        assert found[begin:end].tolist() == reference(f"{line}\n".encode(), encoded, grow=False, framed=framed)
    assert vocabulary.words == 3, "a complete vocabulary does not grow"


def test_an_empty_vocabulary_knows_nothing() -> None:
    assert WordIds({}).ids(b"a b\n").tolist() == [BOS, UNK, UNK, EOS]


def test_the_tables_grow(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in rng.integers(0, 200_000, 300_000)]
    lines = [" ".join(words[place : place + 1000]) for place in range(0, len(words), 1000)]
    text = "\n".join([*lines, "x" * 700_000, " ".join(words)]).encode()  # a long word, a line of very many
    (tmp_path / "text").write_bytes(text)
    known: dict[bytes, int] = {}
    vocabulary = WordIds()
    found = np.concatenate([*vocabulary.read(tmp_path / "text")])
    assert found.tolist() == reference(text, known, grow=True)
    assert [*vocabulary.spelled(np.arange(vocabulary.words))] == [word.decode() for word in known]
    again = WordIds({word.decode(): number for word, number in known.items()})
    np.testing.assert_array_equal(again.ids(text), found)


def test_words_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """In tables of two slots everything collides sooner or later; here the bytes decide, all words having one hash."""
    monkeypatch.setattr(word_ids, "_scan", word_ids._scan.py_func)
    monkeypatch.setattr(word_ids, "_hash", lambda text, begin, end: np.uint64(5))
    text = b"ab ba ab c\nba abc ab\n"
    assert WordIds().ids(text).tolist() == reference(text, {}, grow=True)


@pytest.mark.parametrize("odd", ["", "New York", "a\n", " a", "c\t", "\n"])
def test_a_word_with_white_space_is_no_word(odd: str) -> None:
    with pytest.raises(UserError, match="of the vocabulary contains white space or is empty"):
        WordIds({"a": 4, odd: 5, "b": 6})
    with pytest.raises(UserError, match="of the vocabulary contains white space or is empty"):
        WordIds({"": 4, "a b": 5})
