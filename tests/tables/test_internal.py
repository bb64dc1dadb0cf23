"""Internal topics as scans, and what holds now in them, by the word of Kafka's dump tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import stratalog
from stratalog import tables
from stratalog.errors import UsageError
from stratalog.jobs.tables import TABLES
from tests.jobs.decoded import table_in
from tests.tables.dumped import (
    LOGS,
    dumped_commits,
    dumped_groups,
    dumped_members,
    dumped_transactions,
)

STATES = ("clean", "killed")


@pytest.mark.parametrize("name", list(TABLES))
@pytest.mark.parametrize("state", STATES)
def test_every_record_is_a_row(name: str, state: str) -> None:
    logs = Path(LOGS).parent.parent / state / "logs"
    scan = getattr(tables, name)(logs)

    assert scan.to_table().to_pylist() == table_in(logs, name)
    assert scan.count() == len(table_in(logs, name))
    assert scan.schema == TABLES[name].schema


def test_commits_are_those_that_a_coordinator_would_load() -> None:
    rows = tables.commits(LOGS).to_table().to_pylist()

    assert {(row["group"], row["topic"], row["partition"], row["offset"]) for row in rows} == dumped_commits()
    assert len(rows) == len(dumped_commits())


def test_groups_of_each_protocol_are_told_apart() -> None:
    rows = tables.groups(LOGS).to_table().to_pylist()

    assert {(row["group"], row["type"], row["generation"]) for row in rows} == dumped_groups()
    assert {row["type"] for row in rows} >= {"classic", "consumer", "share"}


def test_transactions_are_where_their_last_record_says() -> None:
    rows = tables.transactions(LOGS).to_table().to_pylist()

    assert {row["transactionalId"]: row["producerId"] for row in rows} == dumped_transactions()


def test_members_are_rows() -> None:
    """The groups of the clean fixture have none any more; those of the killed one have."""
    rows = tables.members(LOGS).to_table().to_pylist()
    assert {(row["group"], row["memberId"], row["clientId"]) for row in rows} == dumped_members()

    killed = Path(LOGS).parent.parent / "killed" / "logs"
    records: list[dict[str, Any]] = tables.consumer_offsets(killed).to_table().to_pylist()
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        if record["key"] is not None:
            newest[record["kind"], record["key"]] = record
    expected = {
        (record["group"], member["memberId"])
        for record in newest.values()
        if "GROUP_METADATA" in record["kind"] or "MEMBER_METADATA" in record["kind"]
        for member in record["members"] or ()
    }
    found = tables.members(killed).to_table().to_pylist()
    assert {(row["group"], row["memberId"]) for row in found} == expected


def test_a_table_is_read_by_other_libraries() -> None:
    commits = tables.commits(LOGS)

    found = duckdb.sql('SELECT "group", sum("offset") FROM commits GROUP BY ALL').fetchall()
    assert dict(found) == {
        group: sum(each[3] for each in dumped_commits() if each[0] == group)
        for group in {each[0] for each in dumped_commits()}
    }
    assert commits.head(1).num_rows == 1


def test_a_topic_that_is_not_there_is_refused_at_the_call(tmp_path: Path) -> None:
    stratalog.open_log(tmp_path / "orders-0", create=True).close()

    for function in (tables.commits, tables.consumer_offsets, tables.transactions):
        with pytest.raises(UsageError, match="topics names __"):
            function(tmp_path)
