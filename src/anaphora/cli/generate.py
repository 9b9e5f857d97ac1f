"""`anaphora generate`: a language model goes on with a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import (
    Patches,
    decoding_settings,
    open_text_model,
    read_text,
    reads_terminal,
    warn_of_notes,
)
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.decoding.generation import Generation
    from anaphora.pipelines.text_model import TextModel
    from anaphora.tokenizers.tokenizer import Tokenizer


RULE = "---"
"""Between texts of several lines."""


def generate(
    model: Annotated[Path, typer.Argument(help="Folder of a language model, or an ARPA file.")],
    prompt: Annotated[list[str] | None, typer.Argument(help="Text to continue; by default a new line.")] = None,
    file: Annotated[str | None, typer.Option(help="Prompts, one per line; - is stdin.")] = None,
    samples: Annotated[int, typer.Option(help="Texts for each prompt.")] = 1,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens", "--max-new-tokens", help="Maximum number of new tokens, line ends included. By default 100."
        ),
    ] = None,
    lines: Annotated[int | None, typer.Option(help="Stop after this many lines.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 sharpens the distribution, above flattens.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k most probable tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the most probable tokens that together hold this probability.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Sample only tokens with this share of the highest probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text; 1 by default.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="No sampling: the likeliest token at each step.")] = False,
    beam: Annotated[
        int | None,
        typer.Option("--beam", "--num-beams", help="No sampling: beam search with this many hypotheses."),
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1 penalizes tokens that are in the text already.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop before this text. Repeatable.")] = None,
    unknown: Annotated[bool, typer.Option("--unknown", help="Allow the unknown token.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Print the text while it is generated.")] = False,
    draft: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|prompt",
            help="Speculative decoding: n-gram folder to draft with, or `prompt` to draft from the text itself.",
        ),
    ] = None,
    draft_tokens: Annotated[
        int | None, typer.Option(help="Maximum number of tokens that a draft proposes at once.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Another decoding setting: min_length, no_repeat_ngram, length_penalty."
        ),
    ] = None,
    patch: Patches = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue a text to the end of the line: one text per line, its prompt first.

    With --tokens alone, a model trained on a stream goes on past line ends, to
    that many tokens; with --lines, to that many lines. A model of separate lines
    begins each further line anew. Texts of several lines are separated by ---.

    Tokens are sampled. An empty prompt gives no blank line, unless --set
    min_length=0 allows it. A draft speeds generation up without changing its
    distribution.

    anaphora generate runs/plays "To be, or" --samples 5 --seed 7

    anaphora generate runs/gpt "First Citizen:" --tokens 100

    anaphora generate runs/plays "Once upon" --min-p 0.05 --stop "." --stream

    anaphora generate runs/gpt "The house" --draft runs/4-gram --greedy

    anaphora generate runs/backpack "The trip" --patch sea.json --patch fair.json

    anaphora generate model.arpa.gz --file prompts.txt --beam 8 --json
    """
    from anaphora import api
    from anaphora.decoding.decoding_settings import GENERATION_SETTINGS
    from anaphora.decoding.extent import Extent
    from anaphora.decoding.line_breaks import one_line
    from anaphora.errors import UserError, nearest
    from anaphora.pipelines.text_model import NEW_TOKENS
    from anaphora.tokenizers.tokenizer import UNK

    out = Output(as_json=json, quiet=quiet)
    if file is not None and prompt:
        raise UserError("prompts are given twice, as arguments and by --file", cure="leave one of them out")
    flags: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    flags |= {"repetition_penalty": repetition_penalty, "stop": stop or None, "unknown": unknown or None}
    settings = decoding_settings(set_, **flags, beam=beam)
    for name in settings:
        if name not in (*GENERATION_SETTINGS, "beam"):
            listed = "`anaphora settings decoding` tells what they mean"
            raise UserError(
                f"--set {name} has no meaning in generation", cure=f"{nearest(name, GENERATION_SETTINGS)}; {listed}"
            )
    reads_terminal(out, model, file)
    loaded = open_text_model(out, model, device, patch)
    guess: Any = draft if draft in (None, "prompt") else api.load_text_model(str(draft))
    notes: Counter[str] = Counter()
    prompts = list(read_text([file], notes, together=True)) if file is not None else list(prompt or [""])
    warn_of_notes(out, notes)
    if not prompts:
        out.say(f"warning: {file} is empty: there is nothing to continue")
    wide = settings.pop("beam", None)
    if draft is not None and wide is not None:
        raise UserError("--draft cannot be combined with --beam", cure="leave out one of them")
    strange = sum(int((loaded.line_ids([text])[0] == UNK).sum()) for text in prompts)
    if strange:
        out.say(f"note: {count(strange, 'word of the prompts is', 'words of the prompts are')} not in the vocabulary")
    one = Extent.asked(lines, tokens, stream=loaded.boundaries == "stream").number == 1
    how: dict[str, Any] = {"tokens": tokens, "lines": lines, "greedy": greedy}
    how |= {"draft": guess, "draft_tokens": draft_tokens}
    if stream:
        if samples != 1 or wide is not None:
            raise UserError("--stream prints one text per prompt", cure="leave out --samples and --beam")
        found = []
        for place, text in enumerate(prompts):
            if place and not one:
                print(RULE)
            found.append([_heard(loaded, text, place, how | settings, one=one)])
    else:
        with out.bar("generating", len(prompts) * (1 if greedy or wide is not None else samples)) as bar:
            found = loaded.generate(prompts, samples=samples, beam=wide, progress=bar, **how, **settings)
        shown = [generation.text for texts in found for generation in texts]
        for line in map(one_line, shown) if one else _ruled(shown):
            out.text(line)
    said = [generation for texts in found for generation in texts]
    _report_ends(out, said, NEW_TOKENS if tokens is None else tokens)
    generations = [_document(text, texts, loaded.tokenizer) for text, texts in zip(prompts, found)]
    document: dict[str, Any] = {"model": str(model), "generations": generations}
    if patch:
        document["patches"] = [str(file) for file in patch]
    if draft is not None:
        document |= {"draft": draft, "speculation": _report_speculation(out, said)}
    out.finish(document)


