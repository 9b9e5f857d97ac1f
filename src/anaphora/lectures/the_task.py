"""Lecture 3: the task. Read As and Bs; if all are As say A, if there is any B say B. Who learns it, and how far?

Five encoders read texts of up to 8 letters and are then asked about longer ones. All obey one contract (layers/
encoders.py) and read from left to right, so that the last vector has what a language model would predict from. Two more
are not learned: recurrent networks whose weights are set by hand, one that adds every word, one that adds only the Bs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.explain.walk import walk_attention
from anaphora.nn.attention_capture import capture
from anaphora.nn.encoders import (
    AveragingEncoder,
    ClassificationHead,
    Encoder,
    RecurrentEncoder,
    WindowEncoder,
)
from anaphora.nn.scores import scores
from anaphora.nn.transformer import EncoderBlock, TransformerEncoder

LETTERS = ["A", "B"]
DIM = 8
LONGEST = 8
"""Letters of the longest text to learn from."""
LENGTHS = (2, 4, 8, 16, 32, 64, 128)
UPDATES, BATCH, RATE = 300, 64, 0.01
SEEDS = (0, 1, 2)
EXACT = torch.float64
"""Sums in this precision differ so little from machine to machine that what is learned can be printed on a page."""

ENCODERS: dict[str, Callable[[], Encoder]] = {
    "averaging": lambda: AveragingEncoder(DIM, causal=True),
    "window of 3": lambda: WindowEncoder(DIM, size=3, causal=True),
    "recurrent": lambda: RecurrentEncoder(DIM),
    "gated (GRU)": lambda: RecurrentEncoder(DIM, cell="gru"),
    "attention": lambda: TransformerEncoder(DIM, heads=1, feed_forward=2 * DIM, causal=True),
}


class Reader(nn.Module):
    """Letters (B, T), lengths (B,) -> a number for A and one for B, (B, 2): embedding, encoder, and a choice from the
    encoder's last vector."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), encoder.dim)
        self.encoder = encoder
        self.head = ClassificationHead(encoder.dim, len(LETTERS), pool="last")

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        return self.head(self.encoder(self.embedding(letters), lengths), lengths)


