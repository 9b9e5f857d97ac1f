"""Word vectors on the command line: train, neighbours, analogy, map, evaluate, info, convert; and mistakes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import anaphora
from anaphora.models.vectors.vector_files import load_vectors, save_vectors
from anaphora.models.vectors.word_vectors import Vectors
from vector_runs import SMALL, grouped, learn

WORDS = ["man", "king", "woman", "queen", "stone", "New York"]
MATRIX = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1], [-1, -1, 0.1], [0.2, -1, 0]], np.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run. Read only."""
    folder = tmp_path_factory.mktemp("verbs")
    (folder / "text.txt").write_text(grouped())
    learn(folder / "run", text=folder / "text.txt")
    return folder / "run"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_vectors(Vectors(WORDS, MATRIX), tmp_path / "words.safetensors")
    return tmp_path / "words.safetensors"


def test_from_text_to_neighbours(say, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "text.txt").write_text(grouped(400))
    settings = [f"{name}={value}" for name, value in SMALL.items()]
    made = say("train", tmp_path / "run", "--text", tmp_path / "text.txt", "--recipe", "cbow", *settings, "--json")
    assert made.code == 0 and json.loads(made.last)["vocabulary"] == 48
    assert f"neighbours {tmp_path / 'run'}" in made.err and "epoch 3 of 3: loss" in made.err
    near = say("neighbours", tmp_path / "run", "aword1", "bword1", "-n", 3)
    assert near.code == 0 and near.out.count("\n") == 9 and near.out.startswith("aword1\n")
    found = json.loads(say("neighbours", tmp_path / "run", "aword1", "--json").last)["neighbours"]["aword1"]
    assert len(found) == 10 and {"word", "cosine"} == found[0].keys()
    assert "48 words, 16 dimensions" in say("info", tmp_path / "run").out


