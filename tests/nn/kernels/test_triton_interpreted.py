"""The Triton kernels under their interpreter, in one process of their own: Triton asks for it once, when imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anaphora.nn.kernels.triton_support import TRITON

FILES = ("test_additive_triton.py", "test_attentive_triton.py")


@pytest.mark.skipif(not TRITON, reason="triton is not installed (extra: dev)")
def test_the_triton_kernels_under_their_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-v", "-x", "-m", "not gpu", "-p", "no:cacheprovider", "-p", "no:xdist"]
    tests = [str(Path(__file__).with_name(name)) for name in FILES]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *tests], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert all(f"{name}::" in done.stdout for name in FILES)
    assert "SKIPPED" not in done.stdout
