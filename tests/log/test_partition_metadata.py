"""partition.metadata, against a broker's own files and Kafka 4.3.1's verdicts on the same texts."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from stratalog.errors import CorruptCheckpointError, UsageError
from stratalog.files.disk import Disk
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_from_text, topic_id_to_text
from tests.fixtures.catalog import HERE

disk = Disk()
KEPT = sorted(HERE.rglob("partition.metadata"))
TEXT = "CVmmc5E3Svq-PtfZ062cfg"
ID = topic_id_from_text(TEXT)
OTHER = uuid.UUID(int=77)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: str(path.relative_to(HERE)))
def test_a_brokers_file_is_written_again_byte_for_byte(path: Path, tmp_path: Path) -> None:
    topic_id = PartitionMetadataFile(disk, path).read()
    assert topic_id is not None
    copy = PartitionMetadataFile(disk, tmp_path / "partition.metadata")
    copy.record(topic_id)
    copy.flush()

    assert (tmp_path / "partition.metadata").read_bytes() == path.read_bytes()


def test_an_id_is_the_most_significant_byte_first() -> None:
    # Kafka's Uuid(0, 1), the id of the metadata topic.
    assert topic_id_from_text("AAAAAAAAAAAAAAAAAAAAAQ") == uuid.UUID(int=1)
    assert topic_id_to_text(uuid.UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    "text",
    [
        f"version: 0\ntopic_id: {TEXT}",
        f"version: 0\ntopic_id: {TEXT}\n",
        f"version: 1\ntopic_id: {TEXT}",
        f"version: 0\ntopic_id: {TEXT}==",
        f"v:   0\nid:\t{TEXT}\nmore: x",
        f"version: 0\r\ntopic_id: {TEXT}\r\n",
        "version: 0\ntopic_id: CVmmc5E3Svq-PtfZ062cfh",  # the last bits are beyond the 16 bytes
    ],
)
def test_what_kafka_reads_is_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(text.encode())

    assert PartitionMetadataFile(disk, path).read() == ID


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"version: -1\ntopic_id: {TEXT}", 1),
        (f"version:0\ntopic_id: {TEXT}", 1),
        (f"version: 0: 1\ntopic_id: {TEXT}", 1),
        (f"version: x\ntopic_id: {TEXT}", 1),
        ("", 1),
        ("version: 0", 2),
        ("version: 0\n", 2),
        (f"version: 0\ntopic_id:{TEXT}", 2),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
        (f"version: 0\ntopic_id: {TEXT}=", 2),
        (f"version: 0\ntopic_id: {TEXT}===", 2),
        ("version: 0\ntopic_id: CVmmc5E3Svq-PtfZ062c", 2),
        ("version: 0\ntopic_id: CVmmc5E3Svq+PtfZ062cfg", 2),
        (f"version: 0\ntopic_id: {TEXT}A", 2),
        (f"version: 0\ntopic_id: {TEXT} ", 2),
    ],
)
def test_what_kafka_refuses_is_refused_with_its_line(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(text.encode())

    with pytest.raises(CorruptCheckpointError) as caught:
        PartitionMetadataFile(disk, path).read()

    assert caught.value.line == line


def test_no_file_says_no_id(tmp_path: Path) -> None:
    file = PartitionMetadataFile(disk, tmp_path / "partition.metadata")

    assert file.read() is None
    assert not file.exists()


def test_nothing_is_written_before_it_is_recorded_and_flushed(tmp_path: Path) -> None:
    file = PartitionMetadataFile(disk, tmp_path / "partition.metadata")
    file.flush()
    assert not file.exists()
    file.record(ID)
    assert not file.exists()
    file.flush()

    assert (tmp_path / "partition.metadata").read_bytes() == b"version: 0\ntopic_id: CVmmc5E3Svq-PtfZ062cfg"


def test_an_id_is_written_once(tmp_path: Path) -> None:
    file = PartitionMetadataFile(disk, tmp_path / "partition.metadata")
    file.record(ID)
    file.flush()
    before = (tmp_path / "partition.metadata").stat().st_ino
    file.record(ID)
    file.flush()

    assert (tmp_path / "partition.metadata").stat().st_ino == before


def test_another_id_is_refused(tmp_path: Path) -> None:
    file = PartitionMetadataFile(disk, tmp_path / "partition.metadata")
    file.record(ID)
    file.record(ID)

    with pytest.raises(UsageError, match="cannot become"):
        file.record(OTHER)
    with pytest.raises(UsageError, match="zeros"):
        PartitionMetadataFile(disk, tmp_path / "other").record(uuid.UUID(int=0))


def test_a_deleted_file_is_written_again_by_the_next_flush(tmp_path: Path) -> None:
    file = PartitionMetadataFile(disk, tmp_path / "partition.metadata")
    file.record(ID)
    file.flush()

    assert file.delete() is True
    assert file.delete() is False
    file.flush()
    assert file.read() == ID
