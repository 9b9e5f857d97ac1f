"""`anaphora evaluate`: of a translator BLEU with its signature, chrF and loss; of a language model bits per byte."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

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
    count,
    decoding_settings,
    describe_replaced,
    open_text_model,
    read_pairs,
    read_text,
    takes_text,
    warn_of_notes,
)
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.errors import UserError


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
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokeniser: 13a, intl, zh, char, …")] = "13a",
    by_length: Annotated[
        int | None, typer.Option(metavar="WORDS", help="Also report BLEU by source length, in bins of this many words.")
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

    Translators (--source, --target): sacreBLEU, chrF, loss and speed.

    Language models (--text): perplexity, bits per byte and unknown tokens. A model with a limited context reads a
    longer text through a window; a smaller --stride gives longer contexts.

    Word vectors: agreement with human similarity ratings, analogies, and word association tests (WEAT). A Backpack's
    --similarity is measured by sense, the best chosen on the first file; another neural model's on its embeddings.

    anaphora evaluate runs/en-de --source test.en --target test.de

    anaphora evaluate runs/en-de --source test.en --target test.de --by-length 5 --picture lengths.png

    anaphora evaluate runs/a --with runs/b --with runs/c --source test.en --target test.de

    anaphora evaluate runs/plays --text test.txt

    anaphora evaluate runs/gpt --text test.txt --stride 32

    anaphora evaluate runs/words --similarity wordsim353.tsv --analogies questions-words.txt

    anaphora evaluate runs/backpack --similarity wordsim353.tsv --similarity simlex999.tsv
    """
    import dataclasses

    from anaphora import api
    from anaphora.evaluation.translation import bleu
    from anaphora.folder import write_text

    out = Output(as_json=json, quiet=quiet)
    asked = {"--similarity": similarity, "--analogies": analogies, "--weat": weat}
    if api.is_vectors(model):
        others: dict[str, Any] = {"--source": source, "--target": target, "--text": text, "--beam": beam, "--set": set_}
        others |= {"--with": with_, "--mbr": mbr, "--patch": patch or None}
        others |= {"--stride": stride, "--output": output, "--log10": log10 or None, "--force": force or None}
        others["--tokenize"] = None if tokenize == "13a" else tokenize
        if idle_too := [flag for flag, value in others.items() if value is not None]:
            cure = "give --similarity, --analogies or --weat"
            raise UserError(f"{idle_too[0]} is not about word vectors", cure=cure)
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
        if idle_too := [flag for flag, value in others.items() if value is not None]:
            cure = "measure that in a command of its own"
            raise UserError(f"{idle_too[0]} and --similarity are both given", cure=cure)
        from anaphora.cli.similarity import evaluate_similarity

        evaluate_similarity(out, open_text_model(out, model, device, patch), similarity, patch or ())
        return
    if only := [flag for flag, value in asked.items() if value]:
        raise UserError(f"{only[0]} is about word vectors", file=model, cure="leave it out, or give vectors")
    if takes_text(model, text, source, target):
        idle: dict[str, Any] = {"--beam": beam, "--set": set_, "--output": output, "--force": force or None}
        idle |= {"--with": with_, "--mbr": mbr}
        idle |= {"--by-length": by_length, "--picture": picture}
        idle["--tokenize"] = None if tokenize == "13a" else tokenize
        _evaluate_text(out, model, text or [], device, idle, log10=log10, stride=stride, patch=patch)
        return
    if log10 or stride is not None or patch:
        said = "--log10" if log10 else "--patch" if patch else "--stride"
        raise UserError(f"{said} is about --text, and this is a translator", cure="leave it out")
    if picture is not None and by_length is None:
        raise UserError("--picture draws BLEU by length, and that is not measured", cure="add --by-length 5")
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise UserError("is no kind of picture", file=picture, cure="name it .svg or .png")
    for written in (output, picture):
        check_new_file(written, force=force, inputs=[*(source or ()), *(target or ())])
    bleu([""], [""], tokenize=tokenize)  # an unknown tokeniser is named before the work is done
    notes: Counter[str] = Counter()
    sources, targets = read_pairs(source, target, notes)
    warn_of_notes(out, notes)
    decoding = decoding_settings(set_, beam=beam, mbr=mbr)
    loaded = api.load_translator([model, *with_] if with_ else model, device)
    with out.bar("translating", len(sources)) as bar:
        found = loaded.evaluate(sources, targets, tokenize=tokenize, by_length=by_length, progress=bar, **decoding)
    out.result(f"BLEU {found.bleu:.2f}  {found.bleu_signature}")
    out.result(f"chrF {found.chrf:.2f}  {found.chrf_signature}")
    out.result(f"loss {found.loss:.4f}  perplexity {found.perplexity:.3f}")
    out.result(f"{found.lines} lines, {found.lines_per_second:.1f} lines/s, {found.search}, {found.device}")
    if found.replaced_words:
        out.say(describe_replaced(found.replaced_words))
    if found.split_lines:
        out.say(f"{count(found.split_lines, 'line was', 'lines were')} too long for the model and translated in pieces")
    if found.unscored_lines:
        out.say(f"{count(found.unscored_lines, 'pair was', 'pairs were')} too long to be scored")
    if output is not None:
        write_text(output, "".join(translation.text + "\n" for translation in found.translations))
    if found.by_length is not None:
        out.result("source words   lines    BLEU    chrF  length ratio")
        for one in found.by_length:
            out.result(f"{one.name:>12} {one.lines:>7,} {one.bleu:>7.2f} {one.chrf:>7.2f} {one.length_ratio:>13.2f}")
    if picture is not None and found.by_length is not None:
        from anaphora.folder import write_bytes
        from anaphora.inspect.lengths_picture import lengths_picture

        name = model.resolve().name
        write_bytes(picture, lengths_picture({name: found.by_length}, form=picture.suffix.lower()[1:]))
    document = {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name != "translations"}
    if found.by_length is not None:
        document["by_length"] = [dataclasses.asdict(one) for one in found.by_length]
    out.finish({"model": str(model), **document})


