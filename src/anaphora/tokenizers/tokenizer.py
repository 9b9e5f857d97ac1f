"""Tokenisers: text to numbers and back, without losing a byte.

Five kinds, one interface. `bpe` (Sennrich et al. 2016) and `unigram` (Kudo 2018) cut words into subwords over the 256
bytes of UTF-8, so any text in any script has ids and nothing is ever unknown; `byte` leaves it at the bytes. `word` and
`character` are the units of older systems; what they have not seen they spell in bytes, or, with `fallback: unk`,
replace by one unknown token.

One choice loses something, and is there because counting models are compared by it: words with `split: blanks` are what
stands between runs of ASCII white space, as in KenLM, SRILM and gensim, and which white space it was is not kept.

The file is a standard `tokenizer.json` of the `tokenizers` library. The four special tokens have the same ids in every
tokenizer, and names that text can never form: U+27E8 is outside the byte-level alphabet, and a whole "⟨s⟩" is no single
word or character. They are plain vocabulary entries, not "added tokens", so the library never looks for them in text:
a corpus full of "<s>", "<unk>" or even "⟨s⟩" goes through like any other.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.folder import write_text
from anaphora.tokenizers.frames import (
    BLANKS,
    BOS,
    BYTE_TOKENS,
    EOS,
    PAD,
    SPECIALS,
    TO_SPACES,
    UNK,
    WHITESPACE_SPLIT,
    byte_level,
    bytes_alone,
    bytes_to_unicode,
    character_frame,
    word_frame,
)
from anaphora.tokenizers.tokenizer_file import MADE_HERE, RESTORE, check_text, read_tokenizer
from anaphora.tokenizers.vocabulary_file import read_vocabulary
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, normalizers, pre_tokenizers, trainers

if TYPE_CHECKING:
    from anaphora.tokenizers.token_names import ShownToken

__all__ = [
    "BLANKS",
    "BOS",
    "BYTE_TOKENS",
    "EOS",
    "MAX_TRAINING_CHARACTERS",
    "MIN_SIZE",
    "PAD",
    "SPECIALS",
    "UNK",
    "Tokenizer",
    "TokenizerConfig",
    "vocabulary_for",
]
"""What the room is asked for, special tokens included; how a tokenizer is put together is in frames.py."""

MIN_SIZE = len(SPECIALS) + 256
MAX_LIBRARY_TOKENS = 1 << 18  # tokens: the library takes 70 bytes of memory for each that it is asked for, at once
MAX_TRAINING_CHARACTERS = 10_000  # characters: from a longer line a tokenizer learns nothing, and it takes minutes


@dataclass(kw_only=True)
class TextTokenizer:
    """Section `tokenizer` of a text of one language."""

    kind: Literal["bpe", "unigram", "word", "character", "byte"] = "bpe"
    """Subwords by merging frequent pairs (bpe) or by a unigram language model (unigram), whole words, characters, or
    UTF-8 bytes."""
    vocabulary: int | None = None
    """Vocabulary size, special tokens and bytes included; null: sized to the corpus (with split: blanks, all its
    words)."""
    fallback: Literal["bytes", "unk"] | None = None
    """Encode words and characters outside the vocabulary as their bytes (nothing is lost), or as one unknown token.
    Null: bytes; with split: blanks, which does not keep white space, unk."""
    split: Literal["punctuation", "whitespace", "blanks"] = "punctuation"
    """How to split words (kind: word). punctuation: punctuation marks are words of their own; whitespace: split at each
    space, for tokenized text; blanks: split at runs of white space, which are not kept, as n-gram toolkits do."""
    minimum_count: int = 1
    """Leave out words and characters that occur less often than this; merges always need two occurrences."""
    unknown: str = ""
    """The word that marks unknown words in the text, such as <unk> (kind: word, fallback: unk). Empty: none, and a
    literal <unk> is an ordinary word."""
    words: str | None = None
    """Vocabulary file, one word per line, <s> and </s> included (kind: word, split: blanks); all other words are
    unknown."""


@dataclass(kw_only=True)
class TokenizerConfig(TextTokenizer):
    """How text becomes tokens (section `tokenizer`): all that can be said, and a translator's section."""

    shared: bool = True
    """Share one vocabulary between source and target."""
    dropout: float = 0.0
    """Subword dropout in training: probability of skipping a merge (bpe) or of sampling a word's segmentation
    (unigram)."""

    def __post_init__(self) -> None:
        if self.fallback is None:
            self.fallback = "unk" if self.kind == "word" and self.split == "blanks" else "bytes"
        if self.kind == "word" and self.split == "blanks" and self.fallback != "unk":
            raise ValueError(
                "split=blanks does not keep white space, and fallback=bytes needs it; "
                "set tokenizer.split=whitespace or punctuation to spell unknown words, or tokenizer.fallback=unk"
            )
        for name in ("unknown", "words"):
            if not getattr(self, name):
                continue
            if self.kind != "word" or self.fallback != "unk":
                raise ValueError(f"{name} is for whole words; set tokenizer.kind=word tokenizer.fallback=unk")
            if self.split != "blanks" and (name == "words" or self.split == "punctuation"):
                raise ValueError(f"{name} is for words split at white space; set tokenizer.split=blanks")
        if self.unknown.split() not in ([], [self.unknown]):
            raise ValueError(f"unknown is {self.unknown!r}; make it one word, such as <unk>")
        if self.kind == "byte" and (self.vocabulary is not None or self.minimum_count > 1):
            raise ValueError("kind=byte has the bytes as its vocabulary; leave out vocabulary and minimum_count")
        if self.words and (self.vocabulary is not None or self.minimum_count > 1):
            raise ValueError("words gives the vocabulary already; leave out vocabulary and minimum_count")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; make it a probability, 0.1 for example")
        if self.vocabulary is not None and self.vocabulary < 1:
            raise ValueError(f"vocabulary must be above 0, not {self.vocabulary}")
        if self.minimum_count < 1:
            raise ValueError(f"minimum_count must be at least 1, not {self.minimum_count}")


