"""Model folders of counted text for tests: written part by part, as `anaphora train --text` leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anaphora.folder import METRICS, WEIGHTS, write_config, write_json
from anaphora.models.composites.mixture import MixtureConfig
from anaphora.models.ngram.counting import fit
from anaphora.models.ngram.ngram_model import NgramConfig
from anaphora.tasks.recipes import RunConfig
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig

VERSE = [
    "the cat sat on the mat",
    "the dog sat on the log",
    "",
    "a cat and a dog saw the mat",
    "the cat saw a dog and the dog saw the cat",
    "on the mat the cat sat and sat",
    "the log and the mat",
]
"""A text with words that come often and once, and a blank line."""
WORDS = {"kind": "word", "split": "blanks", "fallback": "unk"}


def ngram_folder(
    folder: Path,
    lines: Sequence[str] = VERSE,
    *,
    tokenizer: dict[str, Any] | None = None,
    boundaries: str = "lines",
    blank_lines: str = "keep",
    words: Tokenizer | None = None,
    **model: Any,
) -> Path:
    """A model folder of these lines; `model` are settings of NgramConfig, `words` a tokenizer made before."""
    folder.mkdir(parents=True)
    settings = TokenizerConfig(**(WORDS if tokenizer is None else tokenizer))
    kept = [line for line in lines if blank_lines == "keep" or line.strip()]
    cut = words or Tokenizer.train(settings, kept)
    rows = [[*cut.encode(line), EOS] for line in kept]
    if boundaries == "lines":
        ids = [id for row in rows for id in (BOS, *row)]
    else:
        ids = [BOS, *(id for row in rows for id in row)]
    np.array(ids, np.uint32).tofile(folder / "ids")
    config = NgramConfig(**{"order": 3, **model})
    fitted = fit(folder / "ids", cut.vocabulary_size, config, folder / WEIGHTS, work=folder / "work")
    (folder / "ids").unlink()
    document = {
        "run": {"recipe": "ngram"},
        "data": {"text": ["verse.txt"], "boundaries": boundaries, "blank_lines": blank_lines},
        "tokenizer": {name: value for name, value in vars(settings).items() if value is not None},
        "model": vars(config),
    }
    write_config(folder, RunConfig.read(document).document())
    cut.save(folder / "tokenizer.json")
    metrics = {
        "vocabularies": {"text": cut.vocabulary_fingerprint()},
        "orders": [fitted.sizes[0] - 1, *fitted.sizes[1:]],
        "discounts": [list(discounts) for discounts in fitted.discounts],
        "fell_back": fitted.fell_back,
        "lines": len(kept),
        "tokens": sum(map(len, rows)),
        "unknown_tokens": 0,
        "trained_on": {"text": ["verse.txt"], "lines": len(kept), "tokens": sum(map(len, rows))},
        "cost": {"seconds": 0.5, "peak_memory": 1 << 20, "device": "cpu"},
    }
    write_json(folder / METRICS, metrics)
    return folder


def mixture_folder(folder: Path, lines: Sequence[Sequence[str]], weights: Sequence[float]) -> Path:
    """A mixture of n-gram models, one for each text, over one vocabulary."""
    cut = Tokenizer.train(TokenizerConfig(**WORDS), [line for text in lines for line in text])
    names = [f"part-{number}" for number in range(1, len(lines) + 1)]
    for name, text in zip(names, lines):
        ngram_folder(folder / name, text, words=cut)
    config = MixtureConfig(parts=names, weights=list(weights))
    write_config(folder, RunConfig.read({"run": {"recipe": "mixture"}, "model": vars(config)}).document())
    cut.save(folder / "tokenizer.json")
    return folder
