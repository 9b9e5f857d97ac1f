"""Runs of word2vec: they learn, one thread makes the same bits, and a killed run ends as an uninterrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from anaphora.data.word_ids import WordIds
from anaphora.errors import UserError
from anaphora.models.vectors.kernels.word2vec_updates import alias_table
from anaphora.models.vectors.vector_settings import Word2VecConfig, Word2VecTraining
from anaphora.models.vectors.word2vec import Learned, Word2Vec, count_ids, learn_vectors
from anaphora.tokenizers.tokenizer import EOS

GROUPS = 6
MEMBERS = 8


def text(lines: int = 1500, seed: int = 0, groups: int = GROUPS) -> str:
    """Lines of words of one group each: words of a group belong together, and nothing else does."""
    generator = np.random.default_rng(seed)
    rows = [
        " ".join(f"{'abcdefghij'[group]}word{generator.integers(MEMBERS)}" for _ in range(12))
        for group in generator.integers(groups, size=lines)
    ]
    return "\n".join(rows) + "\n"


def corpus(source: str) -> tuple[np.ndarray, list[str]]:
    """Ids and words of a text."""
    vocabulary = WordIds()
    ids = vocabulary.ids(source.encode())
    return ids, list(vocabulary.spelled(np.arange(vocabulary.words)))


IDS, WORDS = corpus(text())
ONE = Word2VecTraining(epochs=2, threads=1, learning_rate=0.05)


def purity(model: Word2Vec) -> float:
    """How many of the nearest words are of the same group."""
    near = model.vectors().neighbours(model.words, topn=3)
    return float(np.mean([found[0] == word[0] for word, several in near.items() for found, _ in several]))


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow"])
@pytest.mark.parametrize("objective", ["negative-sampling", "hierarchical-softmax"])
@pytest.mark.parametrize("subwords", [False, True])
def test_words_of_a_kind_come_together(algorithm: str, objective: str, subwords: bool) -> None:
    settings = {"algorithm": algorithm, "objective": objective, "subwords": subwords, "dim": 20, "sample": 0.0}
    training = Word2VecTraining(epochs=12, threads=2, learning_rate=0.05)
    model, learned = learn_vectors(IDS, WORDS, Word2VecConfig(**settings), training)  # type: ignore[arg-type]
    assert purity(model) > 0.95
    assert learned.finished and len(learned.losses) == 12 and learned.losses[-1] < learned.losses[0]
    assert learned.tokens == 12 * len(IDS) and learned.words == 12 * count_ids(IDS, 4 + len(WORDS)).sum()


def test_one_thread_makes_the_same_bits() -> None:
    runs = [learn_vectors(IDS, WORDS, Word2VecConfig(dim=24), ONE)[0] for _ in range(2)]
    assert runs[0].hidden.tobytes() == runs[1].hidden.tobytes() and runs[0].output.tobytes() == runs[1].output.tobytes()
    other = learn_vectors(IDS, WORDS, Word2VecConfig(dim=24), Word2VecTraining(epochs=2, threads=1, seed=2))[0]
    assert runs[0].hidden.tobytes() != other.hidden.tobytes()


class Stopped(Exception):
    pass


@pytest.mark.parametrize("subwords", [False, True])
def test_interrupted_and_repeated_is_uninterrupted(tmp_path: Path, subwords: bool) -> None:
    config = Word2VecConfig(dim=20, algorithm="cbow", subwords=subwords)
    whole, learned = learn_vectors(IDS, WORDS, config, ONE)
    often = Word2VecTraining(epochs=2, threads=1, learning_rate=0.05, checkpoint_seconds=1e-9)
    file = tmp_path / "state.safetensors"
    stops = 0
    while True:

        def stop(so_far: Learned, first: list[int] = []) -> None:  # noqa: B006
            first.append(so_far.pieces)
            if len(first) == 3:
                raise Stopped

        try:
            model, again = learn_vectors(IDS, WORDS, config, often, checkpoint=file, progress=stop)
            break
        except Stopped:
            stops += 1
            assert stops < 1000, "it never comes further than its first pieces"
    assert stops >= 1
    assert model.hidden.tobytes() == whole.hidden.tobytes() and model.output.tobytes() == whole.output.tobytes()
    assert (again.words, again.loss, again.pairs) == (learned.words, learned.loss, learned.pairs)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_word2vec_training import IDS, WORDS
from anaphora.models.vectors.vector_settings import Word2VecConfig, Word2VecTraining
from anaphora.models.vectors.word2vec import learn_vectors
training = Word2VecTraining(epochs=2, threads=1, learning_rate=0.05, checkpoint_seconds=1e-9)
def die(learned):
    if learned.pieces == 5:
        os.kill(os.getpid(), signal.SIGKILL)
learn_vectors(IDS, WORDS, Word2VecConfig(dim=20), training, checkpoint=Path(sys.argv[1]), progress=die)
"""


