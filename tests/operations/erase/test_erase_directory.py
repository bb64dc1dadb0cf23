"""Everywhere in a log directory where records are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.files.disk import Disk
from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.records.reader import read_batches
from tests.cli.erasing import COUNT, SETTINGS, occurs, run
from tests.cli.planting import Planted
from tests.log.model import NOW, batch


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record. Values are offsets."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    return planted


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
    assert (place / QUARANTINE_MANIFEST).exists()


def test_what_in_quarantine_has_no_such_record_stays(planted: Planted) -> None:
    quarantine = kept(planted)
    before = [entry.files for entry in quarantine.entries()]

    assert run(planted, "--offsets", "15") == 0

    assert [entry.files for entry in quarantine.entries()] == before


def test_a_segment_with_offsets_too_far_apart_is_told_before_anything_is_changed(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    active = planted.data / "t-0" / f"{20:020d}.log"
    active.write_bytes(active.read_bytes() + batch(b"far", key=b"0", base_offset=20 + 2**31))
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert f"offset {20 + 2**31} is not from 20 to" in capsys.readouterr().err
    assert planted.contents() == before
