"""`anaphora evaluate`: of a translator BLEU with its signature, chrF and loss; of a language model bits per byte."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import (
    Force,
    Log10,
    Mbr,
    OutputFile,
    Patches,
    Set,
    TextFiles,
    With,
    check_new_file,
    decoding_settings,
    describe_replaced,
    open_text_model,
    read_pairs,
    takes_text,
    warn_of_notes,
)
from anaphora.cli.evaluate_text import evaluate_labels, evaluate_text
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.errors import UserError
from anaphora.evaluation.draws import Draws
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.decoding.translation_scores import Evaluation


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model or run folder, an ARPA file, or a file of vectors.")],
    source: Annotated[list[str] | None, typer.Option(help="Text in the source language.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Reference translations, line for line.")] = None,
    with_: With = None,
    text: TextFiles = None,
    log10: Log10 = False,
    similarity: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="For vectors or a neural model: lines of two words and a human similarity rating."
        ),
    ] = None,
    analogies: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="For vectors: lines of four words, a is to b as c is to d.")
    ] = None,
    weat: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="For vectors: a YAML file with two target and two attribute sets."),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size; 1 is greedy search.")] = None,
    mbr: Mbr = None,
    set_: Set = None,
    stride: Annotated[int | None, typer.Option(help="With --text: tokens by which the model's window moves.")] = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer: 13a, intl, zh, char, …")] = "13a",
    by_length: Annotated[
        int | None, typer.Option(metavar="WORDS", help="Also report BLEU by source length, in bins of this many words.")
    ] = None,
    ter: Annotated[bool, typer.Option("--ter", help="Also report TER, which is slow for long lines.")] = False,
    beside: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Another model: compare both by a paired bootstrap test.")
    ] = None,
    bootstrap: Annotated[
        int | None, typer.Option("--bootstrap", help="With --beside: samples; 1,000 by default.")
    ] = None,
    bootstrap_samples: Annotated[int | None, typer.Option(hidden=True, help="The same, by Python's name.")] = None,
    bootstrap_seed: Annotated[int | None, typer.Option(help="With --beside: seed; 12345 by default.")] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="For a classifier, with --text: the correct labels, line for line."),
    ] = None,
    patch: Patches = None,
    picture: Annotated[Path | None, typer.Option(help="Draw BLEU by length as .svg or .png.")] = None,
    output: OutputFile = None,
    force: Force = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a model on text that it has not seen.

    Translators (--source, --target): sacreBLEU, chrF, loss and speed; --ter adds TER.

    Language models (--text): perplexity, bits per byte and unknown tokens. A model with a limited context reads a
    longer text through a window; a smaller --stride gives longer contexts.

    Two of either kind (--beside): both scores with 95 % intervals, and p of their difference.

    Classifiers (--text, --labels): accuracy, macro F1, each class, the confusion matrix.

    Word vectors: agreement with human similarity ratings, analogies, and word association tests (WEAT). A Backpack's
    --similarity is measured by sense, the best chosen on the first file; another neural model's on its embeddings.

    anaphora evaluate runs/en-de --source test.en --target test.de

    anaphora evaluate runs/en-de --source test.en --target test.de --by-length 5 --picture lengths.png

    anaphora evaluate runs/a --with runs/b --with runs/c --source test.en --target test.de

    anaphora evaluate runs/a --beside runs/b --source test.en --target test.de --ter

    anaphora evaluate runs/plays --text test.txt

    anaphora evaluate runs/lstm --beside runs/gpt --text test.txt

    anaphora evaluate runs/senses --text test.txt --labels test.labels

    anaphora evaluate runs/gpt --text test.txt --stride 32

    anaphora evaluate runs/words --similarity wordsim353.tsv --analogies questions-words.txt

    anaphora evaluate runs/backpack --similarity wordsim353.tsv --similarity simlex999.tsv
    """
    from anaphora import api
    from anaphora.evaluation.translation_metrics import bleu

    out = Output(as_json=json, quiet=quiet)
    bootstrap = bootstrap if bootstrap_samples is None else bootstrap_samples
    asked = {"--similarity": similarity, "--analogies": analogies, "--weat": weat}
    test: dict[str, Any] = {"--beside": beside, "--bootstrap": bootstrap, "--bootstrap-seed": bootstrap_seed}
    if beside is None and (idle_too := [flag for flag, value in test.items() if value is not None]):
        raise UserError(f"{idle_too[0]} needs --beside", cure="add --beside MODEL")
    given = {"samples": bootstrap, "seed": bootstrap_seed}
    draws = Draws(**{name: value for name, value in given.items() if value is not None}).check()
    test |= {"--ter": ter or None, "--labels": labels}
    if api.is_vectors(model):
        others: dict[str, Any] = {"--source": source, "--target": target, "--text": text, "--beam": beam, "--set": set_}
        others |= {"--with": with_, "--mbr": mbr, "--patch": patch or None, **test}
        others |= {"--stride": stride, "--output": output, "--log10": log10 or None, "--force": force or None}
        others["--tokenize"] = None if tokenize == "13a" else tokenize
        if idle_too := [flag for flag, value in others.items() if value is not None]:
            cure = "give --similarity, --analogies or --weat"
            raise UserError(f"{idle_too[0]} is not for word vectors", cure=cure)
        _evaluate_vectors(out, model, similarity or [], analogies or [], weat or [])
        return
    if similarity and api.is_language_model(model):
        others = {
            "--source": source,
            "--target": target,
            "--text": text,
            "--beam": beam,
            "--set": set_,
            "--with": with_,
        }
        others |= {"--analogies": analogies, "--weat": weat, "--mbr": mbr, "--stride": stride, "--output": output}
        others |= {"--log10": log10 or None, "--force": force or None, "--by-length": by_length, "--picture": picture}
        others |= test
        if idle_too := [flag for flag, value in others.items() if value is not None]:
            cure = "measure that in a command of its own"
            raise UserError(f"{idle_too[0]} and --similarity are both given", cure=cure)
        from anaphora.cli.similarity import evaluate_similarity

        evaluate_similarity(out, open_text_model(out, model, device, patch), similarity, patch or ())
        return
    if only := [flag for flag, value in asked.items() if value]:
        raise UserError(f"{only[0]} is for word vectors", file=model, cure="leave it out, or give vectors")
    if takes_text(model, text, source, target):
        idle: dict[str, Any] = {"--beam": beam, "--set": set_, "--output": output, "--force": force or None}
        idle |= {"--with": with_, "--mbr": mbr, "--ter": ter or None}
        idle |= {"--by-length": by_length, "--picture": picture}
        idle["--tokenize"] = None if tokenize == "13a" else tokenize
        if unfit := [flag for flag, value in idle.items() if value is not None]:
            raise UserError(f"{unfit[0]} is for translators, and this is a language model", cure="leave it out")
        loaded_text = open_text_model(out, model, device, patch)
        if labels is not None:
            unused = {"--stride": stride, "--log10": log10 or None, "--patch": patch, "--beside": beside}
            if unfit := [flag for flag, value in unused.items() if value is not None]:
                raise UserError(f"{unfit[0]} and --labels are both given", cure="leave one of them out")
            evaluate_labels(out, loaded_text, text or [], labels)
            return
        second = None if beside is None else open_text_model(out, beside, device)
        evaluate_text(out, loaded_text, text or [], log10=log10, stride=stride, patch=patch, beside=second, draws=draws)
        return
    if log10 or stride is not None or patch or labels:
        said = "--log10" if log10 else "--patch" if patch else "--labels" if labels else "--stride"
        raise UserError(f"{said} is for --text, and this is a translator", cure="leave it out")
    if picture is not None and by_length is None:
        raise UserError("--picture draws BLEU by length, which is not measured", cure="add --by-length 5")
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise UserError("is not a supported image format", file=picture, cure="use a name ending in .svg or .png")
    for written in (output, picture):
        check_new_file(written, force=force, inputs=[*(source or ()), *(target or ())])
    bleu([""], [""], tokenize=tokenize)  # an unknown tokenizer is named before the work is done
    notes: Counter[str] = Counter()
    sources, targets = read_pairs(source, target, notes)
    warn_of_notes(out, notes)
    decoding = decoding_settings(set_, beam=beam, mbr=mbr)
    loaded = api.load_translator([model, *with_] if with_ else model, device)
    other = None if beside is None else api.load_translator(beside, device)
    with out.bar("translating", len(sources) * (1 if other is None else 2)) as bar:
        how: dict[str, Any] = {"tokenize": tokenize, "by_length": by_length, "ter": ter, "progress": bar}
        found = loaded.evaluate(sources, targets, beside=other, **how, **draws.options(), **decoding)
    _report(out, found, model, beside, output, picture)


