"""Every kind of model in small: how it is trained, how far it is resumed, and what is then asked of it.

`store.py` trains them all and writes what stands in `stored/`: run folders as the release of the day leaves them, and
what each command answered. `test_compatibility.py` asks the same of the same folders today. Paths are relative to
`stored/`, from which every command is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Words = tuple[str, ...]

PAIRS: Words = ("--source", "texts/train.en", "--target", "texts/train.de")
TEST: Words = ("--source", "texts/test.en", "--target", "texts/test.de")
TEXT: Words = ("--text", "texts/train.en")
WORD: Words = ("tokenizer.kind=word", "tokenizer.split=punctuation", "tokenizer.fallback=unk")
STEPS: Words = ("training.checkpoint_every=5", "training.batch_tokens=400", "training.warmup_steps=5")
STEPS += ("training.learning_rate=0.02", "training.average=1", "training.samples=1")
SHORT: Words = ("decoding.max_length_ratio=1.0", "decoding.max_length_extra=4")
BYTES: Words = ("tokenizer.fallback=bytes", "tokenizer.vocabulary=280")
NARROW: Words = ("model.dim=8", "model.layers=1")
ATTENTION: Words = (*NARROW, "model.heads=2", "model.feed_forward=16", "model.max_length=48")
SHORTEST: Words = ("--set", "max_length_ratio=1.0", "--set", "max_length_extra=4")

TRANSLATOR: tuple[Words, ...] = (
    ("translate", "{}", "texts/test.en", "--n-best", "2", *SHORTEST),
    ("translate", "{}", "texts/test.en", "--sample", "--seed", "3", *SHORTEST),
    ("score", "{}", *TEST),
    ("evaluate", "{}", *TEST, "--beam", "2", *SHORTEST),
    ("align", "{}", *TEST),
    ("info", "{}"),
)
CAUSAL: tuple[Words, ...] = (
    ("generate", "{}", "the old", "--greedy", "--tokens", "6"),
    ("generate", "{}", "the old", "--samples", "2", "--seed", "4", "--tokens", "6"),
    ("score", "{}", "--text", "texts/test.en"),
    ("evaluate", "{}", "--text", "texts/test.en"),
    ("why", "{}", "the old dog"),
    ("info", "{}"),
)
ENCODED: tuple[Words, ...] = (("encode", "{}", "texts/few.en"),)
WALKED: tuple[Words, ...] = (("walk", "{}", "the old dog sees."),)
CLASSES: tuple[Words, ...] = (
    ("classify", "{}", "texts/few.en", "--all"),
    ("evaluate", "{}", "--text", "texts/train.en", "--labels", "texts/labels"),
    *ENCODED,
    ("info", "{}"),
)
VECTORS: tuple[Words, ...] = (
    ("neighbours", "{}", "dog", "-n", "3"),
    ("analogy", "{}", "dog", "cat", "red", "-n", "2"),
    ("info", "{}"),
)


@dataclass(frozen=True)
class System:
    made_by: tuple[Words, ...]  # commands without `anaphora`; {} stands for the folder
    asked: tuple[Words, ...]
    resumed: Words = ()  # appended to the last command that made it: it goes further


def filled(commands: Iterable[Words], name: str) -> list[list[str]]:
    """With the folder's name in its place."""
    return [[word.replace("{}", name) for word in words] for words in commands]


def translator(recipe: str, *settings: str, asked: tuple[Words, ...] = TRANSLATOR) -> System:
    made = ("train", "{}", *PAIRS, "--recipe", recipe, *WORD, *STEPS, *SHORT, *settings, "training.max_steps=20")
    return System((made,), asked, ("training.max_steps=25",))


def text(recipe: str, *settings: str, asked: tuple[Words, ...], given: Words = TEXT) -> System:
    made = ("train", "{}", *given, "--recipe", recipe, *WORD, *STEPS, *settings, "training.max_steps=20")
    return System((made,), asked, ("training.max_steps=25",))


def vectors(recipe: str, *settings: str) -> System:
    made = ("train", "{}", *TEXT, "--recipe", recipe, "model.dim=8", "training.threads=1", "training.epochs=2")
    made += ("tokenizer.minimum_count=2", *settings, *(() if recipe == "glove" else ("model.sample=0",)))
    return System((made,), VECTORS)


LABELS: Words = (*TEXT, "--labels", "texts/labels")
MASKED: tuple[Words, ...] = (("fill", "{}", "the ____ dog ____ here.", "--top", "3"), *ENCODED, *WALKED, ("info", "{}"))
SEEN: tuple[Words, ...] = (*CAUSAL, *ENCODED, *WALKED)
MEANT: tuple[Words, ...] = (*SEEN, ("senses", "{}", "dog", "--top", "3"))
PATCH: Words = ("patch", "backpack", "backpack-patch.json", "--scale", "dog#1=3", "--add", "cat#0=dog*0.5")

