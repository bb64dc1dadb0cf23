"""How far a piece of work is, and how long it will still take."""

from __future__ import annotations

from stratalog.engine.devices import Device
from stratalog.engine.progress import DeviceUse, Progress

DISK_A, DISK_B = Device(1, "a"), Device(2, "b")


def test_the_time_left_is_that_of_the_slowest_device() -> None:
    fast = use_of(DISK_A, bytes_read=50, rate=50.0)
    slow = use_of(DISK_B, bytes_read=0, rate=10.0)

    assert Progress(devices=(fast, slow)).seconds_left == 10.0


def test_the_time_left_is_not_known_before_anything_was_read() -> None:
    waiting = use_of(DISK_A, bytes_read=0, rate=0.0)

    assert Progress(devices=(waiting,)).seconds_left is None


def use_of(device: Device, *, bytes_read: int, rate: float) -> DeviceUse:
    return DeviceUse(
        device=device,
        bytes_read=bytes_read,
        bytes_total=100,
        seconds=1.0,
        rate=rate,
        readers=1,
        most_readers=1,
        busy=None,
    )
