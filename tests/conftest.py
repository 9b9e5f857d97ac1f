"""What all tests share: one thread (two cores, small models), a small corpus, a micro model trained once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from anaphora.cli.interruption import SIGNALS
from micro_runs import MICRO, write_pairs

pytest_plugins = ["corpora"]  # fixtures: texts that the tests of several rooms share

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the commands that are tested; idle threads spin, and both cores work
torch.set_num_threads(1)  # models of 16 dimensions lose more by waiting for a second thread than they win

HANDLERS = {number: signal.getsignal(number) for number in SIGNALS}

settings.register_profile("anaphora", deadline=None, max_examples=25, derandomize=True, print_blob=True)
settings.load_profile("anaphora")


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """`main` takes the signals of its process, and here that is the one of the tests."""
    yield
    for number, handler in HANDLERS.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Twenty lines, as files. Read only."""
    return write_pairs(tmp_path_factory.mktemp("corpus"), 20)


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory, corpus: dict[str, Path]) -> Path:
    """A model folder after two updates. Read only: copy it to change it."""
    import anaphora

    folder = tmp_path_factory.mktemp("micro") / "run"
    anaphora.train(folder, **corpus, settings=MICRO, device="cpu")
    return folder
