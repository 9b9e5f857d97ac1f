"""`anaphora walk`: attention step by step, with its numbers: of the lectures, of a model, of one's own matrices."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import Force, Patches, check_new_file, open_text_model
from anaphora.cli.output import Device, Json, Output, Quiet

if TYPE_CHECKING:
    from anaphora.explain.trace import Trace


def walk(
    what: Annotated[str | None, typer.Argument(help="Name of an example, or a model or run folder.")] = None,
    sentence: Annotated[str | None, typer.Argument(help="Sentence for the model to read.")] = None,
    target: Annotated[
        str | None, typer.Option(help="For a translator: the translation. By default the model's own.")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            help="Which attention: encoder, decoder or cross; encoder for language models; senses for a Backpack."
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Layer, from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="Head, or sense, from 0.")] = None,
    patch: Patches = None,
    query: Annotated[str | None, typer.Option(help="Show the row of this word alone, or of its number from 0.")] = None,
    matrices: Annotated[Path | None, typer.Option(help="Use your own matrices from a YAML or JSON file.")] = None,
    cell: Annotated[
        str | None,
        typer.Option(metavar="ROW,COLUMN", help="Show how one cell is computed: words, or numbers from 0 (2, or #2)."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw all steps as .svg or .png instead of printing tables.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Write the trace to this file (JSON).")] = None,
    force: Force = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Follow attention step by step: queries, keys, scores, mask, softmax and weighted sum, each as a table of numbers.

    Without arguments, lists the examples of the lectures.

    anaphora walk

    anaphora walk as-and-bs --cell query,B

    anaphora walk demo/model "The old man reads." --query Mann

    anaphora walk demo/model "The old man reads." --part encoder --layer 0 --head 1 --picture heads.png

    anaphora walk backpack "That trick was" --part senses --head 2

    anaphora walk --matrices mine.yaml --cell 2,0 --json
    """
    from anaphora.errors import UserError

    out = Output(as_json=json, quiet=quiet)
    of_model = {"--target": target, "--part": part, "--layer": layer, "--head": head, "--query": query}
    of_model["--device"] = None if device == "auto" else device
    of_model["--patch"] = str(patch[0]) if patch else None
    given = [name for name, value in of_model.items() if value is not None]
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise UserError("is not a supported image format", file=picture, cure="use a name ending in .svg or .png")
    if matrices is not None and what is not None:
        raise UserError(f"--matrices takes no {what!r} beside it", cure="leave one of the two out")
    if what is not None and sentence is not None:
        _check_no_example(what)
    if given and sentence is None:
        raise UserError(f"{given[0]} is for a model and a sentence", cure="anaphora walk MODEL SENTENCE …")
    if picture is not None and trace is not None and picture.absolute() == trace.absolute():
        raise UserError(
            "cannot be both the picture and the trace", file=picture, cure="choose another file for one of them"
        )
    for file in (picture, trace):
        check_new_file(file, force=force, inputs=[] if matrices is None else [str(matrices)])
    if what is None and matrices is None:
        if cell or picture or trace:
            raise UserError("no example and no model is given", cure="name an example: `anaphora walk` lists them")
        _list(out)
        return
    if matrices is not None:
        made = _of_matrices(matrices)
    elif sentence is not None:
        assert what is not None
        made = _of_model(
            out,
            Path(what),
            sentence,
            target,
            patches=patch or [],
            device=device,
            asked={"part": part, "layer": layer, "head": head, "query": query},
        )
    else:
        assert what is not None
        made = _of_example(what)
    if cell is not None:
        _work_out(made, cell)
    _show(out, made, picture, trace)


def _list(out: Output) -> None:
    from anaphora.lectures import EXAMPLES

    room, wide = max(len(name) for name in EXAMPLES), shutil.get_terminal_size().columns
    for example in EXAMPLES.values():
        named = f"{example.name:<{room}}  {example.title}"
        out.result(textwrap.fill(named, max(wide, 40), subsequent_indent=" " * (room + 2)))
    out.result("")
    told = (
        "anaphora walk NAME shows one; anaphora walk MODEL SENTENCE looks into a model; "
        "anaphora walk --matrices FILE takes your own numbers."
    )
    out.result(textwrap.fill(told, max(wide, 40), break_on_hyphens=False))
    listed = [{"name": e.name, "title": e.title, "page": e.page} for e in EXAMPLES.values()]
    out.finish({"examples": listed})


