"""What several verbs take: lines from files and from stdin, decoding settings, a file to write."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.output import Output
from anaphora.cli.streams import Steadfast
from anaphora.decoding.options import TRANSFORMERS_NAMES
from anaphora.errors import UserError, refused_by_system
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.pipelines.text_model import TextModel

TextFiles = Annotated[
    list[str] | None, typer.Option("--text", metavar="FILE", help="Text for a language model; - is stdin. Repeatable.")
]
Log10 = Annotated[bool, typer.Option("--log10", help="With --text: base-10 logarithms, as KenLM and SRILM print them.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any decoding setting; `anaphora settings decoding` lists them."),
]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="MODEL", help="Combine with this model, as an ensemble. Repeatable."),
]
Mbr = Annotated[
    str | None,
    typer.Option(metavar="MEASURE", help="Minimum Bayes risk decoding, by chrf, bleu or gleu of sampled translations."),
]
Patches = Annotated[
    list[Path] | None,
    typer.Option(
        "--patch", metavar="FILE", help="Apply this patch to a Backpack's senses (anaphora patch). Repeatable."
    ),
]
OutputFile = Annotated[Path | None, typer.Option(help="Write the translations to this file, when all are done.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]


def decoding_settings(set_: Sequence[str] | None, **flags: Any) -> dict[str, Any]:
    """`--set KEY=VALUE` and the flags that were given, as changes to a model's decoding settings."""
    from anaphora.config import overrides

    for item in set_ or ():
        if "=" not in item:
            raise UserError(f"--set {item} has no value", cure="write --set KEY=VALUE, such as --set length_penalty=1")
    words = [item if item.startswith("decoding.") else f"decoding.{item}" for item in set_ or ()]
    given_as = overrides(words, ["decoding"]).get("decoding", {})
    if section := next((key.partition(".")[0] for key in given_as if "." in key), None):
        cure = "`anaphora settings decoding` lists the settings that --set takes"
        raise UserError(f"--set takes settings of section decoding, and this is one of {section}", cure=cure)
    changes: dict[str, Any] = {}
    for key, value in given_as.items():
        if (name := TRANSFORMERS_NAMES.get(key, key)) in changes:
            raise UserError(f"{name} is given twice, the other time as {key}", cure="leave one of them out")
        changes[name] = value
    given = {key: value for key, value in flags.items() if value is not None}
    if twice := sorted(changes.keys() & given.keys()):
        raise UserError(f"{twice[0]} is given twice, by --set and by its own option", cure="leave one of them out")
    return changes | given


