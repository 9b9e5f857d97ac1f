"""Models by keywords, as people type them: `models.Transformer(dim=…, heads=…, layers=…, vocabulary=…)`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

import anaphora
from anaphora import models
from anaphora.errors import UserError
from anaphora.models.registry import kinds

SOURCE, TARGET = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]), torch.tensor([[1, 4, 9], [1, 3, 3]])
SMALL: dict[str, Any] = {"dim": 16, "layers": 2}
TRANSLATORS = ("Transformer", "Seq2Seq", "Bahdanau", "Luong", "DeepAtt", "GNMT", "MoE", "ByteNet", "ConvS2S")
ENCODERS = ("transformer", "lstm", "gru", "rnn", "conv", "window", "dan")


def test_all_public_names_are_there_and_no_others() -> None:
    for module in (models, anaphora.nn, anaphora.decoding):
        assert dir(module) == sorted(module.__all__)
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), name
    with pytest.raises(AttributeError, match=r"'anaphora\.models' has no attribute 'Transfomer'; did you mean 'Tr"):
        _ = models.Transfomer


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_is_made_by_keywords_and_gives_logits(name: str) -> None:
    made: Any = getattr(models, name)
    model = made(vocabulary=(10, 12), **SMALL).eval()
    logits = model(SOURCE, TARGET)
    assert logits.shape == (2, 3, 12) and model.config.tie == "target"
    torch.testing.assert_close(model(SOURCE, TARGET, torch.tensor([4, 2])), logits)  # the lengths that padding shows
    assert model.config == models.settings({"kind": model.config.kind, "tie": "target", **SMALL})
    known = inspect.signature(made).parameters
    assert known["dim"].default == made(vocabulary=9).config.dim and "kind" not in known


@pytest.mark.parametrize("encoder", ENCODERS)
def test_language_models_and_classifiers_have_any_encoder(encoder: str) -> None:
    model = models.CausalLM(encoder=encoder, vocabulary=12, **SMALL)
    assert model(TARGET).shape == (2, 3, 12)
    classifier = models.TextClassifier(encoder=encoder, vocabulary=12, labels=["good", "bad"], **SMALL)
    assert classifier(TARGET).shape == (2, 2)
    assert {model.config.kind, classifier.config.kind} <= {*kinds("language")}


def test_an_encoder_may_be_a_section() -> None:
    made = models.CausalLM(encoder={"kind": "lstm", "layers": 2}, vocabulary=12, dim=16)
    assert (made.config.kind, made.config.layers) == ("lstm", 2)
    assert models.Transformer(vocabulary=12, encoder={"kind": "gru", "layers": 1}, **SMALL).config.encoder == "gru"


def test_masked_models_and_backpacks_give_logits_too() -> None:
    assert models.MaskedLM(vocabulary=12, **SMALL)(TARGET).shape == (2, 3, 12)
    assert models.Backpack(vocabulary=12, senses=4, **SMALL)(TARGET).shape == (2, 3, 12)


def test_a_model_may_be_derived_from() -> None:
    class Mine(models.Transformer):
        def __init__(self) -> None:
            super().__init__(vocabulary=12, heads=2, **SMALL)

    assert Mine()(SOURCE, TARGET).shape == (2, 3, 12)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: models.Transformer(vocabulary=9, dims=8), UserError, "dims; did you mean 'dim'"),
        (lambda: models.Transformer(vocabulary=9, dim=30), UserError, r"dim \(30\) must be a multiple of heads"),
        (lambda: models.Transformer(dim=8), TypeError, "missing a keyword: vocabulary"),
        (lambda: models.Transformer(vocabulary="many"), ValueError, "vocabulary must be a number of tokens, or two"),
        (lambda: models.CausalLM(vocabulary=(9, 9)), ValueError, "vocabulary must be a number of tokens; it is"),
        (lambda: models.CausalLM(vocabulary=9, encoder="lsmt"), UserError, "did you mean 'lstm'"),
        (lambda: models.CausalLM(vocabulary=9, encoder="backpack"), UserError, "encoder cannot be 'backpack'"),
        (lambda: models.CausalLM(vocabulary=9, encoder="lstm", heads=2), UserError, "unknown setting model.heads"),
        (lambda: TRANSFORMER(SOURCE, TARGET[:1]), ValueError, "each source needs its target: there are 2 and 1"),
        (lambda: TRANSFORMER(SOURCE, torch.tensor([4, 2])), ValueError, r"target must be token ids \(B, T\)"),
        (lambda: TRANSFORMER(SOURCE.float(), TARGET), ValueError, "source must be token ids"),
    ],
)
def test_mistakes_are_said_in_one_line(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


TRANSFORMER = models.Transformer(vocabulary=12, dim=8, heads=2, layers=1)
