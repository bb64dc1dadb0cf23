"""The topic of the registry: schemas registered, deleted and cleared, as Confluent's registry writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stratalog.jobs.decoding.schema_topic import schemas_of_records
from stratalog.jobs.decoding.store import SchemaStore, SchemaVersion
from tests.jobs.decoding.registry import Registry, schema_key


def registry(*subjects: str) -> Registry:
    """A registry with a schema for each name, in this order; the ids begin at 1."""
    made = Registry()
    for number, subject in enumerate(subjects, 1):
        made.register(subject, {"schema": f'"type {number}"'})
    return made


def store_of(made: Registry) -> SchemaStore:
    return schemas_of_records(made.records)


def ids(store: SchemaStore) -> dict[str, list[int]]:
    """The ids of the versions of each subject that are not deleted."""
    found: dict[str, list[int]] = {}
    for key, each in sorted(store.versions.items()):
        if not each.is_deleted:
            found.setdefault(key.subject, []).append(each.id)
    return found


def test_schemas_have_their_ids_types_and_references() -> None:
    made = Registry(first_id=7)
    made.register("address", {"schema": '"string"', "schemaType": "AVRO"})
    reference = {"name": "shop.Address", "subject": "address", "version": 1}
    made.register("orders-value", {"schema": "{}", "schemaType": "JSON", "references": [reference]})

    store = store_of(made)

    assert [(each.kind, each.text) for n in (7, 8) if (each := store.by_id(n))] == [
        ("AVRO", '"string"'),
        ("JSON", "{}"),
    ]
    assert store.versions[SchemaVersion("orders-value", 1)].references == (SchemaVersion("address", 1),)


def test_a_version_that_is_deleted_is_no_longer_the_newest_but_its_id_is_known() -> None:
    made = registry("a", "a")
    made.add_version(made.subjects["a"][1], deleted=True)

    store = store_of(made)

    assert ids(store) == {"a": [1]}
    assert store.by_id(2) is not None


def test_a_version_without_a_value_is_gone() -> None:
    made = registry("a", "a")
    made.add(schema_key("a", 2), None)

    assert ids(store_of(made)) == {"a": [1]}
    assert store_of(made).by_id(2) is None


def test_a_deleted_subject_has_no_versions_until_a_new_one() -> None:
    made = registry("a", "a", "b")
    key = {"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0}
    made.add(key, {"subject": "a", "version": 2})
    assert ids(store_of(made)) == {"b": [3]}

    made.register("a", {"schema": '"new"'})

    assert ids(store_of(made)) == {"a": [4], "b": [3]}
    assert all(store_of(made).by_id(number) for number in (1, 2, 3, 4))


def test_a_cleared_subject_loses_what_is_deleted() -> None:
    made = registry("a", "a")
    made.add_version(made.subjects["a"][0], deleted=True)
    made.add({"keytype": "CLEAR_SUBJECT", "subject": "a", "magic": 0}, {"subject": "a"})

    assert ids(store_of(made)) == {"a": [2]}
    assert store_of(made).by_id(1) is None


def test_an_id_that_another_schema_has_is_ignored() -> None:
    made = registry("a")
    made.add_version({"subject": "b", "version": 1, "id": 1, "schema": '"other"'})
    made.add_version({"subject": ":.x:b", "version": 1, "id": 1, "schema": '"other"'})

    assert ids(store_of(made)) == {"a": [1], ":.x:b": [1]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"\xff", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b"[1]", b"{}"),
        (b'{"keytype": "NOOP", "magic": 0}', None),
        (b'{"keytype": "CONFIG", "magic": 0}', b'{"compatibilityLevel": "NONE"}'),
        (b'{"keytype": "SCHEMA"}', b"{}"),
        (json.dumps(schema_key("a", 1)).encode(), b"{}"),
        (json.dumps(schema_key("a", 1)).encode(), b'{"id": "x", "schema": 5}'),
        (json.dumps({**schema_key("a", 1), "version": "1"}).encode(), b'{"id": 1, "schema": ""}'),
        (b'{"keytype": "DELETE_SUBJECT", "subject": "a"}', None),
        (b'{"keytype": "CLEAR_SUBJECT", "subject": "a"}', None),
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_record_of_another_form_says_nothing(key: Any, value: Any) -> None:
    made = registry("a")

    store = schemas_of_records([*made.records, (key, value)])

    assert store == store_of(made)
