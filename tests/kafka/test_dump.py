"""`stratalog dump` against Kafka's own tool, flag by flag, on directories of a broker of today."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from tests.cli.dumping.test_remote_log import REMOTE_LOG_METADATA
from tests.cli.dumps import (
    complaint_blocks,
    dump,
    expected_complaints,
    expected_lines,
    padded_indexes,
)
from tests.fixtures.records import binary_records, odd_records, texts, transactions
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.jars import KafkaJars
from tests.kafka.tools import dumpable_files, run_tool

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "binary": {},
    "odd": {},
    "idempotent": {},
    "transactional": {},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "rolled": {"segment.bytes": "1048576", "index.interval.bytes": "512"},
}
SMALL_INDEXES = {"log.index.size.max.bytes": "4096", "log.index.interval.bytes": "256"}
INTERNAL = {
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
FLAGS = [
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--verify-index-only"],
    ["--deep-iteration", "--max-bytes", "3000"],
    ["--value-decoder-class", "--key-decoder-class", "org.apache.kafka.tools.api.StringDecoder"],
]

Capture = pytest.CaptureFixture[bytes]


@pytest.fixture(scope="module")
def log_dirs(kafka_jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of a broker's log directory: stopped in order, and killed."""
    work = tmp_path_factory.mktemp("dumped")
    with Broker(kafka_jars, work / "broker", properties=SMALL_INDEXES) as broker:
        for topic, config in TOPICS.items():
            create_topic(broker.bootstrap, topic, config=config)
        fill(broker, "first")
        broker.stop()
        clean = shutil.copytree(broker.log_dir, work / "clean")
        broker.start()
        fill(broker, "second")
        broker.kill()
        killed = shutil.copytree(broker.log_dir, work / "killed")
    return {"clean": clean, "killed": killed}


def fill(broker: Broker, prefix: str) -> None:
    for codec in CODECS:
        client = producer(broker.bootstrap, compression_type=codec, linger_ms=50)
        produce(client, f"codec-{codec}", texts(prefix, 200, keys=7, repeat=3), batch=40)
    plain = producer(broker.bootstrap)
    produce(plain, "binary", binary_records())
    produce(plain, "odd", odd_records())
    produce(plain, "appended", texts(prefix, 30), batch=3)
    produce(plain, "rolled", ({"value": bytes([65 + n % 26]) * 50_000} for n in range(60)), batch=2)
    once = producer(broker.bootstrap, enable_idempotence=True, linger_ms=20)
    produce(once, "idempotent", texts(prefix, 60), batch=5)
    transactional = producer(broker.bootstrap, transactional_id=f"id-{prefix}", linger_ms=20)
    transactional.init_transactions()
    transactions(transactional, "transactional", "caacca")


def partitions(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.iterdir() if path.is_dir())


def with_records(log_dir: Path) -> list[Path]:
    """The tool fails at the preallocated index of an empty log."""
    return [path for path in partitions(log_dir) if any(log.stat().st_size for log in path.glob("*.log"))]


def segments_with_records(partition: Path) -> Iterator[Path]:
    for file in dumpable_files(partition):
        log = file.with_suffix(".log")
        if file.suffix not in (".index", ".timeindex") or log.stat().st_size:
            yield file


def kafka_dump(jars: KafkaJars, flags: Sequence[str], files: str) -> tuple[str, str, int]:
    done = run_tool(jars, "dump-log", *flags, "--files", files, check=False)
    return done.stdout, done.stderr, done.returncode


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(flags) or "none")
@pytest.mark.parametrize("state", ["clean", "killed"])
def test_all_partitions_are_dumped_as_by_kafka(
    state: str,
    flags: list[str],
    kafka_jars: KafkaJars,
    log_dirs: dict[str, Path],
    capsysbinary: Capture,
) -> None:
    folder = log_dirs[state]
    assert len(with_records(folder)) >= 10
    files = [file for path in with_records(folder) for file in segments_with_records(path)]
    names = ",".join(map(str, files))
    out, err, status = kafka_dump(kafka_jars, flags, names)

    dumped = dump(capsysbinary, *flags, "--files", names)

    expected = out if "--verify-index-only" in flags else expected_lines(out, folder)
    if "--verify-index-only" in flags:
        for name in padded_indexes(out, folder):
            if name.endswith(".index"):
                expected = expected.replace(f"Dumping {name}\n", f"Dumping {name}\n{name} is empty.\n")
    assert dumped.lines == expected.splitlines()
    assert complaint_blocks(dumped.err) == expected_complaints(err, folder, out)
    assert dumped.status == status == 0


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize(("topic", "decoder"), INTERNAL.items())
def test_internal_topics_are_decoded_as_by_kafka(
    topic: str,
    decoder: str,
    state: str,
    kafka_jars: KafkaJars,
    log_dirs: dict[str, Path],
    capsysbinary: Capture,
) -> None:
    found = [path for path in with_records(log_dirs[state]) if path.name.rpartition("-")[0] == topic]
    files = ",".join(
        str(file) for path in found for file in dumpable_files(path) if file.suffix in (".log", ".checkpoint")
    )
    out, err, _ = kafka_dump(kafka_jars, [decoder], files)

    dumped = dump(capsysbinary, decoder, "--files", files)

    assert dumped.lines == out.splitlines()
    assert complaint_blocks(dumped.err) == complaint_blocks(err)
    assert found


