"""What a run of a system is: the one object that knows what is particular to translation, language modeling, …

    system(kind).task -> task("translation") -> TranslationTask: its sections of settings, its checks, its run

Every system names its task (models/registry.py). A task says what such a system is called, which text it learns from,
how its settings are resolved for a corpus, what trains it, what opens its folders. Whoever must know asks the task of a
system, and never which kind it is. Tasks are found by a small table of import paths, and nothing here or in their
own files loads torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anaphora.config import build, names
from anaphora.data.data_settings import DataConfig
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.errors import UserError, option
from anaphora.files.entries import loaded
from anaphora.models import DEFAULT, listing_option
from anaphora.models.registry import TASKS, is_known, system
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.training.training_settings import TrainingConfig

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.tasks.learning import LearningRun
    from anaphora.tasks.recipes import Document, RunConfig
    from anaphora.tasks.request import Outcome, Request

PLACES = {
    "translation": "anaphora.tasks.translation:TranslationTask",
    "language": "anaphora.tasks.language:LanguageTask",
    "counting": "anaphora.tasks.counting:CountingTask",
    "vectors": "anaphora.tasks.vectors:VectorsTask",
    "ensemble": "anaphora.tasks.composites:EnsembleTask",
    "mixture": "anaphora.tasks.composites:MixtureTask",
}
"""Where each task is; a file is imported when its task is asked for."""
PAIRS = ("source", "target", "valid_source", "valid_target")
"""Settings of section `data` that name the files of a translator."""
WHOLE: dict[str, type[Any]] = {
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
}
"""What the library's code is given of each section, whatever the task; the section of a task is the part of it that
means something there, a class that this one derives from."""
Opened = Literal["translator", "language model", "vectors"]
"""What a model folder becomes in memory: a TranslationModel, a TextModel or a VectorsModel (pipelines/)."""


class Task(ABC):
    """One sort of run. It has no state: all that it knows is in its class."""

    name: ClassVar[str]
    """As systems name it."""
    data: ClassVar[type[Any]]
    tokenizer: ClassVar[type[Any]]
    training: ClassVar[type[Any]]
    decoding: ClassVar[type[Any]]
    """The classes of its sections: what may be said there."""
    opens_as: ClassVar[Opened]
    """What a folder of it is in memory."""
    learns_from: ClassVar[Literal["pairs", "text"]] = "text"
    takes_labels: ClassVar[bool] = False
    """Whether lines may have labels, or stand packed in one row."""
    learns: ClassVar[bool] = True
    """Whether the loop of training/ makes updates of it; counting and word vectors have ways of their own."""
    sizes: ClassVar[tuple[int, ...]] = (0,)
    """Of a corpus, one number for each size that decides otherwise (`complete`)."""
    taken_by: ClassVar[str] = "score, evaluate and generate take language models"
    """Which commands take a model of it."""
    holds_others: ClassVar[bool] = False
    """Whether its folders hold other models, named by `model.parts`."""

    @property
    def noun(self) -> str:
        """What its systems are, in a sentence."""
        return TASKS[self.name]

    def described(self, kind: str) -> str:
        """A model of it, in an error."""
        return f"a model of kind {kind}"

    def variant(self, kind: str, *, labeled: bool) -> Task:
        """The task of one of its systems; labeled: with the labels of a classifier."""
        return self

    # -- settings ------------------------------------------------------------------------------------------------------

    def section_class(self, section: str, kind: str) -> type[Any]:
        """The class of a section of one of its systems."""
        found: type[Any] = getattr(self, section)
        return found

    def section(self, section: str, kind: str, said: Mapping[str, Any], *, file: str | None = None) -> Any:
        """The typed settings of a section. What only other tasks know is left out: a run may have been made of another
        one, as a mixture is of a language model. Whoever asks for a run may not say it (`refuse_foreign`)."""
        cls, whole = self.section_class(section, kind), WHOLE[section]
        known = set(names(cls))
        listed = f"{section}{listing_option(kind)}" if section == "training" else None
        if not issubclass(whole, cls):
            return build(cls, said, section=section, file=file, listed=listed)
        foreign = set(names(whole)) - known
        own = {key: value for key, value in said.items() if key not in foreign}
        return build(whole, own, section=section, file=file, listed=listed, part=cls)

    def meaning(self, section: str, model: Any) -> list[str]:
        """The settings of a section that mean something; model: its section `model`, typed."""
        if section != "model":
            return names(self.section_class(section, model.kind))
        unused = without_effect(model)
        return [name for name in names(type(model)) if name not in unused]

    def refuse_foreign(self, model: Any, said: Document) -> None:
        """A setting that would change nothing is named, not ignored."""
        unused = without_effect(model)
        for key in said.get("model") or {}:
            if needed := unused.get(key):
                raise UserError(
                    f"model.{key} means nothing without model.{needed}", cure="leave it out, or choose that"
                )
        for section in (section for section in said if section in ("model", *WHOLE)):
            known = self.meaning(section, model)
            for key in (key for key in said[section] or {} if key not in known):  # the first one that was said
                its = [] if self.learns or section == "model" else known
                cure = f"of that section it has {', '.join(f'{section}.{name}' for name in its)}"
                what = f"{section}.{key} means nothing for {self.described(model.kind)}"
                raise UserError(what, cure=cure if its else "leave it out")

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def check_files(self, kind: str, data: Mapping[str, Any], recipe: str) -> None:
        """Text of the wrong sort is refused before any work; `data` is that section as recipe and user say it."""
        if self.takes_labels:
            return
        if data.get("labels"):
            cure = f"for {option('labels')} use {option('recipe', 'lstm')}, say"
            raise UserError(f"{self.described(kind)} does not tell texts apart", cure=cure)
        if data.get("boundaries") == "packed":
            what, cure = "data.boundaries=packed is about rows that are learned from", "every line counts by itself"
            raise UserError(what, cure=f"leave it out: {cure}")

    def check_request(self, request: Request, settings: Document) -> None:
        """What else cannot be; `settings`: all that recipe and user say. Mostly nothing."""
        return

    def translator(self, model: Any) -> Any:
        """The settings of a model, where it must be a translator."""
        raise UserError(f"{model.kind} is {self.noun}, and this needs a translator", cure=self.taken_by)

    def neural(self, model: Any) -> Any:
        """The settings of a model, where it must be a neural language model."""
        cure = f"choose {option('recipe', 'lstm')}, say"
        raise UserError(f"{model.kind} is no neural language model", cure=cure)

    def vectors(self, model: Any) -> Any:
        """The settings of a model, where it must be word vectors."""
        raise UserError(f"{model.kind} is no kind of word vectors", cure=f"choose {option('recipe', 'skipgram')}, say")

    def usual_recipe(self, model: Mapping[str, Any]) -> str | None:
        """The recipe of a run that starts from such a model, and names none."""
        return str(model.get("kind"))

    @abstractmethod
    def complete(
        self,
        recipe: str,
        own: Document,
        *,
        size: int,
        measured: bool = True,
        start_from: str | None = None,
        start: Mapping[str, Any] | None = None,
    ) -> RunConfig:
        """The full settings of a new run: defaults, what the size of the corpus calls for, the recipe, the user's own.
        size: pairs of a parallel corpus, tokens of a text. measured: whether there is validation text."""

    def sized_by_bytes(self, config: RunConfig) -> set[tuple[str, str]]:
        """Settings (section, key) that follow the size of a text before it is cut into tokens."""
        return set()

    def quicker(self, config: RunConfig) -> list[str]:
        """Settings that make a run shorter, and its model less good."""
        return []

    def counted(self, folder: Path, model: Any) -> bool:
        """Whether what a folder of it holds was counted, all of it: then nothing of it needs torch."""
        return False

    # -- runs ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def train(self, request: Request, console: Console | None = None) -> Outcome:
        """Make, continue or finish the run that is asked for."""

    @abstractmethod
    def open_run(self, folder: Path, config: RunConfig, device: str) -> LearningRun:
        """A run that is there, its model with fresh weights."""

    @abstractmethod
    def try_out(self, folder: Path, request: dict[str, Any]) -> Any:
        """What a run would be like, found with a sample of its text in that folder (proposal.py): a dataclass."""

    def next_command(self, run: Path) -> str:
        """What to do with a finished run, as one types it after `anaphora`."""
        return f"evaluate {run} {option('text', 'test.txt')}"


def without_effect(model: Any) -> dict[str, str | None]:
    """Settings of a system that mean nothing as its others are, and what they would need; its own class knows."""
    found: dict[str, str | None] = getattr(model, "without_effect", dict)()
    return found


@cache
def task(name: str) -> Task:
    """The task of that name."""
    found: Task = loaded(PLACES[name])()
    return found


def task_of(kind: object, *, labeled: bool = False, file: str | None = None) -> Task:
    """The task of a system; labeled: of one that has the labels of a classifier."""
    one = system(kind, file=file)
    return task(one.task).variant(one.kind, labeled=labeled)


def task_in(document: Mapping[str, Any], *, file: str | None = None) -> Task:
    """The task of what a document of settings describes."""
    model, data = document.get("model") or {}, document.get("data") or {}
    labeled = bool(model.get("labels") or data.get("labels"))
    return task_of(model.get("kind", DEFAULT), labeled=labeled, file=file)


def is_of(task_name: str, kind: object) -> bool:
    """Whether there is such a system, and it is of that task."""
    return is_known(kind) and system(kind).task == task_name


def described_model(model: Mapping[str, Any]) -> str:
    """What the section `model` of a config describes, in words: "a classifier (gru)"."""
    kind = model.get("kind", DEFAULT)
    return f"{task_of(kind, labeled=bool(model.get('labels'))).noun} ({kind})"


def refuse_pairs(kind: str, what: str, data: Mapping[str, Any]) -> None:
    """Plain text is learned from, not pairs."""
    if not any(data.get(name) for name in PAIRS):
        return
    raise UserError(
        f"{kind} is {what} and learns from plain text, not from pairs",
        cure=f"give {option('text', 'FILE')}; for a translator leave out {option('recipe')}, or choose one "
        "such as small",
    )
