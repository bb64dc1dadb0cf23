"""`stratalog retain`: what is deleted, what is refused, and that a clean directory stays clean."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratalog.cli import main
from tests.cli.planting import EPOCH, MARKER, SET_SIZE, Planted
from tests.cli.retaining import cuts, run, three_segments
from tests.log.model import NOW
from tests.manager.running import checkpoint
from tests.profile import examples


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return three_segments(tmp_path)


def test_old_segments_are_renamed_and_the_directory_stays_clean_with_its_epoch(planted: Planted) -> None:
    assert run(planted) == 0

    assert planted.files("orders", ".log") == [f"{10:020d}.log"]
    assert planted.files("orders", ".log.deleted") == [f"{base:020d}.log.deleted" for base in (0, 5)]
    assert json.loads((planted.data / MARKER).read_text()) == {"version": 0, "brokerEpoch": EPOCH}
    assert checkpoint(planted.data, "log-start-offset-checkpoint") == {}
    assert checkpoint(planted.data, "recovery-point-offset-checkpoint") == {"orders-0": 15}


def test_a_second_run_at_the_same_clock_changes_nothing(planted: Planted) -> None:
    run(planted)
    before = planted.contents()

    assert run(planted) == 0

    assert planted.contents() == before


def test_without_a_delay_files_are_removed_at_once(tmp_path: Path) -> None:
    with Planted(tmp_path, orders={"retention.ms": 0, "file.delete.delay.ms": 0}) as planted:
        planted.fill("orders", 12, timestamp=NOW - 10)

    assert run(planted) == 0

    assert planted.files("orders", ".deleted") == []
    assert planted.files("orders", ".log") == [f"{12:020d}.log"]


def test_nothing_to_do_leaves_every_file_alone(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.settings.write_text('{"orders": {"retention.ms": -1}}')
    before = planted.contents()

    assert run(planted) == 0

    assert planted.contents() == before
    assert "Nothing to do" in capsys.readouterr().err


def test_what_is_left_is_read_by_the_next_start(planted: Planted) -> None:
    run(planted)

    with planted:
        log = planted.log("orders")
        assert (log.log_start_offset, log.log_end_offset) == (10, 15)
        assert planted.files("orders", ".deleted") == []  # a load removes them


# Refusals


def test_a_topic_whose_settings_are_not_known_is_refused_by_name(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, settings=False) == 3

    assert "orders-0: refused, its settings are not known" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_time_that_is_none_is_wrong_usage(planted: Planted) -> None:
    assert main.run(["retain", str(planted.data), "--now", "yesterday"]) == 2


def test_a_dry_run_lists_the_segments_that_retain_then_deletes_though_a_time_index_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a power cut: the records of the newest segment are there, the entries of its index are not."""
    day = 86_400_000
    with Planted(tmp_path, t={"retention.ms": 2 * day, "segment.ms": 99 * day}) as planted:
        planted.fill("t", 10, timestamp=NOW - 9 * day)
        planted.fill("t", 3, timestamp=NOW - day)
    (planted.data / MARKER).unlink()
    (planted.data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    stale = struct.pack(">qi", NOW - 9 * day, 4)
    for base in (0, 5, 10):
        (planted.data / "t-0" / f"{base:020d}.timeindex").write_bytes(stale)
    torn = planted.data / "t-0" / f"{10:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-1])
    before = planted.contents()

    assert run(planted, "--dry-run") == 3
    assert run(planted, "--dry-run", "--recover", "--json") == 1
    planned = json.loads(capsys.readouterr().out)
    assert planted.contents() == before
    assert run(planted, "--recover", "--json") == 1

    done = json.loads(capsys.readouterr().out)
    assert rows(planned) == rows(done) == [(0, "retention.ms"), (5, "retention.ms")]
    assert [cuts["cut_bytes"] for cuts in planned["recovery"]["directories"][0]["partitions"]] == [
        cuts["cut_bytes"] for cuts in done["recovery"]["directories"][0]["partitions"]
    ]


@pytest.mark.parametrize("seed", range(examples(200)))
@pytest.mark.parametrize("command", ["retain", "compact"])
def test_a_dry_run_after_a_recovery_on_paper_is_what_the_run_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, seed: int
) -> None:
    """Several damages each: empty or garbled indexes, flipped bits of logs, a recovery point of any age."""
    planted = damaged(tmp_path, Random(seed), "compact,delete" if command == "compact" else "delete")
    before = planted.contents()

    statuses = [run(planted, "--dry-run", "--recover", "--json", command=command)]
    planned = json.loads(capsys.readouterr().out)
    assert planted.contents() == before
    statuses.append(run(planted, "--recover", "--json", command=command))

    done = json.loads(capsys.readouterr().out)
    assert cuts(planned) == cuts(done)
    unknown = [found["not_known"] for each in planned["directories"] for found in each["partitions"]]
    if unknown in ([], [None]):
        assert statuses[0] == statuses[1]
        assert rows(planned) == rows(done)


