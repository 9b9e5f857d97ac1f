"""`anaphora score`: how probable is a given translation?"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.arguments import read_pairs, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet


def score(
    model: Annotated[Path, typer.Argument(help="Model or run folder.")],
    source: Annotated[list[str] | None, typer.Option(help="Text in the source language.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score given translations: log-probability, tokens and perplexity of each line, separated by tabs."""
    from anaphora import api

    out = Output(as_json=json, quiet=quiet)
    notes: Counter[str] = Counter()
    sources, targets = read_pairs(source, target, notes)
    warn_of_notes(out, notes)
    loaded = api.load(model, device)
    documents, total, tokens, unscored = [], 0.0, 0, 0
    with out.bar("scoring", len(sources)) as bar:
        for pair in loaded.score(sources, targets, progress=bar):
            out.result(f"{pair.log_probability:.4f}\t{len(pair.token_scores)}\t{pair.perplexity:.4f}")
            if pair.problem is None:
                total += pair.log_probability
                tokens += len(pair.token_scores)
            else:
                unscored += 1
            documents.append(
                {
                    "log_probability": pair.log_probability,
                    "tokens": [{"token": t, "log_probability": value} for t, value in pair.token_scores],
                    "perplexity": pair.perplexity,
                    "problem": pair.problem,
                }
            )
    loss = -total / tokens if tokens else math.nan
    out.say(f"{len(documents)} pairs, {tokens} tokens: loss {loss:.4f}, perplexity {math.exp(min(loss, 700)):.3f}")
    if unscored:
        out.say(f"{unscored} pairs were too long to be scored (nan)")
    out.finish({"model": str(model), "pairs": documents, "loss": loss, "tokens": tokens, "unscored": unscored})
