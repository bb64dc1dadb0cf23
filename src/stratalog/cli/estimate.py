"""`stratalog estimate`: what compaction would free, by topic, by key and by key prefix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.options import Request, directory_options
from stratalog.cli.output import ExitCode, Output, Table, json_option, size_text

if TYPE_CHECKING:
    from stratalog.log.cleaning.tally import KeyCount
    from stratalog.operations.estimate import EstimateReport, PartitionEstimate, TopicEstimate

_FOLDER = click.Path(exists=True, file_okay=False, writable=True)


def parse_delimiter(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """One byte, as keys have it; the callback of an option."""
    if text is None:
        return None
    if len(text.encode()) != 1:
        raise click.BadParameter(f"{text!r} is not one character of ASCII.")
    return text.encode()[0]


@click.command()
@directory_options
@click.option(
    "--sample",
    type=click.IntRange(min=2),
    metavar="N",
    help="Draw N batches from each partition, instead of a full pass: less work, and an error bound.",
)
@click.option("--seed", type=int, default=0, help="Another one draws other batches.")
@click.option(
    "--prefix-size", type=click.IntRange(min=1), metavar="N", help="Also by the first N bytes of keys."
)
@click.option(
    "--prefix-delimiter",
    "delimiter",
    metavar="CHAR",
    callback=parse_delimiter,
    help="Also by what keys have up to this character.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    help="How many keys and prefixes to name: 10.",
)
@click.option(
    "--work-dir",
    type=_FOLDER,
    help="Where files go between the passes over a log with more keys than the offset map holds.",
)
@json_option
@click.pass_obj
def estimate(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
    sample: int | None,
    seed: int,
    prefix_size: int | None,
    delimiter: int | None,
    top: int,
    work_dir: str | None,
) -> ExitCode:
    """Say what compaction would free of each topic, compacted or not, and which keys take the most.

    DIR are log directories of one broker; or --config names them. Nothing is locked or changed; a broker may
    run. In full it is to the byte what `compact` frees at the same clock. A topic that is not compacted is
    estimated as if cleanup.policy were compact.

    Exit status: 0 done, 2 wrong usage, 3 a partition could not be read.
    """
    from stratalog.config import ManagerConfig
    from stratalog.log.cleaning.tally import Prefix
    from stratalog.operations.estimate import Estimation

    request = Request.of(directories, config, topic_settings, now)
    has_prefix = prefix_size is not None or delimiter is not None
    asked = Estimation(
        directories=request.directories,
        names=names,
        sources=request.sources,
        manager=ManagerConfig() if request.server is None else request.server.manager,
        draws=sample,
        seed=seed,
        prefix=Prefix(size=prefix_size, delimiter=delimiter) if has_prefix else None,
        top=top,
        work_dir=work_dir,
        clock=request.clock,
    )
    with output.bars() as show:
        report = asked.run(lambda topic, done, total: show("", topic, done, total))
    output.show(_document(report), *_tables(report))
    _say(output, report)
    return ExitCode.FAILED if report.is_failed else ExitCode.FINE


def _say(output: Output, report: EstimateReport) -> None:
    for topic in report.topics:
        for words, names in _assumptions(topic).items():
            output.say(f"{', '.join(names)}: {words}")
        if topic.lost:
            output.say(f"{topic.topic}: {_lost_words(topic)}")
        for partition in topic.partitions:
            if partition.error is not None:
                output.say(f"{partition.name}: failed. {partition.error}")
    for note in report.notes:
        output.say(note)


def _lost_words(topic: TopicEstimate) -> str:
    count = sum(partition.records_without_key for partition in topic.partitions)
    read = sum(partition.records_read for partition in topic.partitions)
    which = f"{count} of the {read} records read have no key" if count else "records have no key"
    return (
        f"{which}. Compaction deletes them, {size_text(topic.lost)}, and nothing replaces them; "
        "a compacted topic takes no new ones. Compact it only if they may be lost."
    )


def _assumptions(topic: TopicEstimate) -> dict[str, list[str]]:
    """Each sentence with the partitions that it is said of: mostly all of a topic's."""
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
                ">of it",
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
    """A key as a person reads it; what is no text, and what would spoil a terminal, as \\xNN."""
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
