"""What language models minimize: chunks that go on are one text, packed is apart, penalties, hidden words, classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from anaphora.data.language_batches import LanguageBatch, LineBatches, PackedBatches, StreamBatches
from anaphora.models import build_language_model, settings
from anaphora.models.registry import kinds
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD
from anaphora.training.objectives.language_objective import ClassificationObjective, LanguageObjective, MaskedObjective

CPU = torch.device("cpu")
CARRYING = ("rnn", "gru", "lstm", "window", "conv")
CAUSAL = [kind for kind in kinds("language") if kind != "transformer-encoder"]
VOCABULARY = 30


def model_of(kind: str, **more: Any) -> Any:
    torch.manual_seed(1)
    own: dict[str, Any] = {"kind": kind, "dim": 16, "layers": 2, "dropout": 0.0, **more}
    own |= {"heads": 2} if kind.startswith("transformer") else {}
    return build_language_model(settings(own), VOCABULARY)


def framed(number: int = 12, seed: int = 1) -> np.ndarray:
    draw = np.random.default_rng(seed)
    rows = [[BOS, *draw.integers(4, VOCABULARY, draw.integers(0, 9)), EOS] for _ in range(number)]
    return np.concatenate(rows).astype(np.uint32)


def whole_epoch(model: Any, objective: LanguageObjective, batches: Any) -> tuple[float, list[torch.Tensor], int]:
    """Loss and gradients, summed over an epoch."""
    model.zero_grad()
    total, tokens = 0.0, 0
    for index in range(batches.count(0)):
        batch = objective.send(batches.batch(0, index), CPU)
        loss = objective(model, batch)
        loss.backward()
        total += loss.item()
        tokens += batch.tokens
    return total, [p.grad.clone() for p in model.parameters() if p.grad is not None], tokens


@pytest.mark.parametrize("penalty", [0.0, 2.0])
@pytest.mark.parametrize("kind", CAUSAL)
def test_packed_documents_are_separate_ones(kind: str, penalty: float) -> None:
    model, ids = model_of(kind), framed()
    objective = LanguageObjective(activation_penalty=penalty, temporal_penalty=penalty)
    apart = whole_epoch(model, objective, LineBatches(ids, 64))
    packed = whole_epoch(model, objective, PackedBatches(ids, 60, 20))
    assert packed[0] == pytest.approx(apart[0], rel=1e-5)
    assert packed[2] == apart[2]
    for a, b in zip(apart[1], packed[1]):
        assert torch.allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("kind", CARRYING)
def test_chunks_that_go_on_are_one_text(kind: str) -> None:
    """The values, that is: a gradient reaches back to the beginning of its chunk alone."""
    model, ids = model_of(kind), framed(20)
    ids = np.concatenate([[BOS], ids[ids != BOS]]).astype(np.uint32)
    in_chunks, _, tokens = whole_epoch(
        model, LanguageObjective(carries=True), StreamBatches(ids, 14, 7, 3, carries=True)
    )
    long = StreamBatches(ids, 2 * len(ids), -(-len(ids) // 2), 3, carries=True)
    assert long.count(0) == 1
    at_once = whole_epoch(model, LanguageObjective(carries=True), long)
    assert (tokens, in_chunks) == (at_once[2], pytest.approx(at_once[0], rel=1e-5))
    forgetful, _, _ = whole_epoch(model, LanguageObjective(), StreamBatches(ids, 14, 7, 3, carries=True))
    assert forgetful != pytest.approx(at_once[0], rel=1e-5)


@pytest.mark.parametrize("kind", CARRYING)
def test_an_epoch_begins_anew(kind: str) -> None:
    """Whatever was carried, a fresh batch begins with nothing."""
    model, ids = model_of(kind), framed(20)
    ids = np.concatenate([[BOS], ids[ids != BOS]]).astype(np.uint32)
    batches, objective = StreamBatches(ids, 14, 7, carries=True), LanguageObjective(carries=True)
    first = objective(model, objective.send(batches.batch(0, 0), CPU)).item()
    objective(model, objective.send(batches.batch(0, 1), CPU))
    assert objective(model, objective.send(batches.batch(0, 0), CPU)).item() == pytest.approx(first, rel=1e-6)
    assert all(len(tensor) == 2 for tensor in objective.state_dict().values())


def test_what_is_carried_stays_in_its_place_and_has_no_gradient() -> None:
    """A recorded graph writes to the addresses that it was recorded with."""
    model, ids = model_of("lstm"), np.concatenate([[BOS], np.arange(4, 30), [EOS]] * 2).astype(np.uint32)
    batches, objective = StreamBatches(ids, 12, 6, carries=True), LanguageObjective(carries=True)
    objective(model, objective.send(batches.batch(0, 0), CPU))
    places = {name: tensor.data_ptr() for name, tensor in objective.state_dict().items()}
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    objective(model, objective.send(batches.batch(0, 1), CPU))
    assert {name: tensor.data_ptr() for name, tensor in objective.state_dict().items()} == places
    assert any(not torch.equal(before[name], tensor) for name, tensor in objective.state_dict().items())
    assert not any(tensor.requires_grad for tensor in objective.state_dict().values())
    objective.load_state_dict(before)
    assert all(torch.equal(before[name], tensor) for name, tensor in objective.state_dict().items())


@pytest.mark.parametrize("kind", ["gru", "transformer-decoder"])
def test_penalties(kind: str) -> None:
    model = model_of(kind)
    batch = LineBatches(framed(), 500).largest()
    plain = LanguageObjective()
    on_device = plain.send(batch, CPU)
    x, raw = (tensor.detach() for tensor in model.encode(on_device.ids)[:2])
    expected = {"activation": 0.0, "temporal": 0.0}
    for row in range(len(batch.tokens)):
        for place in range(int(batch.lengths[row]) - 1):
            expected["activation"] += float((x[row, place] ** 2).mean())
            if place:
                expected["temporal"] += float(((raw[row, place] - raw[row, place - 1]) ** 2).mean())
    without = plain(model, on_device).item()
    for name, weight in (("activation", 2.0), ("temporal", 3.0)):
        objective = LanguageObjective(**{f"{name}_penalty": weight})
        assert objective(model, on_device).item() - without == pytest.approx(weight * expected[name], rel=1e-4)


def test_the_activation_penalty_is_on_what_dropout_left_the_temporal_one_on_what_was_there_before() -> None:
    """AR and TAR as published (Merity et al. 2018)."""
    model, batch = model_of("lstm", output_dropout=0.5).train(), LineBatches(framed(), 500).largest()

    def told(**penalties: float) -> float:
        torch.manual_seed(3)  # the same dropout every time
        return LanguageObjective(**penalties)(model, on_device).item()

    on_device = LanguageObjective().send(batch, CPU)
    torch.manual_seed(3)
    x, raw = (tensor.detach() for tensor in model.encode(on_device.ids)[:2])
    assert ((x == 0) & (raw != 0)).any()
    real = (on_device.labels != PAD).float()
    activation = float((x.pow(2).mean(-1) * real).sum())
    temporal = float(((raw[:, 1:] - raw[:, :-1]).pow(2).mean(-1) * real[:, 1:]).sum())
    assert told(activation_penalty=2.0) - told() == pytest.approx(2 * activation, rel=1e-4)
    assert told(temporal_penalty=3.0) - told() == pytest.approx(3 * temporal, rel=1e-4)


def test_label_smoothing_is_that_of_torch() -> None:
    model, batch = model_of("window"), LineBatches(framed(), 500).largest()
    objective = LanguageObjective(0.1)
    on_device = objective.send(batch, CPU)
    logits, labels = model(on_device.ids).flatten(0, 1), on_device.labels.flatten()
    expected = F.cross_entropy(logits, labels, ignore_index=PAD, label_smoothing=0.1, reduction="sum")
    assert objective(model, on_device).item() == pytest.approx(expected.item(), rel=1e-5)


# -- hidden words ------------------------------------------------------------------------------------------------------


def test_what_is_hidden() -> None:
    torch.manual_seed(1)
    tokens = np.full((50, 40), PAD, np.int64)
    draw = np.random.default_rng(1)
    lengths = draw.integers(3, 41, 50)
    for row, length in enumerate(lengths):
        tokens[row, :length] = [BOS, *draw.integers(4, VOCABULARY, length - 2), EOS]
    batch = LanguageBatch(tokens, lengths.astype(np.int64), 50)
    words, asked, hidden, changed = int((lengths - 2).sum()), 0, 0, 0
    for _ in range(20):
        sent = MaskedObjective(VOCABULARY, VOCABULARY, 0.15).send(batch, CPU)
        real = sent.labels != PAD
        places, labels = sent.places[real], sent.labels[real]
        assert len(places.unique()) == len(places) == sent.tokens == round(0.15 * words)
        assert torch.equal(torch.from_numpy(tokens).flatten()[places], labels)
        assert not {PAD, BOS, EOS} & set(labels.tolist())
        shown = sent.ids.flatten()
        others = torch.ones(len(shown), dtype=torch.bool)
        others[places] = False
        assert torch.equal(shown[others], torch.from_numpy(tokens).flatten()[others])
        asked += len(places)
        hidden += int((shown[places] == VOCABULARY).sum())
        changed += int(((shown[places] != VOCABULARY) & (shown[places] != labels)).sum())
        assert sent.places.shape == (1 + int(0.15 * tokens.size),)  # of every batch of this shape
    assert hidden / asked == pytest.approx(0.8, abs=0.02)
    assert changed / asked == pytest.approx(0.1 * (1 - 1 / 26), abs=0.015)


def test_hidden_words_are_guessed_where_they_stand() -> None:
    model = model_of("transformer-encoder")
    batch = LineBatches(framed(), 500).largest()
    objective = MaskedObjective(model.mask_id, model.vocabulary, 0.3)
    sent = objective.send(batch, CPU)
    logits = model(sent.ids, sent.lengths).flatten(0, 1)[sent.places]
    for smoothing in (0.0, 0.2):
        objective = MaskedObjective(model.mask_id, model.vocabulary, 0.3, smoothing)
        how: dict[str, Any] = {"ignore_index": PAD, "label_smoothing": smoothing, "reduction": "sum"}
        expected = F.cross_entropy(logits, sent.labels, **how)
        assert objective(model, sent).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_row_without_words_hides_nothing() -> None:
    batch = LanguageBatch(np.array([[BOS, EOS]]), np.array([2]), 1)
    model = model_of("transformer-encoder")
    objective = MaskedObjective(model.mask_id, model.vocabulary)
    sent = objective.send(batch, CPU)
    assert objective(model, sent).item() == 0.0
    assert sent.tokens == 1  # divided by, never by 0


# -- classes -----------------------------------------------------------------------------------------------------------


def test_rows_that_fill_up_have_no_class() -> None:
    model = model_of("gru", labels=["a", "b", "c"])
    ids, classes = framed(5), np.array([0, 1, 2, 1, 0])
    objective = ClassificationObjective()
    few = LineBatches(ids, 1000, classes=classes).largest()
    many = LineBatches(ids, 1000, classes=classes, multiple=4).largest()
    assert many.height > few.height == 5
    sent = objective.send(few, CPU)
    logits = model(sent.ids, sent.lengths)
    for smoothing in (0.0, 0.2):
        expected = F.cross_entropy(logits, sent.classes, label_smoothing=smoothing, reduction="sum").item()
        assert ClassificationObjective(smoothing)(model, sent).item() == pytest.approx(expected, rel=1e-5)
    losses = [objective(model, objective.send(batch, CPU)).item() for batch in (few, many)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert objective.send(many, CPU).tokens == 5
