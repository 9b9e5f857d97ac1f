"""Whether Triton's kernels can be had here: asked without importing Triton."""

from __future__ import annotations

import importlib.util
import os

import torch

TRITON = importlib.util.find_spec("triton") is not None
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton's interpreter runs the kernels on a CPU, slowly: for tests."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""What the Triton kernels take; they compute in float32 throughout."""