def texts(count: int, lengths: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Letters (count, longest) and answers (count,): half of the texts have no B, half have one to three, anywhere."""
    answers = torch.arange(count) % 2
    bs = torch.minimum(torch.randint(1, 4, (count,), generator=generator), lengths)
    order = torch.rand(count, int(lengths.max()), generator=generator)
    order = order.masked_fill(torch.arange(order.shape[1]) >= lengths[:, None], 2.0)  # padding comes last
    place = order.argsort(dim=1).argsort(dim=1)  # each letter's place in a random order
    return ((place < bs[:, None]) & (answers == 1)[:, None]).long(), answers


def learn(make: Callable[[], Encoder], seed: int, *, updates: int = UPDATES) -> Reader:
    """A reader that has seen `updates` batches of short texts.

    A loop of its own, because the toolkit's (training/loop.py) reads prepared corpora and keeps a run folder; this one
    makes its texts as it goes and keeps nothing.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = Reader(make()).to(EXACT)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr=RATE)
    for _ in range(updates):
        lengths = torch.randint(1, LONGEST + 1, (BATCH,), generator=generator)
        letters, answers = texts(BATCH, lengths, generator)
        loss = F.cross_entropy(reader(letters, lengths), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return reader.eval().requires_grad_(False)


Answers = Callable[[Tensor, Tensor], Tensor]
"""Letters (B, T), lengths (B,) -> numbers for A and B, (B, 2)."""


def accuracy_one_b(reader: Answers, length: int) -> float:
    """Half for the text of As alone, half for those with one B, at every place there is: nothing is sampled."""
    letters = torch.cat([torch.zeros(1, length), torch.eye(length)]).long()  # (1 + length, length)
    said = reader(letters, torch.full((len(letters),), length)).argmax(dim=-1)
    return (float(said[0] == 0) + (said[1:] == 1).double().mean().item()) / 2


def accuracy_few_bs(reader: Answers, length: int, count: int = 200) -> float:
    """Texts made as those to learn from: half have no B, half have one to three."""
    lengths = torch.full((count,), length)
    letters, answers = texts(count, lengths, torch.Generator().manual_seed(length))
    return (reader(letters, lengths).argmax(dim=-1) == answers).double().mean().item()


def reach(reader: Answers, length: int) -> int:
    """How far back a B is found in a text of As: the last letter alone is 1, all of them are `length`."""
    letters = torch.eye(length).long().flip(0)  # first the text whose B is its last letter
    said = reader(letters, torch.full((length,), length)).argmax(dim=-1)
    return int((said == 1).long().cumprod(dim=0).sum())


# By hand --------------------------------------------------------------------------------------------------------------


def adding(*letters: str) -> RecurrentEncoder:
    """h_t = ReLU(W x_t + h_{t-1}): the state adds the vectors of these letters and passes over the others.

    W has a 1 where a letter is to be added; A is [1, 0], B is [0, 1], so the state is a count of each.
    """
    with torch.random.fork_rng(devices=[]):  # drawn only to be overwritten
        encoder = RecurrentEncoder(len(LETTERS), cell="rnn-relu").to(EXACT)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        weights = dict(encoder.cell.named_parameters())
        for number, letter in enumerate(LETTERS):
            weights["weight_ih_l0"][number, number] = float(letter in letters)
        weights["weight_hh_l0"].copy_(torch.eye(len(LETTERS)))
    return encoder.requires_grad_(False)


def by_hand(letters: Tensor, lengths: Tensor) -> Tensor:
    """The answers of the network that adds only the Bs: B where it has counted one."""
    states = adding("B")(F.one_hot(letters, len(LETTERS)).to(EXACT), lengths)  # (B, T, 2)
    count = states[torch.arange(len(letters)), lengths - 1, 1]
    return torch.stack([torch.full_like(count, 0.5), count], dim=-1)


# The walks ------------------------------------------------------------------------------------------------------------


def the_task() -> list[Walk]:
    """Networks set by hand; the table of who learned it; what the trained attention looks at."""
    readers = {name: [learn(make, seed) for seed in SEEDS] for name, make in ENCODERS.items()}
    return [_by_hand(), _table(readers), _looking(readers["attention"][0]), _found(readers["attention"])]


def _by_hand() -> Walk:
    words = ["A", "A", "B", "A"]
    letters = torch.tensor([[LETTERS.index(word) for word in words]])
    x, lengths = F.one_hot(letters, len(LETTERS)).to(EXACT), torch.tensor([len(words)])
    steps = [Step("x", "", "the vectors of the words", words, LETTERS, x[0], dimensions=True)]
    checks = []
    for what, added in (("every word", ["A", "B"]), ("only the Bs", ["B"])):
        encoder = adding(*added)
        weight = dict(encoder.cell.named_parameters())["weight_ih_l0"]
        state = encoder(x, lengths)[0]  # (4, 2)
        steps.append(Step("W", "", f"adds {what}: which letters", LETTERS, LETTERS, weight, dimensions=True))
        steps.append(Step("h", "h = ReLU(W x + h before)", f"the state that adds {what}", words, LETTERS, state))
        kept = x[0] * torch.tensor([float(letter in added) for letter in LETTERS])
        checks.append(Check(f"its last state is the sum of {what}", float((state[-1] - kept.sum(0)).abs().max()), 0.0))
    return Walk(
        "by-hand",
        "Two recurrent networks, set by hand",
        "The weights of the state are the identity, so what was read stays; W says which words are added.",
        steps,
        checks,
    )


def _table(readers: dict[str, list[Reader]]) -> Walk:
    """Accuracy by length: the mean of the seeds, and the worst."""
    columns = [str(length) for length in LENGTHS]
    rows = [*readers, "set by hand"]
    everyone: list[Sequence[Answers]] = [*readers.values(), [by_hand]]
    ones = [[[accuracy_one_b(reader, n) for n in LENGTHS] for reader in group] for group in everyone]
    few = [[[accuracy_few_bs(reader, n) for n in LENGTHS] for reader in group] for group in everyone]

    def mean(found: list[list[list[float]]]) -> list[list[float]]:
        return [torch.tensor(group, dtype=EXACT).mean(dim=0).tolist() for group in found]

    worst = [torch.tensor(group, dtype=EXACT).amin(dim=0).tolist() for group in ones]
    back = [[float(reach(group[seed % len(group)], LENGTHS[-1])) for seed in range(len(SEEDS))] for group in everyone]
    return Walk(
        "learned",
        f"Learned from up to {LONGEST} letters, asked about up to {LENGTHS[-1]}",
        "Accuracy by length; half of the texts have no B, so 0.50 is what guessing gets.",
        [
            *(
                Step(symbol, "", says, rows, columns, found, decimals=2, shares=True)
                for symbol, says, found in (
                    ("few", f"one to three Bs, as in training; {len(SEEDS)} seeds", mean(few)),
                    ("one", "exactly one B, every place of it", mean(ones)),
                    ("worst", "the same, of the worst seed", worst),
                )
            ),
            Step("back", "", f"how many letters back a B is found, of {LENGTHS[-1]}", rows, _seeds(), back),
        ],
        settings={"longest": LONGEST, "updates": UPDATES, "batch": BATCH, "rate": RATE, "seeds": list(SEEDS)},
    )


def _seeds() -> list[str]:
    return [f"seed {seed}" for seed in SEEDS]


def _block(reader: Reader) -> EncoderBlock:
    assert isinstance(reader.encoder, TransformerEncoder)
    block = reader.encoder.blocks[0]
    assert isinstance(block, EncoderBlock)
    return block


def _looking(reader: Reader) -> Walk:
    """The trained attention on "A A B A", from its own queries and keys to what is said after each letter."""
    words = ["A", "A", "B", "A"]
    letters, lengths = torch.tensor([[LETTERS.index(word) for word in words]]), torch.tensor([len(words)])
    block = _block(reader)
    x = block.around_attention.norm(reader.embedding(letters))  # (1, 4, dim)
    query, key, value = (part[0, 0] for part in block.attention.project(x, None))  # (4, dim) each
    walk = walk_attention(
        query,
        key,
        value,
        rows=words,
        causal=True,
        name="looking",
        title='What the trained attention looks at in "A A B A"',
        says="It reads from left to right; from the third letter on there is a B to find.",
    )
    with capture(reader) as seen:
        reader(letters, lengths)
    used = next(iter(seen.values()))[0].weights[0, 0]
    difference = float((torch.from_numpy(walk.step("A").values) - used).abs().max())
    walk.checks.append(Check("the weights are those the reader used", difference, 1e-12))
    states = reader.encoder(reader.embedding(letters), lengths)  # (1, 4, dim)
    said = reader.head.linear(states)[0].softmax(dim=-1)  # (4, 2)
    says = "what it says after each letter, probabilities"
    walk.steps.append(Step("P", "", says, words, LETTERS, said, decimals=3, shares=True))
    return walk


def _found(readers: Sequence[Reader]) -> Walk:
    """How much of the weight one B gets among growing numbers of As, and by how much its score is higher."""
    weights, margins = [], []
    worst = 0.0
    for reader in readers:
        block = _block(reader)
        both = block.around_attention.norm(reader.embedding(torch.tensor([[0, 1]])))  # (1, 2, dim): an A and a B
        query, key, _ = block.attention.project(both, None)  # (1, 1, 2, dim)
        of_a, of_b = scores(query, key)[0, 0, 0].tolist()  # what an A gives an A, and a B
        odds = math.exp(of_b - of_a)
        margins.append([of_b - of_a, odds + 1])
        weights.append([weight_on_b(reader, n) for n in LENGTHS])
        worst = max(worst, *(abs(found - odds / (odds + n - 1)) for found, n in zip(weights[-1], LENGTHS)))
    rows = _seeds()
    columns = [str(length) for length in LENGTHS]
    return Walk(
        "found",
        "The weight on the one B, as the text grows",
        "The last letter is an A and looks at one B and n - 1 As, wherever the B stands.",
        [
            Step("weight", "", "the weight on the B, by length", rows, columns, weights, decimals=3, shares=True),
            Step(
                "Δ",
                "",
                "by how much its score is higher, and the length at which it has half",
                rows,
                ["Δ", "half at n"],
                margins,
                decimals=1,
            ),
        ],
        [Check("the weight is e^Δ / (e^Δ + n - 1)", worst, 1e-9)],
    )


def weight_on_b(reader: Reader, length: int) -> float:
    """What the last letter, an A, gives to the one B before it: the mean over the places of the B."""
    letters = torch.eye(length).long()[:-1]  # (length - 1, length)
    with capture(reader) as seen:
        reader(letters, torch.full((length - 1,), length))
    weights = next(iter(seen.values()))[0].weights[:, 0, -1]  # (length - 1, length)
    return weights.diagonal().mean().item()
