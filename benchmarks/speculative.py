"""How much quicker is a Transformer that has an n-gram guess ahead? One text at a time, against our own cached path.

    python benchmarks/speculative.py WORK --text train.txt --valid-text valid.txt --test-text test.txt
    python benchmarks/speculative.py WORK --model runs/gpt --text train.txt --test-text test.txt --device cuda
    python benchmarks/speculative.py WORK --model runs/gpt --draft runs/4-gram --test-text test.txt

What is not given it trains first, into WORK, and goes on with what is there: a Transformer decoder by `anaphora train
--recipe transformer-decoder`, and a 4-gram on the same text with the model's tokenizer. Prompts are the beginnings of
lines of the test text. For each way of saying (the likeliest token; drawn at temperatures 1 and 0.7, and with top-p
0.9) it prints, without a draft and with each: share of the guesses kept, tokens a pass, tokens/s, and the ratio. Every
text is said without a draft and with each one right after the other, once for every seed; a speed is the median over
texts, a ratio that of these speeds. Beside it the ratio by the model's passes alone, tokens a pass × (time of a step /
time of a pass over as many tokens as were guessed), to which what guessing and judging cost is to be added, and what
the search costs at each of its steps taken off. The limit is a ratio of 1.5 with the 4-gram, drawn at temperature 1.
Ends in one line of JSON; exits with 1 where the limit is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import anaphora
from anaphora.data.formats import read_column
from anaphora.decoding.speculative import DRAFT_TOKENS, Speculation
from anaphora.device import describe_device
from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import BOS

LIMIT = 1.5
JUDGED = "temperature 1"
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"greedy": True},
    "temperature 1": {"temperature": 1.0},
    "temperature 0.7": {"temperature": 0.7},
    "top-p 0.9": {"top_p": 0.9},
}


def prepared(work: Path, asked: argparse.Namespace) -> tuple[Path, Path]:
    """Train what is not there yet; the same commands go on with what is."""
    if asked.model and asked.draft:
        return asked.model, asked.draft
    if not asked.text:
        sys.exit("give --model and --draft, or --text to train them on")
    made = {"model": asked.model or work / "model", "draft": asked.draft or work / "4-gram"}
    for name, folder in made.items():
        if getattr(asked, name) is not None:
            continue
        own = ["--recipe", "transformer-decoder", *asked.set, "--device", asked.device]
        if name == "draft":  # over the model's vocabulary
            cutting = opened(made["model"]).vocabulary_settings()
            own = ["--recipe", "ngram", "model.order=4", "data.boundaries=stream", *cutting]
        files = ["--text", *asked.text, *(["--valid-text", asked.valid_text] if asked.valid_text else [])]
        command = [sys.executable, "-m", "anaphora", "train", str(folder), *files, *own]
        print(" ".join(command), flush=True)
        subprocess.run(command, check=True)
    return made["model"], made["draft"]


def opened(folder: Path, device: str = "cpu") -> TextModel:
    model = anaphora.load(folder, device)
    assert isinstance(model, TextModel)
    return model


def prompts_of(path: str, count: int, words: int) -> list[str]:
    """The first words of lines that are long enough."""
    found = []
    for line in read_column([path], "text", Counter(), strict=False):
        cut = line.split()
        if len(cut) >= 2 * words:
            found.append(" ".join(cut[:words]))
        if len(found) == count:
            break
    return found


def timed(say: Callable[[], Any], device: torch.device) -> tuple[float, Any]:
    """Seconds, and what was said."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    said = say()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, said


