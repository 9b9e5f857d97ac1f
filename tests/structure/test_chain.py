"""From `anaphora train` to the loss: docs/architecture.md names every file on the way, and there are few."""

from __future__ import annotations

import re
from pathlib import Path

from structure.chain import chain

MOST_FILES = 17
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_the_way_to_the_loss_is_as_it_is_written_down(tmp_path: Path) -> None:
    for side, words in (("source", "a b"), ("target", "x y")):
        (tmp_path / side).write_text("".join(f"{words} {n}\n" for n in range(40)), encoding="utf-8")
    small = {"dim": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "feed_forward": 8}
    settings = [f"model.{name}={size}" for name, size in small.items()]
    settings += ["training.max_steps=1", "training.batch_tokens=64", "decoding.beam=1"]
    files = [word for side in ("source", "target") for word in (f"--{side}", str(tmp_path / side))]
    found = chain(["train", str(tmp_path / "run"), *files, "--device", "cpu", "--quiet", *settings])
    written = PAGE.read_text(encoding="utf-8").partition("<!-- chain -->")[2].partition("<!-- end of chain -->")[0]
    assert re.findall(r"`([\w/]+\.py)`", written) == found
    assert len(found) <= MOST_FILES, found
