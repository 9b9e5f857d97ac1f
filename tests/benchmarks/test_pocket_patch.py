"""Without its skateboard sense, a sick goes on otherwise; and nothing else moves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import pocket_patch


@pytest.mark.slow
def test_removing_the_skateboard_sense_flips_the_continuation(tmp_path: Path) -> None:
    model = pocket_patch.learn(tmp_path / "model", steps=2000, seed=1)
    lines = (tmp_path / "pocket" / "test.en").read_text(encoding="utf-8").splitlines()
    told = pocket_patch.tell(model, tmp_path / "ill.json", 1, lines)
    for row in told["prompts"]:
        before, after = row["cool_share"]
        assert before > 0.5 > after, row
        assert row["likeliest"][0] != row["likeliest"][1]
    assert told["side_effect"]["without the word"]["moved"] == 0
    assert told["side_effect"]["all"]["moved"] > 0
    assert abs(told["side_effect"]["all"]["perplexity_change"]) < 0.01
