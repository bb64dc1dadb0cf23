"""Which paths can be read from and written to, and what reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.errors import UsageError
from stratalog.files.reading import DiskReader
from stratalog.files.storage import local_path, readable_path, reader_for

BOTH = pytest.mark.parametrize("meaning", [local_path, readable_path])


@BOTH
@pytest.mark.parametrize("given", ["file:///data/kafka", "file:/data/kafka", "/data/kafka", "/data/./kafka"])
def test_a_path_of_this_machine_is_absolute_and_has_no_scheme(
    meaning: Callable[[str], str], given: str
) -> None:
    assert meaning(given) == "/data/kafka"


@BOTH
def test_a_relative_path_begins_here(
    meaning: Callable[[str | Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert meaning("kafka") == meaning(Path("kafka")) == str(tmp_path / "kafka")


@BOTH
@pytest.mark.parametrize("given", ["s3://bucket/kafka", "hdfs://node/data"])
def test_another_storage_is_refused(meaning: Callable[[str], str], given: str) -> None:
    with pytest.raises(UsageError, match="only directories in this machine's file system"):
        meaning(given)


def test_what_can_be_read_has_a_reader(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")

    reader = reader_for(str(tmp_path), tmp_path / "b")

    assert type(reader) is DiskReader
    assert reader.read_file(tmp_path / "a") == b"abc"


def test_what_cannot_be_read_has_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        reader_for(tmp_path, "s3://bucket/kafka")
