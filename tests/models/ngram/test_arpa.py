"""ARPA files: there and back, what is wrong with one, and exchange with KenLM where it is installed."""

from __future__ import annotations

import gzip
import math
import os
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.models.ngram import arpa
from anaphora.models.ngram.arpa import arpa_words, read_arpa, write_arpa
from anaphora.models.ngram.kernels.arpa_scan import parse_number
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.tokenizers.tokenizer import BLANKS, EOS, SPECIALS, UNK, Tokenizer
from ngram_texts import fitted, sentences

VOCABULARY = 12
WHITE = "".join(letter for letter in map(chr, range(0x3001)) if letter.isspace())
WORDS = [*SPECIALS, *(f"w{id}" for id in range(4, VOCABULARY))]

LITTLE = r"""
\data\
ngram 1=5
ngram 2=3
ngram 3=1

\1-grams:
-99	<s>	-0.30103
-0.60206	</s>
-2	<unk>
-0.39794	a	-0.2
-0.69897	b	0.1

\2-grams:
-0.1	<s> a	-0.5
-0.2	a b
-0.3	a </s>

\3-grams:
-0.05	<s> a b

\end\
"""


def scores(model: NgramModel, texts: list[list[int]]) -> np.ndarray:
    found, _ = model.score_rows([np.array([*text, EOS], np.uint32) for text in texts])
    return np.concatenate(found)


def log_10(model: NgramModel, words: list[str], sentence: str) -> list[float]:
    ids = {word: id for id, word in enumerate(words)}
    return (scores(model, [[ids.get(word, UNK) for word in sentence.split()]]) / math.log(10)).tolist()


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "model.arpa"
    path.write_text(text, encoding="utf-8")
    return path


class TestThereAndBack:
    @given(
        texts=sentences(),
        asked=st.lists(st.lists(st.integers(UNK, VOCABULARY - 1), max_size=8), min_size=1, max_size=6),
        order=st.integers(1, 5),
        prune=st.sampled_from([[], [0, 1]]),
    )
    def test_the_same_scores(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        texts: list[list[int]],
        asked: list[list[int]],
        order: int,
        prune: list[int],
    ) -> None:
        model = fitted(texts, VOCABULARY, order=order, prune=prune[:order])
        path = tmp_path_factory.mktemp("arpa") / "model.arpa"
        write_arpa(path, model, WORDS)
        back = read_arpa(path)
        assert back.words == [WORDS[0], "<s>", "</s>", "<unk>", *WORDS[4:]]
        assert back.notes == []
        assert back.model.sizes() == model.sizes()
        assert scores(back.model, asked + texts) == pytest.approx(scores(model, asked + texts), abs=2e-6)
        again = path.with_name("again.arpa")
        write_arpa(again, back.model, back.words)
        assert abs(path.stat().st_size - again.stat().st_size) < 0.02 * path.stat().st_size  # a last digit may move

    def test_packed_and_plain_say_the_same(self, tmp_path: Path) -> None:
        model = fitted([[4, 5, 6], [5, 6]], VOCABULARY, order=3)
        plain, packed = tmp_path / "m.arpa", tmp_path / "m.arpa.gz"
        write_arpa(plain, model, WORDS)
        write_arpa(packed, model, WORDS)
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
        first, second = read_arpa(plain).model.trie, read_arpa(packed).model.trie
        assert all(np.array_equal(a, b) for a, b in zip(first, second))
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

    def test_log_of_zero_is_minus_99(self, tmp_path: Path) -> None:
        model = fitted([[4, 5]], VOCABULARY, order=1, smoothing="maximum-likelihood")
        path = tmp_path / "m.arpa"
        write_arpa(path, model, WORDS)
        assert "\n-99\tw6\n" in path.read_text()
        assert scores(read_arpa(path).model, [[4, 6]]).tolist() == pytest.approx(scores(model, [[4, 6]]).tolist())
        assert scores(model, [[6]])[0] == -math.inf

    def test_written_in_pieces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Buffers smaller than a section, blocks smaller than a line's neighbours."""
        model = fitted([[4, 5, 6, 7, 8, 9], [9, 8, 7, 5, 5]], VOCABULARY, order=4)
        whole, pieces = tmp_path / "whole.arpa", tmp_path / "pieces.arpa"
        write_arpa(whole, model, WORDS)
        expected = read_arpa(whole).model.trie
        monkeypatch.setattr(arpa, "BLOCK_BYTES", 100)
        write_arpa(pieces, model, WORDS)
        assert pieces.read_bytes() == whole.read_bytes()
        assert all(np.array_equal(a, b) for a, b in zip(read_arpa(pieces).model.trie, expected))

    def test_any_order_of_lines(self, tmp_path: Path) -> None:
        lines = LITTLE.splitlines()
        sections = [slice(7, 12), slice(14, 17)]
        for section in sections:
            lines[section] = random.Random(1).sample(lines[section], len(lines[section]))
        shuffled = read_arpa(written(tmp_path, "\n".join(lines)))
        plain = read_arpa(written(tmp_path, LITTLE))
        assert shuffled.words != plain.words
        for sentence in ("a b", "b a", "", "a c"):
            assert log_10(shuffled.model, shuffled.words, sentence) == log_10(plain.model, plain.words, sentence)

    def test_a_write_that_fails_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "model.arpa"
        path.write_text("old")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(arpa.kernel, "format_lines", full)
        with pytest.raises(UserError, match=r"cannot be written .*free some space"):
            write_arpa(path, fitted([[4]], VOCABULARY, order=2), WORDS)
        assert path.read_text() == "old"
        assert [file.name for file in tmp_path.iterdir()] == ["model.arpa"]


