"""Spark's daemon that forks the Python workers of tasks, less its word about workers that Spark itself stops.

A query with a LIMIT has enough before its tasks are through, and one that waits has no use for idle workers:
Spark closes the connection to them. The daemon of PySpark 4.3 then prints a traceback of a BrokenPipeError,
amid what the user came to read.
"""

from __future__ import annotations

from socket import socket

from pyspark import daemon

_work = daemon.worker


def work(sock: socket, authenticated: bool) -> int:
    """Work for Spark until the worker is not needed any more."""
    try:
        return _work(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1  # the process ends, as it does behind the traceback


if __name__ == "__main__":
    daemon.worker = work
    daemon.manager()
