"""Settings of Backpacks: the senses, and the encoder that weighs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from anaphora.config import above_zero
from anaphora.models.language.language_settings import LanguageConfig
from anaphora.models.language.recurrent_language import PENALTIES
from anaphora.models.language.transformer_language import Backend
from anaphora.models.registry import Sizes, System, system
from anaphora.nn.choices import Activation, Norm, Positions

BACKPACK = System(
    kind="backpack",
    rung=21,
    task="language",
    settings="anaphora.models.backpack.backpack_settings:BackpackConfig",
    model="anaphora.models.backpack.backpack:Backpack",
    read="anaphora.models:read_neural",
    formats=("backpack",),
)

OWN = ("kind", "senses", "sense_feed_forward", "sense_dropout", "sense_window", "near_senses", "encoder", "silent")
"""Settings of a Backpack that are not its contextualiser's."""
ContextEncoder = Literal["transformer-decoder", "lstm", "gru", "rnn", "conv", "window", "dan"]


@dataclass(kw_only=True)
class BackpackConfig(LanguageConfig):
    """Every word has several sense vectors, the same wherever it stands; an encoder that reads one way, the
    contextualiser, says how much of each goes into the guess of the next word (Hewitt et al. 2023). One table is the
    encoder's input, the senses' input, and what words are guessed with: always tied, and without a bias.

    Settings of the contextualiser are those of its own kind, also where they are not said; others are refused.
    """

    kind: Literal["backpack"] = "backpack"
    """Which system this is."""
    senses: int = 16
    """Sense vectors of a word; they divide dim, for each has dim / senses numbers of the queries and keys."""
    sense_feed_forward: int | None = None
    """Hidden width of the two networks that make senses; four times dim by default."""
    sense_dropout: float = 0.0
    """Inside the networks that make senses, one draw for all places of a word; output_dropout is for each place."""
    sense_window: int | None = None
    """Senses are taken from so many words at the most, the last ones; null: from all. What stands further back is
    read by the contextualiser alone, and can only choose among near senses."""
    near_senses: int | None = None
    """Senses whose weights begin at a place's own word, the others' at all words alike; half of them by default."""
    encoder: ContextEncoder = "transformer-decoder"
    """The contextualiser: any kind that reads one way."""
    layers: int = 4
    """Layers of the contextualiser."""
    silent: list[int] = field(default_factory=list)
    """Tokens that are read and never said: marks of ours in a model that was made without them."""
    output_bias: bool = False
    """None: what a word scores is a sum over the senses before it, and over nothing else."""
    max_length: int | None = 512
    """Of a Transformer: the longest row, in tokens with ⟨s⟩."""
    heads: int | None = None
    """Of a Transformer: attention heads."""
    key_value_heads: int | None = None
    """Of a Transformer: key and value heads."""
    feed_forward: int | None = None
    """Of a Transformer: hidden width of its feed-forward networks."""
    norm: Norm | None = None
    """Of a Transformer: where it normalises."""
    epsilon: float | None = None
    """Of a Transformer: added to the variance by which layers are normalised."""
    activation: Activation | None = None
    """Of a Transformer: non-linearity of its feed-forward networks."""
    positions: Positions | None = None
    """Of a Transformer: how a word knows where it stands."""
    scale_embedding: bool | None = None
    """Of a Transformer: words' vectors are multiplied by √dim, at its input alone."""
    attention_dropout: float | None = None
    """Of a Transformer: on attention weights."""
    activation_dropout: float | None = None
    """Of a Transformer: inside the feed-forward network."""
    inverse_layer_scale: bool | None = None
    """Of a Transformer: attention scores of layer i are divided by i (the published ones)."""
    attention: Backend | None = None
    """Of a Transformer: how attention is computed."""
    window: int | None = None
    """Of a Transformer and of a window: how far back it sees."""
    hidden: int | None = None
    """Of recurrent, averaging and window networks: width of their layers."""
    initial: Literal["xavier", "normal", "uniform", "orthogonal"] | None = None
    """Of a Transformer and of recurrent networks: how weights begin."""
    weight_dropout: float | None = None
    """Of recurrent networks: on the matrices that carry the state."""
    forget_bias: float | None = None
    """Of an LSTM: how open the gate of the memory begins."""
    width: int | None = None
    """Of convolutions: places of the layer below that a place sees."""
    dilated: bool | None = None
    """Of convolutions: twice as far apart in each layer."""
    gated: bool | None = None
    """Of convolutions: each layer is a product with a gate."""
    normalised: bool | None = None
    """Of convolutions: layer normalisation."""

    windowed: ClassVar[bool] = True

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
        body = self.contextualiser()
        for name in _own_fields(BackpackConfig):  # what nobody said is as the encoder has it
            if getattr(self, name) is None and hasattr(body, name):
                setattr(self, name, getattr(body, name))
        if self.encoder != "transformer-decoder":
            if self.max_length not in (None, 512):
                raise ValueError(f"max_length means nothing where encoder is {self.encoder}; leave it out")
            self.max_length = None

    def without_effect(self) -> dict[str, str | None]:
        """What its contextualiser does not have, too."""
        others = (name for name in _own_fields(BackpackConfig) if name not in OWN and name != "max_length")
        return {**super().without_effect(), **{name: None for name in others if getattr(self, name) is None}}

    @classmethod
    def sized_as(cls, model: Mapping[str, Any]) -> str:
        return str(model.get("encoder", "transformer-decoder"))

    @classmethod
    def adjusted(cls, model: dict[str, Any], training: dict[str, Any], tokens: int) -> Sizes:
        # penalties are on what a recurrent network says; here that only weighs senses
        training = {key: value for key, value in training.items() if key not in PENALTIES}
        if model:  # every word of a text speaks for itself, and what is rare is soon known by heart
            model.setdefault("output_dropout", 0.3 if tokens < 100_000_000 else 0.1)
        return model, training

    def contextualiser(self) -> LanguageConfig:
        """The settings of the encoder alone."""
        cls: type[LanguageConfig] = system(self.encoder).settings_class()
        known = {f.name for f in fields(cls)}
        said: dict[str, Any] = {}
        for name in (f.name for f in fields(self) if f.name not in OWN):
            value = getattr(self, name)
            if name in known and (value is not None or name == "max_length"):
                said[name] = value
            elif name not in known and value is not None and name != "max_length":
                raise ValueError(f"{name} means nothing where encoder is {self.encoder}; leave it out")
        return cls(**said)


def _own_fields(cls: type) -> list[str]:
    """Fields that a settings class adds to those of every language model."""
    return [f.name for f in fields(cls) if f.name not in {g.name for g in fields(LanguageConfig)}]
