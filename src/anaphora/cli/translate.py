"""`anaphora translate`: raw text in, raw text out."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli import interruption
from anaphora.cli.arguments import (
    Force,
    Mbr,
    OutputFile,
    Set,
    With,
    check_new_file,
    decoding_settings,
    describe_replaced,
    read_side,
    read_stdin,
    reads_terminal,
    warn_of_notes,
)
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.decoding.unfinished_translation import Unfinished


def translate(
    model: Annotated[Path, typer.Argument(help="Model or run folder.")],
    file: Annotated[str, typer.Argument(help="Text, one sentence a line; - is stdin.")] = "-",
    with_: With = None,
    beam: Annotated[int | None, typer.Option("--beam", "--num-beams", help="Beam size; 1 is greedy search.")] = None,
    n_best: Annotated[
        int | None, typer.Option(help="Number of translations per line, printed as index, rank, score, text.")
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Sample instead of searching.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling: below 1 sharpens, above 1 flattens the distribution.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sampling: only from the k most probable tokens.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sampling: only from the most probable tokens that together have probability p."),
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Sampling: only tokens with at least this share of the highest probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Sampling: random seed; the same seed gives the same text.")] = None,
    mbr: Mbr = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1 penalizes tokens that are in the output already.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--tokens", "--max-new-tokens", help="Maximum number of tokens per translation.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop before this text. Repeatable.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Begin every translation with this text.")] = None,
    alignments: Annotated[
        str | None, typer.Option(help="pharaoh: text ||| 0-0 1-2 (source-target words); json: a trace per line.")
    ] = None,
    set_: Set = None,
    output: OutputFile = None,
    force: Force = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Translate text, line by line.

    anaphora translate runs/en-de input.txt > output.txt

    echo 'The bank was closed.' | anaphora translate runs/en-de --alignments pharaoh

    anaphora translate runs/en-de input.txt --beam 8 --n-best 3

    anaphora translate runs/words input.txt --set dictionary=my.tsv

    anaphora translate runs/a input.txt --with runs/b --with runs/c

    anaphora translate runs/en-de input.txt --mbr chrf --set mbr_samples=128
    """
    from itertools import repeat

    from anaphora import api
    from anaphora.errors import UserError
    from anaphora.folder import is_device, write_text

    out = Output(as_json=json, quiet=quiet)
    check_new_file(output, force=force, inputs=[file])
    if model.is_file() and Path(file).is_dir():
        raise UserError(
            f"{file} is a folder and {model} a file", cure=f"the model comes first: translate {file} {model}"
        )
    decoding = decoding_settings(
        set_,
        beam=beam,
        n_best=n_best,
        sample=sample or None,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        mbr=mbr,
        repetition_penalty=repetition_penalty,
        max_length=max_length,
        stop=stop,
    )
    notes: Counter[str] = Counter()
    lines = None if file == "-" else read_side([file], "source", notes)
    interactive = reads_terminal(out, model, file)
    loaded = api.load_translator([model, *with_] if with_ else model, device)
    settings = loaded.settled(loaded.decoding(**decoding))  # mistakes in settings are named before anything is read
    drawing = ("temperature", "top_k", "top_p", "min_p", "epsilon", "seed")
    idle = [name for name in drawing if name in decoding and not settings.draws]
    if idle:
        flag = "--set epsilon" if idle[0] == "epsilon" else f"--{idle[0].replace('_', '-')}"
        what = f"{flag} is for sampling, and nothing is sampled"
        raise UserError(what, cure="add --sample or --mbr chrf")
    if alignments not in (None, "pharaoh", "json"):
        raise UserError(f"unknown --alignments {alignments}", cure="use pharaoh or json")
    kept = None
    if output is not None and not is_device(output):
        kept = loaded.keep_unfinished(output, out.say, force=force, **decoding)
    interruption.what_is_kept = partial(_what_is_kept, kept, None if lines is None else len(lines))
    with kept or nullcontext():
        with nullcontext(None) if interactive else out.bar("translating", None if lines is None else len(lines)) as bar:
            stream = loaded.stream(
                read_stdin(notes) if lines is None else lines,
                prefixes=None if prefix is None else repeat(prefix),
                progress=bar,
                window=1 if interactive else 4096,
                align=alignments is not None,
                unfinished=kept,
                **decoding,
            )
            documents, written, split, unfinished = [], [], 0, 0
            replaced: Counter[str] = Counter()
            for index, translation in enumerate(stream):
                replaced.update(one.by for one in translation.replaced)
                split += translation.pieces > 1
                unfinished += not translation.finished
                for line in _lines(index, translation, settings.n_best, alignments):
                    if output is not None:
                        written.append(line)
                    else:
                        out.text(line, flush=interactive)
                if json:
                    documents.append(_document(translation))
        if output is not None:
            write_text(output, "".join(line + "\n" for line in written), pipes=True)
            interruption.what_is_kept = partial(str, f"all lines are in {output}")
    warn_of_notes(out, notes)
    if alignments:
        out.say(f"alignments: {'; '.join(loaded.alignment_choice.method.explain())}; words count from 0")
    if lines is not None and not lines:
        out.say(f"warning: {file} is empty: there is nothing to translate")
    if split:
        several = "of several sentences, or " if settings.split_sentences == "always" else ""
        out.say(f"{count(split, 'line', 'lines')} {several}too long for the model: translated in pieces")
    if unfinished:
        out.say(f"{count(unfinished, 'translation', 'translations')} reached the length limit (decoding.max_length)")
    if replaced:
        out.say(describe_replaced(replaced))
    out.finish({"model": str(model), "lines": len(documents), "split_lines": split, "translations": documents})