def check_new_file(path: Path | None, *, force: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Before any work: may the output be written there, and is nothing in its place? Never over the input itself.

    inputs: texts by name, whose column may stand behind it, or paths of other files.
    """
    from anaphora import folder
    from anaphora.data.formats import place

    if path is not None:
        read = (Path(name) if name == "-" or isinstance(name, Path) else place(name, "source").path for name in inputs)
        folder.check_new_file(path, force=force, inputs=read)


def read_stdin(notes: Counter[str] | None = None, *, together: bool = False) -> Iterator[str]:
    """Lines of stdin as they come, split on \\n only; `notes` counts what was tidied."""
    from anaphora.data.formats import tidy

    notes = Counter() if notes is None else notes
    for number, line in enumerate(_stdin(together=together), start=1):
        try:
            text = line.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"is not UTF-8 (byte {error.start + 1} of the line)",
                file="stdin",
                line=number,
                cure="convert it: iconv -f LATIN1 -t UTF-8 (with the encoding it has)",
            ) from None
        if number == 1 and text.startswith("\ufeff"):  # a byte-order mark, as in files
            text = text[1:]
            notes["bom"] += 1
        if text.endswith("\r"):
            text = text[:-1]
            notes["crlf"] += 1
        yield text if text.isprintable() else tidy(text, notes, "stdin", number, strict=False)


def reads_terminal(out: Output, model: Path, *files: str | None) -> bool:
    """Whether somebody will type the text; they hear at once that the model is being loaded."""
    if "-" not in files or not sys.stdin.isatty():
        return False
    out.say(f"loading {model} …")
    return True


def _stdin(*, together: bool) -> Iterator[bytes]:
    """Its lines; at a terminal, with a hint and a prompt on stderr."""
    asks = sys.stdin.isatty() and not {"-q", "--quiet"} & set(sys.argv)
    screen = Steadfast(sys.stderr)
    try:
        if asks:
            ends = "Ctrl-D ends, and all are answered" if together else "Ctrl-D ends"
            print(f"type {'lines' if together else 'a line'} and press Enter; {ends}", file=screen)
        while True:
            if asks:
                print("> ", end="", file=screen, flush=True)
            line = sys.stdin.buffer.readline()
            if not line:
                break
            yield line
        if asks:
            print(file=screen, flush=True)
    except OSError as error:  # it is closed, or a folder
        raise refused_by_system(error, "cannot be read", file="stdin") from None


def read_side(files: list[str], side: str, notes: Counter[str] | None = None) -> list[str]:
    """All lines of a text to translate: N lines in, N lines out, so what can be read is read."""
    from anaphora.data.formats import read_rows

    return [row[0] for row in read_rows({side: files}, notes, strict=False)]


def warn_of_notes(out: Output, notes: Mapping[str, int]) -> None:
    """One line that counts all that was odd about the text."""
    from anaphora.data.formats import describe_notes

    if said := describe_notes(notes):
        out.say(f"warning: {said}")


def read_pairs(
    source: list[str] | None, target: list[str] | None, notes: Counter[str] | None = None
) -> tuple[list[str], list[str]]:
    """Both sides, line for line; a table (.tsv, .csv, .jsonl, .parquet) may hold the two."""
    from anaphora.data.formats import read_rows, same_table

    if not source:
        raise UserError("no source text given", cure="give --source FILE --target FILE")
    target = target or same_table(source)
    if not target:
        raise UserError("no target text given", cure="give --target FILE")
    rows = list(read_rows({"source": source, "target": target}, notes))
    if not rows:
        raise UserError("there are no lines in this file", file=source[0], cure="give files with at least one line")
    return [row[0] for row in rows], [row[1] for row in rows]


def takes_text(
    model: Path, text: Sequence[str] | None, source: Sequence[str] | None, target: Sequence[str] | None
) -> bool:
    """Whether the model is a language model, asked about --text; otherwise it is a translator, asked about pairs."""
    from anaphora import api

    pairs = "--source" if source else "--target" if target else None
    if text and pairs:
        raise UserError(f"--text and {pairs} are both given", cure="a language model takes --text, a translator pairs")
    if api.is_language_model(model):
        if pairs:
            raise UserError(
                f"is {api.described_folder(model)}: it takes no {pairs}", file=model, cure="give --text FILE"
            )
        if not text:
            what = f"is {api.described_folder(model)}, and no text is given"
            raise UserError(what, file=model, cure="give --text FILE (- is stdin)")
        return True
    if api.is_vectors(model):
        raise UserError("holds word vectors, which give no probability to text", file=model, cure=api.FOR_VECTORS)
    if text:
        raise UserError(
            "is a translator: it takes no --text",
            file=model,
            cure="give --source FILE and --target FILE, line for line",
        )
    return False


def open_text_model(out: Output, model: Path, device: str = "auto", patches: Sequence[Path] | None = None) -> TextModel:
    """A language model, with patches where there are some; what had to be taken otherwise than its file says is told
    before any number is."""
    from anaphora import api

    loaded = api.load_text_model(model, device)
    if patches:
        loaded = loaded.patched(list(patches))
    for note in loaded.notes:
        out.say(f"note: {note}")
    return loaded


def describe_replaced(by: Mapping[str, int]) -> str:
    """How many unknown words were replaced, in a sentence."""
    ways = {"dictionary": "from the dictionary", "copy": "copied from the source", "prefix": "as the prefix has them"}
    each = ", ".join(f"{by[name]:,} {said}" for name, said in ways.items() if by.get(name))
    number = sum(by.values())
    return f"{count(number, 'unknown word', 'unknown words')} replaced{f': {each}' if each else ''}"


def read_text(files: Sequence[str], notes: Counter[str] | None = None, *, together: bool = False) -> Iterator[str]:
    """All lines of a language model's text, file after file, as they come; - is stdin. together: no line is answered
    before the last is read, and somebody who types is told so."""
    from anaphora.data.formats import read_column

    notes = Counter() if notes is None else notes
    if list(files).count("-") > 1:
        raise UserError("stdin can be read only once, and - is given twice", cure="leave one of them out")
    for name in files:
        yield from (
            read_stdin(notes, together=together) if name == "-" else read_column([name], "text", notes, strict=False)
        )
