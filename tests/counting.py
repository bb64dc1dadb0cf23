"""Counts that a run prints at its end: how many crash images, kills or mutated files of each kind were tried.

A test asks for the fixture `counts` and adds to it. The numbers travel with the test's report, so that they
also arrive from the workers of pytest-xdist, and are added up by subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest

PROPERTY = "counts"
Count = Callable[[str, Mapping[str, int]], None]


@pytest.fixture
def counts(record_property: Callable[[str, object], None]) -> Count:
    """Adds counts by kind to a subject, e.g. counts("crash images", {"torn write": 3})."""

    def add(subject: str, by_kind: Mapping[str, int]) -> None:
        record_property(PROPERTY, (subject, dict(by_kind)))

    return add


def summarise(terminal: pytest.TerminalReporter) -> None:
    """Print what all tests of this run counted."""
    totals: dict[str, Counter[str]] = {}
    for reports in terminal.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY and getattr(report, "when", None) == "call":
                    subject, by_kind = value
                    totals.setdefault(subject, Counter()).update(by_kind)
    for subject, by_kind in sorted(totals.items()):
        terminal.section(f"{subject}: {by_kind.total():,}", sep="-")
        for kind, number in by_kind.most_common():
            terminal.write_line(f"{number:12,}  {kind}")
