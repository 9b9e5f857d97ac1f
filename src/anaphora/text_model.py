"""A language model in memory: raw text in, probabilities and text out.

    model = anaphora.load("runs/plays")            # a folder that `anaphora train --text` wrote, or an ARPA file
    model.log_probabilities(["To be, or not to be"])
    model.evaluate(open("test.txt"))
    print(model.generate("Enter the", samples=3, seed=7)[0][0].text)

All of it goes through the LanguageModel contract, so that counting models and neural ones answer alike. Torch is loaded
only by a model that needs it, and by `generate`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anaphora.config import build as build_settings
from anaphora.decoding.language import (
    WINDOW,
    BlankLines,
    Boundaries,
    Encoder,
    ScoredLine,
    TextEvaluation,
    evaluate_lines,
    is_blank,
    line_encoder,
    plain,
    score_ids,
    score_lines,
    sums,
)
from anaphora.decoding.settings import DecodingConfig
from anaphora.errors import UserError, nearest
from anaphora.folder import CONFIG, WEIGHTS, check_new_file, read_config, read_metrics
from anaphora.models import LANGUAGE_MODELS, read_language_model
from anaphora.text.tokenizer import SPECIALS, Tokenizer
from anaphora.text.vocabulary_file import UNKNOWN
from anaphora.text.word_tokenizer import open_tokenizer
from anaphora.training.recipes import RunConfig

if TYPE_CHECKING:
    from anaphora.decoding.generation import Generation
    from anaphora.inspect.why import WhyText
    from anaphora.models.contracts import LanguageModel

ARPA = (".arpa", ".arpa.gz", ".arpa.xz", ".arpa.zst")
"""How the names of files end that may stand in the place of a model folder."""
NEW_TOKENS = 100
LONGEST_NAME = 4096
"""Characters of a path."""
SAID = ("min_length", "no_repeat_ngram", "length_penalty")
"""Settings of section `decoding` that `generate` takes beside those that it names."""
Progress = Callable[[int], None]


def is_arpa(path: Path) -> bool:
    """Whether a path names an ARPA file, rather than a model folder."""
    return path.name.lower().endswith(ARPA) and not path.is_dir()


class TextModel:
    """A language model with its tokeniser: score, evaluate, generate, why, info."""

    def __init__(self, folder: Path, *, verify: bool = True) -> None:
        """Open a model folder, or an ARPA file. `verify=False` leaves out the checksum of the numbers."""
        self.folder = folder
        self.notes: list[str] = []
        """What had to be taken otherwise than the file says."""
        self.config: RunConfig | None = None
        self.boundaries: Boundaries = "lines"
        self.blank_lines: BlankLines = "keep"
        if is_arpa(folder):
            from anaphora.models.ngram.arpa import read_arpa

            arpa = read_arpa(folder)
            self.model: LanguageModel = arpa.model
            self.tokenizer = Tokenizer.of_words(arpa.words[len(SPECIALS) :], unknown=UNKNOWN)
            self.notes = list(arpa.notes)
            return
        self.config = config = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
        if config.model.kind not in LANGUAGE_MODELS:
            raise UserError(
                f"is a translator ({config.model.kind}), and this needs a language model",
                file=folder,
                cure="give a folder made by `anaphora train --text`, or an ARPA file",
            )
        self.boundaries, self.blank_lines = config.data.boundaries, config.data.blank_lines
        self.tokenizer = open_tokenizer(folder / "tokenizer.json")
        self.model = read_language_model(config.model, folder, verify=verify)
        metrics = read_metrics(folder)
        self.notes = [str(note) for note in metrics.get("notes") or []]
        learned = metrics.get("vocabularies")
        named = learned.get("text", "") if isinstance(learned, dict) else ""
        if self.tokenizer.vocabulary_size != self.model.vocabulary or named not in (
            "",
            self.tokenizer.vocabulary_fingerprint(),
        ):
            raise UserError(
                "this is not the tokeniser that the model was made with: its vocabulary is another one",
                file=folder / "tokenizer.json",
                cure="use the files of one and the same model",
            )

    def __repr__(self) -> str:
        kind = "ngram" if self.config is None else self.config.model.kind
        return f"<TextModel {str(self.folder)!r}: {kind}, {self.model.vocabulary:,} tokens>"

    @cached_property
    def encode(self) -> Encoder:
        """Lines -> their ids one after the other, each line w … ⟨/s⟩, and where each begins."""
        return line_encoder(self.tokenizer)

    # -- scoring -------------------------------------------------------------------------------------------------------

    def score(
        self, lines: str | Iterable[str], *, progress: Progress | None = None, window: int = WINDOW
    ) -> Iterator[ScoredLine]:
        """How probable the model finds each line, token by token: one object a line, lazily, in order.

        window: lines read ahead; 1 answers each line before the next is read.
        """
        return score_lines(
            self.model,
            self.tokenizer,
            self.encode,
            _lines(lines),
            boundaries=self.boundaries,
            blank_lines=self.blank_lines,
            progress=progress,
            window=window,
        )

    def log_probabilities(self, lines: str | Iterable[str]) -> NDArray[np.float64]:
        """log P of each line (n,), natural, its end mark included: the quickest way from raw text to scores."""
        lines = list(_lines(lines))
        if self.blank_lines == "drop" and any(map(is_blank, lines)):
            found = np.zeros(len(lines))
            kept = [place for place, line in enumerate(lines) if not is_blank(line)]
            found[kept] = self.log_probabilities([lines[place] for place in kept])
            return found
        ids, starts = self.encode(lines)
        if self.boundaries == "lines" and self.model.max_length is None:
            return sums(self.model.score_flat(ids, starts), starts)
        return sums(score_ids(self.model, ids, starts, self.boundaries)[0], starts)

    def score_ids(
        self, rows: Sequence[Sequence[int]] | NDArray[Any], starts: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """log P of each row of ids (n,), natural. A row is w … ⟨/s⟩, without ⟨s⟩, and a text of its own.

        Rows, or all ids in one array with `starts` (n + 1,), row i being ids[starts[i] : starts[i + 1]]. `encode` makes
        both of lines. Nothing is added: a row without ⟨/s⟩ at its end is a beginning, and no row goes on where another
        ended, whatever the model's boundaries.
        """
        if starts is None:
            if any(np.ndim(row) != 1 for row in rows):
                raise UserError("rows of ids are wanted", cure="give a list of rows, or one array with its starts")
            lists = [np.asarray(row) if len(row) else np.zeros(0, np.uint32) for row in rows]
            starts = np.zeros(len(lists) + 1, np.int64)
            np.cumsum([len(row) for row in lists], out=starts[1:])
            flat = np.concatenate(lists) if lists else np.zeros(0, np.uint32)
        else:
            flat, starts = np.asarray(rows), np.asarray(starts, np.int64)
            if not len(starts) or starts[0] != 0 or starts[-1] != len(flat) or (np.diff(starts) < 0).any():
                raise UserError("starts must go from 0 to the number of ids, and never back")
        if len(flat) and flat.dtype.kind not in "iuO":
            raise UserError(f"ids are whole numbers, not {flat.dtype}", cure="give those that `encode` makes")
        scores = score_ids(self.model, flat, starts)[0]
        if (starts[1:] > starts[:-1]).all():
            return sums(scores, starts)
        whole = np.concatenate([[0.0], np.cumsum(scores, dtype=np.float64)])
        return whole[starts[1:]] - whole[starts[:-1]]  # an empty row has none to sum

    def evaluate(self, lines: str | Iterable[str], *, progress: Progress | None = None) -> TextEvaluation:
        """Perplexity and bits per byte over a whole text, with its tokens, unknown ones and bytes."""
        return evaluate_lines(
            self.model,
            self.encode,
            _lines(lines),
            boundaries=self.boundaries,
            blank_lines=self.blank_lines,
            progress=progress,
        )

    # -- saying --------------------------------------------------------------------------------------------------------

    def decoding(self, **changes: Any) -> DecodingConfig:
        """The folder's decoding settings with some changed."""
        own = dataclasses.asdict(DecodingConfig() if self.config is None else self.config.decoding)
        said = {key: value for key, value in changes.items() if value is not None}
        return build_settings(DecodingConfig, {**own, **said}, section="decoding")

    def generate(
        self,
        prompts: str | Iterable[str] = "",
        *,
        samples: int = 1,
        tokens: int = NEW_TOKENS,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        greedy: bool = False,
        beam: int | None = None,
        unknown: bool | None = None,
        progress: Progress | None = None,
        **decoding: Any,
    ) -> list[list[Generation]]:
        """Go on with each prompt, at most `tokens` new tokens: `samples` texts of each.

        Tokens are drawn at random (temperature, top_k, top_p; the same seed gives the same texts, in any batch), unless
        `greedy` takes the likeliest at each step or `beam` looks for the likeliest text. `decoding`: min_length,
        no_repeat_ngram, and for a beam length_penalty. An empty prompt is the beginning of a line, and what follows it
        is no blank line, unless min_length=0 says that it may be.
        """
        from anaphora.decoding.generation import generate, spoken

        for name in decoding:
            if name not in SAID:
                raise UserError(f"decoding.{name} means nothing for going on with a text", cure=nearest(name, SAID))
        if temperature == 0:
            raise UserError("temperature must be above 0", cure="--greedy (greedy=True) takes the likeliest token")
        if greedy and beam is not None and str(beam) != "1":
            raise UserError("greedy is a beam of 1, and a wider one is asked for", cure="choose one of the two")
        sample = not greedy and beam is None
        drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        if not sample and (said := [name for name, value in drawing.items() if value is not None]):
            raise UserError(f"{said[0]} is about drawing at random, and nothing is drawn", cure="leave it out, or draw")
        if "length_penalty" in decoding and (sample or greedy):
            raise UserError("length_penalty is about a beam, and there is none", cure="leave it out, or set beam")
        config = self.decoding(
            sample=sample, beam=1 if sample or greedy else beam, n_best=1, unknown=unknown, **drawing, **decoding
        )
        config = dataclasses.replace(config, max_length=None)  # `tokens` is the limit
        asked = [self._plain(prompt) for prompt in ([prompts] if isinstance(prompts, str) else prompts)]
        ids = [self._prompt(prompt) for prompt in asked]
        blank = "min_length" in decoding
        found = generate(self.model, ids, config, tokens=tokens, samples=samples, blank=blank, progress=progress)
        return [
            [spoken(prompt, own, said, self.tokenizer) for said in hypotheses]
            for prompt, own, hypotheses in zip(asked, ids, found)
        ]

    def _plain(self, prompt: str) -> str:
        """A prompt is one line; before a model that reads on across line ends, it may be several."""
        return plain(prompt) if self.boundaries == "lines" else "\n".join(map(plain, prompt.split("\n")))

    def _prompt(self, text: str) -> list[int]:
        """A prompt's ids: its last line has not ended."""
        return self.encode(text.split("\n"))[0].tolist()[:-1]

    # -- looking -------------------------------------------------------------------------------------------------------

    def why(self, prefix: str = "", *, top: int = 10, words: Sequence[str] = ()) -> WhyText:
        """Where the probability of the likeliest next words comes from, and of `words` beside them."""
        from anaphora.inspect.why import explain_text

        parts = [] if self.config is None else getattr(self.config.model, "parts", [])
        prefix = self._plain(prefix)
        return explain_text(
            self.model,
            self.tokenizer,
            prefix,
            ids=self._prompt(prefix),
            top=top,
            words=words,
            discounts=_discounts(self.folder),
            part_discounts=[_discounts(self.folder / name) for name in parts],
        )

    def info(self) -> dict[str, Any]:
        """What this model is, what it was made of, how good it was found."""
        metrics = {} if self.config is None else read_metrics(self.folder)
        kind = "ngram" if self.config is None else self.config.model.kind
        return {
            "folder": str(self.folder),
            "recipe": None if self.config is None else self.config.recipe,
            "kind": kind,
            "parameters": self.model.parameter_count(),
            "vocabulary": self.model.vocabulary,
            "tokenizer": {"kind": self.tokenizer.kind, "split": self.tokenizer.split, "unknown": self._unknown()},
            "boundaries": self.boundaries,
            "blank_lines": self.blank_lines,
            "normalised": _normalised(self.model),
            "capabilities": sorted(self.model.capabilities),
            "flops_per_token": self.model.flops(1, 1.0),
            "cache_bytes_per_token": self.model.cache_bytes_per_token(),
            "bytes_on_disk": sum(file.stat().st_size for file in self._files()),
            **_shape(self.model),
            "notes": self.notes,
            "settings": None if self.config is None else self.config.document(),
            "metrics": {key: value for key, value in metrics.items() if key != "history"},
        }

    def _unknown(self) -> str:
        """What becomes of a word that the vocabulary does not have."""
        return "one unknown token, ⟨unk⟩" if self.tokenizer.has_unknown else "spelled in bytes"

    def _files(self) -> list[Path]:
        if is_arpa(self.folder):
            return [self.folder]
        return sorted(file for file in self.folder.rglob(WEIGHTS) if file.is_file())

    def save_arpa(self, path: str | Path, *, force: bool = False) -> dict[str, str]:
        """Write the model as an ARPA file (.gz: packed). Returns the tokens that had to be renamed, and how.

        force: over a file that exists.
        """
        from anaphora.models.ngram.arpa import arpa_words, write_arpa
        from anaphora.models.ngram.model import NgramModel

        if not isinstance(self.model, NgramModel):
            raise UserError(
                "only an n-gram model can be written as an ARPA file", file=self.folder, cure="give the folder of one"
            )
        check_new_file(Path(path), force=force)
        names, renamed = arpa_words([self.tokenizer.token(id) for id in range(self.tokenizer.vocabulary_size)])
        write_arpa(path, self.model, names)
        return renamed


