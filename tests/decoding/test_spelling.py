"""Text that is handed out token by token is the text of the whole, and nothing of a stop string is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.decoding.spelling import Listener, Spelling, continuation, text_until_stop
from anaphora.tokenizers.tokenizer import EOS, Tokenizer, TokenizerConfig

LINES = ["the cat sat on the mat", "a dog, a log: 5 €", "naïve 日本語 😀 the", "<unk> and ⟨s⟩"]
KINDS = {
    "bpe": TokenizerConfig(kind="bpe", vocabulary=300),
    "byte": TokenizerConfig(kind="byte"),
    "unigram": TokenizerConfig(kind="unigram", vocabulary=300),
    "word": TokenizerConfig(kind="word"),
    "word, unknown": TokenizerConfig(kind="word", fallback="unk", split="whitespace"),
    "blanks": TokenizerConfig(kind="word", fallback="unk", split="blanks"),
    "character": TokenizerConfig(kind="character"),
    "character, unknown": TokenizerConfig(kind="character", fallback="unk"),
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(KINDS[request.param], LINES)


tokens = st.lists(st.integers(0, 1 << 20), max_size=20)
prompts = st.sampled_from(["", "the", "the cat ", "a €", "ein Zebra", " "])


def some(tokenizer: Tokenizer, numbers: list[int]) -> list[int]:
    """Any tokens at all, half characters and marks among them."""
    return [number % tokenizer.vocabulary_size for number in numbers]


def written(tokenizer: Tokenizer, prompt: str, ids: list[int], said: list[int]) -> str:
    """What tokens say behind a prompt: each line behind an end mark is spelled as one of its own."""
    line, *rest = "".join(f"{token} " if token != EOS else "|" for token in said).split("|")
    found = continuation(tokenizer, prompt, ids, [*map(int, line.split())])
    return "\n".join([found, *(continuation(tokenizer, "", [], [*map(int, one.split())]) for one in rest)])


@given(prompt=prompts, numbers=tokens)
def test_pieces_are_the_whole(tokenizer: Tokenizer, prompt: str, numbers: list[int]) -> None:
    ids, said = tokenizer.encode(prompt), some(tokenizer, numbers)
    spelling = Spelling(tokenizer, ids, prompt)
    pieces = [spelling.add(token) for token in said]
    assert "".join([*pieces, spelling.end()]) == written(tokenizer, prompt, ids, said)
    assert text_until_stop(tokenizer, said, [], ids, prompt)[0] == written(tokenizer, prompt, ids, said)


@given(text=st.text(max_size=30))
def test_no_character_is_shown_half(text: str) -> None:
    """Of bytes that spell text, every piece is a part of that text: no replacement character on the way."""
    tokenizer = Tokenizer.train(KINDS["byte"], LINES)
    spelling = Spelling(tokenizer)
    shown = ""
    for token in tokenizer.encode(text):
        shown += spelling.add(token)
        assert text.startswith(shown)
    assert shown + spelling.end() == text


@given(numbers=tokens, other=tokens)
def test_a_copy_goes_its_own_way(tokenizer: Tokenizer, numbers: list[int], other: list[int]) -> None:
    stem, one, two = some(tokenizer, numbers), some(tokenizer, other), some(tokenizer, other[::-1])
    first = Spelling(tokenizer)
    said = "".join(first.add(token) for token in stem)
    second = first.copy()
    for spelling, more in ((first, one), (second, two)):
        whole = said + "".join([*(spelling.add(token) for token in more), spelling.end()])
        assert whole == written(tokenizer, "", [], [*stem, *more])


@given(
    text=st.text(alphabet="ab:\n€", max_size=40), stops=st.lists(st.text("ab:\n€", min_size=1, max_size=4), max_size=3)
)
def test_a_stop_is_cut_off_and_never_shown(text: str, stops: list[str]) -> None:
    """Byte by byte, a stop is heard with the byte that completes it: the text ends before the first complete one."""
    tokenizer = Tokenizer.train(KINDS["byte"], LINES)
    listener = Listener(Spelling(tokenizer), stops)
    shown = ""
    for token in tokenizer.encode(text):
        shown += listener.add(token)
        assert text.startswith(shown)
        if listener.stopped is not None:
            break
    shown += listener.end()
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    if not ends:
        assert (shown, listener.stopped) == (text, None)
    else:
        first = min(end for end, _ in ends)
        assert shown == text[: min(begin for end, begin in ends if end == first)]
        assert listener.stopped in stops
    assert not any(stop in shown for stop in stops)
    assert text_until_stop(tokenizer, tokenizer.encode(text), stops) == (shown, listener.stopped)


def test_a_stop_may_span_tokens_and_stand_inside_one() -> None:
    tokenizer = Tokenizer.train(KINDS["blanks"], LINES)
    ids = tokenizer.encode("the cat sat on the mat")
    assert text_until_stop(tokenizer, ids, ["at sa"]) == ("the c", "at sa")
    assert text_until_stop(tokenizer, ids, ["zebra"]) == ("the cat sat on the mat", None)
    assert text_until_stop(tokenizer, [*ids, EOS], ["mat", "on the"]) == ("the cat sat ", "on the")
    assert text_until_stop(tokenizer, ids[1:], ["sat"], ids[:1], "the") == (" cat ", "sat")
    assert text_until_stop(tokenizer, [*ids, EOS, EOS, *ids], ["t\n\nth"]) == ("the cat sat on the ma", "t\n\nth")


@pytest.mark.parametrize("kind", ["blanks", "unigram", "bpe"])
def test_behind_a_prompt_that_ends_a_line_a_line_begins(kind: str) -> None:
    tokenizer = Tokenizer.train(KINDS[kind], LINES)
    ids = tokenizer.encode("the cat")
    assert continuation(tokenizer, "the cat\n", [*ids, EOS], ids) == "the cat"


def test_what_was_held_back_is_shown_at_the_end() -> None:
    tokenizer = Tokenizer.train(KINDS["byte"], LINES)
    listener = Listener(Spelling(tokenizer), ["\n\n"])
    assert [listener.add(token) for token in tokenizer.encode("a\nb\n")] == ["a", "", "\nb", ""]
    assert listener.end() == "\n"
    assert listener.stopped is None
    after = Listener(Spelling(tokenizer), ["b"])
    assert [after.add(token) for token in tokenizer.encode("abc")] == ["a", "", ""]
    assert after.end() == ""
