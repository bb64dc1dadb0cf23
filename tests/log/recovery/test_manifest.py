"""The lines of a quarantine's manifest."""

from __future__ import annotations

import json

import pytest

from stratalog.files.names import QUARANTINE_MANIFEST
from tests.log.recovery.keeping import ROOT, keep, lines, made, quarantine


@pytest.mark.parametrize("line", [b"null", b"[]", b'{"parts": []}', b"\0\0\0", b'{"parts": 5}', b"\xff\xfe"])
def test_lines_that_are_not_ours_are_passed_over(line: bytes) -> None:
    disk = made()
    disk.create(f"{ROOT}/{QUARANTINE_MANIFEST}")
    disk.write_at(f"{ROOT}/{QUARANTINE_MANIFEST}", line + b"\n", 0)

    kept = keep(disk)
    assert quarantine(disk).entries() == (kept,)


@pytest.mark.parametrize("field", ["directory", "partition", "file"])
def test_a_line_whose_origin_is_no_name_is_passed_over(field: str) -> None:
    disk = made()
    kept = keep(disk)
    line = {**lines(disk)[0], field: ["orders-0"]}
    disk.append(f"{ROOT}/{QUARANTINE_MANIFEST}", json.dumps(line).encode() + b"\n")

    assert quarantine(disk).entries() == (kept,)


@pytest.mark.parametrize("field", ["position", "size", "time_ms", "run"])
def test_a_line_with_a_field_of_another_type_is_passed_over(field: str) -> None:
    disk = made()
    kept = keep(disk)
    line = {**lines(disk)[0], field: ["7"]}
    disk.append(f"{ROOT}/{QUARANTINE_MANIFEST}", json.dumps(line).encode() + b"\n")

    assert quarantine(disk).entries() == (kept,)
