"""A function fits on a screen and a module is one subject: both have a largest size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source_trees import SOURCE, nodes, tree_of

TESTS = Path(__file__).parent
MOST_LINES = 70
# Loops over bytes: taken apart, each part would be inlined again, with all that it works on as arguments.
KERNELS = {
    "records/kernels/avro.py:_run",
    "records/kernels/decode.py:decode",
    "records/kernels/recover.py:_take_plain",
    "records/kernels/recover.py:recover",
}


def long_functions(tree: ast.AST) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= MOST_LINES:
                yield node.name


def found_below(root: Path) -> set[str]:
    return {
        f"{file.relative_to(root).as_posix()}:{name}"
        for file in root.rglob("*.py")
        for name in long_functions(tree_of(file))
    }


def test_only_kernels_are_longer_than_a_screen() -> None:
    assert found_below(SOURCE) == KERNELS
    assert found_below(TESTS) == set()


def test_a_long_function_is_seen() -> None:
    def of(lines: int) -> ast.AST:
        return ast.parse("class A:\n    def f(self):\n" + "        pass\n" * (lines - 1))

    assert [*long_functions(of(MOST_LINES))] == []
    assert [*long_functions(of(MOST_LINES + 1))] == ["f"]
