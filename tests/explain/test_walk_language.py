"""A walk through a language model: the model's own numbers, for heads of every family and for a Backpack's senses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.explain.selection import cell
from anaphora.explain.trace import Trace
from anaphora.explain.walk_language import walk_language
from anaphora.explain.walk_model import Asked, parts_of
from anaphora.explain.walk_senses import word_name
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.backpack_settings import BackpackConfig
from anaphora.models.language.causal import CausalLM
from anaphora.models.language.classifier import TextClassifier
from anaphora.models.language.masked import MaskedLM
from anaphora.models.language.transformer_language import TransformerDecoderConfig, TransformerEncoderConfig
from anaphora.nn.attention_capture import attention_layers, capture
from anaphora.nn.sense_network import reference_weights
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from sense_models import WORDS, small_backpack

TEXT = "the nurse said that the dog run"


def opinionated(model: Any) -> Any:
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def walked(model: Any, tokenizer: Tokenizer, text: str = TEXT, **asked: Any) -> Trace:
    return walk_language(model, tokenizer, text, tokenizer.encode(text), Asked(**asked))


SHAPE: dict[str, Any] = {"dim": 16, "layers": 2, "heads": 2, "max_length": 32}
READERS = {
    "transformer-decoder": lambda v: CausalLM(TransformerDecoderConfig(**SHAPE), v),
    "rotary": lambda v: CausalLM(TransformerDecoderConfig(**SHAPE, positions="rotary"), v),
    "masked": lambda v: MaskedLM(TransformerEncoderConfig(**SHAPE), v),
    "classifier": lambda v: TextClassifier(TransformerDecoderConfig(**SHAPE, labels=["yes", "no"]), v),
}


@pytest.mark.parametrize("kind", READERS)
def test_heads_of_every_family(kind: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.of_words(WORDS)
    model = opinionated(READERS[kind](tokenizer.vocabulary_size))
    trace = walked(model, tokenizer, layer=1, head=0)
    (walk,) = trace.walks
    assert walk.holds, [str(check) for check in walk.checks if not check.holds]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace.document()), encoding="utf-8")
    assert Trace.read(file).walks[0].title == walk.title
    # once more by hand
    (part,) = parts_of(model)
    path = parts_of(model)[part][1]
    ids = [BOS, *tokenizer.encode(TEXT)] + ([EOS] if kind in ("masked", "classifier") else [])
    row, lengths = torch.tensor([ids]), torch.tensor([len(ids)])
    with torch.no_grad(), capture(model, [path]) as seen:
        model(row, lengths)
    np.testing.assert_allclose(walk.step("A").values, seen.weights(path)[0, 0].numpy(), atol=1e-5)
    assert len(trace.attention) == len(attention_layers(model))
    heading = walk.says.splitlines()[0]
    assert ("→" in heading) == (kind != "masked")
    assert ("yes 0." in heading and "no 0." in heading) == (kind == "classifier")


def test_the_words_that_were_read_have_the_probabilities_that_score_gives() -> None:
    tokenizer = Tokenizer.of_words(WORDS)
    model = opinionated(READERS["transformer-decoder"](tokenizer.vocabulary_size))
    ids = tokenizer.encode(TEXT)
    trace = walked(model, tokenizer)
    with torch.no_grad():
        scores = model.score(torch.tensor([ids]), torch.tensor([len(ids)]))[0]
    assert trace.steps is not None
    np.testing.assert_allclose([step["logprob"] for step in trace.steps], scores.numpy(), atol=1e-4)


@given(
    senses=st.sampled_from([1, 2, 4, 8]),
    window=st.sampled_from([None, 1, 3]),
    places=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12),
    data=st.data(),
)
@settings(max_examples=25, deadline=None)
def test_a_sense_is_the_models_own(senses: int, window: int | None, places: list[str], data: st.DataObject) -> None:
    model, tokenizer = small_backpack(senses=senses, sense_window=window)
    text, sense = " ".join(places), data.draw(st.integers(0, senses - 1))
    trace = walked(model, tokenizer, text, head=sense)
    (walk,) = trace.walks
    assert walk.name == f"senses-{sense}"
    assert walk.holds, [str(check) for check in walk.checks if not check.holds]
    row = torch.tensor([[BOS, *tokenizer.encode(text)]])
    with torch.no_grad():
        query, key = model.queries_and_keys(model.contextual(row))
        alpha = reference_weights(query, key, window=window)[0]
        logits = model(row)[0]
        likely = logits.softmax(-1)
    np.testing.assert_allclose(walk.step("A").values, alpha[sense].numpy(), atol=1e-5)
    best = logits[-1].topk(6).indices
    np.testing.assert_allclose(walk.step("P").values, likely[:, best].numpy(), atol=1e-5)
    seen = trace.attention[-1]
    assert seen.weights is not None
    np.testing.assert_allclose(seen.weights, alpha.numpy(), atol=1e-5)


def test_the_shares_of_all_senses_are_the_logits() -> None:
    """Z Eᵀ of one sense after the other, added up, is o Eᵀ: what `why` says of one place, for all of them."""
    model, tokenizer = small_backpack(senses=4)
    several = [walked(model, tokenizer, head=sense).walks[0] for sense in range(4)]
    added = sum(walk.step("Z·E").values for walk in several)
    np.testing.assert_allclose(added, several[0].step("o·E").values, atol=1e-4)


def test_one_row_and_one_cell() -> None:
    model, tokenizer = small_backpack()
    whole = walked(model, tokenizer, head=1).walks[0]
    walk = walked(model, tokenizer, head=1, query="dog").walks[0]
    assert walk.first_row == 6
    np.testing.assert_allclose(walk.step("A").values[0], whole.step("A").values[6], atol=1e-6)
    until_there = walked(model, tokenizer, "the nurse said that the dog", head=1).walks[0]
    assert walk.step("P").columns == until_there.step("P").columns
    told = cell(walk, "dog,nurse")
    assert any("e^" in line for _, lines in told.lines for line in lines)


def test_the_contextualiser_of_a_backpack() -> None:
    model, tokenizer = small_backpack()
    trace = walked(model, tokenizer, part="encoder", layer=0, head=1)
    assert trace.walks[0].holds
    assert [one.module for one in trace.attention][-1] == "query_key"
    assert "senses 0 to 3" in trace.walks[0].settings["choices"]
    lstm, tokenizer = small_backpack(encoder="lstm", heads=None, max_length=None)
    trace = walked(lstm, tokenizer)
    assert trace.walks[0].holds
    assert not any("traced" in check.what for check in trace.walks[0].checks)  # nothing was
    assert len(trace.attention) == 1
    with pytest.raises(UserError, match="no part 'encoder'"):
        walked(lstm, tokenizer, part="encoder")


def test_tokens_that_are_never_said() -> None:
    model, tokenizer = small_backpack(silent=[4, 5])
    walk = walked(model, tokenizer).walks[0]
    assert walk.holds
    assert np.isfinite(walk.step("o·E").values).all()
    assert set(walk.step("P").columns).isdisjoint({tokenizer.token(4), tokenizer.token(5)})


def test_patches_are_walked_with_and_topics_are_not() -> None:
    from anaphora.models.backpack.topic import Emphasis

    model, tokenizer = small_backpack()
    before = walked(model, tokenizer, head=0).walks[0]
    model.rewrite = lambda ids, senses: senses * 2
    after = walked(model, tokenizer, head=0).walks[0]
    assert after.holds
    np.testing.assert_allclose(after.step("Z").values, 2 * before.step("Z").values, atol=1e-5)
    model.emphasis = Emphasis.__new__(Emphasis)
    with pytest.raises(UserError, match="a patch with a topic"):
        walked(model, tokenizer)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"head": 4}, "no sense 4; this model has senses 0 to 3"),
        ({"layer": 1}, "no layer 1 in senses"),
        ({"part": "cross"}, "this model has senses, encoder"),
        ({"query": "moon"}, "moon"),
        ({"text": ""}, "nothing to read"),
        ({"text": " \n "}, "nothing to read"),
        ({"text": " ".join(["dog"] * 40)}, "more than the 32 that the model can read"),
    ],
)
def test_what_is_not_there(asked: dict[str, Any], message: str) -> None:
    model, tokenizer = small_backpack()
    with pytest.raises(UserError) as caught:
        walked(model, tokenizer, **asked)
    assert message in str(caught.value)


def test_blanks_are_for_fill() -> None:
    tokenizer = Tokenizer.of_words(WORDS)
    masked = READERS["masked"](tokenizer.vocabulary_size)
    with pytest.raises(UserError, match=r"without blanks.*fill"):
        walked(masked, tokenizer, "the ___ said")


# Texts that are not one line of known words ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pieces() -> tuple[Backpack, Tokenizer]:
    lines = ["the old dog sees a cat here.", "riding a horse", "a dog\tand cats"] * 5
    tokenizer = Tokenizer.train(TokenizerConfig(vocabulary=300), lines)
    config = BackpackConfig(dim=16, layers=1, heads=2, senses=4, max_length=64)
    return opinionated(Backpack(config, tokenizer.vocabulary_size)), tokenizer


def test_tokens_know_their_place_on_every_line(pieces: tuple[Backpack, Tokenizer]) -> None:
    model, tokenizer = pieces
    text = "the old dog.\nTwo cats see 🐕\n\na horse"
    ids = [token for line in text.split("\n") for token in (*tokenizer.encode(line), EOS)][:-1]
    trace = walk_language(model, tokenizer, text, ids, Asked())
    assert trace.walks[0].holds
    assert trace.walks[0].says.startswith("the old dog.↵Two cats see 🐕↵↵a horse")
    inner = [token for token in trace.segments[0].tokens if not token.special]
    for token in inner:
        if "⟨" not in token.text:  # a part of a character
            assert text[token.start : token.end].strip() == token.text.strip()


def test_a_word_in_pieces_is_its_last_one(pieces: tuple[Backpack, Tokenizer]) -> None:
    model, tokenizer = pieces
    text = "the old wolfhound sees"
    trace = walk_language(model, tokenizer, text, tokenizer.encode(text), Asked(head=0, query="wolfhound"))
    (walk,) = trace.walks
    tokens = trace.segments[0].tokens
    belonging = [number for number, token in enumerate(tokens) if text[token.start : token.end].strip() in "wolfhound"]
    last = max(number for number in belonging if tokens[number].end == text.index(" sees"))
    assert walk.first_row == last
    assert walk.settings["query"] == "wolfhound"
    assert f", after {walk.step('A').rows[0]} → " in walk.says.splitlines()[0]
    with pytest.raises(UserError, match="stands at"):
        walk_language(model, tokenizer, "a a", tokenizer.encode("a a"), Asked(query="a"))


def test_headings_tell_words_from_pieces_and_are_printable(pieces: tuple[Backpack, Tokenizer]) -> None:
    _, tokenizer = pieces
    names = [word_name(tokenizer, token) for token in range(tokenizer.vocabulary_size)]
    assert all(name.isprintable() for name in names)
    assert len(set(names)) == len(names)
    assert "##o" in names


def test_too_many_tokens_for_all_senses(pieces: tuple[Backpack, Tokenizer], monkeypatch: pytest.MonkeyPatch) -> None:
    from anaphora.explain import walk_senses

    model, tokenizer = pieces
    monkeypatch.setattr(walk_senses, "MOST_BYTES", 4 * 4 * 3**2)
    assert walk_language(model, tokenizer, "a dog", tokenizer.encode("a dog"), Asked()).walks[0].holds
    with pytest.raises(UserError, match="too many for a walk through 4 senses"):
        walk_language(model, tokenizer, "a old dog", tokenizer.encode("a old dog"), Asked())
