"""Finds log directories whose disk has no room for what a broker must write while it starts.

A broker (4.3.1, 21 partitions, started on file systems that were filled up to a few blocks) writes

in __cluster_metadata-0       its election, its registration and the new leader of each partition: 5 kB at the
                              end of the log, and up to two blocks in the indexes, which it writes through
                              memory: without a free block, the process ends with an InternalError. Then a
                              record each half second, and a producer snapshot
in every log directory        checkpoints and leader epochs: each is written beside the old file, and
                              replaces it

On one disk with all directories it needed 18 kB with blocks of 1 kB; it ended with 16 kB. The numbers below
are a little larger, and far less than a broker needs for a day of work. A directory that has no metadata, on
a full disk of its own, goes offline. Recovering a log takes no more than its old files do.

The broker's user is assumed to be the owner of the log directory. For others than root, the room is what
`df` shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from stratalog.directory.owners import ROOT
from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.errors import DiskError
from stratalog.files.reading import DiskReader

_RECORDS_SIZE = 12 << 10  # of a start without partitions, and of the first minute
_PARTITION_SIZE = 128  # the records of one partition that gets its leader again
_METADATA_BLOCKS = 3  # both indexes; a producer snapshot or quorum-state.tmp
_DIRECTORY_BLOCKS = 1  # a file that will replace another
NOTHING_FREED: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class _Device:
    """One file system: its free bytes, the directories on it, and what a broker writes there."""

    free_size: int
    whose: str
    freed_size: int = 0
    directories: list[str] = field(default_factory=list)
    needed_size: int = 0
    with_metadata: list[str] = field(default_factory=list)


def of_room(
    disk: DiskReader,
    directories: Sequence[str],
    *,
    metadata_in: Collection[str],
    partitions_count: int,
    freed_sizes: Mapping[str, int] = NOTHING_FREED,
) -> Iterator[StartupRefusal]:
    """The directories on disks that are too full; `metadata_in` are those with the cluster's metadata.

    `freed_sizes`: how many more bytes will be free on the device of a directory when the broker starts.
    """
    devices: dict[int, _Device] = {}
    for directory in directories:
        try:
            status = disk.status(directory)
            if status is None or disk.is_read_only(directory):
                continue  # reported elsewhere
            block_size = disk.block_size(directory)
            if status.user == ROOT:
                found = _Device(disk.free_size(directory), "")
            else:
                found = _Device(disk.available_size(directory), " for users other than root")
            device = devices.setdefault(status.device, found)
        except DiskError:  # an unreadable directory is reported elsewhere
            continue
        device.freed_size = freed_sizes.get(directory, device.freed_size)
        device.directories.append(directory)
        device.needed_size += _DIRECTORY_BLOCKS * block_size
        if directory in metadata_in:
            records_size = _RECORDS_SIZE + _PARTITION_SIZE * partitions_count
            device.needed_size += _METADATA_BLOCKS * block_size + -(-records_size // block_size) * block_size
            device.with_metadata.append(directory)
    for device in devices.values():
        free_size = max(0, device.free_size + device.freed_size)
        if free_size >= device.needed_size:
            continue
        # Without the metadata the broker ends; without the others, it goes on.
        for directory in device.with_metadata or device.directories:
            yield StartupRefusal(
                RefusalKind.FULL,
                directory,
                "",
                f"Its disk is full: {free_size} bytes are free{device.whose}, and a broker needs "
                f"{device.needed_size} there to start.",
                f"Free some space on it, at least {device.needed_size - free_size} bytes. `stratalog "
                "du` shows what takes the space, and what retention frees next.",
                takes_offline=not device.with_metadata,
            )
