"""A page that would fetch something from the network ends the build: script, style, picture, font."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
FETCHED = re.compile(r'<(?:script|img|iframe)\b[^>]*\bsrc="https?:|<link\b[^>]*rel="stylesheet"[^>]*href="https?:')
IN_STYLE = re.compile(r"url\([\"']?https?:|@import\s+[\"']https?:")


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is not None:
        return
    for path in (*Path(app.outdir).rglob("*.html"), *Path(app.outdir).rglob("*.css")):
        found = (IN_STYLE if path.suffix == ".css" else FETCHED).search(path.read_text(encoding="utf-8"))
        if found:
            LOGGER.warning("%s fetches from the network: %s", path.name, found[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
