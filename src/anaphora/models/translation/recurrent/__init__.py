"""Recurrent translators: a decoder that carries a state from word to word, and how it hears of the source.

    seq2seq    by one vector, or the states that the encoder came to           seq2seq.py
    bahdanau   it looks at the source before each step                         bahdanau.py
    luong      it looks at the source after each step                          luong.py
    deep-att   sixteen layers, joined by lanes without a recurrence            deep_att.py
    gnmt       sixteen layers, the lowest of the decoder's looks for all       gnmt.py
    moe        five of these layers, and many experts between them             moe.py

recurrent_decoder.py has what they share, recurrent_settings.py what can be chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anaphora.models.translation.encoder_decoder import EncoderDecoder
    from anaphora.models.translation.recurrent.recurrent_settings import (
        BahdanauConfig,
        DeepAttConfig,
        GnmtConfig,
        LuongConfig,
        MoeConfig,
        Seq2seqConfig,
    )
    from anaphora.models.translation.translator_settings import TranslatorConfig


def settings_of(
    kind: str,
) -> type[Seq2seqConfig | BahdanauConfig | LuongConfig | DeepAttConfig | GnmtConfig | MoeConfig]:
    """The settings of one kind."""
    from anaphora.models.translation.recurrent.recurrent_settings import CONFIGS

    return CONFIGS[kind]


def build_recurrent(config: TranslatorConfig, source_vocabulary: int, target_vocabulary: int) -> EncoderDecoder:
    """The translator that the settings describe."""
    from anaphora.models.translation.recurrent import bahdanau, deep_att, gnmt, luong, moe, seq2seq
    from anaphora.models.translation.recurrent import recurrent_settings as settings

    sizes = source_vocabulary, target_vocabulary
    if isinstance(config, settings.Seq2seqConfig):
        return seq2seq.Seq2seqTranslator(config, *sizes)
    if isinstance(config, settings.BahdanauConfig):
        return bahdanau.BahdanauTranslator(config, *sizes)
    if isinstance(config, settings.LuongConfig):
        return luong.LuongTranslator(config, *sizes)
    if isinstance(config, settings.DeepAttConfig):
        return deep_att.DeepAttTranslator(config, *sizes)
    if isinstance(config, settings.MoeConfig):
        return moe.MoeTranslator(config, *sizes)
    assert isinstance(config, settings.GnmtConfig)
    return gnmt.GnmtTranslator(config, *sizes)
