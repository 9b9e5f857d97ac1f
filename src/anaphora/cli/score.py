"""`anaphora score`: how probable is a given translation, or a text?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import (
    Log10,
    Patches,
    TextFiles,
    With,
    open_text_model,
    read_pairs,
    read_text,
    reads_terminal,
    takes_text,
    warn_of_notes,
)
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.decoding.text_scoring import ScoredLine
    from anaphora.tokenizers.token_names import ShownToken


def score(
    model: Annotated[Path, typer.Argument(help="Model or run folder, or an ARPA file.")],
    source: Annotated[list[str] | None, typer.Option(help="Text in the source language.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    with_: With = None,
    text: TextFiles = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print line, token, log-probability and n-gram order of each token.")
    ] = False,
    stride: Annotated[int | None, typer.Option(help="With --text: tokens by which the model's window moves.")] = None,
    log10: Log10 = False,
    patch: Patches = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score given translations, or text: log-probability, tokens and perplexity of each line, separated by tabs.

    Logarithms are natural; the end of a line counts as a token. With --text a fourth column counts the unknown words of
    the line, and --tokens names them: ⟨unk⟩ (zyzzyva). In tokens, ␣ is a space and ⟨C3⟩ a byte that is no character by
    itself. Totals go to stderr, with --text also bits per byte.

    anaphora score runs/en-de --source test.en --target test.de

    anaphora score runs/plays --text test.txt

    echo 'to be or not' | anaphora score model.arpa.gz --text - --tokens
    """
    out = Output(as_json=json, quiet=quiet)
    if takes_text(model, text, source, target):
        if with_:
            from anaphora.errors import UserError

            raise UserError(
                "--with is for translators, and this is a language model",
                cure="leave it out, or combine the models by `anaphora mix`",
            )
        _score_text(out, model, text or [], device, tokens=tokens, log10=log10, stride=stride, patch=patch)
        return
    about_text = {"--log10": log10, "--stride": stride is not None, "--patch": bool(patch)}
    if said := [name for name, given in about_text.items() if given]:
        from anaphora.errors import UserError

        raise UserError(f"{said[0]} is for --text, and this is a translator", cure="leave it out")
    from anaphora import api
    from anaphora.tokenizers.token_names import token_documents

    notes: Counter[str] = Counter()
    sources, targets = read_pairs(source, target, notes)
    warn_of_notes(out, notes)
    loaded = api.load_translator([model, *with_] if with_ else model, device)
    documents, total, size, unscored = [], 0.0, 0, 0
    with out.bar("scoring", len(sources)) as bar:
        for number, pair in enumerate(loaded.stream_score(sources, targets, progress=bar), start=1):
            if tokens:
                for token, value in pair.token_scores or [("", math.nan)]:  # too long to be scored
                    out.result(f"{number}\t{token}\t{value:.4f}")
            else:
                out.result(f"{pair.log_probability:.4f}\t{len(pair.token_scores)}\t{pair.perplexity:.4f}")
            if pair.problem is None:
                total += pair.log_probability
                size += len(pair.token_scores)
            else:
                unscored += 1
            documents.append(
                {
                    "log_probability": pair.log_probability,
                    "tokens": token_documents(pair.token_scores, pair.token_bytes),
                    "perplexity": pair.perplexity,
                    "problem": pair.problem,
                }
            )
    loss = -total / size if size else math.nan
    found = f"loss {loss:.4f}, perplexity {math.exp(min(loss, 700)):.3f}"
    out.say(f"{count(len(documents), 'pair')}, {count(size, 'token')}: {found}")
    if unscored:
        out.say(f"{count(unscored, 'pair was', 'pairs were')} too long to be scored (nan)")
    out.finish({"model": str(model), "pairs": documents, "loss": loss, "tokens": size, "unscored": unscored})


