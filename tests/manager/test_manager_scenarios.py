"""The scenarios that the document says are shown are shown: each test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "scenarios" / "manager.md"


def test_each_test_that_is_named_for_a_scenario_exists() -> None:
    text = DOCUMENT.read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    found = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
    }

    assert named - found == set()
    assert len(set(re.findall(r"`(?:\w+\.)?(test[A-Z]\w+)`", text))) >= 49