def _ruled(texts: Sequence[str]) -> Iterator[str]:
    """Texts of several lines, with a rule between them."""
    for number, text in enumerate(texts):
        if number:
            yield RULE
        yield text


def _heard(loaded: TextModel, prompt: str, place: int, settings: dict[str, Any], *, one: bool) -> Generation:
    """Print a text while it is generated, as it would be without --stream: on `one` line, or on those that it has."""
    from anaphora.decoding.line_breaks import one_line

    out = Output(as_json=False, quiet=True)  # with --json, too
    stream = loaded.stream(prompt, place=place, **settings)
    out.text(one_line(stream.prompt) if one else stream.prompt, end="", flush=True)
    for piece in _whole_breaks(stream):
        out.text(one_line(piece) if one else piece, end="", flush=True)
    out.text("", flush=True)
    return stream.generation


def _whole_breaks(pieces: Iterable[str]) -> Iterator[str]:
    """A carriage return waits for the newline that may follow it: the two are one line break."""
    held = ""
    for piece in pieces:
        text = held + piece
        held = "\r" if text.endswith("\r") else ""
        yield text.removesuffix(held)
    yield held


def _report_ends(out: Output, said: list[Generation], tokens: int) -> None:
    """How texts came to an end that did not end by themselves, but for those that were to go on to the limit."""
    cut = [one for one in said if not one.finished and not (one.past_lines and len(one.token_ids) == one.limit)]
    stuck = sum(len(one.token_ids) < one.limit for one in cut)
    full = sum(len(one.token_ids) == one.limit < tokens for one in cut)
    if left := len(cut) - stuck - full:
        out.say(f"{count(left, 'text', 'texts')} did not end within {count(tokens, 'token', 'tokens')} (--tokens)")
    if full:
        out.say(f"{count(full, 'text', 'texts')} reached the model's maximum length")
    if stuck:
        out.say(f"{count(stuck, 'text', 'texts')} stopped early: the model gives every next token probability 0 there")


def _report_speculation(out: Output, said: list[Generation]) -> dict[str, Any]:
    from anaphora.decoding.speculative import Speculation

    told = Speculation()
    for one in said:
        told.add(one.speculation or Speculation())
    if told.proposed:
        out.say(
            f"draft: {told.acceptance_rate:.0%} of {told.proposed:,} proposed tokens accepted; "
            f"{told.tokens_per_pass:.2f} tokens per pass"
        )
    elif told.passes:
        out.say("draft: nothing was proposed; one token per pass")
    return told.document()


def _document(prompt: str, texts: list[Generation], tokenizer: Tokenizer) -> dict[str, Any]:
    from anaphora.tokenizers.token_names import shown_token, token_document

    return {
        "prompt": prompt,
        "texts": [
            {
                "text": one.text,
                "continuation": one.continuation,
                "log_probability": one.log_probability,
                "tokens": [
                    {**token_document(*shown_token(tokenizer, id)), "log_probability": value}
                    for id, value in zip(one.token_ids, one.token_scores)
                ],
                "finished": one.finished,
                "stop": one.stop,
                **({} if one.speculation is None else {"speculation": one.speculation.document()}),
            }
            for one in texts
        ],
    }
