"""What convolutional decoders share: how they are asked for one token.

A known target is read at once, each layer over all places. Asked for one token after another, a layer needs no more of
the past than the few vectors that its window reaches: they stand in rings (nn/shared_rings.py), of a size that
does not depend on how much has been said, so every token costs the same.
"""

from __future__ import annotations

from torch import Tensor

from anaphora.models.contracts import DecoderState
from anaphora.models.translation.encoder_decoder import Decoder
from anaphora.nn.shared_rings import SharedRings, begin_rings


class ConvolutionalDecoder(Decoder):
    """A decoder writes `rings`, `source_memory` and `decode_step`; `forward` is its own."""

    def rings(self) -> list[tuple[int, int]]:
        """Of each layer how many vectors it must remember, and how wide they are."""
        raise NotImplementedError

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """What is kept of the source, (B, …)."""
        raise NotImplementedError

    def decode_step(
        self, x: Tensor, rings: SharedRings, kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        """One step: x (R, E) -> (R, out_dim); where asked, how much each row looked at each source token, (R, S)."""
        raise NotImplementedError

    def start(self, memory: Tensor, lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        exact = memory.to(next(self.parameters()).dtype)  # a step does not go through autocast
        rings, past = begin_rings(self.rings(), len(memory), beam, exact)
        kept = {name: one.contiguous() for name, one in self.source_memory(exact, lengths).items()}
        return DecoderState(beam=beam, memory={**kept, **rings}, past=past)

    def step(self, x: Tensor, state: DecoderState, *, attention: bool) -> tuple[Tensor, Tensor | None]:
        rings = SharedRings(state.memory, state.past, state.beam)
        said = self.decode_step(x, rings, state.memory, attention=attention)
        rings.go_on()
        return said
