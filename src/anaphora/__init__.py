"""Anaphora: sequence models on your own text.

    import anaphora
    anaphora.train("runs/en-de", source="train.en", target="train.de")
    model = anaphora.load("runs/en-de")
    print(model.translate("The old farmer bought three apples.").text)

    anaphora.train("runs/plays", text="plays.txt")
    print(anaphora.load("runs/plays").generate("Enter the", seed=1).text)

The names below are looked up when they are used, so that `import anaphora` costs nothing. The command line begins with
it too, and until it has its own a Ctrl-C finds the handlers of Python: not even `typing` is imported here.
"""

from __future__ import annotations

from anaphora.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anaphora.api import TextModel, TranslationModel, VectorsModel, average, check, compare, load, train
    from anaphora.errors import UserError
    from anaphora.interop.conversion import convert
    from anaphora.models.own_system import System, register
    from anaphora.nn.capture import capture
    from anaphora.pipelines.mixing import mix
    from anaphora.pipelines.patching import even, make_patch, side_effect

__all__ = [
    "System",
    "TextModel",
    "TranslationModel",
    "UserError",
    "VectorsModel",
    "__version__",
    "average",
    "capture",
    "check",
    "compare",
    "convert",
    "even",
    "load",
    "make_patch",
    "mix",
    "register",
    "side_effect",
    "train",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in ("train", "load", "average", "check", "compare", "TranslationModel", "TextModel", "VectorsModel"):
        import anaphora.api

        return getattr(anaphora.api, name)
    if name in ("UserError", "errors"):
        import anaphora.errors

        return anaphora.errors if name == "errors" else anaphora.errors.UserError
    if name in ("System", "register"):
        import anaphora.models.own_system

        return getattr(anaphora.models.own_system, name)
    if name == "convert":
        from anaphora.interop.conversion import convert

        return convert
    if name == "mix":
        from anaphora.pipelines.mixing import mix

        return mix
    if name in ("even", "make_patch", "side_effect"):
        import anaphora.pipelines.patching

        return getattr(anaphora.pipelines.patching, name)
    if name == "capture":
        from anaphora.nn.capture import capture

        return capture
    raise AttributeError(f"module 'anaphora' has no attribute {name!r}")
