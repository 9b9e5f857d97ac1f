"""The pocket corpus as files: plain text, Pharaoh alignments, sense labels."""

import os
from pathlib import Path

from anaphora.folder import write_text
from anaphora.pocket.pocket_phrases import PocketPair
from anaphora.pocket.splits import Split, count_sentences, generate

_README = """The pocket corpus of Anaphora: English and German sentences written by a grammar.

Seed {seed}: {sizes}. The grammar has {sentences:,} sentences.

Line n of every file of a split belongs to sentence n (counted from 0 where a file names lines).

  SPLIT.en, SPLIT.de   raw text, one sentence a line. Each English sentence has exactly one translation.
  SPLIT.align          gold word alignment, Pharaoh format: "i-j" pairs, English word i, German word j, from 0.
  SPLIT.senses         ambiguous words, tab separated: line, word index, word, sense, German word index.
  SPLIT.withheld       combinations, numbers and dates that training never contains, separated by "; ";
                       empty lines for the others. Three test sentences in ten have some.

Words are counted after splitting off punctuation: anaphora.text.pocket.words, that is the matches of
  \\w+(?:[-'’]\\w+)*|[^\\w\\s]
so "twenty-three" and "farmer's" are one word each and the final full stop is a word.

Alignments come from the derivation. Every noun, verb, adjective, number, name and pronoun is aligned; a German word
that says two English words (im = in the, kaufte = did buy) is aligned to both, and so are the two German words of a
separable verb (lud ... ein). Unaligned: commas that only one language writes, "of" in dates, and the article that
German adds in "der Hund des Bauern" (the farmer's dog).
"""


def write(
    folder: str | os.PathLike[str], *, train: int = 40_000, valid: int = 1000, test: int = 1000, seed: int = 1
) -> None:
    """Write the corpus into a folder, made if missing. Each file appears whole or not at all.

    Args:
        folder: where to.
        train: sentences of the training split.
        valid: sentences of the validation split.
        test: sentences of the test split.
        seed: of all three.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sizes: dict[Split, int] = {"train": train, "valid": valid, "test": test}
    for split, size in sizes.items():
        for ending, lines in _files(generate(split, size, seed)).items():
            write_text(folder / f"{split}.{ending}", "".join(f"{line}\n" for line in lines))
    summary = ", ".join(f"{size:,} {split}" for split, size in sizes.items())
    write_text(folder / "README.txt", _README.format(seed=seed, sizes=summary, sentences=count_sentences()))


def _files(pairs: list[PocketPair]) -> dict[str, list[str]]:
    """File ending -> lines."""
    return {
        "en": [pair.source for pair in pairs],
        "de": [pair.target for pair in pairs],
        "align": [" ".join(f"{i}-{j}" for i, j in pair.alignment) for pair in pairs],
        "senses": [
            f"{n}\t{label.index}\t{label.word}\t{label.sense}\t{label.target_index}"
            for n, pair in enumerate(pairs)
            for label in pair.senses
        ],
        "withheld": ["; ".join(pair.withheld) for pair in pairs],
    }
