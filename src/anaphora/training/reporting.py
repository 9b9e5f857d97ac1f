"""Who is told how a run goes: a person at a terminal, a log for programs, TensorBoard.

People see a progress bar on stderr (bars.py; plain lines where nothing can change in place). Programs read
`logs/log.jsonl`, one JSON object a line. What a killed run logged after its last checkpoint is dropped when it goes on,
so the log never tells a step twice.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.errors import printable
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, is_there, read_bytes
from anaphora.folder import LOGS, write_text
from anaphora.training.bars import live_bar

SAMPLE_INDENT_COLUMNS = 15
"""Columns to the left of a sample."""

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from anaphora.training.checkpoint import Progress
    from anaphora.training.loop import Update
    from anaphora.training.translation_validation import Validation


SHOWN_EVERY = 15.0
"""Seconds: a small model is validated so often that its samples would be all that one sees."""
SCORES_EVERY, LINES_PER_RUN = 1.0, 50
"""Scores are shown when so many seconds have passed since others were and, as a run is to leave some dozens of lines
however long it takes, so large a part of its time. The log has all of them."""


def duration(seconds: float) -> str:
    """75 -> "1:15", 3700 -> "1:01:40"."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def short(number: float) -> str:
    """14230 -> "14.2k"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def describe(scores: dict[str, Any]) -> str:
    """loss 1.234  perplexity 3.43  BLEU 34.1  chrF 60.2"""
    names = {"loss": "loss {:.3f}", "perplexity": "perplexity {:.2f}", "bleu": "BLEU {:.1f}", "chrf": "chrF {:.1f}"}
    names |= {"bits_per_byte": "bits/byte {:.3f}", "accuracy": "accuracy {:.1%}"}
    if "gleu" in scores:  # all of them would not fit on a line, and the loss says what perplexity says
        names = {"loss": names["loss"], "gleu": "GLEU {:.2f}", "bleu": "BLEU {:.2f}", "chrf": names["chrf"]}
    return "  ".join(form.format(scores[name]) for name, form in names.items() if name in scores)


def describe_experts(load: dict[str, Any]) -> str:
    """How evenly experts are asked (nn/mixture_of_experts.py: load), in a line."""
    shares = [share for layer in load["shares"] for share in layer]
    even = len(load["shares"]) / max(len(shares), 1)
    return (
        f"{load['idle']} of {load['experts']} idle; each has {min(shares):.1%} to {max(shares):.1%} of its layer's "
        f"choices (even: {even:.1%}); CV {load['cv']:.2f}, entropy {load['entropy']:.1%} of even"
    )


class RunReporter:
    """Tells everybody; `console` None is silence for people, the files are written all the same;
    without a folder there are none."""

    def __init__(self, folder: Path | None, console: Console | None, *, peak_flops: float | None = None) -> None:
        self.folder = None if folder is None else folder / LOGS
        self.console = console
        self.peak_flops = peak_flops
        self.bar: Any = None
        self.task: Any = None
        self.board: Any = None
        self.log: Any = None
        self.total: int | None = None
        self.limit: float | None = None
        self.shown = self.scored = -math.inf  # when samples were, and scores
        self.waiting: Text | None = None  # scores that came too soon after others
        self.missed_best = False  # whether the best ones were among such
        self.mark = (0.0, 0, 0.0)  # clock, tokens and operations at the last report
        self.said = time.monotonic()
        self.stages: dict[str, Any] = {}

    def stage(self, name: str, done: int, total: int | None) -> None:
        """Preparation, which has named stages: how far each has come."""
        if self.console is None:
            return
        if self.bar is None:
            self.bar = live_bar(self.console, names=24, counts=True)
        if self.bar is None:
            if time.monotonic() - self.said >= 10:  # a log file wants no line every second
                self.said = time.monotonic()
                self.message(f"{name}: {done:,}" + (f" of {total:,}" if total else ""))
            return
        if name not in self.stages:
            for earlier in self.stages.values():
                self.bar.update(earlier, visible=False)
            self.stages[name] = self.bar.add_task(name, total=total)
        self.bar.update(self.stages[name], completed=done, total=total)

    def start(self, progress: Progress, total: int | None, limit: float | None = None) -> None:
        """total: updates that are planned; limit: seconds that all of them together may take."""
        self.finish()  # the bar of the preparation
        self.total, self.limit = total, limit
        if self.folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.folder.mkdir(parents=True, exist_ok=True)
            self._forget_after(self.folder / "log.jsonl", progress.step)
            self.log = (self.folder / "log.jsonl").open("a", encoding="utf-8")
            self.board = SummaryWriter(str(self.folder / "tensorboard"), purge_step=progress.step + 1)
        self.mark = (time.monotonic(), progress.tokens, progress.flops)
        self.bar = live_bar(self.console)
        if self.bar is not None:
            self.task = self.bar.add_task("training", total=total or limit, completed=self._done(progress), say="")

    def update(self, update: Update, progress: Progress) -> None:
        now = time.monotonic()
        clock, tokens, flops = self.mark
        elapsed = max(now - clock, 1e-9)
        self.mark = (now, progress.tokens, progress.flops)
        record = {
            "step": update.step,
            "epoch": progress.epoch,
            "loss": update.loss.item(),
            "gradient_norm": update.gradient_norm.item(),
            "learning_rate": update.learning_rate,
            "tokens": progress.tokens,
            "tokens_per_second": (progress.tokens - tokens) / elapsed,
            "seconds": progress.seconds,
            **update.metrics,
        }
        if self.peak_flops:
            record["mfu"] = (progress.flops - flops) / elapsed / self.peak_flops
        self._write("update", record)
        if self.console is not None:
            self._say(record, progress, now)

    def validation(self, validation: Validation, progress: Progress, *, best: bool) -> None:
        self._write("validation", {"step": progress.step, "best": best, **validation.scores})
        if self.console is not None:
            self.waiting = self._scores(validation, progress, best=best)
            self.missed_best |= best
            if time.monotonic() - self.scored >= max(SCORES_EVERY, progress.seconds / LINES_PER_RUN):
                self._show_scores()
                if time.monotonic() - self.shown >= SHOWN_EVERY:
                    self.samples(validation.samples)
        self.mark = (time.monotonic(), progress.tokens, progress.flops)  # validation is not training speed

    def _scores(self, validation: Validation, progress: Progress, *, best: bool) -> Text:
        """The line of a validation, with where the best scores are unless an earlier line has said so."""
        from rich.text import Text

        where = f"epoch {progress.epoch + 1}  {duration(progress.seconds)}"
        line = Text.assemble((f"step {progress.step}", "bold"), f"  {where}  {describe(validation.scores)}")
        mark = "best so far" if best else f"best so far: step {progress.best_step}" if self.missed_best else ""
        if mark and len(progress.history) > 1:
            assert self.console is not None
            room = not self.console.is_terminal or line.cell_len + len(f"  {mark}") <= self.console.width
            line.append(f"  {mark}" if room else f"\n{'':{SAMPLE_INDENT_COLUMNS}}{mark}", "green")
        return line

    def _show_scores(self) -> None:
        if self.waiting is not None and self.console is not None:
            self.console.print(self.waiting, soft_wrap=True)
            self.waiting, self.missed_best, self.scored = None, False, time.monotonic()

    def samples(self, samples: Sequence[Any]) -> None:
        """What the model says, for the eye."""
        if self.console is None or not samples:
            return
        self.shown = time.monotonic()
        for sample in samples:
            for name, text in vars(sample).items():
                self._show(name, printable(" ".join(text.split()), lines=True))

    def _show(self, name: str, text: str) -> None:
        """A sample beside its name; a terminal gets two lines of it, broken between words."""
        from rich.text import Text

        assert self.console is not None
        lines = [Text(text)]
        if self.console.is_terminal:
            room = max(20, self.console.width - SAMPLE_INDENT_COLUMNS)
            short = Text(text)
            short.truncate(2 * room - 10, overflow="ellipsis")  # a word may move to the next line
            lines = list(short.wrap(self.console, room)) or lines
        for place, line in enumerate(lines):
            line.rstrip()
            head = f"{'' if place else name:>{SAMPLE_INDENT_COLUMNS - 2}}  "
            self.console.print(Text.assemble((head, "dim"), line), soft_wrap=True)

    def message(self, text: str) -> None:
        if self.console is not None:
            # a terminal is wrapped between words; a file gets the line whole
            self.console.print(
                printable(text, lines=True), markup=False, highlight=False, soft_wrap=not self.console.is_terminal
            )

    def finish(self) -> None:
        self._show_scores()  # the last ones always
        if self.bar is not None:
            self.bar.stop()
        for thing in (self.log, self.board):
            if thing is not None:
                thing.close()
        self.bar = self.log = self.board = None
        self.stages = {}  # they were lines of that bar

    def _done(self, progress: Progress) -> int:
        """How far the bar is, by the limit that is nearest: in updates, or seconds where they are all that is known."""
        share = max(progress.seconds / self.limit if self.limit else 0.0, progress.step / (self.total or math.inf))
        return round(min(1.0, share) * (self.total or self.limit or 0))

    def _left(self, progress: Progress) -> float | None:
        """Seconds until the nearest limit, where there is one and it is known how fast it is approached."""
        left = [self.limit - progress.seconds] if self.limit else []
        if self.total and progress.step:
            left.append(progress.seconds / progress.step * (self.total - progress.step))
        return max(0.0, min(left)) if left else None

    def _say(self, record: dict[str, Any], progress: Progress, now: float) -> None:
        left = self._left(progress)
        mfu = f"  MFU {record['mfu']:.0%}" if "mfu" in record else ""
        speed = f"{short(record['tokens_per_second'])} tok/s{mfu}{'' if left is None else f'  {duration(left)} left'}"
        of = f"/{self.total}" if self.total else ""
        reward = f"  reward {record['reward']:.3f}" if "reward" in record else ""
        idle = f"  idle experts {record['expert_idle']}/{record['experts']}" if "expert_idle" in record else ""
        say = f"{record['step']}{of}  loss {record['loss']:.3f}{reward}{idle}  {speed}"
        if self.bar is not None:
            self.bar.update(self.task, completed=self._done(progress), say=say)
        elif now - self.said >= 10 and self.console is not None:  # a log file wants no line every second
            self.said = now
            self.console.print(f"step {say}", highlight=False, soft_wrap=True)

    def _write(self, kind: str, record: dict[str, Any]) -> None:
        if self.log is None:  # of a training without a folder
            return
        self.log.write(json.dumps({"kind": kind, **record}, ensure_ascii=False) + "\n")
        self.log.flush()
        for name, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
                self.board.add_scalar(f"{kind}/{name}", value, record["step"])

    def _forget_after(self, path: Path, step: int) -> None:
        if not is_there(path):
            return
        kept, damaged = [], 0
        *whole, torn = read_bytes(path, MAX_LARGE_FILE_BYTES).split(
            b"\n"
        )  # the last line of a killed run may be torn: that is no damage
        for line in (*whole, torn):
            try:
                if json.loads(text := line.decode("utf-8"))["step"] <= step:
                    kept.append(text)
            except (ValueError, LookupError, TypeError, RecursionError):
                damaged += bool(line) and line is not torn
        write_text(path, "".join(line + "\n" for line in kept))
        if damaged:
            self.message(f"note: {path} has {damaged} damaged line{'s' * (damaged > 1)}, left out")
