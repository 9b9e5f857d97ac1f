"""Phrases: the compiled passes beside a few plain lines, beside gensim, in any memory; their table; their mistakes."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from anaphora.data.data_settings import DataConfig
from anaphora.data.language_corpus import prepare_text
from anaphora.data.phrase_pairs import APART, Pairs, count_pairs, join_pairs
from anaphora.data.phrases import PHRASES, Phrase, read_phrases, score_pairs, write_phrases
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import EOS, SPECIALS, UNK, Tokenizer, TokenizerConfig

WORDS = TokenizerConfig(kind="word", split="blanks", fallback="unk", minimum_count=1)
Lines = list[list[str]]
Found = list[tuple[tuple[str, ...], int, float]]


def prepared(folder: Path, lines: Lines, tokenizer: TokenizerConfig = WORDS, **settings: object) -> Lines:
    """The text as its ids say it, line by line."""
    (folder / "text.txt").write_text("".join(" ".join(line) + "\n" for line in lines))
    made = prepare_text(
        folder / "data",
        DataConfig(text=[str(folder / "text.txt")], **settings),  # type: ignore[arg-type]
        tokenizer,
        on_change="rebuild",
    )
    cut = Tokenizer.load(made.folder / "tokenizer.json")
    ids = np.fromfile(made.train, np.uint32)
    assert made.manifest["train_ids"] == len(ids)
    assert made.manifest["train"]["tokens"] == len(ids) - len(lines)  # all but ⟨s⟩
    assert made.manifest["train"]["unknown_tokens"] == int((ids == UNK).sum())
    ends = np.flatnonzero(ids == EOS)
    return [
        [cut.rust.id_to_token(int(id)).removeprefix(" ") for id in line if id >= len(SPECIALS) or id == UNK]
        for line in np.split(ids, ends + 1)[:-1]
    ]


def plain_score(how: str, pair: int, first: int, second: int, words: int, least: int) -> float:
    if how == "mikolov":
        return (pair - least) * words / (first * second)
    return math.log(pair * words / (first * second)) / -math.log(pair / words)


def plain_pass(lines: Lines, how: str, threshold: float, least: int, connectors: list[str]) -> tuple[Lines, Found]:
    """What a pass does, with dictionaries."""
    words, pairs = Counter(word for line in lines for word in line), Counter[tuple[str, ...]]()

    def candidates(line: list[str]) -> list[list[str]]:
        found, now = [], list[str]()
        for word in line:
            if word in connectors:
                now = [*now, word] if now and len(now) < 5 else []
            else:
                found += [[*now, word]] if now else []
                now = [word]
        return found

    for line in lines:
        pairs.update(map(tuple, candidates(line)))
    total = words.total()
    scores = {
        pair: plain_score(how, count, words[pair[0]], words[pair[-1]], total, least)
        for pair, count in pairs.items()
        if count >= least
    }
    assume(all(abs(score - threshold) > 1e-9 for score in scores.values()))
    chosen = {pair: score for pair, score in scores.items() if score > threshold}
    joined = []
    for line in lines:
        out, at = list[str](), 0
        while at < len(line):
            end = at + 1
            while end < len(line) and line[end] in connectors and end - at < 5:
                end += 1
            if end < len(line) and line[at] not in connectors and tuple(line[at : end + 1]) in chosen:
                out.append("_".join(line[at : end + 1]))
                at = end + 1
            else:
                out.append(line[at])
                at += 1
        joined.append(out)
    return joined, [(pair, pairs[pair], score) for pair, score in chosen.items()]


texts = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", "a_b", "of", "the"]), max_size=12), max_size=12)


@given(
    texts.filter(lambda lines: any(lines)),
    st.integers(1, 3),
    st.sampled_from([("mikolov", 0.0), ("mikolov", 1.3), ("npmi", -1.0), ("npmi", 0.1), ("npmi", 0.6)]),
    st.integers(1, 3),
    st.sampled_from([[], ["of"], ["of", "the"], ["never"]]),
)
@example(
    [["a", "of", "the", "of", "the", "b"], ["a", "of", "the", "of", "the", "of", "b"]] * 2,
    1,
    ("npmi", 0.0),
    1,
    ["of", "the"],
)
@example([["a", "a", "a", "a", "a"]] * 3, 2, ("npmi", -1.0), 1, [])
def test_passes_do_what_plain_lines_do(
    tmp_path_factory: pytest.TempPathFactory,
    lines: Lines,
    passes: int,
    scored: tuple[str, float],
    least: int,
    connectors: list[str],
) -> None:
    how, threshold = scored
    wanted, found = lines, []
    for step in range(1, passes + 1):
        wanted, more = plain_pass(wanted, how, threshold, least, connectors)
        found += [(step, *one) for one in more]
        if not more:
            break
    folder = tmp_path_factory.mktemp("phrases")
    settings = {"phrase_score": how, "phrase_threshold": threshold, "phrase_minimum_count": least}
    ours = prepared(folder, lines, phrases=passes, phrase_connectors=connectors, **settings)
    assert ours == wanted
    table = read_phrases(folder / "data" / PHRASES)
    assert sorted((one.step, one.words, one.count) for one in table) == sorted(one[:3] for one in found)
    assert {(one.step, one.words): one.score for one in table} == pytest.approx(
        {(step, words): score for step, words, _, score in found}, rel=1e-7, abs=1e-9
    )
    assert [one.step for one in table] == sorted(one.step for one in table)
    # and the table makes the same of the text once more
    assert prepared(folder, lines, phrases_from=str(folder / "data" / PHRASES)) == wanted


@given(st.lists(st.integers(0, 40), max_size=300), st.sampled_from([4, 8, 64]))
def test_any_memory_counts_the_same(numbers: list[int], room: int) -> None:
    ids = np.array([len(SPECIALS) + number for number in numbers], np.uint32)
    roles = np.zeros(len(SPECIALS) + 41, np.int16)
    roles[len(SPECIALS) + 40] = APART
    roles[len(SPECIALS) + 39] = 1
    whole, small = count_pairs(ids, roles, 1), count_pairs(ids, roles, 1, most_room=room)
    for ours, theirs in zip(small, whole):
        np.testing.assert_array_equal(ours, theirs)
    often = count_pairs(ids, roles, 2, most_room=room)
    assert often.times.tolist() == [count for count in whole.times.tolist() if count >= 2]
    plain = Counter(pair for pair in pairwise(numbers) if max(pair) < 39)
    beside = whole.middle == 0
    shift = len(SPECIALS)
    keys = zip((whole.first[beside] - shift).tolist(), (whole.second[beside] - shift).tolist())
    assert dict(zip(keys, whole.times[beside].tolist())) == plain


def test_the_scores_are_those_of_the_paper() -> None:
    one = Pairs(*(np.array([value]) for value in (0, 1, 0, 105)))
    score = score_pairs("mikolov", one.times, np.array([200]), np.array([500]), words=1_000_000, discount=5)
    assert score == pytest.approx([(105 - 5) * 1_000_000 / (200 * 500)])
    always = score_pairs("npmi", np.array([50]), np.array([50]), np.array([50]), words=10_000, discount=5)
    assert always == pytest.approx([1.0])  # never apart
    chance = score_pairs("npmi", np.array([25]), np.array([500]), np.array([500]), words=10_000, discount=5)
    assert chance == pytest.approx([0.0], abs=1e-12)  # as often as by chance


def newspaper(lines: int = 400) -> Lines:
    draw, found = np.random.default_rng(0), []
    for _ in range(lines):
        line = [f"w{n}" for n in draw.integers(50, size=8)]
        line[3:3] = draw.choice(np.array(["", "new york", "new york times", "bank of america"])).split()
        found.append(line)
    return found


def test_the_second_pass_finds_phrases_of_phrases(tmp_path: Path) -> None:
    settings: dict[str, object] = {"phrase_threshold": 8, "phrase_connectors": ["of"]}
    once, twice = (
        {word for line in prepared(tmp_path, newspaper(), phrases=passes, **settings) for word in line if "_" in word}
        for passes in (1, 2)
    )
    assert once == {"new_york", "bank_of_america"} and twice == once | {"new_york_times"}


def test_rare_words_and_the_word_for_unknown_ones_are_in_no_phrase(tmp_path: Path) -> None:
    lines = [["<unk>", "<unk>", "x", "y"]] * 8 + [["x"], ["y"], ["rare", "pair"]]
    cut = TokenizerConfig(**{**vars(WORDS), "unknown": "<unk>", "minimum_count": 4})
    found = prepared(tmp_path, lines, cut, phrases=2, phrase_threshold=0.1, phrase_minimum_count=2)
    assert found[0][-1] == "x_y" and len(found[0]) == 3
    assert {phrase.name for phrase in read_phrases(tmp_path / "data" / PHRASES)} == {"x_y"}


def test_a_phrase_and_a_word_that_is_written_so_are_one(tmp_path: Path) -> None:
    lines = [["p", "q"]] * 6 + [["p_q"]] * 3 + [["p", "r"], ["s", "q"]]
    found = prepared(tmp_path, lines, phrases=1, phrase_threshold=0.5, phrase_minimum_count=2)
    assert found == [["p_q"]] * 9 + [["p", "r"], ["s", "q"]]


def by_words(
    worda_count: int, wordb_count: int, bigram_count: int, len_vocab: int, min_count: int, corpus_word_count: int
) -> float:
    """The score with N, as in the C program; gensim's own has the size of the vocabulary in its place."""
    return (bigram_count - min_count) / worda_count / wordb_count * corpus_word_count


