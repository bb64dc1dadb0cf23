"""Whether a log manager may be used: once, from start to end, and only in the process that started it."""

from __future__ import annotations

import threading

from stratalog.errors import UsageError
from stratalog.files.processes import Opener, tell_in_child


class ManagerLife:
    """The state of one manager, and the lock that guards its logs. `path` is named in errors."""

    def __init__(self, path: str) -> None:
        self.lock = threading.RLock()
        self._path = path
        self._is_open = False
        self._was_shut_down = False
        self._opener = Opener()
        tell_in_child(self)

    def begin(self) -> None:
        """UsageError unless it may be started now. Remembers this process as the one that started it."""
        if self._is_open:
            self.check_opener()
            raise UsageError("this log manager was already started.")
        if self._was_shut_down:
            raise UsageError("this log manager was shut down; make another one to open the logs again.")
        self._opener = Opener()

    def open(self) -> None:
        """Called when the manager is started, and may be used."""
        self._is_open = True

    def end(self) -> bool:
        """End its use; False if it was not open."""
        with self.lock:
            was_open, self._is_open = self._is_open, False
            self._was_shut_down |= was_open
            return was_open

    @property
    def is_here(self) -> bool:
        """Whether this is the process that started it, and not a forked child."""
        return self._opener.is_here

    def check_open(self) -> None:
        """UsageError unless it is open; WrongProcessError in a forked child."""
        if not self._is_open:
            raise UsageError("this log manager was not started yet, or was shut down.")
        self.check_opener()

    def check_opener(self) -> None:
        """WrongProcessError in a forked child."""
        self._opener.check(self._path)

    def start_over_in_child(self) -> None:
        """After a fork: this process may only read, and the manager's threads do not exist here."""
        self.lock = threading.RLock()
