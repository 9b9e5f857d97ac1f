"""Damaged characters: each kind is noticed and mended, and honest text is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.checking.encoding import look, mend, mend_mojibake


def problems(text: str) -> set[str]:
    found: dict[str, list[int]] = {}
    look(0, text, found)
    return set(found)


@pytest.mark.parametrize(
    "text",
    [
        "Grüße aus der Straße",
        "l’été – « où ? »",
        "naïve façade",
        "привет, мир",
        "日本語です",
        "Ελλάδα",
        "100 € – ça va…",
    ],
)
@pytest.mark.parametrize("seen_as", ["cp1252", "latin-1"])
def test_utf8_read_as_another_encoding_is_mended(text: str, seen_as: str) -> None:
    if any(byte in text.encode() for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)):  # Windows-1252 has none of these
        seen_as = "latin-1"
    broken = text.encode().decode(seen_as)
    assert mend_mojibake(broken) == text
    assert "mojibake" in problems(broken)
    assert mend(broken) == text


@pytest.mark.parametrize(
    "text",
    [
        "„MENÜ“ und „Ü“",
        "à « l’heure »",
        "SÃO PAULO É»",
        "Â la carte",
        "Ärger, Öl, Übung",
        "Être ou ne pas être",
        "ÀÉÎÕÜ",
    ],
)
def test_honest_text_is_left_alone(text: str) -> None:
    assert mend_mojibake(text) == text
    assert problems(text) == set()


def test_a_line_may_hold_both() -> None:
    assert mend_mojibake("Größe fÃ¼r alle") == "Größe für alle"


@pytest.mark.parametrize(
    ("text", "problem", "mended"),
    [
        ("a\0b", "nul", "ab"),
        ("lost \ufffd here", "replacement", None),
        ("a\u2028b", "separator", "a b"),
        ("a\x85b", "separator", "a b"),
        ("a\rb", "separator", "a b"),
        ("bell\x07", "control", "bell"),
        ("\ufeffmark", "control", "mark"),
        ("bad \udce9 byte", None, None),  # reading notes these
        ("tab\there", None, "tab\there"),
        ("plain", None, "plain"),
    ],
)
def test_each_kind(text: str, problem: str | None, mended: str | None) -> None:
    assert problems(text) == ({problem} if problem else set())
    assert mend(text) == mended


@given(st.text())
def test_mending_is_done_once(text: str) -> None:
    mended = mend(text)
    if mended is not None:
        assert problems(mended) <= set()
        assert mend(mended) == mended


@given(st.text(st.characters(max_codepoint=0x7F, exclude_categories=["Cc"])))
def test_ascii_stays(text: str) -> None:
    assert mend(text) == text
    assert problems(text) == set()
