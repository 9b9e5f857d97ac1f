"""Windows: networks that see the nearest words, at once or in layers.

A place of a convolution sees a few places of the layer below, so what it must remember of the past is the last few
vectors of each layer. They stand in a ring: the vector of place p in slot p mod size, where that of place p - size
stood before, which nobody will ask for again. Slots that were never written hold zeros, as beyond the beginning of
every text.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.nn.encoder_contract import Encoder, Past, after, beginning, cleared, locked_dropout


class Ring:
    """The last `size` vectors of each row, (R, size, dim), as functions of that tensor."""

    @staticmethod
    def unrolled(ring: Tensor, position: Tensor) -> Tensor:
        """Oldest first: (R, size, dim)."""
        return ring.gather(1, Ring._slots(ring, position).expand_as(ring))

    @staticmethod
    def rolled(recent: Tensor, position: Tensor) -> Tensor:
        """The ring of the last vectors before `position`, given oldest first."""
        return torch.empty_like(recent).scatter_(1, Ring._slots(recent, position).expand_as(recent), recent)

    @staticmethod
    def _slots(ring: Tensor, position: Tensor) -> Tensor:
        size = ring.shape[1]
        return ((position[:, None] + torch.arange(size, device=ring.device)) % max(size, 1))[:, :, None]  # (R, size, 1)

    @staticmethod
    def taken(ring: Tensor, position: Tensor, back: Tensor) -> Tensor:
        """The vectors that many places before `position`: back (n,) -> (R, n, dim)."""
        slots = (position[:, None] - back) % max(ring.shape[1], 1)
        return ring.gather(1, slots[:, :, None].expand(-1, -1, ring.shape[2]))

    @staticmethod
    def write(ring: Tensor, position: Tensor, x: Tensor) -> None:
        """x (R, dim) takes its place."""
        if ring.shape[1]:
            slots = (position % ring.shape[1])[:, None, None].expand(-1, 1, ring.shape[2])
            ring.scatter_(1, slots, x[:, None].to(ring.dtype))

    @staticmethod
    def extend(ring: Tensor, position: Tensor, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (R, T, dim) follows: the ring's vectors and x side by side, (R, size + T, dim), and the ring after them."""
        size = ring.shape[1]
        joined = torch.cat([Ring.unrolled(ring, position), x.to(ring.dtype)], dim=1)
        if lengths is None:
            last = joined[:, x.shape[1] :]
        else:
            where = lengths[:, None] + torch.arange(size, device=x.device)  # (R, size)
            last = joined.gather(1, where[:, :, None].expand(-1, -1, x.shape[2]))
        return joined, Ring.rolled(last.detach(), after(position, x, lengths))


def windows(x: Tensor, width: int, *, dilation: int = 1, causal: bool = False) -> Tensor:
    """What each place of a convolution sees: x (B, T, dim) -> (B, T, width * dim), `width` places side by side, oldest
    first, `dilation` apart; the last of them the place itself (causal) or the middle one. Beyond the ends stand zeros.

    A convolution is one product with these, and the same product of the last window is a step of decoding."""
    if width == 1:
        return x
    reach, length = (width - 1) * dilation, x.shape[1]
    before = reach if causal else reach // 2
    x = F.pad(x, (0, 0, before, reach - before))
    return torch.cat([x[:, tap * dilation : tap * dilation + length] for tap in range(width)], dim=-1)


class DeepNetwork(nn.Module):
    """Feed-forward layers: h = tanh(W₁ x + b₁), then h ← h + tanh(W h + b) for every further one; (…, width) ->
    (…, dim).

    Where `hidden` is given the layers are so wide and one product, without tanh, brings them back to dim.
    """

    def __init__(
        self,
        width: int,
        dim: int,
        *,
        layers: int = 1,
        hidden: int | None = None,
        dropout: float = 0.0,
        locked: bool = False,
    ) -> None:
        super().__init__()
        size = hidden or dim
        self.dropout, self.locked = dropout, locked
        self.linear = nn.Linear(width, size)
        self.deeper = nn.ModuleList(nn.Linear(size, size) for _ in range(layers - 1))
        self.out = nn.Linear(size, dim) if hidden is not None else None

    def forward(self, x: Tensor, every: list[Tensor] | None = None) -> Tensor:
        x = locked_dropout(torch.tanh(self.linear(x)), self.dropout, self.training, self.locked)
        for layer in self.deeper:
            if every is not None:
                every.append(x)
            x = x + locked_dropout(torch.tanh(layer(x)), self.dropout, self.training, self.locked)
        if self.out is not None:
            x = self.out(x)
        if every is not None:
            every.append(x)
        return x

    def flops(self) -> float:
        """For each vector."""
        matrices = [self.linear, *self.deeper, *([] if self.out is None else [self.out])]
        return 2.0 * sum(matrix.weight.numel() for matrix in matrices)


