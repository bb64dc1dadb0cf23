"""Damaged regions: the right bytes and headers, and no more read than a little around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stratalog.engine.threads import ThreadEngine
from stratalog.files.entries import ExpectedFile, ReadFile
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.audit import AuditRequest, audit
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.page import regions
from stratalog.operations.audit.page.regions import DamagedRegion, RegionTask, read_region, read_regions
from stratalog.records.kernels.memory import Bytes
from tests.manager.running import fixture_copy
from tests.operations.audit.page.example import TOPICS, write_partition
from tests.operations.audit.planting import ROLLED, batches, edit, flip


def region_of(root: Path, kind: str) -> DamagedRegion:
    report = audit([root], mapped=True)
    (found,) = [each for each in report.findings if each.kind.value == kind]
    assert report.map is not None
    (region,) = [
        each
        for each in report.map.regions
        if (each.task.file, each.task.position) == (found.file, found.position)
    ]
    return region


def test_a_damaged_batch_is_between_the_headers_of_its_neighbours(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    places = [*batches((root / ROLLED).read_bytes())]
    assert len(places) >= 4
    flip(root / ROLLED, places[2][0] + 70)

    region = region_of(root, "wrong-crc")

    assert (region.task.position, region.task.size) == places[2]
    assert [(each.position, each.size) for each in region.before] == places[:2]
    assert [(each.position, each.size, each.is_valid) for each in region.inside] == [(*places[2], False)]
    assert [(each.position, each.size) for each in region.after] == places[3:5]
    assert all(each.is_valid for each in (*region.before, *region.after))


def test_excerpts_are_the_bytes_of_the_file(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(root / ROLLED, 100)
    data = (root / ROLLED).read_bytes()

    region = region_of(root, "wrong-crc")

    assert region.file_size == len(data)
    for position, excerpt in region.excerpts:
        assert excerpt == data[position : position + len(excerpt)]
    assert region.excerpts[0][0] <= region.task.position


def test_a_hole_of_zeros_is_seen_in_the_cells(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    edit(root / ROLLED, lambda data: data.__setitem__(slice(400, 700), bytes(300)))

    region = region_of(root, "bad-length")

    first, last = (400 - region.start) // region.cell_size, (700 - region.start) // region.cell_size
    assert set(region.cells[first:last]) == {"z"}
    assert {"t", "b"} & set(region.cells[:first])


@pytest.mark.parametrize(
    ("data", "letters"),
    [
        (bytes(4), "z"),
        (b"\xff" * 4, "f"),
        (b"text", "t"),
        (b"\x01\x02te", "b"),
        (bytes(4) + b"ab", "zt"),
        (b"", ""),
    ],
)
def test_letters_say_what_a_cell_has(data: bytes, letters: str) -> None:
    assert regions._letters(np.frombuffer(data, np.uint8), 4) == letters


class _Counting(DiskReader):
    """Counts the bytes that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_size = 0

    def read_into(
        self, source: ReadFile, buffer: Bytes, position: int, identity: ExpectedFile | None = None
    ) -> int:
        size = super().read_into(source, buffer, position, identity)
        self.read_size += size
        return size


def test_a_region_of_gigabytes_is_sampled(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / f"{0:020d}.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(3 << 30)
    disk = _Counting()
    task = RegionTask(
        directory=str(tmp_path),
        partition="orders-0",
        file=log.name,
        position=1 << 20,
        size=2 << 30,
        base_offset=0,
    )

    region = read_region(disk, task)

    assert set(region.cells) == {"z"}
    assert len(region.cells) <= regions.MOST_CELLS
    assert disk.read_size < 12 << 20


def test_only_a_little_is_read_around_a_region(tmp_path: Path) -> None:
    import random

    write_partition(tmp_path / "orders-0", TOPICS[0], random.Random(1))
    log = sorted((tmp_path / "orders-0").glob("*.log"))[2]
    log.write_bytes(b"".join([log.read_bytes()] * 100))
    position, size = [*batches(log.read_bytes())][600]
    disk = _Counting()
    task = RegionTask(
        directory=str(tmp_path),
        partition="orders-0",
        file=log.name,
        position=position,
        size=size,
        base_offset=0,
    )

    region = read_region(disk, task)

    assert region.before[-1].position + region.before[-1].size == position
    assert region.after[0].position == position + size
    assert disk.read_size < log.stat().st_size


def test_a_log_is_not_read_again_for_the_page(tmp_path: Path) -> None:
    healthy, damaged = fixture_copy("clean", tmp_path / "a"), fixture_copy("clean", tmp_path / "b")
    flip(damaged / ROLLED, 100)
    read: dict[tuple[str, bool], int] = {}
    for root in (healthy, damaged):
        for is_mapped in (False, True):
            disk = _Counting()
            AuditRequest(directories=[str(root)], disk=disk, is_mapped=is_mapped).run()
            read[root.name, is_mapped] = disk.read_size

    ids = sum(file.stat().st_size for file in healthy.glob("*/partition.metadata"))
    assert read["a", True] - read["a", False] <= ids < 1000
    assert 0 < read["b", True] - read["b", False] < 10 * (damaged / ROLLED).stat().st_size


def test_more_regions_than_a_page_has_are_left_out(tmp_path: Path) -> None:
    findings = [
        AuditFinding(
            kind=AuditKind.WRONG_CRC,
            directory=str(tmp_path),
            file=f"{0:020d}.log",
            words="",
            position=at,
            size=9,
        )
        for at in (5, 5, 7, 9)
    ]

    assert [each.task.position for each in read_regions(ThreadEngine(), findings, most=2)] == [5, 7]
    assert len(regions.regions_of(findings)) == 3


def test_a_file_that_is_gone_is_said_in_words(tmp_path: Path) -> None:
    finding = AuditFinding(
        kind=AuditKind.WRONG_CRC,
        directory=str(tmp_path),
        partition="a-0",
        file=f"{0:020d}.log",
        words="",
        position=0,
        size=9,
    )

    (region,) = read_regions(ThreadEngine(), [finding, finding])

    assert "No such file" in region.problem or "not" in region.problem


def test_what_names_no_bytes_of_a_segment_has_no_region() -> None:
    def found(kind: AuditKind, file: str, position: int | None = 0, size: int = 9) -> AuditFinding:
        return AuditFinding(kind=kind, directory="/d", file=file, words="", position=position, size=size)

    left_out = [
        found(AuditKind.GAP, f"{0:020d}.log"),
        found(AuditKind.WRONG_CRC, f"{0:020d}.log", None),
        found(AuditKind.UNREADABLE_CHECKPOINT, "replication-offset-checkpoint"),
        found(AuditKind.FOREIGN_FILE, "x.log"),
        found(AuditKind.TORN_TAIL, f"{0:020d}.log.deleted"),
    ]

    assert read_regions(ThreadEngine(), left_out) == ()
