"""How many threads are quickest, found while they work.

Threads that change the same rows hand these to and fro. Between two cores that share a cache this costs little; between
cores that do not, two threads can take twice as long as one. Nothing tells a program beforehand on which kind of cores
it will run, and on a rented machine that may change within the minute. So: try all threads, half of them, and so on
for as long as fewer are faster; stay with the best; look again every so often. What is tried is work that had to be
done anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TRIAL_PIECES = 4
"""That each thread does in a trial, at least, ..."""
TRIAL_SECONDS = 0.25
"""... and for how long."""
STAY_FACTOR = 20.0
"""A choice stays for so many times what it took to find."""


class Pace:
    """At most `threads` at work; `active` says how many now. Tell it of each piece that has ended."""

    def __init__(self, threads: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.threads, self.clock = threads, clock
        self.last = self.searching = clock()
        self.active = self.best = threads
        self.chosen, self.rate = False, 0.0
        """Of the best, in pieces a second."""
        self.since: float | None = None
        """When the trial began; nothing: pieces of the one before are still at work."""
        self.pieces, self.until = 0, 0.0

    def ended(self, running: int) -> float:
        """A piece has ended, and so many others are still being done. Returns how long threads were at work since the
        last one ended, all together."""
        now = self.clock()
        busy, self.last = (now - self.last) * self.active, now
        self._choose(now, running)
        return busy

    def _choose(self, now: float, running: int) -> None:
        if self.threads == 1:
            return
        if self.chosen:
            if now >= self.until:
                self._search(now)
            return
        if self.since is None:  # it begins when the first piece has ended that leaves only its own
            if running < self.active:
                self.since, self.pieces = now, 0
            return
        self.pieces += 1
        if self.pieces < TRIAL_PIECES * self.active or now - self.since < TRIAL_SECONDS:
            return
        rate = self.pieces / (now - self.since)
        if rate > self.rate:
            self.rate, self.best = rate, self.active
            if self.active > 1:  # perhaps fewer are faster still
                self.active, self.since = self.active // 2, None
                return
        self.active = self.best
        self.chosen, self.until = True, now + STAY_FACTOR * (now - self.searching)

    def _search(self, now: float) -> None:
        """Begin with all of them."""
        self.active = self.best = self.threads
        self.chosen, self.rate, self.since, self.searching = False, 0.0, None, now
