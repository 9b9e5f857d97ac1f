"""What a model says of itself: metrics.json for programs, card.md for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anaphora.files.shared_names import as_wished
from anaphora.folder import CARD, METRICS, write_json, write_text
from anaphora.results import count
from anaphora.tasks.recipes import RunConfig
from anaphora.training.checkpoint import Progress
from anaphora.training.reporting import duration, short
from anaphora.version import __version__


def write_card(
    folder: Path,
    config: RunConfig,
    progress: Progress,
    manifest: dict[str, Any],
    *,
    weights: str,
    scores: dict[str, Any],
    parameters: int,
    vocabularies: dict[str, str],
    device: str,
    finished: bool,
    several: float,
) -> None:
    """Called whenever other weights become the folder's model; `weights` says which ones they are."""
    shared = as_wished(config.document())
    trained = {
        "source": shared["data"]["source"],
        "target": shared["data"]["target"],
        "pairs": manifest["train"]["rows"],
        "tokens": manifest["train"]["tokens"],
        "left_out": manifest["train"]["left_out"],
        "several_sentences": several,
        "fingerprint": manifest["settings"]["text"],
    }
    cost = {
        "steps": progress.step,
        "target_tokens": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "flops": progress.flops,
        "device": device,
    }
    write_json(
        folder / METRICS,
        {
            "anaphora": __version__,
            "weights": weights,
            "step": progress.step,
            "finished_step": progress.step if finished else None,
            "parameters": parameters,
            "vocabularies": vocabularies,
            "validation": scores,
            "trained_on": trained,
            "cost": cost,
            "history": progress.history,
        },
    )
    write_text(folder / CARD, _card(folder, config, weights, scores, trained, cost, parameters))


def _card(
    folder: Path,
    config: RunConfig,
    weights: str,
    scores: dict[str, Any],
    trained: dict[str, Any],
    cost: dict[str, Any],
    parameters: int,
) -> str:
    searched = f" (beam {scores['beam']})" if "beam" in scores else ""
    measured = [
        f"| {label} | {scores[name]:.{digits}f} | {_in_table(scores.get(f'{name}_signature', ''))} |"
        for name, label, digits in (
            ("loss", "loss (nats a token)", 4),
            ("perplexity", "perplexity", 2),
            ("gleu", "GLEU (mean of sentences)", 2),
            ("bleu", f"BLEU{searched}", 2),
            ("chrf", f"chrF{searched}", 2),
        )
        if name in scores
    ]
    model = config.translator
    run = as_wished(config.document())["run"]
    start = f" It started from `{run['start_from']}`." if run["start_from"] else ""
    lines = [
        f"# {folder.resolve().name}",
        "",
        f"A translator made with Anaphora {__version__}: recipe `{run['recipe']}`, {short(parameters)} parameters "
        f"({model.kind}, {model.dim} wide, {model.layers} + {model.decoder_depth} layers), "
        f"{config.tokenizer.kind} tokens.{start}",
        "",
        "## Learned from",
        f"{count(trained['pairs'], 'pair')} of `{' '.join(trained['source'])}` and `{' '.join(trained['target'])}` "
        f"({short(trained['tokens'].get('target', 0))} target tokens). The weights are {weights}.",
        "",
        "## Measured on its validation text",
        "| score | value | signature |",
        "|---|---|---|",
        *(measured or ["| none | | |"]),
        "",
        "## Cost",
        f"{count(cost['steps'], 'update')}, {short(cost['target_tokens'])} target tokens, "
        f"{duration(cost['seconds'])} on {cost['device']}, {cost['flops']:.3g} floating-point operations.",
        "",
        "## Use",
        "```",
        f"anaphora translate {folder.resolve().name} input.txt",
        "```",
        "It takes and returns raw text, one sentence a line.",
    ]
    return "\n".join(lines) + "\n"


def _in_table(text: str) -> str:
    """Where | parts the columns of Markdown: sacreBLEU's signature has them too."""
    return text.replace("|", "\\|")
