"""A walk through one sense of a Backpack: from queries and keys to what the sense adds to the logits.

    Q, K → S = Q Kᵀ / √(dim/k) → masked → softmax → A → Z = A C, C the sense's vectors in the place of values
    o = Σ Z over all senses → logits = o Eᵀ → P

A sense is a head without a value projection and without an output projection: what it takes is said as it is. So the
walk goes on to the end, to the words that come next. The numbers are compared with the model's own: its weights with
those of the plain way (nn/sense_network.py), the sum with the fast kernel's (nn/kernels/sense_sums.py), the logits
with a run's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anaphora.decoding.beam_search import evaluating
from anaphora.errors import UserError
from anaphora.explain import segments
from anaphora.explain.attention_runs import exact
from anaphora.explain.trace import MAX_ATTENTION_BYTES
from anaphora.explain.trace_parts import AttentionMap, Check, Step, Walk, statistics
from anaphora.explain.walk import TOLERANCE, ScoresTooLarge, magnitude, walk_attention, weight_tolerance
from anaphora.explain.walk_model import (
    Asked,
    Side,
    attention_maps,
    check_cells,
    off,
    parts_of,
    rows_shown,
    same_run,
    there_are,
    up_to,
)
from anaphora.nn.scores import SCORES
from anaphora.tokenizers.token_names import token_name
from anaphora.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack

SENSES = "senses"
"""The part that only a Backpack has."""
MOST_BYTES = 1 << 30
"""Of α, all senses and places: more is not made."""
NEXT_WORD_COLUMNS = 6
"""Next words that the tables of logits have columns for."""


def look_at_senses(
    model: Backpack,
    row: Tensor,
    run: Callable[[], Tensor],
    said: Tensor,
    side: Side,
    asked: Asked,
    tokenizer: Tokenizer,
) -> tuple[list[AttentionMap], Walk, Tensor]:
    """Every attention's weights and α, the walk of the chosen sense, and the logits (T, tokens said) of the run.

    row: ids (1, T). said: the tokens that logits are of."""
    k = model.senses_count
    if asked.layer not in (None, 0):
        raise UserError(f"there is no layer {asked.layer} in {SENSES}", cure="senses are one layer: leave it out")
    if asked.head is not None and not 0 <= asked.head < k:
        raise UserError(f"there is no sense {asked.head}", cure=f"this model has {up_to('sense', k)}")
    check_cells(side, asked)
    if 4 * k * row.shape[1] ** 2 > MOST_BYTES:
        raise UserError(
            f"{row.shape[1]:,} tokens are too many for a walk through {k} senses", cure="walk through a shorter text"
        )
    with evaluating(model), torch.inference_mode(), exact():
        maps, traced = attention_maps(model, run, dict.fromkeys(parts_of(model), side))
        fast = run()
        alpha = model.sense_weights(row)[0].float().cpu()  # (k, T, T)
        query, key = (part[0].transpose(0, 1).float().cpu() for part in model.queries_and_keys(model.contextual(row)))
        senses = model.sense_vectors(row[0]).transpose(0, 1).float().cpu()  # (k, T, dim)
        mixed = model.mixed(row)[0].float().cpu()  # (T, dim)
        table = model.vocabulary_matrix.float().cpu()[said]  # (tokens said, dim)
    logits = fast[0].float().cpu()
    pick = rows_shown(side, asked.query)
    sense, why = _choose(asked, alpha[:, pick])
    walk = _walk(model, sense, query[:, pick], key, senses, side, pick)
    walk.settings["query"] = asked.query
    largest = magnitude(query[sense, pick], key[sense], SCORES["scaled-dot"], None, query.shape[-1] ** -0.5)
    grown = weight_tolerance(largest, torch.float32, "softmax")
    weights = torch.from_numpy(walk.step("A").values)
    walk.checks.append(Check("the weights are those of the plain way", off(weights, alpha[sense, pick]), grown))
    shares = torch.einsum("kij,kjd->kid", alpha[:, pick], senses)  # (k, rows, dim)
    shares[sense] = torch.from_numpy(walk.step("Z").values).float()
    _to_words(walk, sense, shares, table, said, logits[pick], mixed[pick], tokenizer)
    if maps:  # else nothing was traced
        walk.checks += same_run(traced[0].float().cpu(), logits)
    walk.title = f"Sense {sense} of every word"
    walk.name = f"{SENSES}-{sense}"
    walk.settings |= {"part": SENSES, "layer": 0, "head": sense, "module": "query_key"}
    walk.settings["chosen"] = f"sense {sense}: {why}"
    others = there_are(model)
    walk.settings["choices"] = f"{up_to('sense', k)}{f'; {others}' if others else ''}"
    return [*maps.values(), _map(model, alpha, side)], walk, logits


def alpha_map(model: Backpack, row: Tensor, side: Side) -> AttentionMap:
    """α as a trace has it: a head for each sense."""
    with evaluating(model), torch.inference_mode(), exact():
        return _map(model, model.sense_weights(row)[0].float().cpu(), side)


def word_name(tokenizer: Tokenizer, token: int) -> str:
    """A token as a heading: without the space before it; what goes on with the word before, as rows have it."""
    spelled = token_name(tokenizer, token)
    name = spelled.removeprefix("␣") or "␣"
    goes_on = tokenizer.kind in ("bpe", "unigram") and not spelled.startswith("␣") and name[:1].isalnum()
    return segments.CONTINUES + name if goes_on else name


def _map(model: Backpack, alpha: Tensor, side: Side) -> AttentionMap:
    weights, window = alpha.numpy(), model.sense_window
    found = AttentionMap(
        module="query_key",
        kind="self",
        layer=0,
        query=side.query.id,
        key=side.key.id,
        mask="causal" if window is None else "given",
        convention=side.convention,
        weights=weights,
        allowed=None if window is None else _seen(len(side.key.tokens), window).numpy(),
    )
    if found.bytes > MAX_ATTENTION_BYTES:
        found.summary, found.weights = [statistics(sense) for sense in weights], None
    return found


def _seen(length: int, window: int | None) -> Tensor:
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    return seen if window is None else seen.triu(1 - window)


def _choose(asked: Asked, alpha: Tensor) -> tuple[int, str]:
    if asked.head is not None:
        return asked.head, "as you asked"
    decided = [statistics(sense)["largest"] for sense in alpha.numpy()]
    best = max(range(len(decided)), key=decided.__getitem__)
    if asked.query is not None:
        return best, "the most decided: its largest weight is the largest here"
    return best, "the most decided: its rows' largest weights are the largest here, on average"


def _walk(model: Backpack, sense: int, query: Tensor, key: Tensor, senses: Tensor, side: Side, pick: slice) -> Walk:
    """The steps that are any attention's: query (k, rows, D) of the rows shown, key (k, T, D), senses (k, T, dim)."""
    rows = segments.labels(side.query)
    try:
        walk = walk_attention(
            query[sense],
            key[sense],
            senses[sense],
            rows=rows[pick],
            columns=rows,
            mask=_seen(len(rows), model.sense_window)[pick],
            says="Row t reads x_t: what is said after it is taken from the words up to it. The values are what this "
            "sense of each word says, wherever the word stands. Rows look, columns are looked at.",
        )
    except ScoresTooLarge as error:
        raise UserError(f"sense {sense}: {error.what}", cure="walk another sense, or train the model again") from None
    values = walk.step("V")
    values.formula, values.says = f"V = C(x)_{sense}", "the sense of each word: what is taken"
    words = segments.words(side.query)
    walk.row_words, walk.column_words, walk.first_row = words[pick], words, pick.start
    window = model.sense_window
    walk.settings |= {"mask": "causal" if window is None else f"causal, {window} places"}
    walk.settings |= {"convention": side.convention, "d_head": query.shape[-1]}
    return walk