def damaged(root: Path, random: Random, policy: str) -> Planted:
    """A directory that was not shut down cleanly, and worse."""
    day = 86_400_000
    settings = {"cleanup.policy": policy, "retention.ms": 3 * day, "segment.ms": 99 * day}
    with Planted(root, t=settings) as planted:
        for _ in range(6):
            planted.fill("t", 5, timestamp=NOW - random.randrange(1, 7 * day), keys=3)
    (planted.data / MARKER).unlink()
    point = random.choice([0, 12, 30])
    (planted.data / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {point}\n")
    for path in sorted((planted.data / "t-0").iterdir()):
        chance = random.random()
        if path.suffix in (".index", ".timeindex") and chance < 0.5:
            path.write_bytes(b"" if chance < 0.2 else random.randbytes(24))
        elif path.suffix == ".log" and chance < 0.3:
            data = bytearray(path.read_bytes())
            position = random.randrange(len(data))
            # Not in an offset of a compacted log: if offsets leap, the run splits the segment first, and only
            # then notices that they go back.
            if "compact" not in policy or position % SET_SIZE >= 8:
                data[position] ^= 0x55
            path.write_bytes(data)
    return planted


def rows(document: dict[str, Any]) -> list[tuple[object, ...]]:
    """What was deleted and what was compacted."""
    partitions = [found for directory in document["directories"] for found in directory["partitions"]]
    deleted = [(found["base_offset"], found["rule"]) for each in partitions for found in each["deleted"]]
    return [*deleted, *(tuple(each["cleaned"].items()) for each in partitions if each["cleaned"])]


# Purging


def test_purge_removes_at_once_what_this_run_and_earlier_ones_deleted(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    run(planted)
    assert planted.files("orders", ".deleted")
    planted.settings.write_text('{"orders": {"retention.ms": 0, "file.delete.delay.ms": 60000}}')
    capsys.readouterr()
    before = planted.contents()
    assert run(planted, "--purge", "--dry-run", "--json", now=NOW + 10) == 0
    plan = json.loads(capsys.readouterr().out)
    assert planted.contents() == before

    assert run(planted, "--purge", "--json", now=NOW + 10) == 0

    done = json.loads(capsys.readouterr().out)
    assert planted.files("orders", ".deleted") == []
    assert planted.files("orders", ".log") == [f"{15:020d}.log"]
    (partition,), (planned,) = (found["directories"][0]["partitions"] for found in (done, plan))
    assert partition["deleted"] == planned["deleted"]
    # Loading a log deletes the snapshot at its start: nobody has to rename it first.
    snapshot = f"{10:020d}.snapshot.deleted"
    names = {Path(path).name for path in planned["removed_files"]} - {snapshot}
    assert {Path(path).name for path in partition["removed_files"]} == names
    assert len(names) == 10
    assert partition["waiting_files"] == []
    assert json.loads((planted.data / MARKER).read_text()) == {"version": 0, "brokerEpoch": EPOCH}


def test_purge_removes_folders_that_a_broker_has_marked(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.settings.write_text('{"orders": {"retention.ms": -1}}')
    folder = planted.data / "gone-3.0123456789abcdef0123456789abcdef-delete"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(b"x" * 100)
    stray = planted.data / "gone-4.0123456789abcdef0123456789abcdef-stray"
    stray.mkdir()
    before = planted.contents()
    assert run(planted, "--purge", "--dry-run") == 0
    assert "gone-3." in capsys.readouterr().out
    assert planted.contents() == before
    assert run(planted) == 0
    assert folder.exists()

    capsys.readouterr()
    assert run(planted, "--purge", "--json") == 0

    document = json.loads(capsys.readouterr().out)
    assert document["directories"][0]["removed_folders"] == [str(folder)]
    assert document["totals"]["folders_removed"] == 1
    assert not folder.exists()
    assert stray.exists()
    assert (planted.data / MARKER).exists()


def test_purge_of_a_topic_leaves_the_others_alone(tmp_path: Path) -> None:
    limits = {"retention.ms": 0, "file.delete.delay.ms": 60_000}
    with Planted(tmp_path, one=limits, two=limits) as planted:
        for topic in ("one", "two"):
            planted.fill(topic, 12, timestamp=NOW - 10)
    folder = planted.data / "two-3.0123456789abcdef0123456789abcdef-delete"
    folder.mkdir()
    run(planted)

    assert run(planted, "--purge", "--topic", "one") == 0

    assert planted.files("one", ".deleted") == []
    assert planted.files("two", ".deleted")
    assert folder.exists()
