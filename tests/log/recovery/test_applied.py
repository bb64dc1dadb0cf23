"""What the steps of a plan have done when one of them fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import PreconditionError
from stratalog.files.disk import Disk
from stratalog.log.recovery.applied import Applied
from stratalog.log.recovery.facts import FileFact
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.steps import Delete, KeepRange, Truncate, steps_in_rounds


@pytest.mark.parametrize("keeps", [True, False])
def test_steps_before_the_one_that_fails_are_known(tmp_path: Path, keeps: bool) -> None:
    (tmp_path / "orders-0").mkdir()
    log = tmp_path / "orders-0" / f"{7:020d}.log"
    log.write_bytes(b"good, bad")
    status = Disk().status(log)
    assert status is not None
    file = FileFact(log.name, status.size, status.id, status.mtime_ms)
    steps = [
        KeepRange(file=file, position=4, size=5, why="damage"),
        Truncate(file=file, size=4, why="damage"),
        Delete(file=file._replace(name=f"{8:020d}.log"), why="another file has this name"),
    ]
    (tmp_path / "orders-0" / f"{8:020d}.log").write_bytes(b"other")
    applied = Applied()
    quarantine = Quarantine(Disk(), tmp_path) if keeps else None

    with pytest.raises(PreconditionError):
        [*steps_in_rounds(Disk(), tmp_path / "orders-0", steps, quarantine, applied=applied)]

    assert log.read_bytes() == b"good"
    assert applied.shortened == {log.name}
    assert [(step, entry.size) for step, entry in applied.kept] == ([(steps[0], 5)] if keeps else [])
