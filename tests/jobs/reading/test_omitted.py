"""A read reports what it leaves out: which offsets, which bytes, and why. Nothing else, and nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

import stratalog
from stratalog.jobs.metadata_snapshot import SnapshotTask, read_table_task
from stratalog.jobs.reading.omissions import Omission, OmissionKind, joined_up
from stratalog.jobs.reading.options import OnCorruption
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import byte_array
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.reading.damaging import damaged, flip, zero
from tests.jobs.reading.making import (
    Made,
    batches_of,
    kafka_rows,
    offsets_of,
    plan,
    read_omitting,
)

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


def offsets_in(omitted: Iterable[Omission]) -> list[int]:
    """The offsets of these stretches, in order: one that is told twice would be here twice."""
    known = [each for each in omitted if each.end_offset is not None]
    return sorted(offset for each in known for offset in range(each.first_offset, each.end_offset or 0))


@pytest.mark.parametrize("partitions_count", ["1", "20"])
@pytest.mark.parametrize("segment", [0, 1, -1], ids=["first segment", "second", "last"])
@pytest.mark.parametrize(("start", "size"), [(12, 8), (0, 4000), (7000, 1), (10_000, 6000), (-2000, 1990)])
def test_every_offset_is_read_or_told_and_never_both(
    own_log: Made, partitions_count: str, segment: int, start: int, size: int
) -> None:
    log = sorted(own_log.path.glob("*.log"))[segment]
    start %= log.stat().st_size
    offsets = zero(log, range(start, start + size))

    found, omitted = read_omitting(own_log.path, minPartitions=partitions_count, onCorruption="skip")

    assert found == [offset for offset in range(3000) if offset not in offsets]
    last = joined_up(omitted)[-1]
    if last.end_offset is None:  # the log has lost its end: nobody knows how far it went
        assert last.first_offset in offsets
        assert offsets[-1] == 2999
        offsets = [offset for offset in offsets if offset < last.first_offset]
    assert offsets_in(omitted) == offsets
    assert sum(each.size for each in omitted) >= size
    assert all(each.path == str(log) for each in omitted)


@pytest.mark.parametrize("partition", partitions("2.8.2", "clean"), ids=str)
def test_records_of_old_formats_that_were_read_are_not_told_as_left_out(
    partition: Partition, tmp_path: Path
) -> None:
    """Each batch is damaged in turn. A compressed message has its first offset inside."""
    kafkas = {record["offset"] for batch, record in kafka_rows(partition) if not batch["isControl"]}
    *batches, _ = partition.batches()  # damage to the last one would be a tail that a crash left
    for number, batch in enumerate(batches):
        copy = Path(shutil.copytree(partition.path, tmp_path / f"{number}" / partition.name))
        flip(copy / batch["file"], batch["position"] + 20)  # in or under the checksum of every format

        found, omitted = read_omitting(copy, onCorruption="skip")

        assert not set(found) & set(offsets_in(omitted))
        assert kafkas - set(found) <= set(offsets_in(omitted))
        assert omitted


def test_records_before_the_bad_one_of_a_batch_are_not_told(tmp_path: Path) -> None:
    """The checksum holds, so that the records of the batch are read up to the bad one."""
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for _ in range(3):
            log.append_many([b"value"] * 7)
    (path,) = (tmp_path / "orders-0").glob("*.log")
    first, second, third = (bytearray(batch) for batch, _, _ in batches_of(path))
    size_of_record = (len(second) - 61) // 7
    second[61 + 4 * size_of_record] = 0x7F  # the fifth record says that it is longer than the batch
    struct.pack_into(">I", second, 17, crc32c(byte_array(second), 21, len(second)))
    path.write_bytes(first + second + third)

    found, (told,) = read_omitting(tmp_path, onCorruption="skip")

    assert found == [*range(11), *range(14, 21)]
    assert (told.first_offset, told.end_offset) == (11, 14)


def test_bytes_that_do_not_belong_there_are_told_though_no_offset_is_missing(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[0]
    log.with_suffix(".index").unlink()
    (first, _, last_offset), *others = batches_of(log)
    log.write_bytes(first + bytes(100) + b"".join(batch for batch, _, _ in others))

    found, (told,) = read_omitting(own_log.path, onCorruption="skip")

    assert found == list(range(3000))
    assert (told.first_offset, told.offsets_count, told.size) == (last_offset + 1, 0, 100)
    assert "no offset is missing before 10" in str(told)


def test_damage_outside_of_the_offsets_that_were_asked_for_is_not_told(own_log: Made) -> None:
    _, _, offsets = damaged(own_log, 100)
    for start, end in ((offsets[-1] + 1, 3000), (0, offsets[0])):
        found, omitted = read_omitting(
            own_log.path,
            onCorruption="skip",
            startingOffsets=json.dumps({"orders": {"0": start}}),
            endingOffsets=json.dumps({"orders": {"0": end}}),
        )

        assert (found, omitted) == (list(range(start, end)), [])


def test_of_a_damaged_batch_only_the_offsets_that_were_asked_for_are_told(own_log: Made) -> None:
    _, _, offsets = damaged(own_log, 100)

    _, (told,) = read_omitting(
        own_log.path,
        onCorruption="skip",
        startingOffsets=json.dumps({"orders": {"0": offsets[0] + 2}}),
        endingOffsets=json.dumps({"orders": {"0": offsets[0] + 5}}),
    )

    assert (told.first_offset, told.end_offset) == (offsets[0] + 2, offsets[0] + 5)


def test_the_damaged_end_of_a_closed_log_is_told_though_no_task_reads_it(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[-1]
    *_, (last, base_offset, _) = batches_of(log)
    os.truncate(log, log.stat().st_size - 1)

    found, (told,) = read_omitting(own_log.path, onCorruption="skip")
    earlier, nothing = read_omitting(
        own_log.path, onCorruption="skip", endingOffsets='{"orders": {"0": 100}}'
    )

    assert found == list(range(base_offset))
    assert (told.first_offset, told.end_offset, told.size) == (base_offset, None, len(last) - 1)
    assert (earlier, nothing) == (list(range(100)), [])


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_offsets_that_retention_or_a_truncation_took_are_told(own_log: Made, partitions_count: str) -> None:
    tasks = plan(own_log.path, minPartitions=partitions_count, failOnDataLoss="false")
    first, second = sorted(own_log.path.glob("*.log"))[:2]
    with stratalog.open_log(own_log.path) as log:
        log.truncate_to(2500)
    first.rename(first.with_suffix(".log.deleted"))
    omitted: list[Omission] = []

    found = offsets_of(tasks, omitted)

    assert found == list(range(int(second.stem), 2500))
    assert offsets_in(omitted) == [*range(int(second.stem)), *range(2500, 3000)]
    assert {each.kind for each in omitted} == {OmissionKind.LOSS}
    assert {each.why for each in omitted} == {
        f"the log now begins at offset {int(second.stem)}.",
        "the log now ends at offset 2500.",
    }


@pytest.mark.parametrize(
    ("start", "end", "found", "told"),
    [
        (5, 40, range(17, 30), [(5, 17), (30, 40)]),
        (5, 9, range(0), [(5, 9)]),
        (35, 40, range(0), [(35, 40)]),
        (35, -1, range(0), [(35, None)]),
        (-2, 40, range(17, 30), [(30, 40)]),
        (17, 30, range(17, 30), []),
    ],
)
def test_offsets_that_a_log_does_not_have_are_told(
    start: int, end: int, found: range, told: list[tuple[int, int | None]]
) -> None:
    """The fixture's topic has the offsets 17 to 30."""
    logs = FIXTURES / "kafka-4.3.1" / "clean" / "logs"

    offsets, omitted = read_omitting(
        logs,
        subscribe="trimmed",
        failOnDataLoss="false",
        startingOffsets=json.dumps({"trimmed": {"0": start}}),
        endingOffsets=json.dumps({"trimmed": {"0": end}}),
    )

    assert offsets == list(found)
    assert [(each.first_offset, each.end_offset) for each in omitted] == told


def test_a_damaged_snapshot_of_the_metadata_is_told(tmp_path: Path) -> None:
    (source,) = (FIXTURES / "kafka-4.3.1" / "killed").rglob("__cluster_metadata-0/*1*.checkpoint")
    path = Path(shutil.copy(source, tmp_path))
    flip(path, path.stat().st_size // 2)
    task = SnapshotTask(path=str(path), end_offset=7, include_control=False, on_corruption=OnCorruption.SKIP)
    omitted: list[Omission] = []

    rows = sum(batch.num_rows for batch in read_table_task(task, ("value",), on_omission=omitted.append))

    (told,) = omitted
    assert rows == 0
    assert (told.topic, told.first_offset, told.path) == ("__cluster_metadata", 6, str(path))
    assert told.position + told.size == path.stat().st_size
