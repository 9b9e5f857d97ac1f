"""From a class of one's own to an entry of the registry: what `@anaphora.register("rwkv", task="language")` does.

    class Rwkv(Encoder):                             its settings, in section `model`
        '''layers: How many blocks.'''
        def __init__(
            self,
            dim: int,                                dim       chosen by the size of the corpus
            *,
            layers: int = 4,                         layers    a whole number, 4 by default: "How many blocks."
            gate: Literal["on", "off"] = "on",       gate      on or off
        ): ...

What the class may be, and what is built around it:

    an Encoder      task "language"       embedding → it → head (models/language/causal.py)
    a Decoder       task "translation"    two embeddings, the encoder that `model.encoder` names, it, the projection
    a Translator    task "translation"    itself, made from source_vocabulary, target_vocabulary and its settings

Its keyword arguments are its settings, beside those that all models of its task have; where a name is one of those, it
gives that one another default. What has no default is chosen by the size of the corpus. A classmethod `sized` may
choose more by it: `sized(amount) -> (settings of the model, settings of training)`, the amount being pairs, or tokens.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar, Union, overload

from anaphora.errors import UserError, nearest, shown
from anaphora.models.language.language_settings import LanguageConfig
from anaphora.models.registry import TASKS, Sizes, System
from anaphora.models.registry import register as add
from anaphora.models.translation.translator_settings import TranslatorConfig
from anaphora.nn.encoder_settings import ENCODERS, EncoderConfig, EncoderEntry, encoder_settings, register_encoder

GIVEN = ("causal", "memory_dim", "source_vocabulary", "target_vocabulary")
"""Parameters that are no settings: which way it reads, how wide what it looks at is, how many words there are."""
PLAIN = (bool, int, float, str)
"""Types of a setting, but for choices, lists of these, and those that may be missing."""


C = TypeVar("C", bound=type)


@overload
def register(system: System, /) -> System: ...
@overload
def register(system: str, /, *, task: str) -> Callable[[C], C]: ...
def register(system: System | str, /, *, task: str | None = None) -> System | Callable[[C], C]:
    """Make a system of one's own known, so that `model.kind`, a recipe's name and `--recipe` may name it:
    `@anaphora.register("rwkv", task="language")` above a class, whose keyword arguments become its settings, or
    `anaphora.register(anaphora.System(…))`, an entry that says all of it. See docs/your-own-model.md."""
    if not isinstance(system, str) or task is None:
        return add(system)  # type: ignore[arg-type]  # what is no System is refused there
    kind, wanted = system, task

    def decorate(cls: C) -> C:
        one = add(entry(kind, wanted, cls))
        if one.encoder is not None and kind not in ENCODERS.ours:  # it may read for others, too
            register_encoder(EncoderEntry(kind=kind, settings=settings_of(cls, kind, OwnEncoderConfig)))
        return cls

    return decorate


def entry(kind: str, task: str, cls: type) -> System:
    """The entry of a class under that name."""
    from anaphora.models.contracts import Translator
    from anaphora.models.translation.encoder_decoder import Decoder
    from anaphora.nn.encoder_contract import Encoder

    causal: Any = "anaphora.models.language.causal:CausalLM"
    made: dict[str, dict[type, Any]] = {
        "language": {Encoder: causal},
        "translation": {Decoder: build_around, Translator: build_whole},
    }
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", kind):
        raise UserError(f"a system cannot be called {shown.repr(kind)}", cure="write it as in my-model: a-z, 0-9 and -")
    if task not in made:
        cure = nearest(task, made)
        if task in TASKS:
            cure = f"a class of one's own is for {' or '.join(map(repr, made))}"
        raise UserError(f"the task of {kind!r} cannot be {shown.repr(task)}", cure=cure)
    model = next((made[task][base] for base in made[task] if isinstance(cls, type) and issubclass(cls, base)), None)
    if model is None:
        wanted = " or ".join(base.__name__ for base in made[task])
        name = getattr(cls, "__name__", shown.repr(cls))
        raise UserError(f"{name} is no {wanted}, which the task {task!r} needs", cure=f"derive it from {wanted}")
    if task == "language":
        settings = settings_of(cls, kind, OwnLanguageConfig)
        return System(
            kind=kind, task=task, settings=settings, model=model, read="anaphora.models:read_neural", encoder=cls
        )
    return System(kind=kind, task=task, settings=settings_of(cls, kind, OwnTranslatorConfig), model=model)


class OwnLanguageConfig(LanguageConfig):
    """Of a language model whose encoder is one's own."""

    made_for: ClassVar[Any]
    """The class that was registered."""
    own_defaults: ClassVar[dict[str, Any]]
    """What it says itself, as defaults of its arguments."""

    @classmethod
    def encoder_class(cls) -> type[EncoderConfig]:
        return cls

    def build_encoder(self) -> Any:
        found = part(self.made_for, self, causal=self.causal)
        if self.causal and not found.causal:
            raise ValueError(f"{self.kind} sees words that a language model is to guess: its encoder is not causal")
        return found

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        return own_sizes(cls, super().small(tokens), tokens)

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        return own_sizes(cls, super().medium(tokens), tokens)

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        return own_sizes(cls, super().large(tokens), tokens)

    @classmethod
    def classifier(cls, width: int) -> dict[str, Any]:
        return cls.own_defaults


