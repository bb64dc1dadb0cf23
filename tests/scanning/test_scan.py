"""`stratalog.scan` as its users call it: refused at the call, read by other libraries, more than once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import stratalog
from stratalog.errors import CorruptRecordError, OffsetOutOfRangeError, UsageError, WrongTypeError
from stratalog.log.new_records import NewRecord
from stratalog.records.columns import ALL_COLUMNS, KAFKA_COLUMNS
from tests.fixtures.catalog import partitions
from tests.jobs.decoding.registry import Registry
from tests.jobs.decoding.serializing import V1, V2
from tests.jobs.reading.making import kafka_rows
from tests.records.avro.values import written
from tests.waiting import PATIENCE_S

FIXTURES = Path(__file__).parent.parent / "fixtures"
CLEAN = FIXTURES / "kafka-4.3.1" / "clean" / "logs"
T0 = 1_700_000_000_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two partitions of orders with 200 and 100 records, a second apart, and one of bills with 10."""
    for name, count in (("orders-0", 200), ("orders-1", 100), ("bills-0", 10)):
        with stratalog.open_log(tmp_path / name, create=True) as log:
            for number in range(count):
                record = NewRecord(b"value %d" % number, b"key %d" % (number % 7), (), T0 + 1000 * number)
                log.append_many([record])
    return tmp_path


@pytest.mark.parametrize("threads", [1, 3])
def test_every_record_of_a_real_broker_is_there_once(threads: int) -> None:
    """By Kafka's own classes, for each fixture."""
    for release, state in (("4.3.1", "clean"), ("4.3.1", "killed"), ("3.9.2", "killed"), ("2.8.2", "clean")):
        found = [each for each in partitions(release, state) if not each.name.startswith("__")]
        scan = stratalog.scan(found[0].path.parent, columns=["topic", "partition", "offset"], threads=threads)
        rows = [tuple(row.values()) for row in scan.to_table().to_pylist()]

        expected = sorted(
            (*_split(each.name), record["offset"])
            for each in found
            for batch, record in kafka_rows(each)
            if not batch["isControl"]
        )
        assert rows == expected
        assert scan.count() == len(expected)


def _split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def test_other_libraries_read_it(log_dir: Path) -> None:
    orders = stratalog.scan(log_dir, topics="orders")

    assert pl.DataFrame(orders).shape == (300, len(KAFKA_COLUMNS))
    assert pa.table(orders).num_rows == 300
    frame = pa.table(orders).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 300
    assert pa.RecordBatchReader.from_stream(orders).schema == orders.schema
    ends = duckdb.sql('SELECT partition, count(*), max("offset") FROM orders GROUP BY ALL ORDER BY 1')
    assert ends.fetchall() == [(0, 200, 199), (1, 100, 99)]
    pairs = duckdb.sql('SELECT count(*) FROM orders a JOIN orders b USING (partition, "offset")')
    assert pairs.fetchall() == [(300,)]


def test_the_columns_are_those_of_the_source_with_their_types(log_dir: Path) -> None:
    assert stratalog.scan(log_dir).columns == list(KAFKA_COLUMNS)
    scan = stratalog.scan(log_dir, columns=ALL_COLUMNS)

    assert scan.to_table().schema == scan.schema == scan.to_reader().schema
    assert scan.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert stratalog.scan(log_dir, columns=["value", "offset"]).head(1).to_pylist() == [
        {"value": b"value 0", "offset": 0}
    ]


def test_topics_times_and_offsets_bound_it(log_dir: Path) -> None:
    bills = stratalog.scan(log_dir, topics=["bills"], since=T0 + 3000, until=T0 + 6000, columns=["offset"])
    some = stratalog.scan(log_dir, offsets={"orders-0": range(5, 8), ("orders", 1): (98, None)})

    assert bills.to_table()["offset"].to_pylist() == [3, 4, 5]
    assert some.to_table().select(["partition", "offset"]).to_pylist() == [
        {"partition": partition, "offset": offset}
        for partition, offset in [(0, 5), (0, 6), (0, 7), (1, 98), (1, 99)]
    ]


def test_committed_records_only() -> None:
    scan = stratalog.scan(CLEAN, topics="txn", isolation="read_committed")

    assert 0 < scan.count() < stratalog.scan(CLEAN, topics="txn").count()
    assert stratalog.scan(CLEAN, topics="txn", include_control=True).count() > 50


def test_a_scan_is_lazy_and_sees_what_is_there_when_it_is_read(log_dir: Path) -> None:
    bills = stratalog.scan(log_dir, topics="bills")
    assert bills.count() == 10
    with stratalog.open_log(log_dir / "bills-0") as log:
        log.append(b"one more")

    assert bills.count() == bills.to_table().num_rows == 11