def pass_times(model: TextModel, most: int, length: int = 64) -> dict[int, float]:
    """Seconds that the model needs to read 1, 2, … `most` tokens behind `length` others."""
    device = torch.device(model.model.device)
    found = {}
    with torch.no_grad():
        ids = torch.full((1, length), 5, device=device)
        ids[0, 0] = BOS
        state = model.model.read(ids, torch.tensor([length], device=device), length + most + 1)
        for size in range(1, most + 1):
            row, back = torch.full((1, size), 5, device=device), torch.tensor([size], device=device)
            times = []
            for _ in range(30):
                began = time.perf_counter()
                log_probabilities, state = model.model.extend(row, state)
                log_probabilities[0, 0, 0].item()
                times.append(time.perf_counter() - began)
                state = model.model.rewind(state, back)
                state.bound = length
            found[size] = statistics.median(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--text", nargs="*", default=[])
    parser.add_argument("--valid-text")
    parser.add_argument("--test-text", required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--words", type=int, default=20, help="words of a prompt")
    parser.add_argument("--draft-tokens", type=int, nargs="*", default=[3, DRAFT_TOKENS], help="guessed at the most")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], help="settings of the Transformer's run, tokenizer.kind=word …")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    where = prepared(asked.work, asked)
    model, draft = opened(where[0], asked.device), opened(where[1])
    device = torch.device(model.model.device)
    prompts = prompts_of(asked.test_text, asked.prompts, asked.words)
    size = model.model.parameter_count()
    print(
        f"{model.kind}, {size:,} parameters, {describe_device(device)}; {draft.info().get('order')}-gram; "
        f"{len(prompts)} prompts of {asked.words} words, {asked.tokens} new tokens each, batch 1"
    )
    cost = pass_times(model, max(asked.draft_tokens) + 1)
    print("a pass over 1, 2, … tokens: " + " ".join(f"{1e3 * seconds:.2f}" for seconds in cost.values()) + " ms")
    rows: list[dict[str, Any]] = []
    guesses: list[tuple[str, dict[str, Any]]] = [("no draft", {})]
    guesses += [(f"4-gram, up to {k}", {"draft": draft, "draft_tokens": k}) for k in asked.draft_tokens]
    guesses.append((f"prompt, up to {DRAFT_TOKENS}", {"draft": "prompt"}))
    for way, settings in WAYS.items():
        common: dict[str, Any] = {"tokens": asked.tokens, "min_length": asked.tokens - 1, **settings}
        speeds: dict[str, list[float]] = {name: [] for name, _ in guesses}
        texts: dict[str, list[str]] = {name: [] for name, _ in guesses}
        told = {name: Speculation() for name, _ in guesses}
        for _, own in guesses:  # to warm up
            model.generate(prompts[0], **common, **own)
        for prompt in prompts:
            for seed in range(1, asked.seeds + 1):
                drawn = {} if way == "greedy" else {"seed": seed}
                for name, own in guesses:
                    say = partial(model.generate, prompt, **common, **own, **drawn)
                    seconds, said = timed(say, device)
                    one = said
                    speeds[name].append(len(one.token_ids) / seconds)
                    texts[name].append(one.text)
                    told[name].add(one.speculation or Speculation())
        plain = statistics.median(speeds["no draft"])
        print(f"\n{way}: {plain:.1f} tokens/s without a draft")
        for name, _ in guesses[1:]:
            how, speed = told[name], statistics.median(speeds[name])
            read = 1 + round(how.proposed / how.passes)
            row = {
                "way": way, "draft": name, "tokens_per_second": speed, "plain_tokens_per_second": plain,
                "ratio": speed / plain, "by_passes": how.tokens_per_pass * cost[1] / cost[min(read, max(cost))],
                **how.document(),
            }  # fmt: skip
            if way == "greedy":
                row["same_text"] = texts[name] == texts["no draft"]
            rows.append(row)
            same = "" if way != "greedy" else ", the same texts" if row["same_text"] else ", OTHER TEXTS"
            print(
                f"  {name:16} kept {how.acceptance_rate:4.0%}, {how.tokens_per_pass:.2f} tokens a pass, "
                f"{speed:7.1f} tokens/s, {row['ratio']:.2f}x (passes alone {row['by_passes']:.2f}x){same}"
            )
    drafted = [row for row in rows if row["way"] == JUDGED and row["draft"].startswith("4-gram")]
    best = max(drafted, key=lambda row: row["ratio"])
    held = best["ratio"] >= LIMIT
    print(
        f"\nwith the 4-gram, {JUDGED}: {best['ratio']:.2f}x, {best['acceptance_rate']:.0%} of the guesses kept "
        f"({best['draft']}); limit {LIMIT}x: {'held' if held else 'MISSED'}"
    )
    print(
        json.dumps(
            {
                "device": describe_device(device),
                "parameters": size,
                "pass_seconds": cost,
                "tokens": asked.tokens,
                "prompts": len(prompts),
                "seeds": asked.seeds,
                "rows": rows,
                "limit": LIMIT,
                "ratio": best["ratio"],
                "held": held,
            }
        )
    )
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
