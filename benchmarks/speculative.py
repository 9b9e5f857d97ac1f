"""How much quicker is a Transformer that has an n-gram guess ahead? One text at a time, against our own cached path.

    python benchmarks/speculative.py WORK --text train.txt --valid-text valid.txt --test-text test.txt
    python benchmarks/speculative.py WORK --model runs/gpt --draft runs/4-gram --test-text test.txt --device cuda

Without --model it trains both models first, into WORK, with the same tokeniser (and goes on with what is there): a
Transformer decoder by `anaphora train --recipe transformer-decoder` and a 4-gram. Prompts are the beginnings of lines
of the test text. For each way of saying (the likeliest token; drawn at temperatures 0.7 and 1) it prints, without
a draft and with each: share of the guesses kept, tokens a pass, tokens/s, and the ratio; beside it the ratio by the
model's passes alone, tokens a pass × (time of a step / time of a pass over as many tokens as were guessed), to which
what guessing and judging cost is to be added, and what the search costs at each of its steps taken off. The limit is a
ratio of 1.5 with the 4-gram. Ends in one line of JSON; exits with 1 where the limit is missed.
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
from pathlib import Path
from typing import Any

import torch

import anaphora
from anaphora.decoding.speculative import DRAFT_TOKENS, Speculation
from anaphora.device import describe_device
from anaphora.text.formats import read_column
from anaphora.text.tokenizer import BOS
from anaphora.text_model import TextModel

LIMIT = 1.5
REPEATED = 3
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"greedy": True},
    "temperature 0.7": {"temperature": 0.7, "seed": 1},
    "temperature 1": {"temperature": 1.0, "seed": 1},
}


def prepared(work: Path, asked: argparse.Namespace) -> tuple[Path, Path]:
    """Train what is not there yet; the same commands go on with what is."""
    if asked.model and asked.draft:
        return asked.model, asked.draft
    if not asked.text:
        sys.exit("give --model and --draft, or --text to train them on")
    made = {"model": asked.model or work / "model", "draft": asked.draft or work / "4-gram"}
    own = {
        "model": ["--recipe", "transformer-decoder", "data.boundaries=stream", *asked.set],
        "draft": ["--recipe", "ngram", "model.order=4", "data.boundaries=stream"],
    }
    for name, folder in made.items():
        if getattr(asked, name) is None:
            files = ["--text", *asked.text, *(["--valid-text", asked.valid_text] if asked.valid_text else [])]
            extra = ["--device", asked.device] if name == "model" else []
            command = [
                sys.executable,
                "-m",
                "anaphora",
                "train",
                str(folder),
                *files,
                *own[name],
                *asked.tokenizer,
                *extra,
            ]
            print(" ".join(command), flush=True)
            subprocess.run(command, check=True)
    return made["model"], made["draft"]


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


def timed(say: Callable[[str], Any], prompts: list[str], device: torch.device) -> tuple[float, list[Any]]:
    """Seconds that all prompts take, one after the other: the best of three times, after a prompt to warm up."""
    say(prompts[0])
    times = []
    for _ in range(REPEATED):
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        said = [say(prompt) for prompt in prompts]
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times), said


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
    parser.add_argument("--draft-tokens", type=int, nargs="*", default=[2, DRAFT_TOKENS, 6])
    parser.add_argument("--tokenizer", nargs="*", default=[], help="settings for both, such as tokenizer.kind=bpe")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the Transformer's run")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    where = prepared(asked.work, asked)
    model = anaphora.load(where[0], asked.device)
    draft = anaphora.load(where[1])
    assert isinstance(model, TextModel) and isinstance(draft, TextModel)
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
    for way, settings in WAYS.items():
        common: dict[str, Any] = {"tokens": asked.tokens, "min_length": asked.tokens - 1, **settings}
        seconds, said = timed(lambda one, own=common: model.generate(one, **own)[0][0], prompts, device)
        plain = sum(len(one.token_ids) for one in said) / seconds
        print(f"\n{way}: {plain:.1f} tokens/s without a draft")
        guesses: list[tuple[str, Any, int]] = [(f"4-gram, {k} ahead", draft, k) for k in asked.draft_tokens]
        guesses.append((f"prompt, {DRAFT_TOKENS} ahead", "prompt", DRAFT_TOKENS))
        for name, guess, ahead in guesses:
            own = common | {"draft": guess, "draft_tokens": ahead}
            seconds, drafted = timed(lambda one, own=own: model.generate(one, **own)[0][0], prompts, device)
            told = Speculation()
            for one in drafted:
                told.add(one.speculation or Speculation())
            speed = sum(len(one.token_ids) for one in drafted) / seconds
            read = 1 + round(told.proposed / told.passes)
            row = {
                "way": way, "draft": name, "tokens_per_second": speed, "plain_tokens_per_second": plain,
                "ratio": speed / plain, "by_passes": told.tokens_per_pass * cost[1] / cost[min(read, max(cost))],
                **told.document(),
            }  # fmt: skip
            if way == "greedy":
                row["same_text"] = [one.text for one in drafted] == [one.text for one in said]
            rows.append(row)
            same = "" if way != "greedy" else ", the same texts" if row["same_text"] else ", OTHER TEXTS"
            print(
                f"  {name:18} kept {told.acceptance_rate:4.0%}, {told.tokens_per_pass:.2f} tokens a pass, "
                f"{speed:7.1f} tokens/s, {row['ratio']:.2f}x (passes alone {row['by_passes']:.2f}x){same}"
            )
    best = max((row for row in rows if row["draft"].startswith("4-gram")), key=lambda row: row["ratio"])
    held = best["ratio"] >= LIMIT
    print(
        f"\nbest with the 4-gram: {best['ratio']:.2f}x ({best['way']}, {best['draft']}); limit {LIMIT}x: "
        f"{'held' if held else 'MISSED'}"
    )
    print(
        json.dumps(
            {
                "device": describe_device(device),
                "parameters": size,
                "pass_seconds": cost,
                "rows": rows,
                "limit": LIMIT,
                "best_ratio": best["ratio"],
                "held": held,
            }
        )
    )
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
