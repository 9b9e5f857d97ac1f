"""What only a GPU can show; run with `pytest -m gpu` on a machine that has one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import anaphora
from anaphora.errors import UserError
from anaphora.nn.attention import attend
from anaphora.pocket import generate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SMALL = {"model.dim": 64, "model.layers": 2, "model.heads": 2, "model.feed_forward": 128, "tokenizer.vocabulary": 600}

ATTENTIONS: list[dict[str, str]] = [{}, {"model.score": "additive"}, {"model.normalizer": "none"}]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(generate("train", 2_000, seed=3))
    (folder / "a.en").write_text("".join(p.source + "\n" for p in pairs), encoding="utf-8")
    (folder / "a.de").write_text("".join(p.target + "\n" for p in pairs), encoding="utf-8")
    return {"source": folder / "a.en", "target": folder / "a.de"}


def test_learns_resumes_and_speaks_as_on_the_cpu(files: dict[str, Path], tmp_path: Path) -> None:
    settings = {**SMALL, "training.checkpoint_every": 100, "training.learning_rate": 4e-3, "training.warmup_steps": 50}
    run = tmp_path / "run"
    half = anaphora.train(run, **files, device="cuda", settings={**settings, "training.max_steps": 100})
    whole = anaphora.train(run, **files, device="cuda", settings={**settings, "training.max_steps": 300})
    assert whole.steps == 300
    assert whole.validation["loss"] < half.validation["loss"] < 6
    lines = [pair.source for pair in generate("valid", 64, seed=3)]
    gpu = [t.text for t in anaphora.load(run, "cuda").translate(lines, beam=4)]
    cpu = [t.text for t in anaphora.load(run, "cpu").translate(lines, beam=4)]
    assert sum(a == b for a, b in zip(gpu, cpu)) >= 60, "tf32 may turn a near tie, not more"


@pytest.mark.parametrize("attention", ATTENTIONS, ids=str)
def test_replayed_graphs_learn_what_kernels_learn(
    attention: dict[str, str], files: dict[str, Path], tmp_path: Path
) -> None:
    """The same updates, launched one kernel at a time or replayed, with and without accumulation."""
    settings = {**SMALL, **attention, "model.dropout": 0.0, "training.max_steps": 60, "training.checkpoint_every": 60}
    settings |= {"training.precision": "fp32", "training.batch_tokens": 1000}
    for accumulate in (1, 2):
        losses = []
        for graphs in ("on", "off"):
            run = tmp_path / f"{graphs}{accumulate}"
            own = {**settings, "training.cuda_graphs": graphs, "training.accumulate": accumulate}
            with pytest.MonkeyPatch.context() as patch:  # batches of the same shapes on both sides
                patch.setattr("anaphora.tasks.translation_run.graphs_pay", lambda config, device: True)
                losses.append(anaphora.train(run, **files, device="cuda", settings=own).validation["loss"])
        assert losses[0] == pytest.approx(losses[1], rel=2e-3)


def test_dropout_is_drawn_anew_at_every_replay() -> None:
    from dataclasses import dataclass

    from anaphora.training.graphs import GraphedLearning

    @dataclass
    class Ones:
        x: torch.Tensor

    weight = torch.nn.Parameter(torch.ones(1000, device="cuda"))

    def learn(batch: Ones, tokens: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.dropout(batch.x * weight, 0.5).sum() / tokens
        loss.backward()
        return loss.detach()

    graphs = GraphedLearning(learn, [weight], torch.device("cuda"))
    values = [graphs(Ones(torch.ones(1000, device="cuda")), 10).item() for _ in range(6)]
    assert len(graphs.recordings) == 1
    assert len(set(values)) > 3
    assert weight.grad is not None
    assert weight.grad.sum().item() == pytest.approx(sum(values), rel=1e-4)  # backward adds up, replayed or not


@pytest.mark.parametrize("attention", ATTENTIONS, ids=str)
def test_compiled_training_runs(attention: dict[str, str], files: dict[str, Path], tmp_path: Path) -> None:
    settings = {**SMALL, **attention, "training.compile": "on"}
    settings |= {"training.max_steps": 20, "training.checkpoint_every": 20}
    outcome = anaphora.train(tmp_path / "run", **files, device="cuda", settings=settings)
    assert outcome.steps == 20


def test_out_of_memory_comes_first_and_proposes_a_batch_that_fits(files: dict[str, Path], tmp_path: Path) -> None:
    settings = {**SMALL, "training.batch_tokens": 2_000_000, "training.max_steps": 2, "data.hold_out": 0}
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.6e9 / total)
    try:
        with pytest.raises(UserError, match=r"training.batch_tokens=(\d+) training.accumulate=(\d+)") as caught:
            anaphora.train(tmp_path / "run", **files, device="cuda", settings=settings)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "largest batch" in str(caught.value)
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_is_the_reference(causal: bool) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 4, 17, 16, device="cuda", requires_grad=True) for _ in range(3))
    mask = torch.rand(3, 1, 17, 17, device="cuda") > 0.4
    mask[0, 0, 5] = False  # a query that may look at nothing
    results = []
    for backend in ("reference", "sdpa"):
        out = attend(query, key, value, mask=mask, causal=causal, backend=backend)  # type: ignore[arg-type]
        results.append((out, *torch.autograd.grad(out.square().sum(), (query, key, value))))
    for one, other in zip(*results):
        assert torch.allclose(one, other, atol=2e-3), (one - other).abs().max()
    assert results[1][0][0, :, 5].abs().max() == 0
