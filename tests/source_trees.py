"""The source as trees, which each process parses and walks once: many tests look at all of it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import stratalog

SOURCE = Path(stratalog.__file__).parent


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Each module's path below the package, and its tree."""
    files = sorted(SOURCE.rglob("*.py"))
    return tuple((file.relative_to(SOURCE).as_posix(), tree_of(file)) for file in files)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """What `ast.walk` gives, outermost first."""
    return tuple(ast.walk(tree))
