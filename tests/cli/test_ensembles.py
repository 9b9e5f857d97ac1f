"""Ensembles and minimum Bayes risk through the command line: a folder that is used as any model, and mistakes."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.pipelines.ensemble_model import EnsembleModel
from micro_runs import MICRO, write_pairs
from ngram_folders import VERSE, ngram_folder

BARE = {key: value for key, value in MICRO.items() if key not in ("model.heads", "model.feed_forward")}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, micro: Path, corpus: dict[str, Path]) -> Path:
    """Translators of two kinds with one vocabulary, two others with another that read different words, and one model of
    a single language; all after an update or two."""
    where = tmp_path_factory.mktemp("ensembles")
    shutil.copytree(micro, where / "one")
    once = {"training.max_steps": 1, "training.checkpoint_every": 1, "training.learning_rate": 0.02}

    def train(name: str, recipe: str, settings: dict[str, Any], files: dict[str, Path] = corpus) -> None:
        anaphora.train(where / name, **files, recipe=recipe, settings={**settings, **once}, device="cpu")

    train("two", "transformer", {**MICRO, "training.seed": 2, "model.max_length": 40})
    train("three", "bahdanau", BARE)
    apart = {"tokenizer.shared": False, "model.tie": "target"}
    train("left", "bahdanau", {**BARE, **apart})
    turned = {"source": where / "turned.en", "target": corpus["target"]}
    lines = corpus["source"].read_text().splitlines()
    turned["source"].write_text("".join(line.upper() + "\n" for line in lines))
    train("right", "bahdanau", {**BARE, **apart, "decoding.mbr": "bleu", "decoding.mbr_samples": 3}, turned)
    ngram_folder(where / "verse", VERSE)
    write_pairs(where, 12, 5, name="test")
    return where


def members(world: Path, *names: str) -> list[Path]:
    return [world / name for name in names]


def test_a_folder_that_is_used_as_any_model(say: Any, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "together"
    answer = say("mix", out, *members(world, "one", "two", "three"), "--device", "cpu")
    assert answer.code == 0, answer.err
    assert [line.split()[:2] for line in answer.out.splitlines()[1:]] == [
        ["one", "0.3333"],
        ["two", "0.3333"],
        ["three", "0.3333"],
    ]  # nothing was measured, so there is no line for the whole
    assert "equal weights" in answer.err
    moved = out.rename(tmp_path / "moved")  # and needs nothing else
    assert {path.name for path in moved.iterdir()} == {"config.yaml", "metrics.json", "card.md", "one", "two", "three"}
    loaded = anaphora.load(moved, device="cpu")
    assert isinstance(loaded, EnsembleModel)
    assert loaded.model.max_target_length == 40
    source, target = (world / f"test.{side}" for side in ("en", "de"))

    # the quick way says the same as the folder, and order changes nothing
    asked = ["--device", "cpu", "--json", "--alignments", "pharaoh", "--n-best", "2"]
    quick = ["--with", world / "three", "--with", world / "two"]
    kept = json.loads(say("translate", moved, source, *asked).last)["translations"]
    now = json.loads(say("translate", world / "one", source, *quick, *asked).last)["translations"]
    assert [one["text"] for one in kept] == [one["text"] for one in now]
    assert [one["score"] for one in kept] == pytest.approx([one["score"] for one in now], abs=1e-4)
    assert [one["alignment"]["links"] for one in kept] == [one["alignment"]["links"] for one in now]
    assert kept[0]["alignment"]["method"]["kind"] == "members"
    assert len(kept[0]["n_best"]) == 2

    # scoring agrees with the mean by its definition
    files = ["--source", source, "--target", target, "--device", "cpu"]
    lines = source.read_text().splitlines(), target.read_text().splitlines()
    alone = [
        [pair.token_scores for pair in anaphora.load(one, device="cpu").score(*lines)]
        for one in members(world, "one", "two", "three")
    ]  # type: ignore[union-attr]
    scored = json.loads(say("score", moved, *files, "--json").last)["pairs"]
    for pair, *each in zip(scored, *alone):
        means = [math.log(sum(math.exp(value) for _, value in token) / 3) for token in zip(*each)]
        assert pair["log_probability"] == pytest.approx(math.fsum(means), abs=1e-3)

    found = json.loads(say("evaluate", moved, *files, "--by-length", "5", "--json").last)
    assert (found["lines"], found["search"]) == (12, "beam 5")
    assert found["by_length"]
    assert say("align", moved, *files).code == 0
    assert say("align", moved, *files, "--method", "occlusion").code == 0
    told = json.loads(say("info", moved, "--json").last)
    assert told["parameters"] == sum(one["parameters"] for one in told["members"])
    sizes = [json.loads(say("info", one, "--json").last) for one in members(world, "one", "two", "three")]
    assert told["flops_per_pair"] == pytest.approx(sum(one["flops_per_pair"] for one in sizes))
    assert "member  three, weight 0.3333: bahdanau" in say("info", moved).out
    assert "| three | bahdanau (bahdanau) |" in (moved / "card.md").read_text()


def test_weights_given_tuned_and_of_one_member_alone(say: Any, world: Path, tmp_path: Path) -> None:
    source = world / "test.en"
    pairs = ["--source", source, "--target", world / "test.de"]
    answer = say("mix", tmp_path / "first", *members(world, "one", "three"), "--weights", "1,0", "--mean", "logs")
    assert answer.code == 0 and "weights as given" in answer.err
    alone, first = (say("translate", folder, source).out for folder in (world / "one", tmp_path / "first"))
    assert alone == first
    answer = say("mix", tmp_path / "tuned", *members(world, "one", "two", "three"), *pairs, "--json")
    made = json.loads(answer.last)
    assert sum(part["weight"] for part in made["parts"]) == pytest.approx(1)
    assert made["perplexity"] <= min(part["perplexity"] for part in made["parts"]) * (1 + 1e-6)
    measured = json.loads(say("score", tmp_path / "tuned", *pairs, "--json").last)
    assert math.exp(measured["loss"]) == pytest.approx(made["perplexity"], rel=1e-4)
    nested = say(
        "mix",
        tmp_path / "nested",
        tmp_path / "tuned",
        world / "three",
        "--valid-source",
        source,
        "--valid-target",
        world / "test.de",
    )
    assert nested.code == 0 and "on valid text" in nested.out
    assert say("translate", tmp_path / "nested", source, "--alignments", "pharaoh").code == 0


def test_members_may_read_other_words_than_one_another(world: Path) -> None:
    """Each reads the text its own way: the source vocabularies differ, the target's is one."""
    both = anaphora.load([world / "left", world / "right"], device="cpu")
    assert isinstance(both, EnsembleModel)
    alone = [anaphora.load(world / name, device="cpu") for name in ("left", "right")]
    assert alone[0].source_tokenizer.fingerprint() != alone[1].source_tokenizer.fingerprint()  # type: ignore[union-attr]
    lines = (world / "test.en").read_text().splitlines(), (world / "test.de").read_text().splitlines()
    each = [list(model.score(*lines)) for model in alone]  # type: ignore[union-attr]
    for pair, one, other in zip(both.score(*lines), *each):
        means = [
            math.log((math.exp(a) + math.exp(b)) / 2) for (_, a), (_, b) in zip(one.token_scores, other.token_scores)
        ]
        assert pair.log_probability == pytest.approx(math.fsum(means), abs=1e-3)
    said = both.translate(lines[0][:3], align=True, coverage_penalty=0.1)
    assert all(one.alignment is not None for one in said)


