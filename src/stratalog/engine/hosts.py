"""Work for each host of a cluster: directories on disks that only one host has.

A directory is written as HOST:DIR, for one host, or as DIR, for every host that has it. The report names
directories that cannot be placed: their host is not in the cluster, or no host has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from stratalog.engine.engine import Result, TaskFunction
from stratalog.errors import DiskError, StratalogError, UsageError
from stratalog.files.reading import DiskReader

OfHost = TypeVar("OfHost")


class Place(NamedTuple):
    """A directory, on one host or on all that have it."""

    host: str | None
    path: str

    @classmethod
    def parse(cls, text: str) -> Place:
        """HOST:DIR or DIR; DIR begins with a slash, because hosts do not share a current directory."""
        found = re.fullmatch(r"(?:(?P<host>[^/]+):)?(?P<path>/.*)", text)
        if found is None:
            raise UsageError(f"{text}: with --by-host write HOST:DIR or DIR, where DIR begins with a slash.")
        return cls(found["host"], found["path"])

    def __str__(self) -> str:
        return self.path if self.host is None else f"{self.host}:{self.path}"


@runtime_checkable
class HostsEngine(Protocol):
    """An engine that can run a function once on each of its hosts."""

    def run_on_hosts(
        self, function: TaskFunction[str, Result], *, expected: Sequence[str] = ()
    ) -> Mapping[str, Result | StratalogError]:
        """The result by host. The function's task is the name of its host.

        Waits a while for hosts that are `expected`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport(Generic[OfHost]):
    """What one host has found; `report` is None if it has none of the directories."""

    host: str
    paths: tuple[str, ...]
    report: OfHost | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHost(Generic[OfHost]):
    """A function for `run_on_hosts`: `run` over the directories of a host."""

    places: tuple[Place, ...]
    run: Callable[[DiskReader, Sequence[str]], OfHost]

    def __call__(self, disk: DiskReader, host: str) -> HostReport[OfHost]:
        # A directory that was named for this host must be there; others are looked for.
        named = [place.path for place in self.places if place.host == host]
        others = [place.path for place in self.places if place.host is None and _may_be(disk, place.path)]
        paths = tuple(dict.fromkeys(map(os.path.normpath, [*named, *others])))
        return HostReport(host=host, paths=paths, report=self.run(disk, paths) if paths else None)


def _may_be(disk: DiskReader, path: str) -> bool:
    """Whether the host has this directory; also True if the system refuses to say: `run` reports that."""
    try:
        return disk.exists(path)
    except DiskError:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Generic[OfHost]):
    """The reports of all hosts with directories, by host; and what could not be placed or done, and why."""

    reports: Mapping[str, OfHost]
    problems: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def run_by_host(
    engine: object, places: Sequence[str], run: Callable[[DiskReader, Sequence[str]], OfHost]
) -> Placed[OfHost]:
    """Run a function over the directories of each host, on that host.

    UsageError if the engine has no hosts. `run` is sent to the hosts, so it must be importable.
    """
    if not isinstance(engine, HostsEngine):
        raise UsageError("--by-host needs the executors of a cluster: name it with --master.")
    parsed = tuple(map(Place.parse, places))
    asked = tuple(dict.fromkeys(place.host for place in parsed if place.host is not None))
    found = engine.run_on_hosts(OnHost(places=parsed, run=run), expected=asked)
    reports: dict[str, OfHost] = {}
    problems: list[tuple[str, str]] = []
    notes: list[str] = []
    reached: set[str] = set()
    for host in sorted(found):
        outcome = found[host]
        if isinstance(outcome, StratalogError):
            problems.append((f"{host}:", str(outcome)))
            continue
        reached |= {
            str(place)
            for place in parsed
            if place.host is None and os.path.normpath(place.path) in outcome.paths
        }
        if outcome.report is None:
            notes.append(f"{host} has none of these directories.")
        else:
            reports[host] = outcome.report
    hosts = ", ".join(sorted(found)) or "none"
    for place in parsed:
        if place.host is not None and place.host not in found:
            problems.append((str(place), f"No executor runs on this host. The hosts are: {hosts}."))
        elif place.host is None and str(place) not in reached:
            problems.append((str(place), f"No host has this directory. The hosts are: {hosts}."))
    return Placed(reports=reports, problems=tuple(problems), notes=tuple(notes))
