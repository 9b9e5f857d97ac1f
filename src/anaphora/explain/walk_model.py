"""A walk through one head of a trained model, with the numbers of one sentence.

    fast run     the model as it always runs; hooks on the projections of one layer note what goes in and comes out
    traced run   the same with every attention captured (nn/attention_capture.py): weights in hand
    walk         q, K, scores, … from the fast run's projections, by the few lines of explain/walk.py

The three must agree, and the walk says whether they do: the traced run has the fast run's logits and tokens; the walk's
weights are the captured ones; its weighted sum is what the fast kernel gave; the shares of all heads, put through the
output projection and added, are the layer's own output.

Nothing here knows more of a model than that it holds `MultiHeadAttention` layers: `look` takes a function that runs it,
so another family needs only its texts and that function: walk_translator.py and walk_language.py have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anaphora.alignment.model_alignment import Method
from anaphora.decoding.beam_search import evaluating
from anaphora.errors import UserError, option
from anaphora.explain import segments
from anaphora.explain.attention_runs import Noted, bias_of, exact, heads_of, hearing, mask_of, noting
from anaphora.explain.selection import place
from anaphora.explain.trace import MAX_ATTENTION_BYTES
from anaphora.explain.trace_parts import PREDICTS, AttentionMap, Check, Segment, Step, Walk, statistics
from anaphora.explain.walk import TOLERANCE, ScoresTooLarge, magnitude, walk_attention, weight_tolerance
from anaphora.nn.attention import MultiHeadAttention
from anaphora.nn.attention_capture import attention_layers, capture
from anaphora.nn.source_attention import SourceAttention

MOST_CELLS = 100_000
"""Queries × keys of a walk's tables, some 300 of each: nobody follows more, one row can always be walked."""


@dataclass
class Asked:
    """What a person asked to see."""

    part: str | None = None
    layer: int | None = None
    head: int | None = None
    query: str | None = None


@dataclass
class Side:
    """The texts that one part's queries and keys stand for, and what a row means."""

    query: Segment
    key: Segment
    convention: str


# Which layer and head -----------------------------------------------------------------------------------------------


def parts_of(model: nn.Module) -> dict[str, list[str]]:
    """Paths of the attentions by part: `cross`, and for those that look at themselves the first name of their path."""
    parts: dict[str, list[str]] = {}
    for path, layer in attention_layers(model).items():
        if isinstance(layer, SourceAttention):  # a recurrent decoder's: its queries exist one after another only
            continue
        parts.setdefault("cross" if layer.cross else path.split(".")[0], []).append(path)
    return parts


def there_are(model: nn.Module) -> str:
    """What can be chosen, in words."""
    known, found = attention_layers(model), []
    for part, paths in parts_of(model).items():
        heads = max(known[path].heads for path in paths)
        found.append(f"{part} {up_to('layer', len(paths))} with {up_to('head', heads)}")
    return "; ".join(found)


def up_to(what: str, number: int) -> str:
    return f"{what} 0" if number == 1 else f"{what}s 0 to {number - 1}"


def choose_part(model: nn.Module, asked: Asked) -> str:
    parts = parts_of(model)
    if not parts:
        cure = "name a model with attention, or see `anaphora align`"
        raise UserError("this model has no attention to walk through", cure=cure)
    if asked.part is not None and asked.part not in parts:
        raise UserError(f"there is no part {asked.part!r}", cure=f"this model has {', '.join(parts)}")
    part = asked.part or ("cross" if "cross" in parts else next(iter(parts)))
    paths = parts[part]
    if asked.layer is not None and not 0 <= asked.layer < len(paths):
        raise UserError(f"there is no layer {asked.layer} in {part}", cure=f"it has {up_to('layer', len(paths))}")
    return part


