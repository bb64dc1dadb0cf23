"""What a rule about the source asks of a module: whom it calls, what it uses, by whatever name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests import source_trees
from tests.source_names import Names
from tests.source_trees import nodes


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """Each module's path below the package, and its tree; all of them where no package is named."""
    for name, tree in source_trees.modules():
        if not packages or name.split("/")[0] in packages:
            yield name, tree


@cache
def names_in(tree: ast.AST) -> Names:
    return Names(tree)


def uses(tree: ast.AST, wanted: set[str]) -> Iterator[str]:
    """The line and full name of each use of one of these: a call, an import, another name for it."""
    found = {(each.line, each.name) for each in names_in(tree).references if each.name in wanted}
    yield from (f"{line} {name}" for line, name in sorted(found))


def names_any(tree: ast.AST, names: set[str]) -> bool:
    return any(name_of(node) in names for node in ast.walk(tree))


def last_of(name: str) -> str:
    return name.rpartition(".")[2]


def name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def calling(name: str) -> set[str]:
    """The modules that call this, or give it another name."""
    return {module for module, tree in modules() if calls(tree, name)}


def calls(tree: ast.AST, name: str) -> bool:
    names = names_in(tree)
    for node in nodes(tree):
        if isinstance(node, ast.Call) and last_of(names.full_name(node.func)) == name:
            return True
        if isinstance(node, ast.ImportFrom) and any(each.name == name and each.asname for each in node.names):
            return True
        if isinstance(node, ast.Assign) and last_of(names.full_name(node.value)) == name:
            return True
    return False
