"""What an n-gram model says by its own way (counted.py) is what the one search says of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anaphora.decoding import counted, counted_beam, prompted
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.generation import _searcher
from anaphora.decoding.hypothesis import Hypothesis
from anaphora.decoding.sampling import noise_keys, uniform
from anaphora.decoding.spelling import Listener, Spelling
from anaphora.models.composites.mixture import Mixture
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.tokenizers.tokenizer import BOS, EOS, UNK, Tokenizer
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


BEAMS: dict[str, dict[str, object]] = {
    "five": {},
    "two": {"beam": 2},
    "one": {"beam": 1},
    "wider than the vocabulary": {"beam": 40},
    "no penalty": {"length_penalty": 0.0},
    "long ones": {"length_penalty": 1.5},
    "three best": {"n_best": 3},
    "all best": {"n_best": 5, "max_length": 4},
    "late end": {"min_length": 8, "n_best": 2},
    "short": {"max_length": 2, "n_best": 4},
    "no repeats": {"no_repeat_ngram": 2},
    "no word twice": {"no_repeat_ngram": 1, "max_length": 30, "n_best": 2},
    "penalty": {"repetition_penalty": 1.5, "n_best": 2},
    "unknown": {"unknown": True},
}


@pytest.fixture(scope="module", params=["kneser-ney", "stupid-backoff", "maximum-likelihood", "mixture"])
def model(request: pytest.FixtureRequest) -> NgramModel | Mixture:
    if request.param != "mixture":
        return random_model(request.param, 3)
    parts = [random_model("kneser-ney", 3), random_model("kneser-ney", 5, order=2), random_model("add-k", 7, order=1)]
    return Mixture(parts, [0.5, 0.3, 0.2])


def random_model(smoothing: str, seed: int, *, order: int = 3) -> NgramModel:
    """Of random lines over 20 words, some more frequent than others; no two words equally probable, for which of them
    comes first is not laid down."""
    draws = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, 21)
    words = [draws.choice(20, size=draws.integers(1, 9), p=weights / weights.sum()) for _ in range(200)]
    texts = [(UNK + 1 + row).tolist() for row in words]
    found = fitted(texts, UNK + 21, order=order, smoothing=smoothing)
    parted = found.trie.log_probability + draws.uniform(0, 1e-3, len(found.trie.log_probability)).astype(np.float32)
    return NgramModel(found.config, found.trie._replace(log_probability=parted))


def beside(model: NgramModel | Mixture, config: DecodingConfig, lines: int) -> list[tuple[Hypothesis, Hypothesis]]:
    ids = [place << 24 | 3 for place in range(len(PROMPTS))]
    found = [
        way.search_prompts(model, PROMPTS, config, sentence_ids=ids, lines=lines)  # type: ignore[attr-defined]
        for way in (counted, prompted)
    ]
    return [(ours, theirs) for (ours,), (theirs,) in zip(*found)]


@pytest.mark.parametrize("lines", [1, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_it_says_what_the_search_says(name: str, lines: int, model: NgramModel | Mixture) -> None:
    for seed in (1, 2, 77):
        config = DecodingConfig(**{"sample": True, "seed": seed, "max_length": 14, **SETTINGS[name]})  # type: ignore[arg-type]
        assert _searcher(model, config) is counted
        for ours, theirs in beside(model, config, lines):
            assert ours.tokens == theirs.tokens
            assert (ours.finished, ours.stopped) == (theirs.finished, theirs.stopped)
            assert ours.token_log_probabilities == pytest.approx(theirs.token_log_probabilities)
            assert ours.score == pytest.approx(theirs.score, rel=1e-5)


def test_said_aloud_it_is_the_same(model: NgramModel | Mixture) -> None:
    config = DecodingConfig(sample=True, max_length=10, n_best=1)
    for prompt in PROMPTS:
        ours, theirs = (
            list(way.stream_search_prompt(model, prompt, config, sentence_id=9, lines=2))  # type: ignore[attr-defined]
            for way in (counted, prompted)
        )
        assert [token for token, _ in ours] == [token for token, _ in theirs]
        assert [gain for _, gain in ours] == pytest.approx([gain for _, gain in theirs])


def test_where_words_are_equally_probable_only_their_order_is_open() -> None:
    model = fitted([[5, 6], [6, 5], [7]], UNK + 21, order=2, smoothing="add-k")
    for ours, theirs in beside(model, DecodingConfig(sample=True, max_length=9), 1):
        assert ours.tokens == theirs.tokens


def test_of_equally_probable_words_a_beam_of_one_takes_the_one_that_greedy_search_takes() -> None:
    texts = [[5 + word, 5 + other] for word in range(12) for other in range(12)]
    model = fitted(texts, UNK + 21, order=2, smoothing="maximum-likelihood")
    found = [
        way.search_prompts(model, PROMPTS[:2], config, sentence_ids=[0, 1])  # type: ignore[attr-defined]
        for way, config in (
            (counted, DecodingConfig(beam=1, length_penalty=0.0, max_length=6)),
            (counted_beam, DecodingConfig(beam=1, max_length=6)),
        )
    ]
    assert [[one.tokens for one in own] for own in found[0]] == [[one.tokens for one in own] for own in found[1]]


def test_noise_is_that_of_the_search() -> None:
    ids = np.array([0, 1, 5 << 24 | 3, 2**40], np.uint64)
    for seed in (0, 1, 2**40 + 7):
        keys = counted._keys(seed, ids)
        theirs = noise_keys(seed, torch.from_numpy(ids.astype(np.int64)), 1)[:, 0]
        assert keys.astype(np.int64).tolist() == theirs.tolist()
        for step in (0, 1, 99):
            assert counted._uniform(keys, step).tolist() == uniform(theirs, step).tolist()


@pytest.mark.parametrize("lines", [1, 3])
@pytest.mark.parametrize("name", BEAMS)
def test_its_beam_finds_what_the_search_finds(name: str, lines: int, model: NgramModel | Mixture) -> None:
    config = DecodingConfig(**{"max_length": 14, **BEAMS[name]})  # type: ignore[arg-type]
    assert _searcher(model, config) is counted_beam
    same(model, config, lines, None)


def test_its_beam_hears_stop_strings(model: NgramModel | Mixture) -> None:
    tokenizer = Tokenizer.of_words([f"w{number}" for number in range(21)])
    listeners = [Listener(Spelling(tokenizer, [], ""), ["w2", "w3 w1", "w0"]) for _ in PROMPTS]
    for n_best, lines in ((1, 1), (3, 1), (4, 3)):
        same(model, DecodingConfig(max_length=9, n_best=n_best), lines, listeners)


def same(model: NgramModel | Mixture, config: DecodingConfig, lines: int, listeners: list[Listener] | None) -> None:
    ids = list(range(len(PROMPTS)))
    found = [
        way.search_prompts(model, PROMPTS, config, sentence_ids=ids, lines=lines, listeners=listeners)  # type: ignore[attr-defined]
        for way in (counted_beam, prompted)
    ]
    for ours, theirs in zip(*found):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        for one, other in zip(ours, theirs):
            assert (one.finished, one.stopped) == (other.finished, other.stopped)
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities)
            assert one.score == pytest.approx(other.score, rel=1e-5)


def test_a_mixture_with_a_learned_part_is_left_to_the_search(model: NgramModel | Mixture) -> None:
    class Learned:
        vocabulary, capabilities, counted = model.vocabulary, model.capabilities, False

    mixture = Mixture([random_model("kneser-ney", 3), Learned()], [0.5, 0.5])  # type: ignore[list-item]
    assert _searcher(mixture, DecodingConfig(beam=2)) is prompted
