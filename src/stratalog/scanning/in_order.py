"""Runs tasks on threads and returns their results in the order of the tasks, in bounded memory.

Theory of operation. Threads take tasks in order. Each puts the items of its task on that task's shelf, and
the caller takes from the shelf of one task after the other. A thread waits while the shelves together hold
the budget or more. Only the thread of the current task, whose shelf the caller empties, may still add
items, up to the same budget; otherwise all would wait forever. So the shelves hold at most two budgets and
one item of each thread. The engine in `engine/` does not fit here: a task there has one result, which is held
until the task has ended.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Generic, TypeVar

_Task = TypeVar("_Task")
_Item = TypeVar("_Item")

_AHEAD = 4  # tasks for each thread that are begun before their turn
_NAME = "stratalog-scan"


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    tasks: Iterator[_Task],
    read: Callable[[_Task], Generator[_Item, None, None]],
    *,
    threads: int,
    size_of: Callable[[_Item], int],
    budget: int,
) -> Generator[_Item, None, None]:
    """The items that `read` yields for each task, in order. Closing the generator ends the threads.

    Only one thread at a time takes the next of `tasks`. The first error is raised after all items before it.
    """
    if threads <= 1:
        for task in tasks:
            with closing(read(task)) as items:
                yield from items
        return
    shelves = _Shelves(tasks, read, threads, size_of, budget)
    try:
        yield from shelves.take()
    finally:
        shelves.stop()


class _Shelf(Generic[_Item]):
    """The items of one task that were not taken yet."""

    __slots__ = ("error", "is_done", "items", "size")

    def __init__(self) -> None:
        self.items: deque[tuple[_Item, int]] = deque()
        self.size = 0
        self.is_done = False
        self.error: BaseException | None = None


class _Shelves(Generic[_Task, _Item]):
    """The threads, and the shelves that they fill."""

    def __init__(
        self,
        tasks: Iterator[_Task],
        read: Callable[[_Task], Generator[_Item, None, None]],
        threads: int,
        size_of: Callable[[_Item], int],
        budget: int,
    ) -> None:
        self._tasks, self._read = tasks, read
        self._size_of, self._budget = size_of, budget
        self._ahead = _AHEAD * threads
        self._choosing = threading.Lock()  # held by the thread that is getting its next task
        # Reentrant: if nobody refers to the generator any more, Python may close it in any thread, even in
        # one of these while it holds the lock.
        lock = threading.RLock()
        self._filled, self._emptied = threading.Condition(lock), threading.Condition(lock)
        self._shelves: dict[int, _Shelf[_Item]] = {}
        self._begun = self._current = self._size = 0
        self._is_exhausted = self._is_stopped = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{_NAME}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> Generator[_Item, None, None]:
        """Everything, in the order of the tasks."""
        while True:
            with self._filled:
                shelf = self._next_shelf()
                if shelf is None:
                    return
                if not shelf.items:
                    if shelf.error is not None:
                        raise shelf.error
                    del self._shelves[self._current]
                    self._current += 1
                    self._emptied.notify_all()
                    continue
                item, size = shelf.items.popleft()
                shelf.size -= size
                self._size -= size
                self._emptied.notify_all()
            yield item

    def _next_shelf(self) -> _Shelf[_Item] | None:
        """The shelf of the current task, once it has an item or its task has ended; None at the end."""
        while True:
            shelf = self._shelves.get(self._current)
            if shelf is not None and (shelf.items or shelf.is_done):
                return shelf
            if shelf is None and self._is_exhausted:
                return None
            self._filled.wait()

    def stop(self) -> None:
        """End the threads, and wait for them. If one of them calls this, it does not wait for itself."""
        with self._emptied:
            self._is_stopped = True
            self._emptied.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self) -> None:
        while (begun := self._begin()) is not None:
            number, shelf, task = begun
            error: BaseException | None = None
            try:
                with closing(self._read(task)) as items:
                    for item in items:
                        if not self._put(number, shelf, item):
                            return
            except BaseException as raised:  # raised again in the consumer
                error = raised
            self._end(shelf, error)

    def _begin(self) -> tuple[int, _Shelf[_Item], _Task] | None:
        """The next task with its number and its shelf; None if there is nothing more to do."""
        with self._choosing:
            with self._emptied:
                while self._begun >= self._current + self._ahead and not self._is_stopped:
                    self._emptied.wait()
                if self._is_stopped or self._is_exhausted:
                    return None
            shelf: _Shelf[_Item] = _Shelf()
            try:
                task = next(self._tasks, None)
            except BaseException as raised:  # an error of planning is also raised at its place in the order
                task, shelf.error, shelf.is_done = None, raised, True
            with self._filled:
                number = self._begun
                if task is not None or shelf.error is not None:
                    self._shelves[number] = shelf
                    self._begun += 1
                self._is_exhausted = task is None
                self._filled.notify()
            return None if task is None else (number, shelf, task)

    def _put(self, number: int, shelf: _Shelf[_Item], item: _Item) -> bool:
        """Put an item on the shelf once there is room; False if nobody takes items any more."""
        size = self._size_of(item)
        with self._emptied:
            while not self._is_stopped and self._is_full(number, shelf):
                self._emptied.wait()
            if self._is_stopped:
                return False
            shelf.items.append((item, size))
            shelf.size += size
            self._size += size
            if number == self._current:
                self._filled.notify()
        return True

    def _is_full(self, number: int, shelf: _Shelf[_Item]) -> bool:
        held = shelf.size if number == self._current else self._size
        return held >= self._budget

    def _end(self, shelf: _Shelf[_Item], error: BaseException | None) -> None:
        with self._filled:
            shelf.error, shelf.is_done = error, True
            self._filled.notify()
