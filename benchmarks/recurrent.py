"""Training a recurrent translator: tokens a second, beside JoeyNMT on a CPU and beside a plain loop on a GPU.

    python benchmarks/recurrent.py cpu --source train.en.gz --target train.de.gz --joeynmt JOEY/bin/python
    python benchmarks/recurrent.py gpu --source train.en.gz --target train.de.gz

cpu: JoeyNMT (`pip install joeynmt`, in an environment of its own whose interpreter is given) with its recurrent model:
GRU, both ways, Bahdanau's scores, input feeding; here the same network (`luong` with additive scores) and `bahdanau` of
the same sizes. All learn from the same batches, one after the other in processes of their own, by turns; an update is
forward, backward, clipping and Adam. Limit: at least 1.3 times JoeyNMT's tokens a second.

gpu: a plain eager loop (packed cuDNN encoder, one cell and one attention a step, bfloat16, fused AdamW) against
`bahdanau` as `anaphora train` runs it: the hand-written way back, recorded in CUDA graphs. Limit: at least 3 times.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS = 0, 1, 2
WARM = 3
"""Updates before the clock starts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", choices=["cpu", "gpu", "child"])
    parser.add_argument("--source")
    parser.add_argument("--target")
    parser.add_argument("--joeynmt", help="interpreter of an environment that has joeynmt")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--system", help="of a child")
    parser.add_argument("--batches", help="of a child")
    arguments = parser.parse_args()
    if arguments.where == "child":
        child(arguments)
    elif arguments.where == "cpu":
        on_cpu(arguments)
    else:
        on_gpu(arguments)


# Batches ------------------------------------------------------------------------------------------------------------


def make_batches(arguments: argparse.Namespace, folder: Path, *, multiple: int = 1) -> list[dict[str, np.ndarray]]:
    """source (B, S), source_lengths (B,), target (B, T + 1) with both marks: the first batches of an epoch."""
    from anaphora.data.batches import Batches
    from anaphora.data.preparation import prepare
    from anaphora.tokenizers.tokenizer import TokenizerConfig

    sides = {"source": [arguments.source], "target": [arguments.target]}
    tokenizer = TokenizerConfig(vocabulary=arguments.vocabulary)
    prepared = prepare(folder / "data", sides, tokenizer=tokenizer, hold_out=0)
    batches = Batches(prepared.train, batch_tokens=arguments.batch_tokens, seed=1, multiple=multiple)
    made = [batches.batch(0, index) for index in range(WARM + arguments.updates)]
    return [
        {
            "source": batch.tokens["source"],
            "source_lengths": batch.lengths["source"],
            "target": batch.tokens["target"],
            "target_lengths": batch.lengths["target"],
        }
        for batch in made
    ]


def labels(batches: list[dict[str, np.ndarray]]) -> int:
    return sum(int((batch["target_lengths"] - 1).sum()) for batch in batches)


# CPU ----------------------------------------------------------------------------------------------------------------


def on_cpu(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batches = make_batches(arguments, folder)
        np.savez(
            folder / "batches.npz", **{f"{i}.{key}": value for i, b in enumerate(batches) for key, value in b.items()}
        )
        systems = {"luong": sys.executable, "bahdanau": sys.executable, "bahdanau-steps": sys.executable}
        if arguments.joeynmt:
            systems = {"joeynmt": arguments.joeynmt, **systems}
        found: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
        for _ in range(arguments.rounds):
            for system, python in systems.items():
                command = [python, __file__, "child", "--system", system, "--batches", str(folder / "batches.npz")]
                command += ["--dim", str(arguments.dim), "--vocabulary", str(arguments.vocabulary)]
                command += ["--threads", str(arguments.threads)]
                threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
                run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads})
                if run.returncode:
                    raise SystemExit(f"{system}: {run.stderr.strip()[-600:]}")
                found[system].append(json.loads(run.stdout.strip().splitlines()[-1]))
    report(found, beside="joeynmt", limit=1.3, arguments=arguments)


