"""From `anaphora train` to the number that is the loss: the files that a reader goes through, found by tracing a run.

The chain is all files of the package that stand on the stack when one of its stages begins, by its most direct call:
the settings are typed, the folder is locked, the corpus is prepared, the tokenizer is trained, a batch is cut, an
update is made, the loss is computed, the model gives its logits. What stages call besides (errors, configs, layers) is
no part of the way, nor are the decorators that check the arguments of every public function (arguments/).
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from structure.counters import SOURCE

STAGES = {
    ("tasks/base.py", "section"),
    ("tasks/run_session.py", "working_in"),
    ("data/preparation.py", "prepare"),
    ("tokenizers/tokenizer.py", "train"),
    ("data/batches.py", "_make"),
    ("training/loop.py", "update"),
    ("training/objectives/objective.py", "__call__"),
    ("models/translation/encoder_decoder.py", "forward"),
}


def chain(words: list[str]) -> list[str]:
    """The files on the way of one command, in the order in which they are reached."""
    from anaphora.cli.main import main

    ways: dict[tuple[str, str], list[str]] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(str(SOURCE)):
            return
        stage = _file(frame), frame.f_code.co_name
        if stage in STAGES:
            files = list(dict.fromkeys(_stack(frame)))
            ways[stage] = min(ways.get(stage, files), files, key=len)

    before, sys.argv = sys.argv, ["anaphora", *words]
    sys.setprofile(look)
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
    finally:
        sys.setprofile(None)
        sys.argv = before
    assert set(ways) == STAGES, STAGES - set(ways)
    return list(dict.fromkeys(file for way in ways.values() for file in way))


def _stack(frame: FrameType | None) -> list[str]:
    """The package's files that called this one, the first one first."""
    files: list[str] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(str(SOURCE)) and not _file(frame).startswith("arguments/"):
            files.append(_file(frame))
        frame = frame.f_back
    return files[::-1]


def _file(frame: FrameType) -> str:
    return str(Path(frame.f_code.co_filename).relative_to(SOURCE))
