"""Models made of other models, by processes that are killed: whole or not there, and nothing stays behind."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from anaphora.folder import UNFINISHED, atomic_folder
from anaphora.interop.conversion import convert
from anaphora.pipelines.mixing import mix
from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from deadly import Deadly, in_a_child
from ngram_folders import VERSE, WORDS, ngram_folder


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("parts")
    words = Tokenizer.train(TokenizerConfig(**WORDS), VERSE)  # type: ignore[arg-type]
    ngram_folder(where / "one", VERSE[:4], words=words, order=2)
    ngram_folder(where / "two", VERSE[3:], words=words, order=2)
    convert(where / "one", where / "one.arpa")
    (where / "text.txt").write_text("\n".join(VERSE))
    return where


def to_arpa(parts: Path, out: Path) -> Path:
    return convert(parts / "one", out / "new.arpa", force=True).target


def to_folder(parts: Path, out: Path) -> Path:
    return convert(parts / "one.arpa", out / "new", force=True).target


def to_mixture(parts: Path, out: Path) -> Path:
    return Path(mix(out / "new", [parts / "one", parts / "two"], text=parts / "text.txt", force=True).folder)


@pytest.mark.parametrize(
    ("make", "again"), [(to_arpa, False), (to_arpa, True), (to_folder, False), (to_folder, True), (to_mixture, True)]
)
def test_killed_at_any_moment(
    make: Callable[[Path, Path], Path], again: bool, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "whole"):
        (tmp_path / name).mkdir()
    # what is compiled is stored under a new name too, the first time: none of these moments
    expected = TextModel(make(parts, tmp_path / "first")).log_probabilities(VERSE)
    if again:
        make(parts, tmp_path / "whole")
    with monkeypatch.context() as patch:
        moments = Deadly(patch, 1 << 30)
        make(parts, tmp_path / "whole")
    last = (1 << 30) - moments.left
    apart = 10 if make is to_mixture else 5
    # in the end, where names change, each one
    for at in [*range(1, last - 5, apart), *range(max(1, last - 5), last + 1)]:
        out = tmp_path / str(at)
        out.mkdir()
        if again:  # over what was made before
            make(parts, out)

        def attempt(out: Path = out, at: int = at) -> None:
            Deadly(monkeypatch, at)
            make(parts, out)

        ended = in_a_child(attempt)
        whole = [path for path in out.iterdir() if not path.name.startswith(UNFINISHED)]
        for path in whole:
            assert (TextModel(path).log_probabilities(VERSE) == expected).all()
        assert (TextModel(make(parts, out)).log_probabilities(VERSE) == expected).all()
        assert len(list(out.iterdir())) == 1, "what the killed process left is swept away"
        shutil.rmtree(out)
        assert ended == -signal.SIGKILL


def test_what_others_are_making_stays(tmp_path: Path) -> None:
    for name in (f"{UNFINISHED}{os.getppid()}-new", f"{UNFINISHED}x-new", f"{UNFINISHED}{2**22 + 1}-newer", "new.old"):
        (tmp_path / name).mkdir()
    (tmp_path / f"{UNFINISHED}{2**22 + 1}-new").mkdir()  # no process has such a number
    before = {path.name for path in tmp_path.iterdir()}
    with atomic_folder(tmp_path / "new") as made:
        (made / "file").touch()
    assert {path.name for path in tmp_path.iterdir()} == (before - {f"{UNFINISHED}{2**22 + 1}-new"}) | {"new"}
