"""Erasing: what is named is gone, all else is as it was, and a broker's view of the log has not changed.

What must be left comes from the list of what was appended, or from real files of old formats.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError, EraseProofError, NeedsRecoveryError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.names import DirectoryState
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning.erase import FileOfBatches, Found, Rewritten, ToErase, What
from stratalog.log.cleaning.erase_partition import PartitionFiles
from stratalog.log.cleaning.erase_proof import prove
from stratalog.log.cleaning.erase_selection import ErasedRange, Matcher, Selection, hash_of_key
from stratalog.log.log import Log
from stratalog.log.producers.rebuild import rebuild_producer_state
from stratalog.records.batch import RECORD_BATCH_OVERHEAD, BatchHeader
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from stratalog.records.reader import read_batches
from tests.fixtures.catalog import Partition, partitions
from tests.log.cleaning.dirty import NOW, Dirty, records_of
from tests.log.model import DIRECTORY
from tests.manager.sweeping import committed

OLD = [partition for partition in partitions("2.8.2", "clean") if partition.name.startswith(("v0-", "v1-"))]


def erase(
    disk: Disk,
    directory: str = DIRECTORY,
    *,
    keys: Iterable[bytes] = (),
    offsets: Iterable[ErasedRange] = (),
    state: DirectoryState = DirectoryState.LIVE,
    clock: Clock = lambda: NOW,
) -> list[tuple[ToErase, Rewritten]]:
    """Erase from one directory; what was found in each file, and what became of it."""
    files = PartitionFiles(
        disk=disk,
        directory=directory,
        state=state,
        config=LogConfig(),
        clock=clock,
        matcher=Matcher(Selection.of(keys, offsets)),
    )
    found = [each for each in files.look(files.disk, files.matcher) if isinstance(each, ToErase)]
    return [(each, each.erase(lambda _: None)) for each in found]


def erased(dirty: Dirty, *, keys: Iterable[bytes] = (), offsets: Iterable[ErasedRange] = ()) -> Log:
    """Close the log, erase from its files, and open it again."""
    dirty.log.close()
    erase(dirty.machine.disk, keys=keys, offsets=offsets)
    dirty.log = dirty.machine.open()
    return dirty.log


def headers_of(log: Log) -> list[BatchHeader]:
    return [
        batch.header
        for segment in log.segments
        for batch in read_batches(segment.reader.read_bytes(0, segment.size))
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_a_key_are_gone_and_the_others_keep_their_offsets(codec: Codec) -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (None, b"x"), codec=codec)
    dirty.put((b"b", b"2"), codec=codec)
    dirty.roll()
    dirty.put((b"c", b"1"), (b"a", b"3"), codec=codec)

    log = erased(dirty, keys=[b"a"])

    assert dirty.pairs == [(1, b"b", b"1"), (3, None, b"x"), (4, b"b", b"2"), (5, b"c", b"1")]
    first, second, third = headers_of(log)
    assert (first.codec, first.base_offset, first.last_offset) == (codec, 0, 3)
    assert (second.codec, third.codec, log.log_end_offset) == (codec, codec, 7)


def test_offsets_are_erased_whatever_their_keys() -> None:
    dirty = Dirty()
    dirty.put(*((b"%d" % number, b"v") for number in range(8)))

    erased(dirty, offsets=[(6, 6), (1, 2), (2, 3)])

    assert dirty.offsets == [0, 4, 5, 7]


def test_the_log_ends_where_it_ended_though_its_last_records_are_gone() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.roll()
    dirty.put((b"b", b"1"), (b"b", b"2"))

    log = erased(dirty, keys=[b"b"])

    assert (dirty.offsets, log.log_end_offset) == ([0], 3)
    *_, last = headers_of(log)
    assert (last.size, last.records_count, last.last_offset) == (RECORD_BATCH_OVERHEAD, 0, 2)
    dirty.put((b"c", b"1"))
    assert dirty.pairs[-1] == (3, b"c", b"1")


def test_a_batch_that_loses_nothing_is_the_same_bytes() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"), codec=Codec.ZSTD)
    dirty.put((b"b", b"1"), codec=Codec.GZIP)
    dirty.put((b"c", b"1"))
    before = dirty.log.segments.first.reader.read_bytes(0, 10_000)

    log = erased(dirty, keys=[b"b"])

    after = log.segments.first.reader.read_bytes(0, 10_000)
    (first, second, third), (same, _, also) = ([*read_batches(data)] for data in (before, after))
    assert (bytes(same.raw), bytes(also.raw)) == (bytes(first.raw), bytes(third.raw))
    assert second.facts.position == len(first.raw)


def test_a_segment_without_such_records_is_not_touched() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.roll()
    dirty.put((b"b", b"1"))
    dirty.log.close()
    before = simulated(dirty).contents()

    ((found, _),) = erase(dirty.machine.disk, keys=[b"b"])

    assert found.file == f"orders-0/{1:020d}.log"
    after = simulated(dirty).contents()
    assert {name for name in before if before[name] != after[name]} == {f"{DIRECTORY}/{1:020d}.log"}
    assert after.keys() == before.keys(), "the originals are gone, and so is all that was written beside"
    assert erase(dirty.machine.disk, keys=[b"b"]) == []


@pytest.mark.parametrize("by_snapshot", [True, False])
def test_a_producer_goes_on_with_the_sequence_it_had(by_snapshot: bool) -> None:
    dirty = Dirty()
    dirty.produce(7, (b"a", b"1"), (b"b", b"1"))
    dirty.produce(7, (b"a", b"2"), (b"a", b"3"))

    log = erased(dirty, keys=[b"a"])
    if not by_snapshot:
        log.producers.truncate_fully_and_start_at(0)
        rebuild_producer_state(
            log.producers, log.segments.readers, log_start_offset=0, end_offset=4, now_ms=NOW
        )

    last = log.producers.producers[7]
    assert (last.last_sequence, last.last_data_offset) == (3, 3)
    dirty.produce(7, (b"c", b"1"))
    assert dirty.pairs == [(1, b"b", b"1"), (4, b"c", b"1")]


def transactions() -> Dirty:
    """A transaction that is committed, one that is aborted, one that is open; over two segments."""
    dirty = Dirty()
    dirty.produce(1, (b"a", b"c1"), (b"b", b"c2"), transactional=True)
    dirty.produce(2, (b"a", b"x1"), (b"b", b"x2"), transactional=True)
    dirty.roll()
    dirty.end(1, ControlType.COMMIT)
    dirty.produce(2, (b"a", b"x3"), transactional=True)
    dirty.end(2, ControlType.ABORT)
    dirty.produce(1, (b"a", b"c3"), transactional=True)
    dirty.end(1, ControlType.COMMIT)
    dirty.produce(3, (b"a", b"o1"), transactional=True)
    dirty.put((b"b", b"p"))
    return dirty


def test_transactions_end_as_they_ended_and_open_ones_stay_open() -> None:
    dirty = transactions()
    stable = dirty.log.last_stable_offset
    aborted = [entry for segment in dirty.log.segments for entry in segment.reader.txn_index.all_aborted()]

    log = erased(dirty, keys=[b"a"])

    assert [record.value for record in committed(log)] == [b"c2"]
    assert [value for _, key, value in dirty.pairs if key in (b"a", b"b")] == [b"c2", b"x2", b"p"]
    assert log.last_stable_offset == stable == 9
    assert (
        [entry for segment in log.segments for entry in segment.reader.txn_index.all_aborted()]
        == aborted
        != []
    )
    dirty.end(3, ControlType.COMMIT)
    assert [record.value for record in committed(log)] == [b"c2", b"p"]


def test_ends_of_transactions_stay_whatever_is_named() -> None:
    dirty = transactions()
    markers = [record for record in records_of(dirty.log) if record.key not in (b"a", b"b")]

    files = PartitionFiles(
        disk=dirty.machine.disk,
        directory=DIRECTORY,
        state=DirectoryState.LIVE,
        config=LogConfig(),
        clock=lambda: NOW,
        matcher=Matcher(Selection.of([markers[0].key or b""], [(0, 100)])),
    )
    dirty.log.close()
    looked = list(files.look(files.disk, files.matcher))
    assert sum((each if isinstance(each, Found) else each.found).markers_count for each in looked) == 3
    log = erased(dirty, keys=[markers[0].key or b""], offsets=[(0, 100)])

    assert records_of(log) == markers
    assert log.log_end_offset == 11


def test_time_leads_to_what_is_left() -> None:
    dirty = Dirty()
    for number in range(4):
        dirty.put((b"%d" % number, b"v"), timestamp=NOW + number)

    log = erased(dirty, keys=[b"2"])

    found = log.first_not_before(NOW + 2)
    assert found is not None
    assert found.offset == 3


@pytest.mark.parametrize("partition", OLD, ids=lambda partition: partition.name)
def test_old_formats_lose_records_too_and_keep_their_offsets(partition: Partition) -> None:
    files = {f"/t-0/{path.name}": path.read_bytes() for path in partition.path.iterdir() if path.is_file()}
    logs = [name for name in sorted(files) if name.endswith(".log")]
    there = [record for name in logs for batch in read_batches(files[name]) for record in batch]
    gone = {there[0].offset, there[len(there) // 2].offset, there[-1].offset}
    disk = SimulatedDisk.of(files, lambda: NOW)

    erase(disk, "/t-0", offsets=[(offset, offset) for offset in gone])

    after = [batch for name in logs for batch in read_batches(disk.contents()[name])]
    left = [record for batch in after for record in batch]
    assert left == [record for record in there if record.offset not in gone]
    assert after[-1].facts.last_offset == there[-1].offset
    before = [bytes(batch.raw) for name in logs for batch in read_batches(files[name])]
    assert [bytes(batch.raw) in before for batch in after].count(False) <= len(gone)


def test_files_that_wait_for_their_deletion_go_if_they_hold_such_a_record() -> None:
    data = {number: build_batch([Record(number, NOW, b"%d" % number, b"v")], OPTIONS) for number in range(3)}
    files = {f"/t-0/{number:020d}.log.deleted": data[number] for number in range(3)}
    files |= {f"/t-0/{number:020d}.index.deleted": b"" for number in range(3)}
    files[f"/t-0/{2:020d}.log.deleted"] = data[2][:-1]  # torn: what was in it cannot be known
    disk = SimulatedDisk.of(files)

    done = erase(disk, "/t-0", keys=[b"1"])

    assert [(each.what, each.is_gone) for each, _ in done] == [(What.DELETED, True)] * 2
    assert set(disk.contents()) == {f"/t-0/{0:020d}.log.deleted", f"/t-0/{0:020d}.index.deleted"}


def test_a_directory_that_was_set_aside_is_rewritten_too() -> None:
    dirty = transactions()
    dirty.log.close()
    disk = simulated(dirty)

    done = erase(disk, keys=[b"a"], state=DirectoryState.STRAY)

    assert {each.what for each, _ in done} == {What.STRAY}
    dirty.log = dirty.machine.open()
    assert [record.value for record in committed(dirty.log)] == [b"c2"]
    assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in disk.contents())


def test_in_a_directory_that_is_to_be_deleted_the_segment_goes() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.roll()
    dirty.put((b"b", b"1"))
    dirty.log.close()

    erase(dirty.machine.disk, keys=[b"a"], state=DirectoryState.DELETE)

    assert dirty.machine.files(".log") == [f"{1:020d}.log"]


def test_a_log_that_cannot_be_read_is_left_as_it_is() -> None:
    disk = SimulatedDisk.of({f"/t-0/{0:020d}.log": build_batch([Record(0, NOW, b"a", b"v")], OPTIONS)[:-3]})
    before = disk.contents()

    with pytest.raises(CorruptRecordError):
        erase(disk, "/t-0", keys=[b"a"])

    assert disk.contents() == before


def test_a_swap_that_was_cut_short_is_left_to_recovery() -> None:
    disk = SimulatedDisk.of({f"/t-0/{0:020d}.log.swap": b""})

    with pytest.raises(NeedsRecoveryError):
        erase(disk, "/t-0", keys=[b"a"])


OPTIONS = BatchOptions(partition_leader_epoch=0)
FIRST, GONE, LAST = Record(0, NOW, b"b", b"1"), Record(1, NOW, b"a", b"1"), Record(2, NOW, b"d", b"1")
SECOND = Record(3, NOW, b"c", b"1")


def batches(*groups: list[Record]) -> bytes:
    return b"".join(build_batch(group, OPTIONS) for group in groups)


BEFORE = batches([FIRST, GONE, LAST], [SECOND])


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (BEFORE, "different records"),
        (batches([FIRST, LAST._replace(value=b"2")], [SECOND]), "different records"),
        (batches([FIRST, LAST], [SECOND._replace(value=b"2")]), "has changed"),
        (batches([FIRST, LAST]), "has changed"),
        (batches([FIRST, LAST], [SECOND]) + b"\0" * 9, "end at byte"),
        (b"", "number of batches"),
    ],
)
def test_what_is_not_what_should_be_left_is_refused(after: bytes, words: str) -> None:
    disk = SimulatedDisk.of({"/before": BEFORE, "/after": after})

    with pytest.raises(EraseProofError, match=words):
        prove(
            FileOfBatches(disk, "/before"),
            FileOfBatches(disk, "/after"),
            Selection.of([b"a"]),
            np.array([0]),
        )


def test_what_was_removed_is_told_with_keys_as_hashes() -> None:
    disk = SimulatedDisk.of({f"/t-0/{0:020d}.log": BEFORE})

    ((_, done),) = erase(disk, "/t-0", keys=[b"a", b"nobody"], offsets=[(3, 3)])

    assert (done.removed.records_count, done.removed.first_offset, done.removed.last_offset) == (2, 1, 3)
    assert done.removed.key_hashes == {hash_of_key(b"a"), hash_of_key(b"c")}


@pytest.mark.parametrize("ranges", [[(5, 4)], [(-1, 3)], []])
def test_a_selection_of_nothing_is_wrong_usage(ranges: list[ErasedRange]) -> None:
    with pytest.raises(UsageError):
        Selection.of((), ranges)


@pytest.mark.parametrize("seed", range(12))
def test_any_history_loses_what_was_named_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    dirty = Dirty(index_interval_bytes=100)
    appended: list[tuple[int, bytes | None, bytes | None]] = []
    for number in range(60):
        keyed = [None, b"", *(b"%d" % key for key in range(9))]
        pairs = [
            (chance.choice(keyed), b"%d-%d" % (number, chance.randrange(999)))
            for _ in range(chance.randrange(1, 6))
        ]
        if chance.random() < 0.4:
            first = dirty.produce(chance.randrange(3), *pairs)
        else:
            first = dirty.put(*pairs, codec=chance.choice(list(Codec)))
        appended += [(first + i, key, value) for i, (key, value) in enumerate(pairs)]
        if chance.random() < 0.2:
            dirty.roll()
    keys = {b"%d" % chance.randrange(9), chance.choice([b"", b"none"])}
    low = chance.randrange(100)
    end = dirty.log.log_end_offset

    log = erased(dirty, keys=keys, offsets=[(low, low + 7)])

    left = [each for each in appended if each[1] not in keys and not low <= each[0] <= low + 7]
    assert dirty.pairs == left
    assert log.log_end_offset == end
    assert len(headers_of(log)) == 60


def simulated(dirty: Dirty) -> SimulatedDisk:
    assert isinstance(dirty.machine.disk, SimulatedDisk)
    return dirty.machine.disk
