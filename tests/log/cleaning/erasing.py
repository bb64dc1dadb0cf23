"""Erases records from the files of a log, and looks at what is left."""

from __future__ import annotations

from collections.abc import Iterable

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import DirectoryState
from stratalog.log.cleaning.erase import Rewritten, ToErase
from stratalog.log.cleaning.erase_partition import PartitionFiles
from stratalog.log.cleaning.erase_selection import ErasedRange, Matcher, Selection
from stratalog.log.log import Log
from stratalog.records.batch import BatchHeader
from stratalog.records.build import BatchOptions
from stratalog.records.control import ControlType
from stratalog.records.reader import read_batches
from tests.log.cleaning.dirty import NOW, Dirty
from tests.log.model import DIRECTORY

OPTIONS = BatchOptions(partition_leader_epoch=0)


def erase(
    disk: Disk,
    directory: str = DIRECTORY,
    *,
    keys: Iterable[bytes] = (),
    offsets: Iterable[ErasedRange] = (),
    state: DirectoryState = DirectoryState.LIVE,
    clock: Clock = lambda: NOW,
) -> list[tuple[ToErase, Rewritten]]:
    """Erase from one directory; returns what was found in each file, and the result."""
    files = PartitionFiles(
        disk=disk,
        directory=directory,
        state=state,
        config=LogConfig(),
        clock=clock,
        matcher=Matcher(Selection.of(keys, offsets)),
    )
    found = [each for each in files.look(files.disk, files.matcher) if isinstance(each, ToErase)]
    return [(each, each.erase(lambda _: None)) for each in found]


def erased(dirty: Dirty, *, keys: Iterable[bytes] = (), offsets: Iterable[ErasedRange] = ()) -> Log:
    """Close the log, erase from its files, and open it again."""
    dirty.log.close()
    erase(dirty.machine.disk, keys=keys, offsets=offsets)
    dirty.log = dirty.machine.open()
    return dirty.log


def headers_of(log: Log) -> list[BatchHeader]:
    return [
        batch.header
        for segment in log.segments
        for batch in read_batches(segment.reader.read_bytes(0, segment.size))
    ]


def transactions() -> Dirty:
    """A transaction that is committed, one that is aborted, one that is open; over two segments."""
    dirty = Dirty()
    dirty.produce(1, (b"a", b"c1"), (b"b", b"c2"), transactional=True)
    dirty.produce(2, (b"a", b"x1"), (b"b", b"x2"), transactional=True)
    dirty.roll()
    dirty.end(1, ControlType.COMMIT)
    dirty.produce(2, (b"a", b"x3"), transactional=True)
    dirty.end(2, ControlType.ABORT)
    dirty.produce(1, (b"a", b"c3"), transactional=True)
    dirty.end(1, ControlType.COMMIT)
    dirty.produce(3, (b"a", b"o1"), transactional=True)
    dirty.put((b"b", b"p"))
    return dirty