def _report(
    out: Output, found: Evaluation, model: Path, beside: Path | None, output: Path | None, picture: Path | None
) -> None:
    """Scores of a translator, for people and as JSON; its translations and the picture, where they are asked for."""
    from anaphora.evaluation.by_length import fewest
    from anaphora.folder import write_bytes, write_text

    for line in found.report([model.name, "" if beside is None else beside.name]):
        out.result(line)
    if found.replaced_words:
        out.say(describe_replaced(found.replaced_words))
    if found.split_lines:
        lines = count(found.split_lines, "line", "lines")
        out.say(f"{lines} of several sentences, or too long for the model: translated in pieces")
    if found.unscored_lines:
        out.say(f"{count(found.unscored_lines, 'pair was', 'pairs were')} too long to be scored")
    if output is not None:
        write_text(output, "".join(translation.text + "\n" for translation in found.translations), pipes=True)
    if found.by_length is not None:
        out.result("source words   lines    BLEU    chrF  length ratio")
        for one in found.by_length:
            out.result(f"{one.name:>12} {one.lines:>7,} {one.bleu:>7.2f} {one.chrf:>7.2f} {one.length_ratio:>13.2f}")
        if (least := fewest(found.lines)) > 1:
            out.result(f"(bins at either end with fewer than {least} lines are merged with their neighbor)")
        if picture is not None and len(found.by_length) == 1:
            out.say("note: all lines are in one bin, so the picture has one point; give a smaller --by-length")
    if picture is not None and found.by_length is not None:
        from anaphora.explain.draw.lengths_picture import lengths_picture

        name = model.resolve().name
        write_bytes(picture, lengths_picture({name: found.by_length}, form=picture.suffix.lower()[1:]), pipes=True)
    document = _document(found)
    if found.significance is not None and found.beside is not None:
        document["significance"] = found.significance.document()
        document["beside"] = {"model": str(beside), **_document(found.beside)}
    out.finish({"model": str(model), **document})


