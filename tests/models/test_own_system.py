"""`anaphora.register` over a class, whose keyword arguments become settings; a file that does so, and its mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

import anaphora
from anaphora.config import documentation
from anaphora.errors import UserError
from anaphora.models import build, build_language_model, registry, settings
from anaphora.models.model_file import open_model_file
from anaphora.models.registry import own_systems, system
from anaphora.models.translation.encoder_decoder import Decoder
from anaphora.models.translation.transformer_translator import Transformer
from anaphora.nn.encoder_contract import Encoder
from anaphora.nn.encoder_settings import ENCODERS
from anaphora.tokenizers.tokenizer import BOS


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    registry._registered().clear()
    ENCODERS.registered.clear()


class Counting(Encoder):
    """The sum of what was read.

    scale (float): What the sum is
        multiplied by.
    layers: How often.
    """

    causal = True

    def __init__(
        self,
        dim: int,
        *,
        scale: float = 0.5,
        layers: int = 2,
        gate: Literal["on", "off"] = "on",
        more: list[int] = [],  # noqa: B006  it is a setting's default, of which each model has a copy
    ) -> None:
        super().__init__()
        self.dim, self.scale, self.layers, self.weight = dim, scale, layers, nn.Linear(dim, dim)

    @classmethod
    def sized(cls, amount: int) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"dim": 8 if amount < 1_000_000 else 24}, {"learning_rate": 0.125}

    def start(self, rows: int, max_length: int, like: Tensor) -> dict[str, Tensor]:
        return {"position": torch.zeros(rows, dtype=torch.long), "sum": like.new_zeros(rows, self.dim)}

    def read(
        self, x: Tensor, past: dict[str, Tensor], lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        sums = past["sum"][:, None] + x.cumsum(dim=1)
        return self.weight(sums) * self.scale, {"position": past["position"] + x.shape[1], "sum": sums[:, -1].detach()}


def test_keyword_arguments_become_settings() -> None:
    assert anaphora.register("sums", task="language")(Counting) is Counting
    config: Any = settings({"kind": "sums", "scale": "0.25", "gate": False, "more": "1, 2"})
    assert (config.scale, config.gate, config.more, config.layers, config.dropout) == (0.25, "off", [1, 2], 2, 0.1)
    told = documentation(type(config))
    assert told["scale"][2] == "What the sum is multiplied by." and told["layers"][2] == "How often."
    assert told["tie"][2].startswith("Weight tying")  # those of all language models have theirs
    assert build_language_model(config, 10).encoder.scale == 0.25
    with pytest.raises(UserError, match=r"unknown setting model\.scal; did you mean 'scale'"):
        settings({"kind": "sums", "scal": 1})
    with pytest.raises(UserError, match=r"model\.layers must be a whole number, not 'many'"):
        settings({"kind": "sums", "layers": "many"})


def test_sizes_follow_the_corpus_where_the_class_says_nothing() -> None:
    anaphora.register("sums", task="language")(Counting)
    cls: Any = system("sums").settings_class()
    model, training = cls.medium(2_000_000)
    assert (model["dim"], model["layers"], model["scale"]) == (24, 2, 0.5) and training["learning_rate"] == 0.125
    assert cls.small(1000)[0]["dim"] == 8


def test_an_encoder_that_never_looks_ahead_speaks_by_steps_and_at_once() -> None:
    anaphora.register("sums", task="language")(Counting)
    model: Any = build_language_model(settings({"kind": "sums", "dim": 8}), 12).eval()
    assert "steppable" in model.capabilities and model.flops(1, 10) > 0
    ids = torch.tensor([[4, 5, 6]])
    state, found = model.start(1, 8), []
    for token, before in zip(ids[0], [BOS, 4, 5], strict=True):
        said, state = model.step(torch.tensor([before]), state)
        found.append(said[0, token])
    torch.testing.assert_close(torch.stack(found), model.score(ids, torch.tensor([3]))[0])


def test_a_whole_translator_of_ones_own() -> None:
    class Mine(Transformer):
        """Ours, with a name of its own."""

        def __init__(self, source_vocabulary: int, target_vocabulary: int, *, dim: int = 16, heads: int = 2) -> None:
            small = {"dim": dim, "heads": heads, "layers": 1, "feed_forward": 16}
            super().__init__(settings({"kind": "transformer", **small}), source_vocabulary, target_vocabulary)  # type: ignore[arg-type]

    anaphora.register("mine", task="translation")(Mine)
    config: Any = settings({"kind": "mine", "heads": 4})
    model = build(config, 12, 12)
    assert isinstance(model, Mine) and model.config is config


@pytest.mark.parametrize(
    ("name", "task", "arguments", "said"),
    [
        ("Sums", "language", "dim: int", r"a system cannot be called 'Sums'; write it as in my-model"),
        (
            "sums",
            "vectors",
            "dim: int",
            r"the task of 'sums' cannot be 'vectors'; a class of one's own is for 'language'",
        ),
        ("sums", "langauge", "dim: int", r"the task of 'sums' cannot be 'langauge'; did you mean 'language'"),
        ("sums", "translation", "dim: int", r"Mine is no Decoder or Translator, which the task 'translation' needs"),
        ("sums", "language", "dim: int, size: int", r"Mine: the setting size has no default; write size: int = 4"),
        ("sums", "language", "dim: int, size: dict = {}", r"Mine: the setting size cannot be of the type dict"),
        ("sums", "language", "dim: int, **more: int", r"Mine takes any arguments \(\*\*more: int\)"),
        ("lstm", "language", "dim: int", r"there is a system 'lstm' already; give yours another name"),
    ],
)
def test_what_cannot_be_registered_is_told_by_line(
    name: str, task: str, arguments: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import anaphora\nfrom anaphora.nn.encoder_contract import Encoder\n\n"
        f'@anaphora.register("{name}", task="{task}")\nclass Mine(Encoder):\n'
        f"    def __init__(self, {arguments}) -> None: ...\n"
    )
    with pytest.raises(UserError, match=said) as refused:
        open_model_file(file)
    assert refused.value.file == str(file) and refused.value.line in (4, 5)
    assert not own_systems()


def test_a_cell_that_is_run_again_replaces_and_another_place_does_not() -> None:
    anaphora.register("sums", task="language")(Counting)
    anaphora.register("sums", task="language")(Counting)

    class Other(Counting):
        """Elsewhere."""

    with pytest.raises(UserError, match="there is a system 'sums' already"):
        anaphora.register("sums", task="language")(Other)


def test_a_decoder_without_attention_says_so() -> None:
    class Deaf(Decoder):
        """Never looks."""

        attends = False

        def __init__(self, dim: int) -> None:
            super().__init__()

    anaphora.register("deaf", task="translation")(Deaf)
    config: Any = settings({"kind": "deaf", "dim": 8})
    assert not config.attends and "attends" not in build(config, 12, 12).capabilities  # aligned by occlusion


FILE = """import anaphora
from anaphora.nn.encoder_contract import Encoder

