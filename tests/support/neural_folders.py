"""Model folders of neural language models with random weights, for tests of how models are used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from anaphora.folder import METRICS, WEIGHTS, write_config, write_json
from anaphora.models import build_language_model
from anaphora.models.weights import model_weights, write_weights
from anaphora.tasks.recipes import RunConfig
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from ngram_folders import VERSE, WORDS

SHAPES: dict[str, dict[str, Any]] = {
    "dan": {"dim": 8},
    "window": {"dim": 8, "window": 3},
    "rnn": {"dim": 8, "hidden": 8},
    "gru": {"dim": 8, "hidden": 8},
    "lstm": {"dim": 8, "hidden": 8, "layers": 2},
    "conv": {"dim": 8},
    "transformer-decoder": {"dim": 8, "heads": 2, "layers": 2, "feed_forward": 16, "max_length": 32},
    "transformer-encoder": {"dim": 8, "heads": 2, "layers": 2, "feed_forward": 16, "max_length": 32},
    "backpack": {"dim": 8, "senses": 2, "heads": 2, "layers": 2, "feed_forward": 16, "max_length": 32},
}
"""As small as can be, of every kind."""


def neural_folder(
    folder: Path,
    kind: str,
    lines: Sequence[str] = VERSE,
    *,
    tokenizer: dict[str, Any] | None = None,
    boundaries: str = "lines",
    training: dict[str, Any] | None = None,
    seed: int = 5,
    **model: Any,
) -> Path:
    """A model folder whose weights are random, but large enough for the model to have opinions."""
    folder.mkdir(parents=True)
    settings = TokenizerConfig(**(WORDS if tokenizer is None else tokenizer))
    cut = Tokenizer.train(settings, lines)
    document = {
        "run": {"recipe": kind},
        "data": {"text": ["verse.txt"], "boundaries": boundaries},
        "tokenizer": {name: value for name, value in vars(settings).items() if value is not None},
        "model": {"kind": kind, **SHAPES[kind], **model},
        "training": training or {},
    }
    config = RunConfig.read(document)
    torch.manual_seed(seed)
    built = build_language_model(config.language, cut.vocabulary_size)
    for parameter in built.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.6)
    write_weights(folder / WEIGHTS, model_weights(built))
    write_config(folder, config.document())
    cut.save(folder / "tokenizer.json")
    write_json(folder / METRICS, {"vocabularies": {"text": cut.vocabulary_fingerprint()}})
    return folder
