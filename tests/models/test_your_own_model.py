"""docs/examples/my_model.py, the file of docs/your-own-model.md: what the page promises of it."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.errors import UserError
from anaphora.files.entries import read_entries
from anaphora.folder import read_config
from anaphora.models import build, build_language_model, registry, settings
from anaphora.models.model_file import ModelFileWarning, open_model_file
from anaphora.nn.encoder_settings import ENCODERS
from anaphora.tokenizers.tokenizer import BOS
from anaphora.training.checkpoint import Checkpoints
from deadly import in_a_child

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
FILE, SMALLEST = EXAMPLES / "my_model.py", EXAMPLES / "my_first.py"
RUN: dict[str, Any] = {
    "model.dim": 16,
    "model.heads": 2,
    "tokenizer.kind": "word",
    "training.max_steps": 2,
    "training.checkpoint_every": 1,
    "training.samples": 1,
    "decoding.max_length_ratio": 1.0,
    "decoding.max_length_extra": 4,
}


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    registry._registered().clear()
    ENCODERS.registered.clear()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file, draw = tmp_path_factory.mktemp("text") / "text.txt", random.Random(1)
    words = ["the", "dog", "sees", "a", "cat", "and", "a", "cat", "sees", "the", "bird"]
    file.write_text("".join(" ".join(draw.choices(words, k=draw.randint(3, 9))) + "\n" for _ in range(120)))
    return file


@pytest.fixture(scope="module")
def language(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("language") / "run"
    anaphora.train(run, text=text, model=FILE, settings={**RUN, "training.max_steps": 4}, device="cpu", progress=False)
    return run


@pytest.fixture(scope="module")
def translator(corpus: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("translator") / "run"
    anaphora.train(run, **corpus, model=FILE, settings=RUN, device="cpu", progress=False)
    return run


def test_nothing_of_it_is_in_the_package() -> None:
    assert set(open_model_file(FILE)) == {"rwkv", "rwkv-translator"}
    assert not {"rwkv", "rwkv-translator"} & set(registry._ours())
    changed = subprocess.run(["grep", "-rlw", "Rwkv", ROOT / "src", "--include=*.py"], capture_output=True, text=True)
    assert {Path(one).name for one in changed.stdout.split()} <= {"own_system.py"}  # whose docstring has an example


@pytest.mark.parametrize(("file", "kind"), [(FILE, "rwkv"), (SMALLEST, "running-mean")])
def test_the_encoder_reads_at_once_in_pieces_and_by_steps(file: Path, kind: str) -> None:
    open_model_file(file)
    encoder = build_language_model(settings({"kind": kind, "dim": 16}), 20).eval().encoder
    torch.manual_seed(1)
    x = torch.randn(3, 70, 16)  # longer than one of its masked products
    whole = encoder(x)
    first, past = encoder.read(x[:, :29], encoder.start(3, 70, x))
    rest, past = encoder.read(x[:, 29:], past)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), whole, atol=1e-5, rtol=1e-5)
    by_steps = encoder.start(3, 70, x)
    steps = [encoder.step(x[:, place], by_steps) for place in range(70)]
    torch.testing.assert_close(torch.stack(steps, dim=1), whole, atol=1e-5, rtol=1e-5)
    for name, tensor in past.items():
        torch.testing.assert_close(tensor, by_steps[name], atol=1e-5, rtol=1e-5)
    later = x.clone()
    later[:, 40:] += 1.0
    assert torch.equal(encoder(later)[:, :40], whole[:, :40])  # causal
    assert (encoder(later)[:, 40:] != whole[:, 40:]).any()
    _, short = encoder.read(x, encoder.start(3, 70, x), torch.tensor([70, 9, 0]))
    _, alone = encoder.read(x[1:2, :9], encoder.start(1, 70, x))
    assert all(torch.allclose(short[name][1:2], alone[name], atol=1e-6) for name in alone)  # padding leaves no trace
    assert all(torch.equal(short[name][2:], encoder.start(1, 70, x)[name]) for name in alone)


def test_the_decoder_says_by_steps_what_it_says_at_once() -> None:
    open_model_file(FILE)
    torch.manual_seed(1)
    model: Any = build(settings({"kind": "rwkv-translator", "dim": 16}), 20, 20).eval()
    source, lengths, target = torch.randint(4, 20, (2, 7)), torch.tensor([7, 4]), torch.randint(4, 20, (2, 6))
    whole, state = model.log_probabilities(source, target, lengths), model.start(source, lengths, 1, 20)
    for place in range(6):
        said, state, looked = model.step(target[:, place], state, attention=True)
        torch.testing.assert_close(said, whole[:, place], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(looked.sum(dim=1), torch.ones(2))
        assert (looked[1, 4:] == 0).all()  # padding of the source


def test_a_language_model_of_ones_own(language: Path) -> None:
    model: Any = anaphora.load(language, model=FILE, device="cpu")
    assert model.config.model.kind == "rwkv" and model.config.model.heads == 2
    ids = torch.tensor([model.tokenizer.encode("the dog sees a cat")])
    at_once = model.model.score(ids, torch.tensor([ids.shape[1]]))
    state, by_steps = model.model.start(1, 16), []
    for before, token in zip([BOS, *ids[0].tolist()], ids[0].tolist(), strict=False):
        said, state = model.model.step(torch.tensor([before]), state)
        by_steps.append(said[0, token])
    torch.testing.assert_close(torch.stack(by_steps), at_once[0], atol=1e-4, rtol=1e-5)
    assert model.generate("the dog", beam=3, max_new_tokens=5).text.startswith("the dog")
    drawn = [model.generate("the dog", seed=1, max_new_tokens=5).text for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_an_encoder_of_ones_own_tells_texts_apart(text: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("".join("this\n" if "bird" in line else "that\n" for line in text.open()))
    run = tmp_path / "run"
    own = {"model.decay": 0.5, "model.dim": 8, "training.max_steps": 1}
    anaphora.train(run, text=text, labels=labels, model=SMALLEST, settings=own, device="cpu", progress=False)
    model: Any = anaphora.load(run, model=SMALLEST, device="cpu")
    assert model.model.encoder.decay == 0.5
    assert model.classify("the bird").label in ("this", "that")


def test_a_translator_of_ones_own(translator: Path, corpus: dict[str, Path], tmp_path: Path) -> None:
    model: Any = anaphora.load(translator, model=FILE, device="cpu")
    assert isinstance(model.translate("the dog sees", beam=4).text, str)
    assert model.score("the dog", "der Hund").log_probability < 0
    assert "attention" in model.alignment_choice.method.source_of_weights
    assert model.align("the old dog", "der alte Hund").links is not None
    run = Path(shutil.copytree(translator, tmp_path / "run"))
    more = {**RUN, "training.max_steps": 3}
    done = anaphora.train(run, **corpus, model=FILE, settings=more, device="cpu", progress=False)
    assert (done.steps, done.kind) == (3, "rwkv-translator")


def test_an_encoder_of_ones_own_reads_for_our_decoders(corpus: dict[str, Path], tmp_path: Path) -> None:
    run, own = tmp_path / "run", {**RUN, "model.encoder": "running-mean", "training.max_steps": 1}
    del own["model.heads"]
    anaphora.train(run, **corpus, recipe="luong", model=SMALLEST, settings=own, device="cpu", progress=False)
    model: Any = anaphora.load(run, model=SMALLEST, device="cpu")
    assert type(model.model.encoder).__name__ == "RunningMean" and model.translate("the dog", beam=2).text is not None
    assert read_config(run)["run"]["model_file"] == "my_first.py"
    registry._registered().clear()
    ENCODERS.registered.clear()
    with pytest.raises(UserError, match=r"its system, running-mean, came from a file, my_first\.py"):
        anaphora.load(run)


def test_killed_and_continued_is_the_same(language: Path, text: Path, tmp_path: Path) -> None:
    run, more = tmp_path / "run", {**RUN, "training.max_steps": 4}

    def train() -> None:
        anaphora.train(run, text=text, model=FILE, settings=more, device="cpu", progress=False)

    def killed() -> None:
        save = Checkpoints.save

        def saved(self: Checkpoints, *arguments: Any) -> Any:
            found = save(self, *arguments)
            if len(list(self.folder.glob("step-*"))) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        Checkpoints.save = saved  # type: ignore[method-assign]
        train()

    assert in_a_child(killed) == -signal.SIGKILL
    assert not (run / "checkpoints" / "step-00000004").exists()
    train()
    for file in ("checkpoints/step-00000004/training.safetensors", "model.safetensors"):
        assert (run / file).read_bytes() == (language / file).read_bytes(), file


def test_a_folder_has_the_name_and_the_fingerprint_and_no_code(language: Path) -> None:
    run = read_config(language)["run"]
    assert run["model_file"] == "my_model.py" and len(run["model_sha256"]) == 64
    assert not list(language.rglob("*.py"))
    registry._registered().clear()
    wanted = r"its system, rwkv, came from a file, my_model\.py, .*; name that file: model='my_model\.py'"
    with pytest.raises(UserError, match=wanted):
        anaphora.load(language)


def test_a_file_that_was_changed_is_told_and_not_trained_on(language: Path, text: Path, tmp_path: Path) -> None:
    changed = tmp_path / "mine.py"
    changed.write_bytes(FILE.read_bytes() + b"\n# another line\n")
    with pytest.warns(ModelFileWarning, match=r"its model learned with my_model\.py \(sha256 .*\), and mine\.py is"):
        anaphora.load(language, model=changed, device="cpu")
    run = Path(shutil.copytree(language, tmp_path / "run"))
    said = {**RUN, "training.max_steps": 5}
    more: dict[str, Any] = {"text": text, "model": changed, "settings": said, "progress": False}
    with (
        pytest.warns(ModelFileWarning),
        pytest.raises(UserError, match=r"the file of its system was changed: .* or add force=True"),
    ):
        anaphora.train(run, **more, device="cpu")
    with pytest.warns(ModelFileWarning):
        assert anaphora.train(run, **more, device="cpu", force=True).steps == 5
    assert read_config(run)["run"]["model_file"] == "mine.py"


def test_a_translator_added_to_the_package_is_one_file(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/extending.md shows it."""
    name = "anaphora.models.translation.recurrent.pooled"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "pooled.py")
    assert spec is not None and spec.loader is not None
    monkeypatch.setitem(sys.modules, name, module := importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    (entry,) = read_entries(registry.System, EXAMPLES)
    registry.register(entry)
    own = {**RUN, "model.layers": 1, "model.cell": "gru"}
    del own["model.heads"]
    run = tmp_path / "run"
    anaphora.train(run, **corpus, recipe="pooled", settings=own, device="cpu", progress=False)
    model: Any = anaphora.load(run, device="cpu")
    assert read_config(run)["model"]["kind"] == "pooled" and isinstance(model.translate("the dog").text, str)
    source, target = torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 6))
    whole, lengths = model.model.log_probabilities(source, target), torch.tensor([7, 7])
    state = model.model.start(source, lengths, 1, 20)
    for place in range(6):
        said, state, _ = model.model.step(target[:, place], state)
        torch.testing.assert_close(said, whole[:, place], atol=1e-5, rtol=1e-5)
