"""The virtual directory of every half-finished state, which a power cut on the way to it does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import UnusableSegmentError
from stratalog.files.disk import Disk
from stratalog.files.entries import file_id
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.recovery.facts import FindingKind
from stratalog.log.recovery.inventory import Inventory, take_inventory
from stratalog.log.recovery.steps import Delete, Step, apply_steps
from tests import naive

DIRECTORY = "/logs/t-0"


def batch(offset: int) -> bytes:
    return naive.encode_batch([naive.Record(offset, 1_700_000_000_000 + offset, b"k", b"v")])


def log(*offsets: int) -> bytes:
    return b"".join(batch(offset) for offset in offsets)


# The scenarios that were observed with Kafka 4.3.1: segments 0, 5 and 10, of which C is to replace 0 and 5.
ORIGINALS = {
    "00000000000000000000.log": log(0, 1, 2, 3, 4),
    "00000000000000000000.index": b"",
    "00000000000000000000.timeindex": bytes(11) + b"0",
    "00000000000000000005.log": log(5, 6, 7, 8, 9),
    "00000000000000000005.index": b"",
    "00000000000000000005.timeindex": bytes(11) + b"5",
    "00000000000000000005.snapshot": b"five",
    "00000000000000000010.log": log(10, 11, 12),
    "00000000000000000010.index": b"",
    "00000000000000000010.timeindex": bytes(11) + b"a",
    "00000000000000000010.snapshot": b"ten",
    "00000000000000000013.snapshot": b"thirteen",
    "leader-epoch-checkpoint": b"0\n0\n",
    "partition.metadata": b"version: 0\n",
}
C = {
    "00000000000000000000.log": log(1, 3, 5, 7, 9),
    "00000000000000000000.index": b"",
    "00000000000000000000.timeindex": bytes(11) + b"C",
}
COMPACTED = {
    **C,
    **{
        name: data
        for name, data in ORIGINALS.items()
        if not name.startswith(f"{0:020d}") and "05." not in name
    },
}


def without(files: dict[str, bytes], *beginnings: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.startswith(beginnings)}


def marked(files: dict[str, bytes], suffix: str, *endings: str) -> dict[str, bytes]:
    """The files with one of the endings (all of them without any), under that suffix."""
    return {name + suffix: data for name, data in files.items() if not endings or name.endswith(endings)}


ZERO, FIVE, TEN = (f"{offset:020d}" for offset in (0, 5, 10))
SPLIT = {f"{0:020d}.log": log(0, 1), f"{3:020d}.log": log(3, 4), f"{5:020d}.log": log(5, 6, 7, 8, 9)}

STATES: dict[str, tuple[dict[str, bytes], dict[str, bytes]]] = {
    "nothing is half-finished": (ORIGINALS, ORIGINALS),
    "cleaned": ({**ORIGINALS, **marked(C, ".cleaned")}, ORIGINALS),
    "the log is swap, its indexes are cleaned": (
        {**ORIGINALS, **marked(C, ".swap", ".log"), **marked(C, ".cleaned", "index")},
        ORIGINALS,
    ),
    "log and index are swap, the time index is cleaned": (
        {**ORIGINALS, **marked(C, ".swap", ".log", ".index"), **marked(C, ".cleaned", ".timeindex")},
        ORIGINALS,
    ),
    "all is swap": ({**ORIGINALS, **marked(C, ".swap")}, COMPACTED),
    "swap, and the first original is deleted": (
        {**without(ORIGINALS, ZERO), **marked(C, ".swap"), **marked({ZERO + ".log": b"old"}, ".deleted")},
        COMPACTED,
    ),
    "swap, and both originals are deleted": (
        {**without(ORIGINALS, ZERO, FIVE), **marked(C, ".swap"), FIVE + ".snapshot.deleted": b"five"},
        COMPACTED,
    ),
    "the log has its name, its indexes are swap": (
        {
            **without(ORIGINALS, ZERO, FIVE),
            **{ZERO + ".log": C[ZERO + ".log"]},
            **marked(C, ".swap", "index"),
            FIVE + ".log.deleted": b"old",
        },
        COMPACTED,
    ),
    "only the log is swap, without indexes": (
        {**ORIGINALS, **marked(C, ".swap", ".log")},
        without(COMPACTED, ZERO + ".index", ZERO + ".timeindex"),
    ),
    "an index swap takes the place of an older index": (
        {**ORIGINALS, ZERO + ".index.swap": b"newindex"},
        {**ORIGINALS, ZERO + ".index": b"newindex"},
    ),
    "a split, of which the highest is swap and the others are cleaned": (
        {
            **ORIGINALS,
            **marked(SPLIT, ".swap", FIVE + ".log"),
            **marked(SPLIT, ".cleaned", ZERO + ".log", f"{3:020d}.log"),
        },
        ORIGINALS,
    ),
    "a split, all swap": (
        {**ORIGINALS, **marked(SPLIT, ".swap")},
        {**without(ORIGINALS, ZERO, FIVE), **SPLIT},
    ),
    "a split, the first has its name": (
        {
            **without(ORIGINALS, ZERO, FIVE),
            **marked(SPLIT, ".swap", f"{3:020d}.log", FIVE + ".log"),
            ZERO + ".log": SPLIT[ZERO + ".log"],
        },
        {**without(ORIGINALS, ZERO, FIVE), **SPLIT},
    ),
    "a swap below what is cleaned is whole": (
        {**ORIGINALS, **marked(C, ".swap"), TEN + ".log.cleaned": b"half", TEN + ".index.cleaned": b""},
        COMPACTED,
    ),
    "an empty swapped segment takes the place of its original alone": (
        {**ORIGINALS, FIVE + ".log.swap": b""},
        {**ORIGINALS, FIVE + ".log": b""},
    ),
    "a log is missing": (
        without(ORIGINALS, FIVE + ".log"),
        without(ORIGINALS, FIVE + ".index", FIVE + ".timeindex", FIVE + ".log"),
    ),
    "an index swap without a log": (
        {**ORIGINALS, f"{7:020d}.index.swap": b"", f"{7:020d}.txnindex": b""},
        ORIGINALS,
    ),
    "everything at once": (
        {
            **ORIGINALS,
            **marked(SPLIT, ".swap"),
            **marked({f"{20:020d}.log": log(20), f"{21:020d}.index": b""}, ".cleaned"),
            f"{21:020d}.log.swap": log(21),
            f"{22:020d}.index.swap": b"",
            f"{30:020d}.timeindex": b"",
            f"{0:020d}.snapshot.deleted": b"",
            f"{10:020d}.index.tmp": b"half",
        },
        {**without(ORIGINALS, ZERO, FIVE), **SPLIT},
    ),
}


def disk_of(files: dict[str, bytes]) -> SimulatedDisk:
    disk = SimulatedDisk.of({f"{DIRECTORY}/{name}": data for name, data in files.items()})
    disk.make_directories(DIRECTORY)
    return disk


def virtual(disk: SimulatedDisk) -> dict[str, bytes]:
    """The virtual directory, with bytes."""
    inventory = take_inventory(disk, DIRECTORY)
    found = {}
    for segment in inventory.segments:
        for kind in ("log", "index", "time_index", "txn_index"):
            fact = getattr(segment, kind)
            if fact is not None:
                found[f"{segment.base_offset:020d}.{kind.replace('_', '')}"] = fact
    found |= {f"{offset:020d}.snapshot": fact for offset, fact in inventory.snapshots.items()}
    named = {"leader-epoch-checkpoint": inventory.epoch_file, "partition.metadata": inventory.metadata_file}
    found |= {name: fact for name, fact in named.items() if fact is not None}
    contents = disk.contents()
    return {name: contents[f"{DIRECTORY}/{fact.name}"] for name, fact in found.items()}


def apply(disk: SimulatedDisk, inventory: Inventory | None = None) -> None:
    apply_steps(disk, DIRECTORY, (inventory or take_inventory(disk, DIRECTORY)).steps, None)


@pytest.mark.parametrize("state", STATES)
def test_each_half_finished_state_is_seen_as_finished(state: str) -> None:
    before, after = STATES[state]
    disk = disk_of(before)

    assert virtual(disk) == after
    assert disk.contents() == disk_of(before).contents()  # nothing is changed by looking


@pytest.mark.parametrize("state", STATES)
def test_the_steps_make_the_virtual_directory_real(state: str) -> None:
    before, after = STATES[state]
    disk = disk_of(before)

    apply(disk)

    assert {Path(path).name: data for path, data in disk.contents().items()} == after
    assert take_inventory(disk, DIRECTORY).steps == ()


@pytest.mark.parametrize("state", STATES)
def test_a_power_cut_at_any_step_leads_to_the_same_directory(state: str) -> None:
    before, after = STATES[state]
    whole = disk_of(before)
    apply(whole)
    for step in range(1, whole.steps + 1):
        disk = disk_of(before)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            apply(disk)
        for found in disk.crash():
            assert virtual(found) == after, step
            apply(found)
            assert {Path(path).name: data for path, data in found.contents().items()} == after


def test_where_a_swap_ends_is_found_from_its_index_or_without_it() -> None:
    many = log(*range(1, 200, 2))
    last = len(batch(1)) * 99
    for index in ((199).to_bytes(4, "big") + last.to_bytes(4, "big"), bytes(8), b"odd", b"\xff" * 8):
        files = {f"{0:020d}.log.swap": many, f"{0:020d}.index.swap": index, f"{199:020d}.snapshot": b"in"}
        assert f"{199:020d}.snapshot" not in virtual(disk_of(files))
        assert f"{200:020d}.snapshot" in virtual(disk_of({**files, f"{200:020d}.snapshot": b"behind"}))


def test_a_damaged_swap_reaches_as_far_as_it_can_be_read() -> None:
    damaged = log(0, 1, 2) + b"\xff" * 100
    snapshots = {f"{2:020d}.snapshot": b"in", f"{3:020d}.snapshot": b"behind"}

    found = virtual(disk_of({f"{0:020d}.log.swap": damaged, **snapshots}))
    assert found == {f"{0:020d}.log": damaged, f"{3:020d}.snapshot": b"behind"}


def test_what_was_found_is_told() -> None:
    before, _ = STATES["everything at once"]

    kinds = {finding.kind for finding in take_inventory(disk_of(before), DIRECTORY).findings}
    assert kinds == {FindingKind.LEFTOVER, FindingKind.UNFINISHED_SWAP, FindingKind.ORPHAN_INDEX}


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "backup.log",
        "5.log",
        "-0000000000000000005.log",
        "quorum-state",
        "00000000000000000005-0000000001.checkpoint",
        "00000000000000000005-0000000001.checkpoint.deleted",
        "backup.swap",
        "x.cleaned",
    ],
)
def test_foreign_names_are_left_alone(name: str) -> None:
    inventory = take_inventory(disk_of({**ORIGINALS, name: b"?"}), DIRECTORY)

    assert inventory.others == (name,)
    assert inventory.steps == ()
    assert [segment.base_offset for segment in inventory.segments] == [0, 5, 10]


def test_a_name_that_a_broker_trips_over_is_told() -> None:
    for name in ("backup.log", "5.log"):
        (finding,) = take_inventory(disk_of({**ORIGINALS, name: b"?"}), DIRECTORY).findings
        assert (finding.kind, finding.file) == (FindingKind.FOREIGN_FILE, name)


def test_an_empty_directory_has_nothing_in_it() -> None:
    inventory = take_inventory(disk_of({}), DIRECTORY)

    assert (inventory.segments, inventory.snapshots, inventory.steps) == ((), {}, ())


def test_links_and_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(log(0))
    (tmp_path / f"{7:020d}.log").mkdir()
    (tmp_path / f"{7:020d}.index").write_bytes(b"")
    (tmp_path / f"{9:020d}.snapshot").symlink_to(tmp_path / f"{0:020d}.log")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")

    inventory = take_inventory(Disk(), tmp_path)
    assert [segment.base_offset for segment in inventory.segments] == [0]
    assert inventory.steps == ()
    assert inventory.snapshots == {}


def test_a_linked_log_keeps_its_partition_from_being_touched(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(log(0))
    (tmp_path / f"{0:020d}.log").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UnusableSegmentError, match="symbolic link"):
        take_inventory(Disk(), tmp_path)


def test_a_log_larger_than_any_broker_loads_is_refused(tmp_path: Path) -> None:
    Disk().create(tmp_path / f"{0:020d}.log", (1 << 31) - 1)
    assert len(take_inventory(Disk(), tmp_path).segments) == 1
    Disk().truncate(tmp_path / f"{0:020d}.log", 1 << 31)

    with pytest.raises(UnusableSegmentError, match="2147483648 bytes"):
        take_inventory(Disk(), tmp_path)


def test_the_facts_are_the_systems(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log.swap"
    path.write_bytes(log(0))
    status = path.stat()

    (segment,) = take_inventory(Disk(), tmp_path).segments
    assert segment.log == (path.name, status.st_size, file_id(status), status.st_mtime_ns // 1_000_000)
    assert segment.log_name == f"{0:020d}.log"


def test_an_epoch_file_that_was_being_replaced_is_a_leftover() -> None:
    # Kafka rewrites the file at each start, over what is left from before.
    inventory = take_inventory(disk_of({**ORIGINALS, "leader-epoch-checkpoint.tmp": b"0\n"}), DIRECTORY)

    (finding,) = inventory.findings
    assert (finding.kind, finding.file) == (FindingKind.LEFTOVER, "leader-epoch-checkpoint.tmp")


def lost(files: dict[str, bytes], log_start_offset: int = 0) -> list[tuple[str, str]]:
    found = take_inventory(disk_of(files), DIRECTORY).all_findings(log_start_offset)
    return [
        (finding.file[17:], finding.words) for finding in found if finding.kind is FindingKind.MISSING_RECORDS
    ]


def words(which: str) -> str:
    return f"The file is missing, and with it the records {which}."


def test_a_missing_log_was_told_only_as_an_index_without_its_log() -> None:
    assert lost(ORIGINALS) == []
    assert lost(without(ORIGINALS, FIVE + ".log")) == [("005.log", words("of the offsets 5 to 9"))]
    assert lost(without(ORIGINALS, TEN + ".log")) == [("010.log", words("from offset 10 on"))]
    assert lost(without(ORIGINALS, FIVE + ".log", ZERO + ".log")) == [
        ("000.log", words("of the offsets 0 to 4")),
        ("005.log", words("of the offsets 5 to 9")),
    ]


@pytest.mark.parametrize("log_start_offset", [4, 5])
def test_a_missing_log_below_the_start_of_the_log_is_no_loss(log_start_offset: int) -> None:
    found = lost(without(ORIGINALS, ZERO + ".log"), log_start_offset)

    assert bool(found) is (log_start_offset < 5)


def test_a_log_that_a_broker_was_about_to_delete_is_not_missing() -> None:
    """It dies after it has renamed the log, and before it renames the indexes."""
    files = {**without(ORIGINALS, FIVE + ".log"), FIVE + ".log.deleted": b"old"}

    assert lost(files) == []
    names = [step.file.name for step in take_inventory(disk_of(files), DIRECTORY).steps if has_file(step)]
    assert names == [FIVE + ".index", FIVE + ".timeindex", FIVE + ".log.deleted"]


def has_file(step: Step) -> bool:
    return isinstance(step, Delete)


WITH_ORPHANS = ("a log is missing", "an index swap without a log", "everything at once")


@pytest.mark.parametrize("state", [state for state in STATES if state not in WITH_ORPHANS])
def test_what_an_interrupted_replacement_leaves_is_not_missing(state: str) -> None:
    assert lost(STATES[state][0]) == []
