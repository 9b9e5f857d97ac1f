"""Progress is shown without being asked for: at a terminal, in a notebook, in a file; or not at all."""

from __future__ import annotations

import builtins
import io
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import anaphora
from anaphora.training import bars
from anaphora.training.bars import console_for, live_bar
from anaphora.training.checkpoint import Progress
from anaphora.training.loop import Update
from anaphora.training.reporting import RunReporter


def ngram(folder: Path, text: Path, **how: Any) -> None:
    anaphora.train(folder, text=text, settings={"model.order": 2, "data.hold_out": 5}, **how)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text("the dog sees the cat\n" * 40)
    return file


def test_python_shows_progress_unless_it_is_to_be_silent(
    tmp_path: Path, text: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ngram(tmp_path / "loud", text)
    out, err = capfd.readouterr()
    assert not out and "counting in" in err and "\x1b" not in err  # no terminal: plain lines
    ngram(tmp_path / "silent", text, progress=False)
    assert capfd.readouterr() == ("", "")
    for name in ("progress", "console"):
        screen = io.StringIO()
        ngram(tmp_path / name, text, **{name: Console(file=screen)})
        assert "counting in" in screen.getvalue() and capfd.readouterr() == ("", "")


def test_checking_shows_it_too(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"source": text, "target": tmp_path / "other.txt"}
    files["target"].write_text("der Hund sieht die Katze\n" * 40)
    seen: list[str] = []
    monkeypatch.setattr(RunReporter, "stage", lambda self, name, done, of: seen.append(self.console and name))
    anaphora.check(**files, estimate=False)
    assert "reading" in " ".join(seen)
    seen.clear()
    anaphora.check(**files, estimate=False, progress=False)
    assert set(seen) <= {None}
    own: list[str] = []
    anaphora.check(**files, estimate=False, progress=lambda name, done, of: own.append(name))
    assert own


def test_a_terminal_has_a_bar_and_a_file_none() -> None:
    screen = io.StringIO()
    bar = live_bar(Console(file=screen, force_terminal=True, width=80))
    bar.add_task("training", total=10, completed=3, say="step 3")
    bar.stop()
    assert "step 3" in screen.getvalue()
    assert live_bar(None) is None and live_bar(Console(file=io.StringIO())) is None
    assert console_for(False) is None and console_for(True) is not None


class Cell:
    """What a notebook shows under a cell: its displays, of which those with an id can change."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, *things: Any, display_id: bool = False, **_: Any) -> Any:
        place = len(self.shown)
        for thing in things:
            data = thing.data if hasattr(thing, "data") else thing._repr_mimebundle_((), ())["text/plain"]
            self.shown.append(data)

        class Handle:
            def update(_, thing: Any) -> None:
                self.shown[place] = thing.data

        return Handle() if display_id else None


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """As ipykernel has it: `get_ipython`, and IPython.display without ipywidgets."""
    cell, display = Cell(), types.ModuleType("IPython.display")
    display.display = cell.display  # type: ignore[attr-defined]
    display.HTML = lambda data: types.SimpleNamespace(data=data)  # type: ignore[attr-defined]
    package = types.ModuleType("IPython")
    package.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(bars, "REFRESH_SECONDS", 0.0)
    return cell


def test_a_notebook_has_a_bar_that_changes_in_place(tmp_path: Path, notebook: Cell) -> None:
    import torch

    console = console_for(True)
    assert console is not None and console.is_jupyter
    reporter, progress = RunReporter(tmp_path, console), Progress()
    reporter.stage("reading <b>", 5, 10)
    assert notebook.shown == [
        '<div style="font-family:monospace;white-space:pre">reading &lt;b&gt; '
        '<progress max="10" value="5"></progress> 5 of 10</div>'
    ]
    reporter.start(progress, total=10)
    for step in (1, 2):
        progress.step = step
        reporter.update(Update(step, torch.tensor(2.5), torch.tensor(0.5), 1e-3, tokens=100), progress)
    assert len(notebook.shown) == 2 and notebook.shown[0] == ""
    assert 'max="10" value="2"' in notebook.shown[1] and "2/10  loss 2.500" in notebook.shown[1]
    reporter.message("a line")
    assert notebook.shown[2].strip() == "a line"
    reporter.finish()
    assert notebook.shown[1] == "", "the bar goes, the lines stay"


def test_training_in_a_notebook_leaves_its_lines_there(tmp_path: Path, text: Path, notebook: Cell) -> None:
    ngram(tmp_path / "run", text)
    assert any("counting in" in one for one in notebook.shown)
