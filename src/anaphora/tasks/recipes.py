"""From a recipe's name and the size of a corpus to the settings of one run.

A recipe is a YAML file with some of the sections `data tokenizer model training decoding` (recipes/*.yaml; a path
works too). Settings come from four places, each winning over those before it: the defaults in the code, the size of
the corpus, the recipe, the user's own `section.key=value`. The result is one document, saved with the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anaphora.config import convert, merge, read_yaml, renamed, shown
from anaphora.data.data_settings import DataConfig
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.errors import UserError, nearest, option
from anaphora.files.shared_names import by_name
from anaphora.models import (
    named_by_decoder,
    settings_class,
    with_encoder_section,
)
from anaphora.models import settings as model_settings
from anaphora.models.model_file import check_known
from anaphora.models.registry import NOWHERE, Origin, is_known, kinds, own_systems, system
from anaphora.nn.encoder_settings import ENCODERS
from anaphora.results import brief
from anaphora.tasks.base import WHOLE, Task, task_in, task_of
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.training.training_settings import TrainingConfig

if TYPE_CHECKING:  # a model's settings stand beside it, and a counting run has no room for torch
    from anaphora.models import ModelConfig
    from anaphora.models.language.language_settings import LanguageConfig
    from anaphora.models.translation.translator_settings import TranslatorConfig
    from anaphora.models.vectors.vector_settings import VectorsConfig, VectorsTraining

SECTIONS = ("data", "tokenizer", "model", "training", "decoding")

Document = dict[str, dict[str, Any]]


@dataclass
class RunConfig:
    """All settings of one run: what config.yaml holds."""

    recipe: str
    start_from: str | None
    data: DataConfig
    tokenizer: TokenizerConfig
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig
    origin: Origin = NOWHERE
    """Of a system of the user's own: the file it was learned with, by its name alone."""

    def __repr__(self) -> str:
        return brief("RunConfig", self.recipe, self.model.kind)

    @property
    def task(self) -> Task:
        """What a run of these settings is."""
        labeled = bool(getattr(self.model, "labels", ()) or self.data.labels)
        return task_of(self.model.kind, labeled=labeled)

    def document(self) -> dict[str, Any]:
        """What config.yaml holds: every setting that means something for this kind of model."""
        task, model = self.task, self.model
        known = {
            section: {name: copy(getattr(getattr(self, section), name)) for name in task.meaning(section, model)}
            for section in SECTIONS
        }
        file = {"model_file": self.origin.file, "model_sha256": self.origin.fingerprint} if any(self.origin) else {}
        return {"run": {"recipe": self.recipe, "start_from": self.start_from, **file}, **known}

    @property
    def translator(self) -> TranslatorConfig:
        """The model's settings, where it must be a translator."""
        return cast("TranslatorConfig", self.task.translator(self.model))

    @property
    def language(self) -> LanguageConfig:
        """The model's settings, where it must be a neural language model."""
        return cast("LanguageConfig", self.task.neural(self.model))

    @property
    def vectors(self) -> tuple[VectorsConfig, VectorsTraining]:
        """What is learned and how, where it must be word vectors: they have a section `training` of their own."""
        return cast("VectorsConfig", self.task.vectors(self.model)), cast("VectorsTraining", self.training)

    def windows(self) -> tuple[int, int] | None:
        """How a stream is read by a model that carries nothing along: so many tokens at once, moved by so many
        (decoding/text_scoring.py). None: the text is not a stream, or is read as a whole."""
        if self.data.boundaries != "stream" or not getattr(self.model, "windowed", False):
            return None
        context = self.training.context
        return context, self.training.stride or max(1, context // 2)

    @classmethod
    def read(cls, document: Mapping[str, Any], *, file: str | None = None) -> RunConfig:
        """The typed settings of a document; every key is checked."""
        for section, content in document.items():
            if section not in (*SECTIONS, "run"):
                raise UserError(f"unknown section {shown.repr(section)}", file=file, cure=nearest(section, SECTIONS))
            if content is not None and not isinstance(content, Mapping):
                cure = f"write `{section}:` and below it `  key: value` lines"
                raise UserError(f"section {section!r} holds no settings", file=file, cure=cure)
        run = document.get("run") or {}
        refuse_unknown_system(document, file=file)
        model = model_settings(document.get("model") or {}, file=file)
        data = document.get("data") or {}
        task = task_of(model.kind, labeled=bool(getattr(model, "labels", ()) or data.get("labels")))
        return cls(
            recipe=convert(run.get("recipe", "transformer"), str, name="run.recipe", file=file),
            start_from=convert(run.get("start_from"), str | None, name="run.start_from", file=file),
            model=model,
            **{section: task.section(section, model.kind, document.get(section) or {}, file=file) for section in WHOLE},
            origin=origin_of(run, model, file=file),
        )


def refuse_unknown_system(document: Mapping[str, Any], *, file: str | None) -> None:
    """A model whose system is the user's own, and is not here, is told by the file that it came from."""
    came_from, model = (document.get("run") or {}).get("model_file"), document.get("model") or {}
    kind, reader = model.get("kind"), model.get("encoder")
    reader = reader.get("kind") if isinstance(reader, Mapping) else reader
    if is_known(kind) and (reader is None or reader in ENCODERS):
        return
    if isinstance(came_from, str):
        kind = reader if is_known(kind) else kind
        raise UserError(
            f"its system, {kind}, came from a file, {came_from}, and a model folder holds no code",
            file=None if file is None else Path(file).parent,
            cure=f"name that file: {option('model', came_from)}",
        )


def origin_of(run: Mapping[str, Any], model: ModelConfig, *, file: str | None) -> Origin:
    """The file that a system of the user's own came from, as the folder says; of a new run, the one that is here."""
    own = own_systems()  # the whole may be, or what reads for it
    one = own.get(getattr(model, "encoder_name", ""), system(model.kind)) if model.kind not in own else own[model.kind]
    said = [convert(run.get(key), str | None, name=f"run.{key}", file=file) for key in ("model_file", "model_sha256")]
    if not any(said):
        return Origin(Path(one.file).name if one.file else None, one.fingerprint)
    check_known(run, one, file)
    return Origin(*said)


def recipe_folder() -> Path:
    """recipes/: inside the package when installed, beside src/ in a checkout."""
    here = Path(__file__).resolve().parent.parent
    return here / "recipes" if (here / "recipes").is_dir() else here.parent.parent / "recipes"


def recipe_names() -> list[str]:
    return sorted(path.stem for path in recipe_folder().glob("*.yaml"))


ELSEWHERE = {
    "word2vec": "choose skipgram or cbow",
    "fasttext": "choose skipgram or cbow, with model.subwords=true",
}
"""Names that people bring from other tools."""


def load_recipe(name: str) -> Document:
    """The sections of a recipe, by name or by file."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = recipe_folder() / f"{name}.yaml"
        if not path.is_file() and is_known(name) and name in own_systems():  # in an installed package, maybe
            return {"model": {"kind": name}}
        if not path.is_file():
            cure = ELSEWHERE.get(name.lower()) or nearest(name, recipe_names())
            raise UserError(f"there is no recipe {name!r}", cure=cure)
    elif not path.exists():
        raise UserError("there is no such recipe file", file=path, cure=f"or a name: {', '.join(recipe_names())}")
    document = renamed(read_yaml(path), file=path)
    _check_recipe(document, str(path))
    found = {section: content for section, content in document.items() if content is not None}
    if {"kind", "decoder"} & found.get("model", {}).keys():
        found["model"] = with_encoder_section(found["model"], named_by_decoder(found["model"]), file=str(path))
    return found


def _check_recipe(document: dict[str, Any], file: str) -> None:
    """A mistake in a recipe is named by its file. What names no kind of model is no mistake if any kind takes it."""
    try:
        RunConfig.read(document, file=file)
    except UserError:
        model = document.get("model") or {}
        if not isinstance(model, Mapping) or {"kind", "decoder"} & model.keys():
            raise
        for kind in kinds():
            with suppress(UserError):
                one = {**document, "model": {**model, "kind": kind}}
                task_in(one).refuse_foreign(RunConfig.read(one).model, one)
                return
        raise


FREE = {
    "model": (
        *("dropout", "attention_dropout", "activation_dropout", "attention", "max_length"),
        *("input_dropout", "output_dropout", "embedding_dropout", "weight_dropout", "sense_dropout", "locked"),
        *("labels", "pool", "unroll", "expert_balance"),
    ),
    "tokenizer": ("dropout",),
}
"""What fine-tuning may change of the model it starts from: how it learns and computes, not what its weights mean."""


def inherit(recipe: Document, start: Mapping[str, Any]) -> Document:
    """A recipe for learning on: model and tokenizer are those of the folder that the run starts from, but for what the
    recipe may change of them."""
    kept = {
        section: {**start[section], **{key: value for key, value in recipe.get(section, {}).items() if key in free}}
        for section, free in FREE.items()
    }
    return {**recipe, **kept}


def check_inherited(own: Document, start: Mapping[str, Any], *, folder: Path) -> None:
    """A user who asks for another shape or tokenizer than the start has is told so, before any work is done."""
    own, start = by_name(own), by_name(start)
    for section, free in FREE.items():
        for key, value in own.get(section, {}).items():
            theirs = start[section]  # a table of places ends where it was trained to
            placed = section == "model" and (theirs.get("positions") == "learned" or learns_places(theirs.get("kind")))
            bound = key not in free or (key == "max_length" and placed)
            if key in start[section] and bound and str(value) != str(start[section][key]):
                raise UserError(
                    f"has {section}.{key}={start[section][key]}, which cannot become {value}",
                    file=folder,
                    cure=f"leave that setting out, or train without {option('start_from')}: a model keeps its "
                    "shape and its tokenizer",
                )


def training_said(recipe: Document, own: Document) -> dict[str, Any]:
    """Section `training` as recipe and user say it. Learning from whole translations is plain descent unless told
    otherwise; a recipe's optimizer is for learning from nothing, and stays behind where the user asks for the other."""
    mine = own.get("training", {})
    said = {**recipe.get("training", {}), **mine}
    if said.get("objective", "likelihood") != "likelihood":
        if "objective" in mine and "optimizer" not in mine:
            said.pop("optimizer", None)
        said.setdefault("optimizer", "sgd")
    return said


def named_by_kind(recipe: Document, own: Document) -> tuple[Document, Document]:
    """Both without `model.decoder`, which is another way to say the kind (models.named_by_decoder)."""
    model = merge(recipe, own).get("model", {})
    if "decoder" not in model:
        return recipe, own
    found = named_by_decoder(model)
    said: dict[str, Any] = {key: found[key] for key in ("kind", "encoder") if key in found}
    known = {field.name for field in fields(settings_class(found["kind"]))}
    for key in recipe.get("model", {}):
        if key not in known | {"decoder"}:
            raise UserError(
                f"the recipe says model.{key}, which a translator with the decoder of {found['kind']} has not",
                cure=f"take the recipe {found['kind']} with model.encoder={said.get('encoder')}",
            )

    def without(one: Document) -> Document:
        return {**one, "model": {key: value for key, value in one.get("model", {}).items() if key != "decoder"}}

    return without(recipe), merge(without(own), {"model": said})


def complete(
    recipe: str, own: Document, *, pairs: int = 0, start_from: str | None = None, start: Mapping[str, Any] | None = None
) -> RunConfig:
    """The full settings of a run over that many pairs (of a text: tokens); `own` is what the user said, `start` the
    settings of the model that the run starts from."""
    task = task_in(merge(load_recipe(recipe), own))
    return task.complete(recipe, own, size=pairs, start_from=start_from, start=start)


def learns_places(kind: object) -> bool:
    """Whether a system has a vector for each place of a sentence, up to its longest one."""
    return bool(getattr(settings_class(kind), "learns_places", False))
