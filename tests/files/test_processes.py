"""What belongs to the process that opened it, after a fork."""

from __future__ import annotations

import sys

import pytest

from stratalog.files.processes import Opener
from tests.programs import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

FORKING = """
import os, signal
from stratalog.errors import WrongProcessError
from stratalog.files import processes

signal.alarm(100)

class Copied:
    told = 0
    def start_over_in_child(self):
        self.told += 1

opener, copied, forgotten = processes.Opener(), Copied(), Copied()
processes.tell_in_child(copied)
processes.tell_in_child(forgotten)
processes.forget(forgotten)
child = os.fork()
if not child:
    try:
        opener.check("/logs/a-0")
    except WrongProcessError as error:
        named = (error.opener, error.pid) == (os.getppid(), os.getpid()) and "/logs/a-0" in str(error)
    print(opener.is_here, named, processes.Opener().is_here, copied.told, forgotten.told, flush=True)
    os._exit(0)
os.waitpid(child, 0)
opener.check("/logs/a-0")
print(opener.is_here, copied.told, flush=True)
"""


def test_a_forked_child_is_told_and_may_not_change_what_its_parent_opened() -> None:
    with Program(FORKING) as program:
        assert program.line() == "False True True 1 0"
        assert program.line() == "True 0"


def test_the_process_that_opened_something_may_change_it() -> None:
    opener = Opener()

    opener.check("/logs/a-0")
    assert opener.is_here
