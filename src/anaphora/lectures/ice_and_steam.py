"""The lecture's table of ice and steam (GloVe), recomputed from a text that has such counts.

The slide prints probabilities in two digits and ratios that were computed before rounding: 1.9e-4 / 2.2e-5 is 8.6, and
the slide has 8.9. Whole counts that give all twelve numbers exist; the text here is made of them. It has lines of two
words, so that each line adds one to each of two counts: 1,520,000 lines around ice and as many around steam.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from anaphora.explain.trace_parts import Check, Step, Walk

WORDS = ["ice", "steam", "solid", "gas", "water", "fashion", "other"]
PROBES = WORDS[2:6]
TOTAL = 1_520_000
COUNTS = {"ice": [294, 101, 4560, 26], "steam": [33, 1186, 3344, 27]}
"""How often solid, gas, water and fashion stand beside each; the rest of the lines have another word."""
SLIDE = {
    "P(k|ice)": ["1.9e-04", "6.6e-05", "3.0e-03", "1.7e-05"],
    "P(k|steam)": ["2.2e-05", "7.8e-04", "2.2e-03", "1.8e-05"],
}
SLIDE_RATIOS = ["8.9", "0.085", "1.36", "0.96"]


def text_ids() -> NDArray[np.uint32]:
    """The text, as ids: lines of two words."""
    from anaphora.tokenizers.tokenizer import EOS, SPECIALS

    pairs = []
    for word, counts in COUNTS.items():
        others = np.repeat(np.arange(2, len(WORDS)), [*counts, TOTAL - sum(counts)])
        pairs.append(np.stack([np.full(len(others), WORDS.index(word)), others]))
    lines = np.concatenate(pairs, axis=1) + len(SPECIALS)  # (2, lines)
    ends = np.full((1, lines.shape[1]), EOS)
    return np.concatenate([lines, ends]).T.reshape(-1).astype(np.uint32)


def ice_and_steam() -> list[Walk]:
    """P(k | ice), P(k | steam) and their ratio, by the table that GloVe learns from; and what is left of it in logs."""
    from anaphora.explain.ratios import ratio_table
    from anaphora.models.vectors.cooccurrence import count_cooccurrences

    with TemporaryDirectory() as folder:
        table = count_cooccurrences(text_ids(), WORDS, Path(folder) / "table", window=10, threads=1)
        found = ratio_table(table, "ice", "steam", PROBES)
    x = np.array(found.counts).T  # (2, 4)
    totals = np.array(found.totals)[:, None]
    p = np.array([[row.first for row in found.rows], [row.second for row in found.rows]])
    ratios = np.array([[row.ratio for row in found.rows]])
    rows = list(SLIDE)
    steps = [
        Step("X", "", "how often k stands near each", ["ice", "steam"], PROBES, x, decimals=0),
        Step("N", "N = Σ X", "all that stands near each", ["ice", "steam"], ["N"], totals, decimals=0),
        Step("P", "P = X / N, times 10⁵", "", rows, PROBES, 1e5 * p, decimals=1),
        Step("P/P", "P(k|ice) / P(k|steam)", "", ["ratio"], PROBES, ratios, decimals=3),
        Step("log", "log P(k|ice) - log P(k|steam)", "what (w_ice - w_steam) · u_k is to be", ["log"], PROBES,
             np.log(ratios), decimals=2),
    ]  # fmt: skip
    counted = float(np.abs(x - np.array(list(COUNTS.values()))).max())
    wrong = sum(
        f"{value:.1e}" != said for line, says in zip(p, SLIDE.values()) for value, said in zip(line, says, strict=True)
    )
    digits = [1, 3, 2, 2]
    wrong += sum(f"{v:.{n}f}" != said for v, n, said in zip(ratios[0], digits, SLIDE_RATIOS, strict=True))
    checks = [
        Check("the library counts what the text was made of", counted, 0.0),
        Check("rounded, all twelve numbers are the slide's", float(wrong), 0.0),
    ]
    says = "A text of 3,040,000 lines, “ice solid”, “steam gas” and so on, made to have the slide's probabilities."
    return [Walk("ice-and-steam", "Ice and steam", says, steps, checks)]
