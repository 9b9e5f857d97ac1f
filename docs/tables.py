"""Tables of these pages that are written from the code: `python docs/tables.py` writes them anew into the pages.

A page holds a line such as `<!-- written from the code: settings data -->` and, further down, `<!-- end -->`; what
stands between the two is replaced. A test compares the pages with what this would write, so that no table is stale.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from anaphora.config import type_hints
from anaphora.nn.scores import SCORES
from anaphora.tasks.language import TEXT_SIZES
from anaphora.tasks.settings_listing import section_class, settings_of, type_in_words
from anaphora.tasks.translation import CORPUS_SIZES

PART = re.compile(r"<!-- written from the code: ([\w -]+?) -->\n.*?<!-- end -->", re.DOTALL)
POCKET_PAIRS = 4_000


def current(page: str) -> str:
    """The page with its tables as the code has them now."""

    def written(found: re.Match[str]) -> str:
        return f"<!-- written from the code: {found[1]} -->\n\n{_write(*found[1].split())}\n\n<!-- end -->"

    return PART.sub(written, page)


def _write(what: str, *arguments: str) -> str:
    writers = {
        "settings": _settings,
        "recipes": _recipes,
        "scores": _scores,
        "sizes": _sizes,
        "recurrent": _recurrent_sizes,
        "convolutional": _convolutional_sizes,
        "lengths": _text_sizes,
        "constructions": _constructions,
        "senses": _senses,
        "count": _count,
        "functions": _functions,
        "methods": _methods,
        "fields": _fields,
    }
    return writers[what](*arguments)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# -- settings ----------------------------------------------------------------------------------------------------------


def _settings(section: str, kind: str = "transformer") -> str:
    """Every setting of one section (of models and vectors' training, of one kind): name, type, default, meaning."""
    hints = type_hints(section_class(section, kind))
    rows = [
        [
            f"`{one.name}`",
            type_in_words(hints[one.key], "`"),
            "; ".join(one.defaults("`")),
            one.meaning.replace("<", "&lt;"),
        ]
        for one in settings_of(section, kind)
    ]
    return _table(["setting", "type", "default", "what it does"], rows)


def _scores() -> str:
    """Every attention score: its formula, what it learns, and the docstring of its class."""
    rows = []
    for name, one in SCORES.items():
        shape = ", ".join(("D_q", "D_k")[: len(one.weight_shape(1, 1) or ())])
        weight = f"{one.symbol} ({shape}) or (H, {shape})" if shape else ""
        rows.append(
            [f"`{name}`", f"${_latex(one.formula)}$", weight, inspect.cleandoc(type(one).__doc__ or "").split("\n")[0]]
        )
    return _table(["`score`", "formula", "`weight`", "notes"], rows)


def _latex(formula: str) -> str:
    """A formula of a score, as it is typeset."""
    signs = {"·": r"\cdot", "½": r"\frac{1}{2}", "ᵀ": r"^\top", "²": "^2", "Σ": r"\sum", "tanh": r"\tanh"}
    for sign, latex in signs.items():
        formula = formula.replace(sign, latex)
    return re.sub(r"√(\w)", r"\\sqrt{\1}", formula)


def _recipes() -> str:
    """What each recipe says, beside the others of its sort: Transformers, recurrent and convolutional translators,
    published sizes of those, and all that is made of text alone."""
    from anaphora.models.registry import kinds
    from anaphora.tasks.recipes import load_recipe, recipe_names

    sorts: dict[str, dict[str, Any]] = {}
    for name in recipe_names():
        recipe = load_recipe(name)
        kind = recipe.get("model", {}).get("kind", "transformer")
        paper = " (published)" if name.endswith("-paper") else ""
        sort = "pairs" if kind in kinds("translation") else "text"
        for family in ("recurrent", "convolutional"):
            sort = f"{family}{paper}" if kind in kinds(family=f"{family} translators") else sort
        sorts.setdefault(sort, {})[name] = recipe
    return "\n\n".join(_beside(recipes) for recipes in sorts.values())


def _beside(recipes: dict[str, Any]) -> str:
    keys = dict.fromkeys(
        f"{section}.{key}" for recipe in recipes.values() for section, settings in recipe.items() for key in settings
    )
    rows = []
    for full in keys:
        section, _, key = full.partition(".")
        rows.append([f"`{full}`", *(_said(recipe.get(section, {}).get(key)) for recipe in recipes.values())])
    return _table(["setting", *(f"`{name}`" for name in recipes)], rows)


def _sizes() -> str:
    """What the size of a corpus decides where recipe and user say nothing."""
    from anaphora.tasks.translation import sized_to
    from anaphora.tokenizers.tokenizer import vocabulary_for

    by_size = {pairs: sized_to(pairs, {}) for pairs in CORPUS_SIZES}
    rows = [["`tokenizer.vocabulary`", *(f"{vocabulary_for(pairs):,}" for pairs in CORPUS_SIZES)]]
    keys = dict.fromkeys((section, key) for sized in by_size.values() for section in sized for key in sized[section])
    for section, key in keys:
        rows.append([f"`{section}.{key}`", *(_said(sized[section].get(key)) for sized in by_size.values())])
    return _table(["setting", *(f"{pairs:,} pairs" for pairs in CORPUS_SIZES)], rows)


def _recurrent_sizes() -> str:
    """The same for each kind of recurrent translator."""
    from anaphora.models.registry import kinds

    return _kinds(kinds(family="recurrent translators"))


def _convolutional_sizes() -> str:
    from anaphora.models.registry import kinds

    return _kinds(kinds(family="convolutional translators"))


def _kinds(kinds: tuple[str, ...]) -> str:
    from anaphora.models.registry import system

    rows = []
    for kind in kinds:
        sized = {pairs: system(kind).settings_class().sized(pairs) for pairs in CORPUS_SIZES}
        for place, section in enumerate(("model", "training")):
            for key in dict.fromkeys(key for one in sized.values() for key in one[place]):
                rows.append(
                    [f"`{kind}`", f"`{section}.{key}`", *(_said(one[place].get(key)) for one in sized.values())]
                )
    return _table(["kind", "setting", *(f"{pairs:,} pairs" for pairs in CORPUS_SIZES)], rows)


def _text_sizes() -> str:
    """What the length of a text decides, for each kind of language model that learns."""
    from anaphora.models.registry import kinds
    from anaphora.tasks.text_sizes import sized_to_run

    rows = []
    for kind in kinds("language"):
        own: dict[str, Any] = {"model": {"kind": kind}}
        sized = {
            tokens: sized_to_run(
                kind, {"train": {"tokens": tokens}, "valid": True}, own, {}, labeled=False, gently=False
            )
            for tokens in TEXT_SIZES
        }
        keys = dict.fromkeys((section, key) for one in sized.values() for section in one for key in one[section])
        for section, key in keys:
            values = [_said(one[section].get(key)) for one in sized.values()]
            rows.append([f"`{kind}`", f"`{section}.{key}`", *values])
    return _table(["kind", "setting", *(f"{tokens:,} tokens" for tokens in TEXT_SIZES)], rows)


def _said(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


# -- the pocket corpus -------------------------------------------------------------------------------------------------


def _count() -> str:
    from anaphora.pocket import constructions, count_sentences

    return f"The grammar has {len(constructions())} constructions and {count_sentences():,} sentences."


def _constructions() -> str:
    """Each construction with the first sentence that the training split has of it."""
    from anaphora.pocket import constructions, generate

    first = {}
    for pair in generate("train", POCKET_PAIRS):
        first.setdefault(pair.construction, pair)
    rows = [[name, first[name].source, first[name].target] for name in constructions()]
    return _table(["construction", "English", "German"], rows)


def _senses() -> str:
    """Each ambiguous word, its senses, the German word of each as the training split first says it."""
    from anaphora.pocket import AMBIGUOUS, generate, words

    said: dict[str, tuple[str, str]] = {}
    for pair in generate("train", POCKET_PAIRS):
        for label in pair.senses:
            said.setdefault(label.sense, (words(pair.target)[label.target_index], pair.source))
    rows = []
    for word, senses in AMBIGUOUS.items():
        for sense in senses:
            german, sentence = said[sense]
            rows.append([word, sense, german, sentence])
    return _table(["word", "sense", "German in this sentence", "English sentence"], rows)


# -- the Python interface ----------------------------------------------------------------------------------------------

CLASSES = {
    "TranslationModel": "anaphora.pipelines.translation_model",
    "TextModel": "anaphora.pipelines.text_model",
    "VectorsModel": "anaphora.pipelines.vectors_model",
    "Vectors": "anaphora.models.vectors.word_vectors",
    "Translation": "anaphora.decoding.translate",
    "Candidate": "anaphora.decoding.translate",
    "ScoredPair": "anaphora.decoding.translate",
    "Evaluation": "anaphora.decoding.translation_scores",
    "LengthBin": "anaphora.evaluation.by_length",
    "Alignment": "anaphora.alignment.model_alignment",
    "ScoredLine": "anaphora.decoding.text_scoring",
    "TextEvaluation": "anaphora.decoding.text_scoring",
    "ClassificationReport": "anaphora.evaluation.class_scores",
    "PairedBootstrap": "anaphora.evaluation.significance",
    "Generation": "anaphora.decoding.generation",
    "Filled": "anaphora.decoding.hidden_words",
    "Classified": "anaphora.decoding.classes",
    "WordVectors": "anaphora.decoding.text_vectors",
    "SensesText": "anaphora.explain.sense_lookup",
    "WordSenses": "anaphora.explain.sense_lookup",
    "TokenSenses": "anaphora.explain.sense_lookup",
    "Sense": "anaphora.explain.sense_lookup",
    "WhyText": "anaphora.explain.why",
    "Trace": "anaphora.explain.trace",
    "SimilarityScore": "anaphora.evaluation.vector_benchmarks",
    "AnalogyScore": "anaphora.evaluation.vector_benchmarks",
    "Outcome": "anaphora.tasks.request",
    "Report": "anaphora.checking.findings",
    "Finding": "anaphora.checking.findings",
    "Comparison": "anaphora.comparing.comparison",
}
"""Where the classes of the page on Python are."""


def _functions() -> str:
    """What `anaphora` offers: each function with its parameters, the type that it returns, and what it does."""
    import anaphora

    rows = []
    for name in anaphora.__all__:
        found = getattr(anaphora, name)
        if inspect.isfunction(found):
            rows.append([f"`anaphora.{name}({_parameters(found)})`", _returns(found), _summary(found)])
    return _table(["call", "gives", "what it does"], rows)


def _methods(name: str) -> str:
    """The public methods and properties of a class, in alphabetical order."""
    cls, rows = _class(name), []
    for key in dir(cls):
        found = inspect.getattr_static(cls, key)
        if key.startswith("_"):
            continue
        if isinstance(found, property | functools.cached_property):
            inner = found.fget if isinstance(found, property) else found.func
            rows.append([f"`.{key}`", _returns(inner), _summary(inner)])
        elif inspect.isfunction(member := getattr(cls, key)) or inspect.ismethod(member):
            rows.append([f"`.{key}({_parameters(member)})`", _returns(member), _summary(member)])
    return _table(["call", "gives", "what it does"], rows)


def _fields(name: str) -> str:
    """The fields and properties of a result."""
    from anaphora.config import documentation

    cls = _class(name)
    assert dataclasses.is_dataclass(cls), name
    rows = [[f"`.{key}`", f"`{kind}`", _plain(text)] for key, (kind, _, text) in documentation(cls).items()]
    for key, found in vars(cls).items():
        if isinstance(found, property) and not key.startswith("_"):
            rows.append([f"`.{key}`", _returns(found.fget), _summary(found.fget)])
    return _table(["field", "type", "what it is"], rows)


def _class(name: str) -> type:
    found: type = getattr(importlib.import_module(CLASSES[name]), name)
    return found


def _parameters(function: Any) -> str:
    """The names of a function's parameters; for all settings of section `decoding` stands "…"."""
    code = inspect.unwrap(function).__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    shown = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
    words: list[str] = []
    for one in shown:
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(one.name if one.name in own else "…")
    return ", ".join(dict.fromkeys(words))


def _returns(function: Any) -> str:
    kind = inspect.signature(function).return_annotation
    return "" if kind in (inspect.Signature.empty, "None", None) else f"`{kind}`"


def _summary(found: Any) -> str:
    """The first paragraph of what is written in the code."""
    return _plain(" ".join((inspect.getdoc(found) or "").split("\n\n")[0].split()))


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    for path in sorted(Path(__file__).parent.rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        if (fresh := current(page)) != page:
            path.write_text(fresh, encoding="utf-8")
            print(f"{path.name}: written anew")
