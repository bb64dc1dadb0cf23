"""The result of an estimate: by topic and partition, and by key; as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stratalog.log.cleaning.tally import KeyCount
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEstimate:
    """What compaction frees of one partition, in bytes of its .log files.

    `size` is the whole log, `cleanable` the part that may be cleaned. `freed` counts records that newer
    records of the same key replace, and `lost` records without a key, which the cleaner deletes although
    nothing replaces them. `compact` frees the sum of both, plus or minus `bound`, which is 0 after a full
    pass. `deleted` is what retention deletes as well, if the topic also has the policy delete. `draws` is the
    size of a sample, 0 for a full pass.
    """

    name: str
    topic: str
    directory: str
    size: int = 0
    cleanable: int = 0
    freed: int = 0
    lost: int = 0
    bound: int = 0
    deleted: int = 0
    draws: int = 0
    passes: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    """Counted by a full pass only, not by a sample."""
    assumptions: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEstimate:
    """A topic: its partitions, its keys with the most bytes and versions, and prefixes on request."""

    topic: str
    cleanup_policy: tuple[str, ...]
    partitions: tuple[PartitionEstimate, ...]
    by_bytes: tuple[KeyCount, ...] = ()
    by_versions: tuple[KeyCount, ...] = ()
    prefixes: tuple[KeyCount, ...] = ()

    @property
    def size(self) -> int:
        return sum(partition.size for partition in self.partitions)

    @property
    def cleanable(self) -> int:
        return sum(partition.cleanable for partition in self.partitions)

    @property
    def freed(self) -> int:
        return sum(partition.freed for partition in self.partitions)

    @property
    def lost(self) -> int:
        return sum(partition.lost for partition in self.partitions)

    @property
    def bound(self) -> int:
        """The sum of the partitions' bounds: an upper limit, because their errors partly cancel out."""
        return sum(partition.bound for partition in self.partitions)

    @property
    def deleted(self) -> int:
        return sum(partition.deleted for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateReport(Report):
    """All topics, by name, with notes on settings that were ignored.

    `problems` say what could not be estimated at all, such as a host that is not there.
    """

    topics: tuple[TopicEstimate, ...]
    now: int
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_failed(self) -> bool:
        """Whether a partition could not be read to its end, or there is another problem."""
        return bool(self.problems) or any(
            partition.error for topic in self.topics for partition in topic.partitions
        )

    @property
    def status(self) -> Status:
        return Status.FAILED if self.is_failed else Status.FINE

    @property
    def verdict(self) -> str:
        totals = self.totals()
        freed, size, lost = (totals[name] for name in ("bytes_freed", "bytes", "bytes_lost"))
        words = f"Compaction would free {size_text(freed)} of {size_text(size)}"
        more = f" and delete {size_text(lost)} of records without a key" if lost else ""
        return f"{words}{more}. Nothing was changed."

    def totals(self) -> dict[str, int]:
        return {
            "topics": len(self.topics),
            "partitions": sum(len(topic.partitions) for topic in self.topics),
            "bytes": sum(topic.size for topic in self.topics),
            "bytes_cleanable": sum(topic.cleanable for topic in self.topics),
            "bytes_freed": sum(topic.freed for topic in self.topics),
            "bytes_lost": sum(topic.lost for topic in self.topics),
            "bytes_deleted": sum(topic.deleted for topic in self.topics),
        }

    def words(self) -> list[str]:
        found = []
        for topic in self.topics:
            found += [f"{', '.join(names)}: {words}" for words, names in _assumptions(topic).items()]
            if topic.lost:
                found.append(f"{topic.topic}: {_lost_words(topic)}")
            for partition in topic.partitions:
                if partition.error is not None:
                    found.append(f"{partition.name}: failed. {partition.error}")
        return [*self.problems, *found, *self.notes]

    def tables(self) -> list[Table]:
        return _tables(self)

    def to_document(self) -> dict[str, object]:
        return _document(self)

    def to_arrow(self) -> pa.Table:
        """The partitions, a row each."""
        import pyarrow

        rows: list[dict[str, Any]] = [
            {"topic": topic.topic, **_partition(partition)}
            for topic in self.topics
            for partition in topic.partitions
        ]
        return pyarrow.Table.from_pylist(rows, schema=_schema())


def _schema() -> pa.Schema:
    import pyarrow

    text, texts = pyarrow.string(), pyarrow.list_(pyarrow.string())
    others = {"partition": text, "directory": text, "is_sampled": pyarrow.bool_()}
    others |= {"assumptions": texts, "error": text}
    names = _partition(PartitionEstimate(name="", topic="", directory=""))
    return pyarrow.schema([("topic", text), *((name, others.get(name, pyarrow.int64())) for name in names)])


def _lost_words(topic: TopicEstimate) -> str:
    count = sum(partition.records_without_key for partition in topic.partitions)
    read = sum(partition.records_read for partition in topic.partitions)
    which = f"{count} of the {read} records read have no key" if count else "records have no key"
    return (
        f"{which}. Compaction deletes them ({size_text(topic.lost)}), and nothing replaces them; a compacted "
        "topic refuses new ones. Compact the topic only if these records may be lost."
    )


def _assumptions(topic: TopicEstimate) -> dict[str, list[str]]:
    """Each assumption with the partitions it applies to, mostly all partitions of a topic."""
    found: dict[str, list[str]] = {}
    for partition in topic.partitions:
        for words in partition.assumptions:
            found.setdefault(words, []).append(partition.name)
    return {
        words: [topic.topic] if len(names) == len(topic.partitions) else names
        for words, names in found.items()
    }


def _tables(report: EstimateReport) -> list[Table]:
    tables = [
        Table(
            title="What compaction would free",
            columns=[
                "topic",
                "cleanup.policy",
                ">partitions",
                ">bytes",
                ">cleanable",
                ">freed",
                ">of bytes",
                ">lost",
                ">deleted",
            ],
            rows=[_topic_row(topic) for topic in report.topics],
        )
    ]
    for topic in report.topics:
        tables += [
            _key_table(f"{topic.topic}: keys with the most bytes", topic.by_bytes),
            _key_table(f"{topic.topic}: keys with the most versions", topic.by_versions),
            _key_table(f"{topic.topic}: by key prefix", topic.prefixes),
        ]
    return [table for table in tables if table.rows]


def _topic_row(topic: TopicEstimate) -> list[str]:
    return [
        topic.topic,
        ",".join(topic.cleanup_policy) or "none",
        str(len(topic.partitions)),
        size_text(topic.size),
        size_text(topic.cleanable),
        _with_bound(topic.freed, topic.bound),
        f"{100 * topic.freed / topic.size:.1f} %" if topic.size else "-",
        size_text(topic.lost),
        size_text(topic.deleted),
    ]


def _key_table(title: str, counts: Sequence[KeyCount]) -> Table:
    return Table(
        title=title,
        columns=["key", ">versions", ">bytes", ">freed"],
        rows=[
            [
                key_text(count),
                _counted(str(count.versions), count.missed_versions, count.draws),
                _counted(size_text(count.bytes), count.missed_bytes, count.draws),
                _with_bound(count.freed, count.freed_bound),
            ]
            for count in counts
        ],
    )


def _with_bound(size: int, bound: int) -> str:
    return f"{size_text(size)} ± {size_text(bound)}" if bound else size_text(size)


def _counted(words: str, missed: int, draws: int) -> str:
    if draws:
        return f"≈ {words}"
    return f"≥ {words}" if missed else words


def key_text(count: KeyCount) -> str:
    """A key for display; bytes that are not text, or would disturb a terminal, become \\xNN."""
    text = count.key.decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in text)
    return shown if len(count.key) == count.key_size else f"{shown}... ({count.key_size} bytes)"


