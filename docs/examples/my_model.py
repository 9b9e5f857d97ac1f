"""A small RWKV (Peng et al. 2023, 2024): a network as cheap as an RNN that learns in parallel as attention does.

    remembers   S_t = λ S_{t-1} + k_t v_tᵀ        a matrix a head, which fades by its own λ
    answers     y_t = r_t S_{t-1} + u (r_t · k_t) v_t       and u says how much the word itself counts

Written out, S_{t-1} = Σ_{i<t} λ^{t-1-i} k_i v_iᵀ: so all answers of a text come from one product of matrices, and one
at a time from S alone. `read` does both: the words before it are in S, those within are a masked product.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anaphora
from anaphora.models.contracts import DecoderState
from anaphora.models.translation.encoder_decoder import Decoder
from anaphora.nn.encoder_contract import Encoder, Past
from anaphora.nn.masks import padding_mask
from anaphora.nn.source_attention import SourceAttention


def shifted(x: Tensor, last: Tensor) -> Tensor:
    """Each place's vector before it: x (B, T, dim), last (B, dim) what stood before the first -> (B, T, dim)."""
    return torch.cat([last[:, None], x[:, :-1]], dim=1)


def last_of(x: Tensor, last: Tensor, lengths: Tensor) -> Tensor:
    """The last real vector of each row, (B, dim); of a row without any, what stood before it."""
    found = x[torch.arange(len(x)), (lengths - 1).clamp(min=0)]
    return torch.where(lengths[:, None] > 0, found, last)


class Block(nn.Module):
    """Time mixing (a memory of the words before), then channel mixing (a feed-forward network)."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.mix = nn.Parameter(torch.rand(2, dim))  # how much of a word is the word before
        self.rkvg = nn.Linear(dim, 4 * dim, bias=False)
        self.fade = nn.Parameter(torch.linspace(0.0, 4.0, heads))  # λ = sigmoid(fade): short memories and long ones
        self.bonus = nn.Parameter(torch.ones(heads))
        self.out, self.inner, self.outer = nn.Linear(dim, dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, past: list[Tensor], lengths: Tensor) -> tuple[Tensor, list[Tensor]]:
        """x (B, T, dim) after a past: the last vectors of both halves (B, dim), the memory (B, H, D, D)."""
        batch, length, dim = x.shape
        a = self.norms[0](x)
        r, k, v, g = self.rkvg(torch.lerp(a, shifted(a, past[0]), self.mix[0])).chunk(4, dim=-1)
        r, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in (r, k, v))  # (B, H, T, D)
        k = k / k.shape[-1] ** 0.5
        t, fade = torch.arange(length, device=x.device), F.logsigmoid(self.fade)[:, None]  # (T,), (H, 1)
        ago = (t[:, None] - 1 - t).clamp(min=0)  # words between the one that asks and the one remembered
        weight = (fade[..., None] * ago).exp().tril(-1) + torch.diag_embed(self.bonus[:, None].expand(-1, length))
        y = (r @ k.transpose(-1, -2) * weight) @ v + (fade * t).exp()[..., None] * (r @ past[2])  # (B, H, T, D)
        left = lengths[:, None, None] - 1 - t  # (B, 1, T): how long ago a word is when the row ends; below 0, padding
        kept = (fade * left.clamp(min=0)).exp().masked_fill(left < 0, 0.0)  # (B, H, T)
        faded = (fade[..., None] * lengths[:, None, None, None]).exp()  # (B, H, 1, 1)
        memory = faded * past[2] + (k * kept[..., None]).transpose(-1, -2) @ v
        y = self.norms[1](y.transpose(1, 2).reshape(batch, length, dim)) * F.silu(g)
        x = x + self.dropout(self.out(y))
        b = self.norms[2](x)
        hidden = F.relu(self.inner(torch.lerp(b, shifted(b, past[1]), self.mix[1]))) ** 2
        after = [last_of(a, past[0], lengths), last_of(b, past[1], lengths), memory]
        return x + self.dropout(self.outer(hidden)), after


@anaphora.register("rwkv", task="language")
class Rwkv(Encoder):
    """Blocks, each of which remembers a matrix a head.

    heads: Memories of a block, each with dim / heads dimensions.
    layers: How many blocks.
    """

    causal = True
    carries = True  # what it remembers of one piece of a long text is worth having in the next

    def __init__(self, dim: int, *, heads: int = 4, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim ({dim}) must be a multiple of heads ({heads})")
        self.dim, self.heads = dim, heads
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(layers))

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        size, past = self.dim // self.heads, {"position": torch.zeros(rows, dtype=torch.long, device=like.device)}
        for n in range(len(self.blocks)):
            past |= {f"{n}.time": like.new_zeros(rows, self.dim), f"{n}.channel": like.new_zeros(rows, self.dim)}
            past[f"{n}.memory"] = like.new_zeros(rows, self.heads, size, size)
        return past

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        return self.run(x, past, lengths, [])

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        return self.run(x, self.start(len(x), 0, x), lengths, [] if every is None else every)[0]

    def run(self, x: Tensor, past: Past, lengths: Tensor | None, every: list[Tensor]) -> tuple[Tensor, Past]:
        lengths = x.new_full((len(x),), x.shape[1], dtype=torch.long) if lengths is None else lengths
        new = {"position": past["position"] + lengths}
        for n, block in enumerate(self.blocks):
            names = [f"{n}.time", f"{n}.channel", f"{n}.memory"]
            x, after = block(x, [past[name] for name in names], lengths)
            new |= {name: one.detach() for name, one in zip(names, after, strict=True)}
            every.append(x)
        return x, new


@anaphora.register("rwkv-translator", task="translation")
class RwkvDecoder(Decoder):
    """Reads what was said so far by RWKV, looks at the source once, and joins the two.

    heads: Memories of a block.
    """

    def __init__(self, dim: int, *, heads: int = 4, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.rwkv = Rwkv(dim, heads=heads, layers=layers, dropout=dropout)
        self.attention = SourceAttention(dim, dim, score="bilinear")
        self.join = nn.Linear(2 * dim, dim)

    def look(self, y: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """y (B, T, dim) -> what predicts the next words, (B, T, dim), and what was looked at, (B, T, S)."""
        query, mask = self.attention.split(y), padding_mask(lengths, key.shape[2])
        found = self.attention.merge(self.attention.attend(query, key, value, mask=mask))
        return torch.tanh(self.join(torch.cat([y, found], dim=-1))), self.attention.weights_of(query, key, mask=mask)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        return self.look(self.rwkv(x), *self.attention.remember(memory), lengths)[0]

    def start(self, memory: Tensor, lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        key, value = self.attention.remember(memory)
        past = self.rwkv.start(len(memory) * beam, max_length, memory)
        return DecoderState(beam=beam, memory={"key": key, "value": value, "lengths": lengths}, past=past)

    def step(self, x: Tensor, state: DecoderState, *, attention: bool) -> tuple[Tensor, Tensor | None]:
        y = self.rwkv.step(x, state.past)  # (R, dim), and rows of one sentence look at the same source
        y, looked = self.look(y.view(-1, state.beam, self.rwkv.dim), **state.memory)
        return y.flatten(0, 1), looked.flatten(0, 2) if attention else None
