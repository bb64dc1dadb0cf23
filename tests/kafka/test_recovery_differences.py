"""Where recovery is meant to differ from Kafka's: what Kafka does, shown on Kafka, and what we do instead.

Each test has its line in docs/compatibility.md, "Recovery: deliberate differences".
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stratalog.errors import StratalogError
from stratalog.log.recovery.facts import FindingKind
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.control import ControlType, EndTxnMarker
from tests.kafka.log_oracle import LogOracle
from tests.kafka.our_recovery import opens_as_stopped, we_recover
from tests.kafka.recovery_cases import MAGIC_AT, Case, batch_positions, logs_in
from tests.kafka.recovery_compare import (
    contents,
    copied,
    differences,
    kafka_opens,
    kafka_recovers,
    without_stale_tail,
)

NOW_MS = int(time.time() * 1000)
SEGMENTS = 4
BATCHES = 5
LONG_AGO_MS = 1_700_000_000_000
PADDED = 4096


@pytest.fixture
def both(log_oracle: LogOracle, tmp_path: Path) -> tuple[Case, Case]:
    """A log of four segments that Kafka wrote, five batches each: one copy for Kafka, one for us."""
    config = {"index.interval.bytes": "0", "segment.index.bytes": str(PADDED)}
    return written_twice(log_oracle, tmp_path, config)


def written_twice(
    log_oracle: LogOracle,
    folder: Path,
    config: dict[str, str],
    *,
    segments_count: int = SEGMENTS,
    records_count: int = 1,
) -> tuple[Case, Case]:
    directory = folder / "case" / "t-0"
    directory.mkdir(parents=True)
    log_oracle.ask("setClock", ms=LONG_AGO_MS)
    log_oracle.ask("open", dir=str(directory), config=config, clean=True, logStart=0, recoveryPoint=0)
    for number in range(segments_count * BATCHES):
        if number and number % BATCHES == 0:
            log_oracle.ask("roll")
        given = {"leaderEpoch": 0, "origin": "CLIENT", "transactionVersion": -1}
        log_oracle.ask("appendLeader", hex=batch(number, records_count).hex(), **given)
    log_oracle.ask("close")
    case = Case(directory=directory, config=config, recovery_point=0, log_start_offset=0)
    return copied(case, folder / "kafka"), copied(case, folder / "ours")


def batch(number: int, records_count: int = 1) -> bytes:
    options = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=number * records_count)
    value = b"value %d" % number
    records = [Record(offset, LONG_AGO_MS + number, b"key", value) for offset in range(records_count)]
    return build_batch(records, options)


def on_both(both: tuple[Case, Case], change: str, data: bytes, *, recovery_point: int | None = None) -> None:
    """Append bytes to a file of both copies, or create the file."""
    for case in both:
        with (case.directory / change).open("ab") as file:
            file.write(data)
        if recovery_point is not None:
            case.recovery_point = recovery_point


def test_an_io_error_empties_kafkas_log_and_fails_ours_as_it_is(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    for case in both:
        (snapshot,) = case.directory.glob("*05.snapshot")
        snapshot.unlink()
        snapshot.mkdir()
    before = {log.name: log.read_bytes() for log in logs_in(ours.directory)}

    assert kafka_recovers(log_oracle, theirs, NOW_MS).marks["logEnd"] == 0
    with pytest.raises(StratalogError, match=snapshot.name):
        we_recover(ours, NOW_MS)

    assert {log.name: log.read_bytes() for log in logs_in(ours.directory)} == before


def test_a_marker_too_short_to_read_stops_kafka_and_ends_our_log(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    options = BatchOptions(producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    key = EndTxnMarker(ControlType.COMMIT, 0).key_bytes()
    marker = build_batch([Record(SEGMENTS * BATCHES, NOW_MS, key, b"\0\0")], options)
    on_both(both, logs_in(ours.directory)[-1].name, marker)

    assert kafka_recovers(log_oracle, theirs, NOW_MS).refusal is not None
    plan = we_recover(ours, NOW_MS)

    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


def test_offsets_below_their_segment_stop_kafka_and_are_cut_here(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    first, *_, last = logs_in(ours.directory)
    good = last.read_bytes()
    on_both(both, last.name, first.read_bytes())

    refusal = kafka_recovers(log_oracle, theirs, NOW_MS).refusal
    plan = we_recover(ours, NOW_MS)

    assert refusal is not None
    assert "Split operation" in refusal.message
    assert last.read_bytes() == good
    assert plan.log_end_offset == SEGMENTS * BATCHES
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


@pytest.mark.parametrize(
    ("segments_count", "torn", "recovery_point"),
    [(1, b"", 0), (1, b"", 10**6), (1, b"torn", 10**6), (2, b"torn", 0)],
)
def test_stale_batches_behind_the_last_indexed_one_hide_the_end_from_kafka_and_are_cut_here(
    log_oracle: LogOracle, tmp_path: Path, segments_count: int, torn: bytes, recovery_point: int
) -> None:
    # Of five batches the third and the fifth are indexed; the stale one, right after them, is not.
    config = {"index.interval.bytes": str(len(batch(0, 3))), "segment.index.bytes": str(PADDED)}
    both = written_twice(log_oracle, tmp_path, config, segments_count=segments_count, records_count=3)
    theirs, ours = both
    log = logs_in(ours.directory)[0]
    good = log.read_bytes()
    stale = good[slice(*batch_positions(good)[1:3])]
    on_both(both, log.name, stale + torn, recovery_point=recovery_point)

    marks = kafka_recovers(log_oracle, theirs, NOW_MS).marks
    plan = we_recover(ours, NOW_MS)

    assert (marks["segments"], marks["logEnd"], marks["epochs"]) == ([[0, len(good + stale)]], 0, [])
    assert (log.read_bytes(), logs_in(ours.directory)) == (good, [log])
    assert plan.log_end_offset == 3 * BATCHES
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


def test_a_log_that_starts_inside_its_last_segment_is_deleted_by_kafka_over_a_stale_batch(
    log_oracle: LogOracle, tmp_path: Path
) -> None:
    config = {"index.interval.bytes": str(len(batch(0, 3))), "segment.index.bytes": str(PADDED)}
    both = written_twice(log_oracle, tmp_path, config, segments_count=1, records_count=3)
    theirs, ours = both
    log = logs_in(ours.directory)[0]
    good = log.read_bytes()
    on_both(both, log.name, good[slice(*batch_positions(good)[1:3])])
    for case in both:
        case.log_start_offset = 3
    damaged = copied(ours, tmp_path / "damaged")

    kafka = kafka_recovers(log_oracle, theirs, NOW_MS)
    plan = we_recover(ours, NOW_MS)

    assert (kafka.marks["segments"], kafka.marks["logEnd"], kafka.has_begun_anew) == ([[3, 0]], 3, True)
    cut = without_stale_tail(log_oracle, damaged, tmp_path / "stale", NOW_MS)
    without = kafka_recovers(log_oracle, copied(cut, tmp_path / "without"), NOW_MS)
    assert not differences(damaged, ours.directory, without.directory, without)
    assert log.read_bytes() == good
    assert (plan.log_start_offset, plan.log_end_offset) == (3, 3 * BATCHES)
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


def test_an_offset_beyond_the_segments_that_follow_is_where_kafka_goes_on_and_is_cut_here(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    for case in both:
        log = logs_in(case.directory)[0]
        data = bytearray(log.read_bytes())
        last_batch = batch_positions(data)[-1]
        data[last_batch] ^= 4
        log.write_bytes(data)

    assert kafka_recovers(log_oracle, theirs, NOW_MS).marks["logEnd"] > 2**58
    plan = we_recover(ours, NOW_MS)

    assert plan.log_end_offset == BATCHES - 1
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


def test_a_segment_that_is_split_before_its_first_batch_keeps_its_base_here_and_not_in_kafka(
    log_oracle: LogOracle, tmp_path: Path
) -> None:
    both = written_twice(log_oracle, tmp_path, {"index.interval.bytes": "0"})
    theirs, ours = both
    base = (SEGMENTS - 1) * BATCHES
    for case in both:
        log = logs_in(case.directory)[-1]
        data = bytearray(log.read_bytes()[: batch_positions(log.read_bytes())[1]])
        data[0] ^= 0x20
        log.write_bytes(data)
    damaged = copied(ours, tmp_path / "damaged")

    kafka = kafka_recovers(log_oracle, theirs, NOW_MS)
    plan = we_recover(ours, NOW_MS)

    split_off = 0x20 << 56 | base
    assert [offset for offset, _ in kafka.marks["segments"]] == [0, 5, 10, split_off]
    assert [int(log.stem) for log in logs_in(ours.directory)] == [0, 5, 10, base, split_off]
    assert plan.log_end_offset == kafka.marks["logEnd"] == split_off + 1
    assert not differences(damaged, ours.directory, theirs.directory, kafka)
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


def test_a_magic_of_no_release_is_read_as_2_by_kafka_and_cut_here(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    for case in both:
        log = logs_in(case.directory)[-1]
        data = bytearray(log.read_bytes())
        last_batch = batch_positions(data)[-1]
        data[last_batch + MAGIC_AT] = 3
        log.write_bytes(data)

    assert kafka_recovers(log_oracle, theirs, NOW_MS).marks["logEnd"] == SEGMENTS * BATCHES
    plan = we_recover(ours, NOW_MS)

    assert plan.log_end_offset == SEGMENTS * BATCHES - 1
    assert [cut.position for cut in plan.cuts] == [last_batch]
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


def test_an_index_too_small_for_what_recovery_adds_stops_kafka_and_not_us(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    for case in both:
        case.config = case.config | {"segment.index.bytes": "24"}

    refusal = kafka_recovers(log_oracle, theirs, NOW_MS).refusal
    plan = we_recover(ours, NOW_MS)

    assert refusal is not None
    assert "full" in refusal.message
    assert plan.log_end_offset == SEGMENTS * BATCHES
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


@pytest.mark.parametrize("size", [61, PADDED])
def test_an_active_segment_of_zeros_stops_kafka_after_a_clean_stop_and_is_cut_after_a_crash_and_here(
    log_oracle: LogOracle, both: tuple[Case, Case], tmp_path: Path, size: int
) -> None:
    theirs, ours = both
    last = logs_in(ours.directory)[-1]
    start = (SEGMENTS - 1) * BATCHES
    for case in both:
        log = case.directory / last.name
        log.write_bytes(bytes(size))
        log.with_suffix(".index").write_bytes(b"")
        log.with_suffix(".timeindex").write_bytes(b"")
        case.recovery_point = start
    stopped = copied(theirs, tmp_path / "stopped")

    refusal = kafka_opens(log_oracle, stopped, {"logEnd": start, "logStart": 0}, NOW_MS).refusal
    crashed = kafka_recovers(log_oracle, theirs, NOW_MS)
    plan = we_recover(ours, NOW_MS)

    assert refusal is not None
    assert "Found record size 0 smaller than minimum" in refusal.message
    assert crashed.refusal is None
    assert plan.log_end_offset == crashed.marks["logEnd"] == start
    assert last.read_bytes() == (theirs.directory / last.name).read_bytes() == b""
    assert [(cut.position, cut.size) for cut in plan.cuts] == [(0, size)]
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_padded_index_below_the_recovery_point_stays_in_kafka_and_is_cut_here(
    log_oracle: LogOracle, both: tuple[Case, Case], suffix: str
) -> None:
    theirs, ours = both
    before = contents(ours.directory)
    name = logs_in(ours.directory)[0].with_suffix(suffix).name
    zeros = bytes(1200 - (ours.directory / name).stat().st_size)
    on_both(both, name, zeros, recovery_point=SEGMENTS * BATCHES)

    kafka_recovers(log_oracle, theirs, NOW_MS)
    we_recover(ours, NOW_MS)

    assert (theirs.directory / name).stat().st_size == 1200
    assert contents(ours.directory) == before


def test_a_missing_time_index_is_left_empty_by_kafka_and_built_here(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    before = contents(ours.directory)
    name = logs_in(ours.directory)[1].with_suffix(".timeindex").name
    for case in both:
        (case.directory / name).unlink()
        case.recovery_point = SEGMENTS * BATCHES

    kafka_recovers(log_oracle, theirs, NOW_MS)
    we_recover(ours, NOW_MS)

    assert (theirs.directory / name).read_bytes() == b""
    assert contents(ours.directory) == before


def test_damage_below_the_recovery_point_is_cut_by_kafka_with_a_lost_index_and_only_told_here(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    name = logs_in(ours.directory)[1].name
    for case in both:
        log = case.directory / name
        data = bytearray(log.read_bytes())
        data[batch_positions(data)[2] + 30] ^= 1
        log.write_bytes(data)
        log.with_suffix(".index").unlink()
        case.recovery_point = SEGMENTS * BATCHES

    kafka_recovers(log_oracle, theirs, NOW_MS)
    plan = we_recover(ours, NOW_MS)

    assert len((theirs.directory / name).read_bytes()) == batch_positions(data)[2]
    assert (ours.directory / name).read_bytes() == bytes(data)
    assert plan.findings
    assert not plan.cuts


def test_a_torn_transaction_index_below_the_recovery_point_stays_in_kafka_and_is_rebuilt_here(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    name = logs_in(ours.directory)[1].with_suffix(".txnindex").name
    on_both(both, name, bytes(15), recovery_point=SEGMENTS * BATCHES)

    kafka_recovers(log_oracle, theirs, NOW_MS)
    plan = we_recover(ours, NOW_MS)

    assert (theirs.directory / name).stat().st_size == 15
    assert (ours.directory / name).stat().st_size == 0
    assert [finding.file for finding in plan.findings] == [name]
    opens_as_stopped(log_oracle, ours, plan, NOW_MS)


def test_a_log_without_the_end_that_its_index_names_is_reported_only_here(
    log_oracle: LogOracle, both: tuple[Case, Case]
) -> None:
    theirs, ours = both
    for case in both:
        log = logs_in(case.directory)[-1]
        log.write_bytes(log.read_bytes()[: batch_positions(log.read_bytes())[2]])
    damaged = copied(ours, ours.directory.parent / "damaged")

    kafka = kafka_recovers(log_oracle, theirs, NOW_MS)
    plan = we_recover(ours, NOW_MS)

    assert not differences(damaged, ours.directory, theirs.directory, kafka)
    assert plan.log_end_offset == kafka.marks["logEnd"] == (SEGMENTS - 1) * BATCHES + 2
    assert [finding.kind for finding in plan.findings] == [FindingKind.MISSING_RECORDS]


@pytest.mark.parametrize("is_being_deleted", [False, True])
def test_a_missing_log_is_reported_only_here(
    log_oracle: LogOracle, both: tuple[Case, Case], is_being_deleted: bool
) -> None:
    theirs, ours = both
    for case in both:
        log = logs_in(case.directory)[1]
        if is_being_deleted:
            log.rename(log.with_name(log.name + ".deleted"))
        else:
            log.unlink()
    damaged = copied(ours, ours.directory.parent / "damaged")

    kafka = kafka_recovers(log_oracle, theirs, NOW_MS)
    plan = we_recover(ours, NOW_MS)

    assert not differences(damaged, ours.directory, theirs.directory, kafka)
    missing = [found.file for found in plan.findings if found.kind is FindingKind.MISSING_RECORDS]
    assert missing == ([] if is_being_deleted else [f"{BATCHES:020d}.log"])


def test_a_kafka_that_is_killed_after_a_truncation_leaves_an_index_that_names_the_truncated_records(
    log_oracle: LogOracle, tmp_path: Path
) -> None:
    """So the finding of missing records says that a truncation may explain it."""
    directory = tmp_path / "case" / "t-0"
    directory.mkdir(parents=True)
    config = {"index.interval.bytes": "0", "segment.index.bytes": str(PADDED)}
    log_oracle.ask("open", dir=str(directory), config=config, clean=True, logStart=0, recoveryPoint=0)
    for number in range(BATCHES):
        given = {"leaderEpoch": 0, "origin": "CLIENT", "transactionVersion": -1}
        log_oracle.ask("appendLeader", hex=batch(number).hex(), **given)
    log_oracle.ask("truncateTo", offset=2)
    running = Case(directory=directory, config=config, recovery_point=0, log_start_offset=0)
    killed = copied(running, tmp_path / "killed")
    log_oracle.ask("close")

    plan = we_recover(killed, NOW_MS)

    assert plan.log_end_offset == 2
    (finding,) = plan.findings
    assert finding.words == "Its index shows that it had records up to offset 4; it ends at offset 2."
    assert "truncated" in finding.consequence