def _to_words(
    walk: Walk,
    sense: int,
    shares: Tensor,
    table: Tensor,
    said: Tensor,
    logits: Tensor,
    mixed: Tensor,
    tokenizer: Tokenizer,
) -> None:
    """From what the senses take to the words that come next: shares (k, rows, dim), table (n, dim), logits (rows, n)
    of the tokens that are said, mixed (rows, dim)."""
    rows, own = walk.step("Z").rows, shares[sense]
    total = shares.sum(dim=0)  # (rows, dim)
    best = logits[-1].topk(min(NEXT_WORD_COLUMNS, logits.shape[1])).indices
    names = [word_name(tokenizer, int(said[column])) for column in best]
    numbered = [f"sense {number}" for number in range(len(shares))]
    dimensions = [str(number) for number in range(1, own.shape[-1] + 1)]
    added, all_of_them = own @ table[best].T, total @ table[best].T  # (rows, words)
    likely = (total @ table.T).softmax(dim=-1)[:, best]
    says = f"what this sense adds to the logits of the words that are likeliest after {rows[-1]}"
    walk.steps += [
        Step("|Z|", "", "the length of what every sense takes", rows, numbered, shares.norm(dim=-1).T),
        Step("o", "o = Σ Z", "what all senses take together", rows, dimensions, total, dimensions=True),
        Step("Z·E", f"Z Eᵀ of sense {sense}", says, rows, names, added),
        Step("o·E", "o Eᵀ", "the logits: what all senses add", rows, names, all_of_them),
        Step("P", "P = softmax(o Eᵀ)", "over all words, of which these are some", rows, names, likely, shares=True),
    ]
    rounding = TOLERANCE[torch.float32]
    walk.checks += [
        Check(
            "what all senses take adds up to what the fast kernel gave",
            off(total, mixed),
            rounding * max(1.0, float(shares.abs().max())),
        ),
        Check(
            "o Eᵀ are the run's logits",
            off(total @ table.T, logits),
            rounding * max(1.0, float((shares.abs().sum(0) @ table.abs().T).max())),
        ),
    ]
