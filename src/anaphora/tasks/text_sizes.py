"""Starting points for language models, by kind and by how much text there is.

Three sizes of text, three sorts of model. Of a small text (a book or two, a few hundred thousand tokens) a small model
learns in a minute on two CPU cores. Around a million tokens (Penn Treebank, WikiText-2) the best models are far larger
than the text deserves and are held back by every kind of dropout. From ten million tokens on there is less to hold back
and more to learn. The numbers were found on Penn Treebank, tiny Shakespeare and Wikipedia (docs/lab-notes.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from anaphora.config import merge
from anaphora.models.language.language_settings import LanguageConfig
from anaphora.models.registry import Sizes, system
from anaphora.tasks.recipes import Document, RunConfig, load_recipe
from anaphora.training.training_settings import LIMITS

SMALL_TEXT_TOKENS, LARGE_TEXT_TOKENS = 600_000, 8_000_000
"""Tokens: below the first, a small model; from the second on, a large one."""
BASIS: dict[str, Any] = {"schedule": "cosine", "label_smoothing": 0.0, "beta2": 0.99, "epsilon": 1e-8, "average": 3}
"""How all of them learn."""


def text_defaults(kind: str, *, labeled: bool) -> Document:
    """What is chosen before the text is read: what reads one way goes on across line ends; hidden words are guessed
    from their own line, and lines are told apart one by one."""
    cls = system(kind).settings_class()
    if labeled:
        return {"data": {"boundaries": "lines"}}
    return {"data": {"boundaries": "packed" if getattr(cls, "masked", False) else "stream"}}


def text_vocabulary(size: int) -> int:
    """A subword vocabulary for a text of so many bytes: 2,000 for a megabyte, 32,000 for a gigabyte; of a short text no
    more than it surely has."""
    if size <= 200_000:
        return min(1_000, max(280, size // 20))
    share = (math.log10(max(size, 1)) - 6) / 3  # 0 at 10⁶, 1 at 10⁹
    return int(round(2_000 * 16 ** min(1.0, max(0.0, share)), -2))


def held_out_lines(lines: int) -> int:
    """Lines held out where nobody says how many."""
    return min(2_000, lines // 20)


def sized_to_text(
    kind: str, tokens: int, *, labeled: bool, recipe: Document, said: Mapping[str, Any] | None = None
) -> Document:
    """Starting points for whatever the recipe leaves open; kind: of a Backpack, that of its contextualizer. said: of
    section `training`, what recipe and user say."""
    model, training = _sizes(system(kind).settings_class(), tokens, labeled=labeled)
    if set(recipe.get("model", {})) - {"kind"}:  # the recipe has a size of its own
        model = {}
    # a warm-up of a tenth, and twenty checkpoints, of as many updates as there will be
    updates = _updates(tokens, {**training, **(said or {})})
    every = max(1, math.ceil(updates / 20))
    return {"model": model, "training": {**training, "warmup_steps": round(updates / 10), "checkpoint_every": every}}


def complete_text(recipe: str, own: Document, manifest: Mapping[str, Any], *, labeled: bool = False) -> RunConfig:
    """The full settings of a new run over a prepared text; nothing but the recipe is read. As `recipes.complete`."""
    chosen = load_recipe(recipe)
    kind = merge(chosen, own).get("model", {}).get("kind", "")
    sized = sized_to_run(kind, manifest, chosen, own, labeled=labeled, gently=False)
    document = merge(text_defaults(kind, labeled=labeled), sized, chosen, own)
    return RunConfig.read({**document, "run": {"recipe": recipe}})


def sized_to_run(
    kind: str, manifest: Mapping[str, Any], recipe: Document, own: Document, *, labeled: bool, gently: bool
) -> Document:
    """Starting points by the number of tokens; fine-tuning, which has a model already, learns on gently."""
    said = {**recipe.get("training", {}), **own.get("training", {})}
    limits = {key: value for key, value in said.items() if key in LIMITS or key in ("batch_tokens", "accumulate")}
    if any(limits.get(limit) is not None for limit in ("max_steps", "epochs", "max_tokens")):
        limits = {"epochs": None, **limits}  # a time limit alone says nothing of updates: as if there were none
    tokens = manifest["train"]["tokens"]
    cls: type[LanguageConfig] = system(kind).settings_class()
    inner = cls.sized_as(merge(recipe, own)["model"])
    sized = sized_to_text(inner, tokens, labeled=labeled, recipe=recipe, said=limits)
    sized["model"], sized["training"] = cls.adjusted(sized["model"], sized["training"], tokens)
    training = sized["training"]
    if gently:
        sized["model"] = {}
        training["learning_rate"] = training["learning_rate"] / 4
    if any(limit in said for limit in LIMITS[:-1]):
        del training["epochs"]  # whoever says how far to go is not stopped before
        if all(said.get(limit) is None for limit in LIMITS[:-1]) and "schedule" not in said:
            training["schedule"] = "inverse-sqrt"  # cosine needs to know how long the run is
    if not manifest["valid"]:
        training["metric"] = "loss"
    if "context" in said and "batch_tokens" not in said:  # at least one row
        training["batch_tokens"] = max(training["batch_tokens"], int(said["context"]))
    if "context" not in said and "context" in training:
        batch, most = said.get("batch_tokens", training["batch_tokens"]), _longest(merge(sized, recipe, own))
        training["context"] = min(n for n in (training["context"], batch, most) if n is not None)
    stride = said.get("stride")
    if stride is not None and "context" not in said:
        training["context"] = max(training.get("context", 0), int(stride))
    return sized


def _longest(document: Document) -> int | None:
    """The longest row of a Transformer, where somebody has said it."""
    longest = document.get("model", {}).get("max_length")
    return None if longest is None else int(longest)


def _updates(tokens: int, training: dict[str, Any]) -> float:
    """How many updates the limits come to, as far as that is known before the text is cut into rows."""
    each = float(training["batch_tokens"]) * int(training.get("accumulate", 1))
    plans = [float(training["epochs"]) * tokens / each] if training.get("epochs") else []
    plans += [float(training["max_steps"])] if training.get("max_steps") else []
    plans += [float(training["max_tokens"]) / each] if training.get("max_tokens") else []
    return max(1.0, min(plans, default=1000.0))


def _sizes(cls: type[LanguageConfig], tokens: int, *, labeled: bool) -> Sizes:
    """By the size of the text: (model, training)."""
    if labeled:
        return _classifier(cls, tokens)
    if tokens < SMALL_TEXT_TOKENS:
        model, training = cls.small(tokens)
        return {"dim": 128, "dropout": 0.1, **model}, {**BASIS, "batch_tokens": 1024, "context": 64, **training}
    if tokens < LARGE_TEXT_TOKENS:
        model, training = cls.medium(tokens)
        return model, {**BASIS, "batch_tokens": 4480, "context": 70, **training}
    model, training = cls.large(tokens)
    epochs = round(max(1.0, 4.0 * math.sqrt(12e6 / tokens)), 1)
    basis = {**BASIS, "batch_tokens": 16_384, "context": 128, "epochs": epochs}
    return {"dim": 512, "dropout": 0.1, **model}, {**basis, **training}


def _classifier(cls: type[LanguageConfig], tokens: int) -> Sizes:
    """One label for a line is little to learn from: small models, whose best checkpoint is kept."""
    model = {"dim": 128, **cls.small(tokens)[0]} if tokens < SMALL_TEXT_TOKENS else {"dim": 256}
    model = {**model, "dropout": 0.2, **cls.classifier(model["dim"])}
    epochs = round(min(40.0, max(4.0, 10.0 * math.sqrt(200_000 / max(tokens, 1)))), 1)
    return model, {**BASIS, "epochs": epochs, "batch_tokens": 1024, "learning_rate": 1e-3, "metric": "accuracy"}
