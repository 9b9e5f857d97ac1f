"""Wholes: each system of the ladder, readable in at most two files.

    import torch
    from anaphora import models

    model = models.Transformer(vocabulary=32_000, dim=512, heads=8, layers=6)
    logits = model(source, target)  # ids (B, S) and (B, T), padded with 0 -> (B, T, 32_000)
    loss = model.loss((source, target))

Constructors take the settings of the model as keywords: those that `anaphora settings` lists, with the same defaults
and checks. For the house itself:
`registry.py` knows them all; `settings` gives the typed settings of one, `build` makes a translator,
`build_language_model` a neural language model, `read_language_model` opens a language model of any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from anaphora.arguments.public_names import resolved_when_used
from anaphora.config import build as build_settings
from anaphora.errors import UserError, nearest
from anaphora.files.entries import loaded
from anaphora.models.encoder_section import parted
from anaphora.models.registry import TASKS, is_known, kinds, system

if TYPE_CHECKING:
    from pathlib import Path

    from anaphora.models.composites.mixture import MixtureConfig
    from anaphora.models.contracts import LanguageModel, Translator
    from anaphora.models.language.causal import CausalLM
    from anaphora.models.language.classifier import TextClassifier
    from anaphora.models.language.language_settings import LanguageConfig
    from anaphora.models.language.masked import MaskedLM
    from anaphora.models.ngram.ngram_settings import NgramConfig
    from anaphora.models.translation.translator_settings import EnsembleConfig, TranslatorConfig
    from anaphora.models.vectors.vector_settings import VectorsConfig

    ModelConfig: TypeAlias = (
        TranslatorConfig | EnsembleConfig | NgramConfig | MixtureConfig | LanguageConfig | VectorsConfig
    )
    NeuralModel: TypeAlias = CausalLM | MaskedLM | TextClassifier

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack
    from anaphora.models.composites.ensemble import Ensemble
    from anaphora.models.composites.mixture import Mixture
    from anaphora.models.contracts import DecoderState
    from anaphora.models.ngram.ngram_model import NgramModel
    from anaphora.models.translation.convolutional.bytenet import ByteNet
    from anaphora.models.translation.convolutional.convs2s import ConvS2S
    from anaphora.models.translation.encoder_decoder import Decoder, EncoderDecoder
    from anaphora.models.translation.recurrent.bahdanau import Bahdanau
    from anaphora.models.translation.recurrent.deep_att import DeepAtt
    from anaphora.models.translation.recurrent.gnmt import GNMT
    from anaphora.models.translation.recurrent.luong import Luong
    from anaphora.models.translation.recurrent.moe import MoE
    from anaphora.models.translation.recurrent.seq2seq import Seq2Seq
    from anaphora.models.translation.transformer_translator import Transformer
    from anaphora.models.vectors.glove import GloVe
    from anaphora.models.vectors.word2vec import Word2Vec
else:
    __getattr__, __dir__ = resolved_when_used(__name__)

__all__ = [
    "GNMT",
    "Backpack",
    "Bahdanau",
    "ByteNet",
    "CausalLM",
    "ConvS2S",
    "Decoder",
    "DecoderState",
    "DeepAtt",
    "EncoderDecoder",
    "Ensemble",
    "GloVe",
    "LanguageModel",
    "Luong",
    "MaskedLM",
    "Mixture",
    "MoE",
    "NgramModel",
    "Seq2Seq",
    "TextClassifier",
    "Transformer",
    "Translator",
    "Word2Vec",
]

DEFAULT = "transformer"
"""The kind of a model whose settings name none."""


def settings(mapping: Mapping[str, Any], *, file: str | None = None) -> ModelConfig:
    """The typed settings of section `model`, by its `kind`."""
    mapping = named_by_decoder(mapping, file=file)
    mapping = with_encoder_section(mapping, file=file)
    kind = mapping.get("kind", DEFAULT)
    cls, listed = system(kind, file=file).settings_class(), f"model{listing_option(str(kind))}"
    if hasattr(cls, "chosen"):  # its settings are those of what it is made with, too
        cls, mapping = cls.chosen(mapping, file=file)
    return cast("ModelConfig", build_settings(cls, mapping, section="model", file=file, listed=listed))


def usual_recipe(kind: str) -> str | None:
    """The recipe that has this kind of model and nothing else to say about it; nothing for what no recipe makes."""
    recipe = system(kind).recipe
    return kind if recipe is None else recipe or None


def listing_option(kind: str) -> str:
    """What makes `anaphora settings` list the settings of a kind of model: a recipe that has it."""
    recipe = usual_recipe(kind)
    return "" if recipe in (None, DEFAULT) else f" --recipe {recipe}"


def described_kind(model: Mapping[str, Any]) -> str:
    """What the section `model` of a config describes, in words: "a classifier (gru)"."""
    kind = model.get("kind", DEFAULT)
    return f"{'a classifier' if model.get('labels') else TASKS[system(kind).task]} ({kind})"


def named_by_decoder(model: Mapping[str, Any], *, file: str | None = None) -> dict[str, Any]:
    """`decoder: luong` is another way to say the kind: the decoder of that system behind this one's encoder."""
    own, translators = dict(model), kinds("translation")
    decoder, kind = own.pop("decoder", None), own.get("kind", DEFAULT)
    if decoder is None or kind not in translators:
        return dict(model)
    if decoder not in translators:
        raise UserError(f"model.decoder cannot be {decoder!r}", file=file, cure=nearest(str(decoder), translators))
    if decoder != kind:
        theirs = system(kind).settings_class()
        known = theirs(**({"cell": own["cell"]} if "cell" in own and hasattr(theirs, "cell") else {}))
        own = {"encoder": known.encoder_name, **own, "kind": decoder}
    return own


