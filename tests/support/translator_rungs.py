"""Every translator of the property suite, small, with the capabilities that it must declare: one line a model.

Written out here, so that none can silently drop one (tests/models/test_properties.py). A later one joins by one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anaphora.models import build
from anaphora.models import settings as model_settings
from anaphora.models.composites.ensemble import Ensemble
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig

VOCABULARY = 23
LONGEST = 12
ALL = {"causal", "steppable", "normalised", "batch-invariant", "attends"}


def transformer(**changes: Any) -> Callable[[], Transformer]:
    def make() -> Transformer:
        torch.manual_seed(7)
        shape = {"dim": 16, "layers": 2, "heads": 4, "feed_forward": 24, "max_length": LONGEST, "dropout": 0.3}
        config = TransformerConfig(**{**shape, **changes})
        model = Transformer(config, VOCABULARY if config.tie == "all" else VOCABULARY + 6, VOCABULARY)
        for parameter in model.parameters():  # away from the symmetric start: gains, biases and padding included
            torch.nn.init.normal_(parameter, std=0.4)
        return model.double().eval().requires_grad_(False)

    return make


def system(kind: str, **changes: Any) -> Callable[[], Any]:
    def make() -> Any:
        torch.manual_seed(7)
        shape = {"kind": kind, "dim": 12, "layers": 2, "max_length": LONGEST, "dropout": 0.3, "tie": "target"}
        model = build(model_settings({**shape, **changes}), VOCABULARY + 6, VOCABULARY)  # type: ignore[arg-type]
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
        return model.double().eval().requires_grad_(False)

    return make


def ensemble(*members: Callable[[], Any]) -> Callable[[], Ensemble]:
    return lambda: Ensemble([member() for member in members])


MODELS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    # Transformers: every value of every setting, and pairs of those that meet in one computation
    "transformer pre-norm": (transformer(norm="pre"), ALL),
    "transformer post-norm gelu tie none": (transformer(norm="post", activation="gelu", tie="none"), ALL),
    "transformer learned positions, deep decoder": (
        transformer(positions="learned", layers=1, decoder_layers=3, tie="target"),
        ALL,
    ),
    "transformer concatenated positions, shallow decoder": (
        transformer(positions="sinusoidal-concatenated", layers=3, decoder_layers=1),
        ALL,
    ),
    "transformer no positions multi-query": (transformer(positions="none", key_value_heads=1), ALL),
    "transformer window": (transformer(window=3), ALL),
    "transformer grouped window rotary": (transformer(positions="rotary", window=2, key_value_heads=2), ALL),
    "transformer grouped alibi sdpa": (transformer(positions="alibi", key_value_heads=2, attention="sdpa"), ALL),
    "transformer relative reference attention": (transformer(positions="relative", attention="reference"), ALL),
    "transformer one head": (transformer(heads=1), ALL),
    "transformer dot post-norm rotary": (transformer(score="dot", norm="post", positions="rotary"), ALL),
    "transformer bilinear": (transformer(score="bilinear", positions="relative"), ALL),
    "transformer additive": (transformer(score="additive"), ALL),
    "transformer grouped additive alibi": (transformer(score="additive", positions="alibi", key_value_heads=2), ALL),
    # without softmax: scores of any sign, so nothing that could be called attended
    "transformer linear": (transformer(normalizer="none"), ALL - {"attends"}),
    "transformer linear narrow heads rotary": (
        transformer(normalizer="none", heads=8, key_value_heads=2, positions="rotary"),
        ALL - {"attends"},
    ),
    "transformer linear bilinear window": (
        transformer(normalizer="none", score="bilinear", window=3),
        ALL - {"attends"},
    ),
    "transformer linear additive": (transformer(normalizer="none", score="additive"), ALL - {"attends"}),
    "transformer experts": (transformer(experts=5), ALL),
    "transformer experts in the second layer, three of four a token": (
        transformer(experts=4, experts_per_token=3, experts_every=2, norm="post", activation="gelu"),
        ALL,
    ),
    # recurrent decoders: seq2seq looks at nothing
    "seq2seq": (system("seq2seq"), ALL - {"attends"}),
    "seq2seq gru both ways in steps": (
        system("seq2seq", cell="gru", bidirectional=True, reverse_source=False, unroll="steps"),
        ALL - {"attends"},
    ),
    "bahdanau": (system("bahdanau", layers=1), ALL),
    "bahdanau lstm three layers, widths": (
        system("bahdanau", cell="lstm", decoder_layers=3, embedding=10, encoder_dim=14, attention_dim=6),
        ALL,
    ),
    "luong": (system("luong"), ALL),
    "luong dot gru whole": (system("luong", score="dot", cell="gru", input_feeding=False), ALL),
    "deep-att": (system("deep-att", layers=3, decoder_layers=2, encoder_dim=10), ALL),
    "gnmt": (system("gnmt", layers=4), ALL),
    "moe": (system("moe", layers=3), ALL),
    "moe shallow, cells wider than layers": (
        system("moe", layers=1, decoder_layers=1, hidden=16, embedding=10, encoder_dim=14, experts=3, tie="none"),
        ALL,
    ),
    # convolutional decoders: ByteNet looks at nothing
    "bytenet": (system("bytenet"), ALL - {"attends"}),
    "bytenet deep, narrow, hardly unfolded": (
        system("bytenet", layers=4, decoder_layers=5, dilations=3, hidden=5, unfold=0.5),
        ALL - {"attends"},
    ),
    "convs2s": (system("convs2s"), ALL),
    "convs2s widths": (
        system("convs2s", layers=3, stages=[[1, 12, 5], [1, 12, 3], [1, 14, 1]], embedding=8, readout=7, tie="none"),
        ALL,
    ),
    # any encoder with any decoder
    "convs2s behind transformer": (system("convs2s", encoder="transformer"), ALL),
    "luong behind convs2s": (system("luong", encoder="convs2s"), ALL),
    "transformer behind lstm": (transformer(encoder="lstm"), ALL),
    "luong behind moe": (system("luong", encoder="moe"), ALL),
    "moe behind transformer": (system("moe", encoder="transformer", feed_forward=20), ALL),
    "luong behind transformer": (system("luong", encoder="transformer", feed_forward=20), ALL),
    "bahdanau behind convolution": (system("bahdanau", encoder="conv"), ALL),
    "luong behind averaging": (system("luong", encoder="dan", layers=1), ALL),
    "seq2seq behind window": (system("seq2seq", encoder="window"), ALL - {"attends"}),
    # several as one: it attends if any of them does
    "ensemble": (ensemble(system("seq2seq"), system("bahdanau", layers=1), system("convs2s")), ALL),
}
