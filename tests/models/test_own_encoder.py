"""An encoder of one's own is one file: settings, module, entry. It then reads for a language model, weighs the senses
of a Backpack and stands in front of a translator's decoder (docs/extending.md shows such a file)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.models import build, build_language_model, settings
from anaphora.models.language.language_settings import LanguageConfig
from anaphora.models.registry import System, forget, register
from anaphora.nn.encoder_contract import Encoder, Past, after, beginning, cleared
from anaphora.nn.encoder_settings import ENCODERS, EncoderConfig, EncoderEntry, register_encoder
from anaphora.nn.recurrence import turned
from anaphora.tokenizers.tokenizer import BOS


class FadingEncoder(Encoder):
    """h_t = W x_t + keep · h_{t-1}: what was read fades; both ways, the same is added from the other end."""

    carries = True

    def __init__(self, dim: int, *, keep: float, causal: bool) -> None:
        super().__init__()
        self.dim, self.keep, self.causal = dim, keep, causal
        self.linear = nn.Linear(dim, dim)

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        x = self.linear(cleared(x, lengths))
        h = self.faded(x, torch.zeros_like(x[:, 0]))
        if not self.causal:
            lengths = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
            h = h + turned(self.faded(turned(x, lengths), torch.zeros_like(x[:, 0])), lengths)
        if every is not None:
            every.append(h)
        return h

    def faded(self, x: Tensor, h: Tensor) -> Tensor:
        states = []
        for one in x.unbind(1):
            h = one + self.keep * h
            states.append(h)
        return torch.stack(states, dim=1)

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        return {"position": beginning(rows, like), "state": like.new_zeros(rows, self.dim)}

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        h = self.faded(self.linear(x), past["state"])
        last = h[:, -1] if lengths is None else h[torch.arange(len(x)), (lengths - 1).clamp(min=0)]
        return h, {"position": after(past["position"], x, lengths), "state": last.detach()}

    def flops(self, length: float) -> float:
        return 2.0 * self.dim**2


@dataclass(kw_only=True)
class FadingConfig(EncoderConfig):
    """What was read fades."""

    keep: float = 0.5
    """How much of the state stays from word to word."""

    encoder_kind: ClassVar[str] = "fading"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.keep < 1:
            raise ValueError(f"keep is {self.keep}; it must be at least 0 and below 1")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> FadingEncoder:
        return FadingEncoder(dim, keep=self.keep, causal=causal)


@dataclass(kw_only=True)
class FadingLanguageConfig(FadingConfig, LanguageConfig):
    """A language model that it reads for."""

    kind: Literal["fading"] = "fading"
    """The kind of model."""


ENCODER = EncoderEntry(kind="fading", settings=FadingConfig)
SYSTEM = System(
    kind="fading",
    task="language",
    settings=FadingLanguageConfig,
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    register_encoder(ENCODER)
    mine = register(SYSTEM)
    yield
    del ENCODERS.registered["fading"]
    forget(str(mine.file))


def steps_are_the_score(model: Any) -> None:
    ids = torch.randint(3, 20, (2, 6), generator=torch.Generator().manual_seed(1))
    state, said, last = model.start(2, 6), [], torch.full((2,), BOS)
    for column in ids.unbind(1):
        logs, state = model.step(last, state)
        said.append(logs.gather(1, column[:, None])[:, 0])
        last = column
    torch.testing.assert_close(torch.stack(said, 1), model.score(ids, torch.tensor([6, 6])), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    "model", [{"kind": "fading", "keep": 0.9}, {"kind": "backpack", "encoder": "fading", "senses": 2, "keep": 0.9}]
)
def test_it_reads_for_a_language_model_and_for_a_backpack(model: dict[str, Any]) -> None:
    made: Any = build_language_model(settings({**model, "dim": 8}), 20)  # type: ignore[arg-type]
    assert isinstance(made.encoder, FadingEncoder) and made.encoder.keep == 0.9 and made.encoder.causal
    steps_are_the_score(made.eval())


@torch.no_grad()
@pytest.mark.parametrize("kind", ["transformer", "bahdanau", "luong", "convs2s"])
def test_it_stands_in_front_of_a_decoder(kind: str) -> None:
    config = settings({"kind": kind, "dim": 8, "layers": 1, "encoder": "fading", "encoder.keep": 0.25})
    made: Any = build(config, 20, 20).eval()  # type: ignore[arg-type]
    assert isinstance(made.encoder, FadingEncoder) and made.encoder.keep == 0.25 and not made.encoder.causal
    assert config.encoder == {"kind": "fading", "keep": 0.25}  # type: ignore[union-attr]
    source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 4))
    assert made(source, target, torch.tensor([5, 3])).shape == (2, 4, 20)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kind": "fading", "keep": 2.0}, "keep is 2.0"),
        ({"kind": "fading", "kep": 0.1}, "did you mean 'keep'"),
        ({"kind": "luong", "encoder": "fading", "encoder.kep": 0.1}, "model.encoder.kep; did you mean 'keep'"),
        ({"kind": "luong", "encoder": "fadin"}, "did you mean 'fading'"),
        ({"kind": "backpack", "encoder": "fading", "heads": 2}, "heads means nothing where encoder is fading"),
    ],
)
def test_mistakes_in_its_settings_are_named_like_ours(said: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        settings(said)


def test_a_name_of_ours_is_refused() -> None:
    with pytest.raises(UserError, match="there is an encoder 'lstm' already"):
        register_encoder(EncoderEntry(kind="lstm", settings=FadingConfig))
