"""Random weights of a small Backpack under its three flavors of published names; what it says, computed plainly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from anaphora.tokenizers.tokenizer import SPECIALS, Tokenizer

DIM, LAYERS, HEADS, SENSES, WORDS, PLACES = 24, 3, 2, 4, 41, 16
DOCUMENT: dict[str, Any] = {
    "architectures": ["BackpackGPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "bos_token_id": 40,
    "eos_token_id": 40,
    "layer_norm_epsilon": 1e-5,
    "n_embd": DIM,
    "n_head": HEADS,
    "n_inner": None,
    "n_layer": LAYERS,
    "n_positions": PLACES,
    "num_senses": SENSES,
    "scale_attn_by_inverse_layer_idx": True,
    "scale_attn_weights": True,
    "sense_intermediate_scale": 4,
    "vocab_size": WORDS,
}


def published(words: int = WORDS) -> dict[str, Tensor]:
    """Random weights under the names of the class of the hub, one table under three of them, masks among them."""
    generator, found = torch.Generator().manual_seed(3), {}

    def put(name: str, *shape: int, mean: float = 0.0) -> None:
        found[f"backpack.{name}"] = torch.randn(*shape, generator=generator) * 0.3 + mean

    def layer(name: str, *shape: int) -> None:
        put(f"{name}.weight", *shape, mean=1.0 if len(shape) == 1 else 0.0)
        put(f"{name}.bias", shape[-1])

    put("gpt2_model.wte.weight", words, DIM)
    put("gpt2_model.wpe.weight", PLACES, DIM)
    for number in range(LAYERS):
        block = f"gpt2_model.h.{number}"
        layer(f"{block}.ln_1", DIM)
        layer(f"{block}.ln_2", DIM)
        layer(f"{block}.attn.c_attn", DIM, 3 * DIM)
        layer(f"{block}.attn.c_proj", DIM, DIM)
        layer(f"{block}.mlp.c_fc", DIM, 4 * DIM)
        layer(f"{block}.mlp.c_proj", 4 * DIM, DIM)
        found[f"backpack.{block}.attn.bias"] = torch.ones(1, 1, PLACES, PLACES, dtype=torch.bool).tril()
        found[f"backpack.{block}.attn.masked_bias"] = torch.tensor(-1e4)
    layer("gpt2_model.ln_f", DIM)
    for name in ("ln", "block.ln_1", "block.ln_2"):
        layer(f"sense_network.{name}", DIM)
    layer("sense_network.block.mlp.c_fc", DIM, 4 * DIM)
    layer("sense_network.block.mlp.c_proj", 4 * DIM, DIM)
    layer("sense_network.final_mlp.c_fc", DIM, 4 * DIM)
    layer("sense_network.final_mlp.c_proj", 4 * DIM, SENSES * DIM)
    put("sense_weight_net.c_attn.weight", 2 * DIM, DIM)  # a Linear: out, in
    put("sense_weight_net.c_attn.bias", 2 * DIM)
    found["backpack.word_embeddings.weight"] = found["lm_head.weight"] = found["backpack.gpt2_model.wte.weight"]
    found["backpack.position_embeddings.weight"] = found["backpack.gpt2_model.wpe.weight"]
    return found


def plainly(w: dict[str, Tensor], ids: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (T, V) and α (k, T, T) of ids (T,), from the published names and nothing else."""
    length, later = len(ids), torch.ones(len(ids), len(ids)).triu(1).bool()

    def conv1d(x: Tensor, name: str) -> Tensor:
        return x @ w[f"backpack.{name}.weight"] + w[f"backpack.{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (DIM,), w[f"backpack.{name}.weight"], w[f"backpack.{name}.bias"], 1e-5)

    def mlp(x: Tensor, name: str) -> Tensor:
        return conv1d(F.gelu(conv1d(x, f"{name}.c_fc"), approximate="tanh"), f"{name}.c_proj")

    def softmax(query: Tensor, key: Tensor, scale: float) -> Tensor:
        return ((query @ key.transpose(-1, -2)) * scale).masked_fill(later, -1e4).softmax(-1)

    table = w["backpack.gpt2_model.wte.weight"]
    x = table[ids] + w["backpack.gpt2_model.wpe.weight"][:length]
    for number in range(LAYERS):
        block, size = f"gpt2_model.h.{number}", DIM // HEADS
        parts = conv1d(norm(x, f"{block}.ln_1"), f"{block}.attn.c_attn").split(DIM, dim=-1)
        query, key, value = (part.view(length, HEADS, size).transpose(0, 1) for part in parts)
        looked = softmax(query, key, size**-0.5 / (number + 1)) @ value
        x = x + conv1d(looked.transpose(0, 1).reshape(length, DIM), f"{block}.attn.c_proj")
        x = x + mlp(norm(x, f"{block}.ln_2"), f"{block}.mlp")
    x = norm(x, "gpt2_model.ln_f")
    joint = x @ w["backpack.sense_weight_net.c_attn.weight"].T + w["backpack.sense_weight_net.c_attn.bias"]
    query, key = joint.view(length, 2, SENSES, DIM // SENSES).unbind(1)
    alpha = softmax(query.transpose(0, 1), key.transpose(0, 1), (DIM // SENSES) ** -0.5)  # (k, T, T)
    r = table[ids]
    r = r + norm(r, "sense_network.ln")
    r = r + mlp(norm(r, "sense_network.block.ln_1"), "sense_network.block.mlp")
    senses = mlp(norm(r, "sense_network.block.ln_2"), "sense_network.final_mlp").view(length, SENSES, DIM)
    o = sum(alpha[sense] @ senses[:, sense] for sense in range(SENSES))
    return o @ table.T, alpha


def as_safetensors(w: dict[str, Tensor], kept: str) -> dict[str, Tensor]:
    """Of each memory one name, and no masks, as such a file has it."""
    aliases = {"backpack.gpt2_model.wte.weight", "backpack.word_embeddings.weight", "lm_head.weight"}
    others = (
        {"backpack.position_embeddings.weight"} if kept.endswith("wte.weight") else {"backpack.gpt2_model.wpe.weight"}
    )
    return {
        name: tensor
        for name, tensor in w.items()
        if (name not in aliases or name == kept) and name not in others and ".attn.bias" not in name
    }


def as_trained(w: dict[str, Tensor]) -> dict[str, Tensor]:
    """Under the names of the training code: matrices (out, in), norms counted from the block before."""
    found: dict[str, Tensor] = {}

    def put(theirs: str, name: str) -> None:
        for what in ("weight", "bias"):
            tensor = w[f"backpack.{name}.{what}"]
            turned = tensor.dim() == 2 and "sense_weight_net" not in name
            found[f"model.transformer.{theirs}.{what}"] = tensor.t().contiguous() if turned else tensor

    embeddings = "model.transformer.gpt2_model.embeddings"
    found[f"{embeddings}.word_embeddings.weight"] = w["lm_head.weight"]
    found[f"{embeddings}.position_embeddings.weight"] = w["backpack.gpt2_model.wpe.weight"]
    found["model.lm_head.weight"] = w["lm_head.weight"]
    norms = [f"h.{number}.{norm}" for number in range(LAYERS) for norm in ("ln_1", "ln_2")] + ["ln_f"]
    put("gpt2_model.ln_0", f"gpt2_model.{norms[0]}")
    for number in range(LAYERS):
        ours, theirs = f"gpt2_model.h.{number}", f"gpt2_model.layers.{number}"
        put(f"{theirs}.mixer.Wqkv", f"{ours}.attn.c_attn")
        put(f"{theirs}.mixer.out_proj", f"{ours}.attn.c_proj")
        put(f"{theirs}.mlp.fc1", f"{ours}.mlp.c_fc")
        put(f"{theirs}.mlp.fc2", f"{ours}.mlp.c_proj")
        put(f"{theirs}.norm1", f"gpt2_model.{norms[2 * number + 1]}")
        put(f"{theirs}.norm2", f"gpt2_model.{norms[2 * number + 2]}")
    put("content_model.ln_0", "sense_network.ln")
    put("content_model.layers.0.norm1", "sense_network.block.ln_1")
    put("content_model.layers.0.norm2", "sense_network.block.ln_2")
    put("content_model.layers.0.mlp.fc1", "sense_network.block.mlp.c_fc")
    put("content_model.layers.0.mlp.fc2", "sense_network.block.mlp.c_proj")
    put("content_model.final_mlp.fc1", "sense_network.final_mlp.c_fc")
    put("content_model.final_mlp.fc2", "sense_network.final_mlp.c_proj")
    put("contextualization_attn.Wqkv", "sense_weight_net.c_attn")
    return found


# -- a folder of them --

FOLDER_WORDS, FOLDER_ROWS = 270, 273
"""Tokens of the vocabulary, <|endoftext|> among them as the last, and rows of the table, which has room for more."""


def tokens(bpe: Tokenizer) -> list[str]:
    found = [bpe.token(number) for number in range(len(SPECIALS), bpe.vocabulary_size)]
    assert len(found) == FOLDER_WORDS - 1
    return [*found, "<|endoftext|>"]


def folder(path: Path, bpe: Tokenizer, layout: str = "safetensors", **changes: Any) -> Path:
    """A published folder with random weights."""
    path.mkdir()
    weights = published(FOLDER_ROWS)
    document = (
        DOCUMENT
        | {"vocab_size": FOLDER_ROWS, "bos_token_id": FOLDER_WORDS - 1, "eos_token_id": FOLDER_WORDS - 1}
        | changes
    )
    (path / "config.json").write_text(json.dumps(document))
    vocabulary, merges = {name: number for number, name in enumerate(tokens(bpe))}, bpe.document["model"]["merges"]
    if layout == "safetensors":
        save_file(as_safetensors(weights, "lm_head.weight"), path / "model.safetensors")
    elif layout == "bin":
        torch.save(weights, path / "pytorch_model.bin")
    else:
        torch.save({"state_dict": as_trained(weights), "epoch": 3}, path / "last.ckpt")
    if layout == "bin":
        model = {"type": "BPE", "vocab": vocabulary, "merges": merges}
        added = [{"id": FOLDER_WORDS - 1, "content": "<|endoftext|>", "special": True}]
        (path / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": added}))
    else:
        (path / "vocab.json").write_text(json.dumps(vocabulary))
        pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]
        (path / "merges.txt").write_text("\n".join(["#version: 0.2", *pairs]) + "\n")
    return path
