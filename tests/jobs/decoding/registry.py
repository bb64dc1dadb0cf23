"""A small schema registry: it answers Confluent's serializers over HTTP, and writes its topic as theirs does.

What is in the topic follows Confluent's SchemaKey, SchemaValue, DeleteSubjectKey and NoopKey: their fields
and their order. Confluent's own registry is not on PyPI or Maven Central, so it cannot write the topic here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import stratalog
from stratalog.log.new_records import NewRecord


@dataclass
class Registry:
    """Subjects with their versions, and the records of the topic."""

    first_id: int = 1
    subjects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.add({"keytype": "NOOP", "magic": 0}, None)

    def register(self, subject: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The version of a schema; a new one unless the subject has it."""
        known = self.find(subject, asked)
        if known is not None:
            return known
        content = {name: asked[name] for name in ("schemaType", "references", "schema") if asked.get(name)}
        if content.get("schemaType") == "AVRO":
            del content["schemaType"]  # as in the topic, where Avro is not named
        same = json.dumps(content, sort_keys=True)
        number = self.ids.setdefault(same, self.first_id + len(self.ids))
        versions = self.subjects.setdefault(subject, [])
        made = {"subject": subject, "version": len(versions) + 1, "id": number, **content}
        versions.append(made)
        self.add_version(made)
        return made

    def find(self, subject: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        wanted = asked["schema"], asked.get("references") or []
        for each in self.subjects.get(subject, []):
            if (each["schema"], each.get("references", [])) == wanted:
                return each
        return None

    def by_id(self, number: int) -> dict[str, Any] | None:
        every = (each for versions in self.subjects.values() for each in versions)
        return next((each for each in every if each["id"] == number), None)

    def add_version(self, version: dict[str, Any], *, deleted: bool = False) -> None:
        """The record of a version, as the registry's SchemaValue is written."""
        md5 = base64.b64encode(hashlib.md5(version["schema"].encode()).digest()).decode()
        names = ("subject", "version", "id")
        value = {name: version[name] for name in names} | {"md5": md5}
        value |= {name: version[name] for name in ("schemaType", "references", "schema") if name in version}
        self.add(schema_key(version["subject"], version["version"]), value | {"deleted": deleted})

    def add(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        compact = (",", ":")
        raw = None if value is None else json.dumps(value, separators=compact).encode()
        self.records.append((json.dumps(key, separators=compact).encode(), raw))

    def write_topic(self, logs: Path) -> None:
        """Write the topic to a log directory, or what has come since it was written."""
        directory = logs / "_schemas-0"
        with stratalog.open_log(directory, create=not directory.exists()) as log:
            new = self.records[log.end_offset :]
            log.append_many([NewRecord(value, key) for key, value in new])


def schema_key(subject: str, version: int) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Answer over HTTP at `registry.url`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]:
                case ["schemas", "ids", number]:
                    self.answer(registry.by_id(int(number)))
                case ["subjects", subject, "versions", version]:
                    versions = registry.subjects.get(subject, [])
                    place = len(versions) if version == "latest" else int(version)
                    self.answer(versions[place - 1] if 0 < place <= len(versions) else None)
                case _:
                    self.answer(None)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            match [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]:
                case ["subjects", subject, "versions"]:
                    self.answer(registry.register(subject, asked))
                case ["subjects", subject]:
                    self.answer(registry.find(subject, asked))
                case _:
                    self.answer(None)

        def answer(self, found: dict[str, Any] | None) -> None:
            missing = {"error_code": 40403, "message": "not found"}
            body = json.dumps(missing if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
