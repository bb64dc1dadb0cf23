"""What is erased goes from quarantine too: rewritten where it can be read, removed where it cannot."""

from __future__ import annotations

from stratalog.files.names import QUARANTINE_PREFIX
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning.erase_quarantine import find_kept
from stratalog.log.cleaning.erase_selection import Matcher, Selection
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.zero_runs import ZERO_BLOCK_SIZE
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.reader import read_batches
from tests.log.model import NOW

NAME = f"{10:020d}.log"
LOG = f"/data/t-0/{NAME}"
RECORDS = [Record(10 + number, NOW, b"%d" % (number % 3), b"value %d" % number) for number in range(6)]
DATA = build_batch(RECORDS[:4], BatchOptions(codec=Codec.GZIP)) + build_batch(RECORDS[4:], BatchOptions())


def kept(data: bytes, *, partition: str = "t-0", file: str = NAME) -> SimulatedDisk:
    """A disk on which this is all that is left of a log: in quarantine, cut off from its first byte on."""
    disk = SimulatedDisk.of({LOG: data})
    place(disk).keep_range(LOG, partition=partition, file=file, position=0, size=len(data), reason="cut")
    disk.delete(LOG)
    return disk


def place(disk: SimulatedDisk) -> Quarantine:
    return Quarantine(disk, "/data", clock=lambda: NOW)


def erase(disk: SimulatedDisk, selection: Selection) -> list[bool]:
    """Erase it; of each thing that was found, whether it went as a whole."""
    matcher = Matcher(selection)
    found = list(find_kept(disk, place(disk), "t-0", matcher, reader=disk, searching=matcher))
    for each in found:
        each.erase(lambda _: None)
    return [each.is_gone for each in found]


def left(disk: SimulatedDisk) -> list[Record]:
    records: list[Record] = []
    for entry in place(disk).entries():
        disk.delete("/restored")
        place(disk).restore(entry, "/restored")
        for batch in read_batches(disk.contents()["/restored"]):
            records += batch
    return records


def test_what_can_be_read_keeps_its_other_records() -> None:
    disk = kept(DATA)

    assert erase(disk, Selection.of([b"0"])) == [False]

    assert left(disk) == [record for record in RECORDS if record.key != b"0"]
    assert len([name for name in disk.contents() if QUARANTINE_PREFIX in name]) == 1
    assert erase(disk, Selection.of([b"0"])) == []


def test_zeros_between_batches_cannot_be_read_over_so_all_of_it_goes() -> None:
    disk = kept(DATA[:200] + b"\0" * 2 * ZERO_BLOCK_SIZE + DATA)

    assert erase(disk, Selection.of([b"0"])) == [True]

    assert left(disk) == []
    assert [entry.size for entry in place(disk).entries()] == [0]
    assert erase(disk, Selection.of([b"0"])) == []


def test_damage_at_offsets_that_nobody_named_is_kept() -> None:
    disk = kept(DATA[:-1])
    before = disk.contents()

    assert erase(disk, Selection.of((), [(0, 9)])) == []

    assert disk.contents() == before


def test_another_partition_and_files_without_records_are_left_alone() -> None:
    for disk in (kept(DATA, partition="t-1"), kept(DATA, file=f"{10:020d}.index")):
        before = disk.contents()

        assert erase(disk, Selection.of([b"0"])) == []

        assert disk.contents() == before


def test_a_copy_that_a_killed_run_has_left_goes_if_it_holds_such_a_record() -> None:
    held, free = f"/data/{QUARANTINE_PREFIX}t-0-{NAME}-0", f"/data/{QUARANTINE_PREFIX}t-0-{NAME}-500"
    disk = SimulatedDisk.of({held: DATA, free: build_batch([Record(99, NOW, b"9", b"v")], BatchOptions())})

    assert erase(disk, Selection.of([b"0"])) == [True]

    assert set(disk.contents()) == {free}


def test_a_range_that_loses_all_its_records_keeps_their_batches() -> None:
    disk = kept(DATA)

    erase(disk, Selection.of((), [(10, 15)]))

    (entry,) = place(disk).entries()
    assert left(disk) == []
    assert entry.size == 2 * 61
