"""Which records of a batch go, and that the others stay where they were."""

from __future__ import annotations

import pytest

from stratalog.config import LogConfig
from stratalog.files.names import DirectoryState
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning.erase import Found
from stratalog.log.cleaning.erase_filter import erase_runs
from stratalog.log.cleaning.erase_partition import PartitionFiles
from stratalog.log.cleaning.erase_selection import Matcher, Selection
from stratalog.records.compression import Codec
from stratalog.records.reader import read_batches
from tests.fixtures.catalog import Partition, partitions
from tests.log.cleaning.dirty import NOW, Dirty, records_of
from tests.log.cleaning.erasing import erase, erased, headers_of, transactions
from tests.log.cleaning.test_runs import MIB, alive, records
from tests.log.model import DIRECTORY

OLD = [partition for partition in partitions("2.8.2", "clean") if partition.name.startswith(("v0-", "v1-"))]


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


def test_nothing_reads_the_file_on_after_an_error_of_whoever_writes_what_stays() -> None:
    file, _ = records(5, (Codec.NONE,), 8 * MIB)
    runs = erase_runs(file, Matcher(Selection(keys=frozenset([b"a"]))))

    def write(_: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full") as caught, runs as erased_runs:
        write(next(erased_runs))

    assert caught.value.__traceback__ is not None  # its frames still have the runs
    assert not alive()
