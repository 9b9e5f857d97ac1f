"""How good is it? Loss, GLEU, BLEU and chrF on text it did not learn from, and a few sentences for the eye."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from anaphora.alignment.unknown_words import UnknownWords
from anaphora.data.batches import Batches
from anaphora.data.corpus import Corpus
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.translate import translate_lines
from anaphora.evaluation.translation_metrics import bleu, chrf, gleu
from anaphora.models.contracts import Translator
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.training.objectives.objective import TranslationObjective
from anaphora.training.training_settings import TrainingConfig


@dataclass
class Sample:
    source: str
    translation: str
    reference: str


@dataclass
class Validation:
    """What was measured; `scores` goes into the history, the log and metrics.json."""

    scores: dict[str, Any]
    samples: Sequence[Any] = ()
    """For the eye: objects whose fields are shown by their names."""

    def metric(self, name: str) -> float:
        return float(self.scores.get(name, math.nan))


class Measure(Protocol):
    """Who measures a model while it learns; it never touches the random state nor the gradients."""

    def __call__(
        self, model: Any, *, autocast: AbstractContextManager[None] | None = None, thorough: bool = False
    ) -> Validation:
        """thorough: all that can be measured, with care, instead of what decides between checkpoints."""
        ...


def better(metric: str, new: float, old: float | None) -> bool:
    """Loss should fall; GLEU, BLEU, chrF and accuracy should rise."""
    return old is None or (new < old if metric == "loss" else new > old)


class Validator:
    """Measures a translator on one held-out corpus; it never touches the random state nor the gradients."""

    def __init__(
        self,
        corpus: Corpus,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: TrainingConfig,
        decoding: DecodingConfig,
        device: torch.device,
        *,
        unknown_words: Callable[[Translator], UnknownWords | None] = lambda model: None,
    ) -> None:
        """unknown_words: who replaces them, where it is to be thorough: what is measured is then what the model folder
        gives. Between checkpoints the model makes do with the words that it has."""
        self.corpus = corpus
        self.unknown_words = unknown_words
        self.tokenizers = source_tokenizer, target_tokenizer
        self.config = config
        self.decoding = decoding
        self.device = device
        self.batches = Batches(corpus, batch_tokens=config.batch_tokens, seed=0)

    def __call__(
        self,
        model: Translator,
        *,
        autocast: AbstractContextManager[None] | None = None,
        thorough: bool = False,
        beam: int | None = None,
    ) -> Validation:
        """Loss always; BLEU and chrF when translations decide, or where it is to be thorough; GLEU where it decides or
        whole translations are learned from; `samples` translations in any case."""
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode(), autocast or nullcontext():
                return self._measure(model, beam or self.config.validation_beam, thorough)
        finally:
            model.train(was_training)

    def _measure(self, model: Translator, beam: int, thorough: bool) -> Validation:
        objective, total, tokens = TranslationObjective(), 0.0, 0
        for batch in self.batches.fixed():
            on_device = objective.send(batch, self.device)
            total += objective(model, on_device).item()
            tokens += on_device.tokens
        loss = total / max(tokens, 1)
        scores: dict[str, Any] = {"loss": loss, "perplexity": math.exp(min(loss, 50.0))}
        if not math.isfinite(loss):  # a model that has diverged has nothing to say
            return Validation(scores)
        everything = thorough or self.config.metric != "loss"
        rows = range(len(self.corpus)) if everything else range(min(self.config.samples, len(self.corpus)))
        sources = [self.corpus.text("source", row) for row in rows]
        references = [self.corpus.text("target", row) for row in rows]
        # by the beam, whatever the model speaks by later: drawing 64 translations a line takes too long here
        plain = {"beam": beam, "n_best": 1, "sample": False, "mbr": None}
        decoding = DecodingConfig(**{**vars(self.decoding), **plain})
        unknown = self.unknown_words(model) if thorough else None
        decoding.unknown = decoding.unknown or unknown is not None
        said = translate_lines(model, *self.tokenizers, sources, decoding, device=self.device)
        translations = [translation.text for translation in (said if unknown is None else unknown(said))]
        if everything:
            by_bleu, by_chrf = bleu(translations, references), chrf(translations, references)
            if self.config.metric == "gleu" or self.config.objective != "likelihood":
                scores |= {"gleu": gleu(translations, references)}
            scores |= {"bleu": by_bleu.value, "bleu_signature": by_bleu.signature}
            scores |= {"chrf": by_chrf.value, "chrf_signature": by_chrf.signature, "beam": beam}
        shown = zip(sources, translations, references)
        return Validation(scores, [Sample(*three) for three, _ in zip(shown, range(self.config.samples))])
