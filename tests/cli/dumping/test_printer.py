"""Lines on stdout, complaints on stderr, as text or JSON."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.dumps import dump, objects
from tests.fixtures.catalog import log_dirs

Capture = pytest.CaptureFixture[bytes]
CLEAN = log_dirs("4.3.1", "clean")[0]


def test_complaints_are_json_on_stderr(tmp_path: Path, capsysbinary: Capture) -> None:
    log = tmp_path / "00000000000000000020.log"
    shutil.copy(CLEAN / "rolled-0" / log.name, log)
    with log.open("ab") as file:
        file.write(bytes(100))

    dumped = dump(capsysbinary, "--json", log)

    size = log.stat().st_size - 100
    assert objects(dumped.out)[-1] == {
        "type": "invalid_bytes",
        "path": str(log),
        "position": size,
        "size": 100,
    }
    [complaint] = objects(dumped.err)
    assert (complaint["complaint"], complaint["position"]) == ("unreadable", size)
    assert dumped.status == 1


def test_every_line_of_a_whole_directory_is_json(capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, "--json", "--print-data-log", CLEAN)

    types = {item["type"] for item in objects(dumped.out)}
    assert types == {
        "aborted_transaction",
        "batch",
        "clean_shutdown",
        "empty_index",
        "file",
        "leader_epoch",
        "offset_index_entry",
        "partition_offset",
        "producer",
        "property",
        "record",
        "time_index_entry",
    }


def test_each_line_says_which_file_it_is_of(capsysbinary: Capture) -> None:
    """Offsets of two partitions look alike: without the file, a line does not say where it belongs."""
    folders = [CLEAN / "txn-0", CLEAN / "rolled-0"]

    found = objects(dump(capsysbinary, "--json", "--print-data-log", *folders).out)

    assert len({item["type"] for item in found}) > 5
    files = [item["path"] for item in found if item["type"] == "file"]
    assert {Path(path).parent for path in files} == set(folders)
    path = ""
    for item in found:
        path = item["path"] if item["type"] == "file" else path
        assert item["path"] == path
