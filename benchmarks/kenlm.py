"""Counting beside KenLM, in the same run: perplexity, time and memory of fitting, speed of scoring, ARPA both ways.

    python benchmarks/kenlm.py --data DATA [--part quality fit score arpa] [--kenlm BIN] [--module DIR] [--work DIR]

DATA holds ptb/, wikitext-2/ and wiki-en/. KenLM is built from its source package on PyPI into --work (cmake, boost and
a compiler are needed; some minutes, once); --kenlm names a folder that has lmplz and build_binary already, --module one
that has its Python module. Literal `<unk>` of the corpora, which lmplz refuses, is renamed for both, so that it is an
ordinary word; `</s>` is counted. The last line is JSON.

quality  perplexity of the test sets, orders 2 to 5, blank lines kept and left out, with pruning (0 0 1); limit 0.1 %
fit      from a file of text to a file with the model, order 5; ours is a process of its own like lmplz, its start not
         counted (it is printed); limit 1.5 × lmplz
score    tokens a second of WikiText-2's two held-out sets: `score(line)` of kenlm's module, probing; ours from ids
         (limit 2 ×, two threads) and from lines (limit 1 ×); the median of the rounds is what counts
arpa     our file read by kenlm and lmplz's file read by us give the same sum over each sentence; limit 1e-4
"""

from __future__ import annotations

import argparse
import importlib
import json
import lzma
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anaphora.models.ngram.arpa import arpa_words, read_arpa, write_arpa
from anaphora.models.ngram.counting import count
from anaphora.models.ngram.model import NgramConfig, NgramModel
from anaphora.text.tokenizer import SPECIALS, UNK
from anaphora.text.word_ids import WordIds

VERSION = "0.3.0"
CORPORA = {"ptb": ("ptb.train", "ptb.test"), "wikitext-2": ("train", "test")}
ORDINARY = "UNKNOWN"
"""What stands for a literal <unk>; neither corpus has it as a word."""
LIMITS = {"perplexity": 0.001, "fit": 1.5, "ids": 2.0, "lines": 1.0, "arpa": 1e-4}
PARTS = ("quality", "fit", "score", "arpa")

