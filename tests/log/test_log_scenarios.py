"""The scenarios that the documents say are shown are shown: each test that they name exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "scenarios" / "log.md"


def test_each_test_that_is_named_for_a_scenario_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text("utf-8")))
    found = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
    }

    assert named - found == set()
    assert len(named) > 80
