"""The table of kinds is complete, and the page for people has the same rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stratalog.operations.audit.kinds import AuditKind, Severity

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"


@pytest.mark.parametrize("kind", AuditKind, ids=lambda kind: kind.value)
def test_a_kind_says_what_follows_and_what_to_do(kind: AuditKind) -> None:
    assert kind.rule.consequence.endswith(".")
    assert kind.rule.remedy.endswith(".")


def test_the_page_lists_every_kind_with_its_severity() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE))

    assert rows == {kind.value: kind.rule.severity.value for kind in AuditKind}


def test_a_note_is_not_serious() -> None:
    assert [severity.value for severity in Severity] == ["error", "warning", "note"]
