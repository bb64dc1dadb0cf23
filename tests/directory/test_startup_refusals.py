"""What a broker refuses to start for. Each case was tried on a running 4.3.1 (tests/kafka does it again)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.directory.refusal import RefusalKind
from tests.directory.refused import (
    ACCEPTED,
    METADATA,
    OTHER_ID,
    QUORUM_STATE,
    REFUSED,
    SNAPSHOT,
    Change,
    Make,
    cut,
    edit,
    refusals,
    remove,
    with_second,
    write,
)


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_brokers_own_directory_has_none(request: pytest.FixtureRequest, state: str) -> None:
    assert refusals(request.getfixturevalue(state)) == ()


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_keeps_a_broker_from_starting_is_named_with_its_remedy(clean: Path, change: Change) -> None:
    change.make(clean)

    (found,) = refusals(clean)

    assert (found.kind, found.name) == (change.kind, change.name)
    assert found.takes_offline == change.takes_offline
    for words in (found.reason, found.remedy, found.consequence):
        assert words[0].isupper()
        assert words.endswith(".")


@pytest.mark.parametrize("make", ACCEPTED.values(), ids=ACCEPTED)
def test_what_a_broker_starts_with_is_not_named(clean: Path, make: object) -> None:
    assert callable(make)
    make(clean)

    assert refusals(clean) == ()


def test_a_second_directory_of_the_node_has_none(clean: Path) -> None:
    assert refusals(clean, with_second(clean)) == ()


def test_a_directory_whose_sibling_has_the_file_needs_it_too(clean: Path) -> None:
    other = with_second(clean)
    (other / "meta.properties").unlink()

    for found in (refusals(clean, other), refusals(other, siblings=[clean])):
        assert [(each.directory, each.name) for each in found] == [(str(other), "meta.properties")]


def test_a_directory_of_ours_needs_no_meta_properties(clean: Path) -> None:
    (clean / "meta.properties").unlink()
    shutil.rmtree(clean / "__cluster_metadata-0")

    assert refusals(clean) == ()


@pytest.mark.parametrize("line", ["node.id=1", "cluster.id=rHefJaIxR-W46knXddBQhg"])
def test_directories_of_two_nodes_or_clusters_are_told_apart(clean: Path, line: str) -> None:
    other = with_second(clean)
    file = other / "meta.properties"
    file.write_text(file.read_text().replace(line, line.replace("1", "2").replace("rHef", "rHeg")))

    (found,) = refusals(clean, other)

    assert (found.kind, found.directory) == (RefusalKind.OTHER_NODE, str(other))
    assert str(clean) in found.reason


def test_a_copied_directory_id_is_told(clean: Path) -> None:
    other = with_second(clean)
    (other / "meta.properties").write_bytes((clean / "meta.properties").read_bytes())

    (found,) = refusals(clean, other)

    assert found.reason == (
        f"{clean} has the same directory.id jkXBCQ7L9FXzQeGWYPU3MQ: this directory may be its copy."
    )


def test_another_node_than_the_one_configured_is_told(clean: Path) -> None:
    (found,) = refusals(clean, node_id=2)

    assert found.reason == "It belongs to node 1, and server.properties says node.id=2."


def test_a_partition_in_two_directories_is_told_once(clean: Path) -> None:
    other = with_second(clean)
    shutil.copytree(other / "rolled-0", clean / "rolled-0")

    (found,) = refusals(clean, other)

    assert (found.kind, found.directory, found.name) == (RefusalKind.TWICE, str(other), "rolled-0")
    assert found.reason == f"Partition rolled-0 is also in {clean}/rolled-0."


def test_a_directory_that_cannot_be_read_is_told(clean: Path, tmp_path: Path) -> None:
    (found,) = refusals(clean, tmp_path / "unmounted", siblings=[clean])[:1]

    assert found.directory == str(tmp_path / "unmounted")


def test_the_ids_of_the_two_directories_differ() -> None:
    assert OTHER_ID != "jkXBCQ7L9FXzQeGWYPU3MQ"


@pytest.fixture
def moved(clean: Path, tmp_path: Path) -> Path:
    """A metadata.log.dir that is not in log.dirs, with the metadata of `clean`."""
    place = tmp_path / "metadata"
    place.mkdir()
    shutil.move(clean / METADATA, place / METADATA)
    shutil.copy(clean / "bootstrap.checkpoint", place)
    edit("meta.properties", "directory.id=.*", f"directory.id={OTHER_ID}")(
        Path(shutil.copy(clean / "meta.properties", place)).parent
    )
    return place


def test_a_healthy_metadata_log_dir_of_its_own_has_none(clean: Path, moved: Path) -> None:
    assert refusals(clean, metadata_directory=moved) == ()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (remove("meta.properties"), "meta.properties"),
        (write("meta.properties", b"x"), "meta.properties"),
        (edit("meta.properties", "node.id=1", "node.id=2"), "meta.properties"),
        (shutil.rmtree, "meta.properties"),
        (write(QUORUM_STATE, b"{}"), QUORUM_STATE),
        (write(SNAPSHOT, bytes(500)), SNAPSHOT),
        (cut("bootstrap.checkpoint", 200), "bootstrap.checkpoint"),
        (write(f"{METADATA}/x.log", b""), f"{METADATA}/x.log"),
        (lambda place: (shutil.rmtree(place / METADATA), write(METADATA, b"")(place)), METADATA),
    ],
)
def test_a_broken_metadata_log_dir_outside_log_dirs_was_overlooked(
    clean: Path, moved: Path, make: Make, name: str
) -> None:
    make(moved)

    found = refusals(clean, metadata_directory=moved)

    assert [(each.directory, each.name) for each in found] == [(str(moved), name)]


def test_a_damaged_bootstrap_checkpoint_was_overlooked_before_the_first_start(clean: Path) -> None:
    shutil.rmtree(clean / METADATA)
    cut("bootstrap.checkpoint", 200)(clean)

    (found,) = refusals(clean)

    assert (found.kind, found.name) == (RefusalKind.BOOTSTRAP, "bootstrap.checkpoint")


def test_a_bootstrap_checkpoint_that_no_broker_reads_may_be_damaged(clean: Path) -> None:
    other = with_second(clean)
    write("bootstrap.checkpoint", b"x")(other)

    assert refusals(clean, other) == refusals(other, siblings=[clean, other]) == ()
