"""Folders with the id of another topic. tests/kafka/test_doctor.py starts a broker with one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.directory.refusal import RefusalKind
from stratalog.directory.topic_id_refusals import own_id_remedy
from stratalog.operations.doctor import Checkup
from stratalog.operations.recover import RecoverOptions, recover
from tests.directory.refused import ID, OTHER_ID, refusals, with_second, write

OTHERS = "logappend-0/partition.metadata"


def test_a_folder_with_the_id_of_another_topic_was_said_to_be_fine(clean: Path) -> None:
    shutil.copy(clean / OTHERS, clean / ID)

    (found,) = refusals(clean)

    assert (found.kind, found.name, found.takes_offline) == (RefusalKind.TOPIC_ID, ID, False)
    assert found.reason.startswith("It has the id of topic logappend (")
    assert "and not that of topic rolled (" in found.reason
    assert found.consequence == "A broker starts, but serves no partition of any topic because of it."
    assert "delete this partition.metadata and run `stratalog recover --all`" in found.remedy


def test_doctor_and_recover_say_the_same_about_another_topics_id(clean: Path) -> None:
    shutil.copy(clean / OTHERS, clean / ID)

    checked = Checkup(directories=[str(clean)]).run()
    recovered = recover([str(clean)], RecoverOptions())

    assert (checked.status, recovered.status) == (3, 3)
    assert checked.refusals == recovered.refusals
    assert checked.starts
    words = f"it serves no partition because of {clean / ID}"
    assert checked.verdict == f"The broker must not be started yet: {words}."
    assert recovered.verdict == (
        f"The broker must not be started yet: {words}; fix that, and run `stratalog recover` again."
    )
    assert (clean / ID).read_bytes() == (clean / OTHERS).read_bytes()


def test_a_folder_of_the_other_directory_is_found_with_the_metadata_of_the_first(clean: Path) -> None:
    other = with_second(clean)
    shutil.copy(clean / OTHERS, other / ID)

    for found in (refusals(clean, other), refusals(other, siblings=[clean])):
        assert [(each.kind, each.directory) for each in found] == [(RefusalKind.TOPIC_ID, str(other))]


def test_the_remedy_makes_the_folder_servable(clean: Path) -> None:
    right = (clean / ID).read_bytes()
    (clean / ID).unlink()

    recover([str(clean)], RecoverOptions(scan_all=True))

    assert (clean / ID).read_bytes() == right
    assert refusals(clean) == ()


@pytest.mark.parametrize(
    ("folder", "of"),
    [
        ("rolled-7", "logappend-0"),  # no topic has partition 7: renamed to -stray
        ("ghost-0", "logappend-0"),  # the cluster has no topic of this name: loaded, and never used
    ],
)
def test_a_folder_that_no_topic_needs_hinders_no_other(clean: Path, folder: str, of: str) -> None:
    (clean / folder).mkdir()
    shutil.copy(clean / of / "partition.metadata", clean / folder)

    assert refusals(clean) == ()


def test_an_id_that_the_cluster_does_not_know_is_a_stray_only(clean: Path) -> None:
    write(ID, f"version: 0\ntopic_id: {OTHER_ID}".encode())(clean)

    assert refusals(clean) == ()


def test_a_file_that_cannot_be_read_is_another_reason(clean: Path) -> None:
    write(ID, b"")(clean)

    assert [found.kind for found in refusals(clean)] == [RefusalKind.PARTITION_METADATA]


def test_the_remedy_names_whose_the_records_may_be() -> None:
    assert "those of topic lat, move the folder" in own_id_remedy("tiny", "lat")
    assert "those of an earlier topic tiny that was deleted, move the folder" in own_id_remedy("tiny", None)
