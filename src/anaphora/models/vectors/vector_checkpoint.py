"""What is said of a checkpoint of word vectors that cannot be read: what is wrong with it, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anaphora.errors import UserError, first_line
from anaphora.folder import CHECKPOINTS, WEIGHTS


@contextmanager
def opening(checkpoint: Path) -> Iterator[None]:
    """While it is read: whatever it lacks becomes one sentence with its cure."""
    try:
        yield
    except UserError as error:
        raise UserError(error.what, file=checkpoint, cure=_without(checkpoint)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"is no whole checkpoint of word vectors ({first_line(error)})"
        raise UserError(what, file=checkpoint, cure=_without(checkpoint)) from None


def _without(checkpoint: Path) -> str:
    """How a run goes on without it. Vectors that no checkpoint goes with would be kept from being learned over."""
    vectors = checkpoint.parent.parent / WEIGHTS
    learned = checkpoint.parent.name == CHECKPOINTS and vectors.exists()
    both = f"it and {vectors}" if learned else "it"
    return f"delete {both} and repeat the `anaphora train` command, which learns anew; or restore it from a copy"
