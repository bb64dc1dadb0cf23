"""The full names that the source of a module uses, whatever aliases it has for them.

`from os import pread as look`, `import os as system`, `system.pread`, `getattr(os, "pread")` and
`look = os.pread` all name `os.pread`. It is for tests that restrict who may use what: an alias must not get
around them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, cached_property
from typing import NamedTuple

from tests.source_trees import nodes


class Reference(NamedTuple):
    """One place that names something imported or built in; `node` is the expression, or the import."""

    name: str
    node: ast.AST
    line: int


class Names:
    """The names of one module, resolved through its imports and plain assignments."""

    def __init__(self, tree: ast.AST) -> None:
        self._tree = tree
        self._known: dict[str, str] = {}
        for node in nodes(tree):
            for alias, full in _imported(node):
                self._known[alias] = full
        for _ in range(3):  # what is assigned from an alias of an alias
            for node in nodes(tree):
                for target, value in _assigned(node):
                    if (full := self.full_name(value)) and full.split(".")[0] != target:
                        self._known.setdefault(target, full)

    def full_name(self, node: ast.AST | None) -> str:
        """`os.pread` for every spelling of it; the name itself if it was not imported; "" without a name."""
        match node:
            case ast.Name(id=name):
                return self._known.get(name, name)
            case ast.Attribute(value=whose, attr=name):
                before = self.full_name(whose)
                return f"{before or '?'}.{name}"
            case ast.Call(func=ast.Name(id="getattr"), args=[whose, ast.Constant(value=str(name)), *_]):
                return f"{self.full_name(whose)}.{name}"
            case ast.Call(func=called, args=[ast.Constant(value=str(name)), *_]):
                if self.full_name(called) in ("importlib.import_module", "__import__"):
                    return name
        return ""

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """Every import, and every expression that names something, outermost spelling first."""
        return tuple(self._references())

    def _references(self) -> Iterator[Reference]:
        for node in nodes(self._tree):
            line = getattr(node, "lineno", 0)
            for _, full in _imported(node):
                yield Reference(full, node, line)
            if isinstance(getattr(node, "ctx", None), ast.Store):
                continue  # an assignment target, not a use
            if isinstance(node, ast.Name | ast.Attribute | ast.Call) and (full := self.full_name(node)):
                yield Reference(full, node, line)


@cache
def texts(tree: ast.AST) -> tuple[tuple[str, int], ...]:
    """Each string with its line, joined if it consists of several constants; without docstrings."""
    return tuple(_texts(tree))


def _texts(tree: ast.AST) -> Iterator[tuple[str, int]]:
    documentation = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    joined: set[int] = set()
    for node in nodes(tree):  # outermost first
        if id(node) in documentation or id(node) in joined:
            continue
        if isinstance(node, ast.BinOp | ast.JoinedStr | ast.Constant) and (text := _text(node)):
            joined |= {id(part) for part in ast.walk(node)}
            yield text, getattr(node, "lineno", 0)


def _text(node: ast.AST) -> str:
    """The known parts of a string, with NUL for each unknown part."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(data)):
            return data.decode("latin-1")
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) if isinstance(part, ast.Constant) else "\0" for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return f"{_text(left)}{_text(right)}"
    return ""


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The local name of each import, and its full name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
            if not alias.asname and "." in alias.name:
                yield alias.name, alias.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Each plain name that is assigned, with its value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value
