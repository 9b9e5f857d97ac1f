"""Perplexity and bits per byte: by hand, and as a property."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.evaluation.bits_per_byte import bits_per_byte, note_on_unknown, perplexity, text_bytes


def test_by_hand() -> None:
    """Eight tokens of probability 1/4 each: one chooses among four, and needs two bits a token."""
    log_probability = 8 * math.log(1 / 4)
    assert perplexity(log_probability, 8) == pytest.approx(4)
    assert bits_per_byte(log_probability, 4) == pytest.approx(4)  # sixteen bits over four bytes


@given(size=st.integers(1, 100), tokens=st.integers(1, 1000))
def test_a_uniform_model_over_bytes_needs_eight_bits(size: int, tokens: int) -> None:
    log_probability = size * math.log(1 / 256)
    assert bits_per_byte(log_probability, size) == pytest.approx(8)
    assert perplexity(log_probability, tokens) == pytest.approx(256 ** (size / tokens))


def test_the_ends_of_the_scale() -> None:
    assert math.isnan(perplexity(0.0, 0))
    assert math.isnan(bits_per_byte(0.0, 0))
    assert perplexity(-math.inf, 3) == math.inf
    assert bits_per_byte(-math.inf, 3) == math.inf
    assert perplexity(-1e6, 1) == math.inf
    assert perplexity(0.0, 5) == 1.0


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))))
def test_bytes_are_those_of_the_file(lines: list[str]) -> None:
    assert text_bytes(lines) == len("".join(line + "\n" for line in lines).encode())


def test_what_has_no_utf_8_has_bytes_all_the_same() -> None:
    assert text_bytes(["\udcff"]) == 4


def test_unknown_tokens_are_spoken_of() -> None:
    assert note_on_unknown(0, 10) is None
    said = note_on_unknown(5, 2000)
    assert said is not None
    assert "5 of 2,000 (0.2 %)" in said
    assert "bits per byte is too low" in said
