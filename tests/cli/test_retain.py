"""`stratalog retain`: what goes, what is refused, and that a clean directory stays one."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from tests.cli.planting import EPOCH, MARKER, SET_SIZE, Planted
from tests.log.model import NOW
from tests.manager.running import checkpoint, contents, fixture_copy
from tests.profile import examples

DELAY = 60_000


def run(
    planted: Planted, *arguments: object, now: int = NOW, settings: bool = True, command: str = "retain"
) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run([command, *map(str, (planted.data, *given, "--now", now, *arguments))])


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Three segments, by a limit for one."""
    with Planted(
        tmp_path, orders={"retention.bytes": 5 * SET_SIZE, "retention.ms": -1, "file.delete.delay.ms": DELAY}
    ) as planted:
        planted.fill("orders", 15)
    return planted


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


def test_files_are_removed_by_a_run_after_their_delay_and_the_report_says_when(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    run(planted)
    assert "or the broker's next start, removes them" in capsys.readouterr().out
    run(planted, now=NOW + DELAY - 1)
    assert planted.files("orders", ".deleted")

    assert run(planted, "--json", now=NOW + DELAY) == 0

    document = capsys.readouterr().out
    (partition,) = json.loads(document[document.index("{") :])["directories"][0]["partitions"]
    assert len(partition["removed_files"]) == len(
        [name for name in partition["removed_files"] if ".deleted" in name]
    )
    assert partition["removed_files"]
    assert partition["waiting_files"] == []
    assert planted.files("orders", ".deleted") == []
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH


def test_without_a_delay_files_are_removed_at_once(tmp_path: Path) -> None:
    with Planted(tmp_path, orders={"retention.ms": 0, "file.delete.delay.ms": 0}) as planted:
        planted.fill("orders", 12, timestamp=NOW - 10)

    assert run(planted) == 0

    assert planted.files("orders", ".deleted") == []
    assert planted.files("orders", ".log") == [f"{12:020d}.log"]


def test_a_dry_run_tells_the_same_and_changes_nothing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, "--dry-run", "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert [(found["base_offset"], found["rule"]) for found in partition["deleted"]] == [
        (0, "retention.bytes"),
        (5, "retention.bytes"),
    ]
    assert planted.contents() == before


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


