"""Runs of GloVe: they learn, one thread makes the same bits, and a killed run ends as an uninterrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import pytest

from anaphora.errors import UserError
from anaphora.models.vectors.cooccurrence import Cooccurrences, count_cooccurrences
from anaphora.models.vectors.glove import GloVe, learn_glove
from anaphora.models.vectors.pieces import Learned
from anaphora.models.vectors.vector_settings import GloveConfig, GloveTraining
from anaphora.tokenizers.tokenizer import EOS

GROUPS, MEMBERS = 8, 40
WORDS = [f"{'abcdefgh'[group]}{member}" for group in range(GROUPS) for member in range(MEMBERS)]
CONFIG = GloveConfig(dim=16, window=5)
ONE = GloveTraining(epochs=3, threads=1)
OFTEN = replace(ONE, checkpoint_seconds=1e-9)


def text(lines: int = 4000, seed: int = 0) -> np.ndarray:
    """Lines of words of one group each: words of a group belong together, and nothing else does, but for chance."""
    generator = np.random.default_rng(seed)
    group = generator.integers(GROUPS, size=(lines, 1))
    group = np.where(generator.random((lines, 12)) < 0.1, generator.integers(GROUPS, size=(lines, 12)), group)
    rows = group * MEMBERS + generator.integers(MEMBERS, size=(lines, 12)) + 4
    return np.pad(rows, ((0, 0), (0, 1)), constant_values=EOS).reshape(-1).astype(np.uint32)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Cooccurrences:
    found = count_cooccurrences(text(), WORDS, tmp_path_factory.mktemp("counted") / "table", window=5)
    assert len(found) > 3 * 4096  # several pieces
    return found


def test_words_of_a_kind_come_together_and_the_loss_falls(table: Cooccurrences) -> None:
    model, learned = learn_glove(table, CONFIG, GloveTraining(epochs=15, threads=2))
    near = model.vectors().neighbours(model.words, topn=3)
    same = np.mean([found[0] == word[0] for word, several in near.items() for found, _ in several])
    assert same > 0.95
    assert learned.finished and len(learned.losses) == 15 and learned.losses[-1] < 0.8 * learned.losses[0]
    assert learned.pairs == [table.entries] * 15  # each entry of X once an epoch


def test_vectors_predict_the_logarithms_of_counts(table: Cooccurrences) -> None:
    config = GloveConfig(dim=64, window=5, x_max=0.1)  # all pairs weigh the same
    model, _ = learn_glove(table, config, GloveTraining(epochs=60, threads=1))
    word, around = model.table[:, 0, :64], model.table[:, 2, :64]
    bias, other = model.biases()
    said = word @ around.T + bias[:, None] + other
    truth = np.array([table.counts(name) for name in table.words])
    known = truth > 0
    assert np.corrcoef(said[known], np.log(truth[known]))[0, 1] > 0.95
    np.testing.assert_array_equal(model.vectors().vectors, word + around)


def test_one_thread_makes_the_same_bits(table: Cooccurrences) -> None:
    first, again = (learn_glove(table, CONFIG, ONE)[0] for _ in range(2))
    assert first.table.tobytes() == again.table.tobytes()
    other = learn_glove(table, CONFIG, replace(ONE, seed=2))[0]
    assert first.table.tobytes() != other.table.tobytes()


def test_pairs_on_disk_are_pairs_in_memory(table: Cooccurrences, monkeypatch: pytest.MonkeyPatch) -> None:
    before, files = sorted(table.folder.iterdir()), []

    def counted(**where: object) -> object:
        files.append(where)
        return TemporaryFile(**where)  # type: ignore[call-overload]

    monkeypatch.setattr("anaphora.models.vectors.glove.TemporaryFile", counted)
    whole = learn_glove(table, CONFIG, replace(ONE, max_memory="1GB"))[0]
    assert not files
    spilled = learn_glove(table, CONFIG, replace(ONE, max_memory="1kB"))[0]
    assert files == [{"dir": table.folder}]  # what does not fit stands beside the table, and is gone in the end
    assert whole.table.tobytes() == spilled.table.tobytes()
    assert sorted(table.folder.iterdir()) == before


def test_every_piece_of_every_epoch_is_shuffled_anew(table: Cooccurrences, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(
        "anaphora.models.vectors.glove.shuffle_pairs", lambda keys, counts, seed: seeds.append(int(seed))
    )
    _, learned = learn_glove(table, CONFIG, replace(ONE, epochs=3))
    assert len(seeds) == len(set(seeds)) == learned.of > 3


class Stopped(Exception):
    pass


def test_interrupted_and_repeated_is_uninterrupted(table: Cooccurrences, tmp_path: Path) -> None:
    whole, learned = learn_glove(table, CONFIG, ONE)
    file = tmp_path / "state.safetensors"
    stops = 0
    while True:

        def stop(so_far: Learned, first: list[int] = []) -> None:  # noqa: B006
            first.append(so_far.pieces)
            if len(first) == 3:
                raise Stopped

        try:
            model, again = learn_glove(table, CONFIG, OFTEN, checkpoint=file, progress=stop)
            break
        except Stopped:
            stops += 1
            assert stops < 1000, "it never comes further than its first pieces"
    assert stops >= 3
    assert model.table.tobytes() == whole.table.tobytes()
    assert (again.loss, again.pairs, again.tokens) == (learned.loss, learned.pairs, learned.tokens)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_glove_training import CONFIG, OFTEN
from anaphora.models.vectors.cooccurrence import Cooccurrences
from anaphora.models.vectors.glove import learn_glove
def die(learned):
    if learned.pieces == 5:
        os.kill(os.getpid(), signal.SIGKILL)
learn_glove(Cooccurrences(sys.argv[1]), CONFIG, OFTEN, checkpoint=Path(sys.argv[2]), progress=die)
"""


