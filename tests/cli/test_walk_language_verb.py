"""`anaphora walk` through language models: a Backpack, a Transformer, and a model that has nothing to walk through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import anaphora
from anaphora.explain.trace import Trace


def test_the_verb_takes_language_models(say: Any, tmp_path: Path) -> None:
    """Two updates, then a walk by the command: a Backpack, a Transformer, and a model that counts."""
    text = tmp_path / "text.txt"
    text.write_text("the old dog sees a cat here.\na cat sees the old dog.\n" * 10, encoding="utf-8")
    small = {"model.dim": 16, "model.layers": 1, "model.heads": 2, "training.max_steps": 2, "training.context": 16}
    small |= {"tokenizer.vocabulary": 300, "data.hold_out": 2}
    for recipe, own in (("backpack", {"model.senses": 4}), ("transformer-decoder", {})):
        run = tmp_path / recipe
        anaphora.train(run, text=text, recipe=recipe, settings={**small, **own}, device="cpu")
        answer = say("walk", run, "the old dog", "--trace", run / "trace.json")
        assert answer.code == 0, answer.err
        assert "A = softmax(S)" in answer.out
        assert ("Z Eᵀ of sense" in answer.out) == (recipe == "backpack")
        document = Trace.read(run / "trace.json")
        assert document.model is not None
        assert document.model["family"] == recipe
        assert len(document.model["revision"]) == 32
    answer = say("walk", tmp_path / "backpack", "the dog", "--target", "der Hund")
    assert answer.code == 2
    assert "--target is a translation" in answer.err
    patch = tmp_path / "fix.json"
    assert say("patch", tmp_path / "backpack", patch, "--scale", "dog#1=2").code == 0
    answer = say("walk", tmp_path / "backpack", "the old dog", "--patch", patch, "--head", "1", "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.last)
    assert document["model"]["patches"] == [str(patch)]
    assert document["walks"][0]["title"] == "Sense 1 of every word, with fix.json"
    model = anaphora.load(tmp_path / "backpack")
    assert isinstance(model, anaphora.TextModel)
    plain, changed = model.walk("the old dog", head=1).walks[0], model.patched(patch).walk("the old dog", head=1)
    assert np.array_equal(plain.step("V").values[:-1], changed.walks[0].step("V").values[:-1])
    assert np.allclose(2 * plain.step("V").values[-1], changed.walks[0].step("V").values[-1])
    answer = say("walk", tmp_path / "transformer-decoder", "the dog", "--patch", patch)
    assert answer.code == 2
    mixed = [tmp_path / "mixed", tmp_path / "backpack", tmp_path / "transformer-decoder"]
    assert say("mix", *mixed, "--weights", "0.5,0.5").code == 0
    answer = say("walk", mixed[0], "the dog")
    assert answer.code == 2
    assert "or the part of a mixture that is one" in answer.err
    counted = tmp_path / "counted"
    anaphora.train(counted, text=text, recipe="ngram", settings={"data.hold_out": 2})
    answer = say("walk", counted, "the dog")
    assert answer.code == 2
    assert "does not attend to words; give a Transformer or a Backpack" in answer.err
