"""What stands behind the names that README and docs/ use: small texts, and tiny models made when one is first named.

A page says `runs/en-de`, `train.txt`, `shelves.tsv`; `World.place` puts something of that sort there. Everything that
differs from what a page says is declared in this file: which sort of model a name means, what is made smaller, what is
left out and why.
"""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import anaphora
import published_backpacks
from anaphora.models import registry
from anaphora.pocket import write
from anaphora.tokenizers.tokenizer import SPECIALS, Tokenizer, TokenizerConfig
from published_backpacks import FOLDER_WORDS

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
"""Files that pages show whole."""

# -- models: which sort a name means -----------------------------------------------------------------------------------

MODELS: dict[str, str] = {
    **dict.fromkeys(
        ("runs/en-de", "demo/model", "other/model", "RUN", "runs/transformer", "runs/better"), "translator"
    ),
    **dict.fromkeys(("runs/one", "runs/two", "runs/a", "runs/b", "runs/three"), "translator"),
    **dict.fromkeys(("runs/rnn", "runs/bahdanau", "runs/luong-concat", "runs/gnmt"), "bahdanau"),
    "runs/together": "ensemble",
    **dict.fromkeys(("plays", "runs/counted", "other", "near", "wiki"), "ngram"),
    "mixed": "mixture",
    **dict.fromkeys(("runs/4-gram", "words-4-gram"), "draft"),
    **dict.fromkeys(("plays-lstm", "runs/lstm", "runs/plays", "gru", "ptb-lstm"), "lstm"),
    **dict.fromkeys(("plays-gpt", "plays-decoder", "runs/gpt", "runs/gpt2"), "decoder"),
    **dict.fromkeys(("plays-encoder", "runs/masked"), "encoder"),
    **dict.fromkeys(("senses", "bank", "club", "runs/topics"), "classifier"),
    **dict.fromkeys(("runs/pocket", "runs/wiki", "backpack", "MODEL", "runs/seed-1", "runs/backpack"), "backpack"),
    "runs/published": "published",
    "runs/words": "vectors",
    "runs/glove": "glove",
    "runs/books": "items",
    "runs/mean": "own",
}
ELSEWHERE: dict[str, dict[str, str]] = {
    "docs/backpack.md": {"plays": "backpack"},
    "docs/generating.md": {"plays": "decoder"},
    "docs/unknown-words.md": {"runs/words": "word-translator"},
    "docs/ensembles.md": {"runs/words": "word-translator"},
}
"""Where a page means something else by a name."""

# -- texts -------------------------------------------------------------------------------------------------------------

EXTRA = [
    "the king and the queen sang a song of war near the river",
    "a man and a woman read in new_york that the king reads new_york_times",
    "ice is solid water and steam is gas and fashion is neither",
    "breakfast lunch and dinner on a stone",
    "the professor and the student saw a zoo",
    "he said that she said that the doctor saw a sick horse at a party",
]
BOOK = ["The old man reads a book.", "Der alte Mann liest ein Buch."]
"""A pair that pages walk through."""

LISTS = """targets: {music: [song, queen], war: [war, king]}
attributes: {pleasant: [river, dinner], unpleasant: [stone, gas]}
"""
MATRICES = """tokens: [A, A, B, A]
E: [[1, 0], [1, 0], [0, 1], [1, 0]]
W_Q: [[10, 0], [0, 10]]
W_K: [[1, 0], [0, 1]]
W_V: [[1, 0], [0, 1]]
score: dot
causal: true
"""
SMALL: dict[str, Any] = {"training.max_steps": 2, "training.checkpoint_every": 1, "training.samples": 0}
TINY = {**SMALL, "model.dim": 16, "model.heads": 2, "model.feed_forward": 32, "tokenizer.vocabulary": 400}
WORDS = {"tokenizer.kind": "word", "tokenizer.split": "punctuation", "tokenizer.vocabulary": 600}
SHORT = {"decoding.max_length_ratio": 1.0, "decoding.max_length_extra": 4}
"""What has learned nothing does not end by itself."""
VECTORS: dict[str, Any] = {
    "model.dim": 64,
    "training.epochs": 2,
    "training.threads": 1,
    "tokenizer.minimum_count": 2,
}


