"""A wide translator that says what a narrow one has learned: trained weights of `base`'s shape without a GPU.

    python benchmarks/widen.py --narrow RUN --out WIDE

How fast a model decodes depends on its shape and on the lengths of what it says, not on how good that is; but random
weights say nothing and never end, and training `base` takes a GPU. So the weights of a trained narrow model are copied
several times over (Chen et al. 2016, "Net2Net"): a dimension of the residual stream becomes R equal ones, and whoever
reads the stream takes an R-th of each; so do the hidden units of the feed-forward and the dimensions of the heads.
Layers that the narrow model does not have add nothing. Layer norms cannot tell: equal copies have the same mean and
deviation.

Copies of a pair of position waves (sin, cos) stand where the wide model has its nearest ones. Those are not quite the
same, which is all that changes: with `model.positions=none` the logits are equal (tests/benchmarks/test_widen.py).
"""

from __future__ import annotations

import argparse
import math
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import anaphora
from anaphora.folder import WEIGHTS, read_config, write_config
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.models.weights import model_weights, write_weights

BASE = {"dim": 512, "layers": 6, "heads": 8, "feed_forward": 2048}
STREAM = {"query_key_value": 3, "key_value": 2, "query": 1}  # products that read the stream into so many sets of heads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--narrow", type=Path, required=True, help="run folder, trained with model.norm=post")
    for name, size in BASE.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    parser.add_argument("--out", type=Path, required=True, help="a new model folder")
    arguments = parser.parse_args()
    if arguments.out.exists():
        raise SystemExit(f"{arguments.out} is there already; name a folder that is not")
    narrow = anaphora.load(arguments.narrow, device="cpu")
    shape = {name: getattr(arguments, name) for name in BASE}
    config = replace(narrow.config.model, **shape, decoder_layers=None)
    wide = widened(narrow.model, config)
    leave = shutil.ignore_patterns("checkpoints", "data", "logs", ".lock")
    shutil.copytree(arguments.narrow, arguments.out, ignore=leave)
    document = read_config(arguments.out)
    document["model"] |= {**shape, "decoder_layers": None}
    write_config(arguments.out, document)
    write_weights(arguments.out / WEIGHTS, model_weights(wide))
    print(f"{arguments.out}: {wide.parameter_count():,} parameters, from {narrow.model.parameter_count():,}")


def widened(narrow: Transformer, config: TransformerConfig) -> Transformer:
    """A translator of `config`'s shape, each size a multiple of the narrow one's, that says the same."""
    old = narrow.config
    if old.norm != "post" or config.norm != "post":
        raise SystemExit("layers that add nothing are built for post-norm: train with model.norm=post")
    for name in ("dim", "heads", "feed_forward"):
        if getattr(config, name) % getattr(old, name):
            raise SystemExit(f"{name} {getattr(config, name)} is no multiple of {getattr(old, name)}")
    copies = config.dim // old.dim
    size, old_size = config.dim // config.heads, old.dim // old.heads
    # which narrow dimension each wide one copies: waves (pairs) beside their nearest, heads by heads, units in runs
    pair = torch.arange(config.dim) // 2 // copies
    stream = 2 * pair + torch.arange(config.dim) % 2  # (dim,)
    head = torch.arange(config.heads) * old.heads // config.heads
    heads = (head[:, None] * old_size + torch.arange(size) * old_size // size).flatten()  # (dim,)
    units = torch.arange(config.feed_forward) * old.feed_forward // config.feed_forward  # (feed_forward,)
    depth = {"encoder": old.layers, "decoder": old.decoder_layers or old.layers}
    last = {"encoder": config.layers - 1, "decoder": (config.decoder_layers or config.layers) - 1}
    weights = narrow.state_dict()

    def wide(name: str) -> Tensor:
        if not name.startswith(("encoder.", "decoder.")):  # a table: vectors are scaled by √dim when they are read,
            return weights[name][:, stream] * copies**-0.5  # and so the last norm is, before they give logits
        stack, _, number, part, layer, kind = name.split(".")  # decoder.blocks.3.cross_attention.key_value.weight
        extra = int(number) >= depth[stack]
        old_number = min(int(number), depth[stack] - 1)
        w = weights[f"{stack}.blocks.{old_number}.{part}.{layer}.{kind}"]
        if layer == "norm":
            ends = part == "around_feed_forward"
            if ends and int(number) == last[stack]:  # the narrow stack's last gain and bias
                return w[stream] * (copies**-0.5 if stack == "decoder" else 1.0)
            plain = extra or (ends and int(number) == depth[stack] - 1)
            return torch.full((config.dim,), float(kind == "weight")) if plain else w[stream]
        if layer in STREAM:
            rows = [part[heads] for part in w.chunk(STREAM[layer])]
            if layer != "key_value":  # scores are sums over more dimensions, over the root of more
                rows[0] = rows[0] * math.sqrt(old_size / size)
            w = torch.cat(rows)
            return w[:, stream] / copies if kind == "weight" else w
        if layer == "inner":
            return w[units][:, stream] / copies if kind == "weight" else w[units]
        read = heads if layer == "out" else units
        w = w[stream][:, read] * w.shape[1] / len(read) if kind == "weight" else w[stream]
        return w * 0 if extra else w

    vocabularies = (len(side.table.weight) for side in (narrow.source_embedding, narrow.target_embedding))
    model = Transformer(config, *vocabularies)
    model.load_state_dict({name: wide(name) for name in model.state_dict()})
    return model.eval()


if __name__ == "__main__":
    main()
