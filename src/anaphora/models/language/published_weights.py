"""The weights of GPT-2 and BERT under their published names, both ways.

GPT-2's shape is a `transformer-decoder`, BERT's a `transformer-encoder` (settings.GPT2, settings.BERT). The numbers are
the same, their names and their layout are not:

    GPT-2 stores matrices as (in, out)                    they are turned
    BERT has queries, keys and values apart               they are joined below one another

Names are those of `GPT2LMHeadModel`, `BertForMaskedLM` and `BertModel` of the library transformers; files without the
first part of each name (`transformer.`, `bert.`), as the first ones were published, are read too. Tied tables may stand
there once or twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models.language.reader import Reader
from anaphora.models.language.transformer_language import BERT, GPT2, TransformerLanguageConfig

if TYPE_CHECKING:
    from anaphora.models.language.masked import MaskedLM

CAUSAL_MASKS = (".attn.bias", ".attn.masked_bias", "embeddings.position_ids")
"""How the names of tensors end that old files have and that hold nothing learned."""
SHAPE = ("norm", "activation", "positions", "tie", "output_bias", "scale_embedding")
"""Settings that must be as published for a model to have published names."""


@dataclass(frozen=True)
class Form:
    """What models of one shape are called and look like where they were published."""

    system: str
    preset: Mapping[str, Any]
    keys: tuple[str, ...]
    """Settings that must be those of the preset."""
    first: str
    """What names begin with, but for those of heads."""


FROM_LEFT_TO_RIGHT = Form("GPT-2", GPT2, SHAPE, "transformer.")
MASKED = Form("BERT", BERT, (*SHAPE, "embedding_norm", "transform"), "bert.")


def form_of(model: Reader) -> Form:
    """GPT-2's for what guesses the next word, BERT's for what guesses hidden ones."""
    return MASKED if "masked" in model.capabilities else FROM_LEFT_TO_RIGHT


@dataclass(frozen=True)
class Name:
    """One tensor of ours and the published ones that it is made of."""

    ours: str
    theirs: tuple[str, ...]
    """More than one: below one another in ours."""
    turned: bool = False
    """(in, out) there, (out, in) here."""


def linear_names(ours: str, *theirs: str, turned: bool = False) -> list[Name]:
    """A layer's weight and bias."""
    weight = Name(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), turned)
    return [weight, Name(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs))]


def gpt2_names(layers: int) -> list[Name]:
    """Every tensor of GPT2LMHeadModel."""
    names = [
        Name("embedding.table.weight", ("transformer.wte.weight",)),
        Name("embedding.positions", ("transformer.wpe.weight",)),
        *linear_names("encoder.norm", "transformer.ln_f"),
    ]
    for number in range(layers):
        ours, theirs = f"encoder.blocks.{number}", f"transformer.h.{number}"
        names += linear_names(f"{ours}.around_attention.norm", f"{theirs}.ln_1")
        names += linear_names(f"{ours}.attention.query_key_value", f"{theirs}.attn.c_attn", turned=True)
        names += linear_names(f"{ours}.attention.out", f"{theirs}.attn.c_proj", turned=True)
        names += linear_names(f"{ours}.around_feed_forward.norm", f"{theirs}.ln_2")
        names += linear_names(f"{ours}.feed_forward.inner", f"{theirs}.mlp.c_fc", turned=True)
        names += linear_names(f"{ours}.feed_forward.outer", f"{theirs}.mlp.c_proj", turned=True)
    return names


