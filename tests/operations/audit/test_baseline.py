"""What an audit has read, kept and found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.errors import UsageError
from stratalog.operations.audit.audit import audit
from stratalog.operations.audit.baseline import Baseline
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import flip


def test_a_baseline_survives_its_json(tmp_path: Path) -> None:
    report = audit([fixture_copy("clean", tmp_path / "data")])

    text = json.dumps(report.to_document())

    assert Baseline.parse(text, "report.json") == report.audited
    assert len(report.audited.segments) == report.totals()["segments"]


def test_nothing_is_read_where_nothing_is_new(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    first = audit([root])

    second = audit([root], baseline=first.audited)

    assert (second.totals()["bytes_read"], second.status) == (0, 0)
    assert second.audited == first.audited


def test_a_damaged_segment_is_read_again(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(root / "rolled-0" / "00000000000000000020.log", 100)
    first = audit([root], topics=["rolled"])

    second = audit([root], topics=["rolled"], baseline=first.audited)

    assert second.totals()["bytes_read"] == 1385
    assert second.totals()["errors"] == 1


def test_another_file_of_the_same_name_is_read_again(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    first = audit([root], topics=["rolled"])
    log = root / "rolled-0" / "00000000000000000020.log"
    data = log.read_bytes()
    other = log.with_suffix(".other")
    other.write_bytes(data)
    other.replace(log)

    second = audit([root], topics=["rolled"], baseline=first.audited)

    assert second.totals()["bytes_read"] == len(data)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"audited": {"a": {}}}', '{"audited": 3}'])
def test_what_is_not_a_report_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError, match="is not the report of an audit"):
        Baseline.parse(text, "report.json")