def choose_head(
    model: nn.Module, part: str, asked: Asked, maps: dict[str, AttentionMap], method: Method | None
) -> tuple[int, int, str]:
    """(layer, head, why): what was asked for; for cross-attention what alignments use; else the most decided head."""
    paths = parts_of(model)[part]
    known = attention_layers(model)
    layer, head, why = asked.layer, asked.head, "as you asked"
    if layer is None and len(paths) == 1:
        layer, why = 0, "the only layer" if head is None else "the only layer, and the head you asked for"
    aligning = part == "cross" and method is not None and method.kind == "attention" and method.layer is not None
    if asked.layer is None and aligning and method is not None:
        layer, why = method.layer, "the layer that word alignments use"
        if head is None and method.head is not None:
            head, why = method.head, "the head that word alignments use"
    elif layer is None and head is not None:
        layer, why = len(paths) - 1, "the last layer, and the head you asked for"
    if head is None:
        layers = range(len(paths)) if layer is None else [layer]
        decided = {
            (number, h): _decided(maps[paths[number]], h) for number in layers for h in maps[paths[number]].heads
        }
        layer, head = max(decided, key=decided.__getitem__)
        kind = "weights" if maps[paths[layer]].normalizer == "softmax" else "scores"
        largest = f"its rows' largest {kind} are the largest here, on average"
        if len(layers) == 1:
            why = f"{why}; of its heads the most decided: {largest}"
        else:
            mean = part == "cross" and method is not None and method.kind == "attention"
            mixed = "word alignments use the mean of all heads; this one is " if mean else ""
            why = f"{mixed}the most decided: {largest}"
    assert layer is not None
    heads = known[paths[layer]].heads
    if not 0 <= head < heads:
        raise UserError(
            f"there is no head {head} in layer {layer} of {part}",
            cure=f"it has {up_to('head', heads)}",
        )
    return layer, head, why


def _decided(attention: AttentionMap, head: int) -> float:
    if attention.summary is not None:
        return attention.summary[head]["largest"]
    assert attention.weights is not None
    return statistics(attention.weights[head], attention.normalizer)["largest"]


# The two runs -------------------------------------------------------------------------------------------------------


def look(
    model: nn.Module, run: Callable[[], Tensor], sides: dict[str, Side], asked: Asked, method: Method | None = None
) -> tuple[list[AttentionMap], Walk, Tensor]:
    """Every attention's weights, the walk of the chosen head, and the logits (T, V) of the fast run.

    `run` passes one sentence through the model and answers its logits; `sides` says which texts each part compares.
    """
    part = choose_part(model, asked)
    if part not in sides:
        raise UserError(f"{part} reads no text of its own here", cure=f"choose one of {', '.join(sides)}")
    check_cells(sides[part], asked)
    known = attention_layers(model)
    with evaluating(model), torch.inference_mode(), exact():
        maps, traced = attention_maps(model, run, sides)
        layer, head, why = choose_head(model, part, asked, maps, method)
        path = parts_of(model)[part][layer]
        attention = known[path]
        with capture(model, [path], [head]) as seen:
            run()
        captured = seen.weights(path)[0, 0].float().cpu()  # (T, S)
        with noting(attention) as noted:
            fast = run()
        walk = walk_head(attention, head, noted, captured, sides[part], asked.query)
    walk.title = f"{part.capitalize()} attention, layer {layer}, head {head}"
    walk.name = f"{part}-{layer}-{head}"
    chosen = f"{part} attention, layer {layer}, head {head}: {why}"
    walk.settings |= {"part": part, "layer": layer, "head": head, "module": path, "chosen": chosen}
    walk.settings["choices"] = there_are(model)
    walk.checks += same_run(traced[0].float().cpu(), fast[0].float().cpu())
    return list(maps.values()), walk, fast[0].float().cpu()


def attention_maps(
    model: nn.Module, run: Callable[[], Tensor], sides: dict[str, Side]
) -> tuple[dict[str, AttentionMap], Tensor]:
    """Every attention's weights by its path, and the logits of the run that showed them."""
    paths = {path: name for name, group in parts_of(model).items() if name in sides for path in group}
    if not paths:
        return {}, _finite(run())
    known = attention_layers(model)
    sizes = [(known[path].heads, len(sides[p].query.tokens), len(sides[p].key.tokens)) for path, p in paths.items()]
    if 4 * sum(h * t * s for h, t, s in sizes) <= MAX_ATTENTION_BYTES:
        with capture(model, list(paths)) as seen, hearing({path: known[path] for path in paths}) as heard:
            traced = _finite(run())
        return {path: _map(path, paths, sides, known, seen.weights(path), heard[path]) for path in paths}, traced
    maps = {}  # one layer at a time, of which the statistics are kept
    for path in paths:
        with capture(model, [path]) as seen, hearing({path: known[path]}) as heard:
            traced = _finite(run())
        whole = _map(path, paths, sides, known, seen.weights(path), heard[path])
        assert whole.weights is not None
        whole.summary = [statistics(head, whole.normalizer) for head in whole.weights]
        whole.weights = None
        maps[path] = whole
    return maps, traced


