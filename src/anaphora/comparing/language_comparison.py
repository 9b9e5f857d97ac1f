"""Language models side by side: one text, one tokenizer, the same held-out lines; bits per byte is the ruler.

The text is prepared once, and every run folder gets it by hard links: `train` finds it there and looks only whether it
is still the text that it was made of. Masked models are left out: what they make of a word they know from both sides of
it, and the sum of such guesses is not the probability of a text.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anaphora.comparing.budget import Budget
from anaphora.comparing.comparison_settings import RecipeTask, planned_tokens, share_text
from anaphora.comparing.report import COSTS, bytes_form, speed_form
from anaphora.comparing.rows import Entry
from anaphora.comparing.task import Column, Plan
from anaphora.config import build, merge, names
from anaphora.data.data_settings import DataConfig
from anaphora.data.formats import read_blocks
from anaphora.data.language_corpus import check_text, fingerprint, prepare_text
from anaphora.data.prepared_text import MANIFEST, PreparedText
from anaphora.errors import UserError, option
from anaphora.evaluation.bits_per_byte import UNNORMALIZED, note_on_unknown
from anaphora.folder import DATA, read_metrics
from anaphora.models import settings_class
from anaphora.results import count
from anaphora.tasks.base import task_of
from anaphora.tasks.recipes import Document, RunConfig
from anaphora.tasks.request import Request
from anaphora.tokenizers.tokenizer import TextTokenizer, TokenizerConfig
from anaphora.training.reporting import RunReporter

TIMED_TOKENS = 128
"""Tokens that a model says while it is timed."""
TIMED_REPEATS = 3
"""How often; the middle one counts."""


def _bits(value: float) -> str:
    return f"{value:.3f}" if value < 1000 else f"{value:.2g}".replace("e+", "e")  # it has diverged


def _perplexity(value: float) -> str:
    return f"{value:,.2f}" if value < 1e6 else f"{value:.2g}".replace("e+", "e")


class LanguageTask(RecipeTask):
    name = "language"
    alone = ("data", "tokenizer")
    usual = "unigram bigram ngram dan window rnn gru lstm conv transformer-decoder backpack"
    short_forms = {  # noqa: RUF012
        "unigram": "ngram:model.order=1",
        "bigram": "ngram:model.order=2",
        "trigram": "ngram:model.order=3",
    }
    columns = (
        Column("bits_per_byte", "bits/byte", _bits, "bits that a byte of the held-out text needs"),
        Column("perplexity", "perplexity", _perplexity, "of a token of that text"),
    )
    costs = (
        *COSTS,
        Column("tokens_per_second", "tok/s", speed_form, "generated, one text at a time, timed alone"),
        Column("peak_memory", "memory", bytes_form, "most memory of the training process"),
    )
    sets: Mapping[str, str] = {}
    ending = None
    timed = "tokens_per_second"
    lower_is_better = True

    def __init__(
        self,
        text: Sequence[str],
        *,
        valid_text: Sequence[str] = (),
        test_text: Sequence[str] = (),
        settings: Document | None = None,
        device: str = "auto",
    ) -> None:
        """settings: of all rows; sections data and tokenizer are shared, others hold where they mean something."""
        own = settings or {}
        self.test_text = list(test_text)
        files = {"text": list(text), **({"valid_text": list(valid_text)} if valid_text else {})}
        data = {"boundaries": "stream", **own.get("data", {}), **files}
        if data["boundaries"] == "packed" or data.get("labels"):
            what = "data.labels are for classifiers" if data.get("labels") else "data.boundaries=packed is for learning"
            raise UserError(f"{what}: not all rows can have that", cure="leave it out; stream and lines are for all")
        # all of it is said to every row: the recipe of an n-gram has other words than that of an LSTM
        usual = {key: value for key, value in asdict(TokenizerConfig()).items() if key in names(TextTokenizer)}
        common: Document = {"data": data, "tokenizer": {**usual, **own.get("tokenizer", {})}}
        others = {section: values for section, values in own.items() if section not in self.alone}
        super().__init__(common, others, device)
        self.prepared: PreparedText | None = None
        check_text(build(DataConfig, data, section="data"))
        build(TokenizerConfig, self.common["tokenizer"], section="tokenizer")

    # -- rows ----------------------------------------------------------------------------------------------------------

    def check(self, entry: Entry, budget: Budget | None) -> None:
        if getattr(settings_class(self.kind(entry)), "masked", False):
            raise UserError(
                f"{entry.name} guesses words from both sides: it has no bits per byte to compare with the others'",
                cure="leave it out, or take transformer-decoder, which reads one way",
            )
        super().check(entry, budget)

    # -- the text ------------------------------------------------------------------------------------------------------

    def prepare(self, folder: Path, entries: Sequence[Entry], *, force: bool, reporter: RunReporter) -> None:
        from anaphora.tasks.language_settling import by_size, sized_by_text

        asked = RunConfig.read({"model": {"kind": "ngram"}, **self.common})
        found = by_size(asked, None, reporter)
        self.common = merge(self.common, found)
        data = build(DataConfig, self.common["data"], section="data")
        if not data.valid_text and not data.hold_out:
            if not any(block.strip() for block in read_blocks(data.text, "text", Counter())):
                raise UserError("there is no text here", file=data.text[0], cure="give a text with at least one word")
            raise UserError(
                "no text is held out to measure on",
                cure=f"give {option('valid_text')}, or set data.hold_out to a number of lines",
            )
        self.ruler = fingerprint(self.test_text) if self.test_text else "validation"
        self.prepared = prepare_text(
            folder,
            data,
            build(TokenizerConfig, self.common["tokenizer"], section="tokenizer"),
            at_most=sized_by_text(found),
            on_change="rebuild" if force else "raise",
            progress=reporter.stage,
        )

    @property
    def _manifest(self) -> dict[str, Any]:
        assert self.prepared is not None
        return self.prepared.manifest

    def shared(self) -> dict[str, Any]:
        manifest = self._manifest
        held = ("lines", "tokens", "unknown_tokens", "bytes")
        return {
            "text": self.common["data"]["text"],
            "valid_text": self.common["data"].get("valid_text", []),
            "test_text": self.test_text,
            "settings": {
                "data": {key: value for key, value in self.common["data"].items() if not key.endswith("text")},
                "tokenizer": self.common["tokenizer"],
            },
            "train": {name: manifest["train"][name] for name in held},
            "valid": {name: manifest["valid"][name] for name in held},
            "vocabulary": manifest["vocabulary"],
            "vocabulary_fingerprint": manifest["vocabulary_fingerprint"],
        }

    def begin(self, entry: Entry, run: Path) -> None:
        assert self.prepared is not None
        share_text(self.prepared.folder, run / DATA, MANIFEST)

    # -- what it will cost ---------------------------------------------------------------------------------------------

    def plan(self, entry: Entry, budget: Budget | None) -> Plan:
        assert self.prepared is not None
        request = self.request(entry)
        if not task_of(self.kind(entry)).learns:
            return Plan(settings=request.own, counted=True, tokens=self._manifest["train"]["tokens"], flops=0.0)
        import torch

        from anaphora.models import build_language_model
        from anaphora.tasks.language_settling import planned_settings

        config = planned_settings(request, self.prepared)
        with torch.device("meta"):  # a model without numbers: it is only asked how large it is
            model = build_language_model(config.language, self._manifest["vocabulary"])
        train = self._manifest["train"]
        length = train["tokens"] / max(1, train["lines"])
        if config.data.boundaries == "stream":
            length = float(config.training.context)
        flops = 3 * model.flops(1, length)  # forward and backward
        if budget is not None:
            request = self.request(entry, budget.limits(flops))
            config = planned_settings(request, self.prepared)
        an_update = config.training.batch_tokens * config.training.accumulate
        tokens = planned_tokens(config.training, train["tokens"], an_update)
        return Plan(
            settings=request.own,
            parameters=model.parameter_count(),
            tokens=tokens,
            flops=None if tokens is None else flops * tokens,
            steps=None if tokens is None else math.ceil(tokens / an_update),
            seconds=60 * budget.amount if budget is not None and budget.kind == "minutes" else None,
        )

    def try_out(self, entry: Entry, plan: Plan) -> float | None:
        if plan.counted or plan.steps is None:
            return None
        from anaphora.comparing.trial import time_updates
        from anaphora.tasks.language_settling import planned_settings

        assert self.prepared is not None
        request = Request(run=Path(entry.name), own=plan.settings, recipe=entry.recipe, device=self.device)
        return time_updates(planned_settings(request, self.prepared), self._new_run, self.device, plan.steps)

    def _new_run(self, folder: Path, config: RunConfig, reporter: Any, device: Any) -> Any:
        from anaphora.tasks.language_run import LanguageRun

        assert self.prepared is not None
        return LanguageRun(folder, config, self.prepared, reporter, device)

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def result(self, entry: Entry, run: Path) -> dict[str, Any]:
        metrics = read_metrics(run)
        validation, cost = metrics["validation"], metrics["cost"]
        manifest = self._manifest
        own = (metrics["vocabularies"]["text"], validation["bytes"], validation["tokens"])
        wanted = (manifest["vocabulary_fingerprint"], manifest["valid"]["bytes"], manifest["valid"]["tokens"])
        if own != wanted or metrics["trained_on"]["fingerprint"] != manifest["settings"]["text"]:
            raise UserError(
                "has another vocabulary or another text than the rest of the comparison",
                file=run,
                cure="delete that folder and repeat the command",
            )
        counted = metrics.get("finished") is True
        allocated = not counted and not str(cost["device"]).startswith(("cpu", "mps"))
        return {
            "bits_per_byte": validation["bits_per_byte"],
            "perplexity": validation["perplexity"],
            "parameters": metrics["parameters"],
            "tokens": metrics["tokens"] if counted else cost["tokens"],
            "flops": 0.0 if counted else cost["flops"],
            "seconds": cost["seconds"],
            "peak_memory": cost["peak_memory"],
            "memory": "allocated on the GPU" if allocated else "resident",
            "device": cost["device"],
            "counted": counted,
            "unknown_tokens": validation.get("unknown_tokens", 0),
            "valid_tokens": validation["tokens"],
            "normalised": UNNORMALIZED not in (validation.get("note") or ""),
        }

    def measure(self, run: Path) -> dict[str, Any]:
        from anaphora.device import choose_device
        from anaphora.pipelines.text_model import TextModel

        counted = read_metrics(run).get("finished") is True
        model = TextModel(run, device="cpu" if counted else str(choose_device(self.device)))
        found: dict[str, Any] = {"tokens_per_second": speed(model)}
        if self.test_text:
            from anaphora.data.formats import read_column

            lines = read_column(self.test_text, "text", Counter(), strict=False)
            measured = model.evaluate(lines)
            valid = read_metrics(run)["validation"]
            found |= {"bits_per_byte": measured.bits_per_byte, "perplexity": measured.perplexity}
            found |= {"unknown_tokens": measured.unknown_tokens, "test_tokens": measured.tokens}
            found |= {f"valid_{name}": valid[name] for name in ("bits_per_byte", "perplexity")}
        return found

    def notes(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        valid = self._manifest["valid"]
        done = [row for row in rows if row.get("bits_per_byte") is not None]
        if self.test_text:
            over = f"{done[0]['test_tokens']:,} tokens" if done and "test_tokens" in done[0] else "all"
            notes = [f"measured on the test text ({over}); checkpoints were chosen on the held-out text"]
        else:
            notes = [
                f"measured on {count(valid['lines'], 'held-out line')} "
                f"({valid['tokens']:,} tokens, {valid['bytes']:,} bytes)"
            ]
        unknown = done[0].get("unknown_tokens", 0) if done else 0
        over_all = done[0].get("test_tokens", done[0].get("valid_tokens", 0)) if done else 0
        if odd := note_on_unknown(unknown, over_all):
            notes.append(odd)
        if odd_ones := [row["name"] for row in done if not row.get("normalised", True)]:
            notes.append(f"{', '.join(odd_ones)} cannot be compared: {UNNORMALIZED}")
        if any(row.get("counted") for row in done):
            notes.append("n-grams are counted: they read the text once, and their FLOPs are not reported")
        return notes


def speed(model: Any, tokens: int = TIMED_TOKENS) -> float:
    """Tokens a second of one text drawn at random, one token after the other, with the model's cache."""

    def say(many: int) -> float:
        began = time.perf_counter()
        said = model.generate("", tokens=many, seed=1, min_length=many - 1)  # no end before that
        return len(said.token_ids) / (time.perf_counter() - began)

    say(tokens)  # what is compiled or allocated at the first time is not counted
    return statistics.median(say(tokens) for _ in range(TIMED_REPEATS))
