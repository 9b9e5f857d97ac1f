"""Recurrent translators: a decoder that carries a state from word to word, and how it hears of the source.

    seq2seq    by one vector, or the states that the encoder came to           seq2seq.py
    bahdanau   it looks at the source before each step                         bahdanau.py
    luong      it looks at the source after each step                          luong.py
    deep-att   sixteen layers, joined by lanes without a recurrence            deep_att.py
    gnmt       sixteen layers, the lowest of the decoder's looks for all       gnmt.py
    moe        five of these layers, and many experts between them             moe.py

recurrent_decoder.py has what they share, recurrent_settings.py what can be chosen.
"""
