"""The progress of `estimate`, `compact` and `erase`: bytes that were read, up to all of them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stratalog.config import ManagerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.engine.progress import OnProgress, Progress
from stratalog.files.disk import Disk
from stratalog.log.cleaning.erase_selection import Selection
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.operations.compact import Compaction
from stratalog.operations.erase.erasure import Erasure
from stratalog.operations.estimate import Estimation
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.read_progress import ReadProgress
from stratalog.operations.retain import Retention
from tests.cli.planting import Planted
from tests.log.model import NOW, batch

COMPACTED: dict[str, Any] = {"cleanup.policy": "compact"}
DELETED: dict[str, Any] = {"cleanup.policy": "delete", "retention.ms": -1}


class Watcher:
    """Records the progress events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []
        self.stages: dict[str, Watcher] = {}

    def __call__(self, progress: Progress) -> None:
        self.told.append((progress.part, progress.bytes_done, progress.bytes_total))
        if progress.stage:
            self.stages.setdefault(progress.stage, Watcher())(replace(progress, stage=""))

    @property
    def total(self) -> int:
        """That of the whole run, when it never went back, and went to its end."""
        done = [done for _, done, _ in self.told]
        (total,) = {total for _, _, total in self.told}
        assert done == sorted(done)
        assert done[-1] == total
        return total

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(words for words, _, _ in self.told))


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Two compacted topics of twenty-one records and one that is not; the active segment has one record."""
    with Planted(tmp_path, a=COMPACTED, b=COMPACTED, c=DELETED) as planted:
        for topic in "abc":
            planted.fill(topic, 21, keys=3)
    return planted


def maintenance(planted: Planted, *, dry_run: bool = False) -> Maintenance:
    return Maintenance(
        directories=[str(planted.data)], sources=sources(planted), dry_run=dry_run, clock=lambda: NOW
    )


def compaction(*, rehearses: bool = False, map_size: int = 24_000) -> Compaction:
    return Compaction(ManagerConfig(log_cleaner_dedupe_buffer_size=map_size), rehearses=rehearses)


def erasure(planted: Planted, key: bytes, *, dry_run: bool = False) -> Erasure:
    return Erasure(
        directories=[str(planted.data)],
        names=["a"],
        selection=Selection.of([key]),
        sources=sources(planted),
        dry_run=dry_run,
        clock=lambda: NOW,
    )


def sources(planted: Planted) -> TopicSources:
    return TopicSources(topic_settings=planted.settings.read_text())


def size_of(planted: Planted, topic: str, *, of_active: bool = True) -> int:
    logs = sorted((planted.data / f"{topic}-0").glob("*.log"))
    return sum(path.stat().st_size for path in (logs if of_active else logs[:-1]))


def test_compact_counts_what_is_dirty_twice(planted: Planted) -> None:
    expected = sum(size_of(planted, topic) + size_of(planted, topic, of_active=False) for topic in "ab")
    watcher = Watcher()

    maintenance(planted).run(compaction(), watcher)

    assert watcher.total == expected
    assert watcher.names == ["a-0", "b-0"]
    # More than the ends of the two: what was read of each, in between.
    assert len({done for _, done, _ in watcher.told}) > 2


def test_compact_in_several_passes_stays_within_its_part(planted: Planted) -> None:
    watcher = Watcher()

    report = maintenance(planted).run(compaction(map_size=24 * 3), watcher)

    assert any(work.cleaned is not None and work.cleaned.passes > 1 for work in report.partitions)
    assert watcher.total > 0


def test_a_dry_run_of_compact_counts_the_logs_that_are_compacted(planted: Planted) -> None:
    watcher = Watcher()

    maintenance(planted, dry_run=True).run(compaction(rehearses=True), watcher)

    assert watcher.total == 2 * (size_of(planted, "a") + size_of(planted, "b"))
    assert watcher.names == ["a-0", "b-0"]
    assert len({done for _, done, _ in watcher.told}) > 2


def test_nothing_is_told_where_nothing_is_read(planted: Planted) -> None:
    maintenance(planted).run(compaction())
    watcher = Watcher()

    maintenance(planted).run(compaction(), watcher)
    maintenance(planted).run(Retention(), watcher)

    assert watcher.told == []


def test_estimate_counts_each_log_twice(planted: Planted) -> None:
    watcher = Watcher()

    Estimation(
        directories=[str(planted.data)],
        sources=sources(planted),
        manager=ManagerConfig(log_cleaner_dedupe_buffer_size=24_000),
        clock=lambda: NOW,
    ).run(watcher)

    assert watcher.total == 2 * sum(size_of(planted, topic) for topic in "abc")
    assert watcher.names == ["a", "b", "c"]


def test_erase_counts_what_it_looks_through_and_what_it_rewrites(planted: Planted) -> None:
    size, with_the_key = size_of(planted, "a"), size_of(planted, "a", of_active=False)
    watcher = Watcher()

    erasure(planted, b"0").run(watcher)

    looked, erased = watcher.stages["looking through"], watcher.stages["erasing from"]
    assert looked.total == size
    # The old file is read to be rewritten, compared and hashed; the new one to be compared and hashed.
    assert erased.total == 5 * with_the_key
    assert looked.names == erased.names == ["a-0"]
    assert len({done for _, done, _ in erased.told}) > 4


def test_erase_counts_what_is_in_quarantine(planted: Planted) -> None:
    path = planted.data / "a-0" / f"{5:020d}.log"
    kept = path.stat().st_size
    Quarantine(Disk(), planted.data).keep_range(
        path, partition="a-0", file=path.name, position=0, size=kept, reason="for the test"
    )
    watcher = Watcher()

    erasure(planted, b"0", dry_run=True).run(watcher)

    assert watcher.total == size_of(planted, "a") + kept


def test_who_watches_is_told_in_the_thread_that_asked(tmp_path: Path) -> None:
    """Even if another thread reads large parts: progress is reported in one thread."""
    with Planted(tmp_path, a={**COMPACTED, "internal.segment.bytes": 8 << 20}) as planted:
        log = planted.log("a")
        for number in range(9):
            data = batch(bytes(600_000), key=b"%d" % (number % 3))
            log.append_as_leader(data, leader_epoch=0)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    threads: set[threading.Thread] = set()

    def watcher(_: Progress) -> None:
        threads.add(threading.current_thread())

    maintenance(planted).run(compaction(), watcher)
    erasure(planted, b"0").run(watcher)

    assert threads == {threading.current_thread()}


def test_a_part_counts_for_what_it_was_thought_to_take() -> None:
    def read(on_progress: OnProgress, *counts: int) -> None:
        progress = ReadProgress(on_progress, {"first": 10, "second": 20})
        for path, count in zip(("first", "unknown", "second"), counts, strict=True):
            with progress.part(path, path) as counted:
                counted(count)

    watcher = Watcher()

    read(watcher, 25, 5, 7)

    assert watcher.told == [
        ("first", 10, 30),
        ("first", 10, 30),
        ("unknown", 10, 30),
        ("second", 17, 30),
        ("second", 30, 30),
    ]
