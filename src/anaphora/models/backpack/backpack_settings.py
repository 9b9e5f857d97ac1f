"""Settings of Backpacks: the senses, and those of the language model whose encoder weighs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from anaphora.config import NameIn, above_zero
from anaphora.errors import UserError
from anaphora.models.encoder_section import check_name, flattened
from anaphora.models.language.language_settings import LanguageConfig
from anaphora.models.language.recurrent_language import PENALTIES
from anaphora.models.language.transformer_language import TransformerLanguageConfig
from anaphora.models.registry import Sizes, System, kinds, system
from anaphora.nn.encoder_settings import ENCODERS, encoder_class, encoder_settings

BACKPACK = System(
    kind="backpack",
    rung=21,
    task="language",
    settings="anaphora.models.backpack.backpack_settings:BackpackConfig",
    model="anaphora.models.backpack.backpack:Backpack",
    read="anaphora.models:read_neural",
    formats=("backpack",),
)


class Contextualisers(Mapping[str, Any]):
    """What can weigh senses, by name: the language models that read one way, and any other encoder that can."""

    def __getitem__(self, name: str) -> type[Any]:
        found: type[Any] = system(name).settings_class() if name in kinds("language") else encoder_class(name)
        return found

    def __iter__(self) -> Iterator[str]:
        models = {kind: system(kind).settings_class() for kind in kinds("language") if kind != SenseConfig.kind}
        yield from (kind for kind, cls in models.items() if not cls.masked)
        known = {cls.encoder_kind for cls in models.values()}
        yield from (name for name in ENCODERS if name not in known and encoder_class(name).one_way)

    def __len__(self) -> int:
        return len(list(iter(self)))


CONTEXTUALISERS = Contextualisers()


@dataclass(kw_only=True)
class SenseConfig(LanguageConfig):
    """What every Backpack is told besides its encoder.

    Every word has several sense vectors, the same wherever it stands; an encoder that reads one way, the
    contextualizer, says how much of each goes into the guess of the next word (Hewitt et al. 2023). One table is the
    encoder's input, the senses' input, and what words are guessed with: always tied, and without a bias.
    """

    kind: Literal["backpack"] = "backpack"
    """The kind of model."""
    senses: int = 16
    """Number of sense vectors per word; a divisor of dim, since each has dim / senses dimensions of the queries and
    keys."""
    sense_feed_forward: int | None = None
    """Hidden size of the two networks that compute the senses; by default four times dim."""
    sense_dropout: float = 0.0
    """Dropout inside the networks that compute the senses, with one mask per word; output_dropout has one per
    position."""
    sense_window: int | None = None
    """Take senses from the last words only, at most this many (null: from all). Words further back are read by the
    contextualizer only, and only influence the weights."""
    near_senses: int | None = None
    """Number of senses whose weights are initialized to favor the current word; the others' are uniform. By default
    half of them."""
    encoder: Annotated[str, NameIn(CONTEXTUALISERS)] = "transformer-decoder"
    """The contextualizer: any kind that reads one way, whose settings the model then has."""
    layers: int = 4
    """Number of layers of the contextualizer."""
    silent: list[int] = field(default_factory=list)
    """Ids of tokens that are read and never generated: special tokens added to a published model."""
    output_bias: bool = False
    """Not available: a word's logit is a sum over the preceding senses alone."""
    max_length: int | None = None
    """Transformer contextualizers: maximum length of a row, in tokens, ⟨s⟩ included."""

    windowed: ClassVar[bool] = True
    by_token: ClassVar[bool] = True
    classifies: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "senses", "sense_feed_forward", "sense_window")
        self.near_senses = (self.senses + 1) // 2 if self.near_senses is None else self.near_senses
        if not 0 <= self.near_senses <= self.senses:
            raise ValueError(
                f"near_senses is {self.near_senses}; of {self.senses} senses 0 to {self.senses} can be near"
            )
        if not 0.0 <= self.sense_dropout < 1.0:
            raise ValueError(f"sense_dropout is {self.sense_dropout}; it must be at least 0 and less than 1")
        if self.dim % self.senses:
            near = max(k for k in range(1, self.senses + 1) if self.dim % k == 0)
            why = f"dim ({self.dim}) must be a multiple of senses ({self.senses})"
            raise ValueError(f"{why}; choose another of the two, senses={near}, say")
        if not self.tie or self.output_bias:
            raise ValueError("a Backpack has one table for all (tie) and no bias (output_bias); leave both out")
        if self.labels:
            raise ValueError(f"a Backpack says words, not classes; take kind {self.encoder} to classify")
        if self.max_length != self.embedding_options()["max_length"]:
            raise ValueError(f"max_length means nothing where encoder is {self.encoder}; leave it out")

    @classmethod
    def chosen(
        cls, model: Mapping[str, Any], *, file: str | None = None
    ) -> tuple[type[LanguageConfig], dict[str, Any]]:
        """The settings class of a Backpack with the encoder that section `model` names, and that section without what
        earlier ones say of other encoders: nothing, null."""
        encoder, own = str(model.get("encoder", cls.encoder)), dict(model)
        if encoder not in list(CONTEXTUALISERS):  # which `build` says
            return cls, own
        found = with_encoder(encoder)
        names = found.__dataclass_fields__
        every = {name for kind in CONTEXTUALISERS for name in with_encoder(kind).__dataclass_fields__}
        for name in [name for name in own if name not in names and name in every]:
            if own.pop(name) is not None:
                what = f"model: {name} means nothing where encoder is {encoder}"
                raise UserError(what, file=file, cure="leave it out")
        return found, own

    @classmethod
    def with_section(
        cls, own: dict[str, Any], said: dict[str, Any], whole: Mapping[str, Any], **how: Any
    ) -> dict[str, Any]:
        name = check_name(said.pop("kind", None) or whole.get("encoder", cls.encoder), CONTEXTUALISERS, how["file"])
        reader = with_encoder(name).encoder_class()
        flattened(own, said, reader, shared=encoder_settings(reader), **how)
        return {**own, "encoder": name}

    @classmethod
    def sized_as(cls, model: Mapping[str, Any]) -> str:
        return str(model.get("encoder", cls.encoder))

    @classmethod
    def adjusted(cls, model: dict[str, Any], training: dict[str, Any], tokens: int) -> Sizes:
        # penalties are on what a recurrent network says; here that only weighs senses
        training = {key: value for key, value in training.items() if key not in PENALTIES}
        if model:  # every word of a text speaks for itself, and what is rare is soon known by heart
            model.setdefault("output_dropout", 0.3 if tokens < 100_000_000 else 0.1)
        return model, training


@dataclass(kw_only=True)
class BackpackConfig(SenseConfig, TransformerLanguageConfig):
    """A Backpack as published: a Transformer weighs its senses."""

    max_length: int | None = 512
    """Maximum length of a row, in tokens, ⟨s⟩ included, and size of the table of learned positions. Null: unlimited,
    not with learned positions."""


def with_encoder(name: str) -> type[SenseConfig]:
    """The settings of Backpacks whose senses such an encoder weighs."""
    reader: Any = CONTEXTUALISERS[name]
    return BackpackConfig if name == BackpackConfig.encoder else _joined(reader)


@cache
def _joined(reader: Any) -> type[SenseConfig]:
    """One class for each: an encoder of one's own may be defined anew under its name."""
    made = type(f"Backpack{reader.__name__}", (SenseConfig, reader), {"__doc__": SenseConfig.__doc__})
    return dataclass(kw_only=True)(made)
