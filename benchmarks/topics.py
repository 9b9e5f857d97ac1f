"""Topic control: how often does a patched Backpack come to speak of a topic, and what does it cost?

    python benchmarks/topics.py MODEL --text test.txt [--rows 1 1.5 2 3.3,3.3,3,1] [--samples 40] [--device cuda]

MODEL is the folder of a Backpack, --text a text that it has not seen. Each topic is a list of words, of which every
second goes into the patch and the others are held out: a sample *succeeds* if one of the held-out words stands in what
was said after the prompt, so that repeating the words that were given is no success. Each strength draws `--samples`
texts after each of the prompts for each topic, with the same noise; the row 1 is the model as it is. Rows by a number
are strengths (`--strength`); rows by four numbers say how loud each bucket of senses is (`--factors`), 3.3,3.3,3,1 and
the two before it being those that were published, 3.3,1,1,1 the best senses alone. Beside success:

    expected       held-out words in a sample, by the probability that they have at each of its places: the mean of what
                   success counts, with less noise
    given          samples that hold a word which stands in the patch (the circular measure, for comparison)
    text           change of the test text's perplexity, the mean over topics: how strange ordinary text becomes
    KL             of the original from the patched model on that text, nats a token
    fluency        perplexity that the original model gives to what was said

Ends in one line of JSON. It does not fail: what success is worth which price is for the reader to say.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

import anaphora
from anaphora.data.formats import read_column
from anaphora.device import describe_device
from anaphora.models.backpack.patched import WordLookup
from anaphora.models.backpack.topic import knows
from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import BOS

TOPICS: dict[str, str] = {
    "sea": "ship sea boat ocean port coast sail island harbour navy captain fishing waves vessel shore crew",
    "music": "music album song band songs guitar singer piano concert recorded jazz orchestra drums melody tour vocals",
    "law": "court law judge legal case trial justice lawyer jury attorney ruling appeal crime statute guilty prison",
    "space": "space moon planet orbit earth satellite star rocket mars galaxy solar telescope nasa astronaut stars sun",
    "war": "war army battle troops soldiers military attack forces infantry enemy regiment weapons siege gun officer",
    "computers": "computer software data program internet memory web code network user system digital file server",
    "religion": "church god religious bishop holy christian saint pope faith priest cathedral temple prayer bible",
    "sport": "game team season league players football coach cup goal match championship club played tournament",
}
PROMPTS = ("In summary", "The connection", "More importantly,", "The relationship", "It has been shown")
ROWS = ("1", "1.2", "1.35", "1.5", "1.7", "3.3,1,1,1", "1.5,1.5,1.3,1", "2.2,2.2,1.5,1", "3.3,3.3,3,1")


def halves(words: str) -> tuple[list[str], list[str]]:
    """Every second word for the patch; the others judge."""
    several = words.split()
    return several[0::2], several[1::2]


def holds(text: str, words: Sequence[str]) -> bool:
    """Whether a text has one of these words, as a whole word, large or small."""
    return re.search(rf"\b(?:{'|'.join(map(re.escape, words))})\b", text, re.IGNORECASE) is not None


def measured(model: TextModel, row: str, name: str, lines: Sequence[str], asked: argparse.Namespace) -> dict[str, Any]:
    """One topic at one strength."""
    given, held = halves(TOPICS[name])
    changed = model
    effect: dict[str, Any] = {"kl": 0.0, "perplexity_change": 0.0}
    if row != "1":
        numbers = [float(part) for part in row.split(",")]
        how: dict[str, Any] = {"factors": numbers} if len(numbers) == 4 else {"strength": numbers[0]}
        patch = anaphora.make_patch(model, topic=[f"{name}={','.join(given)}"], **how, fade=asked.fade)
        changed = model.patched([patch])
        effect = anaphora.side_effect(model, changed, lines).document()
    said = changed.generate(asked.prompts, samples=asked.samples, tokens=asked.tokens, seed=asked.seed)
    texts = [one for several in said for one in several]
    rows = [[*model.tokenize(one.prompt)[:-1], *one.token_ids] for one in texts]
    sizes = [len(one.token_ids) for one in texts]
    # log P of the new tokens alone: of prompt and text, less that of the prompt
    prompts = [row[: len(row) - size] for row, size in zip(rows, sizes)]
    logs = model.score_ids(rows) - model.score_ids(prompts)
    return {
        "topic": name,
        "factors": row,
        "success": fmean(holds(one.continuation, held) for one in texts),
        "expected": fmean(expected(changed, row, size, held) for row, size in zip(rows, sizes)),
        "given": fmean(holds(one.continuation, given) for one in texts),
        "fluency": math.exp(-float(logs.sum()) / sum(sizes)),
        "kl": effect["kl"],
        "perplexity_change": effect["perplexity_change"],
        "samples": len(texts),
    }


@torch.no_grad()
def expected(model: TextModel, row: Sequence[int], size: int, words: Sequence[str]) -> float:
    """How many of the last `size` tokens of a row are one of these words, by the probabilities that they were drawn
    from."""
    backpack: Any = model.model
    lookup = WordLookup(model.tokenizer)
    tokens = [token for word in words if knows(word, lookup) for token in lookup(word).forms]
    ids = torch.tensor([[BOS, *row[:-1]]], device=backpack.device)
    said = backpack.mixed(ids)[0, -size:] @ backpack.vocabulary_matrix.T  # (size, V)
    return float(said.float().softmax(-1)[:, tokens].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, required=True, help="unseen text, a line each")
    parser.add_argument("--lines", type=int, default=200, help="of the text, at most")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), help="strengths, or four factors with commas")
    parser.add_argument("--topics", nargs="+", choices=sorted(TOPICS), default=list(TOPICS))
    parser.add_argument("--prompts", nargs="+", default=list(PROMPTS))
    parser.add_argument("--samples", type=int, default=40, help="of each prompt")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--fade", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    model = anaphora.load(asked.model, asked.device)
    if not isinstance(model, TextModel):
        sys.exit(f"{asked.model} is no language model")
    lines = [line for line in read_column([str(asked.text)], "text", Counter()) if line.strip()][: asked.lines]
    if not lines:
        sys.exit(f"{asked.text} is empty")
    began = time.perf_counter()
    rows = []
    print(
        f"{'strength':>13}  {'success':>7}  {'expected':>8}  {'given':>6}  {'text':>8}  {'KL':>7}  {'fluency':>7}   "
        "success by topic"
    )
    for row in asked.rows:
        found = [measured(model, row, name, lines, asked) for name in asked.topics]
        mean = {key: fmean(one[key] for one in found) for key in found[0] if isinstance(found[0][key], float)}
        each = " ".join(f"{one['topic']} {one['success']:.0%}" for one in found)
        print(
            f"{row:>13}  {mean['success']:7.1%}  {mean['expected']:8.4f}  {mean['given']:6.1%}  "
            f"{mean['perplexity_change']:+8.2%}  {mean['kl']:7.4f}  {mean['fluency']:7.2f}   {each}",
            flush=True,
        )
        rows.append({"factors": row, **mean, "topics": found})
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    print(
        json.dumps(
            {
                "command": " ".join(sys.argv),
                "commit": commit,
                "device": describe_device(torch.device(model.model.device)),
                "seconds": round(time.perf_counter() - began, 1),
                "seed": asked.seed,
                "prompts": asked.prompts,
                "tokens": asked.tokens,
                "fade": asked.fade,
                "rows": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
