"""What `import anaphora` offers; the command line calls the same functions.

Heavy parts are imported by the functions that need them: counting, for one, has no room for torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.arguments.checked import checked
from anaphora.arguments.given import files_of, path_of, paths_of, words_of
from anaphora.arguments.signatures import also_named
from anaphora.config import RENAMED, merge
from anaphora.data.formats import same_table
from anaphora.device import device_name
from anaphora.errors import UserError, option
from anaphora.models.model_file import open_model_file
from anaphora.tasks.base import Opened, described_model
from anaphora.tasks.recipes import Document, RunConfig, load_recipe
from anaphora.tasks.request import (
    Average,
    Outcome,
    Request,
    check_files,
    choose_recipe,
    filled,
    said_settings,
    with_model_file,
)
from anaphora.training.bars import console_for

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.checking.check import Part
    from anaphora.checking.findings import Report
    from anaphora.comparing.comparison import Comparison
    from anaphora.pipelines.text_model import TextModel
    from anaphora.pipelines.translation_model import TranslationModel
    from anaphora.pipelines.vectors_model import VectorsModel

Path_ = str | PathLike[str]
Files = Path_ | Sequence[Path_]
Stage = Callable[[str, int, int | None], None]
"""(name of a stage, how much of it is done, how much there is if that is known)"""
FOR_VECTORS = "neighbours, analogy, map, evaluate, why (of GloVe), convert and info take word vectors"


def __getattr__(name: str) -> Any:
    if name in ("TranslationModel", "Evaluation"):
        import anaphora.pipelines.translation_model

        return getattr(anaphora.pipelines.translation_model, name)
    if name == "TextModel":
        import anaphora.pipelines.text_model

        return anaphora.pipelines.text_model.TextModel
    if name == "VectorsModel":
        import anaphora.pipelines.vectors_model

        return anaphora.pipelines.vectors_model.VectorsModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@also_named(**{"from": "start_from", "from_": "start_from"})
@checked()
def train(
    run: Path_,
    *,
    source: Files = (),
    target: Files = (),
    valid_source: Files = (),
    valid_target: Files = (),
    text: Files = (),
    valid_text: Files = (),
    labels: Files = (),
    valid_labels: Files = (),
    items: Files = (),
    recipe: str | None = None,
    model: Path_ | None = None,
    start_from: Path_ | None = None,
    device: str = "auto",
    force: bool = False,
    settings: Mapping[str, Any] | Iterable[str] = (),
    progress: bool | Console = True,
    console: Console | None = None,
) -> Outcome:
    """Train a translator, a language model or word vectors into the folder `run`, or go on with the one that is there.

    source and target: files of lines that translate each other; a table (.csv, .jsonl, .parquet …) may hold both. text:
    files of lines for a language model; with labels, one for each line, for a classifier. items: files of sequences of
    anything, one a line, for vectors. recipe: nothing is a transformer sized to the corpus, or, for text, ngram, with
    labels transformer-encoder, and for items skipgram.
    settings: {"training.max_steps": 1000}, {"training": {"max_steps": 1000}} or ["training.max_steps=1000"].
    model: a Python file that registers a system of one's own (docs/your-own-model.md), which the run is then of.
    start_from: a model folder whose weights and tokenizer the run begins with. progress: a bar in a terminal or a
    notebook, plain lines on stderr elsewhere; False is silent, and a rich Console shows it there (`console` is an older
    name for that). The same call again continues; see docs/quickstart.md.
    """
    console = console_for(progress, console)
    own = _settings(settings)
    files = {"source": source, "target": target, "valid_source": valid_source, "valid_target": valid_target}
    files |= {"text": text, "valid_text": valid_text, "labels": labels, "valid_labels": valid_labels}
    named = {key: names for key, value in files.items() if (names := files_of(value, key))}
    for side in ("", "valid_"):  # one table may hold both sides
        if f"{side}source" in named and f"{side}target" not in named:
            named[f"{side}target"] = same_table(named[f"{side}source"])
    if sequences := files_of(items, "items"):
        if named.get("text"):
            raise UserError(
                f"{option('text')} and {option('items')} are both given", cure="one run learns from one of them"
            )
        named |= {"text": sequences, "items": True}  # type: ignore[dict-item]
    own = {**own, "data": {**own.get("data", {}), **named}}
    start = None if start_from is None else path_of(start_from, "start_from")
    if model is not None:
        recipe, own = with_model_file(model, recipe, own)
    recipe = recipe or choose_recipe(own["data"], start)
    request = Request(
        run=path_of(run, "run"),
        own=filled(recipe, own, own["data"], start),
        recipe=recipe,
        start_from=start,
        device=device_name(device),
        force=force,
    )
    return check_files(request).train(request, console)


@checked()
def check(
    *,
    source: Files = (),
    target: Files = (),
    valid_source: Files = (),
    valid_target: Files = (),
    test_source: Files = (),
    test_target: Files = (),
    text: Files = (),
    valid_text: Files = (),
    test_text: Files = (),
    recipe: str | None = None,
    settings: Mapping[str, Any] | Iterable[str] = (),
    write_clean: Path_ | None = None,
    estimate: bool = True,
    device: str = "auto",
    progress: bool | Console | Stage = True,
) -> Report:
    """Look for what would spoil training on a corpus: `report.findings` with kind, file, line, message and cure.

    source and target: pairs for a translator. text: for a language model or word vectors (recipe: ngram unless another
    one is named). estimate: also try it on a sample and tell model size, time and memory (`report.proposal`).
    write_clean: a new folder for the corpus without what was found. progress: as `train` has it, or a function that is
    called with the name of a stage, how much of it is done, and how much there is. See docs/check.md.
    """
    from anaphora.checking.check import check_corpus
    from anaphora.checking.corpus_cleaning import write_clean as write_clean_corpus
    from anaphora.data.preparation import refuse_one_file_twice
    from anaphora.device import choose_device
    from anaphora.tasks.translation_settling import longest

    own = _settings(settings)
    texts = {"train": (text, "text"), "valid": (valid_text, "valid_text"), "test": (test_text, "test_text")}
    named = {part: files_of(files, name) for part, (files, name) in texts.items()}
    recipe = recipe or ("ngram" if named["train"] else "transformer")
    if any(named.values()):
        own = filled(recipe, own, {"text": named["train"]})
    config = RunConfig.read(merge(load_recipe(recipe), own))
    if any(named.values()):
        if any(
            files_of(files, "source")
            for files in (source, target, valid_source, valid_target, test_source, test_target)
        ):
            raise UserError(
                "text and pairs are both given",
                cure=f"check one of them: {option('text')}, or {option('source')} and {option('target')}",
            )
        return _check_text(named, recipe, own, config, write_clean, estimate=estimate, device=device, progress=progress)
    if write_clean is not None and Path(write_clean).exists():
        raise UserError("already exists", file=write_clean, cure="choose a new folder; nothing was changed")
    given = {"train": (source, target), "valid": (valid_source, valid_target), "test": (test_source, test_target)}
    files: dict[str, dict[str, list[str]]] = {}
    for part, (from_, into) in given.items():
        beside = "" if part == "train" else f"{part}_"
        sides = {"source": files_of(from_, f"{beside}source"), "target": files_of(into, f"{beside}target")}
        sides["target"] = sides["target"] or same_table(sides["source"])
        if any(sides.values()):
            files[part] = {side: names for side, names in sides.items() if names}
        refuse_one_file_twice(files.get(part, {}))
    if "train" not in files:
        raise UserError(
            "no source training text given",
            cure=f"give {option('source', 'FILE')} and {option('target', 'FILE')}, or {option('text', 'FILE')}",
        )
    if estimate:
        choose_device(device)  # a device that is not there is said at once
    words = config.tokenizer.vocabulary or 50_000
    with _stages(progress) as stage:
        report, found = check_corpus(files, max_length=longest(config), vocabulary=words, progress=stage)
        train = found.parts["train"]
        if estimate and not report.stops and len(train) >= 2:
            stage("trying some updates", 0, None)
            report.proposal = _proposal(train, recipe, own, held_out="valid" not in files, device=device)
    if write_clean is not None:
        report.cleaned = write_clean_corpus(found, files, Path(write_clean))
    return report


@checked()
def compare(
    out: Path_,
    *,
    text: Files = (),
    valid_text: Files = (),
    test_text: Files = (),
    source: Files = (),
    target: Files = (),
    valid_source: Files = (),
    valid_target: Files = (),
    test_source: Files = (),
    test_target: Files = (),
    recipes: str | Sequence[str] | None = None,
    budget: str | None = None,
    jobs: int = 1,
    settings: Mapping[str, Any] | Iterable[str] = (),
    device: str = "auto",
    estimate: bool = True,
    force: bool = False,
    published: bool = False,
    progress: bool | Console = True,
    console: Console | None = None,
    command: str = "",
) -> Comparison:
    """Train many recipes on the same text into the folder `out`, or go on with that: one report, with `rows`.

    text: for language models; source and target: for translators, line for line, or a table that holds both.
    recipes: "bigram, lstm, wide=lstm:model.dim=256"; nothing is all rungs of the ladder. Of translators also rows that
    are made of others, "gnmt+rl, deep-att+posunk, transformer+ensemble", and "lectures" for the table that the lectures
    have; published: that table, with its published figures, for other rows too. budget: for each row, "tokens=2e6",
    "flops=1e13" or "minutes=5". jobs: rows at the same time. settings: of all rows. estimate: try some updates of each
    row first, to tell the time. force: begin rows anew whose text or settings are other ones than before. progress: as
    `train` has it. A row that fails is reported (`state`, `error`) and leaves the others alone; `best` is the row that
    came out best. See docs/compare.md.
    """
    from anaphora.comparing.budget import Budget
    from anaphora.comparing.comparison import compare as run
    from anaphora.comparing.language_comparison import LanguageTask
    from anaphora.comparing.rows import parted, read_entries
    from anaphora.comparing.translation_comparison import TranslationTask

    spending = None if budget is None else Budget.read(budget)
    of_text = {"text": text, "valid_text": valid_text, "test_text": test_text}
    texts = {name: files_of(files, name) for name, files in of_text.items()}
    given = (("", source, target), ("valid_", valid_source, valid_target), ("test_", test_source, test_target))
    train, valid, test = (_pair(*files) for files in given)
    pairs = bool(train or valid or test)
    if any(texts.values()) and pairs:
        raise UserError(
            "both text and pairs are given: a comparison is about language models, or about translators",
            cure="give text for language models, or source and target for translators",
        )
    kind = TranslationTask if pairs else LanguageTask
    recipes = [kind.usual] if recipes is None else [recipes] if isinstance(recipes, str) else recipes
    asked = read_entries(recipes, kind.short_forms, sets=kind.sets, ending=kind.ending)
    task: LanguageTask | TranslationTask
    own = _settings(settings)
    if kind is TranslationTask:
        files = train.get("source", []), train.get("target", [])
        published = published or "lectures" in parted(recipes)
        task = TranslationTask(*files, valid=valid, test=test, settings=own, device=device, published=published)
    elif published:
        raise UserError("the published table is of translators", cure=f"leave {option('published')} out")
    else:
        task = LanguageTask(texts.pop("text"), **texts, settings=own, device=device)
    entries = task.expand(asked)
    task.check_settings(entries)
    how = {
        "jobs": jobs,
        "estimate": estimate,
        "force": force,
        "console": console_for(progress, console),
        "command": command,
    }
    return run(task, path_of(out, "out"), entries, budget=spending, **how)  # type: ignore[arg-type]


def _pair(part: str, source: Files, target: Files) -> dict[str, list[str]]:
    """Both sides of some text, by name; a table may hold both. One side alone is a mistake."""
    from_, into = files_of(source, f"{part}source"), files_of(target, f"{part}target")
    if not from_ and not into:
        return {}
    into = into or same_table(from_)
    if not from_ or not into:
        given, missing = (from_, "target") if from_ else (into, "source")
        raise UserError(f"has no {missing} text beside it", file=given[0], cure=f"name its {missing} file too")
    return {"source": from_, "target": into}


@checked(last=1)
def average(
    run: Path_, last: int | None = None, *, device: str = "auto", force: bool = False, undo: bool = False
) -> Average:
    """Make the mean of a run's last checkpoints (five, or all there are) its model, unless it is worse on the
    validation text than the model that is there: `kept` says so, `before` and `after` hold the scores of both, measured
    as `train` measures. force: keep a worse one, too. undo: bring back what training published, byte for byte, however
    many averages came after it."""
    if undo:
        from anaphora.tasks.published_scores import undo_average

        if last is not None or force:
            cure = f"leave out {option('last')} and {option('force')}"
            raise UserError(f"{option('undo', True)} brings back what training published", cure=cure)
        return undo_average(Path(run))
    from anaphora.tasks.opening import open_run

    return open_run(path_of(run, "run"), device).average(last, force=force)


@checked()
def load(
    folder: Path_ | Sequence[Path_], device: str = "auto", *, model: Path_ | None = None, verify: bool = True
) -> TranslationModel | TextModel | VectorsModel:
    """A trained model, ready for raw text: a translator, a language model or word vectors, as the folder has it; an
    ARPA file (.arpa, .arpa.gz) is a language model too, and a file of word vectors (.txt, .vec, .bin, .safetensors) is
    that. Several folders of translators are an ensemble. model: the Python file of a system of one's own, if it is one.
    `verify=False` leaves out the checksum of the weights (a second for every GB)."""
    if model is not None:
        open_model_file(model)
    if not isinstance(folder, str | PathLike):
        return load_translator(paths_of(folder, "folder"), device, verify=verify)
    if is_vectors(folder):
        return load_vectors_model(folder, verify=verify)
    if is_language_model(folder):
        return load_text_model(folder, device, verify=verify)
    return load_translator(folder, device, verify=verify)


def opens_as(folder: Path_) -> Opened:
    """What a model folder (or a file) holds: a translator, a language model or word vectors."""
    from anaphora.folder import CONFIG, read_config
    from anaphora.pipelines.opened_text_model import is_arpa
    from anaphora.pipelines.vectors_model import is_vectors_file

    path = Path(folder)
    if is_vectors_file(path):
        return "vectors"
    if is_arpa(path):
        return "language model"
    return RunConfig.read(read_config(path), file=str(path / CONFIG)).task.opens_as


def is_language_model(folder: Path_) -> bool:
    """Whether a model folder (or a file) holds a language model."""
    return opens_as(folder) == "language model"


def described_folder(path: Path) -> str:
    """What a model folder or an ARPA file holds, in words."""
    from anaphora.folder import read_config

    return described_model({"kind": "ngram"} if path.is_file() else read_config(path).get("model") or {})


def is_vectors(folder: Path_) -> bool:
    """Whether a model folder (or a file) holds word vectors."""
    return opens_as(folder) == "vectors"


def load_vectors_model(folder: Path_, *, verify: bool = True) -> VectorsModel:
    """`load`, where nothing but word vectors will do."""
    from anaphora.pipelines.vectors_model import VectorsModel

    return VectorsModel(Path(folder), verify=verify)


def load_translator(folder: Path_ | Sequence[Path_], device: str = "auto", *, verify: bool = True) -> TranslationModel:
    """`load`, where nothing but a translator will do; several folders speak together, as an ensemble."""
    if not isinstance(folder, str | PathLike):
        from anaphora.device import choose_device
        from anaphora.pipelines.ensemble_model import EnsembleModel

        return EnsembleModel.of_folders(folder, choose_device(device), verify=verify)
    if is_language_model(folder):
        raise UserError(
            f"is {described_folder(Path(folder))}, and this needs a translator",
            file=folder,
            cure="score, evaluate, generate, fill, encode, classify, why and info take language models",
        )
    if is_vectors(folder):
        raise UserError("holds word vectors, and this needs a translator", file=folder, cure=FOR_VECTORS)
    from anaphora.device import choose_device
    from anaphora.pipelines.ensemble_model import open_member

    return open_member(Path(folder), choose_device(device), verify=verify)


def load_text_model(folder: Path_, device: str = "auto", *, verify: bool = True) -> TextModel:
    """`load`, where nothing but a language model will do."""
    from anaphora.pipelines.text_model import TextModel

    path = Path(folder)
    if is_vectors(path):
        raise UserError("holds word vectors, and this needs a language model", file=folder, cure=FOR_VECTORS)
    if _is_counted(path):  # needs no torch, so none is loaded to look for a device
        if device_name(device) not in ("auto", "cpu"):
            raise UserError(
                f"a counting model looks up numbers, it does not compute on {device}", cure="leave the device out"
            )
        return TextModel(path, verify=verify)
    from anaphora.device import choose_device

    return TextModel(path, verify=verify, device=str(choose_device(device)))


def _is_counted(path: Path) -> bool:
    """Whether what a folder (or a file) holds was counted, all of it."""
    from anaphora.folder import CONFIG, read_config
    from anaphora.pipelines.opened_text_model import is_arpa

    if is_arpa(path):
        return True
    config = RunConfig.read(read_config(path), file=str(path / CONFIG))
    return config.task.counted(path, config.model)


@contextmanager
def _stages(progress: bool | Console | Stage) -> Iterator[Stage]:
    """What a check calls with its progress: a function of the caller's, or a bar for the length of the block."""
    if callable(progress):
        yield progress
        return
    from anaphora.training.reporting import RunReporter

    reporter = RunReporter(Path(), console_for(progress))  # stages are written to no file
    try:
        yield reporter.stage
    finally:
        reporter.finish()


