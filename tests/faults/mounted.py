"""Small real file systems that are full, read-only or failing.

`python -m tests.faults.mounted SCENARIO WORK` runs one in a separate mount namespace (`in_namespace`), so
that nothing is left of it when the process ends.

It prints as JSON what was refused and the result. The first directory is on the small file system, the second
one is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import stratalog
from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.errors import DiskError
from stratalog.files import descriptors
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.manager.manager import LogManager
from tests.log.model import batch, read_all

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
VALUE_SIZE = 50_000
BEHIND_THE_DEVICE = 24 << 20  # the real size of the device in bytes
_ROOT = Path(__file__).parents[2]
NOT_HERE = 77  # the status of a scenario that the machine does not allow
MOST = 2000  # appends; 100 MB, more than any of the file systems holds
SERVER = ServerConfig(ManagerConfig(log_cleaner_enable=False), LogConfig.of({"segment.bytes": 1 << 20}), ())


def in_namespace(scenario: str, work: Path, module: str = "tests.faults.mounted") -> list[str]:
    """The command for a scenario: in a new mount namespace, and without root also in a user namespace."""
    unshare = (
        ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    )
    return [*unshare, sys.executable, "-m", module, scenario, str(work)]


def printed(scenario: str, work: Path, module: str = "tests.faults.mounted") -> str:
    """What a scenario prints; skips the test where the machine does not allow it."""
    tool = missing_tool(scenario)
    if tool is not None:
        pytest.skip(f"{tool} is not installed")
    run = subprocess.run(
        in_namespace(scenario, work, module),
        cwd=_ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == NOT_HERE or run.stderr.startswith("unshare:"):
        pytest.skip(f"this machine does not let us mount: {run.stdout}{run.stderr}")
    assert run.returncode == 0, run.stderr
    return run.stdout


def missing_tool(scenario: str) -> str | None:
    """The programs that the scenario needs and that are not installed here."""
    tools = ["unshare", "mount", "umount", *(["mkfs.ext4", "e2fsck"] if scenario.startswith("ext4") else [])]
    return next((tool for tool in tools if shutil.which(tool, path=_PATH) is None), None)


_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": _PATH}


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def refused_is_told(*command: str) -> None:
    """The same for features that a machine may not allow at all."""
    try:
        run(*command)
    except subprocess.CalledProcessError as error:
        print(f"{command[0]} is refused: {error.stderr.strip()}")
        sys.exit(NOT_HERE)


class SmallDisk:
    """A tmpfs or an ext4 in a file, mounted at `place`."""

    def __init__(self, work: Path, kind: str, size: str, *, backed_by: str | None = None) -> None:
        self.kind, self.size = kind, size
        self.place, self.back = work / "mounted", work / "back"
        self.image = self.back / "image"
        for path in (self.place, self.back):
            path.mkdir()
        if backed_by is not None:  # less than the image claims to have
            refused_is_told("mount", "-t", "tmpfs", "-o", f"size={backed_by}", "tmpfs", str(self.back))
        if kind == "ext4":
            run("truncate", "-s", size, str(self.image))
            run("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image))
        self.mount()

    def mount(self) -> None:
        if self.kind == "tmpfs":
            refused_is_told("mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs", str(self.place))
        else:
            options = "loop,errors=remount-ro"
            refused_is_told("mount", "-o", options, str(self.image), str(self.place))

    def mount_again(self) -> None:
        """Mount it again after a repair of the file system, as a machine does when it starts."""
        run("umount", str(self.place))
        repaired = subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True, check=False)
        assert repaired.returncode < 4, repaired.stdout
        self.mount()

    def make_read_only(self) -> None:
        """Make it read-only, as an error of the file system does: a remount needs all files closed."""
        device = next(
            line.split()[0]
            for line in Path("/proc/mounts").read_text().splitlines()
            if str(self.place) in line
        )
        Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("1")


class Writer:
    """A manager with one log on the small disk and one elsewhere, and what was flushed of each."""

    def __init__(self, small: Path, beside: Path) -> None:
        self.directories = [str(small), str(beside)]
        self.flushed: dict[TopicPartition, int] = {ONE: 0, TWO: 0}
        self.manager = self.started()
        self.manager.get_or_create_log(ONE, is_new=True, directory=small)
        self.manager.get_or_create_log(TWO, is_new=True, directory=beside)

    def started(self) -> LogManager:
        manager = LogManager(self.directories, server=SERVER, high_watermark_follows_end=True)
        manager.startup()
        return manager

    def log(self, key: TopicPartition) -> Log:
        log = self.manager.get_log(key)
        assert log is not None
        return log

    def write(self, key: TopicPartition, count: int, *, flush_every: int = 5) -> None:
        log = self.log(key)
        for _ in range(count):
            log.append_as_leader(batch(_value(log.log_end_offset)), leader_epoch=0)
            if log.log_end_offset % flush_every == 0:
                log.flush()
                self.flushed[key] = log.log_end_offset

    def report(self, error: DiskError) -> dict[str, object]:
        """The result of the failure; then everything is closed."""
        self.manager.checkpoint_log_recovery_offsets()  # as every minute: it notices failures
        (small, _) = self.manager.directories
        self.write(TWO, 20)
        report = {
            "errno": error.errno,
            "offline": self.manager.metrics()["LogDirectoryOffline"][self.directories[0]],  # type: ignore[index]
            "reason": str(small.failure),
            "served": self.flushed[TWO],
        }
        self.manager.shutdown()
        descriptors.shared.close()
        return report

    def check_restart(self) -> dict[str, int]:
        """All flushed records are there, and both logs accept more."""
        self.manager = self.started()
        assert self.manager.metrics()["OfflineLogDirectoryCount"] == 0
        for key, count in self.flushed.items():
            records = read_all(self.log(key), isolation=Isolation.LOG_END)
            assert [record.value for record in records[:count]] == [_value(offset) for offset in range(count)]
            self.write(key, 5)
        self.manager.shutdown()
        descriptors.shared.close()
        return {str(key): count for key, count in self.flushed.items()}


def _value(offset: int) -> bytes:
    return offset.to_bytes(8, "big") * (VALUE_SIZE // 8)


def _until_refused(writer: Writer) -> DiskError:
    try:
        writer.write(ONE, MOST)
    except DiskError as error:
        return error
    raise AssertionError("the disk took everything")


def full(work: Path, kind: str) -> dict[str, object]:
    """No room until somebody deletes a file."""
    disk = SmallDisk(work, kind, "32M")
    ballast = disk.place / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    writer = Writer(disk.place / "data", work / "beside")
    report = writer.report(_until_refused(writer))
    ballast.unlink()
    return {**report, "flushed": writer.check_restart()}


def read_only(work: Path, kind: str) -> dict[str, object]:
    """The file system becomes read-only under a writer, and is mounted again later."""
    disk = SmallDisk(work, kind, "64M")
    writer = Writer(disk.place / "data", work / "beside")
    writer.write(ONE, 53)
    disk.make_read_only()
    assert DiskReader().is_read_only(disk.place / "data")
    report = writer.report(_until_refused(writer))
    disk.mount_again()
    assert not DiskReader().is_read_only(disk.place / "data")
    return {**report, "flushed": writer.check_restart()}


def failing(work: Path, kind: str) -> dict[str, object]:
    """The device is smaller than the file system believes: an fsync fails."""
    disk = SmallDisk(work, kind, "96M", backed_by=f"{BEHIND_THE_DEVICE}")
    writer = Writer(disk.place / "data", work / "beside")
    report = writer.report(_until_refused(writer))
    run("mount", "-o", "remount,size=192M", str(disk.back))
    disk.mount_again()
    return {**report, "flushed": writer.check_restart()}


def lone(work: Path, kind: str) -> dict[str, object]:
    """A full disk under a log that `open_log` has open."""
    disk = SmallDisk(work, kind, "32M")
    ballast = disk.place / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    place, settings, flushed = disk.place / "orders-0", {"segment.bytes": 1 << 20}, 0
    refused: list[DiskError] = []
    log = stratalog.open_log(place, create=True, config=settings)
    while not refused:
        try:
            offset = log.append(_value(log.end_offset))
            if offset % 5 == 0:
                log.flush()
                flushed = offset + 1
        except DiskError as error:
            refused.append(error)
    appended = log.end_offset
    for act in (lambda: log.append(b"one more"), log.flush):
        try:
            act()
        except DiskError as error:
            refused.append(error)
    try:
        log.close()
        flushed = appended  # a close without an error has synced every record
    except DiskError:
        pass
    ballast.unlink()
    with stratalog.open_log(place, config=settings) as log:
        values = [record.value for record in log.records()]
        assert values[:flushed] == [_value(offset) for offset in range(flushed)]
        log.append(b"one more")
    return {
        "errno": refused[0].errno,
        "offline": int(len(refused) == 3),
        "reason": str(refused[-1]),
        "served": 20,
        "flushed": {"orders-0": flushed},
    }


SCENARIOS: dict[str, tuple[Callable[[Path, str], dict[str, object]], str]] = {
    "tmpfs full": (full, "tmpfs"),
    "ext4 full": (full, "ext4"),
    "ext4 read-only": (read_only, "ext4"),
    "ext4 failing": (failing, "ext4"),
    "ext4 full, a lone log": (lone, "ext4"),
}


def main(scenario: str, work: Path) -> None:
    refused_is_told("mount", "--make-rprivate", "/")
    act, kind = SCENARIOS[scenario]
    print(json.dumps(act(work, kind)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
