"""One word for one thing: no two public classes or type aliases share a name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import stratalog

SOURCE = Path(stratalog.__file__).parent
ALIAS = re.compile(r"[A-Z][A-Z0-9]*[a-z]\w*")  # as classes are written; a constant has capitals only


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Each module's path below the package, and its tree."""
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text("utf-8"))


def public_types(tree: ast.Module) -> Iterator[str]:
    """The names of the classes, type aliases and type variables that this module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if ALIAS.fullmatch(name):
                    yield name


def test_no_two_public_types_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules():
        for name in public_types(tree):
            homes[name].append(module)

    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_the_reader_of_types_sees_each_form() -> None:
    source = """
class Plain: ...
class _Private: ...
Alias = dict[str, int]
Typed: TypeAlias = "dict[str, int]"
T = Variable = 3
LIMIT, _Hidden = 5, int
SIZE = 7
_Alias = list[int]
def make():
    class Inner: ...
    Local = int
"""

    assert sorted(public_types(ast.parse(source))) == ["Alias", "Inner", "Plain", "Typed"]
