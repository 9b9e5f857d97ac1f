"""Minimum Bayes risk: how long the expected utilities of drawn translations take, beside plain pair scores.

    anaphora translate runs/en-de test.en --sample --n-best 64 -q > samples.tsv
    python benchmarks/mbr.py samples.tsv [--measure chrf] [--pairs 20000]

Reads what `translate --n-best` prints (index, rank, score, text). Ours counts the n-grams of a pool once and adds up
what texts share; beside it the same numbers by one score for each pair, batched (evaluation/sentence_scores.py), and by
sacreBLEU, of the first --pairs pairs and scaled up. The limit is the drawing itself (`evaluate` tells lines/s).
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from anaphora.evaluation.expected_utility import UTILITIES, expected_utilities, utilities
from anaphora.evaluation.sentence_scores import REWARDS

Pool = Counter[str]


def read(file: Path) -> list[Pool]:
    """For each sentence its different translations, and how often each was drawn."""
    pools: dict[int, Pool] = defaultdict(Counter)
    for line in file.read_text(encoding="utf-8").split("\n")[:-1]:
        index, _, _, text = line.split("\t", 3)
        pools[int(index)][text] += 1
    return [pools[index] for index in sorted(pools)]


def sacrebleu_of(measure: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return CHRF() if measure == "chrf" else BLEU(effective_order=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--measure", choices=sorted(UTILITIES), default="chrf")
    parser.add_argument("--pairs", type=int, default=20_000, help="Pairs that the slow ways are timed on.")
    arguments = parser.parse_args()
    pools, measure = read(arguments.samples), arguments.measure
    different, drawn = sum(map(len, pools)), sum(pool.total() for pool in pools)
    pairs = sum(len(pool) ** 2 for pool in pools)
    print(f"{len(pools):,} sentences, {drawn:,} translations drawn, {different:,} different, {pairs:,} pairs to score")
    expected_utilities(["a", "b"], [1, 1], measure)  # compiled before the clock runs
    REWARDS[measure](["a"], ["b"])

    began = time.perf_counter()
    for pool in pools:
        expected_utilities(list(pool), list(pool.values()), measure)
    ours = time.perf_counter() - began

    few, seen = [], 0
    for pool in pools:
        if seen < arguments.pairs:
            few.append(list(pool))
            seen += len(pool) ** 2
    began = time.perf_counter()
    plain = [np.stack([REWARDS[measure]([text] * len(texts), texts) for text in texts]) for texts in few]
    batched = (time.perf_counter() - began) * pairs / seen
    off = max(float(np.abs(utilities(texts, measure) - table).max()) for texts, table in zip(few, plain))
    found = {"ours": ours, "pair scores, batched": batched}
    if measure != "gleu":
        metric, seen = sacrebleu_of(measure), 0
        began = time.perf_counter()
        for texts in few[: max(1, len(few) // 8)]:
            for said in texts:
                for wanted in texts:
                    metric.sentence_score(said, [wanted])
            seen += len(texts) ** 2
        found["sacreBLEU, pair by pair"] = (time.perf_counter() - began) * pairs / seen
    for name, seconds in found.items():
        each = 1000 * seconds / len(pools)
        print(f"{name:>24} {seconds:9.2f} s  {each:9.2f} ms a sentence  {seconds / ours:8.1f} times ours")
    print(f"largest difference from the pair scores: {off:.1e}")
    document = {"sentences": len(pools), "drawn": drawn, "different": different, "pairs": pairs, "measure": measure}
    print(json.dumps({**document, "seconds": {name: round(s, 3) for name, s in found.items()}, "difference": off}))


if __name__ == "__main__":
    main()
