"""Scores: how well a key answers a query, one number for each pair.

    scaled-dot   q · k / √d          Vaswani et al. 2017: the size of a score does not grow with d
    dot          q · k               Luong et al. 2015; weighs like scaled-dot, but sharper the larger d is
    bilinear     qᵀ W k              Luong's "general": q and k may have different sizes, W is (d_q, d_k)
    additive     v · tanh(q + k)     Bahdanau et al. 2015; with q = W s and k = U h projected beforehand it is the
                                     published v · tanh(W s + U h)

Each is one object, and whoever computes with scores asks it: every attention, the fused kernels, the hand-written loops
of recurrent decoders, walks, costs and settings. A new one is a class here, or in a file of one's own:

    class HalfDot(Score):
        \"\"\"Half as sharp as dot.\"\"\"

        name = "half-dot"
        formula = "½ q · k"

        def scale(self, size):
            return 0.5

    register(HalfDot())

A score says what it computes in exactly one of four ways, and all else follows; the earlier ones are faster, because
more of the kernels can do them:

    scale     a multiple of q · k, by a number                     any kernel, any loop
    matrix    q A · k, A made of what the score has learned        any kernel, any loop
    prepare   f(q) · k                                             any kernel; recurrent decoders take the plain loop
    scores    anything                                             the reference, and the plain loop

Shapes: query (B, H, T, D_q), key (B, G, S, D_k) -> scores (B, H, T, S). G divides H: G = H is one key head for each
query head, G = 1 is multi-query attention, anything between is grouped. A weight (v or W) is shared by the heads, or
has a first dimension H. This file is read by settings, without torch: it is imported where a tensor is made.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from anaphora.errors import UserError, nearest

if TYPE_CHECKING:
    from torch import Tensor

WAYS = ("scale", "matrix", "prepare", "scores")


class Score:
    """How well a key answers a query."""

    name: ClassVar[str]
    """What settings call it."""
    formula: ClassVar[str]
    """Of one query q and one key k, for people."""
    symbol: ClassVar[str | None] = None
    """What its weight is called, in formulas and in a walk's file."""
    two_sizes: ClassVar[bool] = False
    """Whether queries and keys may have different sizes."""
    projects: ClassVar[bool] = False
    """Whether it compares what is projected to one size, also where an attention has no projections of its own."""
    linear: ClassVar[bool] = False
    """Whether twice its weight is twice the score."""
    kernel: ClassVar[str | None] = None
    """The backend that computes just these scores (nn/attention_backends.py), if one does."""

    def __init_subclass__(cls) -> None:
        if len(ways := [way for way in WAYS if getattr(cls, way) is not getattr(Score, way)]) != 1:
            said = " and ".join(ways) or "none of them"
            raise TypeError(f"a score says exactly one of {', '.join(WAYS)}; {cls.__name__} says {said}")
        if "scores" in cls.__dict__ and "kernel" not in cls.__dict__:
            cls.kernel = None  # a kernel computes the scores of the class it was written for
        cls.way = ways[0]

    way: ClassVar[str]
    """Which of the four it says."""

    def __repr__(self) -> str:
        return f"<score {self.name}: {self.formula}>"

    # -- what it computes: one of these --------------------------------------------------------------------------------

    def scale(self, size: int) -> float | None:
        """The number that q · k of that size is multiplied by; None where the score is no multiple of it."""
        return None

    def matrix(self, weight: Tensor | None) -> Tensor | None:
        """A (D_q, D_k) or (H, D_q, D_k), where the score is q A · k; None where it is not."""
        return None

    def prepare(self, query: Tensor, weight: Tensor | None) -> Tensor:
        """The query whose plain product with a key is the score: (B, H, T, D_q) -> (B, H, T, D_k)."""
        by = self.scale(query.shape[-1])
        if by is not None:
            return query if by == 1.0 else query * by
        matrix = self.matrix(weight)
        assert matrix is not None, f"{self.name} scores are no product"
        return query @ matrix

    def scores(self, query: Tensor, key: Tensor, weight: Tensor | None) -> Tensor:
        """The score of each query and key, as many key heads as query heads: (B, H, T, S)."""
        return self.prepare(query, weight) @ key.transpose(-2, -1)

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def is_product(self) -> bool:
        """Whether it is the plain product of a prepared query with a key, as fused kernels want it."""
        return self.way != "scores"

    @property
    def is_multiple(self) -> bool:
        """Whether it is a multiple of q · k."""
        return self.way == "scale"

    @property
    def shows_rotation(self) -> bool:
        """Whether what rotary positions turn, queries and keys, tells it their distance."""
        return self.is_multiple

    # -- what it has learned -------------------------------------------------------------------------------------------

    def weight_shape(self, query_size: int, key_size: int) -> tuple[int, ...] | None:
        """Of its weight for one head; None where there is nothing to learn."""
        return None

    def new_weight(self, heads: int, query_size: int, key_size: int, *, projected: bool) -> Tensor | None:
        """Its weight for so many heads as it begins; `projected`: queries and keys have learned projections."""
        return None

    # -- what it costs, and how large it is ----------------------------------------------------------------------------

    def prepare_flops(self, query_size: int, key_size: int) -> float:
        """Of one query, before it meets keys; a score and its share of the sum are counted elsewhere."""
        return 0.0

    def magnitude(self, query: Tensor, key: Tensor, weight: Tensor | None) -> float:
        """How large the numbers are that a score of query (T, D_q) and key (S, D_k) is the sum of: what its rounding is
        in proportion to."""
        if self.is_product:
            query = self.prepare(query, weight).abs()
            return float((query @ key.abs().mT).max())
        return float(self.scores(query[None, None], key[None, None], weight).abs().max())

    # -- what walks tell of it -----------------------------------------------------------------------------------------

    def written(
        self,
        query: Sequence[float],
        key: Sequence[float],
        weight: Any,
        number: Callable[[float], str],
        factor: Callable[[float], str],
    ) -> tuple[list[str], float] | None:
        """One query and one key in numbers: the terms of the sum (`number` writes one, `factor` one that follows a sign
        or stands in a product) and what they come to. None where walks tell the score alone; products need none."""
        return None

    # -- mistakes ------------------------------------------------------------------------------------------------------

    def check(self, query: Tensor, key: Tensor, weight: Tensor | None) -> None:
        """A one-line ValueError where the score cannot be computed from these shapes."""
        heads, of_query, of_key = query.shape[1], query.shape[-1], key.shape[-1]
        if not self.two_sizes and of_query != of_key:
            joins = _listed([one.name for one in SCORES.values() if one.two_sizes])
            raise ValueError(
                f"{self.name} needs queries and keys of one size; they have {of_query} and {of_key} ({joins} joins two "
                "sizes)"
            )
        shape = self.weight_shape(of_query, of_key)
        if shape is None:
            if weight is not None:
                having = [f"{one.name} has {one.symbol}" for one in SCORES.values() if one.symbol]
                raise ValueError(f"{self.name} has no weight; {', '.join(having)}")
            return
        found = None if weight is None else tuple(weight.shape)
        if found not in (shape, (heads, *shape)):
            what = "none was given" if found is None else f"it has shape {found}"
            raise ValueError(
                f"{self.name} needs {self.symbol} as weight, of shape {shape} or {(heads, *shape)}; {what}"
            )


