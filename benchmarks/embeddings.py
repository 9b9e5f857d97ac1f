"""word2vec beside gensim, C word2vec and fastText, in the same run: speed, memory and quality, each beside its limit.

    python benchmarks/embeddings.py --data DATA --gensim PYTHON [--algorithm skipgram cbow] [--dim 100 300]
                                    [--seeds 1 2 3] [--c-word2vec DIR] [--fasttext DIR] [--threads 2] [--epochs 5]
                                    [--words N] [--rate R] [--work DIR]
    python benchmarks/embeddings.py --gather FILE…

DATA holds wiki-en/, wikitext-2/ and wordsim/. PYTHON is the command of a Python that has gensim 4.4, say "env
PYTHONPATH=DIR python3". --c-word2vec and --fasttext name folders in which these were built from their sources (`gcc
word2vec.c -o word2vec -lm -pthread -O3 -march=native -funroll-loops`, `make opt`); they run once, with the first seed,
at the first --dim. All read the same file, of which each line is a paragraph in lower case, letters only; window 5, 5
negatives, sample 1e-3, min count 5, no subwords, each tool's own learning rate unless one is given.

What is timed is all from the file to the vectors, in a process of its own; of ours and gensim without imports and
without numba's compilation, which happens once on a machine; of the C programs the whole process. gensim runs in both
of its modes (an iterable, a file), and the faster one counts. The tools take turns, seed by seed; the median is what
counts. CPU seconds stand beside the clock's, for machines that have other work to do. Memory is the most that the
process held, its libraries included.

Quality: WordSim-353 and SimLex-999 (Spearman) and Google's analogies, over the whole vocabulary, gensim's conventions
and the same code for all. Ours may be below gensim's mean by no more than its largest distance between two seeds.

The last line is JSON. A long schedule can be cut (`--algorithm cbow --dim 300 --seeds 2`): --gather takes what several
commands have printed, and makes of it the one table, with the verdicts.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from anaphora.evaluation.vector_benchmarks import (
    evaluate_analogies,
    evaluate_similarity,
    read_analogies,
    read_similarities,
)
from anaphora.models.vectors.vector_files import load_vectors

LIMITS = {("skipgram", 100): 4.0, ("skipgram", 300): 4.0, ("cbow", 100): 2.5, ("cbow", 300): 1.5}
"""How many times faster than gensim's faster mode."""
TESTS = {"WordSim-353": "EN-WS-353-ALL.txt", "SimLex-999": "EN-SIMLEX-999.txt"}
ANALOGIES = "questions-words.txt.gz"

OURS = """
import json, re, sys, time
from pathlib import Path
import numpy as np
from anaphora.models.vectors.vector_files import save_vectors
from anaphora.models.vectors.vector_settings import Word2VecConfig, Word2VecTraining
from anaphora.models.vectors.word2vec import learn_vectors
from anaphora.data.language_corpus import prepare_text
from anaphora.data.data_settings import DataConfig
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.tokenizers.word_tokenizer import open_tokenizer
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
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
save_vectors(vectors, made)
print(json.dumps({"seconds": seconds, "cpu": cpu, "training": learned.seconds, "losses": learned.losses,
    "peak": peak, "vocabulary": len(vectors)}))
"""
GENSIM = """
import json, re, sys, time
from gensim.models.word2vec import LineSentence, Word2Vec
text, made, algorithm, dim, epochs, threads, seed, rate, mode = sys.argv[1:]
settings = dict(vector_size=int(dim), window=5, negative=5, sample=1e-3, min_count=5, sg=int(algorithm == "skipgram"),
    epochs=int(epochs), workers=int(threads), seed=int(seed), alpha=0.025 if rate == "default" else float(rate))
began, cpu = time.perf_counter(), time.process_time()
source = {"corpus_file": text} if mode == "file" else {"sentences": LineSentence(text)}
model = Word2Vec(**source, **settings)
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
model.wv.save_word2vec_format(made, binary=True)
print(json.dumps({"seconds": seconds, "cpu": cpu, "training": model.total_train_time,
    "peak": peak, "vocabulary": len(model.wv)}))
"""

