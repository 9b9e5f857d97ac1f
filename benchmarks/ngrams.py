"""Counting beside KenLM, in the same run: perplexity, time and memory of fitting, speed of scoring, ARPA both ways.

    python benchmarks/ngrams.py --data DATA [--part quality fit score arpa memory] [--corpus NAME …] [--work DIR]

DATA holds ptb/, wikitext-2/ and wiki-en/. KenLM is built from its source package on PyPI into --work (cmake, boost and
a compiler are needed; some minutes, once); --kenlm names a folder that has lmplz and build_binary already, --module one
that has its Python module. Literal `<unk>` of the corpora, which lmplz refuses, is renamed for both, so that it is an
ordinary word; `</s>` is counted. The last line is JSON.

quality  perplexity of the test sets, orders 2 to 5, blank lines kept and left out, with pruning (0 0 1); limit 0.1 %
fit      from a file of text to a model, order 5: the command `anaphora train` as a user types it, a process like lmplz,
         with its start; beside it the bare `fit` of the library; limit 1.5 × lmplz
score    tokens a second of the held-out sets: `score(line)` of kenlm's module, probing; ours from ids (limit 2 ×, two
         threads) and from lines (limit 1 ×); the median of the rounds is what counts
arpa     our file read by kenlm and lmplz's file read by us give the same sum over each sentence; limit 1e-4
memory   `anaphora train` again within a quarter of the memory that it took: peak, slowdown, the same bytes
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
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
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import anaphora
from anaphora.pipelines.text_model import TextModel

VERSION = "0.3.0"
CORPORA = {
    "ptb": ("ptb.train", ("ptb.valid", "ptb.test")),
    "wikitext-2": ("train", ("valid", "test")),
    "wiki-en": ("wiki-en", ()),
}
"""Training text and held-out texts of each; the last is the test set."""
ORDINARY = "UNKNOWN"
"""What stands for a literal <unk>; neither corpus has it as a word."""
LIMITS = {"perplexity": 0.001, "fit": 1.5, "ids": 2.0, "lines": 1.0, "arpa": 1e-4, "memory": 0.25}
PARTS = {
    "quality": ["ptb", "wikitext-2"],
    "fit": ["wikitext-2", "wiki-en"],
    "score": ["wikitext-2"],
    "arpa": ["wikitext-2"],
    "memory": ["wiki-en"],
}
"""What can be measured, and on which corpora unless others are named."""
MODEL = "model.safetensors"

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
from anaphora.models.ngram.counting import fit
from anaphora.models.ngram.ngram_model import NgramConfig
from anaphora.data.word_ids import WordIds
text, made, order = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
began = time.perf_counter()
vocabulary, ids = WordIds(), made.with_suffix(".ids")
with ids.open("wb") as out:
    tokens = sum(out.write(block.data) // 4 for block in vocabulary.read(text))
read = time.perf_counter()
fitted = fit(ids, vocabulary.words + 4, NgramConfig(order=order), made, work=made.with_suffix(".work"))
end = time.perf_counter()
stages = {"text to ids": read - began, "fit": end - read}
print(json.dumps({"seconds": end - began, "stages": stages, "tokens": tokens, "ngrams": sum(fitted.sizes)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--corpus", nargs="+", choices=CORPORA, help="these corpora in every part")
    parser.add_argument("--order", type=int, default=5, help="fit, score, arpa and memory: the model's order")
    parser.add_argument("--kenlm", type=Path, help="folder of lmplz and build_binary; otherwise they are built")
    parser.add_argument("--module", type=Path, help="folder of kenlm's Python module; otherwise it is built")
    parser.add_argument("--work", type=Path, default=Path("kenlm-work"), help="for texts, models and the build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lmplz-memory", default="80%", help="what lmplz is given (-S; its own default); it takes it")
    parser.add_argument("--limit", type=float, help="memory: MB, instead of a quarter of what it takes without limit")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if set(arguments.part) - {"memory"}:
        arguments.kenlm, arguments.module = set_up(arguments)
        sys.path.insert(0, str(arguments.module))
    parts: dict[str, Callable[[argparse.Namespace, list[str]], Any]] = {
        "quality": quality,
        "fit": fit,
        "score": score,
        "arpa": arpa,
        "memory": memory,
    }
    result: dict[str, Any] = {"command": " ".join(sys.argv), "commit": commit(), "kenlm": VERSION, "limits": LIMITS}
    result |= {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    for name in arguments.part:
        print(f"\n== {name}", flush=True)
        result[name] = parts[name](arguments, arguments.corpus or PARTS[name])
    print(json.dumps(result))
    sys.exit(1 if MISSED else 0)


MISSED: list[str] = []


def verdict(met: bool, otherwise: str) -> str:
    """What to print behind a figure that misses its limit; the exit code then says so too."""
    if not met:
        MISSED.append(otherwise)
    return "" if met else f"  {otherwise}"


@cache
def state_of_the_code() -> str:
    """Eight letters that change with the program: a model made by another one is not measured again."""
    digest = hashlib.sha256()
    for file in sorted(Path(anaphora.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


def commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, cwd=Path(__file__).parent, check=False
    )
    return found.stdout.decode().strip()


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


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
        half = path.with_suffix(".unfinished")
        run(lmplz_command(arguments, text, half, order, prune))
        half.rename(path)
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
        half = arpa.with_suffix(".unfinished")
        run([str(arguments.kenlm / "build_binary"), "probing", str(arpa), str(half)])
        half.rename(binary)
    return importlib.import_module("kenlm").Model(str(binary))


def lines_of(text: Path) -> list[str]:
    return text.read_bytes().decode().split("\n")[:-1]  # at line feeds only: nothing else ends a line here


def train_command(text: Path, run: Path, order: int, *settings: str) -> list[str]:
    """What a user types."""
    command = [sys.executable, "-m", "anaphora", "train", str(run), "--text", str(text), "--recipe", "ngram"]
    return [*command, f"model.order={order}", *settings, "--quiet"]


def trained(arguments: argparse.Namespace, text: Path, order: int, *settings: str) -> TextModel:
    """Our model of a text, made by the command once for each state of the code, and kept."""
    name = "-".join([text.stem, str(order), *(setting.replace("=", "_") for setting in settings), state_of_the_code()])
    folder: Path = arguments.work / "ours" / name
    if not (folder / MODEL).exists():
        folder.parent.mkdir(exist_ok=True)
        run(train_command(text, folder, order, *settings))
    loaded = anaphora.load(folder)
    assert isinstance(loaded, TextModel)
    return loaded


# -- the parts ---------------------------------------------------------------------------------------------------------


def quality(arguments: argparse.Namespace, corpora: list[str]) -> list[dict[str, Any]]:
    limit = f"{LIMITS['perplexity']:.1%}"
    print(f"corpus       order  pruned   blank   tokens   KenLM     ours      difference (limit {limit})")
    rows = []
    for corpus in corpora:
        train, held_out = CORPORA[corpus]
        for blank in (True, False) if corpus == "wikitext-2" else (True,):
            text = text_of(arguments, corpus, train)
            stripped = text_of(arguments, corpus, train, blank=blank)  # lmplz always counts blank lines
            asked = lines_of(text_of(arguments, corpus, held_out[-1], blank=blank))
            for order, prune in [(2, []), (3, []), (4, []), (5, []), (3, [0, 0, 1]), (5, [0, 0, 1])]:
                theirs = kenlm_model(arguments, lmplz(arguments, stripped, order, prune))
                settings = [f"model.prune={prune}".replace(" ", "")] if prune else []
                settings += [] if blank else ["data.blank_lines=drop"]
                loaded = trained(arguments, text, order, *settings)
                found = loaded.evaluate(lines_of(text_of(arguments, corpus, held_out[-1])))
                each = [score for line in asked for score, _, _ in theirs.full_scores(line)]
                if len(each) != found.tokens:
                    raise SystemExit(f"kenlm sees {len(each)} tokens, we see {found.tokens}")
                row = {
                    "corpus": corpus,
                    "order": order,
                    "prune": prune,
                    "blank_lines": blank,
                    "tokens": found.tokens,
                    "unknown_tokens": found.unknown_tokens,
                    "kenlm": 10 ** -(math.fsum(each) / len(each)),
                    "ours": found.perplexity,
                }
                row["difference"] = row["ours"] / row["kenlm"] - 1
                rows.append(row)
                print(
                    f"{corpus:12} {order:5}  {'0 0 1' if prune else 'no':6}   {'kept' if blank else 'out':5}  "
                    f"{found.tokens:7,}  {row['kenlm']:8.4f}  {row['ours']:8.4f}  {row['difference']:+.5%}"
                    f"{verdict(abs(row['difference']) < LIMITS['perplexity'], 'TOO FAR')}",
                    flush=True,
                )
    return rows


def fit(arguments: argparse.Namespace, corpora: list[str]) -> list[dict[str, Any]]:
    rows = []
    for corpus in corpora:
        text = text_of(arguments, corpus, CORPORA[corpus][0])
        made, folder = arguments.work / f"fitted{Path(MODEL).suffix}", arguments.work / "fitted"
        commands = {
            "train": train_command(text, folder, arguments.order),
            "fit": [sys.executable, "-c", FIT, str(text), str(made), str(arguments.order)],
            "lmplz": lmplz_command(arguments, text, arguments.work / "fitted.arpa", arguments.order),
        }
        print(f"$ {' '.join(commands['train'][1:])}")
        rounds = []
        for number in range(arguments.rounds + 1):  # the first one warms numba's cache and the system's
            done = {}
            for name in list(commands) if number % 2 else list(commands)[::-1]:
                shutil.rmtree(folder, ignore_errors=True)
                done[name] = measured(commands[name])
            if number == 0:
                continue
            inside = json.loads(done["fit"]["said"])
            last = {name: {"seconds": found["seconds"], "peak": found["peak"]} for name, found in done.items()}
            rounds.append({**last, "inside": inside})
            stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in inside["stages"].items())
            print(
                f"{corpus}: lmplz {_cost(last['lmplz'])}; anaphora train {_cost(last['train'])}; "
                f"bare fit {inside['seconds']:.2f} s ({stages}; {_cost(last['fit'])} with the start of Python)",
                flush=True,
            )
        ratios = {
            "train": statistics.median(r["train"]["seconds"] / r["lmplz"]["seconds"] for r in rounds),
            "fit": statistics.median(r["inside"]["seconds"] / r["lmplz"]["seconds"] for r in rounds),
            "memory": statistics.median(r["train"]["peak"] / r["lmplz"]["peak"] for r in rounds),
        }
        print(
            f"{corpus}: {ratios['train']:.2f} × lmplz's time (limit {LIMITS['fit']}), the bare fit "
            f"{ratios['fit']:.2f} ×; {ratios['memory']:.2f} × its memory"
            f"{verdict(ratios['train'] <= LIMITS['fit'], 'TOO SLOW')}"
        )
        rows.append({"corpus": corpus, "ratios": ratios, "rounds": rounds})
    return rows


def _cost(found: dict[str, Any]) -> str:
    return f"{found['seconds']:.2f} s, {found['peak'] / 1e9:.2f} GB"


def measured(command: Sequence[str]) -> dict[str, Any]:
    """Seconds and most memory of a process, run by a small one: a child would count what we have ourselves."""
    done: dict[str, Any] = json.loads(subprocess.check_output([sys.executable, "-S", "-c", MEASURE, *command]))
    if done["failed"]:
        raise SystemExit(f"{command[0]} failed:\n{done['said']}")
    return done


def score(arguments: argparse.Namespace, corpora: list[str]) -> list[dict[str, Any]]:
    from anaphora.decoding.text_scoring import sums

    rows = []
    for corpus in corpora:
        train, held_out = CORPORA[corpus]
        text = text_of(arguments, corpus, train)
        asked = [line for name in held_out for line in lines_of(text_of(arguments, corpus, name))]
        theirs = kenlm_model(arguments, lmplz(arguments, text, arguments.order))
        loaded = trained(arguments, text, arguments.order)
        model: Any = loaded.model
        ids, starts = loaded.line_ids(asked)

        def one_thread(lines: list[str], loaded: TextModel = loaded, model: Any = model) -> np.ndarray:
            found, begins = loaded.line_ids(lines)
            return sums(model.score_flat(found, begins, threads=1), begins)

        ways: dict[str, Callable[[], Any]] = {
            "kenlm": lambda asked=asked, theirs=theirs: [theirs.score(line) for line in asked],
            "ids, 2 threads": lambda ids=ids, starts=starts, loaded=loaded: loaded.score_ids(ids, starts),
            "ids, 1 thread": lambda ids=ids, starts=starts, model=model: sums(
                model.score_flat(ids, starts, threads=1), starts
            ),
            "lines, 2 threads": lambda asked=asked, loaded=loaded: loaded.log_probabilities(asked),
            "lines, 1 thread": lambda asked=asked, one_thread=one_thread: one_thread(asked),
        }
        rows.append({"corpus": corpus, "lines": len(asked), **_raced(ways, len(ids), arguments.rounds)})
    return rows


def _raced(ways: dict[str, Callable[[], Any]], tokens: int, rounds: int) -> dict[str, Any]:
    """Each way in turn, many times; the median is what counts."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    worked: dict[str, list[float]] = {name: [] for name in ways}  # seconds of processor time: others do not count
    for _ in range(5 * rounds + 1):
        for name, way in ways.items():
            began, work = time.perf_counter(), time.process_time()
            way()
            spent[name].append(time.perf_counter() - began)
            worked[name].append(time.process_time() - work)
    speeds = {name: tokens / statistics.median(seconds[1:]) for name, seconds in spent.items()}
    best = {name: tokens / min(seconds[1:]) for name, seconds in spent.items()}
    per_thread = {name: statistics.median(worked["kenlm"][1:]) / statistics.median(worked[name][1:]) for name in ways}
    ratios = {name: speed / speeds["kenlm"] for name, speed in speeds.items()}
    limits = {"ids, 2 threads": LIMITS["ids"], "lines, 2 threads": LIMITS["lines"]}
    for name, speed in speeds.items():
        limit = limits.get(name)
        print(
            f"{name:17} {speed / 1e6:6.2f} M tokens/s  {ratios[name]:5.2f} × {f'(limit {limit})' if limit else '':11}  "
            f"best round {best[name] / 1e6:6.2f}, {best[name] / best['kenlm']:.2f} ×"
            f"{verdict(not limit or ratios[name] >= limit, 'TOO SLOW')}"
        )
    for name in ("ids, 1 thread", "lines, 1 thread"):
        print(f"per thread, by processor time, {name.split(',')[0]}: {per_thread[name]:.2f} ×")
    return {"tokens": tokens, "speeds": speeds, "ratios": ratios, "best": best, "per_thread": per_thread}


