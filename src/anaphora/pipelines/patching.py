"""Patches for a Backpack that is in memory: making them, and what they do beside what they are for.

    model = anaphora.load("runs/backpack")
    patch = anaphora.make_patch(model, remove=["sick#3"])       # the words of `anaphora patch`
    patch.write("fix.json")
    changed = model.patched(["fix.json"])                       # model itself stays what it is
    print(anaphora.side_effect(model, changed, open("test.txt")).perplexity_change)

The document is models/backpack/patch.py's, what operations do sense_edits.py's and topic.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anaphora.arguments.checked import checked
from anaphora.arguments.given import Lines, lines_of, words_of
from anaphora.decoding.text_scoring import is_blank
from anaphora.errors import UserError
from anaphora.models.backpack.patch import FADE, MadeFor, Operation, Patch, several_patches
from anaphora.models.backpack.patch_grammar import read_operation
from anaphora.pipelines.abilities import require
from anaphora.pipelines.text_model import TextModel

if TYPE_CHECKING:
    from anaphora.explain.pronouns import Evened
    from anaphora.explain.side_effect import SideEffect
    from anaphora.models.backpack.backpack import Backpack

BEFORE = 28
"""Characters of a line that are shown before a token."""


def model_mark(model: TextModel) -> MadeFor:
    """What a patch for this model says of it."""
    from anaphora.models.backpack.patched import made_for

    return made_for(_senses(model), model.tokenizer)


@checked()
def make_patch(
    model: TextModel,
    *,
    remove: str | Sequence[str] = (),
    scale: str | Sequence[str] = (),
    project_out: str | Sequence[str] = (),
    add: str | Sequence[str] = (),
    replace: str | Sequence[str] = (),
    exchange: str | Sequence[str] = (),
    topic: str | Sequence[str] = (),
    strength: float | None = None,
    factors: Sequence[float] | None = None,
    fade: float = FADE,
    after: Patch | str | Path | Sequence[Patch | str | Path] = (),
    undo: Patch | str | Path | Sequence[Patch | str | Path] = (),
) -> Patch:
    """A patch for the model, from what a person would type: remove=["sick#3"], scale=["bank#1=0.5"], ….

    strength or factors, fade: of topics (models/backpack/patch.py).
    after: patches whose operations come first; undo: patches that are then taken back, where that can be. Then the
    operations by their kind, in the order of these parameters. One of anything need not be in a list.
    """
    from anaphora.models.backpack.patched import WordLookup
    from anaphora.models.backpack.topic import knows

    own = model_mark(model)
    first, back = read_patches(after, own), read_patches(undo, own)
    operations = [operation for patch in first for operation in patch.operations]
    operations += [operation for patch in back for operation in patch.inverse().operations]
    lookup = WordLookup(model.tokenizer)
    of_topics: dict[str, Any] = {"strength": strength, "factors": factors, "fade": fade}
    given = {"remove": remove, "scale": scale, "project-out": project_out, "add": add}
    given |= {"replace": replace, "exchange": exchange}
    for do, texts in {**given, "topic": topic}.items():
        for text in words_of(texts, do.replace("-", "_")):
            operations.append(read_operation(do, text, has_word=lambda word: knows(word, lookup), **of_topics))
    return Patch(own, tuple(operations))


def read_patches(patches: Patch | str | Path | Sequence[Patch | str | Path], own: MadeFor) -> list[Patch]:
    """Patches, or files of them, each made for this model."""
    found = []
    for patch in several_patches(patches):
        read = patch if isinstance(patch, Patch) else Patch.read(patch)
        read.check(own, file=None if isinstance(patch, Patch) else patch)
        found.append(read)
    return found


def patch_notes(model: TextModel, operations: Sequence[Operation]) -> list[str]:
    """What must be known of the words that operations name: which of them are spelled in pieces."""
    from anaphora.models.backpack.patched import WordLookup

    return WordLookup(model.tokenizer).notes(operations)


@checked()
def side_effect(model: TextModel, changed: TextModel, lines: str | Lines) -> SideEffect:
    """How far the predictions of a text move from the one model to the other: KL a token, perplexity."""
    from anaphora.explain.side_effect import side_effect as compare

    ids, starts = model.line_ids(_kept(model, lines))
    windows = model.windows()
    return compare(_senses(model), _senses(changed), ids, starts, model.boundaries, **windows)


@checked()
def even(
    model: TextModel,
    pair: tuple[str, str] = ("he", "she"),
    *,
    words: str | Sequence[str] = (),
    prompts: str | Sequence[str] | None = None,
) -> Evened:
    """Find what makes a pair of words more evenly expected: `operations` for a patch, and the ratios before and after.

    words: whose senses may change; professions by default. prompts: lines with {} where such a word stands.
    """
    from anaphora.explain.pronouns import PROMPTS
    from anaphora.explain.pronouns import even as find
    from anaphora.models.backpack.patched import WordLookup

    if len(both := words_of(pair, "pair")) != 2:
        raise UserError(f"pair has {len(both)} words", cure='give two, such as ("he", "she")')
    lookup, templates = WordLookup(model.tokenizer), PROMPTS if prompts is None else words_of(prompts, "prompts")
    return find(
        _senses(model), lookup, model.line_ids, pair=(both[0], both[1]), words=words_of(words), templates=templates
    )


def around(model: TextModel, lines: str | Lines, token: int) -> tuple[str, str]:
    """Where a token of a text stands, counted over all its lines: the end of what is before it, and itself."""
    from anaphora.tokenizers.token_names import token_name

    ids, starts = model.line_ids(_kept(model, lines))
    line = int((starts[1:] <= token).sum())
    before = model.tokenizer.decode(ids[starts[line] : token].tolist())
    return ("…" if len(before) > BEFORE else "") + before[-BEFORE:], token_name(model.tokenizer, int(ids[token]))


def _kept(model: TextModel, lines: str | Lines) -> list[str]:
    return [line for line in lines_of(lines) if model.blank_lines == "keep" or not is_blank(line)]


def _senses(model: TextModel) -> Backpack:
    require(model.model, "senses", kind=model.kind, folder=model.folder)
    return cast("Backpack", model.model)
