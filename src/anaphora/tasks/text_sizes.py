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
from anaphora.models import NEURAL_MODELS
from anaphora.tasks.recipes import PENALTIES, Document, RunConfig, load_recipe
from anaphora.training.training_settings import LIMITS

SMALL, LARGE = 600_000, 8_000_000
"""Tokens: below the first, a small model; from the second on, a large one."""
RECURRENT = ("rnn", "gru", "lstm")


def text_defaults(kind: str, *, labelled: bool) -> Document:
    """What is chosen before the text is read: what reads one way goes on across line ends; hidden words are guessed
    from their own line, and lines are told apart one by one."""
    if kind not in NEURAL_MODELS or labelled:
        return {"data": {"boundaries": "lines"}}
    return {"data": {"boundaries": "packed" if kind == "transformer-encoder" else "stream"}}


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
    kind: str, tokens: int, *, labelled: bool, recipe: Document, said: Mapping[str, Any] | None = None
) -> Document:
    """Starting points for whatever the recipe leaves open; kind: of a Backpack, that of its contextualiser. said: of
    section `training`, what recipe and user say."""
    if labelled:
        document = _classifier(kind, tokens)
    elif tokens < SMALL:
        document = _small(kind, tokens)
    elif tokens < LARGE:
        document = _medium(kind, tokens)
    else:
        document = _large(kind, tokens)
    model, training = document["model"], document["training"]
    if set(recipe.get("model", {})) - {"kind"}:  # the recipe has a size of its own
        model = {}
    # a warm-up of a tenth, and twenty checkpoints, of as many updates as there will be
    updates = _updates(tokens, {**training, **(said or {})})
    every = max(1, math.ceil(updates / 20))
    return {"model": model, "training": {**training, "warmup_steps": round(updates / 10), "checkpoint_every": every}}


def complete_text(recipe: str, own: Document, manifest: Mapping[str, Any], *, labelled: bool = False) -> RunConfig:
    """The full settings of a new run over a prepared text; nothing but the recipe is read. As `recipes.complete`."""
    chosen = load_recipe(recipe)
    kind = merge(chosen, own).get("model", {}).get("kind", "")
    sized = sized_to_run(kind, manifest, chosen, own, labelled=labelled, gently=False)
    document = merge(text_defaults(kind, labelled=labelled), sized, chosen, own)
    return RunConfig.read({**document, "run": {"recipe": recipe}})


def sized_to_run(
    kind: str, manifest: Mapping[str, Any], recipe: Document, own: Document, *, labelled: bool, gently: bool
) -> Document:
    """Starting points by the number of tokens; fine-tuning, which has a model already, learns on gently."""
    said = {**recipe.get("training", {}), **own.get("training", {})}
    limits = {key: value for key, value in said.items() if key in LIMITS or key in ("batch_tokens", "accumulate")}
    if any(limits.get(limit) is not None for limit in ("max_steps", "epochs", "max_tokens")):
        limits = {"epochs": None, **limits}  # a time limit alone says nothing of updates: as if there were none
    tokens = manifest["train"]["tokens"]
    backpack = kind == "backpack"
    if backpack:
        kind = merge(recipe, own)["model"].get("encoder", "transformer-decoder")
    sized = sized_to_text(kind, tokens, labelled=labelled, recipe=recipe, said=limits)
    training = sized["training"]
    if backpack:  # penalties are on what a recurrent network says; here that only weighs senses
        sized["training"] = training = {key: value for key, value in training.items() if key not in PENALTIES}
        if sized["model"]:  # every word of a text speaks for itself, and what is rare is soon known by heart
            sized["model"].setdefault("output_dropout", 0.3 if tokens < 100_000_000 else 0.1)
    if gently:
        sized["model"] = {}
        training["learning_rate"] = training["learning_rate"] / 4
    if any(limit in said for limit in LIMITS[:-1]):
        del training["epochs"]  # whoever says how far to go is not stopped before
        if all(said.get(limit) is None for limit in LIMITS[:-1]) and "schedule" not in said:
            training["schedule"] = "inverse-sqrt"  # cosine must know where the run ends
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


BASIS: dict[str, Any] = {"schedule": "cosine", "label_smoothing": 0.0, "beta2": 0.99, "epsilon": 1e-8, "average": 3}


def _small(kind: str, tokens: int) -> Document:
    """Two cores, about a minute for a megabyte."""
    often = 5.0 if kind in RECURRENT else 4.0 if kind == "transformer-decoder" else 3.0
    epochs = round(min(60.0, often * max(1.0, math.sqrt(400_000 / max(tokens, 1)))), 1)
    training: dict[str, Any] = {**BASIS, "epochs": epochs, "batch_tokens": 1024, "context": 64}
    model: dict[str, Any] = {"dim": 128, "dropout": 0.1}
    if kind in RECURRENT:
        model |= {"layers": 1, "input_dropout": 0.1, "output_dropout": 0.2, "locked": True}
        training |= {"learning_rate": 5e-3 if kind != "rnn" else 2e-3, "clip_norm": 0.5}
    elif kind == "window":
        model |= {"layers": 1, "window": 6, "hidden": 256}
        training |= {"learning_rate": 3e-3}
    elif kind == "dan":
        model |= {"layers": 2, "hidden": 256}
        training |= {"learning_rate": 3e-3}
    elif kind == "conv":
        model |= {"layers": 2, "width": 4}
        training |= {"learning_rate": 3e-3}
    else:
        model |= {"layers": 2, "heads": 4, "feed_forward": 384}
        training |= {"learning_rate": 3e-3, "context": 128, "batch_tokens": 2048, "beta2": 0.98}
        if kind == "transformer-decoder":  # more updates, and smaller ones: docs/lab-notes.md
            training |= {"learning_rate": 2e-3, "batch_tokens": 1024}
    return {"model": model, "training": training}


