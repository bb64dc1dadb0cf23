"""The transactions and groups of the demo, as the readers of logs and tables see them."""

from __future__ import annotations

from pathlib import Path

import stratalog
from stratalog.cli.demo_groups import GROUPS, TRANSACTIONS, write_commits, write_transfers
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.tables import commits

T0 = 1_767_225_600_000


def test_committed_records_end_before_the_open_transaction(tmp_path: Path) -> None:
    write_transfers(Disk(), tmp_path, T0)

    committed = stratalog.scan(tmp_path, isolation="read_committed").to_table()
    everything = stratalog.scan(tmp_path).to_table()

    assert everything.num_rows == 5 * TRANSACTIONS
    aborted, still_open = 5, 1
    assert committed.num_rows == 5 * (TRANSACTIONS - aborted - still_open)


def test_each_group_has_committed_its_part_of_each_partition(tmp_path: Path) -> None:
    write_commits(Disk(), tmp_path, {TopicPartition("orders", 0): 1000, TopicPartition("orders", 1): 50}, T0)

    found = commits(tmp_path).to_table().to_pylist()

    assert {(row["group"], row["partition"]): row["offset"] for row in found} == {
        (group, partition): int(end * share)
        for group, share in GROUPS.items()
        for partition, end in ((0, 1000), (1, 50))
    }
