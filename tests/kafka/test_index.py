"""`stratalog index` on a stopped broker's directory, by the word of Kafka's own tool and of the broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random

import pytest

from stratalog.cli.main import run
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import MakeBroker
from tests.kafka.test_recover import repairs
from tests.kafka.tools import dump_log
from tests.profile import examples

TOPICS = {
    "small": {"internal.segment.bytes": "3000", "index.interval.bytes": "200"},
    "large": {"index.interval.bytes": "500"},
}


def filled(make_broker: MakeBroker, work: Path, random: Random, start_ms: int) -> Broker:
    broker = make_broker(work=work, properties={"log.retention.ms": "-1"})
    for topic, config in TOPICS.items():
        create_topic(broker.bootstrap, topic, config=config)
        client = producer(broker.bootstrap, compression_type=random.choice(["none", "lz4", "zstd"]))
        records = [
            {"value": random.randbytes(random.randint(1, 300)), "timestamp": start_ms + 1000 * number}
            for number in range(200)
        ]
        produce(client, topic, records, batch=random.randint(1, 5))
    return broker


def times_of(broker: Broker, moments: list[int]) -> list[str]:
    return [broker.tool("get-offsets", "--time", str(moment)).stdout for moment in moments]


def spoil(random: Random, path: Path) -> None:
    data = path.read_bytes()
    kind = random.choice(["remove", "flip", "cut", "zeros"] if data else ["remove", "zeros"])
    if kind == "remove":
        path.unlink()
    elif kind == "flip":
        at = random.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :])
    elif kind == "cut":
        path.write_bytes(data[: random.randrange(len(data))])
    else:
        path.write_bytes(data + bytes(120))


@pytest.mark.parametrize("seed", range(examples(10, quick=1, ci=1)))
def test_a_broker_finds_by_time_what_it_found_before_its_indexes_were_spoilt(
    make_broker: MakeBroker, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(seed)
    start_ms = int(time.time() * 1000) - 1_000_000
    broker = filled(make_broker, tmp_path, random, start_ms)
    moments = [start_ms + 1000 * random.randrange(200) for _ in range(2)]
    before = times_of(broker, moments)
    broker.stop()
    config = str(tmp_path / "server.properties")
    assert run(["index", "--config", config, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["indexes_rebuilt"] == 0
    indexes = sorted(path for topic in TOPICS for path in (broker.log_dir / f"{topic}-0").glob("*index"))
    for path in random.sample(indexes, min(6, len(indexes))):
        spoil(random, path)

    assert run(["index", "--config", config, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["totals"]["indexes_rebuilt"] > 0
    files = [path for path in indexes if path.suffix in (".index", ".timeindex") and path.stat().st_size]
    told = dump_log(broker.jars, files, "--verify-index-only")
    assert "Mismatches" not in told.stdout + told.stderr
    assert "Indexed offset" not in told.stderr
    broker.start()
    assert not repairs(broker)
    assert times_of(broker, moments) == before
