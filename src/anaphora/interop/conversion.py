"""A model folder as an ARPA file, and an ARPA file as a model folder; a published Backpack's folder as one of ours, and
back (interop/backpack_folders.py).

ARPA is what other toolkits read and write (KenLM, SRILM, IRSTLM). A folder that was made from such a file works like
one that was counted here: `score`, `evaluate`, `generate`, `why`, `mix`. On the way out, names that ARPA cannot hold
are changed, and told; a file holds no more than n-grams and numbers, so what else a folder knows (its discounts, what
it was counted from) stays behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anaphora.arguments.checked import checked
from anaphora.arguments.given import path_of
from anaphora.errors import UserError
from anaphora.files.foreign import is_there
from anaphora.folder import (
    CARD,
    CONFIG,
    METRICS,
    WEIGHTS,
    atomic_folder,
    check_new_file,
    read_config,
    recover,
    refuse_existing_folder,
    write_config,
    write_json,
    write_text,
)
from anaphora.models import DEFAULT, described_kind, settings
from anaphora.models.registry import system
from anaphora.models.vectors.vector_files import FORMATS
from anaphora.results import brief
from anaphora.tokenizers.vocabulary_file import UNKNOWN
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.models.ngram.ngram_model import NgramModel
    from anaphora.pipelines.text_model import TextModel
    from anaphora.tasks.recipes import RunConfig

CONVERTIBLE = (
    "n-grams become an ARPA file (.arpa, .arpa.gz), word vectors .txt .vec .bin .safetensors, and a Backpack a folder "
    "in the published layout"
)
"""What can be converted, in words."""
WRITTEN = (".arpa", ".arpa.gz")
"""How the names of ARPA files end that can be written."""


@dataclass(frozen=True)
class Conversion:
    """What was made of what."""

    source: Path
    target: Path
    order: int
    sizes: list[int]
    """N-grams of each order."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Tokens that have another name in the file."""
    notes: list[str] = field(default_factory=list)
    """What else is not as it was."""
    parameters: int | None = None
    """Of a Backpack: how many there are."""
    words: int | None = None
    """Of word vectors: how many there are …"""
    dim: int | None = None
    """… and how many numbers each has."""

    def __repr__(self) -> str:
        return brief("Conversion", f"{self.source} → {self.target}", *self.notes[:1])


def formats_of(folder: Path) -> tuple[str, ...]:
    """Which of the formats here can hold what a model folder holds; none, where it is no such folder."""
    if not is_there(folder / CONFIG):
        return ()
    return system((read_config(folder).get("model") or {}).get("kind", DEFAULT)).formats


def check_source(source: Path) -> None:
    """A model that no other format here can hold is refused, whatever its new name would be."""
    if not is_there(source / CONFIG) or formats_of(source):
        return
    model = read_config(source).get("model") or {}
    parts = [source / name for name in getattr(settings(model, file=str(source / CONFIG)), "parts", [])]
    if parts and all(map(formats_of, parts)):
        raise UserError(
            f"is {described_kind(model)}: what its parts say together is no table of n-grams",
            file=source,
            cure=f"convert the parts one by one: {' '.join(map(str, parts))}",
        )
    raise UserError(f"is {described_kind(model)}, which cannot be exported yet", file=source, cure=CONVERTIBLE)


@checked()
def convert(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    force: bool = False,
    header: bool = True,
    space: str | None = None,
) -> Conversion:
    """Make an ARPA file of a model folder, or the other way round, by their names; of a published Backpack's folder one
    of ours, or the other way round, by what is in it; of word vectors (a folder, .txt, .vec, .bin, .safetensors) any
    other of these, by its name.

    Nothing that exists is overwritten without `force`; a run folder, with its text, never is. header=False: vectors as
    text without a line of their number and size, as GloVe's files are; space: what stands for a space inside a word.
    """
    from anaphora.interop import backpack_folders as backpack
    from anaphora.pipelines.opened_text_model import is_arpa
    from anaphora.pipelines.vectors_model import is_vectors_file

    source, target = path_of(source, "source"), path_of(target, "target")
    recover(source)
    check_source(source)
    if is_vectors_file(source) or is_vectors_file(target):
        return _vectors(source, target, force=force, header=header, space=space)
    if not header or space is not None:
        raise UserError("header and space are about vectors as text", cure="leave them out")
    formats = formats_of(source)
    if not is_arpa(target) and (backpack.is_published_backpack(source) or "backpack" in formats):
        make = backpack.write_published if formats else backpack.read_published
        parameters, notes = make(source, target, force=force)
        return Conversion(source, target, 0, [], {}, notes, parameters)
    if "vectors" in formats and target.suffix not in (".arpa", ".gz"):
        raise UserError("is of no known format of word vectors", file=target, cure=FORMATS)
    if is_arpa(source) == is_arpa(target):
        if not is_arpa(source) and not source.exists():
            raise UserError("there is no such folder", file=source, cure="name what is to be converted")
        raise UserError(
            f"{source} and {target} are both {'ARPA files' if is_arpa(source) else 'folders, by their names'}",
            cure="name one of them .arpa or .arpa.gz and the other one like a folder",
        )
    if is_arpa(target) and not target.name.lower().endswith(WRITTEN):
        raise UserError(f"{target.suffix} files are read, but not written", file=target, cure="name it .arpa.gz")
    return _to_folder(source, target, force=force) if is_arpa(source) else _to_arpa(source, target, force=force)


