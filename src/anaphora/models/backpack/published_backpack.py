"""The weights of `stanfordnlp/backpack-gpt2` under their published names, both ways.

Three flavors of names are read, and the numbers are the same in all of them:

    the class of the Hugging Face hub     backpack.gpt2_model.…, backpack.sense_network.…; one table under up to three
                                          names; matrices of Conv1D, (in, out), but one of Linear, (out, in)
    a safetensors file of it              the same, where of names for one memory any may have stayed
    the training code's checkpoint        model.transformer.gpt2_model.…, content_model.…; all (out, in), and a block's
                                          norms counted from the one before it

Other models have names like these and compute something else; what can be told from their settings, names and shapes is
refused: levanter's divides the sum by the number of senses, nanoBackpackLM has no bias on queries and keys, no 1/√ of
their width, and norms over all senses at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.backpack_settings import BackpackConfig
from anaphora.models.language.published_weights import CAUSAL_MASKS, Name, linear_names
from anaphora.models.weights import check_numbers

ARCHITECTURE = "BackpackGPT2LMHeadModel"
PREFIX, TRAINED = "backpack.", "model.transformer."
WORDS = ("backpack.gpt2_model.wte.weight", "backpack.word_embeddings.weight", "lm_head.weight")
"""The table of words, by any of its names."""
PLACES = ("backpack.gpt2_model.wpe.weight", "backpack.position_embeddings.weight")
SHAPE: dict[str, Any] = {
    "encoder": "transformer-decoder",
    "norm": "pre",
    "activation": "gelu-tanh",
    "positions": "learned",
    "score": "scaled-dot",
    "normalizer": "softmax",
    "experts": None,
    "scale_embedding": False,
    "window": None,
    "sense_window": None,
}
"""Settings that must be so for a Backpack to have published names."""


def backpack_names(layers: int) -> list[Name]:
    """Every tensor of BackpackGPT2LMHeadModel."""
    body, senses = f"{PREFIX}gpt2_model", f"{PREFIX}sense_network"
    names = [
        Name("embedding.table.weight", (WORDS[0],)),
        Name("embedding.positions", (PLACES[0],)),
        *linear_names("encoder.norm", f"{body}.ln_f"),
        *linear_names("sense_network.norm", f"{senses}.ln"),
        *linear_names("sense_network.inner_norm", f"{senses}.block.ln_1"),
        *linear_names("sense_network.outer_norm", f"{senses}.block.ln_2"),
        *linear_names("sense_network.inner", f"{senses}.block.mlp.c_fc", turned=True),
        *linear_names("sense_network.outer", f"{senses}.block.mlp.c_proj", turned=True),
        *linear_names("sense_network.last_inner", f"{senses}.final_mlp.c_fc", turned=True),
        *linear_names("sense_network.last_outer", f"{senses}.final_mlp.c_proj", turned=True),
        *linear_names("query_key", f"{PREFIX}sense_weight_net.c_attn"),  # the one Linear
    ]
    for number in range(layers):
        ours, theirs = f"encoder.blocks.{number}", f"{body}.h.{number}"
        names += linear_names(f"{ours}.around_attention.norm", f"{theirs}.ln_1")
        names += linear_names(f"{ours}.attention.query_key_value", f"{theirs}.attn.c_attn", turned=True)
        names += linear_names(f"{ours}.attention.out", f"{theirs}.attn.c_proj", turned=True)
        names += linear_names(f"{ours}.around_feed_forward.norm", f"{theirs}.ln_2")
        names += linear_names(f"{ours}.feed_forward.inner", f"{theirs}.mlp.c_fc", turned=True)
        names += linear_names(f"{ours}.feed_forward.outer", f"{theirs}.mlp.c_proj", turned=True)
    return names


def trained_names(layers: int) -> list[Name]:
    """The same in the checkpoints of the training code, which has flash-attn's blocks: a norm stands behind what it
    follows, so that the one before the first block is `ln_0`, and the last one is what GPT-2 calls `ln_f`."""
    body, senses = f"{TRAINED}gpt2_model", f"{TRAINED}content_model"
    names = [
        Name("embedding.table.weight", (f"{body}.embeddings.word_embeddings.weight",)),
        Name("embedding.positions", (f"{body}.embeddings.position_embeddings.weight",)),
        *linear_names("sense_network.norm", f"{senses}.ln_0"),
        *linear_names("sense_network.inner_norm", f"{senses}.layers.0.norm1"),
        *linear_names("sense_network.outer_norm", f"{senses}.layers.0.norm2"),
        *linear_names("sense_network.inner", f"{senses}.layers.0.mlp.fc1"),
        *linear_names("sense_network.outer", f"{senses}.layers.0.mlp.fc2"),
        *linear_names("sense_network.last_inner", f"{senses}.final_mlp.fc1"),
        *linear_names("sense_network.last_outer", f"{senses}.final_mlp.fc2"),
        *linear_names("query_key", f"{TRAINED}contextualization_attn.Wqkv"),
        *linear_names("encoder.blocks.0.around_attention.norm", f"{body}.ln_0"),
    ]
    for number in range(layers):
        ours, theirs = f"encoder.blocks.{number}", f"{body}.layers.{number}"
        following = f"encoder.blocks.{number + 1}.around_attention.norm" if number + 1 < layers else "encoder.norm"
        names += linear_names(f"{ours}.attention.query_key_value", f"{theirs}.mixer.Wqkv")
        names += linear_names(f"{ours}.attention.out", f"{theirs}.mixer.out_proj")
        names += linear_names(f"{ours}.around_feed_forward.norm", f"{theirs}.norm1")
        names += linear_names(f"{ours}.feed_forward.inner", f"{theirs}.mlp.fc1")
        names += linear_names(f"{ours}.feed_forward.outer", f"{theirs}.mlp.fc2")
        names += linear_names(following, f"{theirs}.norm2")
    return names


# -- settings ----------------------------------------------------------------------------------------------------------


def is_backpack(document: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a Backpack, or of something that calls itself one."""
    said = [*(document.get("architectures") or []), document.get("model_type"), *document]
    return any("backpack" in str(one).lower() or one in ("num_senses", "num_content_vectors") for one in said)


