"""What a Backpack costs beside a GPT-2 of the same body, and what it learns.

    python benchmarks/backpack.py step     --data wiki-en [--lengths 512,1024] [--rows 64] [--compile]
    python benchmarks/backpack.py generate --data wiki-en [--tokens 256]
    python benchmarks/backpack.py learn    --data wiki-en --runs runs [--epochs 6]
    python benchmarks/backpack.py all --small        # does it run? (the figures say nothing)

--data is a folder with wiki-en.txt.xz (or any text as wiki-en.txt). Its tokens are those of a byte-level BPE of 50,264
that is trained on it once, and kept in --work.

step: forward, backward, clipping and AdamW on real text, in bfloat16 on a GPU, forward and backward recorded as a CUDA
graph and replayed as the trainer does. GPT-2 comes first and last; between stand three Backpacks (preset small):

    reference         senses of every place, a product for each sense, (B, k, T, dim) numbers, then their sum
    one product       senses of every place, the sum over places and senses as one product (nn/kernels/sense_sums.py)
    distinct tokens   the same, with senses once for each distinct token of the batch: what training does

Beside each, its time and peak memory over GPT-2's; the computed limit is the ratio of floating-point operations, causal
halves left out. Limits: time 1.30, memory 1.6, of `distinct tokens`.

generate: greedy, one row, after a prompt of 32 tokens, through the one search; the time of a whole text over its
tokens. Limit: 1.2 times GPT-2's.

learn: `anaphora train` twice, the same body, the same tokens, the same seed; the best checkpoint by a validation text
judged by the text behind it (train.txt, valid.txt, test.txt in --work). Limit: 1.03 times GPT-2's perplexity, and 8
minutes each.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import lzma
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

import anaphora
from anaphora.data.language_batches import StreamBatches
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.generation import generate
from anaphora.device import choose_device, describe_device
from anaphora.models import build_language_model, settings
from anaphora.models.backpack.sense_table import SenseTable
from anaphora.nn.sense_network import reference_mix
from anaphora.tasks.recipes import load_recipe
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from anaphora.training.graphs import GraphedLearning
from anaphora.training.objectives.language_objective import LanguageObjective, LanguageTensors
from anaphora.training.optimizer import build_optimizer
from anaphora.training.training_settings import TrainingConfig

STEP, MEMORY, SPEAKING, PERPLEXITY, MINUTES = 1.30, 1.6, 1.2, 1.03, 8.0
VOCABULARY, LESSONS = 50_264, 60_000
"""Tokens, and lines that they are learned from: a third of the text, a few seconds."""
ENCODED = 60_000
"""Lines that are encoded for `step` and `generate`: 4 million tokens."""
SMALL = {"dim": 16, "layers": 2, "heads": 2, "senses": 4}


# -- text --------------------------------------------------------------------------------------------------------------


def lines_of(data: Path) -> Iterator[str]:
    packed, plain = data / "wiki-en.txt.xz", data / "wiki-en.txt"
    with lzma.open(packed, "rt", encoding="utf-8") if packed.exists() else plain.open(encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def tokens_of(arguments: argparse.Namespace) -> tuple[Tokenizer, np.ndarray]:
    """The tokenizer of the text, trained once, and the ids of its beginning as one stream."""
    size, lessons = (600, 2000) if arguments.small else (VOCABULARY, LESSONS)
    kept = arguments.work / f"tokenizer-{size}.json"
    began = time.perf_counter()
    if not kept.exists():
        arguments.work.mkdir(parents=True, exist_ok=True)
        config = TokenizerConfig(kind="bpe", vocabulary=size)
        Tokenizer.train(config, islice(lines_of(arguments.data), lessons)).save(kept)
        print(f"byte-level BPE of {size:,} tokens in {time.perf_counter() - began:.1f} s", flush=True)
    tokenizer = Tokenizer.load(kept)
    ids, starts = tokenizer.encode_flat(list(islice(lines_of(arguments.data), 2000 if arguments.small else ENCODED)))
    ids = np.insert(ids, starts[1:], EOS)  # the end mark after every line
    print(f"{len(ids):,} tokens of text in {time.perf_counter() - began:.1f} s", flush=True)
    return tokenizer, np.concatenate([[BOS], ids]).astype(np.uint32)


# -- models ------------------------------------------------------------------------------------------------------------


def shapes(small: bool, length: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of GPT-2 and of the Backpack around the same body."""
    backpack = load_recipe("backpack-small")["model"] | {"max_length": length} | (SMALL if small else {})
    body = {key: value for key, value in backpack.items() if key not in ("senses", "encoder")}
    return body | {"kind": "transformer-decoder", "output_bias": False}, backpack


