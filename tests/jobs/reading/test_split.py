"""Where a read is cut: offsets, and hints where their bytes are."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.split import topic_id_of
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.reading.making import Made, batches_of, plan, read, rows_of


@pytest.mark.parametrize(
    ("start", "end"), [(0, 3000), (5, 6), (997, 1003), (1234, 2345), (2999, 3000), (7, 7)]
)
def test_offsets_are_found_inside_segments_and_batches(made_log: Made, start: int, end: int) -> None:
    options = {
        "startingOffsets": f'{{"orders": {{"0": {start}}}}}',
        "endingOffsets": f'{{"orders": {{"0": {end}}}}}',
    }

    assert read(made_log.path, **options) == made_log.rows(range(start, end))


@pytest.mark.parametrize("partition", partitions("2.8.2", "clean"), ids=str)
def test_messages_of_old_formats_are_cut_at_any_offset(partition: Partition) -> None:
    logs, topic = {log.name for log in partition.logs}, partition.name.rpartition("-")[0]
    kafkas = [
        record["offset"]
        for batch in partition.batches()
        if batch["file"] in logs and not batch["isControl"]
        for record in batch["records"]
    ]

    def offsets(**options: str) -> list[int]:
        return [row["offset"] for row in read(partition.path, columns=("offset",), **options)]

    for cut in kafkas[:: max(1, len(kafkas) // 50)]:
        at = f'{{"{topic}": {{"0": {cut}}}}}'
        assert offsets(endingOffsets=at) == [offset for offset in kafkas if offset < cut]
        assert offsets(startingOffsets=at) == [offset for offset in kafkas if offset >= cut]
    for most in (1, 3):
        assert offsets(maxRecordsPerPartition=str(most)) == kafkas


def test_a_start_behind_a_broken_batch_passes_over_nothing_in_silence(own_log: Made) -> None:
    """Its length reaches past the segment: only the index finds a batch from there on."""
    log = sorted(own_log.path.glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    (length,) = struct.unpack_from(">i", data, 8)
    struct.pack_into(">i", data, 12 + length + 8, len(data))
    log.write_bytes(data)
    log.with_suffix(".index").unlink()
    start = int(log.stem) + 100
    tasks = plan(own_log.path, startingOffsets=f'{{"orders": {{"0": {start}}}}}')

    with pytest.raises(CorruptRecordError, match="are not a whole batch"):
        rows_of(tasks)


@pytest.mark.parametrize("damage", ["removed", "empty", "zeros", "shifted"])
def test_a_bad_index_leads_to_no_wrong_offset(own_log: Made, damage: str) -> None:
    for index in own_log.path.glob("*.index"):
        data = index.read_bytes()
        if damage == "removed":
            index.unlink()
        else:
            index.write_bytes(
                {"empty": b"", "zeros": bytes(len(data)), "shifted": data[4:] + data[:4]}[damage]
            )
    options = {
        "startingOffsets": '{"orders": {"0": 1234}}',
        "endingOffsets": '{"orders": {"0": 2345}}',
        "minPartitions": "20",
    }

    assert read(own_log.path, **options) == own_log.rows(range(1234, 2345))


@pytest.mark.parametrize("release", ["2.0 to 3.9.0", "up to 1.1"])
def test_an_index_of_whole_appends_leads_to_places_for_cuts_too(own_log: Made, release: str) -> None:
    """Before 3.9.1 an entry was about all batches that a follower, or the cleaner, appended at once."""
    for log in own_log.path.glob("*.log"):
        batches, position, entries = list(batches_of(log)), 0, b""
        for first in range(0, len(batches), 5):
            together = batches[first : first + 5]
            offset = together[0][1] if release == "up to 1.1" else together[-1][2]
            entries += struct.pack(">ii", offset - int(log.stem), position) if position else b""
            position += sum(len(batch) for batch, _, _ in together)
        log.with_suffix(".index").write_bytes(entries)
    options = {
        "startingOffsets": '{"orders": {"0": 1234}}',
        "endingOffsets": '{"orders": {"0": 2345}}',
        "minPartitions": "20",
    }

    tasks = plan(own_log.path, **options)

    assert len(tasks) >= 15  # of segments there are three
    assert rows_of(tasks) == own_log.rows(range(1234, 2345))


def test_a_plan_is_small_and_can_be_pickled(made_log: Made) -> None:
    (task,) = plan(made_log.path)

    assert pickle.loads(pickle.dumps(task)) == task
    assert len(pickle.dumps(task)) < 400 * len(task.splits)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, os.mkfifo])
def test_a_reader_stopped_at_a_partition_metadata_that_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "partition.metadata")

    assert topic_id_of(DiskReader(), str(tmp_path)) is None