def _check_no_example(name: str) -> None:
    """A sentence is for a model; a folder of that name is one."""
    from anaphora.errors import UserError
    from anaphora.lectures import EXAMPLES

    if name in EXAMPLES and not Path(name).is_dir():
        raise UserError(f"the example {name} takes no sentence", cure=f"leave it out: anaphora walk {name}")


def _of_example(name: str) -> Trace:
    from anaphora.errors import UserError, nearest
    from anaphora.explain.trace import Trace
    from anaphora.lectures import EXAMPLES

    if name not in EXAMPLES:
        if Path(name).is_dir():
            raise UserError("no sentence was given for this model", file=name, cure='add one: "The old man reads."')
        raise UserError(f"there is no example and no folder called {name!r}", cure=nearest(name, EXAMPLES))
    return Trace(EXAMPLES[name].make())


def _of_matrices(file: Path) -> Trace:
    from anaphora.explain.trace import Trace
    from anaphora.explain.walk_file import walk_file

    return Trace([walk_file(file)])


def _of_model(
    out: Output,
    folder: Path,
    sentence: str,
    target: str | None,
    *,
    patches: list[Path],
    device: str,
    asked: dict[str, Any],
) -> Trace:
    from anaphora import api
    from anaphora.errors import UserError
    from anaphora.folder import recover

    recover(folder)
    if folder.exists() and api.is_language_model(folder):
        if target is not None:
            raise UserError("--target is a translation, and this is a language model", file=folder, cure="leave it out")
        made = open_text_model(out, folder, device, patches).walk(sentence, **asked)
    else:
        if patches:
            raise UserError("--patch is for Backpacks, and this model is not one", file=folder, cure="leave it out")
        if folder.exists() and api.is_vectors(folder):
            raise UserError(
                "holds word vectors, which have no attention", file=folder, cure="name a model with attention"
            )
        made = api.load_translator(folder, device).walk(sentence, target, **asked)
    for walk in made.walks:
        wide = max(shutil.get_terminal_size().columns, 40)
        for told in (walk.settings["chosen"], f"to choose from: {walk.settings['choices']}"):
            out.say(textwrap.fill(told, wide, subsequent_indent="  "))
    return made


def _work_out(made: Trace, asked: str) -> None:
    """The cell in every walk that has it; where none has, what the first one has."""
    from anaphora.errors import UserError
    from anaphora.explain.selection import cell

    problem: UserError | None = None
    for walk in made.walks:
        try:
            walk.cells.append(cell(walk, asked))
        except UserError as error:
            problem = problem or error
    if problem is not None and not any(walk.cells for walk in made.walks):
        raise problem


def _show(out: Output, made: Trace, picture: Path | None, trace: Path | None) -> None:
    from anaphora.cli.output import json_line
    from anaphora.errors import printable
    from anaphora.folder import write_bytes, write_text

    if not out.as_json and picture is None:
        from rich.console import Console

        from anaphora.explain.draw.walk_tables import walk_text

        wide = max(shutil.get_terminal_size().columns, 20)
        console = Console(highlight=False, soft_wrap=True, width=wide)
        colors = console.color_system is not None and not console.no_color
        for number, walk in enumerate(made.walks):
            if number:
                out.result("")
            text = walk_text(walk, width=wide, colors=colors)
            text.rstrip()
            console.print(text)
    document = made.document() if out.as_json or trace is not None else {}
    if trace is not None:
        write_text(trace, json_line(document) + "\n", pipes=True)
        out.say(f"{trace} holds the trace")
    if picture is not None:
        from anaphora.explain.draw.walk_picture import walk_png, walk_svg

        if picture.suffix.lower() == ".svg":
            write_bytes(picture, walk_svg(made.walks).encode("utf-8"), pipes=True)
        else:
            content, notes = walk_png(made.walks)
            write_bytes(picture, content, pipes=True)
            for note in notes:
                out.say(f"warning: {note}")
        out.result(printable(f"{picture} shows {' · '.join(walk.title for walk in made.walks)}"))
    failed = [check for check in made.checks if not check.holds]
    out.finish(document)
    if failed:
        fail = "1 check fails" if len(failed) == 1 else f"{len(failed)} checks fail"
        out.say(f"{fail}: this is a bug; please report it with --trace")
        raise typer.Exit(1)