def made(shape: dict[str, Any], vocabulary: int, device: torch.device) -> Any:
    torch.manual_seed(1)
    return build_language_model(settings(shape), vocabulary).to(device)  # type: ignore[arg-type]


def by_reference(model: Any, ids: Tensor, lengths: Any = None, documents: Any = None, distinct: Any = None) -> Tensor:
    """`Backpack.mixed`, plainly: senses of every place, and a product for each sense."""
    query, key = model.queries_and_keys(model.contextual(ids, lengths, documents))
    return reference_mix(query, key, model.sense_vectors(ids.flatten()).unflatten(0, ids.shape), documents)


class Learner:
    """A model that learns; an update at a time."""

    def __init__(self, name: str, shape: dict[str, Any], vocabulary: int, arguments: Any, device: torch.device) -> None:
        self.name, self.device = name, device
        self.model = made(shape, vocabulary, device).train()
        self.distinct = name == "distinct tokens"
        self.objective = LanguageObjective(distinct=vocabulary if self.distinct else None)
        self.optimizer = build_optimizer(self.model, TrainingConfig())
        if name == "reference":
            self.model.mixed = MethodType(by_reference, self.model)
        if arguments.compile:
            for block in self.model.encoder.blocks:
                block.compile(dynamic=True)
        self.learn: Callable[[LanguageTensors, int], Any] = self.by_kernels
        if device.type == "cuda":
            self.learn = GraphedLearning(self.by_kernels, self.model.parameters(), device, print)

    def send(self, batch: Any) -> LanguageTensors:
        sent = self.objective.send(batch, self.device)
        if self.name == "one product":  # every place counts as a word of its own
            sent.types, sent.slots = sent.ids.flatten(), torch.arange(sent.ids.numel(), device=self.device)
            sent.slots = sent.slots.view_as(sent.ids)
        return sent

    def by_kernels(self, batch: LanguageTensors, tokens: Any) -> Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self.objective(self.model, batch) / tokens
        loss.backward()
        return loss.detach()

    def update(self, batch: Any) -> float:
        began = wait(self.device)
        sent = self.send(batch)
        self.learn(sent, sent.tokens)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.device.type != "cuda")
        return wait(self.device) - began