def test_what_the_numbers_mean(tmp_path: Path) -> None:
    found = read_arpa(written(tmp_path, LITTLE))
    # nothing follows b, but its weight is to be paid: what follows it is padding, which is never said
    assert (found.model.order, found.model.sizes(), found.model.config.smoothing) == (3, [6, 3 + 1, 1], "given")
    assert "normalised" not in found.model.capabilities
    #                                            ⟨s⟩ a    ⟨s⟩ a b     b: +0.1, ⟨/s⟩ alone
    assert log_10(found.model, found.words, "a b") == pytest.approx([-0.1, -0.05, 0.1 - 0.60206], abs=1e-6)
    #                                                     after ⟨s⟩: its weight; a after b: b's weight
    assert log_10(found.model, found.words, "b a") == pytest.approx([-0.30103 - 0.69897, 0.1 - 0.39794, -0.3], abs=1e-6)
    # ⟨s⟩ a is a context: its weight, then a's, then the word alone
    assert log_10(found.model, found.words, "a a")[1] == pytest.approx(-0.5 - 0.2 - 0.39794, abs=1e-6)
    assert log_10(found.model, found.words, "a zebra")[1] == pytest.approx(-0.5 - 0.2 - 2, abs=1e-6)


def test_no_unknown_word_is_added_with_a_note(tmp_path: Path) -> None:
    text = LITTLE.replace("-2\t<unk>\n", "").replace("ngram 1=5", "ngram 1=4")
    found = read_arpa(written(tmp_path, text))
    assert found.notes == ["there is no <unk>: it was added, with log10 P = -100"]
    assert log_10(found.model, found.words, "zebra")[0] == pytest.approx(-0.30103 - 100, abs=1e-4)
    path = tmp_path / "again.arpa"
    write_arpa(path, found.model, found.words)
    assert "-100.0000022\t<unk>\n" in path.read_text()  # as near as 32 bits come to it


def test_unknown_in_capitals(tmp_path: Path) -> None:
    """As some toolkits have it: in the 1-grams, and in longer ones."""
    text = LITTLE.replace("a </s>", "a <unk>").replace("<s> a b", "<s> a <unk>")
    plain, capitals = read_arpa(written(tmp_path, text)), read_arpa(written(tmp_path, text.replace("<unk>", "<UNK>")))
    assert capitals.words == plain.words
    assert capitals.notes == []
    assert all(np.array_equal(a, b) for a, b in zip(capitals.model.trie, plain.model.trie))
    both = read_arpa(written(tmp_path, LITTLE.replace("\tb\t", "\t<UNK>\t").replace(" b\n", " <UNK>\n")))
    assert both.words[UNK:] == ["<unk>", "a", "<UNK>"]  # where both are there, it is a word


def test_more_than_can_be_numbered(tmp_path: Path) -> None:
    path = written(tmp_path, LITTLE.replace("ngram 3=1", "ngram 3=2147483640"))
    with path.open("r+b") as file:
        file.truncate(1 << 36)  # a file with room for them, of which the disk has next to nothing
    with pytest.raises(UserError, match="2,147,483,648 n-grams are more than can be numbered") as error:
        read_arpa(path)
    assert error.value.file == str(path)


