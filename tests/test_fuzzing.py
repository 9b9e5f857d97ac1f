"""Fuzzing: whatever bytes a file holds and whatever a setting says, what goes wrong is a `UserError`, one line long.

Each test mutates something that is right (a corpus, a recipe, the files of a model) or makes up something from nothing.
A few hundred cases run every time, ten thousand in the slow tier.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import anaphora
from anaphora.config import merge, overrides, read_yaml, write_yaml
from anaphora.data.formats import read_rows
from anaphora.data.lines import COMPRESSIONS
from anaphora.errors import UserError
from anaphora.folder import read_config, read_metrics
from anaphora.models import build
from anaphora.models.vectors.vector_files import load_vectors, save_vectors
from anaphora.models.vectors.word_vectors import Vectors
from anaphora.models.weights import load_weights, read_weights
from anaphora.tasks.recipes import SECTIONS, RunConfig, load_recipe
from anaphora.tokenizers.tokenizer import Tokenizer

ROWS = [
    ("ein Hund", "a dog"),
    ("", "empty"),
    ("a\u2028b", "é 👩‍👧"),
    ("Zeile vier", "line four"),
    ("letzte", "last"),
] * 3


def tiers(few: int, many: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])


def fuzz(examples: int, **strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Run the decorated function on that many examples, at once."""

    def run(test: Callable[..., None]) -> None:
        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        settings(max_examples=examples, suppress_health_check=checks)(given(**strategies)(test))()

    return run


def refusal(action: Callable[[], Any]) -> tuple[Any, str | None]:
    """What came of it, or the sentence of the `UserError`; any other exception fails the test."""
    try:
        return action(), None
    except UserError as error:
        said = str(error)
        assert said.isprintable() or "\u00a0" in said, said
        assert len(said) < 3000, "nobody reads that"
        return None, said


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """One to five changes: a bit, a byte, a piece cut out, put in, doubled, moved, or all the rest cut off."""
    changes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["bit", "byte", "cut", "insert", "double", "truncate", "swap"]),
                st.floats(0, 1),
                st.integers(0, 255),
                st.one_of(
                    st.binary(max_size=12),
                    st.sampled_from(
                        [b"\0", b"\n", b"\r\n", b"\xef\xbb\xbf", b'"', b"{}", b"[", b": ", b"null", b"-1", b"9"]
                    ),
                ),
            ),
            min_size=1,
            max_size=5,
        )
    )

    def mutate(content: bytes) -> bytes:
        for kind, where, number, piece in changes:
            place = int(where * len(content))
            before, after = content[:place], content[place:]
            if kind == "bit" and after:
                content = before + bytes([after[0] ^ (1 << number % 8)]) + after[1:]
            elif kind == "byte" and after:
                content = before + bytes([number]) + after[1:]
            elif kind == "cut":
                content = before + after[number % 32 :]
            elif kind == "insert":
                content = before + piece + after
            elif kind == "double":
                content = before + after[: number % 64] + after
            elif kind == "truncate":
                content = before
            elif kind == "swap":
                content = before + after[8:16] + after[:8] + after[16:]
        return content

    return mutate


# The readers ----------------------------------------------------------------------------------------------------------


