"""Scores by hand, and shared heads."""

from __future__ import annotations

import math

import pytest
import torch

from anaphora.nn.attention import attend, attention_weights
from anaphora.nn.scores import SCORES, scores, spread


def rows(*values: list[float]) -> torch.Tensor:
    """(T, D) -> (1, 1, T, D)"""
    return torch.tensor(values, dtype=torch.float64)[None, None]


def test_the_four_scores_of_one_query_and_key() -> None:
    query, key = rows([1.0, 2.0]), rows([3.0, -1.0])
    assert scores(query, key, "dot").item() == 1.0
    assert scores(query, key, "scaled-dot").item() == pytest.approx(1 / math.sqrt(2))
    matrix = torch.tensor([[1.0, 0.0], [0.0, 10.0]]).double()
    assert scores(query, key, "bilinear", matrix).item() == 1 * 3 + 2 * 10 * -1
    v = torch.tensor([2.0, 5.0]).double()
    assert scores(query, key, "additive", v).item() == pytest.approx(2 * math.tanh(4) + 5 * math.tanh(1))


def test_bilinear_joins_queries_and_keys_of_different_sizes() -> None:
    matrix = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]).double()  # (d_q, d_k)
    assert scores(rows([1.0, 2.0]), rows([1.0, 1.0, 1.0]), "bilinear", matrix).item() == 8.0


def test_each_head_may_have_its_own_weight() -> None:
    query, key = torch.randn(2, 3, 4, 5).double(), torch.randn(2, 3, 6, 5).double()
    for score, weight in (("additive", torch.randn(3, 5)), ("bilinear", torch.randn(3, 5, 5))):
        whole = scores(query, key, score, weight.double())  # type: ignore[arg-type]
        for head in range(3):
            alone = scores(query[:, [head]], key[:, [head]], score, weight[head].double())  # type: ignore[arg-type]
            torch.testing.assert_close(whole[:, [head]], alone)


@pytest.mark.parametrize("score", SCORES)
def test_shared_key_heads_are_copies(score: str) -> None:
    """Grouped (2 for 4) and multi-query (1 for 4): query heads 0, 1 look at key head 0; 2, 3 at key head 1."""
    torch.manual_seed(0)
    query = torch.randn(2, 4, 3, 6).double()
    weight = {"additive": torch.randn(6), "bilinear": torch.randn(6, 6)}.get(score)
    weight = None if weight is None else weight.double()
    for groups in (1, 2):
        key, value = torch.randn(2, groups, 5, 6).double(), torch.randn(2, groups, 5, 2).double()
        copied = [tensor[:, [head * groups // 4 for head in range(4)]] for tensor in (key, value)]
        shared = attend(query, key, value, score=score, weight=weight)  # type: ignore[arg-type]
        torch.testing.assert_close(shared, attend(query, *copied, score=score, weight=weight))  # type: ignore[arg-type]
        assert torch.equal(spread(key, 4), copied[0])


def test_weights_of_an_additive_score_are_those_of_bahdanau() -> None:
    """α_i = exp(e_i) / Σ exp(e_j), e_i = v · tanh(W s + U h_i)."""
    torch.manual_seed(1)
    state, memory, v = torch.randn(1, 3).double(), torch.randn(4, 5).double(), torch.randn(6).double()
    w, u = torch.randn(3, 6).double(), torch.randn(5, 6).double()
    weights = attention_weights((state @ w)[None, None], (memory @ u)[None, None], score="additive", weight=v)
    e = torch.stack([v @ torch.tanh(state[0] @ w + h @ u) for h in memory])
    torch.testing.assert_close(weights[0, 0, 0], e.exp() / e.exp().sum())
