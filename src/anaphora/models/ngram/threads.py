"""Threads that counting models share: as many as there are cores, started once.

Compiled code gives up Python's lock, so that threads work side by side. What they are given never depends on how many
there are: any number of them makes the same bytes.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from anaphora.device import cores

CORES = max(1, min(8, cores()))
"""Those that this process may use; more than eight wait for memory, not for each other."""


@cache
def pool() -> ThreadPoolExecutor:
    """The one pool. Nothing that runs in it may wait for it."""
    return ThreadPoolExecutor(CORES, thread_name_prefix="ngram")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)  # a child has none of its parent's threads
