"""Every command of README and docs/ runs: on tiny texts and models, in this process, and nothing else is changed.

A command is copied from its page. What it names is put where it is run (`support/documented_world.py`); a training is
ended after two updates. What is changed besides, what is meant to fail and what is left out is declared here.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anaphora.models import registry
from anaphora.tasks.recipes import load_recipe
from documented_pages import Documented, commands, pages, python
from documented_world import World

BEGINNERS = (
    "README.md",
    "docs/index.md",
    *(f"docs/first-{one}.md" for one in ("steps", "translator", "look", "python")),
)
"""Pages whose trainings run in the fast tier too."""

LONG = ("translate runs/words few.en --sample --n-best 64", "walk ice-and-steam")
"""What else takes seconds even here."""

PLACEHOLDERS = {"training.seed=N": "training.seed=1", "WORDS": "tokenizer.kind=word", "…": ""}
"""What a page leaves to the reader, in words that are typed; an empty one is left out."""

CHANGED: dict[str, tuple[str, ...]] = {
    "walk demo/model 'The old man reads a book.' --query Buch": ("--target", "Der alte Mann liest ein Buch ."),
    "compare ladder": ("--recipes", "bigram,lstm", "--budget", "minutes=0.01", "--no-estimate"),
    "compare systems": ("--recipes", "bahdanau:model.dim=8", "--budget", "minutes=0.01", "--no-estimate"),
    "demo --write": ("--pairs", "200"),
}
"""Options that are added, or put in place of the command's own, to what begins so: a tiny model does not say *Buch* by
itself, and many long trainings become few short ones."""

FAILS = {"convert broken.arpa new": 2, "translate runs/one input.txt --with runs/words": 2}
"""What is shown because it is refused."""

OWN = "tests/models/test_your_own_model.py and tests/cli/test_model_option.py run the files of that page"
LEFT_OUT = {
    "train runs/mean": OWN,
    "generate runs/mean": OWN,
    "settings model --model": OWN,
    "train runs/slow": OWN,
    "train runs/rwkv": OWN,
    "generate runs/rwkv": OWN,
    "translate runs/rwkv-de": OWN,
    "align runs/rwkv-de": OWN,
    "train half": "with the score that the page adds; tests/models/test_every_score.py adds and removes it",
    "demo": "trains for three minutes; tests/pocket runs it in small",
    "walk the-task": "trains five networks; tests/lectures holds its page to what it prints",
    "walk all-scores": "trains for half a minute; the same",
    "walk forgetting": "trains for minutes; the same",
    "walk bank": "trains for a minute; the same",
    "compare table": "eleven trainings; tests/comparing runs the recipes of the lectures in small",
    "compare wiki": "45 million tokens a row; the same verb runs above",
    "compare de": "eleven trainings; tests/comparing runs the recipes of the lectures in small",
}

LIMITS = (
    "training.max_steps",
    "training.max_minutes",
    "training.epochs",
    "training.checkpoint_every",
    "tokenizer.vocabulary",
)


def found() -> list[Documented]:
    """Each different command once, under the first page that has it."""
    first: dict[tuple[tuple[str, ...], str], Documented] = {}
    for page in pages():
        for one in commands(page):
            first.setdefault((one.words, one.given), one)
    return list(first.values())


def left_out(one: Documented) -> bool:
    return any(one.text == name or (" " in name and one.text.startswith(name)) for name in LEFT_OUT)


def reduced(one: Documented) -> list[str]:
    """The words to run: what the page says, ended early."""
    words = [PLACEHOLDERS.get(word, word) for word in one.words]
    words = [word.replace("replace_unknown=…", "replace_unknown=copy") for word in words if word]
    for start, options in CHANGED.items():
        if one.text.startswith(start):
            for option in options[::2]:
                if option in words and option != "--no-estimate":
                    del words[words.index(option) : words.index(option) + 2]
            words += options
    if words[0] == "train":
        words = [word for word in words if word.split("=")[0] not in LIMITS]
        words = [re.sub(r"^model\.dim=\d{3}$", "model.dim=64", word) for word in words]
        words += limits(words)
    if words[0] == "check" and "--no-estimate" not in words:
        words.append("--no-estimate")
    return words


def limits(words: list[str]) -> list[str]:
    """Settings that end a training at once; counting ends by itself."""
    recipe = words[words.index("--recipe") + 1] if "--recipe" in words else None
    kind = "transformer"
    if "--items" in words or recipe in ("skipgram", "cbow", "glove"):
        return ["training.epochs=1", "tokenizer.minimum_count=1"]
    if recipe is None and "--text" in words and not {"--labels", "--from", "--model"} & set(words):
        kind = "ngram"
    elif recipe is not None and not recipe.endswith(".yaml"):
        kind = load_recipe(recipe).get("model", {}).get("kind", "transformer")
    if kind == "ngram":
        return []
    if "--text" in words and "--from" in words and recipe is None and "--labels" not in words:
        return ["training.epochs=1"]
    small = (
        ["model.dim=32", "model.layers=1"] if "--source" in words and recipe is None and "--from" not in words else []
    )
    given = {word.split("=")[0] for word in words}
    return [
        "training.max_steps=2",
        "training.checkpoint_every=2",
        *(one for one in small if one.split("=")[0] not in given),
    ]


COMMANDS = found()


def marked(one: Documented) -> Any:
    long = one.words[0] in ("compare", "demo") or (one.words[0] == "train" and one.page not in BEGINNERS)
    long = long or one.text.startswith(LONG)
    return pytest.param(one, marks=pytest.mark.slow if long else (), id=f"{Path(one.page).stem}:{one.text}"[:90])


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """A system of a page's own file is known until the command ends, as in a process."""
    yield
    registry._registered().clear()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("documented"))


