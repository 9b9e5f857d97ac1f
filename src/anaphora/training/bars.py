"""Where progress is shown: a bar at a terminal, one that changes in place in a notebook, plain lines elsewhere.

Bars at a terminal are rich's. Those of a notebook are a line of HTML under the cell, put in the place of the one before
(rich itself needs ipywidgets for that, which not every notebook has).
"""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING, Any

from anaphora.errors import UserError, shown

if TYPE_CHECKING:
    from rich.console import Console

REFRESH_SECONDS = 0.25
"""Seconds between two looks of a notebook's bar."""


def console_for(progress: bool | Console, console: Console | None = None) -> Console | None:
    """The console that a Python call reports to: its own unless it gets one, none if it is to be silent."""
    from rich.console import Console

    asked = progress if console is None else console
    if isinstance(asked, Console):
        return asked
    if not isinstance(asked, int) or asked not in (0, 1):
        name = "progress" if console is None else "console"
        raise UserError(f"{name} is {shown.repr(asked)}", cure="give True, False or a rich Console")
    return Console(stderr=True, highlight=False) if asked else None


def live_bar(console: Console | None, *, names: int = 0, counts: bool = False) -> Any:
    """A bar that has started, where something can change in place; otherwise none.

    names: how wide the column of tasks' names is. counts: their numbers stand behind it, otherwise what they `say`.
    """
    if console is None or not (console.is_terminal or console.is_jupyter):
        return None
    bar: Any
    if console.is_jupyter:
        bar = NotebookBar()
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        name = TextColumn(f"{{task.description:>{names}}}" if names else "{task.description}")
        behind = MofNCompleteColumn() if counts else TextColumn("{task.fields[say]}")
        bar = Progress(name, BarColumn(bar_width=20), behind, console=console, transient=True)
    bar.start()
    return bar


class NotebookBar:
    """What rich's `Progress` offers, as far as it is used here, in the output of a notebook's cell."""

    def __init__(self) -> None:
        self.tasks: list[dict[str, Any]] = []
        self.handle: Any = None
        self.drawn = 0.0

    def start(self) -> None:
        from IPython.display import HTML, display

        self.handle = display(HTML(""), display_id=True)

    def stop(self) -> None:
        self.tasks = []
        self._draw()

    def add_task(
        self, description: str, total: float | None = None, completed: float = 0, visible: bool = True, **fields: Any
    ) -> int:
        task = {"description": description, "total": total, "completed": completed, "visible": visible}
        self.tasks.append(task | fields)
        self._draw()
        return len(self.tasks) - 1

    def update(self, task: int, **changes: Any) -> None:
        self.tasks[task].update(changes)
        if time.monotonic() - self.drawn >= REFRESH_SECONDS:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML

        self.drawn = time.monotonic()
        if self.handle is not None:
            self.handle.update(HTML("".join(map(_line, self.tasks))))


def _line(task: dict[str, Any]) -> str:
    """A task in HTML; nothing of one that is hidden."""
    if not task["visible"]:
        return ""
    total, completed = task["total"], task["completed"]
    known = f' max="{total}" value="{completed}"' if total else ""
    behind = task.get("say", f"{completed:,}" + (f" of {total:,}" if total else ""))
    return (
        f'<div style="font-family:monospace;white-space:pre">{escape(task["description"])} '
        f"<progress{known}></progress> {escape(behind)}</div>"
    )
