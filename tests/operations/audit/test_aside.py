"""A call beside other work: its result, its error, and that it does not hold up anything."""

from __future__ import annotations

import threading

import pytest

from stratalog.errors import UsageError
from stratalog.operations.audit.aside import Aside


def test_the_result_is_there_when_it_is_taken() -> None:
    gate = threading.Event()

    def wait() -> int:
        gate.wait()
        return 7

    aside = Aside(wait)
    gate.set()

    assert aside.result() == 7


def test_an_error_is_raised_where_the_result_is_taken() -> None:
    def fail() -> int:
        raise UsageError("no such topic")

    with pytest.raises(UsageError, match="no such topic"):
        Aside(fail).result()


def test_a_program_that_ends_does_not_wait() -> None:
    gate = threading.Event()
    Aside(gate.wait)

    thread = next(each for each in threading.enumerate() if each.name == "stratalog-aside")
    is_daemon = thread.daemon
    gate.set()
    thread.join()

    assert is_daemon
