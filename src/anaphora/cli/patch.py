"""`anaphora patch`: change the senses of a Backpack's words, as a small file beside the model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import check_new_file, open_text_model, read_text, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.explain.pronouns import Evened
    from anaphora.explain.side_effect import SideEffect
    from anaphora.pipelines.text_model import TextModel

OPERATIONS = "Operations (in this order, whatever the order of the options)"
ALREADY = "Existing patches"
MADE = "Topics and balance"


def patch(
    model: Annotated[Path, typer.Argument(help="Folder of a Backpack.")],
    out: Annotated[
        Path | None, typer.Argument(metavar="OUT.json", help="Patch file to write. Without it the patch is only tried.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS#SENSES", help="Set the sense to zero.", rich_help_panel=OPERATIONS),
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS#SENSES=X", help="Multiply the sense by X.", rich_help_panel=OPERATIONS),
    ] = None,
    project_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS#SENSES=A[-B]", help="Remove the direction of A (or A - B).", rich_help_panel=OPERATIONS
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS#SENSES=A[-B]*X", help="Add X times A (or A - B).", rich_help_panel=OPERATIONS),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS#SENSES=W#SENSE", help="Replace it by a sense of W.", rich_help_panel=OPERATIONS),
    ] = None,
    exchange: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS#SENSES=A>B", help="Words that favored A favor B instead.", rich_help_panel=OPERATIONS
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=WORD,…", help="Favor these words; =@FILE reads them.", rich_help_panel=MADE),
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(help="Strength of the topics; 1 has no effect. By default 1.35.", rich_help_panel=MADE),
    ] = None,
    factors: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C,D",
            help="Four factors, as published: for the top 5% of senses, the next, …",
            rich_help_panel=MADE,
        ),
    ] = None,
    fade: Annotated[
        float | None,
        typer.Option(
            help="Factor by which a topic weakens after each of its words. By default 0.5.", rich_help_panel=MADE
        ),
    ] = None,
    even: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Balance A and B after --words.", rich_help_panel=MADE),
    ] = None,
    less_gender: Annotated[
        bool, typer.Option("--less-gender", help="Balance he and she after professions.", rich_help_panel=MADE)
    ] = False,
    words: Annotated[
        str | None,
        typer.Option(
            metavar="WORD,…", help="With --even: words whose senses may change; @FILE reads them.", rich_help_panel=MADE
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --even: lines with {} for the word.", rich_help_panel=MADE),
    ] = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="Start from this patch.", rich_help_panel=ALREADY),
    ] = None,
    undo: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Then undo this patch, where possible.", rich_help_panel=ALREADY),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Measure the side effect on this text; - is stdin. Repeatable."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the patch file.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.json.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Edit a Backpack's senses: remove, scale, project out or replace them; favor a topic; balance two words.

    The edits go into a small patch file, and the model stays as it is: generate, score and evaluate apply the file with
    --patch, several in the given order.

    WORDS are separated by commas; * is every word. SENSES are numbers from 0, which `anaphora senses` shows; without
    them, or with #*, all senses are meant. Options can be repeated.

    anaphora patch runs/backpack fix.json --remove "sick#3" --text test.txt

    anaphora patch runs/backpack hp.json --exchange "MacBook=Apple>HP"

    anaphora patch runs/backpack fair.json --less-gender --text test.txt

    anaphora patch runs/backpack sea.json --topic "sea=ship,sail,harbour" --strength 1.5

    anaphora patch runs/backpack both.json --from fix.json --from fair.json
    """
    from anaphora.errors import UserError
    from anaphora.explain.draw.terminal import visible
    from anaphora.models.backpack.patch import Patch
    from anaphora.pipelines.patching import make_patch, patch_notes, side_effect

    told = Output(as_json=json, quiet=quiet)
    if out is not None:
        lists = [words or "", *(one.partition("=")[2] for one in topic or ())]
        read: list[str | Path] = [*(text or ()), *(Path(one[1:]) for one in lists if one.startswith("@"))]
        read += [*(() if prompts is None else (prompts,)), *(from_ or ()), *(undo or ())]
        _check_out(out, model, read, force=force)
    given = {
        "remove": remove,
        "scale": scale,
        "project_out": project_out,
        "add": add,
        "replace": replace,
        "exchange": exchange,
    }
    given["topic"] = topic
    if less_gender and even is not None:
        raise UserError("--less-gender is --even he,she", cure="leave out one of them")
    evening = even is not None or less_gender
    idle: dict[str, Any] = {"--strength": strength, "--factors": factors, "--fade": fade} if not topic else {}
    idle |= {} if evening else {"--words": words, "--prompts": prompts}
    if said := [name for name, value in idle.items() if value is not None]:
        what = "--topic" if said[0] in ("--strength", "--factors", "--fade") else "--even or --less-gender"
        raise UserError(f"{said[0]} needs {what}", cure="leave it out")
    if not any((*given.values(), from_, undo, evening)):
        raise UserError("no change is given", cure="give one, for example --remove 'sick#3', or --from FILE")
    loaded = open_text_model(told, model, device)
    if strength is not None and factors is not None:
        raise UserError("--factors and --strength set the same thing", cure="leave out one of them")
    how: dict[str, Any] = {"strength": strength, "fade": fade, "factors": None if factors is None else _four(factors)}
    how = {name: value for name, value in how.items() if value is not None}
    how |= {do: texts or () for do, texts in given.items()}
    made = make_patch(loaded, **how, after=from_ or (), undo=undo or ())
    document: dict[str, Any] = {"model": str(model), "file": None if out is None else str(out)}
    changed = loaded.patched([made])  # what it speaks of is there, or this says what is not: before anything is told
    notes: Counter[str] = Counter()
    lines = list(read_text(text or [], notes))
    found = _even(changed, even, words, prompts) if evening else None
    if found is not None:
        made = Patch(made.made_for, (*made.operations, *found.operations))
        changed = loaded.patched([made])
        document["even"] = _evened_document(found)
    effect = side_effect(loaded, changed, lines) if text else None
    if out is not None:
        made.write(out, force=force)  # first: whoever reads no more than the first lines has the file all the same
    warn_of_notes(told, notes)
    for note in patch_notes(loaded, made.operations):
        told.say(f"note: {note}")
    if found is not None:
        _say_evened(told, found)
    for operation in made.operations:
        told.result(visible(str(operation)))
    if effect is not None:
        document["side_effect"] = effect.document()
        _say_effect(told, loaded, effect, lines)
    if show:
        told.result(made.text().rstrip())
    if out is not None:
        told.say(f"written: {out} ({count(len(made.operations), 'operation', 'operations')})")
    told.finish({**document, "patch": made.document()})


