"""Receives on the driver what workers leave out of a read (`telling.py`).

    listener = Listener(spark, found.append)
    spark.read.format("stratalog").option(ADDRESS_OPTION, listener.address)

An omission counts once, even if it arrives by socket and by accumulator, from an attempt that Spark repeats,
or from a frame that is used again. When an action returns, the listener has received everything that its
tasks reported.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import socketserver
import tempfile
import threading
import traceback
import warnings
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission, warn_of
from stratalog.spark.engine import context_of
from stratalog.spark.telling import HEARD, SOCKET_NAME, ToldOmissions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A read warns of this many places one by one, and then once of all others.
WARNINGS_COUNT = 5
_LONGEST_FOLDER = 60  # the path of a socket may have about a hundred characters


class Listener:
    """Receives what the workers of one read leave out, and passes each place on once, in another thread."""

    _reads: ClassVar = count()

    def __init__(self, spark: SparkSession, on_omission: OnOmission) -> None:
        self._on_omission = on_omission
        self._known: set[Omission] = set()
        self._lock = threading.Lock()
        context, door, read = context_of(spark), _door(), next(self._reads)
        told = None if context is None else context.accumulator(frozenset(), ToldOmissions(self.hear))
        if door is not None:
            door.listeners[read] = self
        self.address = json.dumps(
            {
                "read": read,
                "socket": None if door is None else door.path,
                "accumulator": None if told is None else told.aid,
            }
        )

    def hear(self, omission: Omission) -> None:
        with self._lock:
            if omission in self._known:
                return
            self._known.add(omission)
            try:
                self._on_omission(omission)
            except Exception:
                traceback.print_exc()  # the server's thread must not end


class Warner:
    """Warns of the first places that a read leaves out, one by one, and once of all other places.

    It warns once of keys and once of values that could not be decoded: columns beside them give the reasons.
    """

    def __init__(self) -> None:
        self._count = 0
        self._undecoded: set[str] = set()

    def __call__(self, omission: Omission) -> None:
        if omission.kind is OmissionKind.UNDECODED:
            if omission.column not in self._undecoded:
                self._undecoded.add(omission.column)
                warn_of([omission])
            return
        self._count += 1
        if self._count <= WARNINGS_COUNT:
            warn_of([omission])
        elif self._count == WARNINGS_COUNT + 1:
            more = "more records were left out: give `read` a function as on_omission to get each place."
            warnings.warn(more, stacklevel=1)


class _Door(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """The socket of this process, which all of its listeners share."""

    address_family = getattr(socket, "AF_UNIX", socket.AF_INET)  # not used on Windows, which has no AF_UNIX
    daemon_threads = True

    def __init__(self) -> None:
        parent = tempfile.gettempdir()
        place = parent if len(parent) < _LONGEST_FOLDER else "/tmp"
        folder = tempfile.mkdtemp(prefix="stratalog-", dir=place)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self.path = f"{folder}/{SOCKET_NAME}"
        self.process_id = os.getpid()
        self.listeners: dict[int, Listener] = {}
        super().__init__(self.path, _Hearing)  # type: ignore[arg-type]  # a path instead of host and port
        threading.Thread(target=self.serve_forever, name="stratalog-listener", daemon=True).start()


class _Hearing(socketserver.StreamRequestHandler):
    """Receives the lines of one worker, one for each omission, and answers each."""

    def handle(self) -> None:
        assert isinstance(self.server, _Door)
        for line in self.rfile:
            message = json.loads(line)
            self.server.listeners[message["read"]].hear(Omission.from_json(message["omission"]))
            self.wfile.write(HEARD)


_opened: list[_Door] = []
_opening = threading.Lock()


def _door() -> _Door | None:
    """The socket of this process; None on a system that has no such sockets."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    with _opening:
        if not _opened or _opened[-1].process_id != os.getpid():
            _opened.append(_Door())
        return _opened[-1]
