"""Wholes: each system of the ladder, readable in at most two files.

`KINDS` names them; `settings` finds the settings class of a kind, `build` makes a translator, `build_language_model` a
neural language model, `read_language_model` opens a language model of any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from anaphora.config import build as build_settings
from anaphora.errors import UserError, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from anaphora.models.composites.mixture import MixtureConfig
    from anaphora.models.contracts import LanguageModel, Translator
    from anaphora.models.language.causal import NeuralLanguageModel
    from anaphora.models.language.classifier import TextClassifier
    from anaphora.models.language.language_settings import LanguageConfig, NeuralConfig
    from anaphora.models.language.masked import MaskedLanguageModel
    from anaphora.models.ngram.ngram_settings import NgramConfig
    from anaphora.models.translation.convolutional.convolutional_settings import ByteNetConfig, ConvS2SConfig
    from anaphora.models.translation.recurrent.recurrent_settings import (
        BahdanauConfig,
        DeepAttConfig,
        GnmtConfig,
        LuongConfig,
        MoeConfig,
        Seq2seqConfig,
    )
    from anaphora.models.translation.translator_settings import EnsembleConfig, TransformerConfig, TranslatorConfig
    from anaphora.models.vectors.vector_settings import VectorsConfig

    Recurrent = Seq2seqConfig | BahdanauConfig | LuongConfig | DeepAttConfig | GnmtConfig | MoeConfig
    Translating = TransformerConfig | Recurrent | ByteNetConfig | ConvS2SConfig
    ModelConfig = Translating | EnsembleConfig | NgramConfig | MixtureConfig | NeuralConfig | VectorsConfig
    NeuralModel = NeuralLanguageModel | MaskedLanguageModel | TextClassifier

RECURRENT_TRANSLATORS = ("seq2seq", "bahdanau", "luong", "deep-att", "gnmt", "moe")
"""Kinds whose decoder carries a state from word to word (models/recurrent)."""
CONVOLUTIONAL_TRANSLATORS = ("bytenet", "convs2s")
"""Kinds whose decoder sees the last few places of each layer below (models/convolutional)."""
TRANSLATORS = ("transformer", *RECURRENT_TRANSLATORS, *CONVOLUTIONAL_TRANSLATORS)
"""Kinds that turn one text into another."""
ENSEMBLES = ("ensemble",)
"""Several translators as one: put together, not trained (models/composites/ensemble.py)."""
COUNTED_MODELS = ("ngram", "mixture")
"""Kinds that nothing is learned for step by step: counted n-grams, several models as one."""
NEURAL_MODELS = (
    "dan",
    "window",
    "rnn",
    "gru",
    "lstm",
    "conv",
    "transformer-decoder",
    "transformer-encoder",
    "backpack",
)
"""Kinds that learn to guess words from those before them, transformer-encoder from those around (models/language)."""
LANGUAGE_MODELS = COUNTED_MODELS + NEURAL_MODELS
"""Kinds that are made of text alone; what each can do, its `capabilities` say."""
VECTOR_MODELS = ("word2vec", "glove")
"""Kinds that are nothing but a vector for each word (embeddings/)."""
KINDS = TRANSLATORS + ENSEMBLES + LANGUAGE_MODELS + VECTOR_MODELS


def settings(mapping: Mapping[str, Any], *, file: str | None = None) -> ModelConfig:
    """The typed settings of section `model`, by its `kind`."""
    mapping = named_by_decoder(mapping, file=file)
    kind = mapping.get("kind", "transformer")
    cls, listed = settings_class(kind, file=file), f"model{listing_option(str(kind))}"
    return build_settings(cls, mapping, section="model", file=file, listed=listed)


def usual_recipe(kind: str) -> str | None:
    """The recipe that has this kind of model and nothing else to say about it; nothing for what no recipe makes."""
    return {"mixture": None, "ensemble": None, "word2vec": "skipgram"}.get(kind, kind)


def listing_option(kind: str) -> str:
    """What makes `anaphora settings` list the settings of a kind of model: a recipe that has it."""
    recipe = usual_recipe(kind)
    return "" if recipe in (None, "transformer") else f" --recipe {recipe}"


def described_kind(model: Mapping[str, Any]) -> str:
    """What the section `model` of a config describes, in words: "a classifier (gru)"."""
    kind = model.get("kind", "transformer")
    if kind in VECTOR_MODELS:
        return f"word vectors ({kind})"
    what = "a language model" if kind in LANGUAGE_MODELS else "a translator"
    return f"{'a classifier' if model.get('labels') else what} ({kind})"


def named_by_decoder(model: Mapping[str, Any], *, file: str | None = None) -> dict[str, Any]:
    """`decoder: luong` is another way to say the kind: the decoder of that system behind this one's encoder."""
    own = dict(model)
    decoder, kind = own.pop("decoder", None), own.get("kind", "transformer")
    if decoder is None or kind not in TRANSLATORS:
        return dict(model)
    if decoder not in TRANSLATORS:
        raise UserError(f"model.decoder cannot be {decoder!r}", file=file, cure=nearest(str(decoder), TRANSLATORS))
    if decoder != kind:
        theirs = settings_class(kind)
        known = theirs(**({"cell": own["cell"]} if "cell" in own and hasattr(theirs, "cell") else {}))
        own = {"encoder": cast("TranslatorConfig", known).reads_with, **own, "kind": decoder}
    return own


