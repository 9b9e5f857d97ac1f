"""Unknown words in a translation: replaced through the alignment by a dictionary entry, or by a copy ("PosUnk").

A translator of whole words knows some thousands of them and says ⟨unk⟩ for all others. Which source word such a token
stands for can be seen in the alignment; so once a translation is found, the token becomes what a dictionary says of
that source word, or, where it says nothing (names, numbers), the source word itself (Luong et al. 2015, *Addressing the
Rare Word Problem*; with attention as the alignment: Jean et al. 2015).

The alignment is the one that `align` shows (alignment/model_alignment.py): one teacher-forced pass over the finished
translation, for models without attention by occlusion. Of the source words, the one with most weight is taken; never
punctuation, as long as there is a word. (Cleverer choices were tried and were worse: docs/lab-notes.md.)

What the search found is not changed: scores, tokens and the order of candidates are the model's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Literal, NoReturn

import numpy as np

from anaphora.alignment.agreement import diagonal
from anaphora.alignment.aligned_pairs import Pair
from anaphora.alignment.dictionary import Dictionary, Entry, first_word, is_wordlike
from anaphora.alignment.model_alignment import Method, normalize, word_weights
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.splitting import parts_of
from anaphora.decoding.translate import Candidate, Replacement, Translation, clean, one_line
from anaphora.errors import UserError
from anaphora.models.contracts import Translator
from anaphora.tokenizers.tokenizer import UNK, Tokenizer
from anaphora.tokenizers.words import Word

Mode = Literal["dictionary", "copy", "none"]
WINDOW_PAIRS = 1024
OPENING = "([{<«„“‚‘¿¡\"'"
"""After one of these with a space in front, a word has none."""
JOINING = "-/@_"
"""After one of these without a space in front, a word has none: T-Shirt."""


def replaceable(tokenizer: Tokenizer) -> bool:
    """Whether a translator into these tokens says ⟨unk⟩ for whole words."""
    return tokenizer.kind == "word" and tokenizer.has_unknown


def replacing(config: DecodingConfig, target: Tokenizer) -> Mode:
    """What is done about unknown words; nothing said: what is usual for such tokens. The impossible is refused."""
    if config.replace_unknown is None:
        return "dictionary" if replaceable(target) else "none"
    if config.replace_unknown != "none" and not replaceable(target):
        refuse_replacing(config.replace_unknown, target.kind)
    return config.replace_unknown


def refuse_replacing(mode: str, kind: str) -> NoReturn:
    """Replacing is for translators that say ⟨unk⟩ for words; one of whole words that says none spells them."""
    tokens = {"bpe": "subwords", "unigram": "subwords", "byte": "bytes", "character": "characters"}
    why = f"says {tokens[kind]}, not words" if kind in tokens else "spells words outside its vocabulary in bytes"
    raise UserError(
        f"decoding.replace_unknown={mode} is about unknown words, and this model {why}",
        cure="leave it out, or train with tokenizer.kind=word tokenizer.fallback=unk",
    )


class UnknownWords:
    """Replaces the unknown words in the translations of one model."""

    def __init__(
        self,
        model: Translator,
        source: Tokenizer,
        target: Tokenizer,
        config: DecodingConfig,
        method: Method,
        dictionary: Dictionary | None,
    ) -> None:
        """dictionary: None copies every word."""
        method.check(model)
        self.model, self.source, self.target, self.config = model, source, target, config
        self.method, self.dictionary = method, dictionary
        self.limit = min(config.max_source_tokens or model.max_source_length, model.max_source_length) - 1
        self.glues = target.split == "punctuation"  # otherwise there is a space between any two words

    def __call__(self, translations: Iterable[Translation], *, window: int = WINDOW_PAIRS) -> Iterator[Translation]:
        """The same translations, lazily and in order, with words in the place of ⟨unk⟩."""
        translations = iter(translations)
        while block := list(islice(translations, window)):
            lacking = [
                _Lacking(translation, candidate, self._read(translation.source, candidate))
                for translation in block
                for candidate in translation.n_best
                if any(UNK in said for _, said in candidate.token_ids)
            ]
            asked = [(one, number) for one in lacking for number in one.pieces()]
            pairs = [one.pair(number) for one, number in asked]
            for (one, number), weights in zip(asked, word_weights(self.model, pairs, self.method)):
                one.weights[number] = normalize(weights)[0]
            for one in lacking:
                self._replace(one)
            for translation in block:
                best = translation.n_best[0]
                translation.text, translation.replaced = best.text, best.replaced
                yield translation

    # -- one candidate -------------------------------------------------------------------------------------------------

    def _read(self, source: str, candidate: Candidate) -> list[list[Word]]:
        """What stands in the source for each token that was read, for each piece."""
        text, at = one_line(clean(source)), 0
        pieces = [self.source.pieces(text)]
        if len(candidate.token_ids) > 1 or len(pieces[0]) > self.limit:  # cut as its ids were, but the tokens' texts
            by_sentence = self.config.split_sentences == "always"
            encode = lambda texts: [self.source.pieces(one) for one in texts]  # noqa: E731
            pieces = parts_of(text, encode, self.limit, by_sentence=by_sentence)
        read: list[list[Word]] = []
        for piece in pieces[: len(candidate.token_ids)]:
            read.append([])
            for word in map(str.strip, piece):
                start = text.index(word, at)
                at = start + len(word)
                read[-1].append(Word(word, start, at))
        return read

    def _replace(self, lacking: _Lacking) -> None:
        """Choose a word for each unknown one, then spell the candidate anew."""
        candidate, prefix = lacking.candidate, lacking.translation.prefix
        own = self.target.pieces(one_line(clean(prefix))) if prefix else []
        words = [word.text for piece in lacking.read for word in piece]
        initial = first_word(words)
        capital = initial is not None and words[initial][:1].isupper()
        spelled: list[list[str]] = []  # each token of each piece, with the space in front of it
        replaced: list[Replacement] = []  # where they stand is not known yet
        said = read = 0
        for number, (piece, (_, ids)) in enumerate(zip(lacking.read, candidate.token_ids)):
            source = [word.text for word in piece]
            first = None if initial is None else initial - read
            spelled.append(surfaces := [])
            for t, id in enumerate(ids):
                if id != UNK:
                    surfaces.append(self.target.token(id))
                    continue
                if number == 0 and t < len(own):  # the word was forced: it is what it was
                    surfaces.append(own[t] if t else f" {own[t].strip()}")
                    replaced.append(Replacement(said + t, 0, 0, own[t].strip(), "prefix", None, 1.0))
                    continue
                weights = lacking.weights[number][t]
                s, new, by = self._choose(
                    weights if weights.any() else diagonal(len(source), len(ids))[t], source, first
                )
                if capital and not any(is_wordlike(before) for part in spelled for before in part):
                    new = new[:1].upper() + new[1:]
                surfaces.append(new if self.glues and surfaces and _glued(surfaces[-1]) else f" {new}")
                replaced.append(Replacement(said + t, 0, 0, new, by, piece[s], float(weights[s])))
            said, read = said + len(ids), read + len(source)
        self._spell(candidate, spelled, replaced, len(own))

    def _choose(self, weights: np.ndarray, source: Sequence[str], initial: int | None) -> tuple[int, str, str]:
        """Of one unknown word, with weights (S,): its source word, what it becomes, and by what."""
        real = np.where([is_wordlike(word) for word in source], weights, 0.0)
        s = int((real if real.any() else weights).argmax())
        entry = self._entry(source[s], initial=s == initial)
        return (s, source[s], "copy") if entry is None else (s, entry.target, "dictionary")

    def _entry(self, word: str, *, initial: bool) -> Entry | None:
        """What the dictionary says of a word; of the first one of a sentence also without its capital letter."""
        if self.dictionary is None:
            return None
        for form in (word, word[:1].lower() + word[1:])[: 1 + initial]:
            entry = self.dictionary[form]
            if entry is not None and entry.probability >= self.config.dictionary_threshold:
                return entry
        return None

    def _spell(self, candidate: Candidate, spelled: list[list[str]], replaced: list[Replacement], forced: int) -> None:
        """The text of the candidate anew, and where in it each replaced word stands."""
        text = ""
        ends: list[int] = []  # of each token
        for surfaces in spelled:
            part = "".join(surfaces)
            before = len(part) - len(part.lstrip() if len(spelled) > 1 else part.removeprefix(" "))
            bare = part.strip() if len(spelled) > 1 else part[before:]
            text += " " if text and bare else ""
            ends += [len(text) - before + end for end in accumulate(map(len, surfaces))]
            text += bare
        placed = [replace(one, start=ends[one.token] - len(one.word), end=ends[one.token]) for one in replaced]
        at = ends[min(forced, len(ends)) - 1] if forced and ends else 0  # a stop string is not looked for in the prefix
        cuts = [place for stop in self.config.stop if (place := text.find(stop, at)) >= 0]
        candidate.text = one_line(text[: min(cuts)] if cuts else text)
        candidate.replaced = [one for one in placed if one.end <= len(candidate.text)]


@dataclass
class _Lacking:
    """A candidate with unknown words in it."""

    translation: Translation
    candidate: Candidate
    read: list[list[Word]]
    """For each piece, what stands in the source for each token."""
    weights: dict[int, np.ndarray] = field(default_factory=dict)
    """Of pieces with unknown words: (target tokens, source tokens), rows that sum to one or zero."""

    def pieces(self) -> list[int]:
        return [number for number, (_, said) in enumerate(self.candidate.token_ids) if UNK in said]

    def pair(self, number: int) -> Pair:
        """A piece to be aligned in which every token is a word by itself."""
        read, said = self.candidate.token_ids[number]
        sources, targets = (np.stack([np.arange(size), np.arange(size) + 1], axis=1) for size in (len(read), len(said)))
        return Pair("", "", self.read[number], [Word("", 0, 0)] * len(said), [(read, said)], sources, targets)


def counted_replacements(translations: Iterable[Translation]) -> dict[str, int]:
    """How many words of the best candidates were replaced by what."""
    counted = Counter(one.by for translation in translations for one in translation.replaced)
    return {by: counted[by] for by in ("dictionary", "copy", "prefix") if counted[by] or by != "prefix"}


def _glued(before: str) -> bool:
    """Whether a word follows this token without a space."""
    return before in tuple(JOINING) or (before[:1] == " " and before[1:] in tuple(OPENING))
