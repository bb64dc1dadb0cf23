"""The end of a clean run, in Kafka's order.

1. write high watermarks, while the logs are still open
2. flush each log, write its snapshot and trim its indexes; several logs at a time in each directory
3. for each directory whose logs are all closed: write recovery points, then log start offsets
4. write the clean-shutdown files (`Session.put_back_all`), when steps 1 to 3 are done for all directories,
   because the epoch in the files depends on all of them

If a log fails to close, its directory has failed; the others have not. Kafka: LogManager.shutdown
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import StratalogError
from stratalog.log.log import Log
from stratalog.manager.registry import LogRegistry


def close_logs(
    directories: Sequence[LogDirectory], logs: LogRegistry, *, threads: int
) -> list[StratalogError]:
    """Close all logs of these directories, several at a time in each; an error takes its directory offline.

    Returns the errors of logs whose appended records may not all be on the device.
    """
    work = [(directory, log) for directory in directories for log in logs.in_directory(directory.path)]
    if not work:
        return []
    found = [log for _, log in work]
    if threading.main_thread().is_alive():
        with ThreadPoolExecutor(threads * len(directories), "stratalog-close") as pool:
            errors = [*pool.map(_close, found)]
    else:  # at the interpreter's exit, when executors accept no more work
        errors = [*map(_close, found)]
    losses = []
    for (directory, log), error in zip(work, errors, strict=True):
        if error is not None:
            directory.fail(error)
            if not log.is_saved:
                losses.append(error)
    return losses


def _close(log: Log) -> StratalogError | None:
    try:
        log.close()
    except StratalogError as error:
        return error
    return None