def _vectors(source: Path, target: Path, *, force: bool, header: bool, space: str | None) -> Conversion:
    """Word vectors, from a folder or a file, into another one."""
    from anaphora.pipelines.vectors_model import VectorsModel

    loaded = VectorsModel(source)
    loaded.save(target, force=force, header=header, space=space)
    words, dim = loaded.vectors.vectors.shape
    return Conversion(source, target, 0, [], {}, list(loaded.notes), words=words, dim=dim)


# -- from a folder -----------------------------------------------------------------------------------------------------


def _to_arpa(source: Path, target: Path, *, force: bool) -> Conversion:
    from anaphora.models.ngram.arpa import sizes_in_file
    from anaphora.pipelines.text_model import TextModel

    check_new_file(target, force=force)
    if is_there(source / CONFIG) and "arpa" not in formats_of(source):
        described = described_kind(read_config(source).get("model") or {})
        raise UserError(f"is {described}, which holds no n-grams", file=source, cure="convert a counted model")
    loaded = TextModel(source)
    model = cast("NgramModel", loaded.model)
    tokenizer = loaded.tokenizer
    try:
        renamed = loaded.save_arpa(target, force=force)
    except UserError as error:
        raise error if error.file else UserError(error.what, file=source, cure=error.cure) from None
    notes = []
    if loaded.boundaries == "stream":
        notes.append(
            "the model reads on across line ends, which an ARPA file cannot say: other tools read line by line"
        )
    if model.order == 1:
        notes.append("KenLM reads no file of single words: its models have at least order 2")
    if tokenizer.kind != "word":
        notes.append(f"its n-grams are of {tokenizer.kind} tokens: cut text into them before other tools read it")
    elif tokenizer.split == "punctuation":
        notes.append("punctuation stands apart in it: put spaces around it before other tools read text")
    return Conversion(source, target, model.order, sizes_in_file(model), renamed, notes)


# -- from a file -------------------------------------------------------------------------------------------------------


def _to_folder(source: Path, target: Path, *, force: bool) -> Conversion:
    from anaphora.models.ngram.arpa import sizes_in_file
    from anaphora.pipelines.text_model import TextModel

    refuse_existing_folder(target, force=force)
    loaded = TextModel(source)
    model = cast("NgramModel", loaded.model)
    with atomic_folder(target) as folder:
        write_arpa_folder(folder, loaded, name=target.resolve().name)
    return Conversion(source, target, model.order, sizes_in_file(model), {}, list(loaded.notes))


def write_arpa_folder(folder: Path, loaded: TextModel, *, name: str) -> None:
    """Fill a new folder with what an ARPA file holds."""
    from anaphora.models.ngram.arpa import sizes_in_file
    from anaphora.models.ngram.ngram_file import write_trie

    model, tokenizer, source = cast("NgramModel", loaded.model), loaded.tokenizer, loaded.folder
    write_config(folder, arpa_config(model.order).document())
    tokenizer.save(folder / "tokenizer.json")
    write_trie(folder / WEIGHTS, model.trie)
    sizes = sizes_in_file(model)
    write_json(
        folder / METRICS,
        {
            "anaphora": __version__,
            "finished": True,
            "converted_from": source.name,
            "vocabularies": {"text": tokenizer.vocabulary_fingerprint()},
            "vocabulary": tokenizer.vocabulary_size,
            "orders": sizes,
            "notes": loaded.notes,
        },
    )
    counted = ", ".join(f"{size:,} {order}-grams" for order, size in enumerate(sizes, start=1))
    lines = [
        f"# {name}",
        "",
        f"A language model that Anaphora {__version__} read from the ARPA file `{source.name}`: {counted}.",
        "",
        "What it was counted from, and how it was smoothed, the file does not say. Words are what stands between "
        f"blanks; `{UNKNOWN}` stands for every word that it does not know.",
        *(["", *(f"- {note}" for note in loaded.notes)] if loaded.notes else []),
        "",
        "## Use",
        "```",
        f"anaphora evaluate {name} --text FILE",
        f'anaphora why {name} "a beginning"',
        "```",
    ]
    write_text(folder / CARD, "\n".join(lines) + "\n")


def arpa_config(order: int) -> RunConfig:
    """The settings that describe a model from an ARPA file."""
    from anaphora.tasks.recipes import RunConfig

    words = {"kind": "word", "split": "blanks", "fallback": "unk", "unknown": UNKNOWN}
    model = {"kind": "ngram", "order": order, "smoothing": "given"}
    return RunConfig.read({"run": {"recipe": "ngram"}, "tokenizer": words, "model": model})