def _document(report: EstimateReport) -> dict[str, object]:
    return {
        "now": report.now,
        "topics": [
            {
                "topic": topic.topic,
                "cleanup_policy": list(topic.cleanup_policy),
                "bytes": topic.size,
                "cleanable_bytes": topic.cleanable,
                "freed_bytes": topic.freed,
                "lost_bytes": topic.lost,
                "bound_bytes": topic.bound,
                "deleted_bytes": topic.deleted,
                "partitions": [_partition(partition) for partition in topic.partitions],
                "keys_by_bytes": [_key(count) for count in topic.by_bytes],
                "keys_by_versions": [_key(count) for count in topic.by_versions],
                "prefixes": [_key(count) for count in topic.prefixes],
            }
            for topic in report.topics
        ],
        "notes": list(report.notes),
        "problems": list(report.problems),
    }


def _partition(partition: PartitionEstimate) -> dict[str, object]:
    return {
        "partition": partition.name,
        "directory": partition.directory,
        "bytes": partition.size,
        "cleanable_bytes": partition.cleanable,
        "freed_bytes": partition.freed,
        "lost_bytes": partition.lost,
        "bound_bytes": partition.bound,
        "deleted_bytes": partition.deleted,
        "is_sampled": partition.draws > 0,
        "draws": partition.draws,
        "passes": partition.passes,
        "records_read": partition.records_read,
        "records_kept": partition.records_kept,
        "records_without_key": partition.records_without_key,
        "assumptions": list(partition.assumptions),
        "error": partition.error,
    }


def _key(count: KeyCount) -> dict[str, object]:
    return {
        "key": key_text(count),
        "key_hex": count.key.hex(),
        "key_bytes": count.key_size,
        "versions": count.versions,
        "bytes": count.bytes,
        "freed_bytes": count.freed,
        "freed_bound_bytes": count.freed_bound,
        "draws": count.draws,
        "missed_versions": count.missed_versions,
        "missed_bytes": count.missed_bytes,
    }
