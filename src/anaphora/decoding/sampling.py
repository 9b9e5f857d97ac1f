"""Drawing the next token at random: temperature, top-k, nucleus, and noise that belongs to a sentence.

A draw needs one uniform number u in [0, 1): the token is the first whose cumulative probability exceeds u (inverse-CDF
sampling). Ordinary generators hand out numbers in the order they are asked, so a sentence would get another translation
in another batch. Here the number is a *function* of (seed, sentence, sample, step), a counter-based generator: the
finalizer of SplitMix64 (Steele, Lea & Flood 2014) scrambles a counter into 64 bits that pass statistical tests. Same
seed, same sentence: same samples, whatever the batch, its order, or the moment a neighbour finishes.
"""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: the step of SplitMix64's counter
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _signed(number: int) -> int:
    """The same 64 bits as the two's-complement number that torch.int64 holds."""
    number &= 0xFFFFFFFFFFFFFFFF
    return number - (1 << 64) if number >> 63 else number


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Logical shift right: torch's `>>` copies the sign bit in, the mask takes it out."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def scramble(x: Tensor) -> Tensor:
    """SplitMix64's finalizer: every input bit flips each output bit with probability one half. int64, wrapping."""
    x = (x ^ _shifted(x, 30)) * _signed(MIX_1)
    x = (x ^ _shifted(x, 27)) * _signed(MIX_2)
    return x ^ _shifted(x, 31)


def noise_keys(seed: int, sentence_ids: Tensor, samples: int) -> Tensor:
    """One stream of noise for each sample of each sentence: (B,) -> (B, K)."""
    sample = torch.arange(samples, device=sentence_ids.device)
    per_sentence = scramble(sentence_ids * _signed(GOLDEN) + _signed(seed * MIX_1 + GOLDEN))  # (B,)
    return scramble(scramble(per_sentence)[:, None] + (sample + 1) * _signed(GOLDEN))  # (B, K)


def uniform(keys: Tensor, step: int | Tensor) -> Tensor:
    """The step-th number of each stream, in [0, 1): 24 bits, all that float32 holds without rounding up to 1."""
    count = (step + 1) * _signed(GOLDEN)
    bits = scramble(keys + (_signed(count) if isinstance(count, int) else count))
    return _shifted(bits, 40).float() * 2.0**-24


def draw(
    scores: Tensor,
    u: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    epsilon: float = 0.0,
) -> Tensor:
    """One token a row: scores (R, V) log-probabilities, -inf where forbidden; u (R,) uniform -> (R,).

    In this order: scores are divided by the temperature (below 1 sharper, above 1 flatter); top-k keeps the k most
    probable tokens (Fan et al. 2018); top-p keeps the fewest most probable ones that together reach p of what is left
    (the nucleus, Holtzman et al. 2020); min-p keeps those that have at least that share of the most probable one's
    probability (Nguyen et al. 2024); epsilon those that have at least that probability, and the most probable one in
    any case (Hewitt et al. 2022). The rest share out the whole probability.
    """
    p, tokens = _narrowed(scores, temperature, top_k, top_p, min_p, epsilon)
    place = pick(p, u)[:, None]
    return (place if tokens is None else tokens.gather(1, place))[:, 0]


def pick(p: Tensor, u: Tensor) -> Tensor:
    """Places of each row, by their shares: p (R, V), of any sum, and u (R,) or (R, n), uniform -> as u."""
    cumulative = p.cumsum(dim=1)
    wanted = u.view(len(p), -1) * cumulative[:, -1:]  # (R, n)
    place = torch.searchsorted(cumulative, wanted, right=True)
    # u * total may round up to total, or a dead row be all NaN: then the most probable token, never one past the end.
    return torch.where(place < p.shape[1], place, p.argmax(dim=1, keepdim=True)).view(u.shape)


def shares(
    scores: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    epsilon: float = 0.0,
) -> Tensor:
    """The probabilities that `draw` draws by: scores (R, V) -> (R, V), summing to one."""
    p, tokens = _narrowed(scores, temperature, top_k, top_p, min_p, epsilon)
    p = p / p.sum(dim=1, keepdim=True)
    return p if tokens is None else torch.zeros_like(scores).scatter_(1, tokens, p)


def _narrowed(
    scores: Tensor, temperature: float, top_k: int, top_p: float, min_p: float, epsilon: float
) -> tuple[Tensor, Tensor | None]:
    """What is drawn among: shares (R, k), not summing to one, and of which tokens (R, k), where not of all."""
    values, tokens = scores if temperature == 1.0 else scores / temperature, None  # (R, V)
    if 0 < top_k < scores.shape[1]:
        values, tokens = values.topk(top_k)  # (R, k), most probable first
    elif top_p < 1.0:
        values, tokens = values.sort(dim=1, descending=True)
    p = values.softmax(dim=1)
    weak = None
    if min_p > 0.0 or epsilon > 0.0:
        most = p.amax(dim=1, keepdim=True)
        weak = p < torch.maximum(min_p * most, most.clamp(max=epsilon))  # never the most probable one itself
    if top_p < 1.0:
        before = p.cumsum(dim=1) - p  # mass of the more probable ones
        p = p.masked_fill(before >= top_p, 0.0)  # the token that crosses p stays: never an empty nucleus
    return p if weak is None else p.masked_fill(weak, 0.0), tokens
