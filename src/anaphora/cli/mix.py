"""`anaphora mix`: several language models as one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.arguments import count
from anaphora.cli.output import Json, Output, Quiet

if TYPE_CHECKING:
    from anaphora.mixing import Mixed, MixedPart


def mix(
    out: Annotated[Path, typer.Argument(help="New folder for the mixture.")],
    models: Annotated[list[Path], typer.Argument(metavar="MODEL MODEL…", help="Folders of models, or ARPA files.")],
    text: Annotated[list[str] | None, typer.Option(help="Held-out text, on which the weights are tuned.")] = None,
    valid_text: Annotated[list[str] | None, typer.Option(help="Other text, to measure the mixture on.")] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="W,W,…", help="Given weights, one for each model, instead of tuned ones.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the model folder OUT.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Mix language models that share a vocabulary: P is the weighted mean of what they say.

    The weights are found by EM: those under which the held-out text is most probable. It should be like the text that
    the mixture is meant for, and no part may have been made of it. The folder OUT holds copies of the parts.

    anaphora mix runs/mixed runs/large runs/near --text dev.txt

    anaphora mix runs/mixed runs/large near.arpa --text dev.txt --valid-text test.txt

    anaphora mix runs/mixed runs/large runs/near --weights 0.7,0.3
    """
    from anaphora.config import convert as convert_settings
    from anaphora.inspect.terminal import cut
    from anaphora.mixing import mix as make

    said = Output(as_json=json, quiet=quiet)
    shares = None if weights is None else weights.replace(",", " ").split()
    given = convert_settings(shares, list[float] | None, name="--weights")
    made = make(out, [*models], text=text or (), valid_text=valid_text or (), weights=given, force=force)
    if made.note:
        said.say(f"warning: {made.note}")
    label = max(11, min(40, max(len(part.name) for part in made.parts)))

    def measured(one: Mixed | MixedPart) -> str:
        there = "" if one.perplexity is None else f"  {one.perplexity:>11,.3f}"
        return there + ("" if one.valid_perplexity is None else f"  {one.valid_perplexity:>13,.3f}")

    heads = "" if made.perplexity is None else f"  {'perplexity':>11}"
    heads += "" if made.valid_perplexity is None else f"  {'on valid text':>13}"
    said.result(f"{'':<{label}}  {'weight':>7}{heads}")
    for part in made.parts:
        said.result(f"{cut(part.name, label):<{label}}  {part.weight:>7.4f}{measured(part)}")
    said.result(f"{'the mixture':<{label}}  {'':>7}{measured(made)}".rstrip())
    tuned = f"weights tuned on {made.tokens:,} tokens in {count(made.rounds, 'round', 'rounds')}"
    tuned = "weights as given" if made.perplexity is None else tuned
    said.say(f"{tuned}; {out} holds the mixture with its parts")
    if made.impossible_tokens:
        said.say(f"warning: {made.impossible_tokens:,} tokens are impossible for every part, and for the mixture")
    said.finish(made.document())
