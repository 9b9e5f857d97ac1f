"""A run that learns word vectors, from files to a model folder; repeating the same call goes on where it stopped.

    lock → settings (compared with the folder's own) → ids → tables, learned side by side → vectors → card

What a killed run leaves is the prepared text (data/), of GloVe the counts (cooccurrences/), and its last checkpoint,
which holds all tables and is usable at once. It stays when the run is finished: of word2vec, a later run can start from
it (`--from`) and go on with other text, in which there may be new words. torch is not imported here.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from anaphora.config import described, differences
from anaphora.data.changes import CorpusChanged
from anaphora.data.formats import describe_notes
from anaphora.data.items import item_name
from anaphora.data.language_corpus import check_text, fingerprint, prepare_text
from anaphora.data.phrases import PHRASES
from anaphora.data.prepared_text import TOKENIZER, PreparedText, read_manifest
from anaphora.device import peak_resident
from anaphora.errors import UserError, option
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_bytes, read_json
from anaphora.files.shared_names import by_name
from anaphora.folder import (
    CHECKPOINTS,
    CONFIG,
    COOCCURRENCES,
    DATA,
    WEIGHTS,
    discard,
    read_config,
    read_metrics,
    write_bytes,
    write_config,
    write_json,
)
from anaphora.models.vectors.pieces import Learned
from anaphora.models.vectors.vector_files import all_numbers, save_vectors
from anaphora.models.vectors.vector_settings import GloveConfig, GloveTraining, Word2VecConfig, Word2VecTraining
from anaphora.models.vectors.word2vec import I64, U32, Word2Vec, count_ids
from anaphora.models.vectors.word_vectors import Vectors
from anaphora.results import count
from anaphora.tasks.beginning_anew import beginning_anew
from anaphora.tasks.checkpointed_vectors import CHECKPOINT, start_vectors
from anaphora.tasks.recipes import RunConfig
from anaphora.tasks.request import Outcome, Request
from anaphora.tasks.run_session import check_folder, working_in
from anaphora.tasks.vectors_card import LEARNED, words_are, write_vectors_card
from anaphora.tasks.vectors_settling import settle_vectors
from anaphora.tokenizers.tokenizer import SPECIALS
from anaphora.tokenizers.word_tokenizer import open_tokenizer
from anaphora.training.interruption import Interrupted, interruptible
from anaphora.training.reporting import RunReporter, duration, short

if TYPE_CHECKING:
    from rich.console import Console

HARMLESS = (
    *("data.text", "data.phrases_from", "data.paths", "tokenizer.words"),
    *("training.threads", "training.checkpoint_seconds", "training.max_memory"),
)
"""Settings whose change alone changes nothing: names of files, whose content is compared, and how fast it goes."""
LITTLE = 0.25
"""Where subsampling leaves less of a text than this, it is told."""


@dataclass(repr=False)  # its base's
class LearnedVectors(Outcome):
    """How a run of word vectors ended."""

    vocabulary: int = 0
    dim: int = 0
    losses: list[float] = field(default_factory=list)
    """The mean loss of a pair in each epoch."""
    words_per_second: float = 0.0
    new_words: int = 0
    """That the vectors it started from did not have."""


def train_vectors(request: Request, console: Console | None = None) -> LearnedVectors:
    """Make, continue or finish the run of word vectors that `request` describes."""
    if request.device not in ("auto", "cpu"):
        raise UserError(f"word vectors are learned on the CPU, not on {request.device}", cure="leave out the device")
    config = settle_vectors(request)
    check_text(config.data)
    check_folder(request.run)
    reporter = RunReporter(request.run, console)
    smaller = "take fewer dimensions (model.dim) or fewer words (tokenizer.minimum_count, tokenizer.vocabulary)"
    with working_in(request.run, reporter, smaller=smaller):
        return VectorsRun(request, config, reporter).complete()


class VectorsRun:
    """One run on its way."""

    def __init__(
        self, request: Request, config: RunConfig, reporter: RunReporter, *, folder: Path | None = None
    ) -> None:
        """folder: where it is made, while another run has the name that it is to have."""
        self.request, self.run, self.force = request, request.run, request.force
        self.folder = folder or request.run
        self.config, self.reporter = config, reporter
        self.model, self.training = config.vectors
        self.checkpoint = self.folder / CHECKPOINTS / CHECKPOINT.format(self.model.kind)
        self.learned_text = self.folder / CHECKPOINTS / "text.json"
        """The fingerprint of the text, so that prepared text can be made again if it is lost."""

    def complete(self) -> LearnedVectors:
        """Whatever of it is not done yet; forced, with other settings or text, all of it anew."""
        changed, begun = self._compare(), self.checkpoint.exists()
        prepared = None if changed else self._prepare(begun)
        if prepared is None:
            return self._begin_anew(changed or "another text")
        metrics = read_metrics(self.folder)
        if begun and prepared.reused and metrics.get("finished") is True and (self.folder / WEIGHTS).exists():
            with suppress(KeyError, TypeError):  # where metrics.json is damaged, it is written anew
                outcome = self._outcome(metrics, "it was finished already")
                self.reporter.message(f"{self.run} is finished: the same text was learned with the same settings")
                return outcome
        self._explain(prepared)
        write_bytes(self.folder / TOKENIZER, read_bytes(self.folder / DATA / TOKENIZER, MAX_LARGE_FILE_BYTES))
        if (self.folder / DATA / PHRASES).exists():
            write_bytes(self.folder / PHRASES, read_bytes(self.folder / DATA / PHRASES, MAX_LARGE_FILE_BYTES))
        else:
            (self.folder / PHRASES).unlink(missing_ok=True)
        write_config(self.folder, self.config.document())
        words, ids = self._words(prepared), np.memmap(prepared.train, np.uint32, "r")
        counts = count_ids(ids, prepared.manifest["vocabulary"])
        self.checkpoint.parent.mkdir(exist_ok=True)
        write_json(self.learned_text, prepared.manifest["settings"]["text"])
        learn = self._factorize if self.model.from_counts else self._predict
        vectors, learned, facts = learn(ids, words, counts)
        self.reporter.finish()
        self.reporter.message(f"learned in {duration(learned.seconds)}: {facts['speed']}")
        try:
            all_numbers(vectors, self.folder)
        except UserError as error:
            cure = f"lower training.learning_rate, and add {option('force', True)} to learn anew"
            raise UserError(f"has diverged: {error.what}", file=self.run, cure=cure) from None
        save_vectors(vectors, self.folder / WEIGHTS)
        metrics = write_vectors_card(
            self.folder,
            self.config,
            prepared.manifest,
            learned,
            facts,
            name=self.run.resolve().name,
            words=len(vectors),
            peak_memory=peak_resident(),
        )
        return self._outcome(metrics, f"{count(self.training.epochs, 'epoch')} done")

    # -- settings ------------------------------------------------------------------------------------------------------

    def _compare(self) -> str | None:
        """What differs from the run that is there, for which it is to begin anew; refused unless forced."""
        folder = self.folder
        if not (folder / CONFIG).exists():
            return None
        saved = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
        if saved.task.name != self.config.task.name:
            raise UserError(f"holds a model of kind {saved.model.kind}", file=folder, cure="choose another folder")
        there = (folder / CHECKPOINTS / CHECKPOINT.format(saved.model.kind)).exists()  # which may be the other kind
        if not there and not (folder / WEIGHTS).exists():
            return None  # nothing that could be lost
        if not there:
            raise UserError(
                "holds vectors but no checkpoint to continue from",
                file=folder,
                cure=f"choose another folder; to learn on from them, add {option('start_from', str(folder))}",
            )
        found = differences(by_name(saved.document()), by_name(self.config.document()))
        changed = {name: both for name, both in found.items() if name not in HARMLESS}
        if not changed:
            return None
        spoken = described(changed)
        if not self.force:
            raise UserError(
                f"holds a run with other settings: {spoken}",
                file=folder,
                cure=f"repeat the old command, choose another folder ({option('start_from')} goes on from this one), "
                f"or add {option('force', True)} to learn anew",
            )
        return f"changed: {spoken}"

    def _begin_anew(self, why: str) -> LearnedVectors:
        self.reporter.finish()
        if self.folder != self.run:
            self.reporter.message(f"{why}; what was learned of the new vectors is discarded")
            discard(self.folder)
            self.folder.mkdir()
            return self.complete()
        with beginning_anew(self.run, self.config.task.name) as new:
            self.reporter.message(f"{why}; learned anew, and what is in {self.run} stays until that is finished")
            return VectorsRun(self.request, self.config, self.reporter, folder=new).complete()

    # -- text ----------------------------------------------------------------------------------------------------------

    def _prepare(self, begun: bool) -> PreparedText | None:
        """The text as ids; a run that has learned something keeps to it. Nothing where it is forced to another one."""
        restored = begun and read_manifest(self.folder / DATA) is None
        if restored and self._text() != self._recorded_text():
            if self.force:
                return None
            raise UserError(
                "holds a run whose prepared text is gone or damaged, and it was not learned from this text",
                file=self.folder,
                cure=f"give the text of that run, choose another folder ({option('start_from')} goes on from this "
                f"one), or add {option('force', True)} to learn anew",
            )
        try:
            prepared = prepare_text(
                self.folder / DATA,
                self.config.data,
                self.config.tokenizer,
                on_change="raise" if begun else "rebuild",
                progress=self.reporter.stage,
            )
        except CorpusChanged:
            if self.force:
                return None
            raise
        self.reporter.finish()
        what, least = "item" if self.config.data.items else "word", self.config.tokenizer.minimum_count
        if prepared.manifest["vocabulary"] == len(SPECIALS):
            raise UserError(
                f"no {what} comes {count(least, 'time')} or more in this text, so there is nothing to learn",
                file=self.config.data.text[0],
                cure="give more text, or lower tokenizer.minimum_count",
            )
        if self.config.start_from is None and prepared.manifest["vocabulary"] == len(SPECIALS) + 1:
            raise UserError(
                f"one {what} only comes {count(least, 'time')} or more in this text, and there is nothing to tell it "
                "from",
                file=self.config.data.text[0],
                cure="give more text, or lower tokenizer.minimum_count",
            )
        return prepared

    def _text(self) -> dict[str, str]:
        """What the text of this command is known by."""
        return {"text": fingerprint(self.config.data.text, self.reporter.stage, items=self.config.data.items)}

    def _recorded_text(self) -> Any:
        """What the text that was learned from is known by; nothing in runs of earlier versions."""
        try:
            return read_json(self.learned_text)
        except (OSError, UserError, ValueError):
            return None

    def _explain(self, prepared: PreparedText) -> None:
        """What is about to happen, in two lines."""
        manifest, say, model = prepared.manifest, self.reporter.message, self.model
        train, what = manifest["train"], "items" if self.config.data.items else "words"
        words = train["tokens"] - train["lines"]
        rare = f", {train['unknown_tokens']:,} of them too rare" if train["unknown_tokens"] else ""
        rule = f"; {words_are(self.config.data)}" if what == "words" else ""
        say(f"text: {count(train['lines'], 'line')}, {count(words, what[:-1])}{rare}{rule}")
        if odd := describe_notes(manifest["tidied"]):
            say(f"warning: {odd}")
        if phrases := manifest.get("phrases"):
            found, joined, kept = (f"{phrases[name]:,}" for name in ("found", "joined", "vocabulary"))
            say(f"phrases: {found} found, joined in {joined} places; of those left, {kept} with a vector")
        how = model.described()
        size = manifest["vocabulary"] - len(SPECIALS)
        say(f"vectors: {how}, {model.dim} wide, of {size:,} {what}, window {model.window}")

    def _words(self, prepared: PreparedText) -> list[str]:
        tokenizer = open_tokenizer(prepared.folder / TOKENIZER)
        words = [tokenizer.word(id) for id in range(len(SPECIALS), tokenizer.vocabulary_size)]
        return [item_name(word) for word in words] if self.config.data.items else words

    # -- learning ------------------------------------------------------------------------------------------------------

    def _predict(self, ids: U32, words: list[str], counts: I64) -> tuple[Vectors, Learned, dict[str, Any]]:
        """word2vec: the vectors, how it went, and what the card is to say besides."""
        config, training = cast("Word2VecConfig", self.model), cast("Word2VecTraining", self.training)
        learned, rows = Learned(), None
        if self.checkpoint.exists():
            model, learned, _ = Word2Vec.load(self.checkpoint)
            place = {word: row for row, word in enumerate(model.words)}
            rows = np.array([place[word] for word in words], np.uint32)
            self.reporter.message(f"continuing after {learned.pieces:,} of {count(learned.of, 'piece')} of the text")
        elif self.config.start_from is None:
            model = Word2Vec(config, words, counts, seed=training.seed)
        else:
            model, told = start_vectors(Path(self.config.start_from), config)
            learned.known = len(model.words)
            rows = model.extend(words, counts, seed=training.seed)
            self.reporter.message(
                f"starting from {self.config.start_from}: {count(learned.known, 'word')}, to which "
                f"{len(model.words) - learned.known:,} come{told}"
            )
            model.save(self.checkpoint, learned, training)  # from here on, it has a vocabulary of its own
        if rows is not None and np.array_equal(rows, np.arange(len(rows))):
            rows = None
        with interruptible(self.reporter.message) as asked:
            learned = model.train(
                ids,
                training,
                rows=rows,
                checkpoint=self.checkpoint,
                learned=learned,
                progress=self._tell(learned),
                stop=asked.is_set,
            )
        if not learned.finished:
            raise Interrupted
        read = int(counts.sum()) * training.epochs
        if learned.words < LITTLE * read:
            what = "items" if self.config.data.items else "words"
            self.reporter.finish()
            self.reporter.message(
                f"note: of all {what}, {learned.words / read:.0%} were learned from: with few different ones, each is "
                "frequent, and frequent ones are thinned out; model.sample=0 takes all"
            )
        speed = read / learned.seconds if learned.seconds else 0.0
        facts = {"new_words": len(model.words) - learned.known, "words_per_second": round(speed, 1)}
        return model.vectors(), learned, {**facts, "speed": f"{short(speed)} words a second"}

    def _factorize(self, ids: U32, words: list[str], counts: I64) -> tuple[Vectors, Learned, dict[str, Any]]:
        """GloVe: count which words stand near which, then learn from the counts."""
        from anaphora.models.vectors.cooccurrence import count_cooccurrences
        from anaphora.models.vectors.glove import learn_glove

        config, training = cast("GloveConfig", self.model), cast("GloveTraining", self.training)
        began = time.monotonic()
        counted = count_cooccurrences(
            ids,
            words,
            self.folder / COOCCURRENCES,
            window=config.window,
            memory=training.memory_limit(),
            threads=training.threads,
            progress=lambda read, of: self.reporter.stage("counting", read, of),
        )
        self.reporter.finish()
        taken = time.monotonic() - began
        self.reporter.message(f"{count(len(counted), 'pair')} of words near each other, counted in {duration(taken)}")
        with interruptible(self.reporter.message) as asked:
            model, learned = learn_glove(
                counted,
                config,
                training,
                checkpoint=self.checkpoint,
                progress=self._tell(Learned()),
                stop=asked.is_set,
            )
        if not learned.finished:
            raise Interrupted
        speed = learned.tokens / learned.seconds if learned.seconds else 0.0
        facts: dict[str, Any] = {"new_words": len(words), "pairs": len(counted), "counting_seconds": round(taken, 2)}
        facts |= {"pairs_per_second": round(speed, 1), "speed": f"{short(speed)} pairs a second"}
        return model.vectors(counts), learned, facts

    def _tell(self, before: Learned) -> Any:
        epochs, told = self.training.epochs, [before.pieces * self.training.epochs // before.of if before.of else -1]

        def tell(learned: Learned) -> None:
            self.reporter.stage("learning", learned.pieces, learned.of)
            if told[0] < 0:  # of a checkpoint that was opened elsewhere
                told[0] = (learned.pieces - 1) * epochs // learned.of
            for epoch in range(told[0], learned.epochs):
                if pairs := learned.pairs[epoch]:
                    self.reporter.message(f"epoch {epoch + 1} of {epochs}: loss {learned.loss[epoch] / pairs:.4f}")
                told[0] = epoch + 1

        return tell

    def _outcome(self, metrics: dict[str, Any], reason: str) -> LearnedVectors:
        return LearnedVectors(
            folder=self.run,
            reason=reason,
            steps=0,
            tokens=metrics["tokens"],
            seconds=metrics["cost"]["seconds"],
            flops=0.0,
            parameters=metrics["parameters"],
            weights=LEARNED,
            kind=self.model.kind,
            vocabulary=metrics["vocabulary"],
            dim=self.model.dim,
            losses=metrics["losses"],
            words_per_second=metrics.get("words_per_second", 0.0),
            new_words=metrics["new_words"],
        )
