"""Lecture 7: what attention alone cannot do, what it costs, and how far it sees.

re-averaging       without the feed-forward layer a stack only averages again
order              without positions, permuted words give permuted answers
quadratic          products and memory against the number of words
receptive-field    which words a place can know of: convolutions against attention
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.nn.attention import MultiHeadAttention, attend
from anaphora.nn.embedding import Embedding
from anaphora.nn.encoders import ConvolutionEncoder, Encoder
from anaphora.nn.positions import Positions
from anaphora.nn.transformer import FeedForward, TransformerEncoder

# Re-averaging -------------------------------------------------------------------------------------------------------

CORNERS = ["north", "east", "south", "west"]
SQUARE = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]], dtype=torch.float64)
LAYERS = 4
WIDTH, LINE = 8, 12


def re_averaging() -> list[Walk]:
    """Three views of one fact: a weighted mean is no new thing, and a mean of means is none either."""
    with torch.random.fork_rng(devices=[]):
        return [shrinking(), lines(), absolute_value()]


def shrinking() -> Walk:
    """X ← softmax(X Xᵀ / √d) X, again and again: every row is a mean of the rows before."""
    after = [SQUARE]
    for _ in range(LAYERS):
        x = after[-1][None, None]
        after.append(attend(x, x, x)[0, 0])
    spread = torch.stack([x.norm(dim=-1).mean() for x in after])[:, None]
    steps = [Step("X0", "X0", "four words at the corners of a square", CORNERS, ["x", "y"], SQUARE, decimals=4)]
    for number, x in enumerate(after[1:3], start=1):
        before = f"X{number - 1}"
        formula = f"X{number} = softmax({before} {before}ᵀ / √2) {before}"
        steps.append(Step(f"X{number}", formula, f"after layer {number}", CORNERS, ["x", "y"], x, decimals=4))
    names = [str(number) for number in range(LAYERS + 1)]
    steps.append(
        Step("spread", "mean distance from the middle", "by layer (rows)", names, ["spread"], spread, decimals=9)
    )
    outside = max(0.0, float(torch.stack(after[1:]).abs().sum(dim=-1).max()) - 1)  # |x| + |y| <= 1 is the square
    return Walk(
        "re-averaging",
        "Averages of averages",
        "Attention without projections: each word becomes a mean of words, so none ever leaves the square.",
        steps,
        [
            Check("no word of any layer lies outside the square", outside, 0.0),
            Check("the spread never grows", max(0.0, float((spread[1:] - spread[:-1]).max())), 0.0),
        ],
    )


class AttentionStack(nn.Module):
    """Self-attentions one above the other, one head each, and a feed-forward network for each: (B, T, dim) -> what
    stands after each layer, (layers + 1, B, T, dim). No norms, which would hide what is asked here."""

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(MultiHeadAttention(dim, 1) for _ in range(layers))
        self.networks = nn.ModuleList(FeedForward(dim, 4 * dim) for _ in range(layers))

    def forward(self, x: Tensor, *, feed_forward: bool, residual: bool = False) -> Tensor:
        after = [x]
        for attention, network in zip(self.attentions, self.networks):
            x = attention(x) + (x if residual else 0)
            if feed_forward:
                x = network(x) + (x if residual else 0)
            after.append(x)
        return torch.stack(after)


def lines(seed: int = 0) -> Walk:
    """Points on a line, and words in a plane, sent through the same attentions without and with feed-forward."""
    torch.manual_seed(seed)
    stack = AttentionStack(WIDTH, LAYERS).double().requires_grad_(False)
    # twelve texts of one word each, at places along one line through space
    start, way = torch.randn(2, WIDTH, dtype=torch.float64)
    line = start + torch.linspace(-1, 1, LINE, dtype=torch.float64)[:, None] * way  # (LINE, WIDTH)
    # one text of twelve words, all of them mixtures of two vectors
    plane = torch.randn(LINE, 2, dtype=torch.float64) @ torch.randn(2, WIDTH, dtype=torch.float64)
    alone = [
        stack(line[:, None], feed_forward=network)[:, :, 0] for network in (False, True)
    ]  # (layers + 1, LINE, dim)
    together = [stack(plane[None], feed_forward=network)[:, 0] for network in (False, True)]
    together.append(stack(plane[None], feed_forward=True, residual=True)[:, 0])
    ranks = [
        [
            *(dimensions(points[layer] - points[layer].mean(dim=0)) for points in alone),
            *(dimensions(points[layer]) for points in together),
        ]
        for layer in range(LAYERS + 1)
    ]
    # a straight line stays one if each two mirrored points keep the same middle
    last = alone[0][-1]
    middles = (last + last.flip(0)) / 2
    return Walk(
        "lines",
        "The dimensions that outputs fill",
        f"Random attentions with projections, {WIDTH} wide, one head, seed {seed}: alone, with a feed-forward network "
        "after each (ff), and with residual sums around both (+ x).",
        [
            Step(
                "rank",
                "dimensions of the outputs",
                "by layer (rows): of one-word texts along a line, and of the words of one text in a plane",
                [str(number) for number in range(LAYERS + 1)],
                ["line", "line, ff", "plane", "plane, ff", "plane, ff + x"],
                torch.tensor(ranks),
                decimals=0,
            ),
        ],
        [
            Check(
                "without ff the line is still straight: mirrored points keep one middle",
                float((middles - middles.mean(dim=0)).abs().max()),
                1e-12,
            )
        ],
    )


def dimensions(points: Tensor) -> int:
    """Singular values above 10⁻⁸ of the largest one; rounding makes some of 10⁻¹⁶."""
    return int(torch.linalg.matrix_rank(points, rtol=1e-8))


def absolute_value() -> Walk:
    """|x| = ReLU(x) + ReLU(-x): two hidden units do what no stack of attentions can for a word alone."""
    network = FeedForward(1, 2).double().requires_grad_(False)
    network.inner.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    network.outer.weight.copy_(torch.tensor([[1.0, 1.0]]))
    x = torch.tensor([[-2.0], [-1.0], [0.0], [1.0], [2.0]], dtype=torch.float64)
    hidden = network.activation(network.inner(x))
    out = network(x)
    return Walk(
        "absolute-value",
        "What the non-linearity adds",
        "A feed-forward network with two hidden units, set by hand. A word alone has one key, so its weight is 1 and a "
        "stack of attentions is a matrix and a constant: f(-1) + f(1) = 2 f(0), whatever they are. Here the left side "
        "is 2, the right 0.",
        [
            Step("h", "h = ReLU((1, -1) x)", "two hidden units", [f"{v:g}" for v in x[:, 0]], ["x", "-x"], hidden),
            Step("y", "y = (1, 1) h", "the absolute value", [f"{v:g}" for v in x[:, 0]], ["y"], out),
        ],
        [Check("y = |x|", float((out - x.abs()).abs().max()), 0.0)],
    )


# Order --------------------------------------------------------------------------------------------------------------

SENTENCE = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
PERMUTED = torch.tensor([7, 3, 0, 5, 1, 6, 2, 4])


def order() -> list[Walk]:
    """encoder(permuted words) against permuted encoder(words), for every kind of positions."""
    kinds = get_args(Positions)
    moved = {kind: permutation_gap(kind) for kind in kinds}
    table = torch.tensor([[moved[kind]] for kind in kinds])
    return [
        Walk(
            "order",
            "Attention is blind to order",
            "Eight words and the same words in another order, through two encoder layers with random weights, seed 0.",
            [
                Step(
                    "gap",
                    "max |f(P x) - P f(x)|",
                    "how far the answers are from being permuted like the words, by positions (rows); numbers in an "
                    "answer are about 1",
                    list(kinds),
                    ["gap"],
                    table,
                    decimals=4,
                )
            ],
            [Check("without positions: the same answers in the other order", moved["none"], 1e-12)],
        )
    ]


def permutation_gap(kind: Positions) -> float:
    """The largest difference between what permuted words give and what is given, permuted."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        embedding = Embedding(10, 16, positions=kind, max_length=16, dropout=0.0).double()
        encoder = TransformerEncoder(16, layers=2, heads=2, positions=kind).double()
        lengths = torch.tensor([SENTENCE.shape[1]])
        plain, permuted = (encoder(embedding(ids), lengths) for ids in (SENTENCE, SENTENCE[:, PERMUTED]))
    return float((permuted - plain[:, PERMUTED]).abs().max())