def child(arguments: argparse.Namespace) -> None:
    """One system, in a process of its own: seconds for the timed updates, and what it is."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    loaded = np.load(arguments.batches)
    count = 1 + max(int(key.partition(".")[0]) for key in loaded.files)
    names = ("source", "source_lengths", "target", "target_lengths")
    batches = [{name: loaded[f"{i}.{name}"] for name in names} for i in range(count)]
    make, held = joeynmt_update, nullcontext()
    if arguments.system != "joeynmt":
        from anaphora.device import keeping_freed_memory

        make, held = our_update, keeping_freed_memory("cpu")  # as the loop of `anaphora train` does
    update, parameters = make(arguments, arguments.system)
    losses = []
    with held:
        for batch in batches[:WARM]:
            losses.append(update(batch))
        began = time.perf_counter()
        for batch in batches[WARM:]:
            losses.append(update(batch))
        seconds = time.perf_counter() - began
    tokens = labels(batches[WARM:])
    print(json.dumps({"tokens_per_second": tokens / seconds, "parameters": parameters, "last_loss": losses[-1]}))


def our_update(arguments: argparse.Namespace, system: str) -> tuple[Callable[[dict[str, np.ndarray]], float], int]:
    from anaphora.models import build, settings
    from anaphora.training.objectives.objective import TranslationBatch, TranslationObjective
    from anaphora.training.optimizer import build_optimizer
    from anaphora.training.training_settings import TrainingConfig

    kind, _, unroll = system.partition("-")
    chosen: dict[str, Any] = {"kind": kind, "cell": "gru", "score": "additive", "dim": arguments.dim, "layers": 1}
    chosen |= {"encoder_dim": 2 * arguments.dim, "dropout": 0.0, "tie": "none", "unroll": unroll or "auto"}
    model = build(settings(chosen), arguments.vocabulary, arguments.vocabulary).train()  # type: ignore[arg-type]
    objective, optimizer = TranslationObjective(smoothing=0.1), build_optimizer(model, TrainingConfig())

    def update(batch: dict[str, np.ndarray]) -> float:
        target = torch.from_numpy(batch["target"])
        tokens = int((batch["target_lengths"] - 1).sum())
        given = TranslationBatch(
            torch.from_numpy(batch["source"]),
            torch.from_numpy(batch["source_lengths"]),
            target[:, :-1].contiguous(),
            target[:, 1:].contiguous(),
            tokens,
            int(batch["source_lengths"].sum()),
            len(target),
        )
        loss = objective(model, given) / tokens
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return update, model.parameter_count()


def joeynmt_update(arguments: argparse.Namespace, system: str) -> tuple[Callable[[dict[str, np.ndarray]], float], int]:
    """As joeynmt/training.py does it: rows sorted by source length, loss, backward, clipping, Adam."""
    from types import SimpleNamespace

    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    marks = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": None}
    numbers = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "lang_tags": []}
    ours_to_theirs = np.arange(arguments.vocabulary)
    ours_to_theirs[:4] = [1, 2, 3, 0]  # ⟨pad⟩ ⟨s⟩ ⟨/s⟩ ⟨unk⟩
    words = [f"w{number}" for number in range(4, arguments.vocabulary)]
    vocabulary = Vocabulary(words, SimpleNamespace(**marks, **numbers))
    dim = arguments.dim
    embeddings = {"embedding_dim": dim, "scale": False, "dropout": 0.0}
    encoder = {"type": "recurrent", "rnn_type": "gru", "embeddings": embeddings, "hidden_size": dim}
    encoder |= {"bidirectional": True, "dropout": 0.0, "num_layers": 1}
    decoder = {"type": "recurrent", "rnn_type": "gru", "embeddings": embeddings, "hidden_size": dim, "dropout": 0.0}
    decoder |= {"hidden_dropout": 0.0, "num_layers": 1, "input_feeding": True, "init_hidden": "bridge"}
    decoder |= {"attention": "bahdanau"}
    model = build_model({"encoder": encoder, "decoder": decoder, "tied_softmax": False}, vocabulary, vocabulary).train()
    model.loss_function = ("crossentropy", 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # as joeynmt/builders.py makes it

    def update(batch: dict[str, np.ndarray]) -> float:
        order = np.argsort(-batch["source_lengths"], kind="stable")
        source, target = (torch.from_numpy(ours_to_theirs[batch[side]][order]) for side in ("source", "target"))
        given = {
            "src": source,
            "src_length": torch.from_numpy(batch["source_lengths"][order]),
            "src_mask": (source != 1).unsqueeze(1),
            "trg_input": target[:, :-1],
            "trg": target[:, 1:],
            "trg_mask": (target[:, 1:] != 1).unsqueeze(1),
        }
        summed, _, _, correct = model(return_type="loss", **given)
        loss = summed / int((batch["target_lengths"] - 1).sum())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        int(correct)
        return float(loss.detach())

    return update, sum(parameter.numel() for parameter in model.parameters())


# GPU ----------------------------------------------------------------------------------------------------------------


class PlainLoop(nn.Module):
    """Bahdanau's network as most would write it: of the same sizes as ours."""

    def __init__(self, dim: int, vocabulary: int) -> None:
        super().__init__()
        self.source, self.target = (nn.Embedding(vocabulary, dim, padding_idx=PAD) for _ in range(2))
        self.encoder = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * dim, dim)
        self.key, self.query = nn.Linear(2 * dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)
        self.cell = nn.GRUCell(3 * dim, dim)
        self.readout = nn.Linear(4 * dim, 2 * dim)
        self.projection = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, source: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        memory, _ = nn.utils.rnn.pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=source.shape[1]
        )
        hidden = torch.arange(source.shape[1], device=source.device) >= lengths[:, None]
        x, keys = self.target(target), self.key(memory)
        state = torch.tanh(self.bridge(memory.sum(dim=1) / lengths[:, None]))
        states, contexts = [], []
        for word in x.unbind(1):
            scores = self.v(torch.tanh(self.query(state)[:, None] + keys))[:, :, 0].float()
            weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
            context = torch.bmm(weights[:, None].to(memory.dtype), memory)[:, 0]
            state = self.cell(torch.cat([word, context.to(word.dtype)], dim=-1), state)
            states.append(state)
            contexts.append(context)
        joined = torch.cat([torch.stack(states, dim=1), x, torch.stack(contexts, dim=1)], dim=-1)
        one, other = self.readout(joined).chunk(2, dim=-1)
        return self.projection(torch.maximum(one, other))