def _medium(kind: str, tokens: int) -> Document:
    """Penn Treebank and WikiText-2: models that are large for their text, and every dropout there is."""
    less = (1e6 / tokens) ** 0.7  # a larger text is read less often
    training: dict[str, Any] = {**BASIS, "batch_tokens": 4480, "context": 70}
    locked = {"locked": True, "input_dropout": 0.4, "output_dropout": 0.4, "embedding_dropout": 0.1}
    model: dict[str, Any]
    if kind in ("gru", "lstm"):
        model = {"dim": 400, "hidden": 1150, "layers": 3, "dropout": 0.25, "weight_dropout": 0.5, **locked}
        training |= {"learning_rate": 3e-3 if kind == "lstm" else 2e-3, "clip_norm": 0.25, "weight_decay": 1e-6}
        training |= {"activation_penalty": 2.0, "temporal_penalty": 1.0, "epochs": 45 * less}
    elif kind == "rnn":
        # it forgets by itself: dropping weights or shrinking states only costs it (docs/lab-notes.md)
        model = {"dim": 400, "hidden": 1000, "layers": 2, "dropout": 0.2, **locked, "initial": "orthogonal"}
        model |= {"input_dropout": 0.2, "output_dropout": 0.2}
        training |= {"learning_rate": 1e-3, "clip_norm": 0.25, "weight_decay": 1e-6, "epochs": 30 * less}
    elif kind in ("window", "dan"):
        model = {"dim": 400, "hidden": 1000, "layers": 2, "dropout": 0.4, **locked, "locked": False}
        model |= {"window": 6} if kind == "window" else {}
        training |= {"learning_rate": 1e-3, "weight_decay": 0.1, "epochs": 25 * less}
    elif kind == "conv":
        model = {"dim": 512, "layers": 6, "width": 4, "dropout": 0.3, **locked, "locked": False}
        training |= {"learning_rate": 1e-3, "weight_decay": 0.2, "epochs": 40 * less}
    else:
        model = {"dim": 512, "layers": 6, "heads": 8, "dropout": 0.4, "attention_dropout": 0.1}
        model |= {"activation_dropout": 0.4, **locked, "locked": False}
        training |= {"learning_rate": 7e-4, "weight_decay": 0.5, "beta2": 0.98, "epochs": 60 * less}
        training |= {"batch_tokens": 8192, "context": 256}
        if kind == "transformer-encoder":  # hidden words are hard enough
            light = ("dropout", "activation_dropout", "input_dropout", "output_dropout")
            model |= dict.fromkeys(light, 0.1)
    return {"model": model, "training": {**training, "epochs": round(training["epochs"], 1)}}


def _large(kind: str, tokens: int) -> Document:
    """Ten million tokens and more: hardly any dropout, few epochs."""
    epochs = round(max(1.0, 4.0 * math.sqrt(12e6 / tokens)), 1)
    training: dict[str, Any] = {**BASIS, "batch_tokens": 16_384, "context": 128, "epochs": epochs}
    model: dict[str, Any] = {"dim": 512, "dropout": 0.1}
    if kind in RECURRENT:
        model |= {"hidden": 1536 if kind != "rnn" else 1024, "layers": 2, "locked": True, "output_dropout": 0.1}
        model |= {"initial": "orthogonal"} if kind == "rnn" else {}
        training |= {"learning_rate": 2e-3 if kind == "gru" else 5e-4, "clip_norm": 0.25}
        if kind == "lstm":  # its memory has no bound: without the penalties it runs away (docs/lab-notes.md)
            training |= {"learning_rate": 3e-3, "batch_tokens": 8192}
            training |= {"activation_penalty": 2.0, "temporal_penalty": 1.0}
    elif kind in ("window", "dan"):
        model |= {"hidden": 2048, "layers": 2}
        model |= {"window": 8} if kind == "window" else {}
        training |= {"learning_rate": 1e-3, "weight_decay": 0.01}
    elif kind == "conv":
        model |= {"layers": 8, "width": 4}
        training |= {"learning_rate": 1e-3, "weight_decay": 0.01}
    else:
        model |= {"layers": 8, "heads": 8}
        training |= {"learning_rate": 1e-3, "weight_decay": 0.1, "beta2": 0.98, "context": 256}
    return {"model": model, "training": training}


def _classifier(kind: str, tokens: int) -> Document:
    """One label for a line is little to learn from: small models, whose best checkpoint is kept."""
    sized = _small(kind, tokens)["model"] if tokens < SMALL else {"dim": 256, "dropout": 0.2}
    model = {**sized, "dropout": 0.2}
    if kind in ("dan", "window", *RECURRENT):
        model["hidden"] = 2 * model["dim"]
    epochs = round(min(40.0, max(4.0, 10.0 * math.sqrt(200_000 / max(tokens, 1)))), 1)
    training = {**BASIS, "epochs": epochs, "batch_tokens": 1024, "learning_rate": 1e-3, "metric": "accuracy"}
    return merge({"model": model, "training": training})
