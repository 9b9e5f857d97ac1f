"""Lines in, lines out: hostile text, long lines, streams, scores."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.decoding.beam_search import DecodingConfig, length_penalty
from anaphora.decoding.splitting import split_line
from anaphora.decoding.translate import score_lines, token_batches, translate_lines
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from toy_translator import CharacterTokenizer, ToyTranslator

ALPHABET = "abcdefgh .,\n\r\u2028"  # the model can say line breaks, too
TOKENIZER = CharacterTokenizer(ALPHABET)
HOSTILE = [
    "",
    " ",
    "\t \u3000",
    "\n",
    "abc\n",
    "abc\r\n",
    "a\nb",
    "\u2028",
    "\x00",
    "\ud800 lone",
    "<s> </s> <pad>",
    "🙂" * 9,
    "a" * 500,
    "a b " * 60,
    "ａ\u0301\u200b",
    "\ufeff",
    "e, f. " * 30,
]


def toy(**keywords) -> ToyTranslator:
    return ToyTranslator(TOKENIZER.vocabulary_size, **{"seed": 1, "longest": 24, **keywords})


def translate(lines, config=None, model=None, **keywords):
    return list(
        translate_lines(model or toy(), TOKENIZER, TOKENIZER, lines, config or DecodingConfig(beam=2), **keywords)
    )


def test_as_many_lines_out_as_in_whatever_they_hold():
    results = translate(HOSTILE)
    assert len(results) == len(HOSTILE)
    for line, result in zip(HOSTILE, results):
        assert len(result.text.splitlines()) <= 1
        assert "\n" not in result.text
        assert "\r" not in result.text
        result.text.encode()
        assert result.source == line.rstrip("\r\n").replace("\ud800", "\ufffd")
        assert (result.text, result.pieces) == ("", 1) or line.strip()
        assert result.pieces >= math.ceil(len(line.strip()) / 23)
        assert (result.pieces > 1) == (len(result.source) > 23)
        assert sum(value for _, value in result.token_scores) == pytest.approx(result.log_probability)
        assert result.n_best[0].text == result.text
        assert result.finished == (not line.strip() or result.n_best[0].finished)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=12))
def test_any_text_gives_one_translation_a_line(lines):
    results = translate(lines, DecodingConfig(beam=1))
    assert len(results) == len(lines)
    assert all(len(result.text.splitlines()) <= 1 for result in results)


@pytest.mark.parametrize("sample", [False, True])
def test_a_line_is_translated_the_same_in_any_company(sample):
    def config(**keywords):
        return DecodingConfig(beam=3, n_best=2, sample=sample, **keywords)

    usual = translate(HOSTILE, config())
    assert usual == translate(HOSTILE, config(batch_sentences=1))
    assert usual == translate(HOSTILE, config(batch_tokens=30), window=3)
    assert usual == translate(HOSTILE, config(), window=1)


def test_an_empty_text_and_empty_lines_do_not_ask_the_model():
    assert translate([]) == []
    model = toy()
    results = translate(["", "  ", "\n"], model=model)
    assert [r.text for r in results] == ["", "", ""]
    assert [r.score for r in results] == [0.0, 0.0, 0.0]
    assert all(r.finished and len(r.n_best) == 1 for r in results)
    assert model.rows_stepped == 0


def test_an_endless_stream_is_translated_lazily_and_in_order():
    read = []

    def endless():
        for number in itertools.count():
            read.append(number)
            yield "abc"[: number % 3 + 1]

    stream = translate_lines(toy(), TOKENIZER, TOKENIZER, endless(), DecodingConfig(beam=2), window=5)
    first = list(itertools.islice(stream, 7))
    assert [t.source for t in first] == ["a", "ab", "abc", "a", "ab", "abc", "a"]
    assert len(read) == 10


def test_progress_counts_every_line_once():
    seen: list[int] = []
    translate(HOSTILE, DecodingConfig(beam=1, batch_sentences=2), progress=seen.append)
    assert sum(seen) == len(HOSTILE)


def test_a_line_in_pieces_is_the_join_of_its_pieces():
    config = DecodingConfig(beam=3, n_best=3)
    (whole,) = translate(["abc abc abc. def def def. gh"], config)
    parts = translate(["abc abc abc.", "def def def. gh"], config)
    assert whole.pieces == 2
    assert whole.text == " ".join(part.text.strip() for part in parts if part.text.strip())
    assert whole.token_scores == parts[0].token_scores + parts[1].token_scores
    assert whole.score == pytest.approx(whole.log_probability / length_penalty(len(whole.token_scores), 0.6))
    assert len(whole.n_best) == 3
    assert [ids for ids, _ in whole.token_ids] == TOKENIZER.encode_batch(["abc abc abc.", "def def def. gh"])
    assert translate(["abc. def"], DecodingConfig(beam=3, max_source_tokens=6))[0].pieces == 2


def test_prefixes_are_forced_and_counted():
    lines, prefixes = ["abc", "de f", "", "gh"], ["ab", "", "c", "h. "]
    results = translate(lines, prefixes=prefixes)
    for line, prefix, result in zip(lines, prefixes, results):
        assert result.text.startswith(prefix) or not line
    with pytest.raises(UserError, match="line 3 has no prefix"):
        translate(lines, prefixes=["a", "b"])
    with pytest.raises(UserError, match="prefix of line 2 has 30 tokens; the model can say 23"):
        translate(lines, prefixes=["a", "b" * 30, "", ""])


def test_scores_of_lines_agree_with_the_search():
    lines = ["abc", "a, b.", "gh ef"]
    results = translate(lines, DecodingConfig(beam=4), toy(seed=2))
    finished = [r for r in results if r.finished and r.text == TOKENIZER.decode(r.token_ids[0][1])]
    assert finished
    pairs = [(r.source, r.text) for r in finished]
    for result, scored in zip(finished, score_lines(toy(seed=2), TOKENIZER, TOKENIZER, pairs, DecodingConfig())):
        assert scored.log_probability == pytest.approx(result.log_probability, abs=1e-4)
        assert [t for t, _ in scored.token_scores] == [t for t, _ in result.token_scores]
        assert scored.per_token == pytest.approx(scored.log_probability / (len(result.text) + 1))
        assert scored.perplexity == pytest.approx(math.exp(-scored.per_token))


def test_every_pair_gets_an_answer():
    pairs = [
        ("", ""),
        ("a", ""),
        ("", "a"),
        ("a" * 50, "b"),
        ("a", "b" * 50),
        ("\ud800", "c\n"),
        *zip(HOSTILE, HOSTILE),
    ]
    seen: list[int] = []
    usual = list(score_lines(toy(), TOKENIZER, TOKENIZER, pairs, DecodingConfig(), progress=seen.append))
    assert len(usual) == len(pairs) == sum(seen)
    assert "the source has 51 tokens; the model can read 24" in str(usual[3].problem)
    assert "the target has 51 tokens; the model can say 24" in str(usual[4].problem)
    for scored in usual:
        assert math.isnan(scored.log_probability) == math.isnan(scored.perplexity) == (scored.problem is not None)
    alone = list(score_lines(toy(), TOKENIZER, TOKENIZER, pairs, DecodingConfig(batch_sentences=1), window=2))
    assert [s.token_scores for s in alone] == [s.token_scores for s in usual]


words = st.text(alphabet="abc .,!?;:。、\u3000\t\u0301x", max_size=120)


@settings(max_examples=200, deadline=None)
@given(words, st.integers(1, 30))
def test_splitting_loses_no_text(text, limit):
    tokenizer = CharacterTokenizer("abc .,!?;:。、\u3000\t\u0301x")
    pieces = split_line(text, tokenizer.encode_batch, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert "".join("".join(tokenizer.decode_batch(pieces)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("abc. abc! abc", 10, ["abc. abc!", "abc"]),
        ("abc, abc abc", 8, ["abc,", "abc abc"]),
        ("abc abc abc", 5, ["abc", "abc", "abc"]),
        ("abcabcabcabc", 5, ["abca", "bcab", "cabc"]),
        ("abc。abc。", 5, ["abc。", "abc。"]),
        ("a. bcabcabcabc, a b", 6, ["a.", "bcabca", "bcabc,", "a b"]),
    ],
)
def test_splitting_prefers_sentences_then_clauses_then_spaces(text, limit, pieces):
    tokenizer = CharacterTokenizer("abc .,!?。")
    found = tokenizer.decode_batch(split_line(text, tokenizer.encode_batch, limit))
    assert found == pieces


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120), st.integers(1, 9))
def test_batches_hold_every_sentence_once_within_bounds(lengths, tokens, sentences):
    batches = list(token_batches(lengths, tokens, sentences))
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= sentences
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= tokens


def test_hostile_lines_pass_the_real_tokenizer():
    words = ["abc def. gh, ab", "the cat sat on the mat", "a b c"]
    tokenizer = Tokenizer.train(TokenizerConfig(vocabulary=300), words)
    model = ToyTranslator(tokenizer.vocabulary_size, longest=24)
    results = list(translate_lines(model, tokenizer, tokenizer, HOSTILE, DecodingConfig(beam=2)))
    assert len(results) == len(HOSTILE)
    for result in results:  # random bytes are said: whatever they spell, it is one line of valid text
        assert len(result.text.splitlines()) <= 1
        result.text.encode()
        read = tokenizer.decode([token for ids, _ in result.token_ids for token in ids])
        assert "".join(read.split()) == "".join(result.source.split())
