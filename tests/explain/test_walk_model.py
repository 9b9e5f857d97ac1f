"""A walk through a model: its numbers are the model's, for every kind of attention a translator can have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from anaphora.alignment.model_alignment import Method
from anaphora.errors import UserError
from anaphora.explain import segments, walk_model
from anaphora.explain.selection import cell
from anaphora.explain.trace import Trace
from anaphora.explain.trace_parts import READS
from anaphora.explain.walk_model import Asked, look, parts_of, there_are
from anaphora.explain.walk_translator import walk_translator
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.nn.attention import MultiHeadAttention
from anaphora.nn.attention_capture import attention_layers, capture
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from micro_runs import pairs

SOURCE, TARGET = "the old dog sees a cat here.", "der alte Hund sieht ein Kater hier."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [text for pair in pairs(40) for text in pair]
    return Tokenizer.train(TokenizerConfig(vocabulary=400), texts)


def translator(tokenizer: Tokenizer, **settings: Any) -> Transformer:
    torch.manual_seed(0)
    config = {"dim": 16, "layers": 2, "heads": 4, "feed_forward": 32, "max_length": 64, "dropout": 0.1, **settings}
    model = Transformer(TransformerConfig(**config), len(tokenizer), len(tokenizer))
    for layer in attention_layers(model).values():  # at birth all look everywhere alike, and all biases are zero
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


def walked(model: Transformer, tokenizer: Tokenizer, **asked: Any) -> Trace:
    ids = tokenizer.encode(SOURCE), tokenizer.encode(TARGET)
    options = {name: asked.pop(name) for name in ("method", "said") if name in asked}
    return walk_translator(model, (tokenizer, tokenizer), (SOURCE, TARGET), ids, Asked(**asked), **options)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "post-norm": {"norm": "post"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative"},
    "window": {"window": 3},
    "grouped": {"key_value_heads": 2},
    "multi-query, rotary, window": {"key_value_heads": 1, "positions": "rotary", "window": 2},
    "additive": {"score": "additive"},
    "bilinear": {"score": "bilinear"},
    "linear": {"normalizer": "none"},
    "flex": {"attention": "flex", "window": 3, "positions": "alibi"},
    "reference": {"attention": "reference"},
}


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_multiply_back_to_the_models_own_output(tokenizer: Tokenizer, kind: str, part: str) -> None:
    model = translator(tokenizer, **KINDS[kind])
    trace = walked(model, tokenizer, part=part, layer=1, head=3)
    (walk,) = trace.walks
    assert walk.holds, [str(check) for check in walk.checks if not check.holds]
    said = " ".join(check.what for check in walk.checks)
    for what in ("the traced run captured", "the fast run's kernel", "fast run's layer output", "logits"):
        assert what in said
    # the same once more by hand: run, capture, compare
    path = parts_of(model)[part][1]
    ids = tokenizer.encode(SOURCE), tokenizer.encode(TARGET)
    with torch.no_grad(), capture(model, [path]) as seen:
        model(torch.tensor([[*ids[0], EOS]]), torch.tensor([[BOS, *ids[1]]]))
    weights = seen.weights(path)[0, 3].double().numpy()
    symbol = "A" if model.config.normalizer == "softmax" else "S"
    shown = walk.step(symbol)
    assert np.abs(np.where(weights == 0, 0, shown.values) - weights).max() < 1e-4
    if part == "decoder":
        hidden = walk.step("masked").mask
        assert hidden is not None
        assert not np.triu(hidden, 1).any()
    rotary = model.config.positions == "rotary" and part != "cross"
    assert ("Q₀" in [step.symbol for step in walk.steps]) == rotary
    biased = model.config.positions in ("alibi", "relative") and part != "cross"
    assert ("B" in [step.symbol for step in walk.steps]) == biased


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", ["plain", "rotary", "alibi", "additive", "linear", "grouped"])
def test_on_a_gpu_too(tokenizer: Tokenizer, kind: str) -> None:
    model = translator(tokenizer, **KINDS[kind]).cuda()
    before = torch.get_float32_matmul_precision()
    for part in ("encoder", "decoder", "cross"):
        walk = walked(model, tokenizer, part=part).walks[0]
        assert walk.holds, [str(check) for check in walk.checks if not check.holds]
    assert torch.get_float32_matmul_precision() == before


def test_one_query_is_one_row_of_the_same_walk(tokenizer: Tokenizer) -> None:
    model = translator(tokenizer, positions="alibi", window=4)
    whole = walked(model, tokenizer, part="decoder", layer=0, head=1).walks[0]
    row = next(n for n, label in enumerate(whole.step("A").rows) if label.startswith("Hund"))
    alone = walked(model, tokenizer, part="decoder", layer=0, head=1, query=str(row)).walks[0]
    for symbol in ("S", "B", "masked", "A", "Z", "O", "out"):
        assert alone.step(symbol).rows == [whole.step(symbol).rows[row]]
        assert np.allclose(alone.step(symbol).values[0], whole.step(symbol).values[row], atol=1e-5)
    assert alone.holds


def test_rows_are_named_by_what_they_predict(tokenizer: Tokenizer) -> None:
    trace = walked(translator(tokenizer), tokenizer, part="decoder", layer=0, head=0)
    step = trace.walks[0].step("A")
    assert step.columns[0] == "⟨s⟩"
    assert step.rows[-1] == "⟨/s⟩"
    assert step.rows[:-1] == step.columns[1:]
    decoder = [attention for attention in trace.attention if attention.module.startswith("decoder")]
    assert {attention.convention for attention in decoder} == {"row t predicts y_t"}
    assert "Row t predicts y_t" in trace.walks[0].says


def test_what_is_chosen_and_why(tokenizer: Tokenizer) -> None:
    model = translator(tokenizer)
    chosen = walked(model, tokenizer, method=Method(layer=1, head=2)).walks[0].settings
    assert (chosen["part"], chosen["layer"], chosen["head"]) == ("cross", 1, 2)
    assert "the head that word alignments use" in chosen["chosen"]
    mean = walked(model, tokenizer, method=Method(layer=0)).walks[0].settings
    assert mean["layer"] == 0
    assert "the layer that word alignments use; of its heads the most decided" in mean["chosen"]
    every = walked(model, tokenizer, method=Method()).walks[0].settings
    assert "word alignments use the mean of all heads; this one is the most decided" in every["chosen"]
    trace = walked(model, tokenizer, part="encoder")
    settings = trace.walks[0].settings
    decided = {
        (a.layer, h): a.weights[h].max(axis=-1).mean()
        for a in trace.attention
        if a.module.startswith("encoder") and a.weights is not None
        for h in a.heads
    }
    assert (settings["layer"], settings["head"]) == max(decided, key=decided.__getitem__)
    assert settings["choices"] == there_are(model)
    assert "cross layers 0 to 1 with heads 0 to 3" in settings["choices"]
    asked = walked(model, tokenizer, part="cross", head=0).walks[0].settings
    assert (asked["layer"], asked["head"]) == (1, 0)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"part": "cros"}, "there is no part 'cros'; this model has encoder, decoder, cross"),
        ({"layer": 2}, "there is no layer 2 in cross; it has layers 0 to 1"),
        ({"layer": -1}, "there is no layer -1 in cross; it has layers 0 to 1"),
        ({"head": 4}, "there is no head 4 in layer 1 of cross; it has heads 0 to 3"),
        ({"query": "Maus"}, "there is no query 'Maus'; there are 0 d, 1 ##er, 2 alte"),
    ],
)
def test_what_is_not_there_is_answered_by_what_is(tokenizer: Tokenizer, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        walked(translator(tokenizer), tokenizer, **asked)
    assert message in str(error.value)


def test_a_wrong_run_is_found_out(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the fast path to compute something else, the checks would say so."""
    model = translator(tokenizer)
    from anaphora.nn import attention

    real = attention.attend
    monkeypatch.setattr(attention, "attend", lambda *given, **choices: real(*given, **choices) * 1.01)
    walk = walked(model, tokenizer, part="cross", layer=1, head=0).walks[0]
    failed = [check.what for check in walk.checks if not check.holds]
    assert any("kernel" in what for what in failed)
    assert any("logits" in what for what in failed)
    monkeypatch.undo()
    other = walked(model, tokenizer, part="cross", layer=1, head=0, said=-1.0).walks[0]
    assert [check.what for check in other.checks if not check.holds] == [
        "one pass finds the translation as probable as the search did"
    ]


