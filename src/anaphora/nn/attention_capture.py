"""Capture: see what any attention of any model looks at, while it runs.

    with capture(model, layers="decoder.blocks.*.cross_attention", heads=[0]) as seen:
        model(source, target)
    seen.weights("decoder.blocks.3.cross_attention")  # (B, 1, T, S)

Fused kernels never form the weights, so a captured layer runs the reference implementation instead: the recorded
weights are the ones that made the output, not a second opinion about them. The answer differs from the fused one only
by rounding. Layers that are not chosen, and all of them when the block has ended, run exactly the operations of a model
that was never captured.

In training, dropout on attention weights draws other random numbers than a fused kernel would. Captures may be nested;
each records what it asked for. A capture listens to the thread that opened it: the same model may work in other threads
meanwhile, unheard and at full speed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

from torch import Tensor, nn

from anaphora.errors import UserError, nearest
from anaphora.nn.attention import MultiHeadAttention
from anaphora.results import brief, count, html_table

_CHANGING = threading.Lock()


class Loaded(Protocol):
    """A model folder in memory."""

    @property
    def model(self) -> Any: ...


@dataclass
class Attended:
    """One call of one attention layer, for the chosen heads."""

    weights: Tensor
    """(B, H, T, S): each row sums to one over the keys it may see, or is all zeros if it may see none; of an attention
    without softmax they are the scores, of any sign and sum. In a decoding step T counts the rows of a sentence and S,
    over what they have said, the places of its tree (t * T + k is what row k said at position t); a row sees its own
    path alone."""
    value: Tensor
    """(B, H, S, D): what the weights weigh."""
    context: Tensor
    """(B, H, T, D): the weighted sums; joined and projected by `out` they are the layer's output."""
    dropped: Tensor
    """(B, H, T, S): the weights after dropout, which is what was multiplied; the weights themselves outside
    training."""

    def __repr__(self) -> str:
        return brief("Attended", None, f"weights {' × '.join(map(str, self.weights.shape))}")


class Seen(Mapping[str, list[Attended]]):
    """What was captured: for the path of each chosen layer, its calls in order."""

    def __init__(self, paths: Sequence[str], heads: Sequence[int] | None, gradients: bool) -> None:
        self.heads = None if heads is None else list(heads)
        self.gradients = gradients
        self.calls: dict[str, list[Attended]] = {path: [] for path in paths}

    def __repr__(self) -> str:
        calls = sum(map(len, self.calls.values()))
        return brief("Seen", ", ".join(self.calls), count(len(self), "layer"), count(calls, "call"))

    def _repr_html_(self) -> str:
        rows = [
            (path, f"{len(calls):,}", " × ".join(map(str, calls[-1].weights.shape)) if calls else "")
            for path, calls in self.calls.items()
        ]
        return html_table(("layer", "calls", "last weights"), rows)

    def __getitem__(self, path: str) -> list[Attended]:
        return self.calls[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def weights(self, path: str) -> Tensor:
        """(B, H, T, S) of the one call of a layer."""
        if path not in self.calls:
            raise KeyError(f"no captured layer {path!r}; {nearest(path, self.calls)}")
        if len(self.calls[path]) != 1:
            raise ValueError(f"{path} was called {len(self.calls[path])} times; ask for seen[path][call]")
        return self.calls[path][0].weights

    def clear(self) -> None:
        """Forget the calls, to go on with the next batch within the same block."""
        for calls in self.calls.values():
            calls.clear()


class _Recorder:
    """The watcher of one layer for one capture."""

    def __init__(self, seen: Seen, path: str) -> None:
        self.seen, self.path = seen, path
        self.thread = threading.get_ident()

    def is_active(self) -> bool:
        return threading.get_ident() == self.thread

    def record(self, weights: Tensor, dropped: Tensor, value: Tensor, context: Tensor) -> None:
        def keep(tensor: Tensor) -> Tensor:
            tensor = tensor if self.seen.heads is None else tensor[:, self.seen.heads]
            if self.seen.gradients:
                return tensor
            # a cache that grows in place must not change what was seen
            # (in inference mode nobody knows what is a view)
            return tensor.detach().clone() if tensor._is_view() or tensor.is_inference() else tensor.detach()

        kept = keep(weights)
        dropped_kept = kept if dropped is weights else keep(dropped)
        self.seen.calls[self.path].append(Attended(kept, keep(value), keep(context), dropped_kept))


def attention_layers(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Every attention layer of a model, by its path."""
    return {path: module for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


@contextmanager
def capture(
    model: nn.Module | Loaded,
    layers: str | Sequence[str] = "*",
    heads: Sequence[int] | None = None,
    *,
    gradients: bool = False,
) -> Iterator[Seen]:
    """Record the attention of the chosen layers and heads for as long as the block lasts.

    model: what `anaphora.load` returned, or its network alone. layers: paths, or patterns with * and ?, as the
    network's `named_modules()` names them. heads: which ones, in this order; all by default. gradients: keep the
    recorded tensors in the graph, to learn from them; without it they hold no graph and no model.
    """
    module = model if isinstance(model, nn.Module) else getattr(model, "model", None)
    if not isinstance(module, nn.Module):
        raise UserError("there is no attention in what was given", cure="give a model that anaphora.load returned")
    known = attention_layers(module)
    if not known:
        raise ValueError("this module holds no MultiHeadAttention, so there is nothing to capture")
    patterns = [layers] if isinstance(layers, str) else list(layers)
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in known):
            raise ValueError(f"no attention layer is called {pattern!r}; {nearest(pattern, known)}")
    chosen = {path: known[path] for path in known if any(fnmatchcase(path, pattern) for pattern in patterns)}
    for path, layer in chosen.items():
        for head in heads or ():
            if not 0 <= head < layer.heads:
                raise ValueError(f"{path} has no head {head}: it has {layer.heads}, counted from 0")
    seen = Seen(list(chosen), heads, gradients)
    recorders = {path: _Recorder(seen, path) for path in chosen}
    with _CHANGING:
        for path, layer in chosen.items():
            layer.hooks = (*layer.hooks, recorders[path])
    try:
        yield seen
    finally:
        with _CHANGING:
            for path, layer in chosen.items():
                layer.hooks = tuple(hook for hook in layer.hooks if hook is not recorders[path])
                if not layer.hooks:
                    del layer.hooks  # the class's own: nobody
