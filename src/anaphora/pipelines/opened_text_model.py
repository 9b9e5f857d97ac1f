"""A language model's folder, opened: weights, tokenizer, how its text is cut into lines, and what is known of it.

What can be done with it is pipelines/text_model.py's, which derives from this: a reader who asks what a model says
need not know how it came into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from anaphora.arguments.checked import checked
from anaphora.arguments.given import Lines, lines_of
from anaphora.config import with_old_names
from anaphora.data.data_settings import DataConfig
from anaphora.decoding.spelling import Prompt
from anaphora.decoding.text_scoring import BlankLines, Boundaries, Encoder, check_ids, line_encoder, plain
from anaphora.errors import UserError, shown
from anaphora.folder import CHECKPOINTS, CONFIG, WEIGHTS, read_config, read_metrics
from anaphora.models import read_language_model
from anaphora.models.backpack.sense_shares import has_senses
from anaphora.pipelines.abilities import Ability, require
from anaphora.results import Info
from anaphora.tasks.base import described_model
from anaphora.tasks.recipes import RunConfig
from anaphora.tokenizers.tokenizer import SPECIALS, Tokenizer
from anaphora.tokenizers.vocabulary_file import UNKNOWN
from anaphora.tokenizers.word_tokenizer import open_tokenizer

if TYPE_CHECKING:
    from anaphora.models.contracts import LanguageModel

ARPA = (".arpa", ".arpa.gz", ".arpa.xz", ".arpa.zst")
"""How the names of files end that may stand in the place of a model folder."""


def is_arpa(path: Path) -> bool:
    """Whether a path names an ARPA file, rather than a model folder."""
    return path.name.lower().endswith(ARPA) and not path.is_dir()


class OpenedTextModel:
    """A language model with its tokenizer, in memory: what TextModel begins with."""

    def __init__(self, folder: Path, *, verify: bool = True, device: str = "cpu") -> None:
        """Open a model folder, or an ARPA file. `verify=False` leaves out the checksum of the numbers. device: where a
        neural model computes; what was counted is looked up on the CPU."""
        self.folder = folder
        self.notes: list[str] = []
        """What had to be taken otherwise than the file says."""
        self.patches: tuple[str, ...] = ()
        """What its senses were changed by: names of files."""
        self.config: RunConfig | None = None
        self.boundaries: Boundaries = "lines"
        self.blank_lines: BlankLines = "keep"
        if is_arpa(folder):
            from anaphora.models.ngram.arpa import read_arpa

            arpa = read_arpa(folder)
            self.model: LanguageModel = arpa.model
            self.tokenizer = Tokenizer.of_words(arpa.words[len(SPECIALS) :], unknown=UNKNOWN)
            self.notes = list(arpa.notes)
            return
        self.config = config = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
        if config.task.opens_as != "language model":
            raise UserError(
                f"is {described_model(vars(config.model))}, and this needs a language model",
                file=folder,
                cure="give a folder made by `anaphora train --text`, or an ARPA file",
            )
        lines = config.data.boundaries == "packed"  # it is only for learning that they stand together
        self.boundaries = "lines" if lines else cast("Boundaries", config.data.boundaries)
        self.blank_lines = config.data.blank_lines
        self.tokenizer = open_tokenizer(folder / "tokenizer.json")
        self.model = cast(
            "LanguageModel", read_language_model(config.model, folder, verify=verify, device=device)
        )  # what it cannot do is refused below
        metrics = read_metrics(folder)
        self.notes = [str(note) for note in metrics.get("notes") or []]
        if has_senses(self.model):
            from anaphora.models.backpack.sense_table import attach_stored

            self.notes += attach_stored(cast(Any, self.model), folder)
        learned = metrics.get("vocabularies")
        named = learned.get("text", "") if isinstance(learned, dict) else ""
        if self.tokenizer.vocabulary_size != self.model.vocabulary or named not in (
            "",
            self.tokenizer.vocabulary_fingerprint(),
        ):
            raise UserError(
                "this is not the tokenizer that the model was made with: its vocabulary is another one",
                file=folder / "tokenizer.json",
                cure="use the files of one and the same model",
            )

    def __repr__(self) -> str:
        what = f"{self.kind} classifier" if "classifies" in self.model.capabilities else self.kind
        return f"<TextModel {str(self.folder)!r}: {what}, {self.model.vocabulary:,} tokens>"

    @property
    def kind(self) -> str:
        """The kind of model: "ngram", "lstm", "transformer-decoder" …"""
        return "ngram" if self.config is None else self.config.model.kind

    def _needs(self, ability: Ability) -> Any:
        """The model, which must be able to do this."""
        require(self.model, ability, kind=self.kind, folder=self.folder)
        return self.model

    @cached_property
    def line_ids(self) -> Encoder:
        """Lines -> their ids one after the other, each line w … ⟨/s⟩, and where each begins: the quickest way."""
        return line_encoder(self.tokenizer)

    @overload
    def tokenize(self, lines: str) -> list[int]: ...  # type: ignore[overload-overlap]
    @overload
    def tokenize(self, lines: Lines) -> list[list[int]]: ...
    def tokenize(self, lines: str | Lines) -> list[int] | list[list[int]]:
        """The ids of a text's tokens, the end mark ⟨/s⟩ (id 2) being the last; for many lines a list of such lists,
        as `score_ids` takes them."""
        ids, starts = self.line_ids(list(lines_of(lines)))
        rows = [own.tolist() for own in np.split(ids, starts[1:-1])] if len(starts) > 1 else []
        return rows[0] if isinstance(lines, str) else rows

    @overload
    def detokenize(self, ids: Sequence[int] | NDArray[Any]) -> str: ...
    @overload
    def detokenize(self, ids: Sequence[Sequence[int]]) -> list[str]: ...
    def detokenize(self, ids: Sequence[int] | Sequence[Sequence[int]] | NDArray[Any]) -> str | list[str]:
        """The text of some ids, marks left out, or the texts of many rows: what `tokenize` is undone by."""
        rows: list[Any] = list(ids) if np.iterable(ids) and not isinstance(ids, str | bytes) else [ids, []]
        if any(np.ndim(row) for row in rows):
            return [self.tokenizer.decode(self._known(row)) for row in rows]
        return self.tokenizer.decode(self._known(rows))

    def _known(self, row: Any) -> list[int]:
        """Ids as the tokenizer takes them."""
        found = np.asarray(row)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise UserError(f"ids are whole numbers, not {shown.repr(row)}", cure="give those that `tokenize` makes")
        check_ids(found, self.tokenizer.vocabulary_size)
        return [int(id) for id in found]

    # -- how it reads ------------------------------------------------------------------------------------------------

    @checked(context=1, stride=1)
    def windows(self, context: int | None = None, stride: int | None = None) -> dict[str, Any]:
        """How a text too long for the model is read: `context` tokens at once, moved by `stride`; by default as in
        training."""
        learned = None if self.config is None else self.config.windows()
        if learned is not None:
            context = learned[0] if context is None else context
            stride = min(learned[1], context) if stride is None else stride
        return {"context": context, "stride": stride}

    def _prompt(self, text: str) -> Prompt:
        """A prompt is one line, before a model that reads on across line ends several; its last has not ended."""

        text = plain(text) if self.boundaries == "lines" else "\n".join(map(plain, text.split("\n")))
        return Prompt(text, self.line_ids(text.split("\n"))[0].tolist()[:-1])

    def vocabulary_settings(self) -> list[str]:
        """How the vocabulary was made, in the words of `anaphora train`: a draft must have the same one, and so be
        trained on the same lines."""
        if self.config is None:
            return []
        document = self.config.document()
        of_lines = {"hold_out", "seed", "tokenizer_lines"} if document["data"]["hold_out"] else {"tokenizer_lines"}
        own = {f"tokenizer.{key}": value for key, value in document["tokenizer"].items() if key != "dropout"}
        if own.get("tokenizer.vocabulary") is not None:  # a text may have had fewer than it was given room for
            own["tokenizer.vocabulary"] = min(own["tokenizer.vocabulary"], self.tokenizer.vocabulary_size)
        own |= {f"data.{key}": value for key, value in document["data"].items() if key in of_lines}
        usual = {"tokenizer.minimum_count": 1, "data.tokenizer_lines": DataConfig().tokenizer_lines, "data.seed": 1}
        return [f"{key}={value}" for key, value in own.items() if value not in (None, "", usual.get(key))]

    # -- what is known of it -----------------------------------------------------------------------------------------

    def info(self) -> Info:
        """What this model is, what it was made of, how good it was found."""
        metrics = {} if self.config is None else read_metrics(self.folder)
        facts: dict[str, Any] = {
            "folder": str(self.folder),
            "recipe": None if self.config is None else self.config.recipe,
            "kind": self.kind,
            "parameters": self.model.parameter_count(),
            **self._active(),
            "vocabulary": self.model.vocabulary,
            "tokenizer": {"kind": self.tokenizer.kind, "split": self.tokenizer.split, "unknown": self._unknown()},
            "max_length": self.model.max_length,
            "device": str(self.model.device),
            "boundaries": self.boundaries,
            "blank_lines": self.blank_lines,
            "normalised": self.model.sums_to_one(),
            "capabilities": sorted(self.model.capabilities),
            "flops_per_token": self.model.flops(1, 1.0),
            "cache_bytes_per_token": self.model.cache_bytes_per_token(),
            "bytes_on_disk": sum(file.stat().st_size for file in self._files()),
            **self.model.shape(),
            "notes": self.notes,
            "settings": None if self.config is None else with_old_names(self.config.document()),
            "metrics": {key: value for key, value in metrics.items() if key != "history"},
        }
        return Info(facts, str(self.folder), self.kind, f"{facts['parameters']:,} parameters")

    def _active(self) -> dict[str, int]:
        """Parameters that one token meets, where they are not all."""
        if not getattr(self.model, "routed", False):
            return {}
        from anaphora.nn.mixture_of_experts import active_parameters

        return {"active_parameters": active_parameters(cast(Any, self.model))}

    def _unknown(self) -> str:
        """What becomes of a word that the vocabulary does not have."""
        return "one unknown token, ⟨unk⟩" if self.tokenizer.has_unknown else "spelled in bytes"

    def _files(self) -> list[Path]:
        if is_arpa(self.folder):
            return [self.folder]
        found = (file for file in self.folder.rglob(WEIGHTS) if file.is_file())  # of a run, not what it goes on from
        return sorted(file for file in found if CHECKPOINTS not in file.relative_to(self.folder).parts)
