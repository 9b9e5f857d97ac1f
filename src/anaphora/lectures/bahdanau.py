"""Lecture 6: where attention came from, and four things said of it that can be measured.

bahdanau       c_t = Σ α_{t,i} h_i with additive scores, small enough to check by hand
lookup         a lookup table is attention at an infinite scale; why scores are divided by √d
heads          h heads cost what one does
growing-keys   more keys at every step are the same as a mask of -∞
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.explain.walk import walk_attention, walk_projected
from anaphora.lectures.all_scores import PUBLISHED
from anaphora.nn.attention import MultiHeadAttention, attend, attention_weights
from anaphora.nn.attention_backends import NORMALIZERS
from anaphora.nn.scores import SCORES

# c_t and α ----------------------------------------------------------------------------------------------------------

SOURCE = ["das", "Haus", "ist", "klein"]
TARGET = ["the", "house", "is"]
ANNOTATIONS = torch.tensor([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 0.0]], dtype=torch.float64)
"""h_i: the place of the word, and whether it is a noun."""
STATES = torch.tensor([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]], dtype=torch.float64)
"""s_{t-1}: the place that the decoder wants to read next, and a constant 1."""
W = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
"""s W = (place + 1, place - 1): one step to either side of the wanted place."""
U = torch.tensor([[-1.0, -1.0], [0.0, 0.0]], dtype=torch.float64)
"""h U = (-i, -i)."""
V = torch.tensor([2.0, -2.0], dtype=torch.float64)
"""So the score is 2·tanh(p - i + 1) - 2·tanh(p - i - 1): a hill at i = p, 4·tanh(1) = 3.05 high."""


def bahdanau() -> list[Walk]:
    """α_{t,i} = softmax_i(v · tanh(W s_{t-1} + U h_i)) and c_t = Σ_i α_{t,i} h_i."""
    walk = walk_projected(
        STATES,
        W,
        U,
        torch.eye(2, dtype=torch.float64),
        rows=TARGET,
        memory=ANNOTATIONS,
        columns=SOURCE,
        score="additive",
        weight=V,
        value_dimensions=["place", "noun"],
        name="bahdanau",
        title="c_t and α of Bahdanau",
        says="A decoder that reads on, word by word: row t holds α_{t,1} … α_{t,4}, and Z is c_t.",
    )
    walk.step("E").says = "s_{t-1}: the place to be read next, and a 1"
    walk.step("M").says = "h_i: the place of the word, and whether it is a noun"
    places = torch.arange(1, 5, dtype=torch.float64)
    hill = 2 * torch.tanh(STATES[:, :1] - places + 1) - 2 * torch.tanh(STATES[:, :1] - places - 1)  # (T, S)
    off = float((torch.from_numpy(walk.step("S").values) - hill).abs().max())
    walk.checks.append(Check("scores are 2·tanh(p-i+1) - 2·tanh(p-i-1)", off, 1e-12))
    return [walk]


# Lookup -------------------------------------------------------------------------------------------------------------

ENTRIES = ["name", "age", "town"]
KEYS = torch.eye(3, dtype=torch.float64)
VALUES = torch.tensor([[1.0], [7.0], [4.0]], dtype=torch.float64)
QUERY = torch.tensor([[0.2, 0.9, 0.4]], dtype=torch.float64)
"""Nearest to the second key, and not far from the others."""
SCALES = (0, 1, 2, 5, 10, 20, 50, 100)

SIZES = (1, 4, 16, 64, 256, 1024)
DRAWS, CANDIDATES = 400, 16


def lookup() -> list[Walk]:
    """Soft lookup at growing scales, and what the size of scores does to the gradient of softmax."""
    weights = torch.cat([soft_weights(scale) for scale in SCALES])  # (scales, 3)
    found = weights @ VALUES  # (scales, 1)
    hard = VALUES[QUERY.argmax()]
    rows = [str(scale) for scale in SCALES]
    answers = torch.cat([found, (found - hard).abs()], dim=1)  # (scales, 2)
    soft = Walk(
        "lookup",
        "Hard lookup is the limit of soft lookup",
        "A table with the keys name, age, town and the values 1, 7, 4; the query (0.2, 0.9, 0.4) is nearest to age.",
        [
            Step(
                "A",
                "A = softmax(scale · q Kᵀ)",
                "the weights by scale (rows)",
                rows,
                ENTRIES,
                weights,
                decimals=4,
                shares=True,
            ),
            Step(
                "AV",
                "A V",
                "what is found, from the mean of all values to one of them, and how far it is from 7",
                rows,
                ["found", "from 7"],
                answers,
                decimals=4,
            ),
        ],
        [
            Check("at scale 0 the mean of all values is found", float((found[0] - VALUES.mean()).abs()), 1e-12),
            Check("at scale 100 the value of the nearest key is found", float((found[-1] - hard).abs()), 1e-12),
        ],
    )
    return [soft, why_scaled()]


def soft_weights(scale: float) -> Tensor:
    """Of the query over the three keys: (1, 3)."""
    return attention_weights((scale * QUERY)[None, None], KEYS[None, None], score="dot")[0, 0]


def why_scaled() -> Walk:
    """The Jacobian of softmax, J = ∂a/∂s = diag(a) - a aᵀ, as queries and keys get more dimensions."""
    rows = []
    for size in SIZES:
        row: list[float] = []
        for score in ("dot", "scaled-dot"):
            spread, top, jacobian = steepness(size, score)
            row += [spread, top, jacobian.median().item(), (jacobian < 0.01).double().mean().item()]
        rows.append(row)
    names = ["size of s", "top a", "|J|", "dead"]
    values = torch.tensor(rows)
    says = f"{DRAWS} random queries over {CANDIDATES} random keys, every number of both drawn from N(0, 1), seed 0."
    return Walk(
        "why-scaled",
        "Why scores are divided by √d",
        says,
        [
            Step(
                symbol,
                formula,
                "by d (rows): how large scores are, the mean largest weight, the median of |J|, "
                "and the share of queries with |J| below 0.01",
                [str(size) for size in SIZES],
                names,
                values[:, part],
                decimals=4,
            )
            for symbol, formula, part in (
                ("dot", "s = q · k", slice(0, 4)),
                ("scaled-dot", "s = q · k / √d", slice(4, 8)),
            )
        ],
        [Check("diag(a) - a aᵀ is what autograd gives", _jacobian_error(), 1e-12)],
    )


def steepness(size: int, score: str) -> tuple[float, float, Tensor]:
    """Standard deviation of the scores, mean of the largest weight, and |J| (Frobenius) of each draw: (DRAWS,)."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(DRAWS, 1, 1, size, generator=generator, dtype=torch.float64)
    key = torch.randn(DRAWS, 1, CANDIDATES, size, generator=generator, dtype=torch.float64)
    a = attention_weights(query, key, score=score)[:, 0, 0]
    spread = float((query @ key.mT).std()) * (size**-0.5 if score == "scaled-dot" else 1)
    return spread, float(a.amax(dim=-1).mean()), softmax_jacobian(a).norm(dim=(1, 2))


