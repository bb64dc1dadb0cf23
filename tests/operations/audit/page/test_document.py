"""The document of a page: exact, compact and bounded."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from stratalog.operations.audit.page import document
from stratalog.operations.audit.page.document import document_of, exact
from tests.operations.audit.page.example import build_example, build_many, example_report


def test_numbers_that_a_browser_would_round_are_text() -> None:
    assert [exact(value) for value in (2**53 - 1, 2**53, -(2**53), None)] == [
        2**53 - 1,
        "9007199254740992",
        "-9007199254740992",
        None,
    ]


def test_everything_that_was_found_is_in_it(tmp_path: Path) -> None:
    report = example_report(build_example(tmp_path / "data"))
    assert report.map is not None

    found = document_of(report, report.map)

    texts = found["texts"]
    assert [(texts[row[1]], texts[row[3]], row[9]) for row in found["findings"]] == [
        (each.kind.value, each.partition, each.words) for each in report.findings
    ]
    assert found["totals"] == report.totals()
    assert sum(seg[2] for strip in found["strips"] for seg in strip["segs"]) == report.totals()["bytes"]
    for row in found["findings"]:
        if row[12] >= 0:
            region = found["regions"][row[12]]
            assert (region["file"], region["position"]) == (texts[row[4]], row[5])
            (start, packed) = region["excerpts"][0]
            data = Path(region["path"]).read_bytes()
            assert base64.b64decode(packed) == data[start : start + len(base64.b64decode(packed))]
    assert json.loads(json.dumps(found)) == found


def test_partitions_with_errors_come_first(tmp_path: Path) -> None:
    report = example_report(build_example(tmp_path / "data"))
    assert report.map is not None

    strips = document_of(report, report.map)["strips"]

    assert [strip["counts"][0] for strip in strips] == sorted(
        (strip["counts"][0] for strip in strips), reverse=True
    )


def test_a_bound_leaves_out_the_least_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = example_report(build_many(tmp_path / "data", segments=400, partitions=4))
    assert report.map is not None
    for name, most in (("MOST_FINDINGS", 3), ("MOST_STRIPS", 2), ("MOST_BARS", 50)):
        monkeypatch.setattr(document, name, most)

    found = document_of(report, report.map)

    assert (len(found["findings"]), found["left"]["findings"]) == (3, len(report.findings) - 3)
    assert (len(found["strips"]), found["left"]["partitions"]) == (2, 2)
    assert found["left"]["merged"] == 4
    assert found["left"]["regions"] == 0
    for strip in found["strips"]:
        assert sum(seg[9] for seg in strip["segs"]) == 100
        assert len(strip["segs"]) <= 27
        assert [seg[9] for seg in strip["segs"] if seg[8]] == [1]  # the damaged one stays alone


def test_a_segment_takes_few_bytes(tmp_path: Path) -> None:
    report = example_report(build_many(tmp_path / "data", segments=400, partitions=1))
    assert report.map is not None

    found = document_of(report, report.map)

    assert len(json.dumps(found["strips"], separators=(",", ":"))) < 400 * 80


def test_topics_beyond_a_bound_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = example_report(build_example(tmp_path / "data"))
    assert report.map is not None
    monkeypatch.setattr(document, "MOST_TOPICS", 2)

    topics = document_of(report, report.map)["topics"]

    assert [row[0] for row in topics] == ["orders", "clicks", document.OTHER_TOPICS]
    assert sum(row[2] for row in topics) == report.totals()["bytes"]
    assert sum(row[1] for row in topics) == report.totals()["partitions"]


def test_of_many_gaps_the_lost_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = example_report(build_example(tmp_path / "data"))
    assert report.map is not None
    monkeypatch.setattr(document, "MOST_MARKS", 1)

    strips = {strip["name"]: strip for strip in document_of(report, report.map)["strips"]}

    assert len(strips["customers-0"]["gaps"]) == 3
    assert strips["customers-0"]["gapsCount"] > 3
    assert [gap[2] for gap in strips["orders-2"]["gaps"]] == [1]
    assert all(len(strip["epochs"]) <= 3 for strip in strips.values())
