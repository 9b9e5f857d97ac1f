"""Translators side by side: one corpus, the same lines to be measured on, one tokenizer for all that can share it.

The corpus is prepared once for each way to cut it (subwords for most; bytes for ByteNet, which spells; words for what
replaces unknown ones), and every run folder gets it by hard links. Held-out pairs are drawn by their text, so they are
the same ones however the text is cut. BLEU and chrF are of raw text, by sacreBLEU, and do not depend on that either.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.comparing.budget import Budget
from anaphora.comparing.combining import ENDING, combined
from anaphora.comparing.comparison_settings import FILES, RecipeTask, planned_tokens, share_text
from anaphora.comparing.published import ROWS, beside_published
from anaphora.comparing.report import COSTS, speed_form
from anaphora.comparing.rows import Entry
from anaphora.comparing.task import Column, Extract, Plan
from anaphora.comparing.translation_costs import flops_a_token, in_time, tokens_an_update, translate_some
from anaphora.config import merge
from anaphora.data.data_settings import Sides
from anaphora.data.formats import read_rows
from anaphora.errors import UserError, option
from anaphora.folder import DATA, read_metrics
from anaphora.models import settings as model_settings
from anaphora.tasks.recipes import Document, RunConfig, complete, load_recipe
from anaphora.tasks.request import Request
from anaphora.training.reporting import RunReporter

if TYPE_CHECKING:
    from anaphora.data.preparation import Prepared

Pairs = tuple[list[str], list[str]]
MANIFEST = "manifest.json"
WARM_UP = 16
"""Lines that a model translates before it is timed."""
OF_THE_START = ("learning_rate", "schedule", "warmup_steps", "consistency")
"""Settings of all rows that are for learning from the beginning, and not said to what goes on from a model."""
OF_TRANSFORMERS = ("heads", "feed_forward")
"""Settings of a model that mean something only where a Transformer reads."""
SAMPLING_SLOWDOWN = 2.0
"""Operations of drawing translations, word by word, take about this much longer than those of reading them."""


def _speed(value: float) -> str:
    return f"{value:.1f}" if value < 100 else speed_form(value)


def _seeds(seeds: Sequence[int]) -> str:
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"


class TranslationTask(RecipeTask):
    name = "translation"
    alone = ("data",)
    usual = "seq2seq bahdanau luong deep-att gnmt moe bytenet convs2s transformer"
    short_forms: Mapping[str, str] = {}
    sets = {"ladder": usual, "lectures": ROWS}  # noqa: RUF012
    ending = ENDING
    columns = (
        Column("bleu", "BLEU", lambda value: f"{value:.2f}", "by sacreBLEU, of whole texts as they are"),
        Column("chrf", "chrF", lambda value: f"{value:.2f}", "F-score of characters, by sacreBLEU"),
    )
    costs = (
        *COSTS,
        Column("lines_per_second", "lines/s", _speed, "translated, in batches, timed alone"),
        Column(
            "seeds", "seed", _seeds, "decides the weights at the start, order and dropout; of an ensemble, its members'"
        ),
    )
    timed = "lines_per_second"
    lower_is_better = False

    def __init__(
        self,
        source: Sequence[str],
        target: Sequence[str],
        *,
        valid: Sides | None = None,
        test: Sides | None = None,
        settings: Document | None = None,
        device: str = "auto",
        published: bool = False,
    ) -> None:
        """valid, test: files by side. settings: of all rows; section data is shared, tokenizer by all rows that say no
        tokenizer of their own, others hold where they mean something. published: also the lectures' table."""
        own, self.published = settings or {}, published
        for side, given in (("source", source), ("target", target)):
            if not given:
                raise UserError(f"no {side} training text given", cure=f"give {option(side, 'FILE')}")
        files = {"source": list(source), "target": list(target)}
        files |= {f"valid_{side}": list(names) for side, names in (valid or {}).items()}
        if named := [key for key in own.get("data", {}) if key in FILES]:
            raise UserError(f"data.{named[0]} names files", cure=f"give {option(named[0], 'FILE')}")
        others = {section: values for section, values in own.items() if section not in ("data", "tokenizer")}
        super().__init__({"data": {**own.get("data", {}), **files}}, others, device)
        self.tokenizer = own.get("tokenizer", {})
        self.valid, self.test = valid or {}, test or {}
        self.lines: Pairs = self._read(self.test or self.valid) if self.test or self.valid else ([], [])
        self.entries: dict[str, Entry] = {}
        self.corpora: dict[str, Prepared] = {}
        """By the name of their folder."""
        self.texts: dict[str, str] = {}
        """Which of them is that of a row."""
        self.main = ""
        """That of most rows."""
        self.plans: dict[str, Plan] = {}
        self.paces: dict[str, float] = {}
        """Seconds that an operation takes, by recipe and settings."""

    def _read(self, sides: Sides) -> Pairs:
        rows = list(read_rows(sides, Counter()))
        if not rows:
            raise UserError("there are no lines in this file", file=sides["source"][0], cure="give at least one line")
        return [row[0] for row in rows], [row[1] for row in rows]

    # -- rows ----------------------------------------------------------------------------------------------------------

    def expand(self, asked: Sequence[Entry]) -> list[Entry]:
        entries = combined(asked, self.seed)
        self.entries = {entry.name: entry for entry in entries}
        return entries

    def seed(self, entry: Entry) -> int:
        said = merge(load_recipe(entry.recipe), {"training": self.own.get("training", {})}, entry.settings)
        return int(said.get("training", {}).get("seed", 1))

    def start(self, entry: Entry) -> Entry | None:
        """The row that this one learns on from."""
        return self.entries[entry.after[0]] if entry.after and not entry.together else None

    def origin(self, entry: Entry) -> Entry:
        """The row at the beginning of this one, which learned from nothing."""
        return self.origin(self.entries[entry.after[0]]) if entry.after else entry

    def own_of(self, entry: Entry) -> Document:
        own = super().own_of(entry)
        if entry.after:  # model and tokenizer are those of the start
            training = {key: value for key, value in own.get("training", {}).items() if key not in OF_THE_START}
            return {section: values for section, values in {**own, "training": training}.items() if section != "model"}
        says = merge(load_recipe(entry.recipe), entry.settings)
        if "model" in own and getattr(model_settings(says.get("model", {})), "encoder_name", "") != "transformer":
            own["model"] = {key: value for key, value in own["model"].items() if key not in OF_TRANSFORMERS}
        return {**own, "tokenizer": {} if "kind" in says.get("tokenizer", {}) else self.tokenizer}

    def request(self, entry: Entry, limits: Mapping[str, Any] | None = None) -> Request:
        request = super().request(entry, limits)
        if "big" in entry.endings and not entry.after and self.texts.get(entry.name) in self.corpora:
            wide = self._twice_as_wide(entry, request)
            request.own = merge(request.own, wide, {"model": entry.settings.get("model", {})})
        if entry.after:
            request.start_from = Path(entry.after[0])
        return request

    def _twice_as_wide(self, entry: Entry, request: Request) -> Document:
        plain = complete(request.recipe, request.own, pairs=self._rows(entry)).document()["model"]
        return {"model": {key: 2 * plain[key] for key in ("dim", "heads", "feed_forward") if key in plain}}

    def check(self, entry: Entry, budget: Budget | None) -> None:
        if not entry.together:
            super().check(entry, budget)

    def check_settings(self, entries: Sequence[Entry]) -> None:
        super().check_settings(entries)
        if self.tokenizer and not any(self.own_of(entry).get("tokenizer") for entry in entries if not entry.after):
            key = next(iter(self.tokenizer))
            raise UserError(
                f"tokenizer.{key} is for rows that share a tokenizer, and each of these has its own",
                cure="leave it out, or set it for a row: NAME=RECIPE:tokenizer.…",
            )

    # -- the text ------------------------------------------------------------------------------------------------------

    def _asked(self, entry: Entry) -> RunConfig:
        """The settings that decide how the text of a row is cut."""
        first = self.origin(entry)
        return RunConfig.read(merge(load_recipe(first.recipe), self.request(first).own))

    def text_of(self, folder: Path, entry: Entry) -> Path:
        from anaphora.tasks.translation_settling import longest, text_settings

        asked = self._asked(entry)
        said = {**text_settings(asked.document()), "longest": longest(asked)}
        digest = hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:8]
        return folder / f"{asked.tokenizer.kind}-{digest}"

    def prepare(self, folder: Path, entries: Sequence[Entry], *, force: bool, reporter: RunReporter) -> None:
        from anaphora.tasks.translation_run import prepare_pairs

        self.corpora, texts = {}, {entry.name: self.text_of(folder, entry) for entry in entries}
        self.texts = {name: text.name for name, text in texts.items()}
        for entry in entries:
            text = texts[entry.name]
            if text.name not in self.corpora:
                asked = self._asked(entry)
                if asked.data.hold_out == 0 and not self.lines[0]:
                    raise UserError(
                        "no pairs are held out to measure on",
                        cure=f"give {option('valid_source')} and {option('valid_target')}, or leave out "
                        "data.hold_out=0",
                    )
                text.parent.mkdir(parents=True, exist_ok=True)
                self.corpora[text.name] = prepare_pairs(text, asked, keep=None, rebuild=force, reporter=reporter)
        self.main = Counter(self.texts.values()).most_common(1)[0][0]
        if not self.lines[0]:
            held = self.corpora[self.main].valid
            if held is None:
                raise UserError(
                    "so few pairs leave none to measure on", file=self.common["data"]["source"][0], cure="give more"
                )
            rows = range(len(held))
            self.lines = [held.text("source", row) for row in rows], [held.text("target", row) for row in rows]
        self.ruler = hashlib.sha256("\n".join([*self.lines[0], *self.lines[1]]).encode()).hexdigest()[:16]

    def _prepared(self, entry: Entry) -> Prepared:
        return self.corpora[self.texts[self.origin(entry).name if entry.after else entry.name]]

    def _rows(self, entry: Entry) -> int:
        return int(self.corpora[self.texts[entry.name]].manifest["train"]["rows"])

    def shared(self) -> dict[str, Any]:
        data = self.common["data"]
        texts = {}
        for name, prepared in self.corpora.items():
            manifest, tokenizers = prepared.manifest, prepared.tokenizers
            texts[name] = {
                "kind": tokenizers["target"].kind,
                "vocabulary": {side: one.vocabulary_size for side, one in tokenizers.items()},
                "vocabulary_fingerprint": {side: one.vocabulary_fingerprint() for side, one in tokenizers.items()},
                "train": {key: manifest["train"][key] for key in ("rows", "tokens", "left_out")},
                "rows": [row for row, text in self.texts.items() if text == name],
            }
        files = {key: data[key] for key in FILES if key in data}
        files |= {f"test_{side}": list(names) for side, names in self.test.items()}
        others = {key: value for key, value in data.items() if key not in FILES}
        settings = {"data": others, "tokenizer": self.tokenizer}
        return {**files, "settings": settings, "measured_lines": len(self.lines[0]), "texts": texts}

    def begin(self, entry: Entry, run: Path) -> None:
        if not entry.together:
            share_text(self._prepared(entry).folder, run / DATA, MANIFEST)

    # -- what it will cost ---------------------------------------------------------------------------------------------

    def _settled(self, entry: Entry, own: Document) -> RunConfig:
        """The settings that a new run would have."""
        start = self.start(entry)
        origin = None if start is None else self._settled(start, self.plans[start.name].settings).document()
        return complete(entry.recipe, own, pairs=self._rows(entry), start=origin)

    def plan(self, entry: Entry, budget: Budget | None) -> Plan:
        self.plans[entry.name] = plan = self._plan(entry, budget)
        for_whom = [other.name for other in self.entries.values() if entry.name in other.after]
        if not entry.shown:
            plan.note = f"for {', '.join(for_whom)}"
        return plan

    def _plan(self, entry: Entry, budget: Budget | None) -> Plan:
        if entry.together:
            sizes = [self.plans[name].parameters or 0 for name in entry.after]
            note = f"{len(entry.after)} of {entry.after[0]} as one"
            return Plan(parameters=sum(sizes), seconds=0.0, note=note)
        import torch

        from anaphora.models import build

        request = self.request(entry)
        config, prepared = self._settled(entry, request.own), self._prepared(entry)
        vocabularies = (prepared.tokenizers[side].vocabulary_size for side in ("source", "target"))
        with torch.device("meta"):  # a model without numbers: it is only asked how large it is
            model = build(config.translator, *vocabularies)
        flops = flops_a_token(model, prepared, config)
        tokens = prepared.manifest["train"]["tokens"]["target"] + self._rows(entry)  # end marks too
        if budget is not None:
            limits = budget.limits(flops)
            if limits.get("max_tokens"):
                limits |= in_time(config, request.own, limits["max_tokens"])
            request = self.request(entry, limits)
            config = self._settled(entry, request.own)
        an_update = tokens_an_update(config)
        planned = planned_tokens(config.training, tokens, an_update)
        return Plan(
            settings=request.own,
            parameters=model.parameter_count(),
            tokens=planned,
            flops=None if planned is None else flops * planned,
            steps=None if planned is None else math.ceil(planned / an_update),
            seconds=60 * budget.amount if budget is not None and budget.kind == "minutes" else None,
            note=f"from {entry.after[0]}" if entry.after else "",
        )

    def try_out(self, entry: Entry, plan: Plan) -> float | None:
        if plan.steps is None or not plan.flops:
            return None
        start = self.start(entry)
        if start is not None:
            pace = self.paces.get(self._alike(start))
            return None if pace is None else SAMPLING_SLOWDOWN * pace * plan.flops
        alike = self._alike(entry)
        if alike not in self.paces:
            from anaphora.comparing.trial import time_updates

            config = self._settled(entry, plan.settings)
            config.decoding.max_length_ratio, config.decoding.max_length_extra = 1.2, 2  # a fresh model never ends
            prepared = self._prepared(entry)

            def new_run(folder: Path, config: RunConfig, reporter: Any, device: Any) -> Any:
                from anaphora.tasks.translation_run import Run

                return Run(folder, config, prepared, reporter, device)

            took = time_updates(config, new_run, self.device, plan.steps, validate=translate_some)
            if took is None:
                return None
            self.paces[alike] = took / plan.flops
        return self.paces[alike] * plan.flops

    def _alike(self, entry: Entry) -> str:
        """The same for rows that differ by their seed alone: they take the same time."""
        said = {f"{section}.{key}": value for section, own in entry.settings.items() for key, value in own.items()}
        said.pop("training.seed", None)
        return json.dumps([entry.recipe, entry.endings, said], sort_keys=True, default=str)

    # -- running -------------------------------------------------------------------------------------------------------

    def arguments(self, entry: Entry, plan: Plan, run: Path) -> list[str]:
        made_of = [str((run.parent / name).resolve()) for name in entry.after]
        if entry.together:
            return ["mix", str(run), *made_of, f"--device={self.device}"]
        return [*super().arguments(entry, plan, run), *(f"--from={name}" for name in made_of)]

    def _cost(self, entry: Entry, run: Path) -> Counter[str]:
        """Of all updates that a row took, what it is made of included."""
        spent: Counter[str] = Counter()
        if not entry.together:
            cost = read_metrics(run)["cost"]
            own = {"flops": cost["flops"], "seconds": cost["seconds"], "steps": cost["steps"]}
            spent.update({**own, "tokens": cost["target_tokens"]})
        for name in entry.after:
            spent.update(self._cost(self.entries[name], run.parent / name))
        return spent

    def result(self, entry: Entry, run: Path) -> dict[str, Any]:
        metrics = read_metrics(run)
        prepared = self._prepared(entry)
        sides = ("target",) if entry.together else ("source", "target")
        own = tuple(metrics["vocabularies"][side] for side in sides)
        wanted = tuple(prepared.tokenizers[side].vocabulary_fingerprint() for side in sides)
        text = prepared.manifest["settings"]["text"]
        if own != wanted or (not entry.together and metrics["trained_on"]["fingerprint"] != text):
            raise UserError(
                "has another vocabulary or another text than the rest of the comparison",
                file=run,
                cure="delete that folder and repeat the command",
            )
        first = run if not entry.together else run.parent / entry.after[0]
        members = [read_metrics(run.parent / name) for name in entry.after] if entry.together else [metrics]
        validation = {} if entry.together else metrics["validation"]
        seeds = [self.seed(self.entries[name]) for name in entry.after] if entry.together else [self.seed(entry)]
        return {
            "bleu": validation.get("bleu"),
            "chrf": validation.get("chrf"),
            "valid_bleu": validation.get("bleu"),
            "valid_chrf": validation.get("chrf"),
            "parameters": sum(one["parameters"] for one in members),
            **self._cost(entry, run),
            "device": read_metrics(first)["cost"]["device"],
            "kind": self.kind(entry),
            "tokens_of": prepared.tokenizers["target"].kind,
            "seeds": seeds,
        }

    def measure(self, run: Path) -> dict[str, Any]:
        import torch

        from anaphora.device import choose_device
        from anaphora.pipelines.ensemble_model import open_member

        model = open_member(run, choose_device(self.device))
        model.translate(self.lines[0][:WARM_UP])  # what is compiled or allocated at the first time is not counted
        found = model.evaluate(*self.lines)
        del model
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # other rows need it
        return {
            "bleu": found.bleu,
            "bleu_signature": found.bleu_signature,
            "chrf": found.chrf,
            "chrf_signature": found.chrf_signature,
            "loss": found.loss,
            "lines_per_second": found.lines_per_second,
            "search": found.search,
            "replaced_words": found.replaced_words,
        }

    # -- what is told --------------------------------------------------------------------------------------------------

    def notes(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        done = [row for row in rows if row["state"] == "finished" and row.get("bleu_signature")]
        what = "test pairs" if self.test else "validation pairs, which checkpoints were chosen by"
        notes = [f"measured on {len(self.lines[0]):,} {what}"]
        if done:
            notes.append(f"BLEU {done[0]['bleu_signature']}, chrF {done[0]['chrf_signature']}")
            searches = sorted({str(row["search"]) for row in done})
            notes.append(f"translated by {' or '.join(searches)}, otherwise as each recipe says")
        notes += self._on_tokens(rows)
        shown = [row["name"] for row in rows if row.get("made_of") and self.entries[row["name"]].shown]
        if shown:
            notes.append(f"operations and time of {', '.join(shown)}: with those of all that each is made of")
        by_name = {row["name"]: row for row in done}
        told = set()
        for row in rows:
            members = [by_name[name] for name in row.get("made_of", []) if name in by_name]
            if len(members) > 1 and members[0]["name"] not in told:
                told.add(members[0]["name"])
                each = ", ".join(f"{one['bleu']:.2f}" for one in members)
                mean = sum(one["bleu"] for one in members) / len(members)
                seeds = ", ".join(str(seed) for one in members for seed in one["seeds"])
                notes.append(f"{members[0]['name']} by itself, seeds {seeds}: BLEU {each}, mean {mean:.2f}")
        return notes

    def _on_tokens(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Who has other tokens than most."""
        groups: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if self.entries[row["name"]].shown:
                groups[self.texts[self.origin(self.entries[row["name"]]).name]].append(row["name"])
        told = []
        for text, names in sorted(groups.items(), key=lambda one: one[0] != self.main):
            sizes = list(dict.fromkeys(one.vocabulary_size for one in self.corpora[text].tokenizers.values()))
            kind = self.corpora[text].tokenizers["target"].kind
            who = "all rows" if len(groups) == 1 else "all others" if text == self.main else ", ".join(names)
            told.append(f"{who}: {'/'.join(f'{size:,}' for size in sizes)} {UNITS[kind]}")
        return ["tokens of " + "; ".join([*told[1:], told[0]])] if told else []

    def extracts(self, rows: Sequence[Mapping[str, Any]]) -> list[Extract]:
        return beside_published(rows) if self.published else []


UNITS = {"bpe": "subwords (bpe)", "unigram": "subwords (unigram)", "word": "words", "character": "characters"}
UNITS["byte"] = "bytes"
