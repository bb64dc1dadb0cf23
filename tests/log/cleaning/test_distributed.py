"""A compaction in parts leaves the files of the cleaner, whatever is run twice, killed or damaged."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import (
    AccessDeniedError,
    CorruptRecordError,
    DiskError,
    FileOwnerError,
    OtherFileError,
    UsageError,
    WorkerError,
)
from stratalog.files.disk import Disk
from stratalog.files.entries import Path as AnyPath
from stratalog.files.reading import DiskReader
from stratalog.files.stamps import FileStamp
from stratalog.log import task_folders
from stratalog.log.cleaning import CleanResult, runs
from stratalog.log.cleaning.distributed import (
    CleaningPlan,
    PartsRunner,
    RewrittenGroup,
    check_access,
    clean_in_parts,
)
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.transactions import OpenData, SegmentData
from stratalog.log.task_folders import FOLDER_PREFIX
from tests import profile
from tests.kafka.cleaning import T0, DirtyHistory, OurCleaner
from tests.log.cleaning.dirty import records_of
from tests.log.cleaning.in_parts import PartsHere
from tests.log.cleaning.small_pieces import SmallPieces

HISTORIES = 60
ROUNDS = 3
BATCHES = 50
LARGE_MAP = 24 * 1000


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes; a .log also with its time, which stands for missing timestamps."""
    return {
        str(path.relative_to(directory)): (
            path.read_bytes(),
            path.stat().st_mtime_ns // 1_000_000 if path.suffix == ".log" else 0,
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith((".deleted", ".lock"))
    }


def clean(side: OurCleaner, first_dirty: int, runner: PartsRunner | None) -> CleanResult | CorruptRecordError:
    """By the cleaner of one process, or in parts; CorruptRecordError as a value, as `OurCleaner.clean`."""
    if runner is None:
        return side.clean(first_dirty, LARGE_MAP)
    try:
        return clean_in_parts(side.dirty_log(first_dirty), side.clock(), side.replace, runner)
    except CorruptRecordError as error:
        return error


def dirty_log(root: Path, history: DirtyHistory, now_ms: int) -> None:
    side = OurCleaner(root, history.config, now_ms)
    history.write(side.log, now_ms, BATCHES)
    history.end_transactions(side.log, now_ms)
    side.log.roll()
    side.log.close()


@pytest.mark.parametrize("seed", range(profile.examples(HISTORIES, quick=6, ci=8)))
def test_the_files_are_those_of_the_cleaner(tmp_path: Path, seed: int) -> None:
    history = DirtyHistory(seed)
    here, there = tmp_path / "here" / "dirty-0", tmp_path / "there" / "dirty-0"
    here.mkdir(parents=True)
    now_ms, first_dirty, records_gone = T0, 0, 0

    for number in range(ROUNDS):
        if number != 1:
            side = OurCleaner(here, history.config, now_ms)
            history.write(side.log, now_ms, BATCHES)
            side.log.close()
        now_ms += history.random.choice([1, 1000, 5000, 200_000])
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(here, there)
        sides = [OurCleaner(each, history.config, now_ms) for each in (here, there)]
        if first_dirty >= sides[0].first_uncleanable_offset:
            first_dirty = 0
        by_one, by_parts = (
            clean(side, first_dirty, runner) for side, runner in zip(sides, (None, PartsHere()), strict=True)
        )
        for side in sides:
            side.log.close()

        if isinstance(by_one, CorruptRecordError):
            assert str(by_parts) == str(by_one)  # an old message that would have to stay empty
            return
        assert isinstance(by_parts, CleanResult)
        assert (by_parts.end_offset, by_parts.groups, by_parts.cleaned) == (
            by_one.end_offset,
            by_one.groups,
            by_one.cleaned,
        )
        counted = ("bytes_read", "records_read", "records_without_key", "bytes_written", "records_written")
        for name in counted:
            assert getattr(by_parts.stats, name) == getattr(by_one.stats, name), name
        assert contents(there) == contents(here)
        first_dirty = by_one.end_offset
        records_gone += by_one.stats.records_read - by_one.stats.records_written
    assert records_gone


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, DirtyHistory]:
    """A log with transactions that reach from segment to segment."""
    history = DirtyHistory(0)
    (tmp_path / "dirty-0").mkdir()
    dirty_log(tmp_path / "dirty-0", history, T0)
    return tmp_path / "dirty-0", history


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_worker_without_the_transaction_indexes_kept_aborted_records(tmp_path: Path, seed: int) -> None:
    history = DirtyHistory(seed)
    (tmp_path / "dirty-0").mkdir()
    dirty_log(tmp_path / "dirty-0", history, T0)
    other = Path(shutil.copytree(tmp_path / "dirty-0", tmp_path / "other" / "dirty-0"))
    assert any(each.stat().st_size for each in other.glob("*.txnindex"))

    class WithoutIndexes(PartsHere):
        """Tasks on a machine that has all files but the transaction indexes."""

        def read_keys(self, plan: CleaningPlan) -> list[SegmentData]:
            with hidden(Path(plan.directory)):
                return super().read_keys(plan)

        def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> list[RewrittenGroup]:
            with hidden(Path(plan.directory)):
                return super().rewrite(plan, before)

    for each, runner in ((tmp_path / "dirty-0", PartsHere()), (other, WithoutIndexes())):
        side = OurCleaner(each, history.config, T0 + 1000)
        clean(side, 0, runner)
        side.log.close()

    assert contents(other) == contents(tmp_path / "dirty-0")


