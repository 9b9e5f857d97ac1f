"""Wholes: each system of the ladder, readable in at most two files.

`KINDS` names them; `settings` finds the settings class of a kind, `build` makes a translator,
`read_language_model` opens a language model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anaphora.config import build as build_settings
from anaphora.errors import UserError, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from anaphora.models.contracts import LanguageModel, Translator
    from anaphora.models.mixture import MixtureConfig
    from anaphora.models.ngram.model import NgramConfig
    from anaphora.models.transformer import TransformerConfig

    ModelConfig = TransformerConfig | NgramConfig | MixtureConfig

TRANSLATORS = ("transformer",)
"""Kinds that turn one text into another."""
LANGUAGE_MODELS = ("ngram", "mixture")
"""Kinds that give a text its probability and go on with it: counted n-grams, several models as one."""
KINDS = TRANSLATORS + LANGUAGE_MODELS


def settings(mapping: Mapping[str, Any], *, file: str | None = None) -> ModelConfig:
    """The typed settings of section `model`, by its `kind`."""
    return build_settings(
        settings_class(mapping.get("kind", "transformer"), file=file), mapping, section="model", file=file
    )


def settings_class(kind: object, *, file: str | None = None) -> type[ModelConfig]:
    """The settings of one kind of model; the file that has them is imported only now."""
    if kind == "transformer":
        from anaphora.models.transformer import TransformerConfig

        return TransformerConfig
    if kind == "ngram":
        from anaphora.models.ngram.model import NgramConfig

        return NgramConfig
    if kind == "mixture":
        from anaphora.models.mixture import MixtureConfig

        return MixtureConfig
    raise UserError(f"unknown model.kind {kind!r}", file=file, cure=nearest(str(kind), KINDS))


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


def read_language_model(config: ModelConfig, folder: Path, *, verify: bool = True) -> LanguageModel:
    """The language model of a folder, by the settings of its section `model`; numbers are mapped, not loaded.

    `verify=False` leaves the checksums out, for which every file has to be read once.
    """
    from anaphora.folder import WEIGHTS, read_config

    if config.kind == "ngram":
        from anaphora.models.ngram.file import read_trie
        from anaphora.models.ngram.model import NgramModel

        if not (folder / WEIGHTS).is_file():
            raise UserError(
                "holds no model yet", file=folder, cure="repeat the `anaphora train` command and let it come to its end"
            )
        return NgramModel(config, read_trie(folder / WEIGHTS, verify=verify))
    if config.kind == "mixture":
        from anaphora.models.mixture import Mixture

        parts = []
        for name in config.parts:
            inside = settings(read_config(folder / name).get("model") or {}, file=str(folder / name / "config.yaml"))
            parts.append(read_language_model(inside, folder / name, verify=verify))
        try:
            return Mixture(parts, config.weights, config.parts)
        except UserError as error:
            raise UserError(error.what, file=folder, cure=error.cure) from None
    raise UserError(f"is a translator ({config.kind}), not a language model", file=folder)