class OwnEncoderConfig(EncoderConfig):
    """Of an encoder of one's own in front of a decoder (`model.encoder`): its own arguments."""

    made_for: ClassVar[Any]
    own_defaults: ClassVar[dict[str, Any]]

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Any:
        if width not in (None, dim):
            raise ValueError(f"encoder={self.encoder_kind} reads vectors as wide as its own, {dim}, not {width}")
        return part(self.made_for, self, dim=dim, causal=causal, dropout=dropout)


class OwnTranslatorConfig(TranslatorConfig):
    """Of a translator whose decoder, or all of it, is one's own."""

    made_for: ClassVar[Any]
    own_defaults: ClassVar[dict[str, Any]]

    @property
    def own_encoder(self) -> str:
        return "transformer"

    def told(self, cls: type[EncoderConfig]) -> dict[str, Any]:
        """Its settings are its decoder's; an encoder takes its depth from them alone."""
        heads = next(heads for heads in (4, 2, 1) if self.dim % heads == 0)
        usual = {"layers": self.layers, "heads": heads, "feed_forward": 4 * self.dim}
        return {name: value for name, value in usual.items() if name in encoder_settings(cls)}

    @property
    def attends(self) -> bool:
        return bool(getattr(self.made_for, "attends", "attends" in getattr(self.made_for, "capabilities", ())))

    @classmethod
    def sized(cls, pairs: int) -> Sizes:
        return own_sizes(cls, super().sized(pairs), pairs)


def own_sizes(cls: Any, usual: Sizes, amount: int) -> Sizes:
    """The sizes of its task, but for what the class says itself, as a default or by `sized`."""
    said: Any = ({}, {})
    if hasattr(cls.made_for, "sized"):
        said = cls.made_for.sized(amount)
        if not (isinstance(said, tuple) and len(said) == 2 and all(isinstance(one, dict) for one in said)):
            cure = "let it return two dictionaries: settings of the model, settings of training"
            raise UserError(f"{cls.made_for.__name__}.sized gives {shown.repr(said)}", cure=cure)
    return {**usual[0], **cls.own_defaults, **said[0]}, {**usual[1], **said[1]}


def part(cls: Any, config: Any, **given: Any) -> Any:
    """One with fresh weights, of its settings; given: what its arguments are that are no settings, or other ones."""
    taken = inspect.signature(cls).parameters
    return cls(**{name: given[name] if name in given else getattr(config, name) for name in taken})


