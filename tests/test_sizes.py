"""A function fits on a screen and a module is one subject: both have a largest size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source_trees import SOURCE, nodes, tree_of

TESTS = Path(__file__).parent
MOST_LINES = 70
MOST_LINES_OF_A_MODULE = 450
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


def long_modules(root: Path) -> set[str]:
    return {
        file.relative_to(root).as_posix()
        for file in root.rglob("*.py")
        if len(file.read_text("utf-8").splitlines()) > MOST_LINES_OF_A_MODULE
    }


def test_no_module_has_a_second_subject_that_makes_it_long() -> None:
    words = "Find the second subject in these modules, and give it a module of its own."
    assert long_modules(SOURCE) == set(), words
    assert long_modules(TESTS) == set(), words


def test_a_long_module_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "short.py").write_text("pass\n" * MOST_LINES_OF_A_MODULE)
    (tmp_path / "a" / "long.py").write_text("pass\n" * (MOST_LINES_OF_A_MODULE + 1))

    assert long_modules(tmp_path) == {"a/long.py"}


def test_only_kernels_are_longer_than_a_screen() -> None:
    assert found_below(SOURCE) == KERNELS
    assert found_below(TESTS) == set()


def test_a_long_function_is_seen() -> None:
    def of(lines: int) -> ast.AST:
        return ast.parse("class A:\n    def f(self):\n" + "        pass\n" * (lines - 1))

    assert [*long_functions(of(MOST_LINES))] == []
    assert [*long_functions(of(MOST_LINES + 1))] == ["f"]
