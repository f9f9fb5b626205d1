"""The import graph: imports point toward the base only, and there is no cycle.

Lazy imports inside functions and those under TYPE_CHECKING count as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"ove_sb3": "ove_sb3", "envs": "ove_sb3.envs", "experiments": "ove_sb3.experiments"}

# Lowest first. A module may import its own layer and the layers before it.
LAYERS = [
    [
        "errors",
        "_validation",
        "_files",
        "_progress",
        "_versions",
        "_parallel",
        "_escape",
        "_figure",
    ],
    ["core"],
    ["store"],
    ["data"],
    ["envs"],
    ["policies"],
    ["collection"],
    ["report"],
    ["evaluation"],
    ["callbacks"],
    ["cli"],
    ["__main__"],
    ["experiments"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
COMMANDS = "ove_sb3.cli.app"  # `ove-sb3 reproduce` runs the experiments


def modules() -> dict[str, Path]:
    """All modules of the installed package by name; the facade itself is left out."""
    paths: dict[str, Path] = {}
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *(part for part in parts if part != "__init__")])
            paths[name] = path
    del paths["ove_sb3"]
    return paths


def imported(name: str, path: Path) -> Iterator[str]:
    """Full names of everything a module imports, wherever in the file."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def graph() -> dict[str, set[str]]:
    """Modules of this package that every module imports."""
    paths = modules()
    edges: dict[str, set[str]] = {}
    for name, path in paths.items():
        edges[name] = set()
        for target in imported(name, path):
            while target and target not in paths:
                target = target.rpartition(".")[0]
            if target and target != name:
                edges[name].add(target)
    return edges


def layer(name: str) -> str:
    return name.split(".")[1]


GRAPH = graph()


def test_every_module_has_a_layer() -> None:
    assert {layer(name) for name in GRAPH} == set(LEVEL)


def test_imports_point_toward_the_base() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, targets in GRAPH.items()
        for target in sorted(targets)
        if LEVEL[layer(target)] > LEVEL[layer(name)] and name != COMMANDS
    ]
    assert wrong == []


def test_there_is_no_cycle() -> None:
    # A package and its own modules: `__init__` re-exports, and importing a module runs it.
    edges = {
        name: {target for target in targets if not name.startswith(f"{target}.")}
        for name, targets in GRAPH.items()
    }
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def test_the_core_needs_neither_torch_nor_gymnasium() -> None:
    heavy = ("torch", "stable_baselines3", "gymnasium", "pyarrow", "pandas")
    for name, path in modules().items():
        if layer(name) in ("core", "errors", "_validation"):
            used = {target.partition(".")[0] for target in imported(name, path)}
            assert used.isdisjoint(heavy), name


def test_nothing_imports_the_facade() -> None:
    for name, path in modules().items():
        if layer(name) == "experiments":
            continue
        targets = list(imported(name, path))
        assert "ove_sb3" not in targets, name
        assert "ove_sb3.__version__" not in targets or name.startswith("ove_sb3.cli"), name