def _document(found: Evaluation) -> dict[str, Any]:
    left = ("translations", "significance", "beside")
    document = {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name not in left}
    if found.by_length is not None:
        document["by_length"] = [dataclasses.asdict(one) for one in found.by_length]
    return document


def _evaluate_vectors(out: Output, model: Path, similarity: list[str], analogies: list[str], weat: list[str]) -> None:
    from dataclasses import asdict

    from anaphora import api

    if not similarity and not analogies and not weat:
        raise UserError(
            "holds word vectors, and no benchmark is given",
            file=model,
            cure="give --similarity FILE, --analogies FILE or --weat FILE",
        )
    loaded = api.load_vectors_model(model)
    for note in loaded.notes:
        out.say(f"note: {note}")
    document: dict[str, Any] = {"model": str(model), "similarity": {}, "analogies": {}, "weat": {}}
    for file in similarity:
        near = loaded.evaluate_similarity(file)
        document["similarity"][file] = asdict(near)
        if math.isnan(near.spearman):  # JSON has no word for it
            document["similarity"][file]["spearman"] = None
        said = "no correlation" if math.isnan(near.spearman) else f"Spearman {near.spearman:.4f}"
        out.result(f"{file}: {said} over {count(near.pairs, 'pair', 'pairs')} ({near.unknown:,} left out)")
    for file in analogies:
        found = loaded.evaluate_analogies(file)
        document["analogies"][file] = {**asdict(found), "accuracy": found.accuracy}
        share = f"{found.accuracy:.2%} of {count(found.questions, 'analogy', 'analogies')}"
        out.result(f"{file}: {share if found.questions else 'no analogy'} completed ({found.unknown:,} left out)")
        for section, (right, total) in found.sections.items():
            if section and total:
                out.result(f"  {right / total:7.2%}  {section} ({total:,})")
    for file in weat:
        held = loaded.weat(file)
        document["weat"][file] = held.document()
        (x, y), (a, b) = held.targets, held.attributes
        first, second = (a, b) if held.effect >= 0 else (b, a)
        out.result(f"{file}: effect size {held.effect:.3f}, p {held.p:.4g}")
        out.result(f"  {x} are nearer to {first}, {y} to {second}")
        how = "all" if held.exact else "drawn"
        out.result(f"  {held.divisions:,} divisions of the targets ({how})")
        if left := [word for words in held.unknown.values() for word in words]:
            out.say(f"note: without a vector: {', '.join(left)}")
    if not any(found["pairs"] for found in document["similarity"].values()) and similarity:
        out.say("warning: no pair has vectors for both words")
    if analogies and not any(found["questions"] for found in document["analogies"].values()):
        out.say("warning: no analogy has vectors for all four words")
    out.finish(document)
