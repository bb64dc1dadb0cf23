"""What workers leave out is heard on the driver: each place once, before the action returns."""

from __future__ import annotations

import json
import shutil
import socket
import warnings
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.jobs.reading.omissions import Omission, OmissionKind, OmissionWarning
from stratalog.spark import read, register
from stratalog.spark.listening import WARNINGS_COUNT, Listener, Warner
from stratalog.spark.telling import ADDRESS_OPTION, teller
from tests.spark.damaged import damaged_log
from tests.spark.test_telling import OMISSION, OTHER

CLEAN = str(Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs")


def spans(omissions: list[Omission]) -> list[tuple[int, int | None]]:
    return sorted((each.first_offset, each.end_offset) for each in omissions)


def test_records_that_a_read_skips_are_told_on_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    found: list[Omission] = []
    frame = read(spark, damaged_log(tmp_path), onCorruption="skip", on_omission=found.append)
    assert found == []

    assert frame.count() == 98

    assert spans(found) == [(0, 1), (50, 51)]
    assert {(each.topic, each.partition, each.kind) for each in found} == {("orders", 0, OmissionKind.DAMAGE)}
    assert all(each.size and each.path.endswith(".log") and each.why for each in found)


def test_each_is_told_once_however_often_a_frame_is_used(spark: SparkSession, tmp_path: Path) -> None:
    found: list[Omission] = []
    frame = read(spark, damaged_log(tmp_path), onCorruption="skip", minPartitions=4, on_omission=found.append)

    assert [frame.count(), frame.where("offset > 60").count(), frame.count()] == [98, 39, 98]
    assert frame.union(frame).count() == 196

    assert spans(found) == [(0, 1), (50, 51)]


def test_a_query_with_a_limit_tells_what_it_met(spark: SparkSession, tmp_path: Path) -> None:
    """It stops its task, and with it Spark's own way to tell something."""
    found: list[Omission] = []
    logs = damaged_log(tmp_path, count=20_000)
    frame = read(spark, logs, onCorruption="skip", minPartitions=1, on_omission=found.append)

    assert [row.offset for row in frame.limit(2).collect()] == [1, 2]

    assert (0, 1) in spans(found)


def test_without_a_socket_it_comes_with_the_task(spark: SparkSession, tmp_path: Path) -> None:
    """As on a cluster, where the driver is another machine."""
    found: list[Omission] = []
    register(spark)
    away = json.dumps({**json.loads(Listener(spark, found.append).address), "socket": None})
    reader = spark.read.format("stratalog").option("onCorruption", "skip").option(ADDRESS_OPTION, away)

    assert reader.load(str(damaged_log(tmp_path))).count() == 98

    assert spans(found) == [(0, 1), (50, 51)]


def test_what_the_plan_leaves_out_is_told_too(spark: SparkSession) -> None:
    found: list[Omission] = []
    where = {"startingOffsets": '{"trimmed": {"0": 3}}', "endingOffsets": '{"trimmed": {"0": 9}}'}
    before = read(spark, CLEAN, topics="trimmed", failOnDataLoss=False, on_omission=found.append, **where)

    assert before.count() == 0
    assert spans(found) == [(3, 9)]
    frame = read(
        spark,
        CLEAN,
        topics="trimmed",
        failOnDataLoss=False,
        startingOffsets='{"trimmed": {"0": 3}}',
        on_omission=found.append,
    )
    assert frame.limit(1).count() == 1
    assert spans(found) == [(3, 9), (3, 17)]


def test_offsets_that_are_lost_after_the_plan_are_told(spark: SparkSession, tmp_path: Path) -> None:
    found: list[Omission] = []
    frame = read(spark, damaged_log(tmp_path, damaged=()), failOnDataLoss=False, on_omission=found.append)
    assert (frame.count(), found) == (100, [])
    shutil.rmtree(tmp_path / "orders-0")

    assert frame.count() == 0

    (told,) = found
    assert (told.kind, told.first_offset, told.end_offset) == (OmissionKind.LOSS, 0, 100)


def test_so_is_what_is_left_out_of_a_decoded_topic(spark: SparkSession, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(CLEAN, tmp_path / "logs"))
    path = min(logs.glob("__consumer_offsets-*/*.log"), key=lambda each: (-each.stat().st_size, each.name))
    data = bytearray(path.read_bytes())
    data[70] ^= 0xFF
    path.write_bytes(data)
    found: list[Omission] = []

    options = {"decode": "consumer_offsets", "onCorruption": "skip"}
    assert read(spark, logs, on_omission=found.append, **options).count() > 0

    assert {(each.topic, each.path) for each in found} == {("__consumer_offsets", str(path))}


def test_without_a_function_it_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, damaged_log(tmp_path), onCorruption="skip")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert frame.count() == 98

    told = [each.message for each in caught if isinstance(each.message, OmissionWarning)]
    assert spans([omission for each in told for omission in each.omissions]) == [(0, 1), (50, 51)]


def test_many_places_are_not_warned_of_one_by_one() -> None:
    warn = Warner()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(100):
            warn(OMISSION)

    assert len(caught) == WARNINGS_COUNT + 1
    assert "on_omission" in str(caught[-1].message)


def test_values_that_cannot_be_decoded_are_warned_of_once(spark: SparkSession, tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for _ in range(20):
            log.append(b"{")
    frame = read(spark, tmp_path, valueEncoding="json", maxRecordsPerPartition=1, columns=["value"])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [row.value for row in frame.collect()] == [None] * 20

    (told,) = [each.message for each in caught if isinstance(each.message, OmissionWarning)]
    assert "could not be decoded" in str(told)


def test_a_read_that_leaves_nothing_out_has_no_listener(spark: SparkSession, tmp_path: Path) -> None:
    logs = damaged_log(tmp_path, damaged=())
    found: list[Omission] = []

    assert read(spark, logs, on_omission=found.append).count() == 100
    assert read(spark, logs, onCorruption="skip", on_omission=found.append).count() == 100

    assert found == []


def test_a_function_that_fails_does_not_stop_the_query(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Omission) -> None:
        raise ValueError("not today")

    assert read(spark, damaged_log(tmp_path), onCorruption="skip", on_omission=fail).count() == 98

    assert "ValueError: not today" in capsys.readouterr().err


def test_attempts_that_tell_the_same_are_heard_once(spark: SparkSession) -> None:
    found: list[Omission] = []
    listener = Listener(spark, found.append)
    only_socket = json.dumps({**json.loads(listener.address), "accumulator": None})

    for _ in range(2):  # an attempt that Spark gives up, and the next one
        tell = teller(only_socket)
        tell(OMISSION)
        tell(OTHER)
    listener.hear(OMISSION)  # with the accumulator

    assert found == [OMISSION, OTHER]


def test_only_the_same_user_can_tell(spark: SparkSession) -> None:
    path = Path(json.loads(Listener(spark, lambda _: None).address)["socket"])

    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.is_socket()
    with socket.socket(socket.AF_UNIX) as stranger:  # who says nothing hurts nobody
        stranger.connect(str(path))
