"""A run that counts, from files to a model folder; repeating the same call goes on where it stopped.

    lock → settings (compared with the folder's own) → ids → n-grams, smoothed → model → validation → card

Nothing is learned by gradients, so there are no steps and no checkpoints. What a killed run leaves is the prepared text
(data/) and, where it was counting on disk, the stages that were done (counting/); the model appears under its name when
it is complete. Whatever was killed when, the file comes out the same, byte for byte.

torch is not imported here, nor by anything that is: a memory limit holds for the whole process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anaphora.config import described, differences
from anaphora.data.changes import CorpusChanged
from anaphora.data.formats import describe_notes
from anaphora.data.language_corpus import check_text, prepare_text
from anaphora.data.prepared_text import TOKENIZER, PreparedText, read_manifest
from anaphora.decoding.text_scoring import Ids, TextEvaluation, evaluate_ids
from anaphora.device import peak_resident
from anaphora.errors import UserError, option
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_bytes
from anaphora.files.shared_names import by_name
from anaphora.folder import (
    CHECKPOINTS,
    CONFIG,
    COUNTING,
    DATA,
    METRICS,
    WEIGHTS,
    discard,
    publish,
    read_config,
    read_metrics,
    sweep,
    write_bytes,
    write_config,
)
from anaphora.models.ngram.blocks import Fitted
from anaphora.models.ngram.counting import (
    compile_elsewhere,
    fit,
    give_back_what_is_freed,
)
from anaphora.models.ngram.limited import LimitedModel
from anaphora.models.ngram.ngram_file import read_trie
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel, without_padding
from anaphora.results import count
from anaphora.tasks.beginning_anew import beginning_anew
from anaphora.tasks.counting_card import COUNTED, write_counting_card
from anaphora.tasks.recipes import RunConfig, complete
from anaphora.tasks.request import Outcome, Request
from anaphora.tasks.run_session import check_folder, working_in
from anaphora.training.reporting import RunReporter

if TYPE_CHECKING:
    from rich.console import Console

MEASURED_AT_ONCE = 1 << 18
"""Tokens of the validation text that are scored at once."""
HARMLESS = ("data.text", "data.valid_text", "data.paths", "tokenizer.words", "training.max_memory")
"""Settings whose change alone changes nothing: names of files, whose content is compared, and where it is counted."""
USE = ("decoding", "run")
"""Sections that say how a model is used: no reason to count again."""


@dataclass(repr=False)  # its base's
class Counted(Outcome):
    """How a run of counting ended."""

    orders: list[int] = field(default_factory=list)
    """How many n-grams there are of each order."""
    vocabulary: int = 0
    unknown_tokens: int = 0
    peak_memory: int = 0
    """Bytes that were resident at the most; 0 for a run that was finished before."""


def count_run(request: Request, console: Console | None = None) -> Counted:
    """Make, continue or finish the counting run that `request` describes."""
    if request.start_from is not None:
        cure = f"leave out {option('start_from')}, give all text to {option('text')}"
        raise UserError("an n-gram model starts from nothing: it is counted anew", cure=cure)
    if request.device not in ("auto", "cpu"):
        raise UserError(f"n-grams are counted on the CPU, not on {request.device}", cure="leave out the device")
    config = complete(request.recipe, request.own, pairs=0)
    model = cast("NgramConfig", config.model)
    if model.smoothing == "given":
        raise UserError(
            "model.smoothing=given is for numbers that were read from a file, not counted",
            cure="choose kneser-ney, stupid-backoff, add-k or maximum-likelihood",
        )
    check_text(config.data)
    check_folder(request.run)
    reporter = RunReporter(request.run, console)
    with working_in(request.run, reporter, smaller="count on disk: training.max_memory=2GB, say"):
        return CountingRun(request, config, model, reporter).complete()


class CountingRun:
    """One run on its way."""

    def __init__(
        self,
        request: Request,
        config: RunConfig,
        model: NgramConfig,
        reporter: RunReporter,
        *,
        folder: Path | None = None,
    ) -> None:
        """folder: where it is made, while another run has the name that it is to have."""
        self.request, self.run, self.force = request, request.run, request.force
        self.folder = folder or request.run
        self.config, self.model, self.reporter = config, model, reporter
        self.memory = config.training.memory_limit()
        self.began = time.monotonic()
        self.counting = self.folder / COUNTING

    def complete(self) -> Counted:
        """Whatever of it is not done yet; what replaces a model that is there is counted beside it."""
        changed = self._compare()
        there = (self.folder / WEIGHTS).exists()
        if there and any(name.partition(".")[0] not in USE for name in changed):
            return self._begin_anew()
        if self.memory is not None:
            give_back_what_is_freed()
            if not there:  # a finished run says so at once
                compile_elsewhere()
        prepared = self._prepare(there)
        if prepared is None:
            return self._begin_anew()
        metrics = read_metrics(self.folder)
        if there and metrics.get("finished") is True and prepared.reused:
            with suppress(KeyError, TypeError):  # where metrics.json is damaged, all of it is found again
                return self._was_finished(metrics, changed)
        if there and not self._published():
            return self._begin_anew()
        self._explain(prepared)
        fitted = self._fit(prepared)
        self._publish()
        measured = self._measure(prepared)
        peak = peak_resident()
        if self.memory is not None and peak > self.memory:
            self.reporter.message(
                f"warning: the run took {peak / 1e6:,.0f} MB at its peak, more than training.max_memory "
                f"({self.memory / 1e6:,.0f} MB)"
            )
        metrics = write_counting_card(
            self.folder,
            self.config,
            prepared.manifest,
            fitted,
            measured,
            name=self.run.resolve().name,
            seconds=time.monotonic() - self.began,
            peak_memory=peak,
        )
        discard(self.counting)
        return self._outcome(metrics, "all lines are counted")

    def _begin_anew(self) -> Counted:
        self.reporter.finish()
        if self.folder != self.run:
            self.reporter.message("what was counted for the new model is discarded")
            discard(self.folder)
            self.folder.mkdir()
            return self.complete()
        with beginning_anew(self.run, self.config.task.name) as new:
            self.reporter.message(f"counted anew; the model in {self.run} stays until that is finished")
            return CountingRun(self.request, self.config, self.model, self.reporter, folder=new).complete()

    # -- settings ------------------------------------------------------------------------------------------------------

    def _compare(self) -> dict[str, tuple[Any, Any]]:
        """What differs from the model that is there, if there is one; refused unless forced."""
        kind = None
        if (self.folder / CONFIG).exists():
            kind = (read_config(self.folder).get("model") or {}).get("kind", "transformer")
        if kind not in (None, "ngram") or (self.folder / CHECKPOINTS).exists():
            raise UserError(
                f"holds a model of kind {kind or 'transformer'}", file=self.folder, cure="choose another folder"
            )
        there = (self.folder / WEIGHTS).exists()
        if not there and not ((self.counting / CONFIG).exists() and read_manifest(self.folder / DATA)):
            return {}  # nothing that could be lost
        if there and not (self.folder / DATA).is_dir() and read_metrics(self.folder).get("weights") != COUNTED:
            raise UserError(
                "holds a model that was not counted there", file=self.folder, cure="choose another folder for the run"
            )
        own = self.folder if there else self.counting
        saved = RunConfig.read(read_config(own), file=str(own / CONFIG)).document()
        found = differences(by_name(saved), by_name(self.config.document()))
        changed = {name: both for name, both in found.items() if name not in HARMLESS}
        if not there:  # how a model is to be used can be said until it is one
            changed = {name: both for name, both in changed.items() if name.partition(".")[0] not in USE}
        if changed and not self.force:
            spoken = described(changed)
            again = "count again" if there else "discard what was saved and count anew"
            raise UserError(
                f"holds {'a' if there else 'an unfinished'} run with other settings: {spoken}",
                file=self.folder,
                cure=f"repeat the old command, choose another folder, or add {option('force', True)} to {again}",
            )
        for name, (old, new) in changed.items():
            self.reporter.message(f"changed {name}: {old} → {new}")
        if changed and not there:
            self.reporter.message("what the unfinished run counted is discarded")
            discard(self.counting)
        return changed

    def _was_finished(self, metrics: dict[str, Any], changed: dict[str, tuple[Any, Any]]) -> Counted:
        outcome = self._outcome(metrics, "it was finished already", peak_memory=0)
        if changed:
            write_config(self.folder, self.config.document())
        discard(self.counting)
        self.reporter.message(f"{self.run} is finished: the same text was counted with the same settings")
        return outcome

    # -- text ----------------------------------------------------------------------------------------------------------

    def _prepare(self, there: bool) -> PreparedText | None:
        """The text as ids. What was made of another text is kept, model or no model, unless it is forced: nothing where
        that text has a model."""
        saved, begun = read_manifest(self.folder / DATA), (self.counting / CONFIG).exists()
        try:
            prepared = prepare_text(
                self.folder / DATA,
                self.config.data,
                self.config.tokenizer,
                on_change="rebuild" if self.force and not there else "raise",
                progress=self.reporter.stage,
            )
        except CorpusChanged as error:
            self.reporter.finish()
            if self.force:
                return None
            if saved and error.changed == ["the validation text"] and not saved["settings"]["valid_text"]:
                measure = f"`anaphora evaluate {self.folder} --text FILE`"
                raise UserError(
                    "was counted without a validation text" if there else "was begun without a validation text",
                    file=self.folder,
                    cure=f"leave it out and measure with {measure}, or add {option('force', True)} to count again",
                ) from None
            raise
        self.reporter.finish()
        if saved and not there and (begun or not prepared.reused):  # a comparison's rows are given their text
            went = "going on from there" if prepared.reused else "another text: what was saved is discarded"
            self.reporter.message(f"{self.run} holds an unfinished run; {went}")
        return prepared

    # -- counting ------------------------------------------------------------------------------------------------------

    def _explain(self, prepared: PreparedText) -> None:
        """What is about to happen, in two lines."""
        manifest, data, tokenizer = prepared.manifest, self.config.data, self.config.tokenizer
        train, say = manifest["train"], self.reporter.message
        blank = f", {count(train['dropped_lines'], 'blank line')} left out" if train["dropped_lines"] else ""
        held = f", {count(train['held_out_lines'], 'line')} held out" if train["held_out_lines"] else ""
        unknown = f" ({train['unknown_tokens']:,} unknown)" if train["unknown_tokens"] else ""
        lines, tokens = count(train["lines"], "line"), count(train["tokens"], "token")
        say(f"text: {lines}{blank}{held}, {tokens}{unknown}, end marks included")
        if odd := describe_notes(manifest["tidied"]):
            say(f"warning: {odd}")
        cut = f"{tokenizer.kind}, split at {tokenizer.split}" if tokenizer.kind == "word" else tokenizer.kind
        taken = "each line by itself" if data.boundaries == "lines" else "one stream"
        say(
            f"model: {self.config.recipe}, order {self.model.order}, {self.model.smoothing}, "
            f"vocabulary {manifest['vocabulary']:,} ({cut}), {taken}"
        )

    def _fit(self, prepared: PreparedText) -> Fitted:
        self.counting.mkdir(exist_ok=True)
        sweep(self.counting)
        write_config(self.counting, self.config.document())  # to be compared with, should this process be killed
        stages = 2 * self.model.order + 1  # counting and smoothing each order, and the seal
        done: set[str] = set()

        def say(what: str) -> None:
            if " " in what:  # a sentence
                self.reporter.message(what)
                return
            done.add(what)
            name, _, order = what.partition("-")
            told = {"count": f"counted order {order}", "smooth": f"smoothed order {order}", "sealed": "written"}[name]
            self.reporter.stage(f"on disk: {told}", len(done), stages)

        limit = "" if self.memory is None else f", within {self.memory / 1e6:,.0f} MB"
        self.reporter.message(f"counting in {self.run}{limit} …")
        fitted = fit(
            prepared.train,
            prepared.manifest["vocabulary"],
            self.model,
            self.counting / WEIGHTS,
            work=self.counting / "work",
            memory=self.memory,
            say=say,
        )
        self.reporter.finish()
        sizes = without_padding(fitted.sizes)
        self.reporter.message(f"n-grams: {' + '.join(f'{size:,}' for size in sizes)} of order 1 to {len(sizes)}")
        if any(fitted.fell_back):
            orders = ", ".join(str(order) for order, made_up in enumerate(fitted.fell_back, start=1) if made_up)
            self.reporter.message(
                f"warning: too few n-grams were seen once, twice and three times to find discounts (order {orders}); "
                "0.5, 1 and 1.5 are taken"
            )
        return fitted

    def _publish(self) -> None:
        """Make it the folder's model, which has none; its settings and its tokenizer come first."""
        made, published = self.counting / WEIGHTS, self.folder / WEIGHTS
        if not published.exists():
            (self.folder / METRICS).unlink(missing_ok=True)
        write_bytes(self.folder / TOKENIZER, read_bytes(self.folder / DATA / TOKENIZER, MAX_LARGE_FILE_BYTES))
        write_config(self.folder, self.config.document())
        publish(made, published)

    def _published(self) -> bool:
        """Whether the folder's model is what was counted last, and only what it says of itself is missing."""
        made = self.counting / WEIGHTS
        return made.exists() and made.samefile(self.folder / WEIGHTS)

    # -- validation ----------------------------------------------------------------------------------------------------

    def _measure(self, prepared: PreparedText) -> TextEvaluation | None:
        """How well the model predicts the validation text, if there is one."""
        if not (valid := prepared.manifest["valid"]):
            return None
        trie = read_trie(self.folder / WEIGHTS, verify=False)
        model = NgramModel(self.model, trie) if self.memory is None else LimitedModel(self.model, trie, self.memory)
        measured = evaluate_ids(
            model,
            self._windows(prepared),
            lines=valid["lines"],
            dropped=valid["dropped_lines"],
            size=valid["bytes"],
            boundaries="stream" if self.config.data.boundaries == "stream" else "lines",
            blank_lines=self.config.data.blank_lines,
        )
        unknown = f", {measured.unknown_tokens:,} of them unknown" if measured.unknown_tokens else ""
        self.reporter.message(
            f"validation: perplexity {measured.perplexity:.2f} over {count(measured.tokens, 'token')}{unknown}; "
            f"{measured.bits_per_byte:.3f} bits per byte"
        )
        if measured.note:
            self.reporter.message(f"note: {measured.note}")
        if measured.impossible_tokens:
            self.reporter.message(
                f"note: {count(measured.impossible_tokens, 'token has', 'tokens have')} probability 0: "
                f"{self.model.smoothing} expects nothing that it has not seen"
            )
        return measured

    def _windows(self, prepared: PreparedText) -> Iterator[Ids]:
        """The validation text in parts, none of which needs much memory."""
        done = 0
        for ids, starts in prepared.valid_parts(MEASURED_AT_ONCE):
            yield ids, starts
            done += len(starts) - 1
            self.reporter.stage("measuring", done, prepared.manifest["valid"]["lines"])
        self.reporter.finish()

    def _outcome(self, metrics: dict[str, Any], reason: str, peak_memory: int | None = None) -> Counted:
        cost = metrics["cost"]
        return Counted(
            folder=self.run,
            reason=reason,
            steps=0,
            tokens=metrics["tokens"],
            seconds=cost["seconds"],
            flops=0.0,
            parameters=metrics["parameters"],
            weights=COUNTED,
            validation=metrics["validation"],
            kind="ngram",
            orders=metrics["orders"],
            vocabulary=metrics["vocabulary"],
            unknown_tokens=metrics["unknown_tokens"],
            peak_memory=cost["peak_memory"] if peak_memory is None else peak_memory,
        )
