"""Prepared corpora: complete or absent, found again, faithful to the text, honest about what was left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from anaphora.data import preparation
from anaphora.data.corpus import Corpus, DataConfig
from anaphora.data.preparation import CorpusChanged, fingerprint, open_prepared, prepare
from anaphora.errors import UserError
from anaphora.folder import UNFINISHED, sweep
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig

SMALL = TokenizerConfig(vocabulary=400)
Files = dict[str, list[str]]


def lines(files: list[str]) -> list[str]:
    return Path(files[0]).read_text().split("\n")[:-1]


def test_rows_keep_text_ids_and_line(tmp_path: Path, pair_files: Files) -> None:
    done = prepare(tmp_path / "data", pair_files, tokenizer=SMALL, hold_out=0)
    corpus = done.train
    assert (len(corpus), corpus.sides, done.valid, done.reused) == (400, ("source", "target"), None, False)
    for side, files in pair_files.items():
        texts = lines(files)
        assert corpus.texts(side, range(400)) == texts
        assert corpus.text(side, 7) == texts[7]
        values, offsets = corpus.ids(side, np.arange(400))
        ids = done.tokenizers[side].encode_batch(texts)
        assert [values[a:b].tolist() for a, b in pairwise(offsets)] == ids
        assert corpus.lengths[:, corpus.sides.index(side)].tolist() == [len(row) for row in ids]
    assert corpus.lines([3, 0]).tolist() == [4, 1]
    assert done.tokenizers["source"] is done.tokenizers["target"]


def test_ids_gather_over_shards(tmp_path: Path, pair_files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prepare(tmp_path / "one", pair_files, tokenizer=SMALL, hold_out=0).train
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 30)
    monkeypatch.setattr(preparation, "SHARD_ROWS", 64)
    done = prepare(tmp_path / "many", pair_files, tokenizer=SMALL, hold_out=0)
    assert len(done.train.shards) == done.manifest["train"]["shards"] == 7
    rows = np.random.default_rng(0).permutation(400)[:123]
    for some in (rows, rows[:1], rows[:0], np.array([5, 5, 399])):
        for side in whole.sides:
            for a, b in zip(whole.ids(side, some), done.train.ids(side, some)):
                np.testing.assert_array_equal(a, b)
            assert whole.texts(side, some) == done.train.texts(side, some)
    np.testing.assert_array_equal(whole.lengths, done.train.lengths)


def test_one_side_is_enough(tmp_path: Path, pair_files: Files) -> None:
    done = prepare(tmp_path / "data", {"text": pair_files["target"]}, tokenizer=SMALL)
    assert done.train.sides == ("text",)
    assert done.train.lengths.shape == (len(done.train), 1)
    assert done.valid is not None
    assert not set(done.train.texts("text", range(len(done.train)))) & set(
        done.valid.texts("text", range(len(done.valid)))
    )


def test_separate_vocabularies(tmp_path: Path, pair_files: Files) -> None:
    done = prepare(tmp_path / "data", pair_files, tokenizer=TokenizerConfig(vocabulary=350, shared=False))
    assert done.tokenizers["source"].fingerprint() != done.tokenizers["target"].fingerprint()
    assert (tmp_path / "data" / "tokenizer.source.json").exists()
    mine = {side: Tokenizer.train(TokenizerConfig(kind="character"), ["abc"]) for side in pair_files}
    given = prepare(tmp_path / "given", pair_files, tokenizer=mine)
    assert given.tokenizers["target"].fingerprint() == mine["target"].fingerprint()


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n\nthree\nfour\n" + "x" * 50 + "\n")
    (tmp_path / "b").write_text("eins\nzwei\n\nvier\nfünf\n")
    sides = {"source": [str(tmp_path / "a")], "target": [str(tmp_path / "b")]}
    character = TokenizerConfig(kind="character")
    done = prepare(tmp_path / "data", sides, tokenizer=character, hold_out=0, max_length=20)
    assert done.manifest["train"]["left_out"] == {"with an empty side": 2, "too long": 1}
    assert done.train.lines(range(2)).tolist() == [1, 4]
    assert done.manifest["train"]["tokens"] == {"source": 7, "target": 8}
    with pytest.raises(UserError, match=r"no pair is left for training \(2 with an empty side, 3 too long\)"):
        prepare(tmp_path / "none", sides, tokenizer=character, hold_out=0, max_length=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "data"]


def test_held_out_pairs_are_unique_and_unseen(tmp_path: Path) -> None:
    source = [f"s{i % 60}" for i in range(400)]
    target = [f"t{i % 75}" for i in range(400)]
    (tmp_path / "a").write_text("\n".join(source))
    (tmp_path / "b").write_text("\n".join(target))
    sides = {"source": [str(tmp_path / "a")], "target": [str(tmp_path / "b")]}
    done = prepare(tmp_path / "data", sides, tokenizer=SMALL, hold_out=10)
    assert done.valid is not None
    held = [tuple(done.valid.text(side, row) for side in sides) for row in range(len(done.valid))]
    assert len(held) == len(set(held)) == 10
    for i, side in enumerate(sides):
        assert not {pair[i] for pair in held} & set(done.train.texts(side, range(len(done.train))))
    assert len(done.train) + 10 + done.manifest["train"]["left_out"]["shared with the held-out part"] == 400
    # the same pairs, wherever they stand
    (tmp_path / "a").write_text("\n".join(source[::-1]))
    (tmp_path / "b").write_text("\n".join(target[::-1]))
    turned = prepare(tmp_path / "turned", sides, tokenizer=SMALL, hold_out=10).valid
    assert turned is not None
    assert {tuple(turned.text(side, row) for side in sides) for row in range(10)} == set(held)
    other = prepare(tmp_path / "other", sides, tokenizer=SMALL, hold_out=10, seed=2).valid
    assert other is not None
    assert {tuple(other.text(side, row) for side in sides) for row in range(10)} != set(held)
    with pytest.raises(UserError, match="hold_out is 300, but there are only 400 pairs; hold out fewer"):
        prepare(tmp_path / "much", sides, hold_out=300)


def test_validation_files_hold_nothing_out(tmp_path: Path, pair_files: Files) -> None:
    (tmp_path / "v").write_text("ein Hund\n")
    valid = {side: [str(tmp_path / "v")] for side in pair_files}
    done = prepare(tmp_path / "data", pair_files, valid_sides=valid, tokenizer=SMALL)
    assert done.valid is not None
    assert (len(done.train), len(done.valid), done.valid.text("source", 0)) == (400, 1, "ein Hund")
    with pytest.raises(UserError, match="given for some sides only, not for target; give both or none"):
        prepare(tmp_path / "half", pair_files, valid_sides={"source": valid["source"]})
    (tmp_path / "v").write_text("eine Katze\n")
    with pytest.raises(CorpusChanged, match="the validation source text and the validation target text changed"):
        prepare(tmp_path / "data", pair_files, valid_sides=valid, tokenizer=SMALL)


def test_a_prepared_corpus_is_found_again(tmp_path: Path, pair_files: Files) -> None:
    first = prepare(tmp_path / "data", pair_files, tokenizer=SMALL)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "data").rglob("*")}
    second = prepare(tmp_path / "data", pair_files, tokenizer=SMALL)
    assert second.reused
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "data").rglob("*")} == before
    assert second.manifest == first.manifest == open_prepared(tmp_path / "data").manifest
    Path(pair_files["source"][0]).touch()  # a new date is no new text
    assert prepare(tmp_path / "data", pair_files, tokenizer=SMALL).reused


def test_changed_content_is_noticed(tmp_path: Path, pair_files: Files) -> None:
    prepare(tmp_path / "data", pair_files, tokenizer=SMALL)
    path = Path(pair_files["target"][0])
    size = path.stat().st_size
    text = path.read_text()
    path.write_text(text.replace("dog", "DOG", 1))
    os.utime(path, ns=(0, 0))
    assert path.stat().st_size == size
    with pytest.raises(CorpusChanged) as raised:
        prepare(tmp_path / "data", pair_files, tokenizer=SMALL)
    assert raised.value.changed == ["the target text"]
    assert "the target text changed since this corpus was prepared; start a new run" in str(raised.value)
    rebuilt = prepare(tmp_path / "data", pair_files, tokenizer=SMALL, on_change="rebuild")
    assert not rebuilt.reused
    assert rebuilt.manifest["settings"]["text"] == fingerprint(pair_files)
    for change, message in (
        ({"max_length": 9}, "data.max_length changed"),
        ({"tokenizer": TokenizerConfig(vocabulary=401)}, "the tokenizer changed"),
        ({"hold_out": 3, "seed": 9}, "data.hold_out and data.seed changed"),
    ):
        with pytest.raises(CorpusChanged, match=message):
            prepare(tmp_path / "data", pair_files, **{"tokenizer": SMALL, **change})  # type: ignore[arg-type]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "train.de", "train.en"]


def test_a_killed_preparation_leaves_nothing_half_made(tmp_path: Path, pair_files: Files) -> None:
    program = (
        "import os, signal; from anaphora.data.preparation import *\n"
        "def die(stage, done, total):\n"
        "    if stage == 'encoding' and done: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"prepare({str(tmp_path / 'data')!r}, {pair_files!r}, tokenizer=TokenizerConfig(vocabulary=400), progress=die)"
    )
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert killed.returncode == -9
    assert not (tmp_path / "data").exists()
    assert list(tmp_path.glob(f"{UNFINISHED}*"))
    assert not prepare(tmp_path / "data", pair_files, tokenizer=SMALL).reused
    sweep(tmp_path)
    assert not list(tmp_path.glob(f"{UNFINISHED}*"))


def test_an_interrupted_preparation_cleans_up(tmp_path: Path, pair_files: Files) -> None:
    def interrupt(stage: str, done: int, total: int | None) -> None:
        if stage == "encoding":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "data", pair_files, tokenizer=SMALL, progress=interrupt)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.de", "train.en"]


def test_progress_and_tidying_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    seen = []
    done = prepare(
        tmp_path / "data", {"text": [str(tmp_path / "a")]}, tokenizer=SMALL, progress=lambda *stage: seen.append(stage)
    )
    assert done.manifest["tidied"] == {"bom": 1, "crlf": 2}
    assert [stage[0] for stage in seen] == ["reading", "learning the vocabulary", "encoding"]
    assert seen[-1] == ("encoding", 2, 2)


def test_a_long_corpus_is_sampled_evenly(
    tmp_path: Path, pair_files: Files, monkeypatch: pytest.MonkeyPatch, english: list[str]
) -> None:
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 7)
    survey = preparation._survey(pair_files, 0, 60, 1, None)
    assert survey.lines["target"] == english[::8]


def test_mistakes_are_explained(tmp_path: Path, pair_files: Files) -> None:
    with pytest.raises(UserError, match="there is no prepared corpus here; prepare the corpus first"):
        Corpus.open(tmp_path)
    with pytest.raises(UserError, match="there is no prepared corpus here"):
        open_prepared(tmp_path)
    with pytest.raises(UserError, match="no files are given for target"):
        prepare(tmp_path / "x", {**pair_files, "target": []})
    (tmp_path / "empty").touch()
    with pytest.raises(UserError, match="empty: there is no text in this corpus"):
        prepare(tmp_path / "x", {"text": [str(tmp_path / "empty")]})
    prepare(tmp_path / "data", pair_files, tokenizer=SMALL)
    shard = tmp_path / "data" / "train" / "00000.arrow"
    shard.write_bytes(shard.read_bytes()[:500])
    with pytest.raises(
        UserError,
        match=r"00000\.arrow: this shard is damaged .*; delete the folder .*data; `anaphora train` prepares it anew",
    ):
        Corpus.open(tmp_path / "data" / "train")


def test_the_manifest_is_plain_json_and_the_config_names_sides(tmp_path: Path, pair_files: Files) -> None:
    config = DataConfig(source=pair_files["source"], target=pair_files["target"])
    assert (config.sides(), config.valid_sides()) == (pair_files, {})
    prepare(tmp_path / "data", config.sides(), tokenizer=SMALL, hold_out=config.hold_out)
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert manifest["train"]["rows"] + manifest["valid"]["rows"] <= manifest["rows_read"] == 400
    assert manifest["valid"]["rows"] == 20  # 5 %
