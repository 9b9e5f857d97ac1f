"""What each row may spend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.comparing.budget import LIMITS, Budget
from anaphora.errors import UserError


def test_tokens_and_minutes_are_limits_of_training_and_end_all_others() -> None:
    assert Budget.read("tokens=2e6").limits(10.0) == {**dict.fromkeys(LIMITS), "max_tokens": 2_000_000}
    assert Budget.read("minutes=1.5").limits(10.0) == {**dict.fromkeys(LIMITS), "max_minutes": 1.5}


@given(st.floats(1e3, 1e18), st.floats(1.0, 1e3))
def test_operations_become_as_many_tokens_as_they_pay_for(amount: float, each: float) -> None:
    tokens = Budget("flops", amount).limits(each)["max_tokens"]
    assert tokens * each <= amount < (tokens + 1) * each * (1 + 1e-12)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("token=3", "did you mean 'tokens'"),
        ("3", "write budget='tokens=2e6'"),
        ("", "write budget='tokens=2e6'"),
        ("minutes", "must be a number"),
        ("minutes=soon", "must be a number"),
        ("minutes=0", "leaves nothing to spend"),
        ("tokens=0.5", "leaves nothing to spend"),
        ("flops=-1e9", "leaves nothing to spend"),
        ("minutes=nan", "must be a number"),
    ],
)
def test_a_budget_spelled_wrong_is_said(written: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Budget.read(written)


def test_less_than_one_token_is_no_budget() -> None:
    with pytest.raises(UserError, match="less than one token costs"):
        Budget.read("flops=1e3").limits(2e3)


@pytest.mark.parametrize("written", ["tokens=2000000", "minutes=1.5", "flops=10000000000000"])
def test_it_is_written_as_it_was_read(written: str) -> None:
    assert str(Budget.read(written)) == written
