"""Rings that hypotheses share, beside rows that each carry all they have said."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.models.contracts import DecoderState
from anaphora.nn.shared_rings import SharedRings, begin_rings

SHAPES = [(2, 3), (0, 3), (6, 2)]
"""Windows of three side by side, of one, and of three that are three apart."""
APART = [1, 1, 3]


@settings(max_examples=40)
@given(sentences=st.integers(1, 3), beam=st.integers(1, 4), steps=st.integers(1, 16), seed=st.integers(0, 999))
def test_a_window_is_what_the_row_itself_has_said(sentences: int, beam: int, steps: int, seed: int) -> None:
    """Rows change places within their sentence after every step, and sentences are dropped."""
    draw = torch.Generator().manual_seed(seed)
    memory, past = begin_rings(SHAPES, sentences, beam, torch.zeros(()))
    state = DecoderState(beam=beam, memory=memory, past=past)
    said = [[torch.zeros(0, dim) for _, dim in SHAPES] for _ in range(sentences * beam)]  # row, layer -> (t, dim)
    for _ in range(steps):
        rings, rows = SharedRings(state.memory, state.past, beam), len(said)
        for layer, (size, dim) in enumerate(SHAPES):
            x = torch.randn(rows, dim, generator=draw)
            found = rings.window(layer, x, APART[layer])
            for row in range(rows):
                said[row][layer] = torch.cat([said[row][layer], x[row : row + 1]])
                padded = torch.cat([torch.zeros(size, dim), said[row][layer]])
                assert torch.equal(found[row], padded[len(padded) - 1 - size :: APART[layer]].flatten())
        rings.go_on()
        kept = torch.randint(beam, (rows,), generator=draw) + torch.arange(rows) // beam * beam
        state.reorder(kept)
        said = [list(said[row]) for row in kept.tolist()]
        if rows > beam and torch.rand((), generator=draw) < 0.2:
            state = state.select(torch.arange(1, rows // beam))
            said = said[beam:]


def test_alike_layers_share_where_to_look() -> None:
    memory, past = begin_rings([(4, 2), (4, 5)], 1, 2, torch.zeros(()))
    rings = SharedRings(memory, past, 2)
    assert rings.places(4, 2) is rings.places(4, 2)
    assert rings.places(4, 2)[0].shape == (4,)  # two rows, two places each
