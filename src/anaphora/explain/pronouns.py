"""How unevenly a model expects two words: *he* or *she* after *The nurse said that*.

The measure is that of Hewitt et al. (2023): the mean over prompts of max(p(a)/p(b), p(b)/p(a)), which is 1 where both
are equally expected after every prompt, and 3 where one of them is three times as likely, whichever it is. Any pair of
words can be asked about, and any language model.

`even` makes a patch that brings it nearer to one. It finds the sense by which the given words tell the pair apart most,
C(x)_ℓ · (E[a] - E[b]), and tries, for the best few senses and for all, to project that difference out of it, to remove
it, or to project it out and add a counterweight to what the rest of the text says; what was best on one half of the
words and prompts is taken, the gentlest of nearly equal ones, and measured on the other half, which had no say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anaphora.errors import UserError, option
from anaphora.models.backpack.patch import ALL, LARGEST, Add, Operation, ProjectOut, Remove, Senses
from anaphora.models.backpack.patched import WordLookup, apply
from anaphora.models.backpack.topic import knows
from anaphora.models.contracts import LanguageModel
from anaphora.results import brief, count
from anaphora.tokenizers.tokenizer import BOS

if TYPE_CHECKING:
    from anaphora.decoding.text_scoring import Encoder
    from anaphora.models.backpack.backpack import Backpack

PAIR = ("he", "she")
PROFESSIONS = tuple(
    word
    for line in """
    nurse doctor teacher engineer secretary lawyer farmer soldier dancer scientist cook judge librarian driver singer
    captain writer mechanic actor carpenter artist manager student officer painter guard poet clerk baker pilot
    """.splitlines()
    for word in line.split()
)
"""Those of which text says *she* more often, and *he*, in turns: both halves have of both."""
PROMPTS = (
    "The {} said that",
    "The {} believed that",
    "The {} was tired because",
    "When the {} came home,",
    "My friend is a {}, and",
    "The {} was known for what",
)
CANDIDATE_SENSES = 3
"""Senses that are tried one by one, those that tell the pair apart most."""
SIMILAR_EFFECT_SHARE = 0.9
"""Of two operations, one that does this share of what the other does, and is gentler, is taken."""
BATCH_PROMPTS = 256
NAMED = 8
"""Words that a message names."""


@dataclass(frozen=True)
class Evenness:
    """How unevenly a model expects a pair of words after some prompts."""

    ratio: float
    """Mean of max(p(a)/p(b), p(b)/p(a)); 1 is even."""
    towards: float
    """Share of the prompts after which the first of the pair is the likelier."""
    prompts: int

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {"ratio": self.ratio, "towards_first": self.towards, "prompts": self.prompts}


@dataclass(frozen=True)
class Evened:
    """What `even` found."""

    pair: tuple[str, str]
    """The two words."""
    operations: tuple[Operation, ...]
    """None where nothing that was tried helps."""
    telling: tuple[float, ...]
    """Of each sense: the mean over the words of |C(x)_ℓ · (E[a] - E[b])|."""
    chosen_before: Evenness
    chosen_after: Evenness
    """On the half by which the operation was chosen."""
    held_before: Evenness
    held_after: Evenness
    """On the other half."""
    left_out: tuple[str, ...] = ()
    """Words that are no single token."""

    def __repr__(self) -> str:
        ratios = f"ratio {self.held_before.ratio:.3g} → {self.held_after.ratio:.3g} where it was not chosen"
        return brief("Evened", " / ".join(self.pair), ratios, count(len(self.operations), "operation"))


def parted(several: Sequence[str]) -> tuple[list[str], list[str]]:
    """Two halves, taken as a, b, b, a, …: what comes in turns stands in both."""
    own = [one for place, one in enumerate(several) if place % 4 in (0, 3)]
    return own, [one for place, one in enumerate(several) if place % 4 in (1, 2)]


def prompts_for(words: Sequence[str], templates: Sequence[str]) -> list[str]:
    """Every template with every word in its place."""
    for template in templates:
        if (places := template.count("{}")) != 1:
            what = f"has {places} places for a word, and one is needed" if places else "has no place for a word"
            raise UserError(f"the prompt {template!r} {what}", cure="write {} where the word belongs, once")
    return [template.replace("{}", word) for word in words for template in templates]


@torch.no_grad()
def log_ratios(model: LanguageModel, prompts: Sequence[Sequence[int]], pair: tuple[int, int]) -> Tensor:
    """log p(a) - log p(b) after each prompt (ids without ⟨s⟩): (n,) float64."""
    found = []
    for begin in range(0, len(prompts), BATCH_PROMPTS):
        rows = [[BOS, *ids] for ids in prompts[begin : begin + BATCH_PROMPTS]]
        lengths = torch.tensor([len(row) for row in rows], device=model.device)
        padded = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long, device=model.device)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = torch.tensor(row, device=model.device)
        state = model.read(padded, lengths - 1, padded.shape[1])  # the last is fed below, and answers
        last = padded.gather(1, lengths[:, None] - 1)[:, 0]
        logs, _ = model.step(last, state)
        found.append((logs[:, pair[0]].double() - logs[:, pair[1]].double()).cpu())
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


def evenness(model: LanguageModel, prompts: Sequence[Sequence[int]], pair: tuple[int, int]) -> Evenness:
    """How unevenly the model expects the pair after these prompts."""
    if not prompts:
        raise UserError("there is no prompt to measure on", cure="give at least two words, and two prompts")
    logs = log_ratios(model, prompts, pair)
    return Evenness(float(logs.abs().exp().mean()), float((logs > 0).double().mean()), len(prompts))


def even(
    model: Backpack,
    lookup: WordLookup,
    encode: Encoder,
    *,
    pair: tuple[str, str] = PAIR,
    words: Sequence[str] = (),
    templates: Sequence[str] = PROMPTS,
) -> Evened:
    """Find the operation on the senses of `words` that makes the pair most evenly expected, on one half of them."""
    first, second = (_one_token(lookup, word) for word in pair)
    words, templates = list(dict.fromkeys(words)), list(dict.fromkeys(templates))  # equal ones would be in both halves
    known: list[str] = []
    left_out: list[str] = []
    for word in words or PROFESSIONS:
        (known if knows(word, lookup) else left_out).append(word)
    if words and left_out:
        lookup(left_out[0])  # says what is wrong with it
        is_no = "is no single token" if len(left_out) == 1 else "are no single tokens"
        raise UserError(
            f"{_named(left_out)} {is_no} of this model", cure="name words that are, or write a patch by hand"
        )
    if len(known) < 2 or len(templates) < 2:
        missing = f"; no tokens of this model are {_named(left_out)}" if left_out and len(known) < 2 else ""
        raise UserError(
            f"{len(known)} word{'' if len(known) == 1 else 's'} and {len(templates)} prompt"
            f"{'' if len(templates) == 1 else 's'} are too few: half of each is held out{missing}",
            cure=f"give at least two words that the vocabulary has ({option('words')}) and two different prompts",
        )
    halves = [prompts_for(parted(known)[half], parted(templates)[half]) for half in (0, 1)]
    chosen, held = ([ids[:-1] for ids in _rows(encode, lines)] for lines in halves)
    both = (first, second)
    telling = tells_apart(model, [lookup(word).chief[0] for word in parted(known)[0]], both)
    before = evenness(model, chosen, both)
    most = telling.argsort(descending=True)[:CANDIDATE_SENSES].tolist()
    choices: list[Senses] = [*((one,) for one in most), tuple(sorted(most))]
    out = ProjectOut(words=tuple(known), direction=pair)
    # The gentlest first: a projection leaves all that a sense says otherwise, a sense that is removed says nothing, and
    # an amount that is added speaks against what the rest of the text says; no word is made to say nothing at all.
    tried: list[tuple[Operation, ...]] = [
        *((dataclasses.replace(out, senses=senses),) for senses in (*choices, ALL)),
        *((Remove(words=tuple(known), senses=senses),) for senses in choices if len(senses) < model.senses_count),
        (out, _counterweight(model, lookup, out, chosen, both)),
    ]
    ratios = [evenness(apply(model, operations, lookup), chosen, both).ratio for operations in tried]
    enough = before.ratio - SIMILAR_EFFECT_SHARE * (before.ratio - min(ratios))
    helps = [operations for operations, ratio in zip(tried, ratios) if ratio <= enough and ratio < before.ratio]
    found = helps[0] if helps else ()
    after = apply(model, found, lookup)
    return Evened(
        pair,
        found,
        tuple(telling.tolist()),
        before,
        evenness(after, chosen, both),
        evenness(model, held, both),
        evenness(after, held, both),
        tuple(left_out),
    )


def _counterweight(
    model: Backpack, lookup: WordLookup, out: ProjectOut, prompts: Sequence[Sequence[int]], pair: tuple[int, int]
) -> Add:
    """What, added to the same senses after the projection, makes the pair most even: a text favors one of the two
    whatever the word. Weights do not depend on senses, so log p(a)/p(b) is a straight line of the amount after each
    prompt; two points of it say all, and the mean of the ratios has one minimum."""
    add = Add(words=out.words, senses=out.senses, direction=out.direction, by=1.0)
    level, raised = (log_ratios(apply(model, several, lookup), prompts, pair) for several in ([out], [out, add]))
    slope = raised - level

    def ratio(by: float) -> float:
        return float((level + by * slope).abs().exp().mean())

    reach = min(2.0 * float(level.abs().max()) / max(float(slope.abs().mean()), 1e-9), LARGEST)
    low, high = -reach, reach
    for _ in range(100):  # a convex function, thirded
        third = (high - low) / 3
        low, high = (low, high - third) if ratio(low + third) < ratio(high - third) else (low + third, high)
    return dataclasses.replace(add, by=round((low + high) / 2, 6))


@torch.no_grad()
def tells_apart(model: Backpack, tokens: Sequence[int], pair: tuple[int, int]) -> Tensor:
    """By how much each sense of these words speaks for one of the pair rather than the other, on average: (k,)."""
    table = model.vocabulary_matrix.float()
    between = table[pair[0]] - table[pair[1]]
    senses = model.sense_vectors(torch.tensor(list(tokens), device=table.device)).float()  # (n, k, d)
    return (senses @ between).abs().mean(dim=0)


def _one_token(lookup: WordLookup, word: str) -> int:
    found = lookup(word)
    if not found.forms:
        raise UserError(f"{word!r} is no single token of this model", cure="name a pair of words that it has")
    return found.forms[0]


def _named(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:NAMED])) + (f" and {len(words) - NAMED} more" if len(words) > NAMED else "")


def _rows(encode: Encoder, lines: Sequence[str]) -> list[list[int]]:
    ids, starts = encode(lines)
    return [ids[begin:end].tolist() for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist())]
