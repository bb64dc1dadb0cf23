"""The cluster's metadata from a snapshot on."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from stratalog.errors import CorruptRecordError
from tests.jobs.decoded import FIXTURES, dumped_parts, parts, table_in

SNAPSHOT, SNAPSHOT_END = "00000000000000000050-0000000001.checkpoint", 50


@pytest.fixture
def cut_metadata(tmp_path: Path) -> Path:
    """A log of metadata that a controller has cut off below its snapshot: (its directory's path)."""
    source = FIXTURES / "killed" / "logs" / "__cluster_metadata-0"
    copy = tmp_path / source.name
    copy.mkdir()
    shutil.copy(source / SNAPSHOT, copy)
    data, position = (source / f"{0:020d}.log").read_bytes(), 0
    while struct.unpack_from(">q", data, position)[0] < SNAPSHOT_END:
        position += 12 + int(struct.unpack_from(">i", data, position + 8)[0])
    (base,) = struct.unpack_from(">q", data, position)
    (copy / f"{base:020d}.log").write_bytes(data[position:])
    return tmp_path


@pytest.mark.parametrize("asked", [{}, {"assign": '{"__cluster_metadata": [0]}'}], ids=["all", "assigned"])
@pytest.mark.parametrize("control", ["true", "false"])
def test_a_log_of_metadata_without_its_beginning_goes_on_from_a_snapshot(
    cut_metadata: Path, control: str, asked: dict[str, str]
) -> None:
    rows = table_in(cut_metadata, "cluster_metadata", includeControl=control, **asked)

    of_log, of_snapshot = dumped_parts("cluster_metadata", "killed")
    expected = [(SNAPSHOT_END - 1, text) for text in of_snapshot.values()]
    expected += [(offset, text) for offset, text in of_log.items() if offset >= SNAPSHOT_END]
    if control == "false":
        expected = [(offset, text) for offset, text in expected if "payload: " in text]
    assert [row["offset"] for row in rows] == [offset for offset, _ in expected]
    for row, (_, text) in zip(rows, expected, strict=True):
        assert row["problem"] is None
        if "payload: " in text:
            assert json.loads(row["value"]) == parts(text)[1]
        else:
            assert json.loads(row["value"]) == json.loads(text.partition(" ")[2])


def test_a_snapshot_alone_is_a_table(cut_metadata: Path) -> None:
    next((cut_metadata / "__cluster_metadata-0").glob("*.log")).unlink()

    rows = table_in(cut_metadata, "cluster_metadata")

    _, of_snapshot = dumped_parts("cluster_metadata", "killed")
    assert len(rows) == sum("payload: " in text for text in of_snapshot.values())


def test_offsets_that_are_asked_for_are_those_of_the_log(cut_metadata: Path) -> None:
    starting = f'{{"__cluster_metadata": {{"0": {SNAPSHOT_END + 50}}}}}'

    rows = table_in(cut_metadata, "cluster_metadata", startingOffsets=starting)

    assert min(row["offset"] for row in rows) >= SNAPSHOT_END + 50


def test_a_damaged_snapshot_is_named(cut_metadata: Path) -> None:
    snapshot = cut_metadata / "__cluster_metadata-0" / SNAPSHOT
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 0xFF
    snapshot.write_bytes(data)

    with pytest.raises(CorruptRecordError, match=r"offset 50.*onCorruption=skip, the rest of this") as caught:
        table_in(cut_metadata, "cluster_metadata")
    assert caught.value.path == str(snapshot)
    rows = table_in(cut_metadata, "cluster_metadata", onCorruption="skip")
    assert min(row["offset"] for row in rows) >= SNAPSHOT_END - 1
    assert max(row["offset"] for row in rows) > SNAPSHOT_END
