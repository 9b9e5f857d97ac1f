"""The table of the lectures, with our own rows beside it: what each system was published with, and what it does here.

The published figures are those of Vaswani et al. 2017, *Attention Is All You Need*, table 2: BLEU on newstest2014 and
the cost of training, English to German and English to French. Their BLEU is tokenized, of models trained on 4.5 and 36
million pairs; their operations are estimates (hours × GPUs × what a GPU sustains), ours are counted. So it is not the
figures that should agree, but their order.

The Transformers' cost is one figure for both pairs there. Their big model's French BLEU is 41.0, as the lectures and
the proceedings have it; later versions of the paper (arXiv) have 41.8 in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.comparing.task import Extract


@dataclass(frozen=True)
class Published:
    """One row of that table; nothing where it has no figure."""

    system: str
    kind: str
    """Of our model."""
    endings: tuple[str, ...]
    """What is made of it (combining.py)."""
    german_bleu: float | None = None
    french_bleu: float | None = None
    german_flops: float | None = None
    french_flops: float | None = None


TABLE = (
    Published("ByteNet", "bytenet", (), 23.75),
    Published("Deep-Att + PosUnk", "deep-att", ("posunk",), None, 39.2, None, 1.0e20),
    Published("GNMT + RL", "gnmt", ("rl",), 24.6, 39.92, 2.3e19, 1.4e20),
    Published("ConvS2S", "convs2s", (), 25.16, 40.46, 9.6e18, 1.5e20),
    Published("MoE", "moe", (), 26.03, 40.56, 2.0e19, 1.2e20),
    Published("Deep-Att + PosUnk Ensemble", "deep-att", ("posunk", "ensemble"), None, 40.4, None, 8.0e20),
    Published("GNMT + RL Ensemble", "gnmt", ("rl", "ensemble"), 26.30, 41.16, 1.8e20, 1.1e21),
    Published("ConvS2S Ensemble", "convs2s", ("ensemble",), 26.36, 41.29, 7.7e19, 1.2e21),
    Published("Transformer (base model)", "transformer", (), 27.3, 38.1, 3.3e18, 3.3e18),
    Published("Transformer (big)", "transformer", ("big",), 28.4, 41.0, 2.3e19, 2.3e19),
)
"""In the order of the paper."""
ROWS = " ".join("+".join([one.kind, *one.endings]) for one in TABLE)
"""These systems as rows of a comparison."""
HEADS = ("", "here BLEU", "here FLOPs", "EN-DE BLEU", "EN-DE FLOPs", "EN-FR BLEU", "EN-FR FLOPs")
SOURCE = (
    "EN-DE, EN-FR: published, newstest2014 (Vaswani et al. 2017, table 2; their operations are estimated, ours are "
    "counted). Here: small forms on this corpus; compare the order, not the figures."
)


def beside_published(rows: Sequence[Mapping[str, Any]]) -> list[Extract]:
    """The lectures' table with what these rows reach; none if it has no such system. The first row of a sort counts."""
    ours = [_like(one, rows) for one in TABLE]
    if not any(ours):
        return []
    lines = []
    for one, row in zip(TABLE, ours):
        here = (row.get("bleu"), row.get("flops")) if row else (None, None)
        german, french = (one.german_bleu, one.german_flops), (one.french_bleu, one.french_flops)
        cells = [(_score(bleu), _cost(flops)) for bleu, flops in (here, german, french)]
        lines.append([one.system, *(cell for two in cells for cell in two)])
    return [Extract("The lectures' table: published, and here", HEADS, lines, SOURCE)]


def _like(one: Published, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    def same(row: Mapping[str, Any]) -> bool:
        plain = tuple(ending.rstrip("0123456789") for ending in row.get("endings", ()))
        recipe = str(row.get("recipe"))
        if not plain and recipe in ("big", "base"):  # the published sizes themselves
            plain = ("big",) if recipe == "big" else ()
        return row["state"] == "finished" and row.get("kind") == one.kind and plain == one.endings

    return next((row for row in rows if same(row)), None)


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _cost(value: float | None) -> str:
    return "-" if not value else f"{value:.1e}".replace("e+", "e")
