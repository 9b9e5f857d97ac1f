"""Padding, and the share of a training step that making its batch takes.

    python benchmarks/batching.py --source train.en.gz --target train.de.gz [--batch-tokens 4096] [--device auto]

Limits: padding under 5 % of cells, batching under 2 % of step time. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from anaphora.data.batches import Batches
from anaphora.data.preparation import prepare
from anaphora.device import choose_device, describe_device
from anaphora.models import build
from anaphora.models.translation.transformer_translator import TransformerConfig
from anaphora.training.objectives.objective import TranslationObjective
from anaphora.training.optimizer import build_optimizer
from anaphora.training.training_settings import TrainingConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    with tempfile.TemporaryDirectory() as folder:
        sides = {"source": [arguments.source], "target": [arguments.target]}
        prepared = prepare(Path(folder) / "data", sides, hold_out=0)
        batches = Batches(prepared.train, batch_tokens=arguments.batch_tokens, seed=1)
        cells = real = 0
        making = []
        for index in range(batches.count(0)):
            began = time.perf_counter()
            batch = batches.batch(0, index)
            making.append(time.perf_counter() - began)
            cells += batch.cells
            real += sum(int(lengths.sum()) for lengths in batch.lengths.values())
        vocabulary = prepared.tokenizers["source"].vocabulary_size
        # the smallest preset: the shortest step, so the largest share
        config = TransformerConfig(dim=128, layers=4, heads=4, feed_forward=256, dropout=0.3)
        model = build(config, vocabulary, vocabulary).to(device).train()
        objective = TranslationObjective(smoothing=0.1)
        optimizer = build_optimizer(model, TrainingConfig())
        steps = []
        for index in range(arguments.steps + 3):
            on_device = objective.send(batches.batch(0, index), device)
            if device.type == "cuda":
                torch.cuda.synchronize()
            began = time.perf_counter()
            (objective(model, on_device) / on_device.tokens).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if device.type == "cuda":
                torch.cuda.synchronize()
            if index >= 3:  # the first ones warm up
                steps.append(time.perf_counter() - began)
    padding = 1 - real / cells
    batch_ms, step_ms = 1e3 * statistics.median(making), 1e3 * statistics.median(steps)
    print(f"{describe_device(device)}, {len(making)} batches of at most {arguments.batch_tokens} tokens a side")
    print(f"padding   {padding:.2%} of cells (limit 5 %)")
    print(f"batching  {batch_ms:.3f} ms, step {step_ms:.1f} ms: {batch_ms / step_ms:.2%} (limit 2 %)")
    print(json.dumps({"padding": padding, "batch_ms": batch_ms, "step_ms": step_ms, "share": batch_ms / step_ms}))


if __name__ == "__main__":
    main()
