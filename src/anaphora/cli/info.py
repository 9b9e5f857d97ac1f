"""`anaphora info`: what is this model?"""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.errors import printable
from anaphora.results import count


def info(
    model: Annotated[Path, typer.Argument(help="Model or run folder, an ARPA file, or a file of vectors.")],
    device: Device = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a model is, what it was trained on, what that cost, and its validation scores.

    anaphora info runs/en-de

    anaphora info model.arpa.gz --json
    """
    from anaphora import api

    out = Output(as_json=json, quiet=quiet)
    if api.is_vectors(model):
        found = api.load_vectors_model(model).info()
        rows, learned = _vectors(found), _learned_vectors
    elif api.is_language_model(model):
        found = api.load_text_model(model, device).info()
        rows, learned = _language_model(found), _learned_text if "dim" in found else _counted
    else:
        found = api.load_translator(model, device).info()
        rows, learned = _translator(found), _learned
    try:
        rows += learned(found["metrics"])
    except (KeyError, TypeError, ValueError, AttributeError):  # the model works without it
        rows.append(("metrics", "metrics.json is damaged: nothing is known about training"))
    # a person's terminal wraps lines anyhow, but not under the column; a pipe gets one line for each
    width = max(shutil.get_terminal_size().columns, 40) if sys.stdout.isatty() else 1 << 20
    lay = textwrap.TextWrapper(width, subsequent_indent=" " * 16, break_on_hyphens=False, break_long_words=False)
    for name, text in rows:
        lay.break_long_words = not name  # a signature has no blanks
        out.result(lay.fill(f"{name:>14}  {printable(text)}"))
    out.finish(found)


def _translator(found: dict[str, Any]) -> list[tuple[str, str]]:
    from anaphora.training.reporting import short

    settings = found["settings"]
    return [
        ("model", f"{found['recipe']} ({found['kind']}), {found['parameters']:,} parameters{_active(found)}"),
        ("shape", found["shape"]),
        (
            "vocabulary",
            f"{settings['tokenizer']['kind']}, source {found['source_vocabulary']:,}, "
            f"target {found['target_vocabulary']:,}" + (" (joint)" if settings["tokenizer"]["shared"] else ""),
        ),
        ("forward pass", f"{short(found['flops_per_pair'])} FLOP ({found['flops_note']})"),
        ("decoding cache", f"{found['cache_bytes_per_token']:,} bytes per token per hypothesis"),
        *(("member", _member(one)) for one in found.get("members", ())),
    ]


def _member(one: dict[str, Any]) -> str:
    return f"{one['name']}, weight {one['weight']:.4f}: {one['recipe']}, {one['parameters']:,} parameters"


def _active(found: dict[str, Any]) -> str:
    """Of a model with experts, how many of its parameters one token meets."""
    active = found.get("active_parameters", found["parameters"])
    return f", of which a token meets {active:,}" if active < found["parameters"] else ""


def _asked(validation: dict[str, Any]) -> list[tuple[str, str]]:
    """Of a model with experts, how evenly they were asked on the validation text."""
    from anaphora.training.reporting import describe_experts

    return [("experts", describe_experts(validation["experts"]))] if "experts" in validation else []


def _vectors(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What there is to say of word vectors, wherever they come from."""
    recipe = f"{found['recipe']} ({found['kind']})" if found["recipe"] else "a file of vectors"
    if not found["recipe"] and "converted_from" in found["metrics"]:
        recipe = f"from {found['metrics']['converted_from']}"
    rows = [
        ("vectors", f"{recipe}, {count(found['words'], 'word')}, {count(found['dim'], 'dimension')}"),
        ("lengths", f"{found['shortest']:.3g} to {found['longest']:.3g}"),
    ]
    if found["subwords"]:
        rows.append(("subwords", f"{found['subwords']:,}: unseen words have vectors, too"))
    if found["settings"] and found["metrics"].get("losses"):
        model = found["settings"]["model"]
        how = [f"{model['negatives']} drawn words"] if model.get("objective") == "negative-sampling" else []
        how = [str(model[name]) for name in ("algorithm", "objective") if name in model] + how
        rows.append(("learned by", ", ".join([*how, f"window {model['window']}"])))
        data = found["settings"]["data"]
        if not data.get("items"):
            apart = "punctuation apart" if data.get("punctuation") == "apart" else "what stands between blanks"
            rows.append(("words", f"{apart}, {'lower case' if data.get('lowercase') else 'case as in the text'}"))
    return rows + [("note", note) for note in found["notes"]]


def _learned_vectors(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """What metrics.json says of learning vectors."""
    from anaphora.training.reporting import duration

    rows: list[tuple[str, str]] = []
    if trained := metrics.get("trained_on"):
        rows.append(("learned from", f"{count(trained['lines'], 'line')} of {' '.join(trained['text'])}"))
        if trained.get("start_from"):
            rows.append(
                ("started from", f"{trained['start_from']}, {count(metrics['new_words'], 'word is', 'words are')} new")
            )
    if phrases := metrics.get("phrases"):
        rows.append(
            (
                "phrases",
                f"{phrases['found']:,} found (phrases.tsv), joined in {phrases['joined']:,} places; "
                f"of those left, {phrases['vocabulary']:,} with a vector",
            )
        )
    if losses := metrics.get("losses"):
        rows.append(("loss", " → ".join(f"{loss:.4f}" for loss in losses)))
    if cost := metrics.get("cost"):
        peak = f", {size(cost['peak_memory'])} of memory at the most" if cost.get("peak_memory") else ""
        threads = count(cost["threads"], "thread", "threads")
        rows.append(("cost", f"{duration(cost['seconds'])}, {threads}, {metrics['speed']}{peak}"))
    return rows


def _language_model(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What there is to say of a language model, whatever it was made of."""
    from anaphora.evaluation.bits_per_byte import UNNORMALIZED

    cut = found["tokenizer"]
    parted = {"blanks": " between blanks", "whitespace": " between spaces", "punctuation": ", punctuation apart"}
    unit = cut["kind"] + parted.get(cut["split"], "")
    boundaries = {
        "lines": "each line by itself: ⟨s⟩ … ⟨/s⟩",
        "stream": "one text: ⟨s⟩ at its beginning, ⟨/s⟩ after every line, contexts cross line ends",
    }
    kind = "" if found["recipe"] == found["kind"] else f" ({found['kind']})"
    kind += ", a classifier" if "labels" in found else ""
    rows = [("model", f"{found['recipe'] or 'ARPA file'}{kind}, {found['parameters']:,} numbers{_active(found)}")]
    rows += _shape(found)
    rows += [
        ("vocabulary", f"{count(found['vocabulary'], 'token')} ({unit}), marks included"),
        ("unknown", cut["unknown"]),
        ("boundaries", boundaries[found["boundaries"]]),
        ("blank lines", "kept" if found["blank_lines"] == "keep" else "left out"),
        ("on disk", size(found["bytes_on_disk"])),
    ]
    if found.get("max_length") is not None:
        rows.append(("reads", f"{found['max_length']:,} tokens at once, ⟨s⟩ included"))
    if "dim" in found:
        cache = found["cache_bytes_per_token"]
        rows.append(("costs", f"{found['flops_per_token']:,.0f} FLOP a token, {cache:,} bytes of cache"))
    if not found["normalised"]:
        rows.append(("sums", UNNORMALIZED))
    return rows + [("note", note) for note in found["notes"]]


def _shape(shape: dict[str, Any], indent: str = "") -> list[tuple[str, str]]:
    """Orders and smoothing; of a mixture, those of each part."""
    rows = []
    if "dim" in shape:
        parts = [f"{shape['dim']} wide", count(shape["layers"], "layer")]
        names = {
            "heads": ("head", "heads"),
            "hidden": ("hidden", "hidden"),
            "feed_forward": ("feed-forward", "feed-forward"),
            "experts": ("expert", "experts"),
            "window": ("word of window", "words of window"),
        }
        parts += [count(shape[key], *said) for key, said in names.items() if key in shape]
        near = f" of the last {count(shape['sense_window'], 'word')}" if "sense_window" in shape else ""
        parts += [f"{count(shape['senses'], 'sense')}{near} weighed by {shape['encoder']}"] if "senses" in shape else []
        parts += [f"width {shape['width']}"] if "width" in shape else []
        parts += [f"{shape['positions']} positions"] if "positions" in shape else []
        rows.append(("shape", indent + ", ".join(parts)))
        if "labels" in shape:
            rows.append(("labels", indent + ", ".join(shape["labels"])))
    for part in shape.get("parts", ()):
        rows.append(("part", f"{indent}{part['name']}, weight {part['weight']:.4f}"))
        rows += _shape(part, indent + "  ")
    if "order" in shape:
        sizes = ", ".join(f"{n:,} of order {order}" for order, n in enumerate(shape["ngrams"], start=1))
        rows.append(("n-grams", f"{indent}{sum(shape['ngrams']):,}: {sizes}"))
        how = {"given": "given: as the file has it"}.get(shape["smoothing"], shape["smoothing"])
        how += "".join(f", {name} {shape[name]:g}" for name in ("k", "backoff") if name in shape)
        pruned = ", ".join(map(str, shape["prune"]))
        how += f"; left out if seen no more than {pruned} times (order 1, 2, …)" if any(shape["prune"]) else ""
        rows.append(("smoothing", f"{indent}{how}"))
    return rows


def _counted(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """What metrics.json says of counting."""
    from anaphora.training.reporting import duration

    rows: list[tuple[str, str]] = []
    made_up = metrics.get("fell_back") or []
    for order, found in enumerate(metrics.get("discounts") or [], start=1):
        plain = ", ".join(f"{value:.4f}" for value in found[1:])
        doubt = " (by default: the counts of counts gave none)" if made_up[order - 1 : order] == [True] else ""
        if plain:
            rows.append(("" if rows else "discounts", f"order {order}: {plain} for counts 1, 2, 3+{doubt}"))
    if trained := metrics.get("trained_on"):
        seen = f"{count(metrics['lines'], 'line')}, {count(metrics['tokens'], 'token')} with end marks"
        if metrics.get("unknown_tokens"):
            seen += f", {metrics['unknown_tokens']:,} of them unknown"
        rows.append(("learned from", f"{seen}, of {' '.join(trained['text'])}"))
    if cost := metrics.get("cost"):
        peak = f", {size(cost['peak_memory'])} of memory at the most" if cost.get("peak_memory") else ""
        rows.append(("cost", f"{duration(cost['seconds'])}{peak}"))
    if held_out := metrics.get("validation"):
        rows.append(
            (
                "validation",
                f"perplexity {held_out['perplexity']:.3f}, {held_out['bits_per_byte']:.4f} bits per byte over "
                f"{count(held_out['tokens'], 'token')}, {held_out['unknown_tokens']:,} unknown",
            )
        )
    return rows


def _learned_text(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """What metrics.json says of a neural language model's training."""
    from anaphora.training.reporting import duration, short

    rows: list[tuple[str, str]] = []
    if trained := metrics.get("trained_on"):
        seen = f"{count(trained['lines'], 'line')}, {count(trained['tokens'], 'token')} with end marks"
        rows.append(("learned from", f"{seen}, of {' '.join(trained['text'])}"))
    if cost := metrics.get("cost"):
        work = f"{count(cost['steps'], 'update')}, {short(cost['tokens'])} tokens, {duration(cost['seconds'])}"
        rows.append(("cost", f"{work} on {cost['device']}, {cost['flops']:.3g} FLOP"))
    if held_out := metrics.get("validation"):
        if "accuracy" in held_out:
            rows.append(("validation", f"accuracy {held_out['accuracy']:.4f}"))
        else:
            # hidden tokens are measured by perplexity alone
            bits = f", {held_out['bits_per_byte']:.4f} bits per byte" if "bits_per_byte" in held_out else ""
            tokens = f"{held_out['tokens']:,} {'hidden ' if held_out.get('masked') else ''}tokens"
            window = f", window moved by {held_out['stride']:,}" if held_out.get("stride") else ""
            rows.append(("validation", f"perplexity {held_out['perplexity']:.3f}{bits} over {tokens}{window}"))
        rows += _asked(held_out)
    return rows


def size(number: float) -> str:
    """Bytes as people say them."""
    units = ["bytes", "kB", "MB", "GB"]
    while number >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:,.0f} {units[0]}" if units[0] == "bytes" else f"{number:.1f} {units[0]}"


def _learned(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """What the folder's metrics.json says of training."""
    from anaphora.training.reporting import describe, duration, short

    rows: list[tuple[str, str]] = []
    if (made := metrics.get("ensemble")) and made.get("perplexity") is not None:
        tuned = f"the weights, on {made['tokens']:,} tokens: perplexity {made['perplexity']:.3f}"
        rows.append(("tuned", tuned))
    if trained := metrics.get("trained_on"):
        rows.append(("learned from", f"{count(trained['pairs'], 'pair')} of {' '.join(trained['source'])}"))
    if cost := metrics.get("cost"):
        rows.append(
            (
                "cost",
                f"{count(cost['steps'], 'update')}, {short(cost['target_tokens'])} target tokens, "
                f"{duration(cost['seconds'])} on {cost['device']}, {cost['flops']:.3g} FLOP",
            )
        )
    if metrics.get("validation"):
        beam = metrics["validation"].get("beam")
        rows.append(("validation", describe(metrics["validation"]) + (f"  (beam {beam})" if beam else "")))
        if "bleu_signature" in metrics["validation"]:
            rows.append(("", metrics["validation"]["bleu_signature"]))
        rows += _asked(metrics["validation"])
    if metrics.get("weights"):
        rows.append(("weights", metrics["weights"]))
    return rows
