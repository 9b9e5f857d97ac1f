"""What training on this corpus would be like on this machine: model size, updates, time, memory, by trying it.

A sample of the text is prepared as `train` would prepare all of it, the model that the corpus's size calls for is
built, the largest batch is tried, and a few real updates are made with the run's own trainer and timed. All of that
happens in a process of its own, so that its peak memory is that of a training run and nothing else, and so that running
out of it is a message, not the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.config import merge
from anaphora.data.preparation import HOLD_OUT_LIMIT
from anaphora.errors import UserError, first_line, option
from anaphora.models import TRANSLATORS
from anaphora.tasks.recipes import Document, RunConfig, complete
from anaphora.tokenizers.tokenizer import vocabulary_for
from anaphora.training.training_settings import TrainingConfig

if TYPE_CHECKING:
    from anaphora.checking.check import Part

SAMPLE = 20_000  # pairs, or lines, at most
MOST_BYTES = 8_000_000  # of a sample of lines
SECONDS = 8.0  # of updates
MOST = 400  # updates
PATIENCE = 4  # times as long, where the first update alone took all of the time
ENDLESS = 1_000_000_000
LONG = 2 * 3600.0  # seconds; whoever must wait longer is told what is quicker


@dataclass
class Proposal:
    """What `anaphora train` would do here. Memory is the process's (CPU) or what torch holds on the device (GPU)."""

    recipe: str
    dim: int
    layers: int
    decoder_layers: int
    parameters: int
    vocabulary: list[int]
    batch_tokens: int
    accumulate: int
    consistency: float
    steps: int | None
    seconds_per_update: float
    total_seconds: float | None
    """Of all updates; validation, checkpoints and preparation come on top."""
    tokens_per_second: float
    peak_memory: int
    device: str
    updates_timed: int
    notes: list[str]


def propose(
    recipe: str,
    own: Document,
    pairs: int,
    sample: tuple[Sequence[str], Sequence[str]],
    *,
    text_bytes: int,
    device: str = "auto",
    seconds: float | None = None,
) -> Proposal:
    """Try it with a sample of a corpus of that many pairs and bytes; raises UserError if it would not even begin."""
    complete(recipe, own, pairs=pairs)  # a mistake in the settings is said here, not by a child
    request = {"recipe": recipe, "own": own, "pairs": pairs, "text_bytes": text_bytes, "device": device}
    return Proposal(**in_a_child(dict(zip(("source", "target"), sample)), {**request, "seconds": seconds}))


def in_a_child(sample: Mapping[str, Sequence[str]], request: dict[str, Any]) -> dict[str, Any]:
    """Try it in a process of its own, with a sample of the text of each side; what it found."""
    request = {**request, "seconds": request.get("seconds") or SECONDS, "sides": list(sample)}
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        folder = Path(name)
        for side, lines in sample.items():
            (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="replace")
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        # -P: not the user's own random.py
        command = [sys.executable, "-P", "-m", "anaphora.tasks.proposal", str(folder)]
        child = subprocess.run(command, capture_output=True, text=True)
        try:
            answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            said = child.stderr.strip().splitlines()
            why = said[-1] if said else f"it ended with code {child.returncode}, perhaps for want of memory"
            raise UserError(f"the trial of training did not end well ({why})", cure="take a smaller recipe") from None
    if "error" in answer:
        raise UserError(answer["error"])
    return answer


