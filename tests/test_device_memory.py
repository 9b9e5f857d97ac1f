"""Freed memory stays with the process while a CPU learns, and goes back when it is done."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import gc, pathlib, torch
from anaphora.device import keeping_freed_memory
def megabytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
torch.ones(10)
before = megabytes()
with keeping_freed_memory(KIND):
    torch.ones(50_000_000)
    inside = megabytes() - before
after = megabytes() - before
print(round(inside), round(after))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
@pytest.mark.parametrize(("kind", "kept"), [("cpu", True), ("cuda", False)])
def test_freed_memory_stays_until_the_block_ends(kind: str, kept: bool) -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT.replace("KIND", repr(kind))], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    inside, after = map(int, run.stdout.split())
    assert (inside > 150) == kept  # of 200
    assert after < 50
