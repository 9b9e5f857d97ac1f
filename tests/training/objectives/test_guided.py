"""Guided alignment: lessons fit any subwords, one head learns them, runs resume exactly, off costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import anaphora
from anaphora.alignment.alignment_method import read_choice
from anaphora.data.batches import Batches
from anaphora.data.preparation import prepare
from anaphora.errors import UserError
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.tokenizers.subword_dropout import SubwordSampler
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.tokenizers.words import split_words
from anaphora.training.objectives.guided import Guide, GuidedObjective, guided_loss
from anaphora.training.objectives.objective import TranslationObjective
from micro_runs import MICRO, write_pairs

GUIDED = {**MICRO, "training.guided_alignment": 0.5}
KINDS = {
    "bpe": TokenizerConfig(vocabulary=300),
    "bpe with dropout": TokenizerConfig(vocabulary=300, dropout=0.3),
    "unigram with dropout": TokenizerConfig(kind="unigram", vocabulary=290, dropout=0.3),
    "word with unknowns": TokenizerConfig(kind="word", fallback="unk", vocabulary=12),
    "character": TokenizerConfig(kind="character"),
}


def small(**changes: Any) -> Transformer:
    torch.manual_seed(1)
    shape: dict[str, Any] = {"dim": 16, "layers": 3, "heads": 2, "feed_forward": 32, "max_length": 128, "dropout": 0.0}
    return Transformer(TransformerConfig(**{**shape, **changes}), 300, 300)


def batches_of(folder: Path, config: TokenizerConfig) -> tuple[Batches, Guide]:
    files = write_pairs(folder, 40)
    sides = {side: [str(path)] for side, path in files.items()}
    made = prepare(folder / "data", sides, tokenizer=config, hold_out=0, max_length=100)
    tokenizers = made.tokenizers
    samplers = {side: SubwordSampler(one) for side, one in tokenizers.items()} if config.dropout else {}
    guide = Guide(made.train, (tokenizers["source"], tokenizers["target"]))
    return Batches(made.train, batch_tokens=400, seed=1, samplers=samplers, dropout=config.dropout), guide


def test_the_loss_by_hand() -> None:
    weights = torch.tensor([[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]])  # (1, T, S): two tokens, three source tokens
    words = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]])  # the first two spell word 0, the last is the end mark
    looks = torch.tensor([[[0.9, 0.0], [0.0, 0.0]]])
    expected = -0.9 * np.log(0.5)
    assert guided_loss(weights, words, looks).item() == pytest.approx(expected, rel=1e-5)
    assert guided_loss(torch.cat([weights, weights]), words, looks).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_lessons_are_about_words_whatever_the_tokens(tmp_path: Path, kind: str) -> None:
    batches, guide = batches_of(tmp_path, KINDS[kind])
    for index in range(min(3, batches.count(0))):
        batch = batches.batch(0, index)
        words, looks = guide(batch)
        assert words.shape[:2] == batch.tokens["source"].shape
        assert looks.shape[:2] == (len(batch), batch.tokens["target"].shape[1] - 1)
        for place, row in enumerate(batch.rows.tolist()):
            source, target = (guide.corpus.text(side, row) for side in ("source", "target"))
            names = [[word.text for word in split_words(text)] for text in (source, target)]
            lesson = guide.teacher.lesson(*names)
            read = batch.tokens["source"][place, : batch.lengths["source"][place] - 1]
            said = batch.tokens["target"][place, 1 : batch.lengths["target"][place] - 1]
            expected = np.zeros_like(words[place])
            for token, (first, stop) in enumerate(guide.spelled["source"](read, split_words(source), source).tolist()):
                expected[token, first:stop] = 1 / max(stop - first, 1)
            np.testing.assert_allclose(words[place], expected)
            expected = np.zeros_like(looks[place])
            for token, (first, stop) in enumerate(guide.spelled["target"](said, split_words(target), target).tolist()):
                if stop > first:
                    expected[token, : lesson.shape[1]] = lesson[first:stop].mean(axis=0)
            np.testing.assert_allclose(looks[place], expected, atol=1e-6)


def test_one_head_learns_and_only_the_loss_knows(tmp_path: Path) -> None:
    batches, guide = batches_of(tmp_path, KINDS["bpe"])
    model = small()
    objective = GuidedObjective(TranslationObjective(), model, guide, weight=1.0)
    batch = objective.send(batches.batch(0, 0), torch.device("cpu"))
    assert batch.tokens == batch.translation.tokens
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(25):
        plain = TranslationObjective()(model, batch.translation)
        loss = objective(model, batch)
        losses.append((loss - plain).item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.8 * losses[0]
    assert objective.hook.weights is None  # nothing is kept between updates
    assert [bool(block.cross_attention.hooks) for block in model.decoder.blocks] == [False, True, False]


def test_both_passes_of_the_consistency_loss_are_guided(tmp_path: Path) -> None:
    batches, guide = batches_of(tmp_path, KINDS["bpe"])
    model = small(dropout=0.1).eval()  # no noise: both passes are the same
    once = GuidedObjective(TranslationObjective(), model, guide, weight=2.0)
    twice = GuidedObjective(TranslationObjective(consistency=1.0), model, guide, weight=2.0)
    batch = once.send(batches.batch(0, 0), torch.device("cpu"))
    assert twice(model, batch).item() == pytest.approx(once(model, batch).item(), rel=1e-4)


@pytest.mark.slow  # ten seconds to load the compiler
def test_a_traced_model_is_guided_as_well(tmp_path: Path) -> None:
    batches, guide = batches_of(tmp_path, KINDS["bpe"])
    model = small()
    objective = GuidedObjective(TranslationObjective(), model, guide, weight=1.0)
    batch = objective.send(batches.batch(0, 0), torch.device("cpu"))
    compiled = torch.compile(model, backend="eager", dynamic=True)
    plain, traced = objective(model, batch), objective(compiled, batch)
    assert traced.item() == pytest.approx(plain.item(), rel=1e-5)
    traced.backward()
    assert model.decoder.blocks[1].cross_attention.query.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training.guided_layer": 3}, "training.guided_layer is 3, but the decoder's layers are 0 to 0"),
        ({"training.guided_head": 2}, "training.guided_head is 2, but the heads are 0 to 1"),
        ({"training.guided_alignment": -1}, "guided_alignment must be at least 0"),
    ],
)
def test_mistakes(tmp_path: Path, corpus: dict[str, Path], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        anaphora.train(tmp_path / "run", **corpus, settings={**GUIDED, **changes}, device="cpu")  # type: ignore[arg-type]


def test_a_guided_run_goes_on_bit_for_bit(tmp_path: Path, corpus: dict[str, Path]) -> None:
    settings = {**GUIDED, "tokenizer.dropout": 0.1}
    anaphora.train(tmp_path / "whole", **corpus, settings={**settings, "training.max_steps": 4}, device="cpu")  # type: ignore[arg-type]
    for steps in (2, 4):
        anaphora.train(tmp_path / "parts", **corpus, settings={**settings, "training.max_steps": steps}, device="cpu")  # type: ignore[arg-type]
    whole, parts = (
        load_file(tmp_path / name / "checkpoints/step-00000004/model.safetensors") for name in ("whole", "parts")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    unguided = {**settings, "training.guided_alignment": 0, "training.max_steps": 4}
    anaphora.train(tmp_path / "free", **corpus, settings=unguided, device="cpu")  # type: ignore[arg-type]
    free = load_file(tmp_path / "free/checkpoints/step-00000004/model.safetensors")
    assert not all(torch.equal(whole[name], free[name]) for name in whole)
    assert read_choice(tmp_path / "whole") is not None