def _lines(lines: str | Iterable[str]) -> Iterable[str]:
    """One line, or many: a string is not a list of letters, and the name of a file is not its text."""
    if isinstance(lines, bytes | PathLike):
        raise UserError(f"lines of text are wanted, not {lines!r}", cure="give open(file, encoding='utf-8'), or str")
    if not isinstance(lines, str):
        return lines
    with suppress(OSError, ValueError):  # too long for a name, say
        if len(lines) < LONGEST_NAME and Path(lines).is_file():
            raise UserError(
                f"{lines!r} is a file, and lines of text are wanted",
                cure=f"give open({lines!r}, encoding='utf-8'), or [{lines!r}] if these very words are meant",
            )
    return [lines]


def _normalised(model: LanguageModel) -> bool | None:
    """Whether probabilities sum to one; nothing, where numbers were taken from a file as they are."""
    if "normalised" in model.capabilities:
        return True
    parts = [_normalised(part) for part in getattr(model, "parts", ())]
    given = getattr(getattr(model, "config", None), "smoothing", None) == "given"
    return None if given or (parts and False not in parts) else False


def _shape(model: LanguageModel) -> dict[str, Any]:
    """What there is to say of a kind of model."""
    from anaphora.models.mixture import Mixture
    from anaphora.models.ngram.model import NgramModel

    if isinstance(model, NgramModel):
        settings = {"k": model.config.k} if model.config.smoothing == "add-k" else {}
        settings |= {"backoff": model.config.backoff} if model.config.smoothing == "stupid-backoff" else {}
        shape = {"order": model.order, "ngrams": model.ngrams(), "smoothing": model.config.smoothing}
        return {**shape, "prune": list(model.config.prune), **settings}
    if isinstance(model, Mixture):
        parts = zip(model.names, model.weights, model.parts)
        return {"parts": [{"name": name, "weight": weight, **_shape(part)} for name, weight, part in parts]}
    return {}


def _discounts(folder: Path) -> list[list[float]]:
    """Those that a model was estimated with, by order, where its folder tells."""
    found = read_metrics(folder).get("discounts") if folder.is_dir() else None
    return found if isinstance(found, list) else []