def on_gpu(arguments: argparse.Namespace) -> None:
    from anaphora.models import build, settings
    from anaphora.training.graphs import WIDTH_MULTIPLE, GraphedLearning
    from anaphora.training.objectives.objective import TranslationBatch, TranslationObjective
    from anaphora.training.optimizer import build_optimizer
    from anaphora.training.training_settings import TrainingConfig

    device = torch.device("cuda")
    with tempfile.TemporaryDirectory() as name:
        batches = make_batches(arguments, Path(name), multiple=WIDTH_MULTIPLE)
    on_device = []
    for batch in batches:
        target = torch.from_numpy(batch["target"]).to(device)
        tokens = int((batch["target_lengths"] - 1).clip(min=0).sum())
        on_device.append(
            TranslationBatch(
                torch.from_numpy(batch["source"]).to(device),
                torch.from_numpy(batch["source_lengths"]).to(device),
                target[:, :-1].contiguous(),
                target[:, 1:].contiguous(),
                tokens,
                int(batch["source_lengths"].sum()),
                len(target),
            )
        )
    chosen: dict[str, Any] = {"kind": "bahdanau", "cell": "gru", "dim": arguments.dim, "layers": 1, "dropout": 0.0}
    chosen |= {"encoder_dim": 2 * arguments.dim, "tie": "none"}
    found: dict[str, list[dict[str, Any]]] = {"plain": [], "kernels": [], "graphs": []}
    for _ in range(arguments.rounds):
        for system in found:
            torch.manual_seed(1)
            if system == "plain":
                model: nn.Module = PlainLoop(arguments.dim, arguments.vocabulary).to(device).train()
            else:
                sizes = arguments.vocabulary, arguments.vocabulary
                model = build(settings(chosen), *sizes).to(device).train()  # type: ignore[arg-type]
            objective, optimizer = TranslationObjective(smoothing=0.1), build_optimizer(model, TrainingConfig())

            def plainly(batch: Any, tokens: Any, model: nn.Module = model) -> Tensor:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    logits = model(batch.source, batch.target, batch.source_lengths)
                loss = F.cross_entropy(
                    logits.flatten(0, 1).float(), batch.labels.flatten(), ignore_index=PAD, label_smoothing=0.1
                )
                loss.backward()
                return loss.detach()

            def learn(batch: Any, tokens: Any, model: Any = model, objective: Any = objective) -> Tensor:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = objective(model, batch) / tokens
                loss.backward()
                return loss.detach()

            graphed = GraphedLearning(learn, model.parameters(), device, print) if system == "graphs" else None
            way: Callable[[Any, Any], Tensor] = plainly if system == "plain" else graphed or learn

            def once(model: Any = model, optimizer: Any = optimizer, way: Any = way, graphed: Any = graphed) -> None:
                for batch in on_device:
                    way(batch, batch.tokens)
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=graphed is None)

            for _ in range(3):  # the second appearance of a shape is recorded
                once()
            torch.cuda.synchronize()
            began = time.perf_counter()
            once()
            torch.cuda.synchronize()
            seconds = time.perf_counter() - began
            tokens = sum(batch.tokens for batch in on_device)
            parameters = sum(parameter.numel() for parameter in model.parameters())
            found[system].append({"tokens_per_second": tokens / seconds, "parameters": parameters})
    report(found, beside="plain", limit=3.0, arguments=arguments)


def report(found: dict[str, list[dict[str, Any]]], *, beside: str, limit: float, arguments: argparse.Namespace) -> None:
    middle = {name: statistics.median(run["tokens_per_second"] for run in runs) for name, runs in found.items()}
    where = torch.cuda.get_device_name() if arguments.where == "gpu" else f"CPU, {arguments.threads} threads"
    print(
        f"{where}; torch {torch.__version__}; dim {arguments.dim}, vocabulary {arguments.vocabulary:,}, batches of "
        f"{arguments.batch_tokens:,} tokens; {arguments.updates} updates, median of {arguments.rounds} rounds"
    )
    for name, runs in found.items():
        each = " ".join(f"{run['tokens_per_second']:,.0f}" for run in runs)
        ratio = f"{middle[name] / middle[beside]:.2f} × {beside}" if beside in middle and name != beside else ""
        print(
            f"{name:>15}  {middle[name]:>10,.0f} tokens/s  {runs[0]['parameters']:>12,} parameters  {ratio}   ({each})"
        )
    print(f"limit: {limit} × {beside}")
    ratios = {name: value / middle[beside] for name, value in middle.items()} if beside in middle else {}
    print(json.dumps({"tokens_per_second": middle, "ratios": ratios, "limit": limit}))


if __name__ == "__main__":
    main()