def _score_text(
    out: Output,
    model: Path,
    text: list[str],
    device: str,
    *,
    tokens: bool,
    log10: bool,
    stride: int | None,
    patch: list[Path] | None,
) -> None:
    from anaphora.decoding.text_scoring import PSEUDO, WINDOW_LINES
    from anaphora.evaluation.bits_per_byte import bits_per_byte, note_on, perplexity, text_bytes
    from anaphora.tokenizers.token_names import shown_token
    from anaphora.tokenizers.tokenizer import UNK

    interactive = reads_terminal(out, model, *text)
    loaded = open_text_model(out, model, device, patch)
    unit = math.log(10) if log10 else 1.0
    notes: Counter[str] = Counter()
    documents: list[dict[str, Any]] = []
    parts: list[float] = []
    lines = dropped = size = unknown = total_bytes = 0
    with nullcontext() if interactive else out.bar("scoring") as bar:
        # somebody who types sees each answer before the next line; otherwise lines are scored by thousands
        ahead = 1 if interactive else WINDOW_LINES
        scored = loaded.stream_score(read_text(text, notes), stride=stride, progress=bar, window=ahead)
        for number, line in enumerate(scored, start=1):
            if not line.tokens:  # a blank line that this model leaves out
                dropped += 1
            else:
                lines, size, unknown = lines + 1, size + len(line.tokens), unknown + line.unknown
                total_bytes += text_bytes([line.text])
                parts.append(line.log_probability)
            if out.as_json:
                shown = [shown_token(loaded.tokenizer, id) for id in line.token_ids] if tokens else None
                documents.append(_document(line, shown, unit))
            elif tokens:
                lacking = iter(line.unknown_words)
                for place, (id, value) in enumerate(zip(line.token_ids, line.token_scores)):
                    order = "" if line.orders is None else f"\t{line.orders[place]}"
                    name = line.tokens[place] + (f" ({next(lacking)})" if id == UNK else "")
                    out.text(f"{number}\t{name}\t{value / unit:.4f}{order}", flush=interactive)
            else:
                numbers = f"{line.log_probability / unit:.4f}\t{len(line.tokens)}\t{line.perplexity:.4f}"
                out.text(f"{numbers}\t{line.unknown}", flush=interactive)
    warn_of_notes(out, notes)
    total = math.fsum(parts)
    found = {
        "lines": lines,
        "dropped_lines": dropped,
        "tokens": size,
        "unknown_tokens": unknown,
        "bytes": total_bytes,
        "log_probability": total / unit,
        "logarithm": "10" if log10 else "e",
        "perplexity": perplexity(total, size),
        "bits_per_byte": bits_per_byte(total, total_bytes),
        "note": note_on(unknown, size, normalized="normalised" in loaded.model.capabilities)
        or (PSEUDO if "masked" in loaded.model.capabilities else None),
    }
    if not lines:
        out.say(f"warning: {', '.join(text)}: there is nothing to score")
    else:
        out.say(
            f"{count(lines, 'line', 'lines')}, {count(size, 'token', 'tokens')} with end marks, {unknown:,} unknown, "
            f"{total_bytes:,} bytes"
        )
        log = f"{'log₁₀' if log10 else 'log'} P {total / unit:.3f}"
        out.say(f"{log}, perplexity {found['perplexity']:.3f}, {found['bits_per_byte']:.4f} bits per byte")
        if found["note"]:
            out.say(f"note: {found['note']}")
    named = {"patches": [str(file) for file in patch]} if patch else {}
    out.finish({"model": str(model), **named, **found, "scores": documents})


def _document(line: ScoredLine, shown: list[ShownToken] | None, unit: float) -> dict[str, Any]:
    """A line as JSON; with its tokens, where they are asked for."""
    from anaphora.tokenizers.token_names import token_document
    from anaphora.tokenizers.tokenizer import UNK

    document: dict[str, Any] = {
        "text": line.text,
        "log_probability": line.log_probability / unit,
        "tokens": len(line.tokens),
        "perplexity": line.perplexity,
        "unknown": line.unknown,
        "unknown_words": line.unknown_words,
    }
    if shown is not None:
        orders: Sequence[int | None] = line.orders or [None] * len(shown)
        lacking = iter(line.unknown_words)
        document["token_scores"] = [
            {**token_document(*token), "log_probability": value / unit, "order": order}
            | ({"word": next(lacking)} if id == UNK else {})
            for token, id, value, order in zip(shown, line.token_ids, line.token_scores, orders)
        ]
    return document
