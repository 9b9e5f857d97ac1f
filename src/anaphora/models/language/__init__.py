"""Neural language models: an embedding, an encoder, a head.

language_settings.py      what each kind is told
reader.py        embedding + encoder, which all of them are made of
causal.py         P(next word | words before it)
masked.py        P(hidden word | words around it)
classifier.py    P(class | text)
published_weights.py     the weights of GPT-2 and BERT under their published names
"""
