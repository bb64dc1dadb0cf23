"""What tests of recovery share: copies of the fixtures' directories, and what is left in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from stratalog.config import read_server_properties
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import DirectoryReport, RecoveryReport
from stratalog.files.disk import Disk
from tests.fixtures import catalog

MARKER = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
# The settings of the fixtures' broker; topics have their own settings in its cluster's metadata.
SERVER = read_server_properties("log.index.size.max.bytes=4096\nlog.index.interval.bytes=512\n")
EPOCH_OF_CLEAN = 124  # in the clean-shutdown file that the broker left
EPOCH_OF_KILLED = 157  # of the last REGISTER_BROKER_RECORD in the dump of `killed`
NO_EPOCH = {"version": 0, "brokerEpoch": -1}


class Killed(BaseException):
    """Leaves files as a process that is killed by SIGKILL does."""


class MortalDisk(Disk):
    """A disk whose process is killed before its change number `last`."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.changes = 0
        self._last = last

    def _change(self) -> None:
        self.changes += 1
        if self.changes >= self._last:
            raise Killed


def _mortal(name: str) -> Callable[..., object]:
    def method(self: MortalDisk, *arguments: object, **options: object) -> object:
        self._change()
        return getattr(Disk, name)(self, *arguments, **options)

    return method


for _name in ("append", "write_at", "create", "truncate", "rename", "delete", "set_modified", "sync"):
    setattr(MortalDisk, _name, _mortal(_name))


def copy_of(state: str, target: Path) -> Path:
    (source,) = catalog.log_dirs("4.3.1", state)
    return Path(shutil.copytree(source, target))


def recover(*directories: Path, **options: object) -> RecoveryReport:
    disk = options.pop("disk", None)
    assert disk is None or isinstance(disk, Disk)
    return recover_directories(
        [str(directory) for directory in directories],
        disk=disk,
        server=SERVER,
        options=RecoveryChoices(**options),  # type: ignore[arg-type]
    )


def recover_one(directory: Path, **options: object) -> DirectoryReport:
    (found,) = recover(directory, **options).directories
    return found


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def checkpoint(path: Path) -> dict[str, int]:
    lines = path.read_text().splitlines()
    assert lines[0] == "0"
    assert int(lines[1]) == len(lines) - 2
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, lines[2:])}


def marker(directory: Path) -> object:
    return json.loads((directory / MARKER).read_bytes())


def ends_by_kafka(state: str) -> dict[str, int]:
    """Where each log ends, from the batches that Kafka's record classes found in it."""
    return {
        partition.name: max(batch["lastOffset"] for batch in partition.batches()) + 1
        for partition in catalog.partitions("4.3.1", state)
        if not partition.name.startswith("__cluster_metadata")
    }


def damage(log: Path) -> int:
    """Flip a bit in the second batch of a log; returns the first offset that is lost."""
    data = bytearray(log.read_bytes())
    position = 12 + int.from_bytes(data[8:12], "big")
    data[position + 70] ^= 1
    log.write_bytes(data)
    return int.from_bytes(data[position : position + 8], "big")


def tear(partition: Path, begin: int = 0, end: int = 40) -> tuple[Path, int]:
    """Add half a batch to the end of a log; returns its file, and the size that it had before."""
    log = max(partition.glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data + data[begin:end])
    return log, len(data)
