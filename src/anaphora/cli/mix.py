"""`anaphora mix`: several models as one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.models.composites.parts import Mixed, MixedPart


def mix(
    out: Annotated[Path, typer.Argument(help="New folder for the mixture or ensemble.")],
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Folders of models, or ARPA files.")],
    text: Annotated[list[str] | None, typer.Option(help="Held-out text to tune the weights on.")] = None,
    valid_text: Annotated[list[str] | None, typer.Option(help="Other text to evaluate the mixture on.")] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="For translators: held-out source text to tune the weights on.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    valid_source: Annotated[
        list[str] | None, typer.Option(help="Other source text to evaluate the ensemble on.")
    ] = None,
    valid_target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="W,W,…", help="Fixed weights, one per model, instead of tuned ones.")
    ] = None,
    mean: Annotated[str, typer.Option(help="For translators: average probabilities, or logs.")] = "probabilities",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the model folder OUT.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Combine several models into one, whose probabilities are the weighted average of theirs.

    Language models with the same vocabulary make a mixture. EM finds the weights under which the held-out text is most
    probable; that text should resemble what the mixture is meant for, and no model may have been trained on it.

    Translators with the same target vocabulary make an ensemble, by default with equal weights.

    The folder OUT holds copies of the models, and is used like any model.

    anaphora mix runs/mixed runs/large runs/near --text dev.txt

    anaphora mix runs/mixed runs/large near.arpa --text dev.txt --valid-text test.txt

    anaphora mix runs/mixed runs/large runs/near --weights 0.7,0.3

    anaphora mix runs/three runs/en-de-1 runs/en-de-2 runs/bahdanau
    """
    from anaphora.config import convert as convert_settings
    from anaphora.explain.draw.terminal import cut
    from anaphora.pipelines.mixing import is_translator
    from anaphora.pipelines.mixing import mix as make

    said = Output(as_json=json, quiet=quiet)
    shares = None if weights is None else weights.replace(",", " ").split()
    given = convert_settings(shares, list[float] | None, name="--weights")
    pairs = {"source": source or (), "target": target or ()}
    pairs |= {"valid_source": valid_source or (), "valid_target": valid_target or ()}
    texts = {"text": text or (), "valid_text": valid_text or ()}
    made = make(out, [*models], **texts, **pairs, weights=given, mean=mean, device=device, force=force)
    whole = "ensemble" if is_translator(out) else "mixture"
    if made.note:
        said.say(f"warning: {made.note}")
    label = max(len(f"the {whole}"), min(40, max(len(part.name) for part in made.parts)))

    def measured(one: Mixed | MixedPart) -> str:
        there = "" if one.perplexity is None else f"  {one.perplexity:>11,.3f}"
        return there + ("" if one.valid_perplexity is None else f"  {one.valid_perplexity:>13,.3f}")

    heads = "" if made.perplexity is None else f"  {'perplexity':>11}"
    heads += "" if made.valid_perplexity is None else f"  {'on valid text':>13}"
    said.result(f"{'':<{label}}  {'weight':>7}{heads}")
    for part in made.parts:
        said.result(f"{cut(part.name, label):<{label}}  {part.weight:>7.4f}{measured(part)}")
    if heads:  # else nothing is known of it
        said.result(f"{f'the {whole}':<{label}}  {'':>7}{measured(made)}")
    tuned = f"weights tuned on {made.tokens:,} tokens in {count(made.rounds, 'round', 'rounds')}"
    if made.perplexity is None:
        tuned = "equal weights" if given is None else "weights as given"
    said.say(f"{tuned}; {out} holds the {whole} with its parts")
    if made.impossible_tokens:
        said.say(f"warning: {made.impossible_tokens:,} tokens are impossible for every part, and for the {whole}")
    said.finish(made.document())
