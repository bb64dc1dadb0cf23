"""Read the schemas of Kafka's internal records out of a directory of Kafka jars.

    python tools/read_kafka_schemas.py JARS_DIR [TABLE]

writes `src/stratalog/records/internal/kafka_<release>.json` (or TABLE): one schema per line, so that the
difference between two releases can be read as a diff. Kafka's jars carry the schemas as JSON with `//`
comments. Names, types, versions, tags and defaults are copied; comments and descriptions are not.

A field in the table always has `name` and `type`. `versions` (if left out: all versions of the message),
`nullable`, `tagged`, `tag`, `default` and the `fields` of a struct are there only if the field needs them.
Structs that a message shares between fields are written out at each place, so the table cannot be recursive.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Where the schemas of each topic are: the jar, the folder in it, and which of its files (None: all).
SOURCES: dict[str, tuple[str, str, tuple[str, ...] | None]] = {
    "__consumer_offsets": ("kafka-group-coordinator", "common/message/", None),
    "__transaction_state": ("kafka-transaction-coordinator", "common/message/", None),
    "__share_group_state": ("kafka-share-coordinator", "common/message/", None),
    "__cluster_metadata": ("kafka-metadata", "common/metadata/", None),
    "control": (
        "kafka-clients",
        "common/message/",
        (
            "LeaderChangeMessage",
            "SnapshotHeaderRecord",
            "SnapshotFooterRecord",
            "KRaftVersionRecord",
            "VotersRecord",
        ),
    ),
    # The group metadata of classic consumer groups contains these two in serialized form.
    "embedded": (
        "kafka-clients",
        "common/message/",
        ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    ),
}

# The numbers of Kafka's ControlRecordType, which are in code, not in a schema.
CONTROL_TYPES = {
    "LeaderChangeMessage": (2, "LEADER_CHANGE"),
    "SnapshotHeaderRecord": (3, "SNAPSHOT_HEADER"),
    "SnapshotFooterRecord": (4, "SNAPSHOT_FOOTER"),
    "KRaftVersionRecord": (5, "KRAFT_VERSION"),
    "VotersRecord": (6, "KRAFT_VOTERS"),
}

INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}
PRIMITIVES = INTEGERS | {"bool", "float64", "string", "bytes", "records", "uuid"}


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 2:
        print("usage: read_kafka_schemas.py JARS_DIR [TABLE]", file=sys.stderr)
        return 2
    jars = Path(arguments[0])
    release = release_of(jars)
    home = Path(__file__).parents[1] / "src/stratalog/records/internal"
    table = Path(arguments[1]) if len(arguments) == 2 else home / f"kafka_{release.replace('.', '_')}.json"
    lines = [json.dumps(schema, separators=(",", ":")) for schema in read_schemas(jars, release)]
    table.write_text(f'{{"release":"{release}","schemas":[\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{table}: {len(lines)} schemas of Kafka {release}")
    return 0


def release_of(jars: Path) -> str:
    found = sorted(jars.glob("kafka-metadata-*.jar"))
    if len(found) != 1:
        raise SystemExit(f"{jars}: expected one kafka-metadata-<release>.jar, found {len(found)}")
    return found[0].stem.removeprefix("kafka-metadata-")


def read_schemas(jars: Path, release: str) -> Iterator[dict[str, Any]]:
    for topic, (jar, folder, wanted) in SOURCES.items():
        with zipfile.ZipFile(jars / f"{jar}-{release}.jar") as archive:
            messages = [
                json.loads(re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE))
                for name in archive.namelist()
                if name.startswith(folder) and name.endswith(".json")
                if wanted is None or name.removeprefix(folder).removesuffix(".json") in wanted
            ]
        schemas = [convert_message(topic, message) for message in messages]
        if wanted is not None and len(schemas) != len(wanted):
            raise SystemExit(f"{jar}-{release}.jar: has only {len(schemas)} of {', '.join(wanted)}")
        yield from sorted(schemas, key=lambda schema: (schema.get("api_key", -1), schema["name"]))


def convert_message(topic: str, message: dict[str, Any]) -> dict[str, Any]:
    name = message["name"]
    schema: dict[str, Any] = {"topic": topic, "name": name}
    if topic == "control":
        schema["api_key"], schema["kind"] = CONTROL_TYPES[name]
        schema["part"] = "value"
    elif "apiKey" in message:
        part = {"coordinator-key": "key", "coordinator-value": "value", "metadata": "value"}[message["type"]]
        schema["api_key"] = message["apiKey"]
        schema["kind"] = enumerator(re.sub("(Key|Value)$", "", name))
        schema["part"] = part
    schema["versions"] = message["validVersions"]
    schema["flexible"] = message.get("flexibleVersions", "none")
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
    schema["fields"] = [
        convert_field(field, message["validVersions"], structs) for field in message["fields"]
    ]
    return schema


def enumerator(name: str) -> str:
    """The constant that Kafka's generator derives from a message's name: NO_OP_RECORD from NoOpRecord."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def convert_field(field: dict[str, Any], valid: str, structs: dict[str, Any]) -> dict[str, Any]:
    kind = field["type"]
    element = kind.removeprefix("[]")
    # Names start with a small letter, both in the JSON that Kafka prints and in its Java fields.
    converted: dict[str, Any] = {"name": field["name"][0].lower() + field["name"][1:]}
    converted["type"] = kind if element in PRIMITIVES else kind.replace(element, "struct")
    versions = field["versions"] if "versions" in field else field["taggedVersions"]
    if not covers(versions, valid):
        converted["versions"] = versions
    if field.get("nullableVersions", "none") != "none":
        converted["nullable"] = field["nullableVersions"]
    if "tag" in field:
        converted["tagged"] = field["taggedVersions"]
        converted["tag"] = field["tag"]
    # Kafka's generator treats a null without quotes as no default, and creates an empty list or struct.
    default = "" if field.get("default") is None else str(field["default"])
    if not is_zero(kind, default):
        converted["default"] = convert_default(kind, default)
    if element not in PRIMITIVES:
        fields = field.get("fields") or structs[element]
        converted["fields"] = [convert_field(inner, valid, structs) for inner in fields]
    return converted


def is_zero(kind: str, default: str) -> bool:
    """Whether a default is the type's own initial value, so that the table can leave it out."""
    if kind in INTEGERS:
        return default == "" or int(default, 0) == 0
    if kind == "float64":
        return default == "" or float(default) == 0
    return default == "" or (kind == "bool" and default.lower() == "false")


def convert_default(kind: str, default: str) -> object:
    if default == "null":
        return None
    if kind in INTEGERS:
        return int(default, 0)
    if kind == "float64":
        return float(default)
    return default.lower() == "true" if kind == "bool" else default


def covers(versions: str, valid: str) -> bool:
    """Whether a field with these `versions` is in every version of a message whose versions are `valid`."""
    low, _, high = valid.partition("-")
    first, dash, last = versions.rstrip("+").partition("-")
    if int(first) > int(low):
        return False
    return versions.endswith("+") or int(last if dash else first) >= int(high or low)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
