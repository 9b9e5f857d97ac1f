"""What an n-gram model says by its own way (counted.py) is what the one search says of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anaphora.decoding import counted, prompted
from anaphora.decoding.generation import _searcher
from anaphora.decoding.hypothesis import Hypothesis
from anaphora.decoding.sampling import noise_keys, uniform
from anaphora.decoding.settings import DecodingConfig
from anaphora.models.ngram.model import NgramModel
from anaphora.text.tokenizer import BOS, EOS, UNK
from ngram_texts import fitted

PROMPTS = [[BOS], [BOS, 5], [BOS, 6, 7], [BOS, 5, EOS, 9], [BOS, 8]]
SETTINGS: dict[str, dict[str, object]] = {
    "plain": {},
    "hot": {"temperature": 1.7},
    "cold": {"temperature": 0.4},
    "top-k": {"top_k": 3},
    "top-p": {"top_p": 0.7},
    "min-p": {"min_p": 0.2},
    "epsilon": {"epsilon": 0.05},
    "everything": {"temperature": 1.3, "top_p": 0.9, "min_p": 0.02, "min_length": 3},
    "no repeats": {"no_repeat_ngram": 2},
    "no word twice": {"no_repeat_ngram": 1},
    "penalty": {"repetition_penalty": 1.5},
    "late end": {"min_length": 8},
    "unknown": {"unknown": True},
    "greedy": {"sample": False, "beam": 1, "length_penalty": 0.0},
    "greedy, penalty": {"sample": False, "beam": 1, "length_penalty": 0.0, "repetition_penalty": 2.0},
    "greedy, no repeats": {"sample": False, "beam": 1, "length_penalty": 0.0, "no_repeat_ngram": 2, "min_length": 4},
}


@pytest.fixture(scope="module", params=["kneser-ney", "stupid-backoff", "maximum-likelihood"])
def model(request: pytest.FixtureRequest) -> NgramModel:
    """Of random lines over 20 words, some more frequent than others; no two words equally probable, for which of them
    comes first is not laid down."""
    draws = np.random.default_rng(3)
    weights = 1.0 / np.arange(1, 21)
    words = [draws.choice(20, size=draws.integers(1, 9), p=weights / weights.sum()) for _ in range(200)]
    texts = [(UNK + 1 + row).tolist() for row in words]
    found = fitted(texts, UNK + 21, order=3, smoothing=request.param)
    parted = found.trie.log_probability + draws.uniform(0, 1e-3, len(found.trie.log_probability)).astype(np.float32)
    return NgramModel(found.config, found.trie._replace(log_probability=parted))


def beside(model: NgramModel, config: DecodingConfig, lines: int) -> list[tuple[Hypothesis, Hypothesis]]:
    ids = [place << 24 | 3 for place in range(len(PROMPTS))]
    found = [
        way.search_prompts(model, PROMPTS, config, sentence_ids=ids, lines=lines)  # type: ignore[attr-defined]
        for way in (counted, prompted)
    ]
    return [(ours, theirs) for (ours,), (theirs,) in zip(*found)]


@pytest.mark.parametrize("lines", [1, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_it_says_what_the_search_says(name: str, lines: int, model: NgramModel) -> None:
    for seed in (1, 2, 77):
        config = DecodingConfig(**{"sample": True, "seed": seed, "max_length": 14, **SETTINGS[name]})  # type: ignore[arg-type]
        assert _searcher(model, config) is counted
        for ours, theirs in beside(model, config, lines):
            assert ours.tokens == theirs.tokens
            assert (ours.finished, ours.stopped) == (theirs.finished, theirs.stopped)
            assert ours.token_log_probabilities == pytest.approx(theirs.token_log_probabilities)
            assert ours.score == pytest.approx(theirs.score, rel=1e-5)


def test_said_aloud_it_is_the_same(model: NgramModel) -> None:
    config = DecodingConfig(sample=True, max_length=10, n_best=1)
    for prompt in PROMPTS:
        ours, theirs = (
            list(way.search_prompt_aloud(model, prompt, config, sentence_id=9, lines=2))  # type: ignore[attr-defined]
            for way in (counted, prompted)
        )
        assert [token for token, _ in ours] == [token for token, _ in theirs]
        assert [gain for _, gain in ours] == pytest.approx([gain for _, gain in theirs])


def test_where_words_are_equally_probable_only_their_order_is_open() -> None:
    model = fitted([[5, 6], [6, 5], [7]], UNK + 21, order=2, smoothing="add-k")
    for ours, theirs in beside(model, DecodingConfig(sample=True, max_length=9), 1):
        assert ours.tokens == theirs.tokens


def test_noise_is_that_of_the_search() -> None:
    ids = np.array([0, 1, 5 << 24 | 3, 2**40], np.uint64)
    for seed in (0, 1, 2**40 + 7):
        keys = counted._keys(seed, ids)
        theirs = noise_keys(seed, torch.from_numpy(ids.astype(np.int64)), 1)[:, 0]
        assert keys.astype(np.int64).tolist() == theirs.tolist()
        for step in (0, 1, 99):
            assert counted._uniform(keys, step).tolist() == uniform(theirs, step).tolist()


def test_beams_are_left_to_the_search(model: NgramModel) -> None:
    assert _searcher(model, DecodingConfig(beam=2)) is prompted
    assert _searcher(model, DecodingConfig(beam=1)) is prompted  # a length penalty may prefer a longer text
