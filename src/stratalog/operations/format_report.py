"""What `format` has done, or would do: the cluster, its directories and topics, and what the broker needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stratalog.config.quorum import BROKER, CONTROLLER
from stratalog.directory.formatting.result import FormatResult, FormattedTopic
from stratalog.files.entries import Path
from stratalog.files.paths import command_text
from stratalog.log.partition_metadata import topic_id_to_text
from stratalog.operations.recover import RecoverOptions, assess
from stratalog.operations.report import PLANNED, ChangeReport, Table, why_not_started
from stratalog.operations.words import counted

_NEW = "(new)"  # an id that the run will make


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatReport(ChangeReport):
    """The report of a format."""

    result: FormatResult

    @classmethod
    def of(cls, result: FormatResult, config: Path | None = None) -> FormatReport:
        """The report of this result; `config` is the server.properties that was given.

        A recovery that found nothing is not mentioned: it only took over lone logs that were closed cleanly.
        """
        recovery = None
        if result.recovery is not None:
            assessed = assess(result.recovery, RecoverOptions())
            recovery = assessed if assessed.has_findings or assessed.is_failed else None
        return cls(
            result=result,
            notes=(*result.notes, *_notes(result, config)),
            recovery=recovery,
            refusals=result.refusals,
            is_plan=result.is_plan,
        )

    @property
    def failed_directories(self) -> Sequence[str]:
        return ()

    @property
    def left_count(self) -> int:
        return 0

    @property
    def to_recover(self) -> Sequence[str]:
        return ()

    def tables(self) -> list[Table]:
        return self.tables_with(self._topics(), self._directories(), self._properties())

    def words(self) -> list[str]:
        before = [] if self.recovery is None else self.recovery.words()
        return [*before, *self.notes]

    def totals(self) -> dict[str, int]:
        partitions = [found for topic in self.result.topics for found in topic.partitions]
        return {
            "directories": len(self.result.directories),
            "topics": len(self.result.topics),
            "partitions": len(partitions),
            "partitions_to_create": sum(found.directory is None for found in partitions),
            "topic_ids_made": sum(topic.is_new_id for topic in self.result.topics),
            "refusals": len(self.refusals),
        }

    def to_document(self) -> dict[str, object]:
        result = self.result
        directories: list[dict[str, object]] = [
            {
                "directory": found.path,
                "directory_id": found.directory_id,
                "has_metadata": found.has_metadata,
                "partitions": self._count_in(found.path),
            }
            for found in result.directories
        ]
        return {
            **self.document_of(directories),
            "cluster_id": result.cluster_id,
            "node_id": result.node_id,
            "release": result.release,
            "server_properties": self.server_properties(),
            "topics": [_topic_document(topic) for topic in result.topics],
        }

    def server_properties(self) -> dict[str, str]:
        """The settings that a server.properties must have for this node."""
        result = self.result
        own = [found.path for found in result.directories if found.is_log_directory]
        settings = {
            "process.roles": f"{BROKER},{CONTROLLER}",
            "node.id": str(result.node_id),
            "log.dirs": ",".join(own),
        }
        metadata = next(found.path for found in result.directories if found.has_metadata)
        if metadata != own[0]:
            settings["metadata.log.dir"] = metadata
        if result.endpoints:
            settings["controller.listener.names"] = ",".join(each.listener for each in result.endpoints)
            settings["controller.quorum.bootstrap.servers"] = result.endpoints[0].address
        return settings

    @property
    def verdict(self) -> str:
        result = self.result
        if self.is_plan:
            words = f"{PLANNED[True].strip(' ()').capitalize()}. The directories would be those of"
        elif result.was_finished:
            words = (
                "An earlier run was interrupted at its end, and is finished now. The directories are those of"
            )
        else:
            words = "The directories are those of"
        words += f" node {result.node_id} of the cluster {result.cluster_id or _NEW}, with "
        words += f"{counted(len(result.topics), 'topic')}."
        if self.refusals:
            return f"{words} The broker must not be started yet: {why_not_started(self.refusals)}."
        return words if self.is_plan else f"{words} The broker can be started."

    def _count_in(self, path: str) -> int:
        return sum(found.directory == path for topic in self.result.topics for found in topic.partitions)

    def _topics(self) -> Table:
        return Table(
            title=f"Topics{PLANNED[self.is_plan]}",
            columns=["topic", "id", ">partitions", ">on disk", "settings"],
            rows=[
                [
                    topic.name,
                    _id_text(topic),
                    str(len(topic.partitions)),
                    str(len(topic.partitions) - len(topic.missing)),
                    ", ".join(f"{name}={value}" for name, value in topic.settings.items()),
                ]
                for topic in self.result.topics
            ],
        )

    def _directories(self) -> Table:
        return Table(
            title=f"Directories{PLANNED[self.is_plan]}",
            columns=["directory", "id", ">partitions", "metadata"],
            rows=[
                [
                    found.path,
                    found.directory_id or _NEW,
                    str(self._count_in(found.path)),
                    "here" if found.has_metadata else "",
                ]
                for found in self.result.directories
            ],
        )

    def _properties(self) -> Table:
        return Table(
            title="What server.properties must say",
            columns=["setting", "value"],
            rows=[[name, value] for name, value in self.server_properties().items()],
        )


def _id_text(topic: FormattedTopic) -> str:
    return _NEW if topic.topic_id is None else topic_id_to_text(topic.topic_id)


def _notes(result: FormatResult, config: Path | None) -> list[str]:
    """Sentences about what may surprise the operator."""
    notes = []
    for topic in result.topics:
        if topic.missing and topic.missing != tuple(range(len(topic.partitions))):
            listed = ", ".join(map(str, topic.missing[:10])) + (", ..." if len(topic.missing) > 10 else "")
            notes.append(
                f"{topic.name}: of its {len(topic.partitions)} partitions, no directory has {listed}. The "
                "broker creates them; they are empty."
            )
    if any(topic.partitions for topic in result.topics) and not result.is_plan:
        notes.append(
            "Soon after its start, a broker deletes records that are older than their topic's retention. "
            f"{_look(result, config)} shows which."
        )
    return notes


def _look(result: FormatResult, config: Path | None) -> str:
    """The command that shows what retention would delete: it needs the broker's server.properties."""
    if config is not None:
        return command_text("retain", "--dry-run", "--config", config)
    paths = [found.path for found in result.directories if found.is_log_directory]
    command = command_text("retain", "--dry-run", *paths, "--config", "FILE")
    return f"When the broker's server.properties is written, {command} with that file"


def _topic_document(topic: FormattedTopic) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else topic_id_to_text(topic.topic_id),
        "is_new_id": topic.is_new_id,
        "settings": topic.settings,
        "partitions": [
            {
                "partition": found.partition,
                "directory": found.directory,
                "leader_epoch": found.leader_epoch,
            }
            for found in topic.partitions
        ],
    }
