"""Guided alignment: one attention head learns where IBM-1 would look, beside learning to translate.

Attention is free to look where it likes, and what helps to translate is not always the word that is translated. Garg et
al. (2019) let one head of the last but one decoder layer learn alignments too:

    loss = translation loss + weight · Σ_t Σ_s lesson(t, s) · -log attention(t, s)

over words: the pieces of a source word are summed, as when alignments are read (alignment/model_alignment.py), and row
t is the step that predicts word t. The lessons come from the training text itself (alignment/agreement.py): two IBM-1
models, and a word about which they disagree teaches less. All other heads and layers stay free, and nothing is added
to the model.

Lessons are about words, so they fit whatever subwords a batch was cut into. They are a pure function of the corpus: a
run that continues learns them again and goes on exactly as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from anaphora.alignment.agreement import Agreement
from anaphora.alignment.alignment_method import corpus_pairs, fit_teacher
from anaphora.alignment.model_alignment import cross_attentions, no_weights
from anaphora.data.batches import Batch
from anaphora.data.corpus import Corpus
from anaphora.errors import UserError
from anaphora.models.contracts import Translator
from anaphora.nn.attention import MultiHeadAttention
from anaphora.tokenizers.tokenizer import UNK, Tokenizer
from anaphora.tokenizers.words import TokenWords, split_words
from anaphora.training.objectives.objective import Forward, StatelessObjective, TranslationBatch, TranslationObjective

TEACHER_PAIRS = 200_000
"""Pairs that IBM-1 learns from, spread evenly over the corpus: about half a minute."""
MAX_CACHED_ROWS = 300_000
"""Rows whose lessons are kept in memory: about 2 kB each."""


@dataclass
class Lesson:
    """What is known of one row of the corpus."""

    source: np.ndarray  # (S,) bytes of each source word
    target: np.ndarray  # (T,)
    looks: np.ndarray  # (T, S): where each target word should look; its sum says how sure that is


class Guide:
    """Lessons for the rows of a corpus, as arrays that fit a batch."""

    def __init__(
        self, corpus: Corpus, tokenizers: Sequence[Tokenizer], say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.corpus, self.say = corpus, say
        self.spelled = {side: TokenWords(tokenizer) for side, tokenizer in zip(("source", "target"), tokenizers)}
        self._known: dict[int, Lesson] = {}

    @cached_property
    def teacher(self) -> Agreement:
        """Learned when it is first needed: a run that is over needs none."""
        pairs = corpus_pairs(self.corpus, TEACHER_PAIRS)
        self.say(f"guided alignment: training IBM-1 on {len(pairs):,} pairs, in both directions …")
        return fit_teacher(pairs)

    def lessons(self, rows: np.ndarray) -> list[Lesson]:
        """Of these rows; made once, then remembered."""
        new = [row for row in rows.tolist() if row not in self._known]
        made = dict(zip(new, map(self._make, *(self.corpus.texts(side, new) for side in self.spelled))))
        if len(self._known) < MAX_CACHED_ROWS:
            self._known |= made
        return [made[row] if row in made else self._known[row] for row in rows.tolist()]

    def _make(self, source_text: str, target_text: str) -> Lesson:
        source, target = ([word.text for word in split_words(text)] for text in (source_text, target_text))
        read, said = (np.array([len(word.encode()) for word in words], dtype=np.int64) for words in (source, target))
        return Lesson(read, said, self.teacher.lesson(source, target))

    def __call__(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Source tokens to words (B, S, W), and for each label where it should look (B, T, W)."""
        lessons = self.lessons(batch.rows)
        spelled = self.spelling(batch, "source", [lesson.source for lesson in lessons])  # (B, S, W)
        said = self.spelling(batch, "target", [lesson.target for lesson in lessons])  # (B, T, target words)
        looks = np.zeros((len(spelled), said.shape[2], spelled.shape[2]), dtype=np.float32)
        for place, lesson in enumerate(lessons):
            looks[place, : lesson.looks.shape[0], : lesson.looks.shape[1]] = lesson.looks
        return spelled, said @ looks

    def spelling(self, batch: Batch, side: str, words: list[np.ndarray]) -> np.ndarray:
        """(B, tokens, words): 1 where a token spells a word; a token that spells two has a half at each, and white
        space and marks have nothing. All rows at once, by counting bytes as `TokenWords` does."""
        begin = int(side == "target")  # BOS; what remains of the target are its labels
        ids = batch.tokens[side][:, begin:]  # (B, L)
        lengths = batch.lengths[side] - begin - 1  # without EOS
        real = np.arange(ids.shape[1]) < lengths[:, None]
        sizes = np.where(real, self.spelled[side].sizes[ids], 0)
        ends = sizes.cumsum(axis=1)
        borders = np.full((len(ids), 1 + max([1, *map(len, words)])), np.iinfo(np.int64).max)
        borders[:, 0] = 0
        for place, of_row in enumerate(words):
            borders[place, 1 : 1 + len(of_row)] = of_row.cumsum()
        first = (borders[:, None, 1:] <= (ends - sizes)[:, :, None]).sum(axis=2)  # words that ended before the token
        stop = (borders[:, None, :-1] < ends[:, :, None]).sum(axis=2)  # words that began before its end
        stop = np.where(sizes > 0, stop, first)
        for place in range(len(words)):  # where bytes were lost, slowly
            if ends[place, -1] != words[place].sum() or (ids[place, : lengths[place]] == UNK).any():
                text = self.corpus.text(side, int(batch.rows[place]))
                spans = self.spelled[side](ids[place, : lengths[place]], split_words(text), text)
                first[place], stop[place] = 0, 0
                first[place, : len(spans)], stop[place, : len(spans)] = spans.T
        word = np.arange(borders.shape[1] - 1)
        covers = (word >= first[:, :, None]) & (word < stop[:, :, None])
        return (covers / np.maximum(covers.sum(axis=2, keepdims=True), 1)).astype(np.float32)