WRONG = {
    "no ARPA file": (LITTLE.replace("\\data\\", "data"), 1, "no ARPA file: there is no line"),
    "too many said": (LITTLE.replace("ngram 2=3", "ngram 2=4"), 18, "says ngram 2=4, but there are 3 2-grams"),
    "too few said": (LITTLE.replace("ngram 2=3", "ngram 2=2"), 17, "says ngram 2=2, but there are more 2-grams: '-0.3"),
    "too many words said": (LITTLE.replace("ngram 1=5", "ngram 1=6"), 13, "says ngram 1=6, but there are 5 1-grams"),
    "too few words said": (LITTLE.replace("ngram 1=5", "ngram 1=4"), 12, "says ngram 1=4, but there are more 1-grams"),
    "more than the file": (LITTLE.replace("ngram 3=1", "ngram 3=99999999"), 5, "do not fit into a file of this size"),
    "cut in the header": (LITTLE[: LITTLE.index("\n\\1-grams")], 5, "ends in its header, it is cut short"),
    "cut in words": (LITTLE[: LITTLE.index("\n-0.69897")], 11, "ends after 4 of 5 1-grams, it is cut short"),
    "cut in 2-grams": (LITTLE[: LITTLE.index("\n-0.3\t")], 16, "ends after 2 of 3 2-grams, it is cut short"),
    "cut between": (LITTLE[: LITTLE.index("\n\\3-grams")], 17, "ends before its 3-grams, it is cut short"),
    "cut at the end": (LITTLE[: LITTLE.index("\n\\end")], 20, r"ends without its \\end\\, it is cut short"),
    "cut in a line": (LITTLE[: LITTLE.index(" a b\n")], 20, "ends in the middle of this line, it is cut short"),
    "not the end": (LITTLE.replace("\\end\\", "\\4-grams:"), 22, r"should be \\end\\, not '"),
    "another section": (LITTLE.replace("\\2-grams:", "\\3-grams:"), 14, r"should be \\2-grams:, not '"),
    "a header line": (LITTLE.replace("ngram 2=3", "ngram two=3"), 4, "a line like `ngram 1=1000`, not 'ngram two"),
    "an order left out": (LITTLE.replace("ngram 2=3\n", ""), 4, "should be the number of 2-grams, not of 3-grams"),
    "no numbers": (LITTLE.replace("ngram ", "\\ngram "), 3, "a line `ngram 1=1000` is missing"),
    "no number": (LITTLE.replace("-0.2\ta b", "zero\ta b"), 16, "this is no logarithm: 'zero'"),
    "not a number": (LITTLE.replace("-0.2\ta b", "nan\ta b"), 16, "this is no logarithm: 'nan'"),
    "a weight that is none": (LITTLE.replace("a b\n", "a b\t0x1\n", 1), 16, "this is no logarithm: '0x1'"),
    "a word that is none": (LITTLE.replace("-0.69897", "NaN"), 12, "this is no logarithm: 'NaN'"),
    "too few words": (LITTLE.replace("-0.2\ta b", "-0.2\ta"), 16, "no 2-gram .log P, 2 words"),
    "too many words": (LITTLE.replace("-0.2\ta b", "-0.2\ta b -1 b"), 16, "no 2-gram .log P, 2 words"),
    "words only": (LITTLE.replace("-0.69897\tb\t0.1", "-0.69897"), 12, "this is no 1-gram"),
    "an unknown word": (LITTLE.replace("-0.2\ta b", "-0.2\ta q"), 16, "the word 'q' is not among the 1-grams"),
    "no context": (LITTLE.replace("<s> a b", "b a b"), 20, "first 2 words of this 3-gram are no 2-gram"),
    "no suffix": (LITTLE.replace("<s> a b", "<s> a <unk>"), 20, "last 2 words of this 3-gram are no 2-gram"),
    "twice": (LITTLE.replace("a </s>", "a b"), 17, "this 2-gram stands twice"),
    "a blank in a word": (LITTLE.replace("\tb\t", "\tb\vc\t"), 12, r"the word 'b\\x0bc' has '\\x0b' in it"),
    "a word twice": (LITTLE.replace("\tb\t", "\ta\t"), 12, "the word 'a' stands twice"),
    "above one": (LITTLE.replace("-0.2\ta b", "0.2\ta b"), 16, "log P is 0.2, which makes a probability above 1"),
    "a word above one": (LITTLE.replace("-0.69897", "0.69897"), 12, "log P is 0.69897, which makes"),
    "infinite": (LITTLE.replace("<s> a\t-0.5", "<s> a\tinf"), 15, "its weight is infinite"),
    "no beginning": (LITTLE.replace("<s>", "<x>"), 12, "there is no <s> among the 1-grams"),
    "no end": (LITTLE.replace("</s>", "</x>"), 12, "there is no </s> among the 1-grams"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_line(case: str, tmp_path: Path) -> None:
    text, line, message = WRONG[case]
    path = written(tmp_path, text)
    with pytest.raises(UserError, match=message) as error:
        read_arpa(path)
    assert (error.value.file, error.value.line) == (str(path), line)
    assert error.value.cure


def test_damaged_files(tmp_path: Path) -> None:
    packed = tmp_path / "cut.arpa.gz"
    packed.write_bytes(gzip.compress(LITTLE.encode())[:-20])
    with pytest.raises(UserError, match="damaged or cut short"):
        read_arpa(packed)
    with pytest.raises(UserError, match="there is no such file"):
        read_arpa(tmp_path / "none.arpa")
    foreign = tmp_path / "latin.arpa"
    foreign.write_bytes(LITTLE.replace("\tb\t", "\tü\t").replace(" b\n", " ü\n").encode("latin-1"))
    with pytest.raises(UserError, match="is not UTF-8"):
        read_arpa(foreign)
    (tmp_path / "empty.arpa").touch()
    with pytest.raises(UserError, match="no ARPA file"):
        read_arpa(tmp_path / "empty.arpa")


@given(cut=st.integers(0, len(LITTLE) - 1))
def test_cut_anywhere_is_noticed(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    if LITTLE[:cut].rstrip("\n").endswith("\\end\\"):
        return
    path = written(tmp_path_factory.mktemp("cut"), LITTLE[:cut])
    with pytest.raises(UserError):
        read_arpa(path)


def test_windows_lines_text_before_and_spaces_for_tabs(tmp_path: Path) -> None:
    odd = "made by hand\n" + LITTLE.replace("\t", "  ").replace("\n", " \r\n")
    (tmp_path / "odd.arpa").write_bytes(odd.encode())
    first, second = read_arpa(tmp_path / "odd.arpa"), read_arpa(written(tmp_path, LITTLE))
    assert first.words == second.words
    assert all(np.array_equal(a, b) for a, b in zip(first.model.trie, second.model.trie))


@given(number=st.floats(-200, 200) | st.floats(-1e-4, 0), digits=st.integers(1, 12))
def test_numbers(number: float, digits: int) -> None:
    for text in (f"{number:.{digits}f}", f"{number:.{digits}e}", repr(number)):
        raw = np.frombuffer(text.encode(), np.uint8)
        assert parse_number(raw, 0, len(raw)) == pytest.approx(float(text), rel=1e-14, abs=1e-250)


@pytest.mark.parametrize("text", ["", "-", ".", "1.2.3", "1e", "1e+", "--1", "1x", "nan", "0x10", "1,5", "infinity"])
def test_what_is_no_number(text: str) -> None:
    raw = np.frombuffer(text.encode() + b" ", np.uint8)
    assert math.isnan(parse_number(raw, 0, len(raw) - 1))


class TestWords:
    def test_names_that_a_file_can_hold(self) -> None:
        tokens = [*SPECIALS, " the", " <unk>", " ", "\t", " <<unk>>", "Ġword", " the the"]
        names, renamed = arpa_words(tokens)
        assert names == [
            SPECIALS[0],
            "<s>",
            "</s>",
            "<unk>",
            "the",
            "<<unk>>",
            "▁",
            "<▁>",
            "<<<unk>>>",
            "Ġword",
            "the▁the",
        ]
        assert renamed == {" <unk>": "<<unk>>", " ": "▁", "\t": "<▁>", " <<unk>>": "<<<unk>>>", " the the": "the▁the"}

    @given(tokens=st.lists(st.text(WHITE + "a<", max_size=3), max_size=6, unique=True))
    def test_any_white_space_goes_there_and_back(
        self, tmp_path_factory: pytest.TempPathFactory, tokens: list[str]
    ) -> None:
        """ASCII's parts words and is renamed; all other white space of Unicode is a letter like any."""
        names, renamed = arpa_words([*SPECIALS, *tokens])
        for token, name in zip(tokens, names[len(SPECIALS) :]):
            assert name == token or token in renamed or f" {name}" == token
            assert not set(name) & set(BLANKS)
        path = tmp_path_factory.mktemp("white") / "model.arpa"
        ids = [*range(4, len(names))]
        model = fitted([ids, ids[::-1]], len(names), order=2)
        write_arpa(path, model, names)
        back = read_arpa(path)
        assert back.words == names
        assert scores(back.model, [ids]) == pytest.approx(scores(model, [ids]), abs=2e-6)
        cut = Tokenizer.of_words(back.words[len(SPECIALS) :], unknown="<unk>")
        assert cut.encode(" ".join(names[len(SPECIALS) :])) == ids

    @pytest.mark.parametrize(
        ("word", "why"), [("w4", "stands twice"), ("", "is empty"), ("a b", "has a blank"), ("a\fb", "has a blank")]
    )
    def test_others_are_refused(self, word: str, why: str, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=why):
            write_arpa(tmp_path / "x.arpa", fitted([[4]], VOCABULARY, order=2), [*WORDS[:-1], word])
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("smoothing", ["add-k", "maximum-likelihood", "stupid-backoff"])
    def test_what_is_no_back_off_model(self, smoothing: str, tmp_path: Path) -> None:
        model = fitted([[4, 5]], VOCABULARY, order=2, smoothing=smoothing)
        with pytest.raises(UserError, match=f"cannot hold a model with smoothing {smoothing}.*kneser-ney"):
            write_arpa(tmp_path / "x.arpa", model, WORDS)
        assert list(tmp_path.iterdir()) == []


def some_lines() -> list[str]:
    draw = random.Random(5)
    return [
        " ".join(f"w{min(VOCABULARY - 1, 3 + int(draw.paretovariate(0.9)))}" for _ in range(draw.randrange(9)))
        for _ in range(400)
    ]


class TestKenLM:
    """Needs the Python module `kenlm`; for its estimates also `lmplz`, on the PATH or in the folder KENLM_BIN."""

    lines = some_lines()
    asked = (*lines[:50], "w4 zebra w5", "", "zebra", "w11 w11 w11 w11 w11 w11")

    def ids(self, line: str, words: list[str]) -> list[int]:
        known = {word: id for id, word in enumerate(words)}
        return [known.get(word, UNK) for word in line.split()]

    def check(self, path: Path, model: NgramModel, words: list[str]) -> None:
        kenlm = pytest.importorskip("kenlm", reason="the module kenlm is not installed")
        theirs = kenlm.Model(str(path))
        for line in self.asked:
            ours = scores(model, [self.ids(line, words)]).sum() / math.log(10)
            assert theirs.score(line) == pytest.approx(ours, abs=1e-4)
            each = [score for score, _, _ in theirs.full_scores(line)]
            assert log_10(model, words, line) == pytest.approx(each, abs=1e-5)

    @pytest.mark.parametrize("prune", [[], [0, 0, 1]])
    @pytest.mark.parametrize("suffix", [".arpa", ".arpa.gz"])
    def test_reads_what_we_write(self, suffix: str, prune: list[int], tmp_path: Path) -> None:
        pytest.importorskip("kenlm", reason="the module kenlm is not installed")
        model = fitted([self.ids(line, WORDS) for line in self.lines], VOCABULARY, order=4, prune=prune)
        path = tmp_path / f"ours{suffix}"
        write_arpa(path, model, WORDS)
        self.check(path, model, WORDS)

    @pytest.mark.parametrize("prune", [[], [0, 0, 1]])
    def test_we_read_what_it_writes(self, prune: list[int], tmp_path: Path) -> None:
        lmplz = shutil.which("lmplz", path=os.environ.get("KENLM_BIN"))
        if lmplz is None:
            pytest.skip("lmplz is not installed (name its folder in KENLM_BIN)")
        path = tmp_path / "theirs.arpa"
        pruning = ["--prune", *map(str, prune)] if prune else []
        command = [lmplz, "-o", "4", "-S", "100M", "--discount_fallback", "-T", str(tmp_path / "t"), *pruning]
        with path.open("wb") as out:
            text = "".join(f"{line}\n" for line in self.lines).encode()
            subprocess.run(command, input=text, stdout=out, stderr=subprocess.DEVNULL, check=True)
        found = read_arpa(path)
        self.check(path, found.model, found.words)
        ours = fitted([self.ids(line, WORDS) for line in self.lines], VOCABULARY, order=4, prune=prune)
        assert found.model.sizes()[1:] == ours.sizes()[1:]
