"""`stratalog compact`: each key's last value stays, the directory stays clean, the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from tests.cli.planting import EPOCH, MARKER, Planted
from tests.log.model import NOW, read_all
from tests.manager.running import checkpoint, fixture_copy

DELAY = 60_000
SETTINGS: dict[str, Any] = {"cleanup.policy": "compact", "file.delete.delay.ms": DELAY}


def test_a_plan_after_a_recovery_on_paper_is_to_the_byte_what_compact_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        planted.fill("t", 23, keys=3)
    (planted.data / MARKER).unlink()
    (planted.data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for base in (15, 20):  # the log now ends inside what was closed, and indexes are gone
        (planted.data / "t-0" / f"{base:020d}.index").unlink()
    torn = planted.data / "t-0" / f"{15:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-3])
    before = planted.contents()

    assert run(planted, "--dry-run") == 3
    assert run(planted, "--dry-run", "--recover", "--json") == 1
    assert planted.contents() == before
    planned = json.loads(capsys.readouterr().out)
    assert run(planted, "--recover", "--json") == 1

    done = json.loads(capsys.readouterr().out)
    (one,), (other,) = (found["directories"][0]["partitions"] for found in (planned, done))
    assert one["cleaned"] == other["cleaned"] is not None


def run(planted: Planted, *arguments: object, now: int = NOW, settings: bool = True) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run(["compact", *map(str, (planted.data, *given, "--now", now, *arguments))])


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=3)
    return planted


def test_the_last_value_of_each_key_stays_and_the_directory_is_clean_again(planted: Planted) -> None:
    assert run(planted) == 0

    assert json.loads((planted.data / MARKER).read_text()) == {"version": 0, "brokerEpoch": EPOCH}
    assert checkpoint(planted.data, "cleaner-offset-checkpoint") == {"t-0": 20}
    with planted:
        log = planted.log("t")
        assert [record.offset for record in read_all(log)] == [17, 18, 19, 20]
        assert (log.log_start_offset, log.log_end_offset) == (0, 21)


def test_a_second_run_at_the_same_clock_changes_nothing(planted: Planted) -> None:
    run(planted)
    before = planted.contents()

    assert run(planted) == 0

    assert planted.contents() == before


def test_a_dry_run_says_what_is_dirty_and_changes_nothing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, "--dry-run", "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert (partition["cleaned"]["first_dirty_offset"], partition["cleaned"]["end_offset"]) == (0, 20)
    assert planted.contents() == before


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]])
def test_there_is_a_bar_where_somebody_watches(
    planted: Planted,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes a terminal of a pipe

    assert run(planted, "--json", *arguments) == 0

    printed = capsys.readouterr()
    assert "t-0" in printed.err
    assert "100%" in printed.err
    assert json.loads(printed.out)["dry_run"] is bool(arguments)


def test_old_files_wait_for_a_later_run(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    run(planted)
    assert "removes them" in capsys.readouterr().out
    assert len(planted.files("t", ".log.deleted")) == 4

    run(planted, now=NOW + DELAY)

    assert planted.files("t", ".deleted") == []


def test_a_start_removes_old_files_too(planted: Planted) -> None:
    run(planted)

    with planted:
        pass

    assert planted.files("t", ".deleted") == []


def test_what_a_failed_cleaner_has_left_beside_a_marker_is_ended_first(planted: Planted) -> None:
    folder = planted.data / "t-0"
    (folder / f"{5:020d}.log.cleaned").write_bytes((folder / f"{5:020d}.log").read_bytes()[:73])

    assert run(planted) == 0

    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
    assert planted.files("t", ".cleaned") == []
    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == [17, 18, 19, 20]


def test_an_index_that_is_missing_beside_a_marker_is_built_anew(planted: Planted) -> None:
    (planted.data / "t-0" / f"{5:020d}.index").unlink()

    assert run(planted) == 0

    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == [17, 18, 19, 20]


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


def test_a_topic_whose_settings_are_not_known_is_refused_by_name(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, settings=False) == 3

    assert "t-0: refused, its settings are not known" in capsys.readouterr().err
    assert planted.contents() == before


def test_how_long_a_broker_keeps_tombstones_is_in_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """log.cleaner.delete.retention.ms: by the default of a day they might go too early."""
    data = fixture_copy("clean", tmp_path / "data")
    arguments = ["compact", str(data), "--dry-run", "--topic", "__consumer_offsets"]

    assert main.run(arguments) == 3
    assert "__consumer_offsets-0: refused, delete.retention.ms is its broker's" in capsys.readouterr().err

    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    assert main.run([*arguments, "--config", str(properties)]) == 0


def test_a_directory_in_use_is_refused(planted: Planted) -> None:
    before = planted.contents()

    with DirectoryLock(planted.data):
        assert run(planted) == 3

    assert planted.contents() == before


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

    assert "bad-0: it is not compacted any further" in capsys.readouterr().err
    assert planted.files("bad", ".cleaned") == []
    assert checkpoint(planted.data, "cleaner-offset-checkpoint") == {"good-0": 10}
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH


def test_a_log_that_cannot_be_read_is_told_and_left_as_it_is(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "t-0" / f"{5:020d}.log"
    data = bytearray(path.read_bytes())
    data[16] = 9  # a magic that no batch has
    path.write_bytes(data)

    assert run(planted) == 3

    assert "t-0: it is not compacted any further" in capsys.readouterr().err
    assert planted.files("t", ".cleaned") == []
    assert len(planted.files("t", ".log")) == 5
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
