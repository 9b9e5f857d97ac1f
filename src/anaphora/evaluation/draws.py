"""How a bootstrap test is drawn: how often, and by which seed."""

from __future__ import annotations

from typing import Any, NamedTuple

from anaphora.errors import UserError

SAMPLES, SEED = 1000, 12345
"""sacreBLEU's own."""
MOST_SAMPLES = 100_000


class Draws(NamedTuple):
    """How often the lines of a text are drawn anew, and the seed."""

    samples: int = SAMPLES
    seed: int = SEED

    def check(self) -> Draws:
        """Itself, if it can be drawn."""
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise UserError(f"the number of bootstrap samples is {self.samples:,}", cure=f"give 1 to {MOST_SAMPLES:,}")
        if not 1 <= self.seed < 1 << 63:  # sacreBLEU takes 0 for none
            raise UserError(f"the bootstrap's seed is {self.seed}", cure="give a whole number of at least 1")
        return self

    def options(self) -> dict[str, Any]:
        """As `evaluate` takes it."""
        return {"bootstrap_samples": self.samples, "bootstrap_seed": self.seed}


DRAWS = Draws()
