"""The scenarios that the documents say are shown are shown: each test that they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCUMENTS = sorted((TESTS.parent / "docs" / "scenarios").glob("*.md"))
assert DOCUMENTS, "or nothing would be tested"
NAMED = re.compile(r"`(test_\w+)`")
NAMED_IN_FILE = re.compile(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`: (\w+)")
FILES = re.compile(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`")
DEFINED = re.compile(r"^ *def (test_\w+)", re.MULTILINE)


def defined(file: Path) -> set[str]:
    return {*DEFINED.findall(file.read_text("utf-8"))}


def missing_from_file(name: str, test: str) -> bool:
    """A file is named by its path below tests/, or below tests/log/."""
    files = [file for file in (TESTS / name, TESTS / "log" / name) if file.exists()]
    return not any(f"test_{test}" in defined(file) for file in files)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.stem)
def test_each_test_that_is_named_for_a_scenario_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    everywhere = {name for file in TESTS.rglob("test_*.py") for name in defined(file)}
    named, in_files = {*NAMED.findall(text)}, {*NAMED_IN_FILE.findall(text)}

    assert named - everywhere == set()
    assert [pair for pair in in_files if missing_from_file(*pair)] == []
    assert len(named) + len(in_files) > 30


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.stem)
def test_each_file_of_tests_that_is_named_exists(document: Path) -> None:
    named = {*FILES.findall(document.read_text("utf-8"))}
    found = [file.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")]

    assert [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in found)] == []


def test_each_test_of_kafka_s_manager_is_listed() -> None:
    text = (TESTS.parent / "docs" / "scenarios" / "manager.md").read_text("utf-8")

    assert len(set(re.findall(r"`(?:\w+\.)?(test[A-Z]\w+)`", text))) >= 49
