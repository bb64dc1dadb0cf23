"""The indexes of a segment, as an audit reads them."""

from __future__ import annotations

from pathlib import Path

from stratalog.files.reading import DiskReader
from stratalog.operations.audit.segment_indexes import SegmentIndexes
from stratalog.operations.audit.segment_task import AuditTask
from stratalog.operations.audit.spots import Spots
from tests.manager.running import fixture_copy


def task_of(folder: Path) -> AuditTask:
    return AuditTask(
        directory=str(folder),
        topic="rolled",
        base_offset=20,
        size=(folder / f"{20:020d}.log").stat().st_size,
        next_base=40,
        was_closed=True,
        now_ms=2**62,
    )


def test_offsets_of_entries_are_absolute(tmp_path: Path) -> None:
    folder, spots = fixture_copy("clean", tmp_path / "data") / "rolled-0", Spots()

    found = SegmentIndexes(DiskReader(), task_of(folder), spots)

    assert found.offsets is not None
    assert found.times is not None
    assert 20 <= found.offsets.columns[0].min() <= found.offsets.columns[0].max() < 40
    assert (found.aborted, spots.result()) == ((), ())


def test_an_index_that_is_missing_or_unreadable_is_a_finding(tmp_path: Path) -> None:
    folder, spots = fixture_copy("clean", tmp_path / "data") / "rolled-0", Spots()
    (folder / f"{20:020d}.index").unlink()
    (folder / f"{20:020d}.timeindex").write_bytes(b"abc")

    found = SegmentIndexes(DiskReader(), task_of(folder), spots)

    assert (found.offsets, found.times) == (None, None)
    assert [spot.kind.value for spot in spots.result()] == ["missing-index", "unreadable-time-index"]
