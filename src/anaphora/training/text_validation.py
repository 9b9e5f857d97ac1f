"""How good is a language model? Its loss, perplexity and bits per byte on text it did not learn from, and a few lines
that it makes up; of a masked one, how well it guesses; of a classifier, how often it is right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anaphora.data.labels import VALID_CLASSES
from anaphora.data.language_batches import LineBatches
from anaphora.data.prepared_text import PreparedText
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.generation import generate
from anaphora.decoding.text_scoring import score_ids
from anaphora.evaluation.bits_per_byte import bits_per_byte, perplexity
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from anaphora.training.objectives.language_objective import ClassificationObjective, MaskedObjective
from anaphora.training.translation_validation import Validation

PARALLEL_PARTS = 32
"""Parts of a stream that are read at once while the model is learning; the final measure reads it as one."""
READ_AT_ONCE = 1 << 20
"""Tokens of the validation text."""
PROMPT_TOKENS, GENERATED_TOKENS = 4, 30
"""Tokens of the text that a line made up for the eye begins with, and those that the model adds."""
PROMPT_MARK = "▸"
"""Stands between both."""
SAMPLE_SEED = 7
"""Of what is hidden, and of what is made up: the same at every checkpoint."""

if TYPE_CHECKING:
    from anaphora.tasks.recipes import RunConfig


@dataclass
class MadeUp:
    text: str


@dataclass
class Guess:
    text: str
    predicted: str
    label: str


class TextValidator:
    """Measures a language model on one held-out text; it never touches the random state nor the gradients."""

    def __init__(self, text: PreparedText, tokenizer: Tokenizer, config: RunConfig, device: torch.device) -> None:
        self.tokenizer, self.config, self.device = tokenizer, config, device
        self.ids = np.concatenate([np.zeros(0, np.uint32), *(ids for ids, _ in text.valid_parts(READ_AT_ONCE))])
        self.size = int(text.manifest["valid"]["bytes"])
        self.ends = np.flatnonzero(self.ids == EOS) + 1
        self.classes = text.classes(VALID_CLASSES)

    def __call__(
        self,
        model: Any,
        *,
        autocast: AbstractContextManager[None] | None = None,
        thorough: bool = False,
    ) -> Validation:
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode(), autocast or nullcontext(), _own_chance():
                if "classifies" in model.capabilities:
                    return self._classify(model)
                if "masked" in model.capabilities:
                    return self._guess(model)
                return self._predict(model, thorough)
        finally:
            model.train(was_training)

    # -- the next word -------------------------------------------------------------------------------------------------

    def _predict(self, model: Any, thorough: bool) -> Validation:
        windows = self.config.windows()
        context, stride = windows or (None, None)
        stream = self.config.data.boundaries == "stream"
        if stream and windows is None and not thorough:
            scores = side_by_side(model, self.ids, PARALLEL_PARTS)
        else:
            starts = np.concatenate(([0], self.ends))
            scores = score_ids(
                model, self.ids, starts, "stream" if stream else "lines", context=context, stride=stride
            )[0]
        total, tokens = float(scores.sum(dtype=np.float64)), len(scores)
        found: dict[str, Any] = {
            "loss": -total / tokens,
            "perplexity": perplexity(total, tokens),
            "bits_per_byte": bits_per_byte(total, self.size),
            "tokens": tokens,
            "unknown_tokens": int((self.ids == UNK).sum()),
            "bytes": self.size,
        }
        if windows is not None:
            found |= {"context": context, "stride": stride}
        if not math.isfinite(found["loss"]):  # a model that has diverged has nothing to say
            return Validation(found)
        return Validation(found, self._made_up(model))

    def _made_up(self, model: Any) -> list[MadeUp]:
        """How the model goes on where some lines of the text begin."""
        prompts = self._beginnings(self.config.training.samples)
        if not prompts:
            return []
        decoding = DecodingConfig(sample=True, beam=1, seed=SAMPLE_SEED, top_p=0.9)
        said = generate(model, prompts, decoding, tokens=GENERATED_TOKENS)
        lines = []
        for prompt, (one, *_) in zip(prompts, said):
            begun, whole = (self.tokenizer.decode(ids) for ids in (prompt, [*prompt, *one.tokens]))
            lines.append(MadeUp(f"{begun} {PROMPT_MARK} {whole.removeprefix(begun).strip()}".strip()))
        return lines

    def _beginnings(self, number: int) -> list[list[int]]:
        """Of lines that are long enough, far from each other."""
        starts = np.concatenate(([0], self.ends[:-1])) if len(self.ends) else np.zeros(1, np.int64)
        ends = self.ends if len(self.ends) else np.array([len(self.ids)])
        size = ends - starts  # the end mark included
        long = np.flatnonzero(size > 2 * PROMPT_TOKENS)
        if len(long) < number:
            long = np.flatnonzero(size > 2)
        chosen = long[np.linspace(0, len(long) - 1, min(number, len(long))).astype(int)]
        begun = np.minimum(PROMPT_TOKENS, size // 2)
        found = [[int(id) for id in self.ids[starts[line] : starts[line] + begun[line]]] for line in chosen]
        return found + [[]] * (number - len(found))

    # -- hidden words --------------------------------------------------------------------------------------------------

    def _rows(self, max_length: int | None, classes: np.ndarray | None = None) -> LineBatches:
        starts = np.concatenate(([0], self.ends[:-1])) if len(self.ends) else np.zeros(0, np.int64)
        framed = np.insert(self.ids, starts, BOS)
        return LineBatches(framed, self.config.training.batch_tokens, 0, max_length=max_length, classes=classes)

    def _guess(self, model: Any) -> Validation:
        share = self.config.training.masked
        objective = MaskedObjective(model.mask_id, model.vocabulary, share)
        total, tokens = 0.0, 0
        for batch in self._rows(model.max_length).fixed():
            on_device = objective.send(batch, self.device)
            total += objective(model, on_device).item()
            tokens += int((on_device.labels != PAD).sum())
        loss = total / max(tokens, 1)
        return Validation({"loss": loss, "perplexity": perplexity(-total, tokens), "tokens": tokens, "masked": share})

    # -- classes -------------------------------------------------------------------------------------------------------

    def _classify(self, model: Any) -> Validation:
        assert self.classes is not None
        objective, total, right, texts = ClassificationObjective(), 0.0, 0, 0
        samples: list[Guess] = []
        for batch in self._rows(model.max_length, self.classes).fixed():
            on_device = objective.send(batch, self.device)
            logits = model(on_device.ids, on_device.lengths).float()
            total += torch.nn.functional.cross_entropy(
                logits, on_device.classes, ignore_index=-1, reduction="sum"
            ).item()
            said = logits.argmax(dim=-1)
            right += int((said == on_device.classes).sum())
            texts += batch.rows
            for row in range(min(batch.rows, self.config.training.samples - len(samples))):
                words = self.tokenizer.decode(batch.tokens[row, 1 : int(batch.lengths[row]) - 1].tolist())
                samples.append(Guess(words, model.labels[int(said[row])], model.labels[int(on_device.classes[row])]))
        scores = {"loss": total / max(texts, 1), "accuracy": right / max(texts, 1), "texts": texts}
        return Validation(scores, samples)


def side_by_side(model: Any, ids: np.ndarray, rows: int) -> np.ndarray:
    """log P of each token of one text (N,), cut into so many parts that are read at once: each part but the first knows
    nothing of those before it, and it takes far less time than reading them one after the other."""
    length = -(-len(ids) // max(1, min(rows, len(ids))))
    rows = -(-len(ids) // length)
    where = np.arange(rows)[:, None] * length + np.arange(length)  # (rows, length)
    inside = where < len(ids)
    tokens = torch.from_numpy(ids[np.minimum(where, len(ids) - 1)].astype(np.int64)).to(model.device)
    lengths = torch.from_numpy(inside.sum(axis=1)).to(model.device)
    scores: np.ndarray = model.score(tokens, lengths).float().cpu().numpy()
    return scores[inside]


@contextmanager
def _own_chance() -> Iterator[None]:
    """Within the block chance is the same every time; afterwards it goes on as if there had been no block."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(SAMPLE_SEED)
        yield
