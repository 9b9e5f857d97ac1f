"""The check before training: what is wrong with a corpus, where, and what to do about it.

file_reading.py    every line of every file, whatever its bytes, with its file and line number
encoding.py   damaged characters, and how they are mended where that is safe
pairs.py      empty, identical, repeated, over-long and lopsided pairs; evaluation text inside training
language_guess.py   lines in another script or in the other side's language
shift.py      sides that go apart from some line on
coverage.py   how much of unseen text consists of words that training never showed
findings.py   what is told: kind, file, line, message, cure
check.py      all of them in order
corpus_cleaning.py   the same corpus without what was found
"""
