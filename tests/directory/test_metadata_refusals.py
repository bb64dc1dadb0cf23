"""The cluster's metadata in the wrong place, or damaged (more of that in tests/directory/refused.py).

tests/kafka/test_doctor.py starts a broker in such cases.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.directory.metadata_refusals import of_metadata, of_metadata_places
from stratalog.directory.refusal import RefusalKind
from stratalog.files.disk import Disk
from tests.directory.refused import METADATA, QUORUM_STATE, SNAPSHOT, VOTED, refusals, with_second


def test_metadata_in_a_second_directory_was_not_noticed(clean: Path) -> None:
    other = with_second(clean)
    shutil.copytree(clean / METADATA, other / METADATA)

    (found,) = refusals(clean, other)

    assert (found.kind, found.directory) == (RefusalKind.METADATA_PLACE, str(other))
    assert str(clean) in found.reason


def test_metadata_in_another_place_than_the_broker_s_was_not_noticed(clean: Path) -> None:
    other = with_second(clean)

    (found,) = of_metadata_places(Disk(), [str(clean), str(other)], str(other))

    assert (found.directory, found.name) == (str(clean), METADATA)
    assert "name its directory first in log.dirs" in found.remedy
    assert not [*of_metadata_places(Disk(), [str(clean), str(other)], str(clean))]


def test_a_link_to_the_place_is_the_place(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(clean)

    assert not [*of_metadata_places(Disk(), [str(clean)], str(tmp_path / "link"))]


def test_metadata_that_is_a_file_was_not_noticed(clean: Path) -> None:
    shutil.rmtree(clean / METADATA)
    (clean / METADATA).write_bytes(b"")

    (found,) = refusals(clean)

    assert (found.kind, found.name) == (RefusalKind.METADATA_PLACE, METADATA)


def test_a_snapshot_can_go_where_the_log_has_everything(clean: Path) -> None:
    (clean / SNAPSHOT).write_bytes(bytes(500))
    (found,) = of_metadata(Disk(), str(clean))
    assert found.remedy.startswith("Move it out")

    (clean / METADATA / "00000000000000000000.log").unlink()

    (found,) = of_metadata(Disk(), str(clean))
    assert found.remedy.startswith("Copy it from another controller")


@pytest.mark.parametrize(
    "field", ["clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"]
)
def test_a_field_that_quorum_state_lacks_is_named(clean: Path, field: str) -> None:
    (clean / QUORUM_STATE).write_text(VOTED.replace(f'"{field}"', '"other"'))

    (found,) = of_metadata(Disk(), str(clean))

    assert found.reason == f"It has no usable {field}, which version 0 has."