def build_whole(config: Any, source_vocabulary: int, target_vocabulary: int) -> Any:
    """A translator that is one's own from end to end."""
    found = part(config.made_for, config, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
    found.config = config
    for side in ("max_source_length", "max_target_length"):
        if not hasattr(found, side):
            setattr(found, side, config.max_length)
    return found


def build_around(config: Any, source_vocabulary: int, target_vocabulary: int) -> Any:
    """A translator around a decoder of one's own."""
    from functools import partial

    from anaphora.models.translation.encoder_decoder import EncoderDecoder
    from anaphora.nn.embedding import Embedding

    c = config
    words = partial(Embedding, dim=c.dim, max_length=c.max_length, dropout=c.dropout)
    source = words(source_vocabulary, positions=c.encoder_config.source_positions)
    target = words(target_vocabulary, positions="none")
    encoder = c.build_encoder()
    decoder = part(c.made_for, c, memory_dim=c.dim, layers=c.decoder_depth)
    decoder.out_dim = getattr(decoder, "out_dim", c.dim)
    return EncoderDecoder(c, source, target, encoder, decoder)


def settings_of(cls: type, kind: str, base: Any) -> type:
    """The dataclass of its settings: those of its task, and the keyword arguments of the class."""
    usual = {field.name: hint for field, hint in zip(dataclasses.fields(base), _types(base))}
    hints, given = _hints(cls), GIVEN if usual else (*GIVEN, "dim", "dropout")
    fields: list[Any] = [("kind", Literal[kind], dataclasses.field(default=kind))] if usual else []
    own: dict[str, Any] = {}
    for name, one in inspect.signature(cls).parameters.items():
        if name in given or (name in usual and one.default is one.empty):
            continue
        if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            raise UserError(f"{cls.__name__} takes any arguments ({one}), and they name no settings", cure="name each")
        if one.default is one.empty:
            raise UserError(f"{cls.__name__}: the setting {name} has no default", cure=f"write {name}: int = 4, say")
        own[name] = one.default
        hint = hints.get(name, usual.get(name, type(one.default)))
        if not _readable(hint):
            raise UserError(
                f"{cls.__name__}: the setting {name} cannot be of the type {getattr(hint, '__name__', hint)}",
                cure="a setting is a bool, int, float, str or Literal[…], a list of these, or X | None",
            )
        listed = isinstance(one.default, list)
        field = (
            dataclasses.field(default_factory=one.default.copy) if listed else dataclasses.field(default=one.default)
        )
        fields.append((name, hint, field))
    space = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": inspect.getdoc(cls),
        "made_for": cls,
        "encoder_kind": kind if not usual else "",
        "own_defaults": own,
        "documented": {"kind": "Which system this is.", **meanings(cls)},
    }
    return dataclasses.make_dataclass(f"{cls.__name__}Settings", fields, bases=(base,), namespace=space, kw_only=True)


def _types(base: type) -> list[Any]:
    hints = typing.get_type_hints(base)
    return [hints[field.name] for field in dataclasses.fields(base)]


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__)  # type: ignore[misc]
    except NameError as error:
        raise UserError(f"{cls.__name__}: {error}", cure="import it at the top of the file") from None


def _readable(hint: Any) -> bool:
    """Whether a setting may have this type (config.convert)."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return len(inside) == 2 and type(None) in inside and any(map(_readable, inside))
    return hint in PLAIN or origin is Literal or (origin is list and inside[0] in PLAIN)


MEANING = re.compile(r"^(\s*)(?::param\s+)?(\w+)(?:\s*\([^)]*\))?:\s+(\S.*)$")
"""A line of a docstring that says what an argument is: `layers: How many blocks.`"""


def meanings(cls: type) -> dict[str, str]:
    """{setting: what it means}, from the docstrings of the class and of its `__init__`."""
    taken, found = inspect.signature(cls).parameters, dict[str, str]()
    for text in (inspect.getdoc(cls), inspect.getdoc(vars(cls).get("__init__"))):
        name, indent = "", 0
        for line in (text or "").splitlines():
            said = MEANING.match(line)
            if said is not None and said[2] in taken:
                name, indent = said[2], len(said[1])
                found[name] = said[3].strip()
            elif name and line.strip() and len(line) - len(line.lstrip()) > indent:
                found[name] += f" {line.strip()}"
            else:
                name = ""
    return found
