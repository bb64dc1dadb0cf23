"""Reasons against a start at the ends of logs, in a log directory that was shut down cleanly.

A broker believes the clean-shutdown file, and checks neither the newest offset index nor the checkpoints:

damage at the end of the log          it refuses to start
an index that leads to no batch       it refuses to start, or continues the log at a wrong offset: it gives
                                      offsets again that are in use (`log/broker_end.py`)
a start past the end of the log,      it deletes the whole log
in log-start-offset-checkpoint

A directory that was not shut down cleanly is recovered first, by a broker or by `stratalog recover`.

Kafka: LogLoader.recoverLog
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.layout import Layout, PartitionEntry
from stratalog.directory.refusal import RECOVER_ALL, RefusalKind, StartupRefusal, unreadable
from stratalog.errors import DiskError
from stratalog.files.names import LOG_START_OFFSET_CHECKPOINT, DirectoryState, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.broker_end import BrokerEnd, broker_end

_CUT = f"{RECOVER_ALL}, which cuts the log there and keeps what it cuts off."
_REBUILD = f"{RECOVER_ALL}, which rebuilds the index from the log."


def of_log_ends(disk: DiskReader, layout: Layout) -> Iterator[StartupRefusal]:
    """The logs of a directory whose ends a broker cannot read, or takes for something else."""
    if not CleanShutdownFile(disk, layout.directory).exists():
        return
    starts: dict[TopicPartition, int] = {}
    with suppress(DiskError):  # startup_refusals.py looks at all checkpoints
        starts = DirectoryCheckpoints(disk, layout.directory).log_start_offsets.read()
    for entry in layout.partitions:
        # A copy in another directory may end before the start of its log: a broker then begins it again.
        is_live = entry.state is DirectoryState.LIVE
        start = starts.get(entry.topic_partition, 0) if is_live else 0
        try:
            found = broker_end(disk, layout.path(entry), start)
        except DiskError as error:
            yield unreadable(disk, layout.directory, entry.name, error)
            continue
        if found is not None:
            yield from _of_end(layout.directory, entry, found)
            yield from _of_start(disk, layout, entry, found, start)


def _of_end(directory: str, entry: PartitionEntry, found: BrokerEnd) -> Iterator[StartupRefusal]:
    """Damage that a broker meets when it searches for the end, or a wrong end."""
    log, index = join_path(entry.name, found.log), join_path(entry.name, found.index)
    if found.damage is not None and not found.is_index_wrong:
        words = f"The end of the log cannot be read: {found.damage}"
        yield StartupRefusal(RefusalKind.LOG_END, directory, log, words, _CUT)
    elif found.damage is not None:
        words = f"{_leads_nowhere(found)} There the broker finds this: {found.damage}"
        yield StartupRefusal(RefusalKind.LOG_END, directory, index, words, _REBUILD)
    elif found.offset is not None and found.real_offset is not None and found.offset != found.real_offset:
        yield StartupRefusal(
            RefusalKind.WRONG_END, directory, index, f"{_leads_nowhere(found)} {_wrong_end(found)}", _REBUILD
        )


def _leads_nowhere(found: BrokerEnd) -> str:
    return (
        f"Its last entry says that offset {found.entry.offset} is at byte {found.entry.position} of "
        f"{found.log}, where no whole batch has it."
    )


def _wrong_end(found: BrokerEnd) -> str:
    offset, real = found.offset or 0, found.real_offset or 0
    ends = f"The log ends at offset {real}, but a broker takes {offset} for its end"
    if offset < real:
        return f"{ends} and gives the offsets {offset} to {real - 1} again, to new records."
    return f"{ends} and gives this offset to the next record."


def _of_start(
    disk: DiskReader, layout: Layout, entry: PartitionEntry, found: BrokerEnd, start: int
) -> Iterator[StartupRefusal]:
    """A start past the end, unless the log is empty, so that a broker deletes nothing."""
    end = found.real_offset
    if end is None or end >= start:
        return
    suffix = found.log[20:]
    listed = disk.list_sizes(layout.path(entry), suffix)
    sizes = {name: size for name, size in listed.items() if name.endswith(suffix)}
    if not any(sizes.values()):
        return
    first = min(int(name[:20]) for name in sizes if name[:20].isdecimal())
    key = entry.topic_partition
    yield StartupRefusal(
        RefusalKind.START_PAST_END,
        layout.directory,
        LOG_START_OFFSET_CHECKPOINT,
        f"It says that {entry.name} starts at offset {start}, but this log ends at offset {end}. So a broker "
        f"deletes all its files, {sum(sizes.values())} bytes of records.",
        f"Correct the offset in the line `{key.topic} {key.partition} {start}`: the first file of the log "
        f"begins at offset {first}. Do this before `stratalog recover --all`, which would empty the log too, "
        "and keep its records in quarantine.",
    )