def test_killed_and_repeated_is_uninterrupted(tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    command = [sys.executable, "-c", KILLED, str(file), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False, env=os.environ).returncode == -signal.SIGKILL
    model, learned, _ = Word2Vec.load(file)
    assert 0 < learned.pieces < 5 and not learned.finished
    model, learned = learn_vectors(IDS, WORDS, Word2VecConfig(dim=20), ONE, checkpoint=file)
    whole, _ = learn_vectors(IDS, WORDS, Word2VecConfig(dim=20), ONE)
    assert learned.finished and model.hidden.tobytes() == whole.hidden.tobytes()
    before = file.read_bytes()
    assert learn_vectors(IDS, WORDS, Word2VecConfig(dim=20), ONE, checkpoint=file)[1].finished  # at once
    assert file.read_bytes() == before


def test_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    learn_vectors(IDS, WORDS, Word2VecConfig(dim=8), ONE, checkpoint=file)
    with pytest.raises(UserError, match="other settings"):
        learn_vectors(IDS, WORDS, Word2VecConfig(dim=16), ONE, checkpoint=file)
    with pytest.raises(UserError, match="another text"):
        learn_vectors(IDS, [*WORDS[1:], WORDS[0]], Word2VecConfig(dim=8), ONE, checkpoint=file)
    with pytest.raises(UserError, match="another text"):  # the same words, as often, in another order
        learn_vectors(IDS[::-1].copy(), WORDS, Word2VecConfig(dim=8), ONE, checkpoint=file)


@pytest.mark.parametrize("subwords", [False, True])
def test_training_on_with_new_words(subwords: bool) -> None:
    """Old words stay where they were and keep what they know; new ones find their place."""
    config = Word2VecConfig(dim=20, sample=0.0, subwords=subwords)
    training = Word2VecTraining(epochs=12, threads=1, learning_rate=0.05)
    model, _ = learn_vectors(IDS, WORDS, config, training)
    old, before = list(model.words), model.vectors()
    ids, words = corpus(text(seed=5, groups=GROUPS + 2))
    rows = model.extend(words, count_ids(ids, 4 + len(words)), seed=3)
    assert model.words[: len(old)] == old and set(model.words) == {*old, *words}
    assert [model.words[row] for row in rows] == words
    if not subwords:
        np.testing.assert_array_equal(model.vectors().vectors[: len(old)], before.vectors)
    model.train(ids, training, rows=rows)
    assert purity(model) > 0.95
    assert set("gh") <= {word[0] for word in model.words}


def test_unseen_words_have_vectors_by_their_letters() -> None:
    config = Word2VecConfig(dim=20, sample=0.0, subwords=True)
    model, _ = learn_vectors(IDS, WORDS, config, Word2VecTraining(epochs=8, threads=1, learning_rate=0.05))
    found = model.vectors()
    assert "aword77" not in found
    assert all(word[0] == "a" for word, _ in found.most_similar("aword77", topn=3))
    made = found.subwords
    assert made is not None and made.vector("ζ") is None
    with pytest.raises(UserError, match="no vector"):
        found["ζ"]


def test_a_rate_that_is_too_high_is_named() -> None:
    with pytest.raises(UserError, match=r"grew without bound.*lower training.learning_rate, which is 50"):
        config = Word2VecConfig(dim=20, subwords=True)
        learn_vectors(IDS, WORDS, config, Word2VecTraining(threads=1, learning_rate=50.0))


def test_no_words_is_refused() -> None:
    with pytest.raises(UserError, match="minimum_count"):
        Word2Vec(Word2VecConfig(), [], np.zeros(0, np.int64))


@pytest.mark.parametrize(
    "wrong", [{"dim": 0}, {"negatives": 0}, {"negatives": 64}, {"window": 0}, {"sample": -1.0}, {"exponent": 99.0}]
)
def test_settings_refuse_nonsense(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Word2VecConfig(**wrong)  # type: ignore[arg-type]


def test_subsampling_leaves_out_frequent_words() -> None:
    counts = np.array([100_000, 1000, 10], np.int64)
    model = Word2Vec(Word2VecConfig(dim=8, sample=1e-3), ["the", "of", "professor"], counts)
    share = counts / counts.sum()
    kept = model._keep() / 0xFFFFFFFF
    assert kept == pytest.approx(np.minimum(1, np.sqrt(1e-3 / share) + 1e-3 / share), rel=1e-6)


def test_a_text_of_one_line_is_learned_in_pieces() -> None:
    """Lines of more than 10,000 words are read in parts anyway: no thread is to wait for another's million words."""
    line = np.concatenate((IDS[IDS > EOS], IDS[IDS > EOS], [EOS])).astype(np.uint32)
    model = Word2Vec(Word2VecConfig(dim=8), WORDS, count_ids(line, 4 + len(WORDS)))
    size, cuts = model._pieces(line)
    assert len(cuts) > 5 and cuts[0] == 0 and cuts[-1] == size == len(line) and max(np.diff(cuts)) < 15_000
    _, cuts = model._pieces(IDS)
    assert all(IDS[cut - 1] == EOS for cut in cuts[1:])  # shorter lines stay whole
    _, learned = learn_vectors(line, WORDS, Word2VecConfig(dim=8, sample=0.0), ONE)
    assert learned.words == 2 * 2 * (IDS > EOS).sum() and learned.of == 2 * (len(model._pieces(line)[1]) - 1)


def test_an_id_that_no_word_has_is_refused() -> None:
    """The compiled loop would read and write where nothing is."""
    odd = IDS.copy()
    odd[100] = 4 + len(WORDS)
    with pytest.raises(UserError, match="damaged"):
        count_ids(odd, 4 + len(WORDS))
    model = Word2Vec(Word2VecConfig(dim=8), WORDS, count_ids(IDS, 4 + len(WORDS)))
    with pytest.raises(UserError, match="damaged"):
        model.train(odd, ONE)
    with pytest.raises(UserError, match="damaged"):
        model.train(odd, ONE, rows=np.arange(len(WORDS), dtype=np.uint32))


def test_words_that_were_never_seen_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of another tool have no counts: below zero, an exponent would make theirs infinite."""
    drawn: list[np.ndarray] = []

    def remembered(weights: np.ndarray) -> np.ndarray:
        drawn.append(weights)
        return alias_table(weights)

    monkeypatch.setattr("anaphora.models.vectors.word2vec.alias_table", remembered)
    for exponent in (-0.5, 0.0, 0.75):
        model = Word2Vec(Word2VecConfig(dim=8, exponent=exponent), ["a", "b", "c"], np.array([16, 0, 4], np.int64))
        model._work()
        assert drawn.pop() == pytest.approx([16**exponent, 0, 4**exponent])


def test_the_rate_falls_evenly_over_all_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []

    def work(tokens: np.ndarray, rate: float, final_rate: float, seed: int) -> tuple[float, int, int]:
        rates.extend((rate, final_rate))
        return 0.0, 1, len(tokens)

    monkeypatch.setattr(Word2Vec, "_work", lambda self: work)
    training = Word2VecTraining(epochs=3, threads=1, learning_rate=0.05, final_rate=0.01)
    learn_vectors(IDS, WORDS, Word2VecConfig(dim=8), training)
    assert rates[0] == 0.05 and rates[-1] == pytest.approx(0.01) and len(rates) > 6
    assert rates[1:-1:2] == rates[2::2] and all(a > b for a, b in zip(rates[::2], rates[2::2]))


def test_what_is_chosen_reaches_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def trainer(outputs: int) -> object:
        return lambda *given: seen.append((outputs, *given[7:10])) or (0.0, 1, 1)  # type: ignore[func-returns-value]

    monkeypatch.setattr("anaphora.models.vectors.word2vec.trainer", trainer)
    for config, wanted in (
        (Word2VecConfig(), (6, False, 5, True)),
        (Word2VecConfig(algorithm="cbow", window=3, shrink_window=False, negatives=9), (10, True, 3, False)),
        (Word2VecConfig(objective="hierarchical-softmax"), (6, False, 5, True)),
    ):
        learn_vectors(IDS, WORDS, config, Word2VecTraining(epochs=1, threads=1))
        assert set(seen) == {wanted}
        seen.clear()


def test_ways_in_the_tree_are_short_for_frequent_words_in_any_order() -> None:
    counts = np.array([3, 900, 5, 40, 1, 300, 41], np.int64)
    tree = Word2Vec(Word2VecConfig(dim=8), list("abcdefg"), counts)._tree()
    lengths = np.diff(tree.begin)
    ways = {tuple(zip(tree.nodes[a:b], tree.labels[a:b])) for a, b in zip(tree.begin, tree.begin[1:])}
    assert len(ways) == len(counts) and int(counts @ lengths) == _least(counts)


def _least(counts: np.ndarray) -> int:
    """What the ways of a Huffman tree add up to."""
    heap, total = sorted(counts.tolist()), 0
    while len(heap) > 1:
        both = heap[0] + heap[1]
        total, heap = total + both, sorted([both, *heap[2:]])
    return total


def test_new_words_leave_all_that_was_learned_as_it_was() -> None:
    """Rows of words, of outputs and of n-grams keep their numbers, and counts are added."""
    config = Word2VecConfig(dim=12, subwords=True)
    model, _ = learn_vectors(IDS, WORDS, config, ONE)
    size, stride, counts = len(model.words), model.stride, model.counts
    hidden, output, hashes = model.hidden.reshape(-1, stride), model.output.reshape(-1, stride), model.hashes
    rows = model.extend([WORDS[3], "entirely", WORDS[0]], np.array([7, 8, 9], np.int64))
    assert rows.tolist() == [3, size, 0]
    new = counts.copy()
    new[[3, 0]] += [7, 9]
    assert model.counts.tolist() == [*new.tolist(), 8]
    after, outputs = model.hidden.reshape(-1, stride), model.output.reshape(-1, stride)
    np.testing.assert_array_equal(after[:size], hidden[:size])
    np.testing.assert_array_equal(outputs[:size], output)
    assert not outputs[size:].any() and after[size, :12].any()
    places = np.searchsorted(model.hashes, hashes)
    assert np.isin(hashes, model.hashes).all() and len(model.hashes) > len(hashes)
    np.testing.assert_array_equal(after[size + 1 :][places], hidden[size:])
