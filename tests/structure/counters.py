"""What the architecture is measured by, counted in the syntax tree: `python tests/structure/counters.py [--list]`.

kind checks     places that ask what kind a system is: comparisons, membership and `match` with names of kinds,
                `isinstance` with the settings or the model class of a kind, dictionaries keyed by kinds
top level       modules that stand beside the packages
chain to loss   files between `anaphora train` and the number that is the loss (docs/architecture.md, `Chain`)
import cycles   inside packages: groups of modules that import each other, however far around
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "anaphora"
KINDS = {
    "transformer", "seq2seq", "bahdanau", "luong", "deep-att", "gnmt", "moe", "bytenet", "convs2s", "ensemble", "ngram",
    "mixture", "dan", "window", "rnn", "gru", "lstm", "conv", "transformer-decoder", "transformer-encoder", "backpack",
    "word2vec", "glove",
}  # fmt: skip
TASKS = {"translation", "language", "counting", "vectors", "ensemble", "mixture"}
"""Two of them are called as their only system is: the table of all tasks asks for no kind."""
ASKED = {"kind", "kinds", "encoder", "decoder", "reads_with", "reads", "family", "recipe"}
"""Names under which a kind goes; `score == "window"` asks something else."""
HOMES = ("models/registry.py", "nn/")
"""Where it may be asked: the registry; and what parts call a kind is one of cells, scores or norms, not of systems."""


@dataclass(frozen=True, order=True)
class Place:
    file: str
    line: int
    what: str
    code: str


def modules(source: Path = SOURCE) -> dict[str, ast.Module]:
    return {
        str(file.relative_to(source)): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(source.rglob("*.py"))
    }


def kind_checks(trees: dict[str, ast.Module]) -> list[Place]:
    tuples, classes = _named_kinds(trees), _classes_of_kinds(trees)
    found = []
    for file, tree in trees.items():
        if file.startswith(HOMES):
            continue
        for node in ast.walk(tree):
            if what := _asks(node, tuples, classes):
                code = ast.unparse(node).splitlines()[0][:100]
                found.append(Place(file, getattr(node, "lineno", 0), what, code))
    return sorted(found)


def _asks(node: ast.AST, tuples: set[str], classes: set[str]) -> str | None:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        names_kinds = any(_is_kinds(side) for side in sides) and any(_mentions(side, ASKED) for side in sides)
        return "comparison" if names_kinds or any(_names(side) & tuples for side in sides) else None
    if isinstance(node, ast.Match):
        patterns = [p.value for c in node.cases for p in ast.walk(c.pattern) if isinstance(p, ast.MatchValue)]
        patterned = {n.cls for c in node.cases for n in ast.walk(c.pattern) if isinstance(n, ast.MatchClass)}
        by_class = any(_names(cls) & classes for cls in patterned)
        return "match" if any(_is_kinds(value) for value in patterns) or by_class else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        return "isinstance" if len(node.args) == 2 and _names(node.args[1]) & classes else None
    if isinstance(node, ast.Dict):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        keyed = len(keys) > 1 and all(isinstance(key, str) for key in keys) and sum(key in KINDS for key in keys) > 1
        return "dictionary" if keyed and not set(keys) >= TASKS else None
    return None


def _is_kinds(node: ast.AST) -> bool:
    """A kind's name, or a collection of nothing else."""
    if isinstance(node, ast.Constant):
        return node.value in KINDS
    return isinstance(node, ast.Tuple | ast.List | ast.Set) and bool(node.elts) and all(map(_is_kinds, node.elts))


def _names(node: ast.AST) -> set[str]:
    called = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return called | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _mentions(node: ast.AST, names: set[str]) -> bool:
    keys = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return bool((_names(node) | (keys - KINDS)) & names)


def _named_kinds(trees: dict[str, ast.Module]) -> set[str]:
    """Module-level names of collections of kinds, and of sums of such."""
    assigned: dict[str, ast.expr] = {}
    for tree in trees.values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                assigned[node.target.id] = node.value
    found: set[str] = set()
    while True:
        more = {name for name, value in assigned.items() if name not in found and _holds_kinds(value, found)}
        if not more:
            return found
        found |= more


def _holds_kinds(value: ast.expr, known: set[str]) -> bool:
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        parts = [part.value if isinstance(part, ast.Starred) else part for part in value.elts]
        return bool(parts) and all(_is_kinds(p) or (isinstance(p, ast.Name) and p.id in known) for p in parts)
    if isinstance(value, ast.Call):  # the registry's own question
        return _names(value.func) == {"kinds"}
    if isinstance(value, ast.BinOp):
        return all(isinstance(side, ast.Name) and side.id in known for side in (value.left, value.right))
    if isinstance(value, ast.Dict):
        keys = [key for key in value.keys if key is not None]
        return len(keys) > 1 and all(_is_kinds(key) for key in keys)
    return False


def _classes_of_kinds(trees: dict[str, ast.Module]) -> set[str]:
    """Settings classes of models and models themselves: classes in models/ and pipelines/ whose names say so."""
    endings = ("Config", "Translator", "LanguageModel", "Model", "Backpack", "Classifier", "Mixture", "Ensemble")
    return {
        node.name
        for file, tree in trees.items()
        if file.startswith(("models/", "pipelines/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith(endings)
    }


def top_level(trees: dict[str, ast.Module]) -> list[str]:
    return sorted(file for file in trees if "/" not in file)


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, wherever in the file; not those for type checking alone."""
    names = {_module(file): file for file in trees}
    found: dict[str, set[str]] = {}
    for file, tree in trees.items():
        own = found.setdefault(_module(file), set())
        for node in _runs(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anaphora"):
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    own.add(inner if inner in names else str(node.module))
            elif isinstance(node, ast.Import):
                own |= {alias.name for alias in node.names if alias.name in names}
        own &= set(names)
    return found


def _module(file: str) -> str:
    return ".".join(("anaphora", *file.removesuffix(".py").removesuffix("__init__").strip("/").split("/"))).strip(".")


def _runs(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those behind `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in _names(node.test):
            continue
        yield node
        yield from _runs(node)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected groups of more than one module (Tarjan 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in graph[name]:
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in number:
            visit(name)
    return sorted(found)


def main() -> None:
    trees = modules()
    checks, around = kind_checks(trees), cycles(imports(trees))
    print(f"modules: {len(trees)}, lines: {sum(len(p.read_text().splitlines()) for p in SOURCE.rglob('*.py')):,}")
    print(f"kind checks: {len(checks)} in {len({place.file for place in checks})} files")
    print(f"top level: {len(top_level(trees))}")
    print(f"import cycles: {len(around)}")
    if "--list" in sys.argv:
        for place in checks:
            print(f"  {place.file}:{place.line}: {place.what}: {place.code}")
        for group in around:
            print("  " + " ↔ ".join(name.removeprefix("anaphora.") for name in group))


if __name__ == "__main__":
    main()
