"""On a GPU an ensemble says what it says on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from test_ensemble import MEMBERS, VOCABULARY

from anaphora.decoding.beam_search import search
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.translate import pad
from anaphora.models.composites.ensemble import Ensemble
from anaphora.tokenizers.tokenizer import EOS

pytestmark = pytest.mark.gpu


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("config", [DecodingConfig(beam=4, n_best=2), DecodingConfig(sample=True, n_best=6)])
def test_equals_the_cpu(config: DecodingConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in (torch.backends.cuda.matmul, torch.backends.cudnn):  # the CPU has no TF32
        monkeypatch.setattr(library, "allow_tf32", False)
    names = ["transformer", "seq2seq", "bahdanau"]

    def other_words(ids: list[int]) -> list[int]:
        return [4 + (id + 1) % (VOCABULARY - 4) for id in ids]

    here = Ensemble([MEMBERS[name] for name in names], readings=[None, None, other_words])
    there = Ensemble([copy.deepcopy(MEMBERS[name]).cuda() for name in names], readings=[None, None, other_words])
    source, lengths = pad([[*range(4, 4 + size), EOS] for size in (3, 7, 1, 5)], "cpu")
    expected = search(here, source, lengths, config)
    found = search(there, source.cuda(), lengths.cuda(), config)
    for ours, theirs in zip(found, expected):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-3)
