"""Files that the broker's user may not use. Each case was tried on a running 4.3.1."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from stratalog.directory.refusal import RefusalKind, is_start_refused
from tests.directory.refused import (
    METADATA,
    METADATA_LOG,
    NOBODY,
    OTHER_ID,
    OUT_OF_REACH,
    WAITING,
    Owned,
    give_to_nobody,
    refusals,
    with_second,
)
from tests.operations.test_recover_owners import as_nobody, reachable

__all__ = ["reachable"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
STRAY = WAITING.replace("short-lived", "rolled").replace("-delete", "-stray")


@pytest.mark.parametrize("place", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_what_the_brokers_user_may_not_use_is_named(clean: Path, place: Owned) -> None:
    give_to_nobody(clean)
    place.make(clean)

    found = refusals(clean)

    assert [(each.kind, each.name) for each in found] == [(RefusalKind.OWNER, place.name)] * place.is_refused


def test_what_a_group_may_do_the_broker_may(clean: Path) -> None:
    give_to_nobody(clean)
    for path in clean.rglob("*"):
        os.chown(path, 0, 0)
        path.chmod(0o770 if path.is_dir() else 0o660)

    assert refusals(clean) == ()


@pytest.mark.parametrize("name", [METADATA_LOG, "bootstrap.checkpoint"])
def test_without_the_metadata_a_broker_ends_although_it_has_another_directory(clean: Path, name: str) -> None:
    other = with_second(clean)
    for directory in (clean, other):
        give_to_nobody(directory)
    Owned(name, 0o600).make(clean)

    (found,) = refusals(clean, other)

    assert not found.takes_offline
    assert is_start_refused([found], [str(clean), str(other)], None)


def test_a_bootstrap_checkpoint_that_no_broker_reads_may_be_of_root(clean: Path) -> None:
    other = with_second(clean)
    for directory in (clean, other):
        give_to_nobody(directory)
    Owned("bootstrap.checkpoint", 0o600).make(other)

    assert refusals(clean, other) == ()


@pytest.mark.parametrize(
    ("name", "mode", "is_refused"),
    [
        (METADATA, 0o755, True),
        (METADATA_LOG, 0o644, True),
        ("bootstrap.checkpoint", 0o600, True),
        (".lock", 0o644, True),
        ("README", 0o600, False),
        ("recovery-point-offset-checkpoint", 0o600, False),
    ],
)
def test_a_metadata_log_dir_outside_of_log_dirs_was_overlooked(
    clean: Path, tmp_path: Path, name: str, mode: int, is_refused: bool
) -> None:
    place = tmp_path / "metadata"
    place.mkdir()
    shutil.move(clean / METADATA, place)
    shutil.move(clean / "bootstrap.checkpoint", place)
    text = (clean / "meta.properties").read_text()
    (place / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={OTHER_ID}", text))
    for directory in (clean, place):
        give_to_nobody(directory)
    Owned(name, mode).make(place)

    found = refusals(clean, metadata_directory=place)

    assert [(each.directory, each.name) for each in found] == [(str(place), name)] * is_refused


@pytest.mark.parametrize(
    ("name", "mode", "is_refused"),
    [
        ("", 0o755, True),
        ("/00000000000000000000.log", 0o644, True),
        ("/00000000000000000000.index", 0o644, False),
        ("/00000000000000000072.index", 0o644, True),
        ("/leader-epoch-checkpoint", 0o600, True),
    ],
)
def test_a_folder_that_was_set_aside_is_loaded_too(
    clean: Path, name: str, mode: int, is_refused: bool
) -> None:
    shutil.copytree(clean / "rolled-0", clean / STRAY)
    give_to_nobody(clean)
    Owned(STRAY + name, mode).make(clean)

    assert [each.name for each in refusals(clean)] == [STRAY + name] * is_refused


@pytest.mark.parametrize("folder", ["rolled-0", METADATA, WAITING])
def test_a_folder_that_the_brokers_user_cannot_list_is_named_by_that_user_too(
    reachable: Path, clean: Path, folder: str
) -> None:
    directory = Path(shutil.copytree(clean, reachable / "data"))
    give_to_nobody(directory)
    os.chown(directory / folder, 0, 0)
    (directory / folder).chmod(0o700)

    assert [(each.kind, each.name) for each in refusals(directory)] == [(RefusalKind.OWNER, folder)]
    with as_nobody():
        assert os.geteuid() == NOBODY
        found = refusals(directory)

    assert (RefusalKind.UNREADABLE, folder) in {(each.kind, each.name) for each in found}
    assert all(each.name.startswith(folder) for each in found)
