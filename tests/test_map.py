"""The map is true: each package's docstring names its modules, and what the map's pages name exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stratalog

SOURCE = Path(stratalog.__file__).parent
ROOT = Path(__file__).parent.parent
PACKAGES = sorted(file.parent for file in SOURCE.rglob("__init__.py") if file.parent != SOURCE)
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "docs" / "kafka-map.md", *sorted(ROOT.glob("docs/decisions/*.md"))]

# A line of a docstring: a module, or a package with its slash, and a phrase after two spaces or more.
ENTRY = re.compile(r"^(\w+/?) {2,}\S", re.MULTILINE)
# `log/roll.py`, `log/roll.py:roll_reason`, `log/cleaning/`
PLACE = re.compile(r"`((?:\w[\w.-]*/)*(?:\w[\w-]*\.py|\w[\w-]*/))(?::([\w.]+))?`")


def below_source(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def listed(docstring: str) -> list[str]:
    return ENTRY.findall(docstring)


def in_package(package: Path) -> set[str]:
    """The modules of a package, and its packages with a slash."""
    modules = {file.stem for file in package.glob("*.py")} - {"__init__"}
    return modules | {f"{file.parent.name}/" for file in package.glob("*/__init__.py")}


def defined(tree: ast.Module) -> Iterator[str]:
    """The functions, classes, methods and constants of a module, by the names that a page uses."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        yield f"{name}.{part.name}"
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def places(text: str) -> list[tuple[str, str]]:
    """The files and folders that a page names, with the name inside the file if it gives one."""
    return [(path, name) for path, name in PLACE.findall(text)]


def problem_with(path: str, name: str) -> str | None:
    found = next((base / path for base in (SOURCE, ROOT) if (base / path).exists()), None)
    if found is None:
        return f"{path} does not exist, neither in src/stratalog nor in the root of the project"
    if name and name not in {*defined(ast.parse(found.read_text("utf-8")))}:
        return f"{path} does not define {name}"
    return None


@pytest.mark.parametrize("package", PACKAGES, ids=below_source)
def test_a_package_names_its_modules_and_no_others(package: Path) -> None:
    file = package / "__init__.py"
    names = listed(ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "")

    where = f"in the docstring of {file.relative_to(ROOT)}"
    missing = sorted(in_package(package) - set(names))
    gone = sorted(set(names) - in_package(package))
    assert not missing, f"{where}, add a line with a phrase for: {', '.join(missing)}"
    assert not gone, f"{where}, remove or rename the line of: {', '.join(gone)}"
    assert names == sorted(set(names)), f"{where}, sort the lines; each name stands once"


@pytest.mark.parametrize("package", PACKAGES, ids=below_source)
def test_a_package_says_what_does_not_belong_in_it(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""

    assert "Not here: " in docstring


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_of_the_map_names_exists(page: Path) -> None:
    problems = [problem_with(path, name) for path, name in places(page.read_text("utf-8"))]

    wrong = sorted({problem for problem in problems if problem is not None})
    assert not wrong, f"correct {page.relative_to(ROOT)}: {'; '.join(wrong)}"


def test_the_reader_of_docstrings_sees_modules_and_packages() -> None:
    text = "What it is.\n\nroll      when it is full\napi/      the face\n  and more\n\nNot here: files."

    assert listed(text) == ["roll", "api/"]


def test_the_reader_of_pages_sees_files_names_and_folders() -> None:
    text = "In `log/roll.py:roll_reason` and `errors.py`, see `log/cleaning/`; not `Log.read` or `a/b`."

    assert places(text) == [("log/roll.py", "roll_reason"), ("errors.py", ""), ("log/cleaning/", "")]
    assert problem_with("log/roll.py", "roll_reason") is None
    assert problem_with("log/roll.py", "no_such_name") == "log/roll.py does not define no_such_name"
    assert problem_with("no/such.py", "") is not None


DECISIONS = sorted(ROOT.glob("docs/decisions/0*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_what_why_how_fast_and_until_when(page: Path) -> None:
    text = page.read_text("utf-8")

    parts = ("**Decided:**", "**Because**", "**Measured:**", "**Look at it again when**")
    assert [part for part in parts if text.count(part) != 1] == []
    assert text.startswith(f"# {page.stem[:4]}: ")


def test_the_index_of_decisions_lists_each_page_once() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text("utf-8")

    assert sorted(re.findall(r"\((\d{4}-[\w-]+\.md)\)", index)) == [page.name for page in DECISIONS]
    # Numbers may be left out: people who work side by side are given theirs beforehand.
    assert len({page.stem[:4] for page in DECISIONS}) == len(DECISIONS)
