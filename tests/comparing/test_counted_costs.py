"""The column of operations: what an update of every system is said to cost, against what a counter sees it do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from anaphora.comparing.published import TABLE
from anaphora.comparing.translation_comparison import TranslationTask
from anaphora.data.batches import Batch
from anaphora.models import build, settings
from anaphora.tokenizers.tokenizer import BOS, EOS
from anaphora.training.objectives.objective import TranslationObjective
from grouped_flops import COUNTED

ROWS, SOURCE, TARGET, WORDS = 4, 15, 12, 40
SMALL: dict[str, Any] = {"dim": 16, "layers": 2, "max_length": 64, "dropout": 0.1, "tie": "none"}
OWN: dict[str, dict[str, Any]] = {
    "transformer": {"heads": 2, "feed_forward": 32, "attention": "reference"},
    "bytenet": {},
    "convs2s": {},
}
"""Beside what all have; recurrent ones step by step, with the kernels off that a counter cannot see inside of."""
NEAR = {"moe": 0.06}
"""The noise of its gates, which it has only while it learns, is left out; so large a part only of so small a model."""
SYSTEMS = sorted({*TranslationTask.usual.split(), *(one.kind for one in TABLE)})


def batch() -> Batch:
    """Sentences of one length, so that nothing is padding."""
    numbers = np.random.default_rng(1)
    source = np.concatenate([numbers.integers(4, WORDS, (ROWS, SOURCE - 1)), np.full((ROWS, 1), EOS)], axis=1)
    said = numbers.integers(4, WORDS, (ROWS, TARGET - 1))
    target = np.concatenate([np.full((ROWS, 1), BOS), said, np.full((ROWS, 1), EOS)], axis=1)
    lengths = {"source": np.full(ROWS, SOURCE), "target": np.full(ROWS, TARGET + 1)}
    return Batch(np.arange(ROWS), {"source": source, "target": target}, lengths)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("kind", SYSTEMS)
def test_an_update_of_every_system_costs_what_a_counter_sees(kind: str) -> None:
    """Forward and backward, the loop's 3 × `flops`; the consistency loss reads everything twice."""
    torch.manual_seed(1)
    shape = {"kind": kind, **SMALL, **OWN.get(kind, {"unroll": "steps"})}
    model = build(settings(shape), WORDS, WORDS).train()  # type: ignore[arg-type]
    counted = {}
    for consistency in (0.0, 5.0):
        objective = TranslationObjective(0.1, consistency)
        sent = objective.send(batch(), torch.device("cpu"))
        counting = FlopCounterMode(display=False, custom_mapping=COUNTED)
        with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH), counting as counter:
            objective(model, sent).backward()
        counted[consistency] = counter.get_total_flops()
        assert 3 * objective.flops(model, sent) == pytest.approx(counted[consistency], rel=NEAR.get(kind, 0.03))
    assert counted[5.0] == pytest.approx(2 * counted[0.0], rel=1e-6)
