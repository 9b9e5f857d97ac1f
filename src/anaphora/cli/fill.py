"""`anaphora fill`: what stands in the blank?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import read_text, reads_terminal, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.decoding.hidden_words import Filled
    from anaphora.tokenizers.tokenizer import Tokenizer


def fill(
    model: Annotated[Path, typer.Argument(help="Folder of a masked language model.")],
    text: Annotated[list[str] | None, typer.Argument(help="Lines with ___ or [MASK] for each blank.")] = None,
    file: Annotated[str | None, typer.Option(help="Lines with blanks; - is stdin.")] = None,
    top: Annotated[int, typer.Option(help="Number of candidates for each blank.")] = 5,
    best: Annotated[bool, typer.Option("--best", help="Print each line with the likeliest words filled in.")] = False,
    unknown: Annotated[bool, typer.Option("--unknown", help="Allow the unknown token.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fill in blanks: print the likeliest tokens for each, with their probabilities.

    A blank, ___ or [MASK] or <mask>, stands for one token; ␣ is the space before it. Several blanks in a line are
    filled independently of each other.

    anaphora fill runs/bert "The ___ sat on the mat."

    anaphora fill runs/bert "She ___ to the ___ ." --top 3

    anaphora fill runs/bert --file lines.txt --best > filled.txt
    """
    from anaphora import api
    from anaphora.errors import UserError

    out = Output(as_json=json, quiet=quiet)
    if (file is None) == (not text):
        raise UserError(
            "no text is given" if file is None else "text is given twice, as an argument and by --file",
            cure='give a line such as "The ___ sat", or --file',
        )
    reads_terminal(out, model, file)
    loaded = api.load_text_model(model, device)
    notes: Counter[str] = Counter()
    lines = list(read_text([file], notes, together=True)) if file is not None else list(text or [])
    warn_of_notes(out, notes)
    if not lines:
        out.say(f"warning: {file} is empty: there is nothing to fill in")
    try:
        found = loaded.fill(lines, top=top, unknown=unknown)
    except UserError as error:
        where = file if error.line is not None and error.file is None else error.file
        told = error.what
        if where is None and error.line is not None:  # a line of the command line
            told = f"text {error.line} {told}" if len(lines) > 1 else f"the text {told}"
        raise UserError(told, file=where, line=error.line if where else None, cure=error.cure) from None
    for number, line in enumerate(found, start=1):
        if best:
            out.text(line.best)
            continue
        for blank, candidates in enumerate(line.blanks, start=1):
            for one in candidates:
                where = f"{number}\t{blank}\t" if len(found) > 1 or len(line.blanks) > 1 else ""
                out.result(f"{where}{one.probability:.4f}\t{one.token}")
    if untouched := sorted({mask for line in found for mask in line.untouched}):
        out.say(f"note: {untouched[0]} is a word of this model's vocabulary; mark blanks by ___")
    if blankless := sum(not line.blanks for line in found):
        out.say(f"note: {count(blankless, 'line has', 'lines have')} no blank (___)")
    out.finish({"model": str(model), "lines": [_document(line, loaded.tokenizer) for line in found]})


def _document(line: Filled, tokenizer: Tokenizer) -> dict[str, Any]:
    from anaphora.tokenizers.token_names import shown_token, token_document

    return {
        "text": line.text,
        "best": line.best,
        "blanks": [
            [
                {
                    "text": one.text,
                    **token_document(*shown_token(tokenizer, one.token_id)),
                    "id": one.token_id,
                    "probability": one.probability,
                }
                for one in candidates
            ]
            for candidates in line.blanks
        ],
    }
