"""Rows as processes: how many at once, what a failure says, and that none outlives its comparison."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from anaphora.comparing.running import Job, run_jobs


class Script(Job):
    """A row that is a few lines of Python instead of `anaphora train`."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", textwrap.dedent(self.arguments[0])]


def script(folder: Path, name: str, code: str) -> Script:
    return Script(name, folder / name, [code], folder / f"{name}.log")


def run(jobs: list[Script], at_once: int) -> tuple[dict[str, int], list[int]]:
    codes: dict[str, int] = {}
    together: list[int] = []
    run_jobs(
        jobs,
        at_once,
        started=lambda job: None,
        ended=lambda job, code: codes.update({job.name: code}),
        looked=lambda running: together.append(len(running)),
    )
    return codes, together


def test_so_many_at_once_and_those_that_were_not_alone_are_marked(tmp_path: Path) -> None:
    quick = [script(tmp_path, f"quick{n}", "import time; time.sleep(0.5)") for n in range(3)]
    codes, together = run(quick, 2)
    assert codes == {"quick0": 0, "quick1": 0, "quick2": 0} and max(together) == 2
    assert quick[0].shared and quick[1].shared
    alone = script(tmp_path, "alone", "")
    run([alone, script(tmp_path, "after", "")], 1)
    assert not alone.shared


def test_rows_that_share_a_machine_share_its_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    jobs = [script(tmp_path, f"row{n}", "import os; print(os.environ.get('OMP_NUM_THREADS'))") for n in range(2)]
    run(jobs, 64)
    assert jobs[0].answer.read_text() == "1\n"
    run(jobs[:1], 1)
    assert jobs[0].answer.read_text() == "None\n"


def test_a_failure_says_why_in_one_sentence(tmp_path: Path) -> None:
    told = script(tmp_path, "told", """print('{"error": "the loss became infinite", "exit_code": 2}'); exit(2)""")
    ours = script(tmp_path, "ours", "raise RuntimeError('a mistake of ours')")
    killed = script(tmp_path, "killed", "import os; os.kill(os.getpid(), 9)")
    codes, _ = run([told, ours, killed], 3)
    assert codes == {"told": 2, "ours": 1, "killed": -9}
    assert told.why(2) == "the loss became infinite"
    assert ours.why(1) == "RuntimeError: a mistake of ours"
    assert "SIGKILL" in killed.why(-9)


def test_an_interrupted_comparison_leaves_the_signals_of_its_process_as_they_were(tmp_path: Path) -> None:
    def mine(number: int, frame: object) -> None: ...

    def interrupted(running: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_jobs(
                [script(tmp_path, "row", "import time; time.sleep(60)")],
                1,
                started=lambda job: None,
                ended=lambda job, code: None,
                looked=interrupted,
            )
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def gone(process: int) -> bool:
    """Within a few seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # dead; who should take note of it is gone itself
            return True
        time.sleep(0.1)
    return False


DRIVER = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so do its children
sys.path.insert(0, {here!r})
from test_running import script, run
folder = Path({folder!r})
patient = '''
import os, signal, time
from pathlib import Path
folder = Path({folder!r})
def save(number, frame):
    (folder / "saved").write_text("once")
    raise SystemExit(130)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
(folder / "pid.part").write_text(str(os.getpid()))
(folder / "pid.part").rename(folder / "pid")
time.sleep(60)
'''
run([script(folder, "row", patient)], 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_an_interrupted_or_killed_comparison_leaves_no_row_running(tmp_path: Path, number: signal.Signals) -> None:
    code = DRIVER.format(here=str(Path(__file__).parent), folder=str(tmp_path))
    driver = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 30
        while not (tmp_path / "pid").exists():
            assert driver.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        row = int((tmp_path / "pid").read_text())
        os.kill(driver.pid, number)
        driver.wait(30)
        assert gone(row)
        assert (tmp_path / "saved").read_text() == "once"
    finally:
        driver.kill()
        driver.wait()