@dataclass
class GuidedBatch:
    """A batch on the device, with its lessons."""

    translation: TranslationBatch
    words: Tensor  # (B, S, W)
    looks: Tensor  # (B, T, W)

    @property
    def tokens(self) -> int:
        return self.translation.tokens


class HeadHook:
    """Keeps the weights of one head of the forward pass that is under way, within the graph."""

    def __init__(self, head: int) -> None:
        self.head = head
        self.on = False
        self.weights: Tensor | None = None  # (B, T, S)

    def is_active(self) -> bool:
        return self.on

    def record(self, weights: Tensor, dropped: Tensor, value: Tensor, context: Tensor) -> None:
        self.weights = weights[:, self.head]


class GuidedObjective(StatelessObjective):
    """A translation objective plus the lessons of one head."""

    side = "target"

    def __init__(
        self,
        inner: TranslationObjective,
        model: Translator,
        guide: Guide,
        *,
        weight: float,
        layer: int | None = None,
        head: int = 0,
    ) -> None:
        self.inner, self.guide, self.weight = inner, guide, weight
        self.hook = HeadHook(head)
        attention = guided_layer(model, layer, head)
        attention.hooks = (*attention.hooks, self.hook)

    def send(self, batch: Batch, device: torch.device) -> GuidedBatch:
        words, looks = (torch.from_numpy(array).to(device, non_blocking=True) for array in self.guide(batch))
        return GuidedBatch(self.inner.send(batch, device), words, looks)

    def __call__(self, forward: Forward, batch: GuidedBatch) -> Tensor:
        self.hook.on = True
        try:
            loss = self.inner(forward, batch.translation)
            weights = self.hook.weights
        finally:
            self.hook.on, self.hook.weights = False, None
        assert weights is not None, "the guided layer was not asked"
        return loss + self.weight * guided_loss(weights, batch.words, batch.looks)

    def flops(self, model: Translator, batch: GuidedBatch) -> float:
        return self.inner.flops(model, batch.translation)


def guided_loss(weights: Tensor, words: Tensor, looks: Tensor) -> Tensor:
    """Cross-entropy of a head with its lessons, summed over target tokens.

    weights (B, T, S) or, read twice under two draws of dropout, (2B, T, S): then the mean of the two; words (B, S, W),
    looks (B, T, W).
    """
    times = weights.shape[0] // looks.shape[0]
    looked = weights.float() @ words.repeat(times, 1, 1)  # (B, T, W): pieces of a source word are summed
    return -(looks.repeat(times, 1, 1) * looked.clamp(min=1e-6).log()).sum() / times


def guided_layer(model: Translator, layer: int | None, head: int) -> MultiHeadAttention:
    """The attention that learns: the last decoder layer but one unless said."""
    if why := no_weights(model):
        raise UserError(f"there is no attention to guide: {why}", cure="set training.guided_alignment=0")
    paths = cross_attentions(model)
    layer = max(len(paths) - 2, 0) if layer is None else layer
    if not 0 <= layer < len(paths):
        raise UserError(
            f"training.guided_layer is {layer}, but the decoder's layers are 0 to {len(paths) - 1}",
            cure="choose one of them",
        )
    attention = model.get_submodule(paths[layer])
    assert isinstance(attention, MultiHeadAttention)
    if not 0 <= head < attention.heads:
        raise UserError(
            f"training.guided_head is {head}, but the heads are 0 to {attention.heads - 1}", cure="choose one of them"
        )
    return attention
