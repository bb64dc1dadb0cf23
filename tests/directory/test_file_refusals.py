"""Files with the names of partitions. tests/kafka/test_startup_refusals.py starts a broker with one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from stratalog.directory.refusal import RefusalKind
from stratalog.operations.doctor import Checkup
from tests.directory.refused import META, METADATA, OTHER_ID, edit, file_instead, refusals, with_second

OWN_ID = "jkXBCQ7L9FXzQeGWYPU3MQ"


def test_a_file_in_the_place_of_a_partition_was_said_to_be_fine(clean: Path) -> None:
    file_instead("rolled-0")(clean)

    report = Checkup(directories=[str(clean)]).run()

    assert (report.starts, report.status) == (False, 3)
    assert report.verdict == (
        f"The broker will not start: it takes {clean} offline because of {clean}/rolled-0."
    )
    assert "Move it out of the log directory." in report.refusals[0].remedy


def test_a_link_that_leads_nowhere_is_in_the_way_too(clean: Path) -> None:
    shutil.rmtree(clean / "rolled-0")
    (clean / "rolled-0").symlink_to(clean.parent / "unmounted")

    (found,) = refusals(clean)

    assert (found.kind, found.name) == (RefusalKind.FILE, "rolled-0")
    assert found.reason.startswith("This is a symbolic link that does not lead to a folder.")
    assert found.remedy.startswith("Mount the disk to which the link leads")


def test_a_link_to_a_file_is_a_file(clean: Path) -> None:
    shutil.rmtree(clean / "rolled-0")
    (clean / "rolled-0").symlink_to(clean / "meta.properties")

    (found,) = refusals(clean)

    assert found.remedy.startswith("Move it out of the log directory.")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_metadata_log_dir_whose_metadata_is_a_link_to_nowhere(
    clean: Path, tmp_path: Path, is_there: bool
) -> None:
    place = tmp_path / "metadata"
    place.mkdir()
    target = shutil.move(clean / METADATA, tmp_path / "disk")
    (place / METADATA).symlink_to(target if is_there else tmp_path / "unmounted")
    text = (clean / "meta.properties").read_text()
    (place / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={OTHER_ID}", text))

    found = refusals(clean, metadata_directory=place)

    assert [(each.directory, each.name) for each in found] == [(str(place), METADATA)] * (not is_there)


def test_a_partition_that_is_only_missing_is_created(clean: Path) -> None:
    shutil.rmtree(clean / "rolled-0")

    assert refusals(clean) == ()


@pytest.mark.parametrize("is_named", [True, False])
def test_a_file_is_harmless_while_the_folder_is_in_another_directory(clean: Path, is_named: bool) -> None:
    other = with_second(clean)
    (clean / "rolled-0").write_bytes(b"")

    assert (refusals(clean, other) if is_named else refusals(clean, siblings=[other])) == ()


def test_a_file_matters_only_in_the_directory_to_which_the_partition_is_assigned(clean: Path) -> None:
    other = with_second(clean)
    shutil.rmtree(other / "rolled-0")
    (other / "rolled-0").write_bytes(b"")
    assert refusals(clean, other) == ()

    (clean / "rolled-0").write_bytes(b"")
    assert [(found.directory, found.name) for found in refusals(clean, other)] == [(str(clean), "rolled-0")]


def test_without_the_cluster_s_metadata_no_file_is_known_to_be_in_the_way(clean: Path) -> None:
    file_instead("rolled-0")(clean)
    shutil.rmtree(clean / "__cluster_metadata-0")

    assert refusals(clean) == ()


def test_a_directory_without_an_id_of_its_own_is_looked_at(clean: Path) -> None:
    file_instead("rolled-0")(clean)
    edit(META, f"directory.id={OWN_ID}", f"directory.id={OTHER_ID}")(clean)

    assert RefusalKind.DIRECTORY_ID in {found.kind for found in refusals(clean)}
