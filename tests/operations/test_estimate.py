"""An estimate in full is what `compact` then frees, to the byte, whatever the log is made of.

What was freed is the difference of the .log files on disk, before and after.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratalog.config import ManagerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.engine.progress import Progress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import DiskError
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.tally import Prefix
from stratalog.operations.compact import Compaction
from stratalog.operations.estimate import Estimation, PartitionEstimate, TopicEstimate
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.work_report import WorkReport
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from tests.cli.compacting import SETTINGS
from tests.cli.planting import SET_SIZE, Planted
from tests.kafka.cleaning import DirtyHistory
from tests.log.model import NOW
from tests.operations.audit.test_audit import Unlistable
from tests.profile import examples

HISTORIES = 100
DAY_MS = 86_400_000


def estimate(planted: Planted, *, now: int = NOW, map_size: int = 24 * 1000, **asked: Any) -> TopicEstimate:
    (topic,) = (
        Estimation(
            directories=[str(planted.data)],
            sources=TopicSources(topic_settings=planted.settings.read_text()),
            manager=ManagerConfig(log_cleaner_dedupe_buffer_size=map_size),
            clock=lambda: now,
            **asked,
        )
        .run()
        .topics
    )
    return topic


def only(topic: TopicEstimate) -> PartitionEstimate:
    (partition,) = topic.partitions
    assert partition.error is None
    return partition


def compact(
    planted: Planted, *, now: int = NOW, map_size: int = 24 * 1000, dry_run: bool = False
) -> WorkReport:
    manager = ManagerConfig(log_cleaner_dedupe_buffer_size=map_size)
    return Maintenance(
        directories=[str(planted.data)],
        sources=TopicSources(topic_settings=planted.settings.read_text()),
        dry_run=dry_run,
        clock=lambda: now,
    ).run(Compaction(manager, rehearses=dry_run))


def logs_size(planted: Planted) -> int:
    return sum(path.stat().st_size for path in planted.data.glob("*/*.log"))


def set_policy(planted: Planted, policy: str) -> None:
    settings = json.loads(planted.settings.read_text())
    for topic in settings.values():
        topic["cleanup.policy"] = policy
    planted.settings.write_text(json.dumps(settings))


def fill(planted: Planted, *keys: bytes | None, timestamp: int = NOW, size: int = 20) -> None:
    """A batch for each key."""
    log = planted.log("t")
    for key in keys:
        record = Record(0, timestamp, key, b"v" * size)
        log.append_as_leader(build_batch([record], BatchOptions()), leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)


def test_what_is_estimated_is_freed_whatever_the_log_is_made_of(tmp_path: Path) -> None:
    passes = set()
    for seed in range(examples(HISTORIES)):
        history = DirtyHistory(seed)
        root = tmp_path / str(seed)
        root.mkdir()
        with Planted(root, t=history.config) as planted:
            history.write(planted.log("t"), NOW - 100_000, 120)
        before, contents = logs_size(planted), planted.contents()

        (found,) = estimate(planted, map_size=history.map_size).partitions
        planned = compact(planted, map_size=history.map_size, dry_run=True)

        assert planted.contents() == contents
        done = compact(planted, map_size=history.map_size)
        if found.error is not None:  # an old message that may neither stay nor go
            assert done.partitions[0].error is not None
            continue
        assert found.freed + found.lost == before - logs_size(planted), f"seed {seed}"
        (work,) = done.partitions
        assert planned.partitions[0].cleaned == work.cleaned
        if work.cleaned is None:  # a transaction is open from early on
            assert found.freed == found.lost == found.passes == 0
            continue
        assert (found.records_read, found.records_kept) == (
            work.cleaned.records_read,
            work.cleaned.records_written,
        )
        passes.add(found.passes)

    assert 1 in passes
    assert max(passes) > 1


def test_a_second_cleaning_is_estimated_from_where_the_first_ended(tmp_path: Path) -> None:
    history = DirtyHistory(6)
    with Planted(tmp_path, t=history.config) as planted:
        history.write(planted.log("t"), NOW - 100_000, 60)
    compact(planted)
    with planted:
        history.write(planted.log("t"), NOW - 50_000, 60)
    before, later = logs_size(planted), NOW + 200_000

    found = only(estimate(planted, now=later))

    compact(planted, now=later)
    assert found.freed + found.lost == before - logs_size(planted) > 0


def test_what_retention_takes_beside_is_told_apart(tmp_path: Path) -> None:
    settings = {"cleanup.policy": "compact,delete", "retention.ms": DAY_MS, "internal.segment.bytes": 400}
    with Planted(tmp_path, t=settings) as planted:
        fill(planted, *[b"old"] * 10, timestamp=NOW - 2 * DAY_MS)
        fill(planted, *[b"new"] * 10)
    before = logs_size(planted)

    found = only(estimate(planted))

    compact(planted)
    assert found.deleted > 0 < found.freed
    assert found.freed + found.deleted == before - logs_size(planted)


def test_what_is_too_old_once_its_young_records_are_superseded_goes_too(tmp_path: Path) -> None:
    settings = {"cleanup.policy": "compact,delete", "retention.ms": DAY_MS, "internal.segment.bytes": 200}
    with Planted(tmp_path, t=settings) as planted:
        fill(planted, b"kept", timestamp=NOW - 2 * DAY_MS)
        fill(planted, b"a")  # keeps the segment that both are in, and is superseded
        fill(planted, *[b"a"] * 10)
    before = logs_size(planted)

    found = only(estimate(planted))
    (planned,) = compact(planted, dry_run=True).partitions

    (done,) = compact(planted).partitions
    assert found.freed + found.deleted == before - logs_size(planted)
    assert [each.segment for each in planned.deleted] == [each.segment for each in done.deleted]


def test_a_producer_that_was_silent_for_long_keeps_no_batch(tmp_path: Path) -> None:
    """One that was not keeps an empty one, by which its sequence is known."""
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        log = planted.log("t")
        for producer_id in (1, 2):
            options = BatchOptions(producer_id=producer_id, producer_epoch=0, base_sequence=0)
            time = NOW - 2 * DAY_MS if producer_id == 1 else NOW
            log.append_as_leader(build_batch([Record(0, time, b"a", b"v")], options), leader_epoch=0)
        fill(planted, *[b"a"] * 20)
    before = logs_size(planted)

    found = only(estimate(planted))

    compact(planted)
    assert found.freed == before - logs_size(planted)


def test_a_topic_that_is_not_compacted_is_estimated_as_if_it_were(tmp_path: Path) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "delete", "retention.ms": DAY_MS}) as planted:
        fill(planted, *[b"%d" % (number % 7) for number in range(60)], timestamp=NOW - 2 * DAY_MS)
    before = logs_size(planted)

    found = only(estimate(planted))

    assert found.assumptions == ("cleanup.policy is delete: estimated as if it were compact",)
    set_policy(planted, "compact")
    compact(planted)
    assert found.freed == before - logs_size(planted) > 0


@pytest.mark.parametrize("draws", [None, 40])
def test_no_byte_is_promised_of_a_topic_whose_keys_are_all_null(tmp_path: Path, draws: int | None) -> None:
    """Kafka's cleaner deletes such records: testCleaningWithUnkeyedMessages. It is a loss and no saving."""
    with Planted(tmp_path, t={"cleanup.policy": "delete"}) as planted:
        fill(planted, *[None] * 60)
    before = logs_size(planted)

    found = only(estimate(planted, draws=draws))

    assert found.freed == 0
    assert found.records_without_key == (0 if draws else 56)  # the active segment has the other four
    set_policy(planted, "compact")
    (done,) = compact(planted).partitions
    assert found.lost - found.bound <= before - logs_size(planted) <= found.lost + found.bound
    assert found.lost > 0.85 * before
    assert done.cleaned is not None
    assert done.cleaned.records_without_key == 56


