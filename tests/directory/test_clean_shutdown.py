"""The clean-shutdown file, against brokers' own and Kafka 4.3.1's reading of the same texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.directory.clean_shutdown import (
    NO_PROMISE,
    SAYS_NOTHING,
    CleanShutdown,
    CleanShutdownFile,
    format_clean_shutdown,
    parse_clean_shutdown,
)
from stratalog.directory.clean_state import CleanState
from stratalog.files.disk import Disk
from tests.fixtures.catalog import log_dirs

disk = Disk()


def test_beside_another_epoch_it_never_says_minus_one() -> None:
    assert NO_PROMISE.beside_epoch() == SAYS_NOTHING
    assert SAYS_NOTHING.beside_epoch() == SAYS_NOTHING
    assert CleanShutdown(broker_epoch=124).beside_epoch() == CleanShutdown(broker_epoch=124)


def test_a_brokers_file_is_written_again_byte_for_byte(tmp_path: Path) -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    content = CleanShutdownFile(disk, logs).read()
    assert content == CleanShutdown(broker_epoch=124)
    CleanState(disk, str(tmp_path)).put_back(content)

    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == (logs / ".kafka_cleanshutdown").read_bytes()


def test_the_empty_file_of_an_older_release_is_there_and_says_no_epoch() -> None:
    (logs,) = log_dirs("2.8.2", "clean")
    file = CleanShutdownFile(disk, logs)

    assert file.exists()
    assert file.read() == SAYS_NOTHING


@pytest.mark.parametrize("logs", log_dirs(state="killed"), ids=str)
def test_a_killed_broker_leaves_no_file(logs: Path) -> None:
    file = CleanShutdownFile(disk, logs)

    assert not file.exists()
    assert file.read() == SAYS_NOTHING


# What CleanShutdownFileHandler.read returned.
@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("", None),
        ("{}", None),
        ('{"version":0,"brokerEpoch":-1}', -1),
        ('{"version":1,"brokerEpoch":5,"more":[1]}', 5),
        ('{"brokerEpoch":7}', 7),
        ('{"version":0}', None),
        ("[1]", None),
        ("5", None),
        ("null", None),
        ('{"version":0,"brokerEpoch":"9"}', 9),
        ('{"version":0,"brokerEpoch":1.5}', 1),
        ('{"version":0,"brokerEpoch":null}', None),
        ('{"version":0,"brokerEpoch":9223372036854775808}', None),
        ('{"version":0,"brokerEpoch":3', None),
        ("garbage", None),
        ('{"version":0,"brokerEpoch":true}', None),
        (' {"version":0 , "brokerEpoch": 4}\n', 4),
        ('{"version":0,"brokerEpoch":3} x', 3),
        ('{"version":"x","brokerEpoch":3}', None),
    ],
)
def test_a_file_is_read_as_by_kafka(text: str, epoch: int | None, tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_text(text)

    assert CleanShutdownFile(disk, tmp_path).read() == CleanShutdown(broker_epoch=epoch)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 100_000, b'{"version":0,"brokerEpoch":NaN}'])
def test_no_bytes_make_reading_a_file_fail(data: bytes, tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(data)

    assert CleanShutdownFile(disk, tmp_path).read() == SAYS_NOTHING
    assert CleanShutdownFile(disk, tmp_path).exists()


def test_an_unknown_epoch_is_minus_one() -> None:
    assert format_clean_shutdown(NO_PROMISE) == b'{"version":0,"brokerEpoch":-1}'


@pytest.mark.parametrize("content", [SAYS_NOTHING, NO_PROMISE, CleanShutdown(broker_epoch=124)])
def test_the_file_and_the_note_lose_nothing(content: CleanShutdown) -> None:
    assert parse_clean_shutdown(format_clean_shutdown(content)) == content
    assert CleanShutdown.of_fields(content.fields()) == content


def test_only_an_epoch_is_a_promise() -> None:
    assert CleanShutdown(broker_epoch=0).has_epoch
    assert not NO_PROMISE.has_epoch
    assert not SAYS_NOTHING.has_epoch
