"""What a model folder says of the files it was made from: their names, and not where they stood on somebody's disk.

config.yaml, card.md, metrics.json and the reports of comparisons are what one shares, and a path such as
/home/ann/secret/train.en tells more than it should. Nobody needs it: whether a text is the same is told by its content,
and a command that is repeated names its files again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

NAMING = {
    "run": ("recipe", "start_from"),
    "data": (
        *("source", "target", "valid_source", "valid_target", "text", "valid_text", "labels", "valid_labels"),
        "phrases_from",
    ),
    "tokenizer": ("words",),
    "model": ("embedding_from",),
    "decoding": ("dictionary",),
}
"""Settings that name files and folders, by section. (The parts of a mixture are folders inside it, and stay.)"""


def name_of(path: str | PathLike[str]) -> str:
    """The name of a file or a folder alone; of ".", that of the folder it stands for."""
    name = Path(path).name
    return name if name not in ("", "..") else Path(path).resolve().name


def names_of(paths: Iterable[str | PathLike[str]]) -> list[str]:
    return [name_of(path) for path in paths]


def by_name(document: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the names of their files alone: what config.yaml holds, and what the settings of a run are compared
    by (one that was begun before names were kept has whole paths)."""
    named = dict(document)
    for section, keys in NAMING.items():
        content = named.get(section)
        if isinstance(content, Mapping):
            named[section] = {key: _named(value) if key in keys else value for key, value in content.items()}
    return named


def as_wished(document: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as config.yaml holds them: by name, unless `data.paths` is full."""
    data = document.get("data")
    return dict(document) if isinstance(data, Mapping) and data.get("paths") == "full" else by_name(document)


def paths_in(document: Mapping[str, Any], metrics: Mapping[str, Any]) -> set[str]:
    """The files and folders that a model's settings and metrics name by more than their names: those of models that
    were made before names were kept."""
    found: list[Any] = [
        content.get(key)
        for section, keys in NAMING.items()
        if isinstance(content := document.get(section), Mapping)
        for key in keys
    ]
    trained = metrics.get("trained_on")
    if isinstance(trained, Mapping):
        found += [trained.get(key) for key in (*NAMING["run"], *NAMING["data"])]
    found.append(metrics.get("converted_from"))
    for whole in (metrics.get("mixture"), metrics.get("ensemble")):
        parts = whole.get("parts") if isinstance(whole, Mapping) else None
        found += [part.get("model") for part in parts or () if isinstance(part, Mapping)]
    flat = [path for one in found for path in (one if isinstance(one, list) else [one])]
    return {path for path in flat if isinstance(path, str) and path and name_of(path) != path}


def without_folders(content: Any, paths: Iterable[str]) -> Any:
    """Metrics, a card or a report, with the names of these files in place of their paths."""
    longest_first = sorted(paths, key=len, reverse=True)
    if isinstance(content, Mapping):
        return {key: without_folders(value, longest_first) for key, value in content.items()}
    if isinstance(content, list):
        return [without_folders(value, longest_first) for value in content]
    if isinstance(content, str):
        for path in longest_first:
            content = name_of(path).join(re.split(rf"(?<!\w){re.escape(path)}", content))
    return content


def _named(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_named(one) for one in value]
    return name_of(value) if isinstance(value, str | PathLike) else value