def written(format: str, compression: str) -> bytes:
    """ROWS as the bytes of a file."""
    if format == "parquet":
        table = pa.table({"source": [row[0] for row in ROWS], "target": [row[1] for row in ROWS]})
        sink = io.BytesIO()
        parquet.write_table(table, sink)
        content = sink.getvalue()
    elif format == "jsonl":
        content = "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in ROWS).encode()
    else:
        content = "".join(f"{s}\t{t}\n" for s, t in ROWS).encode()
    if compression == ".zst":
        return bytes(pa.Codec("zstd").compress(content, asbytes=True))
    return {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[compression](content)


KINDS = [(format, compression) for format in ("txt", "tsv", "jsonl", "parquet") for compression in ("", *COMPRESSIONS)]
WHOLE = {kind: written(*kind) for kind in KINDS}


@tiers(200, 4000)
def test_readers_of_mutated_files(tmp_path: Path, examples: int) -> None:
    @fuzz(examples, kind=st.sampled_from(KINDS), mutate=mutations(), strict=st.booleans(), inside=st.booleans())
    def read(kind: tuple[str, str], mutate: Callable[[bytes], bytes], strict: bool, inside: bool) -> None:
        format, compression = kind
        path = tmp_path / f"file.{format}{compression}"
        if inside and compression in (".gz", ".xz"):  # a sound archive of a mutated file
            pack = gzip.compress if compression == ".gz" else lzma.compress
            path.write_bytes(pack(mutate(WHOLE[format, ""])))
        else:
            path.write_bytes(mutate(WHOLE[kind]))
        notes: Counter[str] = Counter()
        rows, said = refusal(lambda: list(read_rows({"source": [str(path)]}, notes, strict=strict)))
        if said is not None:
            assert said.startswith(str(tmp_path)), said
            return
        for (text,) in rows:
            text.encode()
            assert "\n" not in text and "\0" not in text


@tiers(50, 500)
def test_readers_of_any_bytes(tmp_path: Path, examples: int) -> None:
    @fuzz(examples, kind=st.sampled_from(KINDS), content=st.binary(max_size=200))
    def read(kind: tuple[str, str], content: bytes) -> None:
        path = tmp_path / f"file.{''.join(kind)}"
        path.write_bytes(content)
        refusal(lambda: list(read_rows({"source": [str(path)], "target": [str(path)]})))


@tiers(50, 500)
def test_names_of_any_kind(examples: int) -> None:
    characters = st.characters(exclude_characters="/")
    name = st.one_of(st.text(characters), st.text(st.sampled_from("#.tsvjonlgz-12\0\n ~*")))

    @fuzz(examples, name=name, side=st.sampled_from(["source", "target"]))
    def read(name: str, side: str) -> None:
        assume(not Path(name).is_file() if "\0" not in name else True)
        _, said = refusal(lambda: list(read_rows({side: [name]})))
        assert said is not None


# The settings ---------------------------------------------------------------------------------------------------------

RECIPES = {name: write_yaml(load_recipe(name)).encode() for name in ("tiny", "base", "transformer")}
KEYS = [(section, key) for section, part in RunConfig.read({}).document().items() if section != "run" for key in part]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["auto", "1e-3", "on", "off", "1_000", ".inf", "0x10", "2020-13-45", "1e400", "-", "nan", "pre"]),
    st.dates(),
    st.binary(max_size=4),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3), max_leaves=6
)


def accepted(document: Any, **where: Any) -> None:
    """Settings that pass say themselves again, word for word."""
    config, _ = refusal(lambda: RunConfig.read(document, **where))
    if config is not None:
        assert RunConfig.read(config.document()).document() == config.document()


@tiers(100, 1500)
def test_recipes_mutated(tmp_path: Path, examples: int) -> None:
    path = tmp_path / "mine.yaml"

    @fuzz(examples, name=st.sampled_from(sorted(RECIPES)), mutate=mutations(), text=st.none() | st.text(max_size=60))
    def load(name: str, mutate: Callable[[bytes], bytes], text: str | None) -> None:
        path.write_bytes(mutate(RECIPES[name]) if text is None else text.encode("utf-8", "surrogatepass"))
        document, said = refusal(lambda: read_yaml(path))
        assert said is None or said.startswith(str(path))
        if document is not None:
            accepted(document, file=str(path))
            refusal(lambda: load_recipe(str(path)))


@tiers(100, 1000)
def test_documents_of_any_kind(examples: int) -> None:
    section = st.dictionaries(st.sampled_from([key for _, key in KEYS]) | scalars, values, max_size=3)
    known = st.dictionaries(st.sampled_from([*SECTIONS, "run"]), section | values, max_size=3)

    @fuzz(examples, document=known | st.dictionaries(scalars, values, max_size=2))
    def read(document: Any) -> None:
        accepted(document)


@tiers(100, 1000)
def test_dotted_words_of_any_kind(examples: int) -> None:
    dotted = st.sampled_from([f"{section}.{key}" for section, key in KEYS])
    text = st.one_of(scalars.map(str), st.text(max_size=12), st.text(st.sampled_from("[]{}:,&*!|>'\"%@`#- 01e.")))
    word = st.one_of(st.builds("{}={}".format, dotted, text), st.text(max_size=20))

    @fuzz(examples, words=st.lists(word, max_size=4))
    def read(words: list[str]) -> None:
        own, _ = refusal(lambda: overrides(words, SECTIONS))
        if own is not None:
            accepted(merge(load_recipe("tiny"), own))


# The files of a model -------------------------------------------------------------------------------------------------


@tiers(40, 600)
def test_mutated_model_configs(micro: Path, tmp_path: Path, examples: int) -> None:
    content = (micro / "config.yaml").read_bytes()

    @fuzz(examples, mutate=mutations())
    def read(mutate: Callable[[bytes], bytes]) -> None:
        (tmp_path / "config.yaml").write_bytes(mutate(content))
        document, said = refusal(lambda: read_config(tmp_path))
        assert said is None or said.startswith(str(tmp_path))
        if document is not None:
            accepted(document, file="config.yaml")


