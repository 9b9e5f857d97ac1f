"""Rings that the hypotheses of a sentence share: what a convolution must remember while several of them go on.

A convolution asks for the last few vectors of the layer below. Of a single row they stand in a ring
(nn/convolution.py). A beam has K rows a sentence, which change places after every token: row 2 goes on with what
row 0 said. Moving every ring of every layer along would mean to copy all that is remembered at every step.

So nothing is moved. The rows of a sentence are branches of one tree, and a ring keeps the tree: slot p mod size has
room for K vectors, where each row leaves its own of place p, for as long as anybody may ask for it. Each row has a list
of its ancestors: which of the K said the word at place p of its path. The lists alone change hands.

    rings       (B, size * K, dim) each, of a sentence
    ancestors   (R, longest), of a row, a ring too
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def begin_rings(
    shapes: Sequence[tuple[int, int]], sentences: int, beam: int, like: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Rings of these (size, dim), nothing said yet: what is kept of sentences, and of rows."""
    memory = {
        f"ring{number}": like.new_zeros(sentences, size * beam, dim)
        for number, (size, dim) in enumerate(shapes)
        if size
    }
    longest = max((size for size, _ in shapes), default=0) or 1
    past = {
        "position": torch.zeros(sentences * beam, dtype=torch.long, device=like.device),
        "ancestors": torch.zeros(sentences * beam, longest, dtype=torch.long, device=like.device),
    }
    return memory, past


class SharedRings:
    """The rings during one step: R = B * beam rows at their positions."""

    def __init__(self, memory: dict[str, Tensor], past: dict[str, Tensor], beam: int) -> None:
        self.memory, self.beam = memory, beam
        self.position, self.ancestors = past["position"], past["ancestors"]
        rows = torch.arange(len(self.position), device=self.position.device)
        self.sentence, self.branch = rows // beam, rows % beam  # (R,)
        self.known: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def places(self, size: int, apart: int) -> tuple[Tensor, Tensor]:
        """In a ring of that size seen as (B * size * K, dim): the vectors `apart` places from each other that a row
        asks for, oldest first, (R * n,), and where it leaves its own, (R,). Layers that are alike share them."""
        if (size, apart) not in self.known:
            back = torch.arange(size, 0, -apart, device=self.position.device)  # (n,)
            asked = self.position[:, None] - back  # (R, n)
            who = self.ancestors.gather(1, asked % self.ancestors.shape[1])
            before = (self.sentence[:, None] * size + asked % size) * self.beam + who
            here = (self.sentence * size + self.position % size) * self.beam + self.branch
            self.known[size, apart] = before.flatten(), here
        return self.known[size, apart]

    def window(self, number: int, x: Tensor, apart: int = 1) -> Tensor:
        """x (R, dim) is the newest vector of that layer: it takes its place, and with those before it, oldest first,
        makes the window (R, width * dim). Before the beginning stand zeros."""
        ring = self.memory.get(f"ring{number}")
        if ring is None:  # a window of one
            return x
        flat = ring.view(-1, ring.shape[-1])
        before, here = self.places(ring.shape[1] // self.beam, apart)
        seen = flat.index_select(0, before).view(len(x), -1)  # read before it is written: the oldest stands there yet
        flat.index_copy_(0, here, x.to(ring.dtype))
        return torch.cat([seen, x.to(ring.dtype)], dim=-1)

    def go_on(self) -> None:
        """The step is done: every row was its own ancestor, and stands one place further."""
        slot = (self.position % self.ancestors.shape[1])[:, None]
        self.ancestors.scatter_(1, slot, self.branch[:, None])
        self.position.add_(1)  # in place: a captured step finds it where it was
