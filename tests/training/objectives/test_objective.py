"""What is minimized: cross-entropy and label smoothing by hand; many small batches are one big one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from anaphora.data.batches import Batch, pad
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.training.objectives.objective import TranslationBatch, TranslationObjective
from micro_runs import MICRO, write_pairs

CPU = torch.device("cpu")


def batch(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    sides = {}
    for place, side in enumerate(("source", "target")):
        rows = [np.array(pair[place], dtype=np.int64) for pair in pairs]
        sides[side] = pad(np.concatenate(rows), np.array([len(row) for row in rows]), begin=place)
    tokens, lengths = ({side: both[i] for side, both in sides.items()} for i in (0, 1))
    return Batch(rows=np.arange(len(pairs)), tokens=tokens, lengths=lengths)


def test_what_the_decoder_is_given_and_what_it_should_say() -> None:
    made = TranslationBatch.of(batch([([7, 8, 9], [4, 5]), ([7], [6])]), CPU)
    assert made.source.tolist() == [[7, 8, 9, 2], [7, 2, 0, 0]]
    assert made.source_lengths.tolist() == [4, 2]
    assert made.target.tolist() == [[1, 4, 5], [1, 6, 2]]
    assert made.labels.tolist() == [[4, 5, 2], [6, 2, 0]]
    assert (made.tokens, made.source_tokens) == (5, 6)


def test_smoothed_cross_entropy_by_hand() -> None:
    """(1 - ε) · -log P(label) + ε · mean over the vocabulary of -log P, summed over real labels."""
    made = TranslationBatch.of(batch([([7], [3, 1]), ([7], [])]), CPU)
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    chances = logits.softmax(-1).tolist()

    def forward(source: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
        return logits

    for smoothing in (0.0, 0.1, 0.5):
        expected = 0.0
        for row, labels in enumerate(([3, 1, 2], [2])):
            for place, label in enumerate(labels):
                logs = [math.log(p) for p in chances[row][place]]
                expected -= (1 - smoothing) * logs[label] + smoothing * sum(logs) / 5
        assert TranslationObjective(smoothing)(forward, made).item() == pytest.approx(expected, rel=1e-5)


def test_consistency_by_hand() -> None:
    """½ (CE(P) + CE(Q)) + α/4 (KL(P‖Q) + KL(Q‖P)) over the real labels, P and Q being the halves of one pass."""
    made = TranslationBatch.of(batch([([7], [3, 1]), ([7], [])]), CPU)
    logits = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))

    def forward(source: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
        assert source.tolist() == made.source.tolist() * 2
        assert lengths.tolist() == made.source_lengths.tolist() * 2
        assert target.tolist() == made.target.tolist() * 2
        return logits

    chances, expected = logits.softmax(-1).tolist(), 0.0
    for row, labels in enumerate(([3, 1, 2], [2])):
        for place, label in enumerate(labels):
            p, q = chances[row][place], chances[row + 2][place]
            expected -= (math.log(p[label]) + math.log(q[label])) / 2
            both_ways = sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q))
            expected += 3.0 / 4 * both_ways
    assert TranslationObjective(0.0, 3.0)(forward, made).item() == pytest.approx(expected, rel=1e-5)


def test_consistency_without_dropout_is_cross_entropy() -> None:
    net = model()
    made = TranslationBatch.of(batch(PAIRS), CPU)
    plain, consistent = TranslationObjective(0.1), TranslationObjective(0.1, 5.0)
    assert consistent(net, made).item() == pytest.approx(plain(net, made).item(), rel=1e-6)
    assert consistent.flops(net, made) == 2 * plain.flops(net, made)


def test_rows_that_fill_up_a_batch_change_nothing() -> None:
    """A batch padded to a larger shape: the same loss, tokens and gradient."""
    narrow = batch(PAIRS)
    wide = batch(PAIRS)
    for side, begin in (("source", 0), ("target", 1)):
        ids = np.concatenate([np.array(pair[begin]) for pair in PAIRS])
        size = np.array([len(pair[begin]) for pair in PAIRS])
        wide.tokens[side], wide.lengths[side] = pad(ids, size, begin, height=7, width=12)
        assert wide.tokens[side].shape == (7, 12)
    results = []
    for one in (narrow, wide):
        net, made = model(), TranslationBatch.of(one, CPU)
        assert (made.tokens, made.source_tokens) == (15, 14)
        loss = TranslationObjective(0.1)(net, made)
        loss.backward()
        results.append((loss, {name: p.grad for name, p in net.named_parameters()}))
    torch.testing.assert_close(results[0][0], results[1][0])
    for name, gradient in results[0][1].items():
        torch.testing.assert_close(results[1][1][name], gradient, atol=1e-6, rtol=1e-5)


def model() -> Transformer:
    torch.manual_seed(3)
    config = TransformerConfig(dim=16, layers=1, heads=2, feed_forward=24, max_length=16, dropout=0.0)
    return Transformer(config, 30, 30).double()


PAIRS = [([5, 6, 7, 8], [9, 10]), ([11], [12, 13, 14]), ([4, 4], [4]), ([20, 21, 22], [23, 24, 25, 26, 27])]


def gradients(net: Transformer, groups: list[list[tuple[list[int], list[int]]]]) -> dict[str, Tensor]:
    """As the loop does: each batch's sum over the tokens of all of them."""
    made = [TranslationBatch.of(batch(group), CPU) for group in groups]
    tokens = sum(one.tokens for one in made)
    for one in made:
        (TranslationObjective(0.1)(net, one) / tokens).backward()
    return {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


def test_accumulated_batches_are_one_big_batch() -> None:
    whole = gradients(model(), [PAIRS])
    for groups in ([PAIRS[:1], PAIRS[1:]], [[pair] for pair in PAIRS]):
        parts = gradients(model(), groups)
        for name, gradient in whole.items():
            torch.testing.assert_close(parts[name], gradient, atol=1e-7, rtol=1e-5)  # the loss itself is float32


def test_an_accumulated_update_of_the_loop_is_one_big_update(tmp_path: Path) -> None:
    """Through `train`: an epoch in one batch, and the same rows in several batches with accumulate, end alike."""
    import anaphora
    from anaphora.data.batches import Batches
    from anaphora.data.preparation import open_prepared
    from anaphora.models.weights import read_weights

    files = write_pairs(tmp_path, 20)
    common: dict[str, Any] = {
        **MICRO, "model.dropout": 0.0, "data.hold_out": 0, "training.max_steps": 1, "training.learning_rate": 0.1,
        "training.optimizer": "adam", "training.epsilon": 1.0,
    }  # fmt: skip
    # epsilon 1: the change is then about the gradient itself, not its sign
    anaphora.train(tmp_path / "big", **files, settings={**common, "training.batch_tokens": 5000}, device="cpu")
    corpus = open_prepared(tmp_path / "big" / "data").train
    small = next(
        size for size in range(200, 1000) if len({Batches(corpus, size, 1).count(epoch) for epoch in (0, 1)}) == 1
    )
    count = Batches(corpus, small, 1).count(0)
    assert count > 1
    assert Batches(corpus, 5000, 1).count(0) == 1
    settings = {**common, "training.batch_tokens": small, "training.accumulate": count}
    anaphora.train(tmp_path / "small", **files, settings=settings, device="cpu")
    big, parts = (read_weights(tmp_path / name / "model.safetensors") for name in ("big", "small"))
    for name, tensor in big.items():
        torch.testing.assert_close(
            parts[name], tensor, atol=1e-6, rtol=1e-4, msg=lambda text, name=name: f"{name} {text}"
        )
