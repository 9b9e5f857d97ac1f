"""A patch on pocket English: without its skateboard sense, what does a *sick* go on with? Two CPU cores, minutes.

    python benchmarks/pocket_patch.py [--steps 2000] [--seeds 1 2 3] [--work DIR] [KEY=VALUE …]

A Backpack of four senses, 64 wide, learns the 40,000 sentences of pocket English, by `anaphora.train`. The skateboard
sense of *sick* is looked for as `anaphora why` would show it: the one whose share, weight times what it says, speaks
most for tricks, jumps and parties over all that may be ill, after prompts made for looking. A patch file removes it.
For *other* prompts that end in *sick*, the share of the two meanings in what may come next is compared, and the
likeliest continuation. Beside it the side effect on unseen sentences: on all, and on those without the word, where
nothing at all may change. The last line is JSON; the exit code is 1 where tricks, jumps and parties do not fall from
the larger share to the smaller, on average and after each prompt that had them as the larger, or where a sentence
without *sick* moves.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from pocket_senses import cool_share, known

import anaphora
from anaphora.pocket import discourse, write
from anaphora.tokenizers.tokenizer import BOS

LOOKED_AT = ("The teacher saw a sick", "Thomas will describe a sick", "They mentioned the sick")
PROMPTS = ("The doctor saw a sick", "Maria will mention a sick", "The woman described the sick", "We saw a sick")
SETTINGS: dict[str, Any] = {
    "data.boundaries": "lines",
    "tokenizer.kind": "word",
    "model.senses": 4,
    "model.near_senses": 0,
    "model.sense_dropout": 0.1,
    "model.output_dropout": 0.0,
    "model.dim": 64,
    "model.layers": 2,
    "model.heads": 4,
    "training.batch_tokens": 2048,
    "training.samples": 0,
}


def learn(folder: Path, *, steps: int, seed: int, settings: Sequence[str] = ()) -> Any:
    """Train a Backpack on pocket English and open it."""
    corpus = folder.parent / "pocket"
    if not corpus.exists():
        write(corpus)
    limits = {"training.max_steps": steps, "training.seed": seed, "training.checkpoint_every": steps}
    own = [f"{key}={value}" for key, value in {**SETTINGS, **limits}.items()]
    text, valid = corpus / "train.en", corpus / "valid.en"
    anaphora.train(folder, text=text, valid_text=valid, recipe="backpack", settings=[*own, *settings], device="cpu")
    return anaphora.load(folder, "cpu")


@torch.no_grad()
def skateboard_sense(model: Any, prompts: Sequence[str] = LOOKED_AT) -> int:
    """The sense of *sick* whose share speaks most for its one meaning over the other, the mean over prompts."""
    encode = model.tokenizer.encode
    labels = discourse.deciding_words("sick")
    cool, ill = ([encode(w)[0] for w in labels[name] if known(model, w)] for name in ("sick.cool", "sick.ill"))
    says = model.model.sense_vectors(torch.tensor(encode("sick")))[0] @ model.model.vocabulary_matrix.T  # (k, V)
    between = says[:, cool].mean(1) - says[:, ill].mean(1)  # (k,)
    weights = [model.model.sense_weights(torch.tensor([[BOS, *encode(text)]]))[0, :, -1, -1] for text in prompts]
    return int((torch.stack(weights).mean(0) * between).argmax())


def compared(model: Any, changed: Any, prompts: Sequence[str] = PROMPTS) -> list[dict[str, Any]]:
    """For each prompt: the share of tricks, jumps and parties before and after, and the likeliest text."""
    rows = []
    for prompt in prompts:
        shares = [cool_share(one, prompt)[0] for one in (model, changed)]
        texts = [one.generate(prompt, greedy=True, stop=["."]).text for one in (model, changed)]
        rows.append({"prompt": prompt, "cool_share": shares, "likeliest": texts, "flips": shares[0] > 0.5 > shares[1]})
    return rows


def effects(model: Any, changed: Any, lines: Sequence[str]) -> dict[str, Any]:
    """On unseen sentences: all of them, and those in which the word does not stand."""
    without = [line for line in lines if "sick" not in line]
    names = {"all": lines, "without the word": without}
    return {name: anaphora.side_effect(model, changed, some).document() for name, some in names.items()}


def tell(model: Any, file: Path, seed: int, lines: Sequence[str]) -> dict[str, Any]:
    """Find the sense, write the patch, use it; the table of one run."""
    sense = skateboard_sense(model)
    anaphora.make_patch(model, remove=[f"sick#{sense}"]).write(file, force=True)
    changed = model.patched([file])
    rows, moved = compared(model, changed), effects(model, changed, lines)
    print(f"seed {seed}: without sense {sense} of sick")
    for row in rows:
        before, after = row["cool_share"]
        print(f"  {row['prompt']} …: tricks, jumps, parties {before:.0%} → {after:.0%}")
        print(f"    {row['likeliest'][0]}\n    {row['likeliest'][1]}")
    for name, one in moved.items():
        print(
            f"  unseen sentences, {name}: KL {one['kl']:.5f} a token, {one['moved']:,} of {one['tokens']:,} tokens "
            f"moved, perplexity {one['perplexity_before']:.3f} → {one['perplexity_after']:.3f}"
        )
    means = [fmean(row["cool_share"][when] for row in rows) for when in (0, 1)]
    flips = means[0] > 0.5 > means[1] and all(row["flips"] for row in rows if row["cool_share"][0] > 0.5)
    flips = flips and not moved["without the word"]["moved"]
    return {"seed": seed, "sense": sense, "flips": flips, "prompts": rows, "side_effect": moved}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--work", type=Path, help="where models and patches are kept; nowhere unless given")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further settings")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        work = asked.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        for seed in asked.seeds:
            began, cpu = time.perf_counter(), time.process_time()
            model = learn(work / f"plain-{seed}", steps=asked.steps, seed=seed, settings=asked.settings)
            cost = {"seconds": round(time.perf_counter() - began), "cpu_seconds": round(time.process_time() - cpu)}
            lines = (work / "pocket" / "test.en").read_text(encoding="utf-8").splitlines()
            rows.append({**tell(model, work / f"ill-{seed}.json", seed, lines), **cost})
            print(f"  {cost['seconds']} s, {cost['cpu_seconds']} s of CPU\n", flush=True)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    told = {"command": " ".join(sys.argv), "commit": commit, "cores": os.cpu_count(), "machine": platform.processor()}
    print(json.dumps({**told, "steps": asked.steps, "runs": rows}))
    if not all(row["flips"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