def test_times_past_all_calendars_are_told_as_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A producer that sends microseconds, and files that are kept for ever."""
    settings = {
        "retention.ms": -1,
        "retention.bytes": 0,
        "file.delete.delay.ms": 2**62,
        "message.timestamp.after.max.ms": 2**62,
    }
    with Planted(tmp_path, t=settings) as planted:
        planted.fill("t", 10, timestamp=NOW * 1000)

    assert run(planted) == 0

    said = capsys.readouterr().out
    assert f"{NOW * 1000} ms" in said
    assert f"{NOW + 2**62} ms" in said


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


# Refusals


def test_a_topic_whose_settings_are_not_known_is_refused_by_name(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, settings=False) == 3

    assert "orders-0: refused, its settings are not known" in capsys.readouterr().err
    assert planted.contents() == before


def test_others_are_done_when_one_topic_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(
        tmp_path, orders={"retention.ms": 0}, tiered={"retention.ms": 0, "remote.storage.enable": True}
    ) as planted:
        planted.fill("orders", 6, timestamp=NOW - 10)
        planted.fill("tiered", 6, timestamp=NOW - 10)

    assert run(planted) == 3

    assert "tiered-0: refused, the topic is tiered" in capsys.readouterr().err
    assert planted.files("tiered", ".deleted") == []
    assert len(planted.files("orders", ".log.deleted")) == 2


def test_only_the_topics_that_are_named_are_touched(tmp_path: Path) -> None:
    with Planted(tmp_path, orders={"retention.ms": 0}, events={"retention.ms": 0}) as planted:
        planted.fill("orders", 6, timestamp=NOW - 10)
        planted.fill("events", 6, timestamp=NOW - 10)

    assert run(planted, "--topic", "events") == 0

    assert planted.files("orders", ".deleted") == []
    assert planted.files("events", ".log.deleted")


def test_a_name_that_is_not_there_is_wrong_usage(planted: Planted) -> None:
    assert run(planted, "--topic", "nothing") == 2


def test_a_time_that_is_none_is_wrong_usage(planted: Planted) -> None:
    assert main.run(["retain", str(planted.data), "--now", "yesterday"]) == 2


@pytest.mark.parametrize("how", ["--dry-run", None])
def test_a_directory_in_use_is_refused(planted: Planted, how: str | None) -> None:
    before = planted.contents()

    with DirectoryLock(planted.data):
        assert run(planted, *([how] if how else [])) == 3

    assert planted.contents() == before


# Directories that were not shut down cleanly


@pytest.mark.parametrize("how", ["--dry-run", None])
def test_a_directory_that_was_not_shut_down_cleanly_is_refused_in_one_line(
    planted: Planted, capsys: pytest.CaptureFixture[str], how: str | None
) -> None:
    (planted.data / MARKER).unlink()
    before = planted.contents()

    assert run(planted, *([how] if how else [])) == 3

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"stratalog: {planted.data}: it was not shut down cleanly: .kafka_cleanshutdown is missing. "
        f"Run `stratalog recover {planted.data}` first, or give --recover.\n"
    )
    assert planted.contents() == before


def test_after_a_recovery_it_is_not_refused_any_more(planted: Planted) -> None:
    (planted.data / MARKER).unlink()
    main.run(["recover", str(planted.data)])

    assert run(planted) == 0

    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == -1
    assert planted.files("orders", ".log") == [f"{10:020d}.log"]


def test_retain_of_one_topic_does_not_cut_another_without_naming_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, a={"retention.ms": 0}, b={"retention.ms": -1}) as planted:
        planted.fill("a", 6, timestamp=NOW - 10)
        planted.fill("b", 6)
    torn = tear(planted, "b", 5)

    assert run(planted, "--topic", "a") == 3
    assert torn.stat().st_size == SET_SIZE + 20
    assert run(planted, "--topic", "a", "--recover", "--json") == 1

    document = capsys.readouterr().out
    recovery = json.loads(document)["recovery"]
    cuts = {found["partition"]: found["cut_bytes"] for found in recovery["directories"][0]["partitions"]}
    assert cuts == {"a-0": 0, "b-0": 20}
    assert planted.files("a", ".log") == [f"{6:020d}.log"]
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == -1


def test_a_log_that_must_be_cut_in_a_clean_directory_is_not_cut_in_passing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "orders-0" / f"{10:020d}.log"
    path.with_suffix(".index").unlink()
    torn = path.read_bytes() + path.read_bytes()[:20]
    path.write_bytes(torn)

    assert run(planted) == 3

    words = capsys.readouterr().err
    assert f"20 bytes of {path.name} must be cut off" in words
    assert f"Run `stratalog recover --all {planted.data}` first." in words
    assert path.read_bytes() == torn
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH


def test_a_log_that_was_cut_short_under_a_clean_shutdown_file_is_refused_with_advice_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    log = data / "rolled-0" / f"{72:020d}.log"
    log.write_bytes(log.read_bytes()[:300])
    settings = tmp_path / "topics.json"
    settings.write_text(json.dumps({"rolled": {"cleanup.policy": "delete", "retention.ms": 1}}))
    retain = ["retain", str(data), "--topic", "rolled", "--topic-settings", str(settings)]

    assert main.run(retain) == 3
    told = capsys.readouterr().err
    assert f"Run `stratalog recover --all {data}` first." in told
    assert "Nothing to do" not in told

    assert main.run(["recover", "--all", str(data)]) == 1
    assert main.run(retain) == 0


@pytest.mark.parametrize("wrong", ["a topic", "a node", "settings"])
def test_what_is_asked_wrongly_is_found_before_recovery_cuts_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    data = fixture_copy("killed", tmp_path / "data")
    other = fixture_copy("killed", tmp_path / "other")
    (other / "meta.properties").write_text(
        (other / "meta.properties")
        .read_text()
        .replace("node.id=1", f"node.id={2 if wrong == 'a node' else 1}")
    )
    settings = tmp_path / "topics.json"
    settings.write_text("{" if wrong == "settings" else "{}")
    before = contents(data), contents(other)
    topic = ["--topic", "nowhere"] if wrong == "a topic" else []

    status = main.run(
        ["retain", "--recover", str(data), str(other), "--topic-settings", str(settings), *topic]
    )

    assert status == (3 if wrong == "a node" else 2), capsys.readouterr().err
    assert (contents(data), contents(other)) == before


def test_what_recovery_cuts_off_is_in_the_text_of_retain_too(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    tear(planted, "orders", 10)

    assert run(planted, "--recover") == 1

    shown = capsys.readouterr().out
    assert "Cut off" in shown
    assert "Deleted segments" in shown


def test_recover_beside_a_clean_directory_changes_nothing_but_what_retention_does(planted: Planted) -> None:
    assert run(planted, "--recover") == 0

    assert json.loads((planted.data / MARKER).read_text()) == {"version": 0, "brokerEpoch": EPOCH}
    assert planted.files("orders", ".log") == [f"{10:020d}.log"]


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
    """Several damages each: indexes that are empty or garbled, bits of logs, a recovery point of any age."""
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
            # Not in an offset of a log that is compacted: where offsets leap, the run splits the segment
            # first, and only then finds that they go back.
            if "compact" not in policy or position % SET_SIZE >= 8:
                data[position] ^= 0x55
            path.write_bytes(data)
    return planted


def cuts(document: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (found["partition"], cut["position"], cut["bytes"])
        for directory in document["recovery"]["directories"]
        for found in directory["partitions"]
        for cut in found["cuts"]
    ]


def rows(document: dict[str, Any]) -> list[tuple[object, ...]]:
    """What was deleted and what was compacted."""
    partitions = [found for directory in document["directories"] for found in directory["partitions"]]
    deleted = [(found["base_offset"], found["rule"]) for each in partitions for found in each["deleted"]]
    return [*deleted, *(tuple(each["cleaned"].items()) for each in partitions if each["cleaned"])]


def tear(planted: Planted, topic: str, base_offset: int) -> Path:
    """Half a batch at the end of a log, as a killed process leaves it."""
    (planted.data / MARKER).unlink(missing_ok=True)
    path = planted.data / f"{topic}-0" / f"{base_offset:020d}.log"
    path.write_bytes(path.read_bytes() + path.read_bytes()[:20])
    return path


# A real broker's directory


def test_a_broker_s_own_limits_decide_and_its_defaults_need_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    far = NOW + 10 * 365 * 86_400_000
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\nlog.retention.hours=168\n")

    assert main.run(["retain", str(data), "--dry-run", "--now", str(far), "--topic", "rolled"]) == 3
    assert "rolled-0: refused, cleanup.policy is its broker's" in capsys.readouterr().err

    arguments = ["retain", str(data), "--dry-run", "--now", str(far), "--config", str(properties)]
    assert main.run([*arguments, "--topic", "rolled", "--json"]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert {found["rule"] for found in partition["deleted"]} == {"retention.ms"}


def test_what_keeps_the_broker_from_starting_is_in_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    given = ["retain", "--config", str(properties), "--topic", "rolled", "--now", str(NOW), "--dry-run"]
    assert main.run([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["may_start"]
    (data / "meta.properties").unlink()

    assert main.run([*given, "--json"]) == 3

    document = json.loads(capsys.readouterr().out)
    assert not document["may_start"]
    assert "The broker must not be started yet: it refuses to start" in document["verdict"]
    assert [found["name"] for found in document["refusals"]] == ["meta.properties"]


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
