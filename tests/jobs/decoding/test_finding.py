"""Finding the schemas of a read: files, folders, the registry's topic, and the reader schema."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from stratalog.errors import CorruptRecordError, SchemaError, UsageError
from stratalog.jobs.decoding.finding import Decodings, find_decodings, pinned
from stratalog.jobs.reading.omissions import Omission
from stratalog.jobs.reading.options import ReadOptions
from tests.jobs.decoding.registry import Registry
from tests.jobs.decoding.serializing import append
from tests.records.avro.values import record

OLD, NEW = record(("a", "int")), record(("a", "long"), {"name": "b", "type": "int", "default": 0})


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two topics, of which one has two versions of its values; the registry's topic beside them."""
    made = Registry(first_id=7)
    for subject, schema in (
        ("orders-value", OLD),
        ("orders-value", NEW),
        ("orders-key", "string"),
        ("users-value", "string"),
        ("copies-value", NEW),
        ("tree-value", record(("next", ["null", "R"]))),
        (":.staging:orders-value", record(("x", "int"))),
    ):
        made.register(subject, {"schema": json.dumps(schema)})
    for topic in ("orders", "users", "copies", "tree", "plain"):
        append(tmp_path / "logs", topic, [b"x"])
    made.write_topic(tmp_path / "logs")
    return tmp_path / "logs"


def find(path: Path, **options: str) -> Decodings:
    given = {"path": str(path), "subscribe": "orders", "valueEncoding": "confluent", **options}
    return find_decodings(ReadOptions.parse({name: value for name, value in given.items() if value}))


def names(path: Path, **options: str) -> list[str]:
    """The fields of the reader schema of values."""
    return [field.name for field in find(path, **options).value.type]


def test_the_reader_schema_is_the_newest_of_the_topics_subject(logs: Path) -> None:
    key, value = find(logs, keyEncoding="confluent")

    assert [field.name for field in value.type] == ["a", "b"]
    assert (value.reader_name, key.reader_name) == ("orders-value:2", "orders-key:1")
    assert key.type == pa.string()


@pytest.mark.parametrize(
    ("reader", "fields"),
    [
        ("7", ["a"]),
        ("8", ["a", "b"]),
        ("orders-value:1", ["a"]),
        ("orders-value", ["a", "b"]),
        ("copies-value:1", ["a", "b"]),
        (":.staging:orders-value", ["x"]),
        (":.staging:orders-value:1", ["x"]),
        (json.dumps(record(("c", "int"))), ["c"]),
    ],
)
def test_the_reader_schema_can_be_named(logs: Path, reader: str, fields: list[str]) -> None:
    assert names(logs, valueReader=reader) == fields


def test_a_reader_schema_in_a_context_reads_the_ids_of_this_context(logs: Path) -> None:
    assert find(logs, valueReader=":.staging:orders-value").value.context == ".staging"
    assert find(logs).value.context == "."


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"valueReader": "99"}, "the reader schema 99 is not known: the subjects are :.staging:orders-value"),
        ({"valueReader": "orders-value:3"}, "the reader schema orders-value:3 is not known"),
        ({"valueReader": "none-value"}, "is not known: the subjects are"),
        ({"valueReader": "none.avsc"}, "none.avsc is not a file"),
        ({"subscribe": "plain"}, "the topic plain has no subject plain-value in _schemas, which has"),
        ({"subscribe": "orders,users"}, "orders-value:2 and users-value:1 become columns of different types"),
        ({"subscribe": "tree"}, "R.next contains itself"),
        ({"subscribe": "", "keyEncoding": "utf8"}, "the topic _schemas has no subject _schemas-value"),
        ({"valueSchema": "none.avsc"}, "does not say which id each schema has"),
        ({"valueEncoding": "avro", "valueSchema": '"strin"'}, "'strin', which does not exist"),
    ],
)
def test_what_cannot_be_found_is_told_with_what_there_is(
    logs: Path, options: dict[str, str], says: str
) -> None:
    if options.get("subscribe") == "":
        for topic in ("plain", "tree", "users", "copies"):
            shutil.rmtree(logs / f"{topic}-0")

    with pytest.raises(UsageError, match=says):
        find(logs, **options)


def test_topics_whose_schemas_become_the_same_columns_can_be_read_together(logs: Path) -> None:
    assert names(logs, subscribe="orders,copies") == ["a", "b"]


def test_a_recursive_schema_is_refused_in_words(logs: Path) -> None:
    with pytest.raises(SchemaError, match="a recursive type cannot become columns"):
        find(logs, subscribe="tree")


def test_without_the_topic_of_the_registry_schemas_must_be_given(logs: Path, tmp_path: Path) -> None:
    shutil.move(logs / "_schemas-0", tmp_path / "elsewhere" / "_schemas-0")

    with pytest.raises(UsageError, match=r"the topic _schemas is not in .*, and no schemas are given"):
        find(logs)
    assert names(logs, valueSchema=str(tmp_path / "elsewhere")) == ["a", "b"]


def test_schemas_in_files_have_no_subjects_and_the_largest_id_is_the_newest(
    logs: Path, tmp_path: Path
) -> None:
    for number, schema in ((7, OLD), (12, NEW), (9, OLD)):
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))

    folder = find(logs, valueSchema=str(tmp_path)).value
    files = find(logs, valueSchema=f"7={tmp_path}/7.avsc,9={tmp_path}/9.avsc").value

    assert (folder.reader_name, files.reader_name) == ("12", "9")
    assert names(logs, valueSchema=str(tmp_path), valueReader="7") == ["a"]
    with pytest.raises(UsageError, match="the reader schema 8 is not known: give the id of a schema"):
        find(logs, valueSchema=str(tmp_path), valueReader="8")


def test_a_folder_of_nothing_is_refused(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(UsageError, match=r"empty has neither a schema by id, such as 7.avsc, nor the topic"):
        find(logs, valueSchema=str(tmp_path / "empty"))


def test_keys_and_values_share_the_schemas_of_one_place(logs: Path) -> None:
    key, value = find(logs, keyEncoding="confluent")

    assert key.store is value.store


def test_a_reader_that_is_pinned_stays_when_there_is_a_newer_one(logs: Path) -> None:
    options = ReadOptions.parse({"path": str(logs), "subscribe": "orders", "valueEncoding": "confluent"})
    before = find_decodings(options)
    made = Registry(first_id=90)
    made.add_version({"subject": "orders-value", "version": 3, "id": 90, "schema": '"string"'})
    append(logs, "_schemas", [made.records[-1][1]], [made.records[-1][0]])

    after = find_decodings(pinned(options, before))

    assert after.value.type == before.value.type
    assert after.value.store.by_id(90) is not None
    assert find_decodings(options).value.type == pa.string()


def test_damage_in_the_topic_of_the_registry_is_an_error_or_told(logs: Path) -> None:
    log = next((logs / "_schemas-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    told: list[Omission] = []
    given = {"path": str(logs), "subscribe": "orders", "valueEncoding": "confluent", "onCorruption": "skip"}
    skipping = ReadOptions.parse(given)

    with pytest.raises(CorruptRecordError, match="_schemas"):
        find(logs)
    with pytest.raises(
        UsageError, match="the topic orders has no subject orders-value in _schemas, which has none"
    ):
        find_decodings(skipping, on_omission=told.append)
    assert [each.topic for each in told] == ["_schemas"]
