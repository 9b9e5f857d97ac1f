"""What is counted, and what only looks things up, answers without importing torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

RUN = """
import sys
from anaphora.cli.main import main
model, words, text, mixture = sys.argv[1:5]
for command in (
    ["generate", model, "the", "--samples", "2", "--stop", "xyz"],
    ["generate", model, "the", "--greedy", "--stream"],
    ["score", model, "--text", text],
    ["evaluate", model, "--text", text],
    ["why", model, "the"],
    ["info", model],
    ["generate", model, "the", "--beam", "3"],
    ["generate", mixture, "the", "--samples", "2"],
    ["generate", mixture, "the", "--beam", "3", "--set", "length_penalty=1"],
    ["generate", mixture, "the", "--greedy", "--stream"],
    ["score", mixture, "--text", text],
    ["evaluate", mixture, "--text", text],
    ["why", mixture, "the"],
    ["info", mixture],
    ["neighbours", words, "dog"],
    ["analogy", words, "dog", "cat", "sees"],
    ["info", words],
    ["settings", "--recipe", "lstm"],
    ["settings", "dim"],
):
    sys.argv = ["anaphora", *command, "--json"]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, command
    heavy = {"torch", "pyarrow", "matplotlib", "sacrebleu", "tensorboard"} & set(sys.modules)
    assert not heavy, (command, heavy)
print("without torch")
"""


def test_counting_models_and_vectors_need_no_torch(tmp_path: Path, say: Any) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the dog sees the cat\nthe cat sees the dog\n" * 20)
    assert say("train", tmp_path / "model", "--text", text).code == 0
    short = tmp_path / "short"
    assert say("train", short, "--text", text, "model.order=2").code == 0
    assert say("mix", tmp_path / "mixture", tmp_path / "model", short, "--weights", "0.5,0.5").code == 0
    words = tmp_path / "words.txt"
    words.write_text("dog 1 0 0\ncat 0.9 0.1 0\nsees 0 0 1\nthe 0 1 0\n")
    ended = subprocess.run(
        [sys.executable, "-c", RUN, tmp_path / "model", words, text, tmp_path / "mixture"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.endswith("without torch\n")
