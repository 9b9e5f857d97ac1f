"""Recorded graphs and memory: shapes that come later need none of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from anaphora.training.graphs import GraphedLearning

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
LAYERS, WIDTH, ROWS = 32, 1024, 16_384
NEEDED = 2 * LAYERS * WIDTH * ROWS * 4  # an update keeps two tensors of 64 MB for each layer: 4 GB


@dataclass
class Numbers:
    x: Tensor  # (rows, WIDTH)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH, device="cuda"))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(LAYERS):
            x = (x * self.scale).sin()
        return x.mean()


@pytest.fixture
def a_full_card() -> Iterator[Tensor]:
    """All memory is taken, but for one update and most of another."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    yield torch.empty(max(1, free - 7 * NEEDED // 4), dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()


@pytest.mark.usefixtures("a_full_card")
def test_a_later_shape_fits_beside_a_recorded_one() -> None:
    model = Deep()
    told: list[str] = []

    def learn(batch: Numbers, tokens: Tensor) -> Tensor:
        loss = model(batch.x) / tokens
        loss.backward()
        return loss.detach()

    graphed = GraphedLearning(learn, model.parameters(), torch.device("cuda"), told.append)
    torch.manual_seed(1)
    small, large = (Numbers(torch.randn(rows, WIDTH, device="cuda")) for rows in (ROWS - 1024, ROWS))
    found = [float(graphed(batch, 1)) for batch in (large, large, small, large, small)]
    assert not told
    assert len(graphed.recordings) == 2
    assert graphed.held > NEEDED / 2
    assert found[0] == pytest.approx(found[1])
    assert found[1] == found[3]
    assert found[2] == found[4]
    summed = model.scale.grad.clone()  # type: ignore[union-attr]
    model.scale.grad.zero_()  # type: ignore[union-attr]
    del graphed
    torch.cuda.empty_cache()
    for batch in (large, large, small, large, small):
        learn(batch, torch.ones((), device="cuda"))
    torch.testing.assert_close(summed, model.scale.grad)
