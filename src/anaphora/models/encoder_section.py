"""`model.encoder` as a section of its own, and the shorter names by which systems have its settings.

    model.encoder=lstm model.encoder.layers=2        one after the other
    model: {encoder: {kind: lstm, layers: 2}}        in a file
    model.encoder=lstm model.layers=2                shorter: `layers` is nobody's but the encoder's

All three say the same. Settings are kept under the shorter names, so that every setting has one name in config.yaml, in
differences and in errors; what has none, such as the window of a convolution in front of another system's decoder,
stays with the name of the encoder: {kind: conv, width: 5}. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from anaphora.config import convert, type_hints, unknown_setting
from anaphora.errors import UserError, nearest, shown
from anaphora.nn.encoder_settings import EncoderConfig


def parted(model: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Section `model` without what is said of its encoder by that name, and what is; `kind` names it."""
    dotted = [key for key in model if isinstance(key, str) and key.startswith("encoder.")]
    said = {key.partition(".")[2]: model[key] for key in dotted}
    own = {key: value for key, value in model.items() if key not in dotted}
    if said and isinstance(own.get("encoder"), str):
        said.setdefault("kind", own["encoder"])
    if isinstance(own.get("encoder"), Mapping):
        said = {**own["encoder"], **said}
    if said:
        own.pop("encoder", None)
    return own, said


def flattened(
    own: dict[str, Any],
    said: Mapping[str, Any],
    cls: type[EncoderConfig],
    *,
    shared: Collection[str],
    twice: bool = False,
    listed: str,
    file: str | None = None,
) -> dict[str, Any]:
    """What is said of an encoder with these settings: those that the system has itself, `shared`, go into `own`, its
    section `model`; the others are given back, their types checked. A setting said under both names is a mistake where
    the two differ, unless `twice`: then a recipe said one of them. listed: as `anaphora settings` lists them all."""
    types, alone = type_hints(cls), {}
    for key, value in said.items():
        if key in shared:
            if not twice and key in own and str(own[key]) != str(value):
                raise UserError(
                    f"model.{key} is {shown.repr(own[key])} and model.encoder.{key} is {shown.repr(value)}: both are "
                    "the encoder's",
                    file=file,
                    cure="say it once",
                )
            own[key] = value
        elif key in types:
            alone[key] = convert(value, types[key], name=f"model.encoder.{key}", file=file)
        else:
            raise unknown_setting(
                key, {**types, **dict.fromkeys(shared)}, section="model.encoder", file=file, listed=listed
            )
    return alone


def check_name(name: object, known: Collection[str], file: str | None) -> str:
    """The name of an encoder, if there is such a one."""
    if name not in list(known):
        raise UserError(f"model.encoder cannot be {shown.repr(name)}", file=file, cure=nearest(str(name), list(known)))
    return str(name)
