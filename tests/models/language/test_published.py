"""GPT-2 and BERT: the exact shape, the published names both ways, the logits of `transformers` for random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models import build_language_model, settings
from anaphora.models.language.published_weights import load_published, published_settings, published_weights
from anaphora.models.language.transformer_language import BERT, GPT2
from anaphora.tasks.recipes import load_recipe

SMALL = {"dim": 32, "layers": 3, "heads": 4, "max_length": 20, "dropout": 0.0, "attention_dropout": 0.0}
WORDS = 41
MASK = 7


def ours(preset: dict[str, Any], vocabulary: int = WORDS, **changes: Any) -> Any:
    return build_language_model(settings(preset | SMALL | changes), vocabulary).eval()  # type: ignore[arg-type]


def shaken(model: Any) -> Any:
    """Every number drawn, those too that begin as 0 or 1."""
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        parameter.data.normal_(0.1, 0.3, generator=generator)
    return model


def test_gpt2_has_its_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = build_language_model(settings(GPT2), 50_257)  # type: ignore[arg-type]
    assert model.parameter_count() == 124_439_808


def test_bert_has_its_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = build_language_model(settings(BERT | {"mask": 103}), 30_522)  # type: ignore[arg-type]
    head = [model.transform, model.vocabulary_head.bias]  # type: ignore[union-attr]
    beside = sum(p.numel() for p in head[0].parameters()) + head[1].numel()  # type: ignore[union-attr]
    assert model.parameter_count() - beside == 109_482_240


@pytest.mark.parametrize(("name", "shape"), [("gpt2", GPT2), ("bert", BERT)])
def test_the_recipes_have_the_published_shape(name: str, shape: dict[str, Any]) -> None:
    assert settings(load_recipe(name)["model"]) == settings(shape)


@torch.no_grad()
def test_bert_in_small_by_hand() -> None:
    """One block of one head, from its weights by their published names; `transformers` need not be there."""
    model = shaken(ours(BERT, mask=MASK, layers=1, heads=1, pooler=False))
    w = published_weights(model)
    ids = torch.tensor([9, 4, MASK, 11])

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return (
            centered / (centered.pow(2).mean(-1, keepdim=True) + 1e-12).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]
        )

    table, places, types = (w[f"bert.embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type"))
    x = norm(table[ids] + places[:4] + types[0], "bert.embeddings.LayerNorm")
    block = "bert.encoder.layer.0"
    query, key, value = (linear(x, f"{block}.attention.self.{n}") for n in ("query", "key", "value"))
    looked = (query @ key.T / 32**0.5).softmax(-1) @ value
    x = norm(x + linear(looked, f"{block}.attention.output.dense"), f"{block}.attention.output.LayerNorm")
    inner = torch.nn.functional.gelu(linear(x, f"{block}.intermediate.dense"))
    x = norm(x + linear(inner, f"{block}.output.dense"), f"{block}.output.LayerNorm")
    x = torch.nn.functional.gelu(linear(x, "cls.predictions.transform.dense"))
    x = norm(x, "cls.predictions.transform.LayerNorm")
    torch.testing.assert_close(model(ids[None])[0], x @ table.T + w["cls.predictions.bias"], atol=1e-4, rtol=1e-4)
    epsilons = {part.eps for part in model.modules() if isinstance(part, torch.nn.LayerNorm)}
    assert epsilons == {1e-12}  # too small to show in the numbers


def theirs_gpt2(**changes: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=3, n_head=4, n_positions=20, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0
    )
    return config, shaken(transformers.GPT2LMHeadModel(config).eval())


def theirs_bert(name: str = "BertForMaskedLM") -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=20,
    )
    return config, shaken(getattr(transformers, name)(config).eval())


@torch.no_grad()
def test_gpt2_says_what_transformers_says() -> None:
    _, theirs = theirs_gpt2()
    model = shaken(ours(GPT2))
    assert load_published(model, theirs.state_dict()) == []
    assert model.parameter_count() == sum(p.numel() for p in theirs.parameters())
    ids = torch.randint(0, WORDS, (3, 20), generator=torch.Generator().manual_seed(0))
    expected = theirs(ids).logits
    assert expected.std() > 0.5
    torch.testing.assert_close(model(ids), expected, atol=1e-4, rtol=1e-4)
    state = model.start(3, 20)  # and from its cache, word by word
    for place in range(20):
        said, state = model.step(ids[:, place], state)
        torch.testing.assert_close(said, expected[:, place].log_softmax(-1), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_bert_says_what_transformers_says() -> None:
    _, theirs = theirs_bert()
    model = shaken(ours(BERT, mask=MASK, pooler=False))
    assert load_published(model, theirs.state_dict()) == []
    ids = torch.randint(0, WORDS, (3, 20), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([20, 7, 1])
    seen = (torch.arange(20) < lengths[:, None]).long()
    expected = theirs(ids, attention_mask=seen).logits
    found = model(ids, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[row, :length], expected[row, :length], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_bert_without_its_head_lends_its_encoder_and_pooler() -> None:
    _, theirs = theirs_bert("BertModel")
    model = ours(BERT, mask=MASK)
    left = load_published(model, theirs.state_dict())
    assert all(name.startswith(("transform", "vocabulary_head")) for name in left)
    assert left
    ids, lengths = torch.randint(0, WORDS, (2, 9)), torch.tensor([9, 9])
    expected = theirs(ids)
    torch.testing.assert_close(model.contextual(ids, lengths), expected.last_hidden_state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model.pooled(ids, lengths), expected.pooler_output, atol=1e-4, rtol=1e-4)
    every = theirs(ids, output_hidden_states=True).hidden_states
    for own, other in zip(model.hidden(ids, lengths), every, strict=True):
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)


def test_our_weights_load_there() -> None:
    for (_, theirs), preset, changes in (
        (theirs_gpt2(), GPT2, {}),
        (theirs_bert(), BERT, {"mask": MASK, "pooler": False}),
    ):
        model = shaken(ours(preset, **changes))
        gaps = theirs.load_state_dict(published_weights(model), strict=False)
        assert not gaps.unexpected_keys
        assert set(gaps.missing_keys) <= {
            "lm_head.weight",
            "cls.predictions.decoder.weight",
            "cls.predictions.decoder.bias",
        }
        theirs.tie_weights()
        ids = torch.randint(0, WORDS, (2, 11))
        torch.testing.assert_close(model(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)


def test_settings_of_a_published_folder() -> None:
    for (config, theirs), changes in ((theirs_gpt2(), {}), (theirs_bert(), {"mask": MASK})):
        document = config.to_dict()
        model = build_language_model(settings(published_settings(document) | changes), WORDS)  # type: ignore[arg-type]
        assert load_published(model, theirs.state_dict()) in ([], ["pooler.weight", "pooler.bias"])
    with pytest.raises(UserError, match="'t5' are not known"):
        published_settings({"model_type": "t5"})


@pytest.mark.parametrize(("preset", "changes"), [(GPT2, {}), (BERT, {"mask": MASK})])
def test_there_and_back(preset: dict[str, Any], changes: dict[str, Any]) -> None:
    """Without `transformers`: published names hold every number, also without their first part."""
    one, other = shaken(ours(preset, **changes)), ours(preset, **changes)
    named = published_weights(one)
    short: dict[str, Tensor] = {name.removeprefix("transformer.").removeprefix("bert."): w for name, w in named.items()}
    for weights in (named, short | {"h.0.attn.bias": torch.ones(1)} if preset is GPT2 else short):
        assert load_published(other, weights) == []
        for name, tensor in one.state_dict().items():
            assert torch.equal(tensor, other.state_dict()[name]), name
        shaken_again = ours(preset, **changes).state_dict()
        other.load_state_dict(shaken_again)


def test_mistakes_are_named() -> None:
    model = ours(GPT2)
    weights = published_weights(model)
    missing = {name: w for name, w in weights.items() if name != "transformer.h.1.ln_1.weight"}
    with pytest.raises(UserError, match=r"do not have the model's shape \(transformer\.h\.1\.ln_1\.weight"):
        load_published(model, missing)
    with pytest.raises(UserError, match=r"transformer\.h\.9\.ln_1\.weight"):
        load_published(model, weights | {"transformer.h.9.ln_1.weight": torch.ones(32)})
    with pytest.raises(UserError, match=r"transformer.wpe.weight has shape \[21, 32\]"):
        load_published(model, weights | {"transformer.wpe.weight": torch.ones(21, 32)})
    with pytest.raises(UserError, match="positions=rotary has no name in GPT-2"):
        published_weights(ours(GPT2, positions="rotary"))
    with pytest.raises(UserError, match="GPT-2 attends to all places"):
        published_weights(ours(GPT2, window=4))
    with pytest.raises(UserError, match="mask"):
        published_weights(ours(BERT))
    with pytest.raises(UserError, match="lstm with norm=None has no name"):
        published_weights(build_language_model(settings({"kind": "lstm"}), WORDS))  # type: ignore[arg-type]
