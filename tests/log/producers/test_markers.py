"""Markers, read out of control batches."""

from __future__ import annotations

import pytest

from stratalog.errors import InvalidRecordError
from stratalog.log.append import analyze
from stratalog.log.producers.analysis import replay_batches
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.markers import read_marker
from stratalog.records.batch import write_crc
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from tests.log.model import NOW
from tests.log.producing import REPLICATION, marker
from tests.records.golden import COMMIT_MARKER


def test_kafkas_marker_is_read(state: ProducerStateManager) -> None:
    info = analyze(COMMIT_MARKER, origin=REPLICATION, max_message_bytes=None, leader_epoch=29)

    assert read_marker(info.data, info.batches) == (EndTxnMarker(ControlType.COMMIT, 347), 1000)
    replay_batches(state, info.data, info.batches)
    entry = state.producers[73]
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (13, 347, 1000)


def test_a_compressed_marker_is_read_as_well() -> None:
    data = marker(5, producer_id=1, abort=True, codec=Codec.GZIP)
    info = analyze(data, origin=REPLICATION, max_message_bytes=None, leader_epoch=0)

    assert read_marker(info.data, info.batches) == (EndTxnMarker(ControlType.ABORT, 0), NOW + 5)


def test_a_marker_that_is_none_is_an_invalid_record(state: ProducerStateManager) -> None:
    damaged = bytearray(COMMIT_MARKER)
    damaged[61] = 0x7E
    write_crc(damaged, 0, len(damaged))
    info = analyze(damaged, origin=REPLICATION, max_message_bytes=None, leader_epoch=29)

    with pytest.raises(InvalidRecordError):
        replay_batches(state, info.data, info.batches)
