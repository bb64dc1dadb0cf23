"""Raises Ctrl-C again if Python has dropped it.

Python raises KeyboardInterrupt wherever the program is at that moment. If that is in the callback of a weak
reference or in `__del__`, Python prints "Exception ignored in" and continues, as if Ctrl-C had not been
pressed. A command that waits for records, such as `cat --follow`, would then continue.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import CodeType

_LATER_S = 0.02


def raise_dropped_interrupts() -> None:
    """From now on, raise every dropped KeyboardInterrupt again; other exceptions are reported as before."""
    report = sys.unraisablehook

    def hook(dropped: UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            threading.Thread(target=_interrupt, args=[hook.__code__], daemon=True).start()
        else:
            report(dropped)

    sys.unraisablehook = hook


def _interrupt(hook: CodeType) -> None:
    """Interrupt the main thread when it has left the hook, in which the interrupt would be dropped again."""
    main = threading.main_thread().ident or 0
    time.sleep(_LATER_S)
    while _is_inside(main, hook):  # on a busy machine, it may still be there
        time.sleep(_LATER_S)
    # Sent to the main thread itself, so that a call in which it waits returns.
    signal.pthread_kill(main, signal.SIGINT)


def _is_inside(thread: int, code: CodeType) -> bool:
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
