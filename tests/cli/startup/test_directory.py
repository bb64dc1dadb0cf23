"""A directory to measure loading with, clean and unclean in turn."""

from __future__ import annotations

from pathlib import Path

from stratalog.cli.startup.directory import Shape, StartupDirectory
from tests import naive

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MIB = 1 << 20


def checkpoint(directory: Path) -> list[str]:
    """The entries of the recovery points, without version and count."""
    return (directory / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]


def test_partitions_are_equal_logs_of_the_size_that_was_asked_for(tmp_path: Path) -> None:
    built = StartupDirectory(
        tmp_path / "logs", Shape(partitions=2, segments=3, segment_size=MIB, batch_size=4096)
    )
    told: list[int] = []

    built.build(told.append)

    first, second = (sorted((tmp_path / "logs" / f"startup-{number}").glob("*.log")) for number in (0, 1))
    batches = [batch for log in first for batch in naive.walk(log.read_bytes(), check_crc=False)[0]]
    assert told == [1, 2]
    assert len(built.logs()) == 6
    assert [log.read_bytes() for log in first] == [log.read_bytes() for log in second]
    assert all(MIB - 4096 < log.stat().st_size <= MIB for log in first)
    assert [batch.base_offset for batch in batches[1:]] == [batch.last_offset + 1 for batch in batches[:-1]]


def test_it_becomes_unclean_and_clean_again(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    built = StartupDirectory(directory, Shape(partitions=1, segments=1, segment_size=MIB, batch_size=4096))
    built.build()
    index = directory / "startup-0" / "00000000000000000000.index"
    end = checkpoint(directory)
    closed_size = index.stat().st_size

    built.make_unclean()
    assert not (directory / CLEAN_SHUTDOWN).exists()
    assert checkpoint(directory) == ["startup 0 0"]  # the base of the only segment
    assert index.stat().st_size == 10 * MIB
    assert not [*(directory / "startup-0").glob("*.snapshot")]

    built.make_clean()
    assert (directory / CLEAN_SHUTDOWN).exists()
    assert checkpoint(directory) == end
    assert index.stat().st_size == closed_size


def test_the_newest_segments_are_not_flushed_after_a_power_cut(tmp_path: Path) -> None:
    shape = Shape(partitions=1, segments=3, segment_size=16 << 10, batch_size=4096, unflushed=2)
    built = StartupDirectory(tmp_path / "logs", shape)
    built.build()

    built.make_unclean()

    _, second, _ = sorted((tmp_path / "logs" / "startup-0").glob("*.log"))
    assert checkpoint(tmp_path / "logs") == [f"startup 0 {int(second.stem)}"]


def test_what_a_load_has_made_of_it_is_undone(tmp_path: Path) -> None:
    built = StartupDirectory(
        tmp_path / "logs", Shape(partitions=1, segments=2, segment_size=16 << 10, batch_size=4096)
    )
    built.build()
    folder = tmp_path / "logs" / "startup-0"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for file in [*folder.glob("*.index"), *folder.glob("*.snapshot")]:
        file.unlink()

    built.make_clean()

    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
