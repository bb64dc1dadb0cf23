"""Directories that the cluster knows by another directory.id. tests/kafka/test_doctor.py starts a broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.directory.cluster_metadata import read_cluster_metadata
from stratalog.directory.directory_id_refusals import restore_remedy
from stratalog.directory.refusal import RefusalKind
from stratalog.files.disk import Disk
from stratalog.operations.doctor import Checkup
from stratalog.operations.recover import RecoverOptions, recover
from stratalog.records.batch import set_base_offset
from stratalog.records.build import Record, build_batch
from stratalog.records.internal.encode import encode_metadata
from tests.directory.refused import META, METADATA, OTHER_ID, Make, edit, refusals, remove, with_second, write
from tests.fixtures import catalog

OWN_ID = "jkXBCQ7L9FXzQeGWYPU3MQ"
THIRD_ID = "sGVnm0_MHPkN7msm8w9sjg"
CHANGED = edit(META, "directory.id=.*\n", f"directory.id={OTHER_ID}\n")
REMOVED = edit(META, "directory.id=.*\n", "")


def register(directory: Path, directory_id: str) -> None:
    """The node has registered this directory, too: another record at the end of the metadata."""
    place = directory / METADATA
    values = {"brokerId": 1, "brokerEpoch": 0, "logDirs": [directory_id]}
    value = encode_metadata("BrokerRegistrationChangeRecord", values, version=2)
    batch = bytearray(build_batch([Record(0, 0, None, value)]))
    set_base_offset(batch, read_cluster_metadata(Disk(), place).end_offset)
    with max(place.glob("*.log")).open("ab") as log:
        log.write(batch)


@pytest.mark.parametrize(
    ("make", "words"), [(CHANGED, f"directory.id={OTHER_ID}"), (REMOVED, "no directory.id")]
)
def test_a_directory_with_another_id_was_said_to_be_fine(clean: Path, make: Make, words: str) -> None:
    make(clean)

    report = Checkup(directories=[str(clean)]).run()

    (found,) = report.refusals
    assert (report.starts, report.may_start, report.status) == (True, False, 3)
    assert (found.kind, found.name, found.takes_offline) == (RefusalKind.DIRECTORY_ID, META, False)
    assert found.reason == (
        f"It has {words}, but the cluster's metadata assigns 12 of the partitions here to {OWN_ID}, an id "
        "that no directory of this node has."
    )
    assert found.remedy.startswith(f"Write the line directory.id={OWN_ID} into it")
    assert "may have no leader until it is stopped and started again" in found.consequence
    assert report.verdict == (
        f"The broker must not be started yet: it may not serve all partitions because of {clean / META}."
    )
    assert recover([str(clean)], RecoverOptions()).status == 3


def test_the_remedy_is_enough(clean: Path) -> None:
    before = (clean / META).read_text()
    CHANGED(clean)
    (found,) = refusals(clean)
    line = found.remedy.split()[3]

    edit(META, "directory.id=.*", line)(clean)

    assert (clean / META).read_text() == before
    assert refusals(clean) == ()


def test_a_broker_that_was_killed_still_leads_its_partitions(killed: Path) -> None:
    CHANGED(killed)

    assert refusals(killed) == ()


@pytest.mark.parametrize(("release", "state"), [("2.8.2", "clean"), ("3.9.2", "clean"), ("3.9.2", "killed")])
def test_directories_of_earlier_releases_have_none(tmp_path: Path, release: str, state: str) -> None:
    (source,) = catalog.log_dirs(release, state)

    assert refusals(Path(shutil.copytree(source, tmp_path / "data"))) == ()


def test_folders_moved_to_a_new_directory_of_the_node_have_a_leader(clean: Path) -> None:
    other = with_second(clean)

    assert refusals(clean, other) == ()
    assert refusals(clean, other, metadata_directory=clean) == ()
    assert refusals(other, siblings=[clean]) == ()


def test_a_known_directory_counts_only_if_all_directories_are_known(clean: Path) -> None:
    """The old directory of the folders may be one that was not named."""
    other = with_second(clean)
    register(clean, OTHER_ID)
    shutil.copytree(clean / METADATA, other / METADATA)

    assert refusals(other) == ()
    (found,) = refusals(other, metadata_directory=other)

    assert found.kind is RefusalKind.DIRECTORY_ID
    assert "assigns 1 of the partitions here" in found.reason
    assert found.remedy.startswith(f"If the directory with directory.id={OWN_ID} is still there, name it")


def test_a_new_and_empty_directory_has_none(clean: Path) -> None:
    other = with_second(clean)
    (other / "rolled-0").rename(clean / "rolled-0")

    assert refusals(clean, other, metadata_directory=clean) == ()


def test_nothing_is_said_while_an_id_of_the_node_is_unknown(clean: Path) -> None:
    other = with_second(clean)
    edit(META, "directory.id=.*\n", f"directory.id={THIRD_ID}\n")(clean)
    remove(META)(other)

    assert {found.kind for found in refusals(clean, other)} == {RefusalKind.META_PROPERTIES}


@pytest.mark.parametrize("make", [remove(META), write(META, b""), edit(META, "y.id=.*\n", "y.id=x\n")])
def test_the_remedy_for_a_lost_file_let_it_have_any_id(clean: Path, make: Make) -> None:
    make(clean)

    (found,) = refusals(clean)

    assert found.remedy == restore_remedy(OWN_ID)
    assert f"directory.id={OWN_ID}" in found.remedy
    assert "no leader until the broker is started a second time" in found.remedy


def test_the_id_of_one_of_two_lost_files_is_the_one_that_the_other_lacks(clean: Path) -> None:
    other = with_second(clean)
    register(clean, OTHER_ID)
    remove(META)(other)

    (found,) = refusals(clean, other)

    assert found.remedy == restore_remedy(OTHER_ID)


def test_an_id_that_nobody_knows_is_not_made_up(clean: Path) -> None:
    other = with_second(clean)
    remove(META)(other)

    (found,) = refusals(clean, other)

    assert found.remedy == restore_remedy()
    assert "put the old one back if you know it" in found.remedy
