"""Every public function and method, called with what nobody should hand over: whatever leaves it is a UserError."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.errors import UserError
from anaphora.models.vectors.word_vectors import Vectors
from neural_folders import neural_folder
from ngram_folders import VERSE, mixture_folder, ngram_folder

WRONG: dict[str, Any] = {
    "None": None,
    "object": object(),
    "-1": -1,
    "0": 0,
    "zzz": "zzz",
    "empty list": [],
    "empty dict": {},
    "nan": float("nan"),
    "huge": 10**30,
    "99": 99,
    "far off": [[99999]],
    "below": [[-5]],
    "bytes": b"x",
    "array": np.arange(2),
    "list of objects": [object()],
}


@pytest.fixture(scope="module")
def owners(micro: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("wrong")
    names = {"lstm": {}, "transformer-encoder": {}, "backpack": {}, "transformer-decoder": {}}
    folders = {name: neural_folder(root / name, name, **more) for name, more in names.items()}
    folders["classifier"] = neural_folder(root / "classifier", "lstm", labels=["long", "short"])
    folders["ngram"] = ngram_folder(root / "ngram")
    folders["mixture"] = mixture_folder(root / "mixture", [VERSE[:3], VERSE[3:]], [0.3, 0.7])
    for name in ("micro", "micro-2"):
        shutil.copytree(micro, root / name)
    draw = np.random.default_rng(1)
    vectors = Vectors(["king", "queen", "man", "woman", "dog"], draw.normal(size=(5, 4)).astype(np.float32))
    (root / "words.txt").write_text(
        "".join(f"{word} {' '.join(map(str, vectors[word]))}\n" for word in vectors), encoding="utf-8"
    )
    made = {name: anaphora.load(folder, device="auto") for name, folder in folders.items()}
    made["translator"] = anaphora.load(root / "micro", device="cpu")
    made["ensemble"] = anaphora.load([root / "micro", root / "micro-2"], device="cpu")
    return made | {"vectors": anaphora.load(root / "words.txt"), "bare vectors": vectors, "anaphora": anaphora}


RIGHT: dict[str, Any] = {
    "text": "the dog sees",
    "lines": ["the cat"],
    "labels": ["long"],
    "source": ["the dog"],
    "target": ["der Hund"],
    "prompts": "the",
    "prompt": "the",
    "ids": [3, 4],
    "rows": [[3, 4, 2]],
    "words": ["king", "dog"],
    "word": "king",
    "first": "king",
    "second": "dog",
    "a": "king",
    "b": "queen",
    "c": "man",
    "positive": "king",
    "path": "absent/file.txt",
    "output": Path("absent/file.txt"),
    "file": "absent.tsv",
    "patches": "absent.json",
    "aligned": [],
    "gold": [],
    "settings": DecodingConfig(),
    "vector": np.ones(4, np.float32),
    "queries": np.ones((1, 4), np.float32),
    "topn": 2,
    "without": [[]],
    "keyed": None,
    "run": "absent",
    "out": "out",
    "folder": "absent",
    "models": ["absent", "missing"],
    "name": "king",
}
"""For every parameter that must be given, something that fits."""
SETTINGS = {*vars(DecodingConfig())}
SETTLED = {"decoding", "generate"}
"""Settings go one way in all methods that take them."""
ELSEWHERE = {
    "anaphora": {"source": "absent.en", "target": "absent.de", "text": None},
    "bare vectors": {"words": ["king", "dog"]},
    "backpack": {"words": ["the", "cat"]},
}
OTHERS = {"from_gensim", "to_gensim", "index", "nearest", "unit_vectors", "open", "of_folders"}
"""Of other tools, and those that take the arrays of a program."""
UNTRIED = {*OTHERS, "fit", "save", "register"}
"""The last ones take models, batches and classes of a program: their own tests have the mistakes."""


def calls(name: str, owner: Any, backpack: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each parameter of each method with each wrong value, the others being right."""
    for method in dir(owner):
        called = getattr(owner, method, None)
        if method.startswith("_") or method in UNTRIED or not (inspect.isfunction(called) or inspect.ismethod(called)):
            continue
        parameters = inspect.signature(called).parameters
        own = RIGHT | {"model": backpack, "changed": backpack} | ELSEWHERE.get(name, {})
        right = {key: own[key] for key, one in parameters.items() if one.default is one.empty}
        if name == "anaphora":
            right |= {key: own[key] for key in ("source", "target") if key in parameters}
        for key in parameters:
            if key in SETTINGS and method not in SETTLED:
                continue
            few = {"tokens": 2} if "tokens" in parameters and key != "max_new_tokens" else {}
            for said, wrong in WRONG.items():
                yield f"{method}({key}={said})", lambda c=called, r=few | right, k=key, w=wrong: c(**{**r, k: w})  # type: ignore[misc]


KINDS = ["lstm", "transformer-encoder", "transformer-decoder", "backpack", "classifier", "ngram", "mixture"]
KINDS += ["translator", "ensemble", "vectors", "bare vectors", "anaphora"]


@pytest.mark.parametrize("name", KINDS)
def test_only_user_errors_leave(
    name: str, owners: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    left = []
    for said, call in calls(name, owners[name], owners["backpack"]):
        try:
            found = call()
            if isinstance(found, Iterator):
                next(found, None)
        except UserError as error:
            assert str(error).isprintable()
        except Exception as error:
            left.append(f"{said}: {type(error).__name__}: {error}")
    assert left == []
