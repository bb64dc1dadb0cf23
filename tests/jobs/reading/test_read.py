"""What a task reads, compared with Kafka's reading of its own files, and reads of an outdated plan."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.errors import DiskError, OffsetOutOfRangeError
from stratalog.jobs.reading import arrow
from stratalog.jobs.reading import read as reading
from stratalog.jobs.reading.options import BATCH_COLUMNS
from stratalog.jobs.reading.read import read_task
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.reading.making import (
    T0,
    TRIMMED_START,
    Made,
    as_nobody,
    batches_of,
    kafka_rows,
    plan,
    read,
    rows_of,
)


def as_row(record: dict[str, Any]) -> dict[str, Any]:
    def content(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    headers = [(name, content(text)) for name, text in record["headers"]]
    return {
        "offset": record["offset"],
        "key": content(record["key"]),
        "value": content(record["value"]),
        "headers": headers or None,
    }


def found_rows(partition: Partition, **options: str) -> list[dict[str, Any]]:
    rows = read(partition.path, columns=("offset", "key", "value", "headers"), **options)
    for row in rows:
        headers = row["headers"]
        row["headers"] = headers and [(header["key"], header["value"]) for header in headers]
    return rows


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_records_are_those_that_kafka_reads(partition: Partition) -> None:
    expected = [as_row(record) for batch, record in kafka_rows(partition) if not batch["isControl"]]

    assert found_rows(partition, minPartitions="4") == expected


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_control_records_come_if_asked_for(partition: Partition) -> None:
    expected = [as_row(record) for _, record in kafka_rows(partition)]

    assert found_rows(partition, includeControl="true") == expected


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_committed_records_are_those_of_no_aborted_and_no_open_transaction(partition: Partition) -> None:
    everything = list(kafka_rows(partition))
    expected = [as_row(record) for _, record in committed(everything)]

    assert found_rows(partition, isolation="read_committed") == expected


def committed(everything: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[Any]:
    """By a plain model: a producer's records wait for its next marker, which says what becomes of them."""
    outcome: dict[int, str] = {}
    kept = []
    first_open = None
    for batch, record in reversed(everything):
        producer = batch["producerId"]
        if batch["isControl"]:
            outcome[producer] = record.get("controlType", "")
            continue
        if not batch["isTransactional"]:
            kept.append((batch, record))
        elif producer not in outcome:
            first_open = record["offset"]
        elif outcome[producer] == "COMMIT":
            kept.append((batch, record))
    return [pair for pair in reversed(kept) if first_open is None or pair[1]["offset"] < first_open]


@pytest.mark.parametrize("partition", partitions("4.3.1", "killed"), ids=str)
def test_a_damaged_transaction_index_is_not_believed(partition: Partition, tmp_path: Path) -> None:
    copy = shutil.copytree(partition.path, tmp_path / partition.name)
    for index in copy.glob("*.txnindex"):
        index.write_bytes(b"\xff" * 68)
    before = read(partition.path, isolation="read_committed")

    start = TRIMMED_START if partition.name == "trimmed-0" else 0
    assert [row for row in read(copy, isolation="read_committed") if row["offset"] >= start] == before


@pytest.mark.parametrize("is_known_synced", [False, True])
def test_what_a_power_cut_took_from_a_transaction_index_is_in_the_markers(
    is_known_synced: bool, tmp_path: Path
) -> None:
    """Above the recovery point an index may have lost entries; below it, it is believed as it is."""
    (partition,) = (each for each in partitions("4.3.1", "killed") if each.name == "txn-0")
    copy = shutil.copytree(partition.path, tmp_path / partition.name)
    for index in copy.glob("*.txnindex"):
        index.write_bytes(b"")
    newest = max(int(snapshot.stem) for snapshot in copy.glob("*.snapshot"))
    point = newest if is_known_synced else newest - 1
    (tmp_path / "recovery-point-offset-checkpoint").write_text(f"0\n1\ntxn 0 {point}\n")

    before = read(partition.path, isolation="read_committed")
    found = read(copy, isolation="read_committed")

    assert (found == before) is not is_known_synced


def test_batch_metadata_is_kafkas() -> None:
    (partition,) = (each for each in partitions("4.3.1", "killed") if each.name == "txn-0")

    rows = read(partition.path, columns=("offset", *BATCH_COLUMNS), includeControl="true")

    assert rows == [
        {
            "offset": record["offset"],
            "leaderEpoch": batch["partitionLeaderEpoch"],
            "producerId": batch["producerId"],
            "producerEpoch": batch["producerEpoch"],
            "sequence": record["sequence"],
            "isTransactional": batch["isTransactional"],
            "isControl": batch["isControl"],
            "codec": batch["codec"],
            "position": batch["position"],
        }
        for batch, record in kafka_rows(partition)
    ]


