"""The records inside batches, with damage under a right checksum."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stratalog.operations.audit.deep import check_records, runs
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import walk_batches
from tests.fixtures.catalog import log_dirs
from tests.operations.audit.planting import RECORDS_AT, ROLLED, in_batch

(CLEAN,) = log_dirs("4.3.1", "clean")


def found_in(topic: str, data: bytes, position: int = 0) -> list[tuple[str, int | None, int | None]]:
    headers = walk_batches(data).headers.copy()
    return [
        (spot.kind.value, spot.position, spot.offset)
        for spot in check_records(topic, "0.log", byte_array(data), headers, position)
    ]


def test_every_damaged_batch_is_found_and_no_other(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes((CLEAN / ROLLED).read_bytes())
    positions = walk_batches(log.read_bytes()).headers["position"].tolist()
    for number in (0, 2):
        in_batch(number, RECORDS_AT, ">B", 0x7E)(log)

    found = found_in("rolled", log.read_bytes(), position=1000)

    assert [kind for kind, _, _ in found] == ["invalid-records"] * 2
    assert [position for _, position, _ in found] == [1000 + positions[0], 1000 + positions[2]]


def test_a_record_that_no_coordinator_wrote_is_found() -> None:
    data = (CLEAN / ROLLED).read_bytes()

    assert {kind for kind, _, _ in found_in("__consumer_offsets", data)} == {"undecodable-record"}
    assert found_in("rolled", data) == []


def test_batches_with_something_between_them_are_two_runs() -> None:
    headers = walk_batches((CLEAN / ROLLED).read_bytes()).headers.copy()
    ends = (headers["position"] + headers["size"]).tolist()

    assert [*runs(headers)] == [(0, ends[-1])]
    apart = np.delete(headers, 1)
    assert [*runs(apart)] == [(0, ends[0]), (int(headers["position"][2]), ends[-1])]
