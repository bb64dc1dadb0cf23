"""The public names are `stratalog.__all__`, `stratalog.errors` and those of the extra `spark`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

import stratalog
from stratalog import PartitionLog

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PYTHON_BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
# Each has an `__all__`, or all that is public in it is its own, as with the errors.
PUBLIC_MODULES = (
    "stratalog",
    "stratalog.errors",
    "stratalog.polars",
    "stratalog.spark",
    "stratalog.spark.export",
    "stratalog.spark.tables",
    "stratalog.tables",
)
API = ROOT / "docs" / "api.md"


def uses(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The module and name of everything of Stratalog's that is imported, or an attribute of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, "") for alias in names if is_ours(alias.name))
            case ast.ImportFrom(module=str(module), names=names) if is_ours(module):
                yield from ((module, alias.name) for alias in names)
            case ast.Attribute(value=value, attr=name) if is_ours(dotted := ast.unparse(value)):
                yield dotted, name


def is_ours(module: str) -> bool:
    return re.fullmatch(r"stratalog(\.[a-z_]+)*", module) is not None


def is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC_MODULES or (module in PUBLIC_MODULES and not name):
        return True
    if module not in PUBLIC_MODULES:
        return False
    found = import_module(module)
    if hasattr(found, "__all__"):
        return name in found.__all__
    return getattr(getattr(found, name, None), "__module__", "") == module


def blocks(document: Path) -> list[str]:
    return [dedent(block) for block in PYTHON_BLOCK.findall(document.read_text("utf-8"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_documents_use_public_names_only(document: Path) -> None:
    found = {use for block in blocks(document) for use in uses(ast.parse(block))}

    assert sorted(use for use in found if not is_public(*use)) == []


def test_the_documents_have_examples() -> None:
    assert sum(len(blocks(document)) for document in DOCUMENTS) > 20


def test_every_public_name_is_there() -> None:
    assert [name for name in stratalog.__all__ if not hasattr(stratalog, name)] == []


def test_type_checkers_see_what_is_imported_late() -> None:
    tree = ast.parse(Path(stratalog.__file__).read_text("utf-8"))
    (for_checkers,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in for_checkers.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert seen == stratalog._LAZY


def test_what_is_not_public_is_seen() -> None:
    source = """
import stratalog.log.log
from stratalog.files.names import TopicPartition
from stratalog import errors, Log
stratalog.hidden("x")
stratalog.errors.LogMovedError, stratalog.errors.os, stratalog.open_log
"""

    hidden = {use for use in uses(ast.parse(source)) if not is_public(*use)}
    assert hidden == {
        ("stratalog.log.log", ""),
        ("stratalog.files.names", "TopicPartition"),
        ("stratalog", "Log"),
        ("stratalog", "hidden"),
        ("stratalog.errors", "os"),
    }


def test_the_examples_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", API.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}

    for block in blocks:
        exec(compile(block, API.name, "exec"), names)

    assert len(blocks) > 5


def test_every_public_name_is_in_the_document() -> None:
    text = API.read_text("utf-8")
    methods = [name for name in vars(PartitionLog) if not name.startswith("_")]

    assert [name for name in [*stratalog.__all__, *methods] if f"`{name}" not in text] == []


def test_public_names_are_found_without_having_been_asked_for() -> None:
    assert set(stratalog.__all__) <= set(dir(stratalog))
    for name in stratalog.__all__:
        assert getattr(stratalog, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        stratalog.Consumer  # noqa: B018
