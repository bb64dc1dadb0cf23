"""The tables, sentences and the picture of a measurement."""

from __future__ import annotations

from xml.etree import ElementTree

from stratalog.cli.startup.directory import Shape
from stratalog.cli.startup.measuring import Cell, Measured
from stratalog.cli.startup.shown import document, picture, sentences, tables

SHAPE = Shape(partitions=8, segments=4, segment_size=64 << 20, batch_size=16 << 10)
SHAPES = {"unclean": SHAPE}


def row(strategy: str, cache: str, *times: float) -> Measured:
    return Measured(
        cell=Cell(strategy, "unclean", cache, 1),
        times=times,
        partitions=8,
        partition_seconds=0.0125,
        bytes_read=8_000_000,
        bytes_written=1000,
        syncs=8,
        busy=0.9,
        segments_scanned=8,
        segments_scanned_twice=0,
    )


ROWS = [
    row("kafka-2.1", "warm", 3.0, 3.2),
    row("dedupe", "warm", 2.4, 2.0, 2.2),
    row("kafka-2.1", "cold", 8.0),
    row("dedupe", "cold", 5.0),
]


def test_each_state_and_cache_has_a_table() -> None:
    warm, cold = tables(ROWS, SHAPES)

    size = "After a power cut, 32 segments in 8 partitions, 1 of each not flushed"
    assert (warm.title, cold.title) == (f"{size}, warm cache", f"{size}, cold cache")
    found = dict(zip((column.lstrip(">") for column in warm.columns), warm.rows[1], strict=True))
    assert found == {
        "strategy": "dedupe",
        "readers": "1",
        "best s": "2.000",
        "median s": "2.200",
        "gain": "1.50",
        "in the article": "1.56",
        "one partition": "12.5 ms",
        "its bytes": "1.0 MB",
        "written": "1.0 kB",
        "syncs": "8",
        "scans": "8",
        "twice": "0",
        "disk busy": "90%",
        "times in the article": "50 min, 49 min (a partition 2-3 s; disk above 90 %)",
    }


def test_the_gains_of_the_article_are_told_beside_ours() -> None:
    assert sentences(ROWS) == [
        "dedupe, 1 reader, unclean, warm cache: 1.50 times as fast as kafka-2.1 with one reader; "
        "in the article 1.56 times.",
        "dedupe, 1 reader, unclean, cold cache: 1.60 times as fast as kafka-2.1 with one reader; "
        "in the article 1.56 times.",
    ]


def test_a_row_is_told_as_json() -> None:
    told = document(ROWS[1], ROWS)

    assert (told["seconds"], told["median_seconds"], told["rounds"]) == (2.0, 2.2, 3)
    assert (told["gain"], told["article_gain"]) == (1.5, 1.556)


def test_the_picture_has_warm_cold_and_the_article_side_by_side() -> None:
    chart = ElementTree.fromstring(picture(ROWS, SHAPES))

    texts = [text.text or "" for text in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:4] == ["Loading a log directory", "warm", "cold", "article"]
    at = texts.index("dedupe, 1 reader")
    assert texts[at : at + 6] == ["dedupe, 1 reader", "1.50 (2.000 s)", "", "1.60 (5.000 s)", "", "1.56"]
