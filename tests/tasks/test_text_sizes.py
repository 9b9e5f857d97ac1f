"""Starting points for language models, by the size of the text."""

from __future__ import annotations

import pytest

from anaphora.models.registry import kinds


def test_the_laboratory_settings_for_a_million_words() -> None:
    """Penn Treebank's 929,589 tokens: what was found to be good for it (docs/lab-notes.md)."""
    from anaphora.tasks.text_sizes import sized_to_text

    lstm = sized_to_text("lstm", 929_589, labeled=False, recipe={"model": {"kind": "lstm"}})
    assert (lstm["model"]["dim"], lstm["model"]["hidden"], lstm["model"]["layers"]) == (400, 1150, 3)
    assert lstm["training"]["warmup_steps"] == pytest.approx(930, rel=0.1)
    attention = sized_to_text("transformer-decoder", 929_589, labeled=False, recipe={})
    assert (attention["training"]["context"], attention["training"]["batch_tokens"]) == (256, 8192)


@pytest.mark.parametrize("kind", kinds("language"))
@pytest.mark.parametrize("tokens", [0, 300, 300_000, 1_000_000, 2_000_000, 20_000_000, 10**10])
def test_every_size_is_a_sound_document(kind: str, tokens: int) -> None:
    from anaphora.tasks.recipes import RunConfig
    from anaphora.tasks.text_sizes import sized_to_text, text_vocabulary

    for labeled in (False,) if kind == "backpack" else (False, True):  # it is no classifier
        document = sized_to_text(kind, tokens, labeled=labeled, recipe={"model": {"kind": kind}})
        document["model"]["kind"] = kind
        if labeled:
            document["model"]["labels"] = ["a", "b"]
            document["data"] = {"text": ["t"], "labels": ["l"]}
        config = RunConfig.read(document)
        config.task.refuse_foreign(config.model, document)
        assert RunConfig.read(config.document()).document() == config.document()
    assert 280 <= text_vocabulary(tokens) <= 32_000
