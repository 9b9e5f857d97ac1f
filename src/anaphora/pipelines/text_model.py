"""A language model in memory: raw text in, probabilities and text out.

    model = anaphora.load("runs/plays")            # a folder that `anaphora train --text` wrote, or an ARPA file
    model.log_probabilities(["To be, or not to be"])
    model.evaluate(open("test.txt"))               # or Path("test.txt"), or any iterable of lines
    print(model.generate("Enter the", seed=7).text)
    for piece in model.stream("Enter the"):
        print(piece, end="", flush=True)

All of it goes through the LanguageModel contract, so that counting models and neural ones answer alike. A masked model
fills in blanks instead of going on with a text, a classifier tells texts apart; who is asked for what it cannot do says
so. Torch is loaded only by a model that needs it, and by `generate`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from anaphora.arguments.checked import checked
from anaphora.arguments.given import Lines, lines_of, many_lines, one_text, path_of, words_of
from anaphora.arguments.signatures import also_named, known_names, spelled_out
from anaphora.decoding.decoding_settings import DecodingConfig, changed, generation_changes
from anaphora.decoding.options import GENERATE_NAMES, DecodingOptions, GenerateOptions, TextOptions
from anaphora.decoding.text_scoring import (
    plain,
)
from anaphora.decoding.text_vectors import Pool
from anaphora.errors import UserError
from anaphora.folder import check_new_file, read_metrics, revision
from anaphora.pipelines.scoring_text_model import ScoringTextModel
from anaphora.tokenizers.words import Split

if TYPE_CHECKING:
    from anaphora.decoding.classes import Classified
    from anaphora.decoding.drafts import Draft
    from anaphora.decoding.generation import Generation, GenerationStream
    from anaphora.decoding.hidden_words import Filled
    from anaphora.decoding.text_vectors import WordVectors
    from anaphora.evaluation.class_scores import ClassificationReport
    from anaphora.evaluation.sense_similarity import SenseSimilarity
    from anaphora.explain.sense_lookup import SensesText
    from anaphora.explain.trace import Trace
    from anaphora.explain.why import WhyText
    from anaphora.models.backpack.patch import Patch
    from anaphora.models.ngram.ngram_model import NgramModel

NEW_TOKENS = 100
Progress = Callable[[int], None]


class TextModel(ScoringTextModel):
    """A language model with its tokenizer: score, evaluate, generate, stream, why, walk, info; of a masked one fill, of
    a classifier classify, of all that are neural encode and word_vectors, of a Backpack senses.

    Given one text, a str, each answers with one result; given many, with a list, in order. The methods whose names
    begin with `stream` hand out the same one by one, for more lines than fit in memory.
    """

    # -- saying --------------------------------------------------------------------------------------------------------

    @spelled_out(DecodingOptions)
    def decoding(self, **changes: Unpack[DecodingOptions]) -> DecodingConfig:
        """The folder's decoding settings with some changed."""
        return changed(DecodingConfig() if self.config is None else self.config.decoding, changes)

    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompts: str = "", *, samples: None = None, **how: Unpack[GenerateOptions]
    ) -> Generation: ...
    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompts: str = "", *, samples: int, **how: Unpack[GenerateOptions]
    ) -> list[Generation]: ...
    @overload
    def generate(self, prompts: Lines, *, samples: None = None, **how: Unpack[GenerateOptions]) -> list[Generation]: ...
    @overload
    def generate(self, prompts: Lines, *, samples: int, **how: Unpack[GenerateOptions]) -> list[list[Generation]]: ...
    @also_named(
        num_beams="beam", beam_size="beam", no_repeat_ngram_size="no_repeat_ngram", num_return_sequences="samples"
    )
    @spelled_out(TextOptions)
    @checked()
    def generate(
        self,
        prompts: str | Lines = "",
        *,
        samples: int | None = None,
        tokens: int | None = None,
        max_new_tokens: int | None = None,
        lines: int | None = None,
        greedy: bool = False,
        beam: int | None = None,
        draft: TextModel | Literal["prompt"] | None = None,
        draft_tokens: int | None = None,
        progress: Progress | None = None,
        **decoding: Unpack[TextOptions],
    ) -> Generation | list[Generation] | list[list[Generation]]:
        """Go on with a prompt by at most `tokens` new tokens (100 by default; also called max_new_tokens): one
        `Generation`, a list of them for many prompts; with `samples`, a list of so many in the place of each one.

        lines: how many lines to write, the end of the prompt's own included. By default one; a model of a stream
        (data.boundaries=stream) that is given `tokens` alone goes on past line ends, to that many tokens. A model of
        separate lines begins each further line anew, with as many tokens.

        Tokens are drawn at random (temperature, top_k, top_p, min_p; the same seed gives the same texts, in any batch),
        unless `greedy` takes the likeliest at each step or `beam` looks for the likeliest text. `decoding`: those, and
        repetition_penalty, stop (texts that end it), unknown, min_length, no_repeat_ngram, for a beam length_penalty.
        An empty prompt is the beginning of a line, and what follows it is no blank line, unless min_length=0 says that
        it may be.

        draft: another model over the same vocabulary (an n-gram), or "prompt", that guesses up to draft_tokens ahead,
        so that this one need only check: quicker, one text at a time, and the distribution stays what it is.
        """
        from anaphora.decoding.continuing import continue_texts, guessing
        from anaphora.decoding.extent import Extent

        model, config = self._needs("generate"), self._saying(greedy, beam, decoding)
        tokens = _by_either_name(tokens, max_new_tokens)
        found = continue_texts(
            model,
            self.tokenizer,
            [self._prompt(prompt) for prompt in lines_of(prompts, "prompts")],
            config,
            tokens=NEW_TOKENS if tokens is None else tokens,
            samples=1 if samples is None else samples,
            extent=Extent.asked(lines, tokens, stream=self.boundaries == "stream"),
            blank=decoding.get("min_length") is not None,
            ahead=guessing(self._drafting(draft, config), draft_tokens),
            progress=progress,
        )
        each = found if samples is not None else [texts[0] for texts in found]
        return each[0] if isinstance(prompts, str) else each

    @also_named(no_repeat_ngram_size=GENERATE_NAMES["no_repeat_ngram_size"])
    @spelled_out(TextOptions)
    @checked(place=0)
    def stream(
        self,
        prompt: str = "",
        *,
        tokens: int | None = None,
        max_new_tokens: int | None = None,
        lines: int | None = None,
        greedy: bool = False,
        draft: TextModel | Literal["prompt"] | None = None,
        draft_tokens: int | None = None,
        place: int = 0,
        **decoding: Unpack[TextOptions],
    ) -> GenerationStream:
        """`generate` for one text while it is generated: an iterator over pieces of text, each yielded as soon as
        nothing that follows can change it. Together they are the continuation that `generate` gives with the same
        settings; `.generation` is the rest of it, once the stream has come to its end. place: the prompt's among
        several that `generate` is asked for, each of which has its own noise."""
        from anaphora.decoding.continuing import guessing, stream_continue
        from anaphora.decoding.extent import Extent

        model, config = self._needs("generate"), self._saying(greedy, None, decoding)
        tokens = _by_either_name(tokens, max_new_tokens)
        return stream_continue(
            model,
            self.tokenizer,
            self._prompt(one_text(prompt, "prompt")),
            config,
            tokens=NEW_TOKENS if tokens is None else tokens,
            extent=Extent.asked(lines, tokens, stream=self.boundaries == "stream"),
            blank=decoding.get("min_length") is not None,
            ahead=guessing(self._drafting(draft, config), draft_tokens),
            place=place,
        )

    def _saying(self, greedy: bool, beam: int | None, decoding: TextOptions) -> DecodingConfig:
        """Settings for going on with a text, those checked that were given; `tokens` is the limit."""
        own = DecodingConfig() if self.config is None else self.config.decoding
        config = changed(own, generation_changes(greedy, beam, decoding, beside=known_names(type(self).generate)))
        return dataclasses.replace(config, max_length=None)

    def _drafting(self, draft: TextModel | Literal["prompt"] | None, config: DecodingConfig) -> Draft | None:
        if draft is None:
            return None
        from anaphora.decoding.drafts import PromptDraft, draft_of

        if draft == "prompt":
            return PromptDraft()
        draft._needs("generate")
        if draft.tokenizer.vocabulary_fingerprint() != self.tokenizer.vocabulary_fingerprint():
            raise UserError(
                "the draft has another vocabulary than the model",
                file=draft.folder,
                cure=f"train it on the same text with {' '.join(self.vocabulary_settings())}".rstrip(),
            )
        return draft_of(draft.model, config)

    # -- filling in, vectors, labels -----------------------------------------------------------------------------------

    @overload
    def fill(  # type: ignore[overload-overlap]
        self, lines: str, *, top: int = 5, unknown: bool = False
    ) -> Filled: ...
    @overload
    def fill(self, lines: Lines, *, top: int = 5, unknown: bool = False) -> list[Filled]: ...
    @checked()
    def fill(self, lines: str | Lines, *, top: int = 5, unknown: bool = False) -> Filled | list[Filled]:
        """What may stand in the blanks (three underscores or more) of a text: the `top` likeliest tokens of each; a
        list for many lines."""
        from anaphora.decoding.hidden_words import fill_lines

        model, texts = self._needs("fill"), [plain(line) for line in lines_of(lines)]
        found = fill_lines(model, self.tokenizer, texts, top=top, unknown=unknown)
        return found[0] if isinstance(lines, str) else found

    @checked()
    def encode(self, lines: str | Lines, *, pool: Pool = "mean", layer: int | None = None) -> NDArray[np.float32]:
        """The vector of a text (dim,), or those of many lines (lines, dim). pool: mean, max, last, or first; layer: the
        last by default, 0 is the embedding."""
        from anaphora.decoding.text_vectors import sentence_vectors

        found = list(sentence_vectors(self._needs("encode"), self.tokenizer, lines_of(lines), pool=pool, layer=layer))
        if isinstance(lines, str):
            return found[0]
        return np.stack(found) if found else np.zeros((0, 0), np.float32)

    @overload
    def word_vectors(  # type: ignore[overload-overlap]
        self, lines: str, *, layer: int | None = None, split: Split = "punctuation"
    ) -> WordVectors: ...
    @overload
    def word_vectors(
        self, lines: Lines, *, layer: int | None = None, split: Split = "punctuation"
    ) -> list[WordVectors]: ...
    @checked()
    def word_vectors(
        self, lines: str | Lines, *, layer: int | None = None, split: Split = "punctuation"
    ) -> WordVectors | list[WordVectors]:
        """A vector for each word as it stands in its text: one `WordVectors`, or a list of them for many lines."""
        found = self.stream_word_vectors(lines, layer=layer, split=split)
        return next(found) if isinstance(lines, str) else list(found)

    @checked()
    def stream_word_vectors(
        self, lines: str | Lines, *, layer: int | None = None, split: Split = "punctuation"
    ) -> Iterator[WordVectors]:
        """`word_vectors` for more lines than fit in memory: an iterator, in order."""
        from anaphora.decoding.text_vectors import word_vectors

        return word_vectors(self._needs("encode"), self.tokenizer, lines_of(lines), layer=layer, split=split)

    @overload
    def classify(self, lines: str) -> Classified: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, lines: Lines) -> list[Classified]: ...
    def classify(self, lines: str | Lines) -> Classified | list[Classified]:
        """The label of a text, and how probable every label is: one `Classified`, or a list of them for many lines."""
        found = self.stream_classify(lines)
        return next(found) if isinstance(lines, str) else list(found)

    @checked(window=1)
    def stream_classify(self, lines: str | Lines, *, window: int | None = None) -> Iterator[Classified]:
        """`classify` for more lines than fit in memory: an iterator, in order.

        window: lines read ahead; 1 answers each line before the next is read.
        """
        from anaphora.decoding.classes import WINDOW_LINES, classify_lines

        return classify_lines(self._needs("classify"), self.tokenizer, lines_of(lines), window=window or WINDOW_LINES)

    @checked()
    def evaluate_labels(self, lines: Lines, labels: Lines, *, progress: Progress | None = None) -> ClassificationReport:
        """How a classifier's answers compare with the correct labels: accuracy beside that of the commonest label,
        macro F1, precision, recall and F1 of each class, the confusion matrix."""
        from anaphora.evaluation.class_scores import report_of

        correct = [label.strip() for label in many_lines(labels, "labels")]  # as training reads them
        answers: list[str] = []
        for found in self.stream_classify(many_lines(lines)):
            answers.append(found.label)
            if progress is not None:
                progress(1)
        if len(answers) != len(correct):
            raise UserError(f"there are {len(correct):,} labels for {len(answers):,} lines", cure="give one per line")
        if not correct:
            raise UserError("there are no lines to evaluate", cure="give a text with at least one line")
        return report_of(correct, answers, list(getattr(self.model, "labels", ())))

    # -- changing ------------------------------------------------------------------------------------------------------

    def patched(self, patches: Patch | str | Path | Sequence[Patch | str | Path]) -> TextModel:
        """This model with the senses of its words changed as patches say (`anaphora patch`), in their order. It shares
        its weights with this one, which stays what it is."""
        from anaphora.models.backpack.patch import Patch, several_patches
        from anaphora.models.backpack.patched import patched

        model = self._needs("senses")
        patches = several_patches(patches)
        read = [one if isinstance(one, Patch) else Patch.read(one) for one in patches]
        other = copy.copy(self)
        files = [None if isinstance(one, Patch) else one for one in patches]
        other.model = patched(model, self.tokenizer, read, files=files)
        other.patches = (*self.patches, *("a patch" if file is None else str(file) for file in files))
        return other

    @checked()
    def make_sense_table(self, *, exact: bool = False) -> Path:
        """Write the senses of every token of a Backpack beside its weights, where whoever opens it looks them up; in
        half precision, or `exact`, as they are computed."""
        import torch

        from anaphora.models.backpack.sense_table import SenseTable

        model = self._needs("senses")
        table = SenseTable.build(model, torch.float32 if exact else torch.bfloat16)
        model.attach(table)
        return table.save(self.folder)

    # -- looking -------------------------------------------------------------------------------------------------------

    @also_named(word="words")
    @checked()
    def why(self, prefix: str = "", *, top: int = 10, words: str | Sequence[str] = ()) -> WhyText:
        """Where the probability of the likeliest next words comes from, and of `words` beside them."""
        from anaphora.explain.why import explain_text

        parts = [] if self.config is None else getattr(self.config.model, "parts", [])
        text, ids = self._prompt(one_text(prefix, "prefix"))
        return explain_text(
            self.model,
            self.tokenizer,
            text,
            ids=ids,
            top=top,
            words=words_of(words),
            discounts=_discounts(self.folder),
            part_discounts=[_discounts(self.folder / name) for name in parts],
            patches=[Path(file).name for file in self.patches],
        )

    @checked(layer=0, head=0)
    def walk(
        self,
        text: str,
        *,
        part: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        query: str | None = None,
    ) -> Trace:
        """One head of one attention, or one sense of a Backpack (part `senses`, the head being its number), step by
        step, while the model reads a text: `trace.walks[0]` has the steps and checks. See docs/walk.md."""
        from anaphora.explain.walk_language import walk_language
        from anaphora.explain.walk_model import Asked

        model, prompt = self._needs("walk"), self._prompt(one_text(text))
        trace = walk_language(model, self.tokenizer, prompt.text, prompt.ids, Asked(part, layer, head, query))
        trace.model = {"name": self.folder.resolve().name, "revision": revision(self.folder), **(trace.model or {})}
        if self.patches:
            trace.model["patches"] = list(self.patches)
            trace.walks[0].title += f", with {' and '.join(Path(file).name for file in self.patches)}"
        return trace

    @checked(nearest=0)
    def senses(
        self,
        words: str | Sequence[str],
        *,
        top: int = 10,
        nearest: int = 0,
        text: str | Lines | None = None,
        examples: int = 2,
    ) -> SensesText:
        """Of a Backpack: what each sense of some words says, the `top` words that it raises and lowers most.

        nearest: so many senses of other words that are most like it, of the whole vocabulary. text: lines in which the
        words are looked for: how much each sense is used, and the lines that use it most, so many `examples`.
        """
        from anaphora.explain.sense_lookup import chief_tokens, look_up_senses
        from anaphora.explain.sense_uses import read_uses

        model = self._needs("senses")
        words = words_of(words)
        known = chief_tokens(self.tokenizer, words)
        uses = None
        if text is not None:
            lines = (plain(line) for line in lines_of(text))
            spellings = [spelling for one in known for spelling in one.spellings]
            uses = read_uses(model, self.tokenizer, lines, spellings)
        how: dict[str, Any] = {"patches": [Path(file).name for file in self.patches], "examples": examples}
        return look_up_senses(model, self.tokenizer, words, top=top, nearest=nearest, uses=uses, **how)

    @checked()
    def evaluate_similarity(self, path: str | PathLike[str]) -> SenseSimilarity:
        """Spearman's correlation with people's numbers, a file of two words and a number a line: of each sense of a
        Backpack and of the least over senses; any other neural model has one vector a word, its embedding's."""
        from anaphora.evaluation.sense_similarity import similarity_by_sense
        from anaphora.evaluation.vector_benchmarks import read_similarities
        from anaphora.models.backpack.sense_vectors import word_sense_vectors

        model, pairs = self._needs("encode"), read_similarities(path_of(path, "path"))
        vectors = word_sense_vectors(model, self.tokenizer, (word for pair in pairs for word in pair[:2]))
        return similarity_by_sense(vectors, pairs, senses=getattr(model, "senses_count", 1))

    @checked()
    def save_arpa(self, path: str | Path, *, force: bool = False) -> dict[str, str]:
        """Write the model as an ARPA file (.gz: packed). Returns the tokens that had to be renamed, and how.

        force: over a file that exists.
        """
        from anaphora.models.ngram.arpa import arpa_words, write_arpa
        from anaphora.models.registry import system

        if "arpa" not in system(self.kind).formats:
            raise UserError(
                "only an n-gram model can be written as an ARPA file", file=self.folder, cure="give the folder of one"
            )
        path = path_of(path, "path")
        check_new_file(path, force=force)
        names, renamed = arpa_words([self.tokenizer.token(id) for id in range(self.tokenizer.vocabulary_size)])
        write_arpa(path, cast("NgramModel", self.model), names)
        return renamed


def _by_either_name(tokens: int | None, max_new_tokens: int | None) -> int | None:
    if tokens is not None and max_new_tokens is not None:
        raise UserError("max_new_tokens is another name for tokens, and both are given", cure="leave one out")
    return max_new_tokens if tokens is None else tokens


def _discounts(folder: Path) -> list[list[float]]:
    """Those that a model was estimated with, by order, where its folder tells."""
    found = read_metrics(folder).get("discounts") if folder.is_dir() else None
    return found if isinstance(found, list) else []
