"""What `stratalog bench startup` shows: a table for each state and cache, JSON, sentences and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stratalog.cli.startup.article import BASELINE, CLEAN, MANY, UNCLEAN
from stratalog.cli.startup.chart import ChartBar, bar_chart
from stratalog.cli.startup.directory import Shape
from stratalog.cli.startup.measuring import COLD, KAFKA, WARM, Measured, gain
from stratalog.operations.report import Table
from stratalog.operations.words import counted, size_text

LEFT_OUT = (
    "The strategies kafka-2.1, lazy, dedupe and checked do Kafka's reads, writes and syncs of these files, "
    "but with our own scan. They leave out Java, open descriptors and the removal of the clean-shutdown "
    "file. They sync only the leader epochs, as Kafka 2.1 and 2.3 do; stratalog syncs all that it writes. "
    "The time of one partition is a median; stratalog has none, because it reads the segments of all "
    "partitions together. The article's hardware was different: compare the gains, not the times."
)
_COLOURS = {WARM: 0, COLD: 1, "article": 3}


def tables(rows: Sequence[Measured], shapes: dict[str, Shape]) -> list[Table]:
    """A table for each state and cache, in the order of the rows."""
    groups = dict.fromkeys((row.cell.state, row.cell.cache) for row in rows)
    return [
        Table(
            title=f"{_title(state, shapes[state])}, {cache} cache",
            columns=[
                "strategy",
                ">readers",
                ">best s",
                ">median s",
                ">gain",
                ">in the article",
                ">one partition",
                ">its bytes",
                ">written",
                ">syncs",
                ">scans",
                ">twice",
                ">disk busy",
                "times in the article",
            ],
            rows=[_cells(row, rows) for row in rows if (row.cell.state, row.cell.cache) == (state, cache)],
        )
        for state, cache in groups
    ]


def document(row: Measured, rows: Sequence[Measured]) -> dict[str, object]:
    """One row as JSON."""
    ours = gain(row, rows)
    return {
        **row.cell._asdict(),
        "seconds": round(row.best, 4),
        "median_seconds": round(row.median, 4),
        "rounds": len(row.times),
        "gain": None if ours is None else round(ours, 3),
        "partition_seconds": row.partition_seconds and round(row.partition_seconds, 4),
        "bytes_read": row.bytes_read,
        "bytes_per_partition": row.bytes_per_partition,
        "bytes_written": row.bytes_written,
        "syncs": row.syncs,
        "segments_scanned": row.segments_scanned,
        "segments_scanned_twice": row.segments_scanned_twice,
        "disk_busy": None if row.busy is None else round(row.busy, 3),
        "article": row.article or None,
        "article_gain": None if row.article_gain is None else round(row.article_gain, 3),
    }


def sentences(rows: Sequence[Measured]) -> list[str]:
    """The gains that are also in the article, with ours beside them."""
    return [
        f"{_name(row)}, {row.cell.state}, {row.cell.cache} cache: {ours:.2f} times as fast as {BASELINE} "
        f"with one reader; in the article {row.article_gain:.2f} times."
        for row in rows
        if row.article_gain is not None
        and (ours := gain(row, rows)) is not None
        and (row.cell.strategy, row.cell.readers) != (BASELINE, 1)
    ]


def picture(rows: Sequence[Measured], shapes: dict[str, Shape]) -> str:
    """A bar chart of the gains: warm, cold and the article's, for each state."""
    groups = []
    for state in dict.fromkeys(row.cell.state for row in rows):
        of_state = [row for row in rows if row.cell.state == state]
        kinds = dict.fromkeys((row.cell.strategy, row.cell.readers) for row in of_state)
        bars = [
            bar
            for kind in kinds
            for bar in _bars([row for row in of_state if (row.cell.strategy, row.cell.readers) == kind], rows)
        ]
        title = f"{_title(state, shapes[state])}: times as fast as {BASELINE} with one reader"
        groups.append((title, bars))
    used = {row.cell.cache for row in rows} | {"article"}
    legend = [(words, colour) for words, colour in _COLOURS.items() if words in used]
    return bar_chart("Loading a log directory", groups, legend=legend)


def _bars(kind: Sequence[Measured], rows: Sequence[Measured]) -> Iterator[ChartBar]:
    label = _name(kind[0])
    for row in kind:
        ours = gain(row, rows)
        text = f"{row.best:.3f} s" if ours is None else f"{ours:.2f} ({row.best:.3f} s)"
        yield ChartBar(label, ours or 0, text, _COLOURS[row.cell.cache])
        label = ""
    if kind[0].article_gain is not None:
        yield ChartBar(label, kind[0].article_gain, f"{kind[0].article_gain:.2f}", _COLOURS["article"])


def _cells(row: Measured, rows: Sequence[Measured]) -> list[str]:
    ours = gain(row, rows)
    return [
        row.cell.strategy,
        f"{row.cell.readers}",
        f"{row.best:.3f}",
        f"{row.median:.3f}",
        "" if ours is None else f"{ours:.2f}",
        "" if row.article_gain is None else f"{row.article_gain:.2f}",
        "" if row.partition_seconds is None else f"{row.partition_seconds * 1000:.1f} ms",
        "" if row.bytes_per_partition is None else size_text(row.bytes_per_partition),
        "" if row.bytes_written is None else size_text(row.bytes_written),
        _number(row.syncs),
        _number(row.segments_scanned),
        _number(row.segments_scanned_twice),
        "" if row.busy is None else f"{row.busy:.0%}",
        row.article,
    ]


def _title(state: str, shape: Shape) -> str:
    size = f"{shape.total_segments:,} segments in {counted(shape.partitions, 'partition')}"
    if state in (CLEAN, MANY):
        return f"After a clean stop, {size}"
    assert state == UNCLEAN
    return f"After a power cut, {size}, {min(shape.unflushed, shape.segments)} of each not flushed"


def _name(row: Measured) -> str:
    words = "thread" if row.cell.strategy == KAFKA else "reader"
    return f"{row.cell.strategy}, {counted(row.cell.readers, words)}"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value}"
