"""Opening a log that was closed cleanly, and naming what is in the way where it was not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import CorruptRecordError, InvalidNameError, NeedsRecoveryError
from stratalog.files.entries import Path
from stratalog.files.names import FileKind, FileState, TopicPartition, parse_segment_file
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.loader import list_partition, load
from stratalog.log.log import Log
from tests.fixtures.catalog import Partition, partitions
from tests.log.model import Machine, batch, produced, read_all

INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
CLEAN = [p for p in partitions(state="clean") if not p.name.startswith("__cluster_metadata")]


def filled(machine: Machine) -> Log:
    log = machine.open()
    for number in range(9):
        log.append_as_leader(produced(1, number, b"%d" % number), leader_epoch=number // 4)
    return log


@pytest.fixture
def machine() -> Machine:
    return Machine(internal_segment_bytes=3 * len(produced(1, 0, b"0")), index_interval_bytes=1)


def contents(machine: Machine) -> dict[str, bytes]:
    assert isinstance(machine.disk, SimulatedDisk)
    return machine.disk.contents()


def test_everything_is_there_again(machine: Machine) -> None:
    log = filled(machine)
    expected = (read_all(log), log.metrics(), log.epochs.entries, log.segments.base_offsets)

    log = machine.reopen(log)

    assert (read_all(log), log.metrics(), log.epochs.entries, log.segments.base_offsets) == expected
    assert (log.recovery_point, log.high_watermark) == (9, 9)


def test_opening_and_closing_changes_no_file(machine: Machine) -> None:
    log = filled(machine)
    log.close()
    before = contents(machine)

    machine.open().close()

    assert contents(machine) == before


def test_the_files_of_a_closed_log_are_cut_to_what_is_in_them(machine: Machine) -> None:
    filled(machine).close()

    sizes = {path.rpartition("/")[2]: len(data) for path, data in contents(machine).items()}
    assert [sizes[f"{base:020d}.index"] for base in (0, 3, 6)] == [16, 16, 16]
    assert f"{9:020d}.snapshot" in sizes


def test_a_log_may_end_before_its_start_and_begins_anew_there() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a", b"b", b"c"), leader_epoch=0)
    log.truncate_to(2)
    log.delete_records(2)

    log = machine.reopen(log)

    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (2, 2, (2,))
    assert log.epochs.entries == ()
    assert log.append_as_leader(batch(b"d"), leader_epoch=1).first_offset == 2


def test_files_that_waited_to_be_deleted_are_deleted(machine: Machine) -> None:
    log = filled(machine)
    log.truncate_to(1)
    assert machine.files(".deleted") != []

    machine.reopen(log)

    assert machine.files(".deleted") == []


def test_snapshots_past_the_end_go() -> None:
    machine = Machine()
    filled(machine).close()
    for offset in (20, 30):
        machine.disk.create(f"{machine.directory}/{offset:020d}.snapshot")

    machine.open()

    assert machine.files(".snapshot") == [f"{9:020d}.snapshot"]


def test_snapshots_without_a_segment_go_but_for_the_newest(machine: Machine) -> None:
    log = filled(machine)
    log.close()
    data = machine.disk.read_at(f"{machine.directory}/{6:020d}.snapshot", 1000, 0)
    for offset in (4, 5, 7):
        path = f"{machine.directory}/{offset:020d}.snapshot"
        machine.disk.create(path)
        machine.disk.write_at(path, data, 0)

    log = machine.open()

    assert machine.files(".snapshot") == [f"{base:020d}.snapshot" for base in (3, 6, 9)]


def test_a_log_from_before_snapshots_gets_empty_ones_and_nothing_is_replayed(machine: Machine) -> None:
    filled(machine).close()
    for name in machine.files(".snapshot"):
        machine.disk.delete(f"{machine.directory}/{name}")

    log = machine.open()

    assert machine.files(".snapshot") == [f"{base:020d}.snapshot" for base in (3, 6, 9)]
    assert log.producers.is_empty


def test_an_index_without_its_log_is_named(machine: Machine) -> None:
    filled(machine).close()
    machine.disk.delete(f"{machine.directory}/{3:020d}.log")

    with pytest.raises(NeedsRecoveryError, match=r"00000000000000000003.index is an index without its log"):
        machine.open()


def test_a_log_without_its_index_is_named(machine: Machine) -> None:
    filled(machine).close()
    machine.disk.delete(f"{machine.directory}/{3:020d}.index")

    with pytest.raises(NeedsRecoveryError, match=r"00000000000000000003.log has no offset index"):
        machine.open()


@pytest.mark.parametrize("suffix", [".cleaned", ".swap"])
def test_a_clean_up_that_was_cut_short_is_named(machine: Machine, suffix: str) -> None:
    filled(machine).close()
    machine.disk.create(f"{machine.directory}/{3:020d}.log{suffix}")
    before = contents(machine)

    with pytest.raises(NeedsRecoveryError, match=suffix):
        machine.open()

    assert contents(machine) == before


def test_an_index_that_points_behind_its_log_is_named(machine: Machine) -> None:
    filled(machine).close()
    machine.disk.truncate(f"{machine.directory}/{6:020d}.log", 10)
    before = contents(machine)

    with pytest.raises(NeedsRecoveryError, match=r"00000000000000000006\.index"):
        machine.open()

    assert contents(machine) == before


@pytest.mark.parametrize("tail_size", [1, 17, 30, 60])
@pytest.mark.parametrize("kind", ["torn", "zeros"])
def test_bytes_behind_the_last_whole_batch_are_named(machine: Machine, tail_size: int, kind: str) -> None:
    filled(machine).close()
    path = f"{machine.directory}/{6:020d}.log"
    size = machine.disk.size(path)
    tail = machine.disk.read_at(path, tail_size, 0) if kind == "torn" else bytes(tail_size)
    machine.disk.write_at(path, tail, size)
    before = contents(machine)

    with pytest.raises(NeedsRecoveryError, match=rf"00000000000000000006\.log.* byte {size}\b"):
        machine.open()

    assert contents(machine) == before


def test_a_last_batch_that_is_none_is_named(machine: Machine) -> None:
    filled(machine).close()
    path = f"{machine.directory}/{6:020d}.log"
    last = machine.disk.size(path) * 2 // 3
    machine.disk.write_at(path, b"\x09", last + 16)
    before = contents(machine)

    with pytest.raises(NeedsRecoveryError, match=f"byte {last}: "):
        machine.open()

    assert contents(machine) == before


@pytest.mark.parametrize("partition", CLEAN, ids=str)
def test_a_partition_that_a_broker_closed_ends_where_its_checkpoint_says(partition: Partition) -> None:
    disk = SimulatedDisk.of({str(file): file.read_bytes() for file in partition.path.iterdir()})
    machine = Machine(disk, str(partition.path))
    topic, _, number = partition.name.rpartition("-")

    log = load(
        disk=disk,
        clock=machine.clock,
        scheduler=machine.scheduler,
        directory=partition.path,
        topic_partition=TopicPartition(topic, int(number)),
        config=machine.config,
        high_watermark_follows_end=True,
    )

    checkpoint = (partition.path.parent / "recovery-point-offset-checkpoint").read_text()
    assert f"\n{topic} {number} {log.log_end_offset}\n" in checkpoint
    assert [record.offset for record in read_all(log)] == [
        record["offset"] for batch in partition.batches() for record in batch["records"]
    ]


@pytest.mark.parametrize("partition", CLEAN, ids=str)
def test_a_partition_that_a_broker_closed_keeps_its_segments_byte_for_byte(partition: Partition) -> None:
    before = {str(file): file.read_bytes() for file in partition.path.iterdir()}
    disk = SimulatedDisk.of(before)
    machine = Machine(disk, str(partition.path))

    log = machine.open()
    read_all(log)
    log.close()

    kept = (".log", ".index", ".timeindex", ".txnindex")
    after = disk.contents()
    assert {p: after[p] for p in before if p.endswith(kept)} == {
        p: data for p, data in before.items() if p.endswith(kept)
    }


def listed_one_by_one(files: dict[str, int]) -> tuple[dict[int, int], dict[FileKind, set[int]], list[str]]:
    """What `list_partition` finds, name by name."""
    sizes: dict[int, int] = {}
    live: dict[FileKind, set[int]] = {kind: set() for kind in FileKind}
    others = []
    for name, size in files.items():
        file = parse_segment_file(name)
        if file is None or file.state is FileState.DELETED:
            others.append(name)
            continue
        live[file.kind].add(file.offset)
        if file.kind is FileKind.LOG:
            sizes[file.offset] = size
    return sizes, live, others


NUMBERS = st.integers(0, 99).map(lambda number: f"{number:020d}") | st.sampled_from(
    ["7", "+00000000000000000008", "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٩", f"{2**63 - 1:020d}", f"{2**63:020d}", ""]
)
NAMES = st.builds(
    "{}{}{}".format,
    NUMBERS,
    st.sampled_from([*(kind.value for kind in FileKind), ".other"]),
    st.sampled_from(["", "", ".deleted"]),
)


@given(st.dictionaries(NAMES, st.integers(0, 3)))
def test_names_are_sorted_all_at_once_as_one_by_one(files: dict[str, int]) -> None:
    try:
        sizes, live, others = listed_one_by_one(files)
    except InvalidNameError:
        with pytest.raises((InvalidNameError, NeedsRecoveryError)):
            list_partition(files, "orders-0")
        return
    bases = sizes.keys()
    without = {base for base, size in sizes.items() if size} - live[FileKind.OFFSET_INDEX]
    if without or any(live[kind] - bases for kind in INDEXES):
        with pytest.raises(NeedsRecoveryError):
            list_partition(files, "orders-0")
        return

    found = list_partition(files, "orders-0")

    assert (found.sizes, sorted(found.others)) == (sizes, sorted(others))
    assert found.indexes == {kind: live[kind] for kind in INDEXES}
    assert found.snapshots == sorted(live[FileKind.PRODUCER_SNAPSHOT])


def test_a_log_with_a_segment_that_no_broker_opens_is_refused_before_it_is_read(machine: Machine) -> None:
    machine.reopen(filled(machine)).close()
    name = f"{machine.directory}/{0:020d}.log"

    class Large(SimulatedDisk):
        def list_sizes(self, path: Path, suffix: str) -> dict[str, int]:
            found = super().list_sizes(path, suffix)
            return {**found, name.rpartition("/")[2]: 1 << 31}

    with pytest.raises(CorruptRecordError, match="2147483648 bytes"):
        Machine(Large.of(contents(machine)), machine.directory).open()


def test_an_epoch_file_that_is_as_it_must_be_is_not_written_at_a_start(machine: Machine) -> None:
    log = filled(machine)
    log.close()
    assert isinstance(machine.disk, SimulatedDisk)
    written: list[str] = []
    machine.disk.before_step = lambda action, path: written.append(f"{action} {path}")

    machine.open()

    assert not [step for step in written if "leader-epoch-checkpoint.tmp" in step]