def _check_out(out: Path, model: Path, read: list[str | Path], *, force: bool) -> None:
    """A patch stands beside its model: over nothing that is read here, nor among the model's own files."""
    from anaphora.errors import UserError

    if str(out) == "-":
        raise UserError("- would be stdout, and a patch is a file", cure="leave it out; --show prints the patch")
    if out.resolve().is_relative_to(model.resolve()):
        raise UserError("is inside the model's own folder", file=out, cure="write the patch beside the folder")
    check_new_file(out, force=force, inputs=read)


def _four(text: str) -> list[float]:
    from anaphora.errors import UserError

    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != 4:
        raise UserError(f"--factors must be four numbers, not {text}", cure="write --factors 3.3,3.3,3,1")
    return found


def _even(loaded: TextModel, pair: str | None, words: str | None, prompts: Path | None) -> Evened:
    from anaphora.errors import UserError
    from anaphora.explain.pronouns import PAIR
    from anaphora.models.backpack.patch_grammar import listed
    from anaphora.pipelines.patching import even as find

    two = PAIR if pair is None else tuple(word.strip() for word in pair.split(","))
    if len(two) != 2 or not all(two) or two[0] == two[1]:
        raise UserError(f"--even must be two different words, not {pair}", cure="write --even he,she")
    chosen = () if words is None else listed(words)
    if pair is not None and two != PAIR and words is None:
        raise UserError(f"--even {pair} needs the words whose senses may change", cure="add --words WORD,WORD,…")
    lines = None if prompts is None else [line for line in read_text([str(prompts)]) if line.strip()]
    return find(loaded, (two[0], two[1]), words=chosen, prompts=lines)


def _say_evened(out: Output, found: Evened) -> None:
    if found.left_out:
        out.say(f"note: left out, because they are more than one token: {', '.join(found.left_out)}")
    a, b = found.pair
    if not found.operations:
        out.say("no change improves their balance: none is added")
    sense = max(range(len(found.telling)), key=found.telling.__getitem__)
    out.result(f"sense {sense} tells {a} from {b} most ({found.telling[sense]:.3f} of a logit on average)")
    out.result(f"mean of max(p({a})/p({b}), p({b})/p({a})); 1 is even:")
    for name, before, after in (
        ("chosen by", found.chosen_before, found.chosen_after),
        ("held out", found.held_before, found.held_after),
    ):
        out.result(
            f"  {name:<9} {before.ratio:8.3f} → {after.ratio:.3f}  ({count(before.prompts, 'prompt', 'prompts')})"
        )


def _evened_document(found: Evened) -> dict[str, Any]:
    return {
        "telling": list(found.telling),
        "chosen_by": {"before": found.chosen_before.document(), "after": found.chosen_after.document()},
        "held_out": {"before": found.held_before.document(), "after": found.held_after.document()},
        "left_out": list(found.left_out),
    }


def _say_effect(out: Output, loaded: TextModel, effect: SideEffect, lines: list[str]) -> None:
    """How far the text's predictions moved, and where most."""
    from anaphora.pipelines.patching import around

    out.result(
        f"KL(original ‖ patched)  {effect.kl:.5f} a token, at most {effect.kl_largest:.3f} "
        f"({effect.moved:,} of {effect.tokens:,} moved)"
    )
    out.result(
        f"perplexity              {effect.perplexity_before:.3f} → {effect.perplexity_after:.3f} "
        f"({effect.perplexity_change:+.2%})"
    )
    for place in effect.places[:3] if effect.moved else ():
        before, word = around(loaded, lines, place.token)
        out.result(f"  KL {place.kl:.3f}  log P {place.before:.2f} → {place.after:.2f}  {before}[{word[:14]}]")
