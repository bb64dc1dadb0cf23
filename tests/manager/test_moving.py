"""A copy beside its log: how far they agree while the log changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog.log.log import Log
from stratalog.manager.moving import agreement, catch_up
from tests.log.model import batch
from tests.manager.running import ORDERS, Node

RECORDS = 10


@pytest.mark.parametrize(
    ("change", "agreed"),
    [
        (lambda log: log.delete_records(4), RECORDS),
        (lambda log: log.delete_records(RECORDS), RECORDS),
        (lambda log: log.truncate_to(0), 0),
    ],
    ids=["some deleted", "all deleted", "truncated"],
)
def test_records_that_go_while_a_copy_is_compared_do_not_end_the_move(
    change: Callable[[Log], object], agreed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "a")
        for number in range(RECORDS):
            log.append_as_leader(batch(b"%d" % number), leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=tmp_path / "b")
        catch_up(log, copy)
        reads, read = [], Log.read

        def read_after_a_change(self: Log, *args: Any, **options: Any) -> object:
            if self is copy and not reads:
                reads.append(change(log))  # after the marks were looked at, before the log is read
            return read(self, *args, **options)

        monkeypatch.setattr(Log, "read", read_after_a_change)

        assert agreement(log, copy) == agreed
        assert reads
        monkeypatch.undo()
        assert manager.move_log(ORDERS, tmp_path / "b").log_start_offset == log.log_start_offset