class ScaledDot(Score):
    """The usual one; the size of a score does not grow with d."""

    name = "scaled-dot"
    formula = "q · k / √d"

    def scale(self, size: int) -> float:
        return float(size**-0.5)


class Dot(Score):
    """Luong et al. 2015."""

    name = "dot"
    formula = "q · k"

    def scale(self, size: int) -> float:
        return 1.0


class Bilinear(Score):
    """Queries and keys of different sizes."""

    name = "bilinear"
    formula = "qᵀ W k"
    symbol = "W"
    two_sizes = True
    linear = True

    def matrix(self, weight: Tensor | None) -> Tensor | None:
        return weight

    def weight_shape(self, query_size: int, key_size: int) -> tuple[int, ...]:
        return query_size, key_size

    def new_weight(self, heads: int, query_size: int, key_size: int, *, projected: bool) -> Tensor:
        import torch

        if projected:  # it begins as scaled dot
            return torch.eye(query_size, key_size).repeat(heads, 1, 1) * query_size**-0.5
        weight = torch.empty(heads, query_size, key_size)
        for head in weight:
            torch.nn.init.xavier_uniform_(head)
        return weight

    def prepare_flops(self, query_size: int, key_size: int) -> float:
        return 2.0 * query_size * key_size

    def magnitude(self, query: Tensor, key: Tensor, weight: Tensor | None) -> float:
        assert weight is not None
        return float((query.abs() @ weight.abs() @ key.abs().mT).max())


