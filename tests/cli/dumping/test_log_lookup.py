"""Single batches of a log, looked up."""

from __future__ import annotations

from stratalog.cli.dumping.log_lookup import BatchPlace, LogLookup
from stratalog.files.simulated import SimulatedDisk
from tests.naive import Record, encode_batch, encode_message

OLD = encode_message(Record(0, 700, b"k", b"v"), magic=1)
FIRST = encode_batch([Record(1, 500, b"k", b"v"), Record(2, 900, b"k", b"v"), Record(3, 800, b"k", b"v")])
SECOND = encode_batch([Record(6, 600, b"k", b"v")])
TORN = SECOND[:-1]
LOG = "/logs/a-0/00000000000000000000.log"
PLACES = [
    BatchPlace(0, len(OLD), 0, 0, 1),
    BatchPlace(len(OLD), len(FIRST), 1, 3, 2),
    BatchPlace(len(OLD + FIRST), len(SECOND), 6, 6, 2),
]


def looked_up() -> LogLookup:
    return LogLookup(SimulatedDisk.of({LOG: OLD + FIRST + SECOND + TORN}), LOG)


def test_a_batch_is_found_at_its_first_byte_only_and_whole() -> None:
    with looked_up() as log:
        assert [log.batch_at(place.position) for place in PLACES] == PLACES
        assert log.batch_at(1) is None
        assert log.batch_at(len(OLD + FIRST + SECOND)) is None
        assert log.batch_at(-1) is None
        assert log.batch_at(log.size) is None


def test_the_first_batch_that_reaches_an_offset() -> None:
    with looked_up() as log:
        found = [log.first_batch_reaching(offset, 0) for offset in (0, 2, 3, 4, 6, 7, 1)]

    old, first, second = PLACES
    assert found == [old, first, first, second, second, None, first]


def test_the_last_batch_is_the_last_whole_one() -> None:
    with looked_up() as log:
        assert log.last_batch(0) == PLACES[-1]


def test_the_largest_timestamp_is_read_from_the_records() -> None:
    with looked_up() as log:
        assert [log.max_timestamp(place) for place in PLACES] == [700, 900, 600]


def test_a_log_that_is_not_there_has_no_batches() -> None:
    with LogLookup(SimulatedDisk.of({"/logs/other": b""}), LOG) as log:
        assert (log.exists, log.size, log.batch_at(0)) == (False, 0, None)