def softmax_jacobian(a: Tensor) -> Tensor:
    """∂a_i/∂s_j = a_i (1[i = j] - a_j): (B, n) -> (B, n, n)."""
    return torch.diag_embed(a) - a[:, :, None] * a[:, None, :]


def _jacobian_error() -> float:
    scores = torch.linspace(-2, 2, 5, dtype=torch.float64)
    # keys one-hot and a query of scores: their dot products are the scores
    one_hot = torch.eye(5, dtype=torch.float64)[None, None]
    of = torch.autograd.functional.jacobian(
        lambda s: attention_weights(s[None, None, None], one_hot, score="dot")[0, 0, 0], scores
    )
    return float((of - softmax_jacobian(scores.softmax(dim=-1)[None])[0]).abs().max())


# Heads --------------------------------------------------------------------------------------------------------------

DIM, LENGTH = 64, 32
HEADS = (1, 2, 4, 8, 16)


def heads() -> list[Walk]:
    """The floating-point operations of one attention layer, counted while it runs, by number of heads."""
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not ours to use up
        layers = [MultiHeadAttention(DIM, number, backend="reference") for number in HEADS]
    counted = [flops_of(layer) for layer in layers]
    parameters = [sum(p.numel() for p in layer.parameters()) for layer in layers]
    exponentials = [number * LENGTH**2 for number in HEADS]
    by_hand = 8 * LENGTH * DIM**2 + 4 * LENGTH**2 * DIM
    table = torch.tensor([counted, parameters, exponentials], dtype=torch.float64).T
    return [
        Walk(
            "heads",
            "h heads cost what one does",
            f"Self-attention {DIM} wide over {LENGTH} words: each of h heads works in {DIM}/h dimensions.",
            [
                Step(
                    "flops",
                    "8 n d² + 4 n² d",
                    "projections, then scores and sums, by number of heads h (rows): there is no h in it; what grows "
                    "is softmax, h n² exponentials, which are no products",
                    [str(number) for number in HEADS],
                    ["flops", "parameters", "exponentials"],
                    table,
                    decimals=0,
                )
            ],
            [
                Check("all numbers of heads cost the same", float(max(counted) - min(counted)), 0.0),
                Check(f"8 n d² + 4 n² d = {by_hand:,} is what was counted", float(abs(counted[0] - by_hand)), 0.0),
            ],
        )
    ]


