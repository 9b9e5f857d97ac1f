"""What training published, kept while the mean of some checkpoints stands in its place (`anaphora average`)."""

from __future__ import annotations

from pathlib import Path

from anaphora.errors import UserError
from anaphora.folder import CARD, METRICS, WEIGHTS, RunLock, atomic_folder, discard, publish, read_config, read_metrics
from anaphora.models.composites.parts import BESIDE
from anaphora.tasks.request import Average

KEPT = "before-average"
"""Folder, inside the run's, of hard links to the files that training published."""
PUBLISHED = (*BESIDE, WEIGHTS, CARD, METRICS)


def keep_published(folder: Path) -> None:
    """Before the first average: keep the model, and all that is said of it."""
    if not (folder / KEPT).exists():
        with atomic_folder(folder / KEPT) as temporary:
            for name in PUBLISHED:
                if (folder / name).is_file():
                    publish(folder / name, temporary / name)


def forget_published(folder: Path) -> None:
    """Training has published another model: there is nothing to undo any more."""
    discard(folder / KEPT)


def undo_average(folder: Path) -> Average:
    """Bring back what training published, byte for byte, however many averages came after it."""
    read_config(folder)  # what is no run is named as that
    with RunLock(folder):
        kept = folder / KEPT
        if not kept.is_dir():
            raise UserError(
                "has no average to undo",
                file=folder,
                cure="the model is training's own",
            )
        for name in PUBLISHED:
            if (kept / name).is_file():
                publish(kept / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        discard(kept)
    return Average({"folder": str(folder), "undone": True, "weights": read_metrics(folder).get("weights", "")})
