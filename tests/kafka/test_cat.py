"""`stratalog cat` on the directory of a running broker, beside kcat, which asks the broker.

kcat is Debian's package of that name; without it these tests are skipped, or fail in CI.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.required import give_up
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("kcat_here")

T0 = 1_700_000_000_000
HEADERS = [("a", b"1"), ("empty", b""), ("null", None), ("a", b"2")]
RECORDS = [
    {"key": b"k1", "value": b"one", "timestamp": T0},
    {"key": None, "value": b"no key", "timestamp": T0 + 1000, "headers": HEADERS},
    {"key": b"deleted", "value": None, "timestamp": T0 + 2000},
    {"key": b"", "value": b"", "timestamp": T0 + 3000},
    {"key": "ü".encode(), "value": 'é "quoted"\n\t/\x01 line'.encode(), "timestamp": T0 + 4000},
    *({"key": b"%d" % n, "value": b"value %d" % n, "timestamp": T0 + 5000 + n} for n in range(300)),
]


@pytest.fixture(scope="module")
def kcat_here() -> None:
    if shutil.which("kcat") is None:
        give_up("kcat", "it is not on PATH (Debian: apt-get install kcat)")


def kcat(broker: Broker, topic: str, *options: str) -> bytes:
    command = ["kcat", "-C", "-q", "-e", "-b", broker.bootstrap, "-t", topic, *options]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True).stdout


def ours(capsys: pytest.CaptureFixture[bytes], directory: Path, topic: str, *options: str) -> bytes:
    assert main.run(["cat", str(directory), "--topic", topic, *options]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = f"cat-{uuid.uuid4().hex}"
    create_topic(broker.bootstrap, name, partitions=2, config={"retention.ms": "-1"})  # the records are old
    for codec in ("none", "zstd"):
        produce(producer(broker.bootstrap, compression_type=codec), name, RECORDS, batch=50)
    produce(producer(broker.bootstrap), name, RECORDS[:3], partition=1)
    return name


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-f", "%t [%p] at %o: %k = %s\\n"],
        ["-f", "%S %K %T %h|\\t\\r\\x41\\x42|\\65\\012%%%o\\q\\n"],
        ["-f", "%R%s"],
        ["-f", "%h\\n"],
        ["-K", ":", "-D", "\\x01;"],
        ["-K", "\\t", "-Z", "-c", "3"],
        ["-Z", "-f", "%k=%s\\n", "-o", "5", "-c", "300"],
        ["-o", "-10"],
        ["-o", "600", "-f", "%o "],
        ["-o", "beginning", "-c", "7"],
        ["-o", "end"],
        ["-o", f"s@{T0 + 4000}", "-o", f"e@{T0 + 5003}", "-f", "%o %T\\n"],
        ["-D", "--"],
    ],
    ids=" ".join,
)
def test_what_is_printed_is_what_kcat_prints(
    broker: Broker, topic: str, options: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    expected = kcat(broker, topic, "-p", "0", *options)

    assert ours(capsysbinary, broker.log_dir, f"{topic}-0", *options) == expected
    assert expected or options == ["-o", "end"]


def test_all_partitions_have_the_records_that_kcat_prints(
    broker: Broker, topic: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    expected = kcat(broker, topic, "-f", "%p:%o:%k\\n").splitlines()

    found = ours(capsysbinary, broker.log_dir, topic, "-f", "%p:%o:%k\\n").splitlines()

    assert sorted(found) == sorted(expected)


def test_json_is_that_of_kcat_without_its_broker(
    broker: Broker, topic: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = kcat(broker, topic, "-p", "0", "-J").splitlines()
    expected = [json.loads(line) for line in lines]
    for document in expected:
        document.pop("broker", None)

    found = ours(capsysbinary, broker.log_dir, f"{topic}-0", "-J").splitlines()

    assert [json.loads(line) for line in found] == expected
    assert [list(json.loads(line)) for line in found] == [list(document) for document in expected]


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_are_read_as_by_kcat(
    broker: Broker, level: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = f"cat-txn-{uuid.uuid4().hex}"
    create_topic(broker.bootstrap, name)
    client = producer(broker.bootstrap, transactional_id=name)
    client.init_transactions(PATIENCE_S)
    for number, ends in enumerate([client.commit_transaction, client.abort_transaction] * 3):
        client.begin_transaction()
        produce(client, name, [{"value": b"%d of %d" % (each, number)} for each in range(5)])
        ends(PATIENCE_S)
    expected = kcat(broker, name, "-X", f"isolation.level={level}", "-f", "%o %s\\n")

    options = ["--committed"] if level == "read_committed" else []
    found = ours(capsysbinary, broker.log_dir, name, "-f", "%o %s\\n", *options)

    assert found == expected
    assert len(found.splitlines()) == (15 if options else 30)


def test_a_stopped_broker_leaves_the_same_records(
    topic: str, broker: Broker, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A copy of the directory stands for it: the broker goes on for other tests."""
    expected = kcat(broker, topic, "-p", "1", "-f", "%o %k=%s\\n")
    shutil.copytree(broker.log_dir / f"{topic}-1", tmp_path / f"{topic}-1")

    assert ours(capsysbinary, tmp_path, topic, "-f", "%o %k=%s\\n") == expected
