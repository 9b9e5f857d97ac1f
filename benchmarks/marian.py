"""Anaphora beside `transformers`' Marian, with the same weights, in the same process, on a CPU.

    python benchmarks/marian.py decoding --model RUN --source test.en.gz [--beam 5] [--lines 1000] [--rounds 3]
    python benchmarks/marian.py training --model RUN [--batch-tokens 4096] [--steps 12]
    python benchmarks/marian.py loop --model RUN [--steps 40]

RUN is a run folder trained with model.norm=post (Marian is post-norm); its weights are put into Marian's layout
(marian_layout.py). Limits are for 2 threads: decoding 2 × Marian with recipe tiny and 1.5 × with base, at least 99 % of
the hypotheses equal; training 1.0 × on identical batches, 1.2 × as a whole loop. The last line is JSON.

decoding  Marian's `generate` is handed padded tensors, batches of 32 sorted by length; ours is handed lines of text and
          gives lines of text back, in its own batches. Both search for the same thing: log P without length penalty.
          Marian's `generate` has several rules for stopping; each is tried once and the fastest under which 99 % of the
          hypotheses are equal is the one compared with.
training  The same padded batches, dropout, clipping and fused AdamW: forward, backward and update, one after the other.
loop      `anaphora train` and `Seq2SeqTrainer` (length grouping, dynamic padding), as many sentences an update, tokens
          that are no padding a second, both sides counted, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from marian_layout import marian_twin
from marian_training import loop, training

import anaphora
from anaphora.data.formats import read_rows
from anaphora.decoding.translate import pad
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD

STOPPING: tuple[bool | str, ...] = ("never", False, True)
EQUAL = 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["decoding", "training", "loop"])
    parser.add_argument("--model", type=Path, required=True, help="run folder, trained with model.norm=post")
    parser.add_argument("--source", help="decoding: lines to translate")
    parser.add_argument("--lines", type=int, default=1000, help="decoding: how many of them")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="training, loop: of one update")
    parser.add_argument("--steps", type=int, default=None, help="training, loop: updates that are timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=None, help="the ratio that is asked for")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = {"decoding": decoding, "training": training, "loop": loop}[arguments.part](arguments)
    versions = {name: version(name) for name in ("torch", "transformers")}
    result |= {"threads": arguments.threads, "processor": processor(), "python": platform.python_version(), **versions}
    print(json.dumps({"part": arguments.part, **result}))


def decoding(arguments: argparse.Namespace) -> dict[str, Any]:
    model = anaphora.load(arguments.model, device="cpu")
    twin = marian_twin(model.model)
    lines = [row[0] for row in islice(read_rows({"source": [arguments.source]}), arguments.lines)]
    ids = model.source_tokenizer.encode_batch(lines)
    order = sorted(range(len(ids)), key=lambda line: -len(ids[line]))
    batches = [(places, *pad([[*ids[i], EOS] for i in places], "cpu")) for places in chunks(order, 32)]

    def ours(lines: list[str] = lines) -> list[list[int]]:
        said = model.translate(lines, beam=arguments.beam, length_penalty=0.0)
        return [line.token_ids[0][1] for line in said]

    def marian(stopping: bool | str, batches: list[Any] = batches) -> list[list[int]]:
        said: list[list[int]] = [[]] * len(lines)
        for places, source, lengths in batches:
            out = twin.generate(
                input_ids=source,
                attention_mask=(torch.arange(source.shape[1]) < lengths[:, None]).long(),
                num_beams=arguments.beam,
                do_sample=False,
                length_penalty=0.0,
                early_stopping=stopping,
                max_new_tokens=2 * source.shape[1] + 10,  # as ours
            )
            for place, row in zip(places, out.tolist()):
                said[place] = [token for token in row if token not in (BOS, EOS, PAD)]
        return said

    ours(lines[:64])
    marian("never", batches[-2:])
    found = ours()
    tried = {}
    for stopping in STOPPING:
        spent, said = timed(lambda rule=stopping: marian(rule))
        tried[stopping] = spent, share_equal(found, said)
        print(f"Marian, early_stopping={stopping}: {len(lines) / spent:.1f} lines/s, {tried[stopping][1]:.1%} equal")
    rule = min((spent, str(name), name) for name, (spent, equal) in tried.items() if equal >= EQUAL)[2]
    rounds = []
    for number in range(arguments.rounds):
        work = {"ours": ours, "Marian": lambda: marian(rule)}
        spent = {name: timed(work[name])[0] for name in (list(work) if number % 2 else list(work)[::-1])}
        rounds.append((spent["ours"], spent["Marian"]))
        speeds = {name: len(lines) / seconds for name, seconds in spent.items()}
        print(f"round {number + 1}: ours {speeds['ours']:.1f}, Marian {speeds['Marian']:.1f} lines/s")
    ratio = statistics.median(theirs / mine for mine, theirs in rounds)
    limit = arguments.limit or (2.0 if model.config.model.dim <= 256 else 1.5)
    print(f"ratio   {ratio:.2f} × Marian with early_stopping={rule}, median of {len(rounds)} rounds (limit {limit})")
    print(f"equal   {tried[rule][1]:.1%} of {len(lines)} hypotheses (limit {EQUAL:.0%})")
    return {
        "ratio": ratio,
        "limit": limit,
        "equal": tried[rule][1],
        "lines": len(lines),
        "beam": arguments.beam,
        "early_stopping": rule,
        "seconds": rounds,
        "tried": {str(name): {"seconds": spent, "equal": equal} for name, (spent, equal) in tried.items()},
        "parameters": model.model.parameter_count(),
    }


def share_equal(ours: list[list[int]], theirs: list[list[int]]) -> float:
    return sum(a == b for a, b in zip(ours, theirs)) / len(ours)


def chunks(order: list[int], size: int) -> list[list[int]]:
    return [order[i : i + size] for i in range(0, len(order), size)]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def processor() -> str:
    """What /proc/cpuinfo calls it, where there is such a thing."""
    file = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in file.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
