"""`anaphora info`: what is this model?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.cli.output import Device, Json, Output, Quiet


def info(
    model: Annotated[Path, typer.Argument(help="Model or run folder.")],
    device: Device = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a model is, what it learned from, what it cost and how good it was found."""
    from anaphora import api
    from anaphora.training.reporting import short

    out = Output(as_json=json, quiet=quiet)
    found = api.load(model, device).info()
    settings, metrics = found["settings"], found["metrics"]
    shape = settings["model"]
    rows = [
        ("model", f"{found['recipe']} ({found['kind']}), {found['parameters']:,} parameters"),
        (
            "shape",
            f"{shape['dim']} wide, {shape['layers']}+{shape['decoder_layers'] or shape['layers']} layers, "
            f"{shape['heads']} heads, feed-forward {shape['feed_forward']}, {shape['norm']}-norm",
        ),
        (
            "vocabulary",
            f"{settings['tokenizer']['kind']}, source {found['source_vocabulary']:,}, "
            f"target {found['target_vocabulary']:,}" + (" (joint)" if settings["tokenizer"]["shared"] else ""),
        ),
        ("forward pass", f"{short(found['flops_per_pair'])}FLOP ({found['flops_note']})"),
        ("decoding cache", f"{found['cache_bytes_per_token']:,} bytes a token and hypothesis"),
    ]
    try:
        rows += _learned(metrics)
    except (KeyError, TypeError, ValueError, AttributeError):  # the model works without it
        rows.append(("metrics", "metrics.json is damaged: nothing is known of training"))
    for name, text in rows:
        out.result(f"{name:>14}  {text}")
    out.finish(found)


def _learned(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """What the folder's metrics.json says of training."""
    from anaphora.training.reporting import describe, duration, short

    rows: list[tuple[str, str]] = []
    if trained := metrics.get("trained_on"):
        rows.append(("learned from", f"{trained['pairs']:,} pairs of {' '.join(trained['source'])}"))
    if cost := metrics.get("cost"):
        rows.append(
            (
                "cost",
                f"{cost['steps']:,} updates, {short(cost['target_tokens'])} target tokens, "
                f"{duration(cost['seconds'])} on {cost['device']}, {cost['flops']:.3g} FLOP",
            )
        )
    if metrics.get("validation"):
        rows.append(("validation", describe(metrics["validation"])))
        if "bleu_signature" in metrics["validation"]:
            rows.append(("", metrics["validation"]["bleu_signature"]))
    if metrics.get("weights"):
        rows.append(("weights", metrics["weights"]))
    return rows
