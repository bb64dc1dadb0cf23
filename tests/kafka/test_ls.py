"""`stratalog ls` beside a running broker and after its stop, against the broker's own tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli.main import run
from tests.kafka.conftest import MakeBroker
from tests.kafka.listed import TOPICS, make_listed, offsets_of, sizes_of, topics_of
from tests.profile import examples

METADATA = "__cluster_metadata"


def listed(capsys: pytest.CaptureFixture[str], config: Path) -> dict[str, Any]:
    assert run(["ls", "--config", str(config), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize("seed", range(examples(10, quick=1, ci=1)))
def test_topics_sizes_and_offsets_are_those_of_the_broker_s_own_tools(
    make_broker: MakeBroker, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = make_listed(make_broker, tmp_path, seed)
    config = tmp_path / "server.properties"
    topics, sizes = topics_of(broker), sizes_of(broker)
    first, last = offsets_of(broker, "earliest"), offsets_of(broker, "latest")

    live = listed(capsys, config)
    broker.stop()
    stopped = listed(capsys, config)

    assert [found["is_in_use"] for found in live["directories"]] == [True, True]
    assert [found["is_clean"] for found in live["directories"]] == [False, False]
    assert [found["is_clean"] for found in stopped["directories"]] == [True, True]
    for document in (live, stopped):
        shown = {topic["topic"]: topic for topic in document["topics"]}
        partitions = [found for topic in document["topics"] for found in topic["partitions"]]
        own = [found for found in partitions if found["topic"] != METADATA]
        assert sorted({*shown} - {METADATA}) == topics
        assert {(found["directory"], found["name"]): found["bytes"] for found in own} == sizes
        named = {found["name"]: found for found in own if not found["topic"].startswith("__")}
        assert {name: found["end_offset"] for name, found in named.items()} == last
        for topic, settings in TOPICS.items():
            policy = settings.get("cleanup.policy", "delete")
            assert shown[topic]["cleanup_policy"] == policy.split(",")
            assert shown[topic]["is_policy_known"]
    # A live broker writes where logs start only now and then.
    named = {found["name"]: found for topic in stopped["topics"] for found in topic["partitions"]}
    assert {name: named[name]["start_offset"] for name in first} == first