def test_neighbours_by_an_index(say, run: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(sys.modules, "faiss", None)
    missing = say("neighbours", file, "king", "--approximate")
    assert (
        missing.code == 2
        and "needs faiss, which is not installed" in missing.err
        and "pip install faiss-cpu," in missing.err
    )
    monkeypatch.undo()
    pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    wrong = say("neighbours", file, "queeen", "--approximate")
    assert wrong.code == 2 and "did you mean 'queen'" in wrong.err and not file.with_name(f"{file.name}.faiss").exists()
    run = shutil.copytree(run, file.parent / "run")
    exact = json.loads(say("neighbours", run, "aword1", "--json").last)
    first = say("neighbours", run, "aword1", "--approximate", "--json")
    found = json.loads(first.last)
    assert "building an index of 48 words" in first.err and "this index finds 100.0%" in first.err
    assert exact["approximate"] is None and found["approximate"]["recall"] == 1.0
    assert [near["word"] for near in found["neighbours"]["aword1"]] == [
        near["word"] for near in exact["neighbours"]["aword1"]
    ]
    assert Path(found["approximate"]["index"]) == run / "index.faiss"
    assert "building" not in say("neighbours", run, "aword1", "--approximate").err


def test_items(say, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "books.tsv").write_text("War and Peace\tDune\tEmma\n" * 10)
    settings = [f"{name}={value}" for name, value in SMALL.items()]
    assert say("train", tmp_path / "run", "--items", tmp_path / "books.tsv", *settings).code == 0
    assert {"Dune", "Emma"} == {
        line.split("  ")[1] for line in say("neighbours", tmp_path / "run", "War and Peace").out.splitlines()
    }


def test_analogy_and_unknown_words(say, file: Path) -> None:  # type: ignore[no-untyped-def]
    assert say("analogy", file, "man", "king", "woman", "-n", 1).out.split()[1:] == ["queen"]
    answers = json.loads(say("analogy", file, "man", "king", "woman", "--json").last)["answers"]
    assert answers[0]["word"] == "queen"
    for wrong in (say("neighbours", file, "queeen"), say("analogy", file, "man", "king", "queeen")):
        assert wrong.code == 2 and "'queeen' has no vector; did you mean 'queen'?" in wrong.err and not wrong.out


def test_a_map(say, run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    picture = tmp_path / "map.png"
    made = say("map", run, "--picture", picture)
    assert made.code == 0 and picture.read_bytes().startswith(b"\x89PNG")
    assert "of the 10 nearest neighbours preserved" in made.out and "trustworthiness" in made.out
    drawn = tmp_path / "map.svg"
    assert say("map", run, "aword1", "aword2", "bword2", "--around", 5, "--picture", drawn).code == 0
    assert str(run.parent) not in drawn.read_text() and run.name in drawn.read_text(), "a picture is shared"
    document = json.loads(say("map", run, "aword1", "bword2", "--around", 5, "--json").last)
    assert len(document["words"]) == 12 and document["picture"] is None
    for words, message in (
        ((run, "--picture", picture), "already exists"),
        ((run,), "no output is given for the map"),
        ((run, "--picture", tmp_path / "map.pdf"), "use a name ending in .png or .svg"),
        ((run, "--json", "--around", 3), "--around needs words"),
        ((run, "--json", "--method", "umap"), "--method cannot be 'umap'"),
        ((run, "nobody", "--json"), "has no vector"),
    ):
        wrong = say("map", *words)
        assert wrong.code == 2 and message in wrong.err


def test_evaluate(say, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "pairs.tsv").write_text("King\tqueen\t9\nman\tking\t8\nman\tstone\t1\nman\tnobody\t3\n")
    (tmp_path / "analogies.txt").write_text(": royal\nman king woman queen\nwoman queen man king\n")
    (tmp_path / "weat.yaml").write_text(
        "targets: {men: [man, king], women: [woman, queen]}\nattributes: {stony: [stone], urban: [New York]}\n"
    )
    files = "--similarity", tmp_path / "pairs.tsv", "--analogies", tmp_path / "analogies.txt"
    found = say("evaluate", file, *files, "--weat", tmp_path / "weat.yaml")
    assert found.code == 0 and "over 3 pairs (1 left out)" in found.out
    assert "100.00% of 2 analogies" in found.out and "royal (2)" in found.out
    assert "effect size" in found.out and "6 divisions of the targets (all)" in found.out
    document = json.loads(say("evaluate", file, *files, "--json").last)
    assert document["analogies"][str(tmp_path / "analogies.txt")]["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        (
            "--analogies",
            "man king woman queen\nman king woman\n",
            "file.txt, line 2: has 3 words where an analogy needs 4",
        ),
        ("--similarity", "man king 3\nman king\n", "file.txt, line 2: 'man king' is not two words and a number"),
        ("--similarity", "", "holds no pairs"),
        ("--weat", "targets: {a: [b]}\n", "does not hold `targets` and `attributes`"),
        (
            "--weat",
            "targets: {a: [man, king], b: [x, y]}\nattributes: {c: [man], d: [king]}\n",
            "0 of the 2 words of 'b'",
        ),
    ],
)
def test_a_wrong_file_is_named_with_its_line(
    say, file: Path, tmp_path: Path, flag: str, text: str, message: str
) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "file.txt").write_text(text)
    wrong = say("evaluate", file, flag, tmp_path / "file.txt")
    assert wrong.code == 2 and not wrong.out
    assert message.replace(", line ", ":") in wrong.err or message in wrong.err


def test_what_is_asked_of_the_wrong_model(say, file: Path, micro: Path, run: Path) -> None:  # type: ignore[no-untyped-def]
    for words, message in (
        (("evaluate", file), "no benchmark is given"),
        (("evaluate", file, "--text", file), "--text is not for word vectors"),
        (("evaluate", micro, "--similarity", file), "--similarity is for word vectors"),
        (("neighbours", micro, "a"), "is a model of kind transformer, and this needs word vectors"),
        (("translate", run, run / "card.md"), "holds word vectors, and this needs a translator"),
        (("generate", run, "a"), "holds word vectors, and this needs a language model"),
        (("average", run), "holds word vectors, which have no checkpoints; average neural models"),
        (("neighbours", "nowhere", "a"), "there is no such folder"),
        (("neighbours", "nowhere.txt", "a"), "nowhere.txt"),
    ):
        wrong = say(*words)
        assert wrong.code == 2 and message in wrong.err, words


