from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.directory.written_topics import (
    WRITTEN_TOPICS,
    delete_written_topics,
    note_written_topics,
    read_written_topics,
)
from stratalog.errors import CorruptCheckpointError
from stratalog.files.disk import Disk


def test_a_topic_keeps_the_largest_number(tmp_path: Path) -> None:
    for counts in ({"orders": 6}, {"orders": 4, "users": 1}, {"users": 2}, {}):
        note_written_topics(Disk(), str(tmp_path), counts)

    assert read_written_topics(Disk(), str(tmp_path)) == {"orders": 6, "users": 2}
    delete_written_topics(Disk(), str(tmp_path))
    delete_written_topics(Disk(), str(tmp_path))
    assert read_written_topics(Disk(), str(tmp_path)) == {}
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_note_leaves_no_file(tmp_path: Path) -> None:
    note_written_topics(Disk(), str(tmp_path), {})

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"version": 1, "partitions": {}}', b'{"version": 0, "partitions": {"a": "x"}}']
)
def test_a_garbled_file_is_an_error_with_a_way_out(tmp_path: Path, data: bytes) -> None:
    (tmp_path / WRITTEN_TOPICS).write_bytes(data)

    with pytest.raises(CorruptCheckpointError, match="Delete it, and give the numbers yourself"):
        read_written_topics(Disk(), str(tmp_path))
