"""The ways of loading do what they are said to do, counted by the disk."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from stratalog.cli import main
from tests.cli.startup.small import SMALL

SEGMENTS = 2 * 3


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], dict[str, Any]]:
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


def test_all_five_strategies_are_measured(measured: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    strategies = ("kafka-2.1", "lazy", "dedupe", "checked", "stratalog")

    expected = {(name, state, n) for name in strategies for state in ("clean", "unclean") for n in (1, 2, 4)}
    assert measured.keys() == expected


@pytest.mark.parametrize("readers", [1, 2, 4])
def test_only_kafka_2_1_scans_the_newest_segments_twice(
    measured: dict[tuple[str, str, int], dict[str, Any]], readers: int
) -> None:
    twice = {
        name: row["segments_scanned_twice"]
        for (name, state, count), row in measured.items()
        if state == "unclean" and count == readers
    }

    assert twice == {"kafka-2.1": 2, "lazy": 0, "dedupe": 0, "checked": 0, "stratalog": 0}


@pytest.mark.parametrize("name", ["kafka-2.1", "lazy", "dedupe", "checked", "stratalog"])
def test_every_segment_is_scanned_after_a_power_cut_and_none_after_a_clean_stop(
    measured: dict[tuple[str, str, int], dict[str, Any]], name: str
) -> None:
    assert measured[name, "unclean", 1]["segments_scanned"] == SEGMENTS
    assert measured[name, "clean", 1]["segments_scanned"] == 0


def test_the_times_of_the_report_stand_beside_ours(
    measured: dict[tuple[str, str, int], dict[str, Any]],
) -> None:
    assert measured["kafka-2.1", "unclean", 1]["measured_once"] == "1 h 16 min, 1 h 18 min"
    assert measured["stratalog", "unclean", 1]["measured_once"] is None
