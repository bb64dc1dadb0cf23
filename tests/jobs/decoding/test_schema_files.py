"""Schemas in files and folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import SchemaError, UsageError
from stratalog.files.reading import DiskReader
from stratalog.jobs.decoding.schema_files import schema_of, schemas_in_files, schemas_in_folder
from stratalog.jobs.decoding.store import SchemaStore
from stratalog.records.avro.schema import parse_schema
from tests.records.avro.values import record

DISK = DiskReader()


def write(folder: Path, **schemas: Any) -> None:
    """Files by name; __ stands for a dot."""
    for name, schema in schemas.items():
        (folder / name.removeprefix("n").replace("__", ".")).write_text(json.dumps(schema))


def parsed(store: SchemaStore, number: int) -> object:
    schema = store.by_id(number)
    assert schema is not None
    return parse_schema(schema.text, store.texts_before(schema))


def test_files_by_id(tmp_path: Path) -> None:
    write(tmp_path, a__avsc="int", b__avsc="long", c__json={})

    store = schemas_in_files(DISK, f"7={tmp_path}/a.avsc, 8 = {tmp_path}/b.avsc,9={tmp_path}/c.json")

    found = [store.by_id(number) for number in (7, 8, 9)]
    assert [(each.text, each.kind) for each in found if each] == [
        ('"int"', "AVRO"),
        ('"long"', "AVRO"),
        ("{}", "JSON"),
    ]
    newest = store.newest()
    assert newest is not None
    assert store.versions[newest].id == 9
    assert not store.has_subjects


def test_one_file_can_be_the_schema_of_several_ids(tmp_path: Path) -> None:
    write(tmp_path, a__avsc="int")

    store = schemas_in_files(DISK, f"7={tmp_path}/a.avsc,8={tmp_path}/a.avsc")

    assert [each.id for number in (7, 8) if (each := store.by_id(number))] == [7, 8]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{}/a.avsc", "does not say which id each schema has"),
        ("7={}/a.avsc,", "does not say which id"),
        ("x={}/a.avsc", "does not say which id"),
        ("3000000000={}/a.avsc", "does not say which id"),
        ("7={}/no.avsc", "no.avsc is not a file"),
        ("7={}", "is not a file"),
        ("7={}/a.avsc,07={}/a.avsc", "two schemas for the id 7"),
        ("7={}/bytes.avsc", "is not text in UTF-8"),
    ],
)
def test_files_that_cannot_be_meant_are_refused(tmp_path: Path, given: str, says: str) -> None:
    write(tmp_path, a__avsc="int")
    (tmp_path / "bytes.avsc").write_bytes(b"\xff")

    with pytest.raises(UsageError, match=says):
        schemas_in_files(DISK, given.format(tmp_path, tmp_path))


def test_a_folder_of_files_by_id(tmp_path: Path) -> None:
    write(tmp_path, n7__avsc="int", n8__json={}, n9__proto="", README__md="", notes__avsc="string")

    store = schemas_in_folder(DISK, str(tmp_path))

    assert store is not None
    found = [store.by_id(number) for number in (7, 8, 9)]
    assert [each.kind for each in found if each] == ["AVRO", "JSON", "PROTOBUF"]
    newest = store.newest()
    assert newest is not None
    assert newest.subject == "9.proto"


def test_a_folder_without_a_schema_by_id_is_not_one(tmp_path: Path) -> None:
    write(tmp_path, orders__avsc="int")

    assert schemas_in_folder(DISK, str(tmp_path)) is None


def test_a_folder_with_two_schemas_for_an_id_is_refused(tmp_path: Path) -> None:
    write(tmp_path, n7__avsc="int", n007__avsc="long")

    with pytest.raises(UsageError, match="two schemas for the id 7"):
        schemas_in_folder(DISK, str(tmp_path))


ADDRESS = record(("street", "string"), name="shop.Address")
ORDER = record(("to", "shop.Address"), name="shop.Order")


def test_a_type_of_another_file_is_found(tmp_path: Path) -> None:
    country = record(("code", "string"), name="shop.Country")
    address = record(("street", "string"), ("in", "shop.Country"), name="shop.Address")
    write(tmp_path, n7__avsc=ORDER, address__avsc=address, country__avsc=country, n8__avsc="int")

    store = schemas_in_folder(DISK, str(tmp_path))

    assert store is not None
    assert parsed(store, 7)


def test_a_type_that_two_files_define_is_not_guessed(tmp_path: Path) -> None:
    other = record(("to", record(("street", "bytes"), name="shop.Address")), name="shop.Other")
    write(tmp_path, n7__avsc=ORDER, n8__avsc=ADDRESS, n9__avsc=other)
    store = schemas_in_folder(DISK, str(tmp_path))
    assert store is not None

    with pytest.raises(SchemaError, match="Address', which does not exist"):
        parsed(store, 7)

    write(tmp_path, address__avsc=ADDRESS)
    apart = schemas_in_folder(DISK, str(tmp_path))
    assert apart is not None
    assert parsed(apart, 7)


def test_a_file_that_is_not_a_schema_is_told_when_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text("{")
    write(tmp_path, n8__avsc="int")
    store = schemas_in_folder(DISK, str(tmp_path))
    assert store is not None

    assert parsed(store, 8)
    with pytest.raises(SchemaError, match="not JSON"):
        parsed(store, 7)


def test_a_schema_by_itself_is_a_file_or_its_text(tmp_path: Path) -> None:
    write(tmp_path, a__avsc="int")

    assert schema_of(DISK, f"{tmp_path}/a.avsc").text == '"int"'
    assert schema_of(DISK, ' {"type": "int"}').text == ' {"type": "int"}'
    assert schema_of(DISK, '"int"').text == '"int"'
    with pytest.raises(UsageError, match="is not a file"):
        schema_of(DISK, "int")
