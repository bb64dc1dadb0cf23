"""What a Python worker of Spark needs: the driver's version of Stratalog, a cache for compiled kernels.

It also changes two things in the daemon of PySpark 4.3, from which the workers are forked. A query with a
LIMIT may be done before its tasks are; Spark then closes the connection to their workers, and for each of
them the daemon would print a traceback into the user's output. And after each task the daemon looks for
garbage among all objects of the worker, which takes longer than a small task.
"""

from __future__ import annotations

import gc
import os
import stat
import sys
import tempfile
import traceback
from pathlib import Path

from stratalog.errors import MissingDependencyError
from stratalog.files.reading import DiskReader
from stratalog.version import __version__

NUMBA_CACHE_VARIABLE = "NUMBA_CACHE_DIR"
MANY_OBJECTS = 10_000  # more than a task leaves behind, fewer than come with Numba


def require_version(planned_by: str) -> None:
    """MissingDependencyError if another version of Stratalog planned the work."""
    if planned_by != __version__:
        raise MissingDependencyError(
            f"the driver has stratalog {planned_by}, this worker ({sys.executable}) has {__version__}. "
            f"Install stratalog=={planned_by} on the workers, or ship one environment to both."
        )


def prepare_worker() -> None:
    """Prepare a worker process of Spark; call this before Numba is imported."""
    adapt_daemon()
    _set_kernel_cache()


def adapt_daemon() -> None:
    """Replace two modules in the daemon's code, which this process runs if it is a worker."""
    daemon = sys.modules["__main__"]
    if getattr(getattr(daemon, "__spec__", None), "name", None) == "pyspark.daemon":
        daemon.traceback = LastWords()  # type: ignore[attr-defined]
        daemon.gc = Cleanup()  # type: ignore[attr-defined]


class LastWords:
    """Replaces the module `traceback` in the daemon, which uses it only when a worker fails."""

    def print_exc(self) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc()

    def __getattr__(self, name: str) -> object:
        return getattr(traceback, name)


class Cleanup:
    """Replaces the module `gc` in the daemon, which calls `collect` after each task.

    PySpark, PyArrow and Numba make more than 100,000 objects that stay until the worker ends, and looking at
    them all takes 60 ms. So objects that survive the first task, or a later task that imports much, are
    left out of later looks. Garbage is not among them, because `collect` has just removed it. But objects
    that are left out may become garbage later, so when their number has doubled, all objects are looked at
    again. Why: docs/decisions/0050-what-a-query-of-spark-costs.md.
    """

    def __init__(self) -> None:
        self._left_out = self._left_out_first = 0  # objects

    def collect(self) -> int:
        if self._left_out > 2 * self._left_out_first:
            gc.unfreeze()
            self._left_out = 0
        found = gc.collect()
        survivors = len(gc.get_objects())
        if survivors > MANY_OBJECTS:
            gc.freeze()
            if self._left_out == 0:
                self._left_out_first = survivors
            self._left_out += survivors
        return found


def _set_kernel_cache() -> None:
    """Set a cache folder for compiled kernels if there is none.

    Numba keeps them beside the package or in the user's cache. A worker in a container often can write to
    neither, so every worker would compile them again.
    """
    if NUMBA_CACHE_VARIABLE in os.environ or "numba" in sys.modules or _has_own_place():
        return
    folder = Path(tempfile.gettempdir(), f"stratalog-numba-{_user()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return  # the kernels are compiled each time
    # Machine code is loaded from this folder, so nobody else may write to it.
    if stat.S_ISDIR(found.st_mode) and found.st_uid == _user() and not found.st_mode & 0o022:
        os.environ[NUMBA_CACHE_VARIABLE] = str(folder)


def wake_worker(_disk: DiskReader, _task: int) -> None:
    """A task for an engine: loads a kernel, so that a worker's first real task does not wait for it."""
    from stratalog.records.walk import walk_batches

    walk_batches(b"")


def _has_own_place() -> bool:
    package = Path(__file__).parent.parent / "records" / "kernels"
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
    return any(os.access(_nearest(place), os.W_OK | os.X_OK) for place in (package, home))


def _nearest(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    return next((each for each in (path, *path.parents) if each.exists()), path)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
