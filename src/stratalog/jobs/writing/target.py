"""Where a write goes: the topics that can be written to, their partitions, ids and settings.

A KRaft cluster's metadata has all of this. Without metadata, the options must provide it: a directory does
not show how many partitions a topic has, and a record in the wrong partition is not found by its key. The
driver reads all this and sends it to the tasks as values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from stratalog.config import LogConfig
from stratalog.directory.cluster_metadata import ClusterMetadata, Topic
from stratalog.directory.kind import Kind, check_log_directory
from stratalog.directory.layout import Layout, classify
from stratalog.directory.lone_logs import check_lone_logs
from stratalog.directory.node import find_node
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.directory.write_journal import STAGED_PREFIX
from stratalog.errors import LogDirLockedError, UsageError
from stratalog.files.names import DirectoryState, TopicPartition, check_topic_name
from stratalog.files.paths import command_text
from stratalog.files.reading import DiskReader
from stratalog.jobs.writing.options import WriteOptions
from stratalog.log.partition_metadata import topic_id_of
from stratalog.records.internal_topics import is_internal

# The suffix of the file that marks a write as under way (`stage.py`).
TASK_SUFFIX = ".task"
_MOST_NAMES = 5  # in a warning


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTarget:
    """A topic that can be written to; `refusals` says why some of its partitions cannot.

    `replicated` are the partitions with replicas on other nodes. `least_count` is the smallest possible
    number of partitions: one more than the highest partition number in the directory.
    """

    name: str
    partitions_count: int
    config: LogConfig
    topic_id: UUID | None = None
    refusals: Mapping[int, str] = field(default_factory=dict)
    replicated: frozenset[int] = frozenset()
    least_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The log directory of a write, and what is known about its topics."""

    directory: str
    options: WriteOptions
    topics: Mapping[str, TopicTarget]
    configs: TopicConfigs
    has_metadata: bool
    needs_topic_ids: bool

    def topic(self, name: str) -> TopicTarget:
        """The topic of this name; UsageError, with what to do, if it cannot be written to."""
        found = self.topics.get(name)
        if found is None:
            found = self._new_topic(name)
        self._check_count(found)
        if found.topic_id is None and self.needs_topic_ids:
            raise UsageError(
                f"the id of the topic {name} is not known: there is no cluster metadata in {self.directory}, "
                "and a broker does not serve a partition that has no topic id. Give the option topicId, as "
                "kafka-topics --describe shows it."
            )
        return found

    def counts_to_note(self, names: Iterable[str]) -> dict[str, int]:
        """How many partitions these topics have, if only the options say so: nothing on disk shows it."""
        counts = {} if self.has_metadata else {name: self.options.partitions_of(name) for name in names}
        return {name: count for name, count in counts.items() if count is not None}

    def warning_of(self, new: Sequence[TopicPartition]) -> str | None:
        """What to do about new partitions that no cluster's metadata knows; None if there are none.

        A broker would not serve them.
        """
        if not new or self.has_metadata:
            return None
        listed = ", ".join(map(str, new[:_MOST_NAMES]))
        listed += f" and {len(new) - _MOST_NAMES} more" if len(new) > _MOST_NAMES else ""
        if self.needs_topic_ids:
            return (
                f"{listed} in {self.directory}: there is no cluster metadata here that knows these new "
                "partitions. If the cluster does not have them, its broker sets them aside as -stray. To be "
                "sure, create the topic on the broker, stop the broker, write, and start it again."
            )
        return (
            f"{listed} in {self.directory}: no cluster knows these new partitions, and a broker would set "
            f"them aside as -stray. Run {command_text('format', self.directory)} before a broker is started "
            "here."
        )

    def _check_count(self, topic: TopicTarget) -> None:
        """UsageError if the number of partitions is wrong: keys would go to the wrong partitions."""
        asked = self.options.partitions_of(topic.name)
        if asked is not None and asked != topic.partitions_count:
            raise UsageError(
                f"the option partitions says {asked} for the topic {topic.name}, but the cluster metadata "
                f"says {topic.partitions_count}: leave the option out."
            )
        if topic.partitions_count < topic.least_count:
            raise UsageError(
                f"the option partitions says {topic.partitions_count} for the topic {topic.name}, but "
                f"{self.directory} has {topic.name}-{topic.least_count - 1}: give the topic's real number of "
                "partitions."
            )

    def _new_topic(self, name: str) -> TopicTarget:
        check_topic_name(name)
        if is_internal(name):
            raise UsageError(f"{name} is one of Kafka's own topics, which only a broker writes.")
        if self.has_metadata:
            raise UsageError(
                f"the cluster metadata of {self.directory} has no topic {name}: create it on the broker "
                "first."
            )
        count = self.options.partitions_of(name)
        if count is not None:
            return TopicTarget(
                name=name,
                partitions_count=count,
                topic_id=self.options.topic_ids.get(name),
                config=self.configs.of(name),
            )
        raise UsageError(
            f"{self.directory} has no cluster metadata that says how many partitions the topic {name} has: "
            f'give the option partitions, as a number or as JSON like {{"{name}": 6}}.'
        )


