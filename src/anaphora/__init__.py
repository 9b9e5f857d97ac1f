"""Anaphora: sequence models on your own text.

    import anaphora
    anaphora.train("runs/en-de", source="train.en", target="train.de")
    model = anaphora.load("runs/en-de")
    print(model.translate("The old farmer bought three apples.").text)

The names below are looked up when they are used, so that `import anaphora` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anaphora.errors import UserError
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.api import TranslationModel, average, check, load, train
    from anaphora.layers.capture import capture

__all__ = ["TranslationModel", "UserError", "__version__", "average", "capture", "check", "load", "train"]


def __getattr__(name: str) -> Any:
    if name in ("train", "load", "average", "check", "TranslationModel"):
        import anaphora.api

        return getattr(anaphora.api, name)
    if name == "capture":
        from anaphora.layers.capture import capture

        return capture
    raise AttributeError(f"module 'anaphora' has no attribute {name!r}")