class Additive(Score):
    """Bahdanau et al. 2015, with q = W s and k = U h projected before."""

    name = "additive"
    formula = "v · tanh(q + k)"
    symbol = "v"
    projects = True
    linear = True
    kernel = "additive"

    def scores(self, query: Tensor, key: Tensor, weight: Tensor | None) -> Tensor:
        from torch import einsum

        assert weight is not None
        sums = (query[:, :, :, None] + key[:, :, None]).tanh()  # (B, H, T, S, D)
        return sums @ weight if weight.dim() == 1 else einsum("bhtsd,hd->bhts", sums, weight)

    def weight_shape(self, query_size: int, key_size: int) -> tuple[int, ...]:
        return (query_size,)

    def new_weight(self, heads: int, query_size: int, key_size: int, *, projected: bool) -> Tensor:
        import torch

        return torch.randn(heads, query_size) * query_size**-0.5  # scores have the size of scaled dot's

    def magnitude(self, query: Tensor, key: Tensor, weight: Tensor | None) -> float:
        assert weight is not None
        return float(weight.abs().sum())

    def written(
        self,
        query: Sequence[float],
        key: Sequence[float],
        weight: Any,
        number: Callable[[float], str],
        factor: Callable[[float], str],
    ) -> tuple[list[str], float]:
        terms = [f"{factor(v)}·tanh({number(q)} + {factor(k)})" for q, k, v in zip(query, key, weight, strict=True)]
        return terms, math.fsum(v * math.tanh(q + k) for q, k, v in zip(query, key, weight))


SCORES: dict[str, Score] = {one.name: one for one in (ScaledDot(), Dot(), Bilinear(), Additive())}
"""All that are known, by name."""
AnyScore: TypeAlias = "str | Score"


def register(score: Score) -> Score:
    """Make a score known: from now on settings, attentions and walks may name it. A name is taken once, but by the same
    class of the same file, which was read again."""
    if not isinstance(score, Score):
        raise UserError(f"{score!r} is no Score", cure="register(HalfDot()), an object of a class of yours")
    known = SCORES.get(score.name)
    if known is not None and _origin(known) != _origin(score):
        raise UserError(f"there is a score {score.name!r} already", cure="give yours another name")
    SCORES[score.name] = score
    return score


def score_named(score: AnyScore) -> Score:
    """The score of that name; a ValueError that says which are near where there is none."""
    if isinstance(score, Score):
        return score
    if score not in SCORES:
        raise ValueError(f"no score is called {score!r}; {nearest(score, SCORES)}")
    return SCORES[score]


def scores(query: Tensor, key: Tensor, score: AnyScore = "scaled-dot", weight: Tensor | None = None) -> Tensor:
    """The score of each query and key, (B, H, T, S), by the formulas above."""
    return score_named(score).scores(query, spread(key, query.shape[1]), weight)


def spread(x: Tensor, heads: int) -> Tensor:
    """Each of G key heads for the H / G query heads that share it: (B, G, S, D) -> (B, H, S, D)."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _origin(score: Score) -> tuple[str, str]:
    """The file and the name of its class."""
    made = type(score)
    return str(getattr(sys.modules.get(made.__module__), "__file__", made.__module__)), made.__qualname__


def _listed(names: list[str]) -> str:
    return " or ".join(names)