@pytest.mark.parametrize("connectors", [[], ["of", "the"]])
def test_gensim_finds_the_same(tmp_path: Path, connectors: list[str]) -> None:
    models = pytest.importorskip("gensim.models.phrases", reason="gensim is not installed")

    lines = [[*line, "of", "the", "w1"] for line in newspaper()]
    for how, threshold, scoring in (("mikolov", 3.0, by_words), ("npmi", 0.3, "npmi")):
        theirs = models.Phrases(
            lines, min_count=5, threshold=threshold, scoring=scoring, connector_words=frozenset(connectors)
        )
        ours = prepared(
            tmp_path, lines, phrases=1, phrase_score=how, phrase_threshold=threshold, phrase_connectors=connectors
        )
        assert ours == [theirs[line] for line in lines]
        found = {one.name: one.score for one in read_phrases(tmp_path / "data" / PHRASES)}
        assert found == pytest.approx(theirs.export_phrases())


def test_the_table_comes_back(tmp_path: Path) -> None:
    phrases = [Phrase(1, ("new", "york"), 12, 345.5), Phrase(2, ("bank", "of", "new_york"), 6, 0.25)]
    write_phrases(tmp_path / "phrases.tsv", phrases)
    assert read_phrases(tmp_path / "phrases.tsv") == phrases and phrases[1].name == "bank_of_new_york"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file"),
        ("one two\n", r"phrases\.tsv:1: is not a table of phrases"),
        ("pass\twords\tcount\tscore\n1\tnew york\t5\t3\n1\tnew\t5\t3\n", ":3: is not a phrase"),
        ("pass\twords\tcount\tscore\n2\tnew york\t5\t3\n1\tthe times\t5\t3\n", ":3: is not a phrase"),
        ("pass\twords\tcount\tscore\n1\tnew york\tmany\t3\n", ":2: is not a phrase"),
        ("pass\twords\tcount\tscore\n1\tnew  york\t5\tnan\n", ":2: is not a phrase"),
    ],
)
def test_a_wrong_table_is_named_with_its_line(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "phrases.tsv").write_text(text)
    with pytest.raises(UserError, match=message):
        read_phrases(tmp_path / "phrases.tsv")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"phrases": -1}, "at least 0"),
        ({"phrases": 21}, "at most 20 passes"),
        ({"phrase_threshold": 3.0}, "phrase_threshold has no effect without phrases"),
        ({"phrase_connectors": ["of"]}, "phrase_connectors has no effect without phrases"),
        ({"phrases": 1, "phrase_threshold": -1.0}, "at least 0 for mikolov"),
        ({"phrases": 1, "phrase_score": "npmi", "phrase_threshold": 2.0}, "at most 1 for npmi"),
        ({"phrases": 1, "phrase_threshold": math.nan}, "phrase_threshold must be"),
        ({"phrases": 1, "phrase_minimum_count": 0}, "at least 1"),
        ({"phrases": 1, "phrase_connectors": ["of the"]}, "single words"),
        ({"phrases": 1, "phrase_connectors": ["of", "of"]}, "different words"),
        ({"phrases": 1, "items": True}, "items stay as they are"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataConfig(text=["x"], **settings)  # type: ignore[arg-type]


def test_what_was_joined_is_no_part_of_another_phrase_of_that_pass() -> None:
    """Even where it has the name of a word that the text had before: new york times is new_york times at first."""
    new, york, times, joined, longer = range(4, 9)
    pairs = Pairs(*(np.array(column) for column in ([new, joined], [york, times], [0, 0], [9, 9])))
    ids, roles = np.array([new, york, times, joined, times, EOS], np.uint32), np.zeros(9, np.int16)
    roles[:4] = APART
    left = join_pairs(ids, roles, pairs, np.array([joined, longer]))
    assert ids[:left].tolist() == [joined, times, longer, EOS]
