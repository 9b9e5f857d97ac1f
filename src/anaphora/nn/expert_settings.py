"""What can be said of experts, for every model that may have them. Nothing here needs torch."""

from __future__ import annotations

from typing import Any

PER_TOKEN, BALANCE = 2, 0.1
"""Where nothing is said: experts that a token asks, and the weight of what keeps all of them in use."""


def chosen_experts(config: Any, *, layers: int | None = None) -> dict[str, Any] | None:
    """What nn/mixture_of_experts.py is told, from the settings `experts`, `experts_per_token`, `experts_every` and
    `expert_balance`; None: no experts. A ValueError for what cannot be, `layers` being the fewest of any stack."""
    if config.experts is None:
        for name in ("experts_per_token", "experts_every", "expert_balance"):
            if getattr(config, name, None) is not None:
                raise ValueError(f"{name} means nothing without experts; say how many with experts, or leave it out")
        return None
    if config.experts < 1:
        raise ValueError(f"experts must be at least 1, not {config.experts}; leave it out for a plain network")
    per_token = min(PER_TOKEN, config.experts) if config.experts_per_token is None else config.experts_per_token
    every = getattr(config, "experts_every", None)
    balance = BALANCE if config.expert_balance is None else config.expert_balance
    if not 1 <= per_token <= config.experts:
        there = "is 1 expert" if config.experts == 1 else f"are {config.experts} experts"
        can = "1 to " if config.experts > 1 else ""
        raise ValueError(
            f"experts_per_token is {per_token}, and there {there}; a token can ask {can}{config.experts} of them"
        )
    if per_token == 1 < config.experts:
        raise ValueError(
            "experts_per_token=1 gives the one that is asked the weight 1, whatever the gate thinks of it, so that "
            "the gate would learn nothing; take 2"
        )
    if every is not None and every < 1:
        raise ValueError(f"experts_every must be at least 1, not {every}")
    if every is not None and layers is not None and every > layers:
        raise ValueError(f"experts_every is {every}, and of {layers} layers none would have experts; take less")
    if balance < 0:
        raise ValueError(f"expert_balance must be at least 0, not {balance}")
    return {"number": config.experts, "per_token": per_token, "every": every or 1, "balance": balance}