def test_what_has_no_key_is_told_apart_from_what_is_replaced(tmp_path: Path) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "delete"}) as planted:
        fill(planted, *[key for _ in range(30) for key in (None, b"a")])
    before = logs_size(planted)

    found = only(estimate(planted))

    set_policy(planted, "compact")
    compact(planted)
    assert found.freed + found.lost == before - logs_size(planted)
    assert 0 < found.lost < found.freed + 200
    assert found.records_without_key == 28


@pytest.mark.parametrize("draws", [None, 40])
def test_no_more_is_cleanable_than_there_is_in_a_log_trimmed_by_delete_records(
    tmp_path: Path, draws: int | None
) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        planted.fill("t", 21, keys=3).increment_log_start_offset(7)

    found = only(estimate(planted, draws=draws))

    assert found.deleted == 5 * SET_SIZE  # the segment below the log's start
    assert found.cleanable == 15 * SET_SIZE  # offsets 5 to 20
    assert found.size == 21 * SET_SIZE


def test_a_topic_of_unknown_settings_and_without_checkpoints_is_estimated_too(tmp_path: Path) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        fill(planted, *[b"%d" % (number % 7) for number in range(60)])
    (planted.data / "replication-offset-checkpoint").unlink()
    asked = Estimation(directories=[str(planted.data)], clock=lambda: NOW)

    (topic,) = asked.run().topics

    found = only(topic)
    assert found.freed > 0
    assert [words.split(":")[0] for words in found.assumptions] == [
        "estimated with the known settings and Kafka's defaults",
        "no high watermark is known",
        "cleanup.policy is delete",
    ]


