"""Vectors: a table is a one-hot product, neighbours are exact, and files go round."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.models.vectors.vector_files import load_vectors, read_arrays, save_vectors, store_arrays
from anaphora.models.vectors.word_vectors import SubwordTable, Vectors
from anaphora.pipelines.vectors_model import VectorsModel

WORDS = ["king", "queen", "man", "woman", "naïve", "🦜", "東京", "a_b", "apple", "pear"]


def some(words: list[str] = WORDS, dim: int = 7, seed: int = 0) -> Vectors:
    generator = np.random.default_rng(seed)
    return Vectors(words, generator.normal(size=(len(words), dim)).astype(np.float32))


def test_a_one_hot_product_is_a_lookup() -> None:
    vectors = some()
    one_hot = np.eye(len(WORDS), dtype=np.float32)
    for row, word in enumerate(WORDS):
        np.testing.assert_array_equal(one_hot[row] @ vectors.vectors, vectors[word])


@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 20), st.integers(0, 5))
def test_neighbours_are_those_of_the_definition(size: int, dim: int, topn: int, seed: int) -> None:
    words = [str(number) for number in range(size)]
    vectors = some(words, dim, seed)
    found = vectors.most_similar("0", topn=topn)
    cosines = [vectors.similarity("0", word) for word in words]
    wanted = sorted(range(1, size), key=lambda row: -cosines[row])[:topn]
    np.testing.assert_allclose([score for _, score in found], [cosines[row] for row in wanted], atol=1e-5)
    assert "0" not in dict(found) and len(dict(found)) == len(wanted)


def test_several_blocks_and_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = some([str(number) for number in range(1000)], 12)
    whole = vectors.neighbours(["3", "999", "40"], topn=15)
    monkeypatch.setattr("anaphora.models.vectors.word_vectors.BLOCK_WORDS", 7)
    parts = vectors.neighbours(["3", "999", "40"], topn=15)
    assert {word: [w for w, _ in near] for word, near in whole.items()} == {
        word: [w for w, _ in near] for word, near in parts.items()
    }
    assert [word for word, _ in whole["3"]] == [word for word, _ in vectors.most_similar("3", topn=15)]
    assert len(vectors.most_similar("3", topn=5, restrict_vocab=3)) == 3


def test_analogy_and_what_does_not_match() -> None:
    royal, female, fruit = np.eye(3, dtype=np.float32)
    matrix = np.array([royal, royal + female, 0 * royal + 0.1, female + 0.1, fruit, fruit + 0.1], np.float32)
    vectors = Vectors(["king", "queen", "man", "woman", "apple", "pear"], matrix)
    assert vectors.analogy("man", "woman", "king", topn=1)[0][0] == "queen"
    assert vectors.doesnt_match(["king", "queen", "apple", "unheard"]) == "apple"
    with pytest.raises(UserError, match="none of these"):
        vectors.doesnt_match(["unheard"])


@given(st.integers(0, 20))
def test_an_analogy_is_the_nearest_to_b_less_a_and_c(seed: int) -> None:
    vectors = some(seed=seed)
    a, b, c = (vectors.get_vector(word, norm=True) for word in ("man", "king", "woman"))
    wanted = [near for near in vectors.similar_by_vector(b - a + c, topn=9) if near[0] not in ("man", "king", "woman")]
    found = vectors.analogy("man", "king", "woman", topn=5)
    assert [word for word, _ in found] == [word for word, _ in wanted[:5]]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in wanted[:5]], atol=1e-5)


def test_one_word_is_not_a_list_of_letters() -> None:
    vectors = some()
    assert vectors.neighbours(WORDS[0], 2) == vectors.neighbours([WORDS[0]], 2)
    for wrong in (None, 3, [None], [["the"]]):
        with pytest.raises(UserError, match=r"a word is wanted, not|nothing to be near"):
            vectors.most_similar(wrong)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=r"a word is wanted, not|first is .*; give a str"):
            vectors.similarity(wrong, WORDS[0])  # type: ignore[arg-type]


def test_what_is_no_path_of_pairs(tmp_path: Path) -> None:
    save_vectors(some(), tmp_path / "vectors.txt")
    model = VectorsModel(tmp_path / "vectors.txt")
    for ask in (model.evaluate_similarity, model.evaluate_analogies, model.weat):
        with pytest.raises(UserError, match="path is a list, not the path of a file or folder"):
            ask([("the", "a", 3.0)])  # type: ignore[arg-type]


def test_unknown_words_are_offered_spellings() -> None:
    vectors = some()
    with pytest.raises(UserError, match="did you mean 'queen'"):
        vectors.most_similar("quen")
    with pytest.raises(UserError, match="did you mean 'king'"):
        vectors["KING"]
    with pytest.raises(UserError, match="choose a word of the text"):
        vectors.similarity("king", "zzzzzzz")
    with pytest.raises(UserError, match="two vectors"):
        some(["a", "b", "a"])


@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.bin", "v.txt.gz", "v.bin.gz", "v.safetensors"])
def test_round_trips_are_exact(tmp_path: Path, name: str) -> None:
    vectors = some()
    save_vectors(vectors, tmp_path / name)
    again = load_vectors(tmp_path / name)
    assert again.index_to_key == WORDS
    np.testing.assert_array_equal(again.vectors, vectors.vectors)


def test_glove_text_has_no_header_and_may_have_words_with_blanks(tmp_path: Path) -> None:
    save_vectors(some(), tmp_path / "glove.txt", header=False)
    assert (tmp_path / "glove.txt").read_text(encoding="utf-8").startswith("king ")
    np.testing.assert_array_equal(load_vectors(tmp_path / "glove.txt").vectors, some().vectors)
    (tmp_path / "odd.txt").write_text("the 1 2\n. . 3 4\n")
    assert load_vectors(tmp_path / "odd.txt").index_to_key == ["the", ". ."]


def test_safetensors_keep_counts_subwords_and_words_with_blanks(tmp_path: Path) -> None:
    table = SubwordTable(3, 6, 1000, np.array([1, 5, 999]), np.ones((3, 4), np.float32))
    matrix = np.zeros((2, 4), np.float32)
    vectors = Vectors(["New York", "🦜"], matrix, counts=np.array([7, 3]), subwords=table)
    save_vectors(vectors, tmp_path / "v.safetensors")
    again = load_vectors(tmp_path / "v.safetensors")
    assert again.index_to_key == ["New York", "🦜"] and again.subwords is not None and again.counts is not None
    assert again.counts.tolist() == [7, 3] and again.subwords.hashes.tolist() == [1, 5, 999]
    assert (again.subwords.shortest, again.subwords.longest, again.subwords.buckets) == (3, 6, 1000)


def test_words_with_blanks_are_refused_or_replaced(tmp_path: Path) -> None:
    vectors = some(["New York", "Rome"])
    for name in ("v.txt", "v.bin"):
        with pytest.raises(UserError, match="'New York' has white space"):
            save_vectors(vectors, tmp_path / name)
        assert not (tmp_path / name).exists()
        save_vectors(vectors, tmp_path / name, space="_")
        assert load_vectors(tmp_path / name).index_to_key == ["New_York", "Rome"]
    with pytest.raises(UserError, match="two words become one"):
        save_vectors(some(["New York", "New_York"]), tmp_path / "w.txt", space="_")


def test_a_truncated_binary_says_so(tmp_path: Path) -> None:
    save_vectors(some(), tmp_path / "v.bin")
    content = (tmp_path / "v.bin").read_bytes()
    for cut in (3, 6, 20, len(content) // 2, len(content) - 2):
        (tmp_path / "cut.bin").write_bytes(content[:cut])
        with pytest.raises(UserError, match=r"ends too early|in the middle of word|does not begin") as refused:
            load_vectors(tmp_path / "cut.bin")
        assert refused.value.cure
    (tmp_path / "cut.bin.gz").write_bytes(gzip.compress(content)[:-9])
    with pytest.raises(UserError, match="ends too early"):
        load_vectors(tmp_path / "cut.bin.gz")
    (tmp_path / "huge.bin").write_bytes(b"99999999999 300\nthe " + bytes(1200))
    with pytest.raises(UserError, match="ends too early"):
        load_vectors(tmp_path / "huge.bin")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("word\n", "has no numbers"),
        ("2 3\na 1 2 3\n", "says 2 words and has 1"),
        ("a 1 2 3\nb 1 2\n", ":2: is not a word and 3 numbers"),
        ("a 1 2 3\nb 1 x 2\n", ":2: is not a word and 3 numbers"),
        ("a 1 2\na 3 4\n", "two vectors"),
        ("3 0\n", "no dimensions"),
    ],
)
def test_odd_text_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content)
    with pytest.raises(UserError) as refused:
        load_vectors(tmp_path / "v.txt")
    assert message in str(refused.value) and "v.txt" in str(refused.value)


def test_unknown_formats_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no known format"):
        load_vectors(tmp_path / "v.pkl")
    for name in ("v.txt", "v.bin", "v.safetensors"):
        with pytest.raises(UserError, match=r"cannot be read|no such file"):
            load_vectors(tmp_path / name)
    (tmp_path / "v.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="cannot be read as safetensors"):
        load_vectors(tmp_path / "v.safetensors")


def test_gensim_reads_ours_and_we_read_gensims(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    ours = some(dim=12)
    for name, binary in (("v.txt", False), ("v.bin", True)):
        save_vectors(ours, tmp_path / name)
        theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=binary)
        assert [w for w, _ in theirs.most_similar("king")] == [w for w, _ in ours.most_similar("king")]
        theirs.save_word2vec_format(str(tmp_path / f"back-{name}"), binary=binary)
        again = load_vectors(tmp_path / f"back-{name}")
        np.testing.assert_array_equal(again.vectors, ours.vectors)
        assert again.index_to_key == ours.index_to_key


def test_a_damaged_archive_says_so(tmp_path: Path) -> None:
    content = b"word 1 2 3\n" * 400
    packed = bytearray(gzip.compress(content + np.random.default_rng(0).bytes(3000)))
    packed[1000:1100] = bytes(100)
    (tmp_path / "v.txt.gz").write_bytes(packed)
    with pytest.raises(UserError, match=r"v\.txt\.gz"):
        load_vectors(tmp_path / "v.txt.gz")


@pytest.mark.parametrize("name", ["v.txt", "v.safetensors"])
def test_where_nothing_can_be_written_it_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"cannot be written \(No such file or directory\)"):
        save_vectors(some(), tmp_path / "nowhere" / name)


def test_what_a_killed_writer_leaves_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """safetensors writes to a temporary file whose name nobody knows; it must lie where runs look for leftovers."""
    import safetensors.numpy

    from anaphora import folder

    def killed(arrays: object, file: Path, said: object) -> None:
        (file.parent / ".tmp123").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(safetensors.numpy, "save_file", killed)
        patched.setattr(folder.shutil, "rmtree", lambda *_, **__: None)  # nothing is tidied up after kill -9
        with pytest.raises(KeyboardInterrupt):
            save_vectors(some(), tmp_path / "v.safetensors")
        assert list(tmp_path.rglob(".tmp123"))
    folder.sweep(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"words": b"a\nb\n", "subwords": np.zeros((1, 3), np.float32)}, "is not whole"),
        ({"words": b"a\nb\n", "counts": np.zeros(1, np.int64)}, "2 words, but 1 count"),
        ({"words": b"a\na\n"}, r"v\.safetensors: the word 'a' has two vectors"),
        ({"words": b"a\n"}, "1 word, but vectors of shape"),
    ],
)
def test_safetensors_that_do_not_fit_together(tmp_path: Path, arrays: dict[str, object], message: str) -> None:
    from safetensors.numpy import save_file

    words = np.frombuffer(arrays["words"], np.uint8)  # type: ignore[call-overload]
    save_file({"vectors": np.zeros((2, 3), np.float32), **arrays, "words": words}, tmp_path / "v.safetensors")
    with pytest.raises(UserError, match=message):
        load_vectors(tmp_path / "v.safetensors")


@pytest.mark.slow
def test_neighbours_among_a_million_words_take_a_fifth_of_a_second() -> None:
    vectors = Vectors(
        [str(n) for n in range(1_000_000)], np.random.default_rng(0).random((1_000_000, 100), np.float32) - 0.5
    )
    vectors.most_similar("5")  # the lengths are found once
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        vectors.most_similar("7")
        taken.append(time.perf_counter() - began)
    assert min(taken) < 0.2


def test_vectors_of_several_words_and_all_words_in_turn() -> None:
    vectors = Vectors(["a", "b", "c"], np.eye(3, dtype=np.float32))
    assert list(vectors) == ["a", "b", "c"] and np.array_equal(vectors[["c", "a"]], np.eye(3)[[2, 0]])
    with pytest.raises(UserError, match="give a list of words"):
        vectors.doesnt_match("a b c")


# What may be anybody's ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "header", "unit", "said"),
    [
        ("b.bin.gz", b"2 3\n", b"x", "in the middle of word 1"),
        ("b.bin.gz", b"2 3\n", b"\0", "in the middle of word 1"),
        ("b.vec.gz", b"2 3\n", b"x", "is longer than"),
        ("b.txt.gz", b"", b"x", "is longer than"),
        ("b.txt.gz", b"", b"0 ", "is longer than"),
        ("b.txt.gz", b"2 3\n", b"\n", "nothing but blank lines"),
        ("b.txt.gz", b"", b"a 1 2 3\n", "two vectors"),
        ("b.txt.gz", b"1 3\n", b"a 1 2 3\n", "says 1 word and has more"),
        ("b.vec", b"2 3\n", b"x", "is longer than"),
    ],
)
def test_a_file_is_unpacked_no_further_than_it_makes_sense(
    tmp_path: Path, name: str, header: bytes, unit: bytes, said: str
) -> None:
    content = header + unit * ((64 << 20) // len(unit))
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith(".gz") else content)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=said):
            load_vectors(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("header", [b"99999999999 3\n", b"1 99999999\n", b"9999999 9999\n"])
def test_no_room_is_made_for_what_a_packed_file_cannot_hold(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "v.bin.gz").write_bytes(gzip.compress(header + b"a " + bytes(10_000)))
    with pytest.raises(UserError, match=r"ends too early|dimensions; 65,536 are the most"):
        load_vectors(tmp_path / "v.bin.gz")


def test_a_checksum_at_the_end_of_an_archive_is_tested(tmp_path: Path) -> None:
    save_vectors(some(), tmp_path / "v.bin.gz")
    packed = bytearray((tmp_path / "v.bin.gz").read_bytes())
    packed[-6] ^= 1
    (tmp_path / "v.bin.gz").write_bytes(packed)
    with pytest.raises(UserError, match="CRC check failed"):
        load_vectors(tmp_path / "v.bin.gz")


def test_a_binary_of_many_blocks_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anaphora.models.vectors.vector_files.READ_AT_ONCE", 50)
    monkeypatch.setattr("anaphora.models.vectors.vector_files.LONGEST_WORD", 20)
    vectors = some([f"word{n}" * (n % 3 + 1) for n in range(100)], dim=7)
    for name in ("v.bin", "v.bin.gz"):
        save_vectors(vectors, tmp_path / name)
        again = load_vectors(tmp_path / name)
        assert again.index_to_key == vectors.index_to_key
        np.testing.assert_array_equal(again.vectors, vectors.vectors)


@pytest.mark.parametrize("name", ["v.txt", "v.bin", "v.vec.gz", "v.safetensors"])
@pytest.mark.parametrize(
    ("value", "said"), [(np.nan, "holds nan or infinite"), (np.inf, "holds nan or"), (1e30, "is too long")]
)
def test_vectors_that_cannot_be_compared_are_refused_by_name(
    tmp_path: Path, name: str, value: float, said: str
) -> None:
    vectors = some()
    vectors.vectors[2, 1] = value
    vectors.vectors[1, 0] = np.nan
    save_vectors(vectors, tmp_path / name)
    with pytest.raises(UserError, match=rf"the vector of '{WORDS[1]}' holds nan .*, as do those of 1 more word;"):
        load_vectors(tmp_path / name)
    vectors.vectors[1, 0] = 0
    save_vectors(vectors, tmp_path / name)
    with pytest.raises(UserError, match=rf"the vector of '{WORDS[2]}' {said}"):
        load_vectors(tmp_path / name)


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.complex64])
def test_vectors_of_other_numbers_are_refused(tmp_path: Path, dtype: type) -> None:
    from safetensors.numpy import save_file

    words = np.frombuffer(b"a\nb\n", np.uint8)
    save_file({"vectors": np.ones((2, 3), dtype), "words": words}, tmp_path / "v.safetensors")
    with pytest.raises(UserError, match=r"v\.safetensors: (holds vectors of|cannot be read)"):
        load_vectors(tmp_path / "v.safetensors")


def test_a_loaded_model_answers_as_its_vectors_do(tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text("3 2\na 1 0\nb 0.9 0.1\nc 0 1\n")
    model = VectorsModel(tmp_path / "v.vec")
    assert len(model) == 3 and "a" in model and "z" not in model
    assert model["c"].tolist() == [0.0, 1.0]
    assert model.neighbours("a", topn=1) == model.vectors.most_similar("a", topn=1)
    assert model.neighbours("a", topn=1)[0][0] == "b"
    assert model.analogy("a", "b", "c", topn=1) == model.vectors.analogy("a", "b", "c", topn=1)


# What was written, and what comes back --------------------------------------------------------------------------------


def test_any_flipped_bit_of_stored_vectors_is_told(tmp_path: Path) -> None:
    file = tmp_path / "v.safetensors"
    save_vectors(Vectors(["a", "é"], np.eye(2, dtype=np.float32), counts=np.array([3, 2])), file)
    content = file.read_bytes()
    for bit in range(0, 8 * len(content), 5):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        with pytest.raises(UserError, match=r"v\.safetensors: (is damaged|cannot be read)"):
            load_vectors(file)


def test_what_is_said_of_arrays_may_be_anything_and_the_bytes_are_a_function_of_it(tmp_path: Path) -> None:
    said = {"z": '{"sha256": "sha256:' + "0" * 64 + '"}', "a": 'é "quoted" \\ {}\t\x01\x7f', "m": ""}
    written = set()
    for number in range(8):
        store_arrays(tmp_path / f"{number}", {"x": np.arange(3)}, said)
        arrays, found = read_arrays(tmp_path / f"{number}")
        assert found.items() > said.items() and arrays["x"].tolist() == [0, 1, 2]
        written.add((tmp_path / f"{number}").read_bytes())
    assert len(written) == 1


def test_vectors_without_a_checksum_are_read_as_they_are(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    words = np.frombuffer(b"a\nb\n", np.uint8)
    save_file({"vectors": np.eye(2, dtype=np.float32), "words": words}, tmp_path / "v.safetensors", {"made by": "x"})
    assert load_vectors(tmp_path / "v.safetensors").index_to_key == ["a", "b"]


def test_a_file_of_holes_says_how_much_memory_it_would_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.bin").write_bytes(b"1000000000 200\n")
    with (tmp_path / "b.bin").open("r+b") as file:
        file.truncate(1 << 40)

    def refused(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "empty", refused)  # some systems promise a terabyte that they do not have
    with pytest.raises(UserError, match=r"b\.bin:1: says that it has 1,000,000,000 words of 200 numbers, .*800 GB; "):
        load_vectors(tmp_path / "b.bin")


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_32_bits_are_refused_without_a_warning(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    (tmp_path / "v.vec").write_text("2 2\nking 1 0\nqueen 1e308 1\n")
    words = np.frombuffer(b"king\nqueen\n", np.uint8)
    save_file({"vectors": np.array([[1, 0], [1e308, 1]]), "words": words}, tmp_path / "v.safetensors")
    for name in ("v.vec", "v.safetensors"):
        with pytest.raises(UserError, match="the vector of 'queen' holds nan or infinite numbers"):
            load_vectors(tmp_path / name)
    for value in (1e308, 1e30, np.nan):
        with pytest.raises(UserError, match="holds nan or infinite numbers, or is too long; give one that can be"):
            some().most_similar(np.full(7, value))


# What is asked --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "answer"), [("king king king", "king"), ("king king man", "man"), ("king man king", "man")]
)
def test_an_analogy_that_asks_nothing_is_told(words: str, answer: str) -> None:
    with pytest.raises(UserError, match=rf"as '\w+' is to … asks nothing: its answer is '{answer}'; give a first word"):
        some().analogy(*words.split())
    assert len(some().analogy("king", "queen", "queen", topn=3)) == 3


def test_vectors_in_lower_case_say_so() -> None:
    plain = some(["king", "queen", "man", "USA"])
    rows = np.ones((1, 7), np.float32)
    table = SubwordTable(3, 6, 1, np.zeros(1, np.int64), rows)
    vectors = Vectors(plain.index_to_key, plain.vectors, lowercase=True, subwords=table)
    assert "USA" in vectors and vectors["USA"] is not None, "of vectors that it started from"
    np.testing.assert_array_equal(vectors["unheard"], rows[0])
    for word in ("King", "Unheard"):  # whose letters no text has had
        with pytest.raises(UserError, match=rf"{word}' has no vector: .* in lower case; look for '{word.lower()}'"):
            vectors.neighbours([word])
    assert vectors.doesnt_match(["King", "queen"]) == "queen"
    with pytest.raises(UserError, match=r"'King' has no vector; did you mean 'king'\? Upper and lower case differ"):
        plain.get_vector("King")
