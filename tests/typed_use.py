"""What type checkers make of the Python interface. Nothing here runs: mypy reads this file with the sources.

A line that mypy must refuse says so with an `ignore`, and mypy refuses an `ignore` that is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray

import anaphora
from anaphora import decoding, models, nn
from anaphora.alignment.model_alignment import Alignment
from anaphora.decoding.classes import Classified
from anaphora.decoding.generation import Generation
from anaphora.decoding.hidden_words import Filled
from anaphora.decoding.hypothesis import Hypothesis
from anaphora.decoding.text_scoring import ScoredLine
from anaphora.decoding.translate import ScoredPair, Translation
from anaphora.training.fit import History


def translator(model: anaphora.TranslationModel, lines: list[str]) -> None:
    assert_type(model.translate("a text"), Translation)
    assert_type(model.translate(lines, beam=1, n_best=3, align=True), list[Translation])
    assert_type(model.translate(Path("input.txt"), prefix="Der"), list[Translation])
    assert_type(model.score("a", "b"), ScoredPair)
    assert_type(model.score(lines, lines), list[ScoredPair])
    assert_type(model.align("a", "b"), Alignment)
    assert_type(model.align(iter(lines), lines), list[Alignment])
    model.evaluate(Path("test.tsv"), by_length=5, length_penalty=1.0)
    model.translate("a", beams=1)  # type: ignore[call-overload]
    model.translate("a", beam="one")  # type: ignore[call-overload]
    model.translate(3)  # type: ignore[call-overload]


def language_model(model: anaphora.TextModel, lines: list[str]) -> None:
    assert_type(model.generate("a", max_new_tokens=20, temperature=0.8), Generation)
    assert_type(model.generate("a", samples=3), list[Generation])
    assert_type(model.generate(lines), list[Generation])
    assert_type(model.generate(lines, samples=3, greedy=True), list[list[Generation]])
    assert_type(model.score("a"), ScoredLine)
    assert_type(model.score(lines), list[ScoredLine])
    assert_type(model.log_probabilities("a"), float)
    assert_type(model.log_probabilities(lines), NDArray[np.float64])
    assert_type(model.classify("a"), Classified)
    assert_type(model.classify(open("lines.txt", encoding="utf-8")), list[Classified])  # noqa: SIM115, PTH123
    assert_type(model.fill("a ___"), Filled)
    assert_type(model.encode(lines), NDArray[np.float32])
    assert_type(model.tokenize("a"), list[int])
    assert_type(model.tokenize(lines), list[list[int]])
    assert_type(model.detokenize([4, 5]), str)
    model.generate("a", temprature=0.8)  # type: ignore[call-overload]
    model.generate("a", length_penalty="much")  # type: ignore[call-overload]


def whole(frame: Any) -> None:
    anaphora.train("run", source="train.en", target=[Path("a.de"), "b.de"], settings={"training.seed": 2})
    anaphora.train("run", sauce="train.en")  # type: ignore[call-arg]


def parts(ids: torch.Tensor, x: torch.Tensor) -> None:
    layer = nn.MultiHeadAttention(64, heads=4, score="dot")
    layer(x, causal=True)
    nn.attend(x, x, x, mask=nn.Padding(ids) & nn.Window(3))
    with nn.capture(layer) as seen:
        assert_type(seen.weights("path"), torch.Tensor)
    nn.MultiheadAttention(64, 4)  # type: ignore[attr-defined]
    nn.TransformerEncoder(64, layer=2)  # type: ignore[call-arg]
    model = models.Transformer(vocabulary=(90, 110), dim=64, heads=4, layers=2, norm="post")
    assert_type(model.loss((ids, ids)), torch.Tensor)
    translates(model)
    models.Transformer(vocabulary=90, dims=64)  # type: ignore[call-arg]
    models.Transformer(vocabulary=90, norm="prae")  # type: ignore[arg-type]
    models.Bahdanau(dim=64)  # type: ignore[call-arg]
    models.Backpack(vocabulary=90, senses=4, encoder="lstm")
    models.CausalLM(vocabulary=90, encoder="lstm", dim=64, weight_dropout=0.1)
    models.CausalLM(vocabulary="many")  # type: ignore[arg-type]
    assert_type(decoding.search(model, ids, beam=4, n_best=2), list[list[Hypothesis]])
    decoding.search(model, ids, beams=4)  # type: ignore[call-arg]
    assert_type(anaphora.fit(model, [(ids, ids)], steps=3, learning_rate=1e-3), History)
    anaphora.fit(model, [ids], steps=3, learning_rat=1e-3)  # type: ignore[call-arg]


def translates(model: models.Transformer) -> models.Translator:
    return model