class WindowEncoder(Encoder):
    """h_t = tanh(W [x_{t-n+1}; …; x_t] + b): a network that sees the last n words and where each stands among them.

    Not causal, the window is x_{t-n+1} … x_{t+n-1}. Beyond the ends stand zeros. More `layers` follow, each with a
    residual, and `hidden` makes them wider than the words' vectors (Bengio et al. 2003).
    """

    carries = True

    def __init__(
        self,
        dim: int,
        *,
        size: int = 3,
        causal: bool = False,
        layers: int = 1,
        hidden: int | None = None,
        dropout: float = 0.0,
        locked: bool = False,
    ) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"a window holds at least the word itself: size {size} is below 1")
        self.dim, self.size, self.causal = dim, size, causal
        self.places = size if causal else 2 * size - 1
        width = self.places * dim
        self.network = DeepNetwork(width, dim, layers=layers, hidden=hidden, dropout=dropout, locked=locked)

    @property
    def linear(self) -> nn.Linear:
        """W and b of the first layer."""
        return self.network.linear

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        x = F.pad(cleared(x, lengths), (0, 0, self.size - 1, 0 if self.causal else self.size - 1))  # (B, T + …, dim)
        return self.network(self._windows(x), every)

    def _windows(self, x: Tensor) -> Tensor:
        """(B, T + places - 1, dim) -> (B, T, places * dim): every window, its words side by side."""
        return x.unfold(1, self.places, 1).transpose(-2, -1).flatten(2)

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        return {"position": beginning(rows, like), "recent": like.new_zeros(rows, self.size - 1, self.dim)}

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        joined, recent = Ring.extend(past["recent"], past["position"], cleared(x, lengths), lengths)
        new = {"position": after(past["position"], x, lengths), "recent": recent}
        return self.network(self._windows(joined)), new

    def step(self, x: Tensor, past: Past, bound: int | None = None) -> Tensor:
        position, recent = past["position"], past["recent"]
        joined = torch.cat([Ring.unrolled(recent, position), x[:, None].to(recent.dtype)], dim=1)  # (R, size, dim)
        Ring.write(recent, position, x)
        position += 1
        return self.network(joined.flatten(1))

    def flops(self, length: float) -> float:
        return self.network.flops()


class ConvolutionEncoder(Encoder):
    """h ← h + ReLU(W * h + b), in layers: each place sees `width` places of the layer below, so L layers see
    1 + L (width - 1) words, or, with the dilation doubled from layer to layer, 1 + (2^L - 1) (width - 1).

    Causal, a place sees the last ones; otherwise as many on each side (an odd width). `gated`: in the place of ReLU,
    (W * h + b) · σ(V * h + c) (Dauphin et al. 2017). `normalized`: each convolution reads norm(h), and one more norm
    stands at the top.
    """

    carries = True

    def __init__(
        self,
        dim: int,
        *,
        width: int = 3,
        layers: int = 1,
        causal: bool = False,
        dilated: bool = False,
        gated: bool = False,
        normalized: bool = False,
        dropout: float = 0.0,
        locked: bool = False,
    ) -> None:
        super().__init__()
        if width < 1 or (not causal and width % 2 == 0):
            raise ValueError(f"width {width}: a convolution that looks both ways needs an odd one, at least 1")
        self.dim, self.width, self.causal, self.gated = dim, width, causal, gated
        self.dropout, self.locked = dropout, locked
        self.dilations = [2**layer if dilated else 1 for layer in range(layers)]
        out = 2 * dim if gated else dim
        self.layers = nn.ModuleList(nn.Conv1d(dim, out, width, dilation=dilation) for dilation in self.dilations)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) if normalized else nn.Identity() for _ in range(layers + 1))

    @property
    def receptive_field(self) -> int:
        """How many words a place can know of."""
        return 1 + (self.width - 1) * sum(self.dilations)

    def _activated(self, x: Tensor) -> Tensor:
        """(B, dim or twice, T) -> (B, T, dim)"""
        x = F.glu(x, dim=1) if self.gated else F.relu(x)
        return locked_dropout(x.transpose(1, 2), self.dropout, self.training, self.locked)

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        for layer, norm, dilation in zip(self.layers, self.norms, self.dilations):
            reach = (self.width - 1) * dilation
            before = reach if self.causal else reach // 2
            clean = cleared(norm(x), lengths).transpose(1, 2)  # (B, dim, T)
            x = x + self._activated(layer(F.pad(clean, (before, reach - before))))
            if every is not None:
                every.append(x)
        x = self.norms[-1](x)
        if every is not None:
            every[-1] = x
        return x

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        past = {"position": beginning(rows, like)}
        for number, dilation in enumerate(self.dilations):
            past[f"recent{number}"] = like.new_zeros(rows, (self.width - 1) * dilation, self.dim)
        return past

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        new = {"position": after(past["position"], x, lengths)}
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms)):
            name = f"recent{number}"
            joined, new[name] = Ring.extend(past[name], past["position"], cleared(norm(x), lengths), lengths)
            x = x + self._activated(layer(joined.transpose(1, 2)))
        return self.norms[-1](x), new

    def step(self, x: Tensor, past: Past, bound: int | None = None) -> Tensor:
        position = past["position"]
        for number, (layer, norm, dilation) in enumerate(zip(self.layers, self.norms, self.dilations)):
            ring, own = past[f"recent{number}"], norm(x)
            back = torch.arange(self.width - 1, 0, -1, device=x.device) * dilation  # (width - 1,)
            seen = torch.cat([Ring.taken(ring, position, back), own[:, None].to(ring.dtype)], dim=1)  # (R, width, dim)
            Ring.write(ring, position, own)
            x = x + self._activated(F.conv1d(seen.transpose(1, 2), layer.weight, layer.bias))[:, 0]  # type: ignore[arg-type]
        position += 1
        return self.norms[-1](x)

    def flops(self, length: float) -> float:
        return 2.0 * sum(layer.weight.numel() for layer in self.layers)  # type: ignore[operator, misc]