def test_a_partition_that_cannot_be_read_is_told_and_the_others_are_estimated(tmp_path: Path) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}, u={"cleanup.policy": "compact"}) as planted:
        fill(planted, *[b"a"] * 30)
        planted.fill("u", 21)
    path = planted.data / "t-0" / planted.files("t", ".log")[1]
    data = bytearray(path.read_bytes())
    data[16] = 9
    path.write_bytes(data)

    report = Estimation(
        directories=[str(planted.data)],
        sources=TopicSources(topic_settings=planted.settings.read_text()),
        clock=lambda: NOW,
    ).run()

    first, second = (only_of(topic) for topic in report.topics)
    assert report.is_failed
    assert first.error is not None
    assert path.name in first.error
    assert second.error is None
    assert second.freed > 0


def test_one_disk_that_cannot_be_read_ended_the_estimate_of_the_others(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=3)
    gone = tmp_path / "gone"
    asked = Estimation(
        directories=[str(gone), str(planted.data)],
        names=["t", "tt"],
        disk=Unlistable(gone),
        clock=lambda: NOW,
    )

    report = asked.run()

    assert [topic.topic for topic in report.topics] == ["t"]
    assert report.problems == (f"{gone}: input/output error",)
    assert report.notes[0] == "tt: no directory that could be read has such a topic or partition."
    with pytest.raises(DiskError, match="gone"):
        replace(asked, directories=[str(gone)]).run()


def only_of(topic: TopicEstimate) -> PartitionEstimate:
    (partition,) = topic.partitions
    return partition


def test_no_room_for_the_files_between_passes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        fill(planted, *[b"%d" % number for number in range(60)])
    monkeypatch.setattr(DiskReader, "free_size", lambda *_: 10)

    (partition,) = estimate(planted, map_size=24 * 10, work_dir=str(tmp_path)).partitions

    assert partition.error is not None
    assert "10 are free here" in partition.error