def _what_is_kept(kept: Unfinished | None, lines: int | None) -> str:
    """What an interrupted translation leaves."""
    if kept is None:
        return "nothing is saved but what was printed; with --output FILE, a repeated command goes on where it stopped"
    if not kept.batches:
        if not kept.empty:
            return f"what was translated before is kept in {kept.path}: repeat the command to continue"
        return "no line was translated yet"
    done = (
        count(kept.lines, "line is", "lines are") if lines is None else f"{kept.lines:,} of {count(lines, 'line')} are"
    )
    return f"{done} translated and kept in {kept.path}: repeat the command to continue"


def _lines(index: int, translation: Any, n_best: int, alignments: str | None = None) -> list[str]:
    import json

    lines = []
    for rank, candidate in enumerate(translation.n_best, start=1):
        place = f"{index}\t{rank}\t{candidate.score:.4f}\t" if n_best > 1 else ""
        if alignments == "json":
            where = {"index": index, "rank": rank, "score": candidate.score} if n_best > 1 else {}
            lines.append(json.dumps({**where, **candidate.alignment.document()}, ensure_ascii=False))
        elif alignments == "pharaoh":
            lines.append(f"{place}{candidate.text} ||| {candidate.alignment.pharaoh()}")
        else:
            lines.append(f"{place}{candidate.text}")
    return lines


def _replaced(said: Any) -> list[dict[str, Any]]:
    """Words in the place of unknown ones: which, where they stand, and which source word they come from."""
    return [
        {
            "word": one.word,
            "start": one.start,
            "end": one.end,
            "token": one.token,
            "by": one.by,
            "source": None
            if one.source is None
            else {"word": one.source.text, "start": one.source.start, "end": one.source.end},
            "weight": round(one.weight, 5),
        }
        for one in said.replaced
    ]


def _document(translation: Any) -> dict[str, Any]:
    from anaphora.tokenizers.token_names import token_documents

    return {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "tokens": token_documents(translation.token_scores, translation.token_bytes),
        "finished": translation.finished,
        "pieces": translation.pieces,
        "n_best": [
            {"text": c.text, "score": c.score} | ({"replaced": _replaced(c)} if c.replaced else {})
            for c in translation.n_best
        ],
        "replaced": _replaced(translation),
        **({} if translation.alignment is None else {"alignment": translation.alignment.document()}),
    }
