"""`anaphora train`: learn from files, or go on learning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.model_option import ModelFile, changes_told
from anaphora.cli.output import Device, Json, Output, Quiet, program


def train(
    run: Annotated[Path, typer.Argument(help="Folder of the run; created, or continued.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SECTION.KEY=VALUE",
            help="Settings, such as training.max_steps=2000; `anaphora settings` lists them.",
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Source text of a translator: .txt .tsv .csv .jsonl .parquet, also .gz .xz .zst."),
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    valid_source: Annotated[
        list[str] | None, typer.Option(help="Validation text, source side; by default pairs are held out.")
    ] = None,
    valid_target: Annotated[list[str] | None, typer.Option(help="Validation text, target side.")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Training text for a language model or word vectors, in the same formats.")
    ] = None,
    valid_text: Annotated[list[str] | None, typer.Option(help="Validation text for a language model.")] = None,
    labels: Annotated[
        list[str] | None, typer.Option(help="Labels for a classifier, one for each line of --text.")
    ] = None,
    valid_labels: Annotated[list[str] | None, typer.Option(help="Labels for --valid-text.")] = None,
    items: Annotated[
        list[str] | None,
        typer.Option(help="For vectors of items: one sequence per line, separated by tabs or spaces."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="A recipe, or a YAML file. Translators: transformer (default), seq2seq, bahdanau, luong, deep-att, "
            "gnmt, moe, bytenet, convs2s, sized to the corpus (NAME-paper: published size); tiny, small, base, big, "
            "strong. With --text: ngram (default), dan, window, rnn, gru, lstm, conv, transformer-decoder, "
            "transformer-encoder, backpack, sized to the text; backpack-micro, -mini, -small; gpt2, bert (their "
            "shapes, not the pretrained weights). Vectors of words or --items: skipgram, cbow, glove.",
            show_default=False,
        ),
    ] = None,
    model: ModelFile = None,
    from_: Annotated[Path | None, typer.Option("--from", "--start-from", help="Fine-tune this trained model.")] = None,
    device: Device = "auto",
    force: Annotated[
        bool,
        typer.Option("--force", help="Continue a run with changed settings; word vectors and n-grams start again."),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Same as a positional SECTION.KEY=VALUE. Repeatable."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a translator, a language model or word vectors.

    Repeat the command to continue a run; raise training.max_steps to train it further.

    anaphora train runs/en-de --source train.en --target train.de

    anaphora train runs/en-de --source train.tsv --recipe tiny training.max_minutes=30

    anaphora train runs/mine --from runs/en-de --source my.en --target my.de

    anaphora train runs/better --from runs/en-de --source train.tsv training.objective=reinforce

    anaphora train runs/lm --text train.txt --valid-text valid.txt model.order=3

    anaphora train runs/lstm --text train.txt --recipe lstm

    anaphora train runs/senses --text lines.txt --labels labels.txt --recipe gru

    anaphora train runs/words --text wiki.txt --recipe skipgram model.dim=100

    anaphora train runs/own --text train.txt --model my_model.py
    """
    import dataclasses
    import shlex

    from anaphora import api
    from anaphora.errors import UserError
    from anaphora.training.interruption import Interrupted

    output = Output(as_json=json, quiet=quiet)
    settings = [*(settings or ()), *(set_ or ())]
    given = [item.partition("=")[0] for item in settings]
    if not source and not text and not items and not {"data.source", "data.text"} & set(given):
        cure = "give --source FILE --target FILE for a translator, or --text FILE for a language model or vectors"
        raise UserError("no training text given", cure=cure)
    try:
        with changes_told():
            outcome = api.train(
                run,
                source=source or (),
                target=target or (),
                valid_source=valid_source or (),
                valid_target=valid_target or (),
                text=text or (),
                valid_text=valid_text or (),
                labels=labels or (),
                valid_labels=valid_labels or (),
                items=items or (),
                recipe=recipe,
                model=model,
                start_from=from_,
                device=device,
                force=force,
                settings=settings,
                progress=output.console or False,
            )
    except Interrupted as error:
        if error.step == 0:
            output.say(f"interrupted before the first update; repeat the command to start ({run})")
        else:
            saved = "what was learned is" if error.step is None else f"step {error.step} is"
            output.say(f"interrupted: {saved} saved in {run}; repeat the command to continue")
        output.finish({"folder": str(run), "interrupted": True, "steps": error.step})
        sys.exit(130)
    ended = outcome.reason if outcome.reason.startswith("stopped") else f"finished: {outcome.reason}"
    own = f" --model {shlex.quote(str(model))}" if model else ""  # nothing else knows what the folder holds
    output.say(f"{ended}. Now: {program()} {outcome.next_command()}{own}")
    output.finish(dataclasses.asdict(outcome))
