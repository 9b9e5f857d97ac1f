"""Weights on disk: any changed bit is told, the bytes are a function of the tensors, foreign files are read too."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import anaphora
from anaphora.config import read_yaml, write_yaml
from anaphora.errors import UserError
from anaphora.models import settings
from anaphora.models import weights as stored
from anaphora.models.registry import kinds

TENSORS = {"b.table.weight": torch.arange(12.0).reshape(6, 2), "a": torch.ones(2, dtype=torch.bfloat16)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    stored.store_tensors(path, TENSORS)
    return path


@pytest.mark.parametrize("apart", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_every_single_bit_is_told(file: Path, apart: int) -> None:
    """Length, header, checksum, padding and data; every ninth bit in the fast tier."""
    content = file.read_bytes()
    for bit in range(0, 8 * len(content), apart):
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


# What may be anybody's ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_fractions_of_any_precision_are_weights(dtype: torch.dtype, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    weights = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    stored.load_weights(model, weights, file=tmp_path / "model.safetensors")
    assert torch.equal(model.weight, weights["weight"].float())


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64, torch.int64])
def test_other_numbers_are_no_weights(dtype: torch.dtype, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    weights = {**stored.model_weights(model), "weight": torch.ones(2, 3, dtype=dtype)}
    kind = str(dtype).removeprefix("torch.")
    with pytest.raises(UserError, match=rf"model\.safetensors: weight is stored as {kind}, which weights are not"):
        stored.load_weights(model, weights, file=tmp_path / "model.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    weights = {name: tensor.clone() for name, tensor in stored.model_weights(model).items()}
    weights["bias"][1] = value
    with pytest.raises(UserError, match="bias holds nan or infinite numbers"):
        stored.load_weights(model, weights, file=tmp_path / "model.safetensors")
    weights["bias"][:] = 3e38  # their sum is more than a number can say, they are not
    stored.load_weights(model, weights, file=tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    "sizes",
    [
        {"layers": 100_000_000},
        {"dim": 1 << 20},
        {"feed_forward": 1 << 30},
        {"max_length": 1 << 62},
        {"max_length": 1 << 40, "positions": "learned"},
        {"layers": 1 << 40, "dim": 1 << 20, "heads": 1 << 20},
    ],
)
def test_a_config_that_asks_for_a_huge_model_is_refused_at_once(
    sizes: dict[str, object], micro: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(micro, folder, ignore=shutil.ignore_patterns("checkpoints", "data", "logs"))
    document = read_yaml(folder / "config.yaml")
    (folder / "config.yaml").write_text(write_yaml({**document, "model": {**document["model"], **sizes}}))
    began = time.process_time()
    try:
        anaphora.load(folder, "cpu")
    except UserError as error:
        assert str(folder) in str(error) or "cannot be made here" in str(error)
    else:  # waves need no weights, and no more are made than a text asks for
        assert sizes == {"max_length": 1 << 62}
    assert time.process_time() - began < 2


@pytest.mark.parametrize("kind", [*kinds("translation"), *kinds("language")])
def test_no_settings_have_more_layers_than_can_be_listed(kind: str) -> None:
    with pytest.raises(UserError, match="layers is 100,000,000; more than 10,000 layers are not built; choose fewer"):
        settings({"kind": kind, "layers": 100_000_000})
