"""Internal topics as rows, and what Kafka's dump tool printed of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from stratalog.jobs.metadata_snapshot import plan_table, read_table_task
from stratalog.jobs.reading.options import TABLE_TOPICS, ReadOptions
from stratalog.jobs.tables import SOURCE_COLUMNS, TABLES, decoded

FIXTURES = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1"
RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? headerKeys: \[\] (.*)")


def table_in(logs: Path, name: str, **options: str) -> list[dict[str, Any]]:
    asked = ReadOptions.parse({"path": str(logs), "decode": name, **options})
    columns = list(TABLES[name].schema.names)
    return [
        row
        for task in plan_table(asked)
        for batch in decoded(TABLES[name], read_table_task(task, SOURCE_COLUMNS), columns)
        for row in batch.to_pylist()
    ]


def dumped_parts(name: str, state: str) -> list[dict[int, str]]:
    """The same for the log, and for each snapshot."""
    text = (FIXTURES / state / "dump" / f"{TABLE_TOPICS[name]}-0.decoded.txt").read_text("utf-8")
    return [
        {int(match[1]): match[3] for match in RECORD.finditer(part)} for part in text.split(".checkpoint\n")
    ]


def parts(text: str) -> tuple[Any, Any]:
    """(key, payload) of a dumped line, without their type and version."""
    match = re.fullmatch(r"(?:key: (.*?) )?payload: (.*)", text)
    assert match is not None
    key = json.loads(match[1])["data"] if match[1] else None
    return key, None if match[2] == "<DELETE>" else json.loads(match[2])["data"]
