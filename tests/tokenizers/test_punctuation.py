"""Raw text as words between blanks: the words of `split_words`, whichever of the three ways a line takes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anaphora.tokenizers import punctuation as apart
from anaphora.tokenizers.punctuation import lower, set_apart
from anaphora.tokenizers.words import split_words

ASCII = st.text(st.sampled_from("ab1_ -'.,<>/\t\r\x1c\x0b\"#"), max_size=20)
LATIN = st.text(st.sampled_from("aß’'-“”é …–ø\u00a0.,1€ж½²ª©"), max_size=20)
ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)
ODD = st.sampled_from(
    ["日本語テスト", "👩‍👩‍👧 👍🏽🇩🇪", "e\u0301 a\u0308o", "שָׁלוֹם", "ก็", "don’t a--b", "\u3000", "क्षत्रिय"]
)


@given(st.lists(st.one_of(ASCII, LATIN, ANY, ODD), max_size=6))
@example(["a-b'c--d 'e' f-", "x_1,000.5", ""])
def test_words_are_those_of_split_words(lines: list[str]) -> None:
    lines = [apart.MARKS.sub("mark", line) for line in lines]
    block = "".join(f"{line}\n" for line in lines).encode()
    expected = [" ".join(word.text for word in split_words(line)) for line in lines]
    assert set_apart(block, lowercase=False).decode().split("\n") == [*expected, ""]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("He said: “Go, King!”", "he said : “ go , king ! ”"),
        ("The king, the queen.", "the king , the queen ."),
        ("a <unk> b</s> </s> <s>", "a <unk> b < / s > </s> <s>"),
        ("ß <unk> ’s DON’T", "ß <unk> ’ s don’t"),
        ("日本 <unk> 語", "日 本 <unk> 語"),
        ("<unk>, <a b> <> </>", "< unk > , < a b > < > < / >"),
        (" \t", ""),
    ],
)
def test_marks_stay_whole_and_letters_become_small(line: str, words: str) -> None:
    assert set_apart(f"{line}\n".encode(), lowercase=True).decode() == f"{words}\n"


def test_lower_case_alone() -> None:
    assert lower("The KING,\nÄRGER\n".encode()).decode() == "the king,\närger\n"
    assert lower(b"The KING,\n") == b"the king,\n"
