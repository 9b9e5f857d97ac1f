"""What a neural language model says of itself: metrics.json for programs, card.md for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anaphora.evaluation.bits_per_byte import note_on_unknown
from anaphora.files.shared_names import as_wished
from anaphora.folder import CARD, METRICS, write_json, write_text
from anaphora.results import count
from anaphora.tasks.recipes import RunConfig
from anaphora.training.checkpoint import Progress
from anaphora.training.reporting import duration, short
from anaphora.version import __version__


def write_language_card(
    folder: Path,
    config: RunConfig,
    progress: Progress,
    manifest: dict[str, Any],
    *,
    weights: str,
    scores: dict[str, Any],
    parameters: int,
    device: str,
    peak_memory: int,
    finished: bool,
) -> None:
    """Called whenever other weights become the folder's model; `weights` says which ones they are."""
    train = manifest["train"]
    trained = {
        "text": as_wished(config.document())["data"]["text"],
        "lines": train["lines"],
        "tokens": train["tokens"],
        "unknown_tokens": train["unknown_tokens"],
        "bytes": train["bytes"],
        "held_out_lines": train["held_out_lines"],
        "boundaries": config.data.boundaries,
        "fingerprint": manifest["settings"]["text"],
    }
    cost = {
        "steps": progress.step,
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "flops": progress.flops,
        "device": device,
        "peak_memory": peak_memory,
    }
    write_json(
        folder / METRICS,
        {
            "anaphora": __version__,
            "weights": weights,
            "step": progress.step,
            "finished_step": progress.step if finished else None,
            "parameters": parameters,
            "vocabulary": manifest["vocabulary"],
            "vocabularies": {"text": manifest["vocabulary_fingerprint"]},
            "validation": scores,
            "trained_on": trained,
            "cost": cost,
            "history": progress.history,
        },
    )
    write_text(folder / CARD, _card(folder, config, weights, scores, trained, cost, parameters, manifest["vocabulary"]))


def _card(
    folder: Path,
    config: RunConfig,
    weights: str,
    scores: dict[str, Any],
    trained: dict[str, Any],
    cost: dict[str, Any],
    parameters: int,
    vocabulary: int,
) -> str:
    model = config.language
    masked = model.masked and not model.labels
    named = {"loss": ("loss (nats a token)", ".4f"), "perplexity": ("perplexity", ".2f")}
    if masked:
        hidden = f"{config.training.masked:.0%} of the words hidden"
        named = {"loss": (f"loss, {hidden}", ".4f"), "perplexity": (f"perplexity, {hidden}", ".2f")}
    if model.labels:
        named = {"loss": ("loss (nats a text)", ".4f")}
    named |= {"bits_per_byte": ("bits per byte", ".4f"), "accuracy": ("accuracy", ".2%"), "tokens": ("tokens", ",")}
    named |= {"texts": ("texts", ","), "context": ("context", ","), "stride": ("stride of the windows", ",")}
    measured = [f"| {label} | {scores[name]:{form}} |" for name, (label, form) in named.items() if name in scores]
    note = note_on_unknown(scores.get("unknown_tokens", 0), scores.get("tokens", 0))
    what = "A classifier" if model.labels else "A masked language model" if masked else "A language model"
    run = as_wished(config.document())["run"]
    start = f" It started from `{run['start_from']}`." if run["start_from"] else ""
    verb = "classify" if model.labels else "fill" if masked else "generate"
    classes = [f"It tells apart: {', '.join(model.labels)}.", ""] if model.labels else []
    lines = [
        f"# {folder.resolve().name}",
        "",
        f"{what} made with Anaphora {__version__}: recipe `{run['recipe']}`, {short(parameters)} parameters "
        f"({model.kind}, {model.dim} wide, {count(model.layers, 'layer')}), vocabulary {vocabulary:,} "
        f"({config.tokenizer.kind}).{start}",
        "",
        *classes,
        "## Learned from",
        f"{count(trained['lines'], 'line')}, {short(trained['tokens'])} tokens of `{' '.join(trained['text'])}` "
        f"({config.data.boundaries}). The weights are {weights}.",
        "",
        "## Measured on its validation text",
        "| score | value |",
        "|---|---|",
        *(measured or ["| none | |"]),
        *(["", note[0].upper() + note[1:] + "."] if note else []),
        "",
        "## Cost",
        f"{count(cost['steps'], 'update')}, {short(cost['tokens'])} tokens, {duration(cost['seconds'])} on "
        f"{cost['device']}, {cost['flops']:.3g} floating-point operations.",
        "",
        "## Use",
        "```",
        f"anaphora {verb} {folder.resolve().name}",
        "```",
    ]
    return "\n".join(lines) + "\n"
