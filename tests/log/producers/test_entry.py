"""What is remembered of one producer."""

from __future__ import annotations

import pytest

from stratalog.errors import OutOfOrderSequenceError
from stratalog.log.origin import AppendOrigin
from stratalog.segment.producers import BatchMetadata
from tests.log.model import NOW
from tests.log.producing import Producers

LAST = 2**31 - 1
REPLICATION, COORDINATOR = AppendOrigin.REPLICATION, AppendOrigin.COORDINATOR


def test_a_batch_across_the_wrap_knows_its_first_sequence(producers: Producers) -> None:
    producers.append(1, LAST - 10, 9990, count=20, origin=REPLICATION)
    entry = producers.append(1, 9, 10010, count=2)

    assert [(batch.first_sequence, batch.last_sequence) for batch in entry.batches] == [
        (LAST - 10, 8),
        (9, 10),
    ]
    assert entry.batches[0].first_offset == 9990
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 8, 10012)


def test_only_the_last_five_batches_are_kept(producers: Producers) -> None:
    for number in range(7):
        entry = producers.append(1, number, number)

    assert [batch.last_offset for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.find_duplicate(0, 1, 1) is None
    assert entry.find_duplicate(0, 2, 2) == BatchMetadata(2, 2, 0, NOW)
    assert entry.find_duplicate(1, 2, 2) is None
    assert entry.find_duplicate(0, 2, 3) is None
