"""Convolutional translators: no state is carried from word to word, so a known target is read all at once.

    bytenet    dilated convolutions over bytes; the decoder stands on the encoder, place upon place      bytenet.py
    convs2s    gated convolutions, and in every decoder layer a look at the source                       convs2s.py

convolutional_decoder.py has what they share, convolutional_settings.py what can be chosen.
"""
