"""Freed memory stays with the process while a CPU learns, and goes back when it is done."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.device import choose_device
from anaphora.errors import UserError

SCRIPT = """
import pathlib
from anaphora.device import keeping_freed_memory
def megabytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
before = megabytes()
with keeping_freed_memory(KIND):
    bytearray(b"x") * 200_000_000
    inside = megabytes() - before
after = megabytes() - before
bytearray(b"x") * 200_000_000
print(round(inside), round(after), round(megabytes() - before))
"""
USUAL = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
@pytest.mark.parametrize(
    ("kind", "environment", "kept"),
    [("cpu", {}, True), ("cuda", {}, False), ("cpu", {"MALLOC_MMAP_MAX_": "65536"}, False)],  # who chose has chosen
)
def test_freed_memory_stays_until_the_block_ends(kind: str, environment: dict[str, str], kept: bool) -> None:
    script = SCRIPT.replace("KIND", repr(kind))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**USUAL, **environment})
    assert run.returncode == 0, run.stderr
    inside, after, later = map(int, run.stdout.split())
    assert (inside > 150) == kept  # of 200
    assert after < 50
    assert later < 50  # as before the block, what is freed goes back at once


@pytest.mark.parametrize(("name", "meant"), [("gpu", "cuda"), ("GPU:0", "cuda"), ("nvidia", "cuda"), ("cude", "cuda")])
def test_a_graphics_card_by_another_name_is_cuda(name: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"unknown device {name!r}; did you mean {meant!r}"):
        choose_device(name)


@pytest.mark.parametrize(
    ("device", "cure"),
    [(5, "write device='cuda:5' for a graphics card"), (None, "write device='cuda', or 'cpu', or leave it out"),
     (True, "write device='cuda'"), (-1, "write device='cuda'"), (["cpu"], "write device='cuda'")],
)  # fmt: skip
def test_a_device_is_known_by_its_name(device: Any, cure: str, micro: Path, tmp_path: Path) -> None:
    said = re.escape(f"a device is given by its name, not by {device!r}; {cure}")
    with pytest.raises(UserError, match=said):
        anaphora.load(micro, device=device)
    (tmp_path / "a.txt").write_text("a b\n" * 9)
    with pytest.raises(UserError, match=said):
        anaphora.train(tmp_path / "run", text=tmp_path / "a.txt", device=device, progress=False)
    assert not (tmp_path / "run").exists()


def test_a_device_of_torch_is_taken() -> None:
    assert choose_device(torch.device("cpu")) == torch.device("cpu")
