"""`--from`: a trained model learns on, on new text; it keeps tokenizer and shape, and refuses what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.models.weights import read_weights
from micro_runs import MICRO, WORDS, pairs, write_pairs

LEARN: dict[str, Any] = {
    **MICRO,
    "model.dim": 32,
    "model.feed_forward": 64,
    "model.dropout": 0.0,
    "training.max_steps": 150,
    "training.checkpoint_every": 50,
    "training.learning_rate": 5e-3,
    "training.warmup_steps": 20,
    "training.samples": 0,
}
NEW = {**WORDS, "dog": "Köter", "cat": "Mieze", "tree": "Gewächs", "sees": "erblickt"}  # the new domain's own words


def new_domain(folder: Path, number: int, seed: int) -> dict[str, Path]:
    files = write_pairs(folder, number, seed, name="new")
    targets = [" ".join(NEW[word] for word in source.rstrip(".").split()) + "." for source, _ in pairs(number, seed)]
    files["target"].write_text("".join(line + "\n" for line in targets), encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    anaphora.train(folder / "run", **write_pairs(folder, 300), settings=LEARN, device="cpu")
    return folder / "run"


def lines(files: dict[str, Path]) -> tuple[list[str], list[str]]:
    return tuple(file.read_text(encoding="utf-8").splitlines() for file in files.values())  # type: ignore[return-value]


def only(prefix: str) -> dict[str, Any]:
    return {key: value for key, value in LEARN.items() if key.startswith(prefix)}


def test_it_improves_on_its_start_on_new_text(start: Path, tmp_path: Path) -> None:
    files = new_domain(tmp_path, 200, seed=5)
    test = lines(new_domain(tmp_path / "test", 40, seed=77))
    settings = {**only("training."), "training.max_steps": 100}
    anaphora.train(tmp_path / "run", **files, start_from=start, settings=settings, device="cpu")
    before, after = (anaphora.load(folder, "cpu").evaluate(*test) for folder in (start, tmp_path / "run"))
    assert after.loss < 0.8 * before.loss
    assert after.chrf > before.chrf
    # and the start was worth something: as many updates from nothing are worse
    anaphora.train(tmp_path / "fresh", **files, settings={**LEARN, "training.max_steps": 100}, device="cpu")
    fresh = anaphora.load(tmp_path / "fresh", "cpu").evaluate(*test)
    assert after.chrf > fresh.chrf


def test_it_keeps_tokeniser_and_shape_and_leaves_its_start_alone(start: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in start.iterdir() if file.is_file()}
    settings = {**only("training."), "training.max_steps": 2, "training.checkpoint_every": 1}
    anaphora.train(
        tmp_path / "run", **new_domain(tmp_path, 40, seed=5), start_from=start, settings=settings, device="cpu"
    )
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == (start / "tokenizer.json").read_bytes()
    old, new = (anaphora.load(folder, "cpu").config for folder in (start, tmp_path / "run"))
    assert old.model == new.model
    assert new.start_from == start.name
    assert {file.name: file.read_bytes() for file in start.iterdir() if file.is_file()} == before
    assert f"It started from `{start.name}`" in (tmp_path / "run" / "card.md").read_text()


def test_the_first_update_starts_from_those_weights(start: Path, tmp_path: Path) -> None:
    settings = {**only("training."), "training.max_steps": 1, "training.learning_rate": 1e-12}
    anaphora.train(
        tmp_path / "run", **new_domain(tmp_path, 40, seed=5), start_from=start, settings=settings, device="cpu"
    )
    old, new = (read_weights(folder / "model.safetensors") for folder in (start, tmp_path / "run"))
    assert max((old[name] - new[name]).abs().max().item() for name in old) < 1e-6


def test_it_goes_on_by_the_same_call_and_not_from_the_start_again(start: Path, tmp_path: Path) -> None:
    files = new_domain(tmp_path, 40, seed=5)
    settings = {**only("training."), "training.checkpoint_every": 1}
    runs = {"whole": (4,), "parts": (2, 4)}
    for name, limits in runs.items():
        for limit in limits:
            limited = {**settings, "training.max_steps": limit}
            anaphora.train(tmp_path / name, **files, start_from=start, settings=limited, device="cpu")
    whole, parts = (read_weights(tmp_path / name / "checkpoints/step-00000004/model.safetensors") for name in runs)
    assert all((whole[name] == parts[name]).all() for name in whole)


def test_separate_vocabularies_are_kept(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, 30)
    anaphora.train(
        tmp_path / "start",
        **files,
        settings={**MICRO, "tokenizer.shared": False, "tokenizer.kind": "word"},
        device="cpu",
    )
    settings = {key: value for key, value in MICRO.items() if key.startswith("training.")}
    anaphora.train(
        tmp_path / "run", **new_domain(tmp_path, 30, 5), start_from=tmp_path / "start", settings=settings, device="cpu"
    )
    old, new = (anaphora.load(tmp_path / name, "cpu") for name in ("start", "run"))
    assert old.source_tokenizer.fingerprint() == new.source_tokenizer.fingerprint()
    assert old.target_tokenizer.fingerprint() == new.target_tokenizer.fingerprint()
    assert new.config.tokenizer == old.config.tokenizer  # what config.yaml says of the tokenizer is true


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"model.dim": 64}, "model.dim"),
        ({"model.layers": 2}, "model.layers"),
        ({"model.norm": "post"}, "model.norm"),
        ({"model.tie": "none"}, "model.tie"),
        ({"tokenizer.kind": "character"}, "tokenizer.kind"),
        ({"tokenizer.vocabulary": 400}, "tokenizer.vocabulary"),
        ({"tokenizer.shared": False}, "tokenizer.shared"),
    ],
)
def test_another_shape_or_tokeniser_is_refused(
    settings: dict[str, Any], named: str, start: Path, tmp_path: Path
) -> None:
    files = new_domain(tmp_path, 40, seed=5)
    merged = {**only("training."), "training.max_steps": 1, **settings}
    with pytest.raises(UserError) as caught:
        anaphora.train(tmp_path / "run", **files, start_from=start, settings=merged, device="cpu")
    assert named in str(caught.value)


def test_dropout_may_change(start: Path, tmp_path: Path) -> None:
    """It belongs to the learning, not to the weights."""
    settings = {**only("training."), "training.max_steps": 1, "model.dropout": 0.4, "tokenizer.dropout": 0.1}
    anaphora.train(
        tmp_path / "run", **new_domain(tmp_path, 40, seed=5), start_from=start, settings=settings, device="cpu"
    )
    config = anaphora.load(tmp_path / "run", "cpu").config
    assert (config.model.dropout, config.tokenizer.dropout) == (0.4, 0.1)


def test_a_start_that_is_no_model(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, 20)
    for start, message in (
        (tmp_path / "absent", "no such folder|not a model folder|no weights"),
        (tmp_path, "not a model"),
    ):
        with pytest.raises(UserError, match=message):
            anaphora.train(tmp_path / "run", **files, start_from=start, settings=MICRO, device="cpu")
