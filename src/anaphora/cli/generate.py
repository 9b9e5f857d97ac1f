"""`anaphora generate`: a language model goes on with a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import Patches, count, decoding_settings, open_text_model, read_text, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet

if TYPE_CHECKING:
    from anaphora.decoding.generation import Generation
    from anaphora.text.tokenizer import Tokenizer
    from anaphora.text_model import TextModel


def generate(
    model: Annotated[Path, typer.Argument(help="Folder of a language model, or an ARPA file.")],
    prompt: Annotated[list[str] | None, typer.Argument(help="What to go on with; nothing: a new line.")] = None,
    file: Annotated[str | None, typer.Option(help="Prompts, one a line; - is stdin.")] = None,
    samples: Annotated[int, typer.Option(help="Texts for each prompt.")] = 1,
    tokens: Annotated[int, typer.Option(help="New tokens at the most, the end mark included.")] = 100,
    temperature: Annotated[float | None, typer.Option(help="Below 1 sharpens, above 1 flattens.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw only among the k most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw only among the most probable mass p.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Draw only tokens this near to the likeliest.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed, the same text; 1 unless said.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Draw nothing: the likeliest token at each step.")] = False,
    beam: Annotated[int | None, typer.Option(help="Draw nothing: the likeliest texts that so many find.")] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1 makes what the text has already less likely.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text. Repeatable.")] = None,
    unknown: Annotated[bool, typer.Option("--unknown", help="Allow the unknown token.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show the text while it is said.")] = False,
    draft: Annotated[
        str | None,
        typer.Option(metavar="MODEL|prompt", help="Who guesses ahead: an n-gram's folder, or the text itself."),
    ] = None,
    draft_tokens: Annotated[int | None, typer.Option(help="Tokens that a draft guesses at once, at most.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Also min_length, no_repeat_ngram, length_penalty."),
    ] = None,
    patch: Patches = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a text, token by token, until the line ends: one text a line, its prompt in front.

    Tokens are drawn at random. From nothing no blank line is drawn, unless --set min_length=0 allows it. A draft
    changes how fast a text is said, not what is said how often.

    anaphora generate runs/plays "To be, or" --samples 5 --seed 7

    anaphora generate runs/plays "Once upon" --min-p 0.05 --stop "." --stream

    anaphora generate runs/gpt "The house" --draft runs/4-gram --greedy

    anaphora generate runs/backpack "The trip" --patch sea.json --patch fair.json

    anaphora generate model.arpa.gz --file prompts.txt --beam 8 --json
    """
    from anaphora import api
    from anaphora.decoding.settings import SAYING
    from anaphora.decoding.translate import one_line
    from anaphora.errors import UserError, nearest
    from anaphora.text.tokenizer import UNK

    out = Output(as_json=json, quiet=quiet)
    if file is not None and prompt:
        raise UserError("prompts are given twice, on the command line and by --file", cure="leave one of them out")
    loaded = open_text_model(out, model, device, patch)
    guess: Any = draft if draft in (None, "prompt") else api.load_text_model(str(draft))
    notes: Counter[str] = Counter()
    prompts = list(read_text([file], notes)) if file is not None else list(prompt or [""])
    warn_of_notes(out, notes)
    if not prompts:
        out.say(f"warning: {file} is empty: there is nothing to go on with")
    flags: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    flags |= {"repetition_penalty": repetition_penalty, "stop": stop or None, "unknown": unknown or None}
    settings = decoding_settings(set_, **flags, beam=beam)
    for name in settings:
        if name not in (*SAYING, "beam"):
            cure = nearest(name, SAYING)
            raise UserError(f"--set {name} means nothing for going on with a text", cure=cure)
    wide = settings.pop("beam", None)
    if draft is not None and wide is not None:
        raise UserError("a draft helps to say one text, and a beam follows several", cure="leave out the one or other")
    strange = sum(int((loaded.line_ids([one])[0] == UNK).sum()) for one in prompts)
    if strange:
        out.say(f"note: {count(strange, 'word of the prompts is', 'words of the prompts are')} not in the vocabulary")
    how: dict[str, Any] = {"tokens": tokens, "greedy": greedy, "draft": guess, "draft_tokens": draft_tokens}
    if stream:
        if samples != 1 or wide is not None:
            raise UserError("one text at a time can be heard while it is said", cure="leave out --samples and --beam")
        found = [[_heard(loaded, one, place, how | settings)] for place, one in enumerate(prompts)]
    else:
        with out.bar("generating", len(prompts) * (1 if greedy or wide is not None else samples)) as bar:
            found = loaded.generate(prompts, samples=samples, beam=wide, progress=bar, **how, **settings)
        for texts in found:
            for generation in texts:
                out.text(one_line(generation.text))
    said = [generation for texts in found for generation in texts]
    _say_ends(out, said, tokens)
    generations = [_document(text, texts, loaded.tokenizer) for text, texts in zip(prompts, found)]
    document: dict[str, Any] = {"model": str(model), "generations": generations}
    if patch:
        document["patches"] = [str(file) for file in patch]
    if draft is not None:
        document |= {"draft": draft, "speculation": _say_speculation(out, said)}
    out.finish(document)


def _heard(loaded: TextModel, prompt: str, place: int, settings: dict[str, Any]) -> Generation:
    """Print a text while it is said; a line of the output, as it would be without --stream."""
    from anaphora.decoding.translate import one_line

    out = Output(as_json=False, quiet=True)  # with --json, too
    stream = loaded.stream(prompt, place=place, **settings)
    out.text(one_line(stream.prompt), end="", flush=True)
    for piece in _whole_breaks(stream):
        out.text(one_line(piece), end="", flush=True)
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


def _say_ends(out: Output, said: list[Generation], tokens: int) -> None:
    """How texts came to an end that did not end by themselves."""
    cut = [one for one in said if not one.finished]
    stuck = sum(len(one.token_ids) < one.limit for one in cut)
    full = sum(len(one.token_ids) == one.limit < tokens for one in cut)
    if left := len(cut) - stuck - full:
        out.say(f"{count(left, 'text', 'texts')} did not end within {count(tokens, 'token', 'tokens')} (--tokens)")
    if full:
        out.say(f"{count(full, 'text', 'texts')} came to the end of what the model can read")
    if stuck:
        out.say(f"{count(stuck, 'text', 'texts')} could not go on: the model gives no next token any probability there")


def _say_speculation(out: Output, said: list[Generation]) -> dict[str, Any]:
    from anaphora.decoding.speculative import Speculation

    told = Speculation()
    for one in said:
        told.add(one.speculation or Speculation())
    if told.proposed:
        out.say(
            f"draft: {told.acceptance_rate:.0%} of {told.proposed:,} guessed tokens kept; "
            f"{told.tokens_per_pass:.2f} tokens a pass"
        )
    elif told.passes:
        out.say("draft: nothing was guessed; one token a pass")
    return told.document()


def _document(prompt: str, texts: list[Generation], tokenizer: Tokenizer) -> dict[str, Any]:
    from anaphora.inspect.why import token_name

    return {
        "prompt": prompt,
        "texts": [
            {
                "text": one.text,
                "continuation": one.continuation,
                "log_probability": one.log_probability,
                "tokens": [
                    {"token": token_name(tokenizer, id), "log_probability": value}
                    for id, value in zip(one.token_ids, one.token_scores)
                ],
                "finished": one.finished,
                "stop": one.stop,
                **({} if one.speculation is None else {"speculation": one.speculation.document()}),
            }
            for one in texts
        ],
    }
