"""A published Backpack's folder as a model folder of ours, and back.

    theirs   config.json, model.safetensors or pytorch_model.bin, vocab.json and merges.txt, or tokenizer.json
    ours     config.yaml, model.safetensors, tokenizer.json, card.md, metrics.json

Weights and their names are published_backpack.py's. What is done here is about words: published tokens are numbered
otherwise, and one of them, <|endoftext|>, begins texts and ends them. Ours has a mark for each: ⟨/s⟩ is that token, and
⟨s⟩ has the same vector. ⟨s⟩, ⟨pad⟩ and ⟨unk⟩, which the published model does not have, are never said (`model.silent`):
so all probabilities stay what they were.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anaphora.errors import UserError, shown
from anaphora.files.foreign import check_regular, is_there, read_json
from anaphora.files.shared_names import name_of
from anaphora.folder import (
    CARD,
    CONFIG,
    METRICS,
    WEIGHTS,
    atomic_folder,
    read_metrics,
    refuse_existing_folder,
    write_config,
    write_json,
    write_text,
)
from anaphora.tokenizers.published_bpe import UNUSED, PublishedTokens
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, SPECIALS, UNK
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.pipelines.text_model import TextModel

PUBLISHED_CONFIG = "config.json"
FILES = ("model.safetensors", "pytorch_model.bin")
SILENT = [PAD, BOS, UNK]


def is_published_backpack(folder: Path) -> bool:
    """Whether a folder is that of a Backpack published elsewhere, or of what calls itself one."""
    from anaphora.models.backpack.published_backpack import is_backpack

    if not is_there(folder / PUBLISHED_CONFIG) or (folder / CONFIG).exists():
        return False
    try:
        return is_backpack(_document(folder))
    except TypeError:  # a number, say, where names should be
        return False


def _document(folder: Path) -> dict[str, Any]:
    file = folder / PUBLISHED_CONFIG
    try:
        document = read_json(file)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read ({error})", file=file, cure="give the file that was published") from None
    if not isinstance(document, dict):
        raise UserError("holds no settings", file=file, cure="give the file that was published")
    return document


def _whole(document: dict[str, Any], key: str, default: int, file: Path) -> int:
    value = document.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
        raise UserError(f"{key} is {shown.repr(value)}, not a whole number", file=file, cure="give the published file")
    return value


def published_tensors(folder: Path) -> dict[str, Any]:
    """The weights of a published folder by their names, in float32; files of torch are read as weights alone."""
    import torch

    there = [name for name in FILES if is_there(folder / name)]
    there += sorted(path.name for path in folder.glob("*.ckpt"))
    if not there:
        raise UserError(f"holds no weights ({', '.join(FILES)} or a .ckpt)", file=folder, cure="copy them there")
    file = folder / there[0]
    check_regular(file)
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            loaded: Any = load_file(file)
        else:
            loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the libraries raise at a file that is none of theirs
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"cannot be read as weights alone ({why})",
            file=file,
            cure="write its tensors to a safetensors file first; what needs Python objects is not loaded",
        ) from None
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):  # a checkpoint of the training code
        loaded = loaded["state_dict"]
    if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise UserError("holds other things than named tensors", file=file, cure="give the published file of weights")
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in loaded.items()}


# -- from a published folder -------------------------------------------------------------------------------------------


def read_published(source: Path, target: Path, *, force: bool) -> tuple[int, list[str]]:
    """Make a model folder of a published one; its number of parameters, and what there is to say."""
    import torch

    from anaphora.models import build_language_model, settings
    from anaphora.models.backpack.backpack import Backpack
    from anaphora.models.backpack.published_backpack import load_published_backpack, published_backpack_settings
    from anaphora.models.weights import model_weights, no_larger_than, write_weights
    from anaphora.tasks.recipes import RunConfig

    refuse_existing_folder(target, force=force)
    document = _document(source)
    try:
        given = published_backpack_settings(document)
    except UserError as error:
        raise UserError(error.what, file=source / PUBLISHED_CONFIG, cure=error.cure) from None
    except (TypeError, ValueError, ArithmeticError) as error:
        what = f"has a setting of the wrong kind ({error})"
        raise UserError(what, file=source / PUBLISHED_CONFIG, cure="give the file that was published") from None
    rows = _whole(document, "vocab_size", 50_264, source / PUBLISHED_CONFIG)
    end = _whole(document, "eos_token_id", 50_256, source / PUBLISHED_CONFIG)
    stored = published_tensors(source)
    if rows > max((len(tensor) for tensor in stored.values() if tensor.dim()), default=0):
        raise UserError(
            f"says that there are {rows:,} tokens, and no table of the weights has as many rows",
            file=source / PUBLISHED_CONFIG,
            cure="give the files of one and the same model",
        )
    tokens = PublishedTokens.read(source, rows=rows, end=end)
    silent = [] if tokens.marked else SILENT
    config = RunConfig.read(
        {
            "run": {"recipe": "backpack"},
            "tokenizer": {"kind": "bpe", "vocabulary": rows + len(silent)},
            "model": given | {"silent": silent},
            "data": {"boundaries": "lines"},
            "training": {"context": given["max_length"]},
        }
    )
    try:
        with no_larger_than(stored, source):
            theirs = cast(Backpack, build_language_model(settings(given), rows))  # type: ignore[arg-type]
        load_published_backpack(theirs, stored)
    except UserError as error:
        raise UserError(error.what, file=error.file or source, cure=error.cure) from None
    weights = model_weights(theirs)
    notes = ["every line is read as a text of its own"]
    if not tokens.marked:
        table = weights["embedding.table.weight"]  # (rows, dim)
        own = torch.zeros(rows + len(SILENT), table.shape[1])
        own[EOS], own[BOS] = table[end], table[end]
        own[len(SPECIALS) :] = table[torch.tensor(tokens.order)]  # of our tokens, which row is whose
        weights["embedding.table.weight"] = own
        notes = [f"⟨s⟩ and ⟨/s⟩ are both its <|endoftext|>; {notes[0]}"]
    with atomic_folder(target) as folder:
        write_config(folder, config.document())
        tokenizer = tokens.tokenizer()
        tokenizer.save(folder / "tokenizer.json")
        write_weights(folder / WEIGHTS, weights)
        write_json(
            folder / METRICS,
            {
                "anaphora": __version__,
                "finished": True,
                "converted_from": name_of(source),
                "vocabularies": {"text": tokenizer.vocabulary_fingerprint()},
                **({} if tokens.marked else {"published": {"end": end, "rows": rows}}),
                "notes": notes,
            },
        )
        write_text(
            folder / CARD, _card(target.resolve().name, source, theirs.parameter_count(), given["senses"], notes)
        )
    return theirs.parameter_count(), notes


def _card(name: str, source: Path, parameters: int, senses: int, notes: list[str]) -> str:
    lines = [
        f"# {name}",
        "",
        f"A Backpack language model with {senses} senses of every token, {parameters:,} parameters, that Anaphora "
        f"{__version__} read from the published folder `{source.name}`.",
        "",
        *(f"- {note}" for note in notes),
        "",
        "## Use",
        "```",
        f'anaphora generate {name} "a beginning"',
        f"anaphora senses {name} word",
        f'anaphora why {name} "a beginning"',
        "```",
    ]
    return "\n".join(lines) + "\n"


# -- to a published folder ---------------------------------------------------------------------------------------------


def _published_order(loaded: TextModel) -> tuple[list[int], int, list[str]]:
    """Which of our rows is whose, the number of <|endoftext|>, and what there is to say, of a model that came from a
    published folder. One that has learned on since no longer knows that number: it stood behind the last word."""
    rows, unused = range(loaded.model.vocabulary), UNUSED.format(0)
    order = [row for row in rows if row not in SILENT and row != EOS]
    known, notes = read_metrics(loaded.folder).get("published"), []
    if isinstance(known, dict):
        end = int(known["end"])
    else:
        end = next((place for place, row in enumerate(order) if loaded.tokenizer.token(row) == unused), len(order))
        notes.append(f"<|endoftext|> is number {end}, behind the last word")
    order.insert(end, EOS)
    return order, end, notes


def write_published(source: Path, target: Path, *, force: bool) -> tuple[int, list[str]]:
    """Make a folder in the published layout of a Backpack of ours; its number of parameters, and what there is to say.
    A model that came from such a folder becomes what it was, number by number."""
    import torch
    from safetensors.torch import save_file

    from anaphora.models.backpack.backpack import Backpack
    from anaphora.models.backpack.published_backpack import WORDS, published_backpack_weights, published_document
    from anaphora.pipelines.text_model import TextModel

    refuse_existing_folder(target, force=force)
    loaded = TextModel(source)
    model = cast(Backpack, loaded.model)
    try:
        weights, silent = published_backpack_weights(model), list(model.head.silent)
        if silent and sorted(silent) != sorted(SILENT):
            raise UserError(f"a Backpack with model.silent={silent} has no published form", cure="publish one without")
        order, end, notes = _published_order(loaded) if silent else (list(range(model.vocabulary)), EOS, [])
        document = published_document(model, end=end)
    except UserError as error:
        raise UserError(error.what, file=error.file or source, cure=error.cure) from None
    names = [loaded.tokenizer.token(row) for row in order]
    if silent:
        table = weights[WORDS[0]]
        weights[WORDS[0]] = table[torch.tensor(order)].contiguous()
        names[end] = "<|endoftext|>"
        if not torch.equal(table[BOS], table[EOS]):
            notes.append("⟨s⟩ and ⟨/s⟩ have become two vectors since; both are <|endoftext|> there, with that of ⟨/s⟩")
    else:
        notes.append(f"tokens keep our numbers: texts begin with {BOS} and end with {EOS}")
        document["bos_token_id"] = BOS
    with atomic_folder(target) as folder:
        write_json(folder / PUBLISHED_CONFIG, document)
        save_file(weights, folder / FILES[0], {"format": "pt"})
        if loaded.tokenizer.kind in ("bpe", "byte"):
            PublishedTokens.write(folder, names, loaded.tokenizer)
        else:
            loaded.tokenizer.save(folder / "tokenizer.json")
            notes.append(f"its tokenizer is of kind {loaded.tokenizer.kind}: only tokenizer.json holds it")
    return sum(tensor.numel() for tensor in weights.values()), notes
