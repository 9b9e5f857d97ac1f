"""A language model's trace: the text it reads, what it expects next, every attention's weights, and the walk of one
head; of a Backpack the walk of one sense (walk_senses.py).

Rows and columns are the same tokens, from ⟨s⟩ on, and row t has read x_t: with all before it, in a model that sees both
sides with all behind it too. The last row of a model that goes on with a text is the one that says the next word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from anaphora.decoding.hidden_words import blank_of
from anaphora.errors import UserError
from anaphora.explain import segments
from anaphora.explain.draw.terminal import visible
from anaphora.explain.selection import place
from anaphora.explain.trace import Trace
from anaphora.explain.trace_parts import READS, AttentionMap, Segment, Walk
from anaphora.explain.walk_model import Asked, Side, look, parts_of
from anaphora.explain.walk_senses import SENSES, alpha_map, look_at_senses, word_name
from anaphora.models.language.reader import Reader
from anaphora.nn.attention_capture import attention_layers
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack

NEXT = 3
"""Words that may come next, or classes, beside the text."""


def walk_language(model: Reader, tokenizer: Tokenizer, text: str, ids: Sequence[int], asked: Asked) -> Trace:
    """The trace of a language model, a masked one or a classifier that reads `ids`: the tokens of the text without ⟨s⟩
    and without the last ⟨/s⟩."""
    masked, whole = "masked" in model.capabilities, "causal" not in model.capabilities
    if masked and blank_of(tokenizer).search(text):
        raise UserError("a walk shows a text as it stands, without blanks", cure="fill them in first: `anaphora fill`")
    if not text.strip():
        raise UserError("there is nothing to read", cure="give a text with at least one word")
    read = [BOS, *ids, EOS] if whole else [BOS, *ids]
    model.check_length(len(read))
    segment = segments.segment("text", text, read, tokenizer)
    named = asked.query
    if named is not None:  # what is not there is said before anything is computed
        asked = replace(asked, query=f"#{row_of(segment, named)}")
    row = torch.tensor([read], device=model.device)
    said = model.answers()
    maps, walk, logits = _look(model, tokenizer, row, said, Side(segment, segment, READS), asked)
    if named is not None:
        walk.settings["query"] = named
    steps: list[dict[str, Any]] = []
    if not whole:
        logs = logits.log_softmax(dim=-1)  # (T, tokens that are said)
        column = {token: number for number, token in enumerate(said.tolist())}
        for before, token in zip(logs, segment.tokens[1:]):
            if token.id in column:  # what is never said, only read, has no probability
                found = round(float(before[column[token.id]]), 6)
                steps.append({"id": token.id, "token": token.text, "logprob": found})
    heading = visible(text.replace("\n", "↵"))
    if not masked:
        heading += _expected(model, tokenizer, segment, walk, logits, said, named)
    walk.says = f"{heading}\n{walk.says}"
    return Trace([walk], [segment], maps, _described(model), steps)


def row_of(segment: Segment, asked: str) -> int:
    """The row that a person means: as `place` has it, and of a word in pieces the last, after which the next word is
    said."""
    pieces = [number for number, word in enumerate(segments.words(segment)) if word == asked]
    belonging = {segment.tokens[number].word for number in pieces}
    if len(pieces) > 1 and len(belonging) == 1 and asked not in segments.labels(segment):
        return pieces[-1]
    return place(segments.labels(segment), asked, "query", segments.words(segment))


def _look(
    model: Reader,
    tokenizer: Tokenizer,
    row: Tensor,
    said: Tensor,
    side: Side,
    asked: Asked,
) -> tuple[list[AttentionMap], Walk, Tensor]:
    """One sense of a Backpack, unless another part is asked for, or one head."""
    parts = parts_of(model)

    def run() -> Tensor:
        return model.answer(row)

    if not model.senses_count:
        return look(model, run, dict.fromkeys(parts, side), asked)
    model = cast("Backpack", model)
    if (asked.part or SENSES) == SENSES:
        if model.emphasis is not None:
            raise UserError(
                "a patch with a topic changes α itself: there is no softmax to walk through",
                cure="leave that patch out, or see `anaphora why`",
            )
        return look_at_senses(model, row, run, said, side, asked, tokenizer)
    if asked.part not in parts:
        raise UserError(f"there is no part {asked.part!r}", cure=f"this model has {', '.join([SENSES, *parts])}")
    maps, walk, logits = look(model, run, dict.fromkeys(parts, side), asked)
    if model.emphasis is None:
        maps.append(alpha_map(model, row, side))
    walk.settings["choices"] = f"{SENSES} 0 to {model.senses_count - 1}; {walk.settings['choices']}"
    return maps, walk, logits


def _expected(
    model: Reader,
    tokenizer: Tokenizer,
    segment: Segment,
    walk: Walk,
    logits: Tensor,
    said: Tensor,
    named: str | None,
) -> str:
    """What stands behind the text: the classes of a classifier, the words that a model expects at the row shown, or at
    the end."""
    labels = model.config.labels
    at = walk.first_row if named is not None and not labels else -1
    best = logits[at].softmax(dim=-1).topk(min(NEXT, logits.shape[1]))
    names = [labels[n] if labels else word_name(tokenizer, int(said[n])) for n in best.indices.tolist()]
    likely = ", ".join(f"{visible(name)} {value:.2g}" for name, value in zip(names, best.values.tolist()))
    where = "" if at == -1 else f", after {segments.labels(segment)[at]}"
    return f"{where} → {likely}"


def _described(model: Reader) -> dict[str, Any]:
    layers = list(attention_layers(model).values())
    found: dict[str, Any] = {
        "family": model.config.kind,
        "layers": {part: len(paths) for part, paths in parts_of(model).items()},
    }
    if layers:
        found |= {"heads": layers[0].heads, "d_head": layers[0].out.in_features // layers[0].heads}
    if model.senses_count:
        found["senses"] = model.senses_count
    if model.config.labels:
        found["labels"] = list(model.config.labels)
    return found