def rows_shown(side: Side, asked: str | None) -> slice:
    """All rows, or the one that was asked for."""
    if asked is None:
        return slice(0, len(side.query.tokens))
    row = place(segments.labels(side.query), asked, "query", segments.words(side.query))
    return slice(row, row + 1)


def check_cells(side: Side, asked: Asked) -> None:
    """A UserError where a walk would have more cells than anybody follows."""
    cells = len(side.query.tokens) * len(side.key.tokens)
    if asked.query is None and cells > MOST_CELLS:
        raise UserError(
            f"{cells:,} pairs of tokens are more than a walk shows ({MOST_CELLS:,})",
            cure=f"walk one word: {option('query', 'WORD')}, or its number from 0",
        )


def _finite(logits: Tensor) -> Tensor:
    if not bool(logits.isfinite().all()):
        raise UserError(
            "what the model computes is no number (NaN or infinity): its weights are damaged",
            cure="take an earlier checkpoint, or train it again",
        )
    return logits


def _map(
    path: str,
    paths: dict[str, str],
    sides: dict[str, Side],
    known: dict[str, MultiHeadAttention],
    weights: Tensor,
    heard: dict[str, Any],
) -> AttentionMap:
    part = paths[path]
    side = sides[part]
    mask, rule = mask_of(heard, weights.shape[-2], weights.shape[-1])
    return AttentionMap(
        module=path,
        kind="cross" if known[path].cross else "self",
        layer=[p for p in paths if paths[p] == part].index(path),
        query=side.query.id,
        key=side.key.id,
        mask=rule,
        convention=side.convention,
        weights=weights[0].float().cpu().numpy(),
        normalizer=known[path].normalizer,
        allowed=mask.numpy() if mask is not None and rule == "given" else None,
    )


def same_run(traced: Tensor, fast: Tensor) -> list[Check]:
    """The traced run against the fast one: logits (T, V), and the token that each row finds most probable."""
    allowed = TOLERANCE[torch.float32] * max(1.0, float(fast.abs().max()))
    difference = float((traced - fast).abs().max())
    best = fast.gather(1, traced.argmax(dim=1, keepdim=True))[:, 0]
    same = fast.max(dim=1).values - best <= allowed  # what rounding decides is no difference; NaN is one
    worse = int((~same).sum())
    return [
        Check("the traced run's logits are the fast run's", difference, allowed),
        Check("both runs find the same tokens most probable", float(worse), 0.0),
    ]


# One head -----------------------------------------------------------------------------------------------------------


def walk_head(
    layer: MultiHeadAttention, head: int, noted: Noted, captured: Tensor, side: Side, asked: str | None
) -> Walk:
    """From the projections of the fast run to the layer's output, one head in full."""
    assert noted.context is not None
    assert noted.output is not None
    query, key, value, before = heads_of(layer, noted)  # (H, T, D), (G, S, D) twice
    rows, columns = segments.labels(side.query), segments.labels(side.key)
    pick = rows_shown(side, asked)
    shared = head // (layer.heads // key.shape[0])  # the key head that this query head uses
    mask, rule = mask_of(noted.called, len(rows), len(columns))
    bias = bias_of(noted.called, head, len(rows), len(columns))
    weight = layer.score_weight
    try:
        walk = walk_attention(
            query[head, pick],
            key[shared],
            value[shared],
            rows=rows[pick],
            columns=columns,
            score=layer.score,
            weight=None if weight is None else weight.detach().float().cpu()[head],
            normalizer=layer.normalizer,
            mask=None if mask is None else mask[pick],
            bias=None if bias is None else bias[pick],
            says=f"{_meaning(side)} Rows look, columns are looked at.",
        )
    except ScoresTooLarge as error:
        raise UserError(f"head {head}: {error.what}", cure="walk another head, or train the model again") from None
    walk.row_words, walk.column_words = segments.words(side.query)[pick], segments.words(side.key)
    walk.first_row = pick.start
    walk.settings |= {"mask": rule, "convention": side.convention, "d_head": query.shape[-1], "query": asked}
    if before is not None:
        _turned(walk, before, head, shared, pick)
    weights = torch.from_numpy((walk.steps[-2] if layer.normalizer == "none" else walk.step("A")).values)
    size = query.shape[-1]
    scale = layer.score.scale(size) or 1.0
    vector = None if weight is None else weight.detach().float().cpu()[head]
    largest = magnitude(query[head, pick], key[shared], layer.score, vector, scale, bias)
    grown = weight_tolerance(largest, torch.float32, layer.normalizer)
    walk.checks.append(Check("the weights are those that the traced run captured", off(weights, captured[pick]), grown))
    own = noted.context[pick, head * size : (head + 1) * size]
    result = torch.from_numpy(walk.step("Z").values)
    walk.checks.append(
        Check(
            "the weighted sum is what the fast run's kernel gave",
            off(result, own),
            grown * max(1.0, float(own.abs().max())),
        )
    )
    _shares(walk, layer, head, noted, pick, rows[pick])
    return walk


