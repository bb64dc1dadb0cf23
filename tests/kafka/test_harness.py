"""The harness itself: a real broker obeys it, and Kafka's classes answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import MakeBroker
from tests.kafka.jars import WITH_LEGACY_FORMATS, KafkaJars
from tests.kafka.oracle import OracleError, RecordsOracle
from tests.kafka.tools import dump_log, dumpable_files, run_tool
from tests.waiting import until

# What Kafka 4.3.1 wrote when these vectors were first taken down, byte by byte checked against the format.
TWO_RECORDS_V2 = (
    "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3ffffffffffffffff"
    "ffffffffffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200"
)
ONE_RECORD_V0 = "00000000000000000000001875f0f41d0000000000046b6579310000000676616c756531"
ONE_RECORD_V1 = "0000000000000000000000200685b364010000000000000454c3000000046b6579310000000676616c756531"
COMMIT_MARKER = (
    "00000000000003d7000000420000001d02172b6dc800300000000000000000000003e800000000000003e80000000000000049000d"
    "ffffffff000000012000000008000000010c00000000015b00"
)
EMPTY_BATCH = (
    "000000000000000500000031000000030286bdc1fb000000000002ffffffffffffffff00000000000003e8000000000000000700"
    "000000000400000000"
)

FIRST = {"timestamp": 283843, "key": b"key1".hex(), "value": b"value1".hex()}
SECOND = {"timestamp": 1234, "key": b"key2".hex(), "value": b"value2".hex()}


def test_kafka_builds_the_golden_batch_of_two_records(oracle: RecordsOracle) -> None:
    assert oracle.build([FIRST, SECOND]).hex() == TWO_RECORDS_V2


@pytest.mark.parametrize(("magic", "golden"), [(0, ONE_RECORD_V0), (1, ONE_RECORD_V1)])
def test_kafka_builds_the_golden_legacy_entries(oracle: RecordsOracle, magic: int, golden: str) -> None:
    assert oracle.build([FIRST], magic=magic).hex() == golden


def test_kafka_builds_the_golden_commit_marker(oracle: RecordsOracle) -> None:
    marker = oracle.build(
        [{"timestamp": 1000, "controlType": "COMMIT", "coordinatorEpoch": 347}],
        baseOffset=983,
        producerId=73,
        producerEpoch=13,
        partitionLeaderEpoch=29,
        isTransactional=True,
        isControl=True,
    )

    assert marker.hex() == COMMIT_MARKER


def test_kafka_builds_the_golden_empty_batch(oracle: RecordsOracle) -> None:
    empty = oracle.empty_batch(
        baseOffset=5,
        lastOffset=7,
        producerId=7,
        producerEpoch=0,
        baseSequence=4,
        maxTimestamp=1000,
        partitionLeaderEpoch=3,
    )

    assert empty.hex() == EMPTY_BATCH


def test_decoding_shows_batches_and_records(oracle: RecordsOracle) -> None:
    (batch,) = oracle.decode(bytes.fromhex(TWO_RECORDS_V2))

    assert batch["crc"] == 3851219455
    assert batch["valid"]
    assert [record["offset"] for record in batch["records"]] == [0, 1]
    assert [record["timestamp"] for record in batch["records"]] == [283843, 1234]
    assert bytes.fromhex(batch["records"][1]["value"]) == b"value2"


@pytest.mark.parametrize("codec", ["gzip:1", "snappy", "lz4:9", "zstd:19"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_kafka_reads_the_compressed_sets_it_builds(oracle: RecordsOracle, codec: str, magic: int) -> None:
    if magic < 2 and codec.startswith("zstd"):
        with pytest.raises(OracleError, match="IllegalArgumentException"):
            oracle.build([FIRST], magic=magic, codec=codec)
        return
    built = oracle.build([FIRST, SECOND], magic=magic, codec=codec, baseOffset=40)

    (batch,) = oracle.decode(built)

    assert (batch["baseOffset"], batch["lastOffset"]) == (40, 41)
    assert [record["key"] for record in batch["records"]] == [FIRST["key"], SECOND["key"]]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_kafka_decompresses_what_it_compressed(oracle: RecordsOracle, codec: str) -> None:
    assert oracle.decompress(codec, oracle.compress(codec, b"hello" * 900)) == b"hello" * 900


def test_setting_the_leader_epoch_leaves_the_crc_alone(oracle: RecordsOracle) -> None:
    batch = bytes.fromhex(TWO_RECORDS_V2)

    changed = oracle.set_fields(batch, partitionLeaderEpoch=7, lastOffset=101)

    assert changed[:8] == (100).to_bytes(8, "big")
    assert changed[12:16] == (7).to_bytes(4, "big")
    assert changed[16:] == batch[16:]


def test_an_exception_of_kafka_is_an_answer_and_the_next_question_is_answered(oracle: RecordsOracle) -> None:
    with pytest.raises(OracleError, match=r"CorruptRecordException: Record size 0 is less than"):
        oracle.decode(bytes(61))

    assert oracle.decode(b"") == []


def test_the_shared_broker_takes_records_of_both_clients(
    broker: Broker, kafka_jars: KafkaJars, oracle: RecordsOracle
) -> None:
    create_topic(broker.bootstrap, "both-clients")
    produce(producer(broker.bootstrap), "both-clients", [{"key": b"k", "value": b"from librdkafka"}])
    broker.tool("console-producer", "--topic", "both-clients", stdin="from Java\n")

    partition = broker.log_dir / "both-clients-0"
    dump = dump_log(kafka_jars, [partition / f"{0:020}.log"])
    batches = oracle.decode((partition / f"{0:020}.log").read_bytes())

    assert " payload: from librdkafka" in dump.stdout
    assert " payload: from Java" in dump.stdout
    values = [record["value"] for batch in batches for record in batch["records"]]
    assert values == [b"from librdkafka".hex(), b"from Java".hex()]


@pytest.mark.deep  # test_recover.py kills brokers and stops them in every run
def test_a_killed_broker_recovers_and_a_stopped_one_does_not(
    make_broker: MakeBroker, kafka_jars: KafkaJars
) -> None:
    broker = make_broker(properties={"log.index.size.max.bytes": "4096"})
    create_topic(broker.bootstrap, "t", partitions=2)
    produce(producer(broker.bootstrap), "t", [{"value": b"kept"}], partition=1)
    # The controller has both before the broker has.
    until(lambda: len(list(broker.log_dir.glob("t-*/partition.metadata"))) == 2)

    broker.kill()
    marker = broker.log_dir / ".kafka_cleanshutdown"
    assert not marker.exists()
    broker.start()
    assert broker.log_lines(r"Recovering 2 logs from .* since no clean shutdown file was found")
    assert broker.log_lines(r"partition=t-1.*Recovering unflushed segment 0")

    broker.stop()
    assert marker.exists()
    broker.start()
    assert broker.log_lines(r"Skipping recovery of 2 logs")

    dump = dump_log(kafka_jars, dumpable_files(broker.log_dir / "t-1"))
    assert " payload: kept" in dump.stdout


@pytest.mark.deep  # test_recover.py starts this release in every run; fixtures have its message sets
def test_an_old_release_writes_message_sets(make_broker: MakeBroker, oracle: RecordsOracle) -> None:
    broker = make_broker(release=WITH_LEGACY_FORMATS)
    create_topic(broker.bootstrap, "old", config={"message.format.version": "0.10.0"})
    produce(producer(broker.bootstrap), "old", [{"value": b"v1"}])

    (entry,) = oracle.decode((broker.log_dir / "old-0" / f"{0:020}.log").read_bytes())

    assert entry["magic"] == 1
    assert entry["records"][0]["value"] == b"v1".hex()


@pytest.mark.parametrize("is_told_what", [True, False])
def test_a_tool_says_the_same_in_a_shared_jvm_and_in_its_own(
    kafka_jars: KafkaJars, tmp_path: Path, is_told_what: bool
) -> None:
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(bytes.fromhex(TWO_RECORDS_V2))
    options = ["--print-data-log", "--files", str(segment)] if is_told_what else []

    shared, own = (
        run_tool(kafka_jars, "dump-log", *options, stdin=stdin, check=False) for stdin in (None, "")
    )

    assert (shared.returncode, shared.stdout, shared.stderr) == (own.returncode, own.stdout, own.stderr)
    assert shared.args[0] != own.args[0]
    assert (shared.returncode == 0) == ("value1" in shared.stdout) == is_told_what


@pytest.mark.parametrize(("required", "outcome"), [("0", "1 skipped"), ("1", "1 error")])
def test_without_java_tests_are_skipped_with_the_reason_or_fail_where_kafka_is_required(
    tmp_path: Path, required: str, outcome: str
) -> None:
    environment = os.environ | {"STRATALOG_REQUIRE_KAFKA": required, "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-rsf", "-p", "no:cacheprovider", "-p", "no:xdist"]
    one_test = f"{__file__}::test_kafka_builds_the_golden_batch_of_two_records"

    done = subprocess.run([*command, one_test], env=environment, capture_output=True, text=True, check=False)

    assert "no `java` in JAVA_HOME" in done.stdout
    assert "cannot be had" in done.stdout
    assert outcome in done.stdout
