"""Model folders that are not whole: each damage is named by file, for every verb that reads it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from hostile_world import USERS, World, damage, flip

# Model folders --------------------------------------------------------------------------------------------------------


def other_tokenizer(size: int) -> Callable[[bytes], bytes]:
    lines = ["quite another text", "whose words make other tokens", "zebras and quaggas jump"] * 9
    return lambda _: Tokenizer.train(TokenizerConfig(vocabulary=size), lines).to_json().encode()


def same_size_tokenizer(content: bytes) -> bytes:
    """Two tokens have changed places: every shape fits, and every translation would be wrong."""
    document = json.loads(content)
    vocabulary = document["model"]["vocab"]
    first, second = [token for token, id in vocabulary.items() if id in (100, 200)]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    return json.dumps(document).encode()


DATA_DAMAGED = r"model\.safetensors: is damaged: its content no longer has the checksum .*; restore the file"
HEADER_DAMAGED = r"model\.safetensors: (is damaged: .*|cannot be read \(.*\)); restore the file"

MODELS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (damage("config.yaml", None), r"is not a model folder \(it has no config\.yaml\); give the folder"),
    "no weights": (
        lambda folder: [shutil.rmtree(folder / "checkpoints"), (folder / "model.safetensors").unlink()],  # type: ignore
        "holds no weights yet; repeat the `anaphora train` command",
    ),
    "no tokeniser": (
        damage("tokenizer.json", None),
        r"tokenizer\.json: cannot read the tokenizer: No such file .*; rest",
    ),
    "cut weights": (damage("model.safetensors", lambda c: c[: len(c) // 2]), HEADER_DAMAGED),
    "weights without end": (damage("model.safetensors", lambda c: c[:-1]), HEADER_DAMAGED),
    "empty weights": (damage("model.safetensors", lambda _: b""), HEADER_DAMAGED),
    "a bit of the length": (damage("model.safetensors", flip(0.0)), HEADER_DAMAGED),
    "a bit of the header": (damage("model.safetensors", flip(0.01)), HEADER_DAMAGED),
    "a bit of the data": (damage("model.safetensors", flip(0.5)), DATA_DAMAGED),
    "the last bits": (damage("model.safetensors", flip(1.0)), DATA_DAMAGED),
    "newer": (
        damage("config.yaml", lambda c: c.replace(b"anaphora_format: 1", b"anaphora_format: 2")),
        r"config\.yaml: was written by a newer Anaphora \(format 2, .*; install a newer version",
    ),
    "someone else's config": (
        damage("config.yaml", lambda _: b"my: {own: 3}\n"),
        "is not an Anaphora model's config; ",
    ),
    "config key": (
        damage("config.yaml", lambda c: c.replace(b"feed_forward:", b"feed_foward:")),
        r"config\.yaml: unknown setting model\.feed_foward; did you mean 'feed_forward'\?",
    ),
    "other shape": (
        damage("config.yaml", lambda c: c.replace(b"feed_forward: 32", b"feed_forward: 48")),
        r"model\.safetensors: .* where the config means .*; use the files of one and the same model",
    ),
    "other layers": (
        damage("config.yaml", lambda c: c.replace(b"layers: 1\n", b"layers: 2\n", 1)),
        r"model\.safetensors: does not fit its config\.yaml .*; use the files",
    ),
    "cut tokeniser": (
        damage("tokenizer.json", lambda c: c[:500]),
        r"tokenizer\.json: this is not a tokenizer\.json: .*; ",
    ),
    "a larger tokeniser": (
        damage("tokenizer.json", other_tokenizer(310)),
        r"tokenizer\.json: this is not the tokenizer that",
    ),
    "a tokenizer of the same size": (
        damage("tokenizer.json", same_size_tokenizer),
        r"tokenizer\.json: this is not the tokenizer that the model learned with: .*; use the files of one",
    ),
}


HOW_USED = [(name, verb) for name in MODELS for verb in ("translate", "train from")]
"""One loader serves all: to be used, and to be learned on from."""
HOW_USED += [("a bit of the data", verb) for verb in USERS if verb not in ("translate", "train from")]


@pytest.mark.parametrize(("name", "verb"), HOW_USED)
def test_model_folders_that_are_not_whole(own: World, name: str, verb: str) -> None:
    apply, said = MODELS[name]
    apply(own.model)
    sentence = own.refused(*own.good(verb))
    assert re.search(said, sentence), sentence
    assert str(own.model) in sentence


def test_a_tokeniser_that_does_not_fit_is_told_by_the_weights_alone(own: World) -> None:
    (own.model / "metrics.json").unlink()
    damage("tokenizer.json", other_tokenizer(290))(own.model)
    assert re.search(
        r"does not fit its tokenizer: it has weights for 300 tokens, the tokenizer has 2\d\d; use the files of one",
        own.refused(*own.good("translate")),
    )


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b'{"trained_on": 3}', b'{"cost": {}, "step": "x", "vocabularies": 3}']
)
def test_damaged_metrics_are_in_nobodys_way(own: World, content: bytes) -> None:
    damage("metrics.json", lambda _: content)(own.model)
    for verb in ("translate", "info", "average"):
        answer = own.say(*own.good(verb))
        assert answer.code == 0, answer.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("checkpoints/step-00000001/model.safetensors", "is damaged: its content no longer has the checksum"),
        ("data/manifest.json", "manifest.json: this file is damaged: it has"),
        ("data/tokenizer.json", "tokenizer.json: this file is damaged: it has"),
        ("data/valid/00000.arrow", "00000.arrow: this file is damaged: it has"),
    ],
)
def test_averaging_a_damaged_run(own: World, name: str, said: str) -> None:
    damage(name, flip(0.9) if name.endswith("safetensors") else lambda c: c[: len(c) // 2])(own.model)
    assert said in own.refused(*own.good("average"))


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.json", "train/00000.arrow", "valid/00000.arrow"])
def test_damaged_prepared_data_is_not_learned_from(world: World, name: str) -> None:
    assert world.say(*world.good("train")).code == 0
    damage(f"data/{name}", flip(0.5))(world.run)
    said = world.refused(*world.good("train"), "training.max_steps=3")
    assert re.search(rf"run/data/{name}: this file is damaged: .*; delete the folder .*run/data and repeat", said)
    shutil.rmtree(world.run / "data")
    assert world.say(*world.good("train"), "training.max_steps=3").code == 0


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "progress.json"])
def test_continuing_from_a_damaged_checkpoint(world: World, name: str) -> None:
    assert world.say(*world.good("train")).code == 0
    damage(f"checkpoints/step-00000002/{name}", flip(0.9) if name.endswith("safetensors") else lambda c: c[:9])(
        world.run
    )
    answer = world.say(*world.good("train"), "training.max_steps=3")
    assert answer.code == 2
    assert re.search(rf"step-00000002/{name}: (is damaged|cannot be read)", answer.err)
    assert "Traceback" not in answer.err
    shutil.rmtree(world.run / "checkpoints" / "step-00000002")
    assert world.say(*world.good("train"), "training.max_steps=3").code == 0


@pytest.mark.parametrize("verb", [*USERS, "average"])
def test_folders_that_are_no_models(world: World, verb: str) -> None:
    for place, said in (
        (world.folder, "is not a model folder (it has no config.yaml); give the folder that `anaphora train` wrote"),
        (world.folder / "absent", "absent: there is no such folder; give the folder"),
        (world.folder / "good.en", "good.en: is a file, not a model folder; give the folder"),
    ):
        words = [place if word == world.model else word for word in world.good(verb)]
        assert said in world.refused(*words)


def test_swapped_arguments(world: World) -> None:
    said = world.refused("translate", world.folder / "good.en", world.model)
    assert "the model comes first: translate" in said
    said = world.refused("train", world.run, "--source", world.folder / "good.en", world.folder / "good.de")
    assert re.search(r"good\.de' is not a setting; a file of text goes behind --source or --target", said)
