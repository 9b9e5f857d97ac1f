"""What there is to say of a language model in a few numbers, whatever its kind: for `info`, without loading torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anaphora.models.contracts import LanguageModel


def normalised(model: LanguageModel) -> bool | None:
    """Whether probabilities sum to one; nothing, where numbers were taken from a file as they are."""
    if "normalised" in model.capabilities:
        return True
    parts = [normalised(part) for part in getattr(model, "parts", ())]
    given = getattr(getattr(model, "config", None), "smoothing", None) == "given"
    return None if given or (parts and False not in parts) else False


def shape(model: LanguageModel) -> dict[str, Any]:
    """What there is to say of a kind of model."""
    from anaphora.models.composites.mixture import Mixture
    from anaphora.models.ngram.ngram_model import NgramModel

    if isinstance(model, NgramModel):
        settings = {"k": model.config.k} if model.config.smoothing == "add-k" else {}
        settings |= {"backoff": model.config.backoff} if model.config.smoothing == "stupid-backoff" else {}
        counted = {"order": model.order, "ngrams": model.ngrams(), "smoothing": model.config.smoothing}
        return {**counted, "prune": list(model.config.prune), **settings}
    if hasattr(model, "hidden"):
        config = getattr(model, "config", None)
        kept: tuple[str, ...] = (
            "dim",
            "layers",
            "heads",
            "hidden",
            "feed_forward",
            "experts",
            "window",
            "width",
            "positions",
            "labels",
        )
        kept += ("senses", "sense_window", "encoder") if getattr(config, "senses", None) else ()
        return {name: value for name in kept if (value := getattr(config, name, None)) not in (None, [])}
    if isinstance(model, Mixture):
        parts = zip(model.names, model.weights, model.parts)
        return {"parts": [{"name": name, "weight": weight, **shape(part)} for name, weight, part in parts]}
    return {}
