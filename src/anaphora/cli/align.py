"""`anaphora align`: which source words did each target word come from?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import Force, With, check_new_file, read_pairs, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.alignment.alignment_method import Rival
    from anaphora.alignment.model_alignment import Alignment
    from anaphora.api import TranslationModel
    from anaphora.evaluation.alignment_error import AlignmentScore, GoldAlignment


def align(
    model: Annotated[Path, typer.Argument(help="Model or run folder.")],
    source: Annotated[list[str] | None, typer.Option(help="Text in the source language.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    with_: With = None,
    gold: Annotated[
        Path | None, typer.Option(help="Gold links, i-j sure and i?j possible: print the alignment error rate (AER).")
    ] = None,
    base: Annotated[int, typer.Option(help="Number of the first word in --gold and in links: 0 or 1.")] = 0,
    split: Annotated[str, typer.Option(help="How to split words: punctuation (a word of its own) or whitespace.")] = (
        "punctuation"
    ),
    method: Annotated[
        str,
        typer.Option(
            help="auto, LAYER.HEAD, LAYER.mean, mean or occlusion; then :predicts or :reads; then :target, :source, "
            ":intersection, :union or :grow."
        ),
    ] = "auto",
    line: Annotated[
        int | None, typer.Option(help="Show the pair on this line (the first is 1) in the terminal.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw that pair (by default line 1) as .svg or .png.")] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(help="Another model, drawn beside the first. Repeatable.")
    ] = None,
    ibm1: Annotated[bool, typer.Option("--ibm1", help="With --gold: also print the AER of IBM-1.")] = False,
    force: Force = False,
    device: Device = "auto",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print how the alignment is read from the model, and why so.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Align source and target words: print links, show a heat map, draw a picture, or measure the error rate.

    Without --line, --picture or --gold, prints one line of links per pair, in the Pharaoh format ("0-0 1-2": source
    word 0 with target word 0, …).

    anaphora align demo/model --source a.en --target a.de > links.txt

    anaphora align demo/model --source a.en --target a.de --line 3

    anaphora align demo/model --source a.en --target a.de --picture a.svg

    anaphora align runs/rnn --beside runs/transformer --source a.en --target a.de --picture both.png

    anaphora align demo/model --source a.en --target a.de --gold a.align --ibm1
    """
    from anaphora import api
    from anaphora.alignment.model_alignment import Method
    from anaphora.errors import UserError
    from anaphora.tokenizers.words import SPLITS

    out = Output(as_json=json, quiet=quiet)
    if base not in (0, 1):
        raise UserError(f"--base must be 0 or 1, not {base}", cure="give the number of the first word")
    if split not in SPLITS:
        raise UserError(f"unknown --split {split}", cure="use punctuation or whitespace")
    if ibm1 and gold is None:
        raise UserError("--ibm1 needs gold alignments", cure="add --gold FILE")
    others = beside or []
    if others and line is None and picture is None:
        raise UserError("--beside needs a pair to draw", cure="add --line N or --picture FILE")
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise UserError("is not a supported image format", file=picture, cure="use a name ending in .svg or .png")
    named = asked = None if method == "auto" else Method.parse(method)
    check_new_file(picture, force=force, inputs=[*(source or ()), *(target or ())])
    notes: Counter[str] = Counter()
    sources, targets = read_pairs(source, target, notes)
    drawn = None if line is None and picture is None else (1 if line is None else line) - 1
    if drawn is not None and not 0 <= drawn < len(sources):
        raise UserError(f"there is no line {drawn + 1:,}", cure=f"choose one of 1 to {len(sources):,}")
    references = None if gold is None else _read_gold(gold, sources, targets, base, split)
    loaded = api.load_translator([model, *with_] if with_ else model, device)
    rivals = [api.load_translator(folder, device) for folder in others]
    if asked is not None:
        for rival in rivals:
            asked.check(rival.model)
    if named is None:
        choice = loaded.alignment_choice
        named, reason = choice.method, choice.reason
    else:
        named.check(loaded.model)
        reason = "you asked for it"
    wanted = slice(drawn, drawn + 1) if drawn is not None and references is None and not json else slice(None)
    aligned = loaded.align(sources[wanted], targets[wanted], method=named, split=split)
    warn_of_notes(out, notes)
    long = sum(one.problem is not None for one in aligned)
    if long:
        out.say(
            f"warning: {count(long, 'pair is', 'pairs are')} not aligned: {_first(aligned, 1 + (wanted.start or 0))}"
        )
    document: dict[str, Any] = {"model": str(model), "base": base, "reason": reason}
    if drawn is not None:
        one = aligned[drawn if len(aligned) == len(sources) else 0]
        pair = sources[drawn], targets[drawn]
        more = [rival.align(*pair, method=asked, split=split) for rival in rivals]  # each in its own way
        for folder, other in zip(others, more):
            if other.problem is not None:
                out.say(f"warning: {folder}: the pair is not aligned: {other.problem}")
        _show(out, [one, *more], _names([model, *others]), picture, base)
        document["beside"] = [{"model": str(f), **a.document(base=base)} for f, a in zip(others, more)]
        document["picture"] = None if picture is None else str(picture)
    if references is not None:
        document |= _compare(out, loaded, aligned, references, ibm1=ibm1, base=base)
    elif drawn is None:
        for one in aligned:
            out.result(one.pharaoh(base=base))
    if verbose:
        out.say(f"{'; '.join(named.explain())}; words count from {base} ({split}); chosen because {reason}")
    out.finish({**document, "alignments": [one.document(base=base) for one in aligned] if json else []})


