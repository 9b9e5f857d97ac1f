"""What a command answers, without what differs from one moment or machine to the next."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

PASSING = {
    "seconds", "lines_per_second", "tokens_per_second", "words_per_second", "device", "created", "toolkit_version",
    "peak_memory", "memory", "trained_on", "flops_per_second", "version", "cost", "revision",
}  # fmt: skip
"""Keys whose values belong to a moment, a machine or a release."""


def ask(words: Sequence[str]) -> dict[str, Any]:
    """`anaphora WORDS… --json`, in this process, from the working directory: its exit code and its answer."""
    from anaphora.cli.main import main

    before = sys.argv, sys.stdout, sys.stderr
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        sys.argv, sys.stdout, sys.stderr = ["anaphora", *words, "--json"], out, err
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        finally:
            sys.argv, sys.stdout, sys.stderr = before
        for file in (out, err):
            file.seek(0)
        return {"exit": code, "answer": answer(out.read()) if code == 0 else err.read()}


def answer(stdout: str) -> Any:
    return lasting(json.loads(stdout.splitlines()[-1]))


def lasting(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: lasting(value) for key, value in document.items() if key not in PASSING}
    return [lasting(value) for value in document] if isinstance(document, list) else document


def differences(found: Any, expected: Any, *, at: str = "", within: float = 1e-5) -> list[str]:
    """Where an answer is another one: keys may be added, none is lost, numbers are as near as float32 leaves them."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lost = [f"{at}.{key} is gone" for key in expected if key not in found]
        both = [key for key in expected if key in found]
        return lost + [
            line for key in both for line in differences(found[key], expected[key], at=f"{at}.{key}", within=within)
        ]
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return [f"{at} has {len(found)} entries, not {len(expected)}"]
        return [
            line
            for place, (one, other) in enumerate(zip(found, expected))
            for line in differences(one, other, at=f"{at}[{place}]", within=within)
        ]
    if isinstance(expected, float) and isinstance(found, int | float):
        near = math.isclose(found, expected, rel_tol=within, abs_tol=within)
        return [] if near or (math.isnan(found) and math.isnan(expected)) else [f"{at} is {found}, not {expected}"]
    return [] if found == expected else [f"{at} is {found!r}, not {expected!r}"]
