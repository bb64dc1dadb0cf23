"""What a read left out is counted with partition, offsets, bytes and reason."""

from __future__ import annotations

import pickle
import shutil
import struct
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import CorruptRecordError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.omissions import (
    Gaps,
    Omission,
    OmissionKind,
    OmissionWarning,
    joined_up,
    summary,
    warn_of,
)
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from tests.jobs.reading.making import Made, batches_of, read_omitting

PLACE = TopicPartition("orders", 0)


def damage(log: Path, number: int, byte: int) -> tuple[int, int, range]:
    """A byte of a batch flipped: (where the batch is, its size, its offsets)."""
    batches = list(batches_of(log))
    position = sum(len(batch) for batch, _, _ in batches[:number])
    data = bytearray(log.read_bytes())
    data[position + byte] ^= 0xFF
    log.write_bytes(data)
    batch, base_offset, last_offset = batches[number]
    return position, len(batch), range(base_offset, last_offset + 1)


@pytest.mark.parametrize("tasks", ["1", "20"])
@pytest.mark.parametrize("byte", [100, 8, 11], ids=["checksum", "negative length", "another length"])
def test_a_skipped_batch_is_counted_with_its_offsets_bytes_and_place(
    own_log: Made, tasks: str, byte: int
) -> None:
    log = sorted(own_log.path.glob("*.log"))[1]
    position, size, offsets = damage(log, 6, byte)

    rows, (left,) = read_omitting(own_log.path, minPartitions=tasks, onCorruption="skip")

    assert rows == [offset for offset in range(3000) if offset not in offsets]
    assert (left.topic_partition, left.kind) == (PLACE, OmissionKind.DAMAGE)
    assert range(left.first_offset, left.end_offset or 0) == offsets
    assert (left.path, left.position, left.size) == (str(log), position, size)
    assert left.why