def test_minimum_bayes_risk(say: Any, world: Path) -> None:
    source, few = world / "test.en", ["--set", "mbr_samples=6", "--set", "max_length=12"]
    ensemble = ["--with", world / "two"]
    first = say("translate", world / "one", source, "--mbr", "chrf", *few, *ensemble, "--n-best", "3", "--seed", "7")
    assert first.code == 0, first.err
    again = say("translate", world / "one", source, "--mbr", "chrf", *few, *ensemble, "--n-best", "3", "--seed", "7")
    assert first.out == again.out
    stopped = say("translate", world / "one", source, "--mbr", "chrf", *few, "--stop", "e", "--temperature", "0.8")
    assert stopped.code == 0 and "e" not in stopped.out
    files = ["--source", source, "--target", world / "test.de"]
    found = json.loads(say("evaluate", world / "one", *files, "--mbr", "bleu", *few, "--json").last)
    assert found["search"] == "MBR (bleu) over 6 samples and beam 5"
    kept = anaphora.load(world / "right", device="cpu")  # what a run says of it, translating obeys and validation not
    assert kept.decoding().describe() == "MBR (bleu) over 3 samples and beam 5"  # type: ignore[union-attr]
    assert json.loads((world / "right" / "metrics.json").read_text())["validation"]["beam"] == 5
    beam = ["--set", "mbr_candidates=beam"]
    answer = say("translate", world / "one", source, "--mbr", "chrf", *beam, "--seed", "2")
    assert answer.code == 2 and "--seed is for sampling, and nothing is sampled" in answer.err
    answer = say("translate", world / "one", source, "--mbr", "ter")
    assert answer.code == 2 and "mbr" in answer.err and "chrf" in answer.err
    answer = say("translate", world / "one", source, "--mbr", "chrf", "--sample")
    assert answer.code == 2 and "leave out sample" in answer.err


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["one", "left"], [], "/left: has a different target vocabulary than "),
        (["one", "verse"], [], "/verse is none: they have no words to choose together"),
        (["verse", "one"], [], "/one: is a translator, and "),
        (["one"], [], "an ensemble needs at least two models, not 1"),
        (["one", "none"], [], "/none: there is no such folder"),
        (["one", "two"], ["--text", "a.txt"], "a.txt: is text of one language"),
        (["one", "two"], ["--weights", "0.5,0.6"], "are not shares of one"),
        (["one", "two"], ["--mean", "log"], "--mean log is unknown; did you mean 'logs'"),
        (["one", "two"], ["--source", "none.en"], "none.en"),
        (["verse", "verse"], ["--source", "a.en"], "--source is about translators"),
        (["verse", "verse"], ["--mean", "logs", "--weights", "1,0"], "a mixture is a mean of probabilities"),
    ],
)
def test_mistakes(names: list[str], options: list[str], message: str, say: Any, world: Path, tmp_path: Path) -> None:
    answer = say("mix", tmp_path / "out", *members(world, *names), *options, "--device", "cpu")
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_more_mistakes(say: Any, world: Path, corpus: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "both"
    assert say("mix", out, *members(world, "one", "two")).code == 0
    before = (out / "config.yaml").read_bytes()
    for words, message in (
        (["mix", out, out / "one", world / "two", "--force"], "is one of the parts itself, or holds it"),
        (["mix", out, *members(world, "one", "two")], "already exists"),
        (["walk", out, "The dog sees."], "is an ensemble, which has no attention of its own"),
        (["align", out, "--source", world / "test.en", "--target", world / "test.de", "--method", "0.0"],
         "an ensemble has no layers and heads of its own"),
        (["average", out], "is an ensemble, which has no checkpoints"),
        (["train", out, "--source", corpus["source"], "--target", corpus["target"]], "holds a model of kind ensemble"),
        (["train", tmp_path / "on", "--from", out, "--source", corpus["source"], "--target", corpus["target"]],
         "an ensemble has no model of its own"),
        (["translate", world / "one", world / "test.en", "--with", world / "left"], "a different target vocabulary"),
        (["translate", world / "one", world / "test.en", "--with", world / "verse"], "is a language model"),
        (["score", world / "verse", "--text", world / "test.en", "--with", world / "one"], "--with is for transl"),
    ):  # fmt: skip
        answer = say(*words, *(["--device", "cpu"] if words[0] in ("train", "translate", "align") else []))
        assert (answer.code, message in answer.err) == (2, True), (words, answer.err)
        assert "Traceback" not in answer.err
    assert (out / "config.yaml").read_bytes() == before
    shutil.rmtree(out / "two")
    (out / "two").symlink_to(out)  # a folder that leads back to itself
    with pytest.raises(UserError, match="is an ensemble that holds itself"):
        anaphora.load(out, device="cpu")
    with pytest.raises(UserError, match="needs at least two models, not 1"):
        anaphora.load([world / "one"], device="cpu")
