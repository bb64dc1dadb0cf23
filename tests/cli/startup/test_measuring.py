"""Cells that are measured several times: the best and the median, and the gain over Kafka 2.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli.startup.directory import Shape, StartupDirectory
from stratalog.cli.startup.measuring import Cell, Measured, Measuring, gain
from stratalog.cli.startup.strategies import STRATEGIES


def row(strategy: str, readers: int, *times: float, state: str = "unclean") -> Measured:
    return Measured(cell=Cell(strategy, state, "warm", readers), times=times, partitions=4, bytes_read=100)


def test_a_cell_is_its_best_and_its_median() -> None:
    cell = row("dedupe", 1, 3.0, 1.0, 2.5)

    assert (cell.best, cell.median, cell.bytes_per_partition) == (1.0, 2.5, 25)


def test_a_gain_is_against_kafka_2_1_with_one_reader_in_the_same_state() -> None:
    rows = [row("kafka-2.1", 1, 3.0, 4.0), row("kafka-2.1", 2, 6.0), row("dedupe", 1, 5.0, 2.0)]
    alone = row("dedupe", 1, 2.0, state="clean")

    assert [gain(each, rows) for each in rows] == [1.0, 0.5, 1.5]
    assert gain(alone, [*rows, alone]) is None
    assert rows[2].article_gain == pytest.approx(77 / 49.5)


def test_each_round_has_all_cells(tmp_path: Path) -> None:
    shape = Shape(partitions=2, segments=2, segment_size=64 << 10, batch_size=4096)
    directory = StartupDirectory(tmp_path / "logs", shape)
    directory.build()
    said: list[str] = []

    rows = Measuring(directory, rounds=2, cold=False, say=said.append).strategies(
        STRATEGIES[:1], ("clean", "unclean"), (1,)
    )

    assert [words.split(" ...")[0] for words in said] == [
        f"Round {number} of 2: kafka-2.1, {state}, warm cache, 1 reader"
        for number in (1, 2)
        for state in ("clean", "unclean")
    ]
    assert [len(row.times) for row in rows] == [2, 2]
    directory.remove()
    assert [*tmp_path.iterdir()] == []
