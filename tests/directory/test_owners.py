"""Who owns the files of a log directory, and whether they stay theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.errors import FileOwnerError
from tests.directory.recovery.recovering import files_of, recover, recover_one


def test_files_of_another_user_are_refused_unless_root_keeps_their_owner(killed: Path) -> None:
    before = files_of(killed)

    with pytest.raises(FileOwnerError) as refusal:
        recover(killed, user=os.getuid() + 4711)

    assert refusal.value.owner == os.getuid()
    assert files_of(killed) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_root_leaves_every_file_to_its_owner(killed: Path) -> None:
    for path in [killed, *killed.rglob("*")]:
        os.chown(path, 4711, 4712)

    recover_one(killed)

    assert {(path.stat().st_uid, path.stat().st_gid) for path in killed.rglob("*")} == {(4711, 4712)}
