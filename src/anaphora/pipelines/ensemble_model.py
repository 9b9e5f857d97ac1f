"""Several translators as one, in memory: all that a single one can do, they can do together.

The members need one target vocabulary, since every word is chosen by all of them. What they read may differ: the source
is then cut into the tokens of the first member whose tokenizer loses nothing, and the others read the text of these.
The mathematics is in models/composites/ensemble.py, the folder in pipelines/ensembling.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from anaphora.alignment.alignment_method import Choice
from anaphora.alignment.dictionary import Dictionary
from anaphora.alignment.model_alignment import Method
from anaphora.config import with_old_names
from anaphora.errors import UserError
from anaphora.folder import CONFIG, read_config, read_metrics
from anaphora.models import DEFAULT
from anaphora.models.composites.ensemble import Ensemble, Reading
from anaphora.models.composites.parts import Path_, part_names
from anaphora.models.translation.translator_settings import EnsembleConfig, Mean
from anaphora.pipelines.translation_model import TranslationModel
from anaphora.results import Info
from anaphora.tasks.base import described_model, task_of
from anaphora.tasks.recipes import RunConfig
from anaphora.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from anaphora.explain.trace import Trace


class EnsembleModel(TranslationModel):
    """Translators that speak together."""

    def __init__(
        self,
        members: Sequence[TranslationModel],
        *,
        weights: Sequence[float] | None = None,
        mean: Mean = "probabilities",
        names: Sequence[str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """weights: one for each member, equal by default. folder: where the ensemble itself is kept, if it is."""
        if len(members) < 2:
            raise UserError(f"an ensemble needs at least two models, not {len(members)}", cure="name more of them")
        check_fit(members)
        self.members = list(members)
        first = self.members[0]
        self.folder, self.device = folder or first.folder, first.device
        lead = lead_of(members)
        self.source_tokenizer: Tokenizer = self.members[lead].source_tokenizer
        self.target_tokenizer = first.target_tokenizer
        ensemble = Ensemble(
            [one.model for one in members],
            weights,
            mean=mean,
            readings=[self._reading(one.source_tokenizer) for one in members],
        )
        self.model = ensemble.eval()
        self.ensemble = ensemble
        self.names = list(names or part_names([one.folder for one in members]))
        section = EnsembleConfig(parts=self.names, weights=list(ensemble.weights), mean=mean)
        self.config = dataclasses.replace(first.config, recipe="ensemble", start_from=None, model=section)

    def __repr__(self) -> str:
        return f"<EnsembleModel of {len(self.members)}: {', '.join(self.names)}, on {self.device}>"

    @classmethod
    def open(cls, folder: Path, device: torch.device, *, verify: bool = True) -> EnsembleModel:
        """The ensemble of a folder, with the members inside it."""
        return _open(cls, folder, device, verify, ())

    @classmethod
    def of_folders(cls, folders: Sequence[Path_], device: torch.device, *, verify: bool = True) -> EnsembleModel:
        """Models of several folders, together for now, with equal weights."""
        return cls([open_member(Path(folder), device, verify=verify) for folder in folders])

    def _reading(self, tokenizer: Tokenizer) -> Reading | None:
        """How a member with this tokenizer reads the tokens that the ensemble is given."""
        own = self.source_tokenizer
        if tokenizer is own or tokenizer.fingerprint() == own.fingerprint():
            return None
        return lambda ids: tokenizer.encode(own.decode(ids))

    @cached_property
    def alignment_choice(self) -> Choice:
        """The mean of the members that attend, each by the method that was chosen for it; if none does, occlusion."""
        methods: list[Method | None] = [None] * len(self.members)
        for place in self.ensemble.attending:
            own = self.members[place].alignment_choice.method
            methods[place] = own if own.kind != "occlusion" else None
        used = [(name, method) for name, method in zip(self.names, methods) if method is not None]
        if not used:
            return Choice(Method(kind="occlusion"), None, "no member has attention that can be read")
        said = ", ".join(f"{name} {method.name}" for name, method in used)
        method = Method(kind="members", rule=used[0][1].rule, members=tuple(methods))
        return Choice(method, None, f"each member is read by its own method: {said}")

    @cached_property
    def _learned_single_sentences(self) -> bool:
        """Whether all members did: an ensemble has no training text of its own."""
        return all(one._learned_single_sentences for one in self.members)

    @cached_property
    def _dictionary(self) -> Dictionary:
        return self.members[0].dictionary()

    @cached_property
    def revision(self) -> str:
        """Of all members."""
        return "+".join(one.revision for one in self.members)

    def walk(
        self,
        text: str,
        target: str | None = None,
        *,
        part: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        query: str | None = None,
    ) -> Trace:
        """Refused: an ensemble has no attention of its own, its members have."""
        raise UserError(
            "is an ensemble, which has no attention of its own to walk through",
            file=self.folder,
            cure=f"walk through one of its members: {', '.join(str(one.folder) for one in self.members)}",
        )

    def info(self) -> Info:
        """What this ensemble is; parameters and operations are sums over its members."""
        metrics = read_metrics(self.folder) if (read_config(self.folder).get("model") or {}).get("parts") else {}
        told = ("recipe", "kind", "shape", "parameters", "active_parameters")
        members = [
            {"name": name, "weight": weight, **{key: found[key] for key in told}}
            for name, weight, one in zip(self.names, self.ensemble.weights, self.members)
            for found in [one.info()]
        ]
        facts = {
            "folder": str(self.folder),
            "recipe": self.config.recipe,
            "kind": "ensemble",
            "shape": f"{len(members)} members, mean of {self.ensemble.mean}",
            "members": members,
            "parameters": self.model.parameter_count(),
            "active_parameters": sum(one["active_parameters"] for one in members),
            "source_vocabulary": self.source_tokenizer.vocabulary_size,
            "target_vocabulary": self.target_tokenizer.vocabulary_size,
            "flops_per_pair": self.model.flops(25, 25, 25.0, 25.0),
            "flops_note": "one forward pass over 25 source and 25 target tokens, all members",
            "cache_bytes_per_token": self.model.cache_bytes_per_token(),
            "settings": with_old_names(self.config.document()),
            "metrics": metrics,
        }
        return Info(facts, str(self.folder), str(facts["shape"]), f"{facts['parameters']:,} parameters")


def open_member(folder: Path, device: torch.device, *, verify: bool = True) -> TranslationModel:
    """A translator that may be one of several, or several itself."""
    return _member(folder, device, verify, ())


def _open(
    cls: type[EnsembleModel], folder: Path, device: torch.device, verify: bool, above: tuple[Path, ...]
) -> EnsembleModel:
    """`above`: the ensembles that this one stands in. A link may lead back to one of them."""
    if folder.resolve() in above:
        raise UserError("is an ensemble that holds itself", file=folder, cure="put it together anew: anaphora mix")
    config = cast("EnsembleConfig", RunConfig.read(read_config(folder), file=str(folder / CONFIG)).model)
    above = (*above, folder.resolve())
    members = [_member(folder / name, device, verify, above) for name in config.parts]
    try:
        return cls(members, weights=config.weights, mean=config.mean, names=config.parts, folder=folder)
    except UserError as error:
        raise UserError(error.what, file=error.file or folder, cure=error.cure) from None


def _member(folder: Path, device: torch.device, verify: bool, above: tuple[Path, ...]) -> TranslationModel:
    model = {"kind": "ngram"} if folder.is_file() else read_config(folder).get("model") or {}
    task = task_of(model.get("kind", DEFAULT), file=str(folder / CONFIG))
    if task.opens_as != "translator":
        mixed = "; `anaphora mix` mixes language models with one another" if task.opens_as == "language model" else ""
        what = f"is {described_model(model)}, and an ensemble is of translators"
        raise UserError(what, file=folder, cure=f"leave it out{mixed}")
    if task.holds_others:
        return _open(EnsembleModel, folder, device, verify, above)
    return TranslationModel(folder, device, verify=verify)


def check_fit(members: Sequence[TranslationModel]) -> None:
    """A token that one says must mean the same to the others."""
    first, *others = members
    mine = first.target_tokenizer
    for other in others:
        its = other.target_tokenizer
        if its.vocabulary_fingerprint() != mine.vocabulary_fingerprint():
            sizes = its.vocabulary_size, mine.vocabulary_size
            how = (
                f"({sizes[0]:,} tokens, {sizes[1]:,} there)" if sizes[0] != sizes[1] else "(as large, but not the same)"
            )
            what = f"has a different target vocabulary than {first.folder} {how}"
        elif (its.kind, its.split) != (mine.kind, mine.split):
            what = f"cuts its target otherwise than {first.folder}: {its.kind} here, {mine.kind} there"
        else:
            continue
        cure = "train them on the same text with the same tokenizer settings, and different training.seed or recipes"
        raise UserError(f"{what}, so that they cannot choose a word together", file=other.folder, cure=cure)


def lead_of(members: Sequence[TranslationModel]) -> int:
    """Whose tokens the source is given in: the first member's, or, where others read other tokens, the first that
    loses nothing of a text."""
    tokenizers = [one.source_tokenizer for one in members]
    if len({tokenizer.fingerprint() for tokenizer in tokenizers}) == 1:
        return 0
    for place, tokenizer in enumerate(tokenizers):
        if not tokenizer.has_unknown:
            return place
    raise UserError(
        f"reads other source words than {members[0].folder}, and neither can spell those that it does not know",
        file=next(one.folder for one in members if one.source_tokenizer.fingerprint() != tokenizers[0].fingerprint()),
        cure="train them on the same text with the same tokenizer settings, or one with tokenizer.fallback=bytes",
    )
