"""`open_log`, the public function: one partition's log for a program that needs no log manager.

    with stratalog.open_log("data/orders-0", create=True) as log:
        log.append(b"hello")

The directory is that of a partition, as in a broker. The lock, the clean-shutdown file and the start offset
are in its *home*: this is the directory itself, or its parent if that is a Kafka log directory. The
clean-shutdown file is removed when a log is opened for writing, and written last when it is closed: if it is
missing, the last writer was interrupted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from uuid import UUID

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig
from stratalog.config.keys import ConfigValue
from stratalog.directory.home import LogHome, topic_id_of_user
from stratalog.directory.kind import check_place
from stratalog.errors import UsageError
from stratalog.files.disk import Disk
from stratalog.files.paths import path_text
from stratalog.log.api.log_api import codec_of
from stratalog.log.api.partition_log import PartitionLog
from stratalog.log.scheduler import BackgroundScheduler, Scheduler
from stratalog.records.compression import CodecName

logger = logging.getLogger(__name__)


def open_log(
    directory: str | os.PathLike[str],
    *,
    create: bool = False,
    read_only: bool = False,
    config: Mapping[str, ConfigValue] | LogConfig | None = None,
    topic_id: UUID | str | None = None,
    codec: CodecName = "none",
    quarantine: str | os.PathLike[str] | None = None,
    disk: Disk | None = None,
    clock: Clock = system_clock,
    scheduler: Scheduler | None = None,
) -> PartitionLog:
    """The log in a directory called `<topic>-<partition>`, for one writer and many readers.

    `create` creates a missing directory. `config` has Kafka's topic settings by their names; a log does not
    store them. `codec` is the compression of `append`: none, gzip, snappy, lz4 or zstd.

    LogDirLockedError if another process has the log open. A log that was not closed cleanly is recovered
    first: an incomplete or damaged end is cut off, and kept beside the directory or in the directory
    `quarantine`. In a log directory this is a NeedsRecoveryError instead. `read_only` opens any log:
    it takes no lock and changes nothing, and `hidden` says what it does not show. `disk`, `clock` and
    `scheduler` replace this machine's, for tests.
    """
    if read_only and (create or topic_id is not None):
        raise UsageError(
            f"{directory}: a log that is opened read_only is neither created nor given a topic id."
        )
    if read_only and quarantine is not None:
        raise UsageError(
            f"{directory}: a log that is opened read_only is not cut, so it needs no quarantine."
        )
    disk = disk or Disk()
    path, place = path_text(directory), None if quarantine is None else path_text(quarantine)
    if place is not None:
        check_place(disk, place, [], option="quarantine")
    settings = config if isinstance(config, LogConfig) else LogConfig.of({} if config is None else config)
    compression = codec_of(codec)
    wanted_id = None if topic_id is None else topic_id_of_user(topic_id)
    home = LogHome.of(disk, path, create=create)
    if read_only:
        view = home.view(settings, clock)
        if (end := view.end()).hides_something:
            logger.warning("%s", end)
        return PartitionLog(home, view, None, clock, compression)
    own = None
    if scheduler is None:
        scheduler = own = BackgroundScheduler(clock)
    try:
        log = home.load(settings, clock, scheduler, wanted_id, place)
    except BaseException:  # an interrupt too: the thread would go on
        if own is not None:
            own.close()
        raise
    return PartitionLog(home, log, own, clock, compression)
