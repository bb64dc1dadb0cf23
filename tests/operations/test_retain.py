"""Which segments `retain` deletes, and which it never does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.log.retention import Rule
from stratalog.operations.retain import Retention
from tests.cli.planting import SET_SIZE, Planted
from tests.cli.retaining import DELAY, run
from tests.log.model import NOW
from tests.manager.running import checkpoint, fixture_copy
from tests.operations.crashing import maintain, new_disk


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Three segments, by a limit for one."""
    with Planted(
        tmp_path, orders={"retention.bytes": 5 * SET_SIZE, "retention.ms": -1, "file.delete.delay.ms": DELAY}
    ) as planted:
        planted.fill("orders", 15)
    return planted


def test_a_log_that_starts_inside_a_segment_still_does(tmp_path: Path) -> None:
    with Planted(tmp_path, orders={"cleanup.policy": "compact", "retention.ms": 0}) as planted:
        planted.fill("orders", 15).increment_log_start_offset(7)

    assert run(planted) == 0

    assert planted.files("orders", ".log") == [f"{base:020d}.log" for base in (5, 10)]
    assert checkpoint(planted.data, "log-start-offset-checkpoint") == {"orders-0": 7}


def test_nothing_above_the_checkpointed_high_watermark_goes(tmp_path: Path) -> None:
    with Planted(tmp_path, orders={"retention.ms": 0}) as planted:
        planted.fill("orders", 15, timestamp=NOW - 10, high_watermark=7)

    assert run(planted) == 0

    assert planted.files("orders", ".log") == [f"{base:020d}.log" for base in (5, 10)]


# A real broker's directory


def test_a_broker_s_own_limits_decide_and_its_defaults_need_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    far = NOW + 10 * 365 * 86_400_000
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\nlog.retention.hours=168\n")

    assert main.run(["retain", str(data), "--dry-run", "--now", str(far), "--topic", "rolled"]) == 3
    assert "rolled-0: refused, cleanup.policy comes from its broker" in capsys.readouterr().err

    arguments = ["retain", str(data), "--dry-run", "--now", str(far), "--config", str(properties)]
    assert main.run([*arguments, "--topic", "rolled", "--json"]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert {found["rule"] for found in partition["deleted"]} == {"retention.ms"}


def test_consumer_offsets_never_go_by_age(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    before = {path: path.read_bytes() for path in data.glob("__consumer_offsets-*/*")}
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    far = NOW + 10 * 365 * 86_400_000

    status = main.run(
        ["retain", str(data), "--now", str(far), "--config", str(properties), "--topic", "__consumer_offsets"]
    )

    assert status == 0
    assert before
    assert {path: path.read_bytes() for path in data.glob("__consumer_offsets-*/*")} == before


def test_retention_tells_the_rule() -> None:
    report = maintain(new_disk(), Retention())

    assert {found.rule for partition in report.partitions for found in partition.deleted} == {Rule.SIZE}
