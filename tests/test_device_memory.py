"""Freed memory stays with the process while a CPU learns, and goes back when it is done."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
