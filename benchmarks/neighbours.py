"""A million words: reading them, neighbours by comparing with all, and by an index, with the index's recall.

    python benchmarks/neighbours.py [--words 1000000] [--dim 100] [--vectors FILE] [--questions 200]
                                    [--part files exact index] [--work DIR]

Without FILE the vectors are made: each word lies near one of 1,000 centers and is moved in 20 directions of its center,
and a little in all: many dimensions of which few matter, as in vectors that were learned. Limit: the exact neighbours
of a word in 0.2 s, once the vectors are loaded. The index (faiss) is compared with the exact search: seconds to build,
seconds for a question, and recall, the share of the true ten nearest words that it finds. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from anaphora.models.vectors.vector_files import load_vectors, save_vectors
from anaphora.models.vectors.word_vectors import Vectors

LIMIT = 0.2
PARTS = ("files", "exact", "index")
CENTERS, DIRECTIONS = 1000, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--vectors", type=Path, help="a file of vectors, instead of made ones")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--work", type=Path, default=Path("neighbours-work"), help="for files that are written and read"
    )
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    vectors = made(arguments.words, arguments.dim) if arguments.vectors is None else load_vectors(arguments.vectors)
    result: dict[str, Any] = {"command": " ".join(sys.argv), "words": len(vectors), "dim": vectors.vector_size}
    result["cores"] = len(os.sched_getaffinity(0))
    print(f"{len(vectors):,} words of {vectors.vector_size} numbers, {result['cores']} cores")
    for name in ("words.safetensors", "words.bin") if "files" in arguments.part else ():
        began = time.perf_counter()
        save_vectors(vectors, arguments.work / name)
        written = time.perf_counter() - began
        began = time.perf_counter()
        again = load_vectors(arguments.work / name)
        read = time.perf_counter() - began
        if again.index_to_key != vectors.index_to_key or not np.array_equal(again.vectors, vectors.vectors):
            sys.exit(f"{name}: what was read is not what was written")
        print(f"{name:18} written in {written:.1f} s, read in {read:.1f} s")
        result[name] = {"written": written, "read": read}
    if "exact" in arguments.part:
        result["exact"] = exact(vectors, arguments.questions)
    if "index" in arguments.part:
        result["index"] = indexed(vectors, arguments)
    print(json.dumps(result))
    sys.exit(1 if result.get("exact", {}).get("seconds", 0.0) > LIMIT else 0)


def made(words: int, dim: int) -> Vectors:
    """Vectors in groups, with few directions that matter in each."""
    draw = np.random.default_rng(0)
    centers = draw.normal(size=(CENTERS, dim)).astype(np.float32)
    ways = draw.normal(size=(CENTERS, DIRECTIONS, dim)).astype(np.float32) / np.float32(DIRECTIONS**0.5)
    matrix = np.empty((words, dim), np.float32)
    for begin in range(0, words, 10_000):
        some = matrix[begin : begin + 10_000]
        group = draw.integers(CENTERS, size=len(some))
        along = draw.normal(size=(len(some), 1, DIRECTIONS)).astype(np.float32)
        some[:] = centers[group] + (along @ ways[group])[:, 0] + draw.normal(size=some.shape) * 0.1
    return Vectors([f"word{n}" for n in range(words)], matrix)


def chosen(vectors: Vectors, questions: int) -> list[str]:
    rows = np.random.default_rng(1).choice(len(vectors), min(questions, len(vectors)), replace=False)
    return [vectors.index_to_key[row] for row in rows.tolist()]


def exact(vectors: Vectors, questions: int) -> dict[str, float]:
    """One word at a time, as a person asks."""
    vectors.most_similar(vectors.index_to_key[0])  # the lengths of all vectors are found once
    taken = []
    for word in chosen(vectors, min(questions, 50)):
        began = time.perf_counter()
        vectors.most_similar(word)
        taken.append(time.perf_counter() - began)
    middle = statistics.median(taken)
    print(f"exact: {middle:.4f} s a word (limit {LIMIT} s){'  MISSED' if middle > LIMIT else ''}")
    return {"seconds": middle, "slowest": max(taken), "limit": LIMIT}


def indexed(vectors: Vectors, arguments: argparse.Namespace) -> dict[str, float]:
    from anaphora.models.vectors.index import SEARCH_CANDIDATES, VectorIndex

    began = time.perf_counter()
    index = VectorIndex.build(vectors)
    built = time.perf_counter() - began
    began = time.perf_counter()
    index.save(arguments.work / "index.faiss")
    index = VectorIndex.load(arguments.work / "index.faiss", vectors)
    kept = time.perf_counter() - began
    taken = []
    for word in chosen(vectors, arguments.questions):
        began = time.perf_counter()
        index.most_similar(word)
        taken.append(time.perf_counter() - began)
    middle = statistics.median(taken)
    recall = {
        effort: index.recall(arguments.questions, effort=effort)
        for effort in (SEARCH_CANDIDATES // 4, SEARCH_CANDIDATES)
    }
    print(f"index: built in {built:.0f} s, written and read again in {kept:.1f} s, {middle:.5f} s a word")
    for effort, share in recall.items():
        usual = " (as built)" if effort == SEARCH_CANDIDATES else ""
        print(f"index: recall of the ten nearest {share:.4f} with effort {effort}{usual}")
    return {"build": built, "kept": kept, "seconds": middle, **{f"recall_{effort}": r for effort, r in recall.items()}}


if __name__ == "__main__":
    main()
