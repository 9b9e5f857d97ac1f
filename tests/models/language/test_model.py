"""Neural language models beyond the contract: streams in pieces, packed documents, costs, folders, mistakes."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from anaphora.config import documentation, to_mapping
from anaphora.errors import UserError
from anaphora.folder import WEIGHTS
from anaphora.models import build_language_model, read_language_model
from anaphora.models import settings as model_settings
from anaphora.models.backpack.backpack_settings import SenseConfig
from anaphora.models.language import causal as neural
from anaphora.models.language import transformer_language
from anaphora.models.registry import kinds, system
from anaphora.models.weights import model_weights, write_weights
from anaphora.nn import positions, transformer, transformer_settings
from anaphora.tokenizers.tokenizer import BOS
from grouped_flops import COUNTED
from neural_rungs import CAUSAL, CLASSIFIERS, LONGEST, MASKED, rung

VOCABULARY = 12
few = settings(max_examples=8)


@pytest.fixture(scope="module", params=CAUSAL)
def model(request: pytest.FixtureRequest) -> Any:
    return CAUSAL[request.param]()


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(2, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


# Streams --------------------------------------------------------------------------------------------------------------


@few
@given(cuts=st.lists(st.integers(1, 19), max_size=5, unique=True), seed=st.integers(0, 99))
def test_a_stream_in_pieces_is_the_stream(model: Any, cuts: list[int], seed: int) -> None:
    """What is carried from piece to piece is all that the whole would have known."""
    ids = some(3, 20, seed=seed)
    whole = model(ids)
    past = model.started(3, 20)  # what carries nothing by itself can be asked to
    found = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 20]):
        x, _, past = model.encode(ids[:, begin:end], past=past)
        found.append(model.head(x))
    close(torch.cat(found, dim=1), whole)
    assert past["position"].tolist() == [20] * 3


def test_what_carries_gives_its_state_unasked_and_leaves_the_old_one_alone(model: Any) -> None:
    ids = some(2, 6)
    begun, _, past = model.encode(ids[:, :3])
    assert (past is not None) == model.carries
    if past is None:
        return
    before = {name: tensor.clone() for name, tensor in past.items()}
    rest, _, after = model.encode(ids[:, 3:], past=past)
    close(model.head(torch.cat([begun, rest], dim=1)), model(ids))
    assert all(torch.equal(past[name], tensor) for name, tensor in before.items())
    assert not any(tensor.requires_grad for tensor in after.values())
    assert model.encode(ids, torch.tensor([6, 2]))[2] is None  # rows of their own lengths are whole texts


@pytest.mark.parametrize("name", ["rnn", "lstm with every dropout", "window wide", "conv"])
def test_carrying_lets_gradients_through_within_a_piece_alone(name: str) -> None:
    model = CAUSAL[name]().train().requires_grad_(True)
    past, total = None, torch.zeros(())
    for piece in some(2, 12).split(4, dim=1):
        x, _, past = model.encode(piece, past=past)
        logits = model.head(x)
        assert not any(tensor.requires_grad for tensor in past.values())
        total = total + logits.logsumexp(-1).sum()
    total.backward()  # nothing that it needs was overwritten
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


# Packed documents -----------------------------------------------------------------------------------------------------


@few
@given(
    sizes=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=3), seed=st.integers(0, 9)
)
def test_packed_documents_are_separate_ones(model: Any, sizes: list[list[int]], seed: int) -> None:
    width = max(map(sum, sizes)) + 1
    ids, documents = some(len(sizes), width, seed=seed), torch.full((len(sizes), width), -1)
    for row, lengths in enumerate(sizes):
        documents[row, : sum(lengths)] = torch.tensor([n for n, length in enumerate(lengths) for _ in range(length)])
    packed = model(ids, documents=documents)
    assert model.encode(ids, documents=documents)[2] is None
    for row, lengths in enumerate(sizes):
        begin = 0
        for length in lengths:
            close(packed[row, begin : begin + length], model(ids[row : row + 1, begin : begin + length])[0])
            begin += length


def test_packed_documents_teach_what_separate_ones_do(model: Any) -> None:
    model.requires_grad_(True)
    ids, documents = some(1, 7), torch.tensor([[0, 0, 0, 1, 1, 1, -1]])
    found = []
    for logits in (model(ids, documents=documents)[:, :6], model(ids[:, :6].view(2, 3)).view(1, 6, -1)):
        model.zero_grad()
        logits.sin().sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    model.requires_grad_(False)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_a_row_may_be_longer_than_its_documents_may_be() -> None:
    model = CAUSAL["transformer-decoder learned"]()
    ids = some(1, LONGEST + 9)
    documents = torch.tensor([[0] * LONGEST + [1] * 5 + [-1] * 4])
    close(model(ids, documents=documents)[:, :LONGEST], model(ids[:, :LONGEST]))
    with pytest.raises(UserError, match=f"{LONGEST + 5} tokens is longer than the model's {LONGEST} positions"):
        model(ids, documents=documents.clamp(max=0))


def test_documents_carry_nothing(model: Any) -> None:
    with pytest.raises(ValueError, match="packed documents are whole"):
        model.encode(some(1, 4), documents=torch.zeros(1, 4, dtype=torch.long), past=model.started(1, 8))


# Scores in pieces -----------------------------------------------------------------------------------------------------


def test_scores_are_the_same_in_pieces(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few tokens are read, and however few logits are formed, at a time."""
    ids, lengths = some(3, 20), torch.tensor([20, 11, 0])
    whole = model.score(ids, lengths)
    monkeypatch.setattr(neural, "PIECE_TOKENS", 21)
    monkeypatch.setattr(neural, "MAX_LOGITS", 5 * VOCABULARY)
    largest = []
    hook = model.head.register_forward_hook(lambda module, given, out: largest.append(len(out)))
    close(model.score(ids, lengths), whole)
    hook.remove()
    assert max(largest) == 5
    assert whole[2].abs().sum() == 0
    logits = model(torch.cat([torch.full((3, 1), BOS), ids[:, :-1]], dim=1))
    expected = logits.log_softmax(-1).gather(2, ids[:, :, None])[:, :, 0]
    close(whole[0], expected[0])
    close(whole[1, :11], expected[1, :11])


