"""Logs to read: made through the public API, with what was appended as the model of what must come out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stratalog
from stratalog.log.api.partition_log import PartitionLog
from stratalog.log.new_records import NewRecord
from tests.jobs.reading.making import T0, Made
from tests.jobs.reading.streaming import OLD_ID, SMALL_SEGMENTS

RECORDS_COUNT = 3000


@pytest.fixture(scope="session")
def made_log(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """3,000 records in several segments, with an index entry every few batches. Not to be changed."""
    return make_log(tmp_path_factory.mktemp("reading") / "orders-0")


@pytest.fixture
def own_log(tmp_path: Path) -> Made:
    """The same for a test that changes files."""
    return make_log(tmp_path / "orders-0")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    """An empty log of small segments, open for writing."""
    with stratalog.open_log(
        tmp_path / "orders-0", create=True, config=SMALL_SEGMENTS, topic_id=OLD_ID
    ) as opened:
        yield opened


def make_log(directory: Path, count: int = RECORDS_COUNT) -> Made:
    records = [
        NewRecord(b"value %d " % number * (number % 9), b"key %d" % (number % 50), (), T0 + 1000 * number)
        for number in range(count)
    ]
    config = {"internal.segment.bytes": 40_000, "index.interval.bytes": 1000}
    with stratalog.open_log(directory, create=True, config=config) as log:
        for start in range(0, count, 10):
            log.append_many(records[start : start + 10])
    return Made(path=directory, records=records)
