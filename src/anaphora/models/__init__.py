"""Wholes: each system of the ladder, readable in at most two files.

`KINDS` names them; `settings` finds the settings class of a kind, `build` makes the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anaphora.config import build as build_settings
from anaphora.errors import UserError, nearest

if TYPE_CHECKING:
    from anaphora.models.contracts import Translator
    from anaphora.models.transformer import TransformerConfig

KINDS = ("transformer",)


def settings(mapping: Mapping[str, Any], *, file: str | None = None) -> TransformerConfig:
    """The typed settings of section `model`, by its `kind`."""
    kind = mapping.get("kind", "transformer")
    if kind not in KINDS:
        raise UserError(f"unknown model.kind {kind!r}", file=file, cure=nearest(str(kind), KINDS))
    from anaphora.models.transformer import TransformerConfig

    return build_settings(TransformerConfig, mapping, section="model", file=file)


def build(config: TransformerConfig, source_vocabulary: int, target_vocabulary: int) -> Translator:
    """The model that the settings describe, with fresh weights from torch's generator."""
    from anaphora.models.transformer import TransformerTranslator

    try:
        return TransformerTranslator(config, source_vocabulary, target_vocabulary)
    except ValueError as error:
        raise UserError(str(error), cure="change that setting of the model") from None
    except (RuntimeError, MemoryError, OverflowError) as error:
        why = (str(error).splitlines() or ["memory"])[0]
        raise UserError(
            f"a model {config.dim:,} wide with {config.layers:,} layers cannot be made here ({why})",
            cure="take a smaller model: model.dim, model.layers, model.feed_forward, model.max_length",
        ) from None
