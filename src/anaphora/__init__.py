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

    from anaphora import decoding, errors, models, nn
    from anaphora.api import TextModel, TranslationModel, VectorsModel, average, check, compare, load, train
    from anaphora.errors import UserError
    from anaphora.interop.conversion import convert
    from anaphora.models.own_system import System, register
    from anaphora.nn.attention_capture import capture
    from anaphora.pipelines.mixing import mix
    from anaphora.pipelines.patching import even, make_patch, side_effect
    from anaphora.tasks.saving import save
    from anaphora.training.fit import fit

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
    "decoding",
    "errors",
    "even",
    "fit",
    "load",
    "make_patch",
    "mix",
    "models",
    "nn",
    "register",
    "save",
    "side_effect",
    "train",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    from anaphora.arguments.public_names import resolved_when_used

    get, _ = resolved_when_used(__name__)
    return get(name)
