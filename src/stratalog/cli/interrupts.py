"""A Ctrl-C that Python drops is raised again.

KeyboardInterrupt is raised wherever the interpreter is. If that is in the callback of a weak reference or in
`__del__`, Python prints "Exception ignored in" and continues, as if Ctrl-C had never been pressed: a command
that waits for records, such as `cat --follow`, would run on.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

# Raised at once, it would come inside the hook and be dropped again.
_LATER_S = 0.02


def raise_dropped_interrupts() -> None:
    """From now on, raise a KeyboardInterrupt again that was dropped; anything else is reported as before."""
    report = sys.unraisablehook

    def hook(dropped: UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            timer = threading.Timer(_LATER_S, _interrupt)
            timer.daemon = True
            timer.start()
        else:
            report(dropped)

    sys.unraisablehook = hook


def _interrupt() -> None:
    # To the main thread itself, so that its waiting call returns.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
