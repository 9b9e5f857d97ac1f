"""Whether a prepared corpus is still what it was made from, and if not, what changed, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anaphora.errors import UserError, option


class CorpusChanged(UserError):
    """The text, or how it is to be prepared, is no longer what the prepared corpus was made from."""

    def __init__(self, changed: list[str], folder: Path) -> None:
        self.changed = changed
        super().__init__(
            f"{' and '.join(changed)} changed since this corpus was prepared",
            file=folder,
            cure=f"start a new run, put back what it was, or add {option('force', True)} to take it as it is now",
        )


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is no longer as it was, in words."""
    spoken = {"version": "the format of prepared corpora", "tokenizer": "the tokenizer", "labels": "the labels"}
    changed = []
    for key in now:
        if now[key] == before.get(key):
            continue
        if key in ("text", "valid_text"):
            old, new, which = before.get(key) or {}, now[key] or {}, "" if key == "text" else "validation "
            changed += [
                f"the {which}text" if side == "text" else f"the {which}{side} text"
                for side in {**old, **new}
                if old.get(side) != new.get(side)
            ]
        else:
            changed.append(spoken.get(key, f"data.{key}"))
    return changed