def test_a_batch_that_exceeds_the_buffer_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_SIZE", 4096)
    values = [b"small", b"x" * 100_000, b"small again", b"y" * 9000]
    with stratalog.open_log(tmp_path / "large-0", create=True) as log:
        for value in values:
            log.append(value)

    assert [row["value"] for row in read(tmp_path / "large-0")] == values


# A plan that has aged


def test_records_appended_after_planning_are_not_read(own_log: Made) -> None:
    tasks = plan(own_log.path)
    with stratalog.open_log(own_log.path) as log:
        log.append(b"later")

    assert rows_of(tasks) == own_log.all_rows


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_files_that_were_copied_elsewhere_and_back_are_read(own_log: Made, partitions_count: str) -> None:
    tasks = plan(own_log.path, minPartitions=partitions_count)
    replaced = shutil.move(own_log.path, own_log.path.with_name("aside"))
    shutil.copytree(replaced, own_log.path)

    assert rows_of(tasks) == own_log.all_rows


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_a_log_that_was_compacted_since_gives_each_record_that_is_left_once(
    own_log: Made, partitions_count: str
) -> None:
    tasks = plan(own_log.path, minPartitions=partitions_count)
    kept = compact(own_log.path)

    assert rows_of(tasks) == own_log.rows(kept)
    assert len(kept) < len(own_log.records)


def compact(directory: Path) -> list[int]:
    """As the cleaner leaves a log: fewer batches, and the second and third segment in one file.

    Returns the offsets that are left.
    """
    logs = sorted(directory.glob("*.log"))
    kept: list[int] = []
    for group in ([logs[0]], logs[1:3]):
        cleaned = b""
        for batch, base_offset, last_offset in (each for log in group for each in batches_of(log)):
            if base_offset // 10 % 3:
                cleaned += batch
                kept += range(base_offset, last_offset + 1)
        for log in group:
            log.with_suffix(".index").unlink()
            log.rename(log.with_suffix(".log.deleted"))
        group[0].write_bytes(cleaned)
    return kept + [
        offset for log in logs[3:] for _, base, last in batches_of(log) for offset in range(base, last + 1)
    ]


# What is done of a replacement of the second and third segment, step by step as Kafka renames.
SWAPS = {
    "the log is renamed, its index not yet": [(".log.cleaned", ".log.swap")],
    "all is renamed": [(".log.cleaned", ".log.swap"), (".index.cleaned", ".index.swap")],
    "the first of the old ones is gone": [
        (".log.cleaned", ".log.swap"),
        (".index.cleaned", ".index.swap"),
        ("first.log", "first.log.deleted"),
    ],
    "the old ones are gone": [
        (".log.cleaned", ".log.swap"),
        (".index.cleaned", ".index.swap"),
        ("first.log", "first.log.deleted"),
        ("first.index", "first.index.deleted"),
        ("second.log", "second.log.deleted"),
        ("second.index", "second.index.deleted"),
    ],
    "the log has its name, its index not yet": [
        (".index.cleaned", ".index.swap"),
        ("first.log", "first.log.deleted"),
        ("first.index", "first.index.deleted"),
        ("second.log", "second.log.deleted"),
        ("second.index", "second.index.deleted"),
        (".log.cleaned", ".log"),
    ],
}


