"""Word vectors: learned from the company that words keep, compared, and exchanged with other tools.

vector_settings.py       what can be chosen                 word_vectors.py   words, their vectors, and what is near
what word2vec.py       learned from the text itself       vector_files.py   files of other tools, both ways
cooccurrence.py   which words stand near which       pace.py      how many threads are quickest
glove.py          learned from that table            pieces.py    threads, checkpoints and how far it has come
"""
