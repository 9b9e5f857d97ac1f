"""CUDA graphs: the kernels of one forward and backward pass, recorded once and replayed with a single launch.

A small model on a fast GPU waits for Python: an update of the 256 wide, 6 + 6 layer translator is some 1,400 kernels of
about ten microseconds each, and launching one takes longer than running it. A recorded graph starts them all at once.
It is bound to the addresses and shapes it was recorded with, so inputs are copied into fixed tensors and batches come
in few shapes (`Batches` with `multiple` and filled-up rows). Gradients live in fixed tensors too, and replaying adds to
them. Dropout draws new noise at every replay: the generator's place is an input of the graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anaphora.errors import UserError, first_line
from anaphora.training.training_settings import TrainingConfig

Learn = Callable[[Any, Tensor], Tensor]
"""Forward and backward over a batch, the loss divided by a number of tokens: (batch, tokens ()) -> loss ()."""

MOST_GRAPHS = 160
"""Shapes beyond this many are rare ones; they run kernel by kernel."""
WIDTH_MULTIPLE = 4
"""Widths are rounded up to this, so that batches have few shapes; on Multi30k some 60 of them."""


def graphs_pay(config: TrainingConfig, device: torch.device) -> bool:
    """Whether this run records and replays; its batches then come in few shapes."""
    # lessons of guided alignment come in too many shapes to be recorded, and so does what a model says of itself
    other = "guided_alignment" if config.guided_alignment else f"objective={config.objective}"
    able = device.type == "cuda" and not config.guided_alignment and config.objective == "likelihood"
    if config.cuda_graphs == "on" and not able:
        why = "needs a GPU" if device.type != "cuda" else f"does not go with training.{other}"
        raise UserError(f"training.cuda_graphs=on {why}", cure="leave it out: auto uses graphs where it can")
    return able and config.cuda_graphs != "off"


@dataclass
class Recording:
    graph: torch.cuda.CUDAGraph
    batch: Any  # its tensors are the graph's inputs
    tokens: Tensor
    loss: Tensor  # the graph's output


class GraphedLearning:
    """`learn`, recorded for each shape of batch at its second appearance, replayed from then on.

    Recordings share one memory, and what runs by kernels has another, as large. Where both do not fit beside each
    other, a new shape is recorded at its first appearance: it never asks for the second one.
    """

    def __init__(
        self,
        learn: Learn,
        parameters: Iterable[nn.Parameter],
        device: torch.device,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.learn = learn
        self.say = say
        self.most = MOST_GRAPHS
        self.device = device
        self.seen: set[tuple[Any, ...]] = set()
        self.recordings: dict[tuple[Any, ...], Recording] = {}
        self.pool = torch.cuda.graph_pool_handle()  # one graph runs at a time, so all share one memory
        self.held = 0  # bytes of it
        self.stream = torch.cuda.Stream(device)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)  # backward adds to it, at this address, forever

    def __call__(self, batch: Any, tokens: int) -> Tensor:
        tensors = tensors_of(batch)
        shape = tuple((name, *tensor.shape) for name, tensor in tensors.items())
        recording = self.recordings.get(shape)
        if recording is None and len(self.recordings) < self.most and (shape in self.seen or self.is_tight()):
            recording = self.try_record(batch)
            if recording is not None:
                self.recordings[shape] = recording
        if recording is None:
            self.seen.add(shape)
            # on the recording stream: whatever a first pass sets up (handles, workspaces) is there when recording
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                loss = self.learn(batch, torch.full((), float(tokens), device=self.device))
            torch.cuda.current_stream().wait_stream(self.stream)
            return loss
        for name, tensor in tensors_of(recording.batch).items():
            tensor.copy_(tensors[name], non_blocking=True)
        recording.tokens.fill_(tokens)
        recording.graph.replay()
        return recording.loss.clone()  # the next replay writes there again

    def is_tight(self) -> bool:
        """Whether a pass by kernels finds less memory than recordings hold: what is free, and what the allocator keeps
        for such passes."""
        if not self.recordings:
            return False
        free, _ = torch.cuda.mem_get_info(self.device)
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return free + max(0, unused - self.held) < self.held

    def try_record(self, batch: Any) -> Recording | None:
        """Graphs keep memory of their own, so they may not fit where the kernels alone do: then no more of them."""
        try:
            return self.record(batch)
        except torch.OutOfMemoryError:
            self.most = 0
            torch.cuda.empty_cache()
            self.say(f"no memory for more CUDA graphs: keeping {len(self.recordings)}, other batches run without")
            return None
        except RuntimeError as error:  # some kernel asks the host for something, which a recording cannot
            self.most = 0
            torch.cuda.synchronize(self.device)
            self.say(f"no CUDA graphs ({first_line(error)}): running without")
            return None

    def record(self, batch: Any) -> Recording:
        """Nothing is computed here: kernels are noted down instead of run."""
        fixed = dataclasses.replace(batch, **{name: tensor.clone() for name, tensor in tensors_of(batch).items()})
        tokens = torch.ones((), device=self.device)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.empty_cache()  # as recording does itself; here, so that what it takes can be counted
        before = torch.cuda.memory_reserved(self.device)
        # thread_local: another thread that prepares batches may allocate pinned memory meanwhile
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            loss = self.learn(fixed, tokens)
        self.held += max(0, torch.cuda.memory_reserved(self.device) - before)
        return Recording(graph, fixed, tokens, loss)


def tensors_of(batch: Any) -> dict[str, Tensor]:
    """The fields of a batch that are tensors; the others are numbers known on the host."""
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
