"""Convolutional translators on a GPU: the same answers as on a CPU, in CUDA graphs and in bf16; `pytest -m gpu`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.decoding.beam_search import DecodingConfig, search
from anaphora.models import build, settings
from anaphora.pocket import generate
from anaphora.tokenizers.tokenizer import EOS
from anaphora.training.graphs import GraphedLearning

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
KINDS = ("bytenet", "convs2s")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(generate("train", 2_000, seed=3))
    (folder / "a.en").write_text("".join(p.source + "\n" for p in pairs), encoding="utf-8")
    (folder / "a.de").write_text("".join(p.target + "\n" for p in pairs), encoding="utf-8")
    return {"source": folder / "a.en", "target": folder / "a.de"}


def small(kind: str) -> dict[str, Any]:
    vocabulary = {} if kind == "bytenet" else {"tokenizer.vocabulary": 600}
    return {"model.dim": 64, "model.layers": 3, "model.dropout": 0.0, **vocabulary}


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_says_what_it_says_on_a_cpu(kind: str) -> None:
    torch.manual_seed(3)
    model = build(settings({"kind": kind, "dim": 32, "layers": 4}), 60, 60).double().eval()  # type: ignore[arg-type]
    source = torch.randint(4, 60, (5, 20))
    source[:, -1] = EOS
    lengths, config = torch.full((5,), 20), DecodingConfig(beam=4, n_best=4, max_length=40)
    cpu = search(model, source, lengths, config)
    gpu = search(model.cuda(), source.cuda(), lengths.cuda(), config)
    assert [[one.tokens for one in found] for found in gpu] == [[one.tokens for one in found] for found in cpu]


@pytest.mark.parametrize("kind", KINDS)
def test_replayed_graphs_learn_what_kernels_learn(kind: str, files: dict[str, Path], tmp_path: Path) -> None:
    own = {**small(kind), "training.max_steps": 60, "training.checkpoint_every": 60, "training.precision": "fp32"}
    losses = []
    for graphs in ("on", "off"):
        with pytest.MonkeyPatch.context() as patch:  # batches of the same shapes on both sides
            patch.setattr("anaphora.tasks.translation_run.graphs_pay", lambda config, device: True)
            asked = {"recipe": kind, "settings": {**own, "training.cuda_graphs": graphs}, "device": "cuda"}
            losses.append(anaphora.train(tmp_path / graphs, **files, **asked).validation["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_learns_in_bf16_by_recorded_graphs(kind: str, files: dict[str, Path], tmp_path: Path) -> None:
    own = {**small(kind), "training.precision": "bf16", "training.checkpoint_every": 100}
    own |= {"training.learning_rate": 3e-3, "training.warmup_steps": 50}
    recorded, record = [], GraphedLearning.record

    def counting(self: GraphedLearning, batch: Any) -> Any:
        made = record(self, batch)  # a kernel that cannot be recorded raises here
        recorded.append(made)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphedLearning, "record", counting)
        half, whole = (
            anaphora.train(
                tmp_path / "run", **files, recipe=kind, settings={**own, "training.max_steps": steps}, device="cuda"
            )
            for steps in (100, 400)
        )
    assert whole.validation["loss"] < half.validation["loss"]
    assert recorded