def _evaluate_vectors(out: Output, model: Path, similarity: list[str], analogies: list[str], weat: list[str]) -> None:
    from dataclasses import asdict

    from anaphora import api

    if not similarity and not analogies and not weat:
        raise UserError(
            "is word vectors, and nothing to measure them by is given",
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


def _evaluate_text(
    out: Output,
    model: Path,
    text: list[str],
    device: str,
    idle: dict[str, Any],
    *,
    log10: bool,
    stride: int | None,
    patch: list[Path] | None,
) -> None:
    if said := [flag for flag, value in idle.items() if value is not None]:
        raise UserError(f"{said[0]} is about translating, and a language model translates nothing", cure="leave it out")
    loaded = open_text_model(out, model, device, patch)
    notes: Counter[str] = Counter()
    with out.bar("reading") as bar:
        try:
            found = loaded.evaluate(read_text(text, notes), stride=stride, progress=bar)
        except UserError as error:
            if error.file is not None or "stride" in error.what:
                raise
            raise UserError(error.what, file=error.file or text[0], line=error.line, cure=error.cure) from None
    warn_of_notes(out, notes)
    size = count(found.tokens, "token", "tokens")
    out.result(f"perplexity     {found.perplexity:.3f}  ({size}, end marks included)")
    if found.unknown_tokens:
        known = found.tokens - found.unknown_tokens
        out.result(
            f"  of known     {found.perplexity_known:.3f}  ({count(known, 'token', 'tokens')} that are not unknown)"
        )
    out.result(f"bits per byte  {found.bits_per_byte:.4f}  ({count(found.bytes, 'byte', 'bytes')}, newlines included)")
    log = found.log_probability / (math.log(10) if log10 else 1.0)
    out.result(f"log P          {log:.3f}  ({'to the base 10' if log10 else 'natural logarithm'}, of the whole text)")
    read = "each line by itself" if found.boundaries == "lines" else "lines read on, as one text"
    blank = "kept" if found.blank_lines == "keep" else f"left out ({found.dropped_lines:,})"
    out.result(f"{count(found.lines, 'line', 'lines')}, {read}, blank lines {blank}")
    if found.stride is not None:
        out.result(
            f"window of {found.context:,} tokens, moved by {found.stride:,}, over "
            f"{count(found.cut_rows, 'longer row', 'longer rows')}"
        )
    out.result(f"{found.tokens_per_second:,.0f} tokens/s")
    if found.impossible_tokens:
        cure = "smoothing is for that"
        if getattr(getattr(loaded.model, "config", None), "smoothing", "") == "stupid-backoff":
            cure = "train with tokenizer.minimum_count=2, so that ⟨unk⟩ is seen"
        out.say(
            f"{count(found.impossible_tokens, 'token has', 'tokens have')} probability 0 in this model, so the whole "
            f"text has: {cure}"
        )
    if found.note:
        out.say(f"note: {found.note}")
    logs = {"log_probability": log, "logarithm": "10" if log10 else "e"}
    named = {"patches": [str(file) for file in patch]} if patch else {}
    out.finish({"model": str(model), **named, **found.document(), **logs})
