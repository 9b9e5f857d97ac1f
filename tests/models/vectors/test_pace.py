"""The number of threads that is quickest is found, whatever it is."""

from __future__ import annotations

import heapq
import itertools

import pytest

from anaphora.models.vectors.pace import Pace
from anaphora.models.vectors.pieces import Learned, Piece, learn_pieces


class World:
    """Threads that do pieces, on a clock of its own: `seconds(active)` is what a piece takes with so many at work."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.seconds, self.now = seconds, 0.0

    def run(self, pace: Pace, pieces: int) -> list[int]:
        """How many were active when each piece ended."""
        running: list[tuple[float, int]] = []
        numbers, history = itertools.count(), []
        for _ in range(pieces):
            while len(running) < pace.active:
                heapq.heappush(running, (self.now + self.seconds[pace.active], next(numbers)))
            self.now, _ = heapq.heappop(running)
            pace.ended(len(running))
            history.append(pace.active)
        return history


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({1: 1.0, 2: 1.1, 4: 1.3, 8: 1.6}, 8),  # they help one another
        ({1: 1.0, 2: 2.4, 4: 5.0, 8: 11.0}, 1),  # they hinder one another
        ({1: 1.0, 2: 1.2, 4: 1.5, 8: 4.0}, 4),
    ],
)
def test_the_quickest_number_is_found_and_kept(seconds: dict[int, float], best: int) -> None:
    world = World(seconds)
    history = world.run(Pace(8, clock=lambda: world.now), 3000)
    assert history[200:].count(best) > 0.8 * len(history[200:])


def test_it_looks_again_when_the_machine_changes() -> None:
    world = World({1: 1.0, 2: 1.1})
    pace = Pace(2, clock=lambda: world.now)
    assert world.run(pace, 1000)[-1] == 2
    world.seconds = {1: 1.0, 2: 3.0}
    history = world.run(pace, 2000)
    assert history[1000:].count(1) > 0.8 * 1000


def test_one_thread_stays_one() -> None:
    world = World({1: 1.0})
    assert set(world.run(Pace(1, clock=lambda: world.now), 100)) == {1}


def test_the_time_of_threads_is_counted() -> None:
    world = World({1: 1.0, 2: 1.0})
    pace = Pace(2, clock=lambda: world.now)
    total, running = 0.0, 1
    for _ in range(4):
        world.now += 0.5
        total += pace.ended(running)
    assert total == pytest.approx(4 * 0.5 * 2)


def test_every_piece_is_done_once() -> None:
    seen: list[int] = []
    learned = Learned(pieces=3)
    learned.expect(1, 50)

    def work(number: int) -> Piece:
        return Piece(0, loss=1.0, pairs=2, tokens=number)

    def tell(now: Learned) -> None:
        seen.append(now.tokens - sum(seen))

    learn_pieces(work, learned, threads=4, rate=0.1, progress=tell, save=None, seconds=1.0)
    assert sorted(seen) == list(range(3, 50))
    assert learned.finished and learned.losses == [0.5]
