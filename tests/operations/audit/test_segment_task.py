"""One reading of a segment, whole and damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from stratalog import audit
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.kinds import AuditKind, Severity
from stratalog.operations.audit.segment_task import AuditedSegment, AuditTask, audit_segment
from tests.fixtures.catalog import Partition, log_dirs, partitions
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import TXN_INDEX, batches, edit, flip

(FIXTURES,) = log_dirs("4.3.1", "killed")


def audited(
    directory: Path, base: int, next_base: int | None, *, now_ms: int = 2**62, **options: int
) -> AuditedSegment:
    task = AuditTask(
        directory=str(directory),
        topic=directory.name.rpartition("-")[0],
        base_offset=base,
        size=(directory / f"{base:020d}.log").stat().st_size,
        next_base=next_base,
        was_closed=True,
        now_ms=now_ms,
        **options,
    )
    return audit_segment(DiskReader(), task)


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_counts_and_offsets_are_those_that_kafka_reads(partition: Partition) -> None:
    bases = [int(log.stem) for log in partition.logs]
    for log, base, following in zip(partition.logs, bases, [*bases[1:], None], strict=True):
        expected = [*partition.batches(log)]

        found = audited(partition.path, base, following)

        assert found.records_count == sum(len(batch["records"]) for batch in expected)
        if expected:
            assert found.last_offset == expected[-1]["lastOffset"]
            assert found.first_offset == expected[0]["baseOffset"]
        assert not found.has_damage
        assert found.good_end == log.stat().st_size


def test_batches_after_damage_are_audited_too(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data") / "rolled-0"
    log = root / f"{20:020d}.log"
    places = [*batches(log.read_bytes())]
    edit(log, lambda data: data.__setitem__(slice(places[1][0] + 8, places[1][0] + 12), b"\0\0\0\0"))
    flip(log, places[-1][0] + 70)

    found = audited(root, 20, 40)

    log_spots = [spot for spot in found.spots if spot.file == log.name]
    assert [spot.kind.value for spot in log_spots] == ["bad-length", "wrong-crc"]
    assert [(spot.position, spot.size) for spot in log_spots] == [places[1], places[-1]]
    assert found.scan.batches_count == len(places) - 2
    assert found.good_end == places[1][0]


def test_neighbouring_batches_with_wrong_checksums_are_one_damage(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data") / "rolled-0"
    log = root / f"{20:020d}.log"
    places = [*batches(log.read_bytes())]
    for position, _ in places[1:3]:
        flip(log, position + 70)

    (spot,) = [spot for spot in audited(root, 20, 40).spots if spot.kind.value == "wrong-crc"]

    assert (spot.position, spot.size) == (places[1][0], places[1][1] + places[2][1])
    assert spot.offset == 24


@pytest.mark.parametrize(
    ("position", "kinds"), [(500, ["torn-tail"]), (600, ["torn-tail", "index-past-end"])]
)
def test_an_index_that_names_bytes_after_a_torn_tail_shows_more_than_a_torn_tail(
    tmp_path: Path, position: int, kinds: list[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data") / "rolled-0"
    log, index = root / f"{72:020d}.log", root / f"{72:020d}.index"
    edit(log, lambda data: data.__delitem__(slice(600, None)))
    edit(index, lambda data: data.extend(struct.pack(">ii", 7, position)))

    found = audited(root, 72, None)

    assert [spot.kind.value for spot in found.spots] == kinds


def test_a_torn_transaction_index_and_the_abort_it_lacks_are_one_finding(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    edit(root / TXN_INDEX, lambda data: data.__delitem__(slice(-10, None)))

    found = [each for each in audit([str(root)]).findings if each.severity is not Severity.NOTE]

    assert [(each.kind, each.position, each.size) for each in found] == [(AuditKind.TORN_TXN_INDEX, 102, 24)]
    assert "`stratalog recover --all " in found[0].remedy


def test_a_reading_that_goes_on_has_the_digest_of_a_whole_one(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data") / "rolled-0"
    log = root / f"{72:020d}.log"
    whole, full = audited(root, 72, None), log.read_bytes()
    position = [*batches(full)][-1][0]
    log.write_bytes(full[:position])
    first = audited(root, 72, None)
    log.write_bytes(full)

    rest = audited(
        root,
        72,
        None,
        start_position=first.good_end,
        start_offset=first.last_offset + 1,
        start_digest=first.digest,
    )

    assert (rest.digest, rest.last_offset) == (whole.digest, whole.last_offset)
    assert rest.read_size == len(full) - position


def test_the_time_index_of_the_metadata_log_may_lack_its_end_after_a_clean_shutdown() -> None:
    """The broker was killed, so the last entry is missing. `recover` leaves this log to the broker."""
    root = FIXTURES / "__cluster_metadata-0"

    found = audited(root, 0, None)

    assert "time-index-end" not in [spot.kind.value for spot in found.spots]
    entry = (root / f"{0:020d}.timeindex").read_bytes()
    assert not entry.strip(b"\0") or int.from_bytes(entry[-12:-4], "big") < found.scan.max_timestamp
