"""The leader epochs of a log that is only read, even if their file is damaged.

A garbled `leader-epoch-checkpoint` takes a broker's whole log directory offline. A reader rarely needs it, so
a view only warns about it. When the epochs are first needed, the view rebuilds them from the batches as
recovery would, which reads every header of the log. Kafka: LogSegment.recover
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from stratalog.errors import CorruptCheckpointError
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.epochs import EpochEntry, EpochStitch, read_epochs
from stratalog.log.segments import SegmentReaders

logger = logging.getLogger(__name__)


class EpochsFile:
    """The epoch file of one log, read again at each look; `note` says what is wrong with it, if anything."""

    def __init__(self, disk: DiskReader, directory: str) -> None:
        self._disk = disk
        self._path = join_path(directory, LEADER_EPOCH_CHECKPOINT)
        self.note: str | None = None

    def read(self) -> tuple[EpochEntry, ...] | None:
        """The epochs in the file; None, with a warning, if it cannot be parsed."""
        try:
            entries = read_epochs(self._disk, self._path)
        except CorruptCheckpointError as error:
            note = (
                f"{error} The leader epochs are taken from the batches instead. A broker takes the log "
                "directory offline because of such a file; `stratalog recover` rewrites it."
            )
            if note != self.note:
                logger.warning("%s", note)
            self.note = note
            return None
        self.note = None
        return entries


def epochs_in_batches(segments: SegmentReaders, start_offset: int, end_offset: int) -> tuple[EpochEntry, ...]:
    """The leader epochs in [start_offset, end_offset), from the headers of all batches."""
    epochs = EpochStitch()
    for segment in segments:
        for chunk in segment.batches():
            epochs.add(_starts(chunk.headers["partition_leader_epoch"], chunk.headers["base_offset"]))
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    return tuple(epochs.entries)


def _starts(epochs: np.ndarray, offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """(epoch, base offset) of each batch with another epoch than the batch before it; -1 is not an epoch."""
    changes = np.flatnonzero(np.diff(epochs, prepend=np.int32(-1)))
    return ((int(epochs[at]), int(offsets[at])) for at in changes if epochs[at] >= 0)
