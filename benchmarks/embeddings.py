"""word2vec beside gensim, in the same run: speed, memory and quality, each beside its limit.

    python benchmarks/embeddings.py --data DATA --gensim PYTHON [--algorithm skipgram cbow] [--dim 100 300] [--rounds 3]
                                    [--words N] [--epochs 5] [--threads 2] [--rate R] [--work DIR]

DATA holds wiki-en/, wikitext-2/ and wordsim/. PYTHON is the interpreter of an environment that has gensim 4.4. Both
read the same file, of which each line is a paragraph in lower case, letters only; window 5, 5 negatives, sample 1e-3,
min count 5. What is timed is all from the file to the vectors, in a process of its own, without its imports and without
numba's compilation, which happens once on a machine. gensim runs in both of its modes (an iterable, a file), and the
faster one counts. The tools take turns, round by round, each round with a seed of its own; the median is what counts.
CPU seconds stand beside the clock's, for machines that have other work to do.

Quality: WordSim-353 and SimLex-999 (Spearman) and Google's analogies, over the whole vocabulary, gensim's conventions
and the same code for both. Ours may be below gensim's mean by no more than its largest distance between two seeds. The
last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from anaphora.embeddings.formats import load_vectors
from anaphora.evaluation.embeddings import evaluate_analogies, evaluate_similarity, read_analogies, read_similarities

LIMITS = {("skipgram", 100): 4.0, ("skipgram", 300): 4.0, ("cbow", 100): 2.5, ("cbow", 300): 1.5}
"""How many times faster than gensim's faster mode."""
TESTS = {"WordSim-353": "EN-WS-353-ALL.txt", "SimLex-999": "EN-SIMLEX-999.txt"}
ANALOGIES = "questions-words.txt.gz"

OURS = """
import json, resource, sys, time
from pathlib import Path
import numpy as np
from anaphora.embeddings.formats import save_vectors
from anaphora.embeddings.settings import Word2VecConfig, Word2VecTraining
from anaphora.embeddings.word2vec import learn_vectors
from anaphora.text.language_corpus import prepare_text
from anaphora.text.settings import DataConfig
from anaphora.text.tokenizer import TokenizerConfig
from anaphora.text.word_ids import WordIds
from anaphora.text.word_tokenizer import open_tokenizer
text, made, algorithm, dim, epochs, threads, seed, rate = sys.argv[1:]
config = Word2VecConfig(algorithm=algorithm, dim=int(dim))
rate = None if rate == "default" else float(rate)
training = Word2VecTraining(epochs=int(epochs), threads=int(threads), seed=int(seed), learning_rate=rate)
def run(text, folder, config, training):
    tokenizer = TokenizerConfig(kind="word", split="blanks", fallback="unk", minimum_count=5)
    prepared = prepare_text(folder, DataConfig(text=[text]), tokenizer)
    known = open_tokenizer(folder / "tokenizer.json").rust.get_vocab()
    words = [word[1:] for word, id in sorted(known.items(), key=lambda pair: pair[1]) if id >= 4]
    return learn_vectors(np.memmap(prepared.train, np.uint32, "r"), words, config, training)
small = Path(made + ".warm.txt")
small.write_text("a b a b a b a b a b\\n" * 20)
run(str(small), Path(made + ".warm"), Word2VecConfig(algorithm=algorithm, dim=8), Word2VecTraining(threads=1, epochs=1))
began, cpu = time.perf_counter(), time.process_time()
model, learned = run(text, Path(made + ".data"), config, training)
vectors = model.vectors()
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
save_vectors(vectors, made)
print(json.dumps({"seconds": seconds, "cpu": cpu, "training": learned.seconds, "losses": learned.losses,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "vocabulary": len(vectors)}))
"""
GENSIM = """
import json, resource, sys, time
from gensim.models.word2vec import LineSentence, Word2Vec
text, made, algorithm, dim, epochs, threads, seed, rate, mode = sys.argv[1:]
settings = dict(vector_size=int(dim), window=5, negative=5, sample=1e-3, min_count=5, sg=int(algorithm == "skipgram"),
    epochs=int(epochs), workers=int(threads), seed=int(seed), alpha=0.025 if rate == "default" else float(rate))
began, cpu = time.perf_counter(), time.process_time()
source = {"corpus_file": text} if mode == "file" else {"sentences": LineSentence(text)}
model = Word2Vec(**source, **settings)
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
model.wv.save_word2vec_format(made, binary=True)
print(json.dumps({"seconds": seconds, "cpu": cpu, "training": model.total_train_time,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "vocabulary": len(model.wv)}))
"""

