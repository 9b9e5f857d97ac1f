"""A walk through attention: every step from queries and keys to the weighted sum, with its numbers.

    Q, K, V → S = Q Kᵀ → S / √d → + bias → masked → softmax → A → A V

`walk_attention` takes the matrices of one head, (T, D), (S, D), (S, D_v); `walk_projected` begins one step earlier,
with the vectors of the words and W_Q, W_K, W_V. The numbers are the library's (nn/scores.py,
nn/attention.py), and the last check asks one of its fast backends for the same output, or NumPy where none can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anaphora.explain import arithmetic
from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.nn.attention import attend, attention_weights
from anaphora.nn.attention_backends import Choices, Normalizer, cannot
from anaphora.nn.masks import Causal, Mask, TensorMask, Window
from anaphora.nn.positions import PositionBias
from anaphora.nn.scores import AnyScore, Score, score_named, scores

DOT = score_named("dot")
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
"""How far two orders of the same sums may be apart, of the largest number where that is above 1 (docs/attention.md)."""
ROUNDING = {torch.float64: 1e-14, torch.float32: 1e-6}
"""How far a weight may be off for each unit of the scores' size: an error in a score is one in its power."""
WEIGHTS = 1e-3
"""How far a weight may be off at most. Where scores are so large that rounding alone could do more, a walk says nothing
and is refused."""