def wait(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


# -- step --------------------------------------------------------------------------------------------------------------


def step(arguments: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    tokenizer, ids = tokens_of(arguments)
    found: dict[str, Any] = {}
    for length in (16, 32) if arguments.small else arguments.lengths:
        rows = 4 if arguments.small else arguments.rows
        source = StreamBatches(ids, rows * length, length, 1, carries=False)
        batches = [source.batch(0, number) for number in range(arguments.batches)]
        types = statistics.mean(len(np.unique(batch.tokens[:, :-1])) for batch in batches)
        gpt2, backpack = shapes(arguments.small, length)
        names = ["GPT-2", "reference", "one product", "distinct tokens", "GPT-2 again"]
        ratio, table = types / (rows * length), {}
        print(f"\n{rows} × {length} tokens, {types:,.0f} distinct ones: {ratio:.3f}", flush=True)
        print(f"{'':<18} {'update':>10} {'over GPT-2':>11} {'memory':>10} {'over GPT-2':>11} {'computed':>9}")
        for name in names:
            shape = gpt2 if name.startswith("GPT-2") else backpack
            try:
                table[name] = measured(name, shape, tokenizer.vocabulary_size, batches, types, arguments, device)
            except torch.OutOfMemoryError:
                print(f"{name:<18} does not fit", flush=True)
                torch.cuda.empty_cache()
                continue
            base = table["GPT-2"]
            row = table[name]
            row |= {key: row[of] / base[of] for key, of in (("time", "ms"), ("memory", "gb"), ("limit", "flops"))}
            print(
                f"{name:<18} {row['ms']:>7.1f} ms {row['time']:>11.3f} {row['gb']:>7.2f} GB {row['memory']:>11.3f} "
                f"{row['limit']:>9.3f}",
                flush=True,
            )
        steady = [table[name]["ms"] for name in ("GPT-2", "GPT-2 again") if name in table]
        best = table.get("distinct tokens", {})
        over = best.get("ms", float("inf")) / statistics.mean(steady)
        print(f"distinct tokens over the mean of both GPT-2: {over:.3f} (limit {STEP}); memory limit {MEMORY}")
        within = over <= STEP and best.get("memory", float("inf")) <= MEMORY
        found[f"{rows}x{length}"] = {"distinct_ratio": ratio, "rows": table, "time": over, "within": within}
    return found


def measured(
    name: str, shape: dict[str, Any], vocabulary: int, batches: list[Any], types: float, arguments: Any, device: Any
) -> dict[str, float]:
    """Milliseconds of an update, the median, gigabytes at the peak, and operations."""
    if device.type == "cuda":
        gc.collect()  # a learner and its graphs know each other
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    learner = Learner(name, shape, vocabulary, arguments, device)
    for _ in range(3):  # kernels, recordings, and one turn to settle
        for batch in batches:
            learner.update(batch)
    times = [learner.update(batch) for _ in range(arguments.rounds) for batch in batches]
    peak = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else 1.0
    height, length = batches[0].tokens[:, :-1].shape
    known = {"types": round(types)} if name == "distinct tokens" else {}
    flops = learner.model.flops(height * length, float(length), **known)
    return {"ms": 1e3 * statistics.median(times), "gb": peak, "flops": flops, "fastest_ms": 1e3 * min(times)}


# -- generate ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def speaking(arguments: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    tokenizer, ids = tokens_of(arguments)
    length = 64 if arguments.small else 512
    new = min(arguments.tokens, length - 33)
    models = dict(zip(("GPT-2", "Backpack"), shapes(arguments.small, length)))
    built = {name: made(shape, tokenizer.vocabulary_size, device).eval() for name, shape in models.items()}
    began = wait(device)
    built["Backpack"].attach(SenseTable.build(built["Backpack"]))
    table = wait(device) - began
    prompt = [int(number) for number in ids[1:33]]
    config = DecodingConfig(beam=1, min_length=new - 1)
    times: dict[str, list[float]] = {name: [] for name in built}
    for turn in range(-1, arguments.rounds):
        for name, model in built.items():
            began = wait(device)
            generate(model, [prompt], config, tokens=new)
            if turn >= 0:
                times[name].append(wait(device) - began)
    each = {name: 1e3 * statistics.median(some) / new for name, some in times.items()}
    over = each["Backpack"] / each["GPT-2"]
    print(f"\n{new} tokens after 32, one row: " + ", ".join(f"{name} {ms:.3f} ms a token" for name, ms in each.items()))
    print(f"over GPT-2: {over:.3f} (limit {SPEAKING}); the table of senses took {table:.2f} s to build")
    return {"ms_a_token": each, "over": over, "table_seconds": table, "within": over <= SPEAKING}


# -- learn -------------------------------------------------------------------------------------------------------------


def split(arguments: argparse.Namespace) -> dict[str, Path]:
    """Whole articles to learn from, to choose by and to judge by: of the text's lines all but the last 4,000, the next
    2,000, the last 2,000."""
    every = list(lines_of(arguments.data))
    last = 2000
    if arguments.small:
        every, last = every[:2000], 100
    files = {name: arguments.work / f"{name}.txt" for name in ("train", "valid", "test")}
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name, lines in zip(files, (every[: -2 * last], every[-2 * last : -last], every[-last:])):
        files[name].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def learning(arguments: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Two runs of `anaphora train`, one after the other."""
    body = {
        "dim": 512,
        "layers": 8,
        "heads": 8,
        "dropout": arguments.dropout,
        "positions": "learned",
        "max_length": 512,
    }
    training: dict[str, Any] = {"epochs": arguments.epochs, "batch_tokens": 32_768, "context": 512, "seed": 1}
    training |= {"learning_rate": 1e-3, "weight_decay": 0.1, "beta2": 0.95, "schedule": "cosine", "final_rate": 0.1}
    training |= {"max_minutes": MINUTES, "samples": 0, "average": 1, "keep": 2}
    tokens: dict[str, Any] = {"kind": "bpe", "vocabulary": VOCABULARY}
    if arguments.small:
        body |= SMALL | {"max_length": 32}
        training |= {"epochs": None, "max_steps": 3, "batch_tokens": 128, "context": 32, "max_minutes": None}
        tokens["vocabulary"] = 600
    senses = body.pop("senses", arguments.senses)
    parts = split(arguments)
    found: dict[str, Any] = {}
    of_backpack = {"senses": senses, "output_dropout": arguments.output_dropout}
    for recipe, own in (("transformer-decoder", {"output_bias": False}), ("backpack", of_backpack)):
        run = arguments.runs / recipe
        sections = {
            "model": body | own,
            "training": training,
            "tokenizer": tokens,
            "data": {"tokenizer_lines": LESSONS},
        }
        said = [
            f"{section}.{key}={'null' if value is None else value}"
            for section, content in sections.items()
            for key, value in content.items()
        ]
        texts = ["--text", str(parts["train"]), "--valid-text", str(parts["valid"])]
        command = [sys.executable, "-m", "anaphora", "train", str(run), *texts, "--recipe", recipe, *said]
        print(f"\nanaphora train {' '.join(command[4:])}", flush=True)
        subprocess.run([*command, "--device", device.type], check=True)
        metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
        cost = metrics["cost"]
        test = anaphora.load(run, device.type).evaluate(parts["test"].read_text(encoding="utf-8").splitlines())
        found[recipe] = {
            "validation": metrics["validation"]["perplexity"],
            "perplexity": test.perplexity,
            "bits_per_byte": test.bits_per_byte,
            "minutes": cost["seconds"] / 60,
            "tokens": cost["tokens"],
            "parameters": metrics["parameters"],
            "weights": metrics["weights"],
        }
    over = found["backpack"]["perplexity"] / found["transformer-decoder"]["perplexity"]
    same = found["backpack"]["tokens"] == found["transformer-decoder"]["tokens"]
    for recipe, row in found.items():
        print(
            f"{recipe:<20} perplexity {row['perplexity']:8.3f} (validation {row['validation']:.3f}), "
            f"{row['tokens']:,} tokens, {row['minutes']:.1f} minutes"
        )
    print(f"over GPT-2: {over:.4f} (limit {PERPLEXITY}); the same tokens: {same}")
    return {"runs": found, "over": over, "same_tokens": same, "within": over <= PERPLEXITY and same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("step", "generate", "learn", "all"))
    parser.add_argument("--data", type=Path, default=Path("wiki-en"))
    parser.add_argument("--work", type=Path, default=Path("backpack-work"), help="where the tokenizer is kept")
    parser.add_argument("--runs", type=Path, default=Path("backpack-runs"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--lengths", type=lambda text: [int(part) for part in text.split(",")], default=[512, 1024])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--batches", type=int, default=4, help="of text, taking turns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--epochs", type=float, default=6.0)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--senses", type=int, default=16, help="of the Backpack that learns")
    parser.add_argument("--output-dropout", type=float, default=0.3, help="of the Backpack, on the sum of senses")
    parser.add_argument("--compile", action="store_true", help="blocks, as a long run of the trainer does")
    parser.add_argument("--small", action="store_true", help="does it run?")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.small:
        arguments.rounds, arguments.batches = 1, 2
    device = choose_device(arguments.device)
    print(f"{describe_device(device)}, torch {torch.__version__}", flush=True)
    found: dict[str, Any] = {"device": describe_device(device), "torch": torch.__version__}
    modes = {"step": step, "generate": speaking, "learn": learning}
    for mode in modes if arguments.mode == "all" else [arguments.mode]:
        found[mode] = modes[mode](arguments, device)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
