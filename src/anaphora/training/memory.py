"""The largest batch first: running out of memory comes in the first second, with a proposal, not after a night."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anaphora.data.batches import AnyBatch
from anaphora.errors import UserError, first_line, option


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA has a class for it; the CPU allocator and the operating system say it in words."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")
    )


def try_largest(largest: AnyBatch, learn: Callable[[Any], None], *, accumulate: int) -> None:
    """Run `learn` (forward and backward, no update) on the largest batch; the random state is left as it was.

    If it does not fit, halve it until it does, and say which settings learn the same in smaller bites.
    """
    random = torch.get_rng_state()
    random_cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    try:
        rows, first = largest.height, None
        while True:
            try:
                learn(largest.first(rows))
                break
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                first = first or first_line(error)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if rows == 1:
                raise UserError(
                    f"not even one sentence of {largest.width} tokens fits in memory ({first})",
                    cure=f"choose a smaller model ({option('recipe', 'tiny')}) or shorter sentences "
                    "(data.max_length=100)",
                )
            rows //= 2
        if rows < largest.height:
            # a corpus smaller than batch_tokens makes smaller batches: count what this one holds
            held = largest.height * largest.width
            parts = -(-largest.height // rows)
            raise UserError(
                f"the largest batch ({held} tokens) does not fit in memory ({first})",
                cure=f"set training.batch_tokens={held // parts} training.accumulate={accumulate * parts}, "
                "which fits and gives the same updates, or choose a smaller model",
            )
    finally:
        torch.set_rng_state(random)
        if random_cuda is not None:
            torch.cuda.set_rng_state(random_cuda)