def propose_for(part: Part, recipe: str, own: Document, *, held_out: bool, device: str = "auto") -> Proposal:
    """`propose` for checked training text: without the pairs that training leaves out, and those it holds out."""
    left_out = set().union(*(part.wrong.get(problem, ()) for problem in ("empty", "long", "huge")))
    pairs = max(1, len(part) - len(left_out))
    if held_out:
        chosen = own.get("data", {}).get("hold_out")
        pairs -= min(HOLD_OUT_LIMIT, pairs // 20) if chosen is None else int(chosen)
    step = max(1, len(part) // SAMPLE)
    numbers = [n for n in range(0, len(part), step) if n not in left_out][:SAMPLE]
    sample = [[side.lines[n] for n in numbers] for side in part.sides]
    read = sum(len(line.encode("utf-8", "replace")) for lines in sample for line in lines)
    text_bytes = int(read / max(len(numbers), 1) * pairs)
    return propose(recipe, own, max(pairs, 1), (sample[0], sample[1]), text_bytes=text_bytes, device=device)


def on_trial(training: TrainingConfig, *, on_cpu: bool) -> TrainingConfig:
    """The settings of a run that goes on until a stopwatch ends it."""
    return dataclasses.replace(
        training,
        compile="off",  # compiling takes longer than the trial
        max_steps=ENDLESS,
        epochs=None,
        max_tokens=None,
        max_minutes=None,
        checkpoint_every=ENDLESS,
        log_every=1 if on_cpu else 10,  # looking makes a GPU wait
    )


def attempt(folder: Path, request: dict[str, Any]) -> Proposal:
    """In the child: prepare, build, probe, update, measure."""
    import torch

    from anaphora.data.preparation import prepare
    from anaphora.device import choose_device, describe_device, peak_resident
    from anaphora.tasks.translation_run import Run
    from anaphora.tasks.translation_settling import longest
    from anaphora.training.loop import COMPILE_PAYS_FROM, planned_steps

    device = choose_device(request["device"])
    pairs = request["pairs"]
    files = {side: [str(folder / side)] for side in ("source", "target")}
    config = complete(request["recipe"], merge(request["own"], {"data": files}), pairs=pairs)
    trial = on_trial(config.training, on_cpu=device.type == "cpu")
    tokenizer = config.tokenizer
    if tokenizer.vocabulary is None and tokenizer.kind in ("bpe", "unigram"):
        tokenizer = dataclasses.replace(tokenizer, vocabulary=vocabulary_for(pairs))
    prepared = prepare(
        folder / "data", files, tokenizer=tokenizer, hold_out=0, max_length=longest(config), seed=config.data.seed
    )
    watch = stopwatch(folder, request["seconds"])
    run = Run(folder / "run", dataclasses.replace(config, training=trial), prepared, watch, device)
    trainer = run.trainer()
    with contextlib.suppress(Enough):
        trainer.fit()
    seconds, tokens, updates = watch.pace()
    # batches differ in size: what one update costs is what a token costs, times the tokens of a usual update
    an_epoch = int(prepared.train.lengths[:, 1].sum()) + len(prepared.train)
    one_way = config.training.bidirectional_epochs  # the first epoch that reads every pair once
    usual = config.training.accumulate * an_epoch / trainer.batches.count(one_way)
    update_seconds = seconds / tokens * usual
    share = len(prepared.train) / pairs
    batches = trainer.batches.count(one_way) / share
    steps = planned_steps(config.training, batches_an_epoch=batches, tokens_an_epoch=an_epoch / share)
    notes = []
    if device.type == "cuda":
        peak = torch.cuda.max_memory_reserved(device)
        if config.training.compile == "on" or (config.training.compile == "auto" and (steps or 0) >= COMPILE_PAYS_FROM):
            notes.append("the run will be compiled, which was not tried here: updates will be faster")
    else:
        # the prepared corpus is mapped: its pages count as the process's memory once they were read
        ids = 4 * int(prepared.train.lengths.sum()) / share
        peak = peak_resident() + int((request["text_bytes"] + ids) * (1 - share))
    if config.training.patience:
        notes.append("training ends earlier if validation stops getting better")
    notes += slow_notes(config, steps, update_seconds)
    sizes = list(dict.fromkeys(t.vocabulary_size for t in run.tokenizers))
    return Proposal(
        recipe=config.recipe,
        dim=config.translator.dim,
        layers=config.translator.layers,
        decoder_layers=config.translator.upper_layers,
        parameters=run.model.parameter_count(),
        vocabulary=sizes,
        batch_tokens=config.training.batch_tokens,
        accumulate=config.training.accumulate,
        consistency=config.training.consistency,
        steps=steps,
        seconds_per_update=update_seconds,
        total_seconds=None if steps is None else steps * update_seconds,
        tokens_per_second=tokens / seconds,
        peak_memory=peak,
        device=describe_device(device),
        updates_timed=updates,
        notes=notes,
    )


def slow_notes(config: RunConfig, steps: int | None, update_seconds: float) -> list[str]:
    """What is quicker, for whoever must wait long."""
    if steps is None or steps * update_seconds <= LONG:
        return []
    quicker = []
    if config.model.kind in TRANSLATORS:
        quicker += [] if config.recipe == "tiny" else [option("recipe", "tiny")]
        quicker += ["training.consistency=0"] if config.training.consistency else []
    quicker += ["a limit such as training.max_minutes=60"]
    return [f"quicker, and less good: {' or '.join(quicker)}"]


class Enough(Exception):
    """The trial has lasted long enough."""


def stopwatch(folder: Path, limit: float) -> Any:
    """A reporter that notes the time of every report, and ends the trial when its time is over."""
    from anaphora.training.reporting import RunReporter

    class Stopwatch(RunReporter):
        def start(self, progress: Any, total: int | None, limit: float | None = None) -> None:
            super().start(progress, total, limit)
            self.marks = [(time.perf_counter(), 0, 0)]  # clock, tokens, updates

        def update(self, update: Any, progress: Any) -> None:
            update.loss.item()  # a GPU has done what it was asked for
            self.marks.append((time.perf_counter(), progress.tokens, progress.step))
            passed = self.marks[-1][0] - self.marks[0][0]
            patient = len(self.marks) < 4 and passed < PATIENCE * limit  # the first may take as long as a hundred
            if (passed > limit and not patient) or progress.step >= MOST:
                raise Enough

        def pace(self) -> tuple[float, int, int]:
            """Seconds, tokens and updates of the second half: the first may still warm up, or record graphs."""
            first = self.marks[len(self.marks) // 2 if len(self.marks) > 6 else len(self.marks) > 2]
            return tuple(b - a for a, b in zip(first, self.marks[-1]))  # type: ignore[return-value]

    return Stopwatch(folder, None)


def main(folder: Path) -> None:
    from anaphora.training.memory import is_out_of_memory

    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    try:
        if request["sides"] == ["text"]:
            from anaphora.tasks.text_proposal import attempt_text

            answer: dict[str, Any] = dataclasses.asdict(attempt_text(folder, request))
        else:
            answer = dataclasses.asdict(attempt(folder, request))
    except UserError as error:
        answer = {"error": str(error)}
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        answer = {"error": f"memory ran out ({first_line(error)}); take a smaller recipe"}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
