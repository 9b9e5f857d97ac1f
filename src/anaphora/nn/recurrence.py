"""Recurrence: one cell, the same at every place, that carries a state from word to word.

    rnn         h_t = tanh(W x_t + U h_{t-1} + b)
    rnn-relu    the same with ReLU: a state that can count
    gru, lstm   with gates, so that a state can last

A layer runs through a whole text in one call of PyTorch's fused kernels (cuDNN on a GPU), or one word at a time from
the state that it had come to. *Weight dropout* (Merity et al. 2018) drops numbers of U, the same ones at all places: a
recurrent layer can then be regularized without touching its state. The kernels know nothing of it; they are handed a
copy of the weights in which those numbers are zero.

Under autocast cuDNN's kernels are run in the type that was asked for, bfloat16. Left to itself autocast would take
float16, whatever it was asked for, and a gradient that is the mean over thousands of words is smaller than any number
that float16 holds to its full precision; fading from place to place, it would soon be zero. On a CPU they stay in
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from anaphora.errors import nearest
from anaphora.nn.encoder_contract import Encoder, Past, after, beginning, locked_dropout
from anaphora.nn.kernels.attentive import bidirectional_recurrence

Cell = Literal["rnn", "rnn-relu", "gru", "lstm"]
Initial = Literal["uniform", "orthogonal"]
KERNELS: Any = torch._VF
"""What torch.nn.LSTM and the others call."""


class RecurrentEncoder(Encoder):
    """h_t = cell(x_t, h_{t-1}), in layers.

    Not causal, a second cell reads backwards and each has half of the width; rows are then packed, or turned round each
    by itself, so that it begins at a row's last real token and not in padding.

    `hidden` is the width of every layer but the last, which is `dim` wide; `width` that of what is read, if it is not
    dim. Dropout stands between layers, `locked` the same at every place of a row. `initial="orthogonal"`: U begins as a
    rotation (each gate's), which neither shrinks nor stretches a state. `forget_bias` (LSTM): where the bias of the
    gate that keeps the memory begins; None leaves it near 0, where half of the memory is lost with every word.
    """

    carries = True

    def __init__(
        self,
        dim: int,
        *,
        cell: Cell = "rnn",
        layers: int = 1,
        causal: bool = True,
        dropout: float = 0.0,
        hidden: int | None = None,
        locked: bool = False,
        weight_dropout: float = 0.0,
        initial: Initial = "uniform",
        forget_bias: float | None = None,
        width: int | None = None,
    ) -> None:
        super().__init__()
        kinds: dict[str, Callable[..., nn.RNNBase]] = {
            "rnn": nn.RNN,
            "rnn-relu": partial(nn.RNN, nonlinearity="relu"),
            "gru": nn.GRU,
            "lstm": nn.LSTM,
        }
        if cell not in kinds:
            raise ValueError(f"no cell is called {cell!r}; {nearest(cell, kinds)}")
        widths = [hidden or dim] * (layers - 1) + [dim]
        if not causal and any(width % 2 for width in widths):
            raise ValueError(f"two directions share {widths} dimensions: each must be an even number")
        self.dim, self.causal, self.kind, self.widths = dim, causal, cell, widths
        self.dropout, self.locked, self.weight_dropout = dropout, locked, weight_dropout
        self.cells = nn.ModuleList(
            kinds[cell](below, width if causal else width // 2, batch_first=True, bidirectional=not causal)
            for below, width in zip([width or dim, *widths], widths)
        )
        if initial == "orthogonal":
            for name, weight in self.named_parameters():
                if "weight_hh" in name:
                    for gate in weight.detach().split(weight.shape[1]):
                        nn.init.orthogonal_(gate)
        if forget_bias is not None:
            if cell != "lstm":
                raise ValueError(f"a {cell} has no gate that forgets; forget_bias is the LSTM's")
            for name, bias in self.named_parameters():
                if "bias" in name:  # of input, forget, cell and output; two biases are added up
                    bias.detach().chunk(4)[1].fill_(forget_bias if "bias_hh" in name else 0.0)

    @property
    def cell(self) -> nn.RNNBase:
        """The first layer."""
        return self.cells[0]  # type: ignore[return-value]

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        if self.causal or lengths is None:  # padding stands at the end: a state that has read it reaches no real token
            return self._through(x, None, every)[0]
        # packing asks the host for the lengths, and what asks the host cannot be recorded in a graph; and on a CPU the
        # hand-written way back takes less time
        if x.is_cuda or self._learns_by_hand(x):
            return self._through_turned(x, lengths, every)
        packed = _packed(x, lengths)
        y = self._through(packed.data, packed, every)[0]
        if every is not None:
            every[:] = [_unpacked(layer, packed, x.shape[1]) for layer in every]
        return _unpacked(y, packed, x.shape[1])

    def _through(
        self,
        x: Tensor,
        packed: PackedSequence | None = None,
        every: list[Tensor] | None = None,
        states: Sequence[tuple[Tensor, ...]] | None = None,
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """All layers over x (B, T, dim), or (tokens, dim) as `packed` has them, each from its state or from zeros: what
        the last says, and the states (1 or 2, B, width) that they come to."""
        ends = []
        for number, cell in enumerate(self.cells):
            if number and self.training and self.dropout:
                x = self._dropped(x, packed)
            x, end = self._run(cell, x, packed, None if states is None else states[number])  # type: ignore[arg-type]
            ends.append(end)
            if every is not None:
                every.append(x)
        return x, ends

    def _through_turned(self, x: Tensor, lengths: Tensor, every: list[Tensor] | None = None) -> Tensor:
        """Both ways without packing. On a GPU the second cell reads every row turned round, its padding at the end as
        before; the hand-written loop of a CPU holds its state until a row begins."""
        for number, cell in enumerate(self.cells):
            if number:
                x = locked_dropout(x, self.dropout, self.training, self.locked)
            x = self._run_bidirectional(cell, x, lengths)  # type: ignore[arg-type]
            if every is not None:
                every.append(x)
        return x

    def _run_bidirectional(self, cell: nn.RNNBase, x: Tensor, lengths: Tensor) -> Tensor:
        """One layer: x (B, T, width) -> (B, T, 2 · half)"""
        if self._learns_by_hand(x):
            weights = [self._dropped_weights(cell, way)[1] for way in (0, 1)]
            with torch.autocast(x.device.type, enabled=False):
                return bidirectional_recurrence(x.to(weights[0][0].dtype), lengths, weights)
        back = turned(self._run_one_way(cell, turned(x, lengths), 1), lengths)
        return torch.cat([self._run_one_way(cell, x, 0), back], dim=-1)

    def _run_one_way(self, cell: nn.RNNBase, x: Tensor, way: int) -> Tensor:
        """One of the two cells of a layer, over x (B, T, width) from left to right -> (B, T, half)."""
        dtype = _kernel_type(cell.weight_ih_l0)  # type: ignore[arg-type]
        weights = self._weights(cell, dtype, way)
        zeros = x.new_zeros(1, len(x), cell.hidden_size, dtype=dtype)
        with torch.autocast(x.device.type, enabled=False):
            given = (zeros, zeros) if self.kind == "lstm" else zeros
            return self._kernel()(x.to(dtype), given, weights, True, 1, 0.0, self._keeps(), False, True)[0]

    def _learns_by_hand(self, x: Tensor) -> bool:
        """Whether the way back is that of nn/kernels/attentive.py: on a CPU it is the sooner done."""
        return x.device.type == "cpu" and torch.is_grad_enabled() and self.kind in ("gru", "lstm") and x.shape[1] > 0

    def to_the_end(self, x: Tensor, lengths: Tensor) -> list[tuple[Tensor, ...]]:
        """What each layer has come to at its rows' ends: of every layer its states, (B, width), of two directions side
        by side; gradients flow through them."""
        packed = _packed(x, lengths)
        _, ends = self._through(packed.data, packed)
        back = packed.unsorted_indices
        return [tuple(torch.cat(state.unbind(0), dim=-1)[back] for state in states) for states in ends]

    def _dropped(self, x: Tensor, packed: PackedSequence | None) -> Tensor:
        if packed is None:
            return locked_dropout(x, self.dropout, True, self.locked)
        if not self.locked:
            return F.dropout(x, self.dropout)
        rows = _rows(packed)  # (tokens,): one mask a row, wherever its tokens stand
        kept = x.new_empty(int(packed.batch_sizes[0]), x.shape[1]).bernoulli_(1 - self.dropout).div_(1 - self.dropout)
        return x * kept[rows]

    def _run(
        self, cell: nn.RNNBase, x: Tensor, packed: PackedSequence | None, state: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One layer: the fused kernel with its weights, some of them dropped in training."""
        dtype = _kernel_type(cell.weight_ih_l0)  # type: ignore[arg-type]
        x = x.to(dtype)
        both = cell.bidirectional
        if state is None:
            rows = len(x) if packed is None else int(packed.batch_sizes[0])
            zeros = x.new_zeros(2 if both else 1, rows, cell.hidden_size)
            state = (zeros, zeros) if self.kind == "lstm" else (zeros,)
        state = tuple(one.to(dtype).contiguous() for one in state)  # cuDNN refuses slices of something larger
        given = state if self.kind == "lstm" else state[0]
        kernel, weights = self._kernel(), self._weights(cell, dtype)
        with torch.autocast(x.device.type, enabled=False):
            if packed is None:  # with biases, one layer, no dropout inside, rows first
                y, *end = kernel(x, given, weights, True, 1, 0.0, self._keeps(), both, True)
            else:
                y, *end = kernel(x, packed.batch_sizes, given, weights, True, 1, 0.0, self._keeps(), both)
        return y, tuple(end)

    def _keeps(self) -> bool:
        """Whether a kernel keeps what its backward pass needs: cuDNN asks, whether there is dropout or not."""
        return self.training or torch.is_grad_enabled()

    def _kernel(self) -> Callable[..., Any]:
        names = {"rnn": "rnn_tanh", "rnn-relu": "rnn_relu", "gru": "gru", "lstm": "lstm"}
        return getattr(KERNELS, names[self.kind])

    def _weights(self, cell: nn.RNNBase, dtype: torch.dtype, way: int | None = None) -> list[Tensor]:
        """W, U and the biases of one layer, or of one of its two cells, as the kernels want them; in training, numbers
        of U dropped.

        The copies lie in one piece of memory, matrices first and biases after them, which is how cuDNN wants them: else
        it would copy them once more at every call, and say so.
        """
        names, weights = self._dropped_weights(cell, way)
        if not (self.training and self.weight_dropout) and dtype == weights[0].dtype and way is None:
            return weights
        order = sorted(range(len(names)), key=lambda place: "bias" in names[place])  # a stable sort
        flat = torch.cat([weights[place].flatten() for place in order]).to(dtype)
        pieces = flat.split([weights[place].numel() for place in order])
        found = {place: piece.view_as(weights[place]) for place, piece in zip(order, pieces)}
        return [found[place] for place in range(len(names))]

    def _dropped_weights(self, cell: nn.RNNBase, way: int | None = None) -> tuple[list[str], list[Tensor]]:
        """Names and weights where they stand; in training, numbers of U dropped."""
        names, weights = cell._flat_weights_names, cast(list[Tensor], cell._flat_weights)
        if way is not None:
            weights, names = weights[4 * way : 4 * way + 4], names[4 * way : 4 * way + 4]
        if self.training and self.weight_dropout:
            weights = [F.dropout(w, self.weight_dropout) if "weight_hh" in n else w for n, w in zip(names, weights)]
        return names, weights

    # -- stop and go on ------------------------------------------------------------------------------------------------

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        past = {"position": beginning(rows, like)}
        for number, cell in enumerate(self.cells):
            for name in self._names(number):
                past[name] = like.new_zeros(rows, cast(int, cell.hidden_size))
        return past

    def _names(self, number: int) -> tuple[str, ...]:
        return (f"hidden{number}", f"cell{number}") if self.kind == "lstm" else (f"hidden{number}",)

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        states = [tuple(past[name][None] for name in self._names(n)) for n in range(len(self.cells))]
        if lengths is None:
            y, ends = self._through(x, None, None, states)
        else:  # packed, so that each row's state is that of its own end
            packed = _packed(x, lengths)
            order = packed.sorted_indices
            y, ends = self._through(packed.data, packed, None, [tuple(s[:, order] for s in state) for state in states])
            y = _unpacked(y, packed, x.shape[1])
            ends = [tuple(end[:, packed.unsorted_indices] for end in state) for state in ends]
        new = {"position": after(past["position"], x, lengths)}
        for number, state in enumerate(ends):
            for name, end in zip(self._names(number), state):
                end = end[0].detach().to(past[name].dtype)
                # a row of nothing was read as one token, which nobody looks at
                new[name] = end if lengths is None else torch.where((lengths > 0)[:, None], end, past[name])
        return y, new

    def matrices(self) -> list[list[Tensor]]:
        """W, U and the two biases of every layer."""
        return [cast(list[Tensor], cell._flat_weights) for cell in self.cells]

    def initial_state(self, rows: int, like: Tensor) -> list[tuple[Tensor, ...]]:
        """The states before anything is read, zeros: of every layer (R, width), one or, of an LSTM, two."""
        widths = [cast(int, cell.hidden_size) for cell in self.cells]
        return [tuple(like.new_zeros(rows, width) for _ in self._names(0)) for width in widths]

    def read_from(self, x: Tensor, states: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Read on from these states, and learn through them: x (R, T, width) -> (R, T, dim), and the states after it.
        Unlike `read` it says nothing of padding: the states are those behind the last place."""
        y, ends = self._through(x, None, None, [tuple(one[None] for one in state) for state in states])
        return y, [tuple(one[0] for one in state) for state in ends]

    def named(self, states: Sequence[tuple[Tensor, ...]], *, prefix: str = "") -> Past:
        """States under the names by which a past has them."""
        return {
            f"{prefix}{name}": one
            for number, state in enumerate(states)
            for name, one in zip(self._names(number), state)
        }

    def step(self, x: Tensor, past: Past, bound: int | None = None) -> Tensor:
        y = self.step_cells(x, past)
        past["position"] += 1
        return y

    def step_cells(self, x: Tensor, past: Past, *, prefix: str = "") -> Tensor:
        """`step`, but for the position: x (R, width) -> (R, dim)."""
        names = {"rnn": "rnn_tanh_cell", "rnn-relu": "rnn_relu_cell", "gru": "gru_cell", "lstm": "lstm_cell"}
        kernel = getattr(KERNELS, names[self.kind])
        for number, cell in enumerate(self.cells):
            weights = cast(list[Tensor], cell._flat_weights)
            state = [past[prefix + name] for name in self._names(number)]
            x = x.to(weights[0].dtype)
            with torch.autocast(x.device.type, enabled=False):
                ends = kernel(x, state, *weights) if self.kind == "lstm" else (kernel(x, state[0], *weights),)
            for old, new in zip(state, ends):
                old.copy_(new)
            x = ends[0]
        return x

    def flops(self, length: float) -> float:
        return 2.0 * sum(w.numel() for name, w in self.named_parameters() if "weight" in name)


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """Every row turned round, its padding left at the end: x (B, T) or (B, T, dim), lengths (B,)."""
    place = torch.arange(x.shape[1], device=x.device)
    back = lengths[:, None] - 1 - place  # (B, T), below 0 at padding
    index = torch.where(back < 0, place, back)
    return x.gather(1, index if x.dim() == 2 else index[:, :, None].expand_as(x))


def _kernel_type(weight: Tensor) -> torch.dtype:
    """In which type a layer is computed."""
    if weight.is_cuda and torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    return weight.dtype


def _packed(x: Tensor, lengths: Tensor) -> PackedSequence:
    # an empty row is read as one token, which nobody looks at
    return pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)


def _unpacked(data: Tensor, packed: PackedSequence, length: int) -> Tensor:
    """(tokens, dim) in the order of `packed` -> (B, T, dim)"""
    return pad_packed_sequence(packed._replace(data=data), batch_first=True, total_length=length)[0]


def _rows(packed: PackedSequence) -> Tensor:
    """To which row, of those sorted by length, each packed token belongs: (tokens,)."""
    rows = torch.arange(int(packed.batch_sizes[0]), device=packed.data.device)
    return torch.cat([rows[: int(size)] for size in packed.batch_sizes])