class ScoresTooLarge(ValueError):
    """Nothing can be shown of such scores."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what}; make the numbers smaller")


Matrix = Tensor | np.ndarray | Sequence[Sequence[float]]


def walk_attention(
    query: Matrix,
    key: Matrix,
    value: Matrix,
    *,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    score: AnyScore = "scaled-dot",
    weight: Any = None,
    normalizer: Normalizer = "softmax",
    mask: Tensor | Mask | Matrix | None = None,
    causal: bool = False,
    window: int | None = None,
    bias: Any = None,
    base: float = math.e,
    scale: float | None = None,
    dimensions: Sequence[str] | None = None,
    value_dimensions: Sequence[str] | None = None,
    name: str = "attention",
    title: str = "Attention",
    says: str = "",
    vectors: bool = True,
) -> Walk:
    """Every step of one head: query (T, D), key (S, D), value (S, D_v); rows name the queries, columns the keys.

    `columns` are the rows unless given. `weight` is W of bilinear, v of additive scores. `mask` is True where a query
    may look: (T, S), or a Mask. `base` takes the place of e in softmax. `scale` is what dot products are multiplied by:
    1/√d for scaled-dot unless given, 1 for dot. `dimensions` name the columns of Q and K, `value_dimensions` those of
    V. Without `vectors`, Q, K and V are not shown as steps of their own. A ValueError says what does not fit.
    """
    score = score_named(score)
    query, key, value = (_matrix(name, x) for name, x in (("query", query), ("key", key), ("value", value)))
    rows, columns = list(rows), list(rows if columns is None else columns)
    for what, labels, tensor in (("rows", rows, query), ("columns", columns, key), ("columns", columns, value)):
        if len(labels) != len(tensor):
            raise ValueError(f"{len(labels)} {what} do not name {len(tensor)} vectors")
    if not (base > 0 and base != 1 and math.isfinite(base)):
        raise ValueError(f"softmax needs a positive base other than 1; {base} was given")
    if base != math.e and normalizer != "softmax":
        raise ValueError("a base is softmax's; with normalizer 'none' there is none")
    if scale is not None and not (math.isfinite(scale) and scale):
        raise ValueError(f"a scale is a number other than 0; {scale} was given")
    if scale is not None and not score.is_multiple:
        has = "has its own weight" if score.symbol else "is no multiple of them"
        raise ValueError(f"a scale is for dot products; {score.name} {has}")
    weight = None if weight is None else _tensor(weight, query)
    score.check(query[None, None], key[None, None], weight)
    joined = _joined(mask, causal, window, len(query), len(key))
    others = _joined(mask, False, window, len(query), len(key)) if causal else joined
    added = _bias(bias, len(query), len(key), query)
    size = query.shape[-1]
    by = scale or score.scale(size) or 1.0
    # the library is asked with the scale inside the queries, and the base too: base^s = e^(s · ln base)
    inside, plain, inside_weight = _stretched(query, score, weight, by, math.log(base))
    asked: dict[str, Any] = {"score": plain, "weight": inside_weight, "normalizer": normalizer, "mask": joined}
    asked["bias"] = None if added is None else added * math.log(base)
    weights = attention_weights(inside[None, None], key[None, None], **asked)[0, 0]  # (T, S)
    raw = scores(query[None, None], key[None, None], DOT if score.is_multiple else score, weight)[0, 0]
    largest = magnitude(query, key, score, weight, by, added) * (math.log(base) if base > 1 else -math.log(base))
    _check_size(largest, raw.dtype, normalizer)

    out = _Steps(rows, columns, query, key, value, weight, joined)
    if vectors:
        out.vectors(dimensions, value_dimensions, score)
    final = out.scores(raw, score, by, added, size)
    if joined is not None:
        out.masked(final, normalizer)
    if normalizer == "softmax":
        out.softmax(final, weights, base)
    result = weights @ value  # (T, D_v)
    out.output(weights, result, value_dimensions, normalizer)
    # causal is told, not drawn, and a rule stays one: some backends take nothing else
    rule = mask if isinstance(mask, Mask) and window is None else others
    fast, by_whom = _otherwise(inside, key, value, asked | {"mask": rule, "causal": causal}, joined)
    found = checks(weights, joined, final, normalizer, base, largest)
    allowed = max(1.0, _largest(result)) * TOLERANCE[result.dtype]
    if normalizer == "softmax":  # an error in a weight is one in the sum
        allowed = max(allowed, weight_tolerance(largest, result.dtype, normalizer) * _largest(value))
    else:
        allowed = max(allowed, TOLERANCE[result.dtype] * largest * _largest(value))
    what = f"the weights times V are what {by_whom}"
    found.append(Check(what, _largest(result.double() - fast.double()), allowed))
    settings = {
        "score": score.name,
        "normaliser": normalizer,
        "scale": by if score.is_multiple else None,
        "base": base,
        "mask": _mask_name(mask, causal, window),
        "bias": added is not None,
    }
    return Walk(name, title, says, out.steps, found, settings)


def walk_projected(
    inputs: Matrix,
    w_query: Matrix,
    w_key: Matrix,
    w_value: Matrix,
    *,
    rows: Sequence[str],
    memory: Matrix | None = None,
    columns: Sequence[str] | None = None,
    dimensions: Sequence[str] | None = None,
    **choices: Any,
) -> Walk:
    """`walk_attention` from the vectors of the words: Q = E W_Q, K = E W_K, V = E W_V, with E (T, D), W (D, D').

    With `memory` (S, D), keys and values are its (cross-attention), and `columns` name its rows. `dimensions` name the
    columns of E.
    """
    given = {"E": inputs, "W_Q": w_query, "W_K": w_key, "W_V": w_value}
    e, *projections = (_matrix(symbol, x) for symbol, x in given.items())
    m = e if memory is None else _matrix("memory", memory)
    columns = list(rows if columns is None else columns)
    read = "E" if memory is None else "M"
    for letter, symbol, x, w in zip("QKV", ("E", read, read), (e, m, m), projections):
        if x.shape[-1] != w.shape[0]:
            raise ValueError(
                f"W_{letter} must have {x.shape[-1]} rows, one for each dimension of {symbol}; it has {w.shape[0]}"
            )
    query, key, value = e @ projections[0], m @ projections[1], m @ projections[2]
    walk = walk_attention(query, key, value, rows=rows, columns=columns, **choices)
    names = _numbered(e.shape[-1]) if dimensions is None else list(dimensions)
    of_memory = names if m.shape[-1] == e.shape[-1] else _numbered(m.shape[-1])  # another width, other dimensions
    first = [Step("E", "", "a vector for each word", rows, names, e, dimensions=True)]
    if memory is not None:
        first.append(
            Step("M", "", "the memory: a vector for each word looked at", columns, of_memory, m, dimensions=True)
        )
    for letter, purpose, x, w in zip("QKV", ("queries", "keys", "values"), (e, m, m), projections):
        source, read_by = ("E", names) if letter == "Q" else (read, of_memory)
        says = f"makes {purpose} of {source}"
        first.append(Step(f"W_{letter}", "", says, read_by, _numbered(w.shape[1]), w, dimensions=True))
        for step in walk.steps:
            if step.symbol == letter:
                step.formula = f"{letter} = {source} W_{letter}"
                step.arithmetic = _product(x, w)
    walk.steps[:0] = first
    return walk


def magnitude(
    query: Tensor, key: Tensor, score: Score, weight: Tensor | None, scale: float = 1.0, bias: Tensor | None = None
) -> float:
    """How large the numbers are that a score is the sum of: 1e6 · 1e6 - 1e6 · 1e6 is 0, but rounded like 1e12."""
    asked = DOT if score.is_multiple else score
    found = asked.magnitude(query.double(), key.double(), None if weight is None else weight.double()) * abs(scale)
    return found + (0.0 if bias is None else _largest(bias))


def weight_tolerance(largest: float, dtype: torch.dtype, normalizer: str) -> float:
    """How far weights of scores of that magnitude may be off; without softmax these are the scores themselves."""
    grown = ROUNDING[dtype] * max(10.0, largest)
    return min(grown, WEIGHTS) if normalizer == "softmax" else grown


def checks(
    weights: Tensor, mask: Tensor | None, final: Tensor, normalizer: str, base: float, largest: float
) -> list[Check]:
    """What the weights (T, S) of every walk must satisfy: they follow from the last scores shown, rows sum to one,
    masked cells are zero. `largest` is the magnitude of the scores."""
    seen = torch.ones_like(weights).bool() if mask is None else mask.expand_as(weights)
    found = []
    if normalizer == "softmax":
        looks = seen.any(dim=-1)
        sums = weights.double().sum(dim=-1)[looks]
        which = "each row of weights" if bool(looks.all()) else "each row of weights that sees something"
        found.append(Check(f"{which} sums to 1", _largest(sums - 1), 1e-5))
        raised = (final.double() * math.log(base)).masked_fill(~seen, -math.inf)
        top = raised.amax(dim=-1, keepdim=True).clamp(min=-1e300)
        powers = (raised - top).exp()
        by_hand = powers / powers.sum(dim=-1, keepdim=True).clamp(min=1e-300)
        what = "softmax of the scores shown is the weights shown"
    else:
        by_hand, what = final.double().masked_fill(~seen, 0.0), "the scores, masked, are the weights"
    allowed = weight_tolerance(largest, weights.dtype, normalizer)
    found.append(Check(what, _largest(by_hand - weights.double()), allowed))
    if mask is not None:
        found.append(Check("masked cells weigh nothing", _largest(weights[~seen]), 0.0))
    return found


def _check_size(largest: float, dtype: torch.dtype, normalizer: str) -> None:
    """A ValueError where the scores are too large for their weights to mean anything."""
    if not math.isfinite(largest):
        raise ScoresTooLarge("the scores are too large to be computed")
    if normalizer == "softmax" and largest * torch.finfo(dtype).eps > WEIGHTS / 4:
        raise ScoresTooLarge(f"scores reach {largest:.1e}, where rounding decides their weights")


def _otherwise(
    query: Tensor, key: Tensor, value: Tensor, asked: dict[str, Any], joined: Tensor | None
) -> tuple[Tensor, str]:
    """The same attention, (T, D_v), in another way than by the reference that the steps show, and by which: the first
    of the library's backends that can do it, or NumPy (scores that no backend computes, additive ones
    with a bias, a mask without softmax)."""
    whole = query[None, None], key[None, None], value[None, None]
    for backend in ("sdpa", "linear", "additive"):
        if cannot(backend, Choices(**asked)) is None:
            return attend(*whole, **asked, backend=backend)[0, 0], f"attend() gives, backend {backend}"
    q, k, v = (x.detach().cpu().double().numpy() for x in (query, key, value))
    weight, bias = (None if x is None else x.detach().cpu().double().numpy() for x in (asked["weight"], asked["bias"]))
    s = _in_numpy(asked["score"], q, k, weight)  # (T, S)
    s = s if bias is None else s + bias
    seen = np.ones_like(s, dtype=bool) if joined is None else np.broadcast_to(joined.cpu().numpy(), s.shape)
    if asked["normalizer"] == "none":
        a = np.where(seen, s, 0.0)
    else:
        top = np.max(s, axis=1, keepdims=True, where=seen, initial=-1e300)
        a = np.where(seen, np.exp(np.minimum(s - top, 0.0)), 0.0)
        a = a / np.maximum(a.sum(axis=1, keepdims=True), 1e-300)
    return torch.from_numpy(a @ v), "NumPy gives"


def _stretched(
    query: Tensor, score: Score, weight: Tensor | None, scale: float, by: float
) -> tuple[Tensor, Score, Tensor | None]:
    """Query, score and weight whose scores are `by` times as large; a multiple of q · k is then `scale` · q · k."""
    if score.is_multiple:
        return query * (scale * by), DOT, None
    if weight is not None and score.linear:
        return query, score, weight * by
    if by == 1.0:
        return query, score, weight
    if not score.is_product:
        raise ValueError(f"{score.name} scores are taken to base e alone")
    return score.prepare(query, weight) * by, DOT, None


def _in_numpy(score: Score, query: np.ndarray, key: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The scores of q (T, D) and k (S, D), in another way than the library's where NumPy knows one."""
    w = None if weight is None else torch.from_numpy(weight)
    if score.is_product:
        return score.prepare(torch.from_numpy(query)[None, None], w)[0, 0].numpy() @ key.T
    learned = None if weight is None else weight.tolist()
    told = [score.written(one, other, learned, str, str) for one in query.tolist() for other in key.tolist()]
    values = [spelled[1] for spelled in told if spelled is not None]
    if len(values) == len(told):
        return np.array(values).reshape(len(query), len(key))
    asked = torch.from_numpy(query)[None, None], torch.from_numpy(key)[None, None]
    return score.scores(*asked, w)[0, 0].numpy()


