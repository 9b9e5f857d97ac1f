"""The mean of the source beside every word: one vector for the sentence, as in seq2seq, but never forgotten."""

from __future__ import annotations

import torch
from torch import Tensor

from anaphora.models.registry import System
from anaphora.models.translation.encoder_decoder import EncoderDecoder
from anaphora.models.translation.recurrent.recurrent_decoder import Bridge, RecurrentDecoder, embeddings, recurrent
from anaphora.models.translation.recurrent.recurrent_settings import CellConfig
from anaphora.nn.encoder_contract import cleared

POOLED = System(
    kind="pooled",
    rung=3,  # its place in lists, here behind seq2seq; at their end unless given
    task="translation",
    family="recurrent translators",
    settings="anaphora.models.translation.recurrent.recurrent_settings:CellConfig",
    model="anaphora.models.translation.recurrent.pooled:PooledTranslator",
)


class PooledDecoder(RecurrentDecoder):
    """Cells that read each word with the mean of the source's vectors."""

    attends = False  # so its words are aligned by occlusion

    def __init__(self, config: CellConfig) -> None:
        super().__init__()
        c, width = config, config.word_dim + config.memory_dim
        self.out_dim = c.dim
        self.cells = recurrent(c.dim, cell=c.cell, layers=c.decoder_depth, width=width, dropout=c.dropout)
        self.bridge = Bridge(c.memory_dim, self.cells)

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return {"mean": cleared(memory, lengths).sum(dim=1) / lengths[:, None]}  # (B, M)

    def initial_state(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return self.cells.named(self.bridge(memory, lengths))

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        mean = self.source_memory(memory, lengths)["mean"][:, None].expand(-1, x.shape[1], -1)
        return self.cells.read_from(torch.cat([x, mean], dim=-1), self.bridge(memory, lengths))[0]

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        mean = kept["mean"].repeat_interleave(len(x) // len(kept["mean"]), dim=0)  # (R, M)
        return self.cells.step_cells(torch.cat([x, mean], dim=-1), past), None


class PooledTranslator(EncoderDecoder):
    """The whole."""

    def __init__(self, config: CellConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        words = embeddings(config, source_vocabulary, target_vocabulary)
        super().__init__(config, *words, config.build_encoder(), PooledDecoder(config))