def bert_names(layers: int, *, pooler: bool) -> list[Name]:
    """Every tensor of BertForMaskedLM, and, where there is a pooler, of BertModel."""
    names = [
        Name("embedding.table.weight", ("bert.embeddings.word_embeddings.weight",)),
        Name("embedding.positions", ("bert.embeddings.position_embeddings.weight",)),
        Name("token_types.weight", ("bert.embeddings.token_type_embeddings.weight",)),
        *linear_names("embedding_norm", "bert.embeddings.LayerNorm"),
        *linear_names("transform.0", "cls.predictions.transform.dense"),
        *linear_names("transform.2", "cls.predictions.transform.LayerNorm"),
        Name("vocabulary_head.bias", ("cls.predictions.bias",)),
    ]
    if pooler:
        names += linear_names("pooler", "bert.pooler.dense")
    for number in range(layers):
        ours, theirs = f"encoder.blocks.{number}", f"bert.encoder.layer.{number}"
        each = [f"{theirs}.attention.self.{what}" for what in ("query", "key", "value")]
        names += linear_names(f"{ours}.attention.query_key_value", *each)
        names += linear_names(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        names += linear_names(f"{ours}.around_attention.norm", f"{theirs}.attention.output.LayerNorm")
        names += linear_names(f"{ours}.feed_forward.inner", f"{theirs}.intermediate.dense")
        names += linear_names(f"{ours}.feed_forward.outer", f"{theirs}.output.dense")
        names += linear_names(f"{ours}.around_feed_forward.norm", f"{theirs}.output.LayerNorm")
    return names


TIED = {
    "lm_head.weight": "transformer.wte.weight",
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
"""Names of what is the same memory as another."""


def published_names(model: Reader) -> list[Name]:
    """The published name of every tensor of a model that has the shape of GPT-2 or BERT, at any size."""
    form, config = form_of(model), cast(TransformerLanguageConfig, model.config)
    for key in form.keys:
        if getattr(config, key, None) != form.preset[key]:
            raise UserError(
                f"a model of kind {config.kind} with {key}={getattr(config, key, None)} has no name in {form.system}",
                cure=f"{form.system} has {key}={form.preset[key]}",
            )
    if config.shared_heads != config.heads:
        raise UserError(f"{form.system} has no shared key heads", cure="leave model.key_value_heads out")
    if config.experts is not None:
        raise UserError(f"{form.system} has no experts", cure="leave model.experts out")
    if (config.score, config.normalizer) != ("scaled-dot", "softmax"):
        what = f"{form.system} has scaled-dot scores and softmax"
        raise UserError(what, cure="leave model.score and model.normalizer out")
    if config.window is not None:
        raise UserError(f"{form.system} attends to all places, not to a window of them", cure="leave model.window out")
    if form is FROM_LEFT_TO_RIGHT:
        return gpt2_names(config.layers)
    model = cast("MaskedLM", model)
    if model.token_types is None or model.mask_id >= model.vocabulary:
        raise UserError(
            "BERT has token types, and ⟨mask⟩ within its vocabulary",
            cure="set model.token_types=2 and model.mask to the token that hides a word",
        )
    return bert_names(config.layers, pooler=model.pooler is not None)


def published_weights(model: Reader) -> dict[str, Tensor]:
    """The weights of a model under their published names, each memory once."""
    own, found = model.state_dict(), {}
    for name in published_names(model):
        tensor = own[name.ours].detach()
        for theirs, part in zip(name.theirs, tensor.chunk(len(name.theirs))):
            found[theirs] = (part.t() if name.turned else part).contiguous()
    return found


def load_published(model: Reader, weights: Mapping[str, Tensor]) -> list[str]:
    """Put published weights into a model of their shape. Returns the names of ours that the file does not have: those
    of the head where it is a BertModel, or of the pooler where it is a BertForMaskedLM. Any other gap is an error."""
    first = form_of(model).first
    heads = ("cls.", "lm_head.")
    given = {
        name if name.startswith((first, *heads)) else first + name: tensor
        for name, tensor in weights.items()
        if not name.endswith(CAUSAL_MASKS)
    }
    names = published_names(model)
    known = {theirs for name in names for theirs in name.theirs}
    optional = ("cls.", "bert.pooler.")
    missing = [name for name in names if not all(theirs in given for theirs in name.theirs)]
    wrong = [theirs for name in missing for theirs in name.theirs if not theirs.startswith(optional)]
    wrong += [name for name in given if name not in known and name not in TIED and not name.startswith(optional)]
    if wrong:
        raise UserError(
            f"the weights do not have the model's shape ({', '.join(sorted(wrong)[:3])}, …)",
            cure="take the settings of the model that they were made by: layers, tie, pooler",
        )
    own = model.state_dict()
    with torch.no_grad():
        for name in names:
            if name in missing:
                continue
            parts = [given[theirs].t() if name.turned else given[theirs] for theirs in name.theirs]
            whole = torch.cat(parts) if len(parts) > 1 else parts[0]
            if whole.shape != own[name.ours].shape:
                raise UserError(
                    f"{name.theirs[0]} has shape {list(given[name.theirs[0]].shape)}, which does not fit {name.ours},"
                    f" {list(own[name.ours].shape)}",
                    cure="take the settings of the model that they were made by: dim, max_length, vocabulary",
                )
            own[name.ours].copy_(whole)
    return [name.ours for name in missing]


def published_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Section `model` for the config.json that stands beside published weights."""
    activations = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}
    kind = document.get("model_type")
    if kind == "gpt2":
        given = {
            "dim": document.get("n_embd", 768),
            "layers": document.get("n_layer", 12),
            "heads": document.get("n_head", 12),
            "feed_forward": document.get("n_inner"),
            "max_length": document.get("n_positions", 1024),
            "epsilon": document.get("layer_norm_epsilon", 1e-5),
            "activation": activations.get(document.get("activation_function", "gelu_new")),
            "inverse_layer_scale": bool(document.get("scale_attn_by_inverse_layer_idx", False)),
        }
        return GPT2 | given
    if kind == "bert":
        given = {
            "dim": document.get("hidden_size", 768),
            "layers": document.get("num_hidden_layers", 12),
            "heads": document.get("num_attention_heads", 12),
            "feed_forward": document.get("intermediate_size", 3072),
            "max_length": document.get("max_position_embeddings", 512),
            "epsilon": document.get("layer_norm_eps", 1e-12),
            "token_types": document.get("type_vocab_size", 2),
            "activation": activations.get(document.get("hidden_act", "gelu")),
        }
        return BERT | given
    raise UserError(f"models of type {kind!r} are not known here", cure="give GPT-2's config.json, or BERT's")