def vocabulary_for(pairs: int) -> int:
    """A subword vocabulary sized to the corpus: 2,000 for a few thousand pairs, 32,000 for millions.

    Each subword needs enough examples to learn from, so the vocabulary grows with the corpus but far more slowly.
    """
    known = np.log([5_000, 10_000, 30_000, 200_000, 2_000_000])
    size = np.interp(np.log(max(pairs, 1)), known, [2_000, 4_000, 8_000, 16_000, 32_000])
    return int(round(float(size), -2))


class Tokenizer:
    """Text to ids and back. Ids never hold special tokens: batches add them, decoding leaves them out."""

    def __init__(self, rust: RustTokenizer) -> None:
        self.rust = rust
        self.rust.no_padding()
        self.rust.no_truncation()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.kind}, {self.vocabulary_size:,} tokens>"

    # -- making, saving, loading ---------------------------------------------------------------------------------------

    @classmethod
    def train(cls, config: TokenizerConfig, texts: Iterable[str], *, pairs: int | None = None) -> Tokenizer:
        """Learn a tokenizer from lines of text; `pairs`, the size of the corpus, sets a vocabulary left open.

        The same lines in the same order give the same file, byte for byte.
        """
        if config.vocabulary is not None and config.vocabulary < MIN_SIZE and config.fallback == "bytes":
            raise UserError(
                f"tokenizer.vocabulary is {config.vocabulary}, but bytes and special tokens alone are {MIN_SIZE}",
                cure=f"make it at least {MIN_SIZE}, better some thousands",
            )
        if config.kind in ("bpe", "unigram"):
            if config.vocabulary is None and pairs is None:
                texts = list(texts)
                pairs = len(texts)
            size = config.vocabulary or vocabulary_for(pairs or 0)
            return cls(_train_bpe(config, texts, size) if config.kind == "bpe" else _train_unigram(texts, size))
        if config.kind == "byte":
            return cls(bytes_alone())
        if config.words:
            return cls.of_words(read_vocabulary(config.words, config.unknown), unknown=config.unknown)
        if config.kind == "word":
            rust = word_frame(config.split, config.fallback, config.unknown)
            if config.split == "blanks":
                counts = Counter(
                    f" {word}" for text in _some(texts) for word in text.translate(TO_SPACES).split(" ") if word
                )
            else:
                counts = _count(rust.pre_tokenizer, texts, prefix=" ")
            return cls(_with_units(rust, config, counts))
        return cls(_with_units(character_frame(config.fallback), config, Counter(chain.from_iterable(_some(texts)))))

    @classmethod
    def of_words(cls, words: Sequence[str], *, unknown: str = "") -> Tokenizer:
        """The tokenizer (split: blanks, fallback: unk) of a given vocabulary; the first word has the id 4.

        A word of the text that equals `unknown` is unknown, like all others that are not given."""
        rust = word_frame("blanks", "unk", unknown)
        vocabulary = {unit: id for id, unit in enumerate((*SPECIALS, *(f" {word}" for word in words)))}
        if len(vocabulary) != len(SPECIALS) + len(words):
            twice = next(word for word, count in Counter(words).items() if count > 1)
            raise UserError(f"the word {twice!r} occurs twice in the vocabulary", cure="leave one of them out")
        if unknown and f" {unknown}" in vocabulary:
            raise UserError(f"{unknown!r} stands for unknown words, but it is in the vocabulary", cure="leave it out")
        odd = next((word for word in words if not word or any(blank in word for blank in BLANKS)), None)
        if odd is not None:
            raise UserError(f"the word {odd!r} of the vocabulary contains white space or is empty", cure="correct it")
        rust.model = models.WordLevel(vocab=vocabulary, unk_token=SPECIALS[UNK])
        return cls(rust)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Read a `tokenizer.json`."""
        return cls.from_json(read_tokenizer(Path(path)), file=path)

    @classmethod
    def from_json(cls, text: str, *, file: str | os.PathLike[str] | None = None) -> Tokenizer:
        """Rebuild a tokenizer from the text of a `tokenizer.json`."""
        check_text(text, file=file)
        try:
            rust = RustTokenizer.from_str(text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library raises bare Exception; where it panics, not even that
            raise UserError(f"this is not a tokenizer.json: {error}", file=file, cure=RESTORE) from error
        if tuple(rust.id_to_token(i) for i in range(4)) != SPECIALS:
            raise UserError(f"the first four tokens are not {' '.join(SPECIALS)}", file=file, cure=MADE_HERE)
        ids = rust.get_vocab().values()
        if len(ids) != rust.get_vocab_size() or set(ids) != set(range(len(ids))):  # one is shared, or missing
            raise UserError("its tokens are not numbered from 0 without a gap", file=file, cure=MADE_HERE)
        tokenizer = cls(rust)
        try:
            tokenizer.decode(tokenizer.encode(f"a ⟨s⟩ é {tokenizer.kind}"))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # it parses, and yet cannot cut a line
            raise UserError(f"this tokenizer does not work ({error})", file=file, cure=MADE_HERE) from error
        return tokenizer

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `tokenizer.json`, whole or not at all."""
        write_text(Path(path), self.to_json())

    def to_json(self) -> str:
        return self.rust.to_str(pretty=True)

    def fingerprint(self) -> str:
        """Sixteen bytes, in hex, that change whenever the tokenizer does."""
        return hashlib.sha256(self.rust.to_str().encode()).hexdigest()[:32]

    def vocabulary_fingerprint(self) -> str:
        """Sixteen bytes, in hex, of the tokens in their order: what the rows of a model's tables mean."""
        vocabulary = self.rust.get_vocab()
        tokens = sorted(vocabulary, key=vocabulary.__getitem__)
        return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:32]

    # -- what it is ----------------------------------------------------------------------------------------------------

    @cached_property
    def document(self) -> dict[str, Any]:
        """What the file says."""
        parsed: dict[str, Any] = json.loads(self.rust.to_str())
        return parsed

    @cached_property
    def kind(self) -> str:
        """bpe, unigram, word, character or byte, read off the parts of the file."""
        if isinstance(self.rust.model, models.Unigram):
            return "unigram"
        if self.rust.normalizer is not None:
            return "word"
        if self.rust.pre_tokenizer is None:
            return "character"
        return "bpe" if self.document["model"]["merges"] else "byte"

    @property
    def split(self) -> str | None:
        """What parts words, read off the file: blanks, whitespace or punctuation; nothing for other kinds."""
        if self.kind != "word":
            return None
        if isinstance(self.rust.normalizer, normalizers.Sequence):
            return "blanks"
        cut = self.rust.pre_tokenizer
        pattern = {} if cut is None else json.loads(cut.__getstate__()).get("pattern", {}).get("Regex")
        return "whitespace" if pattern == WHITESPACE_SPLIT else "punctuation"

    @cached_property
    def vocabulary_size(self) -> int:
        return self.rust.get_vocab_size()

    def __len__(self) -> int:
        return self.vocabulary_size

    def token(self, id: int) -> str:
        """The vocabulary's own name of a token: "Ġdog", "<0x41>", "⟨s⟩"."""
        name = self.rust.id_to_token(int(id))
        if name is None:
            raise IndexError(f"no token {id}: the vocabulary has {self.vocabulary_size}")
        return name

    def word(self, id: int) -> str:
        """A token's name without the space that words between blanks are told apart by: no part of such a word."""
        name = self.token(id)
        return name[1:] if id >= len(SPECIALS) and self.split == "blanks" else name

    def pieces(self, text: str) -> list[str]:
        """What stands in the text for each of its tokens, whether the vocabulary has it or not."""
        if self.split == "blanks":
            return [piece for piece in text.translate(TO_SPACES).split(" ") if piece]
        offsets = self.rust.encode(text, add_special_tokens=False).offsets
        return [text[begin:end] for begin, end in offsets]

    def token_bytes(self, id: int) -> bytes:
        """The UTF-8 bytes a token stands for (" dog"); none for a special token."""
        name = self.token(id)
        if id < len(SPECIALS):
            return b""
        if self.kind in ("bpe", "unigram", "byte"):
            return bytes(self._byte_of[character] for character in name)
        return bytes([BYTE_TOKENS.index(name)]) if name in BYTE_TOKENS else name.encode()

    @cached_property
    def _byte_of(self) -> dict[str, int]:
        return {character: byte for byte, character in enumerate(bytes_to_unicode())}

    @cached_property
    def shown_tokens(self) -> dict[int, ShownToken]:
        """Those that were shown to people (token_names.py)."""
        return {}

    # -- using it ------------------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.rust.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Many lines at once, over all cores."""
        encodings = self.rust.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encode_flat(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Many lines end to end, and where each begins: line i is ids[starts[i] : starts[i + 1]]."""
        starts = np.zeros(len(texts) + 1, np.int64)
        if self.kind == "byte":
            spelled = [text.encode() for text in texts]
            np.cumsum([len(text) for text in spelled], out=starts[1:])
            table = np.array([self.rust.token_to_id(character) for character in bytes_to_unicode()], np.uint32)
            return table[np.frombuffer(b"".join(spelled), np.uint8)], starts
        found = self.encode_batch(texts)
        np.cumsum([len(ids) for ids in found], out=starts[1:])
        return np.fromiter(chain.from_iterable(found), np.uint32, int(starts[-1])), starts

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text; special tokens are left out, and bytes that are no valid UTF-8 become U+FFFD."""
        text: str = self.rust.decode(self._spoken(ids), skip_special_tokens=False)
        return text

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return self.rust.decode_batch([self._spoken(ids) for ids in batch], skip_special_tokens=False)

    def _spoken(self, ids: Iterable[int]) -> list[int]:
        return [int(id) for id in ids if id > UNK or (id == UNK and self.has_unknown)]

    @cached_property
    def has_unknown(self) -> bool:
        """Whether what is not in the vocabulary becomes ⟨unk⟩; otherwise it is spelled in bytes."""
        return self.kind in ("word", "character") and not getattr(self.rust.model, "byte_fallback", False)


# -- learning the kinds ------------------------------------------------------------------------------------------------


def _train_bpe(config: TokenizerConfig, texts: Iterable[str], size: int) -> RustTokenizer:
    rust = byte_level(models.BPE())
    if size > MAX_LIBRARY_TOKENS:
        texts = list(texts)
        size = min(size, _most_subwords(texts))
    # The 256 bytes go in one by one and the specials afterwards: given to the trainer, specials would be "added
    # tokens", which the library cuts out of raw text.
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(SPECIALS),
        min_frequency=max(2, config.minimum_count),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rust.train_from_iterator(_some(texts), trainer)
    trained = json.loads(rust.to_str())["model"]
    tokens = sorted(trained["vocab"], key=trained["vocab"].__getitem__)
    vocabulary = {token: id for id, token in enumerate((*SPECIALS, *tokens))}
    return byte_level(models.BPE(vocab=vocabulary, merges=[tuple(pair) for pair in trained["merges"]]))


def _most_subwords(texts: Iterable[str]) -> int:
    """More subwords than any merging can make of these lines: each merge takes a symbol from at least one word."""
    words = _count(pre_tokenizers.ByteLevel(add_prefix_space=False), texts)
    return MIN_SIZE + sum(len(word) - 1 for word in words)


def _train_unigram(texts: Iterable[str], size: int) -> RustTokenizer:
    from anaphora.tokenizers.unigram import train_unigram  # numba, only here

    alphabet = bytes_to_unicode()
    byte_of = {character: byte for byte, character in enumerate(alphabet)}
    words = _count(pre_tokenizers.ByteLevel(add_prefix_space=False), texts)
    spelled = Counter({bytes(byte_of[character] for character in word): count for word, count in words.items()})
    pieces = train_unigram(spelled, size - len(SPECIALS))
    named = [("".join(alphabet[byte] for byte in piece), round(score, 6)) for piece, score in pieces]
    return byte_level(models.Unigram(vocab=[*((special, 0.0) for special in SPECIALS), *named], unk_id=UNK))


def _count(split: pre_tokenizers.PreTokenizer, texts: Iterable[str], prefix: str = "") -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in _some(texts):
        if text:
            counts.update([piece for piece, _ in split.pre_tokenize_str(prefix + text)])
    return counts


def _with_units(rust: RustTokenizer, config: TokenizerConfig, counts: Counter[str]) -> RustTokenizer:
    """Put the counted words or characters into the frame, most frequent first."""
    first = SPECIALS + (BYTE_TOKENS if config.fallback == "bytes" else ())
    known = [unit for unit, count in counts.items() if count >= config.minimum_count]
    if config.unknown:  # a word that is in no vocabulary is unknown
        known = [unit for unit in known if unit != f" {config.unknown}"]
    if config.kind == "word" and config.split == "blanks":
        # all of them; of words as frequent, the one that came first
        known.sort(key=counts.__getitem__, reverse=True)
        limit = config.vocabulary
    else:
        known.sort(key=lambda unit: (-counts[unit], unit))
        limit = 50_000 if config.vocabulary is None else config.vocabulary
    room = None if limit is None else max(limit - len(first), 0)
    vocabulary = {unit: id for id, unit in enumerate((*first, *known[:room]))}
    if config.fallback == "bytes":
        rust.model = models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, ignore_merges=config.kind == "word")
    elif config.kind == "word":
        rust.model = models.WordLevel(vocab=vocabulary, unk_token=SPECIALS[UNK])
    else:
        rust.model = models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIALS[UNK], fuse_unk=False)
    return rust


def _some(texts: Iterable[str]) -> Iterable[str]:
    """The same lines, after making sure there is something to learn from."""
    written = False
    for text in texts:
        written = written or bool(text)
        yield text
    if not written:
        raise UserError("there is no text to train a tokenizer on", cure="give a file with at least one line of text")
