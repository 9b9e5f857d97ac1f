"""The side effect of a patch: KL and perplexity by hand, nothing where nothing changed, windows counted once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anaphora.decoding.text_scoring import evaluate_ids
from anaphora.errors import UserError
from anaphora.explain.side_effect import side_effect
from anaphora.models.backpack.patch import Remove, Scale
from anaphora.models.backpack.patched import apply
from anaphora.tokenizers.tokenizer import BOS, EOS
from sense_models import looked_up, small_backpack

MODEL, TOKENIZER = small_backpack()
_, LOOKUP = looked_up(MODEL, TOKENIZER)
LINES = [
    "the sick dog",
    "a man said that the doctor",
    "",
    "he said that she said that he said that she said that he ran",
]
ROWS = [[*[one for one in TOKENIZER.encode(line) if one > 3], EOS] for line in LINES]
IDS = np.array([one for row in ROWS for one in row], np.uint32)
STARTS = np.cumsum([0, *map(len, ROWS)])
CHANGED = apply(MODEL, [Remove(words=("sick", "she"), senses=(0, 2))], LOOKUP)


def by_hand() -> tuple[list[float], list[float], list[float]]:
    kl, before, after = [], [], []
    for row in ROWS:
        ids = torch.tensor([[BOS, *row[:-1]]])
        with torch.no_grad():
            p, q = (torch.log_softmax(m.mixed(ids) @ m.vocabulary_matrix.T, -1)[0].double() for m in (MODEL, CHANGED))
        kl += (p.exp() * (p - q)).sum(-1).tolist()
        before += p[torch.arange(len(row)), row].tolist()
        after += q[torch.arange(len(row)), row].tolist()
    return kl, before, after


def test_kl_and_perplexity_are_those_by_hand() -> None:
    kl, before, after = by_hand()
    found = side_effect(MODEL, CHANGED, IDS, STARTS)
    assert found.tokens == len(IDS)
    assert found.kl == pytest.approx(np.mean(kl), rel=1e-4)
    assert found.kl_largest == pytest.approx(max(kl), rel=1e-4)
    assert found.perplexity_before == pytest.approx(np.exp(-np.mean(before)), rel=1e-5)
    assert found.perplexity_after == pytest.approx(np.exp(-np.mean(after)), rel=1e-5)
    assert found.moved == sum(one > 1e-6 for one in kl)
    assert 0 < found.moved < found.tokens  # before the first changed word nothing can move
    assert [place.token for place in found.places] == list(np.argsort(-np.array(kl)))[:5]
    for place in found.places:
        assert place.before == pytest.approx(before[place.token], abs=1e-4)
        assert place.after == pytest.approx(after[place.token], abs=1e-4)
    assert found.document()["perplexity_change"] == found.perplexity_after / found.perplexity_before - 1


def test_nothing_changed_is_nothing_moved() -> None:
    found = side_effect(MODEL, apply(MODEL, [Scale(words=("sick",), by=1.0)], LOOKUP), IDS, STARTS)
    assert (found.kl, found.kl_largest, found.moved, found.places) == (0.0, 0.0, 0, [])
    assert found.perplexity_before == found.perplexity_after


@pytest.mark.parametrize(
    ("boundaries", "context", "stride"), [("lines", 5, 2), ("stream", 8, 4), ("stream", None, None)]
)
def test_windows_are_those_of_evaluate(boundaries: str, context: int | None, stride: int | None) -> None:
    how: dict[str, object] = {"context": context, "stride": stride}
    found = side_effect(MODEL, CHANGED, IDS, STARTS, boundaries, **how)  # type: ignore[arg-type]
    for model, told in ((MODEL, found.perplexity_before), (CHANGED, found.perplexity_after)):
        parts = [(IDS, STARTS)]
        same = evaluate_ids(model, parts, lines=4, dropped=0, size=1, boundaries=boundaries, **how)  # type: ignore[arg-type]
        assert told == pytest.approx(same.perplexity, rel=1e-5)


@pytest.mark.parametrize("settings", [{"silent": [1, 2, 4]}, {"encoder": "lstm", "heads": None, "max_length": None}])
def test_perplexity_is_that_of_evaluate_whatever_the_model(settings: dict[str, object]) -> None:
    """One that never says some of its tokens; one that reads rows of any length as wholes."""
    model, tokenizer = small_backpack(**settings)
    changed = apply(model, [Remove(words=("sick", "she"), senses=(0, 2))], looked_up(model, tokenizer)[1])
    ids = np.array([*np.random.default_rng(1).integers(5, model.vocabulary, 699), EOS], np.uint32)
    starts = np.array([0, 640, 700])
    found = side_effect(model, changed, ids, starts)
    for one, told in ((model, found.perplexity_before), (changed, found.perplexity_after)):
        same = evaluate_ids(one, [(ids, starts)], lines=2, dropped=0, size=1, boundaries="lines")
        assert told == pytest.approx(same.perplexity, rel=1e-4)


def test_no_text_is_refused() -> None:
    with pytest.raises(UserError, match="there is no text to compare on"):
        side_effect(MODEL, CHANGED, np.zeros(0, np.uint32), np.zeros(1, np.int64))
