"""Embeddings: the sinusoid's formula by hand, scaling, and where the positions end."""

from __future__ import annotations

import math

import pytest
import torch

from anaphora.errors import UserError
from anaphora.nn.embedding import Embedding, sinusoids


@pytest.mark.parametrize("dim", [6, 7])
def test_sinusoids_are_the_published_formula(dim: int) -> None:
    table = sinusoids(50, dim)
    assert table.shape == (50, dim)
    for position in (0, 1, 17, 49):
        for column in range(dim):
            angle = position / 10_000 ** (2 * (column // 2) / dim)
            expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert table[position, column].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_scaled_token_plus_position(positions: str) -> None:
    embedding = Embedding(10, 16, positions=positions, max_length=8).eval()  # type: ignore[arg-type]
    tokens = torch.tensor([[4, 9, 4], [7, 0, 0]])
    out = embedding(tokens)
    for row, place in ((0, 0), (0, 2), (1, 0), (1, 1)):
        expected = 4.0 * embedding.table.weight[tokens[row, place]] + embedding.positions[place]
        torch.testing.assert_close(out[row, place], expected)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_one_token_at_a_position_is_the_same_as_in_its_row(positions: str) -> None:
    embedding = Embedding(10, 16, positions=positions, max_length=8).eval()  # type: ignore[arg-type]
    tokens = torch.tensor([[4, 9, 5], [7, 6, 3]])
    single = embedding(torch.tensor([[5], [6]]), torch.tensor([2, 1]))
    torch.testing.assert_close(single[:, 0], torch.stack([embedding(tokens)[0, 2], embedding(tokens)[1, 1]]))


def test_padding_has_a_zero_vector_that_stays_zero() -> None:
    embedding = Embedding(10, 16)
    assert (embedding.table.weight[0] == 0).all()
    embedding(torch.tensor([[0, 3]])).sum().backward()
    gradient = embedding.table.weight.grad
    assert gradient is not None
    assert (gradient[0] == 0).all()
    assert (gradient[3] != 0).any()


def test_the_scaled_table_has_unit_deviation() -> None:
    torch.manual_seed(0)
    embedding = Embedding(2000, 64)
    assert (embedding.table.weight * embedding.scale).std().item() == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_past_the_last_position_is_a_users_error_with_a_cure(positions: str) -> None:
    embedding = Embedding(10, 16, positions=positions, max_length=8)  # type: ignore[arg-type]
    embedding(torch.ones(1, 8, dtype=torch.long))
    with pytest.raises(UserError, match=r"9 tokens is longer than the model's 8 positions; .*model.max_length"):
        embedding(torch.ones(1, 9, dtype=torch.long))


def test_learned_positions_are_trained_and_sinusoids_are_not() -> None:
    assert "positions" in dict(Embedding(10, 16, positions="learned").named_parameters())
    waves = Embedding(10, 16)
    assert "positions" not in dict(waves.named_parameters())
    assert "positions" not in waves.state_dict()


def test_word_dropout_forgets_whole_words_wherever_they_stand() -> None:
    torch.manual_seed(0)
    embedding = Embedding(200, 4, positions="none", pad=None, scaled=False, word_dropout=0.3).train()
    tokens = torch.arange(200).repeat(3, 2)  # (3, 400): every word six times
    found = embedding(tokens).detach()
    table = embedding.table.weight.detach()
    kept = found[0, :200].abs().sum(-1) > 0
    assert 0.6 < kept.float().mean() < 0.8
    expected = torch.where(kept[:, None], table / 0.7, 0.0)
    torch.testing.assert_close(found, expected[tokens])
    torch.testing.assert_close(embedding.eval()(tokens), table[tokens])


def test_tokens_may_stand_anywhere() -> None:
    """A place for each token: as one by one; and waves grow where there is room to be made."""
    for kind in ("sinusoidal", "learned", "sinusoidal-concatenated"):
        embedding = Embedding(9, 6, positions=kind, max_length=20)  # type: ignore[arg-type]
        tokens, places = torch.tensor([[4, 5, 6], [7, 8, 4]]), torch.tensor([[0, 1, 0], [7, 3, 19]])
        found = embedding(tokens, places)
        for row, column in ((0, 2), (1, 0), (1, 2)):
            alone = embedding(tokens[row : row + 1, column : column + 1], places[row : row + 1, column])
            torch.testing.assert_close(found[row, column], alone[0, 0])
    endless = Embedding(9, 6, positions="sinusoidal", max_length=None)
    endless.reserve(3000)
    assert endless.positions is not None
    torch.testing.assert_close(endless.positions[:2999], sinusoids(2999, 6))
