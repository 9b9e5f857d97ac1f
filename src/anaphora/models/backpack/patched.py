"""A Backpack with patches: the same weights, seen through what the patches say.

`patched` copies the model's shell, not its weights, and hangs the operations on the copy: those that change senses on
`rewrite` (sense_edits.py), topics on `emphasis` (topic.py). The model that was given stays what it is.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anaphora.errors import UserError
from anaphora.models.backpack.patch import ALL, MadeFor, Operation, Patch, Topic, words_of
from anaphora.models.backpack.sense_edits import Lookup, edited
from anaphora.models.backpack.sense_table import fingerprint_of
from anaphora.models.backpack.topic import emphasized, knows
from anaphora.tokenizers.token_names import token_name
from anaphora.tokenizers.word_pieces import WordTokens, tokens_of_word, unsaid_tokens

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack
    from anaphora.tokenizers.tokenizer import Tokenizer


def made_for(model: Backpack, tokenizer: Tokenizer) -> MadeFor:
    """What a patch for this model says of it."""
    return MadeFor(tokenizer.vocabulary_fingerprint(), fingerprint_of(model), model.senses_count)


class WordLookup:
    """The tokens of words, each looked up once; `notes` tells which are spelled in pieces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.found: dict[str, WordTokens] = {}

    def __call__(self, word: str) -> WordTokens:
        if word not in self.found:
            self.found[word] = tokens_of_word(self.tokenizer, word)
        return self.found[word]

    def notes(self, operations: Sequence[Operation]) -> list[str]:
        """What must be known of the words that the operations name."""
        told = []
        for operation in operations:
            if isinstance(operation, Topic):
                lacking = [repr(word) for word in operation.words if not knows(word, self)]
                if lacking and len(lacking) < len(operation.words):
                    told.append(f"topic {operation.called}: no token of the model is {', '.join(lacking)}: left out")
        edits = [operation for operation in operations if not isinstance(operation, Topic)]
        changed = {word for operation in edits if operation.words != ALL for word in operation.words}
        for word in words_of(edits):
            pieces = self(word).pieces
            if pieces:
                spelled = " ".join(repr(token_name(self.tokenizer, piece)) for piece in pieces[:8])
                then = "what is done to these pieces is done to every word that has them"
                then = then if word in changed else "their mean stands for it"
                told.append(
                    f"{word!r} is no single token: it is spelled {spelled}{' …' if len(pieces) > 8 else ''}, and {then}"
                )
        return told


def apply(model: Backpack, operations: Sequence[Operation], tokens_of: Lookup, unsaid: Sequence[int] = ()) -> Backpack:
    """The model with these operations done in order, each finding what those before it left. unsaid: tokens that no
    text has."""
    patched = copy.copy(model)  # its parameters and modules are the very same
    for operation in operations:
        if isinstance(operation, Topic):
            patched.emphasis = emphasized(patched, operation, tokens_of, unsaid)
        else:
            patched.rewrite = edited(patched, operation, tokens_of)
    return patched


def patched(
    model: Backpack, tokenizer: Tokenizer, patches: Sequence[Patch], *, files: Sequence[Path | str | None] = ()
) -> Backpack:
    """The model with patches, which must have been made for it. files: where they stand, for who has to be told."""
    own, lookup, unsaid = made_for(model, tokenizer), WordLookup(tokenizer), unsaid_tokens(tokenizer)
    named = [*files, *[None] * (len(patches) - len(files))]
    for patch, file in zip(patches, named):
        patch.check(own, file=file)
    changed = apply(model, (), lookup)
    for patch, file in zip(patches, named):
        try:
            changed = apply(changed, patch.operations, lookup, unsaid)
        except UserError as error:  # a word, written by hand, that the model does not have
            raise UserError(error.what, file=error.file or file, cure=error.cure) from None
    return changed