def with_encoder_section(
    model: Mapping[str, Any], whole: Mapping[str, Any] | None = None, *, twice: bool = True, file: str | None = None
) -> dict[str, Any]:
    """Section `model` without a section `encoder` in it (models/encoder_section.py). whole: what else is known of the
    model, its kind above all; twice: whether a setting may be said under both of its names, the longer one then
    counts."""
    own, said = parted(model)
    whole = {"kind": DEFAULT, **own, **(whole or {})}
    cls: Any = system(whole["kind"]).settings_class() if is_known(whole["kind"]) else None
    if isinstance(own.get("encoder"), str) and "encoder" not in getattr(cls, "__dataclass_fields__", {"encoder": ""}):
        said = {"kind": own.pop("encoder")}
    if not said or not hasattr(cls, "with_section"):
        return dict(model)
    found: dict[str, Any] = cls.with_section(
        own, said, whole, twice=twice, listed=f"model{listing_option(str(whole['kind']))}", file=file
    )
    return found


def settings_class(kind: object, *, file: str | None = None) -> type[ModelConfig]:
    """The settings of one kind of model; the file that has them is imported only now."""
    return system(kind, file=file).settings_class()


def build(config: TranslatorConfig, source_vocabulary: int, target_vocabulary: int) -> Translator:
    """The model that the settings describe, with fresh weights from torch's generator."""
    with _as_large_as_may_be(config):
        return cast("Translator", system(config.kind).build(config, source_vocabulary, target_vocabulary))


def build_language_model(config: LanguageConfig, vocabulary: int) -> NeuralModel:
    """The neural model that the settings describe, with fresh weights from torch's generator: a classifier where they
    have labels."""
    with _as_large_as_may_be(config):
        if config.labels:
            return cast("NeuralModel", loaded("anaphora.models.language.classifier:TextClassifier")(config, vocabulary))
        return cast("NeuralModel", system(config.kind).build(config, vocabulary))


@contextmanager
def _as_large_as_may_be(config: TranslatorConfig | LanguageConfig) -> Iterator[None]:
    """A model that cannot be made, for its settings or for want of memory, is the user's mistake."""
    try:
        yield
    except ValueError as error:
        raise UserError(str(error), cure="change that setting of the model") from None
    except (RuntimeError, MemoryError, OverflowError) as error:
        why = (str(error).splitlines() or ["memory"])[0]
        raise UserError(
            f"a model {config.dim:,} wide with {config.layers:,} layers cannot be made here ({why})",
            cure="take a smaller model: model.dim, model.layers, model.feed_forward, model.max_length",
        ) from None


def read_language_model(
    config: ModelConfig, folder: Path, *, verify: bool = True, device: str = "cpu"
) -> LanguageModel | NeuralModel:
    """The model of a folder, by the settings of its section `model`, ready for use; what was counted is mapped, not
    loaded, and stays on the CPU, neural ones go to the device.

    `verify=False` leaves the checksums out, for which every file has to be read once.
    """
    one = system(config.kind)
    if one.read is None:
        raise UserError(f"is {TASKS[one.task]} ({config.kind}), not a language model", file=folder)
    return cast("LanguageModel | NeuralModel", loaded(one.read)(config, folder, verify=verify, device=device))


def read_neural(config: LanguageConfig, folder: Path, *, verify: bool, device: str) -> NeuralModel:
    """A neural model from its weights; how many words it knows, they tell."""
    from anaphora.files.foreign import is_there
    from anaphora.folder import WEIGHTS
    from anaphora.models.weights import load_weights, no_larger_than, read_weights

    file = folder / WEIGHTS
    if not is_there(file):
        raise UserError("holds no model yet", file=folder, cure="repeat the `anaphora train` command")
    weights = read_weights(file, verify=verify)
    table = weights.get("embedding.table.weight")
    if table is None:
        raise UserError("holds no language model", file=file, cure="use the files of one and the same model")
    vocabulary = len(table) - config.extra_rows
    with no_larger_than(weights, file):
        model = build_language_model(config, vocabulary)
    load_weights(model, weights, file=file)
    return model.eval().requires_grad_(False).to(device)
