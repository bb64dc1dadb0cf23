"""Steps are done as planned, on the files that were planned for, and on no others."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.errors import PreconditionError, QuarantineFullError, StratalogError
from stratalog.files.disk import Disk
from stratalog.files.entries import FileStatus, file_id
from stratalog.files.entries import Path as AnyPath
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.recovery.facts import FileFact
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.steps import (
    CopyRanges,
    Delete,
    KeepFile,
    KeepRange,
    Rename,
    Step,
    Sync,
    SyncDirectory,
    Truncate,
    WriteFile,
    apply_steps,
)

ROOT, DIRECTORY = "/logs", "/logs/t-0"
LOG, NEXT, INDEX = f"{0:020d}.log", f"{5:020d}.log", f"{0:020d}.index"
BEFORE = {LOG: b"good" + b"damage!", NEXT: b"behind", INDEX: b"entries"}


class Turning:
    """A clock that goes on by one millisecond whenever it is read, so that each change has its own time."""

    def __init__(self) -> None:
        self.now = 1000

    def __call__(self) -> int:
        self.now += 1
        return self.now


def made(files: dict[str, bytes] | None = None) -> SimulatedDisk:
    files = BEFORE if files is None else files
    return SimulatedDisk.of({f"{DIRECTORY}/{name}": data for name, data in files.items()}, Turning())


def fact(disk: Disk, name: str) -> FileFact:
    status = disk.status(f"{DIRECTORY}/{name}")
    assert status is not None
    return FileFact(name, status.size, status.id, status.mtime_ms)


def run(disk: Disk, *steps: Step, keep: bool = True) -> None:
    apply_steps(disk, DIRECTORY, steps, Quarantine(disk, ROOT) if keep else None)


def files(disk: SimulatedDisk) -> dict[str, bytes]:
    prefix = f"{DIRECTORY}/"
    return {
        path.removeprefix(prefix): data for path, data in disk.contents().items() if path.startswith(prefix)
    }


def cut(disk: Disk) -> tuple[Step, ...]:
    """A plan as recovery makes it: later segments are removed first, then the damage."""
    log = fact(disk, LOG)
    return (
        KeepFile(file=fact(disk, NEXT), why="after damage"),
        KeepRange(file=log, position=4, size=7, why="damage"),
        Truncate(file=log, size=4, why="damage"),
        Sync(name=LOG),
        WriteFile(name=INDEX, data=b"new", file=fact(disk, INDEX), why="rebuilt"),
        SyncDirectory(),
    )


def test_a_plan_is_done_in_its_order() -> None:
    disk = made()

    run(disk, *cut(disk))

    assert files(disk) == {LOG: b"good", INDEX: b"new"}
    assert {data for path, data in disk.contents().items() if "quarantine-" in path} == {
        b"damage!",
        b"behind",
    }


def test_what_was_kept_is_told_by_step() -> None:
    disk = made()
    steps = cut(disk)

    kept = apply_steps(disk, DIRECTORY, steps, Quarantine(disk, ROOT))
    assert [step for step, _ in kept] == list(steps[:2])
    assert [(entry.partition, entry.file, entry.position, entry.size) for _, entry in kept] == [
        ("t-0", NEXT, 0, 6),
        ("t-0", LOG, 4, 7),
    ]


def test_without_a_quarantine_what_is_cut_is_given_up() -> None:
    disk = made()

    run(disk, *cut(disk), keep=False)
    assert disk.contents() == {f"{DIRECTORY}/{LOG}": b"good", f"{DIRECTORY}/{INDEX}": b"new"}


def test_a_file_is_followed_through_the_renames_of_the_run() -> None:
    disk = made({f"{LOG}.swap": b"good" + b"damage!", LOG: b"old"})
    swap = fact(disk, f"{LOG}.swap")

    run(
        disk,
        Rename(file=swap, to=LOG, why="whole", over=fact(disk, LOG)),
        KeepRange(file=swap, position=4, size=7, why="damage"),
        Truncate(file=swap, size=4, why="damage"),
        Sync(name=f"{LOG}.swap"),
        Truncate(file=swap, size=3, why="again"),
    )
    assert files(disk) == {LOG: b"goo"}
    (kept,) = Quarantine(disk, ROOT).entries()
    assert kept.file == LOG


def test_ranges_are_copied_with_the_time_of_their_file() -> None:
    disk = made({LOG: bytes(range(100)) * 30_000, f"{LOG}.cleaned": b"of another time"})
    data = files(disk)[LOG]

    run(
        disk,
        CopyRanges(
            file=fact(disk, LOG), to=f"{LOG}.cleaned", ranges=((5, 10), (1000, 2_000_000)), why="salvage"
        ),
    )
    assert files(disk)[f"{LOG}.cleaned"] == data[5:15] + data[1000:2_001_000]
    assert fact(disk, f"{LOG}.cleaned").mtime_ms == fact(disk, LOG).mtime_ms


def replaced(disk: SimulatedDisk) -> None:
    disk.replace(f"{DIRECTORY}/{LOG}", BEFORE[LOG])


def touched(disk: SimulatedDisk) -> None:
    disk.set_modified(f"{DIRECTORY}/{LOG}", 5)


def grown(disk: SimulatedDisk) -> None:
    disk.append(f"{DIRECTORY}/{LOG}", b"more")


def gone(disk: SimulatedDisk) -> None:
    disk.delete(f"{DIRECTORY}/{LOG}")


def a_directory(disk: SimulatedDisk) -> None:
    disk.delete(f"{DIRECTORY}/{LOG}")
    disk.make_directory(f"{DIRECTORY}/{LOG}")


STEPS: dict[str, Callable[[FileFact], Step]] = {
    "delete": lambda file: Delete(file=file, why=""),
    "rename": lambda file: Rename(file=file, to="new", why=""),
    "truncate": lambda file: Truncate(file=file, size=1, why=""),
    "write": lambda file: WriteFile(name=LOG, data=b"new", file=file, why=""),
    "copy": lambda file: CopyRanges(file=file, to=f"{LOG}.cleaned", ranges=((0, 4),), why=""),
    "keep range": lambda file: KeepRange(file=file, position=1, size=2, why=""),
    "keep file": lambda file: KeepFile(file=file, why=""),
}


@pytest.mark.parametrize("change", [replaced, touched, grown, gone, a_directory])
@pytest.mark.parametrize("step", STEPS)
def test_a_file_that_changed_since_the_listing_stops_the_run(
    step: str, change: Callable[[SimulatedDisk], None]
) -> None:
    disk = made()
    planned = STEPS[step](fact(disk, LOG))
    change(disk)
    before = disk.contents()
    if (step, change) == ("delete", gone):  # that is what the step was for
        run(disk, planned)
        return

    with pytest.raises(PreconditionError) as refusal:
        run(disk, planned, SyncDirectory())
    assert refusal.value.path == f"{DIRECTORY}/{LOG}"
    assert disk.contents() == before


def test_a_name_that_should_be_free_and_is_not_stops_the_run() -> None:
    disk = made()
    before = disk.contents()

    with pytest.raises(PreconditionError, match="expected no file"):
        run(disk, Rename(file=fact(disk, LOG), to=NEXT, why=""))
    with pytest.raises(PreconditionError, match="expected no file"):
        run(disk, WriteFile(name=NEXT, data=b"new", file=None, why=""))
    assert disk.contents() == before


def test_a_plan_that_is_done_already_is_done() -> None:
    disk = made()
    steps = cut(disk)
    run(disk, *steps)
    before = disk.contents()

    # The range is not there to be kept again: of that step a new plan would say nothing.
    run(disk, *(step for step in steps if not isinstance(step, KeepRange)))
    assert disk.contents() == before


def test_a_rename_that_is_done_already_is_done() -> None:
    disk = made()
    step = Rename(file=fact(disk, LOG), to="new", why="")
    run(disk, step)

    run(disk, step, Truncate(file=step.file, size=2, why=""))
    assert files(disk)["new"] == b"go"


def test_a_file_that_is_written_twice_is_expected_as_it_was_left() -> None:
    disk = made({LOG: b"good"})

    run(
        disk,
        WriteFile(name=INDEX, data=b"first", file=None, why=""),
        SyncDirectory(),
        WriteFile(name=INDEX, data=b"second", file=None, why=""),
    )

    assert files(disk)[INDEX] == b"second"


def test_a_file_that_is_only_written_is_not_looked_at_again() -> None:
    disk = made({LOG: b"good"})
    looked: list[str] = []

    class Watched(SimulatedDisk):
        def status(self, path: AnyPath) -> FileStatus | None:
            looked.append(str(path))
            return super().status(path)

    watched = Watched.of(disk.contents())
    run(
        watched,
        WriteFile(name=INDEX, data=b"new", file=None, why=""),
        SyncDirectory(),
        WriteFile(name=NEXT, data=b"new", file=None, why=""),
        keep=False,
    )

    assert looked == [f"{DIRECTORY}/{INDEX}", f"{DIRECTORY}/{NEXT}"]


def test_the_caller_is_asked_once_before_the_first_change() -> None:
    disk = made()
    steps = cut(disk)
    said: list[object] = []

    def ask() -> None:
        assert files(disk) == BEFORE
        said.append("asked")

    apply_steps(disk, DIRECTORY, steps, None, before_change=ask)
    assert said == ["asked"]
    apply_steps(disk, DIRECTORY, (), None, before_change=ask)
    assert said == ["asked"]


def test_no_room_in_quarantine_stops_before_the_first_step() -> None:
    disk = made()
    disk.room = 6
    before = disk.contents()

    with pytest.raises(QuarantineFullError):
        run(disk, *cut(disk))
    assert disk.contents() == before


def planned_again(disk: SimulatedDisk) -> None:
    """A new plan for a directory in which some steps may be done."""
    found = files(disk)
    steps: list[Step] = []
    if NEXT in found:
        steps.append(KeepFile(file=fact(disk, NEXT), why="after damage"))
    if len(found[LOG]) > 4:
        log = fact(disk, LOG)
        steps.append(KeepRange(file=log, position=4, size=len(found[LOG]) - 4, why="damage"))
        steps.append(Truncate(file=log, size=4, why="damage"))
    steps += [
        Sync(name=LOG),
        WriteFile(name=INDEX, data=b"new", file=fact(disk, INDEX) if INDEX in found else None, why=""),
        SyncDirectory(),
    ]
    run(disk, *steps)


def kept_bytes(disk: SimulatedDisk) -> set[bytes]:
    place, found = Quarantine(disk, ROOT), set()
    entries = place.entries()
    for kept in entries:
        disk.delete("/restored")
        place.restore(kept, "/restored")
        found.add(disk.contents()["/restored"])
    assert len(found) == len(entries), "nothing is kept twice"
    return found


def without_temporary(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in files(disk).items() if not name.endswith(".tmp")}


def test_a_plan_cut_off_at_any_step_and_made_again_comes_to_the_same() -> None:
    whole = made()
    run(whole, *cut(whole))
    counting = made()
    plan = cut(counting)
    counting.steps = 0
    run(counting, *plan)
    for step in range(1, counting.steps + 1):
        disk = made()
        plan = cut(disk)
        disk.steps = 0
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            run(disk, *plan)
        for found in disk.crash():
            planned_again(found)
            assert without_temporary(found) == files(whole), step
            assert kept_bytes(found) == {b"damage!", b"behind"}, step


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_refusal_at_any_step_loses_nothing(number: int) -> None:
    counting = made()
    plan = cut(counting)
    counting.steps = 0
    run(counting, *plan)
    for step in range(1, counting.steps + 1):
        disk = made()
        plan = cut(disk)
        disk.steps = 0
        disk.fail_at(step, number)
        with pytest.raises(StratalogError):
            run(disk, *plan)
        planned_again(disk)
        assert without_temporary(disk) == {LOG: b"good", INDEX: b"new"}
        assert kept_bytes(disk) == {b"damage!", b"behind"}


def test_steps_on_a_real_disk(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    for name, data in BEFORE.items():
        (directory / name).write_bytes(data)
    disk = Disk()

    def listed(name: str) -> FileFact:
        status = (directory / name).stat()
        return FileFact(name, status.st_size, file_id(status), status.st_mtime_ns // 1_000_000)

    log = listed(LOG)
    apply_steps(
        disk,
        directory,
        [
            KeepFile(file=listed(NEXT), why="behind"),
            KeepRange(file=log, position=4, size=7, why="damage"),
            Truncate(file=log, size=4, why="damage"),
            Sync(name=LOG),
            CopyRanges(file=log, to=f"{LOG}.cleaned", ranges=((0, 2), (3, 1)), why="salvage"),
            WriteFile(name=INDEX, data=b"new", file=listed(INDEX), why="rebuilt"),
            SyncDirectory(),
        ],
        Quarantine(disk, tmp_path),
    )
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {
        LOG: b"good",
        f"{LOG}.cleaned": b"god",
        INDEX: b"new",
    }