def test_the_head_reads_little(log_dir: Path) -> None:
    orders = stratalog.scan(log_dir, topics="orders", columns=["offset"])

    assert orders.head().num_rows == 10
    assert orders.head(250)["offset"].to_pylist() == [*range(200), *range(50)]
    assert orders.head(1000).num_rows == 300
    assert orders.head(0).schema == orders.schema


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"topics": "ordrs"},
            r"topics names ordrs, .*: did you mean orders\? The topics there are bills",
        ),
        ({"offsets": {"orders-2": range(3)}}, r"offsets names orders-2, which is not in"),
        ({"columns": ["valeu"]}, r"no column valeu: did you mean value\? The columns are key, value"),
        ({"columns": ["offset", "offset"]}, "columns has offset twice"),
        ({"columns": "offset"}, r"columns is 'offset': it must be a list of names, such as \['offset'\]"),
        ({"isolation": "committed"}, "isolation is 'committed': use one of read_uncommitted, read_committed"),
        ({"on_corruption": "ignore"}, "on_corruption is 'ignore': use one of fail, skip"),
        ({"since": "noon"}, "since is 'noon'"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_what_does_not_exist_is_refused_at_the_call(
    log_dir: Path, arguments: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        stratalog.scan(log_dir, **arguments)  # type: ignore[arg-type]


def test_a_path_that_does_not_exist_is_refused_at_the_call(log_dir: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist\. Give the path of a Kafka log directory"):
        stratalog.scan(log_dir / "nowhere")
    with pytest.raises(UsageError, match="two replicas of one partition"):
        stratalog.scan([log_dir / "orders-0", shutil.copytree(log_dir, log_dir / "copy") / "orders-0"])


def test_offsets_that_the_log_does_not_have_are_named(log_dir: Path) -> None:
    scan = stratalog.scan(log_dir, offsets={"bills-0": range(3, 20)})

    with pytest.raises(OffsetOutOfRangeError, match="fail_on_data_loss=False") as caught:
        scan.count()
    assert caught.value.valid == (0, 10)


def damage(log_dir: Path) -> Path:
    """A byte in the record of the first batch of bills."""
    (log,) = (log_dir / "bills-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF
    log.write_bytes(data)
    return log


def test_damage_is_named_in_the_words_of_the_call(log_dir: Path) -> None:
    log = damage(log_dir)
    bills = stratalog.scan(log_dir, topics="bills")

    for read in (bills.to_table, bills.count, bills.head):
        with pytest.raises(CorruptRecordError, match='on_corruption="skip"') as caught:
            read()
        assert (caught.value.path, caught.value.position) == (str(log), 0)
    with pytest.raises(Exception, match="from offset 0 on"):
        pa.table(bills)


def test_what_is_left_out_is_told_and_kept(log_dir: Path) -> None:
    log = damage(log_dir)
    bills = stratalog.scan(log_dir, topics="bills", on_corruption="skip")

    with pytest.warns(stratalog.OmissionWarning, match="1 offset at most"):
        assert bills.to_table().num_rows == 9
    (omission,) = bills.omissions
    assert (omission.topic, omission.first_offset, omission.end_offset) == ("bills", 0, 1)
    assert (omission.path, omission.position) == (str(log), 0)
    with pytest.warns(stratalog.OmissionWarning):
        assert len(pl.DataFrame(bills)) == 9
    assert stratalog.scan(log_dir, topics="orders", on_corruption="skip").omissions == ()


def test_a_read_that_stops_early_tells_what_it_left_out(log_dir: Path) -> None:
    damage(log_dir)
    bills = stratalog.scan(log_dir, topics="bills", columns=["offset"], on_corruption="skip", threads=1)

    with pytest.warns(stratalog.OmissionWarning, match="1 offset at most"):
        assert bills.head(2)["offset"].to_pylist() == [1, 2]
    assert [each.first_offset for each in bills.omissions] == [0]


@pytest.mark.parametrize("latest", [False, True])
@pytest.mark.parametrize("columns", [None, ["value"]])
def test_values_that_cannot_be_decoded_are_counted_and_warned_of(
    tmp_path: Path, latest: bool, columns: list[str] | None
) -> None:
    """A null among the values does not say whether the record has none."""
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        values = [b"{}", b"\xff", b"{", None, b"1"]
        log.append_many([NewRecord(each, b"key %d" % number) for number, each in enumerate(values)])
    scan = stratalog.scan(tmp_path, value="json", columns=columns, latest=latest, tombstones=latest)

    with pytest.warns(stratalog.OmissionWarning, match="2 values of 1 partition could not be decoded"):
        assert scan.to_table()["value"].to_pylist() == ["{}", None, None, None, "1"]
    assert [(each.first_offset, each.count, each.why) for each in scan.omissions] == [
        (1, 1, "it is not UTF-8"),
        (2, 1, "it is not JSON"),
    ]
    assert scan.count() == 5  # which decodes nothing


def test_data_loss_that_is_forgiven_is_told(log_dir: Path) -> None:
    scan = stratalog.scan(log_dir, offsets={"bills-0": range(3, 20)}, fail_on_data_loss=False)

    with pytest.warns(stratalog.OmissionWarning, match="offsets 10 to 19"):
        assert scan.count() == 7


def test_it_works_where_there_is_no_java(log_dir: Path) -> None:
    script = f"import stratalog; print(stratalog.scan({str(log_dir)!r}).count())"
    bare = {"PATH": "/nonexistent", "HOME": str(log_dir)}

    done = subprocess.run(
        [sys.executable, "-c", script], env=bare, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.stdout, done.stderr) == ("310\n", "")


@pytest.mark.parametrize("threads", [1, 4])
def test_values_of_a_registry_are_decoded_on_any_thread(tmp_path: Path, threads: int) -> None:
    orders = [{"id": n, "amount": n / 4, "note": "n" * (n % 5), "old": ""} for n in range(3000)]
    for partition in range(3):
        values = [b"\0\0\0\0\1" + written(V1, each) for each in orders[partition::3]]
        with stratalog.open_log(tmp_path / f"orders-{partition}", create=True) as log:
            log.append_many([NewRecord(value, b"key %d" % (n % 10)) for n, value in enumerate(values)])
    registry = Registry()
    for schema in (V1, V2):
        registry.register("orders-value", {"schema": json.dumps(schema)})
    registry.write_topic(tmp_path)

    scan = stratalog.scan(tmp_path, topics="orders", value="confluent", threads=threads)
    newest = stratalog.scan(
        tmp_path, topics="orders", columns=["value"], value="confluent", latest=True, threads=threads
    )

    table = scan.to_table()
    read = [
        {"id": each["id"], "amount": each["amount"], "comment": each["note"], "paid": False}
        for each in orders
    ]
    assert table["value"].to_pylist() == read[::3] + read[1::3] + read[2::3]
    assert scan.columns[1:5] == ["value", "valueSchemaId", "undecodedValue", "undecodedValueReason"]
    assert pl.DataFrame(scan)["value"].struct.field("id").sum() == sum(range(3000))
    assert [value["id"] for value in newest.to_table()["value"].to_pylist()] == [
        *range(2970, 3000, 3),
        *range(2971, 3000, 3),
        *range(2972, 3000, 3),
    ]


def test_a_schema_that_is_not_there_is_refused_at_the_call(log_dir: Path) -> None:
    with pytest.raises(UsageError, match="the topic _schemas is not in"):
        stratalog.scan(log_dir, topics="orders", value="confluent")


@pytest.mark.parametrize("columns", [5, [5], [None], {"key"}, b"key", [["key"]]])
def test_columns_of_a_wrong_type_are_refused_in_words(log_dir: Path, columns: Any) -> None:
    with pytest.raises(WrongTypeError, match=r"^columns is "):
        stratalog.scan(log_dir, columns=columns)


@pytest.mark.parametrize(
    ("name", "given"), [("threads", 1.5), ("threads", "2"), ("latest", "no"), ("tombstones", 1)]
)
def test_an_argument_of_a_wrong_type_is_refused_in_words(log_dir: Path, name: str, given: Any) -> None:
    with pytest.raises(WrongTypeError, match=f"^{name} is "):
        stratalog.scan(log_dir, **{name: given})


def test_more_threads_than_a_machine_can_start_are_refused(log_dir: Path) -> None:
    with pytest.raises(UsageError, match=r"threads is .*: it must be at most"):
        stratalog.scan(log_dir, threads=2**70)


@pytest.mark.parametrize("rows", [2.5, "3", None, True, -1])
def test_a_head_of_a_wrong_number_is_refused_in_words(log_dir: Path, rows: Any) -> None:
    with pytest.raises(UsageError, match=r"^rows is "):
        stratalog.scan(log_dir).head(rows)


def test_a_head_may_be_longer_than_any_log(log_dir: Path) -> None:
    assert stratalog.scan(log_dir, topics="bills").head(2**70).num_rows == 10


def test_no_directory_is_told_without_words_of_spark() -> None:
    with pytest.raises(UsageError) as refused:
        stratalog.scan([])

    assert str(refused.value) == "no directory is given: name a Kafka log directory, such as /var/lib/kafka."
