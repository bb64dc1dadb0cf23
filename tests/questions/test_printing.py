"""Records as lines: by Kafka's own classes for the fixtures, and while a log is written."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import CorruptRecordError, UsageError
from stratalog.log.new_records import NewRecord
from stratalog.questions.choosing import Start, chosen, starting_at
from stratalog.questions.formats import parse_format
from stratalog.questions.lines import Style
from stratalog.questions.printing import Printout, Wish
from tests.fixtures.catalog import Partition, log_dirs, partitions
from tests.jobs.decoding.registry import Registry
from tests.jobs.decoding.serializing import V1
from tests.jobs.reading.making import kafka_rows
from tests.records.avro.values import written

OWN = [each for each in partitions() if not each.name.startswith("__")]
T0 = 1_700_000_000_000


def printout(
    log_dir: Path,
    *names: str,
    text: str = "%o %k=%s\\n",
    wish: Wish | None = None,
    threads: int = 2,
    **options: str,
) -> Printout:
    return Printout(
        options=chosen([str(log_dir)], names, {"failOnDataLoss": "false"} | options),
        style=Style(format=parse_format(text)),
        wish=wish or Wish(),
        threads=threads,
    )


def output(printed: Printout) -> bytes:
    return b"".join(bytes(piece) for piece in printed.pieces())


def both_ways(printed: Printout) -> bytes:
    """The output in bulk, after a comparison with that from Arrow columns."""
    other = replace(printed, in_bulk=False, omissions=[])
    found = output(printed)

    assert output(other) == found
    assert other.omissions == printed.omissions
    return found


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    config = {"internal.segment.bytes": 4000, "index.interval.bytes": 200}
    for name, count in (("orders-0", 200), ("orders-1", 50)):
        with stratalog.open_log(tmp_path / name, create=True, config=config) as log:
            for number in range(count):
                record = NewRecord(b"value %d" % number, b"key %d" % (number % 7), (), T0 + 1000 * number)
                log.append_many([record])
    return tmp_path


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("partition", OWN, ids=str)
def test_each_record_is_printed_as_kafka_reads_it(partition: Partition, threads: int) -> None:
    expected = b"".join(
        b"%d %d %s %s|"
        % (
            record["offset"],
            record["timestamp"],
            bytes.fromhex(record["key"] or ""),
            bytes.fromhex(record["value"] or ""),
        )
        for batch, record in kafka_rows(partition)
        if not batch["isControl"]
    )

    assert output(printout(partition.path, text="%o %T %k %s|", threads=threads)) == expected


EVERY_LETTER = "%t[%p] %o %T %K %k %S %s %R%%\\n"


@pytest.mark.parametrize("marks_null", [False, True])
@pytest.mark.parametrize("text", ["%s\\n", EVERY_LETTER])
@pytest.mark.parametrize("logs", log_dirs(), ids=lambda path: "-".join(path.parts[-3:-1]))
def test_lines_in_bulk_are_those_of_arrow_columns(logs: Path, text: str, marks_null: bool) -> None:
    """All codecs and formats, null keys and values, markers, aborted transactions."""
    for isolation in ("read_uncommitted", "read_committed"):
        printed = printout(logs, text=text, isolation=isolation, onCorruption="skip")
        printed.style = replace(printed.style, marks_null=marks_null)
        found = both_ways(printed)

        assert found
        for limit in (1, 7, found.count(b"\n") // 2):
            assert found.startswith(both_ways(replace(printed, wish=Wish(limit=limit), omissions=[])))


@pytest.mark.parametrize("start", [Start(offset=150), Start(from_end=3), Start(since_ms=T0 + 9_000)])
def test_lines_in_bulk_begin_where_those_of_arrow_columns_begin(log_dir: Path, start: Start) -> None:
    printed = printout(log_dir, "orders-0", text="%o ")
    printed.options, _ = starting_at(printed.options, [start])

    first = both_ways(printed).split()[0]

    assert first in (b"150", b"197", b"9")


def test_lines_in_bulk_leave_out_the_damage_that_arrow_columns_leave_out(log_dir: Path) -> None:
    for file in sorted((log_dir / "orders-0").glob("*.log"))[1:3]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    assert both_ways(printout(log_dir, text=EVERY_LETTER, onCorruption="skip"))


def test_what_is_decoded_searched_or_has_headers_is_not_printed_in_bulk(log_dir: Path) -> None:
    plain = printout(log_dir, text="%s ")

    assert b"value 9 " in both_ways(plain)
    assert both_ways(printout(log_dir, text="%s ", valueEncoding="utf8")) == output(plain)
    assert both_ways(printout(log_dir, text="%h%s ")) == output(plain)
    assert both_ways(replace(plain, wish=Wish(pattern="."))) == output(plain)


def test_a_limit_counts_records_of_all_partitions(log_dir: Path) -> None:
    found = output(printout(log_dir, text="%p:%o ", wish=Wish(limit=203)))

    assert found.split()[-4:] == [b"0:199", b"1:0", b"1:1", b"1:2"]
    assert output(printout(log_dir, wish=Wish(limit=0))) == b""


def test_keys_and_patterns_choose_records(log_dir: Path) -> None:
    by_key = output(printout(log_dir, "orders-1", text="%o ", wish=Wish(keys=(b"key 3", b"key 5"))))
    by_value = output(printout(log_dir, "orders-1", text="%o ", wish=Wish(pattern="value 4[0-3]$")))
    by_both = output(
        printout(log_dir, "orders-0", text="%o ", wish=Wish(keys=(b"key 3",), pattern="9$", limit=2))
    )

    assert [int(each) % 7 for each in by_key.split()] == [3, 5] * 7
    assert by_value == b"40 41 42 43 "
    assert by_both == b"59 129 "


def test_a_pattern_is_searched_for_in_keys_too(log_dir: Path) -> None:
    found = output(printout(log_dir, "orders-1", text="%o ", wish=Wish(pattern="^key 6")))

    assert found == b"6 13 20 27 34 41 48 "


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is not UTF-8: write such a byte as \\xff\."):
        Wish(pattern=os.fsdecode(b"a\xff"))
    with pytest.raises(UsageError, match="is not a regular expression"):
        Wish(pattern="(")


def test_times_bound_each_partition(log_dir: Path) -> None:
    printed = printout(log_dir, text="%p:%o ")
    starts = [Start(since_ms=T0 + 48_000), Start(until_ms=T0 + 51_000)]
    printed.options, _ = starting_at(printed.options, starts)

    assert output(printed) == b"0:48 0:49 0:50 1:48 1:49 "


def test_committed_leaves_out_what_kafka_aborted() -> None:
    """The fixture has aborted and open transactions; its markers say which."""
    (logs,) = log_dirs("4.3.1", "clean")
    (partition,) = [each for each in partitions("4.3.1", "clean") if each.name == "txn-0"]
    aborted: set[int] = set()
    open_since: dict[int, list[int]] = {}
    for batch, record in kafka_rows(partition):
        producer = batch["producerId"]
        if not batch["isTransactional"]:
            continue
        if not batch["isControl"]:
            open_since.setdefault(producer, []).append(record["offset"])
        elif record["key"] == "00000000":  # version 0, ABORT
            aborted |= {*open_since.pop(producer, ())}
        else:
            open_since.pop(producer, None)
    first_open = min((offsets[0] for offsets in open_since.values()), default=1 << 60)
    expected = [
        record["offset"]
        for batch, record in kafka_rows(partition)
        if not batch["isControl"] and record["offset"] not in aborted and record["offset"] < first_open
    ]

    found = output(printout(logs, "txn", text="%o ", isolation="read_committed"))

    assert [int(each) for each in found.split()] == expected
    assert aborted


def test_damage_ends_the_printing_after_what_is_before_it(log_dir: Path) -> None:
    file = sorted((log_dir / "orders-0").glob("*.log"))[1]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    printed = printout(log_dir, "orders-0", text="%o ")
    found: list[bytes] = []

    with pytest.raises(CorruptRecordError, match="give --skip-damage"):
        found.extend(bytes(piece) for piece in printed.pieces())

    skipping = printout(log_dir, "orders-0", text="%o ", onCorruption="skip")
    rest = [int(each) for each in output(skipping).split()]
    (omission,) = skipping.omissions
    assert sorted({*range(200)} - {*rest}) == [omission.first_offset]
    assert b"".join(found).split() == [b"%d" % each for each in rest if each < omission.first_offset]


def test_values_of_a_registry_are_printed_as_json(tmp_path: Path) -> None:
    order = {"id": 1, "amount": 0.5, "note": "é", "old": "x"}
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([b"\0\0\0\0\1" + written(V1, order), b"not framed", NewRecord(None)])
    registry = Registry()
    registry.register("orders-value", {"schema": json.dumps(V1)})
    registry.write_topic(tmp_path)

    printed = printout(tmp_path, "orders", text="%s\\n", valueEncoding="confluent")
    lines = output(printed).splitlines()

    assert json.loads(lines[0]) == order
    assert lines[1:] == [b"not framed", b""]
    assert [(each.column, each.count) for each in printed.omissions] == [("value", 1)]


def test_a_follower_prints_what_is_appended_and_new_partitions(tmp_path: Path) -> None:
    def lines_of(pieces: Generator[memoryview, None, None], count: int) -> list[str]:
        found = b""
        while len(found.split()) < count:
            found += bytes(next(pieces))
        return found.decode().split()

    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([b"a", b"b"])
        printed = printout(tmp_path, "orders", text="%p:%s ")
        printed.follows = True
        pieces = printed.pieces()
        assert lines_of(pieces, 2) == ["0:a", "0:b"]
        log.append(b"c")
        assert lines_of(pieces, 1) == ["0:c"]
        with stratalog.open_log(tmp_path / "orders-1", create=True) as other:
            other.append(b"d")
            assert lines_of(pieces, 1) == ["1:d"]
        pieces.close()


def test_a_follower_waits_between_looks(tmp_path: Path) -> None:
    waits: list[float] = []
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"a")
        printed = printout(tmp_path, "orders", text="%s ")
        printed.follows = True
        printed.wait = lambda seconds: waits.append(seconds) or (log.append(b"b") and None)
        pieces = printed.pieces()

        assert [bytes(next(pieces)), bytes(next(pieces))] == [b"a ", b"b "]
        pieces.close()
    assert waits == [0.2]
