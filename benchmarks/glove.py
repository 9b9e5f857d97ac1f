"""GloVe beside Stanford's C program, in the same run: speed, memory, loss and quality, each beside its limit.

    python benchmarks/glove.py --data DATA --c-source FOLDER [--words N] [--epochs 15] [--dim 100] [--window 10]
                               [--threads 2] [--rounds 1] [--memory 2GB] [--work DIR]

DATA holds wiki-en/ and wordsim/. FOLDER is a checkout of stanfordnlp/GloVe, built (`make`). Both read the same file, of
which each line is a paragraph in lower case, letters only; min count 5, x_max 100, α 0.75, η 0.05. What is timed is all
from the file to the vectors: words and their ids, counting, shuffling, learning; ours in a process of its own, without
its imports and without numba's compilation, which happens once on a machine; theirs as four commands, of which the last
writes its numbers in binary. They take turns, round by round, each round with a seed of its own.

Loss: J / entries of X, of the finished vectors over the whole table, by the same code for both. Quality: WordSim-353,
SimLex-999 (Spearman) and Google's analogies over the whole vocabulary. Ours may be worse by no more than TOLERANCE, or
by what their rounds differ. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.evaluation.vector_benchmarks import (
    evaluate_analogies,
    evaluate_similarity,
    read_analogies,
    read_similarities,
)
from anaphora.models.vectors.cooccurrence import Cooccurrences

LIMIT = 1.5
"""How many times faster than the C program, counting and learning together."""
TOLERANCE = {"loss": 0.02, "WordSim-353": 0.02, "SimLex-999": 0.02, "analogies": 0.01}
"""The loss by its share, the others as they are: two seeds of one program differ by that much."""
TESTS = {"WordSim-353": "EN-WS-353-ALL.txt", "SimLex-999": "EN-SIMLEX-999.txt"}
ANALOGIES = "questions-words.txt.gz"
X_MAX, ALPHA = 100.0, 0.75

OURS = """
import json, resource, sys, time
from pathlib import Path
import numpy as np
from anaphora.models.vectors.cooccurrence import count_cooccurrences
from anaphora.models.vectors.glove import learn_glove
from anaphora.models.vectors.vector_settings import GloveConfig, GloveTraining
from anaphora.data.language_corpus import prepare_text
from anaphora.data.data_settings import DataConfig
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.tokenizers.word_tokenizer import open_tokenizer
text, made, dim, window, epochs, threads, seed, memory = sys.argv[1:]
def run(text, folder, config, training):
    clock = [time.perf_counter()]
    tokenizer = TokenizerConfig(kind="word", split="blanks", fallback="unk", minimum_count=5)
    prepared = prepare_text(folder / "data", DataConfig(text=[text]), tokenizer)
    known = open_tokenizer(folder / "data" / "tokenizer.json").rust.get_vocab()
    words = [word[1:] for word, id in sorted(known.items(), key=lambda pair: pair[1]) if id >= 4]
    clock.append(time.perf_counter())
    ids = np.memmap(prepared.train, np.uint32, "r")
    table = count_cooccurrences(ids, words, folder / "table", window=config.window, memory=training.memory_limit(),
        threads=training.threads)
    clock.append(time.perf_counter())
    model, learned = learn_glove(table, config, training)
    vectors = model.vectors()
    clock.append(time.perf_counter())
    return model, learned, np.diff(clock).tolist()
