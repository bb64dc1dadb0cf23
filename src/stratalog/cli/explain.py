"""`stratalog explain`: why a segment is still there; what will go, when and by which rule."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.options import Request, directory_options
from stratalog.cli.output import ExitCode, Output, Table, json_option, size_text, time_text

if TYPE_CHECKING:
    from stratalog.operations.explain import Answer, SegmentAnswer
    from stratalog.operations.looking import Partition


@click.command()
@directory_options
@json_option
@click.pass_obj
def explain(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
) -> ExitCode:
    """Say of each segment why it is still there, or by which rule it goes, and when.

    DIR are log directories of one broker; or --config names them. Nothing is locked or changed; a broker may
    run.
    Where the settings of a topic are not known, it is explained by Kafka's defaults, and that is said. So is
    where the answer depends on a high watermark that a running broker has and the disk has not.
    """
    from stratalog.directory.known_topics import KnownTopics
    from stratalog.directory.session import unique_paths
    from stratalog.files.reading import DiskReader
    from stratalog.operations.explain import explain as explain_partition
    from stratalog.operations.looking import UnreadablePartition, check_names, look

    request = Request.of(directories, config, topic_settings, now)
    disk, paths, moment = DiskReader(), unique_paths(request.directories), request.clock()
    check_names(disk, paths, names)
    known = KnownTopics(disk, paths, request.sources)
    documents: list[dict[str, object]] = []
    tables: list[Table] = []
    code = ExitCode.FINE
    found = (look(disk, request.clock, path, known, names) for path in paths)
    for partition in chain.from_iterable(found):
        if isinstance(partition, UnreadablePartition):
            documents.append({"partition": partition.name, "error": partition.error})
            output.say(f"{partition.name}: {partition.error}")
            code = ExitCode.FAILED
            continue
        answers = list(explain_partition(partition, moment))
        documents.append(_document(partition, answers))
        tables.append(_table(partition, answers))
        if partition.refusal is not None:
            output.say(f"{partition.name}: explained as if by these settings, but {partition.refusal}")
        for note in partition.view.notes:
            output.say(f"{partition.name}: {note}")
    output.show({"now": moment, "partitions": documents}, *tables)
    for note in known.notes:
        output.say(note)
    return code


def _table(partition: Partition, answers: list[SegmentAnswer]) -> Table:
    marks = partition.marks
    policy = ",".join(sorted(partition.config.cleanup_policy)) or "none"
    return Table(
        title=f"{partition.name}: cleanup.policy {policy}, starts at {marks.log_start_offset}, "
        f"high watermark {marks.high_watermark}, ends at {marks.log_end_offset}",
        columns=[">segment", ">bytes", "newest record", "rule", "why"],
        rows=[_row(answer, is_retention) for answer in answers for is_retention in _kinds(answer)],
    )


def _kinds(answer: SegmentAnswer) -> tuple[bool, ...]:
    """Retention's answer, compaction's, or both: a compacted log that deletes nothing has the second only."""
    if answer.compaction is None or answer.decision.is_deleted:
        return (True,)
    return (True, False)


def _row(answer: SegmentAnswer, is_retention: bool) -> list[str]:
    segment = answer.decision.segment
    given = answer.retention if is_retention else answer.compaction
    assert given is not None
    facts = (
        [str(segment.base_offset), size_text(segment.size), _newest(answer)] if is_retention else ["", "", ""]
    )
    return [*facts, given.rule, given.words]


def _newest(answer: SegmentAnswer) -> str:
    segment = answer.decision.segment
    return "-" if segment.is_file_time else time_text(segment.largest_timestamp)


def _document(partition: Partition, answers: list[SegmentAnswer]) -> dict[str, object]:
    marks = partition.marks
    return {
        "partition": partition.name,
        "cleanup_policy": sorted(partition.config.cleanup_policy),
        "log_start_offset": marks.log_start_offset,
        "high_watermark": marks.high_watermark,
        "log_end_offset": marks.log_end_offset,
        "refused": partition.refusal,
        "notes": list(partition.view.notes),
        "segments": [
            {
                "base_offset": answer.decision.segment.base_offset,
                "end_offset": answer.decision.end_offset,
                "bytes": answer.decision.segment.size,
                "largest_timestamp": answer.decision.segment.largest_timestamp,
                "is_file_time": answer.decision.segment.is_file_time,
                "is_active": answer.decision.is_active,
                "goes": answer.decision.is_deleted,
                "rule": answer.retention.rule,
                "why": answer.retention.words,
                "blocked_by": answer.decision.blocked_by,
                "due_ms": answer.decision.due_ms,
                "growth_bytes": answer.decision.growth,
                "if_replicated": _if_replicated(answer.retention),
                "compaction": None
                if answer.compaction is None
                else {
                    "rule": answer.compaction.rule,
                    "why": answer.compaction.words,
                    "if_replicated": None
                    if answer.compaction.if_replicated is None
                    else answer.compaction.if_replicated.rule,
                },
            }
            for answer in answers
        ],
    }


def _if_replicated(answer: Answer) -> dict[str, object] | None:
    """What holds once the high watermark, which the disk only has as it was checkpointed, is at the end."""
    then = answer.if_replicated
    return None if then is None else {"goes": then.is_change, "rule": then.rule, "why": then.words}
