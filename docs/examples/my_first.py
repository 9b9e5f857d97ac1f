"""The smallest system of one's own: a running mean of the words read, and one layer on top."""

import torch
from torch import Tensor, nn

import anaphora
from anaphora.nn import Encoder


@anaphora.register("running-mean", task="language")
class RunningMean(Encoder):
    """decay: How much of what was read before is kept from word to word."""

    causal = carries = True

    def __init__(self, dim: int, *, decay: float = 0.8) -> None:
        super().__init__()
        self.dim, self.decay = dim, decay
        self.top = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def start(self, rows: int, max_length: int, like: Tensor) -> dict[str, Tensor]:
        return {"position": like.new_zeros(rows, dtype=torch.long), "mean": like.new_zeros(rows, self.dim)}

    def read(
        self, x: Tensor, past: dict[str, Tensor], lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        words = past["position"].new_full((len(x),), x.shape[1]) if lengths is None else lengths
        mean, found = past["mean"], []
        for place, word in enumerate(x.unbind(dim=1)):  # word (R, dim)
            real = (place < words)[:, None]
            mean = torch.where(real, self.decay * mean + (1 - self.decay) * word, mean)  # padding leaves no trace
            found.append(self.top(torch.cat([word, mean], dim=-1)))
        return torch.stack(found, dim=1), {"position": past["position"] + words, "mean": mean.detach()}
