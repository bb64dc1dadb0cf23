"""Sets that are written as they are, against the way through all checks: same bytes, same refusals."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog import open_log
from stratalog.config import LogConfig
from stratalog.errors import InvalidBatchError, StratalogError
from stratalog.limits import INT64_MAX
from stratalog.log.log import Log
from stratalog.log.ready import ReadyRules, ReadySet
from stratalog.records.batch import BatchHeader
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from tests.log.model import NOW, Machine, batch, produced
from tests.records.changing import changed
from tests.records.strategies import fields, headers

SETTINGS: list[dict[str, int | str]] = [
    {},
    {"cleanup_policy": "compact"},
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "gzip"},
    {"compression_type": "uncompressed"},
    {"max_message_bytes": 200},
    {"message_timestamp_before_max_ms": 10, "message_timestamp_after_max_ms": 5},
    {"internal_segment_bytes": 300, "index_interval_bytes": 100},
    {"index_interval_bytes": 1, "segment_index_bytes": 48},
    {"flush_messages": 2},
]
# Around the limits of the settings above, and unusual ones.
TIMES = st.sampled_from([NOW, NOW - 10, NOW - 11, NOW + 5, NOW + 6, 0, -1, 2**62])


@st.composite
def client_batches(draw: st.DrawFn) -> bytes:
    """What a client may send, right and wrong; most of it is plain."""
    rows = draw(st.lists(st.tuples(TIMES, fields, fields, st.just(()) | headers), min_size=1, max_size=4))
    records = [Record(offset, *row) for offset, row in enumerate(rows)]
    codec = draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4]))
    data = build_batch(records, BatchOptions(codec=codec))
    match draw(st.integers(0, 11)):
        case 0:
            return produced(1, 0, b"from a producer")
        case 1:
            return data + data
        case 2:
            return data[: draw(st.integers(0, len(data)))]
        case 3:
            spoiled = bytearray(data)
            spoiled[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
            return bytes(spoiled)
        case 4:
            name = draw(st.sampled_from(["records_count", "last_offset_delta", "attributes", "base_offset"]))
            return changed(data, **{name: draw(st.integers(-1, 2**15 - 1))})
        case 5:
            name = draw(st.sampled_from(["max_timestamp", "producer_id", "base_sequence"]))
            return changed(data, **{name: draw(st.integers(-2, 2**31 - 1))})
        case 6:
            # A right CRC over records that are not right.
            spoiled = bytearray(data)
            spoiled[draw(st.integers(61, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
            return changed(bytes(spoiled))
    return data


def by_all_checks(patch: pytest.MonkeyPatch) -> None:
    """From here on no set counts as ready."""
    for name in ("check", "of_record", "of_values"):
        patch.setattr(ReadyRules, name, lambda *_: None)


def story(settings: dict[str, int | str], act: Callable[[Log], Sequence[object]]) -> tuple[object, ...]:
    """What the appends gave, what the log knows then, and all its files."""
    machine = Machine(**settings)
    log = machine.open()
    given = act(log)
    marks = log.offset_snapshot(), log.recovery_point, log.epochs.entries, log.producers.map_end_offset
    log.close()
    paths = [f"{machine.directory}/{name}" for name in sorted(machine.files())]
    return given, marks, [(path, machine.disk.read_file(path)) for path in paths]


def outcome(append: Callable[[], Any]) -> object:
    try:
        done = append()
    except StratalogError as error:
        return type(error), str(error), vars(error).get("record_errors")
    return done.first_offset, done.last_offset, done.max_timestamp, done.size


@given(st.lists(client_batches(), min_size=1, max_size=6), st.sampled_from(SETTINGS))
def test_a_leader_gives_and_writes_what_it_does_with_all_checks(
    sent: list[bytes], settings: dict[str, int | str]
) -> None:
    def act(log: Log) -> Sequence[object]:
        return [
            outcome(lambda data=data, epoch=epoch: log.append_as_leader(data, leader_epoch=epoch // 3))
            for epoch, data in enumerate(sent)
        ]

    quick = story(settings, act)
    with pytest.MonkeyPatch.context() as patch:
        by_all_checks(patch)
        assert quick == story(settings, act)


def test_plain_batches_are_ready_in_most_topics_and_others_are_not() -> None:
    usual = ReadyRules(LogConfig())

    assert isinstance(usual.check(batch(b"a", b"b"), NOW), ReadySet)
    assert isinstance(usual.check(bytearray(batch(b"a", b"b")), NOW), ReadySet)
    for other in (
        batch(b"a", codec=Codec.LZ4),
        batch(b"a", base_offset=1),
        batch(b"a") * 2,
        batch(b"a")[:-1],
        produced(1, 0, b"a"),
        memoryview(batch(b"a")),
        b"",
    ):
        assert usual.check(other, NOW) is None
    for settings in SETTINGS[1:4]:
        rules = ReadyRules(Machine(**settings).config)
        assert rules.check(batch(b"a"), NOW) is None
        assert rules.of_record(b"a", None, None, NOW) is None
        assert rules.of_values([b"a"], NOW) is None


def test_the_callers_bytes_stay_as_they_are() -> None:
    log = Machine().open()
    data = bytearray(batch(b"a", b"b"))
    log.append_as_leader(data, leader_epoch=5)

    log.append_as_leader(data, leader_epoch=6)

    assert data == batch(b"a", b"b")
    assert log.log_end_offset == 4


@pytest.mark.parametrize("epoch", [0, 2**31 - 1])
def test_a_stamped_batch_has_its_offsets_and_its_epoch_and_no_other_change(epoch: int) -> None:
    data = batch(b"a", b"b")
    ready = ReadySet(bytearray(data), 2, NOW)

    ready.stamp(2**40, epoch)
    ready.stamp(2**41, epoch)

    header = BatchHeader.unpack(data)._replace(base_offset=2**41, partition_leader_epoch=epoch)
    assert bytes(ready.data) == header.pack() + data[61:]
    assert (ready.first_offset, ready.last_offset, ready.size) == (2**41, 2**41 + 1, len(data))


@given(TIMES | st.none(), fields, fields, st.sampled_from(SETTINGS))
def test_one_record_is_written_as_its_batch_is(
    timestamp: int | None, key: bytes | None, value: bytes | None, settings: dict[str, int | str]
) -> None:
    record = Record(0, NOW if timestamp is None else timestamp, key, value)

    def append(log: Log) -> Any:
        ready = log.ready_rules.of_record(value, key, timestamp, NOW)
        return log.append_as_leader(ready or build_batch([record]), leader_epoch=0)

    def act(log: Log) -> Sequence[object]:
        return [outcome(lambda: append(log)) for _ in range(3)]

    quick = story(settings, act)
    with pytest.MonkeyPatch.context() as patch:
        by_all_checks(patch)
        assert quick == story(settings, act)


@given(fields, fields)
def test_a_usual_record_is_ready(key: bytes | None, value: bytes | None) -> None:
    for timestamp in (None, NOW, 0):
        assert ReadyRules(LogConfig()).of_record(value, key, timestamp, NOW) is not None


@pytest.mark.parametrize("timestamp", [2**63, 2**70])
def test_a_timestamp_above_64_bits_is_refused_where_all_times_are_allowed(
    timestamp: int, tmp_path: Path
) -> None:
    config = LogConfig(message_timestamp_after_max_ms=INT64_MAX)

    with open_log(tmp_path / "orders-0", create=True, config=config) as log:
        with pytest.raises(InvalidBatchError, match="does not fit in 64 bits"):
            log.append(b"v", timestamp=timestamp)
        assert log.append(b"v", timestamp=INT64_MAX) == 0


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_values_are_written_as_their_batch_is(settings: dict[str, int | str], count: int) -> None:
    draw = random.Random(count)
    values = [draw.randbytes(draw.choice([0, 1, 20])) for _ in range(count)]
    records = [Record(offset, NOW, None, value) for offset, value in enumerate(values)]

    def act(log: Log) -> Sequence[object]:
        ready = log.ready_rules.of_values(values, NOW)
        return [outcome(lambda: log.append_as_leader(ready or build_batch(records), leader_epoch=0))]

    quick = story(settings, act)
    with pytest.MonkeyPatch.context() as patch:
        by_all_checks(patch)
        assert quick == story(settings, act)


@pytest.mark.parametrize("odd", [None, "text", bytearray(b"b"), memoryview(b"m"), 5, Record(0)])
def test_values_of_another_type_are_left_to_the_usual_way(odd: Any) -> None:
    rules = ReadyRules(LogConfig())

    assert rules.of_values([b"a", odd], NOW) is None
    if odd is not None:
        assert rules.of_record(odd, None, None, NOW) is None
        assert rules.of_record(b"a", odd, None, NOW) is None
    assert rules.of_record(b"a", None, True, NOW) is None


def test_new_settings_apply_to_the_next_append() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    log.config = Machine(cleanup_policy="compact").config

    with pytest.raises(StratalogError, match="without a key"):
        log.append_as_leader(batch(b"b"), leader_epoch=0)