@pytest.mark.parametrize("one", [marked(one) for one in COMMANDS if not left_out(one)])
def test_a_command_runs(
    one: Documented, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from anaphora.cli.main import main

    words = reduced(one)
    world.place(tuple(words), one.page, tmp_path)
    monkeypatch.chdir(tmp_path)
    given = b""
    if one.given:
        world.place(tuple(re.findall(r"[\w.-]+", one.given)), one.page, tmp_path)
        given = subprocess.run(["bash", "-c", one.given], capture_output=True, check=True).stdout
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
    monkeypatch.setattr(sys, "argv", ["anaphora", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert ended.value.code == FAILS.get(one.text, 0), f"{one.page}: anaphora {one.text}\n{out[-1000:]}\n{err[-2000:]}"


def test_what_is_declared_is_on_a_page() -> None:
    """A declaration that no page needs any more is taken away."""
    texts = [one.text for one in COMMANDS]
    for start in (*CHANGED, *FAILS, *LEFT_OUT):
        assert any(text.startswith(start) for text in texts), start
    typed = {word for one in COMMANDS for word in one.words}
    assert set(PLACEHOLDERS) <= typed
    assert len(COMMANDS) > 200


# -- Python ------------------------------------------------------------------------------------------------------------

PYTHON_LEFT_OUT = {
    "docs/lectures/3-the-task.md": "trains 20 networks of each sort; tests/lectures runs it in small",
    "docs/your-own-model.md": OWN,
    "docs/extending.md": "a score for all of this process; tests/models/test_every_score.py adds and removes it",
    "docs/use-the-parts.md": "tests/test_use_the_parts.py runs it, and looks at what it prints",
    "docs/compare.md": "trains for minutes, in processes; tests/comparing has the same calls in small",
}
BEFORE: dict[str, str] = {
    "docs/alignments.md": "import anaphora",
    "docs/classifying.md": "import anaphora; lines = ['the old man sleeps']; labels = ['short']",
    "docs/senses.md": "import anaphora",
    "docs/quickstart.md": "import anaphora; a, b = anaphora.load('runs/a'), anaphora.load('runs/b')\n"
    "source, target = ['The man sleeps.'] * 3, ['Der Mann schläft.'] * 3",
}
"""What a page takes for granted."""


@pytest.mark.parametrize("page", [page for page in pages() if python(page) and page not in PYTHON_LEFT_OUT])
def test_python_runs(page: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, one after the other, in one namespace."""
    import anaphora.api

    trained = anaphora.api.train

    def briefly(run: Any, **more: Any) -> Any:
        settings = {key: value for key, value in more.pop("settings", {}).items() if key not in LIMITS}
        if "text" not in more:
            settings |= {"training.max_steps": 2, "training.checkpoint_every": 2, "model.dim": 32, "model.layers": 1}
        return trained(run, **{**more, "settings": settings, "progress": False})

    monkeypatch.setattr(anaphora.api, "train", briefly)
    source = "\n".join(python(page))
    made = set(re.findall(r'\.(?:train|compare|write)\(\s*"([^"]+)"', source))
    made |= set(re.findall(r'convert\([^,]+,\s*"([^"]+)"', source))
    named = [name for name in re.findall(r'"([\w./-]+)"', source) if name not in made]
    named += re.findall(r"load\('([^']+)'\)", BEFORE.get(page, ""))
    world.place(("python", *named), page, tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(BEFORE.get(page, ""), names)
    for number, block in enumerate(python(page)):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
