"""What experts cost that nobody asks: one update with 4 to 32 experts, every token asking the same number of them.

    python benchmarks/experts.py [--device auto] [--threads 2] [--rounds 7] [--out experts.json]
    python benchmarks/experts.py --small          # does it run? (the figures say nothing)

Two translators, each learning from the same random pairs: LSTMs with experts between them (`moe`), and a Transformer
with experts in every layer. An update is forward, backward, clipping and one step of AdamW, with the balance of experts
in the loss; on a GPU in bfloat16, recorded as a CUDA graph and replayed, as the trainer does. Sizes take turns in every
round, and a figure is the median over rounds; `learning` is forward and backward alone, since AdamW has more to change
the more experts there are. A gate that is new asks at random, so experts are asked about evenly.

The limit: from 4 to 32 experts the update takes less than 1.3 times as long. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from anaphora.device import choose_device, describe_device
from anaphora.models import build, settings
from anaphora.training.graphs import GraphedLearning
from anaphora.training.objectives.balancing import balanced
from anaphora.training.objectives.objective import TranslationBatch, TranslationObjective
from anaphora.training.optimizer import build_optimizer
from anaphora.training.training_settings import TrainingConfig

LIMIT = 1.3
EXPERTS = (4, 8, 16, 32)
LENGTH = 24


def batch(rows: int, vocabulary: int, device: torch.device) -> TranslationBatch:
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(4, vocabulary, (rows, LENGTH), generator=generator).to(device) for _ in range(2))
    lengths = torch.full((rows,), LENGTH, device=device)
    return TranslationBatch(source, lengths, target, target.roll(-1, 1), rows * LENGTH, rows * LENGTH, rows)


class Learner:
    """One model, and one update of it at a time."""

    def __init__(self, shape: dict[str, Any], vocabulary: int, pairs: TranslationBatch, device: torch.device) -> None:
        torch.manual_seed(1)
        self.model = build(settings(shape), vocabulary, vocabulary).to(device).train()  # type: ignore[arg-type]
        self.objective = balanced(TranslationObjective(0.1), self.model)
        self.optimizer = build_optimizer(self.model, TrainingConfig())
        self.pairs, self.device = pairs, device
        self.learn: Callable[[TranslationBatch, int], Any] = self.by_kernels
        if device.type == "cuda":
            self.learn = self.graphs = GraphedLearning(self.by_kernels, self.model.parameters(), device, print)

    def by_kernels(self, pairs: TranslationBatch, tokens: Any) -> torch.Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self.objective(self.model, pairs) / tokens
        loss.backward()
        return loss.detach()

    def wait(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def update(self) -> tuple[float, float]:
        """Seconds of learning, and of the whole update."""
        began = self.wait()
        self.learn(self.pairs, self.pairs.tokens)
        learned = self.wait()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.device.type != "cuda")
        return learned - began, self.wait() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, help="pairs of 24 tokens a side; 192 on a CPU, 512 on a GPU unless given")
    parser.add_argument("--system", choices=("moe", "transformer"), help="one of the two; both unless given")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = choose_device(arguments.device)
    gpu = device.type == "cuda"
    rows = arguments.rows or (2 if arguments.small else 512 if gpu else 192)
    dim, layers, vocabulary = (16, 1, 50) if arguments.small else (256, 6, 8000) if gpu else (256, 2, 2000)
    shared = {"dim": dim, "dropout": 0.1, "experts_per_token": 2}
    systems: dict[str, dict[str, Any]] = {
        "moe": {**shared, "kind": "moe"},
        "transformer": {**shared, "kind": "transformer", "layers": layers, "feed_forward": 4 * dim, "heads": 4},
    }
    pairs = batch(rows, vocabulary, device)
    print(f"{describe_device(device)}, torch {torch.__version__}, {rows} pairs of {LENGTH} tokens a side, {dim} wide")
    found: dict[str, Any] = {"device": describe_device(device), "torch": torch.__version__, "rows": rows, "systems": {}}
    for name, shape in systems.items():
        if arguments.system not in (None, name):
            continue
        learners = {number: Learner({**shape, "experts": number}, vocabulary, pairs, device) for number in EXPERTS}
        times: dict[int, list[tuple[float, float]]] = {number: [] for number in EXPERTS}
        for turn in range(-3 if gpu else -1, 1 if arguments.small else arguments.rounds):
            for number, learner in learners.items():
                measured = learner.update()
                if turn >= 0:  # those before warm up, and record
                    times[number].append(measured)
        table = {}
        print(f"\n{name}\n{'experts':>8} {'parameters':>12} {'learning':>12} {'update':>12}")
        for number, learner in learners.items():
            learning, update = (statistics.median(column) for column in zip(*times[number]))
            parameters = learner.model.parameter_count()
            table[number] = {"parameters": parameters, "learning_ms": 1e3 * learning, "update_ms": 1e3 * update}
            print(f"{number:>8} {parameters:>12,} {1e3 * learning:>9.1f} ms {1e3 * update:>9.1f} ms")
        ratios = {key: table[EXPERTS[-1]][key] / table[EXPERTS[0]][key] for key in ("learning_ms", "update_ms")}
        print(f"4 → 32: learning × {ratios['learning_ms']:.2f}, update × {ratios['update_ms']:.2f} (limit {LIMIT})")
        found["systems"][name] = {
            "table": table,
            "learning": ratios["learning_ms"],
            "update": ratios["update_ms"],
            "graphs": [len(learner.graphs.recordings) for learner in learners.values()] if gpu else None,
        }
        del learners
    found["limit"] = LIMIT
    found["within"] = all(system["update"] < LIMIT for system in found["systems"].values())
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
