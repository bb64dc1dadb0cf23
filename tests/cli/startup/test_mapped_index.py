"""Index files as Kafka 2.1 maps and checks them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli.startup.counting import CountingDisk
from stratalog.cli.startup.mapped_index import MappedIndex
from stratalog.files.names import FileKind

KILLED = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "killed" / "logs" / "rolled-0"
PADDED = f"{88:020d}"
TRIMMED = f"{20:020d}"


def mapped(tmp_path: Path, name: str) -> tuple[Path, MappedIndex]:
    file = tmp_path / name
    file.write_bytes((KILLED / name).read_bytes())
    return file, MappedIndex(CountingDisk(), str(file), FileKind(file.suffix))


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        (f"{TRIMMED}.index", True),
        (f"{TRIMMED}.timeindex", True),
        (f"{PADDED}.index", True),  # the check of an offset index cannot fail
        (f"{PADDED}.timeindex", False),  # the zeros at its end are taken for entries
    ],
)
def test_kafka_2_1_takes_only_a_padded_time_index_for_damaged(
    tmp_path: Path, name: str, passes: bool
) -> None:
    _, index = mapped(tmp_path, name)

    assert index.passes_check() is passes
    index.close()


def test_a_size_that_is_not_a_multiple_of_the_entries_fails(tmp_path: Path) -> None:
    file = tmp_path / "0.index"
    file.write_bytes(bytes(15))

    assert not MappedIndex(CountingDisk(), str(file), FileKind.OFFSET_INDEX).passes_check()


def test_an_index_is_rebuilt_in_place_and_grows_to_whole_entries(tmp_path: Path) -> None:
    file, index = mapped(tmp_path, f"{TRIMMED}.timeindex")

    index.rebuild(b"0123456789ab", 4096)
    assert file.read_bytes() == b"0123456789ab"
    assert index.last_entry() == b"0123456789ab"

    index.resize(4096)
    assert file.stat().st_size == 4092
    index.rebuild(b"", 4096)
    assert file.read_bytes() == b""
    assert index.last_entry() == b""
    index.close()
