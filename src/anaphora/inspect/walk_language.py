"""A language model's trace: the text it reads, what it expects next, every attention's weights, and the walk of one
head; of a Backpack the walk of one sense (walk_senses.py).

Row t has read x_t and those before it, in a masked model and a classifier those behind it too: rows and columns are the
same tokens, from ⟨s⟩ on. The last row of a model that goes on with a text is the one that says the next word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from anaphora.decoding.filling import BLANK
from anaphora.errors import UserError
from anaphora.inspect import segments
from anaphora.inspect.trace import READS, Trace
from anaphora.inspect.walk_model import Asked, Side, look, parts_of
from anaphora.inspect.walk_senses import SENSES, alpha_map, look_at_senses, word_name
from anaphora.layers.capture import attention_layers
from anaphora.layers.head import VocabularyHead
from anaphora.models.language.backpack import Backpack
from anaphora.models.language.classifier import TextClassifier
from anaphora.models.language.masked import MaskedLanguageModel
from anaphora.models.language.reader import Reader
from anaphora.text.tokenizer import BOS, EOS, Tokenizer

NEXT = 3
"""Words that may come next, beside the text."""


def walk_language(model: Any, tokenizer: Tokenizer, text: str, ids: Sequence[int], asked: Asked) -> Trace:
    """The trace of a language model, a masked one or a classifier that reads `ids`, which have no marks."""
    senses = isinstance(model, Backpack)
    if not isinstance(model, Reader) or not (senses or parts_of(model)):
        raise UserError(
            "this model has no attention to walk through",
            cure="name a Transformer or a Backpack; `anaphora why` explains what a counting model expects",
        )
    if isinstance(model, Backpack) and model.emphasis is not None:
        raise UserError("a topic is no part of attention", cure="walk through the model without that patch")
    if isinstance(model, MaskedLanguageModel) and BLANK.search(text):
        raise UserError("a walk shows a text as it stands, without blanks", cure="put a word in each: `anaphora fill`")
    if not ids:
        raise UserError("there is nothing to read", cure="give a text with at least one word")
    whole = isinstance(model, MaskedLanguageModel | TextClassifier)
    read = [BOS, *ids, EOS] if whole else [BOS, *ids]
    model.check_length(len(read))
    segment = segments.segment("text", text, read, tokenizer)
    side, row = Side(segment, segment, READS), torch.tensor([read], device=model.device)
    run, said = _run(model, row)
    if isinstance(model, Backpack) and (asked.part or SENSES) == SENSES:
        maps, walk, logits = look_at_senses(model, row, run, said, side, asked, tokenizer)
    else:
        if asked.part is None:
            asked = replace(asked, part=next(iter(parts_of(model))))
        elif isinstance(model, Backpack) and asked.part not in parts_of(model):
            known = ", ".join([SENSES, *parts_of(model)])
            raise UserError(f"there is no part {asked.part!r}", cure=f"this model has {known}")
        maps, walk, logits = look(model, run, dict.fromkeys(parts_of(model), side), asked)
        if isinstance(model, Backpack):
            maps.append(alpha_map(model, row, side))
            walk.settings["choices"] = f"{SENSES} 0 to {model.senses_count - 1}; {walk.settings['choices']}"
    steps: list[dict[str, Any]] = []
    expected = ""
    if not whole:
        logs = logits.log_softmax(dim=-1)  # (T, tokens that are said)
        place = {token: column for column, token in enumerate(said.tolist())}
        for before, token in zip(logs, segment.tokens[1:]):
            if token.id in place:  # what is never said, only read, has no probability
                found = round(float(before[place[token.id]]), 6)
                steps.append({"id": token.id, "token": token.text, "logprob": found})
        best = logs[-1].topk(min(NEXT, logs.shape[1]))
        words = [word_name(tokenizer, int(said[column])) for column in best.indices]
        likely = ", ".join(f"{word} {float(value.exp()):.2g}" for word, value in zip(words, best.values))
        expected = f" → {likely}"
    walk.says = f"{text}{expected}\n{walk.says}"
    layers = list(attention_layers(model).values())
    described: dict[str, Any] = {
        "family": model.config.kind,
        "layers": {part: len(paths) for part, paths in parts_of(model).items()},
    }
    if layers:
        described |= {"heads": layers[0].heads, "d_head": layers[0].out.in_features // layers[0].heads}
    if isinstance(model, Backpack):
        described["senses"] = model.senses_count
    return Trace([walk], [segment], maps, described, steps)


def _run(model: Reader, row: Tensor) -> tuple[Callable[[], Tensor], Tensor]:
    """A function that reads the row once and answers logits (1, T, ·), and the tokens that they are of: those that a
    model never says have no finite one. Of a classifier, (1, 1, classes)."""
    lengths = torch.tensor([row.shape[1]], device=row.device)
    if isinstance(model, TextClassifier):
        return lambda: model(row, lengths)[:, None], torch.arange(len(model.labels))
    if isinstance(model, MaskedLanguageModel):
        return lambda: model(row, lengths), torch.arange(model.vocabulary)
    silent = set(cast(VocabularyHead, model.head).silent)
    said = torch.tensor([token for token in range(model.vocabulary) if token not in silent])
    if not silent:
        return lambda: model(row)[0], said
    return lambda: model(row)[0][..., said.to(row.device)], said