MEASURE = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
said = done.stdout.decode() if done.returncode == 0 else done.stderr.decode()
print(json.dumps({"seconds": seconds, "peak": peak, "failed": done.returncode, "said": said[-2000:]}))
"""
FIT = """
import json, sys, time
from pathlib import Path
import numpy as np
from anaphora.models.ngram.model import NgramConfig, build_trie
from anaphora.models.ngram.counting import count
from anaphora.models.ngram.file import write_trie
from anaphora.models.ngram.smoothing import estimate, kept
from anaphora.text.word_ids import WordIds
began = time.perf_counter()
vocabulary = WordIds()
tokens = np.concatenate(list(vocabulary.read(Path(sys.argv[1]))))
read = time.perf_counter()
orders = count(tokens, vocabulary.words + 4, int(sys.argv[3]))
counted = time.perf_counter()
estimates = estimate(orders, "kneser-ney")
trie = build_trie(orders, estimates, kept(orders, []))
smoothed = time.perf_counter()
write_trie(Path(sys.argv[2]), trie)
end = time.perf_counter()
stages = {"reading": read - began, "counting": counted - read}
stages |= {"smoothing": smoothed - counted, "writing": end - smoothed}
print(json.dumps({"seconds": end - began, "stages": stages, "tokens": len(tokens), "ngrams": int(trie.limits[-1])}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--kenlm", type=Path, help="folder of lmplz and build_binary; otherwise they are built")
    parser.add_argument("--module", type=Path, help="folder of kenlm's Python module; otherwise it is built")
    parser.add_argument("--work", type=Path, default=Path("kenlm-work"), help="for texts, models and the build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", default="wiki-en", help="fit: the larger corpus, or nothing")
    parser.add_argument("--lmplz-memory", default="80%", help="what lmplz is given (-S; its own default); it takes it")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.kenlm, arguments.module = set_up(arguments)
    sys.path.insert(0, str(arguments.module))  # before this folder, in which `kenlm` is this very file
    parts: dict[str, Callable[[argparse.Namespace], Any]] = {
        "quality": quality,
        "fit": fit,
        "score": score,
        "arpa": arpa,
    }
    result: dict[str, Any] = {"kenlm": VERSION, "processor": platform.processor() or platform.machine()}
    result |= {"python": platform.python_version(), "cores": os.cpu_count(), "limits": LIMITS}
    for name in arguments.part:
        print(f"\n== {name}")
        result[name] = parts[name](arguments)
    print(json.dumps(result))


# -- KenLM and the corpora ---------------------------------------------------------------------------------------------


def set_up(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The folders of KenLM's programs and of its Python module, built from PyPI's source where they are not given."""
    if arguments.kenlm and arguments.module:
        return arguments.kenlm.resolve(), arguments.module.resolve()
    work = arguments.work.resolve()
    source, programs, module = work / f"kenlm-{VERSION}", work / "build" / "bin", work / "module"
    environment = work / "environment"
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    if not environment.exists():
        run([sys.executable, "-m", "venv", str(environment)])
        run([*pip, "install", "-q", "setuptools", "wheel"])
    plain = [f"kenlm=={VERSION}", "--no-deps", "--no-build-isolation", "--no-binary", "kenlm"]
    if not source.exists():
        run([*pip, "download", "-q", *plain, "-d", str(work)])
        with tarfile.open(work / f"kenlm-{VERSION}.tar.gz") as archive:
            archive.extractall(work, filter="data")
    if not arguments.kenlm and not (programs / "lmplz").exists():
        shutil.rmtree(work / "build", ignore_errors=True)
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_POLICY_VERSION_MINIMUM=3.5"]
        run(["cmake", "-S", str(source), "-B", str(work / "build"), *options])
        run(["cmake", "--build", str(work / "build"), "-j2", "--target", "lmplz", "build_binary"])
    if not arguments.module and not module.exists():
        run([*pip, "install", "-q", *plain, "--target", str(module)])
    return (arguments.kenlm or programs).resolve(), (arguments.module or module).resolve()


def run(command: Sequence[str], **more: Any) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout.decode(errors='replace')[-3000:]}")
    return done


def text_of(arguments: argparse.Namespace, corpus: str, name: str, *, blank: bool = True) -> Path:
    """A text as a plain file, `<unk>` renamed, with or without its blank lines."""
    path = arguments.work / f"{corpus}.{name}{'' if blank else '.no-blank'}.txt"
    if not path.exists():
        whole = lzma.decompress((arguments.data / corpus / f"{name}.txt.xz").read_bytes())
        lines = whole.replace(b"<unk>", ORDINARY.encode()).split(b"\n")
        lines = lines[:-1] if not lines[-1] else lines
        path.write_bytes(b"".join(line + b"\n" for line in lines if blank or line.strip()))
    return path


def lmplz(arguments: argparse.Namespace, text: Path, order: int, prune: Sequence[int] = ()) -> Path:
    """lmplz's model of a text, as an ARPA file."""
    path = arguments.work / f"{text.stem}.{order}{'.pruned' if prune else ''}.arpa"
    if not path.exists():
        run(lmplz_command(arguments, text, path, order, prune))
    return path


def lmplz_command(
    arguments: argparse.Namespace, text: Path, path: Path, order: int, prune: Sequence[int] = ()
) -> list[str]:
    pruning = ["--prune", *map(str, prune)] if prune else []
    files = ["--text", str(text), "--arpa", str(path), "-T", str(arguments.work / "lmplz")]
    return [str(arguments.kenlm / "lmplz"), "-o", str(order), "-S", arguments.lmplz_memory, *files, *pruning]


def kenlm_model(arguments: argparse.Namespace, arpa: Path) -> Any:
    """The model in its quickest form, probing."""
    binary = arpa.with_suffix(".probing")
    if not binary.exists():
        run([str(arguments.kenlm / "build_binary"), "probing", str(arpa), str(binary)])
    return importlib.import_module("kenlm").Model(str(binary))


def lines_of(text: Path) -> list[str]:
    return text.read_bytes().decode().split("\n")[:-1]  # at line feeds only: nothing else ends a line here


def ours(text: Path, order: int, prune: Sequence[int] = ()) -> tuple[NgramModel, WordIds]:
    vocabulary = WordIds()
    tokens = np.concatenate(list(vocabulary.read(text)))
    config = NgramConfig(order=order, prune=list(prune))
    return NgramModel.from_counts(config, count(tokens, vocabulary.words + len(SPECIALS), order))[0], vocabulary


def finished(vocabulary: WordIds) -> WordIds:
    """The same words, complete: what else comes is unknown."""
    return WordIds({word: id for id, word in enumerate(vocabulary.vocabulary(), start=UNK + 1)})


def sums(scores: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """log10 P of each line."""
    return np.add.reduceat(scores.astype(np.float64), starts[:-1]) / math.log(10)


# -- the parts ---------------------------------------------------------------------------------------------------------


def quality(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    print("corpus       order  pruned   blank   tokens   KenLM     ours      difference (limit 0.1 %)")
    rows = []
    for corpus, (train, test) in CORPORA.items():
        for blank in (True, False) if corpus == "wikitext-2" else (True,):
            text = text_of(arguments, corpus, train, blank=blank)
            asked = lines_of(text_of(arguments, corpus, test, blank=blank))
            for order, prune in [(2, []), (3, []), (4, []), (5, []), (3, [0, 0, 1]), (5, [0, 0, 1])]:
                theirs = kenlm_model(arguments, lmplz(arguments, text, order, prune))
                model, vocabulary = ours(text, order, prune)
                ids, starts = finished(vocabulary).ids_of_lines(asked)
                scores, _ = model.score_flat(ids, starts)
                each = [score for line in asked for score, _, _ in theirs.full_scores(line)]
                if len(each) != len(ids):
                    raise SystemExit(f"kenlm sees {len(each)} tokens, we see {len(ids)}")
                row = {
                    "corpus": corpus,
                    "order": order,
                    "prune": prune,
                    "blank_lines": blank,
                    "tokens": len(ids),
                    "kenlm": 10 ** -(math.fsum(each) / len(each)),
                    "ours": math.exp(-scores.astype(np.float64).mean()),
                    "sizes": model.sizes(),
                }
                row["difference"] = row["ours"] / row["kenlm"] - 1
                rows.append(row)
                print(
                    f"{corpus:12} {order:5}  {'0 0 1' if prune else 'no':6}   {'kept' if blank else 'out':5}  "
                    f"{len(ids):7,}  {row['kenlm']:8.4f}  {row['ours']:8.4f}  {row['difference']:+.5%}"
                    f"{'' if abs(row['difference']) < LIMITS['perplexity'] else '  TOO FAR'}"
                )
    return rows


def fit(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    texts = {"wikitext-2": text_of(arguments, "wikitext-2", "train")}
    if arguments.large:
        texts[arguments.large] = text_of(arguments, arguments.large, arguments.large)
    rows = []
    for corpus, text in texts.items():
        made = arguments.work / "fitted.safetensors"
        mine = [sys.executable, "-c", FIT, str(text), str(made), "5"]
        theirs = lmplz_command(arguments, text, arguments.work / "fitted.arpa", 5)
        measured(mine)  # numba's cache and the system's are warm
        rounds = []
        for number in range(arguments.rounds):
            both = {"ours": mine, "lmplz": theirs}
            done = {name: measured(both[name]) for name in (list(both) if number % 2 else list(both)[::-1])}
            inside = json.loads(done["ours"]["said"])
            rounds.append({
                "lmplz": done["lmplz"]["seconds"], "lmplz_peak": done["lmplz"]["peak"],
                "ours": inside["seconds"], "ours_process": done["ours"]["seconds"], "ours_peak": done["ours"]["peak"],
                "stages": inside["stages"], "tokens": inside["tokens"],
            })  # fmt: skip
            last = rounds[-1]
            print(
                f"{corpus}: lmplz {last['lmplz']:.2f} s, {last['lmplz_peak'] / 1e9:.2f} GB; ours {last['ours']:.2f} s "
                f"({last['ours_process']:.2f} with the start of Python), {last['ours_peak'] / 1e9:.2f} GB; "
                + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in last["stages"].items())
            )
        ratio = statistics.median(last["ours"] / last["lmplz"] for last in rounds)
        whole = statistics.median(last["ours_process"] / last["lmplz"] for last in rounds)
        print(f"{corpus}: {ratio:.2f} × lmplz's time (limit {LIMITS['fit']}); {whole:.2f} × with the start of Python")
        rows.append({"corpus": corpus, "ratio": ratio, "ratio_with_start": whole, "rounds": rounds})
    return rows


def measured(command: Sequence[str]) -> dict[str, Any]:
    """Seconds and most memory of a process, run by a small one: a child would count what we have ourselves."""
    done: dict[str, Any] = json.loads(subprocess.check_output([sys.executable, "-S", "-c", MEASURE, *command]))
    if done["failed"]:
        raise SystemExit(f"{command[0]} failed:\n{done['said']}")
    return done


def score(arguments: argparse.Namespace) -> dict[str, Any]:
    text = text_of(arguments, "wikitext-2", "train")
    asked = [line for name in ("valid", "test") for line in lines_of(text_of(arguments, "wikitext-2", name))]
    theirs = kenlm_model(arguments, lmplz(arguments, text, 5))
    model, vocabulary = ours(text, 5)
    known = finished(vocabulary)
    ids, starts = known.ids_of_lines(asked)

    def from_lines(threads: int) -> np.ndarray:
        found, begins = known.ids_of_lines(asked)
        return sums(model.score_flat(found, begins, threads=threads)[0], begins)

    ways: dict[str, Callable[[], Any]] = {
        "kenlm": lambda: [theirs.score(line) for line in asked],
        "ids, 2 threads": lambda: sums(model.score_flat(ids, starts, threads=2)[0], starts),
        "ids, 1 thread": lambda: sums(model.score_flat(ids, starts, threads=1)[0], starts),
        "lines, 2 threads": lambda: from_lines(2),
        "lines, 1 thread": lambda: from_lines(1),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    worked: dict[str, list[float]] = {name: [] for name in ways}  # seconds of processor time: others do not count
    for _ in range(5 * arguments.rounds + 1):
        for name, way in ways.items():
            began, work = time.perf_counter(), time.process_time()
            way()
            spent[name].append(time.perf_counter() - began)
            worked[name].append(time.process_time() - work)
    speeds = {name: len(ids) / statistics.median(seconds[1:]) for name, seconds in spent.items()}
    best = {name: len(ids) / min(seconds) for name, seconds in spent.items()}
    per_thread = {name: statistics.median(worked["kenlm"][1:]) / statistics.median(worked[name][1:]) for name in ways}
    ratios = {name: speed / speeds["kenlm"] for name, speed in speeds.items()}
    for name, speed in speeds.items():
        limit = {"ids, 2 threads": LIMITS["ids"], "lines, 2 threads": LIMITS["lines"]}.get(name)
        print(
            f"{name:17} {speed / 1e6:6.2f} M tokens/s  {ratios[name]:5.2f} × {f'(limit {limit})' if limit else '':11}  "
            f"best round {best[name] / 1e6:6.2f}, {best[name] / best['kenlm']:.2f} ×"
        )
    for name in ("ids, 1 thread", "lines, 1 thread"):
        print(f"per thread, by processor time, {name.split(',')[0]}: {per_thread[name]:.2f} ×")
    return {"tokens": len(ids), "speeds": speeds, "ratios": ratios, "best": best, "per_thread": per_thread}


def arpa(arguments: argparse.Namespace) -> dict[str, Any]:
    kenlm = importlib.import_module("kenlm")
    text = text_of(arguments, "wikitext-2", "train")
    asked = lines_of(text_of(arguments, "wikitext-2", "test"))
    model, vocabulary = ours(text, 5)
    names, renamed = arpa_words([*SPECIALS, *vocabulary.vocabulary()])
    if renamed:
        raise SystemExit(f"these words cannot stand in an ARPA file: {renamed}")
    result: dict[str, Any] = {"limit": LIMITS["arpa"]}

    def differences(theirs: Any, model: NgramModel, known: WordIds) -> float:
        ids, starts = known.ids_of_lines(asked)
        mine = sums(model.score_flat(ids, starts)[0], starts)
        each = [math.fsum(score for score, _, _ in theirs.full_scores(line)) for line in asked]
        return float(np.abs(mine - np.array(each)).max())

    write_arpa(arguments.work / "ours.arpa", model, names)  # compiled before it is timed
    for name in ("ours.arpa", "ours.arpa.gz"):
        path = arguments.work / name
        began = time.perf_counter()
        write_arpa(path, model, names)
        seconds = time.perf_counter() - began
        furthest = differences(kenlm.Model(str(path)), model, finished(vocabulary))
        print(
            f"{name}: {path.stat().st_size / 1e6:.0f} MB written in {seconds:.1f} s, "
            f"{sum(model.sizes()) / seconds / 1e6:.1f} M n-grams/s; kenlm's scores differ by at most {furthest:.1e}"
        )
        result[name] = {"seconds": seconds, "difference": furthest}
    path = lmplz(arguments, text, 5)
    read_arpa(lmplz(arguments, text, 2))
    began = time.perf_counter()
    found = read_arpa(path)
    seconds = time.perf_counter() - began
    known = WordIds({word: id for id, word in enumerate(found.words) if id > UNK})
    furthest = differences(kenlm_model(arguments, path), found.model, known)
    print(
        f"lmplz's: {path.stat().st_size / 1e6:.0f} MB read in {seconds:.1f} s, "
        f"{sum(found.model.sizes()) / seconds / 1e6:.1f} M n-grams/s; our scores of it differ by at most {furthest:.1e}"
    )
    result["lmplz.arpa"] = {"seconds": seconds, "difference": furthest, "sizes": found.model.sizes()}
    return result


if __name__ == "__main__":
    main()