def _turned(walk: Walk, before: tuple[Tensor, Tensor], head: int, shared: int, pick: slice) -> None:
    """Two steps in front of Q and K: what they were before their places turned them."""
    for symbol, raw in (("Q", before[0][head, pick]), ("K", before[1][shared])):
        step = walk.step(symbol)
        says = f"{'queries' if symbol == 'Q' else 'keys'} before rotary positions"
        first = Step(f"{symbol}₀", "", says, step.rows, step.columns, raw, dimensions=True)
        walk.steps.insert(walk.steps.index(step), first)
        step.formula = f"{symbol} = {symbol}₀, each pair of dimensions turned by its place"
        lengths = torch.from_numpy(step.values).norm(dim=-1) - raw.double().norm(dim=-1)
        what = f"turning leaves the lengths of {symbol} as they were"
        walk.checks.append(Check(what, float(lengths.abs().max()), 1e-4 * max(1.0, float(raw.norm(dim=-1).max()))))


def _shares(walk: Walk, layer: MultiHeadAttention, head: int, noted: Noted, pick: slice, rows: Sequence[str]) -> None:
    """What each head adds to the layer's output: out = Σ_h Z_h W_O^h + b."""
    assert noted.context is not None
    assert noted.output is not None
    size = layer.out.in_features // layer.heads
    contexts = noted.context[pick].unflatten(-1, (layer.heads, size))  # (T, H, D)
    mixing = layer.out.weight.detach().float().cpu().unflatten(1, (layer.heads, size))  # (dim, H, D)
    shares = torch.einsum("thd,ohd->hto", contexts, mixing)  # (H, T, dim)
    own = torch.from_numpy(walk.step("Z").values).float() @ mixing[:, head].T  # from the walk's own Z
    shares[head] = own
    bias = layer.out.bias.detach().float().cpu()
    names = [str(number) for number in range(1, own.shape[-1] + 1)]
    lengths = torch.cat([shares.norm(dim=-1).T, bias.norm().expand(len(rows), 1)], dim=1)  # (T, H + 1)
    columns = [*(f"head {number}" for number in range(layer.heads)), "b"]
    answer, what = noted.output[pick], "all heads' shares and b add up to the fast run's layer output"
    walk.steps += [
        Step("O", f"O = Z W_O of head {head}", "what this head adds to the output", rows, names, own, dimensions=True),
        Step("|O|", "", "how long every head's share is, and the bias b", rows, columns, lengths),
        Step("out", "out = Σ O + b", "the layer's output", rows, names, shares.sum(dim=0) + bias, dimensions=True),
    ]
    allowed = TOLERANCE[torch.float32] * max(1.0, float(answer.abs().max()))
    walk.checks.append(Check(what, off(shares.sum(dim=0) + bias, answer), allowed))


def _meaning(side: Side) -> str:
    if side.convention == PREDICTS:
        return "Row t predicts y_t: a row is named by the token that its step says next, having read those before it."
    return "Row t reads x_t: a row is named by the token that stands there."


def off(one: Tensor, other: Tensor) -> float:
    """How far two tables are apart at most."""
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0