def settings_class(kind: object, *, file: str | None = None) -> type[ModelConfig]:
    """The settings of one kind of model; the file that has them is imported only now."""
    if kind == "transformer":
        from anaphora.models.translation.translator_settings import TransformerConfig

        return TransformerConfig
    if kind in RECURRENT_TRANSLATORS:
        from anaphora.models.translation.recurrent import settings_of

        return settings_of(str(kind))
    if kind in CONVOLUTIONAL_TRANSLATORS:
        from anaphora.models.translation.convolutional import settings_of as convolutional_settings

        return convolutional_settings(str(kind))
    if kind in ENSEMBLES:
        from anaphora.models.translation.translator_settings import EnsembleConfig

        return EnsembleConfig
    if kind == "ngram":
        from anaphora.models.ngram.ngram_settings import NgramConfig

        return NgramConfig
    if kind == "mixture":
        from anaphora.models.composites.mixture import MixtureConfig

        return MixtureConfig
    if kind in NEURAL_MODELS:
        from anaphora.models.language.language_settings import CONFIGS

        return CONFIGS[str(kind)]
    if kind in VECTOR_MODELS:
        from anaphora.models.vectors.vector_settings import CONFIGS as VECTORS

        return VECTORS[str(kind)]
    raise UserError(f"unknown model.kind {kind!r}", file=file, cure=nearest(str(kind), KINDS))


def build(config: TranslatorConfig, source_vocabulary: int, target_vocabulary: int) -> Translator:
    """The model that the settings describe, with fresh weights from torch's generator."""
    with _as_large_as_may_be(config):
        if config.kind in RECURRENT_TRANSLATORS:
            from anaphora.models.translation.recurrent import build_recurrent

            return build_recurrent(config, source_vocabulary, target_vocabulary)
        if config.kind in CONVOLUTIONAL_TRANSLATORS:
            from anaphora.models.translation.convolutional import build_convolutional

            return build_convolutional(config, source_vocabulary, target_vocabulary)
        from anaphora.models.translation.transformer_translator import TransformerConfig, TransformerTranslator

        assert isinstance(config, TransformerConfig)
        return TransformerTranslator(config, source_vocabulary, target_vocabulary)


def build_language_model(config: LanguageConfig, vocabulary: int) -> NeuralModel:
    """The neural model that the settings describe, with fresh weights from torch's generator: a classifier where they
    have labels."""
    from anaphora.models.language.causal import NeuralLanguageModel
    from anaphora.models.language.classifier import TextClassifier
    from anaphora.models.language.language_settings import BackpackConfig, TransformerEncoderConfig
    from anaphora.models.language.masked import MaskedLanguageModel

    with _as_large_as_may_be(config):
        if config.labels:
            return TextClassifier(config, vocabulary)
        if isinstance(config, TransformerEncoderConfig):
            return MaskedLanguageModel(config, vocabulary)
        if isinstance(config, BackpackConfig):
            from anaphora.models.backpack.backpack import Backpack

            return Backpack(config, vocabulary)
        return NeuralLanguageModel(config, vocabulary)


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
    from anaphora.files.foreign import is_there
    from anaphora.folder import WEIGHTS, read_config

    if config.kind == "ngram":
        from anaphora.models.ngram.ngram_file import read_trie
        from anaphora.models.ngram.ngram_model import NgramModel

        if not is_there(folder / WEIGHTS):
            raise UserError(
                "holds no model yet", file=folder, cure="repeat the `anaphora train` command and let it come to its end"
            )
        return NgramModel(config, read_trie(folder / WEIGHTS, verify=verify))
    if config.kind == "mixture":
        from anaphora.models.composites.mixture import Mixture

        parts = []
        for name in config.parts:
            inside = settings(read_config(folder / name).get("model") or {}, file=str(folder / name / "config.yaml"))
            part = read_language_model(inside, folder / name, verify=verify, device=device)
            if "causal" not in part.capabilities:
                raise UserError(f"{name} gives no text its probability", file=folder, cure="mix language models")
            parts.append(cast("LanguageModel", part))
        try:
            return Mixture(parts, config.weights, config.parts)
        except UserError as error:
            raise UserError(error.what, file=folder, cure=error.cure) from None
    if config.kind in NEURAL_MODELS:
        return _read_neural(cast("NeuralConfig", config), folder, verify=verify).to(device)
    what = "word vectors" if config.kind in VECTOR_MODELS else "a translator"
    raise UserError(f"is {what} ({config.kind}), not a language model", file=folder)


def _read_neural(config: NeuralConfig, folder: Path, *, verify: bool) -> NeuralModel:
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
    vocabulary = len(table)
    if config.kind == "transformer-encoder" and config.mask is None:
        vocabulary -= 1  # the last row is ⟨mask⟩
    with no_larger_than(weights, file):
        model = build_language_model(config, vocabulary)
    load_weights(model, weights, file=file)
    return model.eval().requires_grad_(False)
