"""Two names exchange what they stand for, in one step: Linux's renameat2, which Python has no function for."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

HERE = -100  # AT_FDCWD: relative names are relative to the working directory
RENAME_EXCHANGE = 2
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
"""What a kernel, a file system or a sandbox answers that does not have it."""


def exchange(one: Path, other: Path) -> bool:
    """Whether both names were exchanged: False where the system cannot. Nobody ever finds either name missing."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if call(HERE, os.fsencode(one), HERE, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