@contextmanager
def hidden(directory: Path) -> Iterator[None]:
    """The transaction indexes of a log are away meanwhile."""
    away = {path: path.with_suffix(".away") for path in directory.glob("*.txnindex")}
    for path, elsewhere in away.items():
        path.rename(elsewhere)
    try:
        yield
    finally:
        for path, elsewhere in away.items():
            elsewhere.rename(path)


def test_a_link_with_the_name_of_a_folder_of_tasks_is_not_followed(
    log: tuple[Path, DirtyHistory], tmp_path: Path
) -> None:
    root, history = log
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"kept")
    (root / f"{FOLDER_PREFIX}x").symlink_to(tmp_path / "precious")
    side = OurCleaner(root, history.config, T0 + 1000)
    clean(side, 0, PartsHere())
    side.log.close()

    assert (tmp_path / "precious" / "file").read_bytes() == b"kept"


def test_tasks_that_run_twice_change_nothing(log: tuple[Path, DirtyHistory], tmp_path: Path) -> None:
    root, history = log
    other = Path(shutil.copytree(root, tmp_path / "other" / "dirty-0"))

    for each, attempts in ((root, 1), (other, 3)):
        side = OurCleaner(each, history.config, T0 + 1000)
        clean(side, 0, PartsHere(attempts))
        side.log.close()

    assert contents(other) == contents(root)
    assert not [path for path in root.iterdir() if path.is_dir()]


class Killed(BaseException):
    """The driver is killed here."""


class KilledBeforeTheProof(PartsHere):
    def prove(self, _plan: CleaningPlan, _groups: Sequence[RewrittenGroup]) -> None:
        raise Killed


class Rotten(PartsHere):
    """The storage returns other bytes than those that were written."""

    def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> list[RewrittenGroup]:
        done = super().rewrite(plan, before)
        log = Path(done[-1].files[0].path)
        time_ns = log.stat().st_mtime_ns
        data = bytearray(log.read_bytes())
        data[-1] ^= 1
        log.write_bytes(data)
        os.utime(log, ns=(time_ns, time_ns))
        return done


class RottenIndexes(PartsHere):
    """The storage returns other bytes of an index than those that were written."""

    def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> list[RewrittenGroup]:
        done = super().rewrite(plan, before)
        for stamp in [
            stamp for group in done for stamp in group.files if stamp.size and ".log" not in stamp.path
        ]:
            path = Path(stamp.path)
            path.write_bytes(bytes(reversed(path.read_bytes())))
            os.utime(path, ns=(stamp.mtime_ms * 1_000_000, stamp.mtime_ms * 1_000_000))
        return done


@pytest.mark.parametrize(
    ("runner", "error"),
    [(KilledBeforeTheProof, Killed), (Rotten, WorkerError), (RottenIndexes, WorkerError)],
)
def test_nothing_is_replaced_before_everything_is_proven(
    log: tuple[Path, DirtyHistory], runner: type[PartsHere], error: type[BaseException]
) -> None:
    root, history = log
    before = contents(root)
    side = OurCleaner(root, history.config, T0 + 1000)

    with pytest.raises(error):
        clean(side, 0, runner())

    assert {name: data for name, (data, _) in contents(root).items() if name.endswith(".log")} == {
        name: data for name, (data, _) in before.items() if name.endswith(".log")
    }


