"""`stratalog erase`: no file of the directory has the named records, and everything else is unchanged."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from tests.cli.erasing import COUNT, SETTINGS, left, occurs, run, without
from tests.cli.planting import EPOCH, MARKER, Planted
from tests.log.model import NOW, batch

AUDIT = "stratalog-erased.jsonl"


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record. Values are offsets."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    return planted


def audit(planted: Planted) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (planted.data / AUDIT).read_text().splitlines()]


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


def test_there_are_bars_where_somebody_watches(
    planted: Planted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # treats a pipe like a terminal

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

    assert "t-0 is the name of a topic here, and also of partition 0 of topic t" in capsys.readouterr().err
    assert planted.contents() == before
    assert run(planted, "--key", "0", name="t-0-0") == 0
    assert left(planted) == list(range(COUNT))
    assert left(planted, "t-0") == without(0)


def test_offsets_without_a_partition_are_wrong_usage(planted: Planted) -> None:
    assert run(planted, "--offsets", "3", name="t") == 2


def test_a_topic_that_is_not_there_is_wrong_usage(planted: Planted) -> None:
    assert run(planted, "--key", "0", name="nobody") == 2


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


@pytest.mark.parametrize("suffix", [".cleaned", ".swap"])
def test_what_a_failed_cleaner_has_left_beside_a_marker_is_ended_first(
    planted: Planted, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    folder = planted.data / "t-0"
    (folder / f"{5:020d}.log{suffix}").write_bytes((folder / f"{5:020d}.log").read_bytes())

    assert run(planted, "--key", "0") == 0

    assert "t-0: a replacement of segments was interrupted, and is finished first" in capsys.readouterr().err
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
    assert occurs(planted, b"0006") == []
    before = planted.contents()
    assert run(planted, "--key", "0") == 0
    assert planted.contents() == before
    assert left(planted) == without(0)


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

    assert "t-0: nothing was erased" in capsys.readouterr().err
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
    assert f"The command did not finish in {planted.data}: run it again with --recover." in shown.out
    assert "Erased records" not in shown.out
    assert not (planted.data / MARKER).exists()

    assert run(planted, "--key", "0", "--recover") in (0, 1)  # it may report what the killed run began

    assert occurs(planted, b"0018") == []
    assert left(planted) == without(0)