def arpa(arguments: argparse.Namespace, corpora: list[str]) -> list[dict[str, Any]]:
    kenlm = importlib.import_module("kenlm")
    rows = []
    for corpus in corpora:
        train, held_out = CORPORA[corpus]
        text = text_of(arguments, corpus, train)
        asked = lines_of(text_of(arguments, corpus, held_out[-1]))
        loaded = trained(arguments, text, arguments.order)
        result: dict[str, Any] = {"corpus": corpus, "limit": LIMITS["arpa"], "lines": len(asked)}

        def furthest(theirs: Any, ours: TextModel, asked: list[str] = asked) -> float:
            each = [math.fsum(score for score, _, _ in theirs.full_scores(line)) for line in asked]
            return float(np.abs(ours.log_probabilities(asked) / math.log(10) - np.array(each)).max())

        anaphora.convert(loaded.folder, arguments.work / "ours.arpa", force=True)  # compiled before it is timed
        for name in ("ours.arpa", "ours.arpa.gz"):
            path = arguments.work / name
            began = time.perf_counter()
            made = anaphora.convert(loaded.folder, path, force=True)
            seconds = time.perf_counter() - began
            if made.renamed:
                raise SystemExit(f"these words cannot stand in an ARPA file: {made.renamed}")
            apart = furthest(kenlm.Model(str(path)), loaded)
            print(
                f"{name}: {path.stat().st_size / 1e6:.0f} MB written in {seconds:.1f} s, "
                f"{sum(made.sizes) / seconds / 1e6:.1f} M n-grams/s; kenlm's scores differ by at most {apart:.1e} "
                f"(limit {LIMITS['arpa']:.0e}){verdict(apart < LIMITS['arpa'], 'TOO FAR')}"
            )
            result[name] = {"seconds": seconds, "difference": apart}
        path = lmplz(arguments, text, arguments.order)
        anaphora.load(lmplz(arguments, text, 2))
        began = time.perf_counter()
        found = anaphora.load(path)
        seconds = time.perf_counter() - began
        assert isinstance(found, TextModel)
        apart = furthest(kenlm_model(arguments, path), found)
        sizes = found.info()["ngrams"]
        print(
            f"lmplz's: {path.stat().st_size / 1e6:.0f} MB read in {seconds:.1f} s, "
            f"{sum(sizes) / seconds / 1e6:.1f} M n-grams/s; our scores of it differ by at most {apart:.1e} "
            f"(limit {LIMITS['arpa']:.0e}){verdict(apart < LIMITS['arpa'], 'TOO FAR')}"
        )
        result["lmplz.arpa"] = {"seconds": seconds, "difference": apart, "sizes": sizes}
        rows.append(result)
    return rows


