"""The parts of sequence models, each usable alone.

    import torch
    from anaphora import nn

    layer = nn.MultiHeadAttention(64, heads=4)
    layer(torch.randn(2, 7, 64), causal=True).shape  # (2, 7, 64)

Shapes, everywhere: vectors are (B, T, dim), token ids (B, T), lengths (B,), and attention weights (B, H, T, S): batch,
heads, queries, keys. What is wrong with a shape is said in one line, a ValueError.

Every name below is imported when it is first used, so that `import anaphora` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anaphora.arguments.public_names import resolved_when_used

if TYPE_CHECKING:
    from anaphora.nn.attention import MultiHeadAttention, attend, attention_weights, explain_backend
    from anaphora.nn.attention_capture import Attended, Seen, capture
    from anaphora.nn.convolution import ConvolutionEncoder, WindowEncoder
    from anaphora.nn.embedding import Embedding
    from anaphora.nn.encoder_contract import Encoder
    from anaphora.nn.encoders import AveragingEncoder, ClassificationHead
    from anaphora.nn.head import VocabularyHead
    from anaphora.nn.masks import Causal, Documents, Mask, Padding, Window, causal_mask, padding_mask
    from anaphora.nn.mixture_of_experts import Experts, MixtureOfExperts
    from anaphora.nn.positions import Alibi, RelativeBias, rotate, rotation, sinusoids
    from anaphora.nn.recurrence import RecurrentEncoder
    from anaphora.nn.sense_network import SenseNetwork
    from anaphora.nn.source_attention import SourceAttention
    from anaphora.nn.transformer import DecoderBlock, EncoderBlock, FeedForward, TransformerEncoder
else:
    __getattr__, __dir__ = resolved_when_used(__name__)

__all__ = [
    "Alibi",
    "Attended",
    "AveragingEncoder",
    "Causal",
    "ClassificationHead",
    "ConvolutionEncoder",
    "DecoderBlock",
    "Documents",
    "Embedding",
    "Encoder",
    "EncoderBlock",
    "Experts",
    "FeedForward",
    "Mask",
    "MixtureOfExperts",
    "MultiHeadAttention",
    "Padding",
    "RecurrentEncoder",
    "RelativeBias",
    "Seen",
    "SenseNetwork",
    "SourceAttention",
    "TransformerEncoder",
    "VocabularyHead",
    "Window",
    "WindowEncoder",
    "attend",
    "attention_weights",
    "capture",
    "causal_mask",
    "explain_backend",
    "padding_mask",
    "rotate",
    "rotation",
    "sinusoids",
]
