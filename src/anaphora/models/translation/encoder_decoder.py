"""A translator is an encoder and a decoder, any of each.

    source (B, S) → embedding → encoder → memory (B, S, M)
    target (B, T) → embedding → decoder, over the memory → (B, T, D) → projection → logits (B, T, V)

The encoder is one of those that every reader of text has (nn/encoder_contract.py), built by its own settings
(nn/encoder_settings.py). The decoder obeys the contract below: the whole of a known
target at once, or one token after another from a state. What differs between the systems of this folder is the
decoder, so the kind of a model is that of its decoder, and `model.encoder` puts another encoder in front of it.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.models.contracts import DecoderState, Translator, lengths_of
from anaphora.models.translation.translator_settings import TranslatorConfig
from anaphora.nn.embedding import Embedding
from anaphora.nn.encoder_contract import Encoder
from anaphora.nn.head import logits_of_few
from anaphora.nn.masks import padding_mask
from anaphora.nn.mixture_of_experts import mixtures, telling
from anaphora.tokenizers.tokenizer import PAD


class Decoder(nn.Module):
    """The contract: from what was said so far and a memory to vectors that predict the next word."""

    out_dim: int
    """Width of what it says."""
    attends: bool = True
    """Whether `step` can say how much each row looked at each source token."""

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """A known target at once: x (B, T, E), memory (B, S, M), lengths (B,) -> (B, T, out_dim)."""
        raise NotImplementedError

    def start(self, memory: Tensor, lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        """What must be remembered before the first token, with `beam` rows a sentence."""
        raise NotImplementedError

    def step(self, x: Tensor, state: DecoderState, *, attention: bool) -> tuple[Tensor, Tensor | None]:
        """One token a row: x (R, E) -> (R, out_dim), the state changed in place; where asked, what each row looked at,
        (R, S)."""
        raise NotImplementedError

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        """Floating-point operations for each source token, and for each target token, in sentences of those lengths;
        here as if every matrix were used once for each target token."""
        return 0.0, 2.0 * sum(weight.numel() for weight in self.parameters() if weight.dim() > 1)

    def cache_bytes_per_token(self, element: int) -> int:
        """Bytes of state that each token adds, each number `element` bytes."""
        return 0


class EncoderDecoder(Translator):
    """The whole: two embeddings, an encoder, a decoder and the projection to the target vocabulary."""

    capabilities = frozenset({"causal", "steppable", "normalised", "batch-invariant", "attends"})

    def __init__(
        self,
        config: TranslatorConfig,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: Encoder,
        decoder: Decoder,
    ) -> None:
        super().__init__()
        self.config = config
        if not decoder.attends:
            self.capabilities = self.capabilities - {"attends"}
        self.max_source_length = self.max_target_length = config.max_length
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.encoder, self.decoder = encoder, decoder
        vocabulary, width = target_embedding.table.weight.shape
        self.projection = nn.Linear(decoder.out_dim, vocabulary, bias=False)
        nn.init.normal_(self.projection.weight, std=decoder.out_dim**-0.5)
        if config.tie != "none":
            if width != decoder.out_dim:
                raise ValueError(
                    f"tie={config.tie} makes one table of the target's words, which are {width} wide, and of the "
                    f"projection, which is {decoder.out_dim} wide; set model.tie=none"
                )
            self.projection.weight = target_embedding.table.weight
        if config.tie == "all":
            ours, theirs = source_embedding.table.weight.shape, target_embedding.table.weight.shape
            if ours[0] != theirs[0]:
                raise ValueError("tie=all needs one joint vocabulary; set model.tie=target or tokenizer.shared=true")
            if ours[1] != theirs[1]:
                raise ValueError(
                    f"tie=all needs words of one width; the source's have {ours[1]}, the target's {theirs[1]}; set "
                    "model.tie=target"
                )
            source_embedding.table.weight = target_embedding.table.weight
        self.routed = bool(mixtures(self))

    def encode(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        """(B, S) -> memory (B, S, M)"""
        return self.encoder(self.source_embedding(source), source_lengths)

    def forward(self, source: Tensor, target: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        source_lengths = lengths_of(source, target, source_lengths)
        if not self.routed:
            return self._read_and_say(source, target, source_lengths)
        real = padding_mask(source_lengths, source.shape[1])[:, 0, 0], target != PAD  # (B, S), (B, T)
        with telling(self.encoder, real[0]), telling(self.decoder, real[1]):
            return self._read_and_say(source, target, source_lengths)

    def _read_and_say(self, source: Tensor, target: Tensor, source_lengths: Tensor) -> Tensor:
        memory = self.encode(source, source_lengths)
        return self.projection(self.decoder(self.target_embedding(target), memory, source_lengths))

    def start(self, source: Tensor, source_lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        memory = self.encode(source, source_lengths)
        return self.decoder.start(memory, source_lengths, beam, min(max_length, self.max_target_length))

    def step(
        self, tokens: Tensor, state: DecoderState, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        x = self.target_embedding(tokens[:, None], state.past["position"])  # (R, 1, E)
        x, looked = self.decoder.step(x[:, 0], state, attention=attention and "attends" in self.capabilities)
        return F.log_softmax(self.logits(x).float(), dim=-1), state, looked

    def logits(self, x: Tensor) -> Tensor:
        """`projection` for the few rows of a step, (R, out_dim) -> (R, V)."""
        return logits_of_few(x, self.projection.weight)

    def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
        reading, saying = self.decoder.flops(source_length, target_length)
        reading += self.encoder.flops(source_length) + _mixing(self.source_embedding)
        saying += 2.0 * self.projection.weight.numel() + _mixing(self.target_embedding)
        return source_tokens * reading + target_tokens * saying

    def cache_bytes_per_token(self) -> int:
        return self.decoder.cache_bytes_per_token(self.projection.weight.element_size())


def _mixing(embedding: Embedding) -> float:
    """For each token: what joins word and place, where they are concatenated."""
    return 2.0 * embedding.mix.weight.numel() if embedding.kind == "sinusoidal-concatenated" else 0.0
