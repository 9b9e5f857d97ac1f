"""A model that was trained in a loop of one's own, as a model folder: `anaphora.save`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn

from anaphora.arguments.given import path_of
from anaphora.config import to_mapping
from anaphora.errors import UserError, shown
from anaphora.folder import CONFIG, WEIGHTS, write_config
from anaphora.models.registry import system, systems
from anaphora.models.weights import model_weights, write_weights
from anaphora.tasks.recipes import RunConfig
from anaphora.tokenizers.tokenizer import Tokenizer


def save(
    model: nn.Module,
    folder: str | PathLike[str],
    tokenizer: Tokenizer | tuple[Tokenizer, Tokenizer],
    *,
    force: bool = False,
) -> Path:
    """Write a model of ours and its tokenizer as a model folder, which `anaphora.load` and every command open.

        tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe", vocabulary=500), lines)
        model = anaphora.models.CausalLM(vocabulary=tokenizer.vocabulary_size, dim=64)
        anaphora.save(model, "my-model", tokenizer)

    tokenizer: one, or two of a translator whose languages have vocabularies of their own. force: write over what is
    there. Card and metrics say how a run went; here nobody knows, so there are none.
    """
    place, settings = path_of(folder, "folder"), getattr(model, "config", None)
    kind = getattr(settings, "kind", None)
    if settings is None or kind not in systems() or isinstance(settings, type):
        cure = "torch.save(model.state_dict(), …) keeps any module; anaphora.register makes yours a system"
        raise UserError(f"{type(model).__name__} is no model that a folder can describe", cure=cure)
    pair = system(kind).task == "translation"
    given = tokenizer if isinstance(tokenizer, tuple) else (tokenizer,) * (1 + pair)
    if len(given) != 1 + pair or not all(isinstance(one, Tokenizer) for one in given):
        cure = "give one, or (source, target) of a translator"
        raise UserError(f"tokenizer is {shown.repr(tokenizer)}", cure=cure)
    for one, rows in zip(given, vocabularies(model)):
        if one.vocabulary_size != rows:
            what = f"the tokenizer knows {one.vocabulary_size:,} tokens, and the model {rows:,}"
            raise UserError(what, cure="make the model with vocabulary=tokenizer.vocabulary_size")
    if (place / CONFIG).exists() and not force:
        raise UserError("holds a model already", file=place, cure="choose another folder, or force=True")
    place.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"model": to_mapping(settings), "run": {"recipe": kind}}
    config = RunConfig.read(document).document()
    names = ("source", "target") if len(given) == 2 and given[0] is not given[1] else ("",)
    for name, one in zip(names, given):
        one.save(place / f"tokenizer{name and '.'}{name}.json")
    write_weights(place / WEIGHTS, model_weights(model))
    write_config(place, config)
    return place


def vocabularies(model: Any) -> list[int]:
    """Tokens that the model knows: of its text, or of source and target."""
    if hasattr(model, "source_embedding"):
        return [len(table.table.weight) for table in (model.source_embedding, model.target_embedding)]
    return [int(model.vocabulary)]
