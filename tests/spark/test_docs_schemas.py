"""The examples of docs/schemas.md run, on values of two schemas and one that is not known."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pyspark.sql import SparkSession

from tests.jobs.decoding.registry import Registry
from tests.jobs.decoding.serializing import append
from tests.records.avro.values import record, written

TEXT = (Path(__file__).parent.parent.parent / "docs" / "schemas.md").read_text("utf-8")
OLD = record(("id", "int"), ("amount", "float"), name="Order")
NEW = record(
    ("id", "long"),
    {"name": "total", "aliases": ["amount"], "type": "double"},
    {"name": "paid", "type": "boolean", "default": False},
    name="Order",
)


def test_the_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    logs, registry = tmp_path / "logs", Registry(first_id=7)
    values = [b"\0\0\0\0\7" + written(OLD, {"id": n, "amount": n}) for n in range(2)]
    values += [b"\0\0\0\0\x08" + written(NEW, {"id": n, "total": n, "paid": True}) for n in range(2)]
    append(logs, "orders", [*values, b"\0\0\0\0\x63" + written(OLD, {"id": 5, "amount": 5})])
    for schema in (OLD, NEW):
        registry.register("orders-value", {"schema": json.dumps(schema)})
    registry.write_topic(logs)
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    (tmp_path / "home").mkdir()
    names: dict[str, object] = {"spark": spark, "LOGS": str(logs), "HOME": str(tmp_path / "home")}

    for block in blocks:
        exec(compile(block, "docs/schemas.md", "exec"), names)

    assert len(blocks) == 4
