"""Schemas in files: `7=a.avsc,8=b.avsc`, or a folder with 7.avsc, 8.avsc and types that these refer to.

The suffix of a name says what is in a file: .json is a JSON Schema, .proto is Protobuf, anything else is
Avro. A schema may use a type that another file defines. If several files of a folder define it, those whose
names are not numbers are preferred. If several remain, the schema cannot be used, because nobody knows which
of them its writer had.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from stratalog.errors import SchemaError, UsageError
from stratalog.files.entries import EntryKind
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.files.storage import readable_path
from stratalog.jobs.decoding.store import AVRO, JSON, PROTOBUF, SchemaStore, SchemaVersion, StoredSchema
from stratalog.limits import INT32_MAX
from stratalog.records.avro.schema import named_types

_KINDS = {".json": JSON, ".proto": PROTOBUF}
_ENDINGS = (".avsc", *_KINDS)
# The id of a schema that was given without one, or that only defines types for others. No value has this id.
NO_ID = -(1 << 40)
_PAIR = re.compile(r"\s*(\d{1,10})\s*=\s*(.+?)\s*")


def schema_of(disk: DiskReader, given: str) -> StoredSchema:
    """A schema without an id: a file, or the text of an Avro schema itself."""
    if given.lstrip().startswith(("{", "[", '"')):
        return StoredSchema(id=NO_ID, text=given)
    return _stored(NO_ID, given, _text(disk, given))


def _text(disk: DiskReader, path: str) -> str:
    readable = readable_path(path)
    status = disk.status(readable)
    if status is None or status.kind is not EntryKind.FILE:
        raise UsageError(f"{path} is not a file: give the file of a schema.")
    try:
        return (disk.read_file(readable) or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text in UTF-8: give the file of a schema.") from None


def schemas_in_files(disk: DiskReader, given: str) -> SchemaStore:
    """The schemas of `7=a.avsc,8=b.avsc`; UsageError if that is not what was given."""
    found: dict[int, tuple[str, str]] = {}
    for part in given.split(","):
        match = _PAIR.fullmatch(part)
        if match is None or int(match[1]) > INT32_MAX:
            raise UsageError(
                f"{given!r} does not say which id each schema has: give files by id, as in "
                "7=a.avsc,8=b.avsc, or a folder with 7.avsc and 8.avsc, or nothing to use the topic of the "
                "schema registry."
            )
        if int(match[1]) in found:
            raise UsageError(f"{given!r} has two schemas for the id {int(match[1])}: give one.")
        found[int(match[1])] = (match[2], _text(disk, match[2]))
    versions = {
        SchemaVersion(name, number): _stored(number, name, text) for number, (name, text) in found.items()
    }
    return SchemaStore(_with_references(versions), has_subjects=False)


def schemas_in_folder(disk: DiskReader, path: str) -> SchemaStore | None:
    """The schemas of a folder; None if no file in it has a schema's id as its name."""
    versions: dict[SchemaVersion, StoredSchema] = {}
    numbers = set()
    for entry in disk.list_directory(readable_path(path)):
        stem, ending = PurePath(entry.name).stem, PurePath(entry.name).suffix
        if entry.kind is not EntryKind.FILE or ending not in _ENDINGS:
            continue
        number = int(stem) if stem.isdecimal() and len(stem) <= 10 else NO_ID
        if number in numbers:
            raise UsageError(f"{path} has two schemas for the id {number}: remove one.")
        numbers |= {number} - {NO_ID}
        text = _text(disk, join_path(path, entry.name))
        versions[SchemaVersion(entry.name, number)] = _stored(number, entry.name, text)
    return SchemaStore(_with_references(versions), has_subjects=False) if numbers else None


def _stored(number: int, name: str, text: str) -> StoredSchema:
    kind = _KINDS.get(PurePath(name).suffix, AVRO)
    return StoredSchema(id=number, text=text, kind=kind, is_deleted=number == NO_ID)


def _with_references(
    versions: Mapping[SchemaVersion, StoredSchema],
) -> dict[SchemaVersion, StoredSchema]:
    """The same schemas, each with the files that define the types it only names."""
    defined: dict[str, list[SchemaVersion]] = {}
    missing: dict[SchemaVersion, set[str]] = {}
    for key, schema in versions.items():
        try:
            own, missing[key] = named_types(schema.text) if schema.kind == AVRO else (set(), set())
        except SchemaError:
            continue  # the schema is reported when it is used
        for name in own:
            defined.setdefault(name, []).append(key)
    for places in defined.values():
        apart = [key for key in places if versions[key].id == NO_ID]
        places[:] = apart or places
    return {
        key: replace(schema, references=tuple(_definitions(missing.get(key, set()), defined)))
        for key, schema in versions.items()
    }


def _definitions(names: set[str], defined: Mapping[str, list[SchemaVersion]]) -> list[SchemaVersion]:
    places = [defined[name][0] for name in sorted(names) if len(defined.get(name, ())) == 1]
    return list(dict.fromkeys(places))
