"""The pocket corpus: an English-German grammar that writes a parallel corpus of any size, without a download.

A corpus that fits in a pocket, with what no real one has: gold word alignments, gold word senses, one right
translation for each sentence, and a test that withholds word combinations and numbers. A small model learns it in
minutes on a CPU, so it serves demonstrations, lessons and tests.

    lexicon.py     nouns, verbs, adjectives         morphology.py     German endings
    numbers.py     0-999 and dates                  pocket_phrases.py        noun phrases, adverbials, links
    clauses.py     word order and verb forms        pocket_choices.py        alternatives, sampled and counted
    grammar.py     sentences of one clause          subordination.py  sentences of two
    quantities.py  sentences with numbers           pocket_senses.py         ambiguous words and what decides them
    contexts.py    sentences with ambiguous words   splits.py         train, valid, test; pocket_files.py writes them
"""

from anaphora.pocket.pocket_files import write
from anaphora.pocket.pocket_phrases import PocketPair, SenseLabel, words
from anaphora.pocket.pocket_senses import AMBIGUOUS
from anaphora.pocket.splits import Split, constructions, count_sentences, generate, stream

__all__ = [
    "AMBIGUOUS",
    "PocketPair",
    "SenseLabel",
    "Split",
    "constructions",
    "count_sentences",
    "generate",
    "stream",
    "words",
    "write",
]
