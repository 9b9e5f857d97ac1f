"""Expected reward and risk against exact enumeration; then whole runs: every option, kills, a reward that rises."""

from __future__ import annotations

import json
import os
import signal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import anaphora
from anaphora.data.batches import Batch
from anaphora.decoding.beam_search import Hypothesis
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.errors import UserError
from anaphora.evaluation.sentence_scores import sentence_chrf
from anaphora.models.contracts import DecoderState, Translator
from anaphora.tasks.recipes import complete
from anaphora.tasks.request import Outcome, Request, check_files
from anaphora.tasks.sequence_sizes import whole_translations
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from anaphora.training.objectives.objective import TranslationObjective
from anaphora.training.objectives.sequence_objective import (
    SequenceObjective,
    expected_reward_loss,
    expected_risk,
    gather,
)
from anaphora.training.training_settings import TrainingConfig
from deadly import in_a_child
from micro_runs import MICRO, write_pairs

LETTERS, LONGEST = {4: "a", 5: "b", 6: "c"}, 3


class Speaker(Translator):
    """Knows the place and the last letter, nothing of its source: a table of 3 places by 7 tokens."""

    capabilities = frozenset({"causal", "steppable", "normalised", "batch-invariant"})
    max_source_length = max_target_length = LONGEST

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(LONGEST, 7, 7, generator=torch.Generator().manual_seed(3)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Tensor, target: Tensor, source_lengths: Tensor) -> Tensor:
        return self.dropout(self.table)[torch.arange(target.shape[1]), target]

    def start(self, source: Tensor, source_lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        return DecoderState(beam, {}, {"position": torch.zeros(len(source) * beam, dtype=torch.long)})

    def step(
        self, tokens: Tensor, state: DecoderState, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        said = self.table[state.past["position"], tokens].log_softmax(-1)
        state.past["position"] += 1
        return said, state, None

    def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
        return 2.0 * target_tokens


class Alphabet:
    """As much of a tokenizer and of a corpus as the objective asks for."""

    def decode_batch(self, batch: list[list[int]]) -> list[str]:
        return ["".join(LETTERS.get(token, "") for token in tokens) for tokens in batch]

    def texts(self, side: str, rows: np.ndarray) -> list[str]:
        return ["ab"] * len(rows)


def everything() -> list[tuple[int, ...]]:
    """All that can be said in three steps: what ends by its mark, and what is cut off."""
    ended = [(*said, EOS) for length in range(LONGEST) for said in product(LETTERS, repeat=length)]
    return ended + list(product(LETTERS, repeat=LONGEST))


def log_p(model: Speaker, said: tuple[int, ...], temperature: float = 1.0, *, whole: bool = False) -> Tensor:
    """Step by step, from the formula; what is never said has no share."""
    total, last = torch.zeros(()), BOS
    for place, token in enumerate(said):
        logits = model.table[place, last] / temperature
        if not whole:
            logits = logits.masked_fill(torch.isin(torch.arange(7), torch.tensor([PAD, BOS, UNK])), -torch.inf)
        total, last = total + logits.log_softmax(-1)[token], token
    return total


def chrf_of(said: tuple[int, ...]) -> float:
    return float(sentence_chrf(Alphabet().decode_batch([list(said)]), ["ab"])[0])


def objective_of(model: Speaker, **settings: Any) -> SequenceObjective:
    settings = {"objective": "reinforce", "reward": "chrf", "likelihood_weight": 0.0, **settings}
    own: Any = Alphabet()
    config = TrainingConfig(**settings)
    return SequenceObjective(TranslationObjective(), model, own, own, config, DecodingConfig(max_length=LONGEST))


def batch_of(rows: int) -> Batch:
    tokens = {"source": np.full((rows, 1), EOS), "target": np.tile([BOS, 4, 5, EOS], (rows, 1))}
    lengths = {"source": np.ones(rows, np.int64), "target": np.full(rows, 4)}
    return Batch(np.arange(rows), tokens, lengths)


def exact_gradient(model: Speaker, temperature: float = 1.0) -> Tensor:
    expected = sum(log_p(model, said, temperature).exp() * chrf_of(said) for said in everything())
    assert isinstance(expected, Tensor)
    (gradient,) = torch.autograd.grad(-expected, model.table)
    return gradient


# The formulas -------------------------------------------------------------------------------------------------------


def test_all_that_can_be_said_has_probability_one() -> None:
    assert sum(log_p(Speaker(), said).exp().item() for said in everything()) == pytest.approx(1)


@pytest.mark.parametrize("samples", [2, 3])
def test_the_baseline_does_not_change_the_expected_gradient(samples: int) -> None:
    """Over all pairs, or triples, of translations that may be drawn, each with its probability: no noise is left."""
    values = torch.tensor([0.9, 0.2, 0.4, -1.3], requires_grad=True)
    rewards = torch.tensor([0.1, 0.7, 0.0, 1.0])
    p = values.softmax(0)
    (wanted,) = torch.autograd.grad(-(p * rewards).sum(), values)
    found, mean = torch.zeros(4), 0.0
    for drawn in product(range(4), repeat=samples):
        counts = torch.bincount(torch.tensor(drawn), minlength=4)[None].float()
        loss = expected_reward_loss(values.log_softmax(0)[None], rewards[None], counts)
        (gradient,) = torch.autograd.grad(loss, values)
        share = p[list(drawn)].prod().item()
        found, mean = found + share * gradient, mean + share * loss.item()
    assert torch.allclose(found, wanted, atol=1e-6)
    assert mean == pytest.approx(-(p * rewards).sum().item(), abs=1e-6)  # and the value is the expected reward


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_reinforce_follows_the_exact_gradient(temperature: float) -> None:
    """40 translations are possible: their expected reward is known, and so is its gradient."""
    model, rows = Speaker(dropout=0.5), 6_000
    objective = objective_of(model, candidates=6, sample_temperature=temperature, candidate_dropout=False)
    batch = objective.send(batch_of(rows), torch.device("cpu"))
    loss = objective(model.train(), batch) / rows
    loss.backward()
    exact = exact_gradient(model, temperature)
    assert model.table.grad is not None
    assert (model.table.grad - exact).norm() < 0.05 * exact.norm()
    expected = sum(log_p(model, said, temperature).exp().item() * chrf_of(said) for said in everything())
    assert loss.item() == pytest.approx(-expected, abs=0.01)
    assert objective.metrics()["reward"] == pytest.approx(-loss.item(), rel=1e-5)
    assert objective.metrics() == {"reward": 0.0}  # of nothing, since it was asked just now
    assert model.training  # dropout was off meanwhile, and is on again


def test_candidates_are_drawn_without_dropout_and_scored_with_it() -> None:
    """Of two scorings of the same candidates; each is that of a model some of whose numbers are dropped."""
    model = Speaker(dropout=0.5).train()
    scored = {}
    for dropout in (True, False):
        objective = objective_of(model, candidate_dropout=dropout)
        pairs = objective.send(batch_of(20), torch.device("cpu"))
        drawn = objective.candidates(pairs.translation, pairs.rows)
        one, two = (objective.log_probabilities(model, pairs.translation, drawn) for _ in range(2))
        scored[dropout] = drawn.tokens
        assert torch.equal(one, two) is not dropout
        assert model.training
    assert scored[True] == scored[False] == gather_of_plain(Speaker())


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("sharpness", [0.005, 1.0, 3.0])
def test_minimum_risk_follows_its_formula(sharpness: float, reference: bool) -> None:
    model, rows = Speaker(), 7
    settings = {"objective": "minimum-risk", "risk_sharpness": sharpness, "candidates": 4}
    objective = objective_of(model, **settings, risk_reference=reference)
    batch = objective.send(batch_of(rows), torch.device("cpu"))
    drawn = objective.candidates(batch.translation, batch.rows)
    assert bool(drawn.counts.min() == 0) is reference  # what nobody drew can only be the reference
    objective.drawn = 0  # the same again
    (found,) = torch.autograd.grad(objective(model, batch), model.table)
    risk = torch.zeros(())
    for row in range(rows):
        said = [tuple(tokens) for tokens, sentence in zip(drawn.tokens, drawn.sentence) if sentence == row]
        assert len(set(said)) == len(said)
        assert (said[0] == (4, 5, EOS) and len(said) > 1) or not reference
        powers = torch.stack([(sharpness * log_p(model, one, whole=True)).exp() for one in said])
        risk = risk + (powers / powers.sum() * torch.tensor([1 - chrf_of(one) for one in said])).sum()
    (wanted,) = torch.autograd.grad(risk, model.table)
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_sentence_with_one_candidate_has_a_risk_and_no_gradient() -> None:
    values = torch.tensor([[-1.0, -torch.inf], [-2.0, -1.0]], requires_grad=True)
    risk = expected_risk(values, torch.tensor([[0.25, 0.0], [1.0, 0.0]]), 1.0)
    (gradient,) = torch.autograd.grad(risk, values)
    assert risk.item() == pytest.approx(0.75 + torch.tensor([-2.0, -1.0]).softmax(0)[1].item())
    assert gradient[0].tolist() == [0, 0]
    assert gradient[1, 0] < 0 < gradient[1, 1]


def test_the_likelihood_is_added_with_its_weight() -> None:
    model = Speaker()
    plain, mixed = (objective_of(model, likelihood_weight=weight) for weight in (0.0, 0.3))
    batch = plain.send(batch_of(5), torch.device("cpu"))
    alone = TranslationObjective()(model, batch.translation)
    assert mixed(model, batch).item() == pytest.approx((plain(model, batch) + 0.3 * alone).item(), rel=1e-5)
    assert mixed.flops(model, batch) > plain.flops(model, batch) > 0


def test_operations_are_those_of_what_was_drawn_and_of_what_was_scored() -> None:
    """Every source is read once to draw from, and once for each different candidate; equal draws are scored once."""

    class Costly(Speaker):
        def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
            assert source_length == 1.0
            return 1000.0 * source_tokens + target_tokens

    model = Costly()
    objective = objective_of(model, candidates=8)
    batch = objective.send(batch_of(5), torch.device("cpu"))
    drawn = objective.candidates(batch.translation, batch.rows)
    objective.drawn = 0  # the same again
    objective(model, batch)
    sizes = [len(tokens) for tokens in drawn.tokens]
    assert len(sizes) < 40  # some were drawn twice
    once = 1000 * 5 + sum(size * count for size, count in zip(sizes, drawn.counts))
    assert objective.flops(model, batch) == pytest.approx(once / 3 + 1000 * len(sizes) + sum(sizes))


def test_the_same_is_said_once_and_counted() -> None:
    def said(*tokens: int, finished: bool = True) -> Hypothesis:
        return Hypothesis(list(tokens), 0.0, 0.0, [], finished)

    found = [[said(4), said(5), said(4)], [said(4, 4, 4, finished=False), said(), said()]]
    drawn = gather(found, None)
    assert drawn.tokens == [[4, EOS], [5, EOS], [4, 4, 4], [EOS]]  # what was cut off has no end mark to learn
    assert drawn.sentence.tolist() == [0, 0, 1, 1]
    assert drawn.place.tolist() == [0, 1, 0, 1]
    assert drawn.counts.tolist() == [2, 1, 1, 2]
    assert gather(found, [[4, EOS, PAD], [5, 5, EOS]]).tokens[:2] == [[4, EOS], [5, EOS]]
    assert gather(found, [[4, EOS, PAD], [5, 5, EOS]]).counts.tolist() == [2, 1, 0, 1, 2]


def gather_of_plain(model: Speaker) -> list[list[int]]:
    objective = objective_of(model)
    pairs = objective.send(batch_of(20), torch.device("cpu"))
    return objective.candidates(pairs.translation, pairs.rows).tokens


def test_no_two_sentences_share_their_noise_at_any_visit() -> None:
    """The model does not look at its source: what it says of a sentence is a function of the noise."""
    objective = objective_of(Speaker(), candidates=16, sample_temperature=3)
    pairs = objective.send(batch_of(30), torch.device("cpu"))
    said = set()
    for _ in range(3):
        drawn = objective.candidates(pairs.translation, pairs.rows)
        whose = list(zip(drawn.sentence.tolist(), map(tuple, drawn.tokens), drawn.counts.tolist()))
        said |= {tuple(one[1:] for one in whose if one[0] == row) for row in range(30)}
    assert len(said) == 90


def test_draws_differ_from_visit_to_visit_and_go_on_where_they_stopped() -> None:
    objective = objective_of(Speaker())
    pairs = objective.send(batch_of(20), torch.device("cpu"))
    one, two = (objective.candidates(pairs.translation, pairs.rows).tokens for _ in range(2))
    assert one != two
    again = objective_of(Speaker())
    again.load_state_dict({"drawn": torch.tensor(1)})
    assert again.candidates(pairs.translation, pairs.rows).tokens == two
    assert int(again.state_dict()["drawn"]) == 2
    again.load_state_dict({})
    assert again.candidates(pairs.translation, pairs.rows).tokens == one


def test_autocast_keeps_the_gradient(micro: Path) -> None:
    """What was converted while drawing, without gradients, is not used for learning."""
    from anaphora.tasks.opening import open_run

    run = open_run(micro, "cpu")
    config = TrainingConfig(objective="reinforce", candidates=3, likelihood_weight=0.0)
    prepared: Any = run.prepared  # type: ignore[attr-defined]
    tokenizer = prepared.tokenizers["target"]
    objective = SequenceObjective(
        TranslationObjective(), run.model, prepared.train, tokenizer, config, run.config.decoding
    )
    batch = objective.send(next(iter(run.batches().fixed())), torch.device("cpu"))  # type: ignore[attr-defined]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        objective(run.model, batch).backward()
    assert all(parameter.grad is not None for parameter in run.model.parameters())


# Whole runs ---------------------------------------------------------------------------------------------------------

TRAINING = {name: value for name, value in MICRO.items() if name.startswith("training.")}
REINFORCE: dict[str, Any] = {**TRAINING, "training.objective": "reinforce", "training.candidates": 3}


def reinforce(folder: Path, corpus: dict[str, Path], start: Path | None, **changes: Any) -> Outcome:
    named = {f"training.{name}": value for name, value in changes.items()}
    files: Any = corpus
    return anaphora.train(folder, **files, start_from=start, settings={**REINFORCE, **named}, device="cpu")


def test_what_it_starts_from_is_measured_and_may_stay_the_best(
    tmp_path: Path, corpus: dict[str, Path], micro: Path
) -> None:
    outcome = reinforce(tmp_path / "run", corpus, micro, learning_rate=1e-9, average=1)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert [entry["step"] for entry in metrics["history"]] == [0, 1, 2]
    assert {"gleu", "bleu", "chrf", "loss"} <= set(metrics["history"][0])
    assert outcome.weights == "those of step 0"  # nothing was better than the start
    began, ended = (load_file(path / "model.safetensors") for path in (micro, tmp_path / "run"))
    assert all(torch.equal(began[name], ended[name]) for name in began)
    log = [json.loads(line) for line in (tmp_path / "run/logs/log.jsonl").open()]
    assert all(0 <= entry["reward"] <= 1 for entry in log if entry["kind"] == "update")
    assert [entry["step"] for entry in log if entry["kind"] == "validation"] == [0, 1, 2]
    assert "GLEU" in (tmp_path / "run/card.md").read_text()


def test_one_batch_alone_is_no_mean_reward(tmp_path: Path, corpus: dict[str, Path], micro: Path) -> None:
    """A batch has sentences of one length, and short ones are easier: the first entry would say nothing."""
    reinforce(tmp_path / "run", corpus, micro, max_steps=4, log_every=2, checkpoint_every=4, batch_tokens=64)
    log = [json.loads(line) for line in (tmp_path / "run/logs/log.jsonl").open()]
    assert [(e["step"], "reward" in e) for e in log if e["kind"] == "update"] == [(1, False), (2, True), (4, True)]


def test_the_reward_decides_unless_another_metric_is_asked_for(
    tmp_path: Path, corpus: dict[str, Path], micro: Path
) -> None:
    for number, (changes, metric) in enumerate(
        [({}, "gleu"), ({"reward": "chrf"}, "chrf"), ({"reward": "bleu", "metric": "loss"}, "loss")]
    ):
        reinforce(tmp_path / str(number), corpus, micro, **changes, max_steps=1)
        assert anaphora.load(tmp_path / str(number), "cpu").config.training.metric == metric


@pytest.mark.parametrize("objective", ["reinforce", "minimum-risk"])
def test_killed_it_goes_on_bit_for_bit(
    tmp_path: Path, corpus: dict[str, Path], micro: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"objective": objective, "max_steps": 4, "accumulate": 2, "average": 1}
    reinforce(tmp_path / "whole", corpus, micro, **changes)

    def die() -> None:
        from anaphora.training.loop import Trainer

        update = Trainer.update

        def deadly(self: Trainer, batches: list[Any]) -> Any:
            if self.progress.step == 2:  # the third update is never made
                os.kill(os.getpid(), signal.SIGKILL)
            return update(self, batches)

        monkeypatch.setattr(Trainer, "update", deadly)
        reinforce(tmp_path / "parts", corpus, micro, **changes)

    assert in_a_child(die) == -signal.SIGKILL
    assert not (tmp_path / "parts/checkpoints/step-00000004").exists()
    reinforce(tmp_path / "parts", corpus, micro, **changes)
    for step in (3, 4):
        for name in ("model.safetensors", "training.safetensors"):
            one, other = (tmp_path / run / f"checkpoints/step-{step:08d}" / name for run in ("whole", "parts"))
            assert one.read_bytes() == other.read_bytes()


def test_the_reward_rises(tmp_path: Path) -> None:
    """Word for word translation, half learned by likelihood; then from its own attempts alone."""
    files: Any = write_pairs(tmp_path, 300, longest=4)
    words = {"tokenizer.kind": "word", "tokenizer.vocabulary": None, "model.dim": 32, "model.feed_forward": 64}
    likelihood = {"training.max_steps": 100, "training.learning_rate": 5e-3, "training.checkpoint_every": 100}
    anaphora.train(tmp_path / "start", **files, settings={**MICRO, **words, **likelihood}, device="cpu")
    start = tmp_path / "start"
    settings: dict[str, Any] = {"max_steps": 80, "checkpoint_every": 40, "learning_rate": 3e-3, "samples": 0}
    settings |= {"optimizer": "adamw", "schedule": "constant", "likelihood_weight": 0, "candidates": 8, "average": 1}
    reinforce(tmp_path / "run", files, start, **settings)
    history = json.loads((tmp_path / "run/metrics.json").read_text())["history"]
    assert history[0]["gleu"] < 80  # there is something to learn
    assert history[-1]["gleu"] > history[0]["gleu"] + 10
    log = [json.loads(line) for line in (tmp_path / "run/logs/log.jsonl").open()]
    rewards = [entry["reward"] for entry in log if entry["kind"] == "update"]
    assert np.mean(rewards[-20:]) > np.mean(rewards[:20]) + 0.1


def test_a_recurrent_translator_learns_so_too_and_keeps_its_kind(tmp_path: Path, corpus: dict[str, Path]) -> None:
    files: Any = corpus
    small = {name: value for name, value in MICRO.items() if name not in ("model.heads", "model.feed_forward")}
    anaphora.train(tmp_path / "start", **files, recipe="gnmt", settings=small, device="cpu")
    outcome = reinforce(tmp_path / "run", corpus, tmp_path / "start")  # no recipe is named
    assert (outcome.kind, outcome.steps) == ("gnmt", 2)
    began, ended = (
        load_file(tmp_path / name / "model.safetensors") for name in ("start", "run/checkpoints/step-00000002")
    )
    assert not all(torch.equal(began[name], ended[name]) for name in began)


def test_a_recipes_rates_are_not_those_of_a_model_that_can_translate(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("training: {learning_rate: 0.5, max_steps: 7, clip_norm: 2, optimizer: adamw}")
    start = complete("transformer", {}, pairs=30_000).document()
    asked = {"training": {"objective": "reinforce", "reward": "bleu"}}
    training = complete(str(recipe), asked, pairs=30_000, start_from="x", start=start).training
    gentle = whole_translations(30_000, "sgd")
    assert (training.optimizer, training.learning_rate) == ("sgd", gentle["learning_rate"])
    assert (training.max_steps, training.clip_norm) == (gentle["max_steps"], 2)
    assert (training.metric, training.consistency) == ("bleu", 0)
    asked["training"]["optimizer"] = "adamw"
    other = complete(str(recipe), asked, pairs=30_000, start_from="x", start=start).training
    assert (other.optimizer, other.momentum) == ("adamw", 0)
    assert other.learning_rate < training.learning_rate / 1_000  # Adam's steps are as long as its rate
    asked["training"] |= {"optimizer": "asgd"}
    averaged = complete(str(recipe), asked, pairs=30_000, start_from="x", start=start).training
    assert (averaged.learning_rate, averaged.momentum) == (training.learning_rate, training.momentum)
    asked = {"training": {"objective": "reinforce", "momentum": 0.5}}  # of the optimizer that it has unless told
    slower = complete(str(recipe), asked, pairs=30_000, start_from="x", start=start).training
    assert (slower.optimizer, slower.momentum) == ("sgd", 0.5)
    check_files(Request(tmp_path / "run", asked, str(recipe), start_from=tmp_path))
    recipe.write_text("training: {objective: minimum-risk, learning_rate: 0.5}")  # unless it is made for that
    assert complete(str(recipe), {}, pairs=30_000, start_from="x", start=start).training.learning_rate == 0.5


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "started", "message"),
    [
        ({}, False, "learns from a model's own translations, and there is no model yet; train one by likelihood first"),
        ({"objective": "minimum-risk"}, False, "start from it: start_from='MODEL'"),
        ({"objective": "likelihood"}, True, "training.candidates means nothing with training.objective=likelihood"),
        ({"risk_sharpness": 1}, True, "risk_sharpness means nothing with training.objective=reinforce"),
        ({"risk_reference": True}, True, "risk_reference means nothing with training.objective=reinforce"),
        ({"objective": "minimum-risk", "risk_sharpness": 0}, True, "risk_sharpness must be above 0, not 0"),
        ({"candidates": 1}, True, "candidates must be at least 2, not 1"),
        ({"likelihood_weight": -1}, True, "likelihood_weight must be at least 0"),
        ({"sample_temperature": 0}, True, "sample_temperature must be above 0"),
        ({"reward": "rouge"}, True, "training.reward cannot be 'rouge'"),
        ({"objective": "reinforced"}, True, "training.objective cannot be 'reinforced'.*did you mean .*reinforce"),
        ({"guided_alignment": 0.1}, True, "training.guided_alignment is about given translations"),
        ({"likelihood_weight": 0, "consistency": 1}, True, "training.consistency is a part of the likelihood"),
        ({"cuda_graphs": "on"}, True, "training.cuda_graphs=on needs a GPU"),
    ],
)
def test_mistakes(
    tmp_path: Path, corpus: dict[str, Path], micro: Path, changes: dict[str, Any], started: bool, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        reinforce(tmp_path / "run", corpus, micro if started else None, **changes)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_language_models_have_no_reward(tmp_path: Path, corpus: dict[str, Path]) -> None:
    for kind in ("lstm", "ngram"):
        with pytest.raises(UserError, match=f"training.objective means nothing for a model of kind {kind}"):
            anaphora.train(
                tmp_path / kind,
                text=corpus["source"],
                recipe=kind,
                settings={"training.objective": "reinforce"},
                device="cpu",
            )
