"""The verdicts of the benchmark of word vectors: what is gathered from several commands, and what misses a limit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import embeddings


def run(tool: str, seed: int, seconds: float, quality: float, **more: Any) -> dict[str, Any]:
    figures = {"seconds": seconds, "cpu": 2 * seconds, "peak": 1e8}
    tests = {"WordSim-353": quality, "SimLex-999": quality, "analogies": quality}
    return {"tool": tool, "algorithm": "cbow", "dim": 100, "seed": seed, **figures, **tests, **more}


def printed(folder: Path, name: str, *runs: dict[str, Any], **more: Any) -> Path:
    about = {"commit": "c", "machine": "m", "words": 1000, "epochs": 5, "threads": 2, "rate": None, **more}
    (folder / name).write_text("a table\n" + json.dumps({**about, "runs": list(runs)}) + "\n")
    return folder / name


def judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *files: Path) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["embeddings.py", "--gather", *map(str, files)])
    embeddings.MISSED.clear()
    with pytest.raises(SystemExit) as ended:
        embeddings.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


def test_several_commands_make_one_table(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    gensim = [run("gensim, file", seed, 30, quality) for seed, quality in ((1, 0.50), (2, 0.54))]
    slower = run("gensim, iterable", 1, 90, 0.9)  # better, but not the faster mode
    first = printed(tmp_path, "1.txt", run("anaphora", 1, 9, 0.49), gensim[0], slower)
    second = printed(tmp_path, "2.txt", run("anaphora", 2, 11, 0.49), gensim[1], run("fastText", 2, 40, 0.1))
    code, out = judged(monkeypatch, capsys, first, second)
    assert code == 0 and "speed: 3.00 x gensim, file (limit 2.5 x)" in out and "4.00 x fastText" in out
    part = json.loads(out.splitlines()[-1])["parts"][0]
    assert part["peer"] == "gensim, file" and part["ratio"] == pytest.approx(3.0)
    assert part["quality"]["analogies"]["spread"] == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("seconds", "quality", "missed"),
    [(10, 0.479, ["WordSim-353", "SimLex-999", "analogies"]), (13, 0.5, ["speed"]), (10, 0.481, [])],
)
def test_what_misses(
    monkeypatch: Any, capsys: Any, tmp_path: Path, seconds: float, quality: float, missed: list[str]
) -> None:
    gensim = [run("gensim, file", seed, 30, 0.50 + 0.04 * (seed - 1)) for seed in (1, 2)]
    code, out = judged(monkeypatch, capsys, printed(tmp_path, "1.txt", run("anaphora", 1, seconds, quality), *gensim))
    assert code == bool(missed)
    assert out.splitlines()[-2] == f"missed: {', '.join(f'cbow 100 {name}' for name in missed) or 'nothing'}"


def test_one_seed_of_gensim_decides_nothing_about_quality(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    both = run("anaphora", 1, 10, 0.1), run("gensim, file", 1, 30, 0.5)
    code, out = judged(monkeypatch, capsys, printed(tmp_path, "1.txt", *both))
    assert code == 0 and out.count("so no verdict") == 3


def test_runs_of_other_settings_are_refused(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    files = [printed(tmp_path, "1.txt"), printed(tmp_path, "2.txt", threads=1), printed(tmp_path, "3.txt")]
    (tmp_path / "3.txt").write_text("cut off\n")
    for other, message in ((files[1], "threads is 1, and 2 in"), (files[2], "its last line is not")):
        monkeypatch.setattr(sys, "argv", ["embeddings.py", "--gather", str(files[0]), str(other)])
        with pytest.raises(SystemExit, match=message):
            embeddings.main()