PROGRAM = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=sys.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"seconds": time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime,
    "peak": used.ru_maxrss * 1024}))
sys.exit(done.returncode)
"""
"""Runs another program from a small process: what a program held at most is counted from the one that starts it on."""

Run = dict[str, Any]
SAME = ("words", "epochs", "threads", "rate")
"""What runs must share to stand in one table."""
MISSED: list[str] = []


def main() -> None:
    arguments = parse()
    if arguments.gather:
        result = gathered(arguments.gather)
    else:
        arguments.work.mkdir(parents=True, exist_ok=True)
        text, words = corpus(arguments)
        found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, check=False)
        result = {"command": " ".join(sys.argv), "commit": found.stdout.decode().strip(), "machine": machine()}
        result |= {"words": words, "epochs": arguments.epochs, "threads": arguments.threads, "rate": arguments.rate}
        result["runs"] = []
        for algorithm in arguments.algorithm:
            for dim in arguments.dim:
                result["runs"] += take_turns(text, words, algorithm, dim, arguments)
    result["parts"] = judge(result["runs"], printed=bool(arguments.gather), about=result)
    print(f"\nmissed: {', '.join(MISSED) or 'nothing'}")
    print(json.dumps(result))
    sys.exit(1 if MISSED else 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the corpora")
    parser.add_argument("--gensim", help="the command of a Python that has gensim; without it, ours alone")
    parser.add_argument("--c-word2vec", type=Path, help="folder with a built `word2vec`")
    parser.add_argument("--fasttext", type=Path, help="folder with a built `fasttext`")
    parser.add_argument("--algorithm", nargs="+", choices=("skipgram", "cbow"), default=["skipgram", "cbow"])
    parser.add_argument("--dim", nargs="+", type=int, default=[100, 300])
    parser.add_argument("--modes", nargs="+", choices=("iterable", "file"), default=["iterable", "file"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--words", type=int, help="learn from so many words of the text only")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, help="learning rate of all; otherwise each has its own default")
    parser.add_argument("--work", type=Path, default=Path("embeddings-work"), help="for the text and the vectors")
    parser.add_argument("--gather", nargs="+", type=Path, metavar="FILE", help="what earlier commands have printed")
    arguments = parser.parse_args()
    if not arguments.gather and arguments.data is None:
        parser.error("give --data, or --gather")
    for folder, program in ((arguments.c_word2vec, "word2vec"), (arguments.fasttext, "fasttext")):
        if folder is not None and not (folder / program).is_file():
            parser.error(f"{folder} holds no program named {program}: build it there")
    return arguments


def machine() -> str:
    """The processor and how much of it there is."""
    found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    name = found[1] if found else platform.processor()
    return f"{name}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"


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


def take_turns(text: Path, words: int, algorithm: str, dim: int, arguments: argparse.Namespace) -> list[Run]:
    """All tools, one after the other, seed by seed."""
    print(f"\n== {algorithm}, {dim} dimensions, {arguments.epochs} epochs, {arguments.threads} threads", flush=True)
    print(TITLE)
    runs: list[Run] = []
    for seed in arguments.seeds:
        tools = ["anaphora"]
        if arguments.gensim is not None:
            tools += [f"gensim, {mode}" for mode in arguments.modes]
        if seed == arguments.seeds[0] and dim == arguments.dim[0]:
            tools += [name for name, given in ((C, arguments.c_word2vec), (FASTTEXT, arguments.fasttext)) if given]
        for tool in tools:
            run = {"tool": tool, "algorithm": algorithm, "dim": dim, "seed": seed}
            runs.append(run | measure(tool, text, algorithm, dim, seed, arguments))
            print(line(runs[-1], words * arguments.epochs), flush=True)
    return runs


C, FASTTEXT = "C word2vec", "fastText"
TITLE = "tool             seed  seconds     CPU  words/s    MB  WordSim  SimLex  analogies"


def line(run: Run, words: int) -> str:
    speed = words / run["seconds"]
    return (
        f"{run['tool']:16} {run['seed']:4}  {run['seconds']:7.1f} {run['cpu']:7.1f} {speed:8,.0f} "
        f"{run['peak'] / 1e6:5.0f}  {run['WordSim-353']:7.4f} {run['SimLex-999']:7.4f}  {run['analogies']:8.4f}"
    )


def measure(tool: str, text: Path, algorithm: str, dim: int, seed: int, arguments: argparse.Namespace) -> Run:
    """One run in a process of its own, and how good its vectors are."""
    made = arguments.work / f"{tool.replace(', ', '-').replace(' ', '-')}-{algorithm}-{dim}-{seed}.bin"
    subprocess.run(["rm", "-rf", f"{made}.data", f"{made}.warm"], check=True)
    given = [str(text), str(made), algorithm, str(dim), str(arguments.epochs), str(arguments.threads), str(seed)]
    given.append(str(arguments.rate or "default"))
    if tool == "anaphora":
        command = [sys.executable, "-c", OURS, *given]
    elif tool == C:
        command = [sys.executable, "-S", "-c", PROGRAM, *c_command(arguments, text, made, algorithm, dim)]
    elif tool == FASTTEXT:
        command = [sys.executable, "-S", "-c", PROGRAM, *fasttext_command(arguments, text, made, algorithm, dim, seed)]
        made = made.with_suffix(".vec")
    else:
        command = [*shlex.split(arguments.gensim), "-c", GENSIM, *given, tool.split()[-1]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{tool} failed:\n{done.stderr[-3000:]}")
    run: Run = json.loads(done.stdout.splitlines()[-1])
    vectors = load_vectors(made)
    units = vectors.unit_vectors()
    folder = arguments.data / "wordsim"
    for name, file in TESTS.items():
        run[name] = evaluate_similarity(vectors.index_to_key, units, read_similarities(folder / file)).spearman
    run["analogies"] = evaluate_analogies(vectors.index_to_key, units, read_analogies(folder / ANALOGIES)).accuracy
    return run | {"vocabulary": len(vectors)}


def c_command(arguments: argparse.Namespace, text: Path, made: Path, algorithm: str, dim: int) -> list[str]:
    """word2vec.c, which draws the same numbers every time: it has no seed."""
    settings = f"-cbow {int(algorithm == 'cbow')} -size {dim} -window 5 -negative 5 -hs 0 -sample 1e-3 -min-count 5"
    settings += f" -threads {arguments.threads} -iter {arguments.epochs} -binary 1"
    rate = [] if arguments.rate is None else ["-alpha", str(arguments.rate)]
    program = str((arguments.c_word2vec / "word2vec").resolve())
    return [program, "-train", str(text), "-output", str(made), *settings.split(), *rate]


def fasttext_command(
    arguments: argparse.Namespace, text: Path, made: Path, algorithm: str, dim: int, seed: int
) -> list[str]:
    """fastText without subwords, so that it learns the same thing."""
    settings = f"-dim {dim} -ws 5 -neg 5 -loss ns -t 1e-3 -minCount 5 -minn 0 -maxn 0 -seed {seed}"
    settings += f" -thread {arguments.threads} -epoch {arguments.epochs} -verbose 0"
    rate = [] if arguments.rate is None else ["-lr", str(arguments.rate)]
    program = str((arguments.fasttext / "fasttext").resolve())
    return [program, algorithm, "-input", str(text), "-output", str(made.with_suffix("")), *settings.split(), *rate]


def gathered(files: list[Path]) -> dict[str, Any]:
    """What several commands have measured, as if it had been one."""
    found = []
    for file in files:
        try:
            found.append(json.loads(file.read_text(encoding="utf-8").splitlines()[-1]))
            found[-1]["runs"]
        except (ValueError, IndexError, KeyError, TypeError):
            sys.exit(f"{file}: its last line is not what this benchmark prints; give a command's whole output")
        for name in SAME:
            if found[-1][name] != found[0][name]:
                sys.exit(f"{file}: {name} is {found[-1][name]}, and {found[0][name]} in {files[0]}")
    apart = {name: sorted({str(one[name]) for one in found}) for name in ("commit", "machine")}
    for name, several in apart.items():
        if len(several) > 1:
            print(f"note: of more than one {name}: {'; '.join(several)}")
    result = {"command": " ".join(sys.argv), **{name: "; ".join(several) for name, several in apart.items()}}
    result |= {name: found[0][name] for name in SAME}
    return {**result, "runs": [run for one in found for run in one["runs"]]}


def judge(runs: list[Run], *, printed: bool, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Each algorithm and size: ours beside gensim's faster mode, and beside the limits. printed: the runs, too."""
    parts = []
    for algorithm, dim in dict.fromkeys((run["algorithm"], run["dim"]) for run in runs):
        of: dict[str, list[Run]] = {}
        for run in runs:
            if (run["algorithm"], run["dim"]) == (algorithm, dim):
                of.setdefault(run["tool"], []).append(run)
        print(f"\n== {algorithm}, {dim} dimensions: verdict")
        if printed:
            print(TITLE)
            for run in (run for several in of.values() for run in sorted(several, key=lambda run: int(run["seed"]))):
                print(line(run, about["words"] * about["epochs"]))
        parts.append(verdict(algorithm, dim, of))
    return parts


