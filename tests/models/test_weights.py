"""Weights on disk: any changed bit is told, the bytes are a function of the tensors, foreign files are read too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from anaphora.errors import UserError
from anaphora.models import weights as stored

TENSORS = {"b.table.weight": torch.arange(12.0).reshape(6, 2), "a": torch.ones(2, dtype=torch.bfloat16)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    stored.store_tensors(path, TENSORS)
    return path


def test_every_single_bit_is_told(file: Path) -> None:
    """Length, header, checksum, padding and data."""
    content = file.read_bytes()
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        with pytest.raises(UserError, match=r"(is damaged|cannot be read).*; restore the file"):
            stored.read_weights(file)
    for length in range(len(content)):
        file.write_bytes(content[:length])
        with pytest.raises(UserError):
            stored.read_weights(file)


def test_the_bytes_are_a_function_of_the_tensors(file: Path, tmp_path: Path) -> None:
    """Written again and again, in one way or the other; the library alone orders the header's entries at random."""
    content = file.read_bytes()
    for number in range(8):
        stored.store_tensors(tmp_path / f"{number}", dict(reversed(TENSORS.items())))
        assert (tmp_path / f"{number}").read_bytes() == content
        stored.write_weights(file, TENSORS)
        assert file.read_bytes() == content


def test_any_tool_reads_it_and_files_of_any_tool_are_read(file: Path, tmp_path: Path) -> None:
    for read in (load_file(file), stored.read_weights(file), stored.read_weights(file, verify=False)):
        assert read.keys() == TENSORS.keys()
        assert all(torch.equal(read[name], tensor) for name, tensor in TENSORS.items())
    for metadata in (None, {"format": "pt"}, {"made by": "another", "tool": "{}"}):
        save_file(TENSORS, tmp_path / "foreign", metadata)
        assert torch.equal(stored.read_weights(tmp_path / "foreign")["a"], TENSORS["a"])


def test_a_flipped_number_goes_unnoticed_only_where_that_is_asked_for(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert stored.read_weights(file, verify=False).keys() == TENSORS.keys()
    with pytest.raises(UserError, match="no longer has the checksum it was written with"):
        stored.read_weights(file)