def test_files_between_passes_are_gone_afterwards(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        fill(planted, *[b"%d" % (number % 30) for number in range(90)])

    found = only(estimate(planted, map_size=24 * 10, work_dir=str(work)))

    assert found.passes > 1
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("map_size", [24 * 1000, 24 * 10])
def test_keys_and_prefixes_are_those_of_a_plain_count(tmp_path: Path, map_size: int) -> None:
    random = Random(4)
    keys = [b"%s:%d" % (random.choice([b"user", b"order"]), random.randrange(20)) for _ in range(200)]
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        fill(planted, *keys, size=30)
        active = planted.log("t").segments.active.base_offset
    cleaned = keys[:active]

    topic = estimate(planted, map_size=map_size, prefix=Prefix(delimiter=ord(":")))

    versions = {count.key: count.versions for count in topic.by_versions}
    assert versions == {key: cleaned.count(key) for key in versions}
    assert min(versions.values()) >= max(cleaned.count(key) for key in {*cleaned} - {*versions})
    assert {count.key: count.versions for count in topic.prefixes} == {
        prefix: sum(key.startswith(prefix) for key in cleaned) for prefix in (b"user:", b"order:")
    }
    assert all(
        count.bytes == count.versions * 30 + sum(len(k) for k in cleaned if k == count.key)
        for count in topic.by_bytes
    )
    assert abs(sum(count.freed for count in topic.prefixes) - topic.freed) <= 2 + 61 * only(topic).passes


def test_a_sample_is_within_its_bound_and_says_how_large_it_was(tmp_path: Path) -> None:
    random = Random(7)
    with Planted(tmp_path, t={"cleanup.policy": "compact", "internal.segment.bytes": 20_000}) as planted:
        fill(planted, *[b"%d" % random.randrange(200) for _ in range(1500)])

    sampled, full = only(estimate(planted, draws=200)), only(estimate(planted))

    assert sampled.draws == 200
    assert full.bound == 0 < sampled.bound < full.size / 8
    assert abs(sampled.freed - full.freed) <= sampled.bound


def test_sampled_prefixes_are_within_their_bounds(tmp_path: Path) -> None:
    random = Random(8)
    with Planted(tmp_path, t={"cleanup.policy": "compact", "internal.segment.bytes": 20_000}) as planted:
        log = planted.log("t")
        for _ in range(600):
            keys = [b"%s-%d" % (random.choice([b"a", b"b"]), random.randrange(150)) for _ in range(3)]
            records = [Record(0, NOW, key, random.randbytes(40)) for key in keys]
            records = [record._replace(offset=index) for index, record in enumerate(records)]
            log.append_as_leader(build_batch(records, BatchOptions(codec=Codec.LZ4)), leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)
    prefix = Prefix(delimiter=ord("-"))

    full = {count.key: count for count in estimate(planted, prefix=prefix).prefixes}
    sampled = {count.key: count for count in estimate(planted, prefix=prefix, draws=200).prefixes}

    assert full.keys() == sampled.keys() == {b"a-", b"b-"}
    for key, count in sampled.items():
        assert abs(count.freed - full[key].freed) <= count.freed_bound < full[key].freed


def test_progress_ends_at_all_of_it(tmp_path: Path) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        fill(planted, *[b"a"] * 30)
    seen: list[tuple[str, int, int]] = []

    Estimation(directories=[str(planted.data)], clock=lambda: NOW).run(
        lambda told: seen.append((told.part, told.bytes_done, told.bytes_total))
    )

    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1] == ("t", 2 * logs_size(planted), 2 * logs_size(planted))


def test_a_sample_names_the_keys_that_it_met_often(tmp_path: Path) -> None:
    random = Random(9)
    keys = [b"hot" if random.random() < 0.3 else b"%d" % number for number in range(1500)]
    with Planted(tmp_path, t={"cleanup.policy": "compact", "internal.segment.bytes": 20_000}) as planted:
        fill(planted, *keys)

    topic = estimate(planted, draws=300)

    (count,) = topic.by_versions
    assert count.key == b"hot"
    assert abs(count.versions - keys.count(b"hot")) < keys.count(b"hot") / 2


@pytest.mark.parametrize("at_once", [1, 2, 64])
def test_an_engine_of_the_caller_estimates_several_topics_at_once_to_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("stratalog.operations.estimate.AT_ONCE", at_once)
    with Planted(tmp_path, a=SETTINGS, b=SETTINGS, c=SETTINGS) as planted:
        for topic, keys in (("a", 3), ("b", 2), ("c", 5)):
            planted.fill(topic, 21, keys=keys)
    seen: list[Progress] = []
    asked = Estimation(
        directories=[str(planted.data)],
        sources=TopicSources(topic_settings=planted.settings.read_text()),
        clock=lambda: NOW,
    )

    here = asked.run()
    there = replace(asked, engine=ThreadEngine(1)).run(seen.append)

    assert [(topic.topic, topic.partitions) for topic in there.topics] == [
        (topic.topic, topic.partitions) for topic in here.topics
    ]
    assert [{(key.key, key.versions) for key in topic.by_versions} for topic in there.topics] == [
        {(key.key, key.versions) for key in topic.by_versions} for topic in here.topics
    ]
    assert [len(topic.by_versions) for topic in there.topics] == [3, 2, 5]
    assert seen[-1].bytes_done == seen[-1].bytes_total
