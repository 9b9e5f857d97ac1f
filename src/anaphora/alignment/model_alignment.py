"""Which source words did each target word come from? Word alignments of what was said, or of any given pair.

One teacher-forced pass over the finished target, whatever search found it: the model reads the source and the target
once more, the attention of its decoder over the source is captured (nn/attention_capture.py), and the weights of
subword tokens become weights of words:

    pieces of a source word are summed · pieces of a target word are averaged · the end mark's column is left out
    (its share is kept in `end_mark`) and each row is divided by what remains

What row t means is part of the method. *predicts*: the step that chooses target word t, having read only the words
before it. *reads*: the step whose input is word t (Chen et al. 2020 found it better in some models). So is the rule
that turns weights into links. Which layer, head, row and rule a model uses is chosen on held-out text without gold
(alignment_method.py).

Models without attention, or without softmax in it, are aligned by *occlusion*: without source word s, how much less
probable is target word t?

An ensemble is aligned as the mean of its *members* that attend, each by the method that was chosen for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch

from anaphora.alignment.aligned_pairs import Pair, Pairs, to_words
from anaphora.alignment.links import RULE_MEANING, RULES, Rule, links_of
from anaphora.decoding.beam_search import evaluating
from anaphora.decoding.pair_scoring import score
from anaphora.decoding.translate import Translation, clean, pad, token_batches
from anaphora.errors import UserError, option
from anaphora.evaluation.alignment_error import Link, write_pharaoh
from anaphora.models.contracts import Translator
from anaphora.nn.attention_capture import attention_layers, capture
from anaphora.results import brief, count, html_table
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer
from anaphora.tokenizers.words import Split, Word

Kind = Literal["attention", "occlusion", "members"]
Row = Literal["predicts", "reads"]
METHOD_KINDS: tuple[Kind, ...] = ("attention", "occlusion", "members")
ROWS: tuple[Row, ...] = ("predicts", "reads")

BATCH_TOKENS, BATCH_PAIRS, WINDOW_PAIRS = 2048, 64, 1024
TRACE_VERSION = 1
"""Of the JSON document that `Alignment.document` makes."""

ROW_MEANING = {
    "predicts": "row = the step that predicts the target word",
    "reads": "row = the step that reads the target word",
}


@dataclass(frozen=True)
class Method:
    """How a model's words are aligned. The default is for models of which nothing is known."""

    kind: Kind = "attention"
    layer: int | None = None
    """Decoder layer, from 0; None: the mean of all."""
    head: int | None = None
    """Head, from 0; None: the mean of all."""
    row: Row = "predicts"
    rule: Rule = "source"
    members: tuple[Method | None, ...] = ()
    """Of an ensemble (kind: members): how each member is read; None for one that is left out."""

    def __post_init__(self) -> None:
        known = self.kind in METHOD_KINDS and self.row in ROWS and self.rule in RULES
        numbers = [number for number in (self.layer, self.head) if number is not None]
        if not known or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"no such method: {self}")
        if self.head is not None and self.layer is None:
            raise ValueError("a head needs a layer")

    @property
    def name(self) -> str:
        """As `parse` reads it: 2.0:predicts:grow, 3.mean:reads:target, mean:predicts:source, occlusion:target. Of an
        ensemble, members:grow, which is its own and cannot be asked for."""
        if self.kind != "attention":
            return f"{self.kind}:{self.rule}"
        where = "mean" if self.layer is None else f"{self.layer}.{'mean' if self.head is None else self.head}"
        return f"{where}:{self.row}:{self.rule}"

    @classmethod
    def of(cls, asked: Method | str) -> Method:
        """A method, or what its name says."""
        return cls.parse(asked) if isinstance(asked, str) else asked

    @classmethod
    def parse(cls, text: str) -> Method:
        """LAYER.HEAD, LAYER.mean, mean or occlusion, then optionally :predicts or :reads, and a rule."""
        where, *rest = text.split(":")
        layer, _, head = where.partition(".")
        found: dict[str, Any] = {"row": "predicts", "rule": "target"}
        for item in rest:
            if item not in (*ROWS, *RULES):
                raise _unknown_method(text)
            found["row" if item in ROWS else "rule"] = item
        if where == "occlusion":
            return cls(kind="occlusion", rule=found["rule"])
        if where == "mean":
            return cls(**found)
        if not layer.isdecimal() or not (head == "mean" or head.isdecimal()) or not where.isascii():
            raise _unknown_method(text)
        return cls(layer=int(layer), head=None if head == "mean" else int(head), **found)

    def document(self) -> dict[str, Any]:
        """As plain data, with its name."""
        own = {key: value for key, value in vars(self).items() if key != "members"}
        members = [None if one is None else one.document() for one in self.members]
        return {**own, **({"members": members} if members else {}), "name": self.name}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Method:
        """What `document` made; names and meanings are left aside."""
        own = {key: value for key, value in document.items() if key not in ("name", "meaning")}
        members = tuple(None if one is None else cls.from_document(one) for one in own.pop("members", ()))
        return cls(**own, members=members)

    @property
    def source_of_weights(self) -> str:
        """Where the weights come from, in words."""
        if self.kind == "occlusion":
            return "occlusion: how much less probable without the source word"
        if self.kind == "members":
            each = ", ".join("none" if one is None else one.name for one in self.members)
            return f"mean of the members that attend, by their own methods ({each})"
        if self.layer is None:
            return "attention, mean of all decoder layers and heads"
        return f"attention, decoder layer {self.layer}, {'mean of heads' if self.head is None else f'head {self.head}'}"

    def explain(self) -> list[str]:
        """What a person must know to read the numbers, one sentence each; layers and heads count from 0."""
        rows = {"attention": ROW_MEANING[self.row], "occlusion": "row = what the target word loses"}
        row = rows.get(self.kind, "row = the target word")
        return [self.source_of_weights, f"columns = source words; {row}", RULE_MEANING[self.rule]]

    def check(self, model: Translator) -> None:
        """Does the model have this layer and head?"""
        if self.kind == "occlusion":
            return
        if bool(model.made_of) != (self.kind == "members"):
            what = "an ensemble has no layers and heads of its own" if self.kind == "attention" else "it has no members"
            raise UserError(what, cure=f"leave {option('method')} out, or use {option('method', 'occlusion')}")
        if model.made_of:
            for member, method in zip(model.made_of, self.members):
                if method is not None:
                    method.check(member)
            return
        if why := no_weights(model):
            raise UserError(why, cure=f"use {option('method', 'occlusion')}")
        layers = cross_attentions(model)
        if self.layer is not None and self.layer >= len(layers):
            raise UserError(
                f"there is no decoder layer {self.layer}", cure=f"choose one of 0 to {len(layers) - 1}, or mean"
            )
        heads = attention_layers(model)[layers[self.layer or 0]].heads
        if self.head is not None and self.head >= heads:
            raise UserError(f"there is no head {self.head}", cure=f"choose one of 0 to {heads - 1}, or mean")


