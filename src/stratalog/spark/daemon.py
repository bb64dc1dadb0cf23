"""Spark's daemon that forks Python workers, without its tracebacks for workers that Spark itself stops.

A query with a LIMIT may be done before its tasks are, and a waiting query does not need idle workers: Spark
closes the connection to such workers. The daemon of PySpark 4.3 then prints a traceback of a BrokenPipeError
into the user's output.
"""

from __future__ import annotations

from socket import socket

from pyspark import daemon

_work = daemon.worker


def work(sock: socket, authenticated: bool) -> int:
    """Work for Spark until it no longer needs the worker."""
    try:
        return _work(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1  # the process ends, as it does after the traceback


if __name__ == "__main__":
    daemon.worker = work
    daemon.manager()
