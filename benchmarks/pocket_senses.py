"""Do the senses of a small Backpack part the meanings of ambiguous words? Pocket text, two CPU cores, minutes.

    python benchmarks/pocket_senses.py [--steps 3000] [--seeds 1 2 3] [--work DIR] [KEY=VALUE …]

A Backpack learns lines of pocket English in which a word keeps its meaning (pocket/discourse.py), by
`anaphora.train`. Then, for each ambiguous word, the ten words of the whole vocabulary that each of its senses raises
most are held against the grammar's labels: a sense *belongs* to a meaning if at least three of its ten words do, and
three times as many as belong to the other meaning; a word is *parted* if one of its senses belongs to one meaning and
another to the other. Then the sense of *sick* that belongs to tricks, jumps and parties is removed, and what follows
"The doctor saw a sick" is compared. The last line is JSON.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anaphora
from anaphora.pocket import discourse
from anaphora.pocket.pocket_senses import ADJECTIVE_SENSES, NOUN_SENSES

WORDS = tuple(dict.fromkeys(name.partition(".")[0] for name in (*NOUN_SENSES, *(a.sense for a, _ in ADJECTIVE_SENSES))))
TOP, ENOUGH, TIMES = 10, 3, 3
EACH, TOGETHER, ROUNDS = 500, 6, 2
STEPS = 3000
PROMPT = "The doctor saw a sick"
SETTINGS: dict[str, Any] = {
    "data.boundaries": "lines",
    "data.hold_out": 100,
    "tokenizer.kind": "word",
    "model.senses": 16,
    "model.sense_feed_forward": 64,
    "model.sense_window": 5,
    "model.near_senses": 0,
    "model.dim": 64,
    "model.layers": 2,
    "model.heads": 4,
    "model.dropout": 0.0,
    "model.output_dropout": 0.0,
    "model.positions": "learned",
    "model.max_length": 256,
    "training.batch_tokens": 1344,
    "training.schedule": "linear",
    "training.warmup_steps": 200,
    "training.weight_decay": 0.0,
    "training.learning_rate": 4e-3,
    "training.samples": 0,
    "training.average": 1,
}


@dataclass(frozen=True)
class Parting:
    """What the senses of one word say, held against the grammar."""

    word: str
    counts: tuple[Mapping[str, int], ...]
    """Of each sense: how many of its top words belong to each meaning."""
    tops: tuple[tuple[str, ...], ...]

    def belongs(self, sense: int) -> str | None:
        """The meaning that a sense belongs to."""
        for name, count in self.counts[sense].items():
            if count >= ENOUGH and count >= TIMES * (sum(self.counts[sense].values()) - count):
                return name
        return None

    @property
    def meanings(self) -> dict[str, list[int]]:
        """The senses of each meaning that has any."""
        found: dict[str, list[int]] = {}
        for sense in range(len(self.counts)):
            if (name := self.belongs(sense)) is not None:
                found.setdefault(name, []).append(sense)
        return found

    @property
    def parted(self) -> bool:
        return len(self.meanings) > 1


def partings(model: Any, words: Sequence[str] = WORDS) -> list[Parting]:
    """Look the senses of some words up and count."""
    found = []
    for word in words:
        labels = discourse.deciding_words(word)
        senses = model.senses(word, top=TOP)
        (token,) = senses.words[0].pieces
        tops = tuple(tuple(word for word, _ in sense.raises) for sense in token.senses)
        counts = tuple({name: sum(word in own for word in top) for name, own in labels.items()} for top in tops)
        found.append(Parting(word, counts, tops))
    return found


def cool_share(model: Any, prompt: str = PROMPT) -> tuple[float, str]:
    """Of what may follow a *sick*: P of tricks, jumps and parties as a share of P of all nouns that sick may stand
    with; and the likeliest word of all."""
    labels = discourse.deciding_words("sick")
    why = model.why(prompt, top=1, words=sorted(word for own in labels.values() for word in own if known(model, word)))
    chances = {why.name(one.token): one.probability for one in why.explanation.candidates}
    cool = sum(chances.get(word, 0.0) for word in labels["sick.cool"])
    ill = sum(chances.get(word, 0.0) for word in labels["sick.ill"])
    return cool / (cool + ill), max(chances, key=lambda word: chances[word])


def known(model: Any, word: str) -> bool:
    return len(model.tokenizer.encode(word)) == 1


def without(model: Any, word: str, senses: Sequence[int]) -> Any:
    """The function that takes these senses of a word away: `rewrite` of a Backpack."""
    (token,) = model.tokenizer.encode(word)

    def rewrite(ids: Any, vectors: Any) -> Any:
        gone = vectors.clone()
        for sense in senses:
            gone[ids == token, sense] = 0
        return gone

    return rewrite


def learn(folder: Path, *, steps: int, seed: int, settings: Sequence[str] = ()) -> Any:
    """Train a Backpack on pocket English, as `anaphora train` does, and open it."""
    text = folder.parent / f"pocket-{seed}.txt"
    lines = discourse.discourses(EACH * len(discourse.SENSES), most=EACH, sentences=TOGETHER, rounds=ROUNDS)
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    limits = {"training.max_steps": steps, "training.seed": seed, "training.checkpoint_every": steps}
    own = [f"{key}={value}" for key, value in {**SETTINGS, **limits}.items()]
    anaphora.train(folder, text=text, recipe="backpack", settings=[*own, *settings], device="cpu")
    return anaphora.load(folder, "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--work", type=Path, help="where the models are kept; nowhere unless given")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further settings")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        work = given.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        for seed in given.seeds:
            begun, cpu = time.perf_counter(), time.process_time()
            model = learn(work / f"seed-{seed}", steps=given.steps, seed=seed, settings=given.settings)
            cost = {"seconds": round(time.perf_counter() - begun), "cpu_seconds": round(time.process_time() - cpu)}
            rows.append({"seed": seed, **cost, **tell(model, seed)})
            print(f"seed {seed}: {cost['seconds']} s, {cost['cpu_seconds']} s of CPU\n")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    told = {"command": " ".join(sys.argv), "commit": commit, "cores": os.cpu_count(), "machine": platform.processor()}
    print(json.dumps({**told, "steps": given.steps, "runs": rows}))


def tell(model: Any, seed: int) -> dict[str, Any]:
    """The table of one run."""
    found = partings(model)
    print(f"seed {seed}: senses whose {TOP} top words belong to a meaning")
    for one in found:
        print(f"  {one.word:9}{'parted' if one.parted else ''}")
        for name, senses in one.meanings.items():
            for sense in senses:
                print(f"    {name:20} sense {sense}  {' '.join(one.tops[sense])}")
    before = cool_share(model)
    cool = next(one for one in found if one.word == "sick").meanings.get("sick.cool", [])
    model.model.rewrite = without(model, "sick", cool) if cool else None
    after = cool_share(model)
    model.model.rewrite = None
    print(f'  after "{PROMPT}": trick, jump, party have {before[0]:.0%} of the nouns\' P, likeliest {before[1]}')
    print(f"  without sense {cool} of sick: {after[0]:.0%}, likeliest {after[1]}")
    return {
        "parted": [one.word for one in found if one.parted],
        "cool_senses": cool,
        "cool_share": [before[0], after[0]],
        "likeliest": [before[1], after[1]],
    }


if __name__ == "__main__":
    main()
