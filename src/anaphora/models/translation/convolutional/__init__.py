"""Convolutional translators: no state is carried from word to word, so a known target is read all at once.

    bytenet    dilated convolutions over bytes; the decoder stands on the encoder, place upon place      bytenet.py
    convs2s    gated convolutions, and in every decoder layer a look at the source                       convs2s.py

convolutional_decoder.py has what they share, convolutional_settings.py what can be chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anaphora.models.translation.convolutional.convolutional_settings import ByteNetConfig, ConvS2SConfig
    from anaphora.models.translation.encoder_decoder import EncoderDecoder
    from anaphora.models.translation.translator_settings import TranslatorConfig


def settings_of(kind: str) -> type[ByteNetConfig | ConvS2SConfig]:
    """The settings of one kind."""
    from anaphora.models.translation.convolutional.convolutional_settings import CONFIGS

    return CONFIGS[kind]


def build_convolutional(config: TranslatorConfig, source_vocabulary: int, target_vocabulary: int) -> EncoderDecoder:
    """The translator that the settings describe."""
    from anaphora.models.translation.convolutional import bytenet, convs2s
    from anaphora.models.translation.convolutional import convolutional_settings as settings

    if isinstance(config, settings.ByteNetConfig):
        return bytenet.ByteNetTranslator(config, source_vocabulary, target_vocabulary)
    assert isinstance(config, settings.ConvS2SConfig)
    return convs2s.ConvS2STranslator(config, source_vocabulary, target_vocabulary)
