"""`groups`: what consumer groups have committed, their lag, and who their members were.

The answer is what a coordinator knows when it has loaded __consumer_offsets, compared with the ends of the
logs. A group is either complete or missing: all its records are in one partition of __consumer_offsets, which
may be on another broker.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stratalog.clock import system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.options import listed
from stratalog.jobs.reading.plan import looking_at
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, time_text
from stratalog.questions.assignments import current_assignments, topics_by_id
from stratalog.questions.choosing import COMMAND_WORDS, named_partitions, parts_elsewhere
from stratalog.records.internal_topics import CONSUMER_OFFSETS
from stratalog.scanning.values import milliseconds_of
from stratalog.scanning.words import python_words
from stratalog.tables import commits, groups, members
from stratalog.tables.partitions import end_of

_MISSING = (
    f"The topic {CONSUMER_OFFSETS} is not in these directories, so no group can be seen: name all log "
    "directories of the broker."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group. One that has commits, and no record of its own, is a classic group, as for Kafka."""

    group: str
    type: str
    generation: int | None
    protocol: str | None
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A partition for which a group has committed, or that is assigned to one of its members.

    `lag` is None without a commit, and for a partition that is not in these directories. `member` is the
    member that reads the partition, if that is known.
    """

    group: str
    topic: str
    partition: int
    committed_offset: int | None
    end_offset: int | None
    lag: int | None
    committed_at: int | None
    member: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member. `assignment` has its partitions; None if they are not known."""

    group: str
    member: str
    instance: str | None
    client: str | None
    host: str | None
    topics: tuple[str, ...]
    assignment: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport(Report):
    """All groups, or those that were requested."""

    groups: tuple[ConsumerGroup, ...]
    lags: tuple[GroupLag, ...]
    members: tuple[GroupMember, ...]
    notes: tuple[str, ...] = ()
    missing: str = ""  # says that the coordinators' topic is not here, so that no group can be seen
    problems: tuple[str, ...] = ()  # damaged records that a group may not have read yet
    unread: tuple[str, ...] = ()  # logs that could not be read, so that the lag is not known

    @property
    def status(self) -> Status:
        if self.unread:
            return Status.FAILED
        return Status.FINDINGS if self.problems else Status.FINE

    @property
    def verdict(self) -> str:
        if not self.groups:
            return self.missing or "There is no group here."
        parts = [*self._left(), *self._unknown()]
        if not parts:
            parts = ["none has records left to read in the logs that are here"]
        elif not any(each.lag for each in self.lags) and any(each.lag == 0 for each in self.lags):
            parts.append("none has records left in other logs")
        return f"{counted(len(self.groups), 'group')}: {'; '.join(parts)}."

    def _left(self) -> Iterator[str]:
        """What is left to read, and where most of it is."""
        behind = [each for each in self.lags if each.lag]
        if behind:
            most = max(behind, key=lambda each: each.lag or 0)
            names = {each.group for each in behind}
            yield (
                f"{counted(sum(each.lag or 0 for each in behind), 'record')} left to read in "
                f"{counted(len(names), 'group')}"
            )
            yield f"the largest lag is {most.lag}, of {most.group} in {most.topic}-{most.partition}"

    def _unknown(self) -> Iterator[str]:
        """Which lags are not known, and why."""
        absent = {f"{each.topic}-{each.partition}" for each in self.lags if each.end_offset is None}
        if absent:
            yield f"the lag in {listed(sorted(absent))} is not known"
        without = [each for each in self.lags if each.committed_offset is None]
        silent = {each.group for each in self.groups} - {each.group for each in self.lags}
        if without or silent:
            groups = listed(sorted(silent | {each.group for each in without}))
            places = listed(sorted({f"{each.topic}-{each.partition}" for each in without}))
            where = f" in {places}" if places else ""
            yield f"the lag of {groups}{where} is not known, because nothing is committed"

    def tables(self) -> list[Table]:
        return [_group_table(self.groups), _lag_table(self.lags), _member_table(self.members)]

    def words(self) -> Sequence[str]:
        return (*self.notes, *self.problems, *self.unread)

    def totals(self) -> dict[str, int]:
        return {
            "groups": len(self.groups),
            "members": len(self.members),
            "commits": sum(each.committed_offset is not None for each in self.lags),
            "lag": sum(each.lag or 0 for each in self.lags),
        }

    def to_document(self) -> dict[str, object]:
        return {
            "groups": [asdict(each) for each in self.groups],
            "commits": [asdict(each) for each in self.lags],
            "members": [asdict(each) for each in self.members],
            "notes": list(self.notes),
            "problems": list(self.problems),
            "unread": list(self.unread),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsQuestion:
    """A request: these groups, or all."""

    directories: Sequence[str]
    names: Sequence[str] = ()
    disk: DiskReader = field(default_factory=DiskReader)

    def run(self) -> GroupsReport:
        """UsageError for a group that is not there."""
        with python_words(COMMAND_WORDS):
            found = named_partitions(self.disk, self.directories, ())
        numbers = [
            each.topic_partition.partition for each in found if each.topic_partition.topic == CONSUMER_OFFSETS
        ]
        if not numbers:
            self._check({}, numbers)
            return GroupsReport(groups=(), lags=(), members=(), missing=_MISSING)
        paths = list(self.directories)
        assigned = current_assignments(paths, topics_by_id(self.disk, found))
        people = [_member(row, assigned) for row in members(paths).to_table().to_pylist()]
        lags = [_commit(row) for row in commits(paths).to_table().to_pylist()]
        lags += _uncommitted(found, people, lags)
        known = {row["group"]: row for row in groups(paths).to_table().to_pylist()}
        known |= {each.group: {} for each in lags if each.group not in known}
        self._check(known, numbers)
        wanted = {*self.names} or {*known}
        people = sorted((each for each in people if each.group in wanted), key=lambda each: each.member)
        ends = _Ends(self.disk, found)
        lags = [ends.fill(each) for each in lags if each.group in wanted]
        return GroupsReport(
            groups=tuple(_group(name, known[name], people) for name in sorted(wanted)),
            lags=tuple(_with_owners(lags, people)),
            members=tuple(sorted(people, key=lambda each: each.group)),
            notes=tuple(self._notes(numbers)),
            problems=tuple(sorted(ends.problems)),
            unread=tuple(sorted(ends.unread)),
        )

    def _notes(self, numbers: Sequence[int]) -> Iterator[str]:
        elsewhere = parts_elsewhere(self.disk, self.directories, CONSUMER_OFFSETS, numbers)
        if elsewhere is not None:
            yield f"{elsewhere}: their groups are not seen here."

    @staticmethod
    def _none(numbers: Sequence[int]) -> str:
        return "There is no group here." if numbers else _MISSING

    def _check(self, known: dict[str, Any], numbers: Sequence[int]) -> None:
        for name in self.names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                meant = f": did you mean {near[0]}?" if near else "."
                there = f"The groups are {listed(sorted(known))}." if known else self._none(numbers)
                raise UsageError(f"--group names {name}, which is not there{meant} {there}")


class _Ends:
    """The ends of the logs that groups read; why some of them are not known is in `problems` and `unread`."""

    def __init__(self, disk: DiskReader, found: Sequence[FoundPartition]) -> None:
        self._disk = disk
        self._places = {each.topic_partition: each for each in found}
        self._known: dict[TopicPartition, int | None] = {}
        self.problems: dict[str, None] = {}
        self.unread: list[str] = []

    def fill(self, commit: GroupLag) -> GroupLag:
        """The same with the end of the log and the lag."""
        key = TopicPartition(commit.topic, commit.partition)
        if key not in self._known and key in self._places:
            self._known[key] = self._look(self._places[key])
        end, offset = self._known.get(key), commit.committed_offset
        lag = None if end is None or offset is None else max(0, end - offset)
        return replace(commit, end_offset=end, lag=lag)

    def _look(self, place: FoundPartition) -> int | None:
        try:
            return looking_at(
                self._disk,
                system_clock,
                place,
                lambda view: end_of(view, read_committed=False, problems=self.problems),
            )
        except (CorruptRecordError, CorruptIndexError) as error:
            self.problems[str(error.__cause__ or error)] = None  # without advice for a read
        except DiskError as error:
            self.unread.append(f"The lag in {place.topic_partition} is not known. {error}")
        finally:
            self._disk.release(place.directory)
        return None


def _uncommitted(
    found: Sequence[FoundPartition], people: Sequence[GroupMember], commits: Sequence[GroupLag]
) -> Iterator[GroupLag]:
    """The partitions that members have, and for which their groups have committed nothing."""
    places = {str(each.topic_partition): each.topic_partition for each in found}
    known = {(each.group, f"{each.topic}-{each.partition}") for each in commits}
    for member in people:
        for name in member.assignment or ():
            if (member.group, name) not in known and name in places:
                topic, partition = places[name]
                yield _lag(member.group, topic, partition)


def _group(name: str, row: dict[str, Any], people: Sequence[GroupMember]) -> ConsumerGroup:
    return ConsumerGroup(
        group=name,
        type=row.get("type", "classic"),
        generation=row.get("generation"),
        protocol=row.get("protocol"),
        members=sum(each.group == name for each in people),
    )


def _member(row: dict[str, Any], assigned: Mapping[tuple[str, str], tuple[str, ...]]) -> GroupMember:
    classic = row["assignment"]
    return GroupMember(
        group=row["group"],
        member=row["memberId"],
        instance=row["groupInstanceId"],
        client=row["clientId"],
        host=row["clientHost"],
        topics=tuple(row["topics"] or ()),
        assignment=assigned.get((row["group"], row["memberId"]))
        if classic is None
        else tuple(f"{each['topic']}-{number}" for each in classic for number in each["partitions"]),
    )


def _commit(row: dict[str, Any]) -> GroupLag:
    found = _lag(row["group"], row["topic"], row["partition"])
    return replace(found, committed_offset=row["offset"], committed_at=milliseconds_of(row["committedAt"]))


def _lag(group: str, topic: str, partition: int) -> GroupLag:
    """A row of which nothing else is known yet."""
    return GroupLag(
        group=group,
        topic=topic,
        partition=partition,
        committed_offset=None,
        end_offset=None,
        lag=None,
        committed_at=None,
    )


def _with_owners(commits: Sequence[GroupLag], people: Sequence[GroupMember]) -> Iterator[GroupLag]:
    """The commits by group and partition, each with the member that has the partition."""
    owners = {(each.group, name): each.member for each in people for name in each.assignment or ()}
    for each in sorted(commits, key=lambda each: (each.group, each.topic, each.partition)):
        owner = owners.get((each.group, f"{each.topic}-{each.partition}"))
        yield replace(each, member=owner)


def _group_table(found: Sequence[ConsumerGroup]) -> Table:
    return Table(
        title="Groups",
        columns=["group", "type", ">generation", "protocol", ">members"],
        rows=[
            [
                each.group,
                each.type,
                _or_dash(each.generation),
                each.protocol or "-",
                str(each.members),
            ]
            for each in found
        ],
    )


def _lag_table(found: Sequence[GroupLag]) -> Table:
    return Table(
        title="Committed offsets and lag",
        columns=["group", "!partition", ">committed", ">log end", ">lag", "committed at", "member"],
        rows=[
            [
                each.group,
                f"{each.topic}-{each.partition}",
                _or_dash(each.committed_offset),
                _or_dash(each.end_offset),
                _or_dash(each.lag),
                "-" if each.committed_at is None else time_text(each.committed_at),
                each.member or "-",
            ]
            for each in found
        ],
    )


def _member_table(found: Sequence[GroupMember]) -> Table:
    return Table(
        title="Members",
        columns=["group", "member", "client", "host", "topics", "partitions"],
        rows=[
            [
                each.group,
                each.member if each.instance is None else f"{each.member} ({each.instance})",
                each.client or "-",
                each.host or "-",
                ", ".join(each.topics) or "-",
                "-" if each.assignment is None else ", ".join(each.assignment),
            ]
            for each in found
        ],
    )


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
