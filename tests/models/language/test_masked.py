"""The property suite for masked language models and classifiers: what they declare, they keep."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models import build_language_model
from anaphora.models.contracts import LanguageModel
from anaphora.models.language import masked as masked_module
from anaphora.models.registry import kinds
from anaphora.nn.attention_capture import capture
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD
from neural_rungs import CAUSAL, CLASSIFIERS, LABELS, LONGEST, MASKED

VOCABULARY = 12
few = settings(max_examples=8)
rows = st.lists(st.lists(st.integers(EOS, VOCABULARY - 1), max_size=7), min_size=1, max_size=4)


@pytest.fixture(scope="module", params=MASKED)
def model(request: pytest.FixtureRequest) -> Any:
    return MASKED[request.param]()


@pytest.fixture(scope="module", params=CLASSIFIERS)
def classifier(request: pytest.FixtureRequest) -> Any:
    return CLASSIFIERS[request.param]()


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


def padded(texts: list[list[int]], width: int = 0, filler: int = PAD) -> tuple[Tensor, Tensor]:
    width = max(width, *(len(text) for text in texts), 1)
    ids = torch.tensor([[*text, *[filler] * (width - len(text))] for text in texts])
    return ids, torch.tensor([len(text) for text in texts])


# Masked ---------------------------------------------------------------------------------------------------------------


def test_what_masked_models_declare(model: Any) -> None:
    assert model.capabilities == {"masked", "normalised", "batch-invariant", "attends"}
    assert not isinstance(model, LanguageModel)  # it has no probability of a text, and does not go on with one


def test_what_classifiers_declare(classifier: Any) -> None:
    attends = {"attends"} if classifier.config.kind.startswith("transformer") else set()
    assert classifier.capabilities == {"classifies", "normalised", "batch-invariant", *attends}
    assert {make().config.kind for make in CLASSIFIERS.values()} == set(kinds("language")) - {
        "backpack"
    }  # it refuses to


@few
@given(texts=rows, extra=st.integers(0, 3), rubbish=st.integers(0, VOCABULARY - 1), seed=st.integers(0, 99))
def test_masked_batch_invariant(model: Any, texts: list[list[int]], extra: int, rubbish: int, seed: int) -> None:
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
    shuffled = [[BOS, *texts[place], EOS] for place in order]
    together = model(*padded(shuffled, max(map(len, shuffled)) + extra, rubbish))
    for found, text in zip(together, shuffled):
        close(found[: len(text)], model(*padded([text]))[0])


def test_both_sides_are_seen(model: Any) -> None:
    """Every place knows of the places beside it, and of all where there is no window."""
    ids = torch.tensor([[BOS, 4, 5, 6, 7, EOS]])
    other = ids.clone()
    other[0, 3] = 9
    differ = (model(ids) != model(other)).any(-1)[0]
    assert differ[2]
    assert differ[4]
    assert differ.all() or model.config.window is not None


@few
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_packed_documents_are_separate_ones(model: Any, sizes: list[int]) -> None:
    ids = torch.randint(2, VOCABULARY, (1, sum(sizes) + 1), generator=torch.Generator().manual_seed(0))
    documents = torch.tensor([[n for n, size in enumerate(sizes) for _ in range(size)] + [-1]])
    packed = model(ids, documents=documents)
    begin = 0
    for size in sizes:
        close(packed[0, begin : begin + size], model(ids[:, begin : begin + size])[0])
        begin += size


@few
@given(texts=rows)
def test_the_pseudo_likelihood_hides_each_word_in_turn(model: Any, texts: list[list[int]]) -> None:
    ids, lengths = padded(texts, filler=7)
    scores = model.score(ids, lengths)
    assert scores.dtype == torch.float32
    for row, text in enumerate(texts):
        assert (scores[row, len(text) :] == 0).all()
        for place, token in enumerate(text):
            hidden = torch.tensor([[BOS, *text]])
            hidden[0, place + 1] = model.mask_id
            said = model(hidden)[0, place + 1].log_softmax(-1)
            close(scores[row, place], said[token])


def test_scores_do_not_depend_on_how_many_are_read_at_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, lengths = padded([[4, 5, 6, 2], [7, 2]])
    whole = model.score(ids, lengths)
    monkeypatch.setattr(masked_module, "BATCH_TOKENS", 11)
    close(model.score(ids, lengths), whole)


def test_fill(model: Any) -> None:
    hide = model.mask_id
    ids, lengths = padded([[BOS, 4, hide, 6, hide, EOS], [BOS, hide, EOS]], filler=hide)
    places, said = model.fill(ids, lengths)
    assert places.tolist() == [[0, 2], [0, 4], [1, 1]]  # not those of the padding
    assert said.shape == (3, VOCABULARY)
    close(said.exp().sum(-1), torch.ones(3))
    close(said[2], model(ids[1:, :3])[0, 1].log_softmax(-1))
    if hide != 4:
        with pytest.raises(UserError, match="there is no hidden word to fill in"):
            model.fill(torch.tensor([[BOS, 4, EOS]]), torch.tensor([3]))


@torch.no_grad()
def test_masked_attends(model: Any) -> None:
    ids, lengths = padded([[BOS, 4, 5, 6, EOS], [BOS, 4, EOS]])
    plain = model(ids, lengths)
    with capture(model) as seen:
        close(model(ids, lengths)[0], plain[0])
    assert len(seen) == model.config.layers
    for (call,) in seen.values():
        assert (call.weights[1, :, :, 3:] == 0).all()
        close(call.weights[0].sum(-1), torch.ones(model.config.heads, 5))
        close(call.weights @ call.value, call.context)


def test_the_mask_is_a_row_of_the_table_that_is_never_said() -> None:
    model = MASKED["transformer-encoder"]()
    assert model.mask_id == model.vocabulary == VOCABULARY
    assert model.embedding.table.num_embeddings == VOCABULARY + 1
    assert model(torch.tensor([[BOS, 12, EOS]])).shape == (1, 3, VOCABULARY)
    given = MASKED["transformer-encoder bert"]()
    assert (given.mask_id, given.embedding.table.num_embeddings) == (5, VOCABULARY)


def test_it_reads_no_more_than_its_positions() -> None:
    model = MASKED["transformer-encoder learned"]()
    ids, lengths = torch.full((1, LONGEST), 4), torch.tensor([LONGEST])
    model(ids)
    with pytest.raises(UserError, match=f"{LONGEST + 1} tokens"):
        model.score(ids, lengths)
    with pytest.raises(UserError, match="has no pooler"):
        model.pooled(ids, lengths)


# Classifiers ----------------------------------------------------------------------------------------------------------


@few
@given(texts=rows, extra=st.integers(0, 3), rubbish=st.integers(0, VOCABULARY - 1))
def test_classifiers_batch_invariant_and_normalised(
    classifier: Any, texts: list[list[int]], extra: int, rubbish: int
) -> None:
    whole = [[BOS, *text, EOS] for text in texts]
    found = classifier.classify(*padded(whole, max(map(len, whole)) + extra, rubbish))
    assert found.shape == (len(texts), len(LABELS))
    close(found.exp().sum(-1), torch.ones(len(texts)))
    for said, text in zip(found, whole):
        close(said, classifier.classify(*padded([text]))[0])


def test_both_ways_or_one(classifier: Any) -> None:
    """Whether the first place knows of the last one."""
    ids, lengths = torch.tensor([[BOS, 4, 5, EOS]]), torch.tensor([4])
    other = torch.tensor([[BOS, 4, 9, EOS]])
    first = [classifier.encode(one, lengths)[0, 1] for one in (ids, other)]
    both = classifier.config.bidirectional or classifier.config.kind == "transformer-encoder"
    assert torch.equal(*first) == (not both)


def test_what_a_language_model_has_learned_fits_a_classifier() -> None:
    for name in ("lstm", "transformer-decoder", "conv", "window"):
        language = CAUSAL[name]()
        config = dataclasses.replace(language.config, labels=LABELS)
        taken = {k: v for k, v in language.state_dict().items() if k.startswith(("embedding.", "encoder."))}
        gaps = build_language_model(config, VOCABULARY).load_state_dict(taken, strict=False)
        assert not gaps.unexpected_keys
        assert set(gaps.missing_keys) == {"head.linear.weight", "head.linear.bias"}
    masked, chooser = MASKED["transformer-encoder"](), CLASSIFIERS["transformer-encoder"]()
    taken = {k: v for k, v in masked.state_dict().items() if k.startswith(("embedding.", "encoder."))}
    assert not chooser.load_state_dict(taken, strict=False).unexpected_keys


def test_classifier_flops() -> None:
    classifier = CLASSIFIERS["dan"]()
    c = classifier.config
    assert classifier.flops(20, 5) == pytest.approx(20 * 2 * c.layers * c.dim**2 + 4 * 2 * c.dim * len(LABELS))
