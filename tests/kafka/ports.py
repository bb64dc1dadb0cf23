"""Loopback ports for processes that want to be told theirs."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import ExitStack

from tests.kafka.tools import KafkaError


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:  # all are bound before any is let go, or one port might come twice
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def wait_until_served(port: int, process: subprocess.Popen[bytes], timeout_s: float = 60) -> None:
    """Return when something accepts connections at the port; KafkaError if `process` dies before."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise KafkaError(f"nothing serves port {port} of loopback")
