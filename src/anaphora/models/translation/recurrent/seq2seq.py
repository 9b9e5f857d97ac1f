"""Sequence to sequence without attention (Sutskever et al. 2014; Cho et al. 2014): a sentence in one vector.

    reads    h_s = cell(x_s, h_{s-1}), the source backwards        keeps the states at the end, nothing else
    says     s_t = cell(y_{t-1}, s_{t-1}), beginning from them      P(y_t) = softmax(W s_t)

However long the sentence, what the decoder hears of it has one size: the *bottleneck*. Nothing looks back, so words
are aligned by occlusion. No step waits for a look at the source, so a known target is read in one call of the kernels.

The paper: four layers of 1,000 LSTM cells, the source reversed, states copied layer by layer
(recipes/seq2seq-paper.yaml).
Here also GRU, both directions, and any other encoder; where its states do not fit the decoder's (another cell, another
depth or width, no states at all) the mean of its vectors is the one vector, and a learned matrix makes states of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anaphora.models.keywords import TranslatorKeywords, by_keywords
from anaphora.models.registry import System
from anaphora.models.translation.encoder_decoder import EncoderDecoder
from anaphora.models.translation.recurrent.recurrent_decoder import (
    Bridge,
    RecurrentDecoder,
    States,
    dropped,
    embeddings,
    recurrent,
)
from anaphora.models.translation.recurrent.recurrent_settings import Seq2seqConfig
from anaphora.nn.encoder_contract import cleared
from anaphora.nn.recurrence import RecurrentEncoder, turned

SEQ2SEQ = System(
    kind="seq2seq",
    rung=2,
    task="translation",
    family="recurrent translators",
    settings="anaphora.models.translation.recurrent.recurrent_settings:Seq2seqConfig",
    model="anaphora.models.translation.recurrent.seq2seq:Seq2Seq",
)


class Seq2seqDecoder(RecurrentDecoder):
    """Recurrent layers that begin from a memory of K vectors: the encoder's states themselves, or, bridged, one vector
    of which states are made."""

    attends = False

    def __init__(self, config: Seq2seqConfig, *, bridged: bool) -> None:
        super().__init__()
        c = config
        self.out_dim, self.dropout, self.steps = c.dim, c.dropout, c.unroll == "steps"
        self.cells = recurrent(c.dim, cell=c.cell, layers=c.decoder_depth, width=c.word_dim, dropout=c.dropout)
        self.bridge = Bridge(c.memory_dim, self.cells) if bridged else None

    def states(self, memory: Tensor) -> States:
        """The cells' states, (B, dim), from memory (B, K, M)."""
        if self.bridge is not None:
            return self.bridge(memory, torch.ones_like(memory[:, 0, 0], dtype=torch.long))
        each = iter(memory.unbind(1))
        return [tuple(next(each) for _ in state) for state in self.cells.initial_state(0, memory)]

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        state = self.states(memory)
        if not self.steps:
            y, _ = self.cells.read_from(x, state)
        else:
            said = []
            for word in x.split(1, dim=1):
                one, state = self.cells.read_from(word, state)
                said.append(one)
            y = torch.cat(said, dim=1)
        return dropped(y, self.dropout, self.training)

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return {"lengths": lengths}

    def initial_state(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return self.cells.named(self.states(memory))

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        return self.cells.step_cells(x, past), None

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        bridge = 0.0 if self.bridge is None else 2.0 * self.bridge.linear.weight.numel() / source_length
        return bridge, self.cells.flops(1)


@dataclass(kw_only=True)
class Seq2seqKeywords(Seq2seqConfig, TranslatorKeywords):
    """What `Seq2Seq(…)` takes."""


class Seq2Seq(EncoderDecoder):
    """An encoder folds the source into a state, a decoder unfolds it (Sutskever et al. 2014); no attention.

        model = Seq2Seq(vocabulary=8_000, dim=256)
        logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)

    Its memory is (B, K, M), K not depending on the sentence.
    """

    config: Seq2seqConfig

    @by_keywords(Seq2seqKeywords)
    def __init__(self, config: Seq2seqConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        c, encoder = config, config.build_encoder()
        ours = c.cell, [c.dim] * c.decoder_depth
        self.copies = isinstance(encoder, RecurrentEncoder) and ours == (encoder.kind, encoder.widths)
        words = embeddings(config, source_vocabulary, target_vocabulary)
        super().__init__(config, *words, encoder, Seq2seqDecoder(config, bridged=not self.copies))

    def encode(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        if self.config.reverse_source:
            source = turned(source, source_lengths)
        x = self.source_embedding(source)
        if self.copies:
            assert isinstance(self.encoder, RecurrentEncoder)
            ends = self.encoder.to_the_end(x, source_lengths)
            return torch.stack([one for state in ends for one in state], dim=1)  # (B, K, dim)
        y = cleared(self.encoder(x, source_lengths), source_lengths)
        return (y.sum(dim=1) / source_lengths.clamp(min=1)[:, None]).to(y.dtype)[:, None]  # (B, 1, M)