SYSTEMS: dict[str, System] = {
    "transformer": translator("tiny", *ATTENTION, asked=(*TRANSLATOR, *WALKED)),
    "transformer-bpe": translator("tiny", *ATTENTION, "tokenizer.kind=bpe", *BYTES),
    "transformer-unigram": translator("tiny", *ATTENTION, "tokenizer.kind=unigram", *BYTES),
    "transformer-apart": translator("tiny", *ATTENTION, "tokenizer.shared=false", "model.tie=target"),
    "transformer-relative": translator(
        "tiny", *ATTENTION, "model.positions=relative", "model.score=additive", "model.norm=post"
    ),
    "transformer-rotary": translator(
        "tiny", *ATTENTION, "model.positions=rotary", "model.window=3", "model.key_value_heads=1"
    ),
    "transformer-linear": translator(
        "tiny", *ATTENTION, "model.positions=learned", "model.normaliser=none", "model.score=bilinear"
    ),
    "transformer-experts": translator("tiny", *ATTENTION, "model.experts=3", "training.ema=0.9"),
    "seq2seq": translator("seq2seq", *NARROW),
    "bahdanau": translator("bahdanau", *NARROW),
    "luong": translator("luong", *NARROW, "model.score=bilinear"),
    "luong-dot": translator("luong", *NARROW, "model.score=dot", "model.encoder=conv"),
    "transformer-luong": translator("luong", *NARROW, "model.encoder=transformer", "model.heads=2"),
    "deep-att": translator("deep-att", "model.dim=8", "model.layers=2"),
    "gnmt": translator("gnmt", "model.dim=8", "model.layers=2"),
    "moe": translator("moe", "model.dim=8", "model.layers=2", "model.experts=3", "model.experts_per_token=2"),
    "bytenet": translator(
        "bytenet",
        *("model.dim=8", "model.layers=2"),
        *("tokenizer.kind=byte", "tokenizer.fallback=bytes", "tokenizer.split=whitespace"),
    ),
    "convs2s": translator("convs2s", *NARROW),
    "dan": text("dan", *NARROW, asked=(*CAUSAL, *ENCODED)),
    "window": text("window", *NARROW, "model.window=3", asked=(*CAUSAL, *ENCODED)),
    "rnn": text("rnn", *NARROW, asked=(*CAUSAL, *ENCODED)),
    "gru": text("gru", *NARROW, asked=(*CAUSAL, *ENCODED)),
    "lstm": text("lstm", *NARROW, "data.boundaries=stream", "training.context=16", asked=(*CAUSAL, *ENCODED)),
    "conv": text("conv", *NARROW, asked=(*CAUSAL, *ENCODED)),
    "transformer-decoder": text("transformer-decoder", *ATTENTION, asked=SEEN),
    "transformer-stream": text(
        "transformer-decoder", *ATTENTION, "data.boundaries=stream", "training.context=16", asked=SEEN
    ),
    "gpt2": text("gpt2", *ATTENTION, *BYTES, "training.context=16", asked=SEEN),
    "transformer-encoder": text("transformer-encoder", *ATTENTION, asked=MASKED),
    "backpack": text("backpack", *ATTENTION, "model.senses=2", asked=MEANT),
    "backpack-lstm": text("backpack", *NARROW, "model.senses=2", "model.encoder=lstm", asked=(*CAUSAL, *ENCODED)),
    "classifier-gru": text("gru", *NARROW, given=LABELS, asked=CLASSES),
    "classifier-transformer": text("transformer-encoder", *ATTENTION, given=LABELS, asked=(*CLASSES, *WALKED)),
    "ngram": System(
        (("train", "{}", *TEXT, "--recipe", "ngram", "model.order=3"),),
        (*CAUSAL[:5], ("score", "{}", "--text", "texts/test.en", "--tokens"), ("info", "{}")),
    ),
    "ngram-add-k": System(
        (("train", "{}", *TEXT, "--recipe", "ngram", "model.order=2", "model.smoothing=add-k", "model.k=0.5"),),
        CAUSAL,
    ),
    "skipgram": vectors("skipgram"),
    "cbow-subwords": vectors("cbow", "model.subwords=true", "model.buckets=64"),
    "glove": vectors("glove"),
    "ensemble": System(
        (("mix", "{}", "transformer", "transformer-relative", "bahdanau", "--weights", "0.5,0.3,0.2"),),
        TRANSLATOR[:4] + TRANSLATOR[5:],
    ),
    "mixture": System((("mix", "{}", "gru", "transformer-decoder", "--weights", "0.4,0.6"),), CAUSAL[2:4] + CAUSAL[5:]),
    "patched": System(
        (PATCH,),
        tuple(
            (*asked[:1], "backpack", *asked[2:], "--patch", "backpack-patch.json")
            for asked in MEANT
            if asked[0] in ("generate", "score", "evaluate", "walk", "senses")
        ),
    ),
}
"""By the folder's name, in the order in which they are made: the last are made of those before."""
