"""A trie's file: what was written is read, other tools read it too, and damage is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.models.ngram.kernels.ngrams import Trie
from anaphora.models.ngram.ngram_file import read_checksum, read_trie, write_trie
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.tokenizers.tokenizer import BOS, UNK
from ngram_texts import fitted, sentences

TEXTS = [[4, 5, 4, 6], [], [4, 5, 4, 5, 7], [6, 6, 6]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_trie(tmp_path / "model.safetensors", fitted(TEXTS, 8, order=3).trie)
    return tmp_path / "model.safetensors"


@given(texts=sentences(), order=st.integers(1, 5))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[list[int]], order: int) -> None:
    file = tmp_path_factory.mktemp("trie") / "trie"
    trie = fitted(texts, UNK + 7, order=order).trie
    write_trie(file, trie)
    found = read_trie(file)
    for name in Trie._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(trie, name), strict=True)
    assert [path.name for path in file.parent.iterdir()] == ["trie"]
    content = file.read_bytes()
    write_trie(file, trie)
    assert file.read_bytes() == content


def test_other_tools_read_it(file: Path) -> None:
    from safetensors.numpy import load_file

    from anaphora.models.weights import read_weights

    trie = fitted(TEXTS, 8, order=3).trie
    theirs, ours = load_file(file), read_weights(file)  # the latter makes sure of the checksum
    assert theirs.keys() == ours.keys() == set(Trie._fields)
    for name in Trie._fields:
        np.testing.assert_array_equal(theirs[name], getattr(trie, name), strict=True)


def test_nothing_is_read_before_it_is_needed(file: Path) -> None:
    trie = read_trie(file, verify=False)
    for name in ("word", "first", "link", "log_probability", "log_weight"):
        array = getattr(trie, name)
        assert isinstance(array.base, np.memmap) and not array.flags.writeable
        assert array.ctypes.data % array.itemsize == 0


def test_a_mapped_model_scores_as_one_in_memory(file: Path) -> None:
    model = fitted(TEXTS, 8, order=3)
    rows = [np.array([4, 5, 4, 2], np.uint32), np.array([7, 3, 6, 6, 2], np.uint32)]
    mapped = NgramModel(model.config, read_trie(file))
    for one, other in zip(model.score_rows(rows)[0], mapped.score_rows(rows)[0], strict=True):
        np.testing.assert_array_equal(one, other)
    begin = torch.tensor([BOS])
    np.testing.assert_array_equal(model.step(begin, model.start(1))[0], mapped.step(begin, mapped.start(1))[0])


def test_every_damaged_byte_is_noticed(file: Path) -> None:
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(UserError, match=r"is damaged: its content|cannot be read as an n-gram model"):
            read_trie(file)


@pytest.mark.parametrize("length", [0, 5, 8, 100, -1])
def test_a_file_cut_short(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(UserError, match=r"cannot be read as an n-gram model \(.*\); restore the file from a copy"):
        read_trie(file, verify=False)


def test_files_of_something_else(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"weight": np.zeros(3, np.float32)}, tmp_path / "other")
    with pytest.raises(UserError, match="it does not hold limits, word, first"):
        read_trie(tmp_path / "other")
    arrays = fitted(TEXTS, 8, order=3).trie._asdict()
    save_file({**arrays, "limits": arrays["limits"] + 1}, tmp_path / "odd")
    with pytest.raises(UserError, match="its arrays do not fit each other"):
        read_trie(tmp_path / "odd")
    save_file({**arrays, "word": arrays["word"].astype(np.int64)}, tmp_path / "wide")
    with pytest.raises(UserError, match="word is not where its header says"):
        read_trie(tmp_path / "wide")
    with pytest.raises(UserError, match="cannot be read as an n-gram model"):
        read_trie(tmp_path / "nothing")


def test_a_file_without_a_checksum_is_taken_as_it_is(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    trie = fitted(TEXTS, 8, order=3).trie
    save_file(trie._asdict(), tmp_path / "plain")
    np.testing.assert_array_equal(read_trie(tmp_path / "plain").link, trie.link)
    assert read_checksum(tmp_path / "plain") is None


def test_the_checksum_of_the_header(file: Path) -> None:
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert read_checksum(file) == header["__metadata__"]["sha256"] != "sha256:" + "0" * 64