def _unknown_method(text: str) -> UserError:
    return UserError(
        f"there is no alignment method {text!r}",
        cure="write LAYER.HEAD, LAYER.mean, mean or occlusion, then :predicts or :reads, then one of :"
        + " :".join(RULES),
    )


@dataclass
class Alignment:
    """The words of a pair, how much each target word looked at each source word, and the links drawn from that."""

    source_text: str
    """The source."""
    target_text: str
    """Its translation."""
    source: list[Word]
    """Its words."""
    target: list[Word]
    """The words of the translation."""
    weights: np.ndarray
    """(T, S): each row sums to one over the real words of the source, or is zero if all it had was on the end mark."""
    end_mark: np.ndarray
    """(T,): the share of each row that lay on the source's end mark."""
    links: list[Link]
    """(source word, target word), from 0, sorted."""
    method: Method
    """How it was read from the model."""
    split: Split = "punctuation"
    """What counts as a word."""
    problem: str | None = None
    """Why there is no alignment: a side longer than the model can take, or too many words."""

    def __str__(self) -> str:
        return self.pharaoh()

    def __repr__(self) -> str:
        what = self.problem or count(len(self.links), "link")
        return brief("Alignment", f"{self.source_text} → {self.target_text}", what)

    def _repr_html_(self) -> str:
        """The weights as a heat map; ● is a link."""
        links = set(self.links)
        rows = [
            [word.text, *("●" if (i, j) in links else "" for i in range(len(self.source)))]
            for j, word in enumerate(self.target)
        ]
        heads = ["", *(word.text for word in self.source)]
        caption = f"{self.source_text} → {self.target_text} {self.problem or ''}"
        return html_table(heads, rows, caption=caption, shades=self.weights.tolist())

    def pharaoh(self, *, base: int = 0) -> str:
        """Links on one line: "0-0 1-2"."""
        return write_pharaoh(self.links, base=base)

    def document(self, *, base: int = 0) -> dict[str, Any]:
        """The trace: all there is to draw, as plain data; `links` count words from `base`."""

        def side(words: list[Word]) -> list[dict[str, Any]]:
            return [{"word": word.text, "start": word.start, "end": word.end} for word in words]

        return {
            "anaphora_trace": TRACE_VERSION,
            "kind": "alignment",
            "source": {"text": self.source_text, "words": side(self.source)},
            "target": {"text": self.target_text, "words": side(self.target)},
            "split": self.split,
            "method": {**self.method.document(), "meaning": self.method.explain()},
            "weights": [[round(value, 5) for value in row] for row in self.weights.tolist()],
            "end_mark": [round(value, 5) for value in self.end_mark.tolist()],
            "links": [[i + base, j + base] for i, j in self.links],
            "base": base,
            "problem": self.problem,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Alignment:
        """A trace read back; one of a newer version is refused."""
        version = document.get("anaphora_trace")
        if document.get("kind") != "alignment" or not isinstance(version, int) or version > TRACE_VERSION:
            cure = "make it with `anaphora align --json`"
            raise UserError(f"is no alignment trace of version {TRACE_VERSION} or older", cure=cure)

        def side(name: str) -> list[Word]:
            return [Word(word["word"], word["start"], word["end"]) for word in document[name]["words"]]

        source, target = side("source"), side("target")
        return cls(
            source_text=document["source"]["text"],
            target_text=document["target"]["text"],
            source=source,
            target=target,
            weights=np.array(document["weights"], dtype=np.float32).reshape(len(target), len(source)),
            end_mark=np.array(document["end_mark"], dtype=np.float32),
            links=[(i - document["base"], j - document["base"]) for i, j in document["links"]],
            method=Method.from_document(document["method"]),
            split=document["split"],
            problem=document.get("problem"),
        )


# -- weights -----------------------------------------------------------------------------------------------------------


def cross_attentions(model: Translator) -> list[str]:
    """Paths of the attentions over the source, from the first decoder layer to the last."""
    return [path for path, layer in attention_layers(model).items() if layer.cross]


def no_weights(model: Translator) -> str | None:
    """Why the attention of a model cannot be read as an alignment; None if it can."""
    attentions = [attention_layers(model)[path] for path in cross_attentions(model)]
    if not attentions:
        return "the model has no attention over the source"
    if any(attention.normalizer != "softmax" for attention in attentions):
        return "the model's attention has no softmax: its weights are scores of any sign, no shares"
    return None


def attention_maps(
    model: Translator,
    pairs: Sequence[Pair],
    layers: Sequence[str],
    heads: Sequence[int] | None,
    *,
    mean: bool,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[tuple[int, int, np.ndarray]]:
    """(pair, piece, weights) for each piece, in the order of their lengths.

    Weights are (layers, heads, target tokens + 1, source tokens + 1), or without the first two if only their `mean` is
    wanted: row r is the step that predicts target token r and reads token r - 1. A target as long as the model allows
    has no last row: it is zero.
    """
    device = next(model.parameters()).device
    pieces = [(p, k, *ids) for p, pair in enumerate(pairs) for k, ids in enumerate(pair.pieces) if all(ids)]
    sizes = [max(len(source), len(target)) + 1 for _, _, source, target in pieces]
    with evaluating(model), torch.inference_mode(), capture(model, list(layers), heads) as seen:
        for places in token_batches(sizes, min(batch_tokens, BATCH_TOKENS), BATCH_PAIRS):
            batch = [pieces[place] for place in places]
            source, lengths = pad([[*ids, EOS] for _, _, ids, _ in batch], device)
            target, _ = pad([[BOS, *ids][: model.max_target_length] for *_, ids in batch], device)
            seen.clear()
            model(source, target, lengths)
            maps = torch.stack([seen.weights(path) for path in layers], dim=1).float()  # (B, L, H, T, S)
            if mean:
                maps = maps.mean(dim=(1, 2))  # (B, T, S)
            for weights, (pair, piece, read, said) in zip(maps.cpu().numpy(), batch):
                weights = weights[..., : len(said) + 1, : len(read) + 1]
                missing = len(said) + 1 - weights.shape[-2]
                if missing:
                    weights = np.pad(weights, [(0, 0)] * (weights.ndim - 2) + [(0, missing), (0, 0)])
                yield pair, piece, weights


def occlusion_maps(model: Translator, pairs: Sequence[Pair]) -> Iterator[tuple[int, np.ndarray]]:
    """(pair, weights (T, S + 1)): how many nats each target word loses when the tokens of a source word are left out.

    A word whose absence helps counts nothing. One pass for each source word: the price of asking a model without
    attention.
    """
    device = next(model.parameters()).device
    with evaluating(model), torch.inference_mode():
        for number, pair in enumerate(pairs):
            lost = pair.empty()
            for (read, said), (source_spans, target_spans) in zip(pair.pieces, pair.spans()):
                words = sorted({w for first, stop in source_spans.tolist() for w in range(first, stop)})
                if not words or not len(said):
                    continue
                keep = [(source_spans[:, 0] > w) | (source_spans[:, 1] <= w) for w in words]
                rows = [list(read), *([id for id, kept in zip(read, mask) if kept] for mask in keep)]
                source, lengths = pad([[*row, EOS] for row in rows], device)
                target, sizes = pad([[*said, EOS]] * len(rows), device)
                said_so = score(model, source, lengths, target, sizes).log_probabilities  # (1 + words, T)
                drop = (said_so[0] - said_so[1:]).clamp(min=0)[:, : len(said)].T.cpu().numpy()  # (tokens, words)
                for token, (first, stop) in enumerate(target_spans.tolist()):
                    lost[first:stop, words] += drop[token]
            yield number, lost


# -- alignments --------------------------------------------------------------------------------------------------------


def word_weights(model: Translator, pairs: Sequence[Pair], method: Method) -> list[np.ndarray]:
    """For each pair (T, S + 1), not yet divided: what each target word looked at, the end mark last."""
    found = [pair.empty() for pair in pairs]
    if method.kind == "occlusion":
        for number, lost in occlusion_maps(model, pairs):
            found[number] = lost
        return found
    if method.kind == "members":
        read = {place: share for place, share in model.attending.items() if method.members[place] is not None}
        for place, share in read.items():
            its = word_weights(model.made_of[place], pairs, method.members[place] or Method())
            found = [sum_ + share / sum(read.values()) * own for sum_, own in zip(found, its)]
        return found
    paths = cross_attentions(model)
    layers = paths if method.layer is None else [paths[method.layer]]
    heads = None if method.head is None else [method.head]
    shares = [pair.target_share() for pair in pairs]
    spans = [list(pair.spans()) for pair in pairs]
    later = int(method.row == "reads")
    for number, piece, weights in attention_maps(model, pairs, layers, heads, mean=True):
        rows = weights[later : len(weights) - 1 + later]
        source, target = spans[number][piece]
        found[number] += to_words(rows, source, target, shares[number], len(pairs[number].source))
    return found


def normalize(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(..., T, S + 1) -> rows that sum to one over the words (..., T, S), and the end mark's share (..., T)."""
    words, total = weights[..., :-1].sum(axis=-1, keepdims=True), weights.sum(axis=-1)
    real = weights[..., :-1] / np.where(words > 0, words, 1)
    return real.astype(np.float32), (weights[..., -1] / np.where(total > 0, total, 1)).astype(np.float32)


def align(model: Translator, pairs: Sequence[Pair], method: Method, split: Split) -> list[Alignment]:
    """One alignment for each pair; one without links for those that have a problem."""
    method.check(model)
    able = [place for place, pair in enumerate(pairs) if pair.problem is None]
    found = [pair.empty() for pair in pairs]
    for place, weights in zip(able, word_weights(model, [pairs[place] for place in able], method)):
        found[place] = weights
    alignments = []
    for pair, weights in zip(pairs, found):
        real, end_mark = normalize(weights)
        links = links_of(real, method.rule)
        texts, words = (pair.source_text, pair.target_text), (pair.source, pair.target)
        alignments.append(Alignment(*texts, *words, real, end_mark, links, method, split, pair.problem))
    return alignments


def align_pairs(
    model: Translator,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    pairs: Iterable[tuple[str, str]],
    method: Method,
    *,
    split: Split = "punctuation",
) -> Iterator[Alignment]:
    """Align given pairs of text, lazily and in order."""
    maker, pairs = Pairs(source_tokenizer, target_tokenizer, split), iter(pairs)
    while block := [(clean(source), clean(target)) for source, target in islice(pairs, WINDOW_PAIRS)]:
        made = maker.texts(block)
        for pair in made:
            pair.problem = pair.problem or _too_long(model, pair)
        yield from align(model, made, method, split)


def align_translations(
    model: Translator,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    translations: Iterable[Translation],
    method: Method,
    *,
    split: Split = "punctuation",
    window: int = WINDOW_PAIRS,
) -> Iterator[Translation]:
    """The same translations, lazily and in order, each candidate with its `alignment`: from the ids read and said."""
    maker, translations = Pairs(source_tokenizer, target_tokenizer, split), iter(translations)
    while block := list(islice(translations, window)):
        said = [(translation, candidate) for translation in block for candidate in translation.n_best]
        pairs = [
            maker.of(translation.source, one.text, list(one.token_ids), [new.word for new in one.replaced])
            for translation, one in said
        ]
        for (_, candidate), alignment in zip(said, align(model, pairs, method, split)):
            candidate.alignment = alignment
        for translation in block:
            translation.alignment = translation.n_best[0].alignment
            yield translation


def _too_long(model: Translator, pair: Pair) -> str | None:
    source, target = len(pair.source_spans) + 1, len(pair.target_spans) + 1
    if source > model.max_source_length:
        return f"the source has {source} tokens; the model can read {model.max_source_length}"
    if target > model.max_target_length:
        return f"the target has {target} tokens; the model can say {model.max_target_length}"
    return None