def published_backpack_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Section `model` for the config.json beside published weights; a UserError for a model that is another one."""
    if document.get("model_type") == "backpack-gpt2" or "BackpackLMHeadModel" in (document.get("architectures") or []):
        raise UserError(
            "this is levanter's Backpack, which divides its sum by the number of senses: another model under the same "
            "names",
            cure=f"give one of the class {ARCHITECTURE}, such as stanfordnlp/backpack-gpt2",
        )
    senses = document.get("num_senses", document.get("num_content_vectors"))
    if not isinstance(senses, int) or senses < 1:
        raise UserError("its settings do not say how many senses a word has (num_senses)", cure="give that number")
    wanted = {
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "scale_attn_weights": (True,),
        "add_cross_attention": (False,),
        "tie_word_embeddings": (True,),
        "rotary_emb_fraction": (0, 0.0),
        "sense_intermediate_scale": (4,),  # of the class, it widens one of the two networks that make senses
    }
    for key, allowed in wanted.items():
        if key in document and document[key] not in allowed:
            raise UserError(
                f"its settings say {key}={document[key]!r}, which no published Backpack has",
                cure=f"{key} must be {' or '.join(map(repr, allowed))}",
            )
    dim = int(document.get("n_embd", 768))
    if dim % senses:
        raise UserError(
            f"{senses} senses do not divide {dim} numbers (num_senses, n_embd)", cure="give its config.json"
        )
    known = ARCHITECTURE in (document.get("architectures") or [])
    inverse = document.get("scale_attn_by_inverse_layer_idx", True if known else None)  # of the class: unless said
    if not isinstance(inverse, bool):
        raise UserError(
            "its settings do not say whether attention is divided by the layer's number "
            "(scale_attn_by_inverse_layer_idx)",
            cure="write true or false there; stanfordnlp/backpack-gpt2 has true",
        )
    return {
        **SHAPE,
        "kind": "backpack",
        "senses": senses,
        "sense_feed_forward": 4 * dim,
        "dim": dim,
        "layers": int(document.get("n_layer", 12)),
        "heads": int(document.get("n_head", 12)),
        "feed_forward": document.get("n_inner") or 4 * dim,
        "max_length": int(document.get("n_positions", 512)),
        "epsilon": float(document.get("layer_norm_epsilon", 1e-5)),
        "inverse_layer_scale": inverse,
        "dropout": float(document.get("resid_pdrop", 0.1)),
        "input_dropout": float(document.get("embd_pdrop", 0.1)),
        "attention_dropout": float(document.get("attn_pdrop", 0.1)),
        "initial": "normal",
    }


def published_document(model: Backpack, *, end: int) -> dict[str, Any]:
    """The config.json of a Backpack; end: the token that stands between texts."""
    config = checked(model)
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "attn_pdrop": config.attention_dropout,
        "bos_token_id": end,
        "embd_pdrop": config.input_dropout or config.dropout,
        "eos_token_id": end,
        "initializer_range": 0.02,
        "layer_norm_epsilon": config.epsilon,
        "n_embd": config.dim,
        "n_head": config.heads,
        "n_inner": None if config.feed_forward in (None, 4 * config.dim) else config.feed_forward,
        "n_layer": config.layers,
        "n_positions": config.max_length,
        "num_senses": config.senses,
        "reorder_and_upcast_attn": False,
        "resid_pdrop": config.dropout,
        "scale_attn_by_inverse_layer_idx": bool(config.inverse_layer_scale),
        "scale_attn_weights": True,
        "sense_intermediate_scale": 4,
        "use_cache": True,
        "vocab_size": model.vocabulary - len(config.silent),
    }


def checked(model: Backpack) -> BackpackConfig:
    """The settings of a Backpack that has the published shape, at any size; a UserError for any other."""
    config = cast(BackpackConfig, model.config)  # whose encoder must be the published one
    other = [key for key, value in SHAPE.items() if getattr(config, key, None) != value]
    other = ["encoder"] if "encoder" in other else other  # whose settings are others
    if other:
        own = ", ".join(f"model.{key}={getattr(config, key)}" for key in other)
        theirs = ", ".join(f"{key}={SHAPE[key]}" for key in other)
        raise UserError(f"a Backpack with {own} has no published names", cure=f"published ones have {theirs}")
    if config.key_value_heads not in (None, config.heads):
        raise UserError("published Backpacks have no shared key heads", cure="leave model.key_value_heads out")
    if config.sense_feed_forward not in (None, 4 * config.dim):
        raise UserError(
            f"a Backpack with model.sense_feed_forward={config.sense_feed_forward} has no published names",
            cure=f"published ones have four times dim, {4 * config.dim}",
        )
    return config


# -- weights -----------------------------------------------------------------------------------------------------------


def published_backpack_weights(model: Backpack) -> dict[str, Tensor]:
    """The weights of a Backpack under the names of the Hugging Face class, each memory once."""
    own = model.state_dict()
    names = backpack_names(checked(model).layers)
    turned = {name.theirs[0]: own[name.ours].detach().t() if name.turned else own[name.ours] for name in names}
    return {name: tensor.detach().contiguous() for name, tensor in turned.items()}


def load_published_backpack(model: Backpack, weights: Mapping[str, Tensor]) -> None:
    """Put published weights, of any flavor, into a Backpack of their shape. Whatever is missing, left over or of
    another shape is an error: it would be another model."""
    layers, given = checked(model).layers, plainly_named(weights)
    names = trained_names(layers) if any(name.startswith(TRAINED) for name in given) else backpack_names(layers)
    _refuse_others(given)
    known = {name.theirs[0] for name in names}
    odd = [*sorted(known - given.keys()), *sorted(given.keys() - known)]
    if odd:
        raise UserError(
            f"the weights do not have the model's shape ({', '.join(odd[:3])}, …)",
            cure="give the config.json of the model that they were made by",
        )
    own = model.state_dict()
    with torch.no_grad():
        for name in names:
            tensor = given[name.theirs[0]]
            whole = tensor.t() if name.turned else tensor
            if whole.shape != own[name.ours].shape:
                raise UserError(
                    f"{name.theirs[0]} has shape {list(tensor.shape)}, where the settings mean "
                    f"{list(own[name.ours].t().shape if name.turned else own[name.ours].shape)}",
                    cure="give the config.json of the model that they were made by",
                )
            check_numbers(name.theirs[0], whole, own[name.ours].dtype)
            own[name.ours].copy_(whole)


def plainly_named(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every memory under one name: aliases of tied tables, of which any may be there, and no masks. Aliases that hold
    other numbers than the table are refused: then it is not tied, and the model another one."""
    given = {name: tensor for name, tensor in weights.items() if not name.endswith(CAUSAL_MASKS)}
    body = f"{TRAINED}gpt2_model.embeddings"
    tied = [WORDS, PLACES, (f"{body}.word_embeddings.weight", "model.lm_head.weight")]
    if any(name.startswith(TRAINED) for name in given):
        copies = [name for name in given if name.startswith(f"{TRAINED}content_model.embeddings.")]
        tied.append((f"{body}.word_embeddings.weight", *copies))
    for first, *others in tied:
        there = [given.pop(name) for name in (first, *others) if name in given]
        if not there:
            continue
        if any(other.shape != there[0].shape or not torch.equal(other, there[0]) for other in there[1:]):
            raise UserError(
                f"{first} is not the same table under its other names ({', '.join(others)})",
                cure="published Backpacks have one table for all three",
            )
        given[first] = there[0]
    return given


def _refuse_others(given: Mapping[str, Tensor]) -> None:
    """What computes something else under like names."""
    joint = next((name for name in given if name.endswith(("sense_weight_net.c_attn.weight",))), None)
    if joint is not None and joint.replace(".weight", ".bias") not in given:
        raise UserError(
            "its queries and keys of senses have no bias, as nanoBackpackLM's: that is another model",
            cure=f"give one of the class {ARCHITECTURE}",
        )
    if any(name.startswith(("transformer.h.", "transformer.wte.", "_orig_mod.")) for name in given):
        raise UserError(
            "its names are those of nanoGPT or GPT-2, not of a published Backpack (nanoBackpackLM computes something "
            "else)",
            cure=f"give one of the class {ARCHITECTURE}",
        )
