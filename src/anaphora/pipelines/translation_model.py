"""A translator's folder in memory: raw text in, objects out."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import suppress
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

import torch

from anaphora.alignment.alignment_method import Choice, Rival, choose_for_folder, corpus_pairs, ibm1_beside
from anaphora.alignment.dictionary import Dictionary, of_folder
from anaphora.alignment.model_alignment import Alignment, Method, align_pairs, align_translations
from anaphora.alignment.unknown_words import UnknownWords, counted_replacements, replacing
from anaphora.arguments.checked import checked
from anaphora.arguments.given import Lines, both_sides, lines_of, many_lines, one_text, pairs_in_step, pairs_of
from anaphora.arguments.signatures import also_named, known_names, spelled_out
from anaphora.config import with_old_names
from anaphora.data.corpus import Corpus
from anaphora.data.preparation import open_prepared
from anaphora.decoding.decoding_settings import DecodingConfig, changed
from anaphora.decoding.options import TRANSFORMERS_NAMES, DecodingOptions
from anaphora.decoding.splitting import SINGLE, several_sentences
from anaphora.decoding.translate import ScoredPair, Translation, clean, joined, one_line, score_lines, translate_lines
from anaphora.decoding.translation_scores import Evaluation
from anaphora.decoding.unfinished_translation import Unfinished
from anaphora.device import describe_device
from anaphora.errors import UserError, shown
from anaphora.evaluation.alignment_error import GoldAlignment
from anaphora.evaluation.by_length import by_length as binned
from anaphora.evaluation.draws import SAMPLES, SEED, Draws
from anaphora.evaluation.significance import compare_translations
from anaphora.evaluation.translation_metrics import bleu, chrf
from anaphora.evaluation.translation_metrics import ter as ter_of
from anaphora.folder import CONFIG, DATA, read_config, read_metrics, revision, weights_file
from anaphora.models import build as build_model
from anaphora.models.contracts import Translator
from anaphora.models.weights import load_weights, no_larger_than, read_weights
from anaphora.nn.mixture_of_experts import active_parameters
from anaphora.results import Info, count
from anaphora.tasks.recipes import RunConfig
from anaphora.tasks.translation_settling import load_tokenizers
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.words import Split, split_words
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.explain.trace import Trace

Progress = Callable[[int], None]


class TranslationModel:
    """A model folder in memory: translate, align, score, evaluate, info."""

    def __init__(self, folder: Path, device: torch.device, *, verify: bool = True) -> None:
        self.folder = folder
        self.device = device
        self.config = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
        settings = self.config.translator
        tokenizers = load_tokenizers(folder)
        self.source_tokenizer: Tokenizer = tokenizers["source"]
        self.target_tokenizer: Tokenizer = tokenizers["target"]
        file = weights_file(folder)
        weights = read_weights(file, verify=verify)
        # the caller's random numbers are not ours to use up
        with torch.random.fork_rng(devices=[]), no_larger_than(weights, file):
            model = build_model(settings, self.source_tokenizer.vocabulary_size, self.target_tokenizer.vocabulary_size)
        load_weights(model, weights, file=file)
        self.model: Translator = model.to(device).eval()

    def __repr__(self) -> str:
        size = f"{self.model.parameter_count():,} parameters"
        return f"<{type(self).__name__} {str(self.folder)!r}: {self.config.model.kind}, {size}, on {self.device}>"

    @also_named(**TRANSFORMERS_NAMES)
    @spelled_out(DecodingOptions)
    def decoding(self, **changes: Unpack[DecodingOptions]) -> DecodingConfig:
        """The folder's decoding settings with some changed: `decoding(beam=1)`."""
        config = changed(self.config.decoding, changes, beside=known_names(type(self).stream))
        if config.draws:
            return config
        return dataclasses.replace(config, beam=max(config.beam, config.n_best))

    @overload  # to Python a str is an Iterable[str] too, here it is one text
    def translate(  # type: ignore[overload-overlap]
        self,
        text: str,
        *,
        prefix: str | None = None,
        prefixes: str | None = None,
        progress: Progress | None = None,
        align: bool | Method | str = False,
        split: Split = "punctuation",
        **decoding: Unpack[DecodingOptions],
    ) -> Translation: ...
    @overload
    def translate(
        self,
        text: Lines,
        *,
        prefix: str | None = None,
        prefixes: Iterable[str] | None = None,
        progress: Progress | None = None,
        align: bool | Method | str = False,
        split: Split = "punctuation",
        **decoding: Unpack[DecodingOptions],
    ) -> list[Translation]: ...
    @also_named(**TRANSFORMERS_NAMES)
    @spelled_out(DecodingOptions)
    @checked()
    def translate(
        self,
        text: str | Lines,
        *,
        prefix: str | None = None,
        prefixes: str | Iterable[str] | None = None,
        progress: Progress | None = None,
        align: bool | Method | str = False,
        split: Split = "punctuation",
        **decoding: Unpack[DecodingOptions],
    ) -> Translation | list[Translation]:
        """Translate one text, or many: `translate(lines, beam=1, n_best=3, sample=True, …)`.

        A text of several lines is translated line by line. prefix: what every translation begins with; prefixes: one
        for each text. align: fill the `alignment` of each translation, which source words every word came from.
        """
        rows = one_text(text).strip("\r\n").split("\n") if isinstance(text, str) else None
        if rows is not None and isinstance(prefixes, str):
            prefixes = [prefixes]
        if rows is not None and len(rows) > 1:  # each line by itself, and the first begins with the prefix
            if align is not False:
                cure = "give a list of its lines, text.splitlines()"
                raise UserError("a text of several lines is aligned line by line", cure=cure)
            first = prefix or next(iter(prefixes or [""]))
            prefix, prefixes = None, [first, *[""] * (len(rows) - 1)]
        found = self.stream(
            text if rows is None else rows,
            prefix=prefix,
            prefixes=prefixes,
            progress=progress,
            align=align,
            split=split,
            **decoding,
        )
        return list(found) if rows is None else next(found) if len(rows) == 1 else joined(list(found))

    @also_named(**TRANSFORMERS_NAMES)
    @spelled_out(DecodingOptions)
    @checked(window=1)
    def stream(
        self,
        lines: str | Lines,
        *,
        prefix: str | None = None,
        prefixes: Iterable[str] | None = None,
        progress: Progress | None = None,
        window: int = 4096,
        align: bool | Method | str = False,
        split: Split = "punctuation",
        unfinished: Unfinished | None = None,
        **decoding: Unpack[DecodingOptions],
    ) -> Iterator[Translation]:
        """`translate` for more lines than fit in memory: an iterator, in order.

        align: True for the method that was chosen for this model, or another one as `align` takes it; split: what a
        word is. unfinished: where results are kept (`keep_unfinished`), so that an interrupted translation can be
        resumed.
        """
        settings = self.settled(self.decoding(**decoding))
        if align is not False and settings.stop:
            raise UserError(
                "a translation that ends at a stop string has no alignment of its own",
                cure="leave out the stop strings, or align the text afterwards (anaphora align)",
            )
        given = lines_of(lines)
        if prefix is not None:
            if prefixes is not None:
                raise UserError("prefix and prefixes are both given", cure="prefix is for all lines, prefixes for each")
            prefixes = repeat(one_text(prefix, "prefix"))
        elif prefixes is not None:
            if isinstance(prefixes, str):
                cure = f"give prefix={shown.repr(prefixes)} for all lines, or prefixes=[…], one for each"
                raise UserError(f"prefixes is one str, {shown.repr(prefixes)}", cure=cure)
            if isinstance(lines, Sized) and isinstance(prefixes, Sized) and len(prefixes) > len(lines) > 0:
                what = f"there are {len(prefixes):,} prefixes for {count(len(lines), 'line')}"
                raise UserError(what, cure="give one for each, or prefix= for all")
            prefixes = many_lines(prefixes, "prefixes")
        unknown = self.unknown_words(settings, decoding.get("dictionary"))
        said = translate_lines(
            self.model,
            self.source_tokenizer,
            self.target_tokenizer,
            given,
            settings if unknown is None else dataclasses.replace(settings, unknown=True),
            device=self.device,
            prefixes=prefixes,
            progress=progress,
            window=window,
            unfinished=unfinished,
        )
        if unknown is not None:
            said = unknown(said, window=min(window, 1024))
        if align is False:
            return said
        method = self.alignment_choice.method if align is True else Method.of(align)
        method.check(self.model)
        tokenizers = self.source_tokenizer, self.target_tokenizer
        return align_translations(self.model, *tokenizers, said, method, split=split, window=min(window, 1024))

    @checked()
    def settled(self, settings: DecodingConfig) -> DecodingConfig:
        """Settings in which `auto` is replaced by what suits this model."""
        if settings.split_sentences != "auto":
            return settings
        return dataclasses.replace(settings, split_sentences="always" if self._learned_single_sentences else "never")

    @cached_property
    def _learned_single_sentences(self) -> bool:
        """Whether the lines that it was trained on are single sentences: as its metrics say, or its training text where
        that is still there; where neither is known, no."""
        trained = read_metrics(self.folder).get("trained_on")
        share = trained.get("several_sentences") if isinstance(trained, dict) else None
        if share is None and (self.folder / DATA / "manifest.json").is_file():
            with suppress(UserError):  # text that is damaged, or not all there
                pairs = corpus_pairs(Corpus.open(self.folder / DATA / "train"), 1000)
                share = several_sentences(source for source, _ in pairs) if pairs else None
        return isinstance(share, int | float) and share <= SINGLE

    @also_named(**TRANSFORMERS_NAMES)
    @spelled_out(DecodingOptions)
    @checked()
    def keep_unfinished(
        self,
        output: Path,
        say: Callable[[str], None] = print,
        *,
        force: bool = False,
        **decoding: Unpack[DecodingOptions],
    ) -> Unfinished:
        """For `stream`: keeps results beside `output`, so that an interrupted translation can be resumed. force:
        what was kept with other settings or of other lines may go."""
        from anaphora.decoding.unfinished_translation import Unfinished

        circumstances = {
            "anaphora": __version__,
            "torch": torch.__version__,
            "device": describe_device(self.device),
            "model": [self.revision, dataclasses.asdict(self.config.model)],
            "decoding": dataclasses.asdict(self.settled(self.decoding(**decoding))),
        }
        return Unfinished(output, circumstances, say, force=force)

    @checked()
    def unknown_words(self, settings: DecodingConfig, file: str | None = None) -> UnknownWords | None:
        """What replaces unknown words in translations, None if they stay as they are. `file`: a dictionary to use now;
        that of the settings was copied into the folder when the model was trained."""
        mode = replacing(settings, self.target_tokenizer)
        for name in ("dictionary", "dictionary_threshold"):
            if mode != "dictionary" and getattr(settings, name) != getattr(self.config.decoding, name):
                what = (
                    "no word is unknown to this model" if settings.replace_unknown is None else f"they are not: {mode}"
                )
                raise UserError(
                    f"decoding.{name} is about replacing unknown words by a dictionary, and {what}", cure="leave it out"
                )
        if mode == "none":
            return None
        dictionary = self.dictionary(file) if mode == "dictionary" else None
        tokenizers = self.source_tokenizer, self.target_tokenizer
        return UnknownWords(self.model, *tokenizers, settings, self.alignment_choice.method, dictionary)

    @checked()
    def dictionary(self, file: str | None = None) -> Dictionary:
        """The dictionary that unknown words are replaced by: that of a file, or the folder's own."""
        return self._dictionary if file is None else Dictionary.read(Path(file))

    @cached_property
    def _dictionary(self) -> Dictionary:
        return of_folder(self.folder, (self.source_tokenizer, self.target_tokenizer))

    @cached_property
    def alignment_choice(self) -> Choice:
        """How this model's words are aligned, and why so: chosen on held-out text without gold."""
        guided = self.config.training.guided_layer, self.config.training.guided_head
        return choose_for_folder(
            self.folder,
            self.model,
            (self.source_tokenizer, self.target_tokenizer),
            guided=guided if self.config.training.guided_alignment else None,
        )

    @overload
    def align(  # type: ignore[overload-overlap]
        self, source: str, target: str, *, method: Method | str | None = None, split: Split = "punctuation"
    ) -> Alignment: ...
    @overload
    def align(
        self,
        source: Lines,
        target: Lines | None = None,
        *,
        method: Method | str | None = None,
        split: Split = "punctuation",
    ) -> list[Alignment]: ...
    @checked()
    def align(
        self,
        source: str | Lines,
        target: str | Lines | None = None,
        *,
        method: Method | str | None = None,
        split: Split = "punctuation",
    ) -> Alignment | list[Alignment]:
        """Which source words each word of a given translation came from: one `Alignment` for a pair of texts, a list
        for many pairs. method: nothing is the one that was chosen for this model; otherwise a `Method`, or its name,
        such as "occlusion" or "2.0:predicts:grow"."""
        found = self.stream_align(source, target, method=method, split=split)
        return next(found) if isinstance(source, str) else list(found)

    @checked()
    def stream_align(
        self,
        source: str | Lines,
        target: str | Lines | None = None,
        *,
        method: Method | str | None = None,
        split: Split = "punctuation",
    ) -> Iterator[Alignment]:
        """`align` for more lines than fit in memory: an iterator, in order."""
        pairs = pairs_of(source, target)
        method = self.alignment_choice.method if method is None else Method.of(method)
        method.check(self.model)
        return align_pairs(self.model, self.source_tokenizer, self.target_tokenizer, pairs, method, split=split)

    def ibm1_beside(self, aligned: Sequence[Alignment], gold: Sequence[GoldAlignment]) -> Rival:
        """IBM-1 on the same pairs, taught by the model's own training text where the folder still has it, else by the
        pairs themselves."""
        for name, given, kind in (("aligned", aligned, Alignment), ("gold", gold, GoldAlignment)):
            if not isinstance(given, Sequence) or not all(isinstance(one, kind) for one in given):
                raise UserError(f"{name} is {shown.repr(given)}", cure=f"give a list of {kind.__name__}")
        if len(aligned) != len(gold):
            raise UserError(f"{len(aligned):,} pairs have {len(gold):,} gold alignments", cure="give one for each")
        pairs = [(alignment.source_text, alignment.target_text) for alignment in aligned]
        lessons = list(pairs)
        if (self.folder / DATA / "manifest.json").is_file():
            lessons = corpus_pairs(open_prepared(self.folder / DATA).train, 200_000)
        return ibm1_beside(lessons, pairs, gold, split=aligned[0].split if aligned else "punctuation")

    @checked(layer=0, head=0)
    def walk(
        self,
        text: str,
        target: str | None = None,
        *,
        part: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        query: str | None = None,
    ) -> Trace:
        """One head of one attention, step by step, for a sentence and its translation (by default the model's own):
        `trace.walks[0]` has the steps and checks. See docs/walk.md."""
        from anaphora.explain.walk_model import Asked, choose_part
        from anaphora.explain.walk_translator import walk_translator

        asked = Asked(part, layer, head, query)
        choose_part(self.model, asked)  # what is not there is said before anything is translated
        text, said, finished = one_line(clean(one_text(text))), None, True
        if target is None:
            found = self.translate(text, stop=[], split_sentences="never")
            if found.pieces > 1:
                raise UserError("the sentence is too long to be read in one piece", cure="walk through a shorter one")
            if not found.token_ids:
                raise UserError("there is nothing to read", cure="give a sentence with at least one word")
            ids = found.token_ids[0]
            # what the model itself said, with <unk> where it did
            target = self.target_tokenizer.decode(ids[1]) if found.replaced else found.text
            said, finished = found.log_probability, found.finished
        else:
            target = one_line(clean(one_text(target, "target")))
            ids = self.source_tokenizer.encode(text), self.target_tokenizer.encode(target)
        aligning = self.alignment_choice.method if (part or "cross") == "cross" and layer is None else None
        tokenizers = self.source_tokenizer, self.target_tokenizer
        trace = walk_translator(
            self.model, tokenizers, (text, target), ids, asked, method=aligning, said=said, finished=finished
        )
        trace.model = {"name": self.folder.resolve().name, "revision": self.revision, **(trace.model or {})}
        return trace

    @cached_property
    def revision(self) -> str:
        """Sixteen bytes, in hex, that change whenever weights or settings do."""
        return revision(self.folder)

    @overload
    def score(  # type: ignore[overload-overlap]
        self, source: str, target: str, *, progress: Progress | None = None
    ) -> ScoredPair: ...
    @overload
    def score(
        self, source: Lines, target: Lines | None = None, *, progress: Progress | None = None
    ) -> list[ScoredPair]: ...
    @checked()
    def score(
        self, source: str | Lines, target: str | Lines | None = None, *, progress: Progress | None = None
    ) -> ScoredPair | list[ScoredPair]:
        """How probable the model finds a given translation: one `ScoredPair` for a pair of texts, a list for many."""
        found = self.stream_score(source, target, progress=progress)
        return next(found) if isinstance(source, str) else list(found)

    @checked()
    def stream_score(
        self, source: str | Lines, target: str | Lines | None = None, *, progress: Progress | None = None
    ) -> Iterator[ScoredPair]:
        """`score` for more lines than fit in memory: an iterator, in order."""
        pairs = pairs_of(source, target)
        tokenizers = self.source_tokenizer, self.target_tokenizer
        return score_lines(self.model, *tokenizers, pairs, self.config.decoding, device=self.device, progress=progress)

    @also_named(**TRANSFORMERS_NAMES, bootstrap="bootstrap_samples")
    @spelled_out(DecodingOptions)
    @checked(by_length=1)
    def evaluate(
        self,
        source: Lines,
        target: Lines | None = None,
        *,
        tokenize: str = "13a",
        by_length: int | None = None,
        ter: bool = False,
        beside: TranslationModel | None = None,
        bootstrap_samples: int = SAMPLES,
        bootstrap_seed: int = SEED,
        progress: Progress | None = None,
        **decoding: Unpack[DecodingOptions],
    ) -> Evaluation:
        """sacreBLEU, chrF, loss and speed on lines with references: lists, columns, open files, or Path("test.en").

        A table (Path("test.tsv")) holds the two sides. by_length: also in bins of so many source words (what a word is,
        tokenizers/words.py says). ter: TER too, which takes longer. beside: another model, evaluated in the same way
        and compared line by line, by a paired bootstrap test of so many samples.
        """
        draws = Draws(bootstrap_samples, bootstrap_seed).check()
        sources, targets = self._references(source, target)
        settings = self.decoding(**decoding)
        began = time.perf_counter()
        translations = list(self.stream(sources, progress=progress, **cast(Any, dataclasses.asdict(settings))))
        seconds = time.perf_counter() - began
        texts = [translation.text for translation in translations]
        by_bleu, by_chrf = bleu(texts, targets, tokenize=tokenize), chrf(texts, targets)
        by_ter = ter_of(texts, targets) if ter else None
        scored = self.score(sources, targets)
        able = [pair for pair in scored if pair.problem is None]
        tokens = sum(len(pair.token_scores) for pair in able)
        loss = -math.fsum(pair.log_probability for pair in able) / tokens if tokens else math.nan
        found = Evaluation(
            lines=len(sources),
            bleu=by_bleu.value,
            bleu_signature=by_bleu.signature,
            chrf=by_chrf.value,
            chrf_signature=by_chrf.signature,
            loss=loss,
            perplexity=math.exp(min(loss, 700.0)),
            lines_per_second=len(sources) / seconds,
            beam=settings.beam,
            search=settings.describe(),
            device=describe_device(self.device),
            split_lines=sum(translation.pieces > 1 for translation in translations),
            unscored_lines=len(scored) - len(able),
            replaced_words=counted_replacements(translations)
            if replacing(settings, self.target_tokenizer) != "none"
            else None,
            by_length=None
            if by_length is None
            else binned(
                [len(split_words(line)) for line in sources], texts, targets, width=by_length, tokenize=tokenize
            ),
            translations=translations,
            ter=None if by_ter is None else by_ter.value,
            ter_signature=None if by_ter is None else by_ter.signature,
        )
        if beside is None:
            return found
        how: dict[str, Any] = {"tokenize": tokenize, "ter": ter}
        other = beside.evaluate(sources, targets, by_length=by_length, progress=progress, **how, **decoding)
        others = [one.text for one in other.translations]
        paired = compare_translations(texts, others, targets, **how, draws=draws)
        return dataclasses.replace(found, beside=other, significance=paired)

    @staticmethod
    def _references(source: Lines, target: Lines | None) -> tuple[list[str], list[str]]:
        """Both sides of a text to evaluate, as long as each other and not empty."""
        source, target = both_sides(source, target)
        sides = many_lines(source, "source"), many_lines(target, "target")
        pairs = list(pairs_in_step(sides, (source, target), ("source", "target")))
        if not pairs:
            raise UserError("there are no lines to evaluate", cure="give texts with at least one line")
        return [one for one, _ in pairs], [clean(other) for _, other in pairs]

    def info(self) -> Info:
        """What this model is, what it cost, how good it was found."""
        metrics = read_metrics(self.folder)
        length = 25.0
        facts: dict[str, Any] = {
            "folder": str(self.folder),
            "recipe": self.config.recipe,
            "kind": self.config.model.kind,
            "shape": self.config.translator.shape(),
            "parameters": self.model.parameter_count(),
            "active_parameters": active_parameters(self.model),
            "source_vocabulary": self.source_tokenizer.vocabulary_size,
            "target_vocabulary": self.target_tokenizer.vocabulary_size,
            "flops_per_pair": self.model.flops(25, 25, length, length),
            "flops_note": "one forward pass over 25 source and 25 target tokens",
            "cache_bytes_per_token": self.model.cache_bytes_per_token(),
            "settings": with_old_names(self.config.document()),
            "metrics": {key: value for key, value in metrics.items() if key != "history"},
        }
        return Info(facts, str(self.folder), facts["kind"], f"{facts['parameters']:,} parameters")
