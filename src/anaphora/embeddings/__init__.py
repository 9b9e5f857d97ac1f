"""Word vectors: learned from the company that words keep, compared, and exchanged with other tools.

settings.py   what can be chosen            word2vec.py   learning them, with resume
vectors.py    words, their vectors, and     formats.py    files of other tools, both ways
              what is near what
"""
