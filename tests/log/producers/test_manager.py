"""The state of all producers: staged changes, and which producers are forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import OutOfOrderSequenceError, UsageError
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.append_info import ProducerAppendInfo
from stratalog.log.producers.entry import ProducerStateEntry
from tests.log.model import NOW
from tests.log.producing import Producers


def test_a_refused_batch_leaves_the_state_as_it_was(producers: Producers) -> None:
    producers.append(1, 0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 7, 1)

    assert producers.append(1, 1, 1).last_data_offset == 1


def test_what_is_staged_is_not_seen_before_it_is_taken_over(producers: Producers) -> None:
    producers.append(1, 0, 0)
    info = producers.state.prepare_update(1, AppendOrigin.CLIENT)
    batch = {"producer_epoch": 0, "max_timestamp": NOW, "is_transactional": False}
    info.append_data(base_sequence=1, last_sequence=3, first_offset=OffsetMetadata(1), last_offset=3, **batch)

    assert producers.state.producers[1].last_sequence == 0
    producers.state.update(info)
    assert producers.state.producers[1].last_sequence == 3


def test_no_producer_id_has_no_state(producers: Producers) -> None:
    info = ProducerAppendInfo(ProducerStateEntry(-1), AppendOrigin.CLIENT)

    with pytest.raises(UsageError):
        producers.state.update(info)


def test_a_silent_producer_is_forgotten_and_may_start_anew(tmp_path: Path) -> None:
    producers = Producers(tmp_path, producer_id_expiration_ms=1000)
    producers.append(1, 5, 0)
    producers.state.remove_expired_producers(NOW + 999)
    assert 1 in producers.state.producers

    producers.state.remove_expired_producers(NOW + 1000)

    assert producers.state.is_empty
    assert producers.append(1, 2, 1).last_sequence == 2


def test_a_producer_with_an_open_transaction_is_not_forgotten(tmp_path: Path) -> None:
    producers = Producers(tmp_path, producer_id_expiration_ms=1000)
    producers.append(1, 0, 0, transactional=True)

    producers.state.remove_expired_producers(NOW + 5000)

    assert producers.first_unstable == 0
    assert 1 in producers.state.producers
