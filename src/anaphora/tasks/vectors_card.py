"""What learned vectors say of themselves: metrics.json for programs, card.md for people."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anaphora.data.data_settings import DataConfig
from anaphora.data.phrases import PHRASES
from anaphora.device import cores
from anaphora.files.shared_names import as_wished
from anaphora.folder import CARD, METRICS, write_json, write_text
from anaphora.models.vectors.pieces import Learned
from anaphora.results import count
from anaphora.tasks.recipes import RunConfig
from anaphora.training.reporting import duration, short
from anaphora.version import __version__

LEARNED = "learned"
"""Where the numbers of vectors come from."""


def write_vectors_card(
    folder: Path,
    config: RunConfig,
    manifest: dict[str, Any],
    learned: Learned,
    facts: dict[str, Any],
    *,
    name: str,
    words: int,
    peak_memory: int,
) -> dict[str, Any]:
    """Called when the vectors are the folder's; returns the metrics. name: of the run."""
    model, training = config.vectors
    train, shared = manifest["train"], as_wished(config.document())
    metrics = {
        "anaphora": __version__,
        "finished": True,
        "weights": LEARNED,
        "parameters": words * model.dim,
        "vocabulary": words,
        "vocabularies": {"text": manifest["vocabulary_fingerprint"]},
        "lines": train["lines"],
        "tokens": train["tokens"],
        "unknown_tokens": train["unknown_tokens"],
        "losses": [round(loss, 6) for loss in learned.losses],
        **facts,
        **({"phrases": manifest["phrases"]} if "phrases" in manifest else {}),
        "trained_on": {
            "text": shared["data"]["text"],
            "start_from": shared["run"]["start_from"],
            **{name: train[name] for name in ("lines", "dropped_lines", "bytes", "tokens")},
            "fingerprint": manifest["settings"]["text"],
        },
        "cost": {
            "seconds": round(learned.seconds, 2),
            "peak_memory": peak_memory,
            "threads": training.threads or cores(),
            "threads_at_work": round(learned.threads, 2),
            "device": f"cpu, {os.cpu_count()} core{'s' * ((os.cpu_count() or 1) > 1)}",
        },
    }
    write_text(folder / CARD, _card(name, config, metrics))
    write_json(folder / METRICS, metrics)  # last: it says that the run is finished
    return metrics


def words_are(data: DataConfig) -> str:
    """What is taken for a word, in words."""
    apart = "punctuation apart from words" if data.punctuation == "apart" else "words between blanks"
    return f"{apart}, {'lower case' if data.lowercase else 'upper and lower case differ'}"


def _card(name: str, config: RunConfig, metrics: dict[str, Any]) -> str:
    model, _ = config.vectors
    train, cost, what = metrics["trained_on"], metrics["cost"], "items" if config.data.items else "words"
    recipe = as_wished(config.document())["run"]["recipe"]
    how = model.told_apart()
    began = (
        f" It started from `{train['start_from']}`; {metrics['new_words']:,} {what} are new."
        if config.start_from
        else ""
    )
    if phrases := metrics.get("phrases"):
        began = (
            f" {phrases['found']:,} phrases were found (`{PHRASES}`) and joined in {phrases['joined']:,} places; "
            f"{phrases['vocabulary']:,} of them have a vector.{began}"
        )
    rule = "" if config.data.items else f" {words_are(config.data).capitalize()}."
    losses = [f"| {epoch} | {loss:.4f} |" for epoch, loss in enumerate(metrics["losses"], start=1)]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"Vectors of {metrics['vocabulary']:,} {what}, {model.dim} numbers each, learned with Anaphora "
            f"{__version__}: recipe `{recipe}`, {how}.",
            "",
            "## Learned from",
            f"{count(train['lines'], 'line')} of `{' '.join(train['text'])}`, {short(train['tokens'])} tokens with end "
            f"marks; {metrics['unknown_tokens']:,} were {what} too rare to have a vector.{rule}{began}",
            "",
            "| epoch | loss of a pair |",
            "|---|---|",
            *losses,
            "",
            "## Cost",
            f"{duration(cost['seconds'])} with at most {count(cost['threads'], 'thread')} "
            f"({cost['threads_at_work']:.1f} in the mean: as many as were quickest) on {cost['device']}, "
            f"{metrics['speed']}, {cost['peak_memory'] / 1e6:,.0f} MB of memory.",
            "",
            "## Use",
            "```",
            f"anaphora neighbours {name} WORD",
            f"anaphora analogy {name} man king woman",
            f"anaphora map {name} --picture map.png",
            f"anaphora convert {name} vectors.txt",
            "```",
            "",
        ]
    )