def find_target(disk: DiskReader, options: WriteOptions) -> WriteTarget:
    """The topics that can be written to, from the metadata or else from the options. Changes nothing.

    The directory may be missing or empty; NotALogDirectoryError if it is something else. LogDirLockedError if
    a broker uses it: the commit would fail later anyway. While other writes are under way, one of them may
    hold the lock, so only the commit decides.
    """
    is_missing = check_log_directory(disk, options.path, may_be_new=True).kind is Kind.MISSING
    if is_missing:
        layout = Layout(options.path, (), (), (), (), ())
    else:
        if _is_locked_by_others(disk, options.path):
            raise LogDirLockedError(options.path)
        layout = classify(disk, options.path)
        check_lone_logs(layout)
    node = find_node(disk, [options.path], metadata_directory=options.metadata_path)
    if options.metadata_path and node.metadata is None:
        raise UsageError(
            f"metadataPath is {options.metadata_path!r}: there is no __cluster_metadata-0 in it."
        )
    configs = node.topic_configs()
    if options.topic_settings is not None:
        configs = configs.with_file(options.topic_settings)
    if node.metadata is not None:
        topics = _by_metadata(node.metadata, node.node_id, layout, configs, options)
    else:
        topics = _by_options(disk, layout, configs, options)
    target = WriteTarget(
        directory=options.path,
        options=options,
        topics=topics,
        configs=configs,
        has_metadata=node.metadata is not None,
        needs_topic_ids=node.is_kraft,
    )
    if options.topic is not None:
        target.topic(options.topic)
    return target


def _is_locked_by_others(disk: DiskReader, directory: str) -> bool:
    """Whether something other than a write holds the lock. A write may begin or end between the checks."""
    is_alone = not has_other_writes(disk, directory)
    if not is_alone or not disk.is_in_use(directory):
        return False
    return not has_other_writes(disk, directory) and disk.is_in_use(directory)


def has_other_writes(disk: DiskReader, directory: str, own: str | None = None) -> bool:
    """Whether writes are under way here, except those whose names begin with `own`."""
    names = [entry.name for entry in disk.list_directory(directory)]
    writes = [name for name in names if name.startswith(STAGED_PREFIX) and name.endswith(TASK_SUFFIX)]
    return any(own is None or not name.startswith(STAGED_PREFIX + own) for name in writes)


def _by_metadata(
    metadata: ClusterMetadata,
    node_id: int | None,
    layout: Layout,
    configs: TopicConfigs,
    options: WriteOptions,
) -> dict[str, TopicTarget]:
    here = _live(layout)
    targets = {}
    for name, topic in metadata.topics.items():
        if is_internal(name) or (options.topic is not None and name != options.topic):
            continue
        targets[name] = TopicTarget(
            name=name,
            partitions_count=len(topic.replicas),
            topic_id=topic.topic_id,
            config=configs.of(name),
            refusals=_refusals(topic, node_id, here, layout.directory, options),
            replicated=frozenset(number for number, replicas in topic.replicas.items() if len(replicas) > 1),
        )
    return targets


def _refusals(
    topic: Topic, node_id: int | None, here: set[TopicPartition], directory: str, options: WriteOptions
) -> dict[int, str]:
    refusals = {}
    for number, replicas in topic.replicas.items():
        key = TopicPartition(topic.name, number)
        if node_id is not None and node_id not in replicas:
            refusals[number] = f"node {node_id}, whose directory this is, has no replica of it."
        elif key not in here:
            refusals[number] = (
                f"it is not in {directory}. Save to the log directory that has it; for a new topic, start "
                "the broker once, which creates it."
            )
        elif len(replicas) > 1 and not options.allow_replicated:
            refusals[number] = (
                f"it has replicas on the nodes {', '.join(map(str, replicas))}, and records written to one "
                "replica are lost when another becomes leader. Write to a broker instead; or, if this "
                "replica will be the leader, set the option allowReplicated to true."
            )
    return refusals


def _by_options(
    disk: DiskReader, layout: Layout, configs: TopicConfigs, options: WriteOptions
) -> dict[str, TopicTarget]:
    """The topics in the directory for which the options give the number of partitions.

    Other topics are added when rows need them.
    """
    targets = {}
    here = _live(layout)
    for name in sorted({key.topic for key in here}):
        count = options.partitions_of(name)
        if count is None or is_internal(name) or (options.topic is not None and name != options.topic):
            continue
        targets[name] = TopicTarget(
            name=name,
            partitions_count=count,
            topic_id=_topic_id(disk, name, layout, options),
            config=configs.of(name),
            least_count=1 + max(key.partition for key in here if key.topic == name),
        )
    return targets


def _topic_id(disk: DiskReader, topic: str, layout: Layout, options: WriteOptions) -> UUID | None:
    """The id in the topic's partitions here, otherwise the one in the options."""
    wanted = options.topic_ids.get(topic)
    for entry in layout.partitions:
        if entry.topic_partition.topic == topic and entry.state is DirectoryState.LIVE:
            known = topic_id_of(disk, layout.path(entry), wanted=wanted)
            if known is not None:
                return known
    return wanted


def _live(layout: Layout) -> set[TopicPartition]:
    return {entry.topic_partition for entry in layout.partitions if entry.state is DirectoryState.LIVE}