# Layers ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CAUSAL, *MASKED])
def test_every_layer_can_be_looked_at(name: str) -> None:
    model = (CAUSAL | MASKED)[name]()
    ids, lengths = some(2, 6), torch.tensor([6, 4])
    every = model.hidden(ids, lengths)
    assert len(every) == 1 + model.config.layers
    assert all(vectors.shape[:2] == (2, 6) for vectors in every)
    close(every[0], model.embedded(ids))
    last = model.contextual(ids, lengths)
    close(every[-1], last)
    assert all(not torch.equal(a, b) for a, b in pairwise(every) if a.shape == b.shape)


# Costs ----------------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN")
@pytest.mark.parametrize("name", [*CAUSAL, *MASKED])
def test_flops_are_those_that_torch_counts(name: str) -> None:
    """Within 1 %, of a whole pass; torch counts what a causal mask or a window hides, and that is taken off."""
    config = dataclasses.replace((CAUSAL | MASKED)[name]().config, dim=32)
    transformer = (
        isinstance(config, transformer_language.TransformerLanguageConfig) or getattr(config, "heads", None) is not None
    )
    if transformer:
        config.attention = "reference"  # its products are plain ones, which torch can count on any machine
    model = build_language_model(config, 100).eval()
    batch, length = 4, 30
    ids = some(batch, length)
    counting = FlopCounterMode(display=False, custom_mapping=COUNTED)
    with counting as counter, torch.backends.mkldnn.flags(enabled=False):
        model(ids)
    counted = float(counter.get_total_flops())
    backpack = isinstance(config, SenseConfig)
    if backpack:
        near = min((length + 1) / 2, config.sense_window or length)
        counted -= 2 * (1 + config.senses) * config.dim * batch * length * (length - near)
    if transformer:
        seen = (length + 1) / 2 if name in CAUSAL else length
        if config.window is not None:
            seen = min(seen, config.window if name in CAUSAL else 2 * config.window - 1)
        counted -= 4 * config.dim * config.layers * batch * length * (length - seen)
    known = {"types": len(ids.unique())} if backpack else {}
    assert model.flops(batch * length, length, **known) == pytest.approx(counted, rel=0.01)


