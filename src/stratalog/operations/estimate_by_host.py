"""An estimate for disks that are not shared: each host estimates its own disks, as one broker.

In the combined report a topic is named HOST:TOPIC and a directory HOST:DIR: each host has its own replicas,
and compaction frees space in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stratalog.engine.hosts import run_by_host
from stratalog.files.reading import DiskReader
from stratalog.operations.estimate import Estimation
from stratalog.operations.estimate_report import EstimateReport, TopicEstimate
from stratalog.operations.named import listed_partitions, names_among
from stratalog.operations.named_on_hosts import NamedReport, check_named


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEstimate:
    """What each host does with its directories. `asked` has the settings; its directories are not used."""

    asked: Estimation
    now: int

    def __call__(self, disk: DiskReader, paths: Sequence[str]) -> NamedReport[EstimateReport]:
        # It is not an error if this host lacks the topic. But an unreadable disk may have it, so the disk is
        # reported.
        entries, unreadable = listed_partitions(disk, paths)
        names = names_among(entries, self.asked.names)
        if self.asked.names and not names and not unreadable:
            return NamedReport((), EstimateReport(topics=(), now=self.now))
        asked = replace(
            self.asked,
            directories=paths,
            names=names or self.asked.names,
            disk=disk,
            clock=lambda: self.now,
        )
        return NamedReport(tuple(names), asked.run(), is_complete=not unreadable)


def estimate_by_host(engine: object, places: Sequence[str], asked: Estimation, now: int) -> EstimateReport:
    """Estimate directories, each on its host: HOST:DIR, or DIR for every host that has it.

    The `problems` of the report name directories that cannot be placed or read, and hosts that fail.
    UsageError if the engine has no hosts, or no host has a given topic.
    """
    # The disk and the clock of this process are not sent.
    sent = HostEstimate(asked=replace(asked, engine=None, disk=DiskReader(), clock=_no_clock), now=now)
    placed = check_named(run_by_host(engine, places, sent), asked.names, places)
    return EstimateReport(
        topics=tuple(
            _on_host(topic, host) for host, report in placed.reports.items() for topic in report.topics
        ),
        now=now,
        notes=(
            *(f"{host}: {note}" for host, report in placed.reports.items() for note in report.notes),
            *placed.notes,
        ),
        problems=(
            *(f"{host}: {words}" for host, report in placed.reports.items() for words in report.problems),
            *(f"{where} {words}" for where, words in placed.problems),
        ),
    )


def _no_clock() -> int:
    """Used instead of a clock: each host gets the time of the driver."""
    raise AssertionError("a host uses the driver's time")


def _on_host(topic: TopicEstimate, host: str) -> TopicEstimate:
    partitions = tuple(
        replace(partition, directory=f"{host}:{partition.directory}") for partition in topic.partitions
    )
    return replace(topic, topic=f"{host}:{topic.topic}", partitions=partitions)
