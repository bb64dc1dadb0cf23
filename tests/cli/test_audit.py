"""`stratalog audit`: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyarrow import parquet

from stratalog.cli import main
from stratalog.operations.audit.audit import AuditRequest
from tests.manager.running import contents, fixture_copy
from tests.operations.audit.planting import flip


def test_a_healthy_directory_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    before = contents(root)

    assert main.run(["audit", str(root)]) == 0

    verdict = capsys.readouterr().out.splitlines()[-1]
    assert verdict.startswith("Healthy: nothing was found in 22 segments of 13 partitions")
    assert contents(root) == before


def test_a_finding_says_where_it_is_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(root / "rolled-0" / "00000000000000000020.log", 100)

    assert main.run(["audit", str(root), "--plain"]) == 1

    out = capsys.readouterr().out
    assert "error\twrong-crc\trolled-0\t00000000000000000020.log\t0\t20\t" in out
    assert f"stratalog recover --all --salvage {root}" in out


def test_a_report_is_the_baseline_of_the_next_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    assert main.run(["audit", str(root), "--json"]) == 0
    report = tmp_path / "audit.json"
    report.write_text(capsys.readouterr().out)

    assert main.run(["audit", str(root), "--baseline", str(report), "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["totals"]["bytes_read"] == 0


def test_a_baseline_that_is_not_a_report_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    for content in (b"{}", b"PAR1\xff"):  # the other format of a report
        (tmp_path / "x.json").write_bytes(content)

        assert main.run(["audit", str(root), "--baseline", str(tmp_path / "x.json")]) == 2

        assert "is not the report of an audit" in capsys.readouterr().err


def test_the_findings_go_to_a_parquet_file(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(root / "rolled-0" / "00000000000000000020.log", 100)

    assert main.run(["audit", str(root), "--to", str(tmp_path / "findings.parquet"), "--json"]) == 1

    rows = parquet.read_table(tmp_path / "findings.parquet").to_pylist()
    assert [row["file"] for row in rows if row["kind"] == "wrong-crc"] == ["00000000000000000020.log"]


def test_a_parquet_file_that_cannot_be_written_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    assert main.run(["audit", str(root), "--to", str(tmp_path / "no" / "such" / "f.parquet")]) == 3

    assert "f.parquet" in capsys.readouterr().err


def test_the_report_is_also_a_page(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(root / "rolled-0" / "00000000000000000020.log", 100)
    page = tmp_path / "audit.html"
    page.write_text("an older one")
    before = contents(root)

    assert main.run(["audit", str(root), "--html", str(page), "--json"]) == 1

    assert page.read_text("ascii").startswith("<!DOCTYPE html>")
    assert "wrong-crc" in page.read_text("ascii")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["audit.html"]
    assert contents(root) == before


def test_a_page_that_cannot_be_written_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    assert main.run(["audit", str(root), "--html", str(tmp_path / "no" / "such" / "audit.html")]) == 3

    assert "audit.html" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--html", "--to"])
def test_a_folder_that_is_missing_is_said_before_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    monkeypatch.setattr(AuditRequest, "run", lambda *_: pytest.fail("it has read everything first"))

    assert main.run(["audit", str(root), option, str(tmp_path / "no" / "file")]) == 3


def test_a_page_in_an_audited_directory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker would complain of it, and an audit changes nothing there."""
    root = fixture_copy("clean", tmp_path / "data")
    before = contents(root)

    for place in (root / "audit.html", root / "rolled-0" / "00000000000000000020.log"):
        assert main.run(["audit", str(root), "--html", str(place)]) == 2

    assert "inside a log directory" in capsys.readouterr().err
    assert contents(root) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "name it with --master"),
        (["--html", "page.html"], "--html or --baseline"),
    ],
)
def test_by_host_needs_a_cluster_and_has_no_page(
    capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main.run(["audit", "b1:/data", "--by-host", *options]) == 2

    assert words in capsys.readouterr().err
