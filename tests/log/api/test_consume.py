"""Records as a consumer gets them: from the middle of batches, around damage and transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import PartitionLog, open_log
from stratalog.errors import CorruptRecordError
from stratalog.records.control import ControlType
from tests.log.api.opened import Turns, values
from tests.log.model import append_marker, batch, produced


def test_a_batch_is_read_from_its_middle(log: PartitionLog) -> None:
    log.append_many([b"a", b"b", b"c"], codec="gzip")

    assert values(log.records(1)) == [b"b", b"c"]
    assert log.to_arrow(["value"], offset=2).to_pydict() == {"value": [b"c"]}


def damage_third_length(file: Path) -> int:
    """Make the third of five batches longer than the file; returns where it starts."""
    data = bytearray(file.read_bytes())
    third = len(data) // 5 * 2
    data[third + 8 : third + 12] = (1 << 20).to_bytes(4, "big")
    file.write_bytes(data)
    return third


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("interval", [0, 4096])
def test_records_behind_a_damaged_length_are_not_skipped_in_silence(
    directory: Path, interval: int, read_only: bool
) -> None:
    with open_log(directory, create=True, config={"index.interval.bytes": interval}) as log:
        for number in range(8):
            if number == 5:
                log.log.roll()
            log.append(b"%d" % number)
    third = damage_third_length(directory / f"{0:020d}.log")

    with open_log(directory, read_only=read_only) as log:
        records = log.records()
        assert (next(records).value, next(records).value) == (b"0", b"1")
        with pytest.raises(CorruptRecordError, match=f"{0:020d}.log at byte {third}: "):
            next(records)
        with pytest.raises(CorruptRecordError):
            log.to_arrow()
        with pytest.raises(CorruptRecordError):
            list(log.tail(0, stop=Turns()))
        assert values(log.records(5)) == [b"5", b"6", b"7"]


def test_a_length_that_is_damaged_while_the_log_is_open_is_told(log: PartitionLog, directory: Path) -> None:
    for number in range(5):
        log.append(b"%d" % number)
    third = damage_third_length(directory / f"{0:020d}.log")

    with pytest.raises(CorruptRecordError, match=f"at byte {third}: "):
        list(log.records())


def test_gaps_of_offsets_are_no_damage(log: PartitionLog) -> None:
    log.append_many([b"a", b"b", b"c"])
    log.log.roll()
    log.append_batch(batch(b"d", base_offset=10), keep_offsets=True)
    log.append_many([b"e", b"f"])
    log.truncate_to(12)

    assert values(log.records(3)) == [b"d"]
    assert (log.end_offset, values(log.records(11))) == (12, [])


def test_aborted_and_open_transactions_are_left_out_on_request(log: PartitionLog) -> None:
    log.append(b"plain")
    log.append_batch(produced(1, 0, b"aborted", transactional=True))
    log.append_batch(produced(2, 0, b"committed", transactional=True))
    append_marker(log.log, 1, ControlType.ABORT)
    append_marker(log.log, 2, ControlType.COMMIT)
    log.append_batch(produced(1, 1, b"open", transactional=True))
    log.append(b"behind")

    assert values(log.records()) == [b"plain", b"aborted", b"committed", b"open", b"behind"]
    assert values(log.records(isolation="read_committed")) == [b"plain", b"committed"]
    table = log.to_arrow(["value"], isolation="read_committed")
    assert table.to_pydict() == {"value": [b"plain", b"committed"]}
    assert log.last_stable_offset == 5
