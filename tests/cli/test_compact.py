"""`stratalog compact`: each key's last value stays, the directory stays clean, the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.files.lock import DirectoryLock
from tests.cli.compacting import DELAY, SETTINGS, run
from tests.cli.planting import EPOCH, MARKER, Planted
from tests.log.model import NOW, read_all
from tests.manager.running import checkpoint


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


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]])
def test_there_is_a_bar_where_somebody_watches(
    planted: Planted,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # treats a pipe like a terminal

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


def test_a_topic_whose_settings_are_not_known_is_refused_by_name(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, settings=False) == 3

    assert "t-0: refused, its settings are not known" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_directory_in_use_is_refused(planted: Planted) -> None:
    before = planted.contents()

    with DirectoryLock(planted.data):
        assert run(planted) == 3

    assert planted.contents() == before


def test_a_log_that_cannot_be_read_is_told_and_left_as_it_is(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "t-0" / f"{5:020d}.log"
    data = bytearray(path.read_bytes())
    data[16] = 9  # a magic that no batch has
    path.write_bytes(data)

    assert run(planted) == 3

    assert "t-0: its compaction stopped early" in capsys.readouterr().err
    assert planted.files("t", ".cleaned") == []
    assert len(planted.files("t", ".log")) == 5
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
