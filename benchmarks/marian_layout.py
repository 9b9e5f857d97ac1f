"""A translator of ours as `transformers`' MarianMTModel, number for number: the twin that the benchmarks run against.

Marian is a post-norm Transformer with sinusoidal positions: a recipe takes part with `model.norm=post`. Names change,
the product that gives queries, keys and values together is cut into three, and one thing is moved: we interleave sines
and cosines as published, Marian keeps all sines in front. Nothing in the network minds the order of the residual
stream's dimensions as long as everybody agrees on it, so every weight that writes to the stream or reads from it is
permuted, exactly, and the twin needs no table of positions of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anaphora.models.translation.transformer_translator import Transformer
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    from transformers import MarianConfig, MarianMTModel

STREAM_IN = ("query_key_value.weight", "query.weight", "key_value.weight", "inner.weight")  # read the stream
STREAM_OUT = ("out.weight", "out.bias", "outer.weight", "outer.bias", "norm.weight", "norm.bias")  # write it


def marian_twin(model: Transformer) -> MarianMTModel:
    """The same function of the same tokens: logits agree to rounding (tests/benchmarks/test_marian_layout.py)."""
    from transformers import MarianMTModel

    c = model.config
    plain = (c.positions, c.score, c.normalizer) == ("sinusoidal", "scaled-dot", "softmax")
    if c.norm != "post" or not plain or c.window or c.shared_heads != c.heads:
        raise SystemExit("Marian is post-norm with sinusoidal positions and full attention: train with model.norm=post")
    twin = MarianMTModel(marian_config(model))
    missing, unexpected = twin.load_state_dict(marian_weights(model), strict=False)
    left = [name for name in missing if "embed_positions" not in name and name != "final_logits_bias"]
    if left or unexpected:
        raise SystemExit(f"this transformers lays Marian out otherwise: {left[:3]} missing, {unexpected[:3]} unknown")
    twin.generation_config.forced_eos_token_id = twin.generation_config.bad_words_ids = None
    return twin.eval()


def marian_config(model: Transformer, **changes: Any) -> MarianConfig:
    """As wide, as deep, with as many words."""
    from transformers import MarianConfig

    c = model.config
    settings = {
        "vocab_size": model.source_embedding.table.num_embeddings,
        "decoder_vocab_size": model.target_embedding.table.num_embeddings,
        "max_position_embeddings": c.max_length,
        "d_model": c.dim,
        "encoder_layers": c.layers,
        "decoder_layers": c.decoder_layers or c.layers,
        "encoder_attention_heads": c.heads,
        "decoder_attention_heads": c.heads,
        "encoder_ffn_dim": c.feed_forward,
        "decoder_ffn_dim": c.feed_forward,
        "activation_function": c.activation,
        "dropout": c.dropout,
        "attention_dropout": c.attention_dropout,
        "activation_dropout": c.activation_dropout,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": c.tie == "all",
        "tie_word_embeddings": c.tie != "none",
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    return MarianConfig(**{**settings, **changes})


def marian_weights(model: Transformer) -> dict[str, Tensor]:
    """Our weights under Marian's names, the residual stream with all its sines in front."""
    dim = model.config.dim
    order = torch.cat([torch.arange(0, dim, 2), torch.arange(1, dim, 2)])
    ours = {name: _permuted(name, weight.detach(), order) for name, weight in model.state_dict().items()}
    theirs = {"lm_head.weight": ours["projection.weight"]}
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        theirs[f"model.{stack}.embed_tokens.weight"] = ours[f"{side}_embedding.table.weight"]
    if model.config.tie == "all":
        theirs["model.shared.weight"] = theirs["lm_head.weight"]

    norms = {"attention": "self_attn_layer_norm", "cross_attention": "encoder_attn_layer_norm"}
    norms["feed_forward"] = "final_layer_norm"
    renamed = {"out": "out_proj", "query": "q_proj", "inner": "fc1", "outer": "fc2"}
    for name, weight in ours.items():
        stack, *path = name.split(".")
        if stack not in ("encoder", "decoder"):
            continue
        _, number, part, layer, kind = path  # blocks.3.cross_attention.key_value.weight
        block = f"model.{stack}.layers.{number}"
        if layer == "norm":
            theirs[f"{block}.{norms[part.removeprefix('around_')]}.{kind}"] = weight
            continue
        where = {"attention": ".self_attn", "cross_attention": ".encoder_attn", "feed_forward": ""}[part]
        if layer in renamed:
            theirs[f"{block}{where}.{renamed[layer]}.{kind}"] = weight
        else:  # query_key_value or key_value: products that we do together
            for letter, piece in zip(layer.split("_"), weight.chunk(layer.count("_") + 1)):
                theirs[f"{block}{where}.{letter[0]}_proj.{kind}"] = piece
    return {name: weight.clone() for name, weight in theirs.items()}


def _permuted(name: str, weight: Tensor, order: Tensor) -> Tensor:
    if name.endswith(STREAM_OUT):
        return weight[order]
    if name.endswith(STREAM_IN) or name.endswith(("table.weight", "projection.weight")):
        return weight[:, order]
    return weight
