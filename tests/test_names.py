"""One word for one thing: type names are unique; limits and path joining are defined once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.source_trees import SOURCE, modules, nodes

ALIAS = re.compile(r"[A-Z][A-Z0-9]*[a-z]\w*")  # as classes are written; a constant has capitals only
LIMIT = re.compile(r"_?U?INT\d+_(MIN|MAX)")


def public_types(tree: ast.Module) -> Iterator[str]:
    """The names of the classes, type aliases and type variables that this module defines."""
    for node in nodes(tree):
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


def limits_written(tree: ast.AST) -> Iterator[int]:
    """The lines in which a limit gets a value, or the largest or smallest number of a type is spelt out."""
    for node in nodes(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if LIMIT.fullmatch(name):
                yield node.lineno
            case ast.BinOp(left=power, op=ast.Sub(), right=ast.Constant(value=1)) if is_power(power):
                yield node.lineno
            case ast.UnaryOp(op=ast.USub(), operand=power) if is_power(power):
                yield node.lineno
            case ast.Constant(value=int(number)) if number in (2**15 - 1, 2**31 - 1, 2**63 - 1):
                yield node.lineno


def is_power(node: ast.AST) -> bool:
    """2**15, 2**31 or 2**63, in either spelling."""
    match node:
        case ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=ast.Constant(value=bits)):
            return bits in (15, 31, 63)
        case ast.BinOp(left=ast.Constant(value=1), op=ast.LShift(), right=ast.Constant(value=bits)):
            return bits in (15, 31, 63)
    return False


def test_limits_are_written_once() -> None:
    found = {module for module, tree in modules() if any(limits_written(tree))}

    assert found == {"limits.py"}


def test_a_second_definition_of_a_limit_is_seen() -> None:
    sources = [
        "INT64_MAX = theirs",
        "_INT32_MIN, other = 1, 2",
        "HIGHEST = 2**31 - 1",
        "if x > (1 << 63) - 1: pass",
        "LOWEST = -(2**63)",
        "f(2147483647)",
    ]

    assert all(any(limits_written(ast.parse(source))) for source in sources)
    assert not any(limits_written(ast.parse("x = 2**31; y = INT32_MAX + 1; z = 2**30 - 1; n = -1")))


def path_making(tree: ast.AST) -> Iterator[str]:
    """Where a path is joined or taken apart by hand, and not by `files/paths.py`."""
    by_hand = {
        "os.sep",
        "os.path.sep",
        "os.path.join",
        "os.path.dirname",
        "os.path.basename",
        "os.path.abspath",
    }
    last_names = {name.rpartition(".")[2] for name in by_hand}
    for node in nodes(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in last_names:
            continue
        if (name := ast.unparse(node)) in by_hand:
            yield f"{node.lineno} {name}"


def test_one_place_joins_paths() -> None:
    wrong = [
        f"{name}:{found}"
        for name, tree in modules()
        if not name.startswith(("files/", "errors/"))  # the second is below `files` and names files
        for found in path_making(tree)
    ]

    assert wrong == []


def test_a_path_that_is_joined_by_hand_is_seen() -> None:
    sources = ['f"{a}{os.sep}{b}"', "os.path.join(a, b)", "map(os.path.abspath, paths)", "a + os.sep"]

    assert all(any(path_making(ast.parse(source))) for source in sources)
    assert not any(path_making(ast.parse("join_path(a, b); os.path.realpath(a); ', '.join(names)")))


def test_the_rule_for_pathlib_is_suppressed_hardly_anywhere() -> None:
    """`files` goes without it (pyproject.toml); elsewhere only where pathlib says something else."""
    found = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if re.search(r"# noqa: .*PTH", file.read_text("utf-8"))
    }

    assert found == {"spark/workers.py"}  # without a home, expanduser keeps ~, and pathlib raises
