"""`anaphora walk` through language models: a Backpack, a Transformer, and a model that has nothing to walk through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anaphora
from anaphora.inspect.trace import Trace


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
    counted = tmp_path / "counted"
    anaphora.train(counted, text=text, recipe="ngram", settings={"data.hold_out": 2})
    answer = say("walk", counted, "the dog")
    assert answer.code == 2
    assert "anaphora why" in answer.err
