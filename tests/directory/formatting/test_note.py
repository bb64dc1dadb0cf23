from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stratalog.directory.formatting.note import (
    FORMAT_NOTE,
    Identity,
    delete_note,
    has_format_note,
    is_complete,
    read_identity,
    write_identity,
)
from stratalog.directory.kind import Kind, kind_of
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.errors import CorruptCheckpointError, FormatRefusedError
from stratalog.files.disk import Disk

ID = "s38DPPefRHu4CKwEjdBcXA"
NOTE = Identity(
    cluster_id=ID,
    node_id=3,
    incarnation_id=ID,
    metadata_directory="/a",
    directories={"/a": ID, "/b": ID},
    topics={"orders": ID},
)


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = str(tmp_path)
    write_identity(Disk(), path, NOTE)
    before = (tmp_path / FORMAT_NOTE).stat()
    write_identity(Disk(), path, NOTE)

    assert read_identity(Disk(), ["/nowhere", path]) == NOTE
    assert (tmp_path / FORMAT_NOTE).stat().st_ino == before.st_ino, "the same note is not written again"
    assert kind_of(Disk(), path).kind is Kind.OURS
    assert has_format_note(Disk(), path)
    assert not is_complete(Disk(), replace(NOTE, metadata_directory=path))
    delete_note(Disk(), path)
    delete_note(Disk(), path)
    assert read_identity(Disk(), [path]) is None


def test_one_of_two_notes_may_have_more_topics(tmp_path: Path) -> None:
    first, second = (str(tmp_path / name) for name in "ab")
    for path, topics in ((first, {"orders": ID}), (second, {"users": ID})):
        Path(path).mkdir()
        write_identity(Disk(), path, replace(NOTE, topics=topics))

    found = read_identity(Disk(), [first, second])

    assert found == replace(NOTE, topics={"orders": ID, "users": ID})


def test_notes_of_two_formats_are_refused(tmp_path: Path) -> None:
    first, second = (str(tmp_path / name) for name in "ab")
    for path, node_id in ((first, 1), (second, 2)):
        Path(path).mkdir()
        write_identity(Disk(), path, replace(NOTE, node_id=node_id))

    with pytest.raises(FormatRefusedError, match="Finish them one after the other"):
        read_identity(Disk(), [first, second])


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version": 1}', b'{"version": 0, "cluster_id": "x"}'])
def test_a_garbled_note_is_an_error_with_a_way_out(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FORMAT_NOTE).write_bytes(data)

    with pytest.raises(CorruptCheckpointError, match="Delete it to begin again"):
        read_identity(Disk(), [str(tmp_path)])


def test_a_broker_is_not_told_to_restore_what_a_second_run_writes(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    write_identity(Disk(), str(tmp_path), NOTE)

    (refusal,) = startup_refusals(Disk(), [tmp_path])

    assert refusal.name == "meta.properties"
    assert refusal.remedy.startswith("Run `stratalog format` again")