def test_bytes_of_the_cache_are_those_it_has(model: Any) -> None:
    one, two = (model.start(1, length).past for length in (8, 9))
    more = sum(two[name].nbytes - one[name].nbytes for name in one)
    assert model.cache_bytes_per_token() == more


# Folders --------------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("name", [*CAUSAL, *MASKED, *(f"classifier {name}" for name in CLASSIFIERS)])
def test_a_model_is_a_folder(name: str, tmp_path: Path) -> None:
    made = (CAUSAL | MASKED | {f"classifier {n}": make for n, make in CLASSIFIERS.items()})[name]()
    write_weights(tmp_path / WEIGHTS, model_weights(made))
    config = model_settings(to_mapping(made.config))
    assert config == made.config
    read: Any = read_language_model(config, tmp_path)
    assert type(read) is type(made)
    assert (read.vocabulary, read.training, read.capabilities) == (VOCABULARY, False, made.capabilities)
    ids, lengths = some(2, 5), torch.tensor([5, 3])
    first, second = (m(ids, lengths) for m in (made, read))
    assert torch.equal(first[0], second[0])


def test_a_folder_without_or_with_other_weights(tmp_path: Path) -> None:
    config = model_settings({"kind": "lstm", "dim": 8})
    with pytest.raises(UserError, match="holds no model yet"):
        read_language_model(config, tmp_path)
    write_weights(tmp_path / WEIGHTS, model_weights(CAUSAL["gru"]()))
    with pytest.raises(UserError, match=r"does not fit its config\.yaml"):
        read_language_model(config, tmp_path)
    write_weights(tmp_path / WEIGHTS, {"x": torch.zeros(1)})
    with pytest.raises(UserError, match="holds no language model"):
        read_language_model(config, tmp_path)


# Settings and mistakes ------------------------------------------------------------------------------------------------


def test_every_kind_has_settings_with_words_for_each() -> None:
    for kind in kinds("language"):
        config = system(kind).settings_class()
        assert config().kind == kind
        for name, (_, _, text) in documentation(config).items():
            assert text, f"{kind}.{name}"


def test_the_choices_of_the_settings_are_those_of_the_layers() -> None:
    """The settings are written without torch, so the names stand there twice."""
    assert transformer_settings.Positions == positions.Positions
    assert transformer_settings.Activation == transformer.Activation
    assert transformer_settings.Norm == transformer.Norm


def test_the_settings_need_no_torch() -> None:
    import subprocess
    import sys

    asked = "import sys, anaphora.models.language.language_settings, anaphora.models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "window", "window": 0}, "window must be above 0, not 0"),
        ({"kind": "window", "hidden": 0}, "hidden must be above 0, not 0"),
        ({"kind": "dan", "layers": 0}, "layers must be above 0, not 0"),
        ({"kind": "lstm", "weight_dropout": 1.0}, "weight_dropout is 1.0; it must be at least 0 and below 1"),
        ({"kind": "conv", "width": 0}, "width must be above 0, not 0"),
        ({"kind": "conv", "width": 2, "labels": ["a", "b"], "bidirectional": True}, r"width \(2\) must be odd"),
        ({"kind": "gru", "dim": 7, "labels": ["a", "b"], "bidirectional": True}, "two directions share 7 dimensions"),
        ({"kind": "gru", "labels": ["a", "a"]}, "two names or more, each once"),
        ({"kind": "transformer-decoder", "dim": 30, "heads": 4}, r"dim \(30\) must be a multiple of heads \(4\)"),
        ({"kind": "transformer-decoder", "dim": 12, "heads": 4}, "rotary positions need an even dim / heads"),
        ({"kind": "transformer-decoder", "key_value_heads": 3}, "multiple of key_value_heads"),
        ({"kind": "transformer-decoder", "positions": "learned", "max_length": None}, "learned positions are a table"),
        ({"kind": "transformer-decoder", "max_length": 1}, "max_length is 1"),
        ({"kind": "transformer-decoder", "attention": "flex", "attention_dropout": 0.1}, "no dropout on weights"),
        ({"kind": "transformer-encoder", "windows": 3}, "unknown setting model.windows"),
        ({"kind": "lstmm"}, "unknown model.kind 'lstmm'"),
    ],
)
def test_mistakes_in_settings_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        model_settings(changes)
    assert "\n" not in str(caught.value)


