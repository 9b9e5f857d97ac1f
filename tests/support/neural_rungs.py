"""Every neural rung in small, its weights so large that nothing is nearly zero: what the property suites run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anaphora.models import build_language_model, settings
from anaphora.models.language.transformer_language import BERT, GPT2

DIM, HEADS, LONGEST = 8, 2, 32
SMALL = {"dim": DIM, "layers": 2}
TRANSFORMER = {"heads": HEADS, "feed_forward": 12, "max_length": LONGEST}


def rung(kind: str, vocabulary: int = 12, **changes: Any) -> Callable[[], Any]:
    """A builder: the same weights every time."""

    def make() -> Any:
        reads = changes.get("encoder", "transformer-decoder") if kind == "backpack" else kind
        sizes = SMALL | (TRANSFORMER if reads.startswith("transformer") else {})
        sizes |= {"senses": 2} if kind == "backpack" else {}
        model = build_language_model(settings({"kind": kind} | sizes | changes), vocabulary)  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(11)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.4, generator=generator)
        return model.eval().requires_grad_(False)

    return make


def preset(known: dict[str, Any], **changes: Any) -> Callable[[], Any]:
    sizes = {key: value for key, value in known.items() if key not in ("kind", "dim", "layers", "heads", "max_length")}
    return rung(known["kind"], **(sizes | changes))


CAUSAL: dict[str, Callable[[], Any]] = {
    "dan": rung("dan"),
    "dan wide": rung("dan", layers=3, hidden=11, tie=False),
    "window": rung("window", window=3),
    "window of one word": rung("window", window=1, layers=1),
    "window wide": rung("window", window=4, layers=3, hidden=13),
    "rnn": rung("rnn", layers=1),
    "rnn orthogonal": rung("rnn", initial="orthogonal", hidden=5),
    "gru": rung("gru", hidden=11, layers=3),
    "lstm": rung("lstm", layers=1, tie=False, output_bias=False),
    "lstm with every dropout": rung(
        "lstm",
        layers=3,
        hidden=11,
        locked=True,
        dropout=0.3,
        weight_dropout=0.5,
        embedding_dropout=0.1,
        input_dropout=0.4,
        output_dropout=0.4,
    ),
    "conv": rung("conv"),
    "conv dilated": rung("conv", layers=3, width=2, dilated=True, gated=False, normalized=False),
    "conv of width one": rung("conv", width=1),
    "transformer-decoder": rung("transformer-decoder"),
    **{
        f"transformer-decoder {kind}": rung("transformer-decoder", positions=kind)
        for kind in ("none", "learned", "sinusoidal", "sinusoidal-concatenated", "alibi", "relative")
    },
    "transformer-decoder post-norm": rung("transformer-decoder", norm="post", activation="relu", positions="learned"),
    "transformer-decoder window": rung("transformer-decoder", window=3, key_value_heads=1, max_length=None),
    "transformer-decoder window alibi": rung("transformer-decoder", window=2, positions="alibi", initial="xavier"),
    "transformer-decoder experts": rung("transformer-decoder", experts=4, experts_per_token=2),
    "transformer-decoder gpt2": preset(GPT2),
    "transformer-decoder dot": rung("transformer-decoder", score="dot", positions="alibi", key_value_heads=1),
    "transformer-decoder bilinear": rung("transformer-decoder", score="bilinear", positions="relative"),
    "transformer-decoder additive": rung("transformer-decoder", score="additive", positions="sinusoidal", window=3),
    "transformer-decoder linear": rung("transformer-decoder", normalizer="none", positions="learned"),
    "transformer-decoder scaled by layer": rung("transformer-decoder", inverse_layer_scale=True),
    "backpack": rung("backpack", senses=4, positions="learned", inverse_layer_scale=True),
    "backpack of one sense": rung("backpack", senses=1),
    "backpack lstm": rung("backpack", senses=2, encoder="lstm", sense_feed_forward=6),
    "backpack of near senses": rung("backpack", senses=2, sense_window=2),
    "backpack conv": rung("backpack", senses=2, encoder="conv"),
}
MASKED: dict[str, Callable[[], Any]] = {
    "transformer-encoder": rung("transformer-encoder"),
    **{
        f"transformer-encoder {kind}": rung("transformer-encoder", positions=kind, tie=kind != "none")
        for kind in ("none", "learned", "sinusoidal", "sinusoidal-concatenated", "alibi", "relative")
    },
    "transformer-encoder additive": rung("transformer-encoder", score="additive", positions="learned"),
    "transformer-encoder window": rung("transformer-encoder", window=3, max_length=None),
    "transformer-encoder experts": rung("transformer-encoder", experts=3, experts_every=2),
    "transformer-encoder bert": preset(BERT, mask=5),
}
LABELS = ["A", "B", "C"]
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    f"{kind}{' both ways' if both else ''}": rung(kind, labels=LABELS, bidirectional=both, pool=pool)
    for kind, both, pool in [
        ("dan", False, "last"),
        ("dan", True, "mean"),
        ("window", False, "max"),
        ("window", True, "mean"),
        ("rnn", False, "last"),
        ("gru", True, "mean"),
        ("lstm", True, "max"),
        ("conv", True, "first"),
        ("transformer-decoder", False, "last"),
        ("transformer-decoder", True, "mean"),
        ("transformer-encoder", False, "first"),
    ]
}
