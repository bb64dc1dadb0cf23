"""Recovery on a disk that is really full: a small file system in memory, filled to its last block."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.config import read_server_properties
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import DirectoryReport, Outcome
from stratalog.directory.work_dir import WorkDirDisk
from stratalog.errors import DiskError, FileOwnerError
from tests.fixtures import catalog

MARKER = ".kafka_cleanshutdown"
SERVER = read_server_properties("log.index.size.max.bytes=4096\nlog.index.interval.bytes=512\n")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system takes rights that this user has not")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def killed(small: Path) -> Path:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    return Path(shutil.copytree(source, small / "data"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


def fill(small: Path, name: str = "ballast") -> Path:
    """Take every block that is left."""
    file = small / name
    with file.open("wb", buffering=0) as ballast:
        for size in (65536, 4096, 1):
            while True:
                try:
                    ballast.write(bytes(size))
                except OSError:
                    break
    return file


def recover(directory: Path, **options: object) -> DirectoryReport:
    (found,) = recover_directories(
        [str(directory)],
        server=SERVER,
        options=RecoveryChoices(**options),  # type: ignore[arg-type]
    ).directories
    return found


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock" and not path.name.startswith("stratalog-")
    }


def tear(directory: Path) -> bytes:
    """Give a log a tail that has to be kept before it is cut off; returns it."""
    tail = bytes(8) + (100_000).to_bytes(4, "big") + b"half" * 5000
    with (directory / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(tail)
    return tail


def test_a_dry_run_did_not_foresee_a_full_disk(killed: Path, small: Path) -> None:
    fill(small)
    before = files_of(killed)

    planned = recover(killed, dry_run=True)
    assert files_of(killed) == before
    done = recover(killed)

    for report in (planned, done):
        assert report.outcome is Outcome.FAILED
        assert report.error is not None
        assert "`stratalog recover --work-dir DIR` copes with a full disk." in report.error


def test_a_dry_run_of_a_disk_with_room_fails_no_more_than_the_run(killed: Path) -> None:
    tear(killed)

    assert recover(killed, dry_run=True).outcome is Outcome.PLANNED
    assert recover(killed).outcome is Outcome.RECOVERED


def test_a_full_disk_is_recovered_with_a_work_dir_as_any_other(
    killed: Path, small: Path, work: Path, tmp_path: Path
) -> None:
    tail = tear(killed)
    roomy = tmp_path / "roomy"
    shutil.copytree(killed, roomy)
    recover(roomy)
    fill(small)

    report = recover(killed, work_dir=str(work))

    assert (report.outcome, report.error) == (Outcome.RECOVERED, None)
    assert files_of(killed) == files_of(roomy)
    (cut,) = [cut for part in report.partitions for cut in part.cuts]
    assert cut.kept_as is not None
    assert Path(cut.kept_as).parent == work
    assert Path(cut.kept_as).read_bytes() == tail
    assert not list(work.glob("stratalog-work-*"))
    assert not list(killed.rglob("stratalog-work-*"))


class Filling(WorkDirDisk):
    """A disk without room in one directory from the second query on."""

    filled = ""
    asked = 0

    def free_size(self, path: object) -> int:
        if str(path) == self.filled:
            self.asked += 1
            return 0 if self.asked > 1 else 1 << 30
        return super().free_size(path)  # type: ignore[arg-type]


def test_when_the_room_goes_in_the_midst_of_it_the_rest_is_kept_in_the_work_dir(
    tmp_path: Path, work: Path
) -> None:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    directory = Path(shutil.copytree(source, tmp_path / "killed"))
    (directory / "recovery-point-offset-checkpoint").unlink()
    log = directory / "rolled-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    before = {path.name: path.read_bytes() for path in (directory / "rolled-0").glob("*.log")}
    disk = Filling(work)
    disk.filled = str(directory)

    (report,) = recover_directories(
        [str(directory)], disk=disk, server=SERVER, options=RecoveryChoices(work_dir=str(work))
    ).directories

    assert (report.outcome, report.error) == (Outcome.RECOVERED, None)
    cuts = {cut.file: cut for part in report.partitions for cut in part.cuts}
    assert cuts.keys() == before.keys()
    for name, cut in cuts.items():
        assert cut.kept_as is not None
        assert (directory / cut.kept_as).read_bytes() == before[name][cut.position :]
        assert Path(cut.kept_as).is_absolute() == (name == log.name)


def test_without_a_work_dir_a_full_disk_fails_and_is_recovered_when_there_is_room(
    killed: Path, small: Path
) -> None:
    tear(killed)
    ballast = fill(small)

    report = recover(killed)

    assert report.outcome is Outcome.FAILED
    assert not (killed / MARKER).exists()
    ballast.unlink()
    assert recover(killed).outcome is Outcome.RECOVERED


def test_a_file_is_written_over_block_by_block(small: Path, work: Path) -> None:
    file = small / "checkpoint"
    file.write_bytes(b"old")
    fill(small)

    WorkDirDisk(work).replace(file, b"new bytes")

    assert file.read_bytes() == b"new bytes"
    assert list(work.iterdir()) == []


def test_what_does_not_fit_waits_for_room(small: Path, work: Path) -> None:
    ballast = fill(small)
    disk = WorkDirDisk(work)
    disk.replace(small / "new", b"bytes")

    with pytest.raises(DiskError, match="same --work-dir"):
        disk.settle(str(small))
    ballast.unlink()
    disk.settle(str(small))

    assert (small / "new").read_bytes() == b"bytes"
    assert list(work.iterdir()) == []


def test_a_killed_run_is_finished_by_the_next(small: Path, work: Path) -> None:
    ballast = fill(small)
    WorkDirDisk(work).replace(small / "new", b"bytes")
    ballast.unlink()

    WorkDirDisk(work).resume([str(small)])

    assert (small / "new").read_bytes() == b"bytes"


def test_what_a_broker_has_written_since_is_not_undone(small: Path, work: Path) -> None:
    ballast = fill(small)
    WorkDirDisk(work).replace(small / "new", b"bytes")
    ballast.unlink()
    (small / "new").write_bytes(b"the broker's")

    WorkDirDisk(work).resume([str(small)])

    assert (small / "new").read_bytes() == b"the broker's"
    assert list(work.iterdir()) == []


class Killed(BaseException):
    """Like SIGKILL for a test: nothing catches it."""


class MortalDisk(WorkDirDisk):
    """Killed when it has put a copy down, before it writes over the old file."""

    def write_at(self, *_written: object) -> None:
        raise Killed


def index_that_waits(small: Path, work: Path) -> Path:
    """An index of a partition that a killed run was about to write over."""
    index = small / "orders-0" / "00000000000000000000.index"
    index.parent.mkdir()
    index.write_bytes(b"of before")
    ballast = fill(small)
    with pytest.raises(Killed):
        MortalDisk(work).replace(index, b"of the recovery")
    ballast.unlink()
    return index


def test_killed_while_it_writes_over_a_file_the_next_run_goes_on(small: Path, work: Path) -> None:
    index = index_that_waits(small, work)

    WorkDirDisk(work).resume([str(small)])

    assert index.read_bytes() == b"of the recovery"
    assert [path.name for path in index.parent.iterdir()] == [index.name]
    assert list(work.iterdir()) == []


def test_what_a_broker_wrote_into_the_same_file_is_not_undone(small: Path, work: Path) -> None:
    """It deletes what ends in .deleted as it loads a partition: tests/kafka/test_work_dir.py."""
    index = index_that_waits(small, work)
    for path in index.parent.glob("*.deleted"):
        path.unlink()
    with index.open("r+b") as file:
        file.write(b"of the broker")

    WorkDirDisk(work).resume([str(small)])

    assert index.read_bytes() == b"of the broker"
    assert list(work.iterdir()) == []


def test_a_run_without_the_work_dir_in_between_is_not_undone(killed: Path, small: Path, work: Path) -> None:
    index = killed / "rolled-0" / "00000000000000000000.index"
    ballast = fill(small)
    with pytest.raises(Killed):
        MortalDisk(work).replace(index, index.read_bytes()[:8])
    ballast.unlink()
    recover(killed)
    (killed / MARKER).unlink()
    before = files_of(killed)

    recover(killed, work_dir=str(work))

    assert {name: data for name, data in files_of(killed).items() if name in before} == before
    assert list(work.glob("stratalog-work-*")) == []


def test_the_marker_of_a_clean_stop_does_not_wait(small: Path, work: Path) -> None:
    """It would be written after a broker has run there, and cover what the broker did."""
    ballast = fill(small)

    with pytest.raises(DiskError):
        WorkDirDisk(work).replace(small / MARKER, b"{}")
    ballast.unlink()
    WorkDirDisk(work).resume([str(small)])

    assert not (small / MARKER).exists()
    assert list(work.iterdir()) == []


def test_the_files_of_other_directories_are_not_touched(small: Path, work: Path, tmp_path: Path) -> None:
    ballast = fill(small)
    WorkDirDisk(work).replace(small / "new", b"bytes")
    ballast.unlink()

    WorkDirDisk(work).resume([str(tmp_path / "other")])

    assert not (small / "new").exists()
    (copy,) = work.iterdir()
    assert json.loads(copy.read_text())["path"] == str(small / "new")


def put_down(work: Path, path: str, inode: int | None, data: bytes) -> Path:
    """What a killed run leaves in a work directory and beside the file, or what an attacker forges."""
    short = hashlib.sha256(path.encode()).hexdigest()[:32]
    copy = work / f"stratalog-work-{short}.json"
    document = {"path": path, "inode": inode, "data": base64.b64encode(data).decode()}
    copy.write_text(json.dumps(document))
    (Path(path).parent / f"stratalog-work-{short}.deleted").touch()
    return copy


def test_a_path_that_leads_out_of_the_directory_is_not_followed(tmp_path: Path, work: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    data.mkdir()
    outside.write_bytes(b"not ours")
    put_down(work, f"{data}/../outside", outside.stat().st_ino, b"forged")

    WorkDirDisk(work).resume([str(data)])

    assert outside.read_bytes() == b"not ours"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"path": 3, "inode": null, "data": ""}'])
def test_a_file_that_no_run_put_down_is_passed_by(text: str, tmp_path: Path, work: Path) -> None:
    (work / "stratalog-work-x.json").write_text(text)

    WorkDirDisk(work).resume([str(tmp_path)])

    assert (work / "stratalog-work-x.json").read_text() == text


def test_a_directory_marked_clean_is_left_though_copies_wait_for_it(tmp_path: Path, work: Path) -> None:
    """The broker was started meanwhile: it writes to an index in place, so that its inode is the same."""
    (source,) = catalog.log_dirs("4.3.1", "clean")
    clean = Path(shutil.copytree(source, tmp_path / "clean"))
    index = clean / "codecs-0" / "00000000000000000012.index"
    put_down(work, str(index), index.stat().st_ino, b"stale")
    before = files_of(clean)

    report = recover(clean, work_dir=str(work))

    assert report.outcome is Outcome.CLEAN
    assert files_of(clean) == before


def test_where_files_could_not_keep_their_owner_not_even_copies_are_written(
    tmp_path: Path, work: Path
) -> None:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    killed = Path(shutil.copytree(source, tmp_path / "killed"))
    index = killed / "rolled-0" / "00000000000000000088.index"
    copy = put_down(work, str(index), index.stat().st_ino, b"of the recovery")
    before = files_of(killed)

    with pytest.raises(FileOwnerError):
        recover(killed, work_dir=str(work), user=os.getuid() + 1)

    assert files_of(killed) == before
    assert copy.exists()
