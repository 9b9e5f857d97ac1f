"""What the tab key offers for values: recipes, settings and what they can be, model folders, choices of options.

The shell asks by calling `anaphora` with _ANAPHORA_COMPLETE set (typer answers for verbs and options); `Verb` gives its
parameters what stands here, by their names. An empty answer leaves the word to the shell, which offers files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ASKED = "_ANAPHORA_COMPLETE"
"""Set by a shell that wants completions."""
BREAKS = ("=", ":")
"""Where bash, besides blanks, parts words: it hands out `a=b` as three."""
MODEL, ARPA = "config.yaml", (".arpa", ".arpa.gz", ".arpa.xz", ".arpa.zst")
"""What makes a folder a model's, and how the names of files end that may stand in its place."""
SAFE = re.compile(r"[\w./+~-]+")
"""Names that need no quotes; the others are left to the shell."""

Offer = Callable[[Any, str], Iterable[str]]
"""What a word may become: by what was typed before it (click's context), and its beginning."""


def give(params: list[Any], verb: str) -> None:
    """Let the parameters of a verb offer values; typer asks each for its `shell_complete`."""
    for param in params:
        offer = OFFERS.get(f"{verb}.{param.name}") or OFFERS.get(param.name)
        if offer is not None:
            param.shell_complete = _completer(offer)


def _completer(offer: Offer) -> Callable[[Any, str], list[Any]]:
    def complete(context: Any, begun: str) -> list[Any]:
        with suppress(Exception):  # whoever presses the tab key wants no error in the middle of a line
            found = [value for value in offer(context, begun) if value.startswith(begun)]
            shown = len(_broken_off(begun))
            return [SimpleNamespace(value=value[shown:], type="plain", help=None) for value in found]
        return []

    return complete


# -- what there is -----------------------------------------------------------------------------------------------------


def _recipes(_: Any, __: str) -> list[str]:
    from anaphora.tasks.recipes import recipe_names

    return recipe_names()


def _rows(context: Any, begun: str) -> Iterator[str]:
    """Of --recipes a,b:KEY=VALUE,…: the last one, a recipe or one of its settings."""
    before, comma, last = begun.rpartition(",")
    recipe, colon, setting = last.partition(":")
    if colon:
        found = [f"{recipe}:{one}" for one in _of_recipe(recipe.rpartition("=")[2], setting)]
    else:
        found = [*_recipes(context, last), *(["lectures"] if not before else [])]
    yield from (f"{before}{comma}{one}" for one in found)


def _settings(context: Any, begun: str) -> Iterator[str]:
    """SECTION.KEY=VALUE of the recipe that was named, or of the one that would be taken."""
    said = context.params
    recipe = said.get("recipe") or ("ngram" if said.get("text") else "skipgram" if said.get("items") else None)
    return _of_recipe(recipe, begun)


def _of_recipe(recipe: str | None, begun: str) -> Iterator[str]:
    from anaphora.tasks.settings_listing import choices_of_settings

    name, equals, _ = begun.partition("=")
    for known, choices in choices_of_settings(recipe).items():
        if not equals:
            yield f"{known}="
        elif known == name:
            yield from (f"{known}={value}" for value in choices)


def _decoding(_: Any, begun: str) -> Iterator[str]:
    """KEY=VALUE of --set, where a model is used."""
    found = _of_recipe(None, f"decoding.{begun}")
    return (one.removeprefix("decoding.") for one in found if one.startswith("decoding."))


def _listed(context: Any, begun: str) -> list[str]:
    """Sections and names of settings."""
    from anaphora.tasks.settings_listing import SECTIONS, choices_of_settings

    return [*SECTIONS, *choices_of_settings(context.params.get("recipe"))]


def _models(_: Any, begun: str) -> Iterator[str]:
    """Model folders, ARPA files, and folders in which there are such."""
    folder, slash, _ = begun.rpartition("/")
    for path in sorted(Path(folder + slash or ".").expanduser().iterdir()):
        name = f"{folder}{slash}{path.name}"
        if not SAFE.fullmatch(name) or path.name.startswith("."):
            continue
        if (path / MODEL).is_file() or path.name.endswith(ARPA):
            yield name
        elif path.is_dir() and any(one for depth in ("*", "*/*") for one in path.glob(f"{depth}/{MODEL}")):
            yield f"{name}/"


