"""The schemas that values were written with: by id, by subject and version, with their references.

A store has what a schema registry knows. It is sent to tasks, pickled and compressed.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from stratalog.errors import SchemaError

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
DEFAULT_CONTEXT = "."
LATEST_VERSION = -1


class SchemaVersion(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject}:{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """A schema under its id. `kind` is the registry's word for its type."""

    id: int
    text: str
    kind: str = AVRO
    references: tuple[SchemaVersion, ...] = ()
    is_deleted: bool = False  # removed from its subject, but values can still be read with it


@dataclass(frozen=True)
class SchemaStore:
    """Schemas by subject and version; the same schema, with the same id, can be in several subjects.

    Schemas from files have no subjects: the name of the file and the id are used as subject and version.
    """

    versions: Mapping[SchemaVersion, StoredSchema]
    has_subjects: bool = True
    _ids: dict[tuple[str, int], StoredSchema] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = {(context_of(key.subject), each.id): each for key, each in self.versions.items()}
        object.__setattr__(self, "_ids", ids)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpacked, (self._packed, self.has_subjects)

    @cached_property
    def _packed(self) -> bytes:
        return zlib.compress(pickle.dumps(dict(self.versions)))  # once for all tasks

    def by_id(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> StoredSchema | None:
        """The schema with this id in this context; each context has ids of its own."""
        return self._ids.get((context, schema_id))

    def newest(self, subject: str | None = None) -> SchemaVersion | None:
        """A subject's last version that is not deleted; without a subject, the schema with the largest id."""
        found = {key: each for key, each in self.versions.items() if not each.is_deleted}
        if subject is None:
            return max(found, key=lambda key: found[key].id, default=None)
        return max((key for key in found if key.subject == subject), default=None)

    @property
    def subjects(self) -> list[str]:
        """The subjects that have a version that is not deleted."""
        return sorted({key.subject for key, each in self.versions.items() if not each.is_deleted})

    def texts_before(self, schema: StoredSchema, context: str = DEFAULT_CONTEXT) -> list[str]:
        """The texts of all schemas that this one needs, each once; each comes after those that it needs."""
        texts: dict[SchemaVersion, str] = {}
        self._collect(schema, context, texts, ())
        return list(texts.values())

    def _collect(
        self,
        schema: StoredSchema,
        context: str,
        texts: dict[SchemaVersion, str],
        inside: tuple[SchemaVersion, ...],
    ) -> None:
        for reference in schema.references:
            key, found = self._referenced(reference, context)
            if key in inside:
                raise SchemaError(f"the schema {key} refers to itself.")
            if key not in texts:
                self._collect(found, context, texts, (*inside, key))
                texts[key] = found.text

    def _referenced(self, reference: SchemaVersion, context: str) -> tuple[SchemaVersion, StoredSchema]:
        subject = reference.subject
        if context != DEFAULT_CONTEXT and context_of(subject) == DEFAULT_CONTEXT:
            subject = f":{context}:{subject}"
        key = SchemaVersion(subject, reference.version)
        if reference.version == LATEST_VERSION:
            key = self.newest(subject) or key
        if key not in self.versions:
            raise SchemaError(f"the schema refers to {reference}, which is not known.")
        return key, self.versions[key]


def context_of(subject: str) -> str:
    """The context of a subject: `:.staging:orders-value` is in `.staging`, a plain name in the default."""
    if not subject.startswith(":."):
        return DEFAULT_CONTEXT
    return subject[1:].partition(":")[0]


def _unpacked(packed: bytes, has_subjects: bool) -> SchemaStore:
    return SchemaStore(pickle.loads(zlib.decompress(packed)), has_subjects)
