"""The settings of a run of word vectors: the recipe's and the user's, what its words are, and what a start keeps.

What translation_settling.py is to translators and language_settling.py to neural language models.
"""

from __future__ import annotations

from pathlib import Path

from anaphora.config import merge
from anaphora.data.phrases import PHRASES
from anaphora.errors import UserError, option
from anaphora.folder import CONFIG, read_config
from anaphora.models.registry import system
from anaphora.models.vectors.vector_files import load_vectors
from anaphora.tasks.recipes import Document, RunConfig, load_recipe
from anaphora.tasks.request import Request

RULE = ("punctuation", "lowercase")
"""Settings of section `data` that define what the words of a text are."""


def settle_vectors(request: Request) -> RunConfig:
    """The settings of the run: those of the recipe and the user's, and of the vectors it starts from what must stay."""
    asked = merge(_as_the_text_is(load_recipe(request.recipe), request), request.own)
    run = {"recipe": request.recipe, "start_from": None if request.start_from is None else str(request.start_from)}
    if request.start_from is not None:
        whole = request.start_from.resolve()
        if request.run.resolve() in (whole, *whole.parents):  # forced, it would be gone before it is read
            raise UserError("a run cannot start from itself", file=request.run, cure="train into another folder")
        asked = _inherited(asked, request)
        asked = _with_phrases(asked, request.start_from / PHRASES)
    config = RunConfig.read({"run": run, **asked})
    tokenizer = config.tokenizer
    if (tokenizer.kind, tokenizer.split) != ("word", "blanks"):
        raise UserError(
            "word vectors are learned of words between blanks",
            cure="leave tokenizer.kind and tokenizer.split as the recipe has them; data.punctuation=apart sets "
            "punctuation apart",
        )
    if tokenizer.words and (config.data.phrases or config.data.phrases_from):
        raise UserError(
            "tokenizer.words names all words, and phrases would be new ones",
            cure="leave out tokenizer.words, or data.phrases and data.phrases_from",
        )
    return config


def _as_the_text_is(recipe: Document, request: Request) -> Document:
    """The recipe, with what it says of words where that is not settled by what is there: the run that goes on, which
    keeps its rule (before there were any, words were what stands between blanks), or the one that it starts from. Items
    stay as they are, and a given vocabulary names words as the text has them."""
    asked = merge(recipe, request.own)
    items = bool(asked.get("data", {}).get("items"))
    said = [f"data.{key}" for key in RULE if items and key in request.own.get("data", {})]
    if said:
        raise UserError(
            f"{said[0]} is about words, and items stay as they are", cure=f"leave it out, or {option('items')}"
        )
    rule = {key: value for key, value in recipe.get("data", {}).items() if key in RULE}
    known = next((at for at in (request.run, request.start_from) if at is not None and (at / CONFIG).is_file()), None)
    if known is not None:
        there = read_config(known).get("data") or {}
        rule = {key: there[key] for key in RULE if key in there}
    elif items or asked.get("tokenizer", {}).get("words"):
        rule = {}
    data = {key: value for key, value in recipe.get("data", {}).items() if key not in RULE}
    return {**recipe, "data": {**data, **rule}}


def _with_phrases(asked: Document, table: Path) -> Document:
    """A run joins the phrases of the one that it starts from, unless it says otherwise (data.phrases_from)."""
    data = asked.get("data", {})
    if "phrases_from" in data or not table.is_file():
        return asked
    return {**asked, "data": {**data, "phrases_from": str(table)}}


def _inherited(asked: Document, request: Request) -> Document:
    start = request.start_from
    assert start is not None
    if system(asked.get("model", {}).get("kind")).settings_class().from_counts:
        raise UserError(
            "GloVe learns from the counts of a whole text, and starts from nothing",
            cure=f"leave out {option('start_from')}, give all text to {option('text')}; or choose "
            f"{option('recipe', 'skipgram')} or cbow",
        )
    if start.is_file():
        vectors = load_vectors(start)
        there = {"dim": vectors.vector_size}  # what else they were learned with, the file does not say
        if any(word != word.lower() for word in vectors) and "lowercase" not in request.own.get("data", {}):
            asked = {**asked, "data": {**asked.get("data", {}), "lowercase": False}}  # its words are the text's
    else:
        config = RunConfig.read(read_config(start), file=str(start / CONFIG))
        if config.task.opens_as != "vectors":
            raise UserError(
                f"is a model of kind {config.model.kind}, from which no word vectors can start",
                file=start,
                cure=f"start from word vectors, or leave out {option('start_from')}",
            )
        there = config.vectors[0].kept()
    for key, value in request.own.get("model", {}).items():
        if key in there and str(value) != str(there[key]):
            raise UserError(
                f"has model.{key}={there[key]}, which cannot become {value}",
                file=start,
                cure=f"leave that setting out, or train without {option('start_from')}",
            )
    return {**asked, "model": {**asked.get("model", {}), **there}}
