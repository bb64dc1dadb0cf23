"""Finds the schemas of a read: in files, in a folder, or in the topic of the schema registry beside the data.

No registry is contacted. The reader schema is the newest schema of the topic's subject (`orders-value`), or
the schema that is named: by id (`8`), by subject (`orders-value`), by subject and version
(`orders-value:3`), or as a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from stratalog.errors import UsageError
from stratalog.files.entries import EntryKind
from stratalog.files.reading import DiskReader
from stratalog.files.storage import readable_path, reader_for
from stratalog.jobs.decoding.asked import AskedDecoding, Encoding
from stratalog.jobs.decoding.decoding import Decoding
from stratalog.jobs.decoding.schema_files import schema_of, schemas_in_files, schemas_in_folder
from stratalog.jobs.decoding.schema_topic import SCHEMAS_TOPIC, Pair, schemas_of_records
from stratalog.jobs.decoding.store import SchemaStore, SchemaVersion, context_of
from stratalog.jobs.reading.catalog import expand_paths, find_partitions, partitions_in
from stratalog.jobs.reading.omissions import OnOmission, ignore_omission
from stratalog.jobs.reading.options import ReadOptions, listed
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task


class Decodings(NamedTuple):
    """How keys and values are decoded."""

    key: Decoding
    value: Decoding


def find_decodings(
    options: ReadOptions, *, disk: DiskReader | None = None, on_omission: OnOmission = ignore_omission
) -> Decodings:
    """How the keys and values of a read are decoded, with all schemas that this needs.

    UsageError if a requested schema does not exist, or cannot become a column.
    """
    disk = disk or reader_for(*options.paths)
    stores: dict[str | None, SchemaStore] = {}
    found = []
    for which, asked in (("key", options.key), ("value", options.value)):
        if asked.encoding is Encoding.CONFLUENT and asked.schema not in stores:
            stores[asked.schema] = _store(disk, options, asked.schema, on_omission)
        found.append(_decoding(disk, options, which, asked, stores))
    return Decodings(*found)


def reader_options(decodings: Decodings) -> dict[str, str]:
    """The options that fix the reader schemas by name, so that a newer schema changes nothing."""
    names = {"keyReader": decodings.key.reader_name, "valueReader": decodings.value.reader_name}
    return {option: name for option, name in names.items() if name is not None}


def pinned(options: ReadOptions, decodings: Decodings) -> ReadOptions:
    """The same as `reader_options`, but set in options that are already parsed."""
    key, value = decodings
    return replace(
        options,
        key=replace(options.key, reader=key.reader_name),
        value=replace(options.value, reader=value.reader_name),
    )


def _decoding(
    disk: DiskReader,
    options: ReadOptions,
    which: str,
    asked: AskedDecoding,
    stores: dict[str | None, SchemaStore],
) -> Decoding:
    if asked.encoding is Encoding.AVRO:
        writer = schema_of(disk, asked.schema or "")
        reader = writer if asked.reader is None else schema_of(disk, asked.reader)
        found = Decoding(encoding=asked.encoding, reader=reader, writer=writer, reader_name=asked.reader)
    elif asked.encoding is Encoding.CONFLUENT:
        store = stores[asked.schema]
        name = asked.reader or _newest(disk, options, which, asked, store)
        found = _reading_as(disk, name, store)
    else:
        return Decoding(encoding=asked.encoding)
    found.type  # noqa: B018 (raises for a schema that cannot become a column)
    return found


def _store(disk: DiskReader, options: ReadOptions, given: str | None, on_omission: OnOmission) -> SchemaStore:
    if given is None:
        return _from_topic(disk, options, options.paths, on_omission)
    status = disk.status(readable_path(given))
    if status is None or status.kind is not EntryKind.DIRECTORY:
        return schemas_in_files(disk, given)
    found = schemas_in_folder(disk, given)
    if found is not None:
        return found
    if not _has_schemas_topic(disk, [given]):
        raise UsageError(
            f"{given} has neither a schema by id, such as 7.avsc, nor the topic {SCHEMAS_TOPIC}: give a "
            "folder of schemas, or files by id, as in 7=a.avsc,8=b.avsc."
        )
    return _from_topic(disk, options, (given,), on_omission)


def _has_schemas_topic(disk: DiskReader, paths: Iterable[str]) -> bool:
    every = (
        each for path in expand_paths(disk, paths) for each in partitions_in(disk, path, may_be_empty=True)
    )
    return any(each.topic_partition.topic == SCHEMAS_TOPIC for each in every)


def _from_topic(
    disk: DiskReader, options: ReadOptions, paths: Sequence[str], on_omission: OnOmission
) -> SchemaStore:
    if not _has_schemas_topic(disk, paths):
        raise UsageError(
            f"the topic {SCHEMAS_TOPIC} is not in {listed(paths)}, and no schemas are given: give files by "
            "id, as in 7=a.avsc,8=b.avsc, a folder with 7.avsc and 8.avsc, or the log directory with that "
            "topic."
        )
    asked = ReadOptions(
        paths=tuple(paths),
        topics=(SCHEMAS_TOPIC,),
        on_corruption=options.on_corruption,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    return schemas_of_records(_records(disk, asked, on_omission))


def _records(disk: DiskReader, asked: ReadOptions, on_omission: OnOmission) -> Iterator[Pair]:
    for task in plan_read(asked, disk=disk, on_omission=on_omission):
        for batch in read_task(task, ("key", "value"), disk=disk, on_omission=on_omission):
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _newest(
    disk: DiskReader, options: ReadOptions, which: str, asked: AskedDecoding, store: SchemaStore
) -> str:
    """The name of the newest schema: the largest id if the schemas are files, else the newest of the subject.

    UsageError if several topics have columns of different types.
    """
    if not store.has_subjects:
        newest = store.newest()
        assert newest is not None, f"{asked.schema} has a schema"
        return str(store.versions[newest].id)
    names: dict[str, str] = {}
    for topic in sorted({each.topic_partition.topic for each in find_partitions(disk, options)}):
        newest = store.newest(f"{topic}-{which}")
        if newest is None:
            raise UsageError(
                f"the topic {topic} has no subject {topic}-{which} in {SCHEMAS_TOPIC}, which has "
                f"{listed(store.subjects) or 'none'}: name the reader schema, or read other topics."
            )
        names[topic] = str(newest)
    types = {name: _reading_as(disk, name, store).type for name in names.values()}
    for name, kind in types.items():
        first = next(iter(types))
        if kind != types[first]:
            raise UsageError(
                f"the schemas {first} and {name} become columns of different types: read one topic at a "
                "time, or name the reader schema."
            )
    if not names:
        raise UsageError("no topic is read, so there is no subject whose schema could be the reader schema.")
    return next(iter(types))


def _reading_as(disk: DiskReader, name: str, store: SchemaStore) -> Decoding:
    """How values are decoded with the reader schema of this name."""
    subject, _, version = name.rpartition(":")
    if name.isdecimal():
        schema = store.by_id(int(name))
    elif name.endswith((".avsc", ".json")) or "/" in name or '"' in name:
        schema = schema_of(disk, name)
    elif subject and version.isdecimal():
        schema = store.versions.get(SchemaVersion(subject, int(version)))
    else:
        newest = store.newest(name)
        schema = None if newest is None else store.versions[newest]
        subject, name = name, str(newest)
    if schema is None:
        there = (
            f"the subjects are {listed(store.subjects)}" if store.has_subjects else "give the id of a schema"
        )
        raise UsageError(f"the reader schema {name} is not known: {there}.")
    return Decoding(
        encoding=Encoding.CONFLUENT,
        reader=schema,
        reader_name=name,
        store=store,
        context=context_of(subject),
    )
