"""Runs of word vectors: from text to a folder, on after a kill, on with other text and new words, and mistakes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.tasks.vectors_run import LearnedVectors
from deadly import Deadly, in_a_child
from vector_runs import SMALL, grouped, learn, purity


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("vectors") / "text.txt"
    file.write_text(grouped() + "rare words are left out\n")
    return file


@pytest.fixture(scope="module")
def run(text: Path) -> Path:
    """A finished run. Read only."""
    learn(text.parent / "run", text=text)
    return text.parent / "run"


def test_a_run_makes_a_folder_that_knows_what_belongs_together(run: Path, text: Path) -> None:
    model = anaphora.load(run)
    assert isinstance(model, anaphora.VectorsModel)
    assert len(model.vectors) == 48 and purity(model.vectors) > 0.95
    assert "rare" not in model.vectors and "aword1" in model.vectors
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["finished"] is True and len(metrics["losses"]) == 3
    assert metrics["losses"][-1] < metrics["losses"][0]
    assert metrics["words_per_second"] > 0 and metrics["unknown_tokens"] == 5
    assert "Vectors of 48 words" in (run / "card.md").read_text()
    assert anaphora.load(run).info()["settings"]["model"]["algorithm"] == "skipgram"


def test_cbow_learns_too(text: Path, tmp_path: Path) -> None:
    learn(tmp_path / "run", text=text, recipe="cbow", settings={"training.epochs": 8})
    model = anaphora.load(tmp_path / "run")
    assert model.config.vectors[0].algorithm == "cbow" and purity(model.vectors) > 0.9  # type: ignore[union-attr]


def test_glove_learns_too_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(grouped(3000, noise=0.3))  # of pairs that never come, GloVe learns nothing
    settings: dict[str, Any] = {"model.dim": 16, "training.threads": 1, "training.epochs": 25, "model.x_max": 10}

    def run(folder: Path, **more: Any) -> LearnedVectors:
        outcome = anaphora.train(folder, text=text, recipe="glove", settings={**settings, **more})
        assert isinstance(outcome, LearnedVectors)
        return outcome

    outcome = run(tmp_path / "run")
    assert len(outcome.losses) == 25 and outcome.losses[-1] < outcome.losses[0]
    assert purity(anaphora.load(tmp_path / "run").vectors) > 0.9  # type: ignore[union-attr]
    assert run(tmp_path / "run").reason == "it was finished already"
    assert "pairs a second" in (tmp_path / "run" / "card.md").read_text()

    def work() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Deadly(patch, 60)
            run(tmp_path / "killed", **{"training.checkpoint_seconds": 1e-9})

    assert in_a_child(work) != 0
    assert "not finished" in anaphora.load(tmp_path / "killed").notes[0]  # type: ignore[union-attr]
    run(tmp_path / "killed")
    files = [tmp_path / name / "model.safetensors" for name in ("run", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
    with pytest.raises(UserError, match="starts from nothing"):
        anaphora.train(tmp_path / "more", text=text, recipe="glove", start_from=tmp_path / "run")
    more = learn(tmp_path / "more", text=text, start_from=tmp_path / "run")  # as vectors alone
    assert more.new_words == 0 and more.dim == 16


def test_repeating_the_command_changes_nothing(run: Path, text: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file() and path.name != ".lock"}
    outcome = learn(run, text=text)
    assert outcome.reason == "it was finished already" and outcome.vocabulary == 48
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_killed_anywhere_goes_on_to_the_same_bytes(run: Path, text: Path, tmp_path: Path) -> None:
    whole = (run / "model.safetensors").read_bytes()
    killed = 0
    for at in (3, 12, 25, 40, 70):
        folder = tmp_path / f"run{at}"

        def work(at: int = at, folder: Path = folder) -> None:
            with pytest.MonkeyPatch.context() as patch:
                Deadly(patch, at)
                learn(folder, text=text, settings={"training.checkpoint_seconds": 1e-9})

        killed += in_a_child(work) != 0
        if at == 40:  # what was saved is usable
            unfinished = anaphora.load(folder)
            assert "not finished" in unfinished.notes[0] and len(unfinished.vectors) == 48  # type: ignore[union-attr]
        learn(folder, text=text)
        assert (folder / "model.safetensors").read_bytes() == whole
    assert killed >= 4


def test_going_on_with_other_text_keeps_old_words_and_learns_new_ones(run: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text(grouped(seed=5, groups="cdg"))
    outcome = learn(tmp_path / "more", text=more, start_from=run, settings={"training.epochs": 6})
    assert outcome.new_words == 8 and outcome.vocabulary == 56
    old, new = anaphora.load(run).vectors, anaphora.load(tmp_path / "more").vectors  # type: ignore[union-attr]
    np.testing.assert_array_equal(old["aword1"], new["aword1"])  # it does not stand in the new text
    assert not np.array_equal(old["cword1"], new["cword1"])
    assert all(word.startswith("gword") for word, _ in new.most_similar("gword1", topn=5))
    assert learn(tmp_path / "more", text=more, start_from=run, settings={"training.epochs": 6}).new_words == 8


def test_a_run_killed_after_it_took_up_new_words_goes_on(run: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text(grouped(400, seed=5, groups="cg"))
    learn(tmp_path / "whole", text=more, start_from=run)

    def work() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Deadly(patch, 39)
            learn(tmp_path / "run", text=more, start_from=run, settings={"training.checkpoint_seconds": 1e-9})

    assert in_a_child(work) != 0 and (tmp_path / "run" / "checkpoints" / "word2vec.safetensors").exists()
    assert learn(tmp_path / "run", text=more, start_from=run).new_words == 8
    files = [folder / "model.safetensors" for folder in (tmp_path / "run", tmp_path / "whole")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_vectors_of_another_tool_can_be_gone_on_from(run: Path, tmp_path: Path) -> None:
    model = anaphora.load(run)
    model.save(tmp_path / "theirs.txt")  # type: ignore[union-attr]
    more = tmp_path / "more.txt"
    more.write_text(grouped(300, seed=5, groups="ag"))
    settings = {name: value for name, value in SMALL.items() if name != "model.dim"}
    outcome = anaphora.train(tmp_path / "run", text=more, start_from=tmp_path / "theirs.txt", settings=settings)
    assert outcome.dim == 16 and outcome.vocabulary == 56  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"has model\.dim=16, which cannot become 20"):
        learn(tmp_path / "other", text=more, start_from=run, settings={"model.dim": 20})


@pytest.mark.parametrize(("name", "blank"), [("books.tsv", "\t"), ("books.txt", "\t"), ("books.txt", " ")])
def test_items_of_any_sort(name: str, blank: str, tmp_path: Path) -> None:
    spaced = blank == "\t"
    lines = grouped(500, blank=blank).replace("word", " and Peace " if spaced else "word")
    (tmp_path / name).write_text(lines.replace("\n", " \n"))
    learn(tmp_path / "run", items=tmp_path / name, recipe=None)
    vectors = anaphora.load(tmp_path / "run").vectors  # type: ignore[union-attr]
    assert len(vectors) == 48 and ("a and Peace 3" if spaced else "aword3") in vectors
    assert purity(vectors) > 0.9
    assert learn(tmp_path / "run", items=tmp_path / name, recipe=None).reason == "it was finished already"


def test_mistakes_are_said_and_leave_nothing(run: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("each word once\n")
    with pytest.raises(UserError, match=r"few.txt: no word comes 5 times or more .* lower tokenizer.minimum_count"):
        learn(tmp_path / "run", text=tmp_path / "few.txt")
    learn(tmp_path / "run", text=tmp_path / "few.txt", settings={"tokenizer.minimum_count": 1})
    for settings, message in {
        ("model.dim", 0): "dim must be at least 1",
        ("model.dimension", 5): "unknown setting model.dimension",
        ("data.boundaries", "stream"): "data.boundaries means nothing",
        ("training.max_steps", 5): "unknown setting training.max_steps",
        ("tokenizer.kind", "bpe"): "words between blanks",
        ("decoding.beam", 3): "decoding.beam means nothing",
    }.items():
        with pytest.raises(UserError, match=message):
            learn(tmp_path / "none", text=text, settings=dict([settings]))
    for more, message in (
        ({"valid_text": text}, "a validation text tells them nothing"),
        ({"device": "cuda"}, "on the CPU, not on cuda"),
        ({"items": text}, "text and items are both given"),
        ({"labels": text}, "labels"),
    ):
        with pytest.raises(UserError, match=message):
            learn(tmp_path / "none", text=text, **more)  # type: ignore[arg-type]
    assert not (tmp_path / "none").exists()


def test_other_settings_are_refused_unless_forced(text: Path, tmp_path: Path) -> None:
    learn(tmp_path / "run", text=text)
    with pytest.raises(UserError, match=r"training.epochs is 3 there and 4 now.*start_from"):
        learn(tmp_path / "run", text=text, settings={"training.epochs": 4})
    other = tmp_path / "other.txt"
    other.write_text(grouped(300, seed=3))
    with pytest.raises(UserError, match="the text changed"):
        learn(tmp_path / "run", text=other)
    assert len(learn(tmp_path / "run", text=other, settings={"training.epochs": 4}, force=True).losses) == 4


def test_what_starts_from_vectors_must_be_vectors(run: Path, text: Path, micro: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="from which no word vectors can start"):
        learn(tmp_path / "run", text=text, start_from=micro)
    with pytest.raises(UserError, match="from which no language model can start"):
        anaphora.train(tmp_path / "lm", text=text, recipe="lstm", start_from=run)
    with pytest.raises(UserError, match="holds a model of kind transformer"):
        learn(micro, text=text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.objective": "hierarchical-softmax", "model.negatives": 9}, "model.negatives.*negative-sampling"),
        ({"model.objective": "hierarchical-softmax", "model.exponent": 1.0}, "model.exponent.*negative-sampling"),
        ({"model.longest_subword": 5}, r"model\.longest_subword.*model\.subwords=true"),
    ],
)
def test_settings_that_would_change_nothing_are_refused(
    settings: dict[str, Any], message: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        learn(tmp_path / "run", text=text, settings=settings)
    assert not list(tmp_path.iterdir())


def test_settings_of_subwords_and_of_drawn_words_are_kept(text: Path, tmp_path: Path) -> None:
    chosen = {"model.subwords": True, "model.longest_subword": 4, "model.negatives": 2, "training.epochs": 1}
    learn(tmp_path / "run", text=text, settings=chosen)
    config = anaphora.load(tmp_path / "run").config.vectors[0]  # type: ignore[union-attr]
    assert (config.subwords, config.longest_subword, config.negatives) == (True, 4, 2)  # type: ignore[union-attr]


def test_vectors_of_whole_words_cannot_become_subwords(run: Path, text: Path, tmp_path: Path) -> None:
    anaphora.load(run).save(tmp_path / "theirs.txt")  # type: ignore[call-arg, arg-type]
    with pytest.raises(UserError, match=r"theirs\.txt.*nothing of their subwords"):
        learn(tmp_path / "run", text=text, start_from=tmp_path / "theirs.txt", settings={"model.subwords": True})


def test_an_unfinished_run_of_another_kind_is_not_written_over(run: Path, text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "model.safetensors").unlink()
    (folder / "metrics.json").unlink()
    before = (folder / "config.yaml").read_bytes()
    settings = {"model.dim": 16, "training.threads": 1, "training.epochs": 1}
    with pytest.raises(UserError, match="holds a run with other settings"):
        anaphora.train(folder, text=text, recipe="glove", settings=settings)
    assert (folder / "config.yaml").read_bytes() == before
    anaphora.train(folder, text=text, recipe="glove", settings=settings, force=True)
    assert sorted(file.name for file in (folder / "checkpoints").iterdir()) == ["glove.safetensors", "text.json"]


def test_a_run_whose_prepared_text_is_gone_prepares_the_same_text_again(run: Path, text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "data")
    checkpoint = folder / "checkpoints" / "word2vec.safetensors"
    before = checkpoint.read_bytes()
    (tmp_path / "other.txt").write_text(text.read_text() + "another line\n")
    with pytest.raises(UserError, match="prepared text is gone or damaged, and it was not learned from this text"):
        learn(folder, text=tmp_path / "other.txt")
    assert not (folder / "data").exists()
    learn(folder, text=text)
    assert checkpoint.read_bytes() == before
    assert (folder / "data" / "train.ids").read_bytes() == (run / "data" / "train.ids").read_bytes()
    shutil.rmtree(folder / "data")
    (folder / "checkpoints" / "text.json").unlink()  # a run of an earlier version, of which nothing tells the text
    for _ in range(2):
        with pytest.raises(UserError, match="prepared text is gone"):
            learn(folder, text=text)
    assert checkpoint.read_bytes() == before and len(anaphora.load(folder).vectors) == 48  # type: ignore[union-attr]
    learn(folder, text=text, force=True)


def test_damaged_ids_are_named(run: Path, text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "metrics.json").unlink()
    ids = folder / "data" / "train.ids"
    ids.write_bytes(b"\xff\xff\xff\x7f" + ids.read_bytes()[4:])
    with pytest.raises(UserError, match="damaged"):
        learn(folder, text=text)


RAW = "The King, the king!\nA KING (or queen) sees <unk> .\n"
ATTACHED = {"data.punctuation": "attached", "data.lowercase": False}


@pytest.mark.parametrize(
    ("rule", "words", "said"),
    [
        ({}, "the king , ! a ( or queen ) sees <unk> .", "Punctuation apart from words, lower case."),
        (
            {"data.lowercase": False},
            "king The King , the ! A KING ( or queen ) sees <unk> .",
            "Punctuation apart from words, upper and lower case differ.",
        ),
        (
            {"data.punctuation": "attached"},
            "the king, king! a king (or queen) sees <unk> .",
            "Words between blanks, lower case.",
        ),
        (
            ATTACHED,
            "The King, the king! A KING (or queen) sees <unk> .",
            "Words between blanks, upper and lower case differ.",
        ),
    ],
)
def test_what_a_word_is(rule: dict[str, Any], words: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(RAW)
    more = {"tokenizer.minimum_count": 1, "training.epochs": 1}
    learn(tmp_path / "run", text=tmp_path / "raw.txt", settings={**rule, **more})
    model = anaphora.load(tmp_path / "run")
    assert isinstance(model, anaphora.VectorsModel)
    assert set(model.vectors) == set(words.split())
    assert said in (tmp_path / "run" / "card.md").read_text()
    assert model.info()["settings"]["data"]["lowercase"] is rule.get("data.lowercase", True)
    if not rule:
        with pytest.raises(UserError, match=r"'King' has no vector: .* in lower case; look for 'king'"):
            model.neighbours("King")


def test_runs_keep_what_they_took_for_a_word(tmp_path: Path) -> None:
    text, run, more = tmp_path / "raw.txt", tmp_path / "run", {"tokenizer.minimum_count": 1}
    text.write_text(RAW * 30)
    learn(run, text=text, settings={**more, **ATTACHED})
    config = (run / "config.yaml").read_text()
    for line in ("  punctuation: attached\n", "  lowercase: false\n"):  # as an earlier version wrote it
        assert line in config
        config = config.replace(line, "")
    (run / "config.yaml").write_text(config)
    before = (run / "model.safetensors").read_bytes()
    assert learn(run, text=text, settings=more).reason == "it was finished already"
    assert (run / "model.safetensors").read_bytes() == before
    assert learn(tmp_path / "on", text=text, settings=more, start_from=run).new_words == 0
    with pytest.raises(UserError, match=r"holds a run with other settings: data\.punctuation is 'attached' there"):
        learn(run, text=text, settings={**more, "data.punctuation": "apart"})
    anaphora.load(run).save(tmp_path / "theirs.txt")  # type: ignore[union-attr]
    learn(tmp_path / "theirs", text=text, settings=more, start_from=tmp_path / "theirs.txt")
    words = anaphora.load(tmp_path / "theirs").vectors.index_to_key  # type: ignore[union-attr]
    assert {"KING", "The", ","} <= set(words) and "a" not in words  # of a file with capitals, the text's stay


def test_items_and_given_words_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(RAW * 3)
    (tmp_path / "words.txt").write_text("<s>\n</s>\nKing,\nking!\n")
    more = {"tokenizer.minimum_count": 1, "training.epochs": 1}
    learn(tmp_path / "items", items=tmp_path / "raw.txt", settings=more)
    assert "King," in anaphora.load(tmp_path / "items").vectors  # type: ignore[union-attr]
    given = {**more, "tokenizer.words": str(tmp_path / "words.txt")}
    learn(tmp_path / "given", text=tmp_path / "raw.txt", settings=given)
    assert json.loads((tmp_path / "given" / "metrics.json").read_text())["unknown_tokens"] == 27
    with pytest.raises(UserError, match=r"data\.lowercase is about words, and items stay as they are; leave it out"):
        learn(tmp_path / "no", items=tmp_path / "raw.txt", settings={"data.lowercase": True})
    with pytest.raises(UserError, match=r"data\.punctuation means nothing for a model of kind ngram"):
        anaphora.train(tmp_path / "no", text=tmp_path / "raw.txt", settings={"data.punctuation": "apart"})


def test_a_run_does_not_start_from_itself(run: Path, text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    for start in (folder, folder / "model.safetensors"):
        with pytest.raises(UserError, match="cannot start from itself"):
            learn(folder, text=text, start_from=start, force=True)
    assert len(anaphora.load(folder).vectors) == 48  # type: ignore[union-attr]


def test_vectors_that_ran_out_of_numbers_are_not_published(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anaphora.tasks.vectors_run import VectorsRun

    whole = VectorsRun._predict

    def diverged(self: VectorsRun, *how: Any) -> Any:
        vectors, *facts = whole(self, *how)
        vectors.vectors[0, 0] = np.nan
        return vectors, *facts

    monkeypatch.setattr(VectorsRun, "_predict", diverged)
    with pytest.raises(
        UserError, match=r"has diverged: the vector of '\w+' holds nan .*; lower training\.learning_rate"
    ):
        learn(tmp_path / "run", text=text, settings={"training.epochs": 1})
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("recipe", "words", "said"),
    [
        ("glove", {"training.threads": 10**9}, "threads must be at least 1 and at most 4,096"),
        ("skipgram", {"training.learning_rate": 1e300}, "learning_rate must be at most 1,000, not 1e+300"),
        ("glove", {"model.x_max": 1e300}, "x_max must be above 0 and at most 1e+30"),
    ],
)
def test_numbers_beyond_all_measure_are_refused(
    recipe: str, words: dict[str, Any], said: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said.replace("+", r"\+")):
        anaphora.train(tmp_path / "run", text=text, recipe=recipe, settings=words)


# Damage ---------------------------------------------------------------------------------------------------------------


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[int(0.9 * len(content))] ^= 1
    file.write_bytes(content)


def test_a_damaged_checkpoint_is_named_and_its_cure_works(run: Path, text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "metrics.json").unlink()
    checkpoint = folder / "checkpoints" / "word2vec.safetensors"
    flip(checkpoint)
    both = rf"word2vec\.safetensors: is damaged.*; delete it and {folder / 'model.safetensors'} and repeat"
    with pytest.raises(UserError, match=both):
        learn(folder, text=text)
    with pytest.raises(UserError, match=rf"is damaged.*or start from the vectors alone: start_from='{folder}/model"):
        learn(tmp_path / "new", text=text, start_from=folder)
    assert learn(tmp_path / "new", text=text, start_from=folder / "model.safetensors").new_words == 0
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"word2vec\.safetensors: is damaged.*; delete it and repeat"):
        anaphora.load(folder)
    checkpoint.unlink()
    learn(folder, text=text)
    assert (folder / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_damaged_vectors_and_a_hostile_tokeniser_are_refused(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("data", "checkpoints"))
    flip(folder / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors: is damaged: its content no longer has the checksum"):
        anaphora.load(folder)
    assert len(anaphora.load(folder, verify=False)) == 48  # type: ignore[arg-type]
    document = json.loads((folder / "tokenizer.json").read_text())
    expanding = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 100_000}
    (folder / "tokenizer.json").write_text(json.dumps({**document, "normalizer": expanding}))
    with pytest.raises(UserError, match=r"tokenizer\.json: its normalizer .* is not one of Anaphora's"):
        anaphora.load(folder)
    (folder / "tokenizer.json").unlink()  # vectors of words with blanks in them have none
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"model\.safetensors: is a pipe or a device"):
        anaphora.load(folder)


def test_a_run_that_started_from_vectors_needs_no_note_of_them(run: Path, text: Path, tmp_path: Path) -> None:
    first = learn(tmp_path / "new", text=text, start_from=run)
    assert not (tmp_path / "new" / "checkpoints" / "start.json").exists()
    (tmp_path / "new" / "metrics.json").unlink()
    again = learn(tmp_path / "new", text=text, start_from=run)
    assert again.new_words == first.new_words == 0
