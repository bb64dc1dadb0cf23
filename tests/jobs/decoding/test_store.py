"""Schemas by id, subject and version, with references."""

from __future__ import annotations

import pickle

import pytest

from stratalog.errors import SchemaError
from stratalog.jobs.decoding.store import SchemaStore, SchemaVersion, StoredSchema, context_of


def stored(number: int, text: str = "", *references: SchemaVersion, is_deleted: bool = False) -> StoredSchema:
    return StoredSchema(
        id=number, text=text or f"text {number}", references=references, is_deleted=is_deleted
    )


A1, A2, A3, B1 = (SchemaVersion(*each) for each in (("a", 1), ("a", 2), ("a", 3), ("b", 1)))


def test_the_newest_version_is_the_last_that_is_not_deleted() -> None:
    store = SchemaStore({A3: stored(3, is_deleted=True), A1: stored(1), A2: stored(2), B1: stored(9)})

    assert store.newest("a") == A2
    assert store.newest("c") is None
    assert store.newest() == B1
    assert store.subjects == ["a", "b"]


def test_a_deleted_schema_is_still_known_by_its_id() -> None:
    store = SchemaStore({A1: stored(1, is_deleted=True)})

    assert store.by_id(1) == stored(1, is_deleted=True)
    assert store.by_id(2) is None
    assert store.subjects == []


def test_each_context_has_its_own_ids() -> None:
    staging = SchemaVersion(":.staging:a", 1)
    store = SchemaStore({A1: stored(1, "plain"), staging: stored(1, "staged")})

    assert [store.by_id(1, context) for context in (".", ".staging", ".other")] == [
        stored(1, "plain"),
        stored(1, "staged"),
        None,
    ]
    assert [context_of(each) for each in ("a", ":.staging:a", ":odd", "a:b")] == [".", ".staging", ".", "."]


def test_references_come_before_what_refers_to_them_each_once() -> None:
    store = SchemaStore(
        {
            SchemaVersion("address", 1): stored(1),
            SchemaVersion("item", 2): stored(2, "", SchemaVersion("address", 1)),
            SchemaVersion("shop", 1): stored(3, "", SchemaVersion("address", 1), SchemaVersion("item", -1)),
        }
    )
    order = stored(4, "", SchemaVersion("shop", 1), SchemaVersion("item", 2))

    assert store.texts_before(order) == ["text 1", "text 2", "text 3"]


def test_references_in_a_context_are_to_the_same_context() -> None:
    store = SchemaStore({SchemaVersion(":.x:address", 1): stored(1), SchemaVersion("address", 1): stored(2)})

    assert store.texts_before(stored(3, "", SchemaVersion("address", 1)), ".x") == ["text 1"]


@pytest.mark.parametrize(
    ("reference", "says"),
    [(B1, "refers to b:1, which is not known"), (A1, "the schema a:1 refers to itself")],
)
def test_a_reference_that_leads_nowhere_is_told(reference: SchemaVersion, says: str) -> None:
    store = SchemaStore({A1: stored(1, "", A2), A2: stored(2, "", A1)})

    with pytest.raises(SchemaError, match=says):
        store.texts_before(stored(3, "", reference))


def test_it_travels_compressed() -> None:
    schemas = {SchemaVersion("a", n): stored(n, '{"type": "record", "name": "R"}' * 50) for n in range(1000)}

    packed = pickle.dumps(SchemaStore(schemas, has_subjects=False))

    assert len(packed) < 50_000
    assert pickle.loads(packed) == SchemaStore(schemas, has_subjects=False)
