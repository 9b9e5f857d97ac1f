"""BLEU by the length of the source, several models in one picture: what a sentence in one vector costs.

    anaphora evaluate runs/seq2seq --source test.en --target test.de --by-length 5 --json > seq2seq.json
    anaphora evaluate runs/bahdanau --source test.en --target test.de --by-length 5 --json > bahdanau.json
    python benchmarks/by_length.py seq2seq.json bahdanau.json [--picture by-length.png]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from anaphora.evaluation.by_length import LengthBin
from anaphora.explain.draw.lengths_picture import lengths_picture


def read(file: Path) -> tuple[str, list[LengthBin]]:
    document = json.loads(file.read_text(encoding="utf-8"))
    if not document.get("by_length"):
        raise SystemExit(f"{file}: no bins here; make it with `anaphora evaluate … --by-length 5 --json`")
    return Path(document["model"]).name, [LengthBin(**one) for one in document["by_length"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--picture", type=Path, help=".png or .svg")
    arguments = parser.parse_args()
    models = dict(map(read, arguments.files))
    texts = {tuple((one.shortest, one.longest, one.lines) for one in bins) for bins in models.values()}
    if len(models) < len(arguments.files) or len(texts) > 1:
        raise SystemExit("two files are of one model, or of different texts or bins")
    first = next(iter(models.values()))
    print(f"{'words':>8} {'lines':>6} " + " ".join(f"{name[:12]:>12}" for name in models))
    for place, one in enumerate(first):
        print(f"{one.name:>8} {one.lines:6} " + " ".join(f"{bins[place].bleu:12.2f}" for bins in models.values()))
    if arguments.picture:
        arguments.picture.write_bytes(lengths_picture(models, form=arguments.picture.suffix.lower()[1:]))
    print(json.dumps({name: {one.name: round(one.bleu, 2) for one in bins} for name, bins in models.items()}))


if __name__ == "__main__":
    main()