def test_trimmed_indexes_pass_both_checks(
    kafka_jars: KafkaJars, log_dirs: dict[str, Path], capsysbinary: Capture
) -> None:
    indexes = [
        file
        for path in partitions(log_dirs["clean"])
        for file in dumpable_files(path)
        if file.suffix in (".index", ".timeindex") and path.name != "__cluster_metadata-0"
    ]
    files = ",".join(map(str, indexes))
    out, err, status = kafka_dump(kafka_jars, ["--index-sanity-check"], files)

    dumped = dump(capsysbinary, "--index-sanity-check", "--files", files)

    assert dumped.out == out
    assert (dumped.err, dumped.status) == (err, status) == ("", 0)


def any_bytes(rng: random.Random) -> bytes:
    """Bytes that are UTF-8 in part: pieces of characters, surrogates, numbers of no meaning."""
    pieces = [
        b"plain",
        "ü€😀".encode(),
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\xe2\x82",
        b"\xc3",
        b"\xf4\x90\x80",
        b"\xe0\x80",
    ]
    return b"".join(
        rng.choice(
            [rng.choice(pieces), bytes([rng.randrange(14, 256)]), rng.randbytes(3).replace(b"\n", b"")]
        )
        for _ in range(rng.randrange(12))
    ).replace(b"\r", b"")


def test_keys_values_and_headers_of_any_bytes_are_the_same_text(
    kafka_jars: KafkaJars, tmp_path: Path, capsysbinary: Capture
) -> None:
    rng = random.Random(4)
    batches = []
    for number, codec in enumerate(Codec):
        options: dict[str, Any] = {"codec": codec}
        if number % 2:
            options |= {"producer_id": 7, "producer_epoch": 1, "base_sequence": 2**31 - 20}
        if number % 3 == 1:
            options |= {"log_append_time": 1_700_000_000_123}
        if number % 3 == 2:
            options |= {"delete_horizon_ms": 1_700_000_000_456}
        records = [
            Record(
                1000 * number + 3 * i,
                rng.randrange(-5, 2**42),
                any_bytes(rng) if rng.random() < 0.9 else None,
                any_bytes(rng) if rng.random() < 0.9 else None,
                tuple((rng.choice(["a", "ü", ""]), None) for _ in range(rng.randrange(4))),
            )
            for i in range(300)
        ]
        batches.append(build_batch(records, BatchOptions(**options)))
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"".join(batches) + batches[0][:100])
    out, err, _ = kafka_dump(kafka_jars, ["--print-data-log"], str(log))

    dumped = dump(capsysbinary, "--print-data-log", "--files", log)

    assert dumped.out == out
    assert complaint_blocks(dumped.err) == complaint_blocks(err)


def test_remote_log_metadata_is_decoded_as_by_kafka(
    kafka_jars: KafkaJars, tmp_path: Path, capsysbinary: Capture
) -> None:
    log = tmp_path / "00000000000000000000.log"
    values = [bytes.fromhex(raw) for raw in REMOTE_LOG_METADATA]
    log.write_bytes(
        build_batch([Record(i, 5, None, value) for i, value in enumerate(values)], BatchOptions())
    )
    out, err, _ = kafka_dump(kafka_jars, ["--remote-log-metadata-decoder"], str(log))

    dumped = dump(capsysbinary, "--remote-log-metadata-decoder", "--files", log)

    assert (dumped.out, dumped.err) == (out, err)


def test_what_an_index_says_wrongly_is_told_in_the_same_words(
    kafka_jars: KafkaJars, log_dirs: dict[str, Path], tmp_path: Path, capsysbinary: Capture
) -> None:
    partition = shutil.copytree(log_dirs["clean"] / "appended-0", tmp_path / "appended-0")
    index, time_index = partition / f"{0:020}.index", partition / f"{0:020}.timeindex"
    entries = list(struct.iter_unpack(">ii", index.read_bytes()))
    index.write_bytes(
        b"".join(struct.pack(">ii", offset - number % 2, at) for number, (offset, at) in enumerate(entries))
    )
    times = list(struct.iter_unpack(">qi", time_index.read_bytes()))
    time_index.write_bytes(
        b"".join(
            struct.pack(">qi", time - 10**12 * (number % 3 == 1), offset + (number % 4 == 2))
            for number, (time, offset) in enumerate(times)
        )
        + struct.pack(">qi", 2**60, 10**6)
    )
    files = f"{index},{time_index}"
    out, err, status = kafka_dump(kafka_jars, [], files)

    dumped = dump(capsysbinary, "--files", files)

    assert dumped.out == out
    assert dumped.err == err
    assert dumped.status == status == 0
    assert {line.partition(" in :")[0] for line in err.splitlines() if " in :" in line} == {
        "Mismatches",
        "Found timestamp mismatch",
        "Found out of order timestamp",
        "The following indexed offsets are not found",
    }
