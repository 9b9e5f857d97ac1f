"""An encoder is a configuration: one class of settings for each, which builds it, and the list of them all.

    transformer      attention, in layers                                  nn/transformer_settings.py
    lstm, gru, rnn   a cell that carries a state from word to word         nn/recurrence_settings.py
    conv             gated convolutions, in layers                         nn/convolution_settings.py
    window           a network over the nearest words                      nn/convolution_settings.py
    dan              the mean of all words; order is lost                  nn/averaging_settings.py
    deep-att         LSTM layers in turning directions, with fast lanes    models/translation/recurrent/
    gnmt             one layer both ways, then one way with residuals      models/translation/recurrent/
    moe              LSTM layers with a mixture of experts between them    models/translation/recurrent/
    convs2s          gated convolutions without norms, their size kept     models/translation/convolutional/
    bytenet          dilated convolutions, each layer seeing twice as far  models/translation/convolutional/

Whatever reads text has one of these: language models, classifiers, Backpacks, translators of any decoder. An entry
beside the settings makes an encoder known; entries are read as text, so that a list of all costs no import, and
settings need no torch: it is imported by `build`.

    config = encoder_class("lstm")(layers=2)
    encoder = config.build(256, causal=True, dropout=0.1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from anaphora.config import above_zero
from anaphora.errors import UserError, nearest
from anaphora.files.entries import loaded, read_entries
from anaphora.nn.choices import Positions, check_depth

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder


@dataclass(frozen=True, kw_only=True)
class EncoderEntry:
    """What an encoder is called (`model.encoder`), and where its settings are: the class, or "module:Class"."""

    kind: str
    settings: str | type[EncoderConfig]


@dataclass(kw_only=True)
class EncoderConfig:
    """What all encoders are told. A class of settings has its own fields, says what sort of encoder it is, and builds
    it. Widths and dropout belong to the whole that the encoder is part of: `build` is given them."""

    encoder_kind: ClassVar[str] = ""
    """What it is called."""
    one_way: ClassVar[bool] = True
    """Whether it can read one way only, as a language model must."""
    two_directions: ClassVar[bool] = False
    """Whether it reads both ways with a cell for each, which share its width."""
    any_width: ClassVar[bool] = False
    """Whether the vectors that it reads may be wider or narrower than those that it makes."""
    placed: ClassVar[bool] = False
    """Whether vectors that it reads should say where they stand: it does not go from one to the next by itself."""
    hidden_of_decoder: ClassVar[bool] = False
    """Whether its cells are as wide as those of a recurrent decoder behind it, unless told otherwise."""
    in_front: ClassVar[Mapping[str, Any]] = {}
    """Its settings in front of a translator's decoder, where they are others than elsewhere."""

    def __post_init__(self) -> None:
        layers = getattr(self, "layers", None)
        above_zero(self, "layers")
        check_depth(layers=layers)

    @property
    def source_positions(self) -> Positions:
        """What vectors that it reads in front of a decoder say of where they stand."""
        return "sinusoidal" if self.placed else "none"

    def check_dim(self, dim: int, *, causal: bool = False, named: str = "dim") -> None:
        """A ValueError for a width that it cannot have; named: the settings that the width comes from."""
        if self.two_directions and not causal and dim % 2:
            raise ValueError(f"two directions share {dim} dimensions: make {named} even")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        """The encoder, with fresh weights: it reads vectors that are `width` wide (dim unless given) and makes such of
        `dim`; causal, it reads one way. Dropout stands between layers, `locked` the same at every place of a row."""
        raise NotImplementedError(f"{type(self).__name__} builds nothing")


def register_encoder(entry: EncoderEntry) -> EncoderEntry:
    """Make an encoder known: from now on `model.encoder` may name it."""
    if entry.kind in ENCODERS.ours:
        raise UserError(f"there is an encoder {entry.kind!r} already", cure="give yours another name")
    ENCODERS.registered[entry.kind] = entry
    return entry


def encoder_class(kind: str) -> type[EncoderConfig]:
    """The settings of the encoder with that name; their file is imported only now."""
    if kind not in ENCODERS:
        raise UserError(f"no encoder is called {kind!r}", cure=nearest(kind, ENCODERS))
    found: type[EncoderConfig] = loaded(ENCODERS[kind].settings)
    return found


def encoder_settings(cls: type[EncoderConfig]) -> tuple[str, ...]:
    """The names of an encoder's settings."""
    return tuple(field.name for field in fields(cls))


class Encoders(Mapping[str, EncoderEntry]):
    """All that are known, by name: ours, which are read when somebody asks, and those that were registered."""

    def __init__(self) -> None:
        self.registered: dict[str, EncoderEntry] = {}

    @cached_property
    def ours(self) -> dict[str, EncoderEntry]:
        here = Path(__file__).parent
        found = {one.kind: one for one in read_entries(EncoderEntry, here, here.parent / "models")}
        return {kind: found[kind] for kind in sorted(found, key=(*USUAL, *sorted(found)).index)}

    def __getitem__(self, kind: str) -> EncoderEntry:
        return self.ours[kind] if kind in self.ours else self.registered[kind]

    def __iter__(self) -> Iterator[str]:
        yield from self.ours
        yield from self.registered

    def __len__(self) -> int:
        return len(self.ours) + len(self.registered)


USUAL = ("transformer", "lstm", "gru", "rnn", "conv", "window", "dan")
"""Those that many systems have stand first in lists."""
ENCODERS = Encoders()