def _names(folders: list[Path]) -> list[str]:
    """What the maps are called: as much of the ends of their folders' names as tells them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


def _first(aligned: list[Alignment], start: int) -> str:
    """The first reason, with its line; `start` is that of the first pair."""
    return next(f"line {n}: {one.problem}" for n, one in enumerate(aligned, start=start) if one.problem is not None)


def _read_gold(file: Path, sources: list[str], targets: list[str], base: int, split: str) -> list[GoldAlignment]:
    from anaphora.evaluation.alignment_error import check_range, read_pharaoh
    from anaphora.tokenizers.words import split_words

    gold = read_pharaoh(file, base=base)
    sizes = [tuple(len(split_words(text, split)) for text in pair) for pair in zip(sources, targets)]  # type: ignore[arg-type]
    check_range(gold, sizes, base=base, file=file)  # type: ignore[arg-type]
    return gold


def _show(out: Output, drawn: list[Alignment], names: list[str], picture: Path | None, base: int) -> None:
    """The heat maps of one pair by one model or by several on stdout, or the picture in its file."""
    names = names if len(drawn) > 1 else []
    if picture is None:
        if not out.as_json:
            from rich.console import Console

            from anaphora.errors import printable
            from anaphora.explain.draw.terminal import heat_map

            console = Console(highlight=False)
            colors = console.color_system is not None and not console.no_color
            for place, alignment in enumerate(drawn):
                if names:
                    console.print(printable(names[place]), markup=False)
                console.print(heat_map(alignment, width=console.width, colors=colors), end="")
                out.result(alignment.pharaoh(base=base))
        return
    from anaphora.explain.draw.terminal import shown
    from anaphora.folder import write_bytes

    if picture.suffix.lower() == ".svg":
        from anaphora.explain.draw.svg import svg

        write_bytes(picture, svg(*drawn, names=names).encode("utf-8"), pipes=True)
    else:
        from anaphora.explain.draw.png import png

        content, notes = png(*drawn, names=names)
        write_bytes(picture, content, pipes=True)
        for note in notes:
            out.say(f"warning: {note}")
    out.result(f"{picture} shows {shown(drawn[0].source_text)} / {shown(drawn[0].target_text)}")


def _compare(
    out: Output,
    loaded: TranslationModel,
    aligned: list[Alignment],
    gold: list[GoldAlignment],
    *,
    ibm1: bool,
    base: int,
) -> dict[str, Any]:
    from dataclasses import asdict

    from anaphora.evaluation.alignment_error import alignment_error_rate

    score = alignment_error_rate([one.links for one in aligned], gold)
    out.result(f"AER {_percent(score)}")
    out.result(
        f"{count(score.sentences, 'pair')}; gold has {score.sure:,} sure and {score.possible - score.sure:,} more "
        f"possible links, predicted: {score.links:,}; words count from {base}"
    )
    if not ibm1:
        return {"score": asdict(score)}
    rival: Rival = loaded.ibm1_beside(aligned, gold)
    out.result(f"IBM-1 {_percent(rival.scores[rival.best])}  ({rival.best}, taught by {rival.pairs:,} pairs)")
    for form, of_form in rival.scores.items():
        out.result(f"  {form:<17} {_percent(of_form)}")
    beside = {"best": rival.best, "pairs": rival.pairs, "scores": {f: asdict(s) for f, s in rival.scores.items()}}
    return {"score": asdict(score), "ibm1": beside}


def _percent(score: AlignmentScore) -> str:
    return f"{100 * score.aer:.1f} %  precision {100 * score.precision:.1f} %  recall {100 * score.recall:.1f} %"
