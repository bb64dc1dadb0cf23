"""Free loopback ports for processes that need a given port."""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack

from tests.kafka.tools import KafkaError
from tests.waiting import until


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:  # all are bound before any is released, so that no port comes twice
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def wait_until_served(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when something accepts connections at the port; KafkaError if `process` dies before."""

    def is_served() -> bool:
        if process.poll() is not None:
            raise KafkaError(f"what was to serve port {port} of loopback ended with {process.returncode}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(is_served, f"port {port} of loopback is served")
