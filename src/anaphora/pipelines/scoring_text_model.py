"""A language model scores text: log-probabilities of lines and of ids, perplexity and bits per byte of a whole text.

What TextModel has for reading text that is there; how it goes on with one is pipelines/text_model.py's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from anaphora.arguments.checked import checked
from anaphora.arguments.given import Lines, lines_of, one_text
from anaphora.arguments.signatures import also_named
from anaphora.decoding.text_scoring import (
    WINDOW_LINES,
    ScoredLine,
    TextEvaluation,
    check_ids,
    context_of,
    evaluate_lines,
    is_blank,
    plain,
    score_ids,
    score_lines,
    sums,
)
from anaphora.errors import UserError
from anaphora.evaluation.draws import SAMPLES, SEED, Draws
from anaphora.pipelines.opened_text_model import OpenedTextModel

if TYPE_CHECKING:
    from anaphora.evaluation.significance import PairedBootstrap

Progress = Callable[[int], None]


class ScoringTextModel(OpenedTextModel):
    """A language model in memory, as far as it scores text: what TextModel is built on."""

    @overload  # to Python a str is an Iterable[str] too, here it is one text
    def score(  # type: ignore[overload-overlap]
        self, lines: str, *, stride: int | None = None, progress: Progress | None = None
    ) -> ScoredLine: ...
    @overload
    def score(
        self, lines: Lines, *, stride: int | None = None, progress: Progress | None = None
    ) -> list[ScoredLine]: ...
    @checked(stride=1)
    def score(
        self, lines: str | Lines, *, stride: int | None = None, progress: Progress | None = None
    ) -> ScoredLine | list[ScoredLine]:
        """How probable the model finds a text, token by token: one `ScoredLine`, or a list of them for many lines.

        stride: see `evaluate`.
        """
        found = self.stream_score(lines, stride=stride, progress=progress)
        return next(found) if isinstance(lines, str) else list(found)

    @checked(stride=1, window=1)
    def stream_score(
        self,
        lines: str | Lines,
        *,
        stride: int | None = None,
        progress: Progress | None = None,
        window: int = WINDOW_LINES,
    ) -> Iterator[ScoredLine]:
        """`score` for more lines than fit in memory: an iterator, in order.

        window: lines read ahead; 1 answers each line before the next is read.
        """
        model, windows = self._needs("score"), self.windows(stride=stride)
        context_of(model, **windows)  # a stride that does not fit is refused now
        return score_lines(
            model,
            self.tokenizer,
            self.line_ids,
            lines_of(lines),
            boundaries=self.boundaries,
            blank_lines=self.blank_lines,
            **windows,
            progress=progress,
            window=window,
        )

    @overload
    def log_probabilities(self, lines: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def log_probabilities(self, lines: Lines) -> NDArray[np.float64]: ...
    def log_probabilities(self, lines: str | Lines) -> float | NDArray[np.float64]:
        """log P of a text, natural, its end mark included, or of many lines (n,): the quickest way from raw text to
        scores."""
        model = self._needs("score")
        if isinstance(lines, str):
            return float(self.log_probabilities([one_text(lines)])[0])
        lines = list(lines_of(lines))
        if self.blank_lines == "drop" and any(map(is_blank, lines)):
            found = np.zeros(len(lines))
            kept = [place for place, line in enumerate(lines) if not is_blank(line)]
            found[kept] = self.log_probabilities([lines[place] for place in kept])
            return found
        ids, starts = self.line_ids(lines)
        return sums(score_ids(model, ids, starts, self.boundaries, **self.windows())[0], starts)

    def score_ids(
        self, rows: Sequence[Sequence[int]] | NDArray[Any], starts: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """log P of each row of ids (n,), natural. A row is w … ⟨/s⟩, without ⟨s⟩, and a text of its own.

        Rows, as `tokenize` makes them of lines, or all ids in one array with `starts` (n + 1,), as `line_ids` does: row
        i is ids[starts[i] : starts[i + 1]]. Nothing is added: a row without ⟨/s⟩ at its end is a beginning, and no row
        goes on where another ended, whatever the model's boundaries.
        """
        if starts is None:
            if not np.iterable(rows) or any(np.ndim(row) != 1 for row in rows):
                raise UserError("rows of ids are wanted", cure="give a list of rows, or one array with its starts")
            lists = [np.asarray(row) if len(row) else np.zeros(0, np.uint32) for row in rows]
            starts = np.zeros(len(lists) + 1, np.int64)
            np.cumsum([len(row) for row in lists], out=starts[1:])
            flat = np.concatenate(lists) if lists else np.zeros(0, np.uint32)
        else:
            flat, starts = np.asarray(rows), np.asarray(starts)
            if flat.ndim != 1 or starts.ndim != 1 or starts.dtype.kind not in "iu":
                raise UserError(
                    "one array of ids and one of starts are wanted", cure="give those that `line_ids` makes"
                )
            starts = starts.astype(np.int64)
            if not len(starts) or starts[0] != 0 or starts[-1] != len(flat) or (np.diff(starts) < 0).any():
                raise UserError("starts must go from 0 to the number of ids, and never back")
        if len(flat) and flat.dtype.kind not in "iuO":
            raise UserError(f"ids are whole numbers, not {flat.dtype}", cure="give those that `tokenize` makes")
        model = self._needs("score")
        check_ids(flat, model.vocabulary)
        scores = score_ids(model, flat, starts, **self.windows())[0]
        if (starts[1:] > starts[:-1]).all():
            return sums(scores, starts)
        whole = np.concatenate([[0.0], np.cumsum(scores, dtype=np.float64)])
        return whole[starts[1:]] - whole[starts[:-1]]  # an empty row has none to sum

    @also_named(bootstrap="bootstrap_samples")
    @checked(stride=1)
    def evaluate(
        self,
        lines: str | Lines,
        *,
        stride: int | None = None,
        beside: ScoringTextModel | None = None,
        bootstrap_samples: int = SAMPLES,
        bootstrap_seed: int = SEED,
        progress: Progress | None = None,
    ) -> TextEvaluation:
        """Perplexity and bits per byte over a whole text, with its tokens, unknown ones and bytes.

        stride: of a model that can read only so many tokens, by how many the window moves over a longer text: each
        token is predicted from at least context - stride others; nothing: as it was learned, or half of the context.
        beside: another model, evaluated in the same way and compared line by line, by a paired bootstrap test.
        """
        draws = Draws(bootstrap_samples, bootstrap_seed).check()
        if beside is not None:
            texts = list(lines_of(lines))
            own = self.evaluate(texts, stride=stride, progress=progress)
            other = beside.evaluate(texts, stride=stride, progress=progress)
            return dataclasses.replace(own, significance=self._against(beside, texts, stride, draws), beside=other)
        return evaluate_lines(
            self._needs("score"),
            self.line_ids,
            lines_of(lines),
            boundaries=self.boundaries,
            blank_lines=self.blank_lines,
            **self.windows(stride=stride),
            progress=progress,
        )

    def _against(self, other: ScoringTextModel, lines: list[str], stride: int | None, draws: Draws) -> PairedBootstrap:
        """Whether this model's bits per byte are better than the other's, or only on these lines."""
        from anaphora.evaluation.bits_per_byte import text_bytes
        from anaphora.evaluation.significance import compare_texts

        masked = ["masked" in one._needs("score").capabilities for one in (self, other)]
        if masked[0] != masked[1]:
            what = "a masked model's pseudo-likelihood does not compare with a probability of a text"
            raise UserError(what, file=other.folder, cure="compare two masked models, or two that read left to right")
        found = []
        for model in (self, other):
            logs = [one.log_probability for one in model.stream_score(lines, stride=stride)]
            kept = [model.blank_lines == "keep" or not is_blank(line) for line in lines]
            size = [text_bytes([plain(line)]) if keep else 0 for line, keep in zip(lines, kept)]
            found.append((np.array(logs), np.array(size, np.float64)))
        return compare_texts(found[0], found[1], draws=draws)
