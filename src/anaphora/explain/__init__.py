"""Windows into a model: what is drawn from a trace (alignment/model_alignment.py makes alignments)."""
