"""Who can do what: not every language model can be asked for everything, and one that is asked in vain says so.

What reads from left to right goes on with a text; what sees both sides fills in blanks; a classifier puts texts into
classes; whatever is a network has vectors of text. A model declares it (`capabilities`), and here is what each verb
needs, and what to take instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from anaphora.errors import UserError, option
from anaphora.models.backpack.sense_shares import has_senses

Ability = Literal["score", "generate", "fill", "classify", "encode", "senses", "walk"]
NEEDED: dict[Ability, tuple[str, ...]] = {
    "score": ("causal", "masked"),
    "generate": ("steppable",),
    "fill": ("masked",),
    "classify": ("classifies",),
}
"""What a model must declare, one of these."""
DOES: dict[Ability, str] = {
    "score": "give a text a probability",
    "generate": "go on with a text",
    "fill": "fill in blanks",
    "classify": "put texts into classes",
    "encode": "have vectors of text",
    "senses": "have senses of words",
    "walk": "attend to words",
}
USE: dict[Ability, str] = {
    "score": "give a language model; this one is for `anaphora classify`, and `anaphora evaluate` with {labels}",
    "generate": "give a language model that reads from left to right; for blanks there is `anaphora fill`",
    "fill": "give a masked one ({recipe}); to go on with a text there is `anaphora generate`",
    "classify": "give a model that was trained with {labels}",
    "encode": "give a neural model ({recipe}, lstm, …)",
    "senses": "give a Backpack ({backpack}), or the part of a mixture that is one",
    "walk": "give a Transformer or a Backpack, or the part of a mixture that is one; or use `anaphora why`",
}


def able(model: Any, ability: Ability) -> bool:
    """Whether the model can do this."""
    if ability == "encode":
        return hasattr(model, "hidden")
    if ability == "senses":
        return has_senses(model)
    if ability == "walk":
        return has_senses(model) or ("attends" in model.capabilities and able(model, "encode"))  # a mixture does not
    return any(one in model.capabilities for one in NEEDED[ability])


def require(model: Any, ability: Ability, *, kind: str, folder: Path) -> None:
    """A UserError where it cannot."""
    if not able(model, ability):
        named = {"labels": option("labels"), "recipe": option("recipe", "transformer-encoder")}
        cure = USE[ability].format(**named, backpack=option("recipe", "backpack"))
        raise UserError(f"{model.noun} ({kind}) does not {DOES[ability]}", file=folder, cure=cure)