def test_convert_there_and_back(say, run: Path, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    own = anaphora.load(run).vectors  # type: ignore[union-attr]
    for name in ("out.txt", "out.bin", "out.vec.gz", "out.safetensors", "folder"):
        target = tmp_path / name
        assert say("convert", run if name != "folder" else tmp_path / "out.bin", target).code == 0
        found = anaphora.load(target).vectors  # type: ignore[union-attr]
        assert found.index_to_key == own.index_to_key
        np.testing.assert_array_equal(found.vectors, own.vectors)
    assert say("convert", run, tmp_path / "glove.txt", "--no-header").code == 0
    assert (tmp_path / "glove.txt").read_text().split()[0] == own.index_to_key[0]
    again = say("convert", run, tmp_path / "out.txt")
    assert again.code == 2 and "already exists" in again.err
    blank = say("convert", file, tmp_path / "blank.txt")
    assert blank.code == 2 and "'New York' has white space" in blank.err
    assert say("convert", file, tmp_path / "blank.txt", "--space", "_").code == 0
    assert "New_York" in load_vectors(tmp_path / "blank.txt")


def test_python_converts_as_the_command_line_does(say, run: Path, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for source, name, how in (
        (run, "a.txt", {}),
        (run, "b.txt", {"header": False}),
        (file, "c.txt", {"space": "_"}),
        (file, "folder", {}),
    ):
        made = anaphora.convert(source, tmp_path / name, **how)
        words = {"header": ["--no-header"], "space": ["--space", "_"]}
        said = say("convert", source, tmp_path / f"cli-{name}", *(word for key in how for word in words[key]))
        vectors = anaphora.load(tmp_path / name).vectors  # type: ignore[union-attr]
        assert said.code == 0 and (made.words, made.dim) == vectors.vectors.shape
        if name != "folder":
            assert (tmp_path / name).read_bytes() == (tmp_path / f"cli-{name}").read_bytes()
    with pytest.raises(anaphora.UserError, match="already exists"):
        anaphora.convert(run, tmp_path / "a.txt")
    with pytest.raises(anaphora.UserError, match="no known format of word vectors"):
        anaphora.convert(run, tmp_path / "ours.kv")
    with pytest.raises(anaphora.UserError, match="header and space are about vectors as text"):
        anaphora.convert("plays", "plays.arpa", header=False)


def test_how_many_neighbours_has_the_same_names_everywhere(say, file: Path) -> None:  # type: ignore[no-untyped-def]
    model = anaphora.load(file)
    assert isinstance(model, anaphora.VectorsModel)
    first, second, third = model.vectors.index_to_key[:3]
    near = model.neighbours(first, topn=2)
    assert model.most_similar(first, topn=2) == near and model.most_similar([second, third], first, n=1)
    assert model.similarity(first, near[0][0]) == pytest.approx(near[0][1], abs=1e-6)
    for name in ("number", "n", "topn"):
        assert model.neighbours(first, **{name: 2}) == near == model.vectors.most_similar(first, **{name: 2})
        assert model.analogy(first, second, third, **{name: 2}) == model.analogy(first, second, third, 2)
    lines = say("neighbours", file, first, "-n", "2").out
    assert len(lines.splitlines()) == 2
    assert all(say("neighbours", file, first, flag, "2").out == lines for flag in ("--number", "--topn"))
    assert model.neighbours([first, second], 2) == {one: model.neighbours(one, 2) for one in (first, second)}
    with pytest.raises(anaphora.UserError, match="number is another name for topn, and both are given"):
        model.neighbours(first, topn=2, number=3)  # type: ignore[call-overload]


def test_convert_spares_runs_and_ignores_nothing(say, run: Path, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A run has text and checkpoints, which no file of vectors brings back."""
    shutil.copytree(run, tmp_path / "run")
    for words, message in (
        ((file, tmp_path / "run"), "already exists"),
        ((file, tmp_path / "run", "--force"), "is a run with its training data"),
        ((file, tmp_path / "v.bin", "--no-header", "--space", "_"), "always say how many"),
        ((file, tmp_path / "v.safetensors", "--space", "_"), "keeps blanks"),
    ):
        wrong = say("convert", *words)
        assert wrong.code == 2 and message in wrong.err.replace("\n", " "), (words, wrong.err)
    assert (tmp_path / "run" / "checkpoints").is_dir() and not list(tmp_path.glob("v.*"))
    assert say("convert", file, tmp_path / "folder").code == 0
    assert say("convert", file, tmp_path / "folder", "--force").code == 0


def test_gensim_reads_what_is_written_and_the_other_way_round(run: Path, tmp_path: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    model = anaphora.load(run)
    assert isinstance(model, anaphora.VectorsModel)
    model.save(tmp_path / "ours.bin")
    theirs = keyed.load_word2vec_format(str(tmp_path / "ours.bin"), binary=True)
    assert [w for w, _ in theirs.most_similar("aword1")] == [w for w, _ in model.vectors.most_similar("aword1")]
    theirs.save_word2vec_format(str(tmp_path / "theirs.txt"))
    back = anaphora.load(tmp_path / "theirs.txt").vectors  # type: ignore[union-attr]
    assert [word for word, _ in back.most_similar("aword1")] == [word for word, _ in theirs.most_similar("aword1")]
    round_trip = Vectors.from_gensim(model.vectors.to_gensim())
    assert round_trip.index_to_key == model.vectors.index_to_key
    np.testing.assert_array_equal(round_trip.vectors, model.vectors.vectors)
    np.testing.assert_array_equal(round_trip.counts, model.vectors.counts)


def test_the_loss_told_of_an_epoch_is_its_own(say, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """With several threads, a piece of the next epoch may be done before the last one of this epoch."""
    (tmp_path / "text.txt").write_text(grouped(300))
    how = ["--text", tmp_path / "text.txt", "--recipe", "skipgram", "model.dim=16", "model.sample=0", "--json"]
    made = say("train", tmp_path / "run", *how, "training.threads=2", "training.epochs=6")
    told = [float(line.split("loss ")[1]) for line in made.err.splitlines() if "loss " in line]
    # four digits of the loss itself, and six of it in the file: rounding twice may differ by one in the fourth
    assert told == pytest.approx(json.loads(made.last)["losses"], rel=0, abs=5.1e-5) and len(told) == 6


def test_too_little_to_learn_from_is_told(say, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "few.tsv").write_text("War and Peace\tEmma\tFaust\n" * 200)
    few = say("train", tmp_path / "few", "--items", tmp_path / "few.tsv", "model.dim=8")
    assert few.code == 0 and "of all items, " in few.err and "model.sample=0 takes all" in few.err
    (tmp_path / "few.csv").write_text("Emma,Faust\n" * 200)
    commas = say("train", tmp_path / "commas", "--items", tmp_path / "few.csv")
    assert commas.code == 2 and "few.csv: has comma-separated items" in commas.err
    (tmp_path / "one.txt").write_text("hello hello\n" * 20)
    for recipe in ("cbow", "glove"):
        one = say("train", tmp_path / "one", "--text", tmp_path / "one.txt", "--recipe", recipe)
        assert one.code == 2 and "one.txt: one word only comes 5 times or more" in one.err
    other = say("train", tmp_path / "one", "--text", tmp_path / "one.txt", "--recipe", "fastText")
    assert other.code == 2 and "skipgram or cbow, with model.subwords=true" in other.err


def test_files_that_are_not_read_have_a_way_around(say, run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "theirs.bin").write_bytes((793712314).to_bytes(4, "little") + bytes(100))  # fastText's own
    (tmp_path / "theirs.kv").write_bytes(b"\x80\x04")
    for words, message in (
        (("neighbours", tmp_path / "theirs.bin", "king"), "give the .vec file"),
        (("neighbours", tmp_path / "theirs.kv", "king"), "save_word2vec_format"),
        (("neighbours", tmp_path / "nothing.bin", "king"), "nothing.bin: there is no such file"),
        (("convert", run, tmp_path / "ours.kv"), "ours.kv: is of no known format of word vectors"),
    ):
        wrong = say(*words)
        assert wrong.code == 2 and message in wrong.err, wrong.err
    assert not (tmp_path / "ours.kv").exists()


def test_nobody_knows_how_the_vectors_of_a_file_were_learned(say, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert say("convert", file, tmp_path / "folder").code == 0
    told = say("info", tmp_path / "folder").out
    assert f"from {file.name}, 6 words" in told and "skipgram" not in told
    assert json.loads(say("info", tmp_path / "folder", "--json").last)["recipe"] is None


def test_a_measure_of_too_few_is_none(say, file: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "pair.csv").write_text("Word 1,Word 2,Human (mean)\nking,queen,8.5\n")
    (tmp_path / "four.txt").write_text("north south east west\n")
    asked = ("evaluate", file, "--similarity", tmp_path / "pair.csv", "--analogies", tmp_path / "four.txt")
    said = say(*asked)
    assert "no correlation over 1 pair (0 left out)" in said.out and "no analogy completed (1 left out)" in said.out
    found = json.loads(say(*asked, "--json").last)  # which has no word for NaN
    assert [one["spearman"] for one in found["similarity"].values()] == [None]


def test_vectors_score_no_text(say, run: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "text.txt").write_text("aword1\n")
    wrong = say("score", run, "--text", tmp_path / "text.txt")
    assert wrong.code == 2 and "holds word vectors" in wrong.err and "translator" not in wrong.err