def _check_text(
    files: dict[str, list[str]],
    recipe: str,
    own: Document,
    config: RunConfig,
    write_clean: Path_ | None,
    *,
    estimate: bool,
    device: str,
    progress: bool | Console | Stage,
) -> Report:
    """`check` for text of one side."""
    from anaphora.checking.plain_text import check_plain_text, write_clean_text
    from anaphora.data.data_settings import DataConfig
    from anaphora.data.language_corpus import check_text
    from anaphora.device import choose_device
    from anaphora.tasks.text_proposal import propose_for_text

    if not files["train"]:
        raise UserError("no training text given", cure=f"give {option('text', 'FILE')}")
    if config.task.learns_from == "pairs":
        raise UserError(f"{recipe} is a translator, which learns from pairs", cure="choose ngram or lstm, say")
    if config.data.labels:
        raise UserError("labels are not checked", cure="leave out data.labels")
    if write_clean is not None and Path(write_clean).exists():
        raise UserError("already exists", file=write_clean, cure="choose a new folder; nothing was changed")
    check_text(DataConfig(text=files["train"], valid_text=[*files["valid"], *files["test"]]))
    files = {part: names for part, names in files.items() if names}
    if estimate:
        choose_device(device)
    with _stages(progress) as stage:
        report, found = check_plain_text(files, vocabulary=config.tokenizer.vocabulary, progress=stage)
        if estimate and not report.stops:
            stage("trying it on a sample", 0, None)
            try:
                proposal = propose_for_text(found.parts["train"], recipe, own, device=device)
                report.proposal = dataclasses.asdict(proposal)
            except UserError as error:
                report.proposal = {"error": str(error)}
    if write_clean is not None:
        report.cleaned = write_clean_text(found, files, Path(write_clean))
    return report


def _proposal(train: Part, recipe: str, own: Document, *, held_out: bool, device: str) -> dict[str, Any]:
    from anaphora.tasks.pair_proposal import propose_for

    try:
        return dataclasses.asdict(propose_for(train, recipe, own, held_out=held_out, device=device))
    except UserError as error:
        return {"error": str(error)}


def _settings(settings: Mapping[str, Any] | Iterable[str]) -> dict[str, dict[str, Any]]:
    if isinstance(settings, str):
        return said_settings([settings])
    if not isinstance(settings, Iterable):
        what = f"settings are {type(settings).__name__}"
        raise UserError(what, cure='write settings={"training.seed": 2}, or ["training.seed=2"]')
    if not isinstance(settings, Mapping):
        return said_settings(words_of(settings, "settings"))
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):  # as config.yaml has them: {"training": {"seed": 2}}
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    own = said_settings(f"{name}=" for name in flat)  # checks the names
    for name, value in flat.items():
        section, _, key = RENAMED.get(name, name).partition(".")
        own[section][key] = value
    return own
