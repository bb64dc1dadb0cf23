"""Reports to the driver what a worker leaves out of a read. Spark itself has no channel for that.

There are two ways, and both lead to the `listening.Listener` of the read. A message through a socket on the
driver's machine arrives at once, even if the query then stops early, as with a LIMIT. A Spark accumulator
arrives from any machine, but only with a task that has ended normally. A worker that is not on the driver's
machine also writes to its stderr. docs/decisions/0028-telling-the-driver.md has the reasons.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

from pyspark.accumulators import AccumulatorParam, _deserialize_accumulator

from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission

# Not for users: the option that says where a worker reports what it leaves out.
ADDRESS_OPTION = "tellOmissionsTo"
SOCKET_NAME = "stratalog.sock"
HEARD = b"\n"  # the answer to each line
_PATIENCE_S = 10.0  # how long to wait for a busy driver


class ToldOmissions(AccumulatorParam[frozenset[Omission]]):
    """Adds up omissions in a worker; on the driver it passes them on and keeps none."""

    def __init__(self, hear: OnOmission | None = None) -> None:
        self._hear = hear

    def zero(self, value: frozenset[Omission]) -> frozenset[Omission]:  # noqa: ARG002 (Spark's signature)
        return frozenset()

    def addInPlace(  # noqa: N802 (Spark's name)
        self, value1: frozenset[Omission], value2: frozenset[Omission]
    ) -> frozenset[Omission]:
        if self._hear is None:
            return value1 | value2
        for omission in value2:
            self._hear(omission)
        return value1


def teller(address: str | None) -> OnOmission:
    """The function that a task calls for each omission; `address` is that of the read's listener, if any."""
    return tell_stderr if address is None else _Teller(address)


def tell_stderr(omission: Omission) -> None:
    """For a read without a listener, or whose listener cannot be reached.

    On a cluster, stderr is in the executor's log.
    """
    what = "not decoded" if omission.kind is OmissionKind.UNDECODED else "records were left out"
    print(f"stratalog: {what}: {omission}", file=sys.stderr, flush=True)


class _Teller:
    def __init__(self, address: str) -> None:
        given = json.loads(address)
        self._read, self._path = given["read"], given["socket"]
        aid = given["accumulator"]
        self._sum = None if aid is None else _deserialize_accumulator(aid, frozenset(), ToldOmissions())

    def __call__(self, omission: Omission) -> None:
        if self._sum is not None:
            self._sum.add(frozenset([omission]))
        if not self._send(omission):  # the accumulator does not arrive if the query stops early
            tell_stderr(omission)

    def _send(self, omission: Omission) -> bool:
        """Send it through the socket, and wait for the answer; False if that fails, as on another machine."""
        if self._path is None or not _is_ours(Path(self._path)):
            return False
        message = {"read": self._read, "omission": omission.to_json()}
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_PATIENCE_S)
                connection.connect(self._path)
                connection.sendall(json.dumps(message).encode() + b"\n")
                return connection.recv(len(HEARD)) == HEARD
        except OSError:
            self._path = None  # the next message would not arrive either
            return False


def _is_ours(path: Path) -> bool:
    """Whether this is the socket of a listener of the same user.

    The path comes from an option, which anybody who writes a query can set, so it is not trusted.
    """
    try:
        folder = path.parent.stat()
    except OSError:
        return False
    return path.name == SOCKET_NAME and folder.st_uid == os.getuid() and not folder.st_mode & 0o077
