"""model.score and model.normaliser: what goes together, what is refused and how, and what old settings mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anaphora.alignment.alignment_method import choose_for_folder
from anaphora.alignment.model_alignment import Method, no_weights
from anaphora.errors import UserError
from anaphora.models import build, settings
from anaphora.models.translation.transformer_translator import TransformerConfig
from anaphora.nn.attention_capture import attention_layers
from anaphora.tasks.recipes import complete
from anaphora.training.objectives.guided import guided_layer

SHAPE: dict[str, Any] = {"dim": 16, "layers": 2, "heads": 2, "feed_forward": 16, "max_length": 16}


@pytest.mark.parametrize("score", ["scaled-dot", "dot", "bilinear", "additive"])
@pytest.mark.parametrize("normalizer", ["softmax", "none"])
def test_every_attention_has_what_was_asked_for(score: Any, normalizer: Any) -> None:
    model = build(TransformerConfig(**SHAPE, score=score, normalizer=normalizer), 9, 9)
    layers = attention_layers(model)
    assert len(layers) == 2 + 2 * 2  # the encoder's, and two kinds of the decoder's
    assert {(layer.score.name, layer.normalizer) for layer in layers.values()} == {(score, normalizer)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": "additve"}, "additive"),
        ({"normalizer": "softmaks"}, "softmax"),
        ({"score": "additive", "positions": "rotary"}, "rotary positions show in plain dot products; with additive"),
        ({"score": "bilinear", "positions": "rotary"}, "rotary positions show in plain dot products; with bilinear"),
        ({"normalizer": "none", "positions": "alibi"}, "alibi positions shift a softmax; with normalizer 'none'"),
        ({"normalizer": "none", "positions": "relative"}, "relative positions shift a softmax"),
        ({"score": "additive", "attention": "sdpa"}, "attention=sdpa cannot do this: additive scores are no dot"),
        ({"normalizer": "none", "attention": "sdpa"}, "attention=sdpa cannot do this: it always applies softmax"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        settings({**SHAPE, **changes})
    assert message in str(caught.value)
    assert any(cure in str(caught.value) for cure in ("did you mean", "choose other", "leave it at auto"))
    assert "\n" not in str(caught.value)


def test_settings_from_before_these_keys_mean_what_they_meant() -> None:
    old = settings(SHAPE)
    assert (old.score, old.normalizer) == ("scaled-dot", "softmax")


def test_scores_without_softmax_are_no_alignment(tmp_path: Any) -> None:
    model = build(TransformerConfig(**SHAPE, normalizer="none"), 9, 9)
    why = no_weights(model)
    assert why is not None
    assert "has no softmax" in why
    with pytest.raises(UserError, match=r"has no softmax.*method='occlusion'"):
        Method(layer=0, head=0).check(model)
    Method(kind="occlusion").check(model)
    with pytest.raises(UserError, match=r"no attention to guide.*guided_alignment=0"):
        guided_layer(model, None, 0)
    choice = choose_for_folder(tmp_path, model, None)  # type: ignore[arg-type]
    assert (choice.method.kind, choice.reason) == ("occlusion", why)
    assert no_weights(build(TransformerConfig(**SHAPE, score="additive"), 9, 9)) is None


def test_guided_alignment_without_softmax_is_refused_before_a_model_is_built() -> None:
    own = {"model": {"normalizer": "none"}, "training": {"guided_alignment": 0.1}}
    with pytest.raises(UserError, match=r"training.guided_alignment teaches shares .* model.normalizer=none"):
        complete("tiny", own, pairs=100)


@pytest.mark.parametrize("changes", [{"score": "additive"}, {"score": "bilinear"}, {"normalizer": "none"}])
def test_the_weights_of_a_score_learn(changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = build(TransformerConfig(**SHAPE, **changes, dropout=0.0), 9, 9)
    source, lengths = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]]), torch.tensor([4, 2])
    model(source, torch.tensor([[1, 8, 7], [1, 4, 4]]), lengths).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if name.endswith("score_weight"):
            assert parameter.grad.abs().sum() > 0, name