def flops_of(layer: MultiHeadAttention) -> int:
    """Counted by torch.utils.flop_counter while the layer runs."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, LENGTH, DIM))
    return counter.get_total_flops()


# Growing keys -------------------------------------------------------------------------------------------------------

WORDS = ["the", "cat", "sat", "down"]


def growing_keys() -> list[Walk]:
    """Causal attention two ways: step t with the first t keys alone, and all at once behind a mask of -∞."""
    query, key, value = _drawn(4, 2)
    walk = walk_attention(
        query,
        key,
        value,
        rows=WORDS,
        causal=True,
        vectors=False,
        name="growing-keys",
        title="Growing the key set is masking with -∞",
        says="Training sees the whole sentence at once and masks; decoding has, at step t, only t keys.",
    )
    alone = torch.cat([_one_step(query, key, value, t) for t in range(len(WORDS))])  # (T, D)
    masked = torch.from_numpy(walk.step("Z").values)
    names = walk.step("Z").columns
    alone_says = "each word with its own keys only"
    walk.steps.append(
        Step("Z'", "z'_t = softmax(q_t K[:t]ᵀ / √d) V[:t]", alone_says, WORDS, names, alone, dimensions=True)
    )
    walk.checks.append(Check("Z' is Z", float((alone - masked).abs().max()), 1e-12))
    differences = [[growing_difference(score, normalizer) for normalizer in NORMALIZERS] for score in PUBLISHED]
    everywhere = Walk(
        "growing-keys-everywhere",
        "The same for every score and normalizer",
        "Ten words, eight dimensions, seed 0, float64.",
        [
            Step(
                "difference",
                "max |Z' - Z|",
                "how far the two ways are apart, by score (rows) and normalizer",
                list(PUBLISHED),
                list(NORMALIZERS),
                torch.tensor(differences).round(decimals=12),  # what is left is rounding, another on each machine
                decimals=12,
            )
        ],
        [Check("every score and normalizer: one by one = masked", max(map(max, differences)), 1e-12)],
    )
    return [walk, everywhere]


def growing_difference(score: str, normalizer: str, words: int = 10, size: int = 8) -> float:
    """The largest difference between t keys at step t and all of them behind a mask."""
    query, key, value = _drawn(words, size)
    shape = SCORES[score].weight_shape(size, size) or ()
    weight = {2: torch.eye(size) * 0.3 + 0.1, 1: torch.linspace(-1, 1, size)}.get(len(shape))
    chosen = {"score": score, "normalizer": normalizer, "weight": None if weight is None else weight.double()}
    masked = attend(query[None, None], key[None, None], value[None, None], causal=True, **chosen)[0, 0]  # type: ignore[arg-type]
    alone = torch.cat([_one_step(query, key, value, t, **chosen) for t in range(words)])
    return float((alone - masked).abs().max())


def _one_step(query: Tensor, key: Tensor, value: Tensor, t: int, **chosen: object) -> Tensor:
    """The t-th query over the keys there are by then: (1, D)."""
    seen = slice(0, t + 1)
    return attend(query[None, None, t : t + 1], key[None, None, seen], value[None, None, seen], **chosen)[0, 0]  # type: ignore[arg-type]


def _drawn(words: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values: rounded, so that they can be read."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(3, words, size, generator=generator, dtype=torch.float64)
    query, key, value = (drawn * 10).round() / 10
    return query, key, value
