"""A patch on pocket English: without its skateboard sense, what does a *sick* go on with? Two CPU cores, minutes.

    python benchmarks/pocket_patch.py [--steps 3000] [--seed 1] [--work DIR] [KEY=VALUE …]

The model is that of pocket_senses.py. The skateboard sense of *sick* is the one that raises tricks, jumps and parties
most over all that may be ill. A patch file removes it; then, for some prompts that end in *sick*, the share of the two
meanings in what may come next is compared, and the likeliest continuations. Beside it the side effect on unseen pocket
text: on all lines, and on those without the word, where nothing at all may change. The last line is JSON; the exit code
is 1 where a prompt for which tricks were the likelier has not flipped, or where a line without *sick* has moved.
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
from typing import Any

import torch
from pocket_senses import cool_share, known, learn

import anaphora
from anaphora.text.pocket import discourse

PROMPTS = ("The doctor saw a sick", "Maria will mention a sick", "The woman described the sick", "We saw a sick")
UNSEEN = 400


def skateboard_sense(model: Any) -> int:
    """The sense of *sick* that raises the words of its one meaning most over those of the other."""
    labels = discourse.deciding_words("sick")
    encode = model.tokenizer.encode
    ids = {name: [encode(word)[0] for word in own if known(model, word)] for name, own in labels.items()}
    with torch.no_grad():
        senses = model.model.sense_vectors(torch.tensor(encode("sick")))[0]  # (k, d)
        logits = senses @ model.model.vocabulary_matrix.T  # (k, V)
    return int((logits[:, ids["sick.cool"]].mean(1) - logits[:, ids["sick.ill"]].mean(1)).argmax())


def compared(model: Any, changed: Any, prompts: Sequence[str] = PROMPTS) -> list[dict[str, Any]]:
    """For each prompt: the share of tricks, jumps and parties before and after, and the likeliest text."""
    rows = []
    for prompt in prompts:
        shares = [cool_share(one, prompt)[0] for one in (model, changed)]
        texts = [one.generate(prompt, greedy=True, stop=["."])[0][0].text for one in (model, changed)]
        rows.append({"prompt": prompt, "cool_share": shares, "likeliest": texts, "flips": shares[0] > 0.5 > shares[1]})
    return rows


def effects(model: Any, changed: Any) -> dict[str, Any]:
    """On unseen lines: all of them, and those in which the word does not stand."""
    lines = discourse.discourses(UNSEEN, split="test")
    without = [line for line in lines if "sick" not in line]
    names = {"all": lines, "without the word": without}
    return {name: anaphora.side_effect(model, changed, some).document() for name, some in names.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="where the model and the patch are kept; nowhere unless given")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further settings")
    asked = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        work = asked.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        folder = work / f"seed-{asked.seed}"
        model = learn(folder, steps=asked.steps, seed=asked.seed, settings=asked.settings)
        sense = skateboard_sense(model)
        file = work / f"ill-{asked.seed}.json"
        anaphora.make_patch(model, remove=[f"sick#{sense}"]).write(file, force=True)
        changed = model.patched([file])
        rows, moved = compared(model, changed), effects(model, changed)
    print(f"seed {asked.seed}: without sense {sense} of sick")
    for row in rows:
        before, after = row["cool_share"]
        print(f"  {row['prompt']} …: tricks, jumps, parties {before:.0%} → {after:.0%}")
        print(f"    {row['likeliest'][0]}\n    {row['likeliest'][1]}")
    for name, one in moved.items():
        print(
            f"  unseen lines, {name}: KL {one['kl']:.5f} a token, {one['moved']:,} of {one['tokens']:,} tokens moved, "
            f"perplexity {one['perplexity_before']:.3f} → {one['perplexity_after']:.3f}"
        )
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    told = {"command": " ".join(sys.argv), "commit": commit, "cores": os.cpu_count(), "machine": platform.processor()}
    told |= {"seed": asked.seed, "steps": asked.steps, "seconds": round(time.perf_counter() - began)}
    print(json.dumps({**told, "sense": sense, "prompts": rows, "side_effect": moved}))
    likely = [row for row in rows if row["cool_share"][0] > 0.5]
    if not likely or not all(row["flips"] for row in likely) or moved["without the word"]["moved"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
