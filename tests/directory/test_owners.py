"""Who owns the files of a log directory, and who may use them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.directory.refusal import RefusalKind
from stratalog.errors import FileOwnerError
from tests.directory.recovery.recovering import files_of, recover, recover_one
from tests.directory.refused import OUT_OF_REACH, Owned, give_to_nobody, refusals


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("place", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_what_the_brokers_user_may_not_use_is_named(clean: Path, place: Owned) -> None:
    give_to_nobody(clean)
    place.make(clean)

    found = refusals(clean)

    assert [(each.kind, each.name) for each in found] == [(RefusalKind.OWNER, place.name)] * place.is_refused


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_a_group_may_do_the_broker_may(clean: Path) -> None:
    give_to_nobody(clean)
    for path in clean.rglob("*"):
        os.chown(path, 0, 0)
        path.chmod(0o770 if path.is_dir() else 0o660)

    assert refusals(clean) == ()
