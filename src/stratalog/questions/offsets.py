"""`offsets`: the offset for a time in each partition, as kafka-get-offsets finds it by asking a broker.

`latest` is the end of the log. A broker returns its high watermark, which is the same when all replicas have
the records. For a time, a broker looks only into the first segment that may reach it. If a cleaner has left
that segment empty, it answers that there is no record; here, the later segments are searched too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from stratalog.clock import Clock, system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.plan import looking_at
from stratalog.log.api.view import LogView
from stratalog.log.timestamps import SpecialTimestamp
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, time_text
from stratalog.questions.choosing import COMMAND_WORDS, named_partitions
from stratalog.scanning.words import python_words
from stratalog.segment.search import TimestampAndOffset

NAMED_TIMES = {
    "earliest": SpecialTimestamp.EARLIEST,
    "latest": SpecialTimestamp.LATEST,
    "max-timestamp": SpecialTimestamp.MAX_TIMESTAMP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAnswer:
    """One partition. `offset` is None if it has no such record; `problem` says why it could not be read."""

    topic: str
    partition: int
    offset: int | None = None
    timestamp: int | None = None
    leader_epoch: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReport(Report):
    """An offset for each partition; `time` is a timestamp, or one of Kafka's special values."""

    time: int
    answers: tuple[OffsetAnswer, ...]

    @property
    def _time_words(self) -> str:
        names = {value: name for name, value in NAMED_TIMES.items()}
        return names[SpecialTimestamp(self.time)] if self.time < 0 else f"from {time_text(self.time)} UTC on"

    @property
    def status(self) -> Status:
        return Status.FAILED if any(each.problem for each in self.answers) else Status.FINE

    @property
    def verdict(self) -> str:
        lacking = sum(each.offset is None and each.problem is None for each in self.answers)
        failed = sum(each.problem is not None for each in self.answers)
        found = f"{counted(len(self.answers), 'partition')}, {self._time_words}."
        if lacking:
            found += f" {lacking} of them {'has' if lacking == 1 else 'have'} no such record."
        if failed:
            found += f" {failed} of them could not be read."
        return found

    def tables(self) -> list[Table]:
        return [
            Table(
                title=f"Offsets: {self._time_words}",
                columns=["!topic", ">partition", ">offset", "time of the record", ">leader epoch"],
                rows=[
                    [
                        each.topic,
                        str(each.partition),
                        _or_dash(each.offset),
                        "-" if each.timestamp is None else time_text(each.timestamp),
                        _or_dash(each.leader_epoch),
                    ]
                    for each in self.answers
                ],
            )
        ]

    def words(self) -> Sequence[str]:
        return [f"{each.topic}-{each.partition}: {each.problem}" for each in self.answers if each.problem]

    def totals(self) -> dict[str, int]:
        return {
            "partitions": len(self.answers),
            "found": sum(each.offset is not None for each in self.answers),
            "failed": sum(each.problem is not None for each in self.answers),
        }

    def to_document(self) -> dict[str, object]:
        return {"time": self.time, "offsets": [asdict(each) for each in self.answers]}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsQuestion:
    """A request: the offset for a time, or for a special value, in each of these partitions or in all."""

    directories: Sequence[str]
    names: Sequence[str] = ()
    time: int = SpecialTimestamp.LATEST
    clock: Clock = system_clock
    disk: DiskReader = field(default_factory=DiskReader)

    def run(self) -> OffsetsReport:
        """Look into each partition; UsageError for a name that is not there."""
        with python_words(COMMAND_WORDS):
            found = named_partitions(self.disk, self.directories, self.names)
        return OffsetsReport(time=self.time, answers=tuple(self._answer(each) for each in found))

    def _answer(self, found: FoundPartition) -> OffsetAnswer:
        topic, partition = found.topic_partition
        try:
            place = looking_at(self.disk, self.clock, found, self._find)
        except (CorruptRecordError, CorruptIndexError, DiskError) as error:
            return OffsetAnswer(topic=topic, partition=partition, problem=str(error))
        finally:
            self.disk.release(found.directory)
        if place is None or place.offset < 0:
            return OffsetAnswer(topic=topic, partition=partition)
        return OffsetAnswer(
            topic=topic,
            partition=partition,
            offset=place.offset,
            timestamp=place.timestamp if place.timestamp >= 0 else None,
            leader_epoch=place.leader_epoch,
        )

    def _find(self, view: LogView) -> TimestampAndOffset | None:
        if self.time < 0:
            return view.fetch_offset_by_timestamp(self.time)
        return view.first_not_before(self.time)


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