class _Steps:
    """Builds the steps of one head, in order."""

    def __init__(
        self,
        rows: list[str],
        columns: list[str],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        weight: Tensor | None,
        mask: Tensor | None,
    ) -> None:
        self.rows, self.columns = rows, columns
        self.query, self.key, self.value, self.weight = query, key, value, weight
        self.mask = None if mask is None else mask.expand(len(rows), len(columns)).cpu().numpy()
        self.steps: list[Step] = []

    def pairs(
        self,
        symbol: str,
        formula: str,
        says: str,
        values: Tensor,
        tell: Callable[[int, int], list[str]],
        masked: bool,
        *,
        shares: bool = False,
    ) -> None:
        """A table with a cell for each query and key."""
        mask = self.mask if masked else None
        step = Step(symbol, formula, says, self.rows, self.columns, values, mask, shares=shares, arithmetic=tell)
        self.steps.append(step)

    def vectors(self, dimensions: Sequence[str] | None, value_dimensions: Sequence[str] | None, score: Score) -> None:
        of_query, of_key = self.query.shape[-1], self.key.shape[-1]
        names = list(dimensions) if dimensions is not None else _numbered(of_query)
        of_keys = names if of_key == of_query else _numbered(of_key)
        of_values = _numbered(self.value.shape[-1]) if value_dimensions is None else list(value_dimensions)
        add, rows, columns = self.steps.append, self.rows, self.columns
        add(Step("Q", "", "a query for each word that looks", rows, names, self.query, dimensions=True))
        add(Step("K", "", "a key for each word that can be looked at", columns, of_keys, self.key, dimensions=True))
        add(Step("V", "", "a value for each of those: what is taken", columns, of_values, self.value, dimensions=True))
        if score.symbol is not None and self.weight is not None:
            what, made = score.symbol, f"of the {score.name} score"
            if self.weight.dim() == 1:
                add(Step(what, "", f"the vector {made}", [what], names, self.weight[None], dimensions=True))
            else:
                add(Step(what, "", f"the matrix {made}", names, of_keys, self.weight, dimensions=True))

    def scores(self, raw: Tensor, score: Score, by: float, added: Tensor | None, size: int) -> Tensor:
        """The raw score, then scaled, then with its bias."""
        query, key = self.query.double(), self.key.double()
        weight = None if self.weight is None else self.weight.double()
        if not score.is_product:
            learned, name = None if weight is None else weight.tolist(), score.formula.replace(" ", "")

            def tell(r: int, c: int) -> list[str]:
                spelled = score.written(
                    query[r].tolist(), key[c].tolist(), learned, arithmetic.number, arithmetic.factor
                )
                if spelled is None:
                    return [f"{name} = {arithmetic.number(float(raw[r, c]))}"]
                return [f"{name} = " + arithmetic.summed(*spelled)]

            says = "how well each key (column) answers each query (row)"
            self.pairs("S", f"S = {score.formula}", says, raw, tell, False)
        else:
            turned, formula, left = query, "Q Kᵀ", "q·k"
            if not score.is_multiple:
                turned = score.prepare(query, weight)
                formula, left = f"Q {score.symbol} Kᵀ", f"(q{score.symbol})·k"
                if score.matrix(weight) is None:
                    formula = left = score.formula
            scaled = by != 1.0
            says = "the product of each query (row) with each key (column)"
            self.pairs(
                formula.replace(" ", "") if scaled else "S",
                "" if scaled else f"S = {formula}",
                says if scaled else "how well each key (column) answers each query (row)",
                raw,
                lambda r, c: [f"{left} = " + arithmetic.dot(turned[r].tolist(), key[c].tolist())],
                False,
            )
            if scaled:
                before, raw = raw, raw * by
                root = _divides_by_root(score) and math.isclose(by, size**-0.5)
                formula = f"S = Q Kᵀ / √{size}" if root else f"S = {_times('Q Kᵀ', by)}"
                says = "scaled, so that scores do not grow with the dimensions" if root else "scaled"
                self.pairs(
                    "S",
                    formula,
                    says,
                    raw,
                    lambda r, c: [arithmetic.scaled(float(before[r, c]), by, size if root else None)],
                    False,
                )
        if added is None:
            return raw
        plain, bias = raw, added.expand_as(raw)
        self.steps.append(Step("B", "", "the bias of each pair, to be added", self.rows, self.columns, bias))
        self.pairs(
            "S+B",
            "S + B",
            "scores with their bias",
            plain + bias,
            lambda r, c: [
                f"{arithmetic.number(float(plain[r, c]))} + {arithmetic.factor(float(bias[r, c]))} = "
                f"{arithmetic.number(float(plain[r, c] + bias[r, c]))}"
            ],
            False,
        )
        return plain + bias

    def masked(self, final: Tensor, normalizer: str) -> None:
        mask, zero = self.mask, "-∞, whose weight is 0" if normalizer == "softmax" else "0"
        assert mask is not None

        def tell(r: int, c: int) -> list[str]:
            stays = f"may be looked at: stays {arithmetic.number(float(final[r, c]))}"
            return [stays if mask[r, c] else f"may not be looked at: {zero}"]

        self.pairs("masked", "S where a query may look", "the mask takes the other scores away", final, tell, True)

    def softmax(self, final: Tensor, weights: Tensor, base: float) -> None:
        mask, raw = self.mask, final.double()

        def tell(r: int, c: int) -> list[str]:
            if mask is not None and not mask[r, c]:
                return ["0: it may not be looked at"]
            seen = [place for place in range(raw.shape[1]) if mask is None or mask[r, place]]
            return arithmetic.softmax([float(raw[r, place]) for place in seen], seen.index(c), base)

        name = "e" if base == math.e else arithmetic.number(base)
        says = f"the weights, {name}^s over its row's sum"
        self.pairs("A", "A = softmax(S)", says, weights, tell, True, shares=True)

    def output(self, weights: Tensor, result: Tensor, value_dimensions: Sequence[str] | None, normalizer: str) -> None:
        names = _numbered(result.shape[-1]) if value_dimensions is None else list(value_dimensions)
        last = self.steps[-1].symbol
        says = (
            "what each query gets: the values, weighted" if normalizer == "softmax" else "the values, times the scores"
        )
        step = Step("Z", f"Z = {last if last != 'masked' else 'S'} V", says, self.rows, names, result, dimensions=True)
        step.arithmetic = _product(weights, self.value)
        self.steps.append(step)


