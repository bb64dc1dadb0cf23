"""What `compact` cleans, and what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.cli.compacting import SETTINGS, run
from tests.cli.planting import EPOCH, MARKER, Planted
from tests.log.model import NOW, read_all
from tests.manager.running import checkpoint, fixture_copy


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=3)
    return planted


def test_a_small_map_takes_several_passes_to_the_same_records(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleaner.dedupe.buffer.size=96\n")  # four slots, three keys

    assert run(planted, "--config", properties, "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert partition["cleaned"]["end_offset"] == 20
    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == [17, 18, 19, 20]


def test_many_keys_and_a_small_map_take_several_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 10, keys=10)
        planted.fill("t", 11, keys=10)
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleaner.dedupe.buffer.size=96\n")

    assert run(planted, "--config", properties, "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert partition["cleaned"]["passes"] > 1
    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == list(range(10, 21))


def test_logs_that_are_not_compacted_are_left_alone(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS, plain={"retention.ms": 0}) as planted:
        planted.fill("t", 11)
        planted.fill("plain", 11, timestamp=NOW - 10)
    before = [planted.contents()[name] for name in planted.contents() if name.startswith("plain-0/")]

    assert run(planted) == 0

    assert [planted.contents()[name] for name in planted.contents() if name.startswith("plain-0/")] == before


def test_with_both_policies_old_segments_go_too(tmp_path: Path) -> None:
    settings = {**SETTINGS, "cleanup.policy": "compact,delete", "retention.ms": 1000}
    with Planted(tmp_path, t=settings) as planted:
        planted.fill("t", 10, keys=10, timestamp=NOW - 5000)
        planted.fill("t", 6, keys=6, timestamp=NOW)

    assert run(planted) == 0

    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == list(range(10, 16))


def test_nothing_above_the_checkpointed_high_watermark_is_cleaned(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=1, high_watermark=12)

    assert run(planted) == 0

    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == [9, *range(10, 21)]


def test_without_a_high_watermark_nothing_is_cleaned(planted: Planted) -> None:
    (planted.data / "replication-offset-checkpoint").unlink()
    before = planted.contents()

    assert run(planted) == 0

    assert planted.contents() == before


def test_how_long_a_broker_keeps_tombstones_is_in_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """log.cleaner.delete.retention.ms: by the default of a day they might go too early."""
    data = fixture_copy("clean", tmp_path / "data")
    arguments = ["compact", str(data), "--dry-run", "--topic", "__consumer_offsets"]

    assert main.run(arguments) == 3
    assert (
        "__consumer_offsets-0: refused, delete.retention.ms comes from its broker" in capsys.readouterr().err
    )

    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    assert main.run([*arguments, "--config", str(properties)]) == 0


def test_an_index_that_becomes_too_small_is_the_matter_of_its_log_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry for each batch from now on, where there was none before: an index has no room for them."""
    with Planted(tmp_path, bad=SETTINGS, good=SETTINGS) as planted:
        planted.fill("bad", 11, keys=11)
        planted.fill("good", 11, keys=1)
    topics = json.loads(planted.settings.read_text())
    topics["bad"] |= {"index.interval.bytes": 0, "segment.index.bytes": 24}
    planted.settings.write_text(json.dumps(topics))

    assert run(planted) == 3

    assert "bad-0: its compaction stopped early" in capsys.readouterr().err
    assert planted.files("bad", ".cleaned") == []
    assert checkpoint(planted.data, "cleaner-offset-checkpoint") == {"good-0": 10}
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
