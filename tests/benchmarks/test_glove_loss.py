"""The ruler that both programs are measured with: the loss of finished vectors over the whole table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import glove

from anaphora.models.vectors.cooccurrence import count_cooccurrences


def test_the_loss_is_that_of_the_paper(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    ids = generator.integers(4, 16, 5000).astype(np.uint32)
    words = [f"w{word}" for word in range(12)]
    table = count_cooccurrences(ids, words, tmp_path / "table")
    order = generator.permutation(12)  # the other program has its words in another order
    w, v = generator.normal(size=(2, 12, 5)).astype(np.float32)
    b, c = generator.normal(size=(2, 12)).astype(np.float32)
    total = 0.0
    for i in range(12):
        for j, x in enumerate(table.counts(words[i])):
            a, d = order[i], order[j]
            if x > 0:
                total += 0.5 * min(1, (x / 100) ** 0.75) * (w[a] @ v[d] + b[a] + c[d] - np.log(x)) ** 2
    assert any(x > 100 for x in table.count)
    assert glove.whole_loss(table, order, (w, b, v, c)) == pytest.approx(total / table.entries, rel=1e-5)
