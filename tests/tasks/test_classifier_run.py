"""Runs of classifiers: a label for each line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import anaphora
from anaphora.data.labels import TRAIN_CLASSES, VALID_CLASSES
from anaphora.data.prepared_text import TRAIN, VALID
from anaphora.errors import UserError
from anaphora.models.registry import kinds
from language_runs import MICRO, of_kind, refused, refused_by_recipe, train

PARTS = (TRAIN, VALID, TRAIN_CLASSES, VALID_CLASSES)


@pytest.mark.parametrize("kind", sorted({*kinds("language")} - {"backpack"}))  # which says words, not classes
def test_a_classifier_of_every_kind(kind: str, labeled: dict[str, Path], tmp_path: Path) -> None:
    settings = {"training.max_steps": 60, "training.checkpoint_every": 20, "training.learning_rate": 1e-2}
    settings |= {"training.batch_tokens": 512, "model.dropout": 0.0, "model.pool": "mean", "data.hold_out": 50}
    chosen = {**of_kind(kind), **settings}
    chosen.pop("training.context")
    outcome = anaphora.train(tmp_path / "run", **labeled, recipe=kind, settings=chosen, device="cpu")
    assert outcome.validation["texts"] > 0
    assert outcome.validation["accuracy"] > 0.85
    config = (tmp_path / "run/config.yaml").read_text()
    assert "- as\n" in config and "- bs\n" in config


def test_a_classifier_may_read_both_ways(labeled: dict[str, Path], tmp_path: Path) -> None:
    """Its cells read from both sides, each half as wide; a language model's may not."""
    from anaphora.models.weights import read_weights

    chosen = {**of_kind("gru"), "model.bidirectional": True, "data.hold_out": 50}
    chosen.pop("training.context")
    outcome = anaphora.train(tmp_path / "run", **labeled, recipe="gru", settings=chosen, device="cpu")
    assert outcome.validation["texts"] == 50
    assert any(name.endswith("_reverse") for name in read_weights(tmp_path / "run/model.safetensors"))


def test_a_classifier_starts_from_a_language_model(labeled: dict[str, Path], tmp_path: Path) -> None:
    from anaphora.models.weights import read_weights

    train(tmp_path / "model", {"text": labeled["text"]}, "gru", {"data.boundaries": "lines"})
    own = {key: value for key, value in MICRO.items() if key.startswith("training.") and "context" not in key}
    own |= {"training.learning_rate": 1e-9, "training.max_steps": 1}
    anaphora.train(tmp_path / "run", **labeled, recipe="gru", start_from=tmp_path / "model", settings=own, device="cpu")
    before, after = (read_weights(tmp_path / name / "model.safetensors") for name in ("model", "run"))
    shared = [name for name in before if name.startswith(("embedding", "encoder"))]
    assert shared
    for name in shared:
        assert torch.allclose(before[name], after[name], atol=1e-6), name


def test_validation_labels(labeled: dict[str, Path], tmp_path: Path) -> None:
    valid = {"valid_text": tmp_path / "valid.txt", "valid_labels": tmp_path / "valid.labels"}
    valid["valid_text"].write_text("A A A\nB B B\nB A B\n")
    valid["valid_labels"].write_text("as\nbs\nbs\n")
    chosen = {**of_kind("dan"), "training.metric": "accuracy"}
    chosen.pop("training.context")
    outcome = anaphora.train(tmp_path / "run", **labeled, **valid, recipe="dan", settings=chosen, device="cpu")
    assert outcome.validation["texts"] == 3
    valid["valid_labels"].write_text("as\nbs\ncs\n")
    with pytest.raises(UserError, match=r"valid\.labels:3: the label 'cs' is not in the training labels \(as, bs\)"):
        anaphora.train(tmp_path / "other", **labeled, **valid, recipe="dan", settings=chosen, device="cpu")


def test_labels_of_blank_lines(labeled: dict[str, Path], tmp_path: Path) -> None:
    """Left out, they go with their lines, whatever they are; kept, they are like any others."""
    blank = {"text": tmp_path / "text.txt", "labels": tmp_path / "labels.txt"}
    gap = {"text": "", "labels": "as"}
    for name, path in blank.items():
        here = labeled[name].read_text().splitlines()
        path.write_text("".join(f"{line}\n" for line in [gap[name], *here[:200], gap[name], *here[200:], gap[name]]))
    chosen = {**of_kind("dan"), "data.hold_out": 50, "data.blank_lines": "drop"}
    chosen.pop("training.context")
    found = []
    for name, given in (("without", labeled), ("with", blank)):
        anaphora.train(tmp_path / name, **given, recipe="dan", settings=chosen, device="cpu")
        found.append([(tmp_path / name / "data" / part).read_bytes() for part in PARTS])
    assert found[0] == found[1]
    blank["labels"].write_text(blank["labels"].read_text().replace("as\n", "\n", 1))  # nobody asks for it
    anaphora.train(tmp_path / "unlabelled", **blank, recipe="dan", settings=chosen, device="cpu")
    assert [(tmp_path / "unlabelled/data" / part).read_bytes() for part in PARTS] == found[0]
    said = refused(tmp_path / "run", "dan", {"data.boundaries": "lines"}, blank)
    assert f"{blank['labels']}:1: has no label" in said


def test_a_label_that_is_held_out_alone(tmp_path: Path) -> None:
    """However lines are drawn: it is learned from, or its line is named."""
    files = {"text": tmp_path / "text.txt", "labels": tmp_path / "labels.txt"}
    files["text"].write_text("".join(f"w{number}\n" for number in range(20)))
    files["labels"].write_text("a\nb\n" * 7 + "c\n" + "a\n" * 5)
    held = 0
    for seed in range(6):
        run = tmp_path / f"run{seed}"
        try:
            train(run, files, "dan", {"data.boundaries": "lines", "data.hold_out": 9, "data.seed": seed})
        except UserError as error:
            assert f"{files['labels']}:15: the label 'c' is not in the training labels (a, b)" in str(error)
            assert "set another data.seed" in str(error)
            assert not run.exists()
            held += 1
    assert 0 < held < 6


def test_labels_that_do_not_fit(labeled: dict[str, Path], tmp_path: Path) -> None:
    short, one, holes = tmp_path / "short.txt", tmp_path / "one.txt", tmp_path / "holes.txt"
    short.write_text("as\n" * 399)
    one.write_text("as\n" * 400)
    holes.write_text("as\nbs\n\n" + "as\n" * 397)
    run, text = tmp_path / "run", labeled["text"]
    settings = {"data.boundaries": "lines"}
    said = refused(run, "gru", settings, {"text": text, "labels": short})
    assert "there are 400 lines of text, but only 399 labels" in said
    assert "only one label" in refused(run, "gru", settings, {"text": text, "labels": one})
    assert f"{holes}:3: has no label" in refused(run, "gru", settings, {"text": text, "labels": holes})
    assert "labels are for single lines" in refused(run, "gru", {"data.boundaries": "stream"}, labeled)
    assert "does not tell texts apart" in refused_by_recipe(run, "ngram", labeled)
    pairs = {"source": text, "target": text, "labels": labeled["labels"]}
    assert "a translator learns from pairs; leave out labels" in refused_by_recipe(run, "tiny", pairs)
