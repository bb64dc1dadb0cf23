"""`ThreadEngine`: tasks in this process. Most of the work is in kernels, which release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from stratalog.engine.devices import Device, device_number, numbered_device
from stratalog.engine.engine import Result, Task, TaskFunction, TaskOutcome, largest_first, task_sizes
from stratalog.engine.progress import DeviceUse, OnProgress, Progress
from stratalog.engine.readers import read_devices
from stratalog.files.reading import DiskReader

_ANY_DEVICE = Device(0, "tasks")


class ThreadEngine:
    """Runs tasks on threads: with paths, as many threads for each device as it can use; else one for each
    core.

    `workers` fixes that number. Tasks read through `disk`.
    """

    def __init__(self, workers: int | None = None, *, disk: DiskReader | None = None) -> None:
        self._workers = workers
        self._disk = disk or DiskReader()

    def run(
        self,
        function: TaskFunction[Task, Result],
        tasks: Sequence[Task],
        *,
        sizes: Sequence[int] | None = None,
        paths: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
        is_wanted: Callable[[int], bool] | None = None,
    ) -> Generator[TaskOutcome[Task, Result], None, None]:
        """As `Engine.run`. `is_wanted` is called when a task's turn comes, in any thread."""
        size_of = task_sizes(len(tasks), sizes)
        queues, totals = self._queues(tasks, size_of, paths)
        workers = self._workers or (None if paths is not None else os.cpu_count() or 1)
        tasks_done = size_done = 0

        def tell(uses: Sequence[DeviceUse]) -> None:
            if on_progress is not None:
                on_progress(_progress(uses, totals, tasks_done, len(tasks), size_done, paths is not None))

        reading = read_devices(
            queues, function, disk=self._disk, readers=workers, on_reading=tell, is_wanted=is_wanted
        )
        try:
            while True:
                try:
                    outcome = next(reading)
                except StopIteration as ended:
                    tell(ended.value)
                    return
                tasks_done, size_done = tasks_done + 1, size_done + size_of[outcome.number]
                yield outcome
        finally:
            reading.close()

    def _queues(
        self, tasks: Sequence[Task], size_of: Sequence[int], paths: Sequence[str] | None
    ) -> tuple[dict[Device, list[tuple[int, Task]]], dict[Device, int]]:
        """The tasks of each device with their numbers, and their total bytes."""
        queues: dict[Device, list[tuple[int, Task]]] = {}
        totals: dict[Device, int] = {}
        numbers: dict[str, int] = {}
        known: dict[int, Device] = {}
        for number in range(len(tasks)) if paths is not None else largest_first(size_of):
            device = _ANY_DEVICE
            if paths is not None:
                path = paths[number]
                if path not in numbers:
                    numbers[path] = device_number(self._disk, path)
                found = numbers[path]
                if found not in known:
                    known[found] = numbered_device(found)
                device = known[found]
            queues.setdefault(device, []).append((number, tasks[number]))
            totals[device] = totals.get(device, 0) + size_of[number]
        return queues, totals


def _progress(
    uses: Sequence[DeviceUse],
    totals: dict[Device, int],
    tasks_done: int,
    tasks_count: int,
    size_done: int,
    has_devices: bool,
) -> Progress:
    total = sum(totals.values())
    devices = tuple(replace(use, bytes_total=totals.get(use.device, 0)) for use in uses)
    read = sum(min(use.bytes_read, use.bytes_total) for use in devices)
    return Progress(
        bytes_done=max(size_done, read),
        bytes_total=total,
        rate=sum(use.rate for use in uses),
        tasks_done=tasks_done,
        tasks_count=tasks_count,
        devices=devices if has_devices else (),
    )
