"""Imports point one way: a package uses only packages before it in the data's path."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source_trees import SOURCE, nodes, tree_of

# What each may import, apart from itself. `records` uses neither `files` nor `engine`: it is given buffers.
ORDER = [
    "version",
    "installing",
    "null_handler",
    "lazy_names",
    "limits",
    "errors",
    "clock",
    "forks",
    "buffers",
    "config",
    "files",
    "engine",
    "signals",
    "records",
    "segment",
    "log",
    "directory",
    "manager",
    "operations",
    "jobs",
    "scanning",
    "tables",
    "questions",
    "polars",
    "duckdb",
    "spark",
    "console",
    "server",
    "cli",
]
WAYS_IN = {"cli", "console", "server"}
NOT_USED_BY = {"records": {"files", "engine"}}


def allowed(layer: str) -> set[str]:
    left = set(ORDER[: ORDER.index(layer)]) - NOT_USED_BY.get(layer, set())
    return left | {layer} if layer == "cli" else (left - WAYS_IN) | {layer}


def layer_of(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_layers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the layer of each import of our own packages, anywhere in the file."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide the layer"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "stratalog" else [module]
        else:
            continue
        for name in names:
            if name.startswith("stratalog."):
                yield node.lineno, name.split(".")[1]


def test_a_package_imports_only_from_its_left() -> None:
    wrong = []
    for module in sorted(SOURCE.rglob("*.py")):
        layer = layer_of(module)
        if layer == "__init__":
            continue
        for line, other in imported_layers(tree_of(module)):
            if other in ORDER and other not in allowed(layer):
                wrong.append(f"{module.relative_to(SOURCE)}:{line} imports stratalog.{other}")

    assert wrong == []


def test_every_package_has_its_place_in_the_order() -> None:
    found = {layer_of(module) for module in SOURCE.rglob("*.py")} - {"__init__"}

    assert found <= set(ORDER)


def test_the_reader_of_imports_sees_each_form() -> None:
    source = """
import stratalog.records.walk
from stratalog import files
from stratalog.engine.threads import ThreadEngine
def late():
    import stratalog.spark.session as s
"""

    assert [layer for _, layer in imported_layers(ast.parse(source))] == [
        "records",
        "files",
        "engine",
        "spark",
    ]


def test_records_may_import_neither_files_nor_the_engine() -> None:
    assert not {"files", "engine"} & allowed("records")
    assert {"errors", "config", "records"} <= allowed("records")