small = Path(made) / "warm.txt"
small.parent.mkdir(parents=True)
small.write_text("a b a b a b c b a b\\n" * 20)
common = dict(threads=int(threads), seed=int(seed), max_memory=memory)
run(str(small), Path(made) / "warm", GloveConfig(dim=8), GloveTraining(epochs=1, **common))
cpu = time.process_time()
config = GloveConfig(dim=int(dim), window=int(window))
model, learned, parts = run(text, Path(made), config, GloveTraining(epochs=int(epochs), **common))
cpu = time.process_time() - cpu
np.save(Path(made) / "table.npy", model.table, allow_pickle=False)
print(json.dumps({"seconds": sum(parts), "cpu": cpu, "parts": dict(zip(("words", "counting", "learning"), parts)),
    "losses": learned.losses, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""

MISSED: list[str] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--c-source", type=Path, required=True, help="a built checkout of stanfordnlp/GloVe")
    parser.add_argument("--words", type=int, help="learn from so many words of the text only")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--memory", default="2GB", help="what our counting may take; theirs has its own 4 GB")
    parser.add_argument("--work", type=Path, default=Path("glove-work"), help="for the text, tables and vectors")
    arguments = parser.parse_args()
    if not (arguments.c_source / "build" / "glove").is_file():
        sys.exit(f"{arguments.c_source} has no build/glove: give a checkout of stanfordnlp/GloVe after `make`")
    arguments.work.mkdir(parents=True, exist_ok=True)
    text, words = corpus(arguments)
    print(f"{words:,} words, {arguments.epochs} epochs, {arguments.dim} dimensions, {arguments.threads} threads")
    print("tool       seed  seconds    CPU    MB    loss  WordSim  SimLex  analogies  of which", flush=True)
    runs: dict[str, list[dict[str, Any]]] = {"anaphora": [], "Stanford C": []}
    for seed in range(1, arguments.rounds + 1):
        folder = arguments.work / f"ours-{seed}"
        ours, names, tables = learn_ours(text, folder, seed, arguments)
        counted = Cooccurrences(folder / "table")
        runs["anaphora"].append(judge("anaphora", seed, ours, names, tables, counted, arguments))
        theirs, names, tables = learn_theirs(text, arguments.work / f"c-{seed}", seed, arguments)
        runs["Stanford C"].append(judge("Stanford C", seed, theirs, names, tables, counted, arguments))
    result = compare(runs)
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, check=False)
    result |= {"command": " ".join(sys.argv), "commit": found.stdout.decode().strip(), "words": words}
    result |= {"cores": os.cpu_count(), "python": platform.python_version(), "epochs": arguments.epochs, "runs": runs}
    print(json.dumps(result))
    sys.exit(1 if MISSED else 0)


def corpus(arguments: argparse.Namespace) -> tuple[Path, int]:
    """The text in the one form that needs no opinion about tokens."""
    path = arguments.work / f"text-{arguments.words or 'all'}.txt"
    words = 0
    with (
        path.open("w", encoding="utf-8") as out,
        lzma.open(arguments.data / "wiki-en/wiki-en.txt.xz", "rt", encoding="utf-8", newline="\n") as lines,
    ):
        for line in lines:
            found = re.findall("[a-z]+", line.lower())
            if arguments.words is not None and words >= arguments.words:
                break
            if found:
                out.write(" ".join(found) + "\n")
                words += len(found)
    return path, words


F32 = NDArray[np.float32]
Tables = tuple[F32, F32, F32, F32]
"""w (V, D), b (V,), w̃, b̃"""


def learn_ours(
    text: Path, folder: Path, seed: int, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[str], Tables]:
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    given = [arguments.dim, arguments.window, arguments.epochs, arguments.threads, seed, arguments.memory]
    command = [sys.executable, "-c", OURS, str(text), str(folder), *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"anaphora failed:\n{done.stderr[-3000:]}")
    table, dim = np.load(folder / "table.npy"), arguments.dim
    names = (folder / "table" / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
    return (
        json.loads(done.stdout.splitlines()[-1]),
        names,
        (
            table[:, 0, :dim],
            table[:, 0, -1],
            table[:, 2, :dim],
            table[:, 2, -1],
        ),
    )


def learn_theirs(
    text: Path, folder: Path, seed: int, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[str], Tables]:
    """vocab_count, cooccur, shuffle and glove, as the program's demo.sh calls them."""
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir(parents=True)
    build, window, dim = arguments.c_source.resolve() / "build", arguments.window, arguments.dim
    steps = {
        "words": ["vocab_count", "-min-count", "5", "-verbose", "0"],
        "counting": f"cooccur -memory 4 -vocab-file vocab.txt -verbose 0 -window-size {window}".split(),
        "shuffling": f"shuffle -memory 4 -verbose 0 -seed {seed}".split(),
        "learning": (
            f"glove -save-file vectors -vocab-file vocab.txt -input-file shuffled.bin -binary 1 -verbose 1 -eta 0.05 "
            f"-x-max {X_MAX:g} -alpha {ALPHA:g} -iter {arguments.epochs} -vector-size {dim} -seed {seed} "
            f"-threads {arguments.threads}"
        ).split(),
    }
    nothing = Path(os.devnull)
    given = {"words": text, "counting": text, "shuffling": folder / "pairs.bin", "learning": nothing}
    made = {"words": "vocab.txt", "counting": "pairs.bin", "shuffling": "shuffled.bin"}
    parts, said = {}, ""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = 0
    for part, command in steps.items():
        began = time.perf_counter()
        with given[part].open("rb") as source, (folder / made[part] if part in made else nothing).open("wb") as out:
            process = subprocess.Popen(
                [str(build / command[0]), *command[1:]], stdin=source, stdout=out, stderr=subprocess.PIPE, cwd=folder
            )
            assert process.stderr is not None
            said = process.stderr.read().decode(errors="replace")
            _, status, used = os.wait4(process.pid, 0)
        parts[part] = time.perf_counter() - began
        peak = max(peak, used.ru_maxrss * 1024)
        if status:
            sys.exit(f"{command[0]} failed:\n{said[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    names = [line.split(" ")[0] for line in (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()]
    numbers = np.fromfile(folder / "vectors.bin", np.float64).reshape(2, -1, dim + 1).astype(np.float32)
    losses = [float(cost) for cost in re.findall(r"cost: ([0-9.]+)", said)]
    tables = numbers[0, : len(names), :dim], numbers[0, : len(names), dim], numbers[1, : len(names), :dim]
    run = {"seconds": sum(parts.values()), "cpu": cpu, "parts": parts, "losses": losses, "peak": peak}
    return run, names, (*tables, numbers[1, : len(names), dim])


def judge(
    tool: str,
    seed: int,
    run: dict[str, Any],
    names: list[str],
    tables: Tables,
    counted: Cooccurrences,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """The loss over the whole table, and how good the vectors are."""
    place = {name: row for row, name in enumerate(names)}
    if place.keys() != set(counted.words):
        sys.exit(f"{tool} has {len(names):,} words, the table {len(counted.words):,}, and they differ")
    run["loss"] = whole_loss(counted, np.array([place[word] for word in counted.words]), tables)
    matrix = tables[0] + tables[2]
    units = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    folder = arguments.data / "wordsim"
    for name, file in TESTS.items():
        run[name] = evaluate_similarity(names, units, read_similarities(folder / file)).spearman
    run["analogies"] = evaluate_analogies(names, units, read_analogies(folder / ANALOGIES)).accuracy
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in run["parts"].items())
    print(
        f"{tool:10} {seed:4}  {run['seconds']:7.1f} {run['cpu']:6.1f} {run['peak'] / 1e6:5.0f}  {run['loss']:.5f} "
        f"{run['WordSim-353']:7.4f} {run['SimLex-999']:7.4f}   {run['analogies']:8.4f}  {parts}",
        flush=True,
    )
    return run


def whole_loss(counted: Cooccurrences, rows: NDArray[np.int64], tables: Tables) -> float:
    """J / entries; `rows` are the words of the table in these vectors."""
    word, bias, around, other = (table[rows] for table in tables)
    total, block = 0.0, 1 << 17
    first = np.repeat(np.arange(len(rows)), np.diff(counted.begin))
    for begin in range(0, len(counted), block):
        i, j = first[begin : begin + block], counted.column[begin : begin + block].astype(np.int64)
        x = counted.count[begin : begin + block].astype(np.float64)
        weight = np.minimum(1.0, (x / X_MAX) ** ALPHA)
        for a, b, here in ((i, j, weight), (j, i, np.where(i == j, 0.0, weight))):
            error = np.einsum("nd,nd->n", word[a], around[b]) + bias[a] + other[b] - np.log(x)
            total += 0.5 * float((here * error**2).sum())
    return total / counted.entries


def compare(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Ours beside theirs, each with its limit."""
    ours, theirs = runs["anaphora"], runs["Stanford C"]
    clock, cpu = (
        statistics.median(run[name] for run in theirs) / statistics.median(run[name] for run in ours)
        for name in ("seconds", "cpu")
    )
    late = clock < LIMIT
    print(f"{clock:.2f} x Stanford C (limit {LIMIT} x){'  MISSED' if late else ''}; CPU {cpu:.2f} x")
    if late:
        MISSED.append("speed")
    quality = {}
    for name, tolerance in TOLERANCE.items():
        mine, values = statistics.mean(run[name] for run in ours), [run[name] for run in theirs]
        mean, spread = statistics.mean(values), max(values) - min(values)
        allowed = max(tolerance * (mean if name == "loss" else 1.0), spread)
        worse = mine - mean if name == "loss" else mean - mine
        quality[name] = {"ours": mine, "theirs": mean, "allowed": allowed}
        print(f"{name:12} {mine:.5f} beside {mean:.5f} ± {allowed:.5f}{'  MISSED' if worse > allowed else ''}")
        if worse > allowed:
            MISSED.append(name)
    return {"ratio": clock, "limit": LIMIT, "cpu_ratio": cpu, "quality": quality, "missed": MISSED}


if __name__ == "__main__":
    main()
