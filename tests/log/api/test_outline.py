"""A log in outline, against Kafka's own word on every batch of the fixtures."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.reading import DiskReader
from stratalog.log.api.outline import LogOutline, codec_name, first_time, outline_of
from tests.fixtures.catalog import Partition, partitions

(ROLLED,) = [each for each in partitions("4.3.1", "clean") if each.name == "rolled-0"]


def outline(directory: Path, start: int = 0, disk: DiskReader | None = None) -> LogOutline:
    reader = Disk() if disk is None else disk
    try:
        return outline_of(reader, system_clock, str(directory), LogConfig(), start)
    finally:
        reader.release(str(directory))


def batches_of(partition: Partition) -> list[dict[str, Any]]:
    names = {log.name for log in partition.logs}
    return [batch for batch in partition.batches() if batch["file"] in names]


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_the_outline_is_what_kafka_reads_in_the_whole_log(partition: Partition) -> None:
    batches = batches_of(partition)

    found = outline(partition.path)

    assert [segment.base_offset for segment in found.segments] == [int(log.stem) for log in partition.logs]
    assert found.sizes == tuple(log.stat().st_size for log in partition.logs)
    if not batches:
        assert (found.first, found.last) == (None, None)
        return
    first, last = batches[0], batches[-1]
    assert found.log_end_offset == max(last["lastOffset"] + 1, int(partition.logs[-1].stem))
    assert found.first is not None
    assert found.last is not None
    assert found.last.max_timestamp == last["maxTimestamp"]
    assert codec_name(found.last) == last["codec"]
    assert found.last.partition_leader_epoch == last["partitionLeaderEpoch"]
    if first["codec"] == "none" or first["magic"] == 2:
        assert found.first.base_offset == first["baseOffset"]
    if first["records"] and first["magic"] == 2 and first["deleteHorizonMs"] is None:
        assert first_time(found.first) == first["records"][0]["timestamp"]


def test_a_log_starts_where_its_owner_says() -> None:
    batches = batches_of(ROLLED)
    third = batches[2]

    found = outline(ROLLED.path, third["baseOffset"])

    assert found.log_start_offset == third["baseOffset"]
    assert found.first is not None
    assert found.first.base_offset == third["baseOffset"]
    assert outline(ROLLED.path, 10**6).log_start_offset == batches[-1]["lastOffset"] + 1


def test_a_log_without_a_segment_is_empty(tmp_path: Path) -> None:
    assert outline(tmp_path, 7) == LogOutline((), (), 7, 7, None, None)


def test_an_empty_active_segment_leaves_the_last_batch_to_the_one_before(tmp_path: Path) -> None:
    log = Path(shutil.copytree(ROLLED.path, tmp_path / "rolled-0"))
    last = batches_of(ROLLED)[-1]
    end = last["lastOffset"] + 1
    (log / f"{end:020d}.log").touch()

    found = outline(log)

    assert found.log_end_offset == end
    assert found.last is not None
    assert found.last.last_offset == last["lastOffset"]


def test_segments_that_are_about_to_be_replaced_do_not_count(tmp_path: Path) -> None:
    log = Path(shutil.copytree(ROLLED.path, tmp_path / "rolled-0"))
    first, second, third = ROLLED.logs[:3]
    (log / f"{first.name}.swap").write_bytes(first.read_bytes() + second.read_bytes())

    found = outline(log)

    assert [segment.base_offset for segment in found.segments[:2]] == [int(first.stem), int(third.stem)]
    assert found.sizes[0] == first.stat().st_size + second.stat().st_size


class Vanishing(Disk):
    """A disk from which a file is gone when it is first read, as if a broker had deleted it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def read_into(self, source: Any, *arguments: Any, **options: Any) -> int:
        if str(source) == str(self._path) and self._path.exists():
            for file in self._path.parent.glob(f"{self._path.stem}.*"):
                file.unlink()
            self.release(self._path.parent)
        return super().read_into(source, *arguments, **options)


def test_a_segment_that_a_broker_deletes_meanwhile_is_left_out(tmp_path: Path) -> None:
    log = Path(shutil.copytree(ROLLED.path, tmp_path / "rolled-0"))
    disk = Vanishing(log / ROLLED.logs[0].name)

    found = outline(log, disk=disk)

    assert [segment.base_offset for segment in found.segments] == [int(path.stem) for path in ROLLED.logs[1:]]
    assert found.log_start_offset == int(ROLLED.logs[1].stem)


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError):
        outline(tmp_path / "gone-0")


def test_no_record_is_read_of_a_large_log(tmp_path: Path) -> None:
    class Counting(Disk):
        read = 0

        def read_into(self, *arguments: Any, **options: Any) -> int:
            found = super().read_into(*arguments, **options)
            Counting.read += found
            return found

    log = tmp_path / "large-0"
    log.mkdir()
    data = ROLLED.logs[0].read_bytes()
    (log / f"{0:020d}.log").write_bytes(data)
    with (log / ROLLED.logs[1].name).open("wb") as file:
        second = ROLLED.logs[1].read_bytes()
        file.truncate(64 << 20)
        file.seek((64 << 20) - len(second))
        file.write(second)
    # the last entry of the index points at the batches at the end
    index = (0).to_bytes(4, "big") + ((64 << 20) - len(second)).to_bytes(4, "big")
    (log / ROLLED.logs[1].with_suffix(".index").name).write_bytes(index)

    outline(log, disk=Counting())

    assert Counting.read < 100_000


def test_the_zeros_of_a_preallocated_file_were_counted_as_its_size(tmp_path: Path) -> None:
    log = Path(shutil.copytree(ROLLED.path, tmp_path / "rolled-0"))
    newest = log / ROLLED.logs[-1].name
    size = newest.stat().st_size
    with newest.open("ab") as file:
        file.truncate(1 << 20)
    assert outline(log).sizes[-1] == size

    with newest.open("rb+") as file:
        file.seek(size)
        file.write(b"not a batch" * 10)
    assert outline(log).sizes[-1] == 1 << 20

    newest.write_bytes(bytes(1 << 20))
    assert outline(log).sizes[-1] == 0
