"""Translators: a run, from files to a model folder; repeating the same call goes on where it stopped.

    lock → settings (compared with the folder's own) → corpus → model → loop → average → card

What a folder already has, and what may change, is in translation_settling.py, what all runs that learn have in common
in learning.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anaphora.alignment.alignment_method import choose_on, corpus_pairs, read_choice, write_choice
from anaphora.alignment.dictionary import FILE as DICTIONARY
from anaphora.alignment.dictionary import copy_into, learn_for, of_folder
from anaphora.alignment.unknown_words import UnknownWords, replacing
from anaphora.config import differences, merge
from anaphora.data.batches import Batch, Batches, EpochBatches
from anaphora.data.bidirectional import BidirectionalStart
from anaphora.data.formats import describe_notes
from anaphora.data.preparation import Prepared, check_request, prepare
from anaphora.decoding.splitting import several_sentences
from anaphora.device import choose_device, describe_device, peak_flops
from anaphora.errors import UserError, option
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_bytes
from anaphora.files.shared_names import as_wished, by_name
from anaphora.folder import CONFIG, DATA, read_config, write_bytes, write_config
from anaphora.models import build
from anaphora.models.contracts import Translator
from anaphora.nn.mixture_of_experts import counting, load
from anaphora.results import count
from anaphora.tasks.learning import LearningRun
from anaphora.tasks.recipes import RunConfig, check_inherited, complete, inherit, load_recipe
from anaphora.tasks.request import Outcome, Request
from anaphora.tasks.run_session import check_folder, working_in
from anaphora.tasks.translation_card import write_card
from anaphora.tasks.translation_settling import (
    check_replacing,
    load_start,
    load_tokenizers,
    longest,
    refuse,
    saved_settings,
    text_settings,
    warn,
)
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.training.checkpoint import Progress
from anaphora.training.graphs import WIDTH_MULTIPLE, graphs_pay
from anaphora.training.objectives.balancing import balanced
from anaphora.training.objectives.objective import Objective, TranslationObjective
from anaphora.training.reporting import RunReporter, describe, describe_experts, short
from anaphora.training.translation_validation import Validator

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.training.objectives.guided import Guide


def train(request: Request, console: Console | None = None) -> Outcome:
    """Make, continue or finish the run that `request` describes."""
    device = choose_device(request.device)
    check_folder(request.run)
    RunConfig.read(merge(load_recipe(request.recipe), request.own))  # a misspelled name is found before any work
    smaller = (
        f"take a smaller model ({option('recipe', 'tiny')}), smaller training.batch_tokens or decoding.batch_tokens"
    )
    reporter = RunReporter(request.run, console, peak_flops=peak_flops(device))
    with working_in(request.run, reporter, smaller=smaller):
        config, prepared = resolve(request, reporter)
        reporter.finish()
        return Run(request.run, config, prepared, reporter, device).complete()


def resolve(request: Request, reporter: RunReporter) -> tuple[RunConfig, Prepared]:
    """The settings and the corpus of this run: those it already has, if they are the ones asked for."""
    folder = request.run
    saved = saved_settings(folder, "translation")
    recipe, origin = load_recipe(request.recipe), None
    if request.start_from is not None:
        start_config = request.start_from / CONFIG
        origin = saved or RunConfig.read(read_config(request.start_from), file=str(start_config)).document()
        recipe = inherit(recipe, origin)
        if saved is None:
            load_start(request.start_from, RunConfig.read(origin))  # is it whole? Before the corpus takes an hour
            check_inherited(merge(load_recipe(request.recipe), request.own), origin, folder=request.start_from)
    asked = RunConfig.read(merge(recipe, request.own))  # sizes that follow the corpus are still open
    check_replacing(asked)
    for side in ("source", "target"):
        if side not in asked.data.sides():
            raise UserError(f"no {side} training text given", cure=f"give {option(side, 'FILE')}")
    if saved is not None:  # before the corpus is touched
        text = differences(text_settings(by_name(saved)), text_settings(by_name(asked.document())))
        refuse(folder, text, force=request.force)
    start = None if request.start_from is None else str(request.start_from)
    forced = None
    if saved is not None and request.force:
        run = {"recipe": request.recipe, "start_from": start}
        forced = RunConfig.read({**merge(saved, recipe, request.own), "run": run})
        refuse(folder, differences(by_name(saved), by_name(forced.document())), force=True)
    if saved is None and not (folder / DATA).exists():
        check_request(asked.data.sides(), asked.data.valid_sides(), asked.data.hold_out, longest(asked))
        warn(asked, reporter)
    # a run keeps its tokenizers for good; a new one takes those of the model it starts from, or trains its own
    keeper = folder if saved is not None else request.start_from
    keep = None if keeper is None else load_tokenizers(keeper)
    rebuild = saved is None or request.force
    prepared = prepare_pairs(folder / DATA, asked, keep=keep, rebuild=rebuild, reporter=reporter)
    if forced is not None:
        config = forced
    else:
        pairs = prepared.manifest["train"]["rows"]
        config = complete(request.recipe, request.own, pairs=pairs, start_from=start, start=origin)
    changes = {} if saved is None else differences(by_name(saved), by_name(config.document()))
    refuse(folder, changes, force=request.force)
    for name, (old, new) in changes.items():
        reporter.message(f"changed {name}: {old} → {new}")
    given = config.decoding.dictionary
    stale = saved is None or "decoding.dictionary" in changes or not (folder / DICTIONARY).exists()
    if given is not None and stale:  # now, while its path is known: config.yaml keeps its name alone
        reporter.message(f"unknown words: {copy_into(folder, given)}")
    names = set(prepared.manifest["tokenizers"].values())
    for name in sorted(names):
        write_bytes(folder / name, read_bytes(folder / DATA / name, MAX_LARGE_FILE_BYTES))
    for path in folder.glob("tokenizer*.json"):  # of an attempt that never learned anything, with other settings
        if path.name not in names:
            path.unlink()
    if saved != as_wished(config.document()):
        write_config(folder, config.document())
    return config, prepared


def prepare_pairs(
    folder: Path, asked: RunConfig, *, keep: dict[str, Tokenizer] | None, rebuild: bool, reporter: RunReporter
) -> Prepared:
    """The corpus of a run with these settings, made or found there. keep: tokenizers that it is to have, by side."""
    prepared = prepare(
        folder,
        asked.data.sides(),
        valid_sides=asked.data.valid_sides() or None,
        tokenizer=asked.tokenizer if keep is None else keep,
        hold_out=asked.data.hold_out,
        max_length=longest(asked),
        tokenizer_lines=asked.data.tokenizer_lines,
        seed=asked.data.seed,
        on_change="rebuild" if rebuild else "raise",
        progress=reporter.stage,
    )
    if keep is None and not prepared.reused:
        _warn_of_fewer_tokens(prepared, asked, reporter)
    return prepared


def _warn_of_fewer_tokens(prepared: Prepared, asked: RunConfig, reporter: RunReporter) -> None:
    """A vocabulary that was asked for, and that the text does not have. (Language models refuse far smaller ones; a
    translator learns with what there is.)"""
    wanted, shared = asked.tokenizer.vocabulary, asked.tokenizer.shared
    reporter.finish()
    for side, tokenizer in list(prepared.tokenizers.items())[: 1 if shared else None]:
        if wanted is not None and len(tokenizer) < wanted:
            text = "this text" if shared else f"the {side} text"
            reporter.message(
                f"warning: tokenizer.vocabulary is {wanted:,}, but {text} has no more than {len(tokenizer):,} "
                "different tokens, which the vocabulary has now"
            )


class Run(LearningRun):
    """A settled run of a translator."""

    def __init__(
        self, folder: Path, config: RunConfig, prepared: Prepared, reporter: RunReporter, device: torch.device
    ) -> None:
        self.prepared = prepared
        self.tokenizers = prepared.tokenizers["source"], prepared.tokenizers["target"]
        super().__init__(folder, config, reporter, device)
        self.guide: Guide | None = None
        if prepared.valid is not None:
            self.validator = Validator(
                prepared.valid,
                *self.tokenizers,
                config.training,
                config.decoding,
                device,
                unknown_words=self.unknown_words,
            )

    def build(self) -> nn.Module:
        source, target = self.tokenizers
        return build(self.config.translator, source.vocabulary_size, target.vocabulary_size)

    def tables(self) -> dict[str, tuple[nn.Embedding, Tokenizer]]:
        sides = zip(("source", "target"), (self.model.source_embedding, self.model.target_embedding), self.tokenizers)
        tables = {side: (embedding.table, tokenizer) for side, embedding, tokenizer in sides}
        if tables["source"][0].weight is tables["target"][0].weight:  # one table for both
            del tables["source"]
        return tables

    def objective(self) -> Objective:
        config = self.config.training
        objective = TranslationObjective(config.label_smoothing, config.consistency)
        if config.objective != "likelihood":
            from anaphora.training.objectives.sequence_objective import SequenceObjective

            train, target = self.prepared.train, self.tokenizers[1]
            whole = SequenceObjective(objective, self.model, train, target, config, self.config.decoding)
            return balanced(whole, self.model)
        if not config.guided_alignment:
            return balanced(objective, self.model)
        from anaphora.training.objectives.guided import Guide, GuidedObjective

        self.guide = Guide(self.prepared.train, self.tokenizers, self.reporter.message)
        guided = GuidedObjective(
            objective,
            self.model,
            self.guide,
            weight=config.guided_alignment,
            layer=config.guided_layer,
            head=config.guided_head,
        )
        return balanced(guided, self.model)

    def batches(self) -> EpochBatches[Batch]:
        config, samplers = self.config, {}
        if config.tokenizer.dropout:
            from anaphora.tokenizers.subword_dropout import SubwordSampler

            samplers = {side: SubwordSampler(tokenizer) for side, tokenizer in self.prepared.tokenizers.items()}
        settings: dict[str, Any] = {
            "batch_tokens": config.training.batch_tokens,
            "seed": config.training.seed,
            "samplers": samplers,
            "dropout": config.tokenizer.dropout,
            "multiple": WIDTH_MULTIPLE if graphs_pay(config.training, self.device) else 1,
            "max_length": config.translator.max_length,
        }
        if config.training.bidirectional_epochs:
            return BidirectionalStart(self.prepared.train, config.training.bidirectional_epochs, **settings)
        return Batches(self.prepared.train, **settings)

    def measure(self, autocast: AbstractContextManager[None]) -> dict[str, Any]:
        assert isinstance(self.validator, Validator)
        beam = self.config.decoding.beam
        with counting(self.model) as experts:
            found = self.validator(self.model, beam=beam, thorough=True, autocast=autocast)
        scores = found.scores
        self.reporter.message(f"final model, beam {beam}: {describe(scores)}")
        self.reporter.samples(found.samples)
        if experts:
            scores["experts"] = load(experts)
            self.reporter.message(f"experts: {describe_experts(scores['experts'])}")
        return scores

    def look_back(self) -> None:
        """Which layer and head align words best, on held-out text, without gold: `alignment.json`. Of a translator of
        whole words also what those outside its vocabulary may be: `dictionary.tsv`."""
        if replacing(self.config.decoding, self.tokenizers[1]) == "dictionary":
            start = None if self.config.start_from is None else Path(self.config.start_from)
            given = self.config.decoding.dictionary
            told = learn_for(self.folder, self.prepared.train, self.tokenizers, start=start, given=given)
            self.reporter.message(f"unknown words: {told}")
        teacher = None if self.guide is None else self.guide.teacher
        choice = choose_on(
            self.model,
            self.tokenizers,
            self.prepared.train,
            self.prepared.valid,
            teacher=teacher,
            batch_tokens=self.config.training.batch_tokens,  # what is known to fit into memory
        )
        write_choice(self.folder, choice)
        self.reporter.message(f"alignments: {choice.method.source_of_weights}")

    def unknown_words(self, model: Translator) -> UnknownWords | None:
        """Who replaces unknown words in what a model says, once it is known how its words are aligned."""
        mode, choice = replacing(self.config.decoding, self.tokenizers[1]), read_choice(self.folder)
        if mode == "none" or choice is None:
            return None
        dictionary = of_folder(self.folder, self.tokenizers) if mode == "dictionary" else None
        return UnknownWords(model, *self.tokenizers, self.config.decoding, choice.method, dictionary)

    def card(self, progress: Progress, weights: str, scores: dict[str, Any], *, finished: bool) -> None:
        write_card(
            self.folder,
            self.config,
            progress,
            self.prepared.manifest,
            weights=weights,
            scores=scores,
            parameters=self.model.parameter_count(),
            vocabularies={side: one.vocabulary_fingerprint() for side, one in self.prepared.tokenizers.items()},
            device=describe_device(self.device),
            finished=finished,
            several=self.several_sentences,
        )

    @cached_property
    def several_sentences(self) -> float:
        """The share of the source lines learned from that have more than one sentence, of a thousand."""
        return several_sentences(source for source, _ in corpus_pairs(self.prepared.train, 1000))

    def explain(self) -> None:
        """What is about to happen, in three lines."""
        manifest, config = self.prepared.manifest, self.config
        train, valid = manifest["train"], manifest["valid"]
        kept_apart = "shared with the held-out part"
        apart = train["left_out"].get(kept_apart)
        odd = [f"left out {number:,} {why}" for why, number in train["left_out"].items() if why != kept_apart]
        odd += [described] if (described := describe_notes(manifest["tidied"])) else []
        say = self.reporter.message
        say(
            f"corpus: {count(train['rows'], 'pair')} for training, {valid['rows']:,} for validation"
            + (f"; left out: {apart:,} {kept_apart}" if apart else "")
        )
        if odd:
            say(f"warning: {', '.join(odd)}")
        size = "joint" if self.tokenizers[0] is self.tokenizers[1] else "source/target"
        vocabulary = "/".join(f"{t.vocabulary_size:,}" for t in dict.fromkeys(self.tokenizers))
        model = config.translator
        say(
            f"model: {config.recipe}, {model.dim} wide, {model.layers}+{model.decoder_depth} layers, "
            f"{short(self.model.parameter_count())} parameters, {size} vocabulary {vocabulary} "
            f"({config.tokenizer.kind})"
        )
        say(self.where())