@pytest.mark.parametrize("when", ["planned before", "planned now"])
@pytest.mark.parametrize("steps", SWAPS.values(), ids=SWAPS)
def test_segments_that_are_being_replaced_are_read_once(
    own_log: Made, steps: list[tuple[str, str]], when: str
) -> None:
    options = {"minPartitions": "20", "failOnDataLoss": "true"}
    before = plan(own_log.path, **options)
    logs = sorted(own_log.path.glob("*.log"))
    first, second = logs[1:3]
    kept = [each for log in (first, second) for each in batches_of(log) if each[1] // 10 % 3]
    new = first.with_suffix("")
    Path(f"{new}.log.cleaned").write_bytes(b"".join(batch for batch, _, _ in kept))
    Path(f"{new}.index.cleaned").write_bytes(b"")
    bases = {"first": first.with_suffix(""), "second": second.with_suffix(""), "": new}
    for source, target in steps:
        base = bases[source.partition(".")[0]]
        Path(f"{base}.{source.partition('.')[2]}").rename(f"{base}.{target.partition('.')[2]}")

    found = rows_of(before if when == "planned before" else plan(own_log.path, **options))

    middle, end = int(second.stem), int(logs[3].stem)
    gone: set[int] = set()
    if when == "planned now" and len(steps) > 1:
        gone = set(range(int(first.stem), end))
    elif when == "planned before":  # the planned records that still exist are read
        names = [source for source, _ in steps]
        gone |= set(range(int(first.stem), middle) if "first.log" in names else ())
        gone |= set(range(middle, end) if "second.log" in names else ())
    gone -= {offset for _, base, last in kept for offset in range(base, last + 1)}
    assert found == own_log.rows(offset for offset in range(3000) if offset not in gone)


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_records_that_retention_took_are_data_loss(own_log: Made, partitions_count: str) -> None:
    tasks = plan(own_log.path, minPartitions=partitions_count)
    forgiving = plan(own_log.path, minPartitions=partitions_count, failOnDataLoss="false")
    first, second = sorted(own_log.path.glob("*.log"))[:2]
    first.rename(first.with_suffix(".log.deleted"))

    with pytest.raises(
        OffsetOutOfRangeError, match=rf"orders-0: offsets 0 to .*now begins at offset {int(second.stem)}"
    ):
        rows_of(tasks)
    assert rows_of(forgiving) == own_log.rows(range(int(second.stem), 3000))


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_records_that_a_truncation_took_are_data_loss(own_log: Made, partitions_count: str) -> None:
    tasks = plan(own_log.path, minPartitions=partitions_count)
    forgiving = plan(own_log.path, minPartitions=partitions_count, failOnDataLoss="false")
    with stratalog.open_log(own_log.path) as log:
        log.truncate_to(2500)

    with pytest.raises(OffsetOutOfRangeError, match=r"now ends at offset 2500.*failOnDataLoss=false"):
        rows_of(tasks)
    assert rows_of(forgiving) == own_log.rows(range(2500))


def test_what_was_written_anew_behind_a_truncation_is_read_as_it_is_now(own_log: Made) -> None:
    tasks = plan(own_log.path, minPartitions="20")
    with stratalog.open_log(own_log.path) as log:
        log.truncate_to(2500)
        for number in range(2500, 3000):
            log.append(b"new %d" % number, key=b"k", timestamp=T0)

    assert rows_of(tasks) == own_log.rows(range(2500)) + [
        {"offset": number, "key": b"k", "value": b"new %d" % number} for number in range(2500, 3000)
    ]


def test_what_was_written_anew_while_it_is_read_comes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new batch begins before the offset up to which the old ones were read."""
    monkeypatch.setattr(reading, "CHUNK_SIZE", 4096)
    monkeypatch.setattr(arrow, "ENOUGH_ROWS", 1)
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(300):
            log.append(b"old %d " % number * 10)
        (task,) = plan(tmp_path)
        batches = read_task(task, ("offset", "value"))
        rows = next(batches).to_pylist()
        log.truncate_to(5)
        log.append_many([b"new"] * 295)

        rows += [row for batch in batches for row in batch.to_pylist()]

    assert [row["offset"] for row in rows] == list(range(300))
    assert rows[-1]["value"] == b"new"


def test_a_directory_that_is_gone_is_data_loss(own_log: Made) -> None:
    tasks, forgiving = plan(own_log.path), plan(own_log.path, failOnDataLoss="false")
    shutil.rmtree(own_log.path)

    with pytest.raises(OffsetOutOfRangeError, match=r"the directory .*orders-0 is gone"):
        rows_of(tasks)
    assert rows_of(forgiving) == []


def test_a_topic_that_was_made_anew_is_not_taken_for_the_one_that_was_planned(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with stratalog.open_log(directory, create=True, topic_id="CVmmc5E3Svq-PtfZ062cfg") as log:
        log.append_many([b"first"] * 10)
    tasks = plan(tmp_path)
    forgiving = plan(tmp_path, failOnDataLoss="false")
    assert len(rows_of(tasks)) == len(rows_of(forgiving)) == 10
    elsewhere = tmp_path / "broker" / "orders-0"  # as another process would: nothing here is notified
    with stratalog.open_log(elsewhere, create=True, topic_id="b3JkZXJzLW1hZGUtYW5ldw") as log:
        log.append_many([b"second"] * 10)
    shutil.rmtree(directory)
    elsewhere.rename(directory)

    with pytest.raises(OffsetOutOfRangeError, match="another one of the same name was created"):
        rows_of(tasks)
    assert rows_of(forgiving) == []


def test_a_file_that_may_not_be_read_is_named(own_log: Made) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders are closed to other users
        path = Path(shutil.copytree(own_log.path, Path(folder) / "orders-0"))
        tasks = plan(path)
        next(path.glob("*.log")).chmod(0)

        with (
            as_nobody(),
            pytest.raises(DiskError, match=r"\.log: could not open it: Permission denied.*Run as"),
        ):
            rows_of(tasks)
