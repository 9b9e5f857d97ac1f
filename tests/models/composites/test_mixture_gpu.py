"""A mixture whose parts live on different devices says what it says on one."""

from __future__ import annotations

import pytest
import torch

from anaphora.decoding.beam_search import DecodingConfig
from anaphora.decoding.generation import generate
from anaphora.models.composites.mixture import Mixture
from neural_rungs import CAUSAL
from ngram_texts import fitted

TEXTS = [[4, 5, 6], [4, 5, 7], [6, 6, 6, 6], [5, 4, 8, 9, 4, 5]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("first", [0, 1])
def test_counted_on_the_cpu_neural_on_a_gpu(first: int) -> None:
    def mixed(device: str) -> Mixture:
        parts = [fitted(TEXTS, 12, order=3), CAUSAL["transformer-decoder learned"]().to(device)]
        return Mixture(parts[::-1] if first else parts, [0.4, 0.6])

    here, there = mixed("cpu"), mixed("cuda")
    assert torch.device(there.device).type == "cuda"
    ids, lengths = torch.tensor([[4, 5, 6], [8, 2, 0]]), torch.tensor([3, 2])
    expected = here.score(ids, lengths)
    torch.testing.assert_close(there.score(ids.cuda(), lengths.cuda()).cpu(), expected, atol=1e-3, rtol=1e-3)
    config = DecodingConfig(beam=3, sample=False)
    for one, other in zip(*(generate(model, [[4], [5, 4]], config, tokens=6) for model in (here, there))):
        assert one[0].tokens == other[0].tokens
