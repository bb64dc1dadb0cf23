"""`stratalog erase`: what is named occurs in no file of the directory, the rest is as it was."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.log.recovery.manifest import MANIFEST
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.records.reader import read_batches
from tests.cli.planting import EPOCH, MARKER, Planted
from tests.log.cleaning.dirty import records_of
from tests.log.model import NOW, batch

AUDIT = "stratalog-erased.jsonl"
SETTINGS: dict[str, Any] = {"retention.ms": -1}
COUNT = 21


def run(planted: Planted, *arguments: object, name: str = "t-0", settings: bool = True) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run(["erase", *map(str, (planted.data, "--topic", name, *given, "--now", NOW, *arguments))])


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record. Values are offsets."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    return planted


def left(planted: Planted, topic: str = "t") -> list[int]:
    with planted:
        log = planted.log(topic)
        assert (log.log_start_offset, log.log_end_offset) == (0, COUNT)
        return [record.offset for record in records_of(log)]


def without(*keys: int) -> list[int]:
    return [offset for offset in range(COUNT) if offset % 3 not in keys]


def audit(planted: Planted) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (planted.data / AUDIT).read_text().splitlines()]


def occurs(planted: Planted, value: bytes) -> list[str]:
    """The files in which these bytes are."""
    return [name for name, (data, _) in planted.contents().items() if value in data]


def test_a_key_is_gone_from_every_segment_and_the_directory_is_clean_again(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, "--key", "0") == 0

    shown = capsys.readouterr()
    assert "replica" in shown.err
    assert json.loads((planted.data / MARKER).read_text()) == {"version": 0, "brokerEpoch": EPOCH}
    assert occurs(planted, b"0018") == []
    assert planted.contents().keys() == {*before, AUDIT}
    assert left(planted) == without(0)


def test_a_second_run_changes_nothing(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    run(planted, "--key", "0")
    before = planted.contents()
    capsys.readouterr()

    assert run(planted, "--key", "0") == 0

    assert "Nothing to erase" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_dry_run_tells_what_would_go_and_changes_nothing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, "--key", "2", "--dry-run", "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert partition["records"] == 7
    assert [file["records"] for file in partition["files"]] == [1, 2, 2, 1, 1]
    assert planted.contents() == before


def test_there_are_bars_where_somebody_watches(
    planted: Planted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes a terminal of a pipe

    assert run(planted, "--key", "2", "--json") == 0

    printed = capsys.readouterr()
    assert "looking through t-0" in printed.err
    assert "erasing from t-0" in printed.err
    assert printed.err.count("100%") >= 2
    assert json.loads(printed.out)["dry_run"] is False


def test_keys_come_in_files_and_as_text_hex_and_base64(planted: Planted, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"0\r\n\nnobody\n")
    encoded = base64.b64encode(b"2").decode()

    assert run(planted, "--key-file", keys) == 0
    assert left(planted) == without(0)
    assert run(planted, "--key", "31", "--key-format", "hex") == 0
    assert left(planted) == without(0, 1)
    assert run(planted, "--key", encoded, "--key-format", "base64") == 0
    assert left(planted) == []


def test_offsets_of_a_partition(planted: Planted) -> None:
    assert run(planted, "--offsets", "3,7-9", "--offsets", "20") == 0

    assert left(planted) == [offset for offset in range(COUNT) if offset not in (3, 7, 8, 9, 20)]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--offsets", "3-"],
        ["--offsets", "9-3"],
        ["--key", "xyz", "--key-format", "hex"],
        ["--key", "a b", "--key-format", "base64"],
    ],
)
def test_what_names_no_record_is_wrong_usage(planted: Planted, arguments: list[str]) -> None:
    assert run(planted, *arguments) == 2


def test_a_number_that_no_offset_has_is_wrong_usage(planted: Planted) -> None:
    assert run(planted, "--offsets", f"3-{2**63}") == 2


def test_a_name_that_a_topic_and_a_partition_have_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, **{"t": SETTINGS, "t-0": SETTINGS}) as planted:
        planted.fill("t", COUNT, keys=3)
        planted.fill("t-0", COUNT, keys=3)
    before = planted.contents()

    assert run(planted, "--key", "0", name="t-0") == 2

    assert "t-0 is a topic here, and partition 0 of t too" in capsys.readouterr().err
    assert planted.contents() == before
    assert run(planted, "--key", "0", name="t-0-0") == 0
    assert left(planted) == list(range(COUNT))
    assert left(planted, "t-0") == without(0)


def test_offsets_without_a_partition_are_wrong_usage(planted: Planted) -> None:
    assert run(planted, "--offsets", "3", name="t") == 2


def test_a_topic_that_is_not_there_is_wrong_usage(planted: Planted) -> None:
    assert run(planted, "--key", "0", name="nobody") == 2


def test_a_topic_is_all_of_its_partitions_and_no_other_topic(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS, other=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
        planted.fill("other", COUNT, keys=3)
        log = planted.log("t", 1)
        log.append_as_leader(batch(b"second", key=b"0"), leader_epoch=0)
        log.update_high_watermark(1)

    assert run(planted, "--key", "0", name="t") == 0

    assert left(planted, "other") == list(range(COUNT))
    assert left(planted) == without(0)
    assert occurs(planted, b"second") == []


def test_the_audit_tells_what_was_done_and_does_not_keep_the_key(planted: Planted) -> None:
    before = {name: data for name, (data, _) in planted.contents().items()}
    secret = "0"

    run(planted, "--key", secret)

    lines = audit(planted)
    assert [line["records_count"] for line in lines] == [2, 2, 1, 2]
    assert {line["time_ms"] for line in lines} == {NOW}
    for line in lines:
        after = (planted.data / line["file"]).read_bytes()
        assert line["sha256_before"] == hashlib.sha256(before[line["file"]]).hexdigest()
        assert line["sha256_after"] == hashlib.sha256(after).hexdigest()
        assert line["key_hashes"] == [hashlib.sha256(secret.encode()).hexdigest()]


def test_files_that_wait_for_their_deletion_go_too(planted: Planted) -> None:
    folder = planted.data / "t-0"
    (folder / f"{5:020d}.log.deleted").write_bytes((folder / f"{5:020d}.log").read_bytes())

    assert run(planted, "--key", "0") == 0

    assert planted.files("t", ".deleted") == []
    assert occurs(planted, b"0006") == []


def test_directories_that_wait_for_removal_or_were_set_aside_are_looked_through(planted: Planted) -> None:
    source = planted.data / "t-0" / f"{5:020d}.log"
    for name in (f"t-0.{'0' * 32}-delete", f"t-0.{'1' * 32}-stray"):
        (planted.data / name).mkdir()
        (planted.data / name / source.name).write_bytes(source.read_bytes())

    assert run(planted, "--key", "0") == 0

    assert occurs(planted, b"0006") == []
    (stray,) = planted.data.glob("*-stray/*.log")
    assert [record.offset for each in read_batches(stray.read_bytes()) for record in each] == [5, 7, 8]
    assert not list(planted.data.glob("*-delete/*.log"))


def kept(planted: Planted, cut: int = 0) -> Quarantine:
    """Put a segment into quarantine as well, or all but some bytes of it."""
    quarantine = Quarantine(Disk(), planted.data, clock=lambda: NOW)
    path = planted.data / "t-0" / f"{5:020d}.log"
    quarantine.keep_range(
        path,
        partition="t-0",
        file=path.name,
        position=0,
        size=path.stat().st_size - cut,
        reason="for the test",
    )
    return quarantine


def test_what_is_in_quarantine_is_rewritten_and_its_manifest_tells_so(planted: Planted) -> None:
    quarantine = kept(planted)

    assert run(planted, "--key", "0") == 0

    assert occurs(planted, b"0006") == []
    (entry,) = quarantine.entries()
    quarantine.restore(entry, planted.data / "restored")
    data = (planted.data / "restored").read_bytes()
    assert [record.offset for each in read_batches(data) for record in each] == [5, 7, 8]
    assert entry.reason == "for the test; records of it were erased later"
    before = planted.contents()
    assert run(planted, "--key", "0") == 0
    assert planted.contents() == before


def test_what_cannot_be_read_in_quarantine_may_hold_them_and_goes(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    quarantine = kept(planted, cut=1)

    assert run(planted, "--key", "0") == 0

    assert "not readable" in capsys.readouterr().out
    assert occurs(planted, b"0006") == []
    (entry,) = quarantine.entries()
    assert (entry.files, entry.size) == ((), 0)
    assert "removed later" in entry.reason
    assert not list(planted.data.glob("stratalog-quarantine-*"))


def test_what_is_shorter_in_quarantine_than_its_manifest_says_goes_too(planted: Planted) -> None:
    quarantine = kept(planted)
    (entry,) = quarantine.entries()
    path = planted.data / entry.files[0]
    path.write_bytes(path.read_bytes()[:-1])

    assert run(planted, "--key", "0") == 0

    assert occurs(planted, b"0006") == []


def test_a_quarantine_elsewhere_is_looked_through_when_it_is_named(planted: Planted, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    place.mkdir()
    path = planted.data / "t-0" / f"{5:020d}.log"
    Quarantine(Disk(), place).keep_range(
        path, partition="t-0", file=path.name, position=0, size=path.stat().st_size, reason="for the test"
    )

    assert run(planted, "--key", "0", "--quarantine", place) == 0

    names = [file.name for file in place.iterdir() if b"0006" in file.read_bytes()]
    assert names == []
    assert (place / MANIFEST).exists()


def test_what_in_quarantine_has_no_such_record_stays(planted: Planted) -> None:
    quarantine = kept(planted)
    before = [entry.files for entry in quarantine.entries()]

    assert run(planted, "--offsets", "15") == 0

    assert [entry.files for entry in quarantine.entries()] == before


def test_a_topic_of_unknown_settings_is_done_and_that_is_said(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(planted, "--key", "0", settings=False) == 0

    assert "settings are not known" in capsys.readouterr().err
    assert left(planted) == without(0)


def test_records_that_a_write_has_staged_are_refused(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    source = planted.data / "t-0" / f"{5:020d}.log"
    (planted.data / "stratalog-write-5f0c-0-0.log").write_bytes(source.read_bytes())
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "stratalog-write-5f0c-0-0.log was staged by a write" in capsys.readouterr().err
    assert planted.contents() == before
    assert run(planted, "--key", "nobody") == 0


def test_what_a_killed_write_has_staged_may_hold_them_in_its_torn_end(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (planted.data / "t-0" / f"{5:020d}.log").read_bytes()
    # The first of five batches is whole and of another key; the second has the key, and lacks its last byte.
    (planted.data / "stratalog-write-5f0c-0-0.log").write_bytes(source[: len(source) * 2 // 5 - 1])
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "may have such records in its torn end" in capsys.readouterr().err
    assert planted.contents() == before


@pytest.mark.parametrize("name", [f"{5:020d}.bak.log", "5.log"])
def test_a_copy_that_a_broker_would_take_for_another_log_is_refused(
    planted: Planted, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = planted.data / "t-0"
    (folder / name).write_bytes((folder / f"{5:020d}.log").read_bytes())
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert f"'t-0/{name}': it would be taken for {5:020d}.log" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_link_to_a_log_elsewhere_is_refused(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "t-0" / f"{5:020d}.log"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "is a symbolic link" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_file_that_is_nothing_of_a_broker_s_is_named_as_not_looked_into(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = planted.data / "t-0"
    (folder / f"{5:020d}.log.bak").write_bytes((folder / f"{5:020d}.log").read_bytes())

    assert run(planted, "--key", "0") == 0

    assert f"Not looked into, as no broker has such files: t-0/{5:020d}.log.bak." in capsys.readouterr().err


def test_directories_of_the_broker_that_were_not_named_are_told(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, properties = tmp_path / "other", tmp_path / "server.properties"
    other.mkdir()
    properties.write_text(f"log.dirs={planted.data},{other}\n")

    assert run(planted, "--key", "0", "--config", properties) == 0

    assert f"Not looked through, though the broker's log.dirs have it: {other}." in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".cleaned", ".swap"])
def test_what_a_failed_cleaner_has_left_beside_a_marker_is_ended_first(
    planted: Planted, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    folder = planted.data / "t-0"
    (folder / f"{5:020d}.log{suffix}").write_bytes((folder / f"{5:020d}.log").read_bytes())

    assert run(planted, "--key", "0") == 0

    assert "t-0: a replacement of segments was cut short, and is ended first" in capsys.readouterr().err
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
    assert occurs(planted, b"0006") == []
    before = planted.contents()
    assert run(planted, "--key", "0") == 0
    assert planted.contents() == before
    assert left(planted) == without(0)


def test_a_tiered_topic_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    planted.settings.write_text(json.dumps({"t": {"remote.storage.enable": "true"}}))
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "t-0: refused, the topic is tiered" in capsys.readouterr().err
    assert planted.contents() == before


def test_the_metadata_of_the_cluster_is_refused(planted: Planted) -> None:
    assert run(planted, "--key", "0", name="__cluster_metadata-0") == 3


@pytest.mark.parametrize("dry", [True, False])
def test_a_directory_in_use_is_refused(planted: Planted, dry: bool) -> None:
    before = planted.contents()

    with DirectoryLock(planted.data):
        assert run(planted, "--key", "0", *(["--dry-run"] if dry else [])) == 3

    assert planted.contents() == before


def test_a_directory_that_was_not_shut_down_cleanly_is_refused_and_recovered_if_asked(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    (planted.data / MARKER).unlink()
    active = planted.data / "t-0" / f"{20:020d}.log"
    active.write_bytes(active.read_bytes() + batch(b"secret torn", key=b"0", base_offset=21)[:-1])
    before = planted.contents()

    assert run(planted, "--key", "0") == 3
    assert run(planted, "--key", "0", "--dry-run") == 3
    assert "was not shut down cleanly" in capsys.readouterr().err
    assert run(planted, "--key", "0", "--dry-run", "--recover") == 1
    said = capsys.readouterr()
    assert "Cut off (planned" in said.out
    assert "is not known before" in said.err
    assert planted.contents() == before
    assert run(planted, "--key", "0", "--recover") == 1

    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == -1
    assert occurs(planted, b"secret") == []
    assert left(planted) == without(0)


def test_a_log_that_cannot_be_read_is_told_and_left_as_it_is(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "t-0" / f"{5:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "t-0: nothing is erased" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_segment_with_offsets_too_far_apart_is_told_before_anything_is_changed(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    active = planted.data / "t-0" / f"{20:020d}.log"
    active.write_bytes(active.read_bytes() + batch(b"far", key=b"0", base_offset=20 + 2**31))
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert f"offset {20 + 2**31} is not from 20 to" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_failure_leaves_no_clean_shutdown_file_and_the_next_run_finishes(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rename = Disk.rename

    def full(disk: Disk, source: str, target: str) -> None:
        if ".log" in target:
            raise DiskError("data", "no space left", 28)
        rename(disk, source, target)

    with monkeypatch.context() as failing:
        failing.setattr(Disk, "rename", full)
        assert run(planted, "--key", "0") == 3
    shown = capsys.readouterr()
    assert "failed. data: no space left" in shown.err
    assert f"It was not finished in {planted.data}: run it again with --recover." in shown.out
    assert "Erased records" not in shown.out
    assert not (planted.data / MARKER).exists()

    assert run(planted, "--key", "0", "--recover") in (0, 1)  # what was begun may be told

    assert occurs(planted, b"0018") == []
    assert left(planted) == without(0)
