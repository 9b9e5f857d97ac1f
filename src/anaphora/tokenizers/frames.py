"""What every tokenizer made here is built from: special tokens, what parts words, and a frame for each kind.

The four special tokens have the same ids in every tokenizer, and names that text can never form: U+27E8 is outside the
byte-level alphabet, and a whole "⟨s⟩" is no single word or character. A frame is a tokenizer of the library without its
vocabulary: how a line is cut, and how its pieces become a line again.
"""

from __future__ import annotations

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as RustTokenizer

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩", "⟨unk⟩")  # by id
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))  # how `word` and `character` spell what they do not know

# A word with its space in front (so that it is the same type everywhere), one punctuation mark with its space in front,
# or white space. An apostrophe between letters belongs to the word: "don't", "l’eau".
PUNCTUATION_SPLIT = (
    r" ?[\p{L}\p{M}\p{N}]+(?:['’][\p{L}\p{M}\p{N}]+)*| ?[^\s\p{L}\p{M}\p{N}]|\s+(?!\S)|\s+"  # (?!\S): leave one space
)
WHITESPACE_SPLIT = r" [^ ]*"  # whatever stands between two spaces: the right one for text tokenized beforehand
BLANKS = " \t\n\v\f\r"  # ASCII's white space: what parts words with `split: blanks`, and all that a blank line has
TO_SPACES = str.maketrans(dict.fromkeys(BLANKS, " "))
PATTERNS = {"punctuation": PUNCTUATION_SPLIT, "whitespace": WHITESPACE_SPLIT, "blanks": WHITESPACE_SPLIT}


def bytes_to_unicode() -> list[str]:
    """The byte-level alphabet of GPT-2: a printable character for each of the 256 bytes ("Ġ" is the space)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def byte_level(model: models.Model) -> RustTokenizer:
    """Cuts as GPT-2 does, over the 256 bytes."""
    rust = RustTokenizer(model)
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    return rust


def bytes_alone() -> RustTokenizer:
    """Subwords without a merge; a line is one piece, since no word can be cut otherwise than its neighbours."""
    vocabulary = {token: id for id, token in enumerate((*SPECIALS, *bytes_to_unicode()))}
    rust = byte_level(models.BPE(vocab=vocabulary, merges=[]))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return rust


def word_frame(split: str, fallback: str | None, unknown: str) -> RustTokenizer:
    """Cuts a line into words, each with a space in front: " dog" is the same word wherever it stands, and no word of a
    text is a special token."""
    rust = RustTokenizer(models.WordLevel(vocab={}, unk_token=SPECIALS[UNK]))
    rust.normalizer = normalizers.Prepend(" ")
    if split == "blanks":
        edges = normalizers.Replace(Regex(rf"\A[{BLANKS}]+|[{BLANKS}]+\z"), "")
        rust.normalizer = normalizers.Sequence(
            [edges, normalizers.Replace(Regex(f"[{BLANKS}]+"), " "), rust.normalizer]
        )
    rust.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERNS[split]), "isolated")
    spoken = [decoders.ByteFallback()] if fallback == "bytes" else [_speak_unk(f" {unknown or '<unk>'}")]
    rust.decoder = decoders.Sequence([*spoken, decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return rust


def character_frame(fallback: str | None) -> RustTokenizer:
    rust = RustTokenizer(models.BPE())
    spoken = [decoders.ByteFallback()] if fallback == "bytes" else [_speak_unk("<unk>")]
    rust.decoder = decoders.Sequence([*spoken, decoders.Fuse()])
    return rust


def _speak_unk(text: str) -> decoders.Decoder:
    return decoders.Replace(Regex(f"^{SPECIALS[UNK]}$"), text)  # a whole token, not a part of the word " ⟨unk⟩"
