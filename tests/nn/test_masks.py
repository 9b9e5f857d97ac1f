"""Masks: each rule by hand, as a picture of ones and zeros; joined; and the same rule whoever evaluates it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anaphora.nn.masks import Causal, Documents, Mask, Padding, TensorMask, Window, causal_mask, padding_mask, parts


def drawn(mask: Mask, queries: int, keys: int, row: int = 0) -> list[str]:
    """A line a query, # where it may look."""
    allowed = mask.materialize(queries, keys)
    allowed = allowed.view((1,) * (4 - allowed.dim()) + tuple(allowed.shape)).expand(-1, -1, queries, keys)
    return ["".join("#" if cell else "." for cell in line) for line in allowed[min(row, len(allowed) - 1), 0]]


def test_causal() -> None:
    assert drawn(Causal(), 3, 3) == ["#..", "##.", "###"]
    assert drawn(Causal(), 2, 4) == ["###.", "####"]  # the last query stands at the last key
    assert drawn(Causal(), 3, 1) == [".", ".", "#"]


def test_window() -> None:
    assert drawn(Window(2), 4, 4) == ["##..", "###.", ".###", "..##"]
    assert drawn(Window(1), 2, 2) == ["#.", ".#"]
    assert drawn(Window(2) & Causal(), 4, 4) == ["#...", "##..", ".##.", "..##"]
    assert drawn(Window(2) & Causal(), 1, 4) == ["..##"]


def test_padding() -> None:
    mask = Padding(torch.tensor([2, 0, 3]))
    assert [drawn(mask, 1, 3, row) for row in range(3)] == [["##."], ["..."], ["###"]]


def test_documents_of_a_packed_row() -> None:
    packed = Documents(torch.tensor([[0, 0, 1, 1, 1, -1]]))  # two documents, then padding
    assert drawn(packed, 6, 6) == ["##....", "##....", "..###.", "..###.", "..###.", "......"]
    assert drawn(packed & Causal(), 6, 6) == ["#.....", "##....", "..#...", "..##..", "..###.", "......"]
    assert drawn(packed, 2, 6) == ["..###.", "......"]  # the last two
    crossed = Documents(torch.tensor([[0, 1, 1]]), torch.tensor([[1, 0]]))
    assert drawn(crossed, 2, 3) == [".##", "#.."]


def test_given_is_itself() -> None:
    allowed = torch.tensor([[True, False], [False, True]])
    assert TensorMask(allowed).materialize(2, 2) is allowed
    assert drawn(TensorMask(allowed) & Causal(), 2, 2) == ["#.", ".#"]


def test_a_joined_mask_knows_its_parts() -> None:
    one, two, three = Causal(), Window(3), Padding(torch.tensor([1]))
    assert parts(one & two & three) == [one, two, three]
    assert parts(one) == [one]


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="size 0 is below 1"):
        Window(0)


@given(st.integers(1, 5), st.integers(1, 5), st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(1, 4))
def test_a_rule_asked_cell_by_cell_is_the_tensor(queries: int, keys: int, lengths: list[int], size: int) -> None:
    """As FlexAttention asks it."""
    numbers = torch.randint(-1, 2, (len(lengths), keys), generator=torch.Generator().manual_seed(size))
    of_queries = torch.randint(-1, 2, (len(lengths), queries), generator=torch.Generator().manual_seed(size + 1))
    tensor = torch.rand(len(lengths), 1, 1, keys, generator=torch.Generator().manual_seed(size)) > 0.3
    simple = [
        Causal(),
        Window(size),
        Padding(torch.tensor(lengths)),
        Documents(numbers, of_queries),
        TensorMask(tensor),
    ]
    for mask in [*simple, Causal() & simple[2], simple[3] & simple[1] & simple[4]]:
        whole = mask.materialize(queries, keys).expand(len(lengths), 2, queries, keys)
        rule = mask.rule(queries, keys)

        def cell(*place: int, rule=rule) -> Tensor:  # type: ignore[no-untyped-def]
            return rule(*(torch.tensor(index) for index in place))

        for b in range(len(lengths)):
            for q in range(queries):
                for k in range(keys):
                    assert bool(cell(b, 1, q, k)) == bool(whole[b, 1, q, k])


def test_the_plain_functions_are_the_rules() -> None:
    lengths = torch.tensor([0, 2, 4])
    assert torch.equal(Padding(lengths).materialize(3, 4), padding_mask(lengths, 4))
    for queries, keys in ((3, 3), (2, 5), (5, 2)):
        assert torch.equal(Causal().materialize(queries, keys), causal_mask(queries, keys, torch.device("cpu")))
