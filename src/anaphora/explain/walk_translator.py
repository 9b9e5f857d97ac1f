"""A translator's trace: what it reads and says for one pair, every attention's weights, and the walk of one head."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anaphora.alignment.model_alignment import Method
from anaphora.errors import UserError, option
from anaphora.explain import segments
from anaphora.explain.trace import Trace
from anaphora.explain.trace_parts import PREDICTS, READS, Check
from anaphora.explain.walk_model import Asked, Side, look, parts_of
from anaphora.models.contracts import Translator
from anaphora.nn.attention_capture import attention_layers
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer

STEP_SUM_TOLERANCE = 1e-2
"""How far the log-probability of a whole translation may be from the sum that the search found, step by step."""


def walk_translator(
    model: Translator,
    tokenizers: tuple[Tokenizer, Tokenizer],
    texts: tuple[str, str],
    ids: tuple[Sequence[int], Sequence[int]],
    asked: Asked,
    *,
    method: Method | None = None,
    said: float | None = None,
    finished: bool = True,
) -> Trace:
    """The trace of a translator that reads `ids[0]` and says `ids[1]`, neither with marks.

    `method`: how this model's words are aligned. `said`: the log-probability that the search gave the target, where
    the model said it itself; `finished`: whether it ended there by itself, so that this counts the end mark.
    """
    read, spoken = [*ids[0], EOS], [*ids[1], EOS]
    if not ids[0]:
        raise UserError("there is nothing to read", cure="give a sentence with at least one word")
    for name, side, limit in (("source", read, model.max_source_length), ("target", spoken, model.max_target_length)):
        if len(side) > limit:
            shorter = "shorten it" if name == "source" or said is None else f"give a shorter one: {option('target')}"
            raise UserError(f"the {name} has {len(side):,} tokens; the model takes {limit:,}", cure=shorter)
    source = segments.segment("src", texts[0], read, tokenizers[0])
    target = segments.segment("tgt", texts[1], spoken, tokenizers[1])
    begun = segments.segment("tgt_in", texts[1], [BOS, *ids[1]], tokenizers[1])
    sides = {
        "encoder": Side(source, source, READS),
        "decoder": Side(target, begun, PREDICTS),
        "cross": Side(target, source, PREDICTS),
    }
    device = next(model.parameters()).device
    reading, lengths = torch.tensor([read], device=device), torch.tensor([len(read)], device=device)
    saying = torch.tensor([[BOS, *ids[1]]], device=device)
    maps, walk, logits = look(model, lambda: model(reading, saying, lengths), sides, asked, method)
    walk.says = f"{texts[0]} → {texts[1]}\n{walk.says}"
    probabilities = logits.log_softmax(dim=-1).gather(1, torch.tensor(spoken)[:, None])[:, 0]  # (T,)
    if said is not None:
        counted = probabilities if finished else probabilities[:-1]
        difference = abs(float(counted.double().sum()) - said)
        walk.checks.append(
            Check("one pass finds the translation as probable as the search did", difference, STEP_SUM_TOLERANCE)
        )
    steps = [
        {"id": token.id, "token": token.text, "logprob": round(float(value), 6)}
        for token, value in zip(target.tokens, probabilities)
    ]
    known = list(attention_layers(model).values())
    described = {
        "family": "encdec",
        "layers": {part: len(paths) for part, paths in parts_of(model).items()},
        "heads": known[0].heads,
        "d_head": known[0].out.in_features // known[0].heads,
    }
    return Trace([walk], [source, begun, target], maps, described, steps)
