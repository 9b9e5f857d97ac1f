"""`anaphora generate`: a language model goes on with a text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import count, decoding_settings, open_text_model, read_text, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet

if TYPE_CHECKING:
    from anaphora.decoding.generation import Generation
    from anaphora.text.tokenizer import Tokenizer


def generate(
    model: Annotated[Path, typer.Argument(help="Folder of a language model, or an ARPA file.")],
    prompt: Annotated[list[str] | None, typer.Argument(help="What to go on with; nothing: a new line.")] = None,
    file: Annotated[str | None, typer.Option(help="Prompts, one a line; - is stdin.")] = None,
    samples: Annotated[int, typer.Option(help="Texts for each prompt.")] = 1,
    tokens: Annotated[int, typer.Option(help="New tokens at the most, the end mark included.")] = 100,
    temperature: Annotated[float | None, typer.Option(help="Below 1 sharpens, above 1 flattens.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw only among the k most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw only among the most probable mass p.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed, the same text; 1 unless said.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Draw nothing: the likeliest token at each step.")] = False,
    beam: Annotated[int | None, typer.Option(help="Draw nothing: the likeliest texts that so many find.")] = None,
    unknown: Annotated[bool, typer.Option("--unknown", help="Allow the unknown token.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Also min_length, no_repeat_ngram, length_penalty."),
    ] = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a text, token by token, until the line ends: one text a line, its prompt in front.

    Tokens are drawn at random. From nothing no blank line is drawn, unless --set min_length=0 allows it.

    anaphora generate runs/plays "To be, or" --samples 5 --seed 7

    anaphora generate runs/plays --temperature 0.7 --top-k 40 --tokens 30

    anaphora generate model.arpa.gz --file prompts.txt --beam 8 --json
    """
    from anaphora.decoding.translate import one_line
    from anaphora.errors import UserError, nearest
    from anaphora.text.tokenizer import UNK
    from anaphora.text_model import SAID

    out = Output(as_json=json, quiet=quiet)
    if file is not None and prompt:
        raise UserError("prompts are given twice, on the command line and by --file", cure="leave one of them out")
    loaded = open_text_model(out, model, device)
    notes: Counter[str] = Counter()
    prompts = list(read_text([file], notes)) if file is not None else list(prompt or [""])
    warn_of_notes(out, notes)
    if not prompts:
        out.say(f"warning: {file} is empty: there is nothing to go on with")
    flags = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "beam": beam}
    settings = decoding_settings(set_, **flags, unknown=unknown or None)
    for name in settings:
        if name not in (*flags, "unknown", *SAID):
            cure = nearest(name, (*flags, "unknown", *SAID))
            raise UserError(f"--set {name} means nothing for going on with a text", cure=cure)
    strange = sum(int((loaded.encode([one])[0] == UNK).sum()) for one in prompts)
    if strange:
        out.say(f"note: {count(strange, 'word of the prompts is', 'words of the prompts are')} not in the vocabulary")
    with out.bar("generating", len(prompts) * (1 if greedy or "beam" in settings else samples)) as bar:
        found = loaded.generate(prompts, samples=samples, tokens=tokens, greedy=greedy, progress=bar, **settings)
    for texts in found:
        for generation in texts:
            out.result(one_line(generation.text))
    said = [generation for texts in found for generation in texts]
    stuck = sum(not one.finished and len(one.token_ids) < tokens for one in said)
    cut = sum(not one.finished for one in said) - stuck
    if cut:
        out.say(f"{count(cut, 'text', 'texts')} did not end within {count(tokens, 'token', 'tokens')} (--tokens)")
    if stuck:
        out.say(f"{count(stuck, 'text', 'texts')} could not go on: the model gives no next token any probability there")
    documents = [_document(text, texts, loaded.tokenizer) for text, texts in zip(prompts, found)]
    out.finish({"model": str(model), "generations": documents})


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
            }
            for one in texts
        ],
    }
