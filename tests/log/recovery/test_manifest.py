"""The lines of a quarantine's manifest."""

from __future__ import annotations

import json

import pytest

from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.log.recovery.manifest import parse_line
from tests.log.recovery.keeping import ROOT, keep, lines, made, quarantine


@pytest.mark.parametrize("line", [b"null", b"[]", b'{"parts": []}', b"\0\0\0", b'{"parts": 5}', b"\xff\xfe"])
def test_lines_that_are_not_ours_are_passed_over(line: bytes) -> None:
    disk = made()
    disk.create(f"{ROOT}/{QUARANTINE_MANIFEST}")
    disk.write_at(f"{ROOT}/{QUARANTINE_MANIFEST}", line + b"\n", 0)

    kept = keep(disk)
    assert quarantine(disk).entries() == (kept,)


@pytest.mark.parametrize("wrong", [["orders-0"], "orders\0", "\ud800"])
@pytest.mark.parametrize("field", ["directory", "partition", "file"])
def test_a_line_whose_origin_is_no_name_is_passed_over(field: str, wrong: object) -> None:
    disk = made()
    kept = keep(disk)
    line = {**lines(disk)[0], field: wrong}
    disk.append(f"{ROOT}/{QUARANTINE_MANIFEST}", json.dumps(line).encode() + b"\n")

    assert quarantine(disk).entries() == (kept,)


@pytest.mark.parametrize("field", ["position", "size", "time_ms", "run"])
def test_a_line_with_a_field_of_another_type_is_passed_over(field: str) -> None:
    disk = made()
    kept = keep(disk)
    line = {**lines(disk)[0], field: ["7"]}
    disk.append(f"{ROOT}/{QUARANTINE_MANIFEST}", json.dumps(line).encode() + b"\n")

    assert quarantine(disk).entries() == (kept,)


@pytest.mark.parametrize("wrong", ["", ".", "..", "../orders-0", "/orders-0", "a/b"])
@pytest.mark.parametrize("field", ["partition", "file"])
def test_a_line_whose_origin_is_a_path_is_passed_over(field: str, wrong: str) -> None:
    disk = made()
    kept = keep(disk)
    line = {**lines(disk)[0], field: wrong}
    disk.append(f"{ROOT}/{QUARANTINE_MANIFEST}", json.dumps(line).encode() + b"\n")

    assert quarantine(disk).entries() == (kept,)


@pytest.mark.parametrize("wrong", ["5", None, 1.5, -1, 2**63])
@pytest.mark.parametrize("field", ["position", "size", "time_ms"])
def test_a_line_with_an_impossible_number_is_passed_over(field: str, wrong: object) -> None:
    disk = made()
    keep(disk)
    line = {**lines(disk)[0], field: wrong}

    assert parse_line(json.dumps(line).encode()) is None


@pytest.mark.parametrize("wrong", ["5", None, 1.5, -1, 2**63])
@pytest.mark.parametrize("field", ["at", "size"])
def test_a_line_with_a_part_of_an_impossible_size_is_passed_over(field: str, wrong: object) -> None:
    disk = made()
    keep(disk)
    line = lines(disk)[0]
    line["parts"][0][field] = wrong

    assert parse_line(json.dumps(line).encode()) is None


@pytest.mark.parametrize("name", ["\0", "/x", "/../x", "\ud800"])
def test_a_part_whose_file_is_no_name_in_the_quarantine_is_passed_over(name: str) -> None:
    disk = made()
    keep(disk)
    line = lines(disk)[0]
    line["parts"][0]["file"] += name

    assert parse_line(json.dumps(line).encode()) is None
