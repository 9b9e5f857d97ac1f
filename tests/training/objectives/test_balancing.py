"""Balance: what it adds to a loss, that it keeps experts in use, and what a run says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anaphora
from anaphora.errors import UserError
from anaphora.models import build, settings
from anaphora.nn.mixture_of_experts import MixtureOfExperts, counting, load, mixtures, telling
from anaphora.tokenizers.tokenizer import PAD
from anaphora.training.objectives.balancing import BalancedObjective, balanced
from anaphora.training.objectives.objective import TranslationBatch, TranslationObjective
from anaphora.training.reporting import describe_experts
from forked import command
from micro_runs import MICRO

EXPERTS = 16


def learn(balance: float, seed: int = 1) -> tuple[dict[str, Any], float]:
    """Two hundred updates towards a network that the experts should become; the load, and the error, in the end."""
    torch.manual_seed(seed)
    centers = torch.randn(32, 16) * 2
    teacher = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16)).requires_grad_(False)
    layer = MixtureOfExperts(16, 16, experts=EXPERTS, per_token=2, balance=balance)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)

    def some(number: int) -> Tensor:
        return centers[torch.randint(32, (number,))] + 0.3 * torch.randn(number, 16)

    for _ in range(200):
        x = some(256)
        with telling(layer, torch.ones(256, dtype=torch.bool)):
            loss = (layer(x) - teacher(x)).square().mean()
        optimizer.zero_grad()
        (loss if layer.imbalance is None else loss + layer.imbalance).backward()
        optimizer.step()
    x = some(2048)
    with torch.no_grad(), counting(layer.eval()) as layers, telling(layer, torch.ones(2048, dtype=torch.bool)):
        error = (layer(x) - teacher(x)).square().mean().item()
    return load(layers), error


def test_without_balance_experts_idle_and_with_it_none_does() -> None:
    alone, _ = learn(0.0)
    held, error = learn(0.1)
    assert alone["idle"] >= 1
    assert held["idle"] == 0
    assert held["cv"] < alone["cv"] / 2
    assert error < 0.02  # and it learned what it should


def pairs() -> TranslationBatch:
    source = torch.tensor([[5, 6, 7, 2], [8, 2, PAD, PAD]])
    target = torch.tensor([[1, 9, 10], [1, 11, PAD]])
    labels = torch.tensor([[9, 10, 2], [11, 2, PAD]])
    return TranslationBatch(source, torch.tensor([4, 2]), target, labels, tokens=5, source_tokens=6, rows=2)


def translator(**changes: Any) -> Any:
    torch.manual_seed(1)
    shape = {"kind": "transformer", "dim": 16, "heads": 2, "layers": 1, "feed_forward": 16, "dropout": 0.0}
    return build(settings({**shape, **changes}), 20, 20)  # type: ignore[arg-type]


def test_it_adds_the_layers_imbalance_for_every_token() -> None:
    """Twice the weight is twice the addition; none, nothing."""
    losses = []
    for weight in (0.0, 0.5, 1.0):
        model = translator(experts=4, expert_balance=weight).train()
        objective = BalancedObjective(TranslationObjective(), model)
        torch.manual_seed(3)
        losses.append(objective(model, pairs()).item())
        assert all(layer.imbalance is None for layer in mixtures(model))  # nothing of the graph is kept
    torch.manual_seed(3)
    plain = TranslationObjective()(model, pairs()).item()
    imbalance = sum(layer.imbalance.item() for layer in mixtures(model) if layer.imbalance is not None)
    assert losses[0] == pytest.approx(plain, rel=1e-6)
    assert losses[2] - losses[0] == pytest.approx(imbalance * 5, rel=1e-4)
    assert losses[1] - losses[0] == pytest.approx((losses[2] - losses[0]) / 2, rel=1e-4)


def test_what_is_told_is_of_real_tokens_since_it_was_last_asked() -> None:
    model = translator(experts=4).train()
    objective = balanced(TranslationObjective(), model)
    objective(model, pairs())
    encoder, decoder = mixtures(model)
    assert encoder.asked.sum() == 2 * 6
    assert decoder.asked.sum() == 2 * 5
    told = objective.metrics()
    assert {"expert_shares", "expert_cv", "expert_entropy", "expert_idle", "experts"} == set(told)
    assert [sum(shares) for shares in told["expert_shares"]] == pytest.approx([1, 1], abs=1e-3)
    assert objective.metrics()["expert_shares"] == [[0.0] * 4] * 2
    objective(model, pairs())
    objective.load_state_dict({})  # what the largest batch tried out is forgotten
    assert not encoder.asked.any()


def test_a_model_without_experts_has_its_objective_to_itself() -> None:
    objective = TranslationObjective()
    assert balanced(objective, translator()) is objective


def test_in_a_line() -> None:
    found = {"shares": [[0.5, 0.5, 0.0, 0.0], [0.25] * 4], "idle": 2, "experts": 8, "cv": 0.5, "entropy": 0.75}
    assert describe_experts(found) == (
        "2 of 8 idle; each has 0.0% to 50.0% of its layer's choices (even: 25.0%); CV 0.50, entropy 75.0% of even"
    )


def test_a_run_tells_of_its_experts(tmp_path: Path, corpus: dict[str, Path]) -> None:
    """In the log at every line of it, for people, in metrics.json and in `info`."""
    shape = {key: value for key, value in MICRO.items() if key not in ("model.heads", "model.feed_forward")}
    anaphora.train(tmp_path / "run", **corpus, recipe="moe", settings={**shape, "model.experts": 4}, device="cpu")
    lines = [json.loads(line) for line in (tmp_path / "run" / "logs" / "log.jsonl").read_text().splitlines()]
    updates = [line for line in lines if line["kind"] == "update"]
    assert len(updates) == 2
    for line in updates:
        assert [len(shares) for shares in line["expert_shares"]] == [4, 4]  # encoder and decoder
        assert 0 <= line["expert_idle"] <= line["experts"] == 8
        assert 0 <= line["expert_entropy"] <= 1
    found = anaphora.load(tmp_path / "run", "cpu").info()
    assert found["active_parameters"] < found["parameters"]
    assert found["metrics"]["validation"]["experts"]["experts"] == 8
    said = command("info", tmp_path / "run").stdout
    assert "of which a token meets" in said
    assert "4 experts (2 a token)" in said
    assert "of 8 idle" in said


def test_stopped_and_continued_is_the_same(tmp_path: Path, corpus: dict[str, Path]) -> None:
    """Bit for bit, the noise of the gates too: three updates and three more are six, and tell the same of experts."""
    shape = {**MICRO, "model.experts": 4, "model.dropout": 0.1, "training.schedule": "constant"}
    whole, run = tmp_path / "whole", tmp_path / "run"
    for folder, steps in ((whole, 6), (run, 3), (run, 6)):
        settings = {**shape, "training.max_steps": steps, "training.checkpoint_every": 3, "training.accumulate": 2}
        anaphora.train(folder, **corpus, settings=settings, device="cpu")
    for file in ("checkpoints/step-00000006/training.safetensors", "model.safetensors"):
        assert (run / file).read_bytes() == (whole / file).read_bytes(), file
    lines = [[json.loads(line) for line in (one / "logs/log.jsonl").read_text().splitlines()] for one in (run, whole)]
    told = [[line["expert_shares"] for line in some if line["kind"] == "update"] for some in lines]
    assert told[0] == told[1]
    assert len(told[0]) == 6


def test_k_above_the_number_of_experts_is_refused_before_anything_is_made(
    tmp_path: Path, corpus: dict[str, Path]
) -> None:
    asked = {"model.experts": 4, "model.experts_per_token": 8}
    for recipe in ("transformer", "moe"):
        with pytest.raises(UserError, match="experts_per_token is 8, and there are 4 experts; a token can ask 1 to 4"):
            anaphora.train(tmp_path / "run", **corpus, recipe=recipe, settings=asked, device="cpu")
        assert not (tmp_path / "run").exists()