def _examples_or_models(context: Any, begun: str) -> Iterator[str]:
    from anaphora.lectures import EXAMPLES

    yield from EXAMPLES
    yield from _models(context, begun)


def _one_of(*values: str) -> Offer:
    return lambda _, __: values


OFFERS: dict[str, Offer] = {
    "recipe": _recipes,
    "recipes": _rows,
    "settings": _settings,
    "compare.set_": _settings,
    "set_": _decoding,
    "settings.name": _listed,
    "device": _one_of("auto", "cpu", "cuda", "mps"),
    "mbr": _one_of("chrf", "bleu", "gleu"),
    "split": _one_of("punctuation", "whitespace"),
    "align.method": _one_of("auto", "mean", "occlusion"),
    "map.method": _one_of("pca", "tsne"),
    "encode.pool": _one_of("mean", "max", "last", "first"),
    "walk.what": _examples_or_models,
    **dict.fromkeys(("model", "models", "run", "with_", "beside", "from_", "draft", "convert.from_"), _models),
}
"""By the name of a parameter, or of verb and parameter."""


# -- bash --------------------------------------------------------------------------------------------------------------


def join_words() -> None:
    """Bash hands out `a=b` as `a`, `=`, `b`: put the words that typer will read together again."""
    if not os.environ.get(ASKED, "").startswith("complete_bash") or "COMP_WORDS" not in os.environ:
        return
    words, place = re.split(r"[\n ]", os.environ["COMP_WORDS"]), int(os.environ.get("COMP_CWORD", 0))
    joined: list[str] = []
    for number, word in enumerate(words[: place + 1]):
        beside = number > 1 and (word in BREAKS or words[number - 1] in BREAKS)
        if beside and not joined[-1].startswith("--"):
            joined[-1] += word
        elif not beside or word not in BREAKS:
            joined.append(word)
        elif number == place:  # --recipe= and nothing yet
            joined.append("")
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)


def _broken_off(begun: str) -> str:
    """What bash has parted from the word that it completes, and does not want to have again."""
    if not os.environ.get(ASKED, "").startswith("complete_bash"):
        return ""
    return begun[: 1 + max(begun.rfind(mark) for mark in BREAKS)]


# -- installing --------------------------------------------------------------------------------------------------------

OPTIONS = ("--install-completion", "--show-completion")
NO_BLANK = "[[ ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null"
"""For bash: behind `training.max_steps=` and `runs/` more is to come."""


def with_shell(words: list[str]) -> list[str]:
    """`--install-completion [SHELL]` with its shell: the one that was named, or that calls."""
    from anaphora.errors import UserError

    shell = words[1] if len(words) > 1 else _calling_shell()
    if shell not in (known := ("bash", "zsh", "fish", "powershell", "pwsh")):
        what = f"{shell!r} is no shell with completion" if shell else "it cannot be seen which shell this is"
        raise UserError(what, cure=f"name one of {', '.join(known)}: anaphora {words[0]} bash")
    _prepare_typer()
    return [words[0], shell]


def _prepare_typer() -> None:
    """Typer either takes the name of a shell or looks for the one that calls, and fails where it sees none: it is told
    to take the name. Its lines for bash put a blank behind every word."""
    os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    with suppress(ImportError, AttributeError, KeyError):  # of other versions the blank has to be deleted by hand
        from typer import _completion_shared

        scripts = _completion_shared._completion_scripts
        if NO_BLANK not in scripts["bash"]:
            scripts["bash"] = scripts["bash"].replace("    return 0", f"    {NO_BLANK}\n    return 0")


def _calling_shell() -> str:
    with suppress(Exception):  # whichever way it fails to see one, the environment names the shell of the login
        import shellingham

        return str(shellingham.detect_shell()[0])
    return Path(os.environ.get("SHELL", "")).name
