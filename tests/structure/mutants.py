"""Faults that the suite must catch: each is put into a copy of the package, and tests that should see it are run.

    python tests/structure/mutants.py [--source CHECKOUT] [--only WORD] [--jobs 2]

A fault is a line of the package, what it becomes, and the test files that should fail. Lines are found by their text,
wherever they stand, so the list outlives moves; a line that is no longer there must be listed anew. The last line
printed is JSON. It takes minutes: run it after tests were removed or rewritten.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Fault:
    """One line that is made wrong."""

    line: str
    """As it stands in the package: a part of one line that stands there once."""
    wrong: str
    """What it becomes."""
    tests: str
    """Names of test files that should see it, with blanks between."""
    file: str = ""
    """Where the line stands, should it stand in several files: the end of the path."""


FAULTS = (
    # decoding
    Fault(
        "pool = [s.finished, ends / bounds[step + 1] + coverage]",
        "pool = [s.finished, ends / bounds[step] + coverage]",
        "test_search.py",
    ),
    Fault(
        "reachable = live.amax(dim=1) / penalty_at_limit[s.limit]",
        "reachable = live.amin(dim=1) / penalty_at_limit[s.limit]",
        "test_search.py",
    ),
    Fault(
        "torch.tensor([PAD, BOS] if unknown else [PAD, BOS, UNK]",
        "torch.tensor([PAD] if unknown else [PAD, UNK]",
        "test_search.py test_sampling.py",
    ),
    Fault("context = history[:, said - (n - 1) :]", "context = history[:, said - n : said - 1]", "test_search.py"),
    Fault(
        "sample = torch.arange(samples, device=sentence_ids.device)",
        "sample = torch.zeros(samples, dtype=torch.long, device=sentence_ids.device)",
        "test_sampling.py test_search.py",
    ),
    Fault(
        "config = replace(config, min_length=min(config.min_length, limit - 1))",
        "config = replace(config, min_length=0)",
        "test_speculative.py",
    ),
    # data
    Fault(
        "skew = (lengths[:, 0] - lengths[:, -1]) * (1.0 - 2.0 * backwards)",
        "skew = (lengths[:, 0] - lengths[:, -1]) * 0.0",
        "test_batches.py",
    ),
    Fault(
        "random = np.random.Generator(np.random.PCG64([self.seed, epoch]))",
        "random = np.random.Generator(np.random.PCG64([self.seed]))",
        "test_batches.py",
        file="/batches.py",
    ),
    Fault("return np.where(following == BOS, PAD, following)", "return following", "test_language_batches.py"),
    Fault("if now != then:", "if False:", "test_checksums.py", file="/checksums.py"),
    # files, folders, settings
    Fault(
        "return digest(header.replace(found[0], UNSEALED.encode(), 1), stream) == named",
        "return True",
        "test_weights.py test_checkpoint.py test_damaged_runs.py",
    ),
    Fault("if version > FORMAT:", "if version > FORMAT + 9:", "test_folder.py test_stored_models.py"),
    Fault('if isinstance(value, bool) and {"on", "off"} <= set(allowed):', "if False:", "test_config.py"),
    # tokenizers
    Fault("if drawn < dropout:", "if drawn >= dropout:", "test_subword_dropout.py"),
    # parts
    Fault(
        "return lambda b, h, q, k: (k - q - ahead).abs() < size",
        "return lambda b, h, q, k: (k - q - ahead).abs() <= size",
        "test_masks.py test_attention.py",
    ),
    Fault(
        "return float(size**-0.5)",
        "return float(size**-0.4)",
        "test_scores.py test_attention.py test_backends.py",
        file="/scores.py",
    ),
    Fault(
        "turned = torch.stack([one * cos - other * sin, one * sin + other * cos], dim=-1)",
        "turned = torch.stack([one * cos + other * sin, one * sin - other * cos], dim=-1)",
        "test_positions.py",
    ),
    Fault("return -self.slopes[head] * distance.abs()", "return -self.slopes[head] * distance", "test_positions.py"),
    Fault(
        'sums = past["total"][:, None] + cleared(x, lengths).cumsum(dim=1)',
        'sums = past["total"][:, None] + x.cumsum(dim=1)',
        "test_encoder_steps.py test_encoders.py",
    ),
    Fault(
        "return (layer + 1) % self.every == 0",
        "return layer % self.every == 0",
        "test_mixture_of_experts.py test_transformer_blocks.py",
    ),
    Fault(
        "divergence = ((p.exp() - q.exp()) * (p - q)).sum(dim=-1)",
        "divergence = (p.exp() * (p - q)).sum(dim=-1)",
        "test_cross_entropy.py",
    ),
    # models
    Fault("y = t[1] / (t[1] + 2 * t[2])", "y = t[1] / (t[1] + t[2])", "test_ngram_smoothing.py", file="/smoothing.py"),
    Fault(
        "return (counts + added * able) / (counts.sum() + added * able.sum())",
        "return (counts + added * able) / counts.sum()",
        "test_ngram_smoothing.py test_ngram_model.py",
    ),
    Fault(
        "used = 1.0 / (torch.arange(model.vocabulary, device=table.device) + FREQUENT)",
        "used = 1.0 + 0.0 * torch.arange(model.vocabulary, device=table.device)",
        "test_topic.py",
    ),
    Fault(
        "rates = [rate + (training.final_rate - rate) * share for share in passed]",
        "rates = [rate for share in passed]",
        "test_word2vec_training.py",
    ),
    Fault(
        "return weighted_mean(asked, [weight for weight in self.weights if weight > 0]).astype(np.float32)",
        "return weighted_mean(asked, [0.5 for weight in self.weights if weight > 0]).astype(np.float32)",
        "test_mixture.py",
    ),
    # training
    Fault(
        "self.towards(1 - min(self.decay, (1 + step) / (10 + step)))",
        "self.towards(1 - self.decay)",
        "test_averaging.py",
    ),
    Fault(
        "by_step = 0.0 if total is None else (step - warmup) / max(1, total - warmup)",
        "by_step = 0.0 if total is None else step / max(1, total)",
        "test_optimizer.py test_optimiser.py",
    ),
    Fault(
        '{"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}',
        '{"params": [p for p in parameters if p.ndim < 2], "weight_decay": config.weight_decay}',
        "test_optimizer.py test_optimiser.py",
    ),
    Fault(
        "stay = {*self.scheduled()[-self.keep :], self.path(progress.step)}",
        "stay = {*self.scheduled()[-self.keep - 1 :], self.path(progress.step)}",
        "test_checkpoint.py",
    ),
    # alignment, evaluation
    Fault(
        "aer=1 - (in_sure + in_possible) / (links + sure) if links + sure else 0.0",
        "aer=1 - 2 * in_sure / (links + sure) if links + sure else 0.0",
        "test_alignment_error.py",
    ),
    Fault(
        "return -log_probability / math.log(2) / size if size else math.nan",
        "return -log_probability / size if size else math.nan",
        "test_language.py",
    ),
    Fault(
        "lengths = np.maximum(np.diff(starts)[None] - np.arange(order)[:, None], 0)",
        "lengths = np.maximum(np.diff(starts)[None] - np.arange(order)[:, None], 1)",
        "test_expected_utility.py",
    ),
    # looking inside, checking, comparing, the pocket language
    Fault(
        'return {**spent, "max_minutes": self.amount}',
        'return {**spent, "max_minutes": 2 * self.amount}',
        "test_budget.py test_comparison.py",
    ),
    Fault(
        'rest = f" and {english_cardinal(n % 100)}" if n % 100 else ""',
        'rest = f" {english_cardinal(n % 100)}" if n % 100 else ""',
        "test_pocket.py",
    ),
    # more of the rooms above
    Fault("mean = -log_probability / tokens", "mean = -log_probability / (tokens + 1)", "test_language.py"),
    Fault(
        "precision=in_possible / links if links else 1.0",
        "precision=in_sure / links if links else 1.0",
        "test_alignment_error.py",
    ),
    Fault(
        "NULL if source is None else self.source_words.get(source, UNKNOWN)",
        "UNKNOWN if source is None else self.source_words.get(source, UNKNOWN)",
        "test_ibm1.py",
    ),
    Fault(
        "return sum(both) / 2 + consistency / 4 *", "return sum(both) / 2 + consistency / 2 *", "test_cross_entropy.py"
    ),
    Fault("(sure if found[2] == ", "(possible if found[2] == ", "test_alignment_error.py"),
    Fault("links = rows & columns", "links = rows | columns", "test_alignment.py"),
)


def found(source: Path, fault: Fault) -> Path:
    """The one file of a package that has the line."""
    hits = [
        file
        for file in sorted(source.rglob("*.py"))
        if file.as_posix().endswith(fault.file) and file.read_text(encoding="utf-8").count(fault.line) == 1
    ]
    if len(hits) != 1:
        raise SystemExit(f"{len(hits)} files have the line {fault.line!r}: list the fault anew")
    return hits[0]


def caught(checkout: Path, fault: Fault) -> tuple[bool, float]:
    """Whether a test fails in a copy of the checkout that has the fault; and after how many seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "src")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout / "src", copy, ignore=ignored)
        (Path(scratch) / "recipes").symlink_to(checkout / "recipes")
        file = found(copy, fault)
        file.write_text(file.read_text(encoding="utf-8").replace(fault.line, fault.wrong), encoding="utf-8")
        tests = [str(path) for name in fault.tests.split() for path in sorted((checkout / "tests").rglob(name))]
        if not tests:
            raise SystemExit(f"no test file is called {fault.tests}: list the fault anew")
        environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow and not gpu", "-p", "no:cacheprovider"]
        began = time.monotonic()
        ended = subprocess.run([*command, *tests], cwd=checkout, env=environment, capture_output=True, text=True)
        if ended.returncode not in (0, 1):
            raise SystemExit(f"{fault.line!r}: pytest ended with {ended.returncode}\n{ended.stdout[-2000:]}")
        return ended.returncode == 1, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=ROOT, help="another checkout, an older one perhaps")
    parser.add_argument("--only", default="", help="faults whose line or tests have this in them")
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tried at the same time")
    asked = parser.parse_args()
    faults = [fault for fault in FAULTS if asked.only in f"{fault.line} {fault.tests}"]
    for fault in faults:  # before minutes are spent
        found(asked.source / "src", fault)
    with ThreadPoolExecutor(asked.jobs) as jobs:
        results = list(jobs.map(lambda fault: _told(asked.source, fault), faults))
    missed = [fault.line for fault, ok in zip(faults, results) if not ok]
    print(json.dumps({"faults": len(faults), "caught": len(faults) - len(missed), "missed": missed}))
    raise SystemExit(bool(missed))


def _told(checkout: Path, fault: Fault) -> bool:
    ok, seconds = caught(checkout, fault)
    print(f"{'caught' if ok else 'MISSED'}  {seconds:5.1f} s  {fault.wrong}", flush=True)
    return ok


if __name__ == "__main__":
    main()
