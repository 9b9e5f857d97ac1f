"""What a counted model says of itself: metrics.json for programs, card.md for people."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anaphora.decoding.text_scoring import TextEvaluation
from anaphora.evaluation.bits_per_byte import UNNORMALIZED
from anaphora.files.shared_names import as_wished
from anaphora.folder import CARD, METRICS, write_json, write_text
from anaphora.models.ngram.blocks import Fitted
from anaphora.models.ngram.ngram_model import without_padding
from anaphora.results import count
from anaphora.tasks.recipes import RunConfig
from anaphora.training.reporting import duration, short
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.models.ngram.ngram_settings import NgramConfig

COUNTED = "counted"
"""Where the numbers of such a model come from."""


def write_counting_card(
    folder: Path,
    config: RunConfig,
    manifest: dict[str, Any],
    fitted: Fitted,
    measured: TextEvaluation | None,
    *,
    name: str,
    seconds: float,
    peak_memory: int,
) -> dict[str, Any]:
    """Called when the model is the folder's; `seconds` are those of the process that finished it. Returns the
    metrics. name: of the run."""
    train = manifest["train"]
    metrics = {
        "anaphora": __version__,
        "finished": True,
        "weights": COUNTED,
        "parameters": sum(fitted.sizes) + sum(fitted.sizes[:-1]),  # a probability each, and a weight as a context
        "orders": without_padding(fitted.sizes),
        "discounts": [list(of) for of in fitted.discounts],
        "fell_back": fitted.fell_back,
        "vocabulary": manifest["vocabulary"],
        "vocabularies": {"text": manifest["vocabulary_fingerprint"]},
        "lines": train["lines"],
        "tokens": train["tokens"],
        "unknown_tokens": train["unknown_tokens"],
        "validation": {} if measured is None else measured.document(),
        "trained_on": {
            "text": as_wished(config.document())["data"]["text"],
            **{name: train[name] for name in ("lines", "dropped_lines", "held_out_lines", "bytes", "tokens")},
            "fingerprint": manifest["settings"]["text"],
        },
        "cost": {
            "seconds": round(seconds, 2),
            "peak_memory": peak_memory,
            "device": f"cpu, {os.cpu_count()} core{'s' * ((os.cpu_count() or 1) > 1)}",
        },
    }
    write_text(folder / CARD, _card(name, config, metrics, measured))
    write_json(folder / METRICS, metrics)  # last: it says that the run is finished
    return metrics


def _card(name: str, config: RunConfig, metrics: dict[str, Any], measured: TextEvaluation | None) -> str:
    model, data, tokenizer = cast("NgramConfig", config.model), config.data, config.tokenizer
    train, cost = metrics["trained_on"], metrics["cost"]
    recipe = as_wished(config.document())["run"]["recipe"]
    lines = {
        "lines": "each line is a text of its own, between ⟨s⟩ and ⟨/s⟩",
        "stream": "the text is one stream, with ⟨/s⟩ after each line, and contexts cross line ends",
    }[data.boundaries]
    blank = "blank lines count as lines" if data.blank_lines == "keep" else "blank lines are left out"
    units = tokenizer.kind if tokenizer.kind in ("word", "character") and tokenizer.fallback == "unk" else None
    unknown = f"a {units} outside the vocabulary is ⟨unk⟩" if units else "nothing is unknown"
    cut = f"{tokenizer.kind}, split at {tokenizer.split}" if tokenizer.kind == "word" else tokenizer.kind
    found: list[str] = []
    if measured is not None:
        found = [
            f"| perplexity | {measured.perplexity:.2f} | {count(measured.tokens, 'token')}, end marks included |",
            f"| perplexity without unknown tokens | {measured.perplexity_known:.2f} | "
            f"{measured.tokens - measured.unknown_tokens:,} tokens |",
            f"| bits per byte | {measured.bits_per_byte:.4f} | {measured.bytes:,} bytes |",
        ]
        found += [f"\n{measured.note}."] if measured.note else []
    counted = [
        f"| {order} | {size:,} | {' '.join(f'{minus:.4f}' for minus in of[1:])} |"
        for order, (size, of) in enumerate(zip(metrics["orders"], metrics["discounts"]), start=1)
    ]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"A language model made with Anaphora {__version__}: recipe `{recipe}`, n-grams up to order "
            f"{model.order}, {model.smoothing} smoothing, {metrics['vocabulary']:,} tokens in the vocabulary ({cut}).",
            "",
            "## Counted",
            f"{count(train['lines'], 'line')} of `{' '.join(train['text'])}`, {short(train['tokens'])} tokens, "
            f"{metrics['unknown_tokens']:,} of them unknown. Of the text, {lines}; {blank}; {unknown}.",
            *([f"Mind that {UNNORMALIZED}."] if model.smoothing == "stupid-backoff" else []),
            "",
            "| order | n-grams | discounts (seen once, twice, more often) |",
            "|---|---|---|",
            *counted,
            "",
            "## Measured on its validation text",
            "| score | value | over |",
            "|---|---|---|",
            *(found or ["| none | | |"]),
            "",
            "## Cost",
            f"{duration(cost['seconds'])} on {cost['device']}, {cost['peak_memory'] / 1e6:,.0f} MB of memory.",
            "",
            "## Use",
            "```",
            f"anaphora evaluate {name} --text test.txt",
            f"anaphora generate {name} --samples 3",
            f'anaphora why {name} "a beginning"',
            "```",
            "It takes and returns raw text, one line at a time.",
            "",
        ]
    )
