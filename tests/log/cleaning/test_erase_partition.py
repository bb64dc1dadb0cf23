"""The files of a partition that records are erased from: segments, files that wait, directories set aside."""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptRecordError, NeedsRecoveryError
from stratalog.files.names import DirectoryState
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning.erase import What
from stratalog.records.build import Record, build_batch
from tests.log.cleaning.dirty import NOW, Dirty
from tests.log.cleaning.erasing import OPTIONS, erase, transactions
from tests.log.model import DIRECTORY
from tests.manager.sweeping import committed


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


def simulated(dirty: Dirty) -> SimulatedDisk:
    assert isinstance(dirty.machine.disk, SimulatedDisk)
    return dirty.machine.disk
