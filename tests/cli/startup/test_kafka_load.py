"""What loading as Kafka 2.1 did reads and leaves, on a directory of a killed broker."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from stratalog.buffers import aligned_buffer
from stratalog.cli.startup.counting import CountingDisk
from stratalog.cli.startup.kafka_load import KafkaLoad
from stratalog.cli.startup.strategies import STRATEGIES
from stratalog.config import LogConfig
from tests import naive

BROKERS = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1"
KILLED, CLEAN = BROKERS / "killed" / "logs" / "rolled-0", BROKERS / "clean" / "logs" / "rolled-0"
CONFIG = LogConfig.of({"segment.index.bytes": 4096, "index.interval.bytes": 512})
STRATEGY = {strategy.name: strategy for strategy in STRATEGIES}


def load(
    tmp_path: Path, name: str, recovery_point: int | None, source: Path = KILLED
) -> tuple[Path, CountingDisk]:
    folder = tmp_path / "rolled-0"
    shutil.copytree(source, folder)
    disk = CountingDisk()
    KafkaLoad(
        STRATEGY[name], disk, str(folder), CONFIG, recovery_point=recovery_point, buffer=aligned_buffer(4096)
    ).run()
    return folder, disk


def scans(folder: Path, disk: CountingDisk) -> list[int]:
    """How often each segment was read completely."""
    logs = sorted(folder.glob("*.log"))
    return [disk.log_bytes[str(log)] // log.stat().st_size for log in logs]


def rebuilt_index(log: Path, interval: int) -> bytes:
    """The .index that a broker rebuilds: an entry for a batch that lies far enough after the last entry."""
    entries, last = b"", 0
    for batch in naive.walk(log.read_bytes())[0]:
        if batch.position - last > interval:
            entries += struct.pack(">ii", batch.last_offset - int(log.stem), batch.position)
            last = batch.position
    return entries


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("kafka-2.1", [0, 0, 0, 0, 1, 2]),
        ("dedupe", [0, 0, 0, 0, 1, 1]),
        ("lazy", [0, 0, 0, 0, 1, 1]),
    ],
)
def test_segments_from_the_recovery_point_on_are_scanned(
    tmp_path: Path, name: str, counts: list[int]
) -> None:
    """The broker had flushed up to offset 80, which is in the segment of 72."""
    assert scans(*load(tmp_path, name, 80)) == counts


def test_the_indexes_of_all_unflushed_segments_are_rebuilt_in_place(tmp_path: Path) -> None:
    folder, disk = load(tmp_path, "kafka-2.1", 0)

    *closed, newest = sorted(folder.glob("*.log"))
    for log in closed:
        assert log.with_suffix(".index").read_bytes() == rebuilt_index(log, 512)
    assert newest.with_suffix(".index").read_bytes() == rebuilt_index(newest, 512).ljust(4096, b"\0")
    assert newest.with_suffix(".timeindex").stat().st_size == 4092
    assert disk.syncs == 1  # neither of them


def test_after_a_clean_stop_only_the_end_of_the_newest_log_is_read_and_one_file_is_synced(
    tmp_path: Path,
) -> None:
    folder, disk = load(tmp_path, "lazy", None, CLEAN)

    newest = max(folder.glob("*.log"))  # its index has no entry: all of it is the end
    assert disk.log_bytes == {str(newest): newest.stat().st_size}
    assert disk.syncs == 1
    epochs = "leader-epoch-checkpoint"
    assert (folder / epochs).read_bytes() == (CLEAN / epochs).read_bytes()


def test_each_recovered_segment_ends_with_a_snapshot_and_older_ones_stay(tmp_path: Path) -> None:
    """Kafka's dump tool says that the last offset is 99. The snapshot at 80 is inside a segment, and goes."""
    folder, _ = load(tmp_path, "kafka-2.1", 80)

    assert sorted(int(file.stem) for file in folder.glob("*.snapshot")) == [20, 40, 56, 72, 88, 100]
    assert (folder / f"{100:020d}.snapshot").read_bytes() == (KILLED / f"{88:020d}.snapshot").read_bytes()


def test_loading_with_a_right_check_failed_for_damage_after_the_last_index_entry(tmp_path: Path) -> None:
    source = tmp_path / "damaged"
    shutil.copytree(CLEAN, source)
    newest = max(source.glob("*.log"))
    data = bytearray(newest.read_bytes())
    last = naive.walk(bytes(data))[0][-1].position
    data[last + 8 : last + 12] = bytes(4)  # a length that no batch can have
    newest.write_bytes(data)

    *closed, newest_count = scans(*load(tmp_path / "whole", "checked", None, CLEAN))
    again = scans(*load(tmp_path / "again", "checked", None, source))

    assert again == [*closed, newest_count + 1]  # it is recovered
