"""The ways of loading do what they are said to do, counted by the disk."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from stratalog.cli import main
from tests.cli.startup.small import SMALL

PARTITIONS = 2
STRATEGIES = ("kafka-2.1", "lazy", "dedupe", "checked", "stratalog")
MANY = "clean, many segments"
Rows = dict[tuple[str, str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("bench")
    output = folder / "out.json"
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("click.echo", lambda text="", **_: printed.append(str(text)))
        chart = str(folder / "chart.svg")
        assert (
            main.run(["bench", "startup", *SMALL, "--json", "--svg", chart, "--work-dir", str(folder)]) == 0
        )
    output.write_text(next(text for text in printed if text.startswith("{")))
    rows = json.loads(output.read_text())["measured"]
    ElementTree.parse(folder / "chart.svg")
    assert sorted(path.name for path in folder.iterdir()) == ["chart.svg", "out.json"]
    return {(row["strategy"], row["state"], row["readers"]): row for row in rows}


def test_all_five_strategies_are_measured(measured: Rows) -> None:
    expected = {(name, state, n) for name in STRATEGIES for state in ("clean", "unclean") for n in (1, 2, 4)}
    assert measured.keys() == expected | {(name, MANY, 1) for name in STRATEGIES}
    assert {row["rounds"] for row in measured.values()} == {2}
    assert all(row["seconds"] <= row["median_seconds"] for row in measured.values())


@pytest.mark.parametrize("readers", [1, 2, 4])
def test_only_kafka_2_1_scans_the_newest_segments_twice(measured: Rows, readers: int) -> None:
    twice = {name: measured[name, "unclean", readers]["segments_scanned_twice"] for name in STRATEGIES}

    assert twice == {"kafka-2.1": 2, "lazy": 0, "dedupe": 0, "checked": 0, "stratalog": 0}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_newest_segments_are_scanned_after_a_power_cut_and_none_after_a_clean_stop(
    measured: Rows, name: str
) -> None:
    assert measured[name, "unclean", 1]["segments_scanned"] == PARTITIONS
    assert measured[name, "clean", 1]["segments_scanned"] == 0
    assert measured[name, MANY, 1]["segments_scanned"] == 0


def test_kafka_syncs_one_file_of_each_partition_and_writes_what_it_recovers(measured: Rows) -> None:
    for name in STRATEGIES[:4]:
        assert measured[name, "unclean", 1]["syncs"] == PARTITIONS
        assert measured[name, "clean", 1]["syncs"] == PARTITIONS
        assert measured[name, "unclean", 1]["bytes_written"] > measured[name, "clean", 1]["bytes_written"]
    twice, once = (measured[name, "unclean", 1]["bytes_written"] for name in ("kafka-2.1", "dedupe"))
    assert once < twice < 2 * once


def test_lazy_indexes_are_not_read_after_a_clean_stop(measured: Rows) -> None:
    """Kafka 2.1 reads two pages of each index, to check it."""
    assert measured["lazy", MANY, 1]["bytes_read"] < measured["kafka-2.1", MANY, 1]["bytes_read"] / 2


def test_times_and_bytes_are_told_for_each_partition(measured: Rows) -> None:
    found = measured["dedupe", "unclean", 1]

    assert 0 < found["partition_seconds"] < found["seconds"]
    assert found["bytes_per_partition"] == found["bytes_read"] // PARTITIONS
    assert measured["stratalog", "unclean", 1]["partition_seconds"] is None


def test_the_times_of_the_article_stand_beside_ours(measured: Rows) -> None:
    assert measured["kafka-2.1", "unclean", 1]["article"].startswith("1 h 16 min, 1 h 18 min")
    assert measured["lazy", MANY, 1]["article"] == "1 min 14 s, 52 s"
    assert measured["stratalog", "unclean", 1]["article"] is None
