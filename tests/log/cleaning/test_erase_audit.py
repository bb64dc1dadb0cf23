"""The audit of an erasure: a line for each file, once, whatever a crash did to the last one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.names import ERASURES
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning.erase_audit import Audit, AuditLine

PATH = f"/data/{ERASURES}"
LINE = AuditLine(
    time_ms=1,
    partition="t-0",
    file=f"t-0/{0:020d}.log",
    what="segment",
    records_count=2,
    first_offset=3,
    last_offset=5,
    key_hashes=["ab"],
    size_before=100,
    size_after=90,
    sha256_before="01",
    sha256_after="02",
)


def on(data: bytes) -> SimulatedDisk:
    return SimulatedDisk.of({PATH: data})


def test_a_line_is_one_json_object_and_is_read_back() -> None:
    disk = on(b"")

    Audit(disk, "/data").write(LINE)

    (text,) = disk.contents()[PATH].splitlines()
    assert json.loads(text)["key_hashes"] == ["ab"]
    assert Audit(disk, "/data").lines() == [LINE]


def test_the_same_thing_done_again_later_is_not_written_twice() -> None:
    disk = on(b"")
    audit = Audit(disk, "/data")

    for line in (LINE, replace(LINE, time_ms=2), replace(LINE, sha256_after="03")):
        audit.write(line)

    assert [line.sha256_after for line in audit.lines()] == ["02", "03"]


@pytest.mark.parametrize("torn", [b'{"time_ms": 1, "parti', b"\0" * 40, b'{"other": 1}\n', b"[]\n"])
def test_a_torn_line_is_none_and_the_next_begins_on_a_new_one(torn: bytes) -> None:
    disk = on(torn)
    audit = Audit(disk, "/data")

    audit.write(LINE)

    assert audit.lines() == [LINE]


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    data = tmp_path / "data"
    data.mkdir()
    (data / ERASURES).symlink_to(other)

    with pytest.raises(DiskError, match="symbolic link"):
        Audit(Disk(), str(data)).write(LINE)

    assert other.read_bytes() == b""