def verdict(algorithm: str, dim: int, of: dict[str, list[Run]]) -> dict[str, Any]:
    clock, cpu, peak = (
        {tool: statistics.median(run[name] for run in several) for tool, several in of.items()}
        for name in ("seconds", "cpu", "peak")
    )
    part: dict[str, Any] = {"algorithm": algorithm, "dim": dim, "seconds": clock, "cpu": cpu, "peak": peak}
    modes = [tool for tool in of if tool.startswith("gensim")]
    if "anaphora" not in of or not modes:
        print("no verdict: it needs runs of ours and of gensim")
        return part
    faster = min(modes, key=lambda tool: clock[tool])
    ratio, limit = clock[faster] / clock["anaphora"], LIMITS.get((algorithm, dim), 1.0)
    low = ratio < limit
    print(
        f"speed: {ratio:.2f} x {faster} (limit {limit} x){'  MISSED' if low else ''}; "
        f"CPU {cpu[faster] / cpu['anaphora']:.2f} x"
    )
    if low:
        MISSED.append(f"{algorithm} {dim} speed")
    for tool in of:
        if tool not in ("anaphora", faster):
            print(f"       {clock[tool] / clock['anaphora']:.2f} x {tool}; CPU {cpu[tool] / cpu['anaphora']:.2f} x")
    print("memory, MB: " + ", ".join(f"{tool} {peak[tool] / 1e6:.0f}" for tool in of))
    quality = {}
    for test in (*TESTS, "analogies"):
        ours = statistics.mean(run[test] for run in of["anaphora"])
        theirs = [run[test] for run in of[faster]]
        mean, spread = statistics.mean(theirs), max(theirs) - min(theirs)
        quality[test] = {"ours": ours, "gensim": mean, "spread": spread, "seeds": [len(of["anaphora"]), len(theirs)]}
        if len(theirs) < 2:
            print(f"{test:12} {ours:.4f} beside {mean:.4f}; one run has no spread, so no verdict")
            continue
        low = ours < mean - spread
        print(f"{test:12} {ours:.4f} beside {mean:.4f}, at least {mean - spread:.4f}{'  MISSED' if low else ''}")
        if low:
            MISSED.append(f"{algorithm} {dim} {test}")
    return {**part, "peer": faster, "ratio": ratio, "limit": limit, "quality": quality}


if __name__ == "__main__":
    main()
