"""Neural language models: a run, from text to a model folder; repeating the same call goes on where it stopped.

    lock → settings (compared with the folder's own) → ids → model → loop → average → measure → card

With labels, the same run makes a classifier; a Transformer encoder without them learns to guess hidden words. What
comes before the model is in language_settling.py, what all runs that learn have in common in learning.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anaphora.config import merge
from anaphora.data.batches import EpochBatches
from anaphora.data.formats import describe_notes
from anaphora.data.language_batches import LanguageBatch, LineBatches, PackedBatches, StreamBatches, open_ids
from anaphora.data.language_corpus import check_text
from anaphora.data.prepared_text import TOKENIZER, PreparedText
from anaphora.device import choose_device, describe_device, peak_flops, peak_memory
from anaphora.errors import UserError
from anaphora.evaluation.bits_per_byte import note_on_unknown
from anaphora.folder import read_metrics, weights_file
from anaphora.models import build_language_model
from anaphora.models.weights import read_weights
from anaphora.nn.mixture_of_experts import counting, load
from anaphora.results import count
from anaphora.tasks.language_card import write_language_card
from anaphora.tasks.language_settling import settle_text, started_from
from anaphora.tasks.learning import LearningRun
from anaphora.tasks.recipes import RunConfig, load_recipe
from anaphora.tasks.request import Outcome, Request
from anaphora.tasks.run_session import check_folder, working_in
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.training.checkpoint import Progress
from anaphora.training.graphs import WIDTH_MULTIPLE, graphs_pay
from anaphora.training.objectives.balancing import balanced
from anaphora.training.objectives.language_objective import ClassificationObjective, LanguageObjective, MaskedObjective
from anaphora.training.objectives.objective import Objective
from anaphora.training.reporting import RunReporter, describe, describe_experts, short
from anaphora.training.text_validation import TextValidator

if TYPE_CHECKING:
    from rich.console import Console


def train_text(request: Request, console: Console | None = None) -> Outcome:
    """Make, continue or finish the run of a neural language model that `request` describes."""
    device = choose_device(request.device)
    check_folder(request.run)
    check_text(RunConfig.read(merge(load_recipe(request.recipe), request.own)).data)
    smaller = "take a smaller model (model.dim, model.layers) or smaller training.batch_tokens"
    reporter = RunReporter(request.run, console, peak_flops=peak_flops(device))
    with working_in(request.run, reporter, smaller=smaller):
        config, prepared = settle_text(request, reporter)
        reporter.finish()
        return LanguageRun(request.run, config, prepared, reporter, device).complete()


class LanguageRun(LearningRun):
    """A settled run of a neural language model, or of a classifier."""

    def __init__(
        self, folder: Path, config: RunConfig, prepared: PreparedText, reporter: RunReporter, device: torch.device
    ) -> None:
        self.prepared = prepared
        self.tokenizer = Tokenizer.load(prepared.folder / TOKENIZER)
        super().__init__(folder, config, reporter, device)
        if prepared.manifest["valid"]:
            self.validator = TextValidator(prepared, self.tokenizer, config, device)

    @property
    def classifies(self) -> bool:
        return bool(self.config.language.labels)

    @property
    def masked(self) -> bool:
        return self.config.language.masked and not self.classifies

    @property
    def carries(self) -> bool:
        """Whether each batch goes on where the last one stopped."""
        return self.config.data.boundaries == "stream" and not self.config.language.windowed

    def build(self) -> nn.Module:
        return build_language_model(self.config.language, self.prepared.manifest["vocabulary"])

    def tables(self) -> dict[str, tuple[nn.Embedding, Tokenizer]]:
        return {"text": (self.model.embedding.table, self.tokenizer)}

    def begin_from(self, folder: Path) -> None:
        """All weights of a model of the same sort; of another one, what both have: the words and the encoder."""
        start = started_from(self.config)
        if start is not None and start.language.labels != self.config.language.labels:
            file = weights_file(folder)
            own, stored = self.model.state_dict(), read_weights(file)
            shared = {name: tensor for name, tensor in stored.items() if name.startswith(("embedding", "encoder"))}
            if any(name not in own or own[name].shape != tensor.shape for name, tensor in shared.items()):
                raise UserError(
                    "its embedding and encoder do not fit this model", file=file, cure="leave out what changes them"
                )
            with torch.no_grad():
                for name, tensor in shared.items():
                    own[name].copy_(tensor)
            return
        super().begin_from(folder)

    def objective(self) -> Objective:
        return balanced(self._objective(), self.model)

    def _objective(self) -> Objective:
        config = self.config.training
        if self.classifies:
            return ClassificationObjective(config.label_smoothing)
        if self.masked:
            model = self.model
            return MaskedObjective(model.mask_id, model.vocabulary, config.masked, config.label_smoothing)
        return LanguageObjective(
            config.label_smoothing,
            activation_penalty=config.activation_penalty,
            temporal_penalty=config.temporal_penalty,
            carries=self.carries,
            distinct=self.model.vocabulary if self.config.language.by_token else None,
        )

    def batches(self) -> EpochBatches[LanguageBatch]:
        config, ids = self.config.training, open_ids(self.prepared.train)
        boundaries, longest = self.config.data.boundaries, self.model.max_length
        if boundaries == "lines":
            batches = LineBatches(
                ids,
                config.batch_tokens,
                config.seed,
                max_length=longest,
                multiple=WIDTH_MULTIPLE if graphs_pay(config, self.device) else 1,
                classes=self.prepared.classes() if self.classifies else None,
            )
            self._tell_cut(batches.pieces.cut, longest)
            return batches
        context = config.context - int(self.masked)  # who reads both ways reads the last token too
        if boundaries == "packed":
            packed = PackedBatches(ids, config.batch_tokens, context, config.seed)
            self._tell_cut(packed.pieces.cut, config.context)
            return packed
        return StreamBatches(ids, config.batch_tokens, context, config.seed, carries=self.carries)

    def _tell_cut(self, lines: int, longest: int | None) -> None:
        if lines:
            how = "cut short" if self.classifies else "learned in pieces"
            self.reporter.message(
                f"note: {count(lines, 'line is', 'lines are')} longer than {count(longest or 0, 'token')}, and {how}"
            )

    def measure(self, autocast: AbstractContextManager[None]) -> dict[str, Any]:
        assert self.validator is not None
        with counting(self.model) as experts:
            found = self.validator(self.model, thorough=True)  # in float32, as `anaphora evaluate` measures
        scores = found.scores
        say = self.reporter.message
        stride = f", windows of {scores['context']} moved by {scores['stride']}" if "stride" in scores else ""
        over = f" over {count(scores['tokens'], 'token')}" if "tokens" in scores else ""
        say(f"final model: {describe(scores)}{over}{stride}")
        self.reporter.samples(found.samples)
        if experts:
            scores["experts"] = load(experts)
            say(f"experts: {describe_experts(scores['experts'])}")
        if note := note_on_unknown(scores.get("unknown_tokens", 0), scores.get("tokens", 0)):
            say(f"note: {note}")
        return scores

    def card(self, progress: Progress, weights: str, scores: dict[str, Any], *, finished: bool) -> None:
        cost = read_metrics(self.folder).get("cost")  # of an earlier session, perhaps
        before = cost.get("peak_memory") if isinstance(cost, dict) else 0
        write_language_card(
            self.folder,
            self.config,
            progress,
            self.prepared.manifest,
            weights=weights,
            scores=scores,
            parameters=self.model.parameter_count(),
            device=describe_device(self.device),
            peak_memory=max(peak_memory(self.device), before if isinstance(before, int) else 0),
            finished=finished,
        )

    def explain(self) -> None:
        manifest, config = self.prepared.manifest, self.config
        train, valid, say = manifest["train"], manifest["valid"], self.reporter.message
        unknown = f" ({train['unknown_tokens']:,} unknown)" if train["unknown_tokens"] else ""
        measured = f", {valid['lines']:,} for validation" if valid else ", none for validation"
        lines = count(train["lines"], "line")
        say(f"text: {lines}, {train['tokens']:,} tokens{unknown} for training{measured}")
        if odd := describe_notes(manifest["tidied"]):
            say(f"warning: {odd}")
        model, training = config.language, config.training
        rows = "" if config.data.boundaries == "lines" else f", rows of {training.context}"
        classes = f", {count(len(model.labels), 'class', 'classes')}" if self.classifies else ""
        kind = config.recipe if config.recipe == model.kind else f"{config.recipe}, {model.kind}"
        say(
            f"model: {kind}, {model.dim} wide, {count(model.layers, 'layer')}, "
            f"{short(self.model.parameter_count())} parameters, vocabulary {manifest['vocabulary']:,} "
            f"({config.tokenizer.kind}){classes}, {config.data.boundaries}{rows}"
        )
        say(self.where())