def test_two_places_are_two_even_in_one_run_of_batches(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[1]
    *_, first = damage(log, 3, 100)
    *_, second = damage(log, 9, 100)

    _, left = read_omitting(own_log.path, onCorruption="skip")

    assert [range(each.first_offset, each.end_offset or 0) for each in left] == [first, second]


def test_damage_at_the_end_of_a_segment_ends_where_the_next_one_begins(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[1]
    *_, offsets = damage(log, len(list(batches_of(log))) - 1, 100)

    _, (left,) = read_omitting(own_log.path, onCorruption="skip")

    assert range(left.first_offset, left.end_offset or 0) == offsets


@pytest.mark.parametrize("offset", [0, 2000], ids=["too low", "too high"])
def test_a_batch_with_a_wrong_offset_is_counted_between_its_neighbours(own_log: Made, offset: int) -> None:
    log = sorted(own_log.path.glob("*.log"))[1]
    batches = list(batches_of(log))
    position = sum(len(batch) for batch, _, _ in batches[:6])
    data = bytearray(log.read_bytes())
    struct.pack_into(">q", data, position, offset)
    log.write_bytes(data)
    hidden = range(batches[6][1], batches[6][2] + 1)

    rows, (left,) = read_omitting(own_log.path, onCorruption="skip")

    assert rows == [offset for offset in range(3000) if offset not in hidden]
    assert range(left.first_offset, left.end_offset or 0) == hidden
    assert (left.path, left.position, left.size) == (str(log), position, len(batches[6][0]))


def test_bytes_at_the_end_of_a_closed_log_are_counted(own_log: Made) -> None:
    assert (own_log.path / ".kafka_cleanshutdown").exists()
    log = sorted(own_log.path.glob("*.log"))[-1]
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b"\x01" * 100)

    rows, (left,) = read_omitting(own_log.path, onCorruption="skip")

    assert rows == list(range(3000))
    assert (left.first_offset, left.end_offset, left.size) == (3000, None, 100)
    assert (left.path, left.position) == (str(log), size)


def test_a_whole_log_leaves_nothing_out(made_log: Made) -> None:
    assert read_omitting(made_log.path, onCorruption="skip", failOnDataLoss="false")[1] == []


def test_offsets_that_are_not_there_are_counted(made_log: Made) -> None:
    options = {"endingOffsets": '{"orders": {"0": 3100}}', "failOnDataLoss": "false"}

    _, (left,) = read_omitting(made_log.path, **options)

    assert (left.kind, left.first_offset, left.end_offset) == (OmissionKind.LOSS, 3000, 3100)


def test_offsets_that_are_lost_after_planning_are_counted(own_log: Made) -> None:
    found: list[Omission] = []
    options = ReadOptions.parse({"path": str(own_log.path), "failOnDataLoss": "false"})
    tasks = plan_read(options, on_omission=found.append)
    shutil.rmtree(own_log.path)

    assert [batch for task in tasks for batch in read_task(task, (), on_omission=found.append)] == []
    assert {each.kind for each in found} == {OmissionKind.LOSS}
    offsets = {offset for each in found for offset in range(each.first_offset, each.end_offset or 0)}
    assert offsets == set(range(3000))


def test_the_start_that_retention_took_is_counted(own_log: Made) -> None:
    tasks = plan_read(ReadOptions.parse({"path": str(own_log.path), "failOnDataLoss": "false"}))
    first, second = sorted(own_log.path.glob("*.log"))[:2]
    for file in own_log.path.glob(f"{first.stem}.*"):
        file.unlink()
    found: list[Omission] = []

    batches = [batch for task in tasks for batch in read_task(task, ("offset",), on_omission=found.append)]
    rows = [offset for batch in batches for offset in batch.column(0).to_pylist()]

    (left,) = found
    assert (left.first_offset, left.end_offset) == (0, int(second.stem))
    assert rows == list(range(int(second.stem), 3000))


def left(first: int, end: int | None, **fields: object) -> Omission:
    given = {"topic": "orders", "partition": 0, "kind": OmissionKind.DAMAGE, "why": "its checksum is wrong."}
    return Omission(first_offset=first, end_offset=end, **{**given, **fields})  # type: ignore[arg-type]


def test_a_batch_that_two_tasks_share_is_counted_once() -> None:
    place = {"path": "a.log", "position": 70, "size": 90}

    assert joined_up([left(15, 20, **place), left(10, 15, **place)]) == [left(10, 20, **place)]
    assert len(joined_up([left(10, 15, **place), left(15, 20, **{**place, "position": 160})])) == 2


def test_it_says_in_words_what_was_left_out() -> None:
    many = [left(10 * n, 10 * n + 5, path="a.log", position=n, size=7) for n in range(1, 8)]

    first, second, *_, last = summary(many).splitlines()
    assert first == "records were left out: 35 offsets at most and 49 bytes, at 7 places of 1 partition."
    assert second == ("  orders-0: offsets 10 to 14, 7 bytes from byte 1 of a.log on: its checksum is wrong.")
    assert last == "  and 2 more"
    assert str(left(5, None)).startswith("orders-0: the offsets from 5 on: ")
    assert str(left(5, 6)).startswith("orders-0: offset 5: ")
    assert str(left(5, 5)).startswith("orders-0: no offset is missing before 5: ")


def test_a_warning_has_what_was_left_out() -> None:
    with pytest.warns(OmissionWarning, match="5 offsets at most") as caught:
        warn_of([left(0, 5)])
    assert caught[0].message.omissions == (left(0, 5),)  # type: ignore[union-attr]
    assert Path(caught[0].filename) == Path(__file__)
    warn_of([])


def test_it_travels_between_processes_and_into_files() -> None:
    one = left(3, None, path="a.log", position=70, size=90)

    assert pickle.loads(pickle.dumps(one)) == one
    assert Omission.from_json(one.to_json()) == one


def test_a_gap_ends_at_the_next_batch_or_with_the_range() -> None:
    found: list[Omission] = []
    gaps = Gaps(PLACE, 10, 40, found.append)
    error = CorruptRecordError("torn.", position=70, path="a.log")

    gaps.skipped(error, 5, 90)
    gaps.seen(20)
    gaps.seen(30)
    gaps.skipped(error, 35, 90)
    gaps.close()
    gaps.close()
    gaps.skipped(error, 12, 90, end_offset=15)

    assert [(each.first_offset, each.end_offset) for each in found] == [(10, 20), (35, 40), (12, 15)]


def test_the_names_of_the_package_are_these() -> None:
    assert stratalog.Omission is Omission
    assert stratalog.OmissionWarning is OmissionWarning


def undecoded(first_offset: int, end_offset: int, count: int, *, column: str = "value") -> Omission:
    return Omission(
        topic="orders",
        partition=0,
        kind=OmissionKind.UNDECODED,
        first_offset=first_offset,
        end_offset=end_offset,
        why="the schema id 99 is not known",
        column=column,
        count=count,
    )


def test_values_that_could_not_be_decoded_are_counted_by_reason_and_no_record_is_missing() -> None:
    """Two tasks tell of their own values; one that is told again counts once."""
    told = [undecoded(3, 9, 2), undecoded(20, 21, 1), undecoded(3, 9, 2), undecoded(4, 5, 1, column="key")]

    assert sorted(joined_up(told), key=lambda each: each.column) == [
        undecoded(4, 5, 1, column="key"),
        undecoded(3, 21, 3),
    ]
    assert sum(each.offsets_count for each in told) == 0
    assert summary(told[:2]).splitlines() == [
        "3 values of 1 partition could not be decoded: null instead. undecodedValue has the bytes, "
        "undecodedValueReason the reason.",
        "  orders-0: 3 values at offsets 3 to 20: the schema id 99 is not known",
    ]
    assert Omission.from_json(told[0].to_json()) == told[0]
