"""Samples follow the distribution they claim to follow, and depend on the seed and the sentence alone."""

from __future__ import annotations

import pytest
import torch

from anaphora.decoding.beam_search import DecodingConfig, search
from anaphora.decoding.sampling import draw, noise_keys, shares, uniform
from anaphora.decoding.translate import pad
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from toy_translator import ToyTranslator

DRAWS = 20_000
CRITICAL = 27.9  # chi-square with 9 degrees of freedom exceeds this once in a thousand times; the seed is fixed


def reference(
    log_probabilities: torch.Tensor, temperature: float, top_k: int, top_p: float, min_p: float = 0.0
) -> torch.Tensor:
    """The distribution of `draw`, written plainly for one row."""
    p = (log_probabilities / temperature).softmax(0)
    order = p.argsort(descending=True).tolist()
    kept = order[:top_k] if top_k else order
    p = p / p[kept].sum()
    nucleus, mass = [], 0.0
    for token in kept:
        if mass >= top_p:
            break
        if p[token] >= min_p * p[kept[0]]:
            nucleus.append(token)
        mass += float(p[token])
    result = torch.zeros_like(p)
    result[nucleus] = p[nucleus]
    return result / result.sum()


def chi_square(counts: torch.Tensor, p: torch.Tensor) -> float:
    expected = p * counts.sum()
    assert counts[p == 0].sum() == 0
    inside = p > 0
    return float(((counts - expected)[inside] ** 2 / expected[inside]).sum())


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "min_p"),
    [
        (1.0, 0, 1.0, 0.0),
        (0.5, 0, 1.0, 0.0),
        (2.0, 0, 1.0, 0.0),
        (1.0, 3, 1.0, 0.0),
        (1.0, 0, 0.7, 0.0),
        (0.7, 5, 0.8, 0.0),
        (1.5, 50, 0.9, 0.0),
        (1.0, 0, 1.0, 0.2),
        (1.0, 0, 1.0, 1.0),
        (2.0, 0, 0.8, 0.3),
        (1.3, 4, 1.0, 0.5),
        (0.8, 6, 0.9, 0.05),
    ],
)
def test_frequencies_match_the_distribution(temperature, top_k, top_p, min_p):
    log_probabilities = torch.randn(10, generator=torch.Generator().manual_seed(3)).log_softmax(0)
    u = uniform(noise_keys(1, torch.arange(DRAWS // 4), 4), 5).view(-1)
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    drawn = draw(log_probabilities.expand(DRAWS, -1), u, **how)
    counts = torch.bincount(drawn, minlength=10).float()
    expected = reference(log_probabilities, **how)
    assert chi_square(counts, expected) < CRITICAL
    torch.testing.assert_close(shares(log_probabilities[None], **how)[0], expected)


@pytest.mark.parametrize("penalty", [1.0, 1.5, 0.6])
@pytest.mark.parametrize("prompt", [False, True])
def test_what_was_said_is_drawn_less_often(penalty, prompt):
    """The second token's distribution, given the first: log-probabilities of what was said, and, where the source is a
    prompt, of what was read, are multiplied; what is told stays the model's."""
    model = ToyTranslator(13, seed=4)
    source = [4, 5, EOS]
    config = DecodingConfig(sample=True, n_best=4000, max_length=3, min_length=2, repetition_penalty=penalty)
    (found,) = search(model, *pad([source], "cpu"), config, prompt=prompt)
    first = max({h.tokens[0] for h in found}, key=[h.tokens[0] for h in found].count)
    own = model.next(source, [first])
    scores = own.clone()
    scores[[PAD, BOS, UNK, EOS]] = -torch.inf
    said = {first, *([4, 5] if prompt else [])}
    for token in said:
        scores[token] *= penalty
    after = [h for h in found if h.tokens[0] == first]
    counts = torch.bincount(torch.tensor([h.tokens[1] for h in after]), minlength=13).float()
    assert chi_square(counts, scores.softmax(0)) < CRITICAL
    for h in after[:50]:
        assert h.token_log_probabilities[1] == pytest.approx(float(own[h.tokens[1]]), abs=1e-5)


@pytest.mark.parametrize("how", [{}, {"temperature": 0.6}, {"top_k": 3}, {"top_p": 0.6}, {"min_p": 0.3}])
def test_the_search_samples_from_the_model(how):
    model = ToyTranslator(13, seed=4)
    source = [4, 5, EOS]
    config = DecodingConfig(sample=True, n_best=4000, max_length=2, **how)
    (found,) = search(model, *pad([source], "cpu"), config)
    assert len(found) == 4000
    first = model.next(source, [])
    first[[PAD, BOS, UNK]] = -torch.inf  # never said: the others share their probability
    counts = torch.bincount(torch.tensor([[*h.tokens, EOS][0] for h in found]), minlength=13).float()
    narrowed = reference(first.log_softmax(0), **{"temperature": 1.0, "top_k": 0, "top_p": 1.0, **how})
    assert 1 < (narrowed > 0).sum() < (10 if how.keys() - {"temperature"} else 13)
    assert chi_square(counts, narrowed) < CRITICAL
    for h in found[:50]:  # the price is the model's own, not that of the narrowed distribution
        assert h.token_log_probabilities[0] == pytest.approx(
            float(model.next(source, [])[[*h.tokens, EOS][0]]), abs=1e-5
        )


def test_noise_is_uniform_and_independent_of_its_neighbours():
    keys = noise_keys(1, torch.arange(500), 8)
    steps = torch.stack([uniform(keys, step) for step in range(10)])  # (10, 500, 8)
    assert steps.min() >= 0 and steps.max() < 1
    counts = torch.histc(steps, bins=10, min=0, max=1)
    assert chi_square(counts, torch.full((10,), 0.1)) < CRITICAL
    for a, b in [(steps[:-1], steps[1:]), (steps[:, :-1], steps[:, 1:]), (steps[:, :, :-1], steps[:, :, 1:])]:
        assert abs(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]) < 0.02
    assert len(torch.unique(steps)) > 0.99 * steps.numel()


def test_seed_and_sentence_make_the_sample():
    model = ToyTranslator(12, seed=4)
    config = DecodingConfig(sample=True, n_best=2)
    source, lengths = pad([[4, 5, EOS]] * 3, "cpu")
    first = search(model, source, lengths, config)
    assert first == search(model, source, lengths, config)
    assert first[0] != first[1]  # the same sentence twice in one text: two chances
    assert search(model, source, lengths, config, sentence_ids=[2, 2, 0]) == [first[2], first[2], first[0]]
    assert first != search(model, source, lengths, DecodingConfig(sample=True, n_best=2, seed=-5))


def test_a_cold_sample_is_greedy():
    model = ToyTranslator(12, seed=4)
    source, lengths = pad([[n, 5, EOS] for n in range(4, 12)], "cpu")
    cold = search(model, source, lengths, DecodingConfig(sample=True, temperature=1e-3))
    nearly_none = search(model, source, lengths, DecodingConfig(sample=True, top_p=1e-6))
    only_one = search(model, source, lengths, DecodingConfig(sample=True, top_k=1))
    greedy = search(model, source, lengths, DecodingConfig(beam=1))
    assert [h[0].tokens for h in cold] == [h[0].tokens for h in greedy]
    assert nearly_none == only_one
    assert [h[0].tokens for h in only_one] == [h[0].tokens for h in greedy]


def test_epsilon_leaves_out_what_is_improbable_and_never_the_most_probable() -> None:
    p = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.28, 0.26, 0.24, 0.22]])
    assert shares(p.log(), epsilon=0.2)[0].tolist() == pytest.approx([0.625, 0.375, 0, 0])
    assert shares(p.log(), epsilon=0.9).tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]
    both = shares(p.log(), epsilon=0.1, min_p=0.5)
    assert both[0].tolist() == pytest.approx([0.625, 0.375, 0, 0])
    assert both[1].tolist() == pytest.approx(p[1].tolist())
    u = torch.linspace(0, 0.999, 200)
    drawn = draw(p[:1].log().expand(200, -1), u, epsilon=0.1)
    assert set(drawn.tolist()) == {0, 1, 2}