MISSED: list[str] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--gensim", type=Path, required=True, help="a Python that has gensim")
    parser.add_argument("--algorithm", nargs="+", choices=("skipgram", "cbow"), default=["skipgram", "cbow"])
    parser.add_argument("--dim", nargs="+", type=int, default=[100, 300])
    parser.add_argument("--modes", nargs="+", choices=("iterable", "file"), default=["iterable", "file"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int, help="learn from so many words of the text only")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, help="learning rate of both; otherwise each has its own default")
    parser.add_argument("--work", type=Path, default=Path("embeddings-work"), help="for the text and the vectors")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    text, words = corpus(arguments)
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, check=False)
    result: dict[str, Any] = {"command": " ".join(sys.argv), "commit": found.stdout.decode().strip(), "words": words}
    result |= {"cores": os.cpu_count(), "python": platform.python_version(), "epochs": arguments.epochs, "parts": []}
    for algorithm in arguments.algorithm:
        for dim in arguments.dim:
            result["parts"].append(compare(text, words, algorithm, dim, arguments))
    print(json.dumps(result))
    sys.exit(1 if MISSED else 0)


def corpus(arguments: argparse.Namespace) -> tuple[Path, int]:
    """Both texts as one file, in the one form that needs no opinion about tokens."""
    path = arguments.work / f"text-{arguments.words or 'all'}.txt"
    words = 0
    with path.open("w", encoding="utf-8") as out:
        for name in ("wiki-en/wiki-en.txt.xz", "wikitext-2/train.txt.xz"):
            with lzma.open(arguments.data / name, "rt", encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    found = re.findall("[a-z]+", line.replace("<unk>", " ").lower())
                    if found and (arguments.words is None or words < arguments.words):
                        out.write(" ".join(found) + "\n")
                        words += len(found)
    print(f"{path}: {words:,} words")
    return path, words


def compare(text: Path, words: int, algorithm: str, dim: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Rounds of both tools, taking turns."""
    print(f"\n== {algorithm}, {dim} dimensions, {arguments.epochs} epochs, {arguments.threads} threads", flush=True)
    print("tool             seed  seconds     CPU  words/s    MB  WordSim  SimLex  analogies")
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(1, arguments.rounds + 1):
        for tool in ("anaphora", *(f"gensim, {mode}" for mode in arguments.modes)):
            run = measure(tool, text, algorithm, dim, seed, arguments)
            runs.setdefault(tool, []).append(run)
            speed = words * arguments.epochs / run["seconds"]
            print(
                f"{tool:16} {seed:4}  {run['seconds']:7.1f} {run['cpu']:7.1f} {speed:8,.0f} {run['peak'] / 1e6:5.0f}  "
                f"{run['WordSim-353']:7.4f} {run['SimLex-999']:7.4f}  {run['analogies']:8.4f}",
                flush=True,
            )
    clock = {tool: statistics.median(run["seconds"] for run in several) for tool, several in runs.items()}
    fastest = min((tool for tool in runs if tool != "anaphora"), key=lambda tool: clock[tool])
    cpu = {tool: statistics.median(run["cpu"] for run in several) for tool, several in runs.items()}
    ratio, limit = clock[fastest] / clock["anaphora"], LIMITS.get((algorithm, dim), 1.0)
    verdict = "" if ratio >= limit else "  MISSED"
    print(f"{ratio:.2f} x {fastest} (limit {limit} x){verdict}; CPU {cpu[fastest] / cpu['anaphora']:.2f} x")
    if verdict:
        MISSED.append(f"{algorithm} {dim} speed")
    quality = {}
    for test in (*TESTS, "analogies"):
        ours = statistics.mean(run[test] for run in runs["anaphora"])
        theirs = [run[test] for run in runs[fastest]]
        spread = max(theirs) - min(theirs)
        low = ours < statistics.mean(theirs) - spread
        quality[test] = {"ours": ours, "gensim": statistics.mean(theirs), "spread": spread}
        print(f"{test:12} {ours:.4f} beside {statistics.mean(theirs):.4f} ± {spread:.4f}{'  MISSED' if low else ''}")
        if low and arguments.rounds > 1:
            MISSED.append(f"{algorithm} {dim} {test}")
    return {"algorithm": algorithm, "dim": dim, "ratio": ratio, "limit": limit, "quality": quality, "runs": runs}


def measure(
    tool: str, text: Path, algorithm: str, dim: int, seed: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """One run in a process of its own, and how good its vectors are."""
    made = arguments.work / f"{tool.replace(', ', '-')}-{algorithm}-{dim}-{seed}.bin"
    subprocess.run(["rm", "-rf", f"{made}.data", f"{made}.warm"], check=True)
    given = [str(text), str(made), algorithm, str(dim), str(arguments.epochs), str(arguments.threads), str(seed)]
    given.append(str(arguments.rate or "default"))
    if tool == "anaphora":
        command = [sys.executable, "-c", OURS, *given]
    else:
        command = [str(arguments.gensim), "-c", GENSIM, *given, tool.split()[-1]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{tool} failed:\n{done.stderr[-3000:]}")
    run: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    vectors = load_vectors(made)
    units = vectors.unit_vectors()
    folder = arguments.data / "wordsim"
    for name, file in TESTS.items():
        run[name] = evaluate_similarity(vectors.index_to_key, units, read_similarities(folder / file)).spearman
    run["analogies"] = evaluate_analogies(vectors.index_to_key, units, read_analogies(folder / ANALOGIES)).accuracy
    return run


if __name__ == "__main__":
    main()