def memory(arguments: argparse.Namespace, corpora: list[str]) -> list[dict[str, Any]]:
    """The whole process is meant: Python, its libraries, and, where numba has to compile, a process that does so."""
    rows = []
    for corpus in corpora:
        text = text_of(arguments, corpus, CORPORA[corpus][0])
        free, bound = arguments.work / "unlimited", arguments.work / "limited"
        for folder in (free, bound):
            shutil.rmtree(folder, ignore_errors=True)
        measured(train_command(text, free, arguments.order))  # numba's cache is warm
        shutil.rmtree(free)
        without = measured(train_command(text, free, arguments.order))
        limit = int(1e6 * arguments.limit if arguments.limit else LIMITS["memory"] * without["peak"])
        command = train_command(text, bound, arguments.order, f"training.max_memory={limit // 10**6}MB")
        print(f"$ {' '.join(command[1:])}", flush=True)
        within = measured(command)
        equal = filecmp.cmp(free / MODEL, bound / MODEL, shallow=False)
        row = {
            "corpus": corpus,
            "limit": limit // 10**6 * 10**6,
            "without": {"seconds": without["seconds"], "peak": without["peak"]},
            "within": {"seconds": within["seconds"], "peak": within["peak"]},
            "slowdown": within["seconds"] / without["seconds"],
            "equal": equal,
            "bytes": (free / MODEL).stat().st_size,
        }
        rows.append(row)
        print(
            f"{corpus}: without limit {_cost(without)}; limit {row['limit'] / 1e6:.0f} MB: peak "
            f"{within['peak'] / 1e6:.0f} MB, {within['seconds']:.2f} s, {row['slowdown']:.2f} × as long; the model of "
            f"{row['bytes'] / 1e6:.0f} MB is {'the same, byte for byte' if equal else 'ANOTHER ONE'}"
            f"{verdict(within['peak'] <= row['limit'], 'ABOVE THE LIMIT')}"
        )
    return rows


if __name__ == "__main__":
    main()
