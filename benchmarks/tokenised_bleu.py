"""BLEU as the Multi30k papers count it: lower-cased, on Moses tokens of both sides.

    python benchmarks/tokenised_bleu.py --hypotheses translations.de --references test_2016_flickr.de.gz --language de

Their scores are not those of sacreBLEU on raw text, so the two must not be compared; this prints both. Needs sacremoses
(`pip install -e '.[interop]'`). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json

from anaphora.data.formats import read_rows
from anaphora.evaluation.translation_metrics import bleu


def moses(lines: list[str], language: str) -> list[str]:
    """Normalised punctuation and Moses tokens, entities left as they are."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalize, tokenize_text = MosesPunctNormalizer(lang=language).normalize, MosesTokenizer(lang=language).tokenize
    return [tokenize_text(normalize(line), return_str=True, escape=False) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hypotheses", required=True)
    parser.add_argument("--references", required=True)
    parser.add_argument("--language", required=True, help="de, en, fr …")
    arguments = parser.parse_args()
    rows = list(read_rows({"source": [arguments.hypotheses], "target": [arguments.references]}))
    hypotheses, references = [row[0] for row in rows], [row[1] for row in rows]
    raw = bleu(hypotheses, references)
    tokenized = bleu(
        moses(hypotheses, arguments.language), moses(references, arguments.language), tokenize="none", lowercase=True
    )
    print(f"raw, cased:              {raw.value:.2f}  {raw.signature}")
    print(f"tokenised, lower-cased:  {tokenized.value:.2f}  {tokenized.signature}")
    print(json.dumps({"raw": vars(raw), "tokenised": vars(tokenized), "lines": len(rows)}))


if __name__ == "__main__":
    main()