# Quadratic cost -----------------------------------------------------------------------------------------------------

LENGTHS = (64, 128, 256, 512, 1024)
SIZE = 16
FORMS = {
    "reference": {"backend": "reference"},
    "fast": {"backend": "sdpa"},
    "linear": {"normalizer": "none", "backend": "linear"},
}


def quadratic() -> list[Walk]:
    """Products counted, and numbers kept for the backward pass, as the number of words doubles."""
    rows = [str(length) for length in LENGTHS]
    products = {form: [flops(form, length) for length in LENGTHS] for form in ("reference", "linear")}
    kept = {form: [kept_by(form, length) for length in LENGTHS] for form in FORMS}
    made = "millions of floating-point operations, by number of words (rows)"
    held = (
        "what training keeps in memory for its backward pass, queries, keys and values included: the fused kernel "
        "never stores the n² weights"
    )
    by_hand = 4 * LENGTHS[-1] ** 2 * SIZE
    return [
        Walk(
            "quadratic",
            "The cost of attention against the number of words",
            f"One head of {SIZE} dimensions. Times depend on the machine: benchmarks/attention_cost.py takes them.",
            [
                Step("Mflop", "", made, rows, list(products), _columns(products, 1e6), decimals=2),
                Step("kB", "", held, rows, list(kept), _columns(kept, 1e3), decimals=0),
                Step(
                    "exponent",
                    "cost ~ n^exponent",
                    "from the last doubling: 2 is quadratic, 1 is linear",
                    ["exponent"],
                    [*(f"flop, {form}" for form in products), *(f"kB, {form}" for form in kept)],
                    torch.tensor([[*map(exponent, products.values()), *map(exponent, kept.values())]]),
                    decimals=2,
                ),
            ],
            [
                Check("the reference takes 4 n² d", abs(products["reference"][-1] - by_hand), 0.0),
                Check("linear attention takes 4 n d²", abs(products["linear"][-1] - 4 * LENGTHS[-1] * SIZE**2), 0.0),
            ],
        )
    ]


