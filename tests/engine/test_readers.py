"""Readers of devices: the order of their tasks, how many there are, how they end, and what waits for whom."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from stratalog.engine.devices import Device
from stratalog.engine.engine import TaskOutcome
from stratalog.engine.progress import DeviceUse
from stratalog.engine.readers import MOST_WAITING, read_devices
from stratalog.errors import CorruptRecordError
from stratalog.files.disk import DiskReader
from stratalog.files.simulated import SimulatedDisk
from tests.waiting import PATIENCE_S

DISK_A, DISK_B = Device(1, "a"), Device(2, "b")


def scan_all(
    tasks: Mapping[Device, Sequence[object]],
    run: Callable[..., object],
    *,
    outcomes: list[TaskOutcome[object, object]] | None = None,
    **more: object,
) -> tuple[DeviceUse, ...]:
    """Run all tasks to their end; how each device was used."""
    queues = {device: [*enumerate(found)] for device, found in tasks.items()}
    reading = read_devices(queues, run, **more)  # type: ignore[arg-type]
    while True:
        try:
            outcome = next(reading)
        except StopIteration as ended:
            uses: tuple[DeviceUse, ...] = ended.value
            return uses
        if outcomes is not None:
            outcomes.append(outcome)


def contents(names: list[str], size: int = 100_000) -> SimulatedDisk:
    return SimulatedDisk.of({f"/data/{name}": bytes(size) for name in names})


def test_every_task_is_run_once_and_each_device_in_order() -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}
    tasks = {device: [f"{device.name}{number:03d}" for number in range(50)] for device in (DISK_A, DISK_B)}

    uses = scan_all(tasks, lambda _, task: seen[task[0]].append(task), disk=SimulatedDisk(), readers=1)

    assert seen == {"a": tasks[DISK_A], "b": tasks[DISK_B]}
    assert [use.device for use in uses] == [DISK_A, DISK_B]


def test_bytes_are_counted_by_device() -> None:
    disk = contents(["x", "y"])

    def read(door: DiskReader, name: str) -> None:
        with door.open_read(f"/data/{name}") as file:
            door.read_into(file, memoryview(bytearray(70_000)), 50_000)

    uses = scan_all({DISK_A: ["x", "y"], DISK_B: ["x"]}, read, disk=disk)

    assert [use.bytes_read for use in uses] == [100_000, 50_000]


def test_as_many_readers_as_the_caller_says_run_at_once() -> None:
    together = threading.Barrier(3)

    uses = scan_all(
        {DISK_A: list(range(3))},
        lambda *_: together.wait(timeout=PATIENCE_S),
        disk=SimulatedDisk(),
        readers=3,
    )

    assert uses[0].most_readers == 3


def test_what_a_task_raises_ends_all_readers_and_is_raised() -> None:
    disk = contents(["x"])
    begun = threading.Barrier(2)

    def run(door: DiskReader, task: str) -> None:
        if task == "fails":
            begun.wait(timeout=PATIENCE_S)
            raise ZeroDivisionError
        begun.wait(timeout=PATIENCE_S)
        while True:  # ended at one of its reads
            door.read_at("/data/x", 10, 0)

    with pytest.raises(ZeroDivisionError):
        scan_all({DISK_A: ["endless"], DISK_B: ["fails"]}, run, disk=disk)


def test_a_reader_too_many_is_held_up_inside_its_task() -> None:
    """The clock advances with the bytes read, and faster with two readers: so one reader measures better."""
    disk = contents(["x"], size=4096)
    lock, reads = threading.Lock(), Counter[int]()
    state = {"now": 0.0, "last": 0}

    def run(door: DiskReader, _: int) -> None:
        buffer = memoryview(bytearray(4096))
        me = threading.get_ident()
        for _ in range(20_000):
            door.read_into("/data/x", buffer, 0)
            with lock:
                state["now"] += 0.002 if state["last"] == me else 0.02
                state["last"] = me
                reads[me] += 1

    uses = scan_all({DISK_A: [1, 2, 3]}, run, disk=disk, monotonic=lambda: state["now"])

    assert uses[0].bytes_read == 3 * 20_000 * 4096
    assert uses[0].most_readers == 2
    # The second reader may go on when no task is left: in the last third of the work.
    assert min(reads.values()) < max(reads.values()) * 0.6


def test_nothing_to_read_ends_at_once() -> None:
    assert scan_all({}, lambda *_: None, disk=SimulatedDisk()) == ()
    assert scan_all({DISK_A: []}, lambda *_: None, disk=SimulatedDisk())[0].bytes_read == 0


def test_an_error_of_ours_is_the_outcome_of_its_task_and_the_others_go_on() -> None:
    def run(_: DiskReader, task: int) -> int:
        if task == 1:
            raise CorruptRecordError("planted", position=7)
        return task * 10

    outcomes: list[TaskOutcome[object, object]] = []
    scan_all({DISK_A: [0, 1, 2]}, run, disk=SimulatedDisk(), readers=1, outcomes=outcomes)

    assert [outcome.number for outcome in outcomes] == [0, 1, 2]
    assert [outcome.value for outcome in outcomes if outcome.error is None] == [0, 20]
    with pytest.raises(CorruptRecordError, match="planted"):
        _ = outcomes[1].result


def test_readers_wait_for_whoever_takes_the_outcomes() -> None:
    begun: list[int] = []
    tasks = [*enumerate(range(100))]

    reading = read_devices(
        {DISK_A: tasks}, lambda _, task: begun.append(task), disk=SimulatedDisk(), readers=1
    )
    with closing(reading):
        next(reading)
        # The first call took what was there; after that, this many wait, and the reader holds one more.
        for _ in range(1000):
            before = len(begun)
            threading.Event().wait(0.001)
            if len(begun) == before and before > MOST_WAITING:
                break

    assert len(begun) <= 2 * MOST_WAITING + 2


def test_a_task_may_read_ahead_in_a_thread_of_its_own() -> None:
    disk = contents(["x"])

    def run(door: DiskReader, _: int) -> bytes:
        with ThreadPoolExecutor(1) as helper:
            return helper.submit(door.read_at, "/data/x", 10, 0).result()

    outcomes: list[TaskOutcome[object, object]] = []
    uses = scan_all({DISK_A: [0]}, run, disk=disk, outcomes=outcomes)

    assert [outcome.value for outcome in outcomes] == [bytes(10)]
    assert uses[0].bytes_read == 10


def test_closing_ends_readers_in_the_middle_of_their_tasks() -> None:
    disk = contents(["x"])
    begun = threading.Event()

    def run(door: DiskReader, task: int) -> None:
        if task:
            begun.set()
            while True:  # ended at one of its reads
                door.read_at("/data/x", 10, 0)

    reading = read_devices({DISK_A: [(0, 0), (1, 1)]}, run, disk=disk, readers=1)
    with closing(reading):
        assert next(reading).number == 0
        assert begun.wait(PATIENCE_S)

    assert not [thread for thread in threading.enumerate() if thread.name == "stratalog-a"]