def test_nothing_stays_behind(tokenizer: Tokenizer) -> None:
    model = translator(tokenizer).train()
    walked(model, tokenizer)
    assert model.training
    for layer in attention_layers(model).values():
        assert not layer.hooks
        assert not layer._forward_pre_hooks
        assert all(not module._forward_hooks for module in layer.modules())


# Sizes ----------------------------------------------------------------------------------------------------------------


def test_above_the_budget_heads_are_summarised(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = translator(tokenizer)
    whole = walked(model, tokenizer, part="encoder", layer=0, head=0)
    monkeypatch.setattr(walk_model, "MAX_ATTENTION_BYTES", 100)
    small = walked(model, tokenizer, part="encoder", layer=0, head=0)
    assert small.walks[0].holds
    assert [a.module for a in small.attention] == [a.module for a in whole.attention]
    for one, other in zip(small.attention, whole.attention):
        assert one.weights is None
        assert one.shape == other.shape
        described = other.document(whole=False)["statistics"]
        assert one.summary is not None
        for mine, theirs in zip(one.summary, described, strict=True):
            assert mine == pytest.approx(theirs, rel=1e-4)


def test_more_pairs_than_anybody_follows_are_refused(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = translator(tokenizer)
    monkeypatch.setattr(walk_model, "MOST_CELLS", 20)
    with pytest.raises(UserError, match=r"more than a walk shows \(20\); walk one word: query="):
        walked(model, tokenizer)
    assert walked(model, tokenizer, query="0").walks[0].holds
    long = " ".join(["dog"] * 80)
    ids = tokenizer.encode(long), tokenizer.encode("Hund")
    with pytest.raises(UserError, match=r"the source has \d+ tokens; the model takes 64; shorten it$"):
        walk_translator(model, (tokenizer, tokenizer), (long, "Hund"), ids, Asked())


def test_nothing_to_read_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match="there is nothing to read; give a sentence with at least one word"):
        walk_translator(translator(tokenizer), (tokenizer, tokenizer), ("", "Hund"), ([], [5]), Asked())


def test_a_target_of_its_own_that_is_too_long_may_be_given(tokenizer: Tokenizer) -> None:
    model, ids = translator(tokenizer), (tokenizer.encode("dog"), [5] * 80)
    for said, cure in ((None, "shorten it$"), (-1.0, "give a shorter one: target")):
        with pytest.raises(UserError, match=rf"the target has 81 tokens; the model takes 64; {cure}"):
            walk_translator(model, (tokenizer, tokenizer), ("dog", "x"), ids, Asked(), said=said)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("budget", [walk_model.MAX_ATTENTION_BYTES, 0])
def test_damaged_weights_are_named(
    tokenizer: Tokenizer, value: float, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_model, "MAX_ATTENTION_BYTES", budget)
    model = translator(tokenizer)
    with torch.no_grad():
        next(iter(attention_layers(model).values())).out.weight[0, 0] = value
    for part in ("encoder", "decoder", "cross"):
        with pytest.raises(UserError, match="its weights are damaged; take an earlier checkpoint"):
            walked(model, tokenizer, part=part)


def test_no_number_is_like_another_run() -> None:
    fast, broken = torch.tensor([[1.0, 2.0]]), torch.full((1, 2), torch.nan)
    assert all(check.holds for check in walk_model.same_run(fast, fast))
    for pair in ((fast, broken), (broken, fast), (broken, broken)):
        assert not any(check.holds for check in walk_model.same_run(*pair))


def test_scores_of_a_model_that_rounding_decides(tokenizer: Tokenizer) -> None:
    model = translator(tokenizer)
    with torch.no_grad():
        attention_layers(model)["encoder.blocks.0.attention"].query_key_value.weight.mul_(1e4)
    with pytest.raises(UserError, match=r"head 0: scores reach .* where rounding decides their weights; walk another"):
        walked(model, tokenizer, part="encoder", layer=0, head=0)


def test_the_cell_of_one_query_is_pointed_at_as_in_the_whole(tokenizer: Tokenizer) -> None:
    model = translator(tokenizer)
    whole = walked(model, tokenizer, part="encoder", layer=0, head=1).walks[0]
    labels = whole.step("A").rows
    row, column = len(labels) - 3, labels.index("dog") if "dog" in labels else 1
    alone = walked(model, tokenizer, part="encoder", layer=0, head=1, query=str(row)).walks[0]
    asked = f"#{row},#{column}"
    assert [name for name, _ in cell(alone, asked).lines] == [name for name, _ in cell(whole, asked).lines]
    assert cell(alone, asked).row == cell(whole, asked).row == labels[row]
    with pytest.raises(UserError, match=f"there is no row '#0'; there are {row} "):
        cell(alone, "#0,#0")
    words = whole.row_words
    once = next(word for word in words if words.count(word) == 1)
    assert cell(whole, f"{once},{once}").row == labels[words.index(once)]


def test_without_softmax_the_most_decided_head_has_the_largest_scores(tokenizer: Tokenizer) -> None:
    walk = walked(translator(tokenizer, normalizer="none"), tokenizer, part="encoder").walks[0]
    assert "its rows' largest scores are the largest here" in walk.settings["chosen"]
    assert "Row t reads x_t" in walk.says


# Tokens ---------------------------------------------------------------------------------------------------------------


def test_half_characters_are_carried_as_bytes(tokenizer: Tokenizer) -> None:
    text = "the 👍 dog"
    ids = tokenizer.encode(text)
    segment = segments.segment("src", text, [*ids, EOS], tokenizer)
    assert b"".join(token.bytes for token in segment.tokens).decode() == text
    assert "⟨F0⟩" in [token.text for token in segment.tokens]
    assert all("\ufffd" not in token.text for token in segment.tokens)
    assert segment.tokens[-1].special
    documents = [token.document() for token in segment.tokens]
    assert "8A==" in [token["bytes"] for token in documents]  # base64 of the byte F0
    assert segments.words(segment)[0] == "the"
    half = segments.segment("tgt", tokenizer.decode(ids[:-3]), ids[:-3], tokenizer)  # cut inside the character
    assert b"".join(token.bytes for token in half.tokens) == b"".join(tokenizer.token_bytes(id) for id in ids[:-3])


def test_labels_mark_what_goes_on_with_a_word(tokenizer: Tokenizer) -> None:
    text = "the xylophone, here"
    segment = segments.segment("src", text, tokenizer.encode(text), tokenizer)
    names = segments.labels(segment)
    assert names[:2] == ["t", "##he"]
    assert "".join(name.removeprefix("##") for name in names).replace("␣", "") == "thexylophone,here"
    assert names.count(",") == 1
    for token in segment.tokens:
        assert text[token.start : token.end].strip() == token.text.strip()


# The seam for other models --------------------------------------------------------------------------------------------


def test_any_model_with_attention_can_be_looked_into(tokenizer: Tokenizer) -> None:
    """Nothing but the layers, a text and a function that runs it: a language model in ten lines."""

    class Reader(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(len(tokenizer), 16)
            self.stack = MultiHeadAttention(16, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.stack(self.table(ids), causal=True) @ self.table.weight.T

    torch.manual_seed(0)
    model, ids = Reader(), tokenizer.encode(SOURCE)
    text = segments.segment("src", SOURCE, ids, tokenizer)
    side = walk_model.Side(text, text, READS)
    maps, walk, logits = look(model, lambda: model(torch.tensor([ids])), {"stack": side}, Asked())
    assert walk.holds
    assert maps[0].mask == "causal"
    assert logits.shape == (len(ids), len(tokenizer))
    with pytest.raises(UserError, match="no attention"):
        look(torch.nn.Linear(2, 2), lambda: torch.zeros(1, 1, 1), {"stack": side}, Asked())
