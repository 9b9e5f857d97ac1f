"""Signals while something is learned: announced at once, obeyed when what is being computed is done, nothing lost."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import anaphora
from anaphora.training import loop
from anaphora.training.interruption import SIGNALS, STOPPING, Interrupted, interruptible
from anaphora.training.loop import Trainer
from deadly import in_a_child
from micro_runs import MICRO
from vector_runs import grouped


@pytest.fixture(autouse=True)
def handlers() -> Any:
    """Those that were there are there again."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    yield
    assert all(signal.getsignal(number) is signal.default_int_handler for number in SIGNALS)
    for number, handler in before.items():
        signal.signal(number, handler)


def busy(seconds: float) -> None:
    """Work that Python cannot interrupt, as a large gradient is."""
    began = time.monotonic()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)
    hashlib.pbkdf2_hmac("sha256", b"", b"", int(20_000 * seconds / (time.monotonic() - began)))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_announced_while_the_update_goes_on(number: signal.Signals) -> None:
    said: list[tuple[str, float]] = []
    with interruptible(lambda text: said.append((text, time.monotonic()))) as asked:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), number))
        timer.start()
        busy(0.6)
        ended = time.monotonic()
        timer.join()
        assert asked.is_set()
    assert [text for text, _ in said] == [STOPPING]
    assert said[0][1] < ended - 0.1, "it was said while Python could do nothing"


def test_a_second_signal_stops_at_once_and_says_nothing_more() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), interruptible(said.append):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    assert said == [STOPPING]


def test_what_is_to_be_ignored_stays_ignored() -> None:
    """nohup: a terminal that hangs up is no reason to stop."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible(lambda text: None) as asked:
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.01)
        assert not asked.is_set()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signal.signal(signal.SIGHUP, signal.default_int_handler)


def test_other_listeners_hear_of_signals_as_before() -> None:
    """An event loop of asyncio, for one."""
    listening, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written)
    try:
        with interruptible(lambda text: None):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)
        assert os.read(listening, 8) == bytes([signal.SIGTERM])
        assert signal.set_wakeup_fd(before) == written
    finally:
        signal.set_wakeup_fd(before)
        os.close(listening)
        os.close(written)


# Runs ---------------------------------------------------------------------------------------------------------------


def train(run: Path, corpus: dict[str, Path]) -> tuple[Any, str]:
    said = StringIO()
    try:
        console = Console(file=said, width=300)
        return anaphora.train(run, **corpus, settings=MICRO, device="cpu", progress=console), said.getvalue()
    except Interrupted as interrupted:
        return interrupted, said.getvalue()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_an_update_saves_it_and_the_run_ends_as_if_unbroken(
    corpus: dict[str, Path], micro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    with monkeypatch.context() as patch:
        update = Trainer.update
        patch.setattr(Trainer, "update", lambda self, of: (os.kill(os.getpid(), number), update(self, of))[1])
        found, said = train(tmp_path / "run", corpus)
    assert isinstance(found, Interrupted) and found.step == 1
    assert said.count(STOPPING) == 1
    assert train(tmp_path / "run", corpus)[0].steps == 2
    assert (tmp_path / "run/model.safetensors").read_bytes() == (micro / "model.safetensors").read_bytes()


def test_a_signal_during_the_trial_of_the_largest_batch_is_no_silent_end(
    corpus: dict[str, Path], micro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        probe = loop.try_largest
        patch.setattr(loop, "try_largest", lambda *a, **b: (os.kill(os.getpid(), signal.SIGTERM), probe(*a, **b))[1])
        found, said = train(tmp_path / "run", corpus)
    assert isinstance(found, Interrupted) and found.step == 0
    assert said.count(STOPPING) == 1
    assert train(tmp_path / "run", corpus)[0].steps == 2
    assert (tmp_path / "run/model.safetensors").read_bytes() == (micro / "model.safetensors").read_bytes()


# Word vectors -------------------------------------------------------------------------------------------------------

RECIPES = ("skipgram", "cbow", "glove")


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A text, and what each recipe learns of it without a break."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "text.txt").write_text(grouped(), encoding="utf-8")
    for recipe in RECIPES:
        learn(folder / recipe, recipe, folder / "text.txt")
    return {"text": folder / "text.txt", **{recipe: folder / recipe for recipe in RECIPES}}


def learn(run: Path, recipe: str, text: Path, seconds: float = 1e-9) -> None:
    """With a checkpoint after every piece, by one thread."""
    settings = {"model.dim": 16, "training.threads": 1, "training.epochs": 6, "training.checkpoint_seconds": seconds}
    anaphora.train(run, recipe=recipe, text=text, settings=settings, progress=False)


def same_numbers(one: Path, other: Path) -> bool:
    return (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


@pytest.mark.parametrize("recipe", RECIPES)
def test_vectors_killed_after_a_checkpoint_are_those_of_an_unbroken_run(
    words: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    """kill -9 just after the second checkpoint of each process was saved, twice."""
    from anaphora.models.vectors import pieces

    run, learn_pieces = tmp_path / "run", pieces.learn_pieces

    def killed() -> None:
        saved = 0

        def deadly(*given: Any, **more: Any) -> Any:
            save = more["save"]

            def saves() -> None:
                nonlocal saved
                save()
                saved += 1
                if saved == 2:
                    os.kill(os.getpid(), signal.SIGKILL)

            return learn_pieces(*given, **{**more, "save": saves})

        module = "glove" if recipe == "glove" else "word2vec"
        monkeypatch.setattr(f"anaphora.models.vectors.{module}.learn_pieces", deadly)
        learn(run, recipe, words["text"])

    for _ in range(2):
        assert in_a_child(killed) == -signal.SIGKILL
        assert not (run / "model.safetensors").exists()
    learn(run, recipe, words["text"])
    assert same_numbers(run, words[recipe])


@pytest.mark.parametrize("recipe", RECIPES)
def test_vectors_that_are_interrupted_are_saved_at_once(
    words: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    """However long it is to the next checkpoint."""
    from anaphora.models.vectors.pieces import Learned

    run, add = tmp_path / "run", Learned.add

    def asked(self: Learned, piece: Any) -> None:
        add(self, piece)
        if self.pieces == 2:
            os.kill(os.getpid(), signal.SIGHUP)

    with monkeypatch.context() as patch:
        patch.setattr(Learned, "add", asked)
        with pytest.raises(Interrupted):
            learn(run, recipe, words["text"], seconds=1e9)
    assert not (run / "model.safetensors").exists() and any((run / "checkpoints").glob("*.safetensors"))
    learn(run, recipe, words["text"], seconds=1e9)
    assert same_numbers(run, words[recipe])
