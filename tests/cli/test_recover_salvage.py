"""`stratalog recover --salvage` on planted damage: exactly the right batches survive, the rest is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.files.disk import Disk
from stratalog.log.recovery.quarantine import Quarantine
from tests.log.recovery import test_salvage as model
from tests.log.recovery.damaged import BASE, NEXT_BASE, batch, survivors

LOG, BEHIND = f"{BASE:020d}.log", f"{NEXT_BASE:020d}.log"
NEXT = batch(NEXT_BASE).data
# If no checksum is wrong, recovery has nothing to salvage: a broker accepts offsets that go back, too.
DAMAGES = {name: planted for name, planted in model.DAMAGES.items() if "without any damage" not in name}


def plant(root: Path) -> dict[str, bytes]:
    """A partition for each damage, with an undamaged segment after it; returns the damaged logs."""
    planted = {}
    for number, ((pieces, _), _) in enumerate(DAMAGES.values()):
        directory = root / f"damage-{number}"
        directory.mkdir(parents=True)
        data = planted[directory.name] = b"".join(piece.data for piece in pieces)
        (directory / LOG).write_bytes(data)
        (directory / BEHIND).write_bytes(NEXT)
    return planted


def files(root: Path) -> dict[str, bytes]:
    return {
        os.fspath(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_there_are_thirty_damages_and_more_to_plant() -> None:
    assert len(DAMAGES) > 30


@pytest.mark.parametrize("keep_open", [False, True])
def test_exactly_what_the_rules_allow_is_kept_of_each_damage(tmp_path: Path, keep_open: bool) -> None:
    plant(tmp_path)
    options = ["--keep-open-transactions"] if keep_open else []

    assert main.run(["recover", "--salvage", *options, os.fspath(tmp_path)]) == 1

    found = {name: (tmp_path / f"damage-{number}" / LOG).read_bytes() for number, name in enumerate(DAMAGES)}
    assert found == {
        name: b"".join(
            pieces[number].data
            for number in survivors(pieces, first_bad, keep_open=keep_open, is_followed=True)
        )
        for name, ((pieces, first_bad), _) in DAMAGES.items()
    }
    assert {path.read_bytes() for path in tmp_path.glob(f"*/{BEHIND}")} == {NEXT}


def test_what_is_left_out_and_what_stays_are_the_damaged_log_again(tmp_path: Path) -> None:
    planted = plant(tmp_path)

    main.run(["recover", "--salvage", os.fspath(tmp_path)])

    disk = Disk()
    quarantine = Quarantine(disk, tmp_path)
    for name, data in planted.items():
        rest, kept = (tmp_path / name / LOG).read_bytes(), b""
        entries = [entry for entry in quarantine.entries() if entry.partition == name]
        for entry in sorted(entries, key=lambda entry: entry.position):
            size = entry.position - len(kept)
            kept, rest = kept + rest[:size], rest[size:]
            target = tmp_path / "restored"
            quarantine.restore(entry, target)
            kept += target.read_bytes()
            target.unlink()
        assert kept + rest == data


def test_a_second_run_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path)
    main.run(["recover", "--salvage", os.fspath(tmp_path)])
    before = files(tmp_path)
    capsys.readouterr()

    assert main.run(["recover", "--salvage", "--all", "--json", os.fspath(tmp_path)]) in (0, 1)
    report = json.loads(capsys.readouterr().out)
    assert not any(part["cuts"] for found in report["directories"] for part in found["partitions"])
    assert files(tmp_path) == before


def test_a_dry_run_tells_of_the_cuts_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path)
    before = files(tmp_path)

    assert main.run(["recover", "--salvage", "--dry-run", "--json", os.fspath(tmp_path)]) == 1
    report = json.loads(capsys.readouterr().out)
    told = {
        part["partition"] for found in report["directories"] for part in found["partitions"] if part["cuts"]
    }
    lossy = {
        f"damage-{number}"
        for number, ((pieces, first_bad), _) in enumerate(DAMAGES.values())
        if len(survivors(pieces, first_bad, is_followed=True)) < len(pieces)
    }
    assert told == lossy
    assert files(tmp_path) == before
