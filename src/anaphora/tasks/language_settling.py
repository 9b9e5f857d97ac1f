"""What a run of a neural language model is about to do: its settings, compared with those its folder already has, and
its text. As translation_settling.py for translators.

Sizes follow the text, and the text is cut by settings that follow its size: so first it is counted (lines and bytes,
which decide how many lines are held out and how large the vocabulary is), then it is prepared, and then the number of
its tokens decides on the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anaphora.config import differences, merge
from anaphora.data.formats import read_blocks
from anaphora.data.language_corpus import check_text, prepare_text
from anaphora.data.prepared_text import TOKENIZER, PreparedText
from anaphora.errors import UserError, option
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_bytes
from anaphora.files.shared_names import as_wished, by_name
from anaphora.folder import CONFIG, DATA, read_config, weights_file, write_bytes, write_config
from anaphora.models.registry import system
from anaphora.tasks.base import is_of
from anaphora.tasks.recipes import Document, RunConfig, check_inherited, inherit, load_recipe
from anaphora.tasks.request import Request
from anaphora.tasks.text_sizes import complete_text, held_out_lines, sized_to_run, text_defaults, text_vocabulary
from anaphora.tasks.translation_settling import refuse, saved_settings, text_settings
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.training.reporting import RunReporter


def settle_text(request: Request, reporter: RunReporter) -> tuple[RunConfig, PreparedText]:
    """The settings and the text of this run: those it already has, if they are the ones asked for."""
    folder = request.run
    saved = saved_settings(folder, "language")
    recipe, origin = load_recipe(request.recipe), None
    if request.start_from is not None:
        origin = saved or _origin(request)
        recipe = inherit(recipe, origin)
        recipe["model"] = {key: value for key, value in recipe["model"].items() if key != "labels"}
    kind = merge(recipe, request.own).get("model", {}).get("kind", "")
    labeled = bool(merge(recipe, request.own).get("data", {}).get("labels"))
    base = merge(text_defaults(kind, labeled=labeled), recipe, request.own)
    asked = RunConfig.read(base)
    check_text(asked.data)
    if asked.data.boundaries == "lines" and "context" in request.own.get("training", {}):
        raise UserError(
            "training.context means nothing where every line is a row of its own",
            cure="set data.boundaries=stream or packed, or leave it out",
        )
    longest = {"max_length": getattr(asked.model, "max_length", None)}  # no size of text changes it
    said = base.get("training", {}), {**base.get("model", {}), **longest}
    check_learning(*said, boundaries=asked.data.boundaries, labeled=labeled)  # before anything is written
    found = by_size(asked, saved, reporter)
    asked = RunConfig.read(merge(base, found))
    if saved is not None:  # before the text is touched
        refuse(
            folder,
            differences(text_settings(by_name(saved)), text_settings(by_name(asked.document()))),
            force=request.force,
        )
    start = None if request.start_from is None else str(request.start_from)
    run = {"recipe": request.recipe, "start_from": start}
    if saved is not None and request.force:
        forced = RunConfig.read({**merge(saved, recipe, request.own, found), "run": run})
        refuse(folder, differences(by_name(saved), by_name(forced.document())), force=True)
    keeper = folder if saved is not None else request.start_from
    prepared = prepare_text(
        folder / DATA,
        asked.data,
        asked.tokenizer,
        keep=None if keeper is None else Tokenizer.load(keeper / TOKENIZER),
        at_most=sized_by_text(found),
        on_change="raise" if saved is not None and not request.force else "rebuild",
        progress=reporter.stage,
    )
    _check_row(asked, request.own, prepared.manifest["train"]["tokens"])
    labels: Document = {"model": {"labels": prepared.class_names}} if labeled else {}
    if saved is not None and request.force:
        config = RunConfig.read({**merge(saved, recipe, request.own, found, labels), "run": run})
    else:
        gently = origin is not None
        sized = sized_to_run(kind, prepared.manifest, recipe, request.own, labeled=labeled, gently=gently)
        if saved is not None:  # they followed the limits of then, which may be raised
            sized["training"] |= {name: saved["training"][name] for name in ("warmup_steps", "checkpoint_every")}
        config = RunConfig.read({**merge(sized, base, found, labels), "run": run})
    final = config.document()
    check_learning(final["training"], final["model"], boundaries=config.data.boundaries, labeled=labeled)
    if saved is not None:
        changes = differences(by_name(saved), by_name(config.document()))
        refuse(folder, changes, force=request.force)
        for name, (old, new) in changes.items():
            reporter.message(f"changed {name}: {old} → {new}")
    write_bytes(folder / TOKENIZER, read_bytes(folder / DATA / TOKENIZER, MAX_LARGE_FILE_BYTES))
    if saved != as_wished(config.document()):
        write_config(folder, config.document())
    return config, prepared


def planned_settings(request: Request, prepared: PreparedText) -> RunConfig:
    """The settings that a new run over this text would have; nothing is written, and nothing but a recipe is read."""
    return complete_text(request.recipe, request.own, prepared.manifest)


def _origin(request: Request) -> dict[str, Any]:
    """The settings of the model that a run is to start from, which must be there and of a kind that learns."""
    assert request.start_from is not None
    start = request.start_from
    config = RunConfig.read(read_config(start), file=str(start / CONFIG))
    if not is_of("language", config.model.kind):
        raise UserError(
            f"is a model of kind {config.model.kind}, from which no language model can start",
            file=start,
            cure=f"start from a neural language model, or leave out {option('start_from')}",
        )
    weights_file(start)
    own = merge(load_recipe(request.recipe), request.own)
    check_inherited(own, config.document(), folder=start)
    return config.document()


def by_size(asked: RunConfig, saved: Mapping[str, Any] | None, reporter: RunReporter) -> Document:
    """What follows from the number of lines and bytes, where nobody has said it."""
    data, tokenizer = asked.data, asked.tokenizer
    hold_out = data.hold_out is None and not data.valid_text
    vocabulary = tokenizer.vocabulary is None and tokenizer.kind in ("bpe", "unigram")
    if saved is not None:
        held = {"hold_out": saved["data"]["hold_out"]} if hold_out else {}
        size = {"vocabulary": saved["tokenizer"]["vocabulary"]} if vocabulary else {}
        return {"data": held, "tokenizer": size}
    if not hold_out and not vocabulary:
        return {}
    lines = size_in_bytes = 0
    for block in read_blocks(data.text, "text", Counter()):
        lines += block.count(b"\n")
        size_in_bytes += len(block)
        reporter.stage("reading", lines, None)
    found: Document = {"data": {}, "tokenizer": {}}
    if hold_out:
        found["data"]["hold_out"] = held_out_lines(lines)
    if vocabulary:
        found["tokenizer"]["vocabulary"] = text_vocabulary(size_in_bytes)
    return found


def sized_by_text(found: Document) -> bool:
    """Whether `by_size` has chosen the vocabulary, and nobody has asked for one."""
    return "vocabulary" in found.get("tokenizer", {})


def _check_row(asked: RunConfig, own: Document, tokens: int) -> None:
    """A row of a stream that somebody wants longer than the stream is a mistake; a default only fits itself to it."""
    context = own.get("training", {}).get("context")
    if asked.data.boundaries == "stream" and context is not None and int(context) > tokens:
        raise UserError(
            f"training.context={context}, but the whole text has {tokens:,} tokens",
            file=asked.data.text[0],
            cure="make it smaller, or leave it out",
        )


def check_learning(training: Mapping[str, Any], model: Mapping[str, Any], *, boundaries: str, labeled: bool) -> None:
    """What only several settings together can tell; of those that are not there yet, nothing is said."""
    metric, allowed = training.get("metric", "loss"), ("loss", "accuracy") if labeled else ("loss",)
    if metric not in allowed:
        raise UserError(
            f"training.metric={metric} means nothing for this model", cure=f"it is measured by {' or '.join(allowed)}"
        )
    context, batch, longest = training.get("context"), training.get("batch_tokens"), model.get("max_length")
    if boundaries == "lines" or context is None:
        return
    if longest is not None and int(context) > int(longest):
        raise UserError(
            f"training.context={context} is more than the model can read, model.max_length={longest}",
            cure=f"set training.context={longest}, or model.max_length={context}",
        )
    if batch is not None and int(batch) < int(context):
        raise UserError(
            f"training.batch_tokens={batch} is less than one row of training.context={context} tokens",
            cure=f"make batch_tokens at least {context}, or context smaller",
        )
    if int(context) < 2 and getattr(system(model.get("kind")).settings_class(), "masked", False):
        raise UserError(f"training.context={context} leaves nothing to learn from", cure="make it a few dozen")


def started_from(config: RunConfig) -> RunConfig | None:
    """The settings of the model that this run starts from, as they are there now."""
    if config.start_from is None:
        return None
    start = Path(config.start_from)
    return RunConfig.read(read_config(start), file=str(start / CONFIG))
