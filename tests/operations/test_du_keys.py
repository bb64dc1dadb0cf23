"""What key prefixes take of the disk, against Kafka's own word on the records."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from stratalog.clock import system_clock
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.engine.progress import Progress
from stratalog.files.disk import Disk
from stratalog.log.cleaning.tally import Prefix
from stratalog.operations.du_keys import KeyUsage, count_keys
from stratalog.operations.looking import LookedAt
from stratalog.operations.read_progress import nobody
from tests.fixtures.catalog import log_dirs, partitions

EVERY = 10**6


def counted(root: Path, prefix: Prefix, top: int = EVERY, *names: str) -> dict[str, KeyUsage]:
    disk = Disk()
    known = KnownTopics(disk, [str(root)], TopicSources())
    looked_at = {str(root): LookedAt(disk, str(root), known, names)}
    return {
        usage.topic: usage
        for usage in count_keys(disk, system_clock, looked_at, prefix, top, on_progress=nobody)
    }


@pytest.mark.parametrize("logs", log_dirs(), ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_records_are_counted_by_prefix_and_their_bytes_are_those_of_the_logs(logs: Path) -> None:
    release, state = logs.parts[-3].removeprefix("kafka-"), logs.parts[-2]

    found = counted(logs, Prefix(size=1))

    for partition in partitions(release, state):
        topic = partition.name.rpartition("-")[0]
        if topic == "__cluster_metadata":
            continue
        files = {log.name for log in partition.logs}
        keys = Counter(
            bytes.fromhex(record["key"])[:1]
            for batch in partition.batches()
            if batch["file"] in files and not batch.get("isControl")
            for record in batch["records"]
            if record["key"] is not None
        )
        usage = found[topic]
        assert {count.key: count.versions for count in usage.counts} == dict(keys)
        every = sum(len(batch["records"]) for batch in partition.batches() if batch["file"] in files)
        assert usage.without_key_count == every - sum(keys.values())
        sizes = sum(batch["size"] for batch in partition.batches() if batch["file"] in files)
        total = sum(count.bytes for count in usage.counts) + usage.without_key_size + usage.rest_size
        assert total == pytest.approx(sizes, abs=len(keys) + 2)
        assert not usage.errors


def test_only_the_largest_are_named_and_the_rest_is_added_up() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    every = counted(logs, Prefix(size=9), EVERY, "rolled")["rolled"]
    few = counted(logs, Prefix(size=9), 2, "rolled")["rolled"]

    assert few.counts == every.counts[:2]
    sizes = [count.bytes for count in every.counts]
    assert few.rest_size == pytest.approx(sum(sizes[2:]), abs=len(sizes))
    assert sizes == sorted(sizes, reverse=True)


def test_damage_is_told_and_the_other_topics_are_counted(tmp_path: Path) -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    root = Path(shutil.copytree(logs, tmp_path / "data"))
    path = root / "rolled-0" / f"{20:020d}.log"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)

    found = counted(root, Prefix(size=1))

    ((where, why),) = found["rolled"].errors
    assert where == str(root / "rolled-0")
    assert "CRC" in why
    assert not found["txn"].errors


def test_the_bytes_read_are_reported() -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    disk, seen = Disk(), list[Progress]()
    known = KnownTopics(disk, [str(logs)], TopicSources())
    looked_at = {str(logs): LookedAt(disk, str(logs), known, ["rolled"])}

    count_keys(disk, system_clock, looked_at, Prefix(size=1), 5, on_progress=seen.append)

    size = sum(path.stat().st_size for path in (logs / "rolled-0").glob("*.log"))
    assert (seen[-1].bytes_done, seen[-1].bytes_total) == (size, size)