def test_an_error_is_not_hidden_by_folders_that_cannot_be_listed_after_it(
    log: tuple[Path, DirtyHistory], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, history = log
    side = OurCleaner(root, history.config, T0 + 1000)

    class Fails(PartsHere):
        def read_keys(self, _plan: CleaningPlan) -> list[SegmentData]:
            monkeypatch.setattr(task_folders, "task_folders", refuse)
            raise UsageError("the first error")

    def refuse(_: DiskReader, directory: str) -> list[str]:
        raise DiskError(directory, "Input/output error", errno.EIO)

    with pytest.raises(UsageError, match="the first error"):
        clean(side, 0, Fails())


def test_a_task_decodes_with_one_thread(
    log: tuple[Path, DirtyHistory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine runs as many tasks as it has cores."""
    root, history = log
    pieces = SmallPieces(monkeypatch)
    counts: list[int] = []
    ahead = runs._ahead

    def counted(decoder: Any, memories: Any, threads_count: int) -> Any:
        counts.append(threads_count)
        return ahead(decoder, memories, threads_count)

    monkeypatch.setattr(runs, "_ahead", counted)
    monkeypatch.setattr(runs, "_cores", lambda: 4)
    side = OurCleaner(root, history.config, T0 + 1000)
    result = clean(side, 0, PartsHere())
    side.log.close()

    assert isinstance(result, CleanResult)
    assert set(counts) == {1}
    assert len(pieces.parts) == len(counts) > 2  # in both passes


def test_the_folder_of_a_killed_run_is_ignored_and_then_removed(log: tuple[Path, DirtyHistory]) -> None:
    root, history = log
    left = root / f"{FOLDER_PREFIX}0123"
    (left / "0-4567").mkdir(parents=True)
    (left / "0-4567" / "00000000000000000000.log.cleaned").write_bytes(b"half a batch")

    side = OurCleaner(root, history.config, T0 + 1000)  # loads it
    end = side.log.log_end_offset
    clean(side, 0, PartsHere())
    side.log.close()

    assert not left.exists()
    assert OurCleaner(root, history.config, T0 + 2000).log.log_end_offset == end


def test_a_worker_with_another_file_under_this_path_stops_it(log: tuple[Path, DirtyHistory]) -> None:
    root, history = log
    side = OurCleaner(root, history.config, T0 + 1000)

    class Late(PartsHere):
        def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> list[RewrittenGroup]:
            Path(plan.stamps[0].path).touch()
            return super().rewrite(plan, before)

    with pytest.raises(OtherFileError, match="not the file for which the work was planned"):
        clean(side, 0, Late())


def test_without_room_for_all_new_segments_nothing_is_begun(log: tuple[Path, DirtyHistory]) -> None:
    root, history = log
    side = OurCleaner(root, history.config, T0 + 1000)

    class Full(Disk):
        def free_size(self, _path: AnyPath) -> int:
            return 100

    side.disk = Full()
    with pytest.raises(UsageError, match="and 100 are free here"):
        clean(side, 0, PartsHere())

    assert not [path for path in root.iterdir() if path.is_dir()]


def test_more_keys_than_a_map_holds_take_one_round(log: tuple[Path, DirtyHistory], tmp_path: Path) -> None:
    root, history = log
    other = Path(shutil.copytree(root, tmp_path / "other" / "dirty-0"))
    small, parts = (OurCleaner(each, history.config, T0 + 1000) for each in (root, other))
    offset_map, first_dirty, rounds = OffsetMap(24 * 4), 0, 0
    while first_dirty < small.first_uncleanable_offset:
        result = small.log.clean(first_dirty, small.first_uncleanable_offset, offset_map)
        first_dirty, rounds = result.end_offset, rounds + 1

    done = clean(parts, 0, PartsHere())

    assert rounds > 2
    assert isinstance(done, CleanResult)
    assert done.end_offset == first_dirty
    kept = [[(each.offset, each.key, each.value) for each in records_of(side.log)] for side in (small, parts)]
    assert kept[0] == kept[1]


def test_a_worker_of_another_user_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t-0" / "0.log"
    file.parent.mkdir()
    file.write_bytes(b"x")
    stamp = FileStamp.of(Disk(), str(file))
    check_access(Disk(), stamp)

    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 7)
    with pytest.raises(FileOwnerError):
        check_access(Disk(), stamp)

    monkeypatch.setattr(DiskReader, "may_create_in", lambda *_: False)
    with pytest.raises(AccessDeniedError, match="may not create files here"):
        check_access(Disk(), stamp)