def _product(left: Tensor, right: Tensor) -> Callable[[int, int], list[str]]:
    """The arithmetic of a plain matrix product."""
    a, b = left.double(), right.double()
    return lambda r, c: [arithmetic.dot(a[r].tolist(), b[:, c].tolist())]


def _divides_by_root(score: Score) -> bool:
    """Whether a score is q · k / √d, whatever d is."""
    return all(score.scale(size) == size**-0.5 for size in (2, 3))


def _times(what: str, by: float) -> str:
    if 0 < abs(by) < 1 and math.isclose(1 / by, round(1 / by), rel_tol=1e-9):
        return f"{what} / {arithmetic.number(1 / by)}"
    return f"{arithmetic.number(by)} · {what}"


def _matrix(name: str, x: Any) -> Tensor:
    """(rows, size) of float32 or float64."""
    tensor = x.detach() if isinstance(x, Tensor) else torch.tensor(np.array(x, dtype=np.float64))
    tensor = tensor if tensor.dtype in TOLERANCE else tensor.float() if tensor.is_floating_point() else tensor.double()
    if tensor.dim() != 2 or 0 in tensor.shape:
        raise ValueError(f"{name} must be a matrix (words, size); it has shape {tuple(tensor.shape)}")
    return tensor


def _tensor(x: Any, like: Tensor) -> Tensor:
    return x.detach().to(like) if isinstance(x, Tensor) else torch.tensor(np.array(x, dtype=np.float64)).to(like)