def test_killed_and_repeated_is_uninterrupted(table: Cooccurrences, tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    command = [sys.executable, "-c", KILLED, str(table.folder), str(file), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False, env=os.environ).returncode == -signal.SIGKILL
    _, learned, _, _ = GloVe.load(file)
    assert 0 < learned.pieces < 5 and not learned.finished
    model, learned = learn_glove(table, CONFIG, ONE, checkpoint=file)
    whole, _ = learn_glove(table, CONFIG, ONE)
    assert learned.finished and model.table.tobytes() == whole.table.tobytes()
    before = file.read_bytes()
    assert learn_glove(table, CONFIG, ONE, checkpoint=file)[1].finished  # at once
    assert file.read_bytes() == before


def test_a_checkpoint_of_something_else_is_refused(table: Cooccurrences, tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    learn_glove(table, CONFIG, ONE, checkpoint=file)
    with pytest.raises(UserError, match="other settings"):
        learn_glove(table, GloveConfig(dim=8, window=5), ONE, checkpoint=file)
    with pytest.raises(UserError, match="other settings"):
        learn_glove(table, CONFIG, replace(ONE, epochs=4), checkpoint=file)
    with pytest.raises(UserError, match="another text"):
        other = count_cooccurrences(text(seed=1), WORDS, tmp_path / "other", window=5)
        learn_glove(other, CONFIG, ONE, checkpoint=file)
    with pytest.raises(UserError, match=r"window of 5, not 10"):
        learn_glove(table, GloveConfig(dim=16), ONE)


def test_mistakes_are_named(table: Cooccurrences, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"grew without bound.*lower training.learning_rate, which is 1000"):
        learn_glove(table, CONFIG, replace(ONE, learning_rate=1000.0))
    alone = count_cooccurrences(np.array([4, EOS, 5, EOS], np.uint32), ["a", "b"], tmp_path / "alone", window=5)
    with pytest.raises(UserError, match="no two words stand near one another"):
        learn_glove(alone, CONFIG, ONE)


@pytest.mark.parametrize("wrong", [{"dim": 0}, {"window": 0}, {"x_max": 0.0}, {"alpha": -1.0}])
def test_settings_refuse_nonsense(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GloveConfig(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"learning_rate": 0.0}, {"threads": 0}, {"max_memory": "much"}])
def test_training_refuses_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GloveTraining(**wrong)  # type: ignore[arg-type]
    assert GloveTraining(max_memory="1.5 GiB").memory_limit() == 3 << 29


def test_first_vectors_are_small_and_all_sums_are_one() -> None:
    model = GloVe(GloveConfig(dim=10), [f"w{n}" for n in range(500)], seed=3)
    vectors, biases = model.table[:, ::2, :10], model.table[:, ::2, -1]
    for numbers in (vectors, biases):
        assert abs(numbers).max() <= 0.05 and abs(numbers).max() > 0.04 and abs(numbers.mean()) < 0.003
    assert (model.table[:, 1::2] == 1).all() and not model.table[:, ::2, 10:-1].any()
    np.testing.assert_array_equal(model.vectors().vectors, vectors[:, 0] + vectors[:, 1])
