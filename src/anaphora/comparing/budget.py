"""What each row may spend: the same number of tokens, of floating-point operations, or of minutes.

A budget is a limit of training like any other (training.max_tokens, training.max_minutes), so the schedule of the
learning rate ends where the budget does. Operations become tokens by what one token costs a model, forward and
backward. Models that are counted read the text once, whatever the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anaphora.config import convert
from anaphora.errors import UserError, nearest, option

BUDGET_KINDS = ("tokens", "flops", "minutes")
LIMITS = ("max_steps", "epochs", "max_tokens", "max_minutes")


@dataclass(frozen=True)
class Budget:
    kind: str
    amount: float

    @classmethod
    def read(cls, written: str) -> Budget:
        """`tokens=2e6`, `flops=1e13` or `minutes=5`."""
        kind, equals, amount = written.partition("=")
        cure = f"write {option('budget', 'tokens=2e6')}, flops=1e13 or minutes=5"
        if kind not in BUDGET_KINDS:
            cure = nearest(kind, BUDGET_KINDS) if kind and equals else cure
            raise UserError(f"{option('budget')} {written} says nothing that can be spent", cure=cure)
        number = convert(amount, float, name=f"{option('budget')} {kind}")
        if number <= 0 or (kind == "tokens" and number < 1):
            raise UserError(f"{option('budget')} {written} leaves nothing to spend", cure=cure)
        return cls(kind, number)

    def __str__(self) -> str:
        amount = int(self.amount) if self.amount == int(self.amount) and self.amount < 1e15 else self.amount
        return f"{self.kind}={amount}"

    def limits(self, flops_a_token: float) -> dict[str, Any]:
        """The settings of section `training` that keep a row within it. flops_a_token: of learning from one token."""
        spent: dict[str, Any] = dict.fromkeys(LIMITS)
        if self.kind == "minutes":
            return {**spent, "max_minutes": self.amount}
        tokens = self.amount if self.kind == "tokens" else self.amount / flops_a_token
        if tokens < 1:
            raise UserError(
                f"{option('budget')} {self} is less than one token costs ({flops_a_token:.3g} operations)",
                cure="allow more",
            )
        return {**spent, "max_tokens": int(tokens)}
