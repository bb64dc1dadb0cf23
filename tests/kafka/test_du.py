"""`stratalog du` beside a running broker and after its stop, against the broker's own tools and deeds."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli.main import run
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import MakeBroker
from tests.kafka.listed import make_listed, sizes_of
from tests.profile import examples
from tests.waiting import until

OLD_MS = 3_600_000
RAISED = r"partition=t-0.*Incremented log start offset to (\d+)"


def used(capsys: pytest.CaptureFixture[str], config: Path, *arguments: str) -> dict[str, Any]:
    assert run(["du", "--config", str(config), "--by", "partition", "--json", *arguments]) == 0
    return {use["name"]: use for use in json.loads(capsys.readouterr().out)["uses"]}


@pytest.mark.parametrize("seed", range(examples(10, quick=1, ci=1)))
def test_the_bytes_of_logs_are_those_of_log_dirs(
    make_broker: MakeBroker, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = make_listed(make_broker, tmp_path, 100 + seed)
    config = tmp_path / "server.properties"
    sizes = {name: size for (_, name), size in sizes_of(broker).items()}

    live = used(capsys, config)
    broker.stop()
    stopped = used(capsys, config)

    for found in (live, stopped):
        assert {name: found[name]["log_bytes"] for name in sizes} == sizes
        assert not any(found[name]["is_assumed"] for name in sizes)


def test_what_is_freed_now_is_what_the_broker_deletes_next(
    make_broker: MakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "20000"}
    broker = make_broker(work=tmp_path, properties=properties)
    create_topic(broker.bootstrap, "t", config={"retention.ms": "600000", "internal.segment.bytes": "2000"})
    client = producer(broker.bootstrap)
    now = int(time.time() * 1000)
    old = [{"value": b"%0100d" % number, "timestamp": now - OLD_MS} for number in range(100)]
    new = [{"value": b"%0100d" % number, "timestamp": now} for number in range(100)]
    produce(client, "t", [*old, *new], batch=1)
    size = sum(path.stat().st_size for path in (broker.log_dir / "t-0").glob("*.log"))

    found = used(capsys, tmp_path / "server.properties", "t")["t-0"]

    assert 0 < found["freed_now_bytes"] < size == found["log_bytes"]
    # The first segment with a new record stays until that record is too old.
    assert now + 600_000 <= found["freed_next_ms"] <= now + 600_001
    # The broker raises the log's start first, and then renames one segment after the other.
    until(lambda: broker.log_lines(RAISED))
    start = int(re.findall(RAISED, broker.log_lines(RAISED)[-1])[0])
    logs = broker.log_dir / "t-0"
    until(lambda: min(int(path.stem) for path in logs.glob("*.log")) == start)
    assert sum(path.stat().st_size for path in logs.glob("*.log")) == size - found["freed_now_bytes"]