def _columns(costs: dict[str, list[float]], unit: float) -> Tensor:
    return torch.tensor(list(costs.values())).T / unit


def flops(form: str, length: int) -> float:
    """Floating-point operations of a forward pass, counted. (The counter does not know the fused kernel of CPUs.)"""
    query, key, value = torch.zeros(3, 1, 1, length, SIZE)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        attend(query, key, value, **FORMS[form])  # type: ignore[arg-type]
    return float(counter.get_total_flops())


def kept_by(form: str, length: int) -> float:
    """Bytes that a forward pass keeps for the backward one, queries, keys and values included."""
    query, key, value = (torch.zeros(1, 1, length, SIZE, requires_grad=True) for _ in range(3))
    return float(kept_bytes(lambda: attend(query, key, value, **FORMS[form])))  # type: ignore[arg-type]


def kept_bytes(run: Callable[[], object]) -> int:
    """Bytes of all that `run` keeps for a backward pass, once each: what autograd saves, inputs among it."""
    kept: dict[int, int] = {}
    alive: list[Tensor] = []  # so that no address is used twice

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    return sum(kept.values())


def exponent(costs: list[float]) -> float:
    """p of cost ~ n^p, from the last doubling of n."""
    return math.log2(costs[-1] / costs[-2])


# Receptive field ----------------------------------------------------------------------------------------------------

PLACES = 129
DEPTHS = (1, 2, 3, 4, 5, 6)


def receptive_field() -> list[Walk]:
    """How many words change the vector in the middle: counted by gradients."""
    rows, pictures = [], []
    for depth in DEPTHS:
        with torch.random.fork_rng(devices=[]):
            plain, dilated = (ConvolutionEncoder(8, layers=depth, dilated=far) for far in (False, True))
            attention = TransformerEncoder(8, layers=depth, heads=2)
        seen = [seen_places(encoder) for encoder in (plain, dilated, attention)]
        rows.append(
            [*(int(s.sum()) for s in seen[:2]), plain.receptive_field, dilated.receptive_field, int(seen[2].sum())]
        )
        near = slice(PLACES // 2 - 8, PLACES // 2 + 9)
        pictures.append(seen[0][near])
    table = torch.tensor(rows)[:, [0, 2, 1, 3, 4]]
    names = ["plain", "formula", "dilated", "formula", "attention"]
    places = [str(place) for place in range(-8, 9)]
    off = int((table[:, 0] - table[:, 1]).abs().max() + (table[:, 2] - table[:, 3]).abs().max())
    layers = [str(depth) for depth in DEPTHS]
    one_more = "a plain convolution by layers (rows): one word more on each side a layer"
    formulas = "1 + 2 L, dilated 1 + 2 (2^L - 1), attention n"
    return [
        Walk(
            "receptive-field",
            "How far a place can see",
            f"Which of {PLACES} words change the vector in the middle? Random weights, width 3, seed 0.",
            [
                Step("seen", "∂h_0 / ∂x_i ≠ 0", one_more, layers, places, torch.stack(pictures).int()),
                Step("words", formulas, "words seen, by layers L (rows)", layers, names, table, decimals=0),
            ],
            [Check("gradients reach what ConvolutionEncoder.receptive_field says", off, 0.0)],
        )
    ]


def seen_places(encoder: Encoder) -> Tensor:
    """True where the gradient of the middle place's vector is not zero: (PLACES,)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for module in encoder.modules():
            if isinstance(module, nn.Conv1d | nn.Linear):
                module.reset_parameters()
        x = torch.randn(1, PLACES, encoder.dim, dtype=torch.float64, requires_grad=True)
    out = encoder.double()(x, torch.tensor([PLACES]))
    out[0, PLACES // 2].square().sum().backward()
    assert x.grad is not None
    return (x.grad[0] != 0).any(dim=-1)
