"""Whose a log directory is, as two releases of Kafka write it down."""

from __future__ import annotations

import pytest

from stratalog.directory.meta_properties import (
    MetaProperties,
    format_meta_properties,
    parse_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from stratalog.errors import CorruptCheckpointError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.simulated import SimulatedDisk
from tests.fixtures.catalog import log_dirs

# Sun Nov 15 21:56:16 UTC 2026, which is when the fixture was formatted.
FORMATTED_MS = 1_794_779_776_000
KRAFT = MetaProperties(
    node_id=1, directory_id="jkXBCQ7L9FXzQeGWYPU3MQ", version=1, cluster_id="rHefJaIxR-W46knXddBQhg"
)


def test_what_a_kraft_broker_wrote_is_read() -> None:
    (clean,) = log_dirs("4.3.1", "clean")

    assert read_meta_properties(Disk(), clean) == KRAFT
    assert KRAFT.is_kraft


def test_what_a_broker_of_a_zookeeper_cluster_wrote_is_read() -> None:
    (clean,) = log_dirs("2.8.2", "clean")

    found = read_meta_properties(Disk(), clean)

    assert found == MetaProperties(version=0, node_id=1, cluster_id="OeCzLjisS0CNGXTkjlvPqg")
    assert found is not None
    assert not found.is_kraft


@pytest.mark.parametrize("release", ["4.3.1", "2.8.2"])
def test_the_bytes_are_those_that_kafka_writes(release: str) -> None:
    (clean,) = log_dirs(release, "clean")
    data = (clean / "meta.properties").read_bytes()
    properties = parse_meta_properties(data, "meta.properties")
    seconds = {"4.3.1": 0, "2.8.2": 73}[release]  # the second one was formatted at 21:57:29

    assert format_meta_properties(properties, now_ms=FORMATTED_MS + 1000 * seconds) == data


def test_a_directory_without_the_file_has_no_id() -> None:
    disk = SimulatedDisk()
    disk.make_directories("/data")

    assert read_meta_properties(disk, "/data") is None


def test_what_is_written_is_read_again() -> None:
    disk = SimulatedDisk()
    disk.make_directories("/data")

    write_meta_properties(disk, "/data", KRAFT, now_ms=FORMATTED_MS)

    assert read_meta_properties(disk, "/data") == KRAFT


@pytest.mark.parametrize("data", [b"version=2\nnode.id=1\n", b"version=one\n", b"version=1\nnode.id=x\n"])
def test_what_a_broker_does_not_start_with_is_named(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"^/data/meta.properties: Its (version|node.id) is"):
        parse_meta_properties(data, "/data/meta.properties")


def test_an_id_that_means_no_directory_is_not_written() -> None:
    with pytest.raises(UsageError, match="reserved"):
        format_meta_properties(MetaProperties(directory_id="AAAAAAAAAAAAAAAAAAAAAA"), now_ms=0)
