"""What the checksums of prepared data cost: beside reading the file alone, and beside an epoch of learning from it.

    python benchmarks/checksums.py [--megabytes 512] [--folder DIR]

Prints the speed of checking in GB/s, that of `zlib.crc32` on bytes in memory (no checker can be quicker than its sum)
and that of reading the file alone, each the best of three. Then the share of an epoch: word vectors of one dimension
read 4 bytes a word and are the fastest thing that learns here, so no other kind pays a larger share. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np

from anaphora.data.checksums import BLOCK_BYTES, check_data, write_checksums

WORDS_A_SECOND = 2e6
"""Of skip-gram, 100 wide, on two cores, the quickest there is; translators and language models learn at 1e3 to 1e5."""
BYTES_A_WORD = 4


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """Seconds."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def read(path: Path) -> None:
    buffer = bytearray(BLOCK_BYTES)
    with path.open("rb") as file:
        while file.readinto(buffer):
            pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--folder", default=None, help="on the disk that is to be measured")
    chosen = parser.parse_args()
    size = chosen.megabytes * 1_000_000
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        ids = np.random.default_rng(1).integers(0, 30_000, size // 4, dtype=np.uint32)
        (folder / "train.ids").write_bytes(ids.data)
        written = best(lambda: write_checksums(folder), 1)
        checked = best(lambda: check_data(folder, expected=True))
        alone = best(lambda: read(folder / "train.ids"))
        block = ids.tobytes()[: 64 * BLOCK_BYTES]
        limit = best(lambda: crc32(block)) / len(block) * size
        kept = (folder / "checksums.json").stat().st_size
    epoch = size / BYTES_A_WORD / WORDS_A_SECOND
    rates = {"check": size / checked / 1e9, "crc32": size / limit / 1e9, "read": size / alone / 1e9}
    print(f"{size / 1e6:,.0f} MB of ids, {kept:,} bytes of checksums, written in {written:.2f} s")
    for what, rate in rates.items():
        print(f"  {what:<6} {rate:6.2f} GB/s")
    print(f"one check: {checked:.2f} s; one epoch of skip-gram over it: {epoch:.0f} s; share {checked / epoch:.2%}")
    print(json.dumps({**{f"{what}_gb_per_second": round(rate, 3) for what, rate in rates.items()},
                      "share_of_an_epoch": round(checked / epoch, 5)}))  # fmt: skip


if __name__ == "__main__":
    main()
