"""`anaphora score`: how probable is a given translation, or a text?"""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.cli.arguments import TextFiles, count, read_pairs, read_text, takes_text, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet


def score(
    model: Annotated[Path, typer.Argument(help="Model or run folder; of a language model, also an ARPA file.")],
    source: Annotated[list[str] | None, typer.Option(help="Text in the source language.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    text: TextFiles = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="With --text: line, token, log-probability, order of the n-gram.")
    ] = False,
    stride: Annotated[int | None, typer.Option(help="With --text: tokens by which a model's window moves.")] = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score given translations, or text: log-probability, tokens and perplexity of each line, separated by tabs.

    Logarithms are natural; the end of a line counts as a token.
    Totals go to stderr: with --text also bits per byte.

    anaphora score runs/en-de --source test.en --target test.de

    anaphora score runs/plays --text test.txt

    echo 'to be or not' | anaphora score model.arpa.gz --text - --tokens
    """
    out = Output(as_json=json, quiet=quiet)
    if takes_text(model, text, source, target):
        _score_text(out, model, text or [], device, tokens=tokens, stride=stride)
        return
    if tokens or stride is not None:
        from anaphora.errors import UserError

        cure = "--json shows every token" if tokens else "leave it out"
        raise UserError(f"--{'tokens' if tokens else 'stride'} is about --text, and this is a translator", cure=cure)
    from anaphora import api

    notes: Counter[str] = Counter()
    sources, targets = read_pairs(source, target, notes)
    warn_of_notes(out, notes)
    loaded = api.load_translator(model, device)
    documents, total, size, unscored = [], 0.0, 0, 0
    with out.bar("scoring", len(sources)) as bar:
        for pair in loaded.score(sources, targets, progress=bar):
            out.result(f"{pair.log_probability:.4f}\t{len(pair.token_scores)}\t{pair.perplexity:.4f}")
            if pair.problem is None:
                total += pair.log_probability
                size += len(pair.token_scores)
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
    loss = -total / size if size else math.nan
    out.say(f"{len(documents)} pairs, {size} tokens: loss {loss:.4f}, perplexity {math.exp(min(loss, 700)):.3f}")
    if unscored:
        out.say(f"{unscored} pairs were too long to be scored (nan)")
    out.finish({"model": str(model), "pairs": documents, "loss": loss, "tokens": size, "unscored": unscored})


def _score_text(out: Output, model: Path, text: list[str], device: str, *, tokens: bool, stride: int | None) -> None:
    from anaphora import api
    from anaphora.decoding.language import PSEUDO, WINDOW
    from anaphora.evaluation.language import bits_per_byte, note_on_unknown, perplexity, text_bytes
    from anaphora.inspect.why import token_name

    loaded = api.load_text_model(model, device)
    notes: Counter[str] = Counter()
    documents: list[dict[str, Any]] = []
    parts: list[float] = []
    lines = dropped = size = unknown = total_bytes = 0
    names: dict[int, str] = {}
    interactive = "-" in text and sys.stdin.isatty()
    with out.bar("scoring") as bar:
        # somebody who types sees each answer before the next line; otherwise lines are scored by thousands
        ahead = 1 if interactive else WINDOW
        scored = loaded.score(read_text(text, notes), stride=stride, progress=bar, window=ahead)
        for number, line in enumerate(scored, start=1):
            if not line.tokens:  # a blank line that this model leaves out
                dropped += 1
            else:
                lines, size, unknown = lines + 1, size + len(line.tokens), unknown + line.unknown
                total_bytes += text_bytes([line.text])
                parts.append(line.log_probability)
            if out.as_json:
                documents.append(_document(line, tokens=tokens))
            elif tokens:
                for place, (id, value) in enumerate(zip(line.token_ids, line.token_scores)):
                    name = names.get(id) or names.setdefault(id, token_name(loaded.tokenizer, id))
                    order = "" if line.orders is None else f"\t{line.orders[place]}"
                    print(f"{number}\t{name}\t{value:.4f}{order}", flush=interactive)
            else:
                print(f"{line.log_probability:.4f}\t{len(line.tokens)}\t{line.perplexity:.4f}", flush=interactive)
    warn_of_notes(out, notes)
    total = math.fsum(parts)
    found = {
        "lines": lines,
        "dropped_lines": dropped,
        "tokens": size,
        "unknown_tokens": unknown,
        "bytes": total_bytes,
        "log_probability": total,
        "perplexity": perplexity(total, size),
        "bits_per_byte": bits_per_byte(total, total_bytes),
        "note": note_on_unknown(unknown, size) or (PSEUDO if "masked" in loaded.model.capabilities else None),
    }
    if not lines:
        out.say(f"warning: {', '.join(text)}: there is nothing to score")
    else:
        out.say(
            f"{count(lines, 'line', 'lines')}, {count(size, 'token', 'tokens')} with end marks, {unknown:,} unknown, "
            f"{total_bytes:,} bytes"
        )
        out.say(f"log P {total:.3f}, perplexity {found['perplexity']:.3f}, {found['bits_per_byte']:.4f} bits per byte")
        if found["note"]:
            out.say(f"note: {found['note']}")
    out.finish({"model": str(model), **found, "scores": documents})


def _document(line: Any, *, tokens: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "text": line.text,
        "log_probability": line.log_probability,
        "tokens": len(line.tokens),
        "perplexity": line.perplexity,
        "unknown": line.unknown,
    }
    if tokens:
        orders = line.orders or [None] * len(line.tokens)
        document["token_scores"] = [
            {"token": token, "log_probability": value, "order": order}
            for token, value, order in zip(line.tokens, line.token_scores, orders)
        ]
    return document
