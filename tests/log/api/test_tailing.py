"""Following a log: its records as they come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from stratalog import ConsumerRecord, PartitionLog, open_log
from stratalog.errors import DiskError, OffsetOutOfRangeError, UsageError
from stratalog.signals import GracefulStop
from tests.log.api.opened import FailingDisk, Turns, values
from tests.log.model import NOW, ManualClock


def test_a_tail_gives_what_comes_until_it_is_stopped(log: PartitionLog) -> None:
    log.append(b"before")
    stop = Turns(lambda: log.append_many([b"a", b"b"]), lambda: None, lambda: log.append(b"c"))

    assert values(log.tail(stop=stop)) == [b"a", b"b", b"c"]


def test_a_tail_of_a_log_that_has_failed_does_not_wait_for_ever(directory: Path) -> None:
    disk = FailingDisk()
    log = open_log(directory, create=True, disk=disk)
    log.append(b"a")

    def fail() -> None:
        disk.failing = "write_at"
        with pytest.raises(DiskError):
            log.append(b"b")

    following = log.tail(0, stop=Turns(fail, lambda: None))

    assert next(following).value == b"a"
    with pytest.raises(DiskError, match="input/output error"):
        list(following)
    log.close()


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(1), lambda log: log.delete_records(5)])
def test_a_tail_is_told_when_its_place_is_gone(
    log: PartitionLog, cut: Callable[[PartitionLog], object]
) -> None:
    for value in (b"a", b"b", b"c"):
        log.append(value)

    def append_and_cut() -> None:
        log.append_many([b"d", b"e", b"f"])
        cut(log)

    following = log.tail(stop=Turns(append_and_cut))

    with pytest.raises(OffsetOutOfRangeError):
        list(following)


def test_a_tail_can_begin_in_the_past(log: PartitionLog) -> None:
    log.append(b"a", timestamp=NOW)
    log.append(b"b", timestamp=NOW + 5)

    assert values(log.tail(0, stop=Turns())) == [b"a", b"b"]
    assert values(log.tail(since=NOW + 1, stop=Turns())) == [b"b"]


def test_a_tail_ends_when_nothing_has_come_for_a_while(directory: Path) -> None:
    clock = ManualClock()
    with open_log(directory, create=True, clock=clock) as log:
        waits = [lambda: clock.sleep(400), lambda: log.append(b"a"), *[lambda: clock.sleep(400)] * 5]
        stop = Turns(*waits)

        assert values(log.tail(timeout_ms=1000, stop=stop)) == [b"a"]
        assert len(stop.turns) == 2


def test_a_tail_of_another_thread_ends_by_its_event(log: PartitionLog) -> None:
    stop, found = threading.Event(), []

    def follow() -> None:
        for record in log.tail(0, poll_ms=1, stop=stop):
            found.append(record.value)
            if record.value == b"last":
                stop.set()

    reader = threading.Thread(target=follow)
    reader.start()
    for value in (b"a", b"b", b"last"):
        log.append(value)
    reader.join(10)

    assert found == [b"a", b"b", b"last"]


# For asyncio


async def values_of(following: AsyncIterator[ConsumerRecord]) -> list[bytes | None]:
    return [record.value async for record in following]


def test_a_tail_in_a_loop_gives_what_comes_while_the_loop_goes_on(log: PartitionLog) -> None:
    log.append(b"before")

    async def main() -> tuple[list[bytes | None], int]:
        stop, turns = asyncio.Event(), 0
        following = asyncio.create_task(values_of(log.tail_async(poll_ms=1, stop=stop)))
        for value in (b"a", b"b", b"c"):
            await asyncio.sleep(0.02)
            log.append(value)
            turns += 1
        await asyncio.sleep(0.1)
        stop.set()
        return await following, turns

    assert asyncio.run(main()) == ([b"a", b"b", b"c"], 3)


def test_a_stop_ends_a_tail_in_a_loop_at_once(log: PartitionLog) -> None:
    async def main() -> list[bytes | None]:
        stop = asyncio.Event()
        following = asyncio.create_task(values_of(log.tail_async(poll_ms=3_600_000, stop=stop)))
        await asyncio.sleep(0.05)
        stop.set()
        return await asyncio.wait_for(following, 30)

    assert asyncio.run(main()) == []


@pytest.mark.parametrize("make", [threading.Event, GracefulStop])
def test_any_event_ends_a_tail_in_a_loop(
    log: PartitionLog, make: Callable[[], threading.Event | GracefulStop]
) -> None:
    log.append_many([b"a", b"b"])

    async def main() -> list[bytes | None]:
        stop, seen = make(), []
        async for record in log.tail_async(0, poll_ms=1, stop=stop):
            seen.append(record.value)
            stop.set()
        return seen

    assert asyncio.run(main()) == [b"a"]


def test_a_tail_in_a_loop_reads_a_long_log_to_its_end(log: PartitionLog) -> None:
    sent = [str(number).encode() for number in range(3000)]
    log.append_many(sent)

    assert asyncio.run(values_of(log.tail_async(0, timeout_ms=0))) == sent


def test_a_tail_in_a_loop_can_be_left_and_cancelled(log: PartitionLog) -> None:
    log.append_many([b"a", b"b"])

    async def main() -> None:
        async for record in log.tail_async(0, poll_ms=1):
            assert record.value == b"a"
            break
        task = asyncio.create_task(values_of(log.tail_async(poll_ms=1)))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert log.append(b"c") == 2


def test_a_tail_in_a_loop_is_told_when_its_place_is_gone(log: PartitionLog) -> None:
    log.append(b"a")
    log.append(b"b")

    async def main() -> None:
        async for _ in log.tail_async(1, poll_ms=1, timeout_ms=30_000):
            log.truncate_to(0)

    with pytest.raises(OffsetOutOfRangeError):
        asyncio.run(main())


def test_a_tail_in_a_loop_follows_what_another_process_writes(directory: Path) -> None:
    """A view looks at the files again before it gives the next records."""
    with open_log(directory, create=True) as log, open_log(directory, read_only=True) as view:

        async def main() -> bytes | None:
            following = view.tail_async(poll_ms=1, timeout_ms=30_000)
            coming = asyncio.ensure_future(anext(following))
            await asyncio.sleep(0.02)
            log.append(b"a")
            return (await coming).value

        assert asyncio.run(main()) == b"a"


@pytest.mark.parametrize("poll_ms", [2**64, 2**2000, float("inf"), float("nan"), True])
def test_a_tail_that_no_thread_can_wait_for_is_refused_in_words(log: PartitionLog, poll_ms: float) -> None:
    with pytest.raises(UsageError, match=r"^poll_ms is "):
        log.tail(poll_ms=poll_ms)
    with pytest.raises(UsageError, match=r"^poll_ms is "):
        log.tail_async(poll_ms=poll_ms)


def test_a_tail_may_wait_for_ever(log: PartitionLog) -> None:
    log.append(b"a")

    assert next(log.tail(0, timeout_ms=float("inf"))).value == b"a"
