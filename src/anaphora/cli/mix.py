"""`anaphora mix`: several language models as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Json, Output, Quiet


def mix(
    out: Annotated[Path, typer.Argument(help="New folder for the mixture.")],
    models: Annotated[list[Path], typer.Argument(metavar="MODEL MODEL…", help="Folders of models, or ARPA files.")],
    text: Annotated[list[str] | None, typer.Option(help="Held-out text, on which the weights are tuned.")] = None,
    valid_text: Annotated[list[str] | None, typer.Option(help="Other text, to measure the mixture on.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the model folder OUT.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Mix language models that share a vocabulary: P is the weighted mean of what they say.

    The weights are found by EM: those under which the held-out text is most probable. It should be like the text that
    the mixture is meant for, and no part may have been made of it. The folder OUT holds copies of the parts.

    anaphora mix runs/mixed runs/large runs/near --text dev.txt

    anaphora mix runs/mixed runs/large near.arpa --text dev.txt --valid-text test.txt
    """
    from anaphora.inspect.terminal import cut
    from anaphora.mixing import mix as make

    said = Output(as_json=json, quiet=quiet)
    made = make(out, [*models], text=text or (), valid_text=valid_text or (), force=force)
    if made.note:
        said.say(f"warning: {made.note}")
    label = max(11, min(40, max(len(part.name) for part in made.parts)))
    valid = made.valid_perplexity is not None
    said.result(f"{'':<{label}}  {'weight':>7}  {'perplexity':>11}" + (f"  {'on valid text':>13}" if valid else ""))
    for part in made.parts:
        there = f"  {part.valid_perplexity:>13,.3f}" if part.valid_perplexity is not None else ""
        said.result(f"{cut(part.name, label):<{label}}  {part.weight:>7.4f}  {part.perplexity:>11,.3f}{there}")
    there = f"  {made.valid_perplexity:>13,.3f}" if made.valid_perplexity is not None else ""
    said.result(f"{'the mixture':<{label}}  {'':>7}  {made.perplexity:>11,.3f}{there}")
    tuned = f"weights tuned on {made.tokens:,} tokens in {made.rounds} rounds"
    said.say(f"{tuned}; {out} holds the mixture with its parts")
    if made.impossible_tokens:
        said.say(f"warning: {made.impossible_tokens:,} tokens are impossible for every part, and for the mixture")
    said.finish(made.document())