def test_a_language_model_cannot_read_both_ways() -> None:
    with pytest.raises(UserError, match="shows a language model the words it is to guess"):
        rung("gru", bidirectional=True)()


def test_a_mask_outside_the_vocabulary_is_named() -> None:
    with pytest.raises(UserError, match="mask is 99, and the vocabulary has 12 tokens"):
        rung("transformer-encoder", mask=99)()


def test_more_than_the_positions_hold_is_named() -> None:
    model = CAUSAL["transformer-decoder learned"]()
    longest = some(1, LONGEST + 1)
    assert model.score(longest[:, :LONGEST], torch.tensor([LONGEST])).shape == (1, LONGEST)  # ⟨s⟩ in, the last word not
    for ask in (
        lambda: model.score(longest, torch.tensor([LONGEST + 1])),
        lambda: model.read(longest, torch.tensor([LONGEST + 1]), LONGEST + 9),
        lambda: model(longest),
    ):
        with pytest.raises(UserError, match=f"{LONGEST + 1} tokens .*{LONGEST}") as caught:
            ask()
        assert "\n" not in str(caught.value)
    state = model.read(longest[:, :LONGEST], torch.tensor([LONGEST]), LONGEST + 9)
    with pytest.raises(UserError, match=f"1 more tokens do not fit behind {LONGEST}: there is room for {LONGEST}"):
        model.step(torch.tensor([5]), state)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_steps_as_the_others_do() -> None:
    for changes in ({}, {"window": 3, "positions": "alibi"}):
        plain, flex = (rung("transformer-decoder", attention=kind, **changes)() for kind in ("auto", "flex"))
        ids = some(2, 9)
        documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, -1, -1], [0] * 9])
        close(flex(ids), plain(ids))
        close(flex(ids, documents=documents)[0, :7], plain(ids, documents=documents)[0, :7])
        state = flex.read(ids[:, :8], torch.tensor([8, 8]), 9)
        close(flex.step(ids[:, 8], state)[0], plain(ids)[:, 8].log_softmax(-1))


def test_waves_and_distances_have_no_end() -> None:
    for positions_kind in ("sinusoidal", "rotary", "alibi", "relative", "none"):
        model = rung("transformer-decoder", positions=positions_kind, max_length=None)()
        ids = some(1, 700)
        state = model.read(ids[:, :690], torch.tensor([690]), 700)
        said, _ = model.extend(ids[:, 690:], state)
        close(said, model(ids)[:, 690:].log_softmax(-1))
        again = rung(
            "transformer-decoder", positions=positions_kind, max_length=None
        )()  # that has seen nothing so long
        documents = (torch.arange(700) >= 30).long()[None]
        close(again(ids, documents=documents)[:, 30:], model(ids[:, 30:]))


def test_a_rotation_begins_as_one() -> None:
    model: Any = build_language_model(model_settings({"kind": "gru", "dim": 6, "initial": "orthogonal"}), VOCABULARY)
    for gate in model.encoder.cell.weight_hh_l0.detach().split(6):
        close(gate @ gate.T, torch.eye(6))


def test_what_is_added_up_begins_smaller() -> None:
    """GPT-2's beginning: deviation 0.02, where a sub-layer ends 0.02 / √(2 layers)."""
    torch.manual_seed(1)
    changes = {"kind": "transformer-decoder", "dim": 128, "layers": 8, "initial": "normal", "positions": "learned"}
    model: Any = build_language_model(model_settings(changes), 300)
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            ends = name.endswith(("attention.out.weight", "feed_forward.outer.weight"))
            assert weight.std().item() == pytest.approx(0.005 if ends else 0.02, rel=0.05), name


def test_experts_begin_as_the_network_that_they_stand_for() -> None:
    """Their gates at zero."""
    torch.manual_seed(1)
    changes = {"kind": "transformer-decoder", "dim": 64, "layers": 8, "initial": "normal", "experts": 3}
    model: Any = build_language_model(model_settings(changes), 30)
    for block in model.encoder.blocks:
        experts = block.feed_forward
        assert experts.inner.std().item() == pytest.approx(0.02, rel=0.05)
        assert experts.outer.std().item() == pytest.approx(0.005, rel=0.05)
        assert not experts.gate.any() and not experts.noise.any()
