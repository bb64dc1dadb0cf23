"""Runs a function beside other work, in a thread that ends with the program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Aside(Generic[R]):
    """A call that begins now and whose result is taken later.

    Its thread is a daemon: a program that is interrupted meanwhile does not wait for it.
    """

    def __init__(self, function: Callable[[], R]) -> None:
        self._function = function
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="stratalog-aside", daemon=True)
        self._thread.start()

    def result(self) -> R:
        """Waits for the call; raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._function())
        except BaseException as error:  # raised again where the result is taken
            self._error = error