def _joined(mask: Any, causal: bool, window: int | None, queries: int, keys: int) -> Tensor | None:
    """All that forbids looking, as one (T, S) tensor."""
    parts: list[Mask] = [Causal()] if causal else []
    if window is not None:
        parts.append(Window(min(window, queries + keys)))  # a wider one shows nothing more
    if isinstance(mask, Mask):
        parts.append(mask)
    elif mask is not None:
        given = mask if isinstance(mask, Tensor) else torch.tensor(np.array(mask)).bool()
        if given.shape[-2:] != (queries, keys) and given.dim() > 1:
            raise ValueError(
                f"a mask must be ({queries}, {keys}), a cell for each query and key; it has shape {tuple(given.shape)}"
            )
        parts.append(TensorMask(given))
    if not parts:
        return None
    where = torch.ones(queries, keys, dtype=torch.bool)
    for part in parts:
        part.check(1, 1, queries, keys)
        rule = part.materialize(queries, keys)
        where = where & rule.reshape(rule.shape[-2:] if rule.dim() > 1 else rule.shape).to(where.device)
    return where


def _bias(bias: Any, queries: int, keys: int, like: Tensor) -> Tensor | None:
    """(T, S)."""
    if bias is None:
        return None
    if isinstance(bias, PositionBias):
        if bias.heads != 1:
            raise ValueError(f"a walk is of one head; the bias is for {bias.heads}: give its (T, S) table")
        bias = bias.materialize(queries, keys)[0]
    tensor = _tensor(bias, like)
    if tensor.shape not in ((queries, keys), (1, keys), (queries, 1), (keys,)):
        raise ValueError(
            f"a bias must be ({queries}, {keys}), a number for each query and key; it has {tuple(tensor.shape)}"
        )
    return tensor.expand(queries, keys)


def _mask_name(mask: Any, causal: bool, window: int | None) -> str:
    names = [
        *(["causal"] if causal else []),
        *([f"window {window}"] if window else []),
        *(["given"] if mask is not None else []),
    ]
    return " and ".join(names) or "none"


def _numbered(size: int) -> list[str]:
    return [str(number) for number in range(1, size + 1)]


def _largest(x: Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0