@anaphora.register("{name}", task="language")
class Mine(Encoder):
    causal = True
    def __init__(self, dim: int, *, size: int = {size}) -> None: ...
"""


def test_a_file_is_executed_once_and_anew_where_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE.format(name="mine", size=1) + "print('executed')\n")
    first = open_model_file(file)["mine"]
    assert open_model_file(file)["mine"] is first
    file.write_text(FILE.format(name="mine", size=2))
    again = open_model_file(file)["mine"]
    assert again.fingerprint != first.fingerprint and settings({"kind": "mine"}).size == 2  # type: ignore[union-attr]
    file.write_text(FILE.format(name="other", size=2))
    assert set(open_model_file(file)) == set(own_systems()) == {"other"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("import anaphora\n\n1 / 0\n", r"mine\.py:3: ZeroDivisionError: division by zero"),
        ("import anaphora\n\nx = (\n", r"mine\.py:3: SyntaxError: '\(' was never closed"),
        ("import nothing_like_it\n", r"mine\.py:1: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("import sys\nsys.exit(3)\n", r"mine\.py:2: SystemExit: 3"),
        ("import json\n\njson.loads('{')\n", r"mine\.py:3: JSONDecodeError: Expecting property name"),
        ("x = 1\n", r"mine\.py: registers no system; let it register one: @anaphora\.register"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_by_its_line(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(content)
    with pytest.raises(UserError) as refused:
        open_model_file(file)
    assert re.search(said, str(refused.value))


def test_a_file_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("words\n")
    for name, said in {
        "gone.py": "there is no such file",
        "text.txt": "is no Python file",
        ".": "is no Python file",
    }.items():
        with pytest.raises(UserError, match=said):
            open_model_file(tmp_path / name)
