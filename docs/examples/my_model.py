"""A small RWKV (Peng et al. 2023): a network that learns in parallel as attention does and speaks as cheaply as an RNN.

    remembers   S_t = λ S_{t-1} + k_t v_tᵀ                  a matrix a head, which fades by a λ of its own
    answers     y_t = r_t S_{t-1} + u (r_t · k_t) v_t       u: how much the word itself counts

Written out, S_{t-1} = Σ_{i<t} λ^{t-1-i} k_i v_iᵀ. So the answers of a whole piece of text are one masked product of
matrices, as attention is, while the next word alone needs no more than S.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anaphora
from anaphora.models import Decoder, DecoderState
from anaphora.nn import Encoder, SourceAttention, padding_mask

Past = dict[str, Tensor]
PIECE = 64  # words whose masked product is formed at once; S carries what came before them


class Block(nn.Module):
    """Time mixing, which remembers the words before, then a feed-forward network."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.norm, self.norm_answer, self.norm_inner = (nn.LayerNorm(dim) for _ in range(3))
        self.mix = nn.Parameter(torch.rand(dim))  # how much of the word before is mixed into each word
        self.rkvg = nn.Linear(dim, 4 * dim, bias=False)
        self.fade = nn.Parameter(torch.linspace(0.0, 4.0, heads))  # λ = sigmoid(fade): short memories and long ones
        self.bonus = nn.Parameter(torch.ones(heads))  # u
        self.out, self.inner, self.outer = nn.Linear(dim, dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, last: Tensor, memory: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, dim), after the vector `last` (B, dim) and the memory S (B, H, D, D) -> the same three."""
        batch, length, dim = x.shape
        a = self.norm(x)
        before = torch.cat([last[:, None], a[:, :-1]], dim=1)  # (B, T, dim): of each word the one before it
        *rkv, gate = self.rkvg(torch.lerp(a, before, self.mix)).chunk(4, dim=-1)
        r, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in rkv)  # (B, H, T, D)
        k = k / k.shape[-1] ** 0.5

        t, fade = torch.arange(length, device=x.device), F.logsigmoid(self.fade)[:, None]  # (T,); log λ, (H, 1)
        ago = (t[:, None] - 1 - t).clamp(min=0)  # (T, T): words between the one that asks and the one remembered
        weight = (fade[..., None] * ago).exp().tril(-1) + torch.diag_embed(self.bonus[:, None].expand(-1, length))
        y = (r @ k.mT * weight) @ v + (fade * t).exp()[..., None] * (r @ memory)  # (B, H, T, D)

        left = lengths[:, None, None] - 1 - t  # (B, 1, T): words that follow in the row; below 0: padding
        kept = (fade * left.clamp(min=0)).exp().masked_fill(left < 0, 0.0)  # (B, H, T)
        memory = (fade[..., None] * lengths[:, None, None, None]).exp() * memory + (k * kept[..., None]).mT @ v
        end = a[torch.arange(batch), (lengths - 1).clamp(min=0)]
        last = torch.where(lengths[:, None] > 0, end, last)  # a row without words stays as it was

        y = self.norm_answer(y.transpose(1, 2).reshape(batch, length, dim)) * F.silu(gate)
        x = x + self.dropout(self.out(y))
        return x + self.dropout(self.outer(F.relu(self.inner(self.norm_inner(x))) ** 2)), last, memory


@anaphora.register("rwkv", task="language")
class Rwkv(Encoder):
    """Blocks, each with a memory.

    heads: Memories of a block, each of dim / heads times dim / heads numbers.
    layers: How many blocks.
    """

    causal = True  # it never looks ahead, so it can be a language model
    carries = True  # what it remembers of one piece of a long text is worth having in the next

    def __init__(self, dim: int, *, heads: int = 4, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim ({dim}) must be a multiple of heads ({heads})")
        self.dim, self.heads = dim, heads
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(layers))

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        """What is known before the first word, of so many rows: named tensors whose first dimension is the row."""
        size, past = self.dim // self.heads, {"position": torch.zeros(rows, dtype=torch.long, device=like.device)}
        for n in range(len(self.blocks)):
            past[f"last{n}"] = like.new_zeros(rows, self.dim)
            past[f"memory{n}"] = like.new_zeros(rows, self.heads, size, size)
        return past

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        """Goes on: x (R, T, dim), of which lengths (R,) are words -> (R, T, dim), and what is known then."""
        lengths = past["position"].new_full((len(x),), x.shape[1]) if lengths is None else lengths
        past, found = {**past, "position": past["position"] + lengths}, []
        for begin in range(0, x.shape[1], PIECE):
            y, words = x[:, begin : begin + PIECE], (lengths - begin).clamp(0, PIECE)
            for n, block in enumerate(self.blocks):
                y, past[f"last{n}"], past[f"memory{n}"] = block(y, past[f"last{n}"], past[f"memory{n}"], words)
            found.append(y)
        return torch.cat(found, dim=1), {name: one.detach() for name, one in past.items()}


@anaphora.register("rwkv-translator", task="translation")
class RwkvDecoder(Decoder):
    """Rwkv reads what was said so far, attention looks at the source, and both together predict the next word.

    heads: Memories of a block.
    """

    def __init__(self, dim: int, *, heads: int = 4, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.rwkv = Rwkv(dim, heads=heads, layers=layers, dropout=dropout)
        self.attention = SourceAttention(dim, dim, score="bilinear")
        self.join = nn.Linear(2 * dim, dim)

    def predict(self, y: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> Tensor:
        """y (B, T, dim), and of the source keys, values and lengths -> (B, T, dim)"""
        query, mask = self.attention.split(y), padding_mask(lengths, key.shape[2])
        looked = self.attention.merge(self.attention.attend(query, key, value, mask=mask))
        return torch.tanh(self.join(torch.cat([y, looked], dim=-1)))

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        return self.predict(self.rwkv(x), *self.attention.remember(memory), lengths)

    def start(self, memory: Tensor, lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        key, value = self.attention.remember(memory)
        past = self.rwkv.start(len(memory) * beam, max_length, memory)
        return DecoderState(beam=beam, memory={"key": key, "value": value, "lengths": lengths}, past=past)

    def step(self, x: Tensor, state: DecoderState, *, attention: bool) -> tuple[Tensor, Tensor | None]:
        y = self.rwkv.step(x, state.past).view(-1, state.beam, x.shape[-1])  # (B, beam, dim)
        found, weights = self.predict(y, **state.memory).flatten(0, 1), None
        if attention:
            mask = padding_mask(state.memory["lengths"], state.memory["key"].shape[2])
            weights = self.attention.weights_of(self.attention.split(y), state.memory["key"], mask=mask).flatten(0, 2)
        return found, weights
