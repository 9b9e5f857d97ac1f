"""Windows into a model: what is drawn from a trace (decoding/alignment.py makes alignments)."""
