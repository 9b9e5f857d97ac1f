"""The senses of every word of a vocabulary, made once and kept: (V, k, dim).

A word's senses do not depend on its context, so a model in use need not compute them: it looks them up. The table is a
file of the safetensors kind, `senses.safetensors`, which is mapped, not loaded: of 50,000 words with 16 senses of 768
numbers, 1.2 GB in bfloat16, a text reads the rows of its own words alone.

A table belongs to the weights that it was made of. Their fingerprint stands in the file, and a table of others is
refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.files.foreign import is_there
from anaphora.folder import written_by_others

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack

FILE = "senses.safetensors"
AT_ONCE = 4096
"""Words whose senses are computed at once."""


class SenseTable:
    """Senses by word: `rows(ids (N,)) -> (N, k, dim)`."""

    def __init__(self, senses: Tensor, fingerprint: str) -> None:
        self.senses, self.fingerprint = senses, fingerprint

    @classmethod
    @torch.no_grad()
    def build(cls, model: Backpack, dtype: torch.dtype = torch.bfloat16) -> SenseTable:
        """The table of a model, where the model is; without interventions, which are applied to what is looked up, and
        without dropout, even of a model that is learning."""
        every, learning = torch.arange(model.vocabulary, device=model.device), model.sense_network.training
        senses = torch.empty(model.vocabulary, model.senses_count, model.dim, dtype=dtype, device=model.device)
        model.sense_network.eval()
        for some in every.split(AT_ONCE):
            senses[some] = model.sense_network(model.vocabulary_matrix[some]).to(dtype)
        model.sense_network.train(learning)
        return cls(senses, fingerprint_of(model))

    def rows(self, ids: Tensor) -> Tensor:
        """ids (N,) -> (N, k, dim), as the table has them."""
        return self.senses.index_select(0, ids.to(self.senses.device))

    def to(self, device: torch.device | str) -> SenseTable:
        return SenseTable(self.senses.to(device), self.fingerprint)

    def save(self, folder: Path) -> Path:
        """Write the table into a folder, whole or not at all."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        path = folder / FILE
        with written_by_others(path) as part:
            try:
                save_file({"senses": self.senses.cpu().contiguous()}, part, {"fingerprint": self.fingerprint})
            except SafetensorError as error:
                cure = "make room, or ask for the rights"
                raise UserError(f"cannot be written ({error})", file=path, cure=cure) from None
        return path

    @classmethod
    def open(cls, folder: Path, model: Backpack) -> SenseTable:
        """The table of a folder, mapped; a UserError where it is missing, broken, or of other weights."""
        from safetensors import SafetensorError, safe_open

        path = folder / FILE
        if not is_there(path):
            raise UserError("holds no table of senses", file=folder, cure=f"anaphora senses {folder} --table makes it")
        try:
            with safe_open(path, framework="pt") as file:
                said, senses = (file.metadata() or {}).get("fingerprint", ""), file.get_tensor("senses")
        except (SafetensorError, OSError) as error:
            raise UserError(f"is no table of senses ({error})", file=path, cure="delete it, or make it anew") from None
        shape = (model.vocabulary, model.senses_count, model.dim)
        if said != fingerprint_of(model) or tuple(senses.shape) != shape:
            raise UserError("is a table of senses of another model", file=path, cure="delete it, or make it anew")
        return cls(senses if torch.device(model.device).type == "cpu" else senses.to(model.device), said)


def attach_stored(model: Backpack, folder: Path) -> list[str]:
    """Look senses up in the folder's table, where there is one. A table of weights that were learned on since is left
    alone: what there is to say of it."""
    if not os.path.lexists(folder / FILE):
        return []
    try:
        model.attach(SenseTable.open(folder, model))
    except UserError as error:
        return [f"{FILE} {error.what}: senses are computed; anaphora senses {folder} --table makes it anew"]
    return []


def fingerprint_of(model: Backpack) -> str:
    """Of all that senses are made of: the sense network and the table of words."""
    digest = hashlib.blake2b(digest_size=16)
    named = {"words": model.vocabulary_matrix, **dict(model.sense_network.named_parameters())}
    for name in sorted(named):
        tensor = named[name].detach().cpu().contiguous()
        digest.update(json.dumps([name, list(tensor.shape), str(tensor.dtype)]).encode())
        digest.update(tensor.view(torch.uint8).numpy().data)
    return digest.hexdigest()