class World:
    """Texts and models, made once each, and copied to where a command is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write(folder / "corpus", train=250, valid=30, test=30)
        read = [(folder / f"corpus/train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
        self.english, self.german = (side + BOOK[place : place + 1] * 3 for place, side in enumerate(read))
        self.text = EXTRA * 10 + self.english
        self.made: dict[str, Path] = {}

    # -- what a command names ------------------------------------------------------------------------------------------

    def place(self, words: tuple[str, ...], page: str, cwd: Path) -> None:
        """Put everything that these words name below `cwd`; what the command is to write is not there before."""
        made = {word for option, word in pairwise(words) if option in ("--output", "--picture", "--write", "--trace")}
        made |= set(words[1:2]) if words[0] in ("train", "mix", "compare") else set()
        made |= set(words[2:3]) if words[0] in ("convert", "patch") else set()
        for word in words[1:]:
            name = word.split("=", 1)[1] if "=" in word and not word.startswith("-") else word
            name = name.split("#")[0]
            if name and name not in made and not (cwd / name).exists():
                self._put(name, page, cwd / name)

    def _put(self, name: str, page: str, target: Path) -> None:
        sort = ELSEWHERE.get(page, {}).get(name) or MODELS.get(name)
        inner = Path(name).name.removesuffix(".gz").removesuffix(".xz")
        known = name in FILES or (EXAMPLES / name).is_file()
        if sort is None and not known and not inner.endswith((".en", ".de", ".fr", ".txt", ".labels")):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if sort is not None:
            shutil.copytree(self.model(sort), target)
        else:
            self.write(name, page, target)

    def write(self, name: str, page: str, target: Path) -> None:
        """A text under its name: by its side (`.en .de .fr`) and length (test and input are short), or by `FILES`."""
        maker = FILES.get(name)
        if maker is not None:
            maker(self, target, page)
            return
        if (EXAMPLES / name).is_file():
            shutil.copy(EXAMPLES / name, target)
            return
        inner = name.removesuffix(".gz").removesuffix(".xz")
        lines = self.text
        if inner.endswith((".en", ".de", ".fr")):
            lines = self.english if inner.endswith(".en") else self.german
        short = any(part in Path(inner).name for part in ("test", "input", "few", "prompt", "new-lines", "val", "a."))
        count = 6 if short else 253
        if "valid" in inner or "val." in inner:
            lines = lines[-30:]
        if inner.endswith("labels") or inner == "labels.txt":
            lines = ["long" if len(line.split()) > 8 else "short" for line in self.text]
        pack(target, "".join(line + "\n" for line in lines[:count]))

    # -- models --------------------------------------------------------------------------------------------------------

    def model(self, sort: str) -> Path:
        if sort not in self.made:
            folder = self.folder / sort
            getattr(self, "_" + sort.replace("-", "_"))(folder)
            self.made[sort] = folder
        return self.made[sort]

    def _train(self, folder: Path, recipe: str | None, settings: dict[str, Any], **more: Any) -> None:
        anaphora.train(folder, recipe=recipe, settings=settings, device="cpu", progress=False, **more)

    def _pairs(self) -> dict[str, Path]:
        found = {"source": self.folder / "train.en", "target": self.folder / "train.de"}
        for path in found.values():
            if not path.exists():
                self.write(path.name, "", path)
        return found

    def _text(self) -> Path:
        path = self.folder / "train.txt"
        if not path.exists():
            self.write(path.name, "", path)
        return path

    def _translator(self, folder: Path) -> None:
        settings = {**TINY, **WORDS, **SHORT, "model.layers": 1, "model.decoder_layers": 4}
        kept = {"training.max_steps": 3, "training.keep": 5}
        self._train(folder, "tiny", settings | kept, **self._pairs())

    def _word_translator(self, folder: Path) -> None:
        words = {**WORDS, "tokenizer.fallback": "unk", "tokenizer.shared": False}
        self._train(folder, "tiny", {**TINY, **words, **SHORT, "model.layers": 1}, **self._pairs())

    def _bahdanau(self, folder: Path) -> None:
        settings = {**SMALL, **WORDS, **SHORT, "model.dim": 16}
        self._train(folder, "bahdanau", settings, **self._pairs())

    def _ensemble(self, folder: Path) -> None:
        anaphora.mix(folder, [self.model("translator"), self.model("translator")])

    def _ngram(self, folder: Path) -> None:
        self._train(folder, None, {"model.order": 3}, text=self._text())

    def _mixture(self, folder: Path) -> None:
        anaphora.mix(folder, [self.model("ngram"), self.model("ngram")], weights=[0.5, 0.5])

    def _draft(self, folder: Path) -> None:
        same = dict(one.split("=", 1) for one in anaphora.load(self.model("decoder")).vocabulary_settings())
        self._train(folder, "ngram", {"model.order": 4, "data.boundaries": "stream", **same}, text=self._text())

    def _lstm(self, folder: Path) -> None:
        self._train(folder, "lstm", {**SMALL, "model.dim": 16, "tokenizer.vocabulary": 400}, text=self._text())

    def _decoder(self, folder: Path) -> None:
        self._train(folder, "transformer-decoder", {**TINY, "model.layers": 3}, text=self._text())

    def _encoder(self, folder: Path) -> None:
        self._train(folder, "transformer-encoder", {**TINY, "model.layers": 2}, text=self._text())

    def _classifier(self, folder: Path) -> None:
        labels = self.folder / "labels.txt"
        self.write("labels.txt", "", labels)
        settings = {**SMALL, "model.dim": 16, "tokenizer.vocabulary": 400}
        self._train(folder, "gru", settings, text=self._text(), labels=labels)

    def _backpack(self, folder: Path) -> None:
        settings = {**TINY, **WORDS, "model.layers": 1, "model.senses": 4, "data.boundaries": "lines"}
        self._train(folder, "backpack", settings, text=self._text())

    def _published(self, folder: Path) -> None:
        theirs = self.folder / "backpack-gpt2"
        _published(self, theirs, "")
        anaphora.convert(theirs, folder)

    def _vectors(self, folder: Path) -> None:
        self._train(folder, "skipgram", VECTORS, text=self._text())

    def _glove(self, folder: Path) -> None:
        self._train(folder, "glove", VECTORS, text=self._text())

    def _own(self, folder: Path) -> None:
        self._train(folder, None, {**SMALL, **WORDS}, text=self._text(), model=EXAMPLES / "my_first.py")
        registry._registered().clear()  # who asks for it names the file again

    def _items(self, folder: Path) -> None:
        shelves = self.folder / "shelves.tsv"
        self.write("shelves.tsv", "", shelves)
        self._train(folder, "skipgram", {**VECTORS, "model.sample": 0}, items=shelves)


def pack(target: Path, text: str) -> None:
    """Written as the name says: packed or plain."""
    data = text.encode()
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    target.write_bytes(packers[target.suffix](data) if target.suffix in packers else data)


# -- files that are not lines of text ----------------------------------------------------------------------------------

Maker = Callable[[World, Path, str], None]


def _table(row: Callable[[str, str], str], head: str = "") -> Maker:
    def make(world: World, target: Path, page: str) -> None:
        pack(target, head + "".join(row(*pair) + "\n" for pair in list(zip(world.english, world.german))[:100]))

    return make


def _mine(world: World, target: Path, page: str) -> None:
    recipe = (
        "tokenizer:\n  kind: unigram\n  vocabulary: 400\nmodel:\n  dim: 16\n  layers: 1\ntraining:\n  patience: 5\n"
    )
    target.write_text(MATRICES if page == "docs/walk.md" else recipe, encoding="utf-8")


def _likeness(world: World, target: Path, page: str) -> None:
    rows = [("king", "queen", 8.5), ("river", "water", 7.9), ("man", "woman", 8.3), ("war", "song", 2.1)]
    target.write_text("".join(f"{a}\t{b}\t{value}\n" for a, b, value in rows), encoding="utf-8")


def _words(world: World, target: Path, page: str) -> None:
    found = sorted({word for line in world.text for word in line.split()})
    target.write_text("".join(word + "\n" for word in ["<s>", "</s>", *found]), encoding="utf-8")


def _exported(world: World, target: Path, page: str) -> None:
    anaphora.convert(world.model("ngram" if "arpa" in target.name else "vectors"), target)


def _published(world: World, target: Path, page: str) -> None:
    settings = TokenizerConfig(kind="bpe", vocabulary=FOLDER_WORDS - 1 + len(SPECIALS))
    published_backpacks.folder(target, Tokenizer.train(settings, world.text))


def _patch(world: World, target: Path, page: str) -> None:
    anaphora.make_patch(anaphora.load(world.model("backpack")), remove=["sick#1"]).write(target)


def _text(text: str) -> Maker:
    return lambda world, target, page: pack(target, text)


FILES: dict[str, Maker] = {
    "pairs.tsv": _table("{}\t{}".format),
    "pairs.tsv.gz": _table("{}\t{}".format),
    "pairs.csv": _table('"{}","{}"'.format, "en,de\n"),
    "pairs.jsonl": _table(lambda en, de: json.dumps({"en": en, "de": de})),
    "hf.jsonl": _table(lambda en, de: json.dumps({"translation": {"en": en, "de": de}})),
    "mine.yaml": _mine,
    "lists.yaml": _text(LISTS),
    "shelves.tsv": _text("War and Peace\tAnna Karenina\tEmma\nEmma\tPersuasion\tWar and Peace\n" * 20),
    **dict.fromkeys(("wordsim353.txt", "simlex999.txt", "ws353.txt", "simlex.txt"), _likeness),
    **dict.fromkeys(("EN-WS-353-ALL.txt", "EN-SIMLEX-999.txt"), _likeness),
    "questions-words.txt": _text(": family\nman woman king queen\nking queen man woman\n"),
    "words.txt": _words,
    "a.align": _text("0-0\n" * 6),
    **dict.fromkeys(("plays.arpa.gz", "GoogleNews.bin.gz", "millions.bin"), _exported),
    "broken.arpa": _text("\\data\\\nngram 1=2\n\n\\1-grams:\n-1 a\nx b\n\\end\\\n"),
    "backpack-gpt2": _published,
    **dict.fromkeys(("ill.json", "x.json", "zoo.json", "fix.json"), _patch),
}
