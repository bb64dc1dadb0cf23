"""A disk that counts what is read, written and synced."""

from __future__ import annotations

from pathlib import Path

from stratalog.cli.startup.counting import CountingDisk


def test_reads_and_writes_are_counted_in_bytes_and_syncs_by_number(tmp_path: Path) -> None:
    disk = CountingDisk()
    log, other = tmp_path / "0.log", tmp_path / "other"

    disk.append(log, b"0123456789")
    disk.write_at(log, b"ab", 0)
    disk.sync(log)
    disk.replace(other, b"xyz")  # syncs the file, then the directory
    disk.read_into(log, memoryview(bytearray(10)), 0)
    disk.read_at(log, 10, 0)
    disk.read_file(other)

    assert (disk.bytes_written, disk.syncs, disk.bytes_read) == (15, 3, 23)
    assert disk.scans({str(log): 10, str(other): 3, "empty.log": 0}) == {str(log): 2, str(other): 0}
