"""Says why a command waits, if the reason is that kernels are being compiled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 1.0  # how long kernels compile before the user is told
_LOOK_S = 0.1
WORDS = (
    "Compiling kernels for this machine, which takes some seconds the first time. `stratalog warm` does it "
    "ahead of time."
)


class CompileNotice:
    """Listens to the compiler, and says WORDS once when compiling has taken PATIENCE_S in total."""

    def __init__(self, say: Callable[[str], object], *, patience_s: float = PATIENCE_S) -> None:
        self._say, self._patience_s = say, patience_s
        self._depth = 0  # kernels that are being compiled: one, and those that it calls
        self._began_s = self._spent_s = 0.0
        self._is_said = False
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    def __call__(self, begins: bool) -> None:
        """A compilation begins or ends."""
        with self._lock:
            self._depth += 1 if begins else -1
            now_s = time.monotonic()
            if begins and self._depth == 1:
                self._began_s = now_s
                if not self._is_said and self._watcher is None:
                    self._watcher = threading.Thread(target=self._watch, name="stratalog-notice", daemon=True)
                    self._watcher.start()
            elif not begins and self._depth == 0:
                self._spent_s += now_s - self._began_s

    def _watch(self) -> None:
        while self._is_busy():
            time.sleep(_LOOK_S)
        if self._is_said:
            self._say(WORDS)

    def _is_busy(self) -> bool:
        """Whether to look again; False if WORDS are now to be said, or if nothing is being compiled."""
        with self._lock:
            if self._depth:
                self._is_said = self._spent_s + time.monotonic() - self._began_s >= self._patience_s
                if not self._is_said:
                    return True
            self._watcher = None
            return False
