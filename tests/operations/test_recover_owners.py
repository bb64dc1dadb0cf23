"""`recover` run by another user than the owner of the files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stratalog.directory.cluster_metadata import METADATA_DIRECTORY
from stratalog.errors import FileOwnerError
from tests.directory.recovery.recovering import (
    copy_of,
    files_of,
)
from tests.operations.recovering import both, run

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Become the user nobody, only in its own group, for a while."""
    groups = os.getgroups()
    os.setgroups([NOBODY])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can read, unlike the folders of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A killed broker's directory of user nobody and group root, as a container leaves it."""
    with tempfile.TemporaryDirectory() as name:
        directory = copy_of("killed", Path(name) / "data")
        for path in (Path(name), directory, *directory.rglob("*")):
            os.chown(path, NOBODY, 0)
            path.chmod(0o750 if path.is_dir() else 0o640)
        yield directory


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_brokers_own_user_was_refused_where_only_the_group_differs(nobodys: Path) -> None:
    with (nobodys / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(bytes(8) + b"\0\0\1\0" + b"half")

    with as_nobody():
        plan, report = both(nobodys)

    for found in (plan, report):
        assert found.may_start
        assert found.result.remarks == (
            f"{nobodys}: user {NOBODY} is not in group 0 (the group of {nobodys}, for example). Files that "
            "are written here get another group; their owner and permissions are kept.",
        )
    index = nobodys / "rolled-0" / "00000000000000000088.index"
    assert (index.stat().st_uid, index.stat().st_mode & 0o777) == (NOBODY, 0o640)
    assert {path.stat().st_uid for path in nobodys.rglob("*")} == {NOBODY}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_group_that_cannot_be_kept_is_not_a_finding(nobodys: Path) -> None:
    with as_nobody():
        report = run(nobodys)

    assert (report.may_start, report.has_findings) == (True, False)
    assert report.result.remarks


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_files_of_another_user_are_still_refused(nobodys: Path) -> None:
    other = nobodys / "rolled-0" / "00000000000000000088.log"
    os.chown(other, 0, 0)
    before = files_of(nobodys)

    with as_nobody(), pytest.raises(FileOwnerError) as refusal:
        run(nobodys)

    assert (refusal.value.path, refusal.value.owner) == (str(other), 0)
    assert files_of(nobodys) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("name", ["00000000000000000000.log", "quorum-state"])
def test_metadata_of_root_does_not_keep_logs_from_being_recovered(
    nobodys: Path, tmp_path: Path, name: str
) -> None:
    run(copy_of("killed", tmp_path / "first"))  # compiles the kernels, which user nobody cannot
    os.chown(nobodys / METADATA_DIRECTORY / name, 0, 0)
    (nobodys / METADATA_DIRECTORY / name).chmod(0o600)

    with as_nobody():
        report = run(nobodys)

    assert (nobodys / ".kafka_cleanshutdown").exists()
    assert not report.may_start
    assert f"{METADATA_DIRECTORY}/{name}" in {each.name for each in report.refusals}