@tiers(40, 600)
def test_mutated_tokenisers(micro: Path, tmp_path: Path, examples: int) -> None:
    content = json.dumps(json.loads((micro / "tokenizer.json").read_bytes()), ensure_ascii=False).encode()
    path = tmp_path / "tokenizer.json"

    @fuzz(examples, mutate=mutations())
    def read(mutate: Callable[[bytes], bytes]) -> None:
        path.write_bytes(mutate(content))
        tokenizer, said = refusal(lambda: Tokenizer.load(path))
        assert said is None or said.startswith(str(path))
        if tokenizer is not None:
            ids = tokenizer.encode("the dog ß 日本 \0 ⟨s⟩")
            assert all(0 <= id < tokenizer.vocabulary_size for id in ids)
            tokenizer.decode(ids)
            tokenizer.decode_batch([range(tokenizer.vocabulary_size)])


@tiers(40, 600)
def test_mutated_weights(micro: Path, tmp_path: Path, examples: int) -> None:
    """With the checksum, every change of a file is told; without it, changes either make no sense or fit."""
    content = (micro / "model.safetensors").read_bytes()
    header = int.from_bytes(content[:8], "little") + 8
    config = RunConfig.read(read_config(micro)).model
    model = build(config, 300, 300)
    path = tmp_path / "model.safetensors"

    @fuzz(examples, mutate=mutations(), whole=st.booleans())
    def read(mutate: Callable[[bytes], bytes], whole: bool) -> None:
        changed = mutate(content) if whole else mutate(content[:header]) + content[header:]
        path.write_bytes(changed)
        weights, said = refusal(lambda: read_weights(path))
        assert (said is None) == (changed == content)
        weights, _ = refusal(lambda: read_weights(path, verify=False))
        if weights is not None:
            refusal(lambda: load_weights(model, weights, file=path))


@tiers(20, 200)
def test_mutated_folders(micro: Path, tmp_path: Path, examples: int) -> None:
    """One file of a whole folder: it loads and translates, or says why not, however large a model its config asks for;
    `metrics.json` is never in the way."""
    names = ["config.yaml", "tokenizer.json", "metrics.json", "model.safetensors"]
    folder = tmp_path / "model"
    folder.mkdir()
    for name in names:
        shutil.copy(micro / name, folder)

    @fuzz(examples, name=st.sampled_from(names), mutate=mutations())
    def use(name: str, mutate: Callable[[bytes], bytes]) -> None:
        content = (micro / name).read_bytes()
        (folder / name).write_bytes(mutate(content))
        try:
            model, said = refusal(lambda: anaphora.load(folder, "cpu"))
            assert said is None or str(folder) in said
            if model is not None:
                refusal(lambda: model.translate("a dog", beam=1, max_length=3).text)
                json.dumps(model.info())
            assert isinstance(read_metrics(folder), dict)
        finally:
            (folder / name).write_bytes(content)


SIZES = ["dim", "layers", "decoder_layers", "feed_forward", "max_length", "heads"]


@tiers(30, 400)
def test_configs_of_absurd_sizes(micro: Path, tmp_path: Path, examples: int) -> None:
    """A config asks for any model, and the weights are what they are: whatever does not fit is refused at once."""
    folder = tmp_path / "model"
    shutil.copytree(micro, folder, ignore=shutil.ignore_patterns("checkpoints", "data", "logs"))
    document = read_yaml(micro / "config.yaml")
    sizes = st.dictionaries(st.sampled_from(SIZES), st.integers(1, 63).map(lambda bits: 2**bits), min_size=1)

    @fuzz(examples, sizes=sizes)
    def load(sizes: dict[str, int]) -> None:
        (folder / "config.yaml").write_text(write_yaml({**document, "model": {**document["model"], **sizes}}))
        began = time.process_time()
        refusal(lambda: anaphora.load(folder, "cpu"))
        assert time.process_time() - began < 5


# Word vectors ---------------------------------------------------------------------------------------------------------


@tiers(100, 2000)
def test_mutated_vectors(tmp_path: Path, examples: int) -> None:
    vectors = Vectors(["king", "queen", "naïve", "🦜"], np.arange(12, dtype=np.float32).reshape(4, 3))
    names = ["v.txt", "v.bin", "v.vec.gz", "v.bin.gz", "v.safetensors"]
    for name in names:
        save_vectors(vectors, tmp_path / name)
    whole = {name: (tmp_path / name).read_bytes() for name in names}

    @fuzz(examples, name=st.sampled_from(names), mutate=mutations(), inside=st.booleans())
    def read(name: str, mutate: Callable[[bytes], bytes], inside: bool) -> None:
        packed = inside and name.endswith(".gz")  # a sound archive of a mutated file
        changed = gzip.compress(mutate(gzip.decompress(whole[name]))) if packed else mutate(whole[name])
        (tmp_path / name).write_bytes(changed)
        found, said = refusal(lambda: load_vectors(tmp_path / name))
        assert said is None or said.startswith(str(tmp_path))
        if found is not None and len(found):
            assert all(np.isfinite(near) for _, near in found.most_similar(found.index_to_key[0]))
